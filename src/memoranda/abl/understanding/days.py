"""The words of a user in; the days they name, each with its place, out.

A day may lack its year, or its year and month ("the 12th"); `Day.settle` finds the one that is meant. With slashes the
month comes first (5/12/2027 is May 12) unless that is impossible; with points or hyphens the day does. "Friday" is the
first Friday after today, "next Friday" the one of next week, and weeks begin on Monday.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
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
    bag,
)
from memoranda.abl.understanding.words import Said

JOINERS = bag("to - – — until till through thru bis au al ao hasta ate")
"""Words between the two ends of a range."""
_BETWEEN = frozenset({"between", "zwischen", "entre"})
_ANDS = bag("and und et y e")
_RANGE_WORDS = JOINERS | {"and", "the"}
_BEFORE_DAYS = JOINERS | bag(
    "the on from by this coming next last since for of am vom ab zum den dem der le el o dia and before after"
)
_BEFORE_SHORT_DAYS = JOINERS | bag("on next this coming last from by since before after am")
_GERMAN = bag("am vom ab zum den der bis")
_AWAY = frozenset(DAY_UNITS) | {"now", "today", "time"}
"""What a distance from today ends with."""
_OTHER_DAYS = bag("easter good black cyber ash palm whit holy every each jeden chaque cada ogni todo todos")
"""Before a weekday: neither Good Friday nor every Friday is the next one."""
_MARKET_DAYS = {"segunda": 0, "terca": 1, "quarta": 2, "quinta": 3, "sexta": 4}
_FRENCH_WEEKS = {"huit": 7, "quinze": 14}
"""What a French weekday "en huit" is away from the next one."""
_LATER = bag("from after nach despues")
_LASTS = bag("for stay staying spend spending fur")
"""Words before the time that something lasts."""
_SHORT_YEARS = range(20, 70)
_YEARS = range(1900, 2200)
_YEARS_AHEAD = 8
_MOST_DAYS = 32


class Day(NamedTuple):
    """A day from the word `first` up to the word `last`; a year or month that was not said is 0."""

    first: int
    last: int
    year: int
    month: int
    day: int

    def settle(self, today: date, *, past: bool = False, after: date | None = None) -> date | None:
        """Return the next such day from today on (or the last one before), not before `after`; None if there is none.

        >>> Day(0, 1, 0, 5, 12).settle(date(2026, 11, 2)), Day(0, 1, 0, 0, 3).settle(date(2026, 11, 2))
        (datetime.date(2027, 5, 12), datetime.date(2026, 11, 3))
        """
        if self.year:
            return _made(self.year, self.month, self.day)
        begin = after if after is not None and after > today else today
        if not self.month:
            return self._in_some_month(begin, past=past)
        for distance in range(_YEARS_AHEAD + 1):
            year = begin.year - distance if past else begin.year + distance
            found = _made(year, self.month, self.day)
            if found is not None and (found <= begin if past else found >= begin):
                return found
        return None

    def _in_some_month(self, begin: date, *, past: bool) -> date | None:
        for distance in range(13):
            year, month = shift_month(begin, -distance if past else distance)
            found = _made(year, month, self.day)
            if found is not None and (found <= begin if past else found >= begin):
                return found
        return None


def find_days(said: Said, today: date) -> list[Day]:
    """Return the days that a text names, from left to right."""
    found: list[Day] = []
    # In this order: a set that is asked about a mapping would walk through all of it.
    if not _ANCHORS.keys().isdisjoint(said.known):
        for place, word in enumerate(said.words):
            reader = _ANCHORS.get(word)
            if reader is not None and (not found or place >= found[-1].last):
                if len(found) >= _MOST_DAYS:
                    break
                found.extend(reader(said, place, found[-1].last if found else 0, today))
    if said.digits:
        written = (_written(said, place) for place in said.digits)
        found.extend(islice((day for day in written if day is not None), _MOST_DAYS))
    if len(found) > 1:
        found = _merged(said, sorted(found), today)
    if not said.known.isdisjoint(("after", "before")):
        found = [_put_off(said, day, today) for day in found]
    return found


def _put_off(said: Said, day: Day, today: date) -> Day:
    """Return the day that is meant with `two days after 3 May`."""
    start, days, months = _offset(said, day.first, 0, dated=True)
    settled = day.settle(today) if days or months else None
    return next(iter(_exactly(start, day.last, move(settled, days, months))), day) if settled else day


def shift_month(day: date, months: int) -> tuple[int, int]:
    """Return the year and month so many months away."""
    count = day.year * 12 + day.month - 1 + months
    return count // 12, count % 12 + 1


def move(day: date, days: int, months: int = 0) -> date | None:
    """Return the day so many days or months away; None outside of the calendar."""
    if months:
        year, month = shift_month(day, months)
        return _made(year, month, min(day.day, monthrange(year, month)[1])) if 1 <= year <= 9999 else None
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return None


def _made(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _exactly(first: int, last: int, day: date | None) -> list[Day]:
    return [Day(first, last, day.year, day.month, day.day)] if day else []


# --- 12 May, May 12th, 3 to 5 May ---------------------------------------------------------------------------------


def _number(word: str) -> int:
    """Return the day of a month that digits name, or 0."""
    return int(word) if len(word) <= 2 and word.isdecimal() and 1 <= int(word) <= 31 else 0


def _day_ending(said: Said, end: int, floor: int) -> tuple[int, int]:
    """Return where a day such as `12`, `12th`, `12.` or `third` begins that ends at a place, and its number."""
    if end < floor:
        return end, 0
    word = said.words[end]
    if (word in SUFFIXES or word == ".") and end > floor and said.glued(end):
        end -= 1
        word = said.words[end]
    ordinal = ORDINALS.get(word, 0)
    tens = end - 2 if said.word(end - 1) == "-" else end - 1
    if 0 < ordinal < 10 and tens >= floor and said.words[tens] in ("twenty", "thirty"):
        return tens, SMALL[said.words[tens]] + ordinal
    return end, _number(word) or ordinal


def _day_beginning(said: Said, place: int) -> tuple[int, int]:
    """Return where a day that begins at a place ends, and its number; 0 where the digits count something else."""
    day = _number(said.word(place))
    end = place + 1
    if not day:
        return end, 0
    after = said.word(end)
    if after in SUFFIXES and said.glued(end):
        return end + 1, day
    counts = after in UNIT_WORDS or after in MONEY_WORDS or after in ("am", "pm", "%", "€")
    return end, 0 if counts else day


def _year_at(said: Said, place: int) -> tuple[int, int]:
    """Return where a year at a place ends, and the year; 0 and the same place if there is none."""
    start = place + 1 if said.word(place) in (",", "de", "of", "-", "/") else place
    word = said.word(start)
    if len(word) == 4 and word.isdecimal() and int(word) in _YEARS:
        return start + 1, int(word)
    if said.word(place) in ("'", "\u2019") and said.glued(place + 1):
        short = said.word(place + 1)
        return (place + 2, _century(int(short))) if short.isdecimal() and len(short) == 2 else (place, 0)
    following = said.word(place + 1)
    alone = not following or following in JOINERS or following in (",", ".", "!", "?", ";", "at", "for")
    word = said.word(place)
    short = len(word) == 2 and word.isdecimal() and int(word) in _SHORT_YEARS
    return (place + 1, _century(int(word))) if alone and short else (place, 0)


def _century(short: int) -> int:
    """Return the year that its last two digits stand for."""
    return short + (2000 if short < 70 else 1900)


def _by_month(said: Said, place: int, floor: int, today: date) -> list[Day]:
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


def _range_before(said: Said, first: int, floor: int) -> tuple[int, int, int] | None:
    """Return the day before `to 5 May` in `3 to 5 May`: its first word, its end, its number."""
    joiner = first - 2 if said.word(first - 1) == "the" else first - 1
    if joiner <= floor:
        return None
    start, day = _day_ending(said, joiner - 1, floor)
    word, before = said.word(joiner), said.word(start - 1)
    between = (word in _ANDS and before in _BEFORE_DAYS | _BETWEEN) or (word == "a" and before in ("de", "do"))
    return (start, joiner, day) if day and (word in JOINERS or between) else None


def _month_first(said: Said, place: int, month: int) -> list[Day]:
    """Read `May 12th, 2027` and `May 3-5`."""
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


def _relative(said: Said, place: int, floor: int, today: date) -> list[Day]:
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
    return _moved(said, first, place + 1, floor, move(today, days))


def _weekday(said: Said, place: int, floor: int, today: date) -> list[Day]:
    word = said.words[place]
    wanted = WEEKDAYS.get(word)
    if wanted is None:
        if said.word(place - 1) not in _BEFORE_SHORT_DAYS and len(said.words) > 1:
            return []
        wanted = SHORT_WEEKDAYS[word]
    return _on_weekday(said, place, place + 1, floor, today, wanted)


def _market_day(said: Said, place: int, floor: int, today: date) -> list[Day]:
    """Read the Portuguese `sexta-feira`."""
    first = place - 2 if said.word(place - 1) == "-" else place - 1
    wanted = _MARKET_DAYS.get(said.word(first))
    return [] if wanted is None or first < floor else _on_weekday(said, first, place + 1, floor, today, wanted)


def _on_weekday(said: Said, first: int, last: int, floor: int, today: date, wanted: int) -> list[Day]:
    before, after, beyond = said.word(first - 1), said.word(last), said.word(last + 1)
    if before in _OTHER_DAYS:
        return []
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
        return []  # One counts from this Friday, another from the next.
    else:
        days = ahead if before == "this" else ahead or 7
    return _moved(said, first, last, floor, move(today, days))


def _moved(said: Said, first: int, last: int, floor: int, day: date | None) -> list[Day]:
    """Return a day as far away as the words beside it say: `a week from Friday`, `a week on Friday`, `Friday week`."""
    if day is None:
        return []
    after = said.word(last)
    if after in ("week", "fortnight"):
        return _exactly(first, last + 1, move(day, DAY_UNITS[after][0]))
    if after == "en" and (days := _FRENCH_WEEKS.get(said.word(last + 1))):
        return _exactly(first, last + 2, move(day, days))
    start, days, months = _offset(said, first, floor)
    return _exactly(start, last, move(day, days, months)) if days or months else _exactly(first, last, day)


def _offset(said: Said, first: int, floor: int, *, dated: bool = False) -> tuple[int, int, int]:
    """Return where `two weeks after` before a day begins, and the days and months; nothing for `two weeks from 3 May`.

    With a date it is as well how long something lasts, and `for a week from Friday` is nothing else.
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


def _distance(said: Said, place: int, floor: int, today: date) -> list[Day]:
    """Read `in two weeks`, `3 days from now`, `a week ago`; a mere `three days` is no day."""
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
    return _exactly(first, last, move(today, days * count, months * count))


def _count_before(said: Said, place: int, floor: int) -> tuple[int, int]:
    """Return where the count before a unit begins, and the count; 0 if there is none."""
    at = place - 1
    if said.word(at) == "of" and said.word(at - 1) == "couple":
        return (at - 2 if said.word(at - 2) in ARTICLES else at - 1), 2
    word = said.word(at)
    if at < floor or not word:
        return at, 0
    if word in ARTICLES:
        return at, 1
    return at, int(word) if word.isdecimal() and len(word) <= 4 else SMALL.get(word, 0)


def _ordinal(said: Said, place: int, floor: int, today: date) -> list[Day]:
    """Read `the 12th` where no thing is counted by it: not `the 2nd room`."""
    first, day = _day_ending(said, place, floor)
    if not day or first == place or said.word(place).isdecimal():
        return []
    after = said.word(place + 1)
    if after.isalpha() and after not in JOINERS and after not in ("and", "or", "at", "for", "please", "with", "in"):
        return []
    alone = len(said.words) <= 3
    return [Day(first, place + 1, 0, 0, day)] if alone or said.word(first - 1) in _BEFORE_DAYS else []


# --- 2027-05-12, 12.5.2027, 5/12/2027 -------------------------------------------------------------------------------


def read_written(word: str) -> tuple[int, int, int] | None:
    """Return the year (0 if it is not said), month and day that digits write, or None.

    >>> read_written("2027-05-12"), read_written("12.5.2027"), read_written("5/12/2027"), read_written("13/5/27")
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


def _written(said: Said, place: int) -> Day | None:
    word = said.words[place]
    if len(word) < 3 or word.isdecimal():
        return None
    read = read_written(word)
    if read is not None:
        part_of_code = said.glued(place) and said.word(place - 1).isalnum()
        return None if part_of_code or not (read[0] or _is_day(said, place)) else Day(place, place + 1, *read)
    if said.word(place + 1) == "." and said.glued(place + 1) and said.word(place - 1) in _GERMAN:
        read = read_written(f"{word}.2000")
        return Day(place, place + 2, 0, read[1], read[2]) if read else None
    return None


def _is_day(said: Said, place: int) -> bool:
    """Say whether digits such as `5/12` are a day and not a fraction."""
    if said.words[place] == "24/7":
        return False
    beside = said.word(place - 1) in _BEFORE_DAYS or said.word(place + 1) in JOINERS
    return beside or len(said.words) <= 3


def _merged(said: Said, found: list[Day], today: date) -> list[Day]:
    """Return days without those that overlap, and a weekday with the date behind it as one: `Friday, 12 May`."""
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
            kept[-1:] = [_completed(last, day) if joined else last, _following(said, last, day) if joined else day]
    return kept


def _is_weekday(said: Said, day: Day) -> bool:
    word = said.words[day.last - 1]
    return word in WEEKDAYS or word in SHORT_WEEKDAYS


def _weekday_of(said: Said, weekday: Day, day: Day, today: date) -> Day:
    """Return the day that a weekday and what stands behind it name: `Friday, 12 May`, `Saturday in two weeks`."""
    begin, end = _made(weekday.year, weekday.month, weekday.day), _made(day.year, day.month, day.day)
    away = (end - today).days if end and said.words[day.last - 1] in _AWAY else 0
    later = move(begin, away) if begin and away > 0 and not away % 7 else None
    return day._replace(year=later.year, month=later.month, day=later.day) if later else day


def _following(said: Said, one: Day, two: Day) -> Day:
    """Return the second day of a range, later if it is a weekday: `from Monday to Friday`, said on a Wednesday."""
    begin, end = _made(one.year, one.month, one.day), _made(two.year, two.month, two.day)
    if begin is None or end is None or end > begin or said.words[two.last - 1] not in WEEKDAYS:
        return two
    later = move(begin, (end.weekday() - begin.weekday()) % 7 or 7)
    return two._replace(year=later.year, month=later.month, day=later.day) if later else two


def _completed(one: Day, two: Day) -> Day:
    """Return the first day of a range with the month and year that only the second one says."""
    if not one.month and two.month:
        return one._replace(year=two.year, month=two.month)
    if one.month and two.year and not one.year:
        return one._replace(year=two.year - ((one.month, one.day) > (two.month, two.day)))
    return one


_Reader = Callable[[Said, int, int, date], list[Day]]
_ANCHORS: dict[str, _Reader] = {
    **dict.fromkeys(SUFFIXES, _ordinal),
    **dict.fromkeys(DAY_UNITS, _distance),
    **dict.fromkeys(RELATIVE_DAYS, _relative),
    "feira": _market_day,
    **dict.fromkeys((*WEEKDAYS, *SHORT_WEEKDAYS), _weekday),
    **dict.fromkeys(MONTHS, _by_month),
}
