"""An MCP server over standard streams whose tools are the functions of a module. The gate starts it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, get_type_hints

from . import functions
from .functions import DECLARED, Declared, json_of
from .schema import value_of

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
WORKERS = 16


def load(module: str, server: str | None = None) -> tuple[str, dict[str, Declared]]:
    """Imports a module and finds the server that its functions are tools of."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    importlib.import_module(module)
    wanted = server or functions.server_of(module)
    if wanted not in DECLARED and server is None and len(DECLARED) == 1:
        wanted = next(iter(DECLARED))
    if wanted not in DECLARED:
        known = ", ".join(DECLARED) or "none"
        raise LookupError(f"`{module}` declares no tool of the server `{wanted}` (servers: {known}): mark one with @tool")
    return wanted, DECLARED[wanted]


class Server:
    """Answers requests; calls run on threads, so that a slow one delays no other."""

    def __init__(self, name: str, tools: dict[str, Declared], out: BinaryIO) -> None:
        self.name = name
        self.tools = tools
        self.out = out
        self.lock = threading.Lock()
        self.workers = ThreadPoolExecutor(WORKERS)

    def say(self, ident: Any, **outcome: Any) -> None:
        """Writes one answer."""
        line = json.dumps({"jsonrpc": "2.0", "id": ident, **outcome}, ensure_ascii=False, separators=(",", ":"))
        with self.lock:
            self.out.write(line.encode("utf-8", "replace") + b"\n")
            self.out.flush()

    def take(self, line: bytes) -> None:
        """Reads one message."""
        try:
            message = json.loads(line)
            method, ident = message["method"], message.get("id")
        except (ValueError, KeyError, TypeError):
            return
        if ident is None:
            return
        params = message.get("params") or {}
        if method == "tools/call":
            self.workers.submit(self.call, ident, params)
        elif method == "initialize":
            asked = params.get("protocolVersion")
            version = asked if asked in VERSIONS else VERSIONS[0]
            info = {"name": self.name, "version": "1"}
            self.say(ident, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            self.say(ident, result={"tools": [listed(one) for one in self.tools.values()]})
        elif method == "ping":
            self.say(ident, result={})
        else:
            self.say(ident, error={"code": -32601, "message": f"no method `{method}`"})

    def call(self, ident: Any, params: dict[str, Any]) -> None:
        """Runs one function."""
        declared = self.tools.get(params.get("name", ""))
        if declared is None or declared.body is None:
            self.say(ident, error={"code": -32602, "message": f"no tool `{params.get('name')}`"})
            return
        try:
            result = result_of(run(declared.body, params.get("arguments") or {}))
        except Exception as why:  # noqa: BLE001 - whatever a function raises is an answer
            traceback.print_exc(file=sys.stderr)
            result = {"isError": True, "content": [{"type": "text", "text": f"{type(why).__name__}: {why}"}]}
        self.say(ident, result=result)


def run(body: Any, arguments: dict[str, Any]) -> Any:
    """The value of a function for JSON arguments."""
    hints = get_type_hints(body, include_extras=True)
    made = {name: value_of(hints.get(name, Any), value) for name, value in arguments.items()}
    value = body(**made)
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def result_of(returned: Any) -> dict[str, Any]:
    """The result of an MCP tool. A value that is no object is wrapped in one."""
    value = json_of(returned)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if isinstance(value, dict):
        return {**result, "structuredContent": value}
    return {**result, "structuredContent": {"result": value}}


def listed(declared: Declared) -> dict[str, Any]:
    """A tool as the server lists it."""
    hints = {"readOnlyHint": declared.read_only, "idempotentHint": declared.idempotent}
    return {
        "name": declared.name,
        "description": declared.description,
        "inputSchema": declared.schema,
        "annotations": hints,
    }


def serve(module: str, server: str | None = None) -> int:
    """Serves the functions of a module until standard input ends."""
    # Answers have the stream for themselves: what a function prints goes to the gate's log.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    functions._serving = True
    name, tools = load(module, server)
    serving = Server(name, tools, out)
    for line in sys.stdin.buffer:
        serving.take(line)
    serving.workers.shutdown(wait=True)
    return 0
