"""Functions as tools: what the gate starts has their bodies."""

import contextlib
import dataclasses
import os
import pathlib
from typing import Annotated, Literal

from wicketgate import sandbox, tool

sandbox("desk")


@dataclasses.dataclass
class Letter:
    to: str
    lines: list[str]


@tool(tier="T1")
def process(text: str) -> dict:
    """Where this body runs, and what it can do there."""
    print("a line that is no answer")
    with contextlib.suppress(OSError):
        pathlib.Path(os.environ["PYTHONPATH"].split(":")[0], "written").write_text(text)
    return {"pid": os.getpid(), "token": os.environ.get("WICKETGATE_TOKEN_FILE"), "text": text}


@tool(tier="T0", read_only=True)
async def count(letter: Letter, unit: Annotated[Literal["words", "lines"], "what to count"] = "words") -> int:
    """Counts a letter."""
    return len(letter.lines) if unit == "lines" else sum(len(line.split()) for line in letter.lines)


@tool(tier="T1")
def fails(text: str) -> str:
    """Always fails."""
    raise ValueError(f"no {text}")
