"""An MCP server on standard streams that shows what a file says: {"capabilities", "info", "tools"}."""

import json
import sys


def result(method, params, says):
    if method == "initialize":
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": says["capabilities"], "serverInfo": says["info"]}
    return {"tools": says["tools"]} if method == "tools/list" else {}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        with open(sys.argv[1], encoding="utf-8") as file:
            says = json.load(file)
        answer = result(message["method"], message.get("params", {}), says)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)


main()
