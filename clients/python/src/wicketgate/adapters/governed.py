"""What every adapter shares: which tools, under which names, and what the model reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._models import ToolBody
from ..client import Run
from ..errors import GateError
from ..functions import unwrapped


@dataclass(frozen=True)
class Governed:
    """One tool of the gate, as a model may name it."""

    run: Run
    tool: ToolBody
    wait: float
    raises: bool

    @property
    def name(self) -> str:
        """The gate's name with `_` for dots: providers take none, and the gate knows the name when a model is offered it."""
        return self.tool.name.replace(".", "_")

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of its arguments: an object, as providers ask."""
        schema = self.tool.input_schema if isinstance(self.tool.input_schema, dict) else {}
        return {"type": "object", "properties": {}, **schema}

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """The result, or a text that says why there is none."""
        try:
            answer = self.run.call(self.tool.name, arguments, wait=self.wait)
        except GateError as why:
            if self.raises:
                raise
            return why.for_model()
        if answer.is_error:
            return f"The tool ran and failed: {answer.text}"
        result = answer.result
        if isinstance(result, dict) and isinstance(result.get("content"), list) and "structuredContent" not in result:
            # An MCP tool without a structured result: what it wrote for the model.
            return answer.text
        return unwrapped(result)

    async def acall(self, arguments: Mapping[str, Any]) -> Any:
        """The same, for a coroutine."""
        return await self.run.in_thread(self.call, arguments)


def text(value: Any) -> str:
    """A value as a model reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def governed(run: Run, names: Iterable[str] | None, wait: float, raises: bool) -> list[Governed]:
    """The tools of a run: those of these names, or all."""
    wanted = None if names is None else list(names)
    listed = {tool.name: tool for tool in run.tools()}
    missing = [name for name in wanted or [] if name not in listed]
    if missing:
        raise LookupError(f"the manifest grants no tool `{missing[0]}`: it grants {', '.join(listed) or 'none'}")
    chosen = [Governed(run, listed[name], wait, raises) for name in (listed if wanted is None else wanted)]
    names_seen: dict[str, str] = {}
    for one in chosen:
        if names_seen.setdefault(one.name, one.tool.name) != one.tool.name:
            raise ValueError(f"`{one.tool.name}` and `{names_seen[one.name]}` have one name for models: choose one")
    return chosen
