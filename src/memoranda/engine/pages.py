"""Pages: long lists, read in portions so that a bound in bytes also bounds the memory in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any, TypeVar

from memoranda.model.value import encode

T = TypeVar("T")

_FIRST = 4
"""Rows of the first portion, before it is known how large they are."""
_LARGEST = 32
"""Rows of any portion: small ones may be followed by the largest there can be, of a megabyte each."""


def read_portions(
    read: Callable[[T | None, int | None], list[T]],
    content_of: Callable[[T], Any],
    *,
    limit: int | None,
    max_bytes: int | None,
    wanted: Callable[[T], bool] | None = None,
) -> list[T]:
    """Return the first `limit` items, or those up to the one whose content makes all of them exceed `max_bytes`.

    `read` returns a number of items after the last one seen, all of them for None. The item that exceeds the bound is
    returned too, and never the first one alone: a caller who sends at most `max_bytes`, but at least one item, has
    one left over, and knows that there are more.
    """
    if max_bytes is None:
        every = read(None, limit if wanted is None else None)
        return every if wanted is None else [item for item in every if wanted(item)][:limit]
    found: list[T] = []
    last: T | None = None
    size, ask = 0, _FIRST
    while limit is None or len(found) < limit:
        if limit is not None and wanted is None:
            ask = min(ask, limit - len(found))
        portion = read(last, ask)
        read_bytes = 0
        for item in portion:
            item_bytes = content_bytes(content_of(item))
            read_bytes += item_bytes
            if wanted is not None and not wanted(item):
                continue
            found.append(item)
            size += item_bytes
            if is_over(found, size, max_bytes) or len(found) == limit:
                return found
        if len(portion) < ask:
            break
        last = portion[-1]
        ask = max(1, min(_LARGEST, 2 * len(portion), max_bytes * len(portion) // max(read_bytes, 1)))
    return found


def take_within(items: Iterable[T], content_of: Callable[[T], Any], max_bytes: int | None) -> list[T]:
    """Return items up to the one whose content makes all of them exceed `max_bytes`; all of them for None."""
    if max_bytes is None:
        return list(items)
    found: list[T] = []
    size = 0
    for item in items:
        found.append(item)
        size += content_bytes(content_of(item))
        if is_over(found, size, max_bytes):
            break
    return found


def is_over(items: Sized, size: int, max_bytes: int) -> bool:
    """Return whether items are too large for a page; a single item never is."""
    return size > max_bytes and len(items) > 1


def content_bytes(content: Any) -> int:
    """Return the size of a value as JSON, in bytes."""
    return len(encode(content))
