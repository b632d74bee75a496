"""What a program needs of the system it runs on."""

import os
import re
import subprocess


def glibc(programs):
    """The newest version of the C library that a program asks for, as (2, 36); None if none asks for any: a static program."""
    asked = [found for content in programs for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)]
    return max(((int(major), int(minor)) for major, minor in asked), default=None)


def linked(program):
    """The files that the loader of this machine would map for a program: {path in the image: path here}. Empty for a static one."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        return {}
    found = re.findall(r"(?:=> )?(/\S+) \(0x", said.stdout)
    return {path.lstrip("/"): os.path.realpath(path) for path in found}
