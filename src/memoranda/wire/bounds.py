"""How large things may be: fields in the OpenAPI document, and lists in an answer.

A body is not refused for a field: the engine says what is wrong with it, in the same words to everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

Item = TypeVar("Item")


def between(least: float, most: float | None = None) -> msgspec.Meta:
    """Return the annotation of a number that is at least this, and at most that.

    >>> between(0, 1).extra_json_schema
    {'minimum': 0, 'maximum': 1}
    """
    return msgspec.Meta(extra_json_schema={"minimum": least} | ({} if most is None else {"maximum": most}))


def one_of(names: Sequence[str]) -> msgspec.Meta:
    """Return the annotation of a text that is one of these.

    >>> one_of(("up", "down")).extra_json_schema
    {'enum': ['up', 'down']}
    """
    return msgspec.Meta(extra_json_schema={"enum": list(names)})


def fitting(items: list[Item], max_bytes: int) -> list[Item]:
    """Return the first items that have `max_bytes` at most as JSON, but one at least."""
    if len(msgspec.json.encode(items)) <= max_bytes:
        return items
    size = 0
    for number, item in enumerate(items):
        size += len(msgspec.json.encode(item)) + 1  # and what separates it from the next
        if size > max_bytes and number:
            return items[:number]
    return items
