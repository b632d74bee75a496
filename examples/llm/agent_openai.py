#!/usr/bin/env python3
"""An agent on the openai library, with two tools of its own. It reaches its model through the gate: OPENAI_BASE_URL and
OPENAI_API_KEY are all that it takes from its environment.

    agent_openai.py INSTRUCTIONS PROMPT
"""

import json
import os
import pathlib
import shutil
import sys

from openai import OpenAI

FOLDER = {
    "type": "object",
    "properties": {"folder": {"type": "string"}},
    "required": ["folder"],
    "additionalProperties": False,
}


def list_folder(folder):
    return " ".join(sorted(os.listdir(folder)))


def remove_folder(folder):
    shutil.rmtree(folder)
    return f"removed {folder}"


TOOLS = {"list_folder": list_folder, "remove_folder": remove_folder}


def use(name, arguments):
    """Runs a tool. An agent has to go on if the model asks for one that it does not have: `wicketgate_denied` is the
    name that the gate gives a denied call."""
    print("tool ", name, arguments)
    return TOOLS[name](**json.loads(arguments)) if name in TOOLS else f"there is no tool {name}"


def main():
    instructions, prompt = pathlib.Path(sys.argv[1]).read_text(), sys.argv[2]
    messages = [{"role": "system", "content": instructions}, {"role": "user", "content": prompt}]
    offered = [{"type": "function", "function": {"name": name, "parameters": FOLDER}} for name in TOOLS]
    client = OpenAI()
    while True:
        done = client.chat.completions.create(model="gpt-5.5", messages=messages, tools=offered)
        message = done.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            print("model", message.content)
            return
        for call in message.tool_calls:
            result = use(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


if __name__ == "__main__":
    main()
