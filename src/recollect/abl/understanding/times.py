"""The words of a user in; the times of day they name, each with its place, out."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from recollect.abl.understanding.vocabulary import SMALL
from recollect.abl.understanding.words import Said

_NAMED = {
    "noon": 12,
    "midday": 12,
    "mittag": 12,
    "mittags": 12,
    "midi": 12,
    "mediodia": 12,
    "midnight": 0,
    "mitternacht": 0,
    "minuit": 0,
    "medianoche": 0,
}
_HALVES = {"am": 0, "pm": 12, "a": 0, "p": 12}
_PARTS = {"morning": 0, "afternoon": 12, "evening": 12, "night": 12}
PARTS_OF_DAY = frozenset(_PARTS) | {"tonight", "vormittag", "nachmittag", "abend"}
_HOURS = frozenset({"uhr", "h", "o'clock", "oclock"})
_MOST_TIMES = 32
_ANCHORS = frozenset({*_NAMED, "am", "pm", "a", "p", "uhr", "h", "o'clock", "oclock", *_PARTS})


class Clocked(NamedTuple):
    """A time of day from the word `first` up to the word `last`."""

    first: int
    last: int
    hour: int
    minute: int
    second: int = 0

    def iso(self) -> str:
        """Return it as `15:30`, with seconds only if there are any."""
        return time(self.hour, self.minute, self.second).isoformat("seconds" if self.second else "minutes")


def find_times(said: Said) -> list[Clocked]:
    """Return the times of day that a text names, from left to right."""
    if said.known.isdisjoint(_ANCHORS) and ":" not in said.text:
        return []
    found: list[Clocked] = []
    for place, word in enumerate(said.words):
        if found and place < found[-1].last:
            continue
        if len(found) >= _MOST_TIMES:
            break
        if word in _NAMED:
            found.append(Clocked(place, place + 1, _NAMED[word], 0))
        elif (read := _digital(said, place)) is not None:
            found.append(read)
    return found


def at(day: date, clocked: Clocked | None, now: datetime) -> str:
    """Return a day and a time of it as ISO 8601, in the zone of the clock; without a time the day begins.

    >>> from datetime import UTC
    >>> at(date(2027, 5, 12), Clocked(0, 1, 15, 30), datetime(2026, 11, 2, tzinfo=UTC))
    '2027-05-12T15:30:00Z'
    """
    moment = time(clocked.hour, clocked.minute, clocked.second) if clocked else time()
    return iso(datetime.combine(day, moment, now.tzinfo))


def read_moment(written: str, now: datetime) -> str | None:
    """Return ISO 8601 with a time as it is declared, in the zone of the clock if it names none; else None."""
    if "T" not in written and "t" not in written:
        return None
    try:
        moment = datetime.fromisoformat(written.upper())
    except ValueError:
        return None
    return iso(moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo))


def iso(moment: datetime) -> str:
    """Return a moment as ISO 8601 with seconds, UTC as `Z`."""
    written = moment.isoformat(timespec="seconds")
    return written.removesuffix("+00:00") + "Z" if written.endswith("+00:00") else written


def next_at(clocked: Clocked, now: datetime) -> date:
    """Return the day on which a time comes next: today if it is still to come."""
    ahead = (clocked.hour, clocked.minute) > (now.hour, now.minute)
    return now.date() if ahead or now.date() == date.max else now.date() + timedelta(days=1)


def _digital(said: Said, place: int) -> Clocked | None:
    """Read `15:30`, `3pm`, `3.30 p.m.`, `15h30`, `15 Uhr`, `8 in the morning`."""
    word = said.words[place]
    if ":" in word:
        parts = word.split(":")
    elif word.isdecimal() and len(word) <= 2:
        parts = [word]
    elif word in SMALL:
        parts = [str(SMALL[word])]
    elif word.count(".") == 1 and said.word(place + 1) in ("am", "pm", "uhr"):
        parts = word.split(".")
    else:
        return None
    if len(parts) > 3 or not all(part.isdecimal() and len(part) <= 2 for part in parts):
        return None
    hour, minute, second = (*map(int, parts), 0, 0)[:3]
    last, half = _half(said, place + 1)
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + half
    elif len(parts) == 1 or not said.words[place][0].isdecimal():
        last, minute = _hours(said, place + 1)
        if last < 0:
            return None
    return Clocked(place, last, hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def _half(said: Said, place: int) -> tuple[int, int | None]:
    """Return where `am`, `p.m.` or `in the evening` ends, and the hours it adds; None if there is none."""
    word = said.word(place)
    if word in ("am", "pm") and not (word == "am" and said.word(place + 1) in ("the", "here")):
        return place + 1, _HALVES[word]
    if word in ("a", "p") and said.word(place + 1) == "." and said.word(place + 2) == "m":
        return place + (4 if said.word(place + 3) == "." else 3), _HALVES[word]
    if word == "in" and said.word(place + 1) == "the" and said.word(place + 2) in _PARTS:
        return place + 3, _PARTS[said.word(place + 2)]
    return place, None


def _hours(said: Said, place: int) -> tuple[int, int]:
    """Return where a word for the hour ends, and the minutes behind it: `15h30`; -1 if there is no such word."""
    word = said.word(place)
    if word not in _HOURS:
        return -1, 0
    after = said.word(place + 1)
    if len(after) == 2 and after.isdecimal() and (said.glued(place + 1) or word == "uhr"):
        return place + 2, int(after)
    # A mere `3h` is a length of time.
    return (-1, 0) if word == "h" else (place + 1, 0)
