"""The packages of a release: each module makes one kind of file from the same programs, with the same bytes each time."""

import gzip
import io
import tarfile

ABOUT = "A policy-enforcing sidecar between an AI agent and every tool it can reach"
PROGRAMS = ("wicketgate", "wicketgate-verify")


def tar(files, time, folders=()):
    """A tar in which nothing depends on the machine. files: {name: (content, mode)} or (content, mode, owner); folders: {name: (mode, owner)}."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for name, (mode, owner) in sorted(dict(folders).items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime, entry.uid, entry.gid = tarfile.DIRTYPE, mode, time, owner, owner
            out.addfile(entry)
        for name, (content, mode, *owner) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, time
            entry.uid = entry.gid = owner[0] if owner else 0
            out.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def gzipped(content):
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as out:
        out.write(content)
    return packed.getvalue()
