"""What a process and everything that it started uses, from /proc."""

import os
import pathlib

TICKS = os.sysconf("SC_CLK_TCK")


def members(pid):
    """This process and its descendants."""
    parents = {}
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit() and (fields := stat(int(path.name))):
            parents[int(path.name)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def stat(pid):
    """The fields of its `stat` after its name."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def cpu_seconds(pid):
    """Processor time, user and system, with that of children that have ended."""
    ticks = 0
    for one in members(pid):
        if fields := stat(one):
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


def memory_mib(pid, most=False):
    """Resident memory now, or the most that each of them ever had."""
    name, kib = "VmHWM:" if most else "VmRSS:", 0
    for one in members(pid):
        try:
            lines = pathlib.Path(f"/proc/{one}/status").read_text("utf-8").splitlines()
        except OSError:
            continue
        kib += sum(int(line.split()[1]) for line in lines if line.startswith(name))
    return round(kib / 1024)
