"""pydantic-ai: a whole agent run, whose model is a function that makes the task's calls and keeps what it was answered."""

import facts
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


async def run(task):
    calls, tools, seen = task["calls"], [], []

    async def model(messages, info):
        tools[:] = [tool.name for tool in info.function_tools]
        parts = [part for message in messages for part in message.parts]
        seen[:] = [part for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart))]
        if len(seen) < len(calls):
            call = calls[len(seen)]
            return ModelResponse(parts=[ToolCallPart(call["name"], call["arguments"])])
        return ModelResponse(parts=[TextPart("done")])

    if task.get("command"):
        transport = StdioTransport(command=task["command"][0], args=task["command"][1:])
    else:
        transport = StreamableHttpTransport(task["url"], headers=facts.headers(task))
    toolset = MCPToolset(transport)
    agent = Agent(FunctionModel(model), toolsets=[toolset], retries=len(calls))
    async with agent:
        await agent.run("go")
    facts_of = [
        {
            "name": call["name"],
            "is_error": isinstance(part, RetryPromptPart) or part.outcome != "success",
            "text": part.content if isinstance(part.content, str) else repr(part.content),
        }
        for call, part in zip(calls, seen, strict=True)
    ]
    return {"protocol": None, "tools": tools, "calls": facts_of}


facts.main("pydantic-ai-slim", run)
