"""Pagination: opaque cursors, and pages limited by number and by bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.text import quote
from memoranda.wire.codec import fit_bytes

Item = TypeVar("Item")


def encode_cursor(place: str) -> str:
    """Return a position as an opaque cursor."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> str:
    """Return the position of a cursor, empty for the beginning."""
    if cursor is None:
        return ""
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        place = ""
    if not place:
        raise invalid_cursor(cursor)
    return place


def decode_number(cursor: str | None) -> int:
    """Return the number of a cursor, 0 for the beginning."""
    place = decode_cursor(cursor)
    if place and not (place.isascii() and place.isdecimal() and len(place) < 19):
        raise invalid_cursor(cursor)
    return int(place or 0)


def page(
    items: Sequence[Item],
    limit: int,
    place_of: Callable[[Item], object],
    *,
    max_bytes: int,
    out: Callable[[Item], Any] = lambda item: item,
) -> tuple[list[Any], str | None]:
    """Return a page of items, converted by `out`, and the cursor of the next page.

    A page has at most `limit` items and `max_bytes` of JSON, but at least one item. `items` must contain one more than
    fits, where there is one.
    """
    kept = fit_bytes([out(item) for item in items[:limit]], max_bytes)
    return kept, encode_cursor(str(place_of(items[len(kept) - 1]))) if len(items) > len(kept) else None


def page_from(items: Sequence[Item], begin: int, limit: int, *, max_bytes: int) -> tuple[list[Item], str | None]:
    """Return a page of a list from an index on, and the cursor of the next page, for `decode_number`."""
    kept = fit_bytes(list(items[begin : begin + limit]), max_bytes)
    end = begin + len(kept)
    return kept, encode_cursor(str(end)) if len(items) > end else None


def time_position(moment: datetime, id: str) -> str:
    """Return a position in a list that is ordered by time, for a cursor."""
    return f"{to_micros(moment)}.{id}"


def decode_time_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """Return the time and id of a cursor, None for the beginning."""
    if cursor is None:
        return None
    micros, _, id = decode_cursor(cursor).partition(".")
    if not (micros.isascii() and micros.isdecimal() and len(micros) < 18 and id):
        raise invalid_cursor(cursor)
    return from_micros(int(micros)), id


def page_of_list(
    items: Sequence[Item],
    cursor: str | None,
    limit: int,
    id_of: Callable[[Item], str],
    *,
    max_bytes: int,
    out: Callable[[Item], Any] = lambda item: item,
) -> tuple[list[Any], str | None]:
    """Return a page of a complete list, after the item with the id in the cursor."""
    last = decode_cursor(cursor)
    ids = [id_of(item) for item in items]
    if last and last not in ids:
        raise UsageError("the item of this cursor no longer exists", hint="Start again without `after`", path="after")
    begin = ids.index(last) + 1 if last else 0
    return page(items[begin:], limit, id_of, max_bytes=max_bytes, out=out)


def invalid_cursor(cursor: str | None) -> UsageError:
    """Return the error for an invalid cursor."""
    return UsageError(
        f"{quote(cursor)} is not a valid cursor", hint="Pass the `next` of a response unchanged", path="after"
    )
