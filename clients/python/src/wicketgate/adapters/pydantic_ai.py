"""Tools of a gate for pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_ai import Tool

from ..client import Run
from .governed import Governed, governed


def tools(
    run: Run, names: Iterable[str] | None = None, *, wait: float = 0.0, raises: bool = False
) -> list[Tool[Any]]:
    """The tools of a run, or those of these names, for `Agent(tools=…)`.

    A denial is a text that the model goes on from; with `raises` it is an error that ends the agent's run. A held call is
    waited for `wait` seconds.
    """
    return [_tool(one) for one in governed(run, names, wait, raises)]


def _tool(one: Governed) -> Tool[Any]:
    async def invoke(**arguments: Any) -> Any:
        return await one.acall(arguments)

    made: Tool[Any] = Tool.from_schema(
        invoke, name=one.name, description=one.tool.description, json_schema=one.schema, takes_ctx=False
    )
    return made
