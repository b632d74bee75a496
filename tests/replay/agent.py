"""An agent of no framework: makes the calls it is given over MCP, and prints what it was answered.

    agent.py '[[["look.up", {"name": "a"}]], …]'

One list of calls a round; the calls of a round are made side by side. A text is a command that runs between rounds. Where the gate is comes from the environment,
as `wicketgate run replay` sets it: WICKETGATE_MCP_URL and WICKETGATE_TOKEN.
"""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse

URL = urllib.parse.urlsplit(os.environ["WICKETGATE_MCP_URL"])
VERSION = "2025-11-25"
RECEIPT = re.compile(r" receipt: entry \d+ of chain \w+\.")
HEADERS = {
    "Authorization": "Bearer " + os.environ["WICKETGATE_TOKEN"],
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


def exchange(method, message, session):
    headers = dict(HEADERS)
    if session:
        headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": VERSION}
    connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=60)
    connection.request(method, URL.path, json.dumps(message) if message else None, headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    if answer.headers.get("Content-Type", "").startswith("text/event-stream"):
        lines = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
        answers = [json.loads(line) for line in lines if line]
        found = [one for one in answers if "result" in one or "error" in one]
        return answer.headers, found[-1]
    return answer.headers, json.loads(body) if body else None


def ask(number, method, params, session=None):
    return exchange("POST", {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, session)


def main(rounds):
    client = {"name": "agent.py", "version": "1"}
    begun = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
    headers, answer = ask(1, "initialize", begun)
    if "result" not in answer:
        sys.exit(json.dumps(answer))
    session = headers["Mcp-Session-Id"]
    meta = answer["result"].get("_meta", {})
    seed, clock = meta.get("wicketgate.dev/seed"), meta.get("wicketgate.dev/clock")
    print("seed", seed, "clock", clock, "header", headers.get("X-Wicketgate-Seed"))
    exchange("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    number = 1
    for calls in rounds:
        if isinstance(calls, str):
            subprocess.run(["sh", "-c", calls], check=True, stdout=sys.stderr)
            continue
        answers = [None] * len(calls)

        def call(at, number, name, arguments):
            answers[at] = ask(number, "tools/call", {"name": name, "arguments": arguments}, session)[1]

        threads = []
        for at, (name, arguments) in enumerate(calls):
            number += 1
            threads.append(threading.Thread(target=call, args=(at, number, name, arguments)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for (name, _), answer in zip(calls, answers, strict=True):
            result = answer.get("result") or {"isError": True, "content": [{"text": json.dumps(answer["error"])}]}
            # Where a denial is on the books: a replay has books of its own.
            texts = [RECEIPT.sub("", part.get("text", "")) for part in result["content"]]
            ids = result.get("_meta", {}).get("wicketgate.dev/call") if seed else ""
            print(name, bool(result.get("isError")), ids, *texts)
    exchange("DELETE", None, session)


main(json.loads(sys.argv[1]))
