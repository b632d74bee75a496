#!/usr/bin/env python3
"""Breaks the product on purpose, one line at a time; the simulation must notice every time.

run.py            the day's two: all of them in turn, two a day
run.py all        all mutants: half an hour on two cores, after the unbroken tree has passed
run.py DATE       those of another day (2026-11-24)
run.py NAME...    these mutants
run.py --list     their names
run.py --check    only whether each still finds its text in the tree

Each mutant is a file in this directory's list (mutants.py): file, text that occurs exactly once, text
to put there instead. Works on copies under target/mutants, with target directories of their own: what
is in the main one stays the product. Dependencies are linked from there, so only the workspace is
compiled again. Two mutants at a time where there are cores for them, each with a copy of its own.
"""

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
WORKERS = min(2, os.cpu_count() or 1)
# All of the tree but what is built and the tests of other programs: the product may include any file of it.
NOT_COPIED = {"target", "tests"}
COPIED = [*sorted(f.name for f in ROOT.iterdir() if f.name[0] != "." and f.name not in NOT_COPIED),
          "tests/simulation", "tests/support"]
# Debug information of the product itself would only be linked once per mutant.
TEST = ["cargo", "--config", "profile.dev.debug=false",
        "test", "--offline", "--locked", "--test", "simulation"]


@dataclass
class Place:
    """A copy of the tree and the target directory it is compiled in."""

    tree: Path
    target: Path

    @classmethod
    def make(cls, number: int) -> "Place":
        base = TARGET / "mutants"
        place = cls(base / f"tree{number}", base / f"target{number}")
        place.copy()
        shutil.rmtree(place.target, ignore_errors=True)
        for part in ["deps", "build", ".fingerprint"]:
            shutil.copytree(TARGET / "debug" / part, place.target / "debug" / part, copy_function=link)
        return place

    def copy(self) -> None:
        """Brings the copy up to date, leaving unchanged files (and their times) alone."""
        wanted = set()
        for name in COPIED:
            top = ROOT / name
            files = [top] if top.is_file() else [f for f in top.rglob("*") if f.is_file()]
            for file in files:
                to = self.tree / file.relative_to(ROOT)
                wanted.add(to)
                if not to.exists() or to.read_bytes() != file.read_bytes():
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, to)
        for old in self.tree.rglob("*"):
            if old.is_file() and old not in wanted:
                old.unlink()

    def run(self, args: list[str], limit: int) -> tuple[int, str]:
        environment = dict(os.environ, CARGO_TARGET_DIR=str(self.target), CARGO_TERM_COLOR="never")
        environment["WICKETGATE_FLAWED"] = "1"
        # The day's two must be caught by the same worlds on every day.
        environment["WICKETGATE_FIRST"] = "1"
        # It stops at the first flaw: a rare one may take more seeds than a run of the tests has.
        environment.setdefault("WICKETGATE_SEEDS", "500")
        # A mutant may warn; and what lints the product has nothing to say about what breaks it.
        environment.pop("RUSTC_WORKSPACE_WRAPPER", None)
        # One tree is compiled again and again: here incremental state pays, also where it is off otherwise.
        environment["CARGO_INCREMENTAL"] = "1"
        environment.pop("WICKETGATE_SEED", None)
        process = subprocess.Popen(args, cwd=self.tree, env=environment, text=True, start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            return -9, output + "\n  (8) the test did not end\n"


def link(source: str, to: str) -> None:
    """A hard link: what cargo replaces is written anew, what it keeps is never written to."""
    if re.match(r"(lib)?wicketgate[-_]", Path(to).name):
        return
    os.link(source, to)


def check() -> list[str]:
    flaws = []
    for name, file, old, new in MUTANTS:
        found = (ROOT / file).read_text().count(old)
        if found != 1 or old == new:
            flaws.append(f"{name}: its text occurs {found} times in {file}")
    return flaws


def mutant(place: Place, name: str, file: str, old: str, new: str) -> bool:
    start = time.monotonic()
    original = (ROOT / file).read_text()
    (place.tree / file).write_text(original.replace(old, new))
    try:
        code, output = place.run([*TEST, "--no-run"], 600)
        if code != 0:
            print(f"ERROR    {name}: does not compile\n{output[-3000:]}", flush=True)
            return False
        code, output = place.run([*TEST, "--no-fail-fast", "--", "--nocapture"], 240)
    finally:
        (place.tree / file).write_text(original)
    seconds = time.monotonic() - start
    found = re.findall(r"^  \((\d+)\)", output, re.MULTILINE)
    found += re.findall(r"failed: \((\d+)\) it spins", output)
    failed = re.findall(r"^test (?:\w+::)(\w+) \.\.\. FAILED", output, re.MULTILINE)
    checks = ",".join([*sorted(set(found), key=int), *sorted(failed)]) or "-"
    seed = re.search(r"seed (\d+) failed", output)
    if code == 0:
        print(f"SURVIVED {name}  ({seconds:.0f} s)", flush=True)
        return False
    at = seed.group(1) if seed else "?"
    print(f"caught   {name}  by check {checks}, seed {at}  ({seconds:.0f} s)", flush=True)
    return True


def day_of(words: list[str]) -> date | None:
    """Today, or the day that is named."""
    try:
        return date.fromisoformat(words[0]) if words else date.today()
    except ValueError:
        return None


def of_day(day: date) -> list[str]:
    """Two neighbours of the list; every mutant has its turn before any has a second one."""
    first = 2 * day.toordinal()
    return [MUTANTS[(first + i) % len(MUTANTS)][0] for i in range(2)]


def main() -> int:
    names = sys.argv[1:]
    if names == ["--list"]:
        print("\n".join(m[0] for m in MUTANTS))
        return 0
    flaws = check()
    if names == ["--check"]:
        print("\n".join(flaws), end="\n" if flaws else "")
        return 1 if flaws else 0
    if names == ["all"]:
        names = [m[0] for m in MUTANTS]
    elif len(names) < 2 and (day := day_of(names)):
        names = of_day(day)
        print(f"the mutants of {day}: {', '.join(names)}", flush=True)
    unknown = set(names) - {m[0] for m in MUTANTS}
    if flaws or unknown:
        print("\n".join([*flaws, *(f"no mutant `{name}`" for name in unknown)]))
        return 1
    start = time.monotonic()
    chosen = [m for m in MUTANTS if m[0] in names]
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for one in chosen:
        waiting.put(one)
    caught_names: list[str] = []
    broken: list[str] = []

    def work(number: int) -> None:
        place = Place.make(number)
        # Where the unbroken tree fails, everything counts as caught.
        if number == 0:
            code, output = place.run([*TEST, "--", "--nocapture"], 900)
            if code != 0:
                broken.append(output[-3000:])
                return
            print(f"unbroken: passes  ({time.monotonic() - start:.0f} s)", flush=True)
        while not broken:
            try:
                one = waiting.get_nowait()
            except queue.Empty:
                return
            if mutant(place, *one):
                caught_names.append(one[0])

    workers = [threading.Thread(target=work, args=[n]) for n in range(min(WORKERS, len(chosen)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if broken:
        print(f"the unbroken tree fails\n{broken[0]}")
        return 1
    caught = len(caught_names)
    print(f"{caught} of {len(chosen)} mutants caught in {time.monotonic() - start:.0f} s")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
