"""ollama-python: its chat, with a tool loop by hand."""

import facts as shared
from ollama import Client, ResponseError


def turn(said, more, facts):
    """The message of one answer, as the library delivered it."""
    asked = Client(host=shared.URL, headers={"Authorization": f"Bearer {shared.KEY}"})
    more = {"model": shared.MODEL, "messages": said, "stream": facts.stream} | more
    try:
        answers = asked.chat(**more)
    except ResponseError as error:
        # The library never asks again by itself.
        if error.status_code != 429:
            raise
        answers = asked.chat(**more)
    calls = []
    for answer in answers if facts.stream else [answers]:
        facts.more(answer.message.content)
        calls += answer.message.tool_calls or []
        facts.stop = answer.done_reason or facts.stop
    return calls


async def ollama(facts):
    said = [{"role": "system", "content": shared.INSTRUCTIONS}, {"role": "user", "content": shared.PROMPT}]
    more = {}
    if facts.task["task"] == "tools":
        more["tools"] = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
            for name, (text, schema) in shared.TOOLS.items()
        ]
    if facts.task["task"] == "structured":
        more["format"] = shared.SCHEMA
    for _ in range(shared.TURNS):
        facts.text = None
        calls = turn(said, more, facts)
        if facts.task["task"] == "structured":
            facts.structured = shared.one_line(facts.text)
        if not calls:
            return
        said.append({"role": "assistant", "content": facts.text, "tool_calls": calls})
        for call in calls:
            facts.call(call.function.name, dict(call.function.arguments))
            result, _ = shared.use(call.function.name, shared.one_line(dict(call.function.arguments)))
            facts.results.append(result)
            said.append({"role": "tool", "tool_name": call.function.name, "content": result})


shared.main("ollama", {"ollama": ollama})
