#!/usr/bin/env python3
"""Builds the programs of a release: deploy/build.py OUT [--target TARGET].

The same sources, compiler and SOURCE_DATE_EPOCH give the same bytes, in whatever directory: dependencies are those of Cargo.lock,
and no path of the machine is in a program. A target that ends in `-musl` gives static programs, which need no library of the system.
OUT then has the programs, for `deploy/release.py OUT RELEASE --target TARGET`; OUT/build has what Cargo keeps between builds.
Needs cargo, the target of rustc (`rustup target add TARGET`), and a C compiler for it."""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from packages import PROGRAMS

TOP = pathlib.Path(__file__).resolve().parent.parent
# Compilers that make programs for a target where they are installed, by their usual names.
COMPILERS = {
    "x86_64-unknown-linux-gnu": ("x86_64-linux-gnu-gcc", "cc"),
    "aarch64-unknown-linux-gnu": ("aarch64-linux-gnu-gcc",),
    "x86_64-unknown-linux-musl": ("x86_64-linux-musl-gcc", "musl-gcc"),
    "aarch64-unknown-linux-musl": ("aarch64-linux-musl-gcc",),
}


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rustc(*arguments):
    return said(os.environ.get("RUSTC", "rustc"), *arguments).strip()


def host():
    lines = rustc("-vV").splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def compiler(target):
    """The C compiler for a target: that of the environment, else one that is installed."""
    name = "CC_" + target.replace("-", "_")
    if given := os.environ.get(name):
        return given
    own = ("cc",) if target == host() else ()
    for known in (*own, *COMPILERS.get(target, ())):
        if shutil.which(known):
            return known
    usual = " or ".join(f"`{known}`" for known in COMPILERS.get(target, ())) or "one"
    sys.exit(f"no C compiler for `{target}` is installed: install {usual}, or name it in `{name}`")


def check(target):
    if not pathlib.Path(rustc("--print", "target-libdir", "--target", target)).is_dir():
        sys.exit(f"rustc has no standard library for `{target}`: run `rustup target add {target}`")


def environment(top, build, target):
    """What Cargo runs with: nothing of it names a place of this machine in the result."""
    cargo_home = os.environ.get("CARGO_HOME") or str(pathlib.Path.home() / ".cargo")
    # The last that fits counts, so the more special come last.
    places = [(cargo_home, "/cargo"), (rustc("--print", "sysroot"), "/rust"), (str(top), "/wicketgate"), (str(build), "/build")]
    flags = [f"--remap-path-prefix={here}={there}" for here, there in places]
    # An id of the build is a digest of what the linker read, paths of objects too.
    flags.append("-Clink-arg=-Wl,--build-id=none")
    if target.endswith("-musl"):
        flags.append("-Ctarget-feature=+crt-static")
    c_flags = " ".join(f"-ffile-prefix-map={here}={there}" for here, there in places)
    under, cc = target.replace("-", "_"), compiler(target)
    made = {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags), "CARGO_INCREMENTAL": "0", "CARGO_TARGET_DIR": str(build),
            "CARGO_PROFILE_RELEASE_DEBUG": "false", "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0"),
            f"CC_{under}": cc, f"CFLAGS_{under}": c_flags, "LC_ALL": "C", "TZ": "UTC"}
    # What rustc brings for musl links with the `cc` of a machine of the same kind.
    is_other = target.split("-")[0] != host().split("-")[0]
    if is_other or not target.endswith("-musl") and target != host():
        linker = f"CARGO_TARGET_{under.upper()}_LINKER"
        made[linker] = os.environ.get(linker, cc)
    kept = {name: value for name, value in os.environ.items() if name not in ("RUSTFLAGS", "CFLAGS", "RUSTC_WRAPPER")}
    return kept | made


def build(top, out, target, names):
    check(target)
    out.mkdir(parents=True, exist_ok=True)
    kept = out.resolve() / "build"
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked", "--target", target]
    command += [word for name in names for word in ("--bin", name)]
    done = subprocess.run(command, cwd=top, env=environment(top, kept, target), check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    for name in names:
        shutil.copy(kept / target / "release" / name, out / name)
        print(f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}")


def main():
    parser = argparse.ArgumentParser(prog="deploy/build.py", description="Builds the programs of a release.")
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to")
    parser.add_argument("--target", help="what to build for; by default this machine")
    parser.add_argument("--top", type=pathlib.Path, default=TOP, help="the sources, if not those beside this script")
    parser.add_argument("--bin", action="append", help="build this program only; may be given again")
    args = parser.parse_args()
    build(args.top.resolve(), args.out, args.target or host(), args.bin or PROGRAMS)


if __name__ == "__main__":
    main()
