#!/usr/bin/env python3
"""An MCP server that does what its arguments say, on standard streams or over HTTP.

    mcp_server.py stdio BEHAVIOUR...       one message a line
    mcp_server.py http BEHAVIOUR...        prints its port, and ends when its standard input does

Behaviours are words; what each does stands where it is looked for. What a tool does is said by its
arguments: `{"do": "..."}`. Standard library only.
"""

import base64
import http.server
import json
import os
import sys
import threading

HAS = set(sys.argv[2:])
SCHEMA = {"type": "object", "properties": {"do": {"type": "string"}}, "additionalProperties": True}
META = "io.modelcontextprotocol/"


def value(name, default=None):
    """What follows `name=` among the behaviours."""
    return next((word.split("=", 1)[1] for word in HAS if word.startswith(name + "=")), default)


def once(name):
    """True the first time, for all processes that share the file `once=PATH`."""
    path = value("once") + "." + name
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


class Server:
    """The same for every transport: what is answered to a request."""

    def __init__(self):
        self.changed = "changed" in HAS

    def tools(self):
        tools = [{"name": "act", "description": "acts", "inputSchema": SCHEMA}]
        if self.changed:
            tools[0]["inputSchema"] = {**SCHEMA, "required": ["do", "pin"]}
        if "extra" in HAS:
            tools.append({"name": "extra", "description": "\u00e9", "inputSchema": SCHEMA})
        return tools

    def result(self, method, params):
        """A result as JSON text, or an error as a pair."""
        if method == "initialize":
            if "modern" in HAS:
                return (-32022, "no")
            version = value("version", params["protocolVersion"])
            capabilities = {"tools": {"listChanged": True}, "logging": {}, "prompts": {}}
            info = {"name": "fixture", "version": "1"}
            return json.dumps({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        if method == "server/discover":
            if "modern" not in HAS:
                return (-32601, "what")
            meta = {META + "serverInfo": {"name": "fixture", "version": "2"}}
            capabilities = {"tools": {"listChanged": True}, "resources": {}}
            result = {"resultType": "complete", "supportedVersions": ["2026-07-28"]}
            return json.dumps({**result, "capabilities": capabilities, "_meta": meta})
        if method == "tools/list":
            return self.listed(params)
        if method == "resources/read":
            return json.dumps({"contents": [{"uri": params["uri"], "text": "x"}]})
        if method == "ping":
            return "{}"
        return (-32601, "no such method")

    def listed(self, params):
        if "list-error" in HAS:
            return (-32603, "no list")
        tools = self.tools()
        if "pages" not in HAS:
            return json.dumps({"tools": tools})
        at = int(params.get("cursor", "0"))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(tools) or "endless" in HAS else {}
        return json.dumps({"tools": tools[at : at + 1], **more})

    def called(self, params):
        """What a call comes to: text, an error, or `None` if it was answered otherwise."""
        args = params.get("arguments", {})
        do = args.get("do", "echo")
        if do == "echo":
            return json.dumps({"content": [{"type": "text", "text": args.get("text", "")}]})
        if do == "params":
            return json.dumps({"content": [], "params": params})
        if do == "raw":
            return base64.b64decode(args["raw"]).decode("utf-8", "surrogateescape")
        if do == "environment":
            return json.dumps({"content": [], "environment": dict(os.environ), "cwd": os.getcwd()})
        if do == "error":
            return (-32000, "it broke " * 200)
        if do == "count":
            with open(value("count"), "a", encoding="utf-8") as file:
                file.write("x")
            return "{}"
        if do == "large":
            return json.dumps({"content": [], "text": "x" * args["bytes"]})
        return None


def answer(ident, outcome):
    """One response as text; a result is put in as it is."""
    ident = json.dumps(ident)
    if isinstance(outcome, tuple):
        error = json.dumps({"code": outcome[0], "message": outcome[1]})
        return '{"jsonrpc":"2.0","id":%s,"error":%s}' % (ident, error)
    return '{"jsonrpc":"2.0","id":%s,"result":%s}' % (ident, outcome)


def note(method, **params):
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/" + method, "params": params})


class Pipe:
    """The stdio transport."""

    def __init__(self):
        self.server = Server()
        self.waiting = []
        self.refused = []

    def say(self, *lines):
        text = "".join(line + "\n" for line in lines)
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()

    def run(self):
        sys.stderr.write("starting, with " + os.environ.get("TOKEN", "no token") + "\n")
        sys.stderr.flush()
        if "die-at-start" in HAS or ("die-once" in HAS and once("start")):
            return
        if "garbage" in HAS:
            self.say("Listening on stdio!", "", "\x1b[32mready\x1b[0m", "{not json}", "[]")
        if "endless-garbage" in HAS:
            while True:
                self.say("still starting")
        for line in sys.stdin.buffer:
            self.message(json.loads(line))
        if "stubborn" in HAS:
            threading.Event().wait()

    def message(self, message):
        method, ident = message.get("method"), message.get("id")
        params = message.get("params", {})
        if method is None:
            self.refused.append(message)
        elif method == "tools/call":
            self.call(ident, params)
        elif method == "notifications/cancelled":
            with open(value("cancelled", os.devnull), "a", encoding="utf-8") as file:
                file.write(params["requestId"] + "\n")
        elif ident is None or method == "subscriptions/listen":
            return
        elif method == "initialize" and "hang-initialize" in HAS:
            return
        elif method == "tools/list" and "hang-list" in HAS:
            return
        else:
            self.say(answer(ident, self.server.result(method, params)))

    def call(self, ident, params):
        outcome = self.server.called(params)
        if outcome is not None:
            return self.say(answer(ident, outcome))
        args = params["arguments"]
        good = answer(ident, '{"content":[]}')
        lies = {
            "wrong-id": lambda: [answer("somebody-else", "{}"), answer(7, "{}"), answer(None, (-1, "x"))],
            "other-type": lambda: [answer([ident], "{}"), answer({"id": ident}, "{}"), answer(1.5, "{}")],
            "twice": lambda: [good, answer(ident, '{"content":["again"]}'), good],
            "both": lambda: ['{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":""}}' % json.dumps(ident)],
            "broken": lambda: ['{"jsonrpc":"2.0","id":%s,"result":{"a":nan}}' % json.dumps(ident)],
            "not-utf8": lambda: ['{"jsonrpc":"2.0","id":%s,"result":{"a":"\udcff"}}' % json.dumps(ident)],
        }
        do = args["do"]
        if do in lies:
            self.say(*lies[do]())
        elif do == "gather":
            # Answers only when so many wait, the last one first.
            self.waiting.append(answer(ident, json.dumps({"content": [], "text": args["text"]})))
            if len(self.waiting) == args["of"]:
                self.say(*reversed(self.waiting))
                self.waiting = []
        elif do == "progress":
            token = params["_meta"]["progressToken"]
            other = {"progressToken": "p-somebody-else", "progress": 9}
            self.say(note("progress", progressToken=token, progress=1, total=2), note("progress", **other))
            self.say(note("message", level="info", data="half way"), note("unheard", of=1), good)
        elif do == "flood":
            self.say(*[note("message", level="info", data="x" * 50)] * args["times"])
            self.say(good)
        elif do == "line-without-end":
            while True:
                sys.stdout.write("x" * 65536)
        elif do == "ask":
            self.ask(ident)
        elif do == "die":
            os._exit(3)
        elif do == "change":
            self.server.changed = True
            self.say(note("tools/list_changed"), good)
        elif do == "child":
            pid = os.fork()
            if pid == 0:
                threading.Event().wait()
            self.say(answer(ident, json.dumps({"content": [], "pids": [os.getpid(), pid]})))
        elif do == "hang":
            with open(value("entered", os.devnull), "a", encoding="utf-8") as file:
                file.write(ident + "\n")

    def ask(self, ident):
        """Asks its client for everything it must not be given, and tells what it got."""
        methods = ["sampling/createMessage", "elicitation/create", "roots/list", "ping"]
        for at, method in enumerate(methods):
            self.say(json.dumps({"jsonrpc": "2.0", "id": at, "method": method, "params": {}}))
        for line in sys.stdin.buffer:
            self.message(json.loads(line))
            if len(self.refused) == len(methods):
                break
        self.say(answer(ident, json.dumps({"content": [], "got": self.refused})))


class Http(http.server.BaseHTTPRequestHandler):
    """The streamable HTTP transport."""

    protocol_version = "HTTP/1.1"
    server_of_all = Server()
    sessions = []
    seen = []

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(405)

    def do_DELETE(self):
        self.note_down("DELETE", None)
        self.send(200)

    def note_down(self, method, message):
        if value("log"):
            line = {"http": method, "message": message, "headers": {k.lower(): v for k, v in self.headers.items()}}
            with open(value("log"), "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(body)
        self.note_down("POST", message)
        method, ident = message.get("method"), message.get("id")
        if "redirect-all" in HAS:
            return self.send(307, Location=value("location"))
        if "unauthorized" in HAS:
            challenge = 'Bearer resource_metadata="%s"' % value("location")
            return self.send(401, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"x"}}', WWW_Authenticate=challenge)
        session = self.headers.get("Mcp-Session-Id")
        if "modern" not in HAS and method != "initialize" and session not in self.sessions:
            return self.send(404 if session else 400)
        if ident is None:
            return self.send(202)
        if method == "tools/call":
            return self.call(ident, message["params"])
        outcome = self.server_of_all.result(method, message.get("params", {}))
        headers = {}
        if method == "initialize" and not isinstance(outcome, tuple):
            self.sessions.append("session-%d" % len(self.sessions))
            headers = {"Mcp-Session-Id": self.sessions[-1]}
        status = 404 if outcome == (-32601, "no such method") and "modern" in HAS else 200
        return self.send(status, answer(ident, outcome).encode(), **headers)

    def stream(self, *messages, cut=False):
        text = "".join(": hello\nevent: message\ndata: %s\n\n" % message for message in messages)
        text = text.encode("utf-8", "surrogateescape")
        if not cut:
            return self.send(200, text, kind="text/event-stream")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(text) + 1000))
        self.end_headers()
        self.wfile.write(text)
        self.close_connection = True
        return None

    def call(self, ident, params):
        outcome = self.server_of_all.called(params)
        if outcome is not None:
            if "sse" in HAS:
                return self.stream(answer(ident, outcome))
            return self.send(200, answer(ident, outcome).encode("utf-8", "surrogateescape"))
        args, good = params["arguments"], answer(ident, '{"content":[]}')
        do = args["do"]
        if do == "headers":
            headers = {k.lower(): v for k, v in self.headers.items()}
            return self.send(200, answer(ident, json.dumps({"content": [], "headers": headers})).encode())
        if do == "redirect":
            return self.send(307, Location=value("location"))
        if do == "unauthorized":
            challenge = 'Bearer resource_metadata="%s"' % value("location")
            return self.send(401, good.encode(), WWW_Authenticate=challenge)
        if do == "html":
            return self.send(200, b"<html>", kind="text/html")
        if do == "encoded":
            return self.send(200, good.encode(), Content_Encoding="gzip")
        if do == "accepted":
            return self.send(202)
        if do == "other-id":
            return self.send(200, answer("somebody-else", "{}").encode())
        if do == "sse-other-id":
            return self.stream(answer("somebody-else", "{}"), good)
        if do == "progress":
            token = params["_meta"]["progressToken"]
            ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}})
            return self.stream(note("progress", progressToken=token, progress=1), ask, good)
        if do == "cut":
            return self.stream(note("message", level="info", data="x"), cut=True)
        if do == "forget":
            self.sessions.clear()
            return self.send(404)
        if do == "close":
            self.close_connection = True
            return None
        if do == "input":
            return self.stream(answer(ident, '{"resultType":"input_required","inputRequests":{}}'))
        if do == "endless":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
            try:
                while True:
                    self.wfile.write(chunk)
            except OSError:
                self.close_connection = True
        return None


def main():
    if sys.argv[1] == "stdio":
        return Pipe().run()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http)
    server.daemon_threads = True
    # A client that hangs up is what some tests are about.
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    return None


main()
