"""Conversions between model values and JSON that every wire type shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import msgspec.inspect

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.plain import plain as plain
from memoranda.model.text import choice_fault

Item = TypeVar("Item")


def between(least: float, most: float | None = None) -> msgspec.Meta:
    """Return the annotation of a number with bounds, for the OpenAPI document; the engine checks them.

    >>> between(0, 1).extra_json_schema
    {'minimum': 0, 'maximum': 1}
    """
    return msgspec.Meta(extra_json_schema={"minimum": least} | ({} if most is None else {"maximum": most}))


def one_of(names: Sequence[str]) -> msgspec.Meta:
    """Return the annotation of a text with a fixed set of values, for the OpenAPI document.

    >>> one_of(("up", "down")).extra_json_schema
    {'enum': ['up', 'down']}
    """
    return msgspec.Meta(extra_json_schema={"enum": list(names)})


def fit_bytes(items: list[Item], max_bytes: int) -> list[Item]:
    """Return the first items that fit into `max_bytes` of JSON, but at least one."""
    if len(msgspec.json.encode(items)) <= max_bytes:
        return items
    size = 0
    for number, item in enumerate(items):
        size += len(msgspec.json.encode(item)) + 1  # with the comma
        if size > max_bytes and number:
            return items[:number]
    return items


_MOMENTS = ("as_of", "expected_updated_at")


def decode_error(what: str, error: msgspec.ValidationError, kind: Any, *, hint: str) -> UsageError:
    """Return the error for an invalid body or invalid arguments; an error raised by a struct itself is kept.

    A value that is none of its choices is told them, which msgspec does not do.

    >>> from typing import Literal
    >>> kind = dict[str, int | Literal["all"]]
    >>> for given in ({"limit": []}, {"limit": "al"}):
    ...     try:
    ...         msgspec.convert(given, kind)
    ...     except msgspec.ValidationError as error:
    ...         decode_error("body", error, kind, hint="").message
    '`$[...]` of the body is not valid: Expected `int | str`, got `array`'
    '`$[...]` of the body must be one of `all`; did you mean `all`?'
    """
    message, _, inside = str(error).rpartition(" - at `")
    message, path = (message, inside.rstrip("`")) if message else (inside, "$")
    cause = error.__cause__
    if isinstance(cause, UsageError):
        field: object = cause.details.get("path")
        cause.details["path"] = path if field is None else f"{path}.{field}"
        return cause
    fault = enum_fault(message, path, kind) or f"is not valid: {message}"
    return UsageError(f"`{path}` of the {what} {fault}", hint=hint, path=path)


_NO_CHOICE = re.compile(r"Invalid enum value (?:'(.*)'|(.*))", re.DOTALL)
_PARTS = re.compile(r"\.\w+|\[[^\[\]]*+\]")


def enum_fault(message: str, path: str, kind: Any) -> str | None:
    """Return what is wrong with a value that is none of its choices; None for another message of msgspec."""
    found = _NO_CHOICE.fullmatch(message)
    choices = _choices(msgspec.inspect.type_info(kind), _PARTS.findall(path)) if found else []
    return choice_fault(found[1] if found[1] is not None else found[2], choices) if found and choices else None


def _choices(kind: msgspec.inspect.Type, parts: Sequence[str]) -> list[object]:
    """Return the values that are allowed at a path below a type, such as `.items` and `[...]`."""
    if isinstance(kind, msgspec.inspect.Metadata):
        return _choices(kind.type, parts)
    if isinstance(kind, msgspec.inspect.UnionType):
        return [choice for one in kind.types for choice in _choices(one, parts)]
    if not parts:
        if isinstance(kind, msgspec.inspect.LiteralType):
            return list(kind.values)
        return [one.value for one in kind.cls] if isinstance(kind, msgspec.inspect.EnumType) else []
    below: msgspec.inspect.Type | None = getattr(kind, "item_type", None) or getattr(kind, "value_type", None)
    if parts[0].startswith("."):
        fields: Sequence[msgspec.inspect.Field] = getattr(kind, "fields", ())
        below = next((field.type for field in fields if field.encode_name == parts[0][1:]), None)
    return [] if below is None else _choices(below, parts[1:])


def parse_moments(sent: dict[str, Any]) -> dict[str, datetime]:
    """Parse the timestamps in a JSON object; unlike msgspec, accept a date alone.

    >>> parse_moments({"as_of": "2026-01-01", "limit": 3})
    {'as_of': datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)}
    """
    read: dict[str, datetime] = {}
    for name in _MOMENTS:
        given = sent.get(name)
        if isinstance(given, str):
            try:
                read[name] = from_micros(parse_moment(given))
            except UsageError as error:
                error.details["path"] = f"$.{name}"
                raise
    return read
