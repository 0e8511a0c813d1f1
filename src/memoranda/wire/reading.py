"""What was sent in; what a decoder refused of it, as our error with its place, and its moments out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, parse_moment

_MOMENTS = ("as_of", "expected_updated_at")


def fault_in(what: str, error: msgspec.ValidationError, *, hint: str) -> UsageError:
    """Return what is wrong with a body or with arguments: what a struct says itself keeps its words and its code.

    >>> try:
    ...     msgspec.convert({"limit": "many"}, dict[str, int])
    ... except msgspec.ValidationError as error:
    ...     fault_in("body", error, hint="").message
    '`$[...]` of the body cannot be used: Expected `int`, got `str`'
    """
    message, _, inside = str(error).rpartition(" - at `")
    message, path = (message, inside.rstrip("`")) if message else (inside, "$")
    cause = error.__cause__
    if isinstance(cause, UsageError):
        field: object = cause.details.get("path")
        cause.details["path"] = path if field is None else f"{path}.{field}"
        return cause
    return UsageError(f"`{path}` of the {what} cannot be used: {message}", hint=hint, path=path)


def moments_in(sent: dict[str, Any]) -> dict[str, datetime]:
    """Return the moments in what was sent, a day alone among them; refuse what is none, in the words of every door.

    >>> moments_in({"as_of": "2026-01-01", "limit": 3})
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
