"""Callers of one MCP server or model: each has a session of its own, makes one call at a time and checks every answer.

    callers.py '{"url", "headers", "tool" or "model", "callers", "seconds", "pid"?}'

`{caller}` in the URL is the number of the caller. With "list": true, only the names of the server's tools.

One JSON line: calls that were answered as they should be, the seconds they took, the processor time of the gateway's process
tree (`pid`) meanwhile, the latency in milliseconds, and the first words of each kind of answer that was another.
"""

import asyncio
import json
import sys
import time
import urllib.parse

import tree

PROSE = (
    "The order of the customer was checked and confirmed, and the parcel leaves the warehouse on Monday. Please tell the "
    "customer that the invoice follows by mail, and that the old address is not used any more. Thank you for your help."
)


class Refused(Exception):
    """An answer that is not the tool's."""


class Connection:
    """One connection that stays open."""

    def __init__(self, url, headers):
        self.address = urllib.parse.urlsplit(url)
        self.headers = dict(headers)
        self.number = 0
        self.writer = None

    async def send(self, message):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.address.hostname, self.address.port)
        try:
            return await self.exchange(message)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            self.close()
            raise Refused(f"connection: {error}") from error

    async def exchange(self, message):
        body = json.dumps(message).encode()
        lines = [
            f"POST {self.address.path} HTTP/1.1",
            f"host: {self.address.netloc}",
            "content-type: application/json",
            "accept: application/json, text/event-stream",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        status = int((await self.reader.readuntil(b"\r\n")).split(b" ")[1])
        headers = {}
        while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if "mcp-session-id" in headers:
            self.headers["mcp-session-id"] = headers["mcp-session-id"]
        if headers.get("transfer-encoding", "").lower() == "chunked":
            answer = await self.chunks()
        else:
            answer = await self.reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, answer

    async def chunks(self):
        whole = b""
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            whole += (await self.reader.readexactly(size + 2))[:size]
            if size == 0:
                return whole

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None


class Model(Connection):
    """Requests to a model, each a conversation of its own."""

    async def open(self):
        pass

    async def call(self, model, text):
        status, body = await self.send({"model": model, "messages": [{"role": "user", "content": text}]})
        said = None
        if status == 200:
            said = json.loads(body)["choices"][0]["message"]["content"]
        if said != text:
            raise Refused(f"{status} {body[:300].decode('utf-8', 'replace')}")


class Session(Connection):
    """One MCP session."""

    async def open(self):
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "benches-peers", "version": "1"},
        }
        result = await self.ask("initialize", hello)
        self.headers["mcp-protocol-version"] = result["protocolVersion"]
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, tool, text):
        result = await self.ask("tools/call", {"name": tool, "arguments": {"text": text}})
        said = "".join(part.get("text", "") for part in result.get("content", []))
        if result.get("isError") or said != text:
            raise Refused(said)

    async def ask(self, method, params):
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        status, body = await self.send(request)
        for message in messages(body):
            if message.get("id") == self.number:
                if "result" in message:
                    return message["result"]
                raise Refused(json.dumps(message["error"]))
        raise Refused(f"{status} {body[:300].decode('utf-8', 'replace')}")


def messages(body):
    """The JSON-RPC messages of a body: one document, or the events of a stream."""
    text = body.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        return [json.loads(text)]
    lines = (line[5:].strip() for line in text.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line]


async def opened(task, which, facts):
    """A caller's session, or nothing if the gateway refuses it one."""
    kind = Model if "model" in task else Session
    session = kind(task["url"].replace("{caller}", str(which)), task["headers"])
    try:
        await session.open()
    except (Refused, OSError, ValueError, KeyError) as error:
        note(facts, error)
        return None
    return session


async def calls(task, which, session, until, facts):
    target, number = task.get("model") or task["tool"], 0
    while (began := time.perf_counter()) < until:
        number += 1
        text = f"{PROSE} {which}.{number}"
        try:
            await asyncio.wait_for(session.call(target, text), 30)
            facts["latencies"].append(time.perf_counter() - began)
        except (Refused, OSError, TimeoutError, ValueError, KeyError) as error:
            note(facts, error)
            # A gateway that refuses at once is not asked as fast as possible.
            await asyncio.sleep(0.05)
    session.close()


def note(facts, error):
    facts["failed"] += 1
    words = str(error)[:300] or type(error).__name__
    if len(facts["errors"]) < 5 and words[:40] not in (known[:40] for known in facts["errors"]):
        facts["errors"].append(words)


async def listed(task):
    """The names of the tools that a server shows."""
    session = Session(task["url"], task["headers"])
    await session.open()
    tools = (await session.ask("tools/list", {}))["tools"]
    session.close()
    return [tool["name"] for tool in tools]


def cpu(task):
    """Processor time of the gateway's process tree, if there is a gateway."""
    return tree.cpu_seconds(task["pid"]) if task.get("pid") else 0.0


async def main():
    task = json.loads(sys.argv[1])
    if task.get("list"):
        print(json.dumps(await listed(task)))
        return
    facts = {"latencies": [], "failed": 0, "errors": []}
    everyone = range(task["callers"])
    sessions = await asyncio.gather(*(opened(task, which, facts) for which in everyone))
    # Sessions are open before anything is measured.
    used, began = cpu(task), time.perf_counter()
    until = began + task["seconds"]
    running = [calls(task, which, session, until, facts) for which, session in zip(everyone, sessions) if session]
    await asyncio.gather(*running)
    took, used = time.perf_counter() - began, cpu(task) - used
    latencies = sorted(facts.pop("latencies"))
    at = lambda part: round(latencies[min(len(latencies) - 1, int(len(latencies) * part))] * 1000, 2) if latencies else None
    print(
        json.dumps(
            facts
            | {"calls": len(latencies), "seconds": took, "cpu_seconds": used, "p50_ms": at(0.5), "p99_ms": at(0.99)}
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
