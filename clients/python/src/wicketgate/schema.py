"""JSON Schemas of the arguments of functions, from their annotations."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    list: {"type": "array"},
    dict: {"type": "object"},
}
LISTS = (list, set, frozenset, collections.abc.Sequence)
MAPPINGS = (dict, collections.abc.Mapping)


def arguments_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of a function's arguments: an object without other members."""
    hints = get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        where = f"`{function.__name__}`: the argument `{name}`"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where} has no name of its own: a tool has neither *args nor **kwargs")
        if name not in hints:
            raise TypeError(f"{where} has no type: annotate it, for example `{name}: str`")
        properties[name] = schema_of(hints[name], where)
        if parameter.default is parameter.empty:
            required.append(name)
        elif parameter.default is None or isinstance(parameter.default, (str, int, float, bool)):
            properties[name] = {**properties[name], "default": parameter.default}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def schema_of(kind: Any, where: str) -> dict[str, Any]:
    """The schema of a type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        texts = [one for one in args[1:] if isinstance(one, str)]
        return {**schema_of(args[0], where), **({"description": texts[0]} if texts else {})}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one, where) for one in args]}
    if origin in LISTS or (origin is tuple and len(args) == 2 and args[1] is ...):
        return {"type": "array", "items": schema_of(args[0], where)}
    if origin in MAPPINGS and args[0] is str:
        return {"type": "object", "additionalProperties": schema_of(args[1], where)}
    if origin is None and kind in PLAIN:
        return dict(PLAIN[kind])
    if isinstance(kind, type):
        made = _of_class(kind, where)
        if made is not None:
            return made
    raise TypeError(f"{where} has a type without a JSON Schema: {kind!r}; write a plain type or a dataclass")


def _of_class(kind: Any, where: str) -> dict[str, Any] | None:
    if issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind]}
    if typing.is_typeddict(kind):
        return _object(get_type_hints(kind), kind.__required_keys__, where)
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        fields = dataclasses.fields(kind)
        needed = {one.name for one in fields if one.default is missing and one.default_factory is missing}
        return _object(get_type_hints(kind), needed, where)
    if hasattr(kind, "model_json_schema"):
        schema = kind.model_json_schema()
        return schema if isinstance(schema, dict) else None
    return None


def _object(hints: Mapping[str, Any], required: Any, where: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: schema_of(kind, f"{where}, `{name}`") for name, kind in hints.items()},
        "required": [name for name in hints if name in required],
        "additionalProperties": False,
    }


def value_of(kind: Any, value: Any) -> Any:
    """A JSON value as the type that the function asks for: dataclasses, enums and models are made of it."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return value_of(args[0], value)
    if origin in (Union, types.UnionType):
        return _of_union(args, value)
    if isinstance(value, list) and args and (origin in LISTS or origin is tuple):
        made = [value_of(args[0], one) for one in value]
        return origin(made) if origin in (set, frozenset, tuple) else made
    if isinstance(value, dict) and args and origin in MAPPINGS:
        return {name: value_of(args[1], one) for name, one in value.items()}
    if isinstance(kind, type) and origin is None:
        if issubclass(kind, enum.Enum):
            return kind(value)
        if dataclasses.is_dataclass(kind) and isinstance(value, dict):
            hints = get_type_hints(kind)
            return kind(**{name: value_of(hints[name], one) for name, one in value.items()})
        if hasattr(kind, "model_validate"):
            return kind.model_validate(value)
    return value


def _of_union(kinds: Sequence[Any], value: Any) -> Any:
    for kind in kinds:
        try:
            made = value_of(kind, value)
        except (TypeError, ValueError, KeyError):
            continue
        if not isinstance(kind, type) or isinstance(made, kind):
            return made
    return value
