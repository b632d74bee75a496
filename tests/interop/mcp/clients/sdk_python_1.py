"""The Python SDK, 1.x, over streamable HTTP or stdio."""

import contextlib

import facts
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def run(task):
    async with contextlib.AsyncExitStack() as stack:
        if task.get("command"):
            server = stdio_client(StdioServerParameters(command=task["command"][0], args=task["command"][1:]))
        else:
            server = streamablehttp_client(task["url"], headers=facts.headers(task))
        streams = await stack.enter_async_context(server)
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        hello = await session.initialize()
        tools = await session.list_tools()

        async def one(name, arguments):
            return facts.result(name, await session.call_tool(name, arguments))

        return {
            "protocol": hello.protocolVersion,
            "tools": [tool.name for tool in tools.tools],
            "calls": await facts.each(task["calls"], one),
        }


facts.main("mcp", run)
