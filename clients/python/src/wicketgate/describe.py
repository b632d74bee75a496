"""What the files of a gate say of the functions of a module."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from .functions import SANDBOXES, Declared, Sandbox
from .serve import load

# What every sandbox can read.
SYSTEM = ("/usr", "/lib", "/lib64", "/bin")


def _paths(module: str) -> tuple[list[str], list[str]]:
    """Folders to import from, and what to read: of this interpreter, this package and the module."""
    outer = sys.modules[module.partition(".")[0]]
    file = Path(getattr(outer, "__file__", None) or Path.cwd() / f"{module}.py").resolve()
    # Of a module its file alone, of a package its folder: what lies beside them is not the functions' to read.
    own = file.parent if hasattr(outer, "__path__") else file
    here = own.parent
    ours = Path(__file__).resolve().parents[1]
    packages = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]
    imports = [here] if ours in packages else [here, ours]
    # The interpreter that a virtual environment links to stands elsewhere.
    prefixes = [Path(one).resolve() for one in (sys.prefix, sys.base_prefix)]
    read = [*prefixes, Path(sys.executable).resolve().parents[1], own, ours]
    kept: list[Path] = []
    for one in read:
        covered = any(one == other or other in one.parents for other in [*map(Path, SYSTEM), *kept])
        if not covered and one != Path("/"):
            kept.append(one)
    return [str(one) for one in dict.fromkeys(imports)], [str(one) for one in kept]


def server(module: str, name: str, tools: dict[str, Declared]) -> dict[str, Any]:
    """The entry of `servers:`."""
    imports, read = _paths(module)
    stdio: dict[str, Any] = {
        "command": sys.executable,
        "args": ["-B", "-m", "wicketgate", "serve", module, "--server", name],
        "env": {"PYTHONPATH": os.pathsep.join(imports)},
        "sandbox": _sandbox(SANDBOXES.get(name, Sandbox()), read),
    }
    return {
        "name": name,
        "tier": max(one.tier for one in tools.values()),
        "stdio": stdio,
        "tools": {one.name: _tool(one) for one in tools.values()},
    }


def _sandbox(wanted: Sandbox, read: list[str]) -> dict[str, Any]:
    if wanted.level == "none":
        return {"level": "none"}
    given: dict[str, Any] = {"level": wanted.level, "read": [*read, *map(_absolute, wanted.read)]}
    if wanted.write:
        given["write"] = [_absolute(one) for one in wanted.write]
    if wanted.hosts:
        given["hosts"] = list(wanted.hosts)
    if wanted.memory_bytes:
        given["memory_bytes"] = wanted.memory_bytes
    return given


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _tool(declared: Declared) -> dict[str, Any]:
    settings: dict[str, Any] = {"tier": declared.tier}
    if declared.read_only:
        settings["read_only"] = True
    if declared.idempotent:
        settings["idempotent"] = True
    if declared.timeout_ms:
        settings["timeout_ms"] = declared.timeout_ms
    return settings


def describe(module: str, server_name: str | None = None, form: str = "tools", signer: str = "") -> str:
    """The fragment of a file: `tools` for wicketgate.yaml, `manifest` for agent.yaml, `mcp` for `wicketgate init`."""
    name, tools = load(module, server_name)
    entry = server(module, name, tools)
    if form == "mcp":
        own = {key: entry["stdio"][key] for key in ("command", "args", "env")}
        return json.dumps({"mcpServers": {name: own}}, indent=2) + "\n"
    if form == "manifest":
        grant = {"server": name, "lock": {"signer": signer}, "allow": list(tools)}
        return f"    - {_line(grant)}\n"
    lines = ["servers:", f"  - name: {name}", f"    tier: {entry['tier']}", "    stdio:"]
    lines += [f"      {key}: {_line(value)}" for key, value in entry["stdio"].items()]
    lines += ["    tools:", *(f"      {key}: {_line(value)}" for key, value in entry["tools"].items())]
    return "\n".join(lines) + "\n"


def _line(value: Any) -> str:
    # JSON is YAML.
    return json.dumps(value, ensure_ascii=False)
