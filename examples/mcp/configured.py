"""A client of MCP that takes a server from `.vscode/mcp.json`, as VS Code does, and calls its tools.

    python3 configured.py .vscode/mcp.json SERVER                              lists the tools
    python3 configured.py .vscode/mcp.json SERVER TOOL '{"path": "a"}' [TOOL …]   and calls some, one after the other

It reads what VS Code asks a person for (`${input:ID}`) from standard input, a line each. Needs `pip install mcp`.
"""

import asyncio
import json
import re
import sys

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def filled(text, asked):
    """The text with an answer in place of each input; the same input is asked for once."""

    def answer(found):
        name = found.group(1)
        if name not in asked:
            asked[name] = sys.stdin.readline().strip()
        return asked[name]

    return re.sub(r"\$\{input:([^}]+)\}", answer, text)


def server(path, name):
    """The URL and the headers of a server that is reached over HTTP."""
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    declared = {one["id"] for one in config.get("inputs", [])}
    found = config["servers"][name]
    if found.get("type") != "http":
        sys.exit(f"server `{name}` is of type `{found.get('type')}`; this client reaches servers of type `http`")
    asked = {}
    headers = {key: filled(value, asked) for key, value in found.get("headers", {}).items()}
    if unknown := set(asked) - declared:
        sys.exit(f"`inputs` does not declare {', '.join(sorted(unknown))}")
    return found["url"], headers


async def main(path, name, *calls):
    url, headers = server(path, name)
    async with create_mcp_http_client(headers=headers) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            for one in (await client.list_tools()).tools:
                print(f"{one.name}: {one.description}")
            for tool, arguments in zip(calls[::2], calls[1::2]):
                result = await client.call_tool(tool, json.loads(arguments))
                print("error " if result.is_error else "result", " ".join(part.text for part in result.content))


asyncio.run(main(*sys.argv[1:]))
