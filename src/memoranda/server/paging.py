"""Pages: an opaque cursor in, where to go on out, and the other way round."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from memoranda.errors import UsageError
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.text import quote
from memoranda.wire.bounds import fitting

Item = TypeVar("Item")


def encode_cursor(place: str) -> str:
    """Return a place as the text of a cursor; callers give it back and look into it at their own risk."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> str:
    """Return the place of a cursor, empty for the beginning."""
    if cursor is None:
        return ""
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        place = ""
    if not place:
        raise cursor_fault(cursor)
    return place


def decode_number(cursor: str | None) -> int:
    """Return the number of a cursor, 0 for the beginning."""
    place = decode_cursor(cursor)
    if place and not (place.isascii() and place.isdecimal() and len(place) < 19):
        raise cursor_fault(cursor)
    return int(place or 0)


def page(
    items: Sequence[Item],
    limit: int,
    place_of: Callable[[Item], object],
    *,
    max_bytes: int,
    out: Callable[[Item], Any] = lambda item: item,
) -> tuple[list[Any], str | None]:
    """Return the first items as they travel, and the cursor that goes on after them.

    They are `limit` at most, and have `max_bytes` at most as JSON, except that there is always one where there are any.
    One more than `limit` must have been asked for, or the one with which their contents exceed `max_bytes`.
    """
    kept = fitting([out(item) for item in items[:limit]], max_bytes)
    return kept, encode_cursor(str(place_of(items[len(kept) - 1]))) if len(items) > len(kept) else None


def page_from(items: Sequence[Item], begin: int, limit: int, *, max_bytes: int) -> tuple[list[Item], str | None]:
    """Return a page of a list from a place on, and the cursor that goes on after it, for `decode_number`."""
    kept = fitting(list(items[begin : begin + limit]), max_bytes)
    end = begin + len(kept)
    return kept, encode_cursor(str(end)) if len(items) > end else None


def place_in_time(moment: datetime, id: str) -> str:
    """Return the place of something in a list that is ordered by time, for a cursor to stand for."""
    return f"{to_micros(moment)}.{id}"


def decode_place_in_time(cursor: str | None) -> tuple[datetime, str] | None:
    """Return the moment and the id that a cursor stands for, None for the beginning."""
    if cursor is None:
        return None
    micros, _, id = decode_cursor(cursor).partition(".")
    if not (micros.isascii() and micros.isdecimal() and len(micros) < 18 and id):
        raise cursor_fault(cursor)
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
    """Return a page of a list that is there as a whole, after the item whose id the cursor is."""
    last = decode_cursor(cursor)
    ids = [id_of(item) for item in items]
    if last and last not in ids:
        raise UsageError("where this cursor stood is gone", hint="Begin again without `after`", path="after")
    begin = ids.index(last) + 1 if last else 0
    return page(items[begin:], limit, id_of, max_bytes=max_bytes, out=out)


def cursor_fault(cursor: str | None) -> UsageError:
    """Return the error for what is no cursor of this list."""
    return UsageError(f"{quote(cursor)} is no cursor", hint="Pass the `next` of an answer as it is", path="after")
