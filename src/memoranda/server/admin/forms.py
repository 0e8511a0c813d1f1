"""What somebody typed in, values out; or what is wrong with it, at which field and where inside it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from memoranda.errors import MemorandaError, UsageError
from memoranda.server.problems import STATUSES


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a form: at which field, where inside it, and what to do."""

    field: str
    message: str
    hint: str = ""
    path: str = ""
    """Where in the JSON of the field."""


def fault_of(error: MemorandaError, *, field: str, fields: tuple[str, ...] = ()) -> Fault:
    """Return an error as the fault of a field: the one that it names, else `field`."""
    named = error.details.get("field") or error.details.get("path")
    path = error.details.get("path")
    return Fault(
        field=str(named) if named in fields else field,
        message=error.message,
        hint=error.hint,
        path=str(path) if isinstance(path, str) and path.startswith("$") else "",
    )


def status_of(error: MemorandaError) -> int:
    """Return the status of an answer that shows an error at its field."""
    return STATUSES.get(error.code, 500)


def read_json(text: str, field: str) -> Any:
    """Return the JSON of a field; what is wrong with it is told with its line and column."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"this is not JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            hint="Text stands in double quotes, and nothing stands after the last item of a list",
            field=field,
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not JSON that can be kept: {error}", hint="Write it anew", field=field) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")
