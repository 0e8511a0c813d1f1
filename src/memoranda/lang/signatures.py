"""A Python function in, what it takes out: its parameters, their JSON schemas, and values turned into their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import msgspec

from memoranda.errors import InvalidDefinition
from memoranda.model.text import quote, words_of

Json = dict[str, Any]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_AT = " - at `$"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a function; `annotation` is None where it has none."""

    name: str
    annotation: Any
    required: bool
    default: Any = None
    by_name: bool = True
    """Whether it can be given by its name."""


class Unfit(Exception):
    """A value that is not of its type: what was expected, and where inside the value, as `[0].size`."""

    def __init__(self, expected: str, place: str) -> None:
        """Say what is wrong, and where."""
        super().__init__(expected)
        self.expected = expected
        self.place = place


def parameters_of(function: Callable[..., Any], *, known: Mapping[str, Any] | None = None) -> tuple[Parameter, ...]:
    """Return what a function takes, its annotations as types.

    `known` are names that annotations may use even where the module of the function lacks them: what is only an
    annotation is often imported for type checkers only.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(
            "it does not tell what it takes", hint="Call it from a function of your own", path="act"
        ) from error
    names = {**(known or {}), **getattr(inspect.unwrap(function), "__globals__", {})}
    return tuple(
        Parameter(
            name=one.name,
            annotation=None if one.annotation is one.empty else _type(one, names),
            required=one.default is one.empty,
            default=None if one.default is one.empty else one.default,
            by_name=one.kind in _BY_NAME,
        )
        for one in signature.parameters.values()
    )


def _type(one: inspect.Parameter, names: dict[str, Any]) -> Any:
    bearer = SimpleNamespace(__annotations__={one.name: one.annotation})
    try:
        return get_type_hints(bearer, globalns=names, include_extras=True)[one.name]
    # An annotation is an expression of somebody else: it can raise anything.
    except Exception as error:
        raise InvalidDefinition(
            f"the type of the parameter {quote(one.name)} cannot be read: {quote(words_of(error))}",
            hint="Define or import it above the function, and not only for type checkers",
            path=one.name,
        ) from error


def schemas_of(annotations: Iterable[Any]) -> tuple[tuple[Json, ...], Json]:
    """Return the JSON schema of each type, and the parts that they refer to as `#/$defs/name`.

    Raises TypeError where one of them has no form in JSON.

    >>> schemas_of([int, list[str]])
    (({'type': 'integer'}, {'type': 'array', 'items': {'type': 'string'}}), {})
    """
    schemas, parts = msgspec.json.schema_components(annotations, ref_template="#/$defs/{name}")
    return schemas, parts


def turned(value: Any, annotation: Any) -> Any:
    """Return a value of JSON as its type, such as a date or a dataclass; raise Unfit where it is none.

    >>> turned("2031-05-01", __import__("datetime").date)
    datetime.date(2031, 5, 1)
    """
    try:
        try:
            return msgspec.convert(value, annotation, str_keys=True)
        except msgspec.ValidationError:
            # To JSON schema, 3.0 is a whole number too.
            return msgspec.convert(_whole(value), annotation, str_keys=True)
    except msgspec.ValidationError as error:
        said = str(error)
        # What was given may be quoted before the place, but never after it.
        reason, at, place = said.rpartition(_AT)
        raise (Unfit(reason, place.removesuffix("`")) if at else Unfit(said, "")) from error


def _whole(value: Any) -> Any:
    """Return a value with whole numbers as integers, at every level."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_whole(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in cast("dict[str, Any]", value).items()}
    return value
