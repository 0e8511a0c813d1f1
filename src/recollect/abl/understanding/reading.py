"""A text while values are taken from it: what it names, and which of its words are spent."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from recollect.abl.understanding.days import Day, find_days
from recollect.abl.understanding.numbers import Number, find_numbers
from recollect.abl.understanding.times import Clocked, find_times
from recollect.abl.understanding.vocabulary import NOT, bag
from recollect.abl.understanding.wanted import Plan
from recollect.abl.understanding.words import Said

SENTENCE_ENDS = frozenset(".!?\n…")
STOPS = SENTENCE_ENDS | frozenset(",;:()[]{}")
"""Marks that end a phrase."""
_QUESTION_WORDS = bag(
    """
    what why how who when where which whose what's whats where's who's how's when's warum wieso wann wer wie wo
    welche welcher welches pourquoi quand quel quelle quels cuando donde cual quando onde qual
    """
)
_AFTER_QUESTION_WORDS = bag(
    """
    is are was were do does did can could will would should have has much many long far kind sort type time come
    else about exactly now ist sind kann viel est es dates options to
    """
)
_REQUESTS = bag("can could would may might will shall kannst konnen konnten pouvez puedes podria pode poderia")
_ASKS = _QUESTION_WORDS | _REQUESTS | {"?"}
"""A text without any of these neither asks nor requests."""
_OPENINGS = bag(
    """
    hi hello hey so and but ok okay well um uh sorry please also oh then yes yeah no , hmm thanks great good
    wait excuse me
    """
)


_TURNS = frozenset({"but", "and", "with"})
_REACH = 4
"""How many words a "not" reaches."""


class Reading:
    """What a user said, its days, times and numbers, and the values that were taken from it so far."""

    __slots__ = (
        "_days",
        "_numbers",
        "_times",
        "asking",
        "certain",
        "now",
        "request",
        "said",
        "spent",
        "taken",
        "today",
        "values",
    )

    def __init__(self, said: Said, now: datetime, *, certain: bool = False) -> None:
        """Begin with all words free but those of questions, which say nothing about the user."""
        self.said = said
        self.certain = certain
        """Whether a day that could be for two fields is for none: the first is not missing, so it is not meant."""
        self.now = now
        self.today: date = now.date()
        self.values: dict[str, Any] = {}
        self.taken = bytearray(len(said.words))
        self.spent = bytearray(len(said.words))
        """Words of days and times: no digit among them is a number."""
        self.asking: bytearray | None = None
        """Words of a question that may well hold a number or a day ("do you have rooms for 2?"), but nothing else."""
        self.request: bytearray | None = None
        """Words of a sentence that asks for something to be done, which is no answer as a whole."""
        self._days: list[Day] | None = None
        self._times: list[Clocked] | None = None
        self._numbers: list[Number] | None = None
        if not said.known.isdisjoint(_ASKS):
            self._see_questions()

    def free(self, first: int, last: int) -> bool:
        """Say whether nothing was taken from these words."""
        return 1 not in self.taken[first:last]

    def told(self, place: int) -> bool:
        """Say whether a word belongs to a statement."""
        return self.asking is None or not self.asking[place]

    def requested(self, place: int) -> bool:
        """Say whether a word belongs to a request."""
        return self.request is not None and bool(self.request[place])

    def take(self, plan: Plan, first: int, last: int, value: Any) -> None:
        """Give words to a field, so that no other gets them."""
        self.values[plan.name] = value
        self.spend(first, last)

    def spend(self, first: int, last: int) -> None:
        """Keep words from being taken again."""
        self.taken[first:last] = b"\1" * (last - first)

    def open(self, plan: Plan) -> bool:
        """Say whether a field has no value yet."""
        return plan.name not in self.values

    def days(self) -> list[Day]:
        """Return the days of the text that are free."""
        if self._days is None:
            self._days = find_days(self.said, self.today)
            for day in self._days:
                self.spent[day.first : day.last] = b"\1" * (day.last - day.first)
        return self._days if 1 not in self.taken else [day for day in self._days if self.free(day.first, day.last)]

    def taken_days(self) -> list[Day]:
        """Return the days that fields took."""
        return [day for day in self._days or () if not self.free(day.first, day.last)]

    def times(self) -> list[Clocked]:
        """Return the times of day that are free."""
        if self._times is None:
            self.days()
            self._times = [found for found in find_times(self.said) if not any(self.spent[found.first : found.last])]
            for found in self._times:
                self.spent[found.first : found.last] = b"\1" * (found.last - found.first)
        if not self._times or 1 not in self.taken:
            return self._times
        return [found for found in self._times if self.free(found.first, found.last)]

    def numbers(self) -> list[Number]:
        """Return the numbers that are free, and no part of a day or a time."""
        if self._numbers is None:
            self.times()
            self._numbers = find_numbers(self.said, self.spent)
        if 1 not in self.taken:
            return self._numbers
        return [number for number in self._numbers if self.free(number.first, number.last)]

    def _see_questions(self) -> None:
        said = self.said
        first = 0
        for place, word in enumerate(said.words):
            if word in SENTENCE_ENDS and (word in "?!\n" or place + 1 == len(said.words) or not said.glued(place + 1)):
                self._see_sentence(first, place + 1)
                first = place + 1
        self._see_sentence(first, len(said.words))

    def _see_sentence(self, first: int, last: int) -> None:
        words = self.said.words
        begin = first
        while begin < last and words[begin] in _OPENINGS:
            begin += 1
        if begin >= last:
            return
        doubt = words[last - 1] == "?"
        following = words[begin + 1] if begin + 1 < last else ""
        if words[begin] in _QUESTION_WORDS:
            if words[begin] in ("what", "how") and following == "about":
                return
            if doubt or last - begin == 1 or "'" in words[begin] or following in _AFTER_QUESTION_WORDS:
                self.spend(first, last)
        elif words[begin] in _REQUESTS and (doubt or following in ("you", "i", "we", "sie", "du", "vous")):
            self.request = _marked(self.request, first, last, len(words))
        elif doubt:
            self.asking = _marked(self.asking, first, last, len(words))


def _marked(marks: bytearray | None, first: int, last: int, size: int) -> bytearray:
    marks = bytearray(size) if marks is None else marks
    marks[first:last] = b"\1" * (last - first)
    return marks


def denied(words: list[str], place: int) -> bool:
    """Say whether "not" or "without" stands shortly before a word."""
    for word in reversed(words[max(place - _REACH, 0) : place]):
        if word in STOPS or word in _TURNS:
            return False
        if word in NOT:
            return True
    return False
