"""pydantic-ai: whole agent runs over chat completions, responses and messages."""

import facts as shared
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class Answer(BaseModel):
    reasoning: str
    answer: int
    checked: bool


def facts_of(facts, messages):
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                facts.call(part.tool_name, part.args)
            elif isinstance(part, ToolReturnPart):
                facts.results.append(str(part.content))
            elif part.part_kind == "retry-prompt":
                facts.results.append(part.model_response())
        if isinstance(message, ModelResponse):
            facts.stop = message.finish_reason
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            facts.text = text or None


def listener(facts):
    """Streams the model's answers, and keeps the text that came before an error."""

    async def listen(_, events):
        async for event in events:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                facts.more(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                facts.more(event.delta.content_delta)

    return listen


async def run(facts, model):
    kind = facts.task["task"]
    tools = shared.functions(facts) if kind == "tools" else []
    output = Answer if kind == "structured" else str
    agent = Agent(model, instructions=shared.INSTRUCTIONS, tools=tools, output_type=output)
    done = await agent.run(shared.PROMPT, event_stream_handler=listener(facts) if facts.stream else None)
    facts_of(facts, done.all_messages())
    if kind == "structured":
        assert done.output.answer == 42
        # The call of its output tool is the structured output, as it came.
        facts.structured = facts.tools[-1]["arguments"] if facts.tools else shared.one_line(facts.text)


def openai():
    return OpenAIProvider(base_url=f"{shared.URL}/v1", api_key=shared.KEY)


async def chat(facts):
    await run(facts, OpenAIChatModel(shared.MODEL, provider=openai()))


async def responses(facts):
    await run(facts, OpenAIResponsesModel(shared.MODEL, provider=openai()))


async def messages(facts):
    provider = AnthropicProvider(base_url=shared.URL, api_key=shared.KEY)
    await run(facts, AnthropicModel(shared.MODEL, provider=provider))


shared.main("pydantic-ai-slim", {"chat": chat, "responses": responses, "messages": messages})
