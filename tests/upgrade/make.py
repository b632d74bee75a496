#!/usr/bin/env python3
"""Makes what an older build of the gate leaves behind: a ledger, what it was served with, and evidence of it.

    make.py PROGRAM COMMIT     tests/data/upgrade

PROGRAM is `wicketgate` as it was built at COMMIT, which is noted in `MADE`. Needs what `tests/run` installs.
"""

import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading

TOP = pathlib.Path(__file__).resolve().parents[2]
DATA = TOP / "tests/data/upgrade"
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


def work(here):
    """A run that is sealed, one that stays open; the first one's id."""

    def ask(*args, token=""):
        args = [sys.executable, "-B", str(CLIENT), f"unix:{here}/s/agent.sock", "--token", token, *args]
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


def serve(program, here):
    command = [program, "serve", "--config", "wicketgate.yaml"]
    gate = subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE, text=True)
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


def main():
    program, commit = os.path.abspath(sys.argv[1]), sys.argv[2]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tool)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        here = pathlib.Path(scratch)

        def gate(*args):
            subprocess.run([program, *args], cwd=here, check=True, stdout=subprocess.DEVNULL)

        run = on_sqlite(program, here, gate, server.server_address[1])
        for name in ("s", "manifest", "policy"):
            path = here / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree(DATA, ignore_errors=True)
        shutil.copytree(here, DATA)
    (DATA / "MADE").write_text(f"commit {commit}\nrun {run}\n")


if __name__ == "__main__":
    main()
