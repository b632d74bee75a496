"""The Python SDK, 2.x, over streamable HTTP or stdio, in both eras of the protocol."""

import contextlib

import facts
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def run(task):
    async with contextlib.AsyncExitStack() as stack:
        if task.get("command"):
            server = StdioServerParameters(command=task["command"][0], args=task["command"][1:])
        else:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=facts.headers(task), timeout=30))
            server = streamable_http_client(task["url"], http_client=http)
        client = await stack.enter_async_context(Client(server, mode=task.get("era", "auto"), read_timeout_seconds=30))
        tools = await client.list_tools()

        async def one(name, arguments):
            return facts.result(name, await client.call_tool(name, arguments))

        return {
            "protocol": client.protocol_version,
            "tools": [tool.name for tool in tools.tools],
            "calls": await facts.each(task["calls"], one),
        }


facts.main("mcp", run)
