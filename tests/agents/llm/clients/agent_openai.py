"""openai-agents: whole agent runs over chat completions and responses."""

import json

import facts as shared
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel


class Answer(BaseModel):
    reasoning: str
    answer: int
    checked: bool


async def run(facts, model):
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{shared.URL}/v1", api_key=shared.KEY)
    kind = facts.task["task"]
    tools = [function_tool(tool) for tool in shared.functions(facts)] if kind == "tools" else []
    agent = Agent(
        name="conformance",
        instructions=shared.INSTRUCTIONS,
        model=model(shared.MODEL, client),
        model_settings=ModelSettings(store=False),
        tools=tools,
        output_type=Answer if kind == "structured" else None,
    )
    if facts.stream:
        done = Runner.run_streamed(agent, shared.PROMPT, max_turns=shared.TURNS)
        async for event in done.stream_events():
            raw = getattr(event, "data", None)
            if getattr(raw, "type", None) == "response.output_text.delta":
                facts.more(raw.delta)
    else:
        done = await Runner.run(agent, shared.PROMPT, max_turns=shared.TURNS)
    for item in done.new_items:
        if item.type == "tool_call_item":
            facts.call(item.raw_item.name, item.raw_item.arguments)
        elif item.type == "tool_call_output_item":
            facts.results.append(item.output)
    facts.text = str(done.final_output) if kind != "structured" else facts.text
    if kind == "structured":
        facts.text = None
        facts.structured = shared.one_line(json.loads(done.final_output.model_dump_json()))


async def chat(facts):
    await run(facts, OpenAIChatCompletionsModel)


async def responses(facts):
    await run(facts, OpenAIResponsesModel)


shared.main("openai-agents", {"chat": chat, "responses": responses})
