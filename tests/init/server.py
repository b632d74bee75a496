"""A small MCP server on standard input and output, standard library only.

Tools: `read_note` (says it only reads), `write_note`, `whoami` (its environment, as far as it may be told).
With `--loud` it says more tools; with `--mute` it never answers; with `--broken` it ends at once.
"""

import json
import os
import sys

NOTES = {"todo.txt": "buy milk"}


def tool(name, description, properties, read_only=None, required=None):
    schema = {"type": "object", "properties": properties, "required": required or list(properties)}
    shown = {"name": name, "description": description, "inputSchema": schema}
    if read_only is not None:
        shown["annotations"] = {"readOnlyHint": read_only}
    return shown


def tools():
    text = {"type": "string"}
    listed = [
        tool("read_note", "Reads a note", {"path": text}, read_only=True),
        tool("write_note", "Writes a note", {"path": text, "content": text}),
        tool("whoami", "Says what it was given", {}, read_only=True),
    ]
    if "--loud" in sys.argv:
        listed.append(tool("shout", "Says it louder", {"text": text}))
    return listed


def call(name, args):
    if name == "read_note":
        return NOTES.get(args["path"], "no such note")
    if name == "write_note":
        NOTES[args["path"]] = args["content"]
        return "written"
    if name == "shout":
        return args["text"].upper()
    secret = os.environ.get("NOTES_TOKEN", "")
    return f"{len(secret)} characters of a token, mode {os.environ.get('NOTES_MODE', 'none')}"


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        version = params.get("protocolVersion", "2025-06-18")
        info = {"name": "notes", "version": "1.0.0"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        text = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}]}
    if method == "ping":
        return {}
    return None


def main():
    if "--broken" in sys.argv:
        print("cannot open the notebook", file=sys.stderr)
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message or "--mute" in sys.argv:
            continue
        result = answer(message)
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None or message["method"] == "initialize" and result["protocolVersion"] > "2025-11-25":
            reply["error"] = {"code": -32601, "message": "method not found"}
        else:
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


main()
