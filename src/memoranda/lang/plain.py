"""What a Python function returned in, plain JSON values that nobody else holds out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import msgspec

from memoranda.errors import InvalidValue, LimitExceeded
from memoranda.model.limits import Limits
from memoranda.model.value import decode, encode_checked

MOST_BYTES = 1_048_576
"""Bytes of a result as JSON."""
_LIMITS = Limits(value_bytes=MOST_BYTES)


def plain(value: Any) -> Any:
    """Return a fresh copy as text, numbers, booleans, None, lists and dicts; see `encode_plain`."""
    return decode(encode_plain(value, _LIMITS))


def encode_plain(value: Any, limits: Limits) -> bytes:
    """Return what a function gave as JSON; raise what says why it cannot be.

    Structs, dataclasses and pydantic models become objects, dates ISO text, decimals numbers, tuples lists. What has
    no such form (a set, bytes, a generator, NaN, a cycle) is an InvalidValue or, when too deep or large, a
    LimitExceeded.
    """
    try:
        return encode_checked(value, limits)
    except InvalidValue:
        return encode_checked(_simplified(value, "$", limits.depth, limits.depth), limits)


def _simplified(value: Any, path: str, depth: int, deepest: int) -> Any:
    """Return a value with everything replaced that JSON has a form for; what it has none for stays."""
    if depth < 0:
        raise LimitExceeded(
            f"the value is nested more than {deepest} deep at {path[:80]}",
            hint="Flatten it; a value that holds itself can never be kept",
            limit=deepest,
            actual=deepest + 1,
            path=path,
        )
    if value is None or type(value) in (bool, int, float, str):
        return value
    fields = _fields(value)
    if fields is not None:
        return {name: _simplified(item, f"{path}.{name}", depth - 1, deepest) for name, item in fields.items()}
    if isinstance(value, (list, tuple)):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return [_simplified(item, f"{path}[{place}]", depth - 1, deepest) for place, item in enumerate(items)]
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return _simplified(form(value), path, depth - 1, deepest)
    return value


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of what is an object by its nature; None for anything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # By their methods: pydantic is an extra, and a named tuple has no class of its own.
    for method in ("model_dump", "_asdict"):
        dump: Any = getattr(cast("type[Any]", type(value)), method, None)
        if dump is not None:
            return dump(value)
    return None


def _number(value: Decimal) -> int | float:
    whole = value.is_finite() and value == value.to_integral_value()
    return int(value) if whole and abs(value) < 2**63 else float(value)


# In this order: a datetime is a date, and an enumeration of texts is a text.
_FORMS: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    (Decimal, _number),
    (datetime, datetime.isoformat),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, timedelta.total_seconds),
    (UUID, str),
    (PurePath, str),
    (int, int),
    (float, float),
    (str, lambda value: str.__str__(value)),
)
