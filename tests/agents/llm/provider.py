"""A scripted model provider: what it answers stands in a script, and it keeps every request.

    provider.py [--script FILE] [--port N] [--tls CERTIFICATE KEY]

It serves on 127.0.0.1, prints one JSON line {"url", "port"} and ends when its standard input does. Chat
completions, responses and messages are answered below any prefix; `count_tokens` and `models` answer by themselves
unless a rule says otherwise.

    POST /script            replaces the script and forgets the requests
    GET /requests           {"requests": […], "outside": ["host:port", …]}, in order; ?least=N&done=1 waits (at most 30 s) until there are N, all ended
                            {"number", "method", "path", "headers": [[name, value]], "body": base64, "dialect",
                             "answer": what was chosen, "status", "sent": bytes, "frames", "ended"}
                            `ended` is null while it runs; then "whole", "cut", "reset", "left" (the client went away
                            before the end), "stopped"

It is also a proxy that refuses everything and keeps the names: with HTTP_PROXY and HTTPS_PROXY set to it, a program that
asks for anything else than this machine gets a 403, and `outside` shows what it asked for.

A script is {"rules": [{"when": {…}, "answer": {…}, "times"?: N}], "answers": [{…}], "models"?: […], "keep"?: true}.
The first rule that fits answers, else the next of the answers; the last one with "always": true stays. If there is none
left, the answer is a 400 that says so. Conditions, all of which must hold:

    path: how the path ends · dialect · stream · model · contains, lacks: text in the body · last: "tool" or "other" ·
    results: how many tool results it holds · tools: whether it offers any · offers: the name of a tool (its end)

An answer has the members of dialects.py, or is one of

    {"status": 429, "headers"?: {…}, "message"?: "…", "code"?: "…", "body"?: value or text}
    {"html": true} · {"redirect": "http://…"} · {"hang": true} (before the head)
    {"flood": bytes, "as": "deltas" | "line" | "body"} · {"raw": [[event, data], …]}

and may have, beside these, "delay_ms" (before the head), "headers", and how a stream is written, in "wire":

    newline: "lf", "crlf", "cr" · bom · comments · unknown_event · multiline (data over several lines) ·
    pieces: N (bytes of one write, so that characters are cut) · gap_ms: between frames · end: false (no end) ·
    cut: {"frame": N} or {"byte": N} (connection closed there) · reset: true (…and reset) · hang: N (after frame N) ·
    error: {"frame": N, "message", "kind"?} (an error in the dialect's words, then the end)
"""

import argparse
import base64
import json
import select
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dialects

HANG_SECONDS = 600
HTML = "<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"
NEWLINES = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


class Left(Exception):
    """The client went away."""


class Ended(Exception):
    """The answer ends here, not as it should: "cut", "reset" or "stopped"."""


class Script:
    """The script and the requests it answered."""

    def __init__(self):
        self.changed = threading.Condition()
        self.replace({})

    def replace(self, script):
        with self.changed:
            self.rules = [dict(rule) for rule in script.get("rules") or []]
            self.answers = list(script.get("answers") or [])
            self.models = script.get("models") or ["scripted"]
            self.keep = script.get("keep", True)
            self.requests, self.outside, self.number = [], [], 0
            self.changed.notify_all()

    def choose(self, kept, request):
        with self.changed:
            for rule in self.rules:
                if rule.get("times", 1) > 0 and fits(rule.get("when") or {}, kept, request):
                    if "times" in rule:
                        rule["times"] -= 1
                    return rule["answer"]
            if kept["dialect"] == "count_tokens":
                return {"status": 200, "body": {"input_tokens": max(1, len(kept["raw"]) // 4)}}
            if not self.answers:
                return {"status": 400, "message": "the script has no answer left", "code": "script.exhausted"}
            return self.answers[0] if self.answers[0].get("always") else self.answers.pop(0)

    def begin(self, kept):
        with self.changed:
            self.number += 1
            kept["number"] = self.number
            if self.keep:
                self.requests.append(kept)
            self.changed.notify_all()

    def end(self, kept, how):
        with self.changed:
            kept["ended"] = how
            self.changed.notify_all()

    def listed(self, least, done):
        """Every request, once there are enough."""

        def enough():
            return len(self.requests) >= least and not (done and any(kept["ended"] is None for kept in self.requests))

        with self.changed:
            self.changed.wait_for(enough, timeout=30)
            return {"requests": [shown(kept) for kept in self.requests], "outside": list(self.outside)}


def shown(kept):
    return {name: value for name, value in kept.items() if name != "raw"} | {
        "body": base64.b64encode(kept["raw"]).decode()
    }


def fits(when, kept, request):
    text = kept["raw"].decode("utf-8", "replace")
    results, last = dialects.tool_results(kept["dialect"], request)
    groups = [tool.get("functionDeclarations") or [tool] for tool in request.get("tools") or []]
    offered = [(tool.get("function") or tool).get("name") or "" for group in groups for tool in group]
    checks = {
        "path": lambda wanted: kept["path"].partition("?")[0].endswith(wanted),
        "dialect": lambda wanted: kept["dialect"] == wanted,
        "stream": lambda wanted: streams(kept, request) == wanted,
        "model": lambda wanted: request.get("model") == wanted,
        "contains": lambda wanted: wanted in text,
        "lacks": lambda wanted: wanted not in text,
        "last": lambda wanted: (wanted == "tool") == last,
        "results": lambda wanted: results == wanted,
        "tools": lambda wanted: bool(offered) == wanted,
        "offers": lambda wanted: any(name.endswith(wanted) for name in offered),
    }
    return all(checks[name](wanted) for name, wanted in when.items())


def streams(kept, request):
    """Whether a request asks for a stream: that of Gemini says so in its path, and that of Ollama if it says nothing."""
    if kept["dialect"] == "gemini":
        return ":streamGenerateContent" in kept["path"]
    return bool(request.get("stream", kept["dialect"] == "ollama"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script = Script()
    # The request that is being answered, if it is kept.
    kept = None

    def log_message(self, *_):
        pass

    # --- what is asked ---

    def body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def do_CONNECT(self):
        self.refuse_outside(self.path)

    def refuse_outside(self, where):
        self.kept = None
        with self.script.changed:
            self.script.outside.append(where)
        self.whole(403, {"error": "nothing outside of this machine is reached from here"})
        self.close_connection = True

    def do_GET(self):
        self.kept = None
        if not self.path.startswith("/"):
            self.refuse_outside(urllib.parse.urlsplit(self.path).netloc)
            return
        where = urllib.parse.urlsplit(self.path)
        asked = urllib.parse.parse_qs(where.query)
        if where.path == "/requests":
            least, done = int(asked.get("least", ["0"])[0]), "done" in asked
            self.whole(200, self.script.listed(least, done))
        elif "/models" in where.path:
            self.models(where.path)
        else:
            self.whole(404, dialects.error("chat", 404, f"no such path: {where.path}"))

    def models(self, path):
        _, _, name = path.partition("/models/")
        anthropic = self.headers.get("anthropic-version")
        known = {
            model: {"id": model, "type": "model", "display_name": model, "created_at": "2026-01-01T00:00:00Z"}
            if anthropic
            else {"id": model, "object": "model", "created": dialects.CREATED, "owned_by": "scripted"}
            for model in self.script.models
        }
        if name:
            self.whole(200 if name in known else 404, known.get(name) or dialects.error("chat", 404, "no such model"))
        elif anthropic:
            ends = {"first_id": self.script.models[0], "last_id": self.script.models[-1]}
            self.whole(200, {"data": list(known.values()), "has_more": False} | ends)
        else:
            self.whole(200, {"object": "list", "data": list(known.values())})

    def do_POST(self):
        self.kept = None
        raw = self.body()
        if not self.path.startswith("/"):
            self.refuse_outside(urllib.parse.urlsplit(self.path).netloc)
            return
        path = self.path.partition("?")[0]
        if path == "/script":
            self.script.replace(json.loads(raw))
            self.whole(200, {})
            return
        endings = sorted(dialects.DIALECTS, key=len, reverse=True)
        dialect = next((dialects.DIALECTS[end] for end in endings if path.endswith(end)), None)
        kept = {
            "method": "POST",
            "path": self.path,
            "headers": [[name, value] for name, value in self.headers.items()],
            "raw": raw,
            "dialect": dialect,
            "answer": None,
            "status": None,
            "sent": 0,
            "frames": 0,
            "ended": None,
        }
        self.script.begin(kept)
        how = "stopped"
        try:
            how = self.answer(kept)
        except Ended as ended:
            how = str(ended)
            self.close_connection = True
        except (Left, OSError):
            how = "left"
            self.close_connection = True
        finally:
            self.script.end(kept, how)

    # --- what is answered ---

    def answer(self, kept):
        self.kept = kept
        dialect = kept["dialect"]
        if dialect is None:
            self.whole(404, dialects.error("chat", 404, f"no such path: {kept['path']}"))
            return "whole"
        try:
            request = json.loads(kept["raw"])
        except ValueError as wrong:
            self.whole(400, dialects.error(dialect, 400, f"the body is no JSON: {wrong}"))
            return "whole"
        answer = kept["answer"] = self.script.choose(kept, request)
        self.wait(answer.get("delay_ms", 0) / 1000)
        if answer.get("hang"):
            self.wait(HANG_SECONDS)
            raise Ended("stopped")
        headers = answer.get("headers") or {}
        if "status" in answer:
            status = answer["status"]
            made = dialects.error(dialect, status, answer.get("message", f"scripted {status}"), answer.get("code"))
            self.whole(status, answer.get("body", made), headers)
        elif "html" in answer:
            self.whole(200, HTML, {"content-type": "text/html"} | headers)
        elif "redirect" in answer:
            self.whole(307, "", {"location": answer["redirect"]} | headers)
        elif "flood" in answer:
            self.flood(answer, dialect, request)
        elif "raw" in answer:
            self.stream([(event, data, "piece") for event, data in answer["raw"]], answer, dialect)
        else:
            parts = dialects.Parts(answer, request, kept["number"])
            if streams(kept, request):
                self.stream(dialects.FRAMES[dialect](parts), answer, dialect)
            else:
                self.cut_whole(dialects.WHOLE[dialect](parts), answer, headers)
        return "whole"

    def wait(self, seconds):
        """Waits, and notices a client that goes away meanwhile."""
        until, watched = time.monotonic() + seconds, [self.connection]
        while (rest := until - time.monotonic()) > 0:
            readable, _, _ = select.select(watched, [], [], rest)
            if not readable:
                continue
            # What TLS sends between requests is not looked into: only its end counts.
            peeked = b"" if isinstance(self.connection, ssl.SSLSocket) else self.connection.recv(1, socket.MSG_PEEK)
            if not peeked:
                raise Left
            # The next request already: nothing more to learn here.
            watched = []

    def head(self, status, headers):
        if self.kept is not None:
            self.kept["status"] = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()

    def whole(self, status, body, headers=None):
        raw = body.encode() if isinstance(body, str) else dialects.compact(body).encode()
        basic = {"content-type": "application/json", "request-id": "req_scripted", "x-request-id": "req_scripted"}
        self.head(status, basic | {"content-length": len(raw)} | (headers or {}))
        self.write(raw)

    def cut_whole(self, body, answer, headers):
        """A whole answer, or its first bytes."""
        wire = answer.get("wire") or {}
        raw = dialects.compact(body).encode()
        basic = {"content-type": "application/json", "request-id": "req_scripted", "x-request-id": "req_scripted"}
        self.head(200, basic | {"content-length": len(raw)} | headers)
        if "cut" in wire:
            self.write(raw[: wire["cut"].get("byte", 16)])
            self.break_off(wire)
        self.write(raw)

    def write(self, raw):
        self.wfile.write(raw)
        if self.kept is not None:
            self.kept["sent"] += len(raw)

    def break_off(self, wire):
        """Closes the connection where it is."""
        if wire.get("reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            raise Ended("reset")
        raise Ended("cut")

    # --- streams ---

    def chunk(self, raw):
        if raw:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
            self.kept["sent"] += len(raw)

    def stream_head(self, answer):
        lines = self.kept["dialect"] in dialects.LINES
        kind = "application/x-ndjson" if lines else "text/event-stream; charset=utf-8"
        basic = {"content-type": kind, "cache-control": "no-cache"}
        basic |= {"request-id": "req_scripted", "x-request-id": "req_scripted", "transfer-encoding": "chunked"}
        self.head(200, basic | (answer.get("headers") or {}))

    def stream(self, frames, answer, dialect):
        wire = answer.get("wire") or {}
        self.stream_head(answer)
        self.left_to_cut = (wire.get("cut") or {}).get("byte")
        cut, hang, failing = (wire.get("cut") or {}).get("frame"), wire.get("hang"), wire.get("error")
        if wire.get("bom"):
            self.put(b"\xef\xbb\xbf", wire)
        sent = 0
        for event, data, part in frames:
            if sent == cut:
                self.break_off(wire)
            if sent == hang:
                self.wait(HANG_SECONDS)
                raise Ended("stopped")
            if failing and sent == failing.get("frame", 1):
                asked = (dialect, self.kept["number"], sent, failing["message"], failing.get("kind"))
                event, data, _ = dialects.error_frame(*asked)
                self.put(self.framed(event, data, wire), wire)
                break
            if part == "end" and wire.get("end") is False:
                break
            if sent:
                self.wait(wire.get("gap_ms", 0) / 1000)
            # A library of Google takes a comment for the beginning of an error.
            decorated = b"" if dialect in dialects.LINES | {"gemini"} else decoration(sent, dialect, wire)
            self.put(decorated + self.framed(event, data, wire), wire)
            sent += 1
            self.kept["frames"] = sent
        if cut is not None and cut >= sent:
            self.break_off(wire)
        self.write_end()

    def framed(self, event, data, wire):
        if self.kept["dialect"] in dialects.LINES:
            return (dialects.compact(data) + "\n").encode()
        return written(event, data, wire)

    def write_end(self):
        self.wfile.write(b"0\r\n\r\n")

    def put(self, raw, wire):
        """Writes bytes of a stream, in pieces if asked to, and not beyond the place where it is cut."""
        limit = self.left_to_cut
        if limit is not None:
            raw, rest = raw[:limit], raw[limit:]
            self.left_to_cut -= len(raw)
        size = wire.get("pieces") or len(raw) or 1
        for at in range(0, len(raw), size):
            self.chunk(raw[at : at + size])
        if limit is not None and (rest or self.left_to_cut == 0):
            self.break_off(wire)

    def flood(self, answer, dialect, request):
        """So many bytes as deltas of text, as one line that does not end, or as one whole answer."""
        total, how = answer["flood"], answer.get("as", "deltas")
        block = b"x" * 65536
        if how == "body":
            self.head(200, {"content-type": "application/json", "content-length": total})
            self.write(b'{"text":"')
            for _ in range(total // len(block)):
                self.write(block)
            # It promised more than it sends, and its JSON never ends.
            raise Ended("cut")
        self.stream_head(answer)
        if how == "line":
            self.chunk(b"data: ")
        frames = list(dialects.FRAMES[dialect](dialects.Parts({"deltas": ["x" * 16384]}, request, 1)))
        piece = next(frame for frame in frames if "x" * 64 in dialects.compact(frame[1]))
        at = frames.index(piece)
        if how == "deltas":
            for event, data, _ in frames[:at]:
                self.chunk(written(event, data, {}))
        raw = block if how == "line" else written(piece[0], piece[1], {}) * 4
        while self.kept["sent"] < total:
            self.chunk(raw)
        self.write_end()


def written(event, data, wire):
    """One event as it stands on the wire."""
    newline = NEWLINES[wire.get("newline", "lf")]
    if isinstance(data, str):
        lines = data.split("\n")
    elif wire.get("multiline"):
        lines = json.dumps(data, ensure_ascii=False, indent=0).split("\n")
    else:
        lines = [dialects.compact(data)]
    head = [f"event: {event}"] if event else []
    return "".join(line + newline for line in [*head, *(f"data: {line}" for line in lines), ""]).encode()


def decoration(sent, dialect, wire):
    """What may stand between events and means nothing."""
    newline = NEWLINES[wire.get("newline", "lf")]
    text = ""
    if wire.get("comments"):
        text += f": a comment {sent}{newline}{newline}:{newline}"
    if wire.get("unknown_event") and sent == 1:
        unknown = {"type": "scripted.unknown", "note": "unknown"}
        if dialect == "chat":
            unknown = {"id": "chatcmpl-0", "object": "scripted.unknown", "choices": []}
        name = "" if dialect == "chat" else f"event: scripted.unknown{newline}"
        text += f"{name}data: {dialects.compact(unknown)}{newline}{newline}"
    return text.encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        # A client that goes away is part of what is tested.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--script")
    asked.add_argument("--port", type=int, default=0)
    asked.add_argument("--tls", nargs=2)
    asked = asked.parse_args()
    if asked.script:
        with open(asked.script, encoding="utf-8") as file:
            Handler.script.replace(json.load(file))
    server = Server(("127.0.0.1", asked.port), Handler)
    scheme = "http"
    if asked.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*asked.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    line = {"url": f"{scheme}://127.0.0.1:{port}", "port": port}
    print(json.dumps(line), flush=True)
    # Daemon threads end with this one.
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
