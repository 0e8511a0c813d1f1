"""What an action takes in, its JSON schema out: as the table of actions shows it, and as a task is checked by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def closed(properties: Mapping[str, Any], *, required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    needed = list(required)
    return {**schema, "required": needed} if needed else schema


NOTHING = closed({})
"""Of an action without settings of its own."""
