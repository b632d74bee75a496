#!/usr/bin/env python3
"""Packs a release: deploy/release.py PROGRAMS OUT [--key KEY], after `deploy/build.py PROGRAMS`.
Checks one: deploy/release.py --verify OUT PUBLIC_KEY.

Writes OUT/wicketgate-VERSION-TARGET.tar.gz (the programs, their manual pages in man/man1/ and their completions in completions/, which
the program itself makes, the documents, LICENSE, the SBOM); the same programs as a Python wheel, an npm package, a Debian package and
an OCI archive; the chart as Helm packs it and as an OCI archive; the SBOM
(CycloneDX 1.5: every crate that is linked, with its checksum of Cargo.lock, and those that Cargo resolves for optional parts and
does not build); SHA256SUMS; and with --key (ed25519, PKCS#8 PEM) the provenance of all of it, signed.
The same programs and sources give the same bytes: names are sorted, owners are 0, times are SOURCE_DATE_EPOCH (else 0).
Programs for another machine: --target TARGET, as given to `deploy/build.py`, and --here PROGRAM, a `wicketgate` of the same version
that runs on this one and writes the manual pages.
Needs Python 3.11, cargo and, for --key and --verify, openssl 3; looks nothing up."""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

from packages import PROGRAMS, deb, gzipped, libraries, npm, oci, provenance, tar, wheel

TOP = pathlib.Path(__file__).resolve().parent.parent
SHELLS = ("bash", "zsh", "fish")
DOCUMENTS = ("README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/**/*.md")


def metadata(target):
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--offline", "--format-version", "1",
               "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=TOP, check=True, capture_output=True).stdout)


def host():
    command = [os.environ.get("RUSTC", "rustc"), "-vV"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return next(line.removeprefix("host: ") for line in said.splitlines() if line.startswith("host: "))


def linked(graph):
    """Ids of what the programs are made of: dependencies that are neither for builds nor for tests."""
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    found, wanted = set(), [graph["resolve"]["root"]]
    while wanted:
        one = wanted.pop()
        if one not in found:
            found.add(one)
            wanted += [dep["pkg"] for dep in nodes[one]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return found, nodes


def sbom(graph):
    ids, nodes = linked(graph)
    root = graph["resolve"]["root"]
    packages = {one["id"]: one for one in graph["packages"] if one["id"] in ids}
    locked = tomllib.loads((TOP / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}

    def name(one):
        return f"pkg:cargo/{packages[one]['name']}@{packages[one]['version']}"

    def component(one):
        package = packages[one]
        made = {"type": "application" if one == root else "library", "bom-ref": name(one), "name": package["name"],
                "version": package["version"], "purl": name(one)}
        if package["license"]:
            # Cargo allowed `/` for OR before it took SPDX.
            made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums[package["name"], package["version"]]
        if checksum:
            made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return made

    others = sorted(ids - {root}, key=name)
    depends = [{"ref": name(one), "dependsOn": sorted({name(dep["pkg"]) for dep in nodes[one]["deps"] if dep["pkg"] in ids})}
               for one in sorted(ids, key=name)]
    made = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": component(root)},
            "components": [component(one) for one in others], "dependencies": depends}
    return packages[root]["version"], (json.dumps(made, indent=1) + "\n").encode()


def made_by(program):
    """What the program writes about its own command line: {name in the archive: content}."""
    with tempfile.TemporaryDirectory() as folder:
        orders = [["config", "man", "--out", f"{folder}/man/man1"]]
        orders += [["config", "completions", shell, "--out", f"{folder}/completions"] for shell in SHELLS]
        for order in orders:
            subprocess.run([program, *order], check=True, stdin=subprocess.DEVNULL)
        top = pathlib.Path(folder)
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def chart_meta():
    """Chart.yaml as JSON: it is written as one `name: value` a line, apart from comments."""
    lines = (TOP / "deploy/helm/wicketgate/Chart.yaml").read_text().splitlines()
    pairs = (line.split(": ", 1) for line in lines if line and not line.startswith(("#", " ", "-")) and ": " in line)
    return {name: value.strip().strip('"') for name, value in pairs}


def archive(folder, programs, extras, bom, epoch):
    """The tar.gz with everything."""
    documents = [path for pattern in DOCUMENTS for path in TOP.glob(pattern)]
    files = {name: (content, 0o755) for name, content in programs.items()}
    files |= {str(path.relative_to(TOP)): (path.read_bytes(), 0o644) for path in documents}
    files |= {name: (content, 0o644) for name, content in extras.items()}
    files["sbom.cdx.json"] = (bom, 0o644)
    return gzipped(tar({f"{folder}/{name}": file for name, file in files.items()}, epoch))


def pack(source, out, key, target, here):
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    machine = target.split("-", 1)[0]
    version, bom = sbom(metadata(target))
    folder = f"wicketgate-{version}-{target}"
    paths = {name: source / name for name in PROGRAMS}
    programs = {name: path.read_bytes() for name, path in paths.items()}
    if machine != host().split("-", 1)[0] and libraries.glibc(programs.values()) is not None:
        sys.exit(f"the image of programs for {machine} needs libraries that this machine has not: build them for `{machine}-unknown-linux-musl`")
    extras, licence = made_by(here or paths["wicketgate"]), (TOP / "LICENSE").read_bytes()
    made = {f"{folder}.tar.gz": archive(folder, programs, extras, bom, epoch), f"{folder}.cdx.json": bom}
    made |= dict([
        wheel.make(version, machine, programs, licence, epoch),
        npm.make(version, machine, programs, licence, epoch),
        deb.make(version, machine, programs, licence, epoch, extras),
        oci.image(version, machine, programs, paths, epoch),
    ])
    made |= oci.chart(version, TOP / "deploy/helm/wicketgate", chart_meta(), epoch)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    made["SHA256SUMS"] = text.encode()
    if key:
        sums["SHA256SUMS"] = hashlib.sha256(made["SHA256SUMS"]).hexdigest()
        made[provenance.FILE] = provenance.signed(provenance.statement(sums, version, target, sources()), key)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (out / name).write_bytes(content)
    print(text, end="")


def sources():
    """What was built: the commit, if this is a clean clone, and the lock file."""
    lock = hashlib.sha256((TOP / "Cargo.lock").read_bytes()).hexdigest()
    found = {"file:Cargo.lock": {"sha256": lock}}
    git = ["git", "-C", str(TOP)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=False, capture_output=True, text=True)
    changed = subprocess.run([*git, "status", "--porcelain"], check=False, capture_output=True, text=True)
    if head.returncode == 0 and changed.returncode == 0 and not changed.stdout.strip():
        found["git:HEAD"] = {"gitCommit": head.stdout.strip()}
    return found


def main():
    parser = argparse.ArgumentParser(prog="deploy/release.py", description="Packs a release, or checks one.")
    parser.add_argument("--verify", action="store_true", help="check a release: the folder, and the public key (PEM) that signed it")
    parser.add_argument("--key", type=pathlib.Path, help="sign the provenance with this secret key (ed25519, PKCS#8 PEM)")
    parser.add_argument("--target", help="what the programs were built for; by default this machine")
    parser.add_argument("--here", type=pathlib.Path, help="a `wicketgate` that runs here, if the programs do not")
    parser.add_argument("source", type=pathlib.Path, help="the folder of the programs; with --verify that of the release")
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to; with --verify the public key")
    args = parser.parse_args()
    if not args.verify:
        pack(args.source, args.out, args.key, args.target or host(), args.here)
        return
    wrong = provenance.verify(args.source, args.out)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{args.source}: every file is the one that was signed")


if __name__ == "__main__":
    main()
