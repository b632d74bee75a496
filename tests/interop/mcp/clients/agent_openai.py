"""openai-agents: a whole agent run, whose model is a script that makes the task's calls and keeps what it was answered."""

import json

import facts
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class Script(Model):
    """Makes one call each turn, then says it is done. `seen` is what the model was given back for each."""

    def __init__(self, calls):
        self.calls, self.seen, self.tools = calls, [], []

    async def get_response(self, system_instructions, input, model_settings, tools, *rest, **more):
        self.tools = [tool.name for tool in tools]
        answers = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        self.seen = [answer["output"] for answer in answers]
        if len(answers) < len(self.calls):
            call, number = self.calls[len(answers)], len(answers)
            output = ResponseFunctionToolCall(
                type="function_call", call_id=f"c{number}", name=call["name"], arguments=json.dumps(call["arguments"])
            )
        else:
            said = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[said]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    async def stream_response(self, *args, **more):
        raise NotImplementedError
        yield


def as_text(output):
    """What a tool's output holds as text: openai-agents hands it on as a string or as a list of parts."""
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else [output]
    return "\n".join(part.get("text", "") for part in parts if isinstance(part, dict))


async def run(task):
    set_tracing_disabled(True)
    if task.get("command"):
        params = {"command": task["command"][0], "args": task["command"][1:]}
        server = MCPServerStdio(params, client_session_timeout_seconds=30)
    else:
        params = {"url": task["url"], "headers": facts.headers(task), "timeout": 30}
        server = MCPServerStreamableHttp(params, client_session_timeout_seconds=30)
    async with server:
        model = Script(task["calls"])
        agent = Agent(name="interop", instructions="Make the calls.", model=model, mcp_servers=[server])
        await Runner.run(agent, "go", max_turns=len(task["calls"]) + 2)
        calls = [
            {"name": call["name"], "text": as_text(seen)} for call, seen in zip(task["calls"], model.seen, strict=True)
        ]
        return {"protocol": None, "tools": model.tools, "calls": calls}


facts.main("openai-agents", run)
