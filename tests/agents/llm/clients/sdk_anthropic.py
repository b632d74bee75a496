"""anthropic-python: messages, with a tool loop by hand."""

import facts as shared
from anthropic import Anthropic
from pydantic import BaseModel


class Answer(BaseModel):
    reasoning: str
    answer: int
    checked: bool


def turn(asked, facts):
    # A token and not a key: so it is sent as a bearer.
    messages = Anthropic(base_url=shared.URL, auth_token=shared.KEY).messages
    structured = facts.task["task"] == "structured"
    if structured:
        asked = asked | {"output_format": Answer}
    if not facts.stream:
        done = messages.parse(**asked) if structured else messages.create(**asked)
        facts.more("".join(block.text for block in done.content if block.type == "text"))
        return done
    with messages.stream(**asked) as stream:
        for text in stream.text_stream:
            facts.more(text)
        return stream.get_final_message()


async def messages(facts):
    said = [{"role": "user", "content": shared.PROMPT}]
    asked = {"model": shared.MODEL, "max_tokens": 256, "system": shared.INSTRUCTIONS, "messages": said}
    if facts.task["task"] == "tools":
        asked["tools"] = [
            {"name": name, "description": text, "input_schema": schema} for name, (text, schema) in shared.TOOLS.items()
        ]
    for _ in range(shared.TURNS):
        facts.text = None
        done = turn(asked, facts)
        facts.stop = done.stop_reason
        if facts.task["task"] == "structured":
            facts.structured = shared.one_line(facts.text)
            assert done.parsed_output.answer == 42
        calls = [block for block in done.content if block.type == "tool_use"]
        if not calls:
            return
        results = []
        for call in calls:
            facts.call(call.name, call.input)
            result, wrong = shared.use(call.name, shared.one_line(call.input))
            facts.results.append(result)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": result, "is_error": wrong})
        content = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in done.content]
        said.append({"role": "assistant", "content": content})
        said.append({"role": "user", "content": results})


shared.main("anthropic", {"messages": messages})
