"""Functions as tools: what the gate starts has their bodies."""

import dataclasses
import os
import pathlib
from typing import Annotated, Literal

from wicketgate import sandbox, tool

WHERE = pathlib.Path(__file__).parent

sandbox("desk")


@dataclasses.dataclass
class Letter:
    to: str
    lines: list[str]


@tool(tier="T1")
def process(text: str) -> dict:
    """Where this body runs, and what it can do there."""
    print("a line that is no answer")
    try:
        pathlib.Path(os.environ["PYTHONPATH"].split(":")[0], "written").write_text(text)
        wrote = True
    except OSError:
        wrote = False
    return {"pid": os.getpid(), "token": os.environ.get("WICKETGATE_TOKEN_FILE"), "wrote": wrote, "text": text}


@tool(tier="T0", read_only=True)
async def count(letter: Letter, unit: Annotated[Literal["words", "lines"], "what to count"] = "words") -> int:
    """Counts a letter."""
    return len(letter.lines) if unit == "lines" else sum(len(line.split()) for line in letter.lines)


@tool(tier="T1")
def fails(text: str) -> str:
    """Always fails."""
    raise ValueError(f"no {text}")
