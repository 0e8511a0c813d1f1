"""The days and times of a text in; date, time and datetime fields filled out.

A day goes to the field whose word stands before it; else the first of two to a field that begins something and the
second to one that ends it; else the only day to the only field, or to the one that was asked for.
"""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from typing import Any

from memoranda.abl.understanding.days import JOINERS, Day, move
from memoranda.abl.understanding.reading import SENTENCE_ENDS, Reading
from memoranda.abl.understanding.times import PARTS_OF_DAY, Clocked, are_joined, at, next_at, read_moment
from memoranda.abl.understanding.vocabulary import NIGHTS, bag
from memoranda.abl.understanding.wanted import Plan, Side

_STARTS = bag(
    """
    from starting starts start arriving arrive arrival checkin leaving leave departing depart departure begin
    beginning begins pickup vom ab von desde del since
    """
)
_ENDS = bag(
    """
    until till through thru checkout return returning back ending ends end bis hasta jusqu'au ate dropoff
    """
)
_OR = bag("or oder ou o")
_ARRIVES = bag("arriving arrive arrival")
_LEAVES = bag("leaving leave departing depart departure")
_TELLS = bag("call tell know decide ask think write text reply answer phone")
"""Who calls back tomorrow does not say on which day something else is."""
_AT = frozenset({"at", "um", "around", "gegen", "vers", "@"})
_NEAR = 4
_MOST_NIGHTS = 366
_LONGEST_STAY = 330
"""Days between two days of which neither has its year."""


def take_days(reading: Reading, plans: list[Plan]) -> None:
    """Fill date and datetime fields."""
    days = reading.days()
    if days:
        for plan in plans:
            if not plan.single and days:
                _take_several(reading, plan, days)
                days = reading.days()
        days = _without_rivals(reading, days)
        for day, plan in _pairs(reading, days, [plan for plan in plans if plan.single]) if days else ():
            _take_day(reading, day, plan)
    for plan in plans:
        if plan.kind == "datetime" and plan.asked and reading.open(plan):
            _take_mere_time(reading, plan)


def take_stays(reading: Reading, plans: list[Plan]) -> None:
    """Fill the end of a stay from its beginning and its nights, if no field wanted them: `two nights from 3 May`."""
    if reading.said.known.isdisjoint(NIGHTS):
        return
    end = next((plan for plan in plans if plan.side == "end" and plan.kind == "date" and reading.open(plan)), None)
    start = next((plan for plan in plans if plan.side == "start" and not reading.open(plan)), None)
    nights = _nights(reading)
    if end and start and end.single and start.single and nights:
        left = move(date.fromisoformat(reading.values[start.name][:10]), nights[2])
        if left:
            reading.take(end, nights[0], nights[1] + 1, left.isoformat())


def take_times(reading: Reading, plans: list[Plan]) -> None:
    """Fill time fields from left to right; a time alone goes to the field that was asked for, or the only one."""
    times = reading.times()
    if not times:
        return
    several = next((plan for plan in plans if plan.many), None)
    if several is not None:
        reading.values[several.name] = [clocked.iso() for clocked in times]
        for clocked in times:
            reading.spend(clocked.first, clocked.last)
        return
    if len(times) == 1 and len(plans) > 1:
        plans = [plan for plan in plans if plan.asked]
    if len(times) <= len(plans):
        for plan, clocked in zip(plans, times, strict=False):
            reading.take(plan, clocked.first, clocked.last, clocked.iso())


# --- which day for which field --------------------------------------------------------------------------------------


def _without_rivals(reading: Reading, days: list[Day]) -> list[Day]:
    """Return the days without those of which one is to be chosen: `Monday or Tuesday`."""
    words = reading.said.words
    rivals: set[Day] = set()
    for one, two in pairwise(days):
        between = words[one.last : two.first]
        listed = between == [","] and words[two.last : two.last + 1] and words[two.last] in _OR
        if listed or (len(between) <= _NEAR and not _OR.isdisjoint(between)):
            rivals |= {one, two}
    return [day for day in days if day not in rivals]


def _pairs(reading: Reading, days: list[Day], plans: list[Plan]) -> list[tuple[Day, Plan]]:
    """Return the days with their fields, in the order of the text."""
    if len(days) == 1 and len(plans) == 1 and not plans[0].birth:
        side = _side(reading, days[0], days)
        other = bool(side and plans[0].side and side != plans[0].side)
        return [] if other or (not plans[0].asked and _is_told(reading, days[0])) else [(days[0], plans[0])]
    sides: dict[Day, Side] = {day: _side(reading, day, days) for day in days}
    left, unfilled = list(days), _in_order(plans)
    pairs: list[tuple[Day, Plan]] = []
    for test in (_is_named, _is_sided):
        for day in days:
            plan = next((plan for plan in unfilled if day in left and test(reading, day, plan, sides[day])), None)
            if plan is not None:
                pairs.append((day, plan))
                left.remove(day)
                unfilled.remove(plan)
    if left and unfilled:
        pairs.extend(_rest(reading, left, unfilled, sides))
    return sorted(pairs, key=_first_word) if len(pairs) > 1 else pairs


def _first_word(pair: tuple[Day, Plan]) -> int:
    return pair[0].first


def _is_sided(reading: Reading, day: Day, plan: Plan, side: Side) -> bool:
    return plan.side != "" and side == plan.side


def _in_order(plans: list[Plan]) -> list[Plan]:
    """Return the fields that begin something before those that end it, else as they were declared."""
    return sorted(plans, key=_ends_something) if len(plans) > 1 else list(plans)


def _ends_something(plan: Plan) -> bool:
    return plan.side == "end"


def _rest(reading: Reading, days: list[Day], plans: list[Plan], sides: dict[Day, Side]) -> list[tuple[Day, Plan]]:
    """Return what is beyond doubt without a word for it: as many days as fields, or one day for the asked field."""
    plans = [plan for plan in plans if plan.asked or not plan.birth]
    if len(days) > 1:
        return list(zip(days, plans, strict=True)) if len(days) == len(plans) else []
    side = sides[days[0]]
    fits = [plan for plan in plans if not (side and plan.side and side != plan.side)]
    chosen = next((plan for plan in fits if plan.asked), None)
    if chosen is None and _is_told(reading, days[0]):
        return []
    if chosen is None and fits and (len(fits) == 1 or (fits[0].side == "start" and not reading.certain)):
        chosen = fits[0]
    return [(days[0], chosen)] if chosen else []


def _is_told(reading: Reading, day: Day) -> bool:
    """Say whether a day is the one on which something is said: `call me tomorrow`."""
    return not _TELLS.isdisjoint(reading.said.words[max(day.first - _NEAR, 0) : day.first])


def _is_named(reading: Reading, day: Day, plan: Plan, side: Side) -> bool:
    """Say whether a word of the field stands shortly before a day, in the same sentence."""
    words = reading.said.words
    for place in range(day.first - 1, max(day.first - _NEAR, 0) - 1, -1):
        word = words[place]
        if word in plan.cues:
            return True
        if reading.spent[place] or word in SENTENCE_ENDS:
            return False
        joined = f"{words[place - 1]}{word}" if place else ""
        if joined in plan.cues:
            return True
    return False


def _side(reading: Reading, day: Day, days: list[Day]) -> Side:
    """Return whether a day begins or ends something: by the words before it, or as one half of a range."""
    words = reading.said.words
    before = words[max(day.first - 3, 0) : day.first]
    if "check" in before:
        return "start" if "in" in before else "end" if "out" in before else ""
    for place in range(day.first - 1, max(day.first - 3, -1), -1):
        if reading.spent[place]:
            break
        if words[place] in _LEAVES and not reading.said.known.isdisjoint(_ARRIVES):
            return "end"
        if words[place] in _STARTS:
            return "start"
        if words[place] in _ENDS:
            return "end"
    if len(days) > 1:
        if any(_joined(words, other, day) for other in days):
            return "end"
        if any(_joined(words, day, other) for other in days):
            return "start"
    return ""


def _joined(words: list[str], one: Day, two: Day) -> bool:
    between = words[one.last : two.first] if one.last < two.first else []
    return 0 < len(between) <= 2 and (between[0] in JOINERS or between[0] == "and")


# --- the value ------------------------------------------------------------------------------------------------------


def _settled(reading: Reading, day: Day, plan: Plan) -> date | None:
    if plan.birth and not day.year:
        return None
    after = _latest(reading) if plan.side == "end" and not day.year else None
    settled = day.settle(reading.today, past=plan.past, after=after)
    # "From 5 to 3 May" lasts no year: somebody mistyped.
    return None if settled and after and (settled - after).days > _LONGEST_STAY else settled


def _latest(reading: Reading) -> date | None:
    """Return the latest day that a field took: what ends comes after what begins."""
    settled = (day.settle(reading.today) for day in reading.taken_days())
    return max((day for day in settled if day is not None), default=None)


def _take_day(reading: Reading, day: Day, plan: Plan) -> None:
    settled = _settled(reading, day, plan)
    if settled is None:
        return
    value = settled.isoformat()
    if plan.kind == "datetime":
        times = reading.times()
        if len(times) == 2 and are_joined(reading.said, *times):
            return  # "From 3 to 5 pm" is no moment.
        clocked = _nearest(times, day)
        exact = read_moment(reading.said.part(day.first, day.last), reading.now)
        if clocked and not exact:
            reading.spend(clocked.first, clocked.last)
        elif not exact and (not PARTS_OF_DAY.isdisjoint(reading.said.known) or _has_bare_hour(reading)):
            return  # "Monday morning" has an hour that nobody said, "Monday at 5" one that may be two.
        value = exact or at(settled, clocked, reading.now)
    reading.take(plan, day.first, day.last, value)


def _has_bare_hour(reading: Reading) -> bool:
    words = reading.said.words
    return any(word in _AT and words[place + 1].isdecimal() for place, word in enumerate(words[:-1]))


def _nearest(times: list[Clocked], day: Day) -> Clocked | None:
    return min(times, key=lambda clocked: abs(clocked.first - day.first), default=None)


def _take_mere_time(reading: Reading, plan: Plan) -> None:
    times = reading.times()
    if len(times) == 1:
        value = at(next_at(times[0], reading.now), times[0], reading.now)
        reading.take(plan, times[0].first, times[0].last, value)


def _nights(reading: Reading) -> tuple[int, int, int] | None:
    if reading.said.known.isdisjoint(NIGHTS):
        return None
    for number in reading.numbers():
        if reading.said.word(number.last) in NIGHTS and type(number.value) is int and 0 < number.value <= _MOST_NIGHTS:
            return number.first, number.last, number.value
    return None


def _take_several(reading: Reading, plan: Plan, days: list[Day]) -> None:
    if plan.many and not plan.span:
        settled: list[Any] = []
        for day in days:
            found = _settled(reading, day, plan)
            if found is not None:
                settled.append(found.isoformat())
                reading.spend(day.first, day.last)
        if settled:
            reading.values[plan.name] = settled
        return
    begin = days[0].settle(reading.today, past=plan.past)
    if begin is None:
        return
    nights = _nights(reading)
    if len(days) > 1 and _joined(reading.said.words, days[0], days[1]):
        end = days[1].settle(reading.today, past=plan.past, after=begin)
        last = days[1].last
    elif nights:
        end, last = move(begin, nights[2]), days[0].last
        reading.spend(nights[0], nights[1] + 1)
    elif plan.asked and len(days) == 1:
        end, last = begin, days[0].last
    else:
        return
    if end is not None and end >= begin:
        reading.take(plan, days[0].first, last, {"from": begin.isoformat(), "to": end.isoformat()})
