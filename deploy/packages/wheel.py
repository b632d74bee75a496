"""A Python wheel that carries the programs: `pip install` puts them on the PATH. It holds no module."""

import base64
import hashlib
import io
import time
import zipfile

from . import ABOUT, libraries


def tags(machine, programs):
    needs = libraries.glibc(programs)
    if needs is None:
        return [f"manylinux_2_17_{machine}", f"musllinux_1_1_{machine}"]
    return [f"manylinux_{needs[0]}_{needs[1]}_{machine}"]


def make(version, machine, programs, licence, epoch):
    """programs: {name: content}. Gives (file name, content)."""
    platform = tags(machine, programs.values())
    info = f"wicketgate-{version}.dist-info"
    metadata = (f"Metadata-Version: 2.4\nName: wicketgate\nVersion: {version}\nSummary: {ABOUT}\nLicense-Expression: Apache-2.0\n"
                "License-File: LICENSE\nRequires-Python: >=3.8\n")
    wheel = "Wheel-Version: 1.0\nGenerator: wicketgate-release\nRoot-Is-Purelib: false\n"
    wheel += "".join(f"Tag: py3-none-{tag}\n" for tag in platform)
    files = {f"wicketgate-{version}.data/scripts/{name}": (content, 0o755) for name, content in programs.items()}
    files |= {f"{info}/METADATA": (metadata.encode(), 0o644), f"{info}/WHEEL": (wheel.encode(), 0o644),
              f"{info}/licenses/LICENSE": (licence, 0o644)}
    record = "".join(f"{name},sha256={digest(content)},{len(content)}\n" for name, (content, _) in sorted(files.items()))
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    # A zip knows no time before 1980.
    when = time.gmtime(max(epoch, 315532800))[:6]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            out.writestr(entry, content)
    return f"wicketgate-{version}-py3-none-{'.'.join(platform)}.whl", packed.getvalue()


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
