#!/usr/bin/env python3
"""Packs a release: deploy/release.py PROGRAMS OUT, after `cargo build --release --locked --bins`.

Writes OUT/wicketgate-VERSION-TARGET.tar.gz (the programs, their manual pages in man/man1/ and their completions in completions/, which
the program itself makes, the documents, LICENSE, the SBOM), the SBOM beside it
(CycloneDX 1.5: every crate that is linked, with its checksum of Cargo.lock, and those that Cargo resolves for optional parts and
does not build) and SHA256SUMS.
The same programs and sources give the same bytes: names are sorted, owners are 0, times are SOURCE_DATE_EPOCH (else 0).
Needs Python 3.11 and cargo; looks nothing up."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib

TOP = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("wicketgate", "wicketgate-verify")
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


def archive(folder, files, time):
    """A tar.gz in which nothing depends on the machine."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, time
            out.addfile(entry, io.BytesIO(content))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as out:
        out.write(tar.getvalue())
    return packed.getvalue()


def made_by(program):
    """What the program writes about its own command line: {name in the archive: content}."""
    with tempfile.TemporaryDirectory() as folder:
        orders = [["config", "man", "--out", f"{folder}/man/man1"]]
        orders += [["config", "completions", shell, "--out", f"{folder}/completions"] for shell in SHELLS]
        for order in orders:
            subprocess.run([program, *order], check=True, stdin=subprocess.DEVNULL)
        top = pathlib.Path(folder)
        return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def main(programs, out):
    target = host()
    version, bom = sbom(metadata(target))
    folder = f"wicketgate-{version}-{target}"
    files = {name: ((programs / name).read_bytes(), 0o755) for name in PROGRAMS}
    documents = [path for pattern in DOCUMENTS for path in TOP.glob(pattern)]
    files |= {str(path.relative_to(TOP)): (path.read_bytes(), 0o644) for path in documents}
    files |= {name: (content, 0o644) for name, content in made_by(programs / "wicketgate").items()}
    files["sbom.cdx.json"] = (bom, 0o644)
    made = {f"{folder}.tar.gz": archive(folder, files, int(os.environ.get("SOURCE_DATE_EPOCH", "0"))),
            f"{folder}.cdx.json": bom}
    out.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (out / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(made.items()))
    (out / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: deploy/release.py PROGRAMS OUT")
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
