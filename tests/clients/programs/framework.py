"""framework.py openai_agents|pydantic_ai|langchain: an agent whose model reads a note, asks for payroll, and writes a note
that a person has to approve. Prints what its model read, and its last answer."""

import asyncio
import base64
import importlib
import json
import os
import sys
import urllib.request

from wicketgate import Denied, Gate, Run

PROVIDER = os.environ["WICKETGATE_LLM_PROVIDER"]
PROMPT = "Do what you are here for."


def script(framework):
    def call(name, **arguments):
        return {"tools": [{"name": name, "arguments": arguments}]}

    written = call("notes__write", path=f"held-{framework}.md", content="x")
    return {
        "rules": [
            {"when": {"results": 0}, "answer": call("notes__read", path="todo.md")},
            {"when": {"results": 1}, "answer": call("notes__read", path="payroll.md")},
            {"when": {"results": 2}, "answer": written},
            {"when": {"results": 3}, "answer": {"text": "Done."}},
        ]
    }


def provider(path, value=None):
    data = None if value is None else json.dumps(value).encode()
    with urllib.request.urlopen(urllib.request.Request(PROVIDER + path, data=data), timeout=40) as done:
        return json.loads(done.read())


def results():
    """What the model read of its calls, out of the last request that the provider got."""
    last = json.loads(base64.b64decode(provider("/requests")["requests"][-1]["body"]))
    return [text(one["content"]) for one in last["messages"] if one["role"] == "tool"]


def text(content):
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def openai_agents(tools):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("scripted-1", AsyncOpenAI(base_url=f"{PROVIDER}/v1", api_key="k"))
    agent = Agent(name="clients", instructions="Keep the notes.", model=model, tools=tools)
    return asyncio.run(Runner.run(agent, PROMPT, max_turns=6)).final_output


def pydantic_ai(tools):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("scripted-1", provider=OpenAIProvider(base_url=f"{PROVIDER}/v1", api_key="k"))
    return Agent(model, instructions="Keep the notes.", tools=tools).run_sync(PROMPT).output


def langchain(tools):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=f"{PROVIDER}/v1", api_key="k", model="scripted-1")
    agent = create_agent(model, tools=tools, system_prompt="Keep the notes.")
    return agent.invoke({"messages": [("user", PROMPT)]})["messages"][-1].text


def inner(why):
    """The denial in what a framework raises."""
    while why is not None and not isinstance(why, Denied):
        why = why.__cause__ or why.__context__
    return why.code if why else None


def main():
    framework = sys.argv[1]
    agent, adapter = globals()[framework], importlib.import_module(f"wicketgate.adapters.{framework}")
    with Gate.from_env().open() as run:
        run.on_held = lambda why: print(json.dumps({"held": why.approval}), flush=True)
        provider("/script", script(framework))
        final = agent(adapter.tools(run, wait=60))
        said = {"final": final, "results": results()}
        provider("/script", script(framework))
        try:
            agent(adapter.tools(run, ["notes.read"], raises=True))
        except Exception as why:  # noqa: BLE001 - each framework has its own
            said["raised"] = inner(why)
    print(json.dumps(said))


main()
