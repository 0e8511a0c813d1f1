"""Format times, durations and values as short text that is safe on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_STEPS = ((86_400, "d"), (3_600, "h"), (60, "m"))
_JOINER = "\u200d"  # invisible, but part of many emoji


def visible(text: str, *, lines: bool = False) -> str:
    r"""Escape invisible characters, so that no value can control a terminal.

    >>> visible("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == _JOINER or (lines and character in "\n\t")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def moment(when: datetime | None, now: datetime) -> str:
    """Return a time relative to now, or its date if that is more than a month.

    >>> moment(datetime(2026, 5, 1, 10, tzinfo=UTC), datetime(2026, 5, 1, 13, tzinfo=UTC))
    '3h ago'
    """
    if when is None:
        return ""
    seconds = (when - now).total_seconds()
    if abs(seconds) >= 31 * 86_400:
        return f"{when.astimezone(UTC):%Y-%m-%d}"
    for size, unit in _STEPS:
        if abs(seconds) >= size:
            count = round(abs(seconds) / size)
            return f"in {count}{unit}" if seconds > 0 else f"{count}{unit} ago"
    return f"in {round(seconds)}s" if seconds > 0 else "just now"


def exact(when: datetime | None) -> str:
    """Return a time in full, in UTC."""
    return "" if when is None else f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: int | None) -> str:
    """Return a duration in its largest whole unit.

    >>> duration(2592000)
    '30d'
    """
    if seconds is None:
        return "for ever"
    for size, unit in _STEPS:
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def size(count: float) -> str:
    """Return a number of bytes with a unit.

    >>> size(2_500_000)
    '2.5 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:.1f} TB"


def value(anything: Any) -> str:
    """Return a JSON value on one line; text without quotes."""
    if isinstance(anything, str):
        return visible(anything)
    import msgspec

    return visible(msgspec.json.encode(anything).decode())


def pretty_json(anything: Any) -> str:
    """Return a JSON value on several lines.

    >>> print(pretty_json({"city": "Faro"}))
    {
      "city": "Faro"
    }
    """
    import msgspec

    return msgspec.json.format(msgspec.json.encode(anything), indent=2).decode()


def line(anything: Any, *, longest: int | None = None) -> str:
    r"""Return a content on one line, white space collapsed, truncated if too long.

    >>> line("Tea\n  or milk?"), line("Tea or milk?", longest=6)
    ('Tea or milk?', 'Tea o…')
    """
    text = value(" ".join(anything.split()) if isinstance(anything, str) else anything)
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def labels(metadata: Mapping[str, Any]) -> str:
    """Return metadata on one line.

    >>> labels({"account": "acme", "urgency": 3})
    'account=acme, urgency=3'
    """
    return ", ".join(f"{visible(name)}={value(content)}" for name, content in metadata.items())


def count(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> count(1, "event"), count(2, "event"), count(2, "entry")
    ('1 event', '2 events', '2 entries')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun.removesuffix('y')}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def counts(removed: Mapping[str, int]) -> str:
    """Return counts by kind on one line, without those that are zero.

    >>> counts({"facts": 2, "entries": 1, "idempotency_keys": 0})
    '2 facts, 1 entry'
    """
    named = {kind.replace("_", " "): number for kind, number in removed.items() if number}
    return ", ".join(f"{number:,} {_one(kind) if number == 1 else kind}" for kind, number in named.items())


def _one(kind: str) -> str:
    return kind.removesuffix("ies") + "y" if kind.endswith("ies") else kind.removesuffix("s")
