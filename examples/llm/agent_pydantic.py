"""An agent on pydantic-ai. The gate runs its tools, and sees what its model asks for.

    agent_pydantic.py INSTRUCTIONS_FILE QUESTION

WICKETGATE_URL is the gate's address, WICKETGATE_TOKEN_FILE has the token of the agent. Needs
`pip install "pydantic-ai-slim[openai]"` and the package in `clients/python`.
"""

import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from wicketgate import Gate
from wicketgate.adapters.pydantic_ai import tools

MODEL = "gpt-5.5"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        instructions = file.read()
    with Gate.from_env().open(model=MODEL, instructions=instructions) as run:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(**run.openai()))
        agent = Agent(model, instructions=instructions, tools=tools(run))
        done = agent.run_sync(sys.argv[2])
    for message in done.all_messages():
        for part in message.parts:
            if part.part_kind == "tool-return":
                print("tool ", part.tool_name, part.content)
    print("model", done.output)
    print("run  ", run.id)


if __name__ == "__main__":
    main()
