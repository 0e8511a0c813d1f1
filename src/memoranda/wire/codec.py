"""Conversions between model values and JSON that every wire type shares."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, parse_moment
from memoranda.model.plain import plain as plain

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


def decode_error(what: str, error: msgspec.ValidationError, *, hint: str) -> UsageError:
    """Return the error for an invalid body or invalid arguments; an error raised by a struct itself is kept.

    >>> try:
    ...     msgspec.convert({"limit": "many"}, dict[str, int])
    ... except msgspec.ValidationError as error:
    ...     decode_error("body", error, hint="").message
    '`$[...]` of the body is not valid: Expected `int`, got `str`'
    """
    message, _, inside = str(error).rpartition(" - at `")
    message, path = (message, inside.rstrip("`")) if message else (inside, "$")
    cause = error.__cause__
    if isinstance(cause, UsageError):
        field: object = cause.details.get("path")
        cause.details["path"] = path if field is None else f"{path}.{field}"
        return cause
    return UsageError(f"`{path}` of the {what} is not valid: {message}", hint=hint, path=path)


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
