"""Pages: an opaque cursor in, where to go on out, and the other way round."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from recollect.errors import UsageError
from recollect.model.text import quote

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


def page(items: Sequence[Item], limit: int, place_of: Callable[[Item], object]) -> tuple[list[Item], str | None]:
    """Return the first `limit` items and the cursor that goes on after them; one more must have been asked for."""
    kept = list(items[:limit])
    return kept, encode_cursor(str(place_of(kept[-1]))) if len(items) > limit else None


def page_of_list(
    items: Sequence[Item], cursor: str | None, limit: int, id_of: Callable[[Item], str]
) -> tuple[list[Item], str | None]:
    """Return a page of a list that is there as a whole: what comes after the item whose id the cursor is."""
    last = decode_cursor(cursor)
    ids = [id_of(item) for item in items]
    if last and last not in ids:
        raise UsageError("where this cursor stood is gone", hint="Begin again without `after`", path="after")
    begin = ids.index(last) + 1 if last else 0
    return page(items[begin : begin + limit + 1], limit, id_of)


def cursor_fault(cursor: str | None) -> UsageError:
    """Return the error for what is no cursor of this list."""
    return UsageError(f"{quote(cursor)} is no cursor", hint="Pass the `next` of an answer as it is", path="after")
