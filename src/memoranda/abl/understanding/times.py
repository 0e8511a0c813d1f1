"""The words of a user in; the times of day they name, each with its place, out."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from typing import NamedTuple

from memoranda.abl.understanding.days import JOINERS
from memoranda.abl.understanding.vocabulary import SMALL, bag
from memoranda.abl.understanding.words import Said

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
_JOINED = JOINERS | bag("and or und oder")
"""Words between two times of which neither is meant alone."""
_ZONES = {
    **dict.fromkeys(("utc", "gmt"), 0),
    **dict.fromkeys(("cet", "mez", "bst"), 1),
    **dict.fromkeys(("cest", "mesz"), 2),
    **{"msk": 3, "jst": 9, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
}
"""What people write behind a time, and its hours from UTC."""
_MOST_TIMES = 32
_SPOKEN = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20}
_ANCHORS = frozenset({*_NAMED, "am", "pm", "a", "p", "uhr", "h", "o'clock", "oclock", "past", "quarter", *_PARTS})


class Clocked(NamedTuple):
    """A time of day from the word `first` up to the word `last`."""

    first: int
    last: int
    hour: int
    minute: int
    second: int = 0
    zone: int | None = None
    """The hours from UTC that were said behind it."""

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
            if said.word(place - 1) not in ("past", "to", "nach", "vor"):
                found.append(Clocked(place, place + 1, _NAMED[word], 0))
        elif (word in _SPOKEN or word.isdecimal()) and (heard := _spoken(said, place)) is not None:
            found.append(heard)
        elif (read := _digital(said, place)) is not None:
            found.extend(_with_words_before(said, read))
    return found


def are_joined(said: Said, one: Clocked, two: Clocked) -> bool:
    """Say whether two times are the ends of a span, or two to choose from: `from 3 to 5 pm`, `3 pm or 4 pm`."""
    return two.first - one.last == 1 and said.words[one.last] in _JOINED


def _with_words_before(said: Said, clocked: Clocked) -> list[Clocked]:
    """Return a time as the words before it change it: `halb 4 Uhr`, `5 nach 4 Uhr`, `3 to` in `3 to 4 pm`."""
    at = clocked.first - 1
    word, counted = said.word(at), said.word(at - 1)
    if word == "halb":
        return [_moved(clocked, at, -30)]
    number = _small(counted)
    minutes = 15 if counted == "viertel" else number
    if word in ("nach", "vor") and 0 < minutes < 30:
        return [_moved(clocked, at - 1, minutes if word == "nach" else -minutes)]
    if word in _JOINED and 0 < number <= 24:
        later = number <= 12 <= clocked.hour and number % 12 + 12 <= clocked.hour
        opening = Clocked(at - 1, at, (number % 12 + 12 if later else number) % 24, 0, zone=clocked.zone)
        return [opening, clocked]
    return [clocked]


def _small(word: str) -> int:
    return int(word) if word.isdecimal() and len(word) <= 2 else SMALL.get(word, 0)


def _moved(clocked: Clocked, first: int, minutes: int) -> Clocked:
    hour, minute = divmod((clocked.hour * 60 + clocked.minute + minutes) % (24 * 60), 60)
    return clocked._replace(first=first, hour=hour, minute=minute)


def at(day: date, clocked: Clocked | None, now: datetime) -> str:
    """Return a day and a time of it as ISO 8601, in the zone of the clock; without a time the day begins.

    >>> from datetime import UTC
    >>> at(date(2027, 5, 12), Clocked(0, 1, 15, 30), datetime(2026, 11, 2, tzinfo=UTC))
    '2027-05-12T15:30:00Z'
    """
    moment = time(clocked.hour, clocked.minute, clocked.second) if clocked else time()
    zone = now.tzinfo if clocked is None or clocked.zone is None else _offset(clocked.zone)
    return iso(datetime.combine(day, moment, zone))


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
    here = now if clocked.zone is None or now.tzinfo is None else now.astimezone(_offset(clocked.zone))
    ahead = (clocked.hour, clocked.minute) > (here.hour, here.minute)
    return here.date() if ahead or here.date() == date.max else here.date() + timedelta(days=1)


def _offset(hours: int) -> timezone:
    return timezone(timedelta(hours=hours))


def _spoken(said: Said, place: int) -> Clocked | None:
    """Read `half past three`, `a quarter to 6 pm`, `twenty-five past nine`."""
    word, after = said.words[place], place + 1
    minutes = _SPOKEN.get(word)
    if word == "twenty" and "five" in (said.word(after), said.word(after + 1)):
        minutes, after = 25, after + (1 if said.word(after) == "five" else 2)
    if minutes is None:
        minutes = int(word) if len(word) <= 2 else 60
    named = said.word(after) == "minutes"
    relation, hour = said.word(after + named), said.word(after + named + 1)
    number = _small(hour)
    if relation not in ("past", "to") or not 1 <= number <= 12 or minutes >= 60:
        return None
    last, half = _half(said, after + named + 2)
    if said.word(last) in ("o'clock", "oclock"):
        last, half = last + 1, half or 0
    # "Five to ten" may be so many people, and "9 to 5 pm" are opening hours.
    if relation == "to" and not (word == "quarter" or named or (half is not None and word in _SPOKEN)):
        return None
    whole = (number if half is None else number % 12 + half) * 60 + (minutes if relation == "past" else -minutes)
    first = place - (word == "quarter" and said.word(place - 1) == "a")
    last, zone = _zone(said, last)
    return Clocked(first, last, whole // 60 % 24, whole % 60, zone=zone)


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
    if hour > 23 or minute > 59 or second > 59:
        return None
    end, zone = _zone(said, last)
    return Clocked(place, end, hour, minute, second, zone)


def _zone(said: Said, place: int) -> tuple[int, int | None]:
    """Return where the name of a zone ends, and its hours from UTC: `CET`, `UTC+2`."""
    word = said.word(place)
    # A small "est" is a French verb.
    if word not in _ZONES or (word == "est" and not said.part(place, place + 1).isupper()):
        return place, None
    sign, hours = said.word(place + 1), said.word(place + 2)
    if word in ("utc", "gmt") and sign in ("+", "-", "\u2212") and hours.isdecimal() and int(hours[:2]) <= 14:
        return place + 3, int(hours[:2]) if sign == "+" else -int(hours[:2])
    return place + 1, _ZONES[word]


def _half(said: Said, place: int) -> tuple[int, int | None]:
    """Return where `am`, `p.m.` or `in the evening` ends, and the hours it adds; None if there is none."""
    word = said.word(place)
    if word in ("am", "pm") and not (word == "am" and said.word(place + 1) in ("the", "here")):
        return place + 1, _HALVES[word]
    if word in ("a", "p") and said.word(place + 1) == "." and said.word(place + 2) == "m":
        return place + (4 if said.word(place + 3) == "." else 3), _HALVES[word]
    if word == "in" and said.word(place + 1) == "the" and said.word(place + 2) in _PARTS:
        part = said.word(place + 2)
        # Two in the night is early, ten late.
        early = part == "night" and _small(said.word(place - 1)) % 12 < 6
        return place + 3, 0 if early else _PARTS[part]
    return place, None


def _hours(said: Said, place: int) -> tuple[int, int]:
    """Return where a word for the hour ends, and the minutes behind it: `15h30`; -1 if there is no such word."""
    word = said.word(place)
    if word not in _HOURS:
        return -1, 0
    after = said.word(place + 1)
    if len(after) == 2 and after.isdecimal() and (said.glued(place + 1) or word == "uhr"):
        return place + 2, int(after)
    if word == "uhr" and 0 < SMALL.get(after, 0) < 60:
        return place + 2, SMALL[after]
    # A mere `3h` is a length of time.
    return (-1, 0) if word == "h" else (place + 1, 0)
