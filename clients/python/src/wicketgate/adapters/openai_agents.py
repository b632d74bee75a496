"""Tools of a gate for openai-agents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from ..client import Run
from .governed import Governed, governed, text


def tools(
    run: Run, names: Iterable[str] | None = None, *, wait: float = 0.0, raises: bool = False
) -> list[FunctionTool]:
    """The tools of a run, or those of these names, for `Agent(tools=…)`.

    A denial is a text that the model goes on from; with `raises` it is an error that ends the agent's run. A held call is
    waited for `wait` seconds.
    """
    return [_tool(one) for one in governed(run, names, wait, raises)]


def _tool(one: Governed) -> FunctionTool:
    async def invoke(_: ToolContext[Any], arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError as why:
            return f"The arguments are no JSON: {why}. Correct them."
        return text(await one.acall(given))

    return FunctionTool(
        name=one.name,
        description=one.tool.description,
        params_json_schema=one.schema,
        on_invoke_tool=invoke,
        # The gate compares the arguments with the schema as it stands.
        strict_json_schema=False,
    )
