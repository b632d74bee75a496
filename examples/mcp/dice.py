"""An MCP server over stdio with two tools, for trying out `wicketgate init`: no package is needed."""

import json
import sys

TOOLS = [
    {"name": "roll", "description": "Rolls a die", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "save", "description": "Saves a roll in a file", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}},
]

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "dice", "version": "1"}},
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "4"}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answers.get(message["method"], {})}), flush=True)
