"""Texts in, longer ones out, or a refusal before one is made that is longer than an expression may make."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from memoranda.lang.expression.bounds import exceeded

_DATE_PARTS = re.compile("YYYY|MM|DD|HH|mm|ss")
_MADE = "the text that an expression made"


def repeated(text: str, times: int, *, longest: int) -> str:
    """Return a text so many times over."""
    if len(text) * times > longest:
        raise exceeded(_MADE, longest, len(text) * times)
    return text * times


def padding(missing: int, fill: str, *, longest: int) -> str:
    """Return so many characters of a text that is repeated; none where none are missing, or there is nothing to fill.

    >>> padding(5, "ab", longest=100)
    'ababa'
    """
    if missing <= 0 or not fill:
        return ""
    if missing > longest:
        raise exceeded(_MADE, longest, missing)
    return (fill * (missing // len(fill) + 1))[:missing]


def replaced(text: str, old: str, new: str, *, longest: int, most: int = -1) -> str:
    """Return a text with a part replaced wherever it stands, or so many times at most."""
    count = text.count(old) if most < 0 else min(most, text.count(old))
    grown = len(text) + count * (len(new) - len(old))
    if grown > longest:
        raise exceeded(_MADE, longest, grown)
    return text.replace(old, new, most)


def joined(parts: Iterable[str], between: str, *, longest: int) -> str:
    """Return parts as one text, and stop as soon as it is too long."""
    left, kept = longest + len(between), list[str]()
    for part in parts:
        left -= len(part) + len(between)
        if left < 0:
            raise exceeded(_MADE, longest)
        kept.append(part)
    return between.join(kept)


def date_word(when: datetime, shape: str) -> str:
    """Return a moment as YYYY, MM, DD, HH, mm and ss say; whatever else a shape holds stays as it is.

    >>> date_word(datetime(2026, 4, 30, 16, 5), "DD.MM.YYYY, HH:mm")
    '30.04.2026, 16:05'
    """
    parts = {
        "YYYY": f"{when.year:04d}",
        "MM": f"{when.month:02d}",
        "DD": f"{when.day:02d}",
        "HH": f"{when.hour:02d}",
        "mm": f"{when.minute:02d}",
        "ss": f"{when.second:02d}",
    }
    return _DATE_PARTS.sub(lambda found: parts[found[0]], shape)
