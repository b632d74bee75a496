"""What becomes of annotations, and of functions that cannot be tools; needs no gate."""

import dataclasses
import enum
import sys
import types
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from wicketgate import tool
from wicketgate.functions import DECLARED, unwrapped
from wicketgate.schema import arguments_of, value_of
from wicketgate.serve import result_of


class Colour(enum.Enum):
    RED = "red"


class Where(TypedDict):
    street: str


@dataclasses.dataclass
class Person:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list)


def everything(
    text: str,
    number: Annotated[int, "how many"],
    ratio: float,
    colour: Colour,
    where: Where,
    person: Person,
    choice: Literal["a", "b"],
    table: dict[str, int],
    maybe: Optional[str] = None,
    either: Union[int, str] = 1,
    anything: Any = 1,
) -> None:
    """Has every kind of argument."""


def schemas():
    schema = arguments_of(everything)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["text", "number", "ratio", "colour", "where", "person", "choice", "table"]
    closed = {"type": "object", "additionalProperties": False}
    assert schema["properties"] == {
        "text": {"type": "string"},
        "number": {"type": "integer", "description": "how many"},
        "ratio": {"type": "number"},
        "colour": {"enum": ["red"]},
        "where": {**closed, "properties": {"street": {"type": "string"}}, "required": ["street"]},
        "person": {
            **closed,
            "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["name"],
        },
        "choice": {"enum": ["a", "b"]},
        "table": {"type": "object", "additionalProperties": {"type": "integer"}},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 1},
        "anything": {"default": 1},
    }, schema


def values():
    assert value_of(list[Person], [{"name": "a", "tags": ["x"]}]) == [Person("a", ["x"])]
    assert value_of(Colour, "red") is Colour.RED
    assert value_of(Optional[Person], {"name": "a"}) == Person("a") and value_of(Optional[Person], None) is None
    # What a function returns comes back as it was, also if it looks like the object that wraps it.
    for value in ["text", 3, None, [1], {"a": 1}, {"result": 1}, '{"result": 1}', {"result": '{"result": 1}'}]:
        assert unwrapped(result_of(value)) == value, value
    assert unwrapped(result_of(Person("a"))) == {"name": "a", "tags": []}


def untyped(a):
    """Has no type."""


def spread(*args: str):
    """Has no names."""


def strange(a: types.ModuleType):
    """Has a type that JSON has not."""


def refusals():
    for function, why in [(untyped, "annotate it"), (spread, "no name of its own"), (strange, "without a JSON Schema")]:
        refused(lambda function=function: tool(tier="T1")(function), why)
    refused(lambda: tool(tier="T9"), "write one of T0, T1, T2, T3")
    refused(lambda: tool(tier="T1", server="No Such")(everything), "a server is")
    tool(tier="T1", server="one")(everything)
    refused(lambda: tool(tier="T1", server="one")(everything), "declared twice")
    assert list(DECLARED["one"]) == ["everything"]


def refused(work, why):
    try:
        work()
    except (TypeError, ValueError) as error:
        assert why in str(error), error
        return
    sys.exit(f"not refused: {why}")


schemas()
values()
refusals()
