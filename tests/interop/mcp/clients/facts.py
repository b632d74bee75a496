"""What every Python client of this folder shares: the task it reads and the facts it prints.

A client is started with one argument, a JSON object:

    {"url": "http://…/mcp", "token": "…" | null, "command": ["…"], "era": "legacy" | "auto",
     "calls": [{"name": "…", "arguments": {…}}, …]}

with either `url` or `command`. It connects, lists the tools, makes the calls in their order, and prints one JSON line:

    {"client": "mcp 2.3.0", "protocol": "…" | null, "tools": ["…"], "calls": [
        {"name": "…", "is_error": false, "text": "…", "structured": …, "meta": {…} | null}
      | {"name": "…", "raised": "…"}]}

`text` is what a model would read; `raised` is what the library threw instead of an answer.
"""

import asyncio
import importlib.metadata
import json
import sys


def headers(task):
    """What authenticates the client: a bearer token, if the task has one."""
    return {"Authorization": f"Bearer {task['token']}"} if task.get("token") else {}


def text_of(content):
    """The text parts of a tool result, one after the other."""
    return "\n".join(part.text for part in content if getattr(part, "type", None) == "text")


def result(name, answer):
    """A `CallToolResult` of either Python SDK, as facts."""
    plain = answer.model_dump(mode="json", by_alias=True)
    return {
        "name": name,
        "is_error": bool(plain.get("isError")),
        "text": text_of(answer.content),
        "structured": plain.get("structuredContent"),
        "meta": plain.get("_meta"),
    }


async def each(calls, one):
    """Makes the calls with `one(name, arguments)`; an exception is a fact, not the end."""
    done = []
    for call in calls:
        try:
            done.append(await one(call["name"], call["arguments"]))
        except Exception as error:  # noqa: BLE001 - whatever a library throws is what its user would see
            done.append({"name": call["name"], "raised": f"{type(error).__name__}: {error}"})
    return done


def main(package, run):
    """Reads the task, runs `run(task)` and prints its facts with the version of `package`."""
    task = json.loads(sys.argv[1])
    facts = asyncio.run(asyncio.wait_for(run(task), timeout=60))
    print(json.dumps({"client": f"{package} {importlib.metadata.version(package)}", **facts}))
