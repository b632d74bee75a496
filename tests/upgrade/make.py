#!/usr/bin/env python3
"""Makes what an older build of the gate leaves behind: a ledger, what it was served with, and evidence of it.

    make.py sqlite PROGRAM COMMIT       tests/data/upgrade
    make.py postgres PROGRAM COMMIT     tests/data/upgrade-postgres: the database as SQL, and two gates' state

PROGRAM is `wicketgate` as it was built at COMMIT, which is noted in `MADE`. Needs what `tests/run` installs.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading

TOP = pathlib.Path(__file__).resolve().parents[2]
DATA = TOP / "tests/data"
CLIENT = TOP / "tests/interop/gate_client.py"
RULES = """package wicketgate.agent
import rego.v1
allow if input.tool.name == "work.do"
"""


class Tool(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"done":true}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def estate(here, gate, port, ledger, more):
    """The files a gate is served with; the secrets of the two signers are not kept."""
    for name in ("manifest", "policy", *more):
        gate("keygen", "--out", name)
    (here / "bundle/agent").mkdir(parents=True)
    (here / "bundle/agent/main.rego").write_text(RULES)
    gate("policy", "sign", "bundle", "--key", "policy", "--name", "test", "--version", "1.0.0")
    tools = ["work.do", "work.other"]
    manifest = {
        "apiVersion": "wicketgate.dev/v1",
        "kind": "AgentManifest",
        "metadata": {"name": "test-agent", "version": "1.0.0", "owner": "tests@example.com"},
        "spec": {
            "status": "active",
            "model": {"provider": "example", "names": ["test-model"]},
            "instructions": [{"sha256": "ab" * 32, "scope": "whole"}],
            "tools": [{"name": name, "tier": "T1"} for name in tools],
            "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"},
        },
    }
    (here / "agent.yaml").write_text(json.dumps(manifest, indent=2))
    gate("manifest", "sign", "agent.yaml", "--key", "manifest")
    binding = {
        "description": "does work",
        "kind": "http",
        "tier": "T1",
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": True},
        "http": {
            "method": "POST",
            "url": f"http://127.0.0.1:{port}/do",
            "body": "args",
            "private_addresses": ["127.0.0.0/8"],
        },
    }
    config = {
        "state": "state",
        "listen": {"socket": "s/agent.sock"},
        "operator": {"listen": "127.0.0.1:0"},
        "ledger": ledger,
        "trust": {"manifest_keys": ["manifest.pub"], "policy_keys": ["policy.pub"]},
        "policy": {"bundle": "bundle"},
        **{name: {"key": name} for name in more},
        "agents": [{"manifest": "agent.yaml", "callers": [{"uid": os.getuid()}]}],
        "tools": [{"name": name, **binding} for name in tools],
        "limits": {},
        "self_test": {"at_start": False},
        "telemetry": {"log": "info"},
    }
    (here / "wicketgate.yaml").write_text(json.dumps(config, indent=2))
    (here / "s").mkdir()


def work(here, listens="agent"):
    """A run that is sealed, one that stays open; the first one's id."""

    def ask(*args, token=""):
        args = [sys.executable, "-B", str(CLIENT), f"unix:{here}/s/{listens}.sock", "--token", token, *args]
        return json.loads(subprocess.run(args, stdout=subprocess.PIPE).stdout)

    def opened():
        said = ask("open", "--model", "test-model", "--instructions", "ab" * 32)["ok"]
        return said["run_token"], said["run_id"]

    token, run = opened()
    for n in range(3):
        assert "ok" in ask("call", "work.do", json.dumps({"n": n}), "--call-id", f"c{n}", token=token)
    assert ask("call", "work.other", "{}", token=token)["error"]["reason"] == "policy.denied"
    assert "ok" in ask("seal", token=token)
    token, _ = opened()
    assert "ok" in ask("call", "work.do", "{}", "--call-id", "kept", token=token)
    return run


def serve(program, here, config="wicketgate.yaml"):
    gate = subprocess.Popen(
        [program, "serve", "--config", config], cwd=here, stderr=subprocess.PIPE, text=True
    )
    said = []
    for line in gate.stderr:
        said.append(line)
        if "ready=true" in line:
            break
    else:
        sys.exit("the gate is not ready: " + "".join(said))
    threading.Thread(target=gate.stderr.read, daemon=True).start()
    return gate


def on_sqlite(program, here, gate, port):
    estate(here, gate, port, {"sqlite": {}}, ("evidence", "fleet"))
    process = serve(program, here)
    run = work(here)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    export = ("evidence", "export", "--config", "wicketgate.yaml", "--run", run)
    gate(*export, "--out", "evidence.zip", "--key", "evidence")
    ledger = sqlite3.connect(here / "state/ledger.sqlite")
    ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ledger.close()
    for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
        (here / "state" / name).unlink(missing_ok=True)
    return run


class Cluster:
    """A private PostgreSQL, which refuses to run as root."""

    def __init__(self, dir):
        self.bin = pathlib.Path(os.environ.get("PG_BIN", "/usr/lib/postgresql/15/bin"))
        self.data = dir / "data"
        self.as_nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        if self.as_nobody:
            os.chown(dir, 65534, 65534)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.run("initdb", "--auth=trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D", self.data)
        options = f"-p {self.port} -k {dir} -c listen_addresses=127.0.0.1"
        self.run("pg_ctl", "-D", self.data, "-w", "-l", dir / "log", "-o", options, "start")
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "wicketgate")

    def run(self, name, *args):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([self.bin / name, *args], cwd="/", check=True, **quiet, **self.as_nobody)

    def url(self, role):
        return f"postgres://{role}@127.0.0.1:{self.port}/wicketgate?sslmode=disable"

    def dump(self):
        """Statements alone: newer programs also write commands for `psql`."""
        args = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "--rows-per-insert=100", "wicketgate"]
        text = subprocess.run([self.bin / "pg_dump", *args], check=True, stdout=subprocess.PIPE, text=True).stdout
        return re.sub(r"(?m)^\\(un)?restrict .*\n", "", text)

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")


def on_postgres(program, here, gate, port):
    """One gate that ended in order, and one that was killed; the database of both."""
    with tempfile.TemporaryDirectory() as dir:
        cluster = Cluster(pathlib.Path(dir))
        try:
            (here / "admin.url").write_text(cluster.url("postgres"))
            (here / "admin.url").chmod(0o600)
            logins = ("--writer", "wg_writer=default", "--reader", "wg_reader")
            gate("ledger", "migrate", "--admin-url-file", "admin.url", *logins)
            ledger = {"postgres": {"url": cluster.url("wg_writer"), "slots": "local"}}
            estate(here, gate, port, ledger, ())
            config = json.loads((here / "wicketgate.yaml").read_text())
            killed = {**config, "state": "state-killed", "listen": {"socket": "s/killed.sock"}}
            (here / "killed.yaml").write_text(json.dumps(killed, indent=2))
            first, second = serve(program, here), serve(program, here, "killed.yaml")
            run = work(here)
            work(here, "killed")
            second.kill()
            second.wait()
            first.send_signal(signal.SIGTERM)
            assert first.wait(30) == 0
            (here / "ledger.sql").write_text(cluster.dump())
        finally:
            cluster.stop()
    (here / "admin.url").unlink()
    return run


def main():
    store, program, commit = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]
    make, out = {
        "sqlite": (on_sqlite, DATA / "upgrade"),
        "postgres": (on_postgres, DATA / "upgrade-postgres"),
    }[store]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tool)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)

        def gate(*args):
            subprocess.run([program, *args], cwd=here, check=True, stdout=subprocess.DEVNULL)

        run = make(program, here, gate, server.server_address[1])
        for name in ("s", "manifest", "policy"):
            path = here / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(here, out)
    (out / "MADE").write_text(f"commit {commit}\nrun {run}\n")


if __name__ == "__main__":
    main()
