"""A call that failed in, whether to send it again and after how many seconds out.

Sent again is what cannot happen twice: reads, writes that carry an idempotency key or a compare-and-set, and any call
that certainly was not carried out. What ran out of time is not: it has used up the time that its caller gave it.
"""

from __future__ import annotations

import random
from email.utils import parsedate_to_datetime

from memoranda.client.calls import Call
from memoranda.errors import Busy, MemorandaError, Unavailable
from memoranda.model.clock import Clock, SystemClock, to_micros

_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
LONGEST_ASKED = 30.0
"""Seconds that a server may ask us to wait; if it asks for more, the caller is told at once."""

_REFUSED_UNREAD = 429
"""What a server says before it looks at a request."""
_PASSING = frozenset({408, 425, 502, 503, 504})
"""What may be over in a moment, and says nothing about whether the request was carried out."""


def may_repeat(call: Call, error: MemorandaError, *, status: int) -> bool:
    """Say whether a call may be sent again after this answer. After Busy nothing of a write was kept."""
    if status == _REFUSED_UNREAD or isinstance(error, Busy):
        return True
    # A database that is read-only, or a model that failed, will be so in a second too.
    return call.repeatable and status in _PASSING and isinstance(error, Unavailable)


def wait_before(attempt: int, asked: float | None = None) -> float | None:
    """Return how many seconds to wait before this attempt (the first repetition is 1); None means not to.

    What the server asked for is waited for, and a little more, so that many clients do not come back at once.
    """
    if asked is not None and asked > LONGEST_ASKED:
        return None
    backing_off = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
    return backing_off if asked is None else max(0.0, asked) + backing_off / 2


def retry_after(header: str | None, *, clock: Clock | None = None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, given as seconds or as a date; None if it says neither.

    >>> retry_after("7"), retry_after("soon"), retry_after(None)
    (7.0, None, None)
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, (to_micros(moment) - to_micros((clock or SystemClock()).now())) / 1_000_000)
    except (ValueError, TypeError, OverflowError):
        return None
