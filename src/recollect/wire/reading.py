"""What a decoder refused in, our error about it out, with the place in the whole of what was sent."""

from __future__ import annotations

import msgspec

from recollect.errors import UsageError


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
