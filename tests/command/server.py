"""An MCP server on standard streams that does what it is told, or tries to. Standard library only.

Its last argument is a mark, by which a test finds its processes. With `stay` among them it does not end when nobody
speaks to it any more.
"""

import contextlib
import io
import json
import os
import socket
import sys
import threading


def forever():
    """Until it is ended."""
    threading.Event().wait()


def tool(name):
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"path": text, "text": text, "port": {"type": "integer"}}}
    return {"name": name, "description": name, "inputSchema": schema}


def run(args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(args["text"], "attack", "exec"), {"__name__": "attack"})
    return out.getvalue()


def read(args):
    with open(args["path"]) as file:
        return file.read()


def write(args):
    with open(args["path"], "w") as file:
        file.write(args["text"])
    return "written"


def connect(args):
    with socket.create_connection(("127.0.0.1", args["port"]), timeout=5):
        return "connected"


def family(args):
    """Children that no receiver waits for, one of them away from its parent."""
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        if os.fork() == 0:
            forever()
        forever()
    return "there"


def bomb(args):
    made = 0
    try:
        while True:
            if os.fork() == 0:
                forever()
            made += 1
    except OSError:
        return str(made)


def memory(args):
    import mmap

    got = []
    for what, take in [
        ("private", lambda: bytearray(1 << 30)),
        ("shared", lambda: mmap.mmap(-1, 1 << 30)),
        ("zero", lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 1 << 30)),
    ]:
        with contextlib.suppress(MemoryError, OSError):
            take()
            got.append(what)
    return json.dumps(got)


def surroundings(args):
    return json.dumps({"env": dict(os.environ), "cwd": os.getcwd(), "uid": os.getuid()})


TOOLS = {f.__name__: f for f in [run, read, write, connect, family, bomb, memory, surroundings]}


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        info = {"name": "told", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [tool(name) for name in TOOLS]}
    if method == "tools/call":
        try:
            text, failed = TOOLS[params["name"]](params.get("arguments") or {}), False
        except (OSError, MemoryError) as error:
            text, failed = f"{type(error).__name__}: {error}", True
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
while "stay" in sys.argv:
    forever()
