"""framework.py openai_agents|pydantic_ai|langchain [observed]: an agent whose model reads a note, asks for payroll, and writes a note
that a person has to approve. Prints what its model read, and its last answer. `observed`: the model is asked through the gate, in the
same run."""

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

    written = call("notes_write", path=f"held-{framework}.md", content="x")
    return {
        "rules": [
            {"when": {"results": 0}, "answer": call("notes_read", path="todo.md")},
            {"when": {"results": 1}, "answer": call("notes_read", path="payroll.md")},
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


def openai_agents(tools, client):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("scripted-1", AsyncOpenAI(**client))
    agent = Agent(name="clients", instructions="Keep the notes.", model=model, tools=tools)
    return asyncio.run(Runner.run(agent, PROMPT, max_turns=6)).final_output


def pydantic_ai(tools, client):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("scripted-1", provider=OpenAIProvider(**client))
    return Agent(model, instructions="Keep the notes.", tools=tools).run_sync(PROMPT).output


def langchain(tools, client):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(**client, model="scripted-1")
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
        observed = "observed" in sys.argv
        client = run.openai() if observed else {"base_url": f"{PROVIDER}/v1", "api_key": "k"}
        tools = [tool.name for tool in run.tools() if tool.name.startswith("notes.")]
        final = agent(adapter.tools(run, tools, wait=60), client)
        said = {"final": final, "results": results()}
        if observed:
            # The model asked for none of this.
            try:
                run.call("notes.write", path="held-alone.md", content="x")
            except Denied as why:
                said["alone"] = why.cause
        provider("/script", script(framework))
        try:
            agent(adapter.tools(run, ["notes.read"], raises=True), client)
        except Exception as why:  # noqa: BLE001 - each framework has its own
            said["raised"] = inner(why)
    print(json.dumps(said))


main()
