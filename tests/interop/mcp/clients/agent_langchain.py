"""langchain-mcp-adapters: the server's tools as LangChain tools, each invoked as an agent's graph would invoke it."""

import facts
from langchain_core.messages import ToolCall
from langchain_mcp_adapters.client import MultiServerMCPClient


async def run(task):
    if task.get("command"):
        server = {"transport": "stdio", "command": task["command"][0], "args": task["command"][1:]}
    else:
        server = {"transport": "streamable_http", "url": task["url"], "headers": facts.headers(task)}
    client = MultiServerMCPClient({"interop": server})
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def one(name, arguments):
        call = ToolCall(name=name, args=arguments, id="c0", type="tool_call")
        message = await tools[name].ainvoke(call)
        content = message.content
        text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        return {"name": name, "is_error": message.status == "error", "text": text}

    return {"protocol": None, "tools": list(tools), "calls": await facts.each(task["calls"], one)}


facts.main("langchain-mcp-adapters", run)
