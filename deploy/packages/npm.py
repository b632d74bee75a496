"""An npm package that carries the programs: `npx wicketgate` runs them. It has no install script."""

import json

from . import ABOUT, gzipped, libraries, tar

CPUS = {"x86_64": "x64", "aarch64": "arm64"}


def make(version, machine, programs, licence, epoch):
    """programs: {name: content}. Gives (file name, content)."""
    package = {"name": "wicketgate", "version": version, "description": ABOUT, "license": "Apache-2.0",
               "os": ["linux"], "cpu": [CPUS[machine]], "bin": {name: f"bin/{name}" for name in programs}}
    if libraries.glibc(programs.values()) is not None:
        package["libc"] = ["glibc"]
    files = {f"package/bin/{name}": (content, 0o755) for name, content in programs.items()}
    files |= {"package/package.json": ((json.dumps(package, indent=2) + "\n").encode(), 0o644), "package/LICENSE": (licence, 0o644)}
    return f"wicketgate-{version}-{CPUS[machine]}.tgz", gzipped(tar(files, epoch))
