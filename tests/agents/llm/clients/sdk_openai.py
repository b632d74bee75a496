"""openai-python: chat completions and responses, with a tool loop by hand."""

import facts as shared
from openai import OpenAI
from pydantic import BaseModel


class Answer(BaseModel):
    reasoning: str
    answer: int
    checked: bool


def client():
    return OpenAI(base_url=f"{shared.URL}/v1", api_key=shared.KEY)


# --- chat ---


def chat_turn(asked, facts):
    """One answer as a message: whole, or put together from its deltas by the SDK."""
    if facts.task["task"] == "structured":
        asked = asked | {"response_format": Answer}
    if not facts.stream:
        parse = facts.task["task"] == "structured"
        completions = client().chat.completions
        done = completions.parse(**asked) if parse else completions.create(**asked)
        facts.more(done.choices[0].message.content)
        return done.choices[0]
    with client().chat.completions.stream(**asked) as stream:
        for event in stream:
            if event.type == "content.delta":
                facts.more(event.delta)
        return stream.get_final_completion().choices[0]


async def chat(facts):
    messages = [
        {"role": "system", "content": shared.INSTRUCTIONS},
        {"role": "user", "content": shared.PROMPT},
    ]
    asked = {"model": shared.MODEL, "messages": messages}
    if facts.task["task"] == "tools":
        asked["tools"] = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
            for name, (text, schema) in shared.TOOLS.items()
        ]
    for _ in range(shared.TURNS):
        facts.text = None
        choice = chat_turn(asked, facts)
        facts.stop = choice.finish_reason
        if facts.task["task"] == "structured":
            facts.structured = shared.one_line(choice.message.content)
            assert choice.message.parsed.answer == 42
        calls = choice.message.tool_calls or []
        if not calls:
            return
        messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in calls:
            facts.call(call.function.name, call.function.arguments)
            result, _ = shared.use(call.function.name, call.function.arguments)
            facts.results.append(result)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


# --- responses ---


def responses_turn(asked, facts):
    if facts.task["task"] == "structured":
        asked = asked | {"text_format": Answer}
    if not facts.stream:
        parse = facts.task["task"] == "structured"
        done = client().responses.parse(**asked) if parse else client().responses.create(**asked)
        facts.more(done.output_text)
        return done
    with client().responses.stream(**asked) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                facts.more(event.delta)
        return stream.get_final_response()


async def responses(facts):
    items = [{"role": "user", "content": shared.PROMPT}]
    asked = {"model": shared.MODEL, "instructions": shared.INSTRUCTIONS, "input": items, "store": False}
    if facts.task["task"] == "tools":
        asked["tools"] = [
            {"type": "function", "name": name, "description": text, "parameters": schema, "strict": True}
            for name, (text, schema) in shared.TOOLS.items()
        ]
    for _ in range(shared.TURNS):
        facts.text = None
        done = responses_turn(asked, facts)
        facts.stop = done.status
        if facts.task["task"] == "structured":
            facts.structured = shared.one_line(done.output_text)
            assert done.output_parsed.answer == 42
        calls = [item for item in done.output if item.type == "function_call"]
        if not calls:
            return
        for call in calls:
            facts.call(call.name, call.arguments)
            result, _ = shared.use(call.name, call.arguments)
            facts.results.append(result)
            call = {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
            items.append(call)
            items.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})


shared.main("openai", {"chat": chat, "responses": responses})
