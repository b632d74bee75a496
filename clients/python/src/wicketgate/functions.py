"""Functions as tools. The body runs in a process that the gate starts; the agent's process has a stub.

    @tool(tier="T1")
    def count_words(text: str) -> dict:
        "Counts the words of a text."
        return {"words": len(text.split())}

In the agent's process, `count_words(text="a b")` is a call at the gate. The stub does not even keep the body: nothing in
the environment can make it run there. Only `python -m wicketgate serve MODULE`, which the gate starts, keeps bodies.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ._models import Problem
from .errors import ToolFailed
from .schema import arguments_of

if TYPE_CHECKING:
    from .client import Answer

P = ParamSpec("P")
R = TypeVar("R")

# Set by `serve` before it imports a module, and by nothing else.
_serving = False

SERVER = re.compile(r"[a-z0-9_-]{1,32}")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
TIERS = ("T0", "T1", "T2", "T3")


@dataclass(frozen=True)
class Declared:
    """A function that is a tool."""

    server: str
    name: str
    description: str
    tier: str
    read_only: bool
    idempotent: bool
    timeout_ms: int | None
    schema: dict[str, Any]
    # Only in the process that the gate starts.
    body: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def qualified(self) -> str:
        """The name at the gate."""
        return f"{self.server}.{self.name}"


@dataclass(frozen=True)
class Sandbox:
    """What the process of a server's functions may reach: as `servers[].stdio.sandbox` of the gate."""

    level: str = "S2"
    read: Sequence[str] = ()
    write: Sequence[str] = ()
    hosts: Sequence[str] = ()
    memory_bytes: int | None = None


DECLARED: dict[str, dict[str, Declared]] = {}
SANDBOXES: dict[str, Sandbox] = {}


def server_of(module: str, file: str | None = None) -> str:
    """The name of the server that a module's functions are tools of."""
    stem = os.path.splitext(os.path.basename(file))[0] if module == "__main__" and file else module.rsplit(".", 1)[-1]
    return re.sub(r"[^a-z0-9_-]", "-", stem.lower())[:32] or "tools"


def sandbox(
    server: str,
    *,
    level: str = "S2",
    read: Sequence[str] = (),
    write: Sequence[str] = (),
    hosts: Sequence[str] = (),
    memory_bytes: int | None = None,
) -> None:
    """Declares what the functions of a server need. `describe` writes it for the gate, which gives nothing else."""
    SANDBOXES[server] = Sandbox(level, tuple(read), tuple(write), tuple(hosts), memory_bytes)


def tool(
    *,
    tier: str | None = None,
    name: str | None = None,
    server: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    timeout_ms: int | None = None,
    wait: float = 0.0,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Marks a function as a tool of this tier, from `T0` (harmless) to `T3` (irreversible).

    One that is `read_only` is of `T0` unless it says otherwise; any other names its tier.
    `wait` is how many seconds a caller waits if the call is held for approvers.
    """
    if tier is None and not read_only:
        raise ValueError('a tool that may change something names its tier: `@tool(tier="T1")`; one that only reads: `@tool(read_only=True)`')
    tier = tier or TIERS[0]
    if tier not in TIERS:
        raise ValueError(f"tier `{tier}`: write one of {', '.join(TIERS)}")

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        module = sys.modules.get(function.__module__)
        declared = Declared(
            server=server or server_of(function.__module__, getattr(module, "__file__", None)),
            name=name or function.__name__,
            description=inspect.cleandoc(function.__doc__ or function.__name__),
            tier=tier,
            read_only=read_only,
            idempotent=idempotent,
            timeout_ms=timeout_ms,
            schema=arguments_of(function),
            body=function if _serving else None,
        )
        if not SERVER.fullmatch(declared.server) or not NAME.fullmatch(declared.name):
            raise ValueError(f"`{declared.qualified}`: a server is [a-z0-9_-]{{1,32}}, a name [A-Za-z0-9_-]{{1,64}}")
        others = DECLARED.setdefault(declared.server, {})
        if declared.name in others:
            raise ValueError(f"`{declared.qualified}` is declared twice: give one of them another name")
        others[declared.name] = declared
        return _stub(function, declared, wait)

    return mark


def _stub(function: Callable[P, R], declared: Declared, wait: float) -> Callable[P, R]:
    # Nothing here may keep `function`: what the stub does not have it cannot run.
    signature = inspect.signature(function)

    def arguments(args: Any, named: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        return {name: json_of(value) for name, value in bound.arguments.items()}

    if inspect.iscoroutinefunction(function):

        async def later(*args: Any, **named: Any) -> Any:
            from .client import current_run

            run = await _apart(current_run)
            return returned(await run.acall(declared.qualified, arguments(args, named), wait=wait))

        stub: Any = later
    else:

        def now(*args: Any, **named: Any) -> Any:
            from .client import current_run

            return returned(current_run().call(declared.qualified, arguments(args, named), wait=wait))

        stub = now
    # `functools.wraps` would keep the body in `__wrapped__`.
    assigned = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")
    functools.update_wrapper(stub, function, assigned=assigned, updated=())
    del stub.__wrapped__
    stub.__signature__ = signature
    stub.wicketgate = declared
    return cast("Callable[P, R]", stub)


async def _apart(work: Callable[[], R]) -> R:
    # It may have to open a run.
    return await asyncio.to_thread(work)


def returned(answer: Answer) -> Any:
    """What a function returned; `ToolFailed` if it raised."""
    if answer.is_error:
        problem = {"type": "about:blank", "title": "", "status": 502, "code": "tool.failed", "retry": "no",
                   "detail": answer.text, "call_id": answer.call_id}
        raise ToolFailed(Problem.of(problem))
    return unwrapped(answer.result)


def json_of(value: Any) -> Any:
    """A value as JSON: dataclasses, enums and models as what they hold."""
    if isinstance(value, enum.Enum):
        return json_of(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: json_of(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {name: json_of(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_of(one) for one in value]
    return value


def unwrapped(result: Any) -> Any:
    """What the function returned, out of the result of an MCP tool."""
    if not isinstance(result, dict) or "content" not in result or "structuredContent" not in result:
        return result
    value = result["structuredContent"]
    if isinstance(value, dict) and value.keys() == {"result"} and _text(result) != value:
        return value["result"]
    return value


def _text(result: dict[str, Any]) -> Any:
    # MCP carries only objects as values, so another value is wrapped in one; the text beside it is never wrapped.
    try:
        return json.loads(result["content"][0]["text"])
    except (LookupError, TypeError, ValueError):
        return None
