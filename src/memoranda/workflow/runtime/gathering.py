"""A list and what a loop adds to it in, the longer list out: what was in it already is not looked at again.

A loop that gathers would otherwise go through everything it has gathered in each pass, to compute it, to copy it and to
see whether it can be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from memoranda.model.limits import Limits
from memoranda.model.value import encode_checked
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.limits import Bounds


class Gathering:
    """How much there is in the list of one loop."""

    def __init__(self, bounds: Bounds, limits: Limits) -> None:
        """Begin with no list."""
        self._bounds = bounds
        self._limits = limits
        self._counted: list[Any] | None = None
        self._values = 0
        self._characters = 0
        self._bytes = 0

    def longer(self, gathered: list[Any], added: Any) -> list[Any] | None:
        """Return a new list with what is added as `$append` does; None where it is too large, so somebody says why."""
        if self._counted is not gathered:
            self._values = self._characters = self._bytes = 0
            self._count(gathered)
        more = [] if added is UNDEFINED else cast("list[Any]", added) if isinstance(added, list) else [added]
        self._count(more)
        self._counted = [*gathered, *more]
        # The list itself is one more value, and one more byte: a comma stands where two lists had their brackets.
        fits = (
            self._values < self._bounds.items
            and self._characters <= self._bounds.text
            and self._bytes < self._limits.value_bytes
        )
        return self._counted if fits else None

    def _count(self, items: list[Any]) -> None:
        """Count what is in a list; refuse what could not be kept."""
        self._bytes += len(encode_checked(items, self._limits)) - 1
        for value in _inside(items):
            self._values += 1
            if isinstance(value, str):
                self._characters += len(value)
            elif isinstance(value, dict):
                self._characters += sum(map(len, cast("dict[str, Any]", value)))


def _inside(items: list[Any]) -> Iterator[Any]:
    """Yield the values in a list, however deep."""
    for item in items:
        yield item
        if isinstance(item, dict):
            yield from _inside(list(cast("dict[str, Any]", item).values()))
        elif isinstance(item, list):
            yield from _inside(cast("list[Any]", item))
