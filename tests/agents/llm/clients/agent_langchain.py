"""langchain: agents of LangGraph and chat models over chat completions, responses and messages."""

import facts as shared
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI

ASKED = [SystemMessage(shared.INSTRUCTIONS), HumanMessage(shared.PROMPT)]


async def text(facts, model):
    if facts.stream:
        whole = None
        async for chunk in model.astream(ASKED):
            facts.more(chunk.text)
            whole = chunk if whole is None else whole + chunk
    else:
        whole = await model.ainvoke(ASKED)
        facts.more(whole.text)
    facts.stop = stop_of(whole)


def stop_of(message):
    meta = message.response_metadata
    return meta.get("finish_reason") or meta.get("stop_reason") or meta.get("status")


async def tools(facts, model):
    agent = create_agent(model, tools=shared.functions(facts), system_prompt=shared.INSTRUCTIONS)
    asked = {"messages": [HumanMessage(shared.PROMPT)]}
    if facts.stream:
        done = None
        async for mode, event in agent.astream(asked, stream_mode=["messages", "values"]):
            if mode == "messages" and isinstance(event[0], AIMessageChunk):
                facts.more(event[0].text)
            elif mode == "values":
                done = event
    else:
        done = await agent.ainvoke(asked)
    for message in done["messages"]:
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                facts.call(call["name"], call["args"])
            facts.text, facts.stop = message.text or None, stop_of(message)
        elif isinstance(message, ToolMessage):
            facts.results.append(message.text)


async def structured(facts, model):
    bound = model.with_structured_output(shared.SCHEMA, include_raw=True)
    if facts.stream:
        done = {}
        async for event in bound.astream(ASKED):
            done |= event
    else:
        done = await bound.ainvoke(ASKED)
    facts.structured = shared.one_line(done["parsed"])
    if done.get("parsing_error"):
        raise done["parsing_error"]


TASKS = {"text": text, "tools": tools, "structured": structured}


def openai(responses):
    return ChatOpenAI(
        base_url=f"{shared.URL}/v1", api_key=shared.KEY, model=shared.MODEL, use_responses_api=responses, store=False
    )


async def chat(facts):
    await TASKS[facts.task["task"]](facts, openai(False))


async def responses(facts):
    await TASKS[facts.task["task"]](facts, openai(True))


async def messages(facts):
    model = ChatAnthropic(base_url=shared.URL, api_key=shared.KEY, model=shared.MODEL, max_tokens=256)
    await TASKS[facts.task["task"]](facts, model)


shared.main("langchain", {"chat": chat, "responses": responses, "messages": messages})
