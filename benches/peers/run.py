#!/usr/bin/env python3
"""Wicketgate beside other gateways: the same upstream and callers, one gateway at a time, on this machine.

    python3 benches/peers/run.py [--gate PATH] [--only NAME] [--seconds N] [--quick] [--json FILE]

It installs each peer into an environment of its own under `target/peers`, as its requirements file pins it. Then it measures
the upstream alone and each gateway before it: calls per second, latency, processor time of the gateway's whole process tree
for each call, and memory. At the end it takes the disk of each gateway's records away (a file system in memory that is
full), or its log, and tells what happens to the calls.

Needs Linux, Python 3.11 or later, and a built `wicketgate` (`cargo build --release`). Mounting a file system in memory
needs no privileges where user namespaces are allowed.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error

import gateways
import tree
from gateways import HERE, Failed, ask

TOP = HERE.parents[1]
WORK = TOP / "target/peers"
CALLERS = (1, 16)
# A gateway that migrates a database takes a while to serve, longer on a busy machine.
START_SECONDS = 240
STORE_MIB = 96


def install(gateway):
    """An environment with what the requirements file pins, made again only if that file changed."""
    place = WORK / gateway.name.lower()
    wanted = (HERE / gateway.requirements).read_text("utf-8")
    stamp = place / "stamp"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"installing {gateway.name}…", file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        pip = [place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "-r", HERE / gateway.requirements], check=True)
        stamp.write_text(wanted, "utf-8")
    return place


class Running:
    """A gateway that serves; ended with its whole process group."""

    def __init__(self, gateway, folder, store):
        self.gateway = gateway
        command, own, url = gateway.prepare(folder, store)
        self.log = folder / "log"
        quiet = {"HOME": str(folder), "PATH": os.environ["PATH"], "TMPDIR": str(folder), "DO_NOT_TRACK": "1"}
        with self.log.open("wb") as log:
            where = folder if gateway.name == "Wicketgate" else store
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(command, cwd=where, env=quiet | own, start_new_session=True, **streams)
        try:
            self.wait(url)
            gateway.served()
        except BaseException:
            self.end()
            raise

    def wait(self, url):
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                ask(url, seconds=5)
                return
            except ValueError:
                return  # It serves: the answer is not JSON.
            except (OSError, urllib.error.URLError):
                time.sleep(0.2)
        raise Failed(f"{self.gateway.name} does not serve: {self.log.read_text('utf-8', 'replace')[-2000:]}")

    def end(self):
        for sent in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sent)
                self.process.wait(15)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def called(target, callers, seconds):
    task = target | {"callers": callers, "seconds": seconds}
    words = [sys.executable, HERE / "callers.py", json.dumps(task)]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def tool(target):
    """The target with the name under which the gateway shows the upstream's tool."""
    if "tool" not in target or target["tool"]:
        return target
    words = [sys.executable, HERE / "callers.py", json.dumps(target | {"list": True})]
    names = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    found = [name for name in names if name.endswith("say")]
    if len(found) != 1:
        raise Failed(f"the gateway shows {names} and not one tool `say`")
    return target | {"tool": found[0]}


def measured(target, seconds, pid=None):
    """A row for each number of callers, after a while that does not count."""
    called(target, max(CALLERS), max(1, seconds // 2))
    rows = []
    for callers in CALLERS:
        facts = called(target | {"pid": pid}, callers, seconds)
        calls = facts["calls"]
        rows.append({
            "callers": callers,
            "calls_per_second": round(calls / facts["seconds"], 1),
            "p50_ms": facts["p50_ms"],
            "p99_ms": facts["p99_ms"],
            "cpu_us_per_call": round(facts["cpu_seconds"] / calls * 1e6) if pid and calls else None,
            "failed": facts["failed"],
            "errors": facts["errors"],
        })
    return rows


def throughput(gateway, seconds):
    """What it costs, with its records on this machine's disk."""
    facts = {}
    with tempfile.TemporaryDirectory(dir=WORK) as place:
        folder, store = pathlib.Path(place) / "set", pathlib.Path(place) / "store"
        folder.mkdir()
        store.mkdir()
        running = Running(gateway, folder, store)
        try:
            pid = running.process.pid
            facts["at_rest_mib"] = tree.memory_mib(pid)
            for what in gateway.serves:
                facts[what] = measured(tool(gateway.target(what)), seconds, pid)
            facts["most_mib"] = tree.memory_mib(pid, most=True)
        finally:
            running.end()
    return facts


class Disk:
    """A small file system in memory for the records, which can be filled."""

    def __init__(self, place):
        self.place = place
        words = ["mount", "-t", "tmpfs", "-o", f"size={STORE_MIB}m", "tmpfs", place]
        subprocess.run(words, check=True)

    def take_away(self):
        with (self.place / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"\0" * 4096)
            except OSError:
                return

    def give_back(self):
        (self.place / "filler").unlink()

    def gone(self):
        subprocess.run(["umount", "--lazy", self.place], check=False)


class Log:
    """The log behind a URL, which can be stopped."""

    def __init__(self, origin):
        self.origin = origin

    def take_away(self):
        ask(f"{self.origin}/logs/stop", {})

    def give_back(self):
        ask(f"{self.origin}/logs/start", {})

    def gone(self):
        self.give_back()


def without_records(gateway, seconds):
    """What happens to calls while the records cannot be written, and afterwards."""
    with tempfile.TemporaryDirectory(dir=WORK) as place:
        folder, store = pathlib.Path(place) / "set", pathlib.Path(place) / "store"
        folder.mkdir()
        store.mkdir()
        lost = Disk(store) if gateway.loses == "disk" else Log(gateway.origin)
        try:
            return taken_away(gateway, (folder, store), lost, seconds)
        finally:
            lost.gone()


def taken_away(gateway, places, lost, seconds):
    reached = lambda: ask(f"{gateway.origin}/calls")["calls"]
    running = Running(gateway, *places)
    try:
        target = tool(gateway.target("tools"))
        called(target, 1, 2)
        settled(gateway)
        records, upstream = gateway.recorded(), reached()
        lost.take_away()
        # Longer than a batch of records is held back.
        while_lost = called(target, 4, max(10, seconds))
        ran = reached() - upstream
        alive = running.process.poll() is None
        lost.give_back()
        settled(gateway)
        kept = gateway.recorded() - records
        after = called(target, 4, 3)
        settled(gateway)
        return {
            "taken_away": gateway.loses,
            "answered": while_lost["calls"],
            "refused": while_lost["failed"],
            "reached_upstream": ran,
            "recorded": kept,
            "words": while_lost["errors"],
            "still_runs": alive,
            "answered_afterwards": after["calls"],
            "recorded_afterwards": gateway.recorded() - records - kept,
            "words_afterwards": after["errors"],
        }
    finally:
        running.end()


def settled(gateway):
    """Waits until its records do not grow any more: some write them in batches."""
    last, same = gateway.recorded(), 0
    while same < gateway.batch_seconds:
        time.sleep(1)
        now = gateway.recorded()
        last, same = now, same + 1 if now == last else 0


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    model = next(models, platform.machine())
    return f"{os.cpu_count()} × {model}, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"


def alone():
    """Runs this program again where it may mount, if it may not here."""
    if os.environ.get("WICKETGATE_PEERS_MOUNTS"):
        return
    rights = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    words = ["unshare", *rights, sys.executable, *sys.argv]
    os.execvpe("unshare", words, os.environ | {"WICKETGATE_PEERS_MOUNTS": "1"})


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gate", default=str(TOP / "target/release/wicketgate"), help="the program of Wicketgate")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this gateway; may be repeated")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="measurements of three seconds")
    parser.add_argument("--json", metavar="FILE", help="also writes everything there")
    given = parser.parse_args()
    given.gate = str(pathlib.Path(given.gate).resolve())
    if given.quick:
        given.seconds = 3
    return given


def main():
    alone()
    given = options()
    WORK.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, HERE / "upstream.py"]
    upstream = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        origin = json.loads(upstream.stdout.readline())["url"].removesuffix("/mcp")
        report = compared(given, origin)
    finally:
        upstream.stdin.close()
        upstream.wait(10)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(tables(report))
    return 1 if any("failed" in one for one in report["gateways"]) else 0


def compared(given, origin):
    load = os.getloadavg()[0]
    floor = {
        "tools": measured({"url": f"{origin}/mcp", "headers": {}, "tool": "say"}, given.seconds),
        "models": measured({"url": f"{origin}/v1/chat/completions", "headers": {}, "model": "scripted-1"}, given.seconds),
    }
    report = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "seconds": given.seconds}
    report |= {"load": load, "upstream": floor, "gateways": []}
    for kind in gateways.ALL:
        if given.only and kind.name.lower() not in [name.lower() for name in given.only]:
            continue
        facts = {"name": kind.name, "use": kind.use, "record": kind.record, "settings": kind.settings}
        try:
            gateway = kind(install(kind) if kind.requirements else None, origin, given)
            facts["version"] = gateway.version()
            print(f"measuring {kind.name} {facts['version']}…", file=sys.stderr)
            facts |= throughput(gateway, given.seconds)
            facts["without_records"] = without_records(gateway, given.seconds)
        except (Failed, OSError, KeyError, subprocess.SubprocessError) as error:
            facts["failed"] = f"{type(error).__name__}: {error}"
        report["gateways"].append(facts)
    return report


def tables(report):
    """The report as the documentation shows it."""
    first = f"{report['date']}, {report['machine']}, {report['seconds']} s each, load average {report['load']:.1f} before."
    return "\n".join([first, "", *costs(report), *losses(report)])


def costs(report):
    lines = []
    for what, title in (("tools", "calls of an MCP tool"), ("models", "requests to a model")):
        lines += [
            f"| {title} | callers | calls/s | p50 | p99 | CPU a call | memory at rest, most |",
            "|---|---|---|---|---|---|---|",
        ]
        rows = [("upstream alone", report["upstream"][what], "")]
        for one in report["gateways"]:
            if what in one:
                rows.append((f"{one['name']} {one['version']}", one[what], f"{one['at_rest_mib']}, {one['most_mib']} MiB"))
        for name, measurements, memory in rows:
            for row in measurements:
                cpu = "" if row["cpu_us_per_call"] is None else f"{row['cpu_us_per_call'] / 1000:.2f} ms"
                failed = f" ({row['failed']} failed)" if row["failed"] else ""
                lines.append(
                    f"| {name} | {row['callers']} | {row['calls_per_second']}{failed} | {row['p50_ms']} ms"
                    f" | {row['p99_ms']} ms | {cpu} | {memory} |"
                )
        lines.append("")
    return lines


def losses(report):
    lines = [
        "| while its records cannot be written | what is taken away | calls answered | refused | reached the upstream"
        " | of these recorded | afterwards |",
        "|---|---|---|---|---|---|---|",
    ]
    told = []
    for one in report["gateways"]:
        if "failed" in one:
            lines.append(f"| {one['name']} | not measured: {one['failed'].splitlines()[0][:200]} | | | | | |")
            continue
        facts = one["without_records"]
        after = f"{facts['answered_afterwards']} answered, {facts['recorded_afterwards']} recorded"
        after = after if facts["still_runs"] else "it had ended"
        what = {"disk": "its file system is full", "log": "its URL does not answer"}[facts["taken_away"]]
        lines.append(
            f"| {one['name']}: {one['record']} | {what} | {facts['answered']} | {facts['refused']}"
            f" | {facts['reached_upstream']} | {facts['recorded']} | {after} |"
        )
        told += [f"- {one['name']} told its callers: `{words[:240]}`" for words in facts["words"][:1]]
    lines += ["", *told, "", "| set up otherwise than by default | |", "|---|---|"]
    for one in report["gateways"]:
        settings = " · ".join(one["settings"]) or "a rule that allows the tool and the model"
        lines.append(f"| {one['name']} {one.get('version', '')} | {settings} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
