"""A gate for the functions of a module, made by one command: keys, configuration, lock, manifest and policy, all signed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .describe import describe, server
from .functions import Declared
from .serve import load

# What `wicketgate init` writes, for clients that speak MCP.
FACES, BOTH = "faces: [mcp]", "faces: [http, mcp]"
TIERS = re.compile(r"^    tier: T[0-3]\n(?:    tools:\n(?:      .*\n)*)?", re.MULTILINE)


def init(module: str, server_name: str | None, directory: str, extra: Sequence[str]) -> int:
    """Makes the gate with `wicketgate init`, opens it to this client, and gives the tools their declared tiers."""
    name, tools = load(module, server_name)
    entry = server(module, name, tools)
    directory = os.path.abspath(directory)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "functions.json")
        source.write_text(describe(module, server_name, "mcp"), "utf-8")
        asked = ["init", "--from", str(source), "--dir", directory, "--json", *_allowed(name, entry["stdio"]["sandbox"])]
        _run([*asked, *extra])
    gate = Path(directory)
    _change(gate / "wicketgate.yaml", lambda text: TIERS.sub(lambda _: _tiers(entry), text, count=1))
    _run(["tools", "lock", "--config", str(gate / "wicketgate.yaml"), "--key", str(gate / "keys/lock.pem")])
    _change(gate / "agent.yaml", lambda text: text.replace(FACES, BOTH))
    _run(["manifest", "sign", str(gate / "agent.yaml"), "--key", str(gate / "keys/manifest.pem")])
    print(_summary(gate, entry, tools))
    return 0


def _summary(gate: Path, entry: dict[str, Any], tools: dict[str, Declared]) -> str:
    lines = [f"{one.qualified} {one.tier}{' only reads' if one.read_only else ''}" for one in tools.values()]
    level = entry["stdio"]["sandbox"]["level"]
    lines += [f"the functions run in {level if level != 'none' else 'no sandbox'}; keep {gate / 'keys'} from the agent"]
    lines += ["", f"wicketgate serve --config {gate / 'wicketgate.yaml'}"]
    return "\n".join([*lines, f"export WICKETGATE_URL=unix:{gate / 'state/agent.sock'}"])


def _allowed(name: str, sandbox: dict[str, Any]) -> list[str]:
    if sandbox["level"] == "none":
        return ["--allow", f"{name}:unsandboxed"]
    wanted = ["s1"] if sandbox["level"] == "S1" else []
    wanted += [f"read={path}" for path in sandbox["read"]]
    wanted += [f"write={path}" for path in sandbox.get("write", [])]
    wanted += [f"host={host}" for host in sandbox.get("hosts", [])]
    return [word for one in wanted for word in ("--allow", f"{name}:{one}")]


def _tiers(entry: dict[str, Any]) -> str:
    tools = "".join(f"      {name}: {json.dumps(settings)}\n" for name, settings in entry["tools"].items())
    return f"    tier: {entry['tier']}\n    tools:\n{tools}"


def _change(path: Path, change: Any) -> None:
    before = path.read_text("utf-8")
    after = change(before)
    if after == before:
        raise LookupError(f"`{path}` is not as this version expects: update the package and the gate to one version")
    path.write_text(after, "utf-8")


def _run(words: list[str]) -> None:
    program = os.environ.get("WICKETGATE", "wicketgate")
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LookupError("there is no `wicketgate` in PATH: install the gate, or set WICKETGATE to it") from None
    if done.returncode != 0:
        raise LookupError(f"`wicketgate {words[0]}` failed: {_why(done.stderr)}")


def _why(printed: str) -> str:
    """What the program printed of its failure: with `--json`, one object."""
    try:
        told = json.loads(printed)
        return "\n".join(part for part in (told["message"], told.get("hint")) if part)
    except (LookupError, TypeError, ValueError):
        return printed.strip()
