"""Find the days and times of day that a text names.

A day may lack its year, or its year and month ("the 12th"); `Day.settle` completes it. With slashes the month comes
first (5/12/2027 is May 12) unless that is impossible; with points or hyphens the day does. "Friday" is the first Friday
after today, "next Friday" the one of next week, and weeks begin on Monday.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from itertools import islice
from typing import NamedTuple

from memoranda.abl.understanding.vocabulary import (
    ARTICLES,
    DAY_UNITS,
    MONEY_WORDS,
    MONTHS,
    NEXT_WORDS,
    ORDINALS,
    PAST_WORDS,
    RELATIVE_DAYS,
    SHORT_WEEKDAYS,
    SMALL,
    SUFFIXES,
    UNIT_WORDS,
    WEEKDAYS,
    word_set,
)
from memoranda.abl.understanding.words import Utterance

JOINERS = word_set("to - – — until till through thru bis au al ao hasta ate")
"""Words between the start and the end of a range."""
_BETWEEN = frozenset({"between", "zwischen", "entre"})
_ANDS = word_set("and und et y e")
_RANGE_WORDS = JOINERS | {"and", "the"}
_BEFORE_DAYS = JOINERS | word_set(
    "the on from by this coming next last since for of am vom ab zum den dem der le el o dia and before after"
)
_BEFORE_SHORT_DAYS = JOINERS | word_set("on next this coming last from by since before after am")
_GERMAN = word_set("am vom ab zum den der bis")
_AWAY = frozenset(DAY_UNITS) | {"now", "today", "time"}
"""Last words of a distance from today."""
_OTHER_DAYS = word_set("easter good black cyber ash palm whit holy every each jeden chaque cada ogni todo todos")
"""Words before a weekday that make it another day than the next one: Good Friday, every Friday."""
_HOLIDAYS = word_set("easter christmas thanksgiving xmas pentecost ramadan")
_PLACES_IN_MONTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
"""Words before a weekday that count it within a month."""
_MARKET_DAYS = {"segunda": 0, "terca": 1, "quarta": 2, "quinta": 3, "sexta": 4}
_FRENCH_WEEKS = {"huit": 7, "quinze": 14}
"""Days that French "en huit" and "en quinze" add to a weekday."""
_LATER = word_set("from after nach despues")
_LASTS = word_set("for stay staying spend spending fur")
"""Words before a length of time."""
_SHORT_YEARS = range(20, 70)
_YEARS = range(1900, 2200)
_YEARS_AHEAD = 8
_MOST_DAYS = 32


class Day(NamedTuple):
    """A day in the words `first` to `last`, exclusive; a missing year or month is 0."""

    first: int
    last: int
    year: int
    month: int
    day: int

    def settle(self, today: date, *, past: bool = False, after: date | None = None) -> date | None:
        """Return the next such day from today (with `past`, the previous one), not before `after`, or None.

        >>> Day(0, 1, 0, 5, 12).settle(date(2026, 11, 2)), Day(0, 1, 0, 0, 3).settle(date(2026, 11, 2))
        (datetime.date(2027, 5, 12), datetime.date(2026, 11, 3))
        """
        if self.year:
            return _date_or_none(self.year, self.month, self.day)
        begin = after if after is not None and after > today else today
        if not self.month:
            return self._in_some_month(begin, past=past)
        for distance in range(_YEARS_AHEAD + 1):
            year = begin.year - distance if past else begin.year + distance
            found = _date_or_none(year, self.month, self.day)
            if found is not None and (found <= begin if past else found >= begin):
                return found
        return None

    def _in_some_month(self, begin: date, *, past: bool) -> date | None:
        for distance in range(13):
            year, month = shift_month(begin, -distance if past else distance)
            found = _date_or_none(year, month, self.day)
            if found is not None and (found <= begin if past else found >= begin):
                return found
        return None


def find_days(said: Utterance, today: date) -> list[Day]:
    """Return the days that a text names, from left to right."""
    found: list[Day] = []
    # In this order: `set.isdisjoint(mapping)` would iterate over the whole mapping.
    if not _ANCHORS.keys().isdisjoint(said.known):
        for place, word in enumerate(said.words):
            reader = _ANCHORS.get(word)
            if reader is not None and (not found or place >= found[-1].last):
                if len(found) >= _MOST_DAYS:
                    break
                found.extend(reader(said, place, found[-1].last if found else 0, today))
    if said.digits:
        written = (_numeric_date(said, place) for place in said.digits)
        found.extend(islice((day for day in written if day is not None), _MOST_DAYS))
    if len(found) > 1:
        found = _merge(said, sorted(found), today)
    if not said.known.isdisjoint(("after", "before")):
        found = [_apply_offset(said, day, today) for day in found]
    return found


def _apply_offset(said: Utterance, day: Day, today: date) -> Day:
    """Return the day of `two days after 3 May`."""
    start, days, months = _offset(said, day.first, 0, dated=True)
    settled = day.settle(today) if days or months else None
    return next(iter(_as_day(start, day.last, move(settled, days, months))), day) if settled else day


def shift_month(day: date, months: int) -> tuple[int, int]:
    """Return the year and month a number of months away."""
    count = day.year * 12 + day.month - 1 + months
    return count // 12, count % 12 + 1


def move(day: date, days: int, months: int = 0) -> date | None:
    """Return the day a number of days or months away; None outside the calendar."""
    if months:
        year, month = shift_month(day, months)
        return _date_or_none(year, month, min(day.day, monthrange(year, month)[1])) if 1 <= year <= 9999 else None
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return None


def _date_or_none(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _as_day(first: int, last: int, day: date | None) -> list[Day]:
    return [Day(first, last, day.year, day.month, day.day)] if day else []


# --- 12 May, May 12th, 3 to 5 May ---------------------------------------------------------------------------------


def _number(word: str) -> int:
    """Return the day of the month in digits, or 0."""
    return int(word) if len(word) <= 2 and word.isdecimal() and 1 <= int(word) <= 31 else 0


def _day_ending(said: Utterance, end: int, floor: int) -> tuple[int, int]:
    """Return the start and number of a day such as `12`, `12th`, `12.` or `third` that ends at a position."""
    if end < floor:
        return end, 0
    word = said.words[end]
    if (word in SUFFIXES or word == ".") and end > floor and said.is_attached(end):
        end -= 1
        word = said.words[end]
    ordinal = ORDINALS.get(word, 0)
    tens = end - 2 if said.word(end - 1) == "-" else end - 1
    if 0 < ordinal < 10 and tens >= floor and said.words[tens] in ("twenty", "thirty"):
        return tens, SMALL[said.words[tens]] + ordinal
    return end, _number(word) or ordinal


def _day_beginning(said: Utterance, place: int) -> tuple[int, int]:
    """Return the end and number of a day that begins at a position; 0 if the digits count something else."""
    day = _number(said.word(place))
    end = place + 1
    if not day:
        return end, 0
    after = said.word(end)
    if after in SUFFIXES and said.is_attached(end):
        return end + 1, day
    counts = after in UNIT_WORDS or after in MONEY_WORDS or after in ("am", "pm", "%", "€")
    return end, 0 if counts else day


def _year_at(said: Utterance, place: int) -> tuple[int, int]:
    """Return the end and value of a year at a position; the same position and 0 if there is none."""
    start = place + 1 if said.word(place) in (",", "de", "of", "-", "/") else place
    word = said.word(start)
    if len(word) == 4 and word.isdecimal() and int(word) in _YEARS:
        return start + 1, int(word)
    if said.word(place) in ("'", "\u2019") and said.is_attached(place + 1):
        short = said.word(place + 1)
        return (place + 2, _century(int(short))) if short.isdecimal() and len(short) == 2 else (place, 0)
    following = said.word(place + 1)
    alone = not following or following in JOINERS or following in (",", ".", "!", "?", ";", "at", "for")
    word = said.word(place)
    short = len(word) == 2 and word.isdecimal() and int(word) in _SHORT_YEARS
    return (place + 1, _century(int(word))) if alone and short else (place, 0)


def _century(short: int) -> int:
    """Return the year for its last two digits."""
    return short + (2000 if short < 70 else 1900)


def _by_month(said: Utterance, place: int, floor: int, today: date) -> list[Day]:
    month = MONTHS[said.words[place]]
    before = place - 1
    if said.word(before) in ("of", "de", "-", "/"):
        before -= 1
    first, day = _day_ending(said, before, floor)
    if day:
        last, year = _year_at(said, place + 1)
        opening = _range_before(said, first, floor)
        found = [Day(opening[0], opening[1], year, month, opening[2])] if opening else []
        return [*found, Day(first, last, year, month, day)]
    return _month_first(said, place, month)


def _range_before(said: Utterance, first: int, floor: int) -> tuple[int, int, int] | None:
    """Return the first day of `3 to 5 May`: its start, its end and its number."""
    joiner = first - 2 if said.word(first - 1) == "the" else first - 1
    if joiner <= floor:
        return None
    start, day = _day_ending(said, joiner - 1, floor)
    word, before = said.word(joiner), said.word(start - 1)
    between = (word in _ANDS and before in _BEFORE_DAYS | _BETWEEN) or (word == "a" and before in ("de", "do"))
    return (start, joiner, day) if day and (word in JOINERS or between) else None


def _month_first(said: Utterance, place: int, month: int) -> list[Day]:
    """Return the days of `May 12th, 2027` or `May 3-5`."""
    last, day = _day_beginning(said, place + 2 if said.word(place + 1) == "the" else place + 1)
    if not day:
        return []
    end, year = _year_at(said, last)
    first = Day(place, end, year, month, day)
    between = said.word(place - 1) in _BETWEEN and said.word(end) == "and"
    if said.word(end) not in JOINERS and not between:
        return [first]
    start = end + 2 if said.word(end + 1) == "the" else end + 1
    close, second = _day_beginning(said, start)
    if not second or said.word(close) in MONTHS or said.word(close) == "of":
        return [first]
    close, later = _year_at(said, close)
    return [first._replace(year=year or later), Day(start, close, later or year, month, second)]


# --- tomorrow, next Friday, in two weeks, the 12th ------------------------------------------------------------------


def _relative(said: Utterance, place: int, floor: int, today: date) -> list[Day]:
    word, before = said.words[place], said.word(place - 1)
    if word == "morgen" and before == "guten":
        return []
    if word == "manana" and before == "la":
        return []
    first, days = place, RELATIVE_DAYS[word]
    beyond = (said.word(place - 2), before)
    if beyond in (("day", "after"), ("depois", "de"), ("apres", "-")) and days == 1:
        first, days = place - 2, 2
    elif before == "pasado":
        first, days = place - 1, 2
    elif beyond == ("day", "before") and days == -1:
        first, days = place - 2, -2
    return _with_offset(said, first, place + 1, floor, move(today, days))


def _weekday(said: Utterance, place: int, floor: int, today: date) -> list[Day]:
    word = said.words[place]
    wanted = WEEKDAYS.get(word)
    if wanted is None:
        if said.word(place - 1) not in _BEFORE_SHORT_DAYS and len(said.words) > 1:
            return []
        wanted = SHORT_WEEKDAYS[word]
    return _on_weekday(said, place, place + 1, floor, today, wanted)


def _market_day(said: Utterance, place: int, floor: int, today: date) -> list[Day]:
    """Return the day of Portuguese `sexta-feira`."""
    first = place - 2 if said.word(place - 1) == "-" else place - 1
    wanted = _MARKET_DAYS.get(said.word(first))
    return [] if wanted is None or first < floor else _on_weekday(said, first, place + 1, floor, today, wanted)


def _on_weekday(said: Utterance, first: int, last: int, floor: int, today: date, wanted: int) -> list[Day]:
    before, after, beyond = said.word(first - 1), said.word(last), said.word(last + 1)
    if before in _OTHER_DAYS or (after in ("after", "before") and beyond in _HOLIDAYS):
        return []
    in_month = after in ("of", "in")
    start, count = _place_in_month(said, first)
    if count and (in_month or before not in PAST_WORDS):
        # `the first Monday` alone does not say of which month.
        return _weekday_in_month(said, start, last + 1, today, wanted, count) if in_month else []
    ahead = (wanted - today.weekday()) % 7
    next_week = after in NEXT_WORDS
    if before in NEXT_WORDS or next_week:
        first -= before in NEXT_WORDS
        last += (2 if beyond in ("week", "semaine", "semana") else 1) if next_week else 0
        days = 7 - today.weekday() + wanted
    elif before in PAST_WORDS or after in ("dernier", "pasado", "passado"):
        first -= before in PAST_WORDS
        days = ahead - 7
    elif (after, beyond) == ("after", "next"):
        return []  # Ambiguous: some count from this Friday, others from the next.
    else:
        days = ahead if before == "this" else ahead or 7
    return _with_offset(said, first, last, floor, move(today, days))


def _place_in_month(said: Utterance, weekday: int) -> tuple[int, int]:
    """Return where `first`, `2nd` or `last` begins before a weekday, and its number; 0 without such a word."""
    before = said.word(weekday - 1)
    if before in ("st", "nd", "rd", "th") and said.word(weekday - 2) in ("1", "2", "3", "4", "5"):
        return weekday - 2, int(said.word(weekday - 2))
    return weekday - 1, _PLACES_IN_MONTH.get(before, 0)


def _weekday_in_month(said: Utterance, first: int, place: int, today: date, wanted: int, count: int) -> list[Day]:
    """Return the day of `first Monday of May`, of the coming one without a year; the month is at `place`."""
    word = said.word(place)
    last, year = place + 1, 0
    if word in ("next", "this") and said.word(place + 1) == "month":
        last += 1
        year, month = shift_month(today, 1 if word == "next" else 0)
    elif (month := MONTHS.get(word, 0)) == 0 or said.word(first - 1) == "to":
        return []
    else:
        last, year = _year_at(said, place + 1)
    for candidate in (year,) if year else (today.year, today.year + 1):
        begin = date(candidate, month, 1)
        days = [begin + timedelta(offset) for offset in range((wanted - begin.weekday()) % 7, 31, 7)]
        days = [day for day in days if day.month == month]
        if (count == -1 or count <= len(days)) and (year or days[count - (count > 0)] >= today):
            return _as_day(first, last, days[count - (count > 0)])
    return []


def _with_offset(said: Utterance, first: int, last: int, floor: int, day: date | None) -> list[Day]:
    """Return a day moved by the words next to it: `a week from Friday`, `a week on Friday`, `Friday week`."""
    if day is None:
        return []
    after = said.word(last)
    if after in ("week", "fortnight"):
        return _as_day(first, last + 1, move(day, DAY_UNITS[after][0]))
    if after == "en" and (days := _FRENCH_WEEKS.get(said.word(last + 1))):
        return _as_day(first, last + 2, move(day, days))
    start, days, months = _offset(said, first, floor)
    return _as_day(start, last, move(day, days, months)) if days or months else _as_day(first, last, day)


def _offset(said: Utterance, first: int, floor: int, *, dated: bool = False) -> tuple[int, int, int]:
    """Return the start, days and months of an offset before a day, such as `two weeks after`; else 0 days and months.

    `for a week from Friday` and, with a date, `two weeks from 3 May` are lengths of time, not offsets.
    """
    begin = first - 1 if said.word(first - 1) == "the" else first
    link, unit = said.word(begin - 1), said.word(begin - 2)
    if unit not in DAY_UNITS or begin - 2 < floor or (dated and link not in ("after", "before")):
        return first, 0, 0
    start, count = _count_before(said, begin - 2, floor)
    if not count and unit == "day" and link in ("after", "before"):
        start, count = begin - 2, 1
    days, months = DAY_UNITS[unit]
    if link == "before":
        count = -count
    elif link not in _LATER and not (link == "on" and days >= 7):
        count = 0
    return (first, 0, 0) if said.word(start - 1) in _LASTS else (start, days * count, months * count)


def _distance(said: Utterance, place: int, floor: int, today: date) -> list[Day]:
    """Return the day of `in two weeks`, `3 days from now` or `a week ago`; `three days` alone is not a day."""
    first, count = _count_before(said, place, floor)
    if not count:
        return []
    before, after = said.word(first - 1), said.word(place + 1)
    last = place + 1
    if before in ("in", "dans", "en", "em"):
        first -= 1
    elif after == "from" and said.word(place + 2) in ("now", "today"):
        last = place + 3
    elif after == "ago" or before == "vor":
        first, last, count = first - (before == "vor"), last + (after == "ago"), -count
    else:
        return []
    days, months = DAY_UNITS[said.words[place]]
    return _as_day(first, last, move(today, days * count, months * count))


def _count_before(said: Utterance, place: int, floor: int) -> tuple[int, int]:
    """Return the start and value of the count before a unit; 0 if there is none."""
    at = place - 1
    if said.word(at) == "of" and said.word(at - 1) == "couple":
        return (at - 2 if said.word(at - 2) in ARTICLES else at - 1), 2
    word = said.word(at)
    if at < floor or not word:
        return at, 0
    if word in ARTICLES:
        return at, 1
    return at, int(word) if word.isdecimal() and len(word) <= 4 else SMALL.get(word, 0)


def _ordinal(said: Utterance, place: int, floor: int, today: date) -> list[Day]:
    """Return the day of `the 12th`, but not of `the 2nd room`."""
    first, day = _day_ending(said, place, floor)
    if not day or first == place or said.word(place).isdecimal():
        return []
    after = said.word(place + 1)
    if after.isalpha() and after not in JOINERS and after not in ("and", "or", "at", "for", "please", "with", "in"):
        return []
    alone = len(said.words) <= 3
    return [Day(first, place + 1, 0, 0, day)] if alone or said.word(first - 1) in _BEFORE_DAYS else []


# --- 2027-05-12, 12.5.2027, 5/12/2027 -------------------------------------------------------------------------------


def parse_date(word: str) -> tuple[int, int, int] | None:
    """Return the year (0 if it is not said), month and day that digits write, or None.

    >>> parse_date("2027-05-12"), parse_date("12.5.2027"), parse_date("5/12/2027"), parse_date("13/5/27")
    ((2027, 5, 12), (2027, 5, 12), (2027, 5, 12), (2027, 5, 13))
    """
    for mark in "-./":
        if mark in word:
            parts = word.partition("T")[0].partition("t")[0].split(mark)
            return _from_parts(parts, mark) if all(part.isdecimal() and len(part) <= 4 for part in parts) else None
    return None


def _from_parts(parts: list[str], mark: str) -> tuple[int, int, int] | None:
    if len(parts) == 2:
        year, first, second = 0, int(parts[0]), int(parts[1])
        if mark != "/":
            return None
    elif len(parts) != 3:
        return None
    elif len(parts[0]) == 4:
        return _valid(int(parts[0]), int(parts[1]), int(parts[2]))
    else:
        first, second, year = map(int, parts)
        if len(parts[2]) == 2:
            year = _century(year)
    month, day = (first, second) if mark == "/" else (second, first)
    return _valid(year, month, day) or _valid(year, day, month)


def _valid(year: int, month: int, day: int) -> tuple[int, int, int] | None:
    if (year and year not in _YEARS) or not 1 <= month <= 12:
        return None
    return (year, month, day) if 1 <= day <= monthrange(year or 2000, month)[1] else None


def _numeric_date(said: Utterance, place: int) -> Day | None:
    word = said.words[place]
    if len(word) < 3 or word.isdecimal():
        return None
    read = parse_date(word)
    if read is not None:
        part_of_code = said.is_attached(place) and said.word(place - 1).isalnum()
        return None if part_of_code or not (read[0] or _is_day(said, place)) else Day(place, place + 1, *read)
    if said.word(place + 1) == "." and said.is_attached(place + 1) and said.word(place - 1) in _GERMAN:
        read = parse_date(f"{word}.2000")
        return Day(place, place + 2, 0, read[1], read[2]) if read else None
    return None


def _is_day(said: Utterance, place: int) -> bool:
    """Say whether digits such as `5/12` are a day rather than a fraction."""
    if said.words[place] == "24/7":
        return False
    beside = said.word(place - 1) in _BEFORE_DAYS or said.word(place + 1) in JOINERS
    return beside or len(said.words) <= 3


def _merge(said: Utterance, found: list[Day], today: date) -> list[Day]:
    """Drop days that overlap, and join a weekday with the date after it: `Friday, 12 May`."""
    kept = [found[0]]
    for day in found[1:]:
        last = kept[-1]
        if day.first < last.last:
            continue
        between = said.words[last.last : day.first]
        weekday = _is_weekday(said, last) and not _is_weekday(said, day)
        if weekday and between in ([], [","], ["the"], [",", "the"]):
            kept[-1] = _weekday_of(said, last, day, today)._replace(first=last.first)
        else:
            joined = bool(between) and set(between) <= _RANGE_WORDS
            kept[-1:] = [_complete(last, day) if joined else last, _following(said, last, day) if joined else day]
    return kept


def _is_weekday(said: Utterance, day: Day) -> bool:
    word = said.words[day.last - 1]
    return word in WEEKDAYS or word in SHORT_WEEKDAYS


def _weekday_of(said: Utterance, weekday: Day, day: Day, today: date) -> Day:
    """Return the day of a weekday and what follows it: `Friday, 12 May`, `Saturday in two weeks`."""
    begin, end = _date_or_none(weekday.year, weekday.month, weekday.day), _date_or_none(day.year, day.month, day.day)
    away = (end - today).days if end and said.words[day.last - 1] in _AWAY else 0
    later = move(begin, away) if begin and away > 0 and not away % 7 else None
    return day._replace(year=later.year, month=later.month, day=later.day) if later else day


def _following(said: Utterance, one: Day, two: Day) -> Day:
    """Return the end of a range, moved after its start if it is a weekday: `from Monday to Friday`, on a Wednesday."""
    begin, end = _date_or_none(one.year, one.month, one.day), _date_or_none(two.year, two.month, two.day)
    if begin is None or end is None or end > begin or said.words[two.last - 1] not in WEEKDAYS:
        return two
    later = move(begin, (end.weekday() - begin.weekday()) % 7 or 7)
    return two._replace(year=later.year, month=later.month, day=later.day) if later else two


def _complete(one: Day, two: Day) -> Day:
    """Return the start of a range with the month and year that only its end names."""
    if not one.month and two.month:
        return one._replace(year=two.year, month=two.month)
    if one.month and two.year and not one.year:
        return one._replace(year=two.year - ((one.month, one.day) > (two.month, two.day)))
    return one


_Reader = Callable[[Utterance, int, int, date], list[Day]]
_ANCHORS: dict[str, _Reader] = {
    **dict.fromkeys(SUFFIXES, _ordinal),
    **dict.fromkeys(DAY_UNITS, _distance),
    **dict.fromkeys(RELATIVE_DAYS, _relative),
    "feira": _market_day,
    **dict.fromkeys((*WEEKDAYS, *SHORT_WEEKDAYS), _weekday),
    **dict.fromkeys(MONTHS, _by_month),
}


# --- times of day ---------------------------------------------------------------------------------------------------

_NAMED = {
    **dict.fromkeys("noon midday mittag mittags midi mediodia".split(), 12),
    **dict.fromkeys("midnight mitternacht minuit medianoche".split(), 0),
}
_HALVES = {"am": 0, "pm": 12, "a": 0, "p": 12}
_PARTS = {"morning": 0, "afternoon": 12, "evening": 12, "night": 12}
PARTS_OF_DAY = frozenset(_PARTS) | {"tonight", "vormittag", "nachmittag", "abend"}
_HOURS = frozenset({"uhr", "h", "o'clock", "oclock"})
_JOINED = JOINERS | word_set("and or und oder")
"""Words that join two times into a span or a choice."""
_ZONES = {
    **dict.fromkeys(("utc", "gmt"), 0),
    **dict.fromkeys(("cet", "mez", "bst"), 1),
    **dict.fromkeys(("cest", "mesz"), 2),
    **{"msk": 3, "jst": 9, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
}
"""Names of time zones, and their hours from UTC."""
_MOST_TIMES = 32
_SPOKEN = {"half": 30, "quarter": 15, "five": 5, "ten": 10, "twenty": 20}
_TIME_WORDS = frozenset({*_NAMED, "am", "pm", "a", "p", "uhr", "h", "o'clock", "oclock", "past", "quarter", *_PARTS})


class ClockTime(NamedTuple):
    """A time of day in the words `first` to `last`, exclusive."""

    first: int
    last: int
    hour: int
    minute: int
    second: int = 0
    zone: int | None = None
    """Hours from UTC, if a zone follows it."""

    def iso_text(self) -> str:
        """Return the time as `15:30`, with seconds only if there are any."""
        return time(self.hour, self.minute, self.second).isoformat("seconds" if self.second else "minutes")


def find_times(said: Utterance) -> list[ClockTime]:
    """Return the times of day that a text names, from left to right."""
    if said.known.isdisjoint(_TIME_WORDS) and ":" not in said.text:
        return []
    found: list[ClockTime] = []
    for place, word in enumerate(said.words):
        if found and place < found[-1].last:
            continue
        if len(found) >= _MOST_TIMES:
            break
        if word in _NAMED:
            if said.word(place - 1) not in ("past", "to", "nach", "vor"):
                found.append(ClockTime(place, place + 1, _NAMED[word], 0))
        elif (word in _SPOKEN or word.isdecimal()) and (heard := _time_in_words(said, place)) is not None:
            found.append(heard)
        elif (read := _time_in_digits(said, place)) is not None:
            found.extend(_with_words_before(said, read))
    return found


def are_joined(said: Utterance, one: ClockTime, two: ClockTime) -> bool:
    """Say whether two times are a span or a choice: `from 3 to 5 pm`, `3 pm or 4 pm`."""
    return two.first - one.last == 1 and said.words[one.last] in _JOINED


def _with_words_before(said: Utterance, clock_time: ClockTime) -> list[ClockTime]:
    """Apply the words before a time to it: `halb 4 Uhr`, `5 nach 4 Uhr`, the `3 to` of `3 to 4 pm`."""
    at = clock_time.first - 1
    word, counted = said.word(at), said.word(at - 1)
    if word == "halb":
        return [_shift_time(clock_time, at, -30)]
    number = _small(counted)
    minutes = 15 if counted == "viertel" else number
    if word in ("nach", "vor") and 0 < minutes < 30:
        return [_shift_time(clock_time, at - 1, minutes if word == "nach" else -minutes)]
    if word in _JOINED and 0 < number <= 24:
        later = number <= 12 <= clock_time.hour and number % 12 + 12 <= clock_time.hour
        opening = ClockTime(at - 1, at, (number % 12 + 12 if later else number) % 24, 0, zone=clock_time.zone)
        return [opening, clock_time]
    return [clock_time]


def _small(word: str) -> int:
    return int(word) if word.isdecimal() and len(word) <= 2 else SMALL.get(word, 0)


def _shift_time(clock_time: ClockTime, first: int, minutes: int) -> ClockTime:
    hour, minute = divmod((clock_time.hour * 60 + clock_time.minute + minutes) % (24 * 60), 60)
    return clock_time._replace(first=first, hour=hour, minute=minute)


def moment_at(day: date, clock_time: ClockTime | None, now: datetime) -> str:
    """Return a day and a time as ISO 8601 in the time zone of the clock; midnight without a time.

    >>> from datetime import UTC
    >>> moment_at(date(2027, 5, 12), ClockTime(0, 1, 15, 30), datetime(2026, 11, 2, tzinfo=UTC))
    '2027-05-12T15:30:00Z'
    """
    moment = time(clock_time.hour, clock_time.minute, clock_time.second) if clock_time else time()
    zone = now.tzinfo if clock_time is None or clock_time.zone is None else _utc_offset(clock_time.zone)
    return iso_text(datetime.combine(day, moment, zone))


def read_moment(written: str, now: datetime) -> str | None:
    """Return a date and time in ISO 8601 with seconds, in the zone of the clock if it has none; else None."""
    if "T" not in written and "t" not in written:
        return None
    try:
        moment = datetime.fromisoformat(written.upper())
    except ValueError:
        return None
    return iso_text(moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo))


def iso_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 with seconds, and `Z` for UTC."""
    written = moment.isoformat(timespec="seconds")
    return written.removesuffix("+00:00") + "Z" if written.endswith("+00:00") else written


def next_day_at(clock_time: ClockTime, now: datetime) -> date:
    """Return the day on which a time comes next: today, if it is not over yet."""
    here = now if clock_time.zone is None or now.tzinfo is None else now.astimezone(_utc_offset(clock_time.zone))
    ahead = (clock_time.hour, clock_time.minute) > (here.hour, here.minute)
    return here.date() if ahead or here.date() == date.max else here.date() + timedelta(days=1)


def _utc_offset(hours: int) -> timezone:
    return timezone(timedelta(hours=hours))


def _time_in_words(said: Utterance, place: int) -> ClockTime | None:
    """Return the time of `half past three`, `a quarter to 6 pm` or `twenty-five past nine`."""
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
    # "Five to ten" may be a number of people, and "9 to 5 pm" opening hours.
    if relation == "to" and not (word == "quarter" or named or (half is not None and word in _SPOKEN)):
        return None
    whole = (number if half is None else number % 12 + half) * 60 + (minutes if relation == "past" else -minutes)
    first = place - (word == "quarter" and said.word(place - 1) == "a")
    last, zone = _zone(said, last)
    return ClockTime(first, last, whole // 60 % 24, whole % 60, zone=zone)


def _time_in_digits(said: Utterance, place: int) -> ClockTime | None:
    """Return the time of `15:30`, `3pm`, `3.30 p.m.`, `15h30`, `15 Uhr` or `8 in the morning`."""
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
    return ClockTime(place, end, hour, minute, second, zone)


def _zone(said: Utterance, place: int) -> tuple[int, int | None]:
    """Return the end of a time zone, and its hours from UTC: `CET`, `UTC+2`."""
    word = said.word(place)
    # In lower case, "est" is a French verb.
    if word not in _ZONES or (word == "est" and not said.part(place, place + 1).isupper()):
        return place, None
    sign, hours = said.word(place + 1), said.word(place + 2)
    if word in ("utc", "gmt") and sign in ("+", "-", "\u2212") and hours.isdecimal() and int(hours[:2]) <= 14:
        return place + 3, int(hours[:2]) if sign == "+" else -int(hours[:2])
    return place + 1, _ZONES[word]


def _half(said: Utterance, place: int) -> tuple[int, int | None]:
    """Return the end of `am`, `p.m.` or `in the evening`, and the hours that it adds; None if there is none."""
    word = said.word(place)
    if word in ("am", "pm") and not (word == "am" and said.word(place + 1) in ("the", "here")):
        return place + 1, _HALVES[word]
    if word in ("a", "p") and said.word(place + 1) == "." and said.word(place + 2) == "m":
        return place + (4 if said.word(place + 3) == "." else 3), _HALVES[word]
    if word == "in" and said.word(place + 1) == "the" and said.word(place + 2) in _PARTS:
        part = said.word(place + 2)
        # Two in the night is 2:00, ten in the night 22:00.
        early = part == "night" and _small(said.word(place - 1)) % 12 < 6
        return place + 3, 0 if early else _PARTS[part]
    return place, None


def _hours(said: Utterance, place: int) -> tuple[int, int]:
    """Return the end of a word for the hour and the minutes after it: `15h30`; -1 without such a word."""
    word = said.word(place)
    if word not in _HOURS:
        return -1, 0
    after = said.word(place + 1)
    if len(after) == 2 and after.isdecimal() and (said.is_attached(place + 1) or word == "uhr"):
        return place + 2, int(after)
    if word == "uhr" and 0 < SMALL.get(after, 0) < 60:
        return place + 2, SMALL[after]
    # `3h` alone is a length of time.
    return (-1, 0) if word == "h" else (place + 1, 0)
