"""What is behind every gateway: an MCP server with one tool over streamable HTTP, and a model of the chat completions API.
Both answer the text that they are given, at once. It also takes log events, for a gateway whose log is a URL.

    upstream.py [PORT]

It prints its URL as one JSON line and ends when its standard input does. It keeps no sessions and does nothing else, so that
it costs little beside a gateway. GET /calls tells how many calls and events reached it; with this the comparison sees
whether a gateway ran a call that it could not record.
"""

import asyncio
import json
import sys

TOOL = {
    "name": "say",
    "description": "Answers the text that it is given.",
    "inputSchema": {
        "type": "object",
        "required": ["text"],
        "properties": {"text": {"type": "string", "description": "the text"}},
    },
}
NEWEST = "2025-06-18"


class Upstream(asyncio.Protocol):
    """One connection. All connections share the counter."""

    calls = 0
    events = 0
    # Whether events are taken: a log that is stopped closes the connection.
    logs = True

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = b""

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
            start = end + 4
            if headers.get("transfer-encoding") == "chunked":
                whole = unchunked(self.buffer[start:])
                if whole is None:
                    return
                body, taken = whole
            else:
                taken = int(headers.get("content-length", 0))
                body = self.buffer[start : start + taken]
                if len(body) < taken:
                    return
            self.buffer = self.buffer[start + taken :]
            method, path, _ = head[0].split(" ", 2)
            answer = self.answer(method, path, body)
            if answer is None:
                self.transport.abort()
                return
            self.transport.write(response(*answer))

    def answer(self, method, path, body):
        if path == "/calls":
            return 200, {"calls": Upstream.calls, "events": Upstream.events}
        if method != "POST":
            return 405, None
        if path in ("/logs/stop", "/logs/start"):
            Upstream.logs = path == "/logs/start"
            return 200, {}
        if path == "/logs" and not Upstream.logs:
            return None
        message = json.loads(body)
        if path == "/logs":
            Upstream.events += len(message) if isinstance(message, list) else 1
            return 200, {}
        if path.endswith("/chat/completions"):
            Upstream.calls += 1
            return 200, completion(message)
        if not isinstance(message, dict) or "id" not in message:
            return 202, None
        result = self.result(message)
        if result is None:
            error = {"code": -32601, "message": "this server has no such method"}
            return 200, {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def result(self, message):
        params = message.get("params") or {}
        match message.get("method"):
            case "initialize":
                version = params.get("protocolVersion", NEWEST)
                return {
                    "protocolVersion": min(version, NEWEST),
                    "capabilities": {"tools": {"listChanged": False}},
                    "serverInfo": {"name": "say", "version": "1.0.0"},
                }
            case "tools/list":
                return {"tools": [TOOL]}
            case "tools/call":
                Upstream.calls += 1
                text = (params.get("arguments") or {}).get("text", "")
                return {"content": [{"type": "text", "text": text}], "isError": False}
            case "ping":
                return {}
            case "resources/list":
                return {"resources": []}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case "prompts/list":
                return {"prompts": []}
            case _:
                return None


def completion(request):
    """The last message of the conversation, as the model's answer."""
    text = request["messages"][-1]["content"]
    text = text if isinstance(text, str) else "".join(part.get("text", "") for part in text)
    return {
        "id": f"chatcmpl-{Upstream.calls}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": request["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 60, "total_tokens": 120},
    }


def unchunked(data):
    """The body and the bytes that it took, or None while a part is missing."""
    body, at = b"", 0
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(data[at:line].split(b";")[0], 16)
        at = line + 2
        if len(data) < at + size + 2:
            return None
        body += data[at : at + size]
        at += size + 2
        if size == 0:
            return body, at


def response(status, value):
    body = b"" if value is None else json.dumps(value).encode()
    kind = b"content-type: application/json\r\n" if body else b""
    return b"HTTP/1.1 %d OK\r\n%scontent-length: %d\r\n\r\n%s" % (status, kind, len(body), body)


async def main():
    loop = asyncio.get_running_loop()
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = await loop.create_server(Upstream, "127.0.0.1", port)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}/mcp"}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
