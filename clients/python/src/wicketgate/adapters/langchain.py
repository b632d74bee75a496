"""Tools of a gate for LangChain and LangGraph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.tools import StructuredTool

from ..client import Run
from .governed import Governed, governed, text


def tools(
    run: Run, names: Iterable[str] | None = None, *, wait: float = 0.0, raises: bool = False
) -> list[StructuredTool]:
    """The tools of a run, or those of these names, for `create_agent(tools=…)` or `bind_tools`.

    A denial is a text that the model goes on from; with `raises` it is an error that ends the agent's run. A held call is
    waited for `wait` seconds.
    """
    return [_tool(one) for one in governed(run, names, wait, raises)]


def _tool(one: Governed) -> StructuredTool:
    def invoke(**arguments: Any) -> str:
        return text(one.call(arguments))

    async def ainvoke(**arguments: Any) -> str:
        return text(await one.acall(arguments))

    return StructuredTool(
        name=one.name,
        description=one.tool.description,
        args_schema=one.schema,
        func=invoke,
        coroutine=ainvoke,
    )
