"""Fill date, time and datetime fields.

A day goes to the field whose word comes before it; else the first of two days goes to a field for a start and the
second to a field for an end; else the only day goes to the only field, or to the one that was asked for.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Any

from memoranda.abl.understanding.dates import (
    JOINERS,
    PARTS_OF_DAY,
    ClockTime,
    Day,
    are_joined,
    moment_at,
    move,
    next_day_at,
    read_moment,
)
from memoranda.abl.understanding.extraction import SENTENCE_ENDS, Extraction
from memoranda.abl.understanding.fields import FieldProfile, Side
from memoranda.abl.understanding.vocabulary import NIGHTS, word_set

_STARTS = word_set(
    """
    from starting starts start arriving arrive arrival checkin leaving leave departing depart departure begin
    beginning begins pickup vom ab von desde del since
    """
)
_ENDS = word_set(
    """
    until till through thru checkout return returning back ending ends end bis hasta jusqu'au ate dropoff
    """
)
_OR = word_set("or oder ou o")
_ARRIVES = word_set("arriving arrive arrival")
_LEAVES = word_set("leaving leave departing depart departure")
_TELLS = word_set("call tell know decide ask think write text reply answer phone")
"""In `call me tomorrow`, the day is not a value."""
_AT = frozenset({"at", "um", "around", "gegen", "vers", "@"})
_NEAR = 4
_MOST_NIGHTS = 366
_LONGEST_STAY = 330
"""Maximum number of days between two dates without a year."""


def take_days(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill date and datetime fields."""
    days = extraction.days()
    if days:
        for profile in profiles:
            if not profile.single and days:
                _take_several(extraction, profile, days)
                days = extraction.days()
        days = _without_rivals(extraction, days)
        for day, profile in (
            _pair_up(extraction, days, [profile for profile in profiles if profile.single]) if days else ()
        ):
            _take_day(extraction, day, profile)
    for profile in profiles:
        if profile.kind == "datetime" and profile.asked and extraction.is_open(profile):
            _take_mere_time(extraction, profile)


def take_stays(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill the end of a stay from its start and its nights, if no field took them: `two nights from 3 May`."""
    if extraction.said.known.isdisjoint(NIGHTS):
        return
    end = next(
        (
            profile
            for profile in profiles
            if profile.side == "end" and profile.kind == "date" and extraction.is_open(profile)
        ),
        None,
    )
    start = next((profile for profile in profiles if profile.side == "start" and not extraction.is_open(profile)), None)
    nights = _nights(extraction)
    if end and start and end.single and start.single and nights:
        left = move(date.fromisoformat(extraction.values[start.name][:10]), nights[2])
        if left:
            extraction.take(end, nights[0], nights[1] + 1, left.isoformat())


def take_times(extraction: Extraction, profiles: list[FieldProfile]) -> None:
    """Fill time fields from left to right; a single time goes to the only field, or the one that was asked for."""
    times = extraction.times()
    if not times:
        return
    several = next((profile for profile in profiles if profile.many), None)
    if several is not None:
        extraction.values[several.name] = [clock_time.iso_text() for clock_time in times]
        for clock_time in times:
            extraction.spend(clock_time.first, clock_time.last)
        return
    if len(times) == 1 and len(profiles) > 1:
        profiles = [profile for profile in profiles if profile.asked]
    if len(times) <= len(profiles):
        for profile, clock_time in zip(profiles, times, strict=False):
            extraction.take(profile, clock_time.first, clock_time.last, clock_time.iso_text())


# --- which day for which field --------------------------------------------------------------------------------------


def _without_rivals(extraction: Extraction, days: list[Day]) -> list[Day]:
    """Drop days that are alternatives: `Monday or Tuesday`."""
    words = extraction.said.words
    rivals: set[Day] = set()
    for one, two in pairwise(days):
        between = words[one.last : two.first]
        alternatives = between == [","] and words[two.last : two.last + 1] and words[two.last] in _OR
        if alternatives or (len(between) <= _NEAR and not _OR.isdisjoint(between)):
            rivals |= {one, two}
    return [day for day in days if day not in rivals]


def _pair_up(extraction: Extraction, days: list[Day], profiles: list[FieldProfile]) -> list[tuple[Day, FieldProfile]]:
    """Pair days with fields, in the order of the text."""
    if len(days) == 1 and len(profiles) == 1 and not profiles[0].birth:
        side = _side(extraction, days[0], days)
        other = bool(side and profiles[0].side and side != profiles[0].side)
        return [] if other or (not profiles[0].asked and _is_told(extraction, days[0])) else [(days[0], profiles[0])]
    sides: dict[Day, Side] = {day: _side(extraction, day, days) for day in days}
    left, unfilled = list(days), _in_order(profiles)
    pairs: list[tuple[Day, FieldProfile]] = []
    for test in (_is_named, _is_sided):
        for day in days:
            profile = next(
                (profile for profile in unfilled if day in left and test(extraction, day, profile, sides[day])), None
            )
            if profile is not None:
                pairs.append((day, profile))
                left.remove(day)
                unfilled.remove(profile)
    if left and unfilled:
        pairs.extend(_pair_unannounced(extraction, left, unfilled, sides))
    return sorted(pairs, key=_first_word) if len(pairs) > 1 else pairs


def _first_word(pair: tuple[Day, FieldProfile]) -> int:
    return pair[0].first


def _is_sided(extraction: Extraction, day: Day, profile: FieldProfile, side: Side) -> bool:
    return profile.side != "" and side == profile.side


def _in_order(profiles: list[FieldProfile]) -> list[FieldProfile]:
    """Return fields for a start before fields for an end, else in the order of their declaration."""
    return sorted(profiles, key=_ends_something) if len(profiles) > 1 else list(profiles)


def _ends_something(profile: FieldProfile) -> bool:
    return profile.side == "end"


def _pair_unannounced(
    extraction: Extraction, days: list[Day], profiles: list[FieldProfile], sides: dict[Day, Side]
) -> list[tuple[Day, FieldProfile]]:
    """Pair what is clear without a word for it: as many days as fields, or one day for the asked field."""
    profiles = [profile for profile in profiles if profile.asked or not profile.birth]
    if len(days) > 1:
        return list(zip(days, profiles, strict=True)) if len(days) == len(profiles) else []
    side = sides[days[0]]
    fits = [profile for profile in profiles if not (side and profile.side and side != profile.side)]
    chosen = next((profile for profile in fits if profile.asked), None)
    if chosen is None and _is_told(extraction, days[0]):
        return []
    if chosen is None and fits and (len(fits) == 1 or (fits[0].side == "start" and not extraction.certain)):
        chosen = fits[0]
    return [(days[0], chosen)] if chosen else []


def _is_told(extraction: Extraction, day: Day) -> bool:
    """Say whether a day only says when to talk: `call me tomorrow`."""
    return not _TELLS.isdisjoint(extraction.said.words[max(day.first - _NEAR, 0) : day.first])


def _is_named(extraction: Extraction, day: Day, profile: FieldProfile, side: Side) -> bool:
    """Say whether a word of the field comes shortly before a day, in the same sentence."""
    words = extraction.said.words
    for place in range(day.first - 1, max(day.first - _NEAR, 0) - 1, -1):
        word = words[place]
        if word in profile.cues:
            return True
        if extraction.spent[place] or word in SENTENCE_ENDS:
            return False
        joined = f"{words[place - 1]}{word}" if place else ""
        if joined in profile.cues:
            return True
    return False


def _side(extraction: Extraction, day: Day, days: list[Day]) -> Side:
    """Return whether a day is a start or an end, by the words before it or as one half of a range."""
    words = extraction.said.words
    before = words[max(day.first - 3, 0) : day.first]
    if "check" in before:
        return "start" if "in" in before else "end" if "out" in before else ""
    for place in range(day.first - 1, max(day.first - 3, -1), -1):
        if extraction.spent[place]:
            break
        if words[place] in _LEAVES and not extraction.said.known.isdisjoint(_ARRIVES):
            return "end"
        if words[place] in _STARTS:
            return "start"
        if words[place] in _ENDS:
            return "end"
    if len(days) > 1:
        if any(_are_joined(words, other, day) for other in days):
            return "end"
        if any(_are_joined(words, day, other) for other in days):
            return "start"
    return ""


def _are_joined(words: list[str], one: Day, two: Day) -> bool:
    between = words[one.last : two.first] if one.last < two.first else []
    return 0 < len(between) <= 2 and (between[0] in JOINERS or between[0] == "and")


# --- the value ------------------------------------------------------------------------------------------------------


def _settle(extraction: Extraction, day: Day, profile: FieldProfile) -> date | None:
    if profile.birth and not day.year:
        return None
    after = _latest(extraction) if profile.side == "end" and not day.year else None
    settled = day.settle(extraction.today, past=profile.past, after=after)
    # "From 5 to 3 May" is a typing error, not a stay of almost a year.
    return None if settled and after and (settled - after).days > _LONGEST_STAY else settled


def _latest(extraction: Extraction) -> date | None:
    """Return the latest day that a field took; an end comes after it."""
    settled = (day.settle(extraction.today) for day in extraction.days_taken())
    return max((day for day in settled if day is not None), default=None)


def _take_day(extraction: Extraction, day: Day, profile: FieldProfile) -> None:
    settled = _settle(extraction, day, profile)
    if settled is None:
        return
    value = settled.isoformat()
    if profile.kind == "datetime":
        times = extraction.times()
        if len(times) == 2 and are_joined(extraction.said, *times):
            return  # "From 3 to 5 pm" is a span of time.
        clock_time = _nearest(times, day)
        exact = read_moment(extraction.said.part(day.first, day.last), extraction.now)
        if clock_time and not exact:
            extraction.spend(clock_time.first, clock_time.last)
        elif not exact and (not PARTS_OF_DAY.isdisjoint(extraction.said.known) or _has_bare_hour(extraction)):
            return  # "Monday morning" lacks the hour, and "Monday at 5" may be 5:00 or 17:00.
        value = exact or moment_at(settled, clock_time, extraction.now)
    extraction.take(profile, day.first, day.last, value)


def _has_bare_hour(extraction: Extraction) -> bool:
    words = extraction.said.words
    return any(word in _AT and words[place + 1].isdecimal() for place, word in enumerate(words[:-1]))


def _nearest(times: list[ClockTime], day: Day) -> ClockTime | None:
    return min(times, key=lambda clock_time: abs(clock_time.first - day.first), default=None)


def _take_mere_time(extraction: Extraction, profile: FieldProfile) -> None:
    times = extraction.times()
    if len(times) == 1:
        value = moment_at(next_day_at(times[0], extraction.now), times[0], extraction.now)
        extraction.take(profile, times[0].first, times[0].last, value)


def _nights(extraction: Extraction) -> tuple[int, int, int] | None:
    if extraction.said.known.isdisjoint(NIGHTS):
        return None
    for number in extraction.numbers():
        if (
            extraction.said.word(number.last) in NIGHTS
            and type(number.value) is int
            and 0 < number.value <= _MOST_NIGHTS
        ):
            return number.first, number.last, number.value
    return None


def _take_several(extraction: Extraction, profile: FieldProfile, days: list[Day]) -> None:
    if profile.many and not profile.span:
        settled: list[Any] = []
        for day in days:
            found = _settle(extraction, day, profile)
            if found is not None:
                settled.append(found.isoformat())
                extraction.spend(day.first, day.last)
        if settled:
            extraction.values[profile.name] = settled
        return
    begin = days[0].settle(extraction.today, past=profile.past)
    if begin is None:
        return
    nights = _nights(extraction)
    if len(days) > 1 and _are_joined(extraction.said.words, days[0], days[1]):
        end = days[1].settle(extraction.today, past=profile.past, after=begin)
        last = days[1].last
    elif nights:
        end, last = move(begin, nights[2]), days[0].last
        extraction.spend(nights[0], nights[1] + 1)
    elif profile.asked and len(days) == 1:
        end, last = begin, days[0].last
    else:
        return
    if end is not None and end >= begin:
        extraction.take(profile, days[0].first, last, {"from": begin.isoformat(), "to": end.isoformat()})
