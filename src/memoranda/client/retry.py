"""Which failed requests are retried, and after how long.

Retried are requests that cannot take effect twice: reads, writes with an idempotency key or an expected version, and
requests that were certainly not carried out. A timeout is not retried, because the caller's time is used up.
"""

from __future__ import annotations

import random
from email.utils import parsedate_to_datetime

from memoranda.client.requests import Request
from memoranda.errors import Busy, MemorandaError, Unavailable
from memoranda.model.clock import Clock, SystemClock, to_micros

_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
LONGEST_ASKED = 30.0
"""Maximum `Retry-After` in seconds; if the server asks for more, the error is raised at once."""

_REFUSED_UNREAD = 429
"""The status of a rate limit, sent before a request is processed."""
_PASSING = frozenset({408, 425, 502, 503, 504})
"""Temporary errors, after which the request may or may not have been carried out."""


def may_repeat(request: Request, error: MemorandaError, *, status: int) -> bool:
    """Return whether a request may be sent again after an error. After Busy, nothing was written."""
    if status == _REFUSED_UNREAD or isinstance(error, Busy):
        return True
    # A read-only database or a failing model will not recover within seconds.
    return request.repeatable and status in _PASSING and isinstance(error, Unavailable)


def wait_before(attempt: int, asked: float | None = None) -> float | None:
    """Return the seconds to wait before a retry (the first is 1), or None not to retry.

    To what the server asked for, a random delay is added, so that many clients do not return at once.
    """
    if asked is not None and asked > LONGEST_ASKED:
        return None
    backing_off = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
    return backing_off if asked is None else max(0.0, asked) + backing_off / 2


def retry_after(header: str | None, *, clock: Clock | None = None) -> float | None:
    """Return the seconds of a `Retry-After` header, which has seconds or a date; None if it is invalid.

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
