"""The state of extracting values from one text: what it names, and which words are used already."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, TypeVar

from memoranda.abl.understanding.dates import ClockTime, Day, find_days, find_times
from memoranda.abl.understanding.fields import FieldProfile
from memoranda.abl.understanding.numbers import Number, find_numbers
from memoranda.abl.understanding.vocabulary import NOT, word_set
from memoranda.abl.understanding.words import Utterance

SENTENCE_ENDS = frozenset(".!?\n…")
STOPS = SENTENCE_ENDS | frozenset(",;:()[]{}")
"""Punctuation that ends a phrase."""
_QUESTION_WORDS = word_set(
    """
    what why how who when where which whose what's whats where's who's how's when's warum wieso wann wer wie wo
    welche welcher welches pourquoi quand quel quelle quels cuando donde cual quando onde qual
    """
)
_AFTER_QUESTION_WORDS = word_set(
    """
    is are was were do does did can could will would should have has much many long far kind sort type time come
    else about exactly now ist sind kann viel est es dates options to
    """
)
_REQUESTS = word_set("can could would may might will shall kannst konnen konnten pouvez puedes podria pode poderia")
_ASKS = _QUESTION_WORDS | _REQUESTS | {"?"}
"""A text without any of these words contains no question and no request."""
_OPENINGS = word_set(
    """
    hi hello hey so and but ok okay well um uh sorry please also oh then yes yeah no , hmm thanks great good
    wait excuse me
    """
)


_TURNS = frozenset({"but", "and", "with"})
_REACH = 4
"""How many words a "not" affects, light ones aside."""
_FARTHEST = 10
_LIGHT = word_set("i i'd we you it to that the a an my our want would like really think planning going")
_NEW_THOUGHTS = word_set("i i'd i'm i'll i've we we'd you please just it's that's let's")
_RATHER = (["instead", "of"], ["rather", "than"])
_ANYTHING = word_set("any anything anyone anytime anywhere everything every all")
_WHY = word_set("why warum wieso pourquoi")
_BOUNDS = word_set("before after until till than more less fewer later earlier sooner only just vor nach bis mehr")
_REPLIES = word_set("no non nao kein keine keinen")
_LACKS = word_set("without sans sin sem ohne nor neither")
_REFUSALS = NOT - _REPLIES - _LACKS
_REFUSING = NOT | {"but"}
_FAILS = word_set("doesn't doesnt isn't isnt won't wont can't cannot wouldn't")
_NOES = word_set("no nicht pas non nao")
_VERBS = word_set("is does will would can are geht passt ist")
_BEFORE_REFUSED = word_set("on at the in el le la o em am um den der")


_Found = TypeVar("_Found", Day, ClockTime, Number)


class Extraction:
    """A text, its days, times and numbers, and the values that were taken from it so far."""

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

    def __init__(self, said: Utterance, now: datetime, *, certain: bool = False) -> None:
        """Start with all words free except those of questions, which say nothing about the user."""
        self.said = said
        self.certain = certain
        """Whether a day that fits two fields goes to neither: in a correction, the first field is not missing."""
        self.now = now
        self.today: date = now.date()
        self.values: dict[str, Any] = {}
        self.taken = bytearray(len(said.words))
        self.spent = bytearray(len(said.words))
        """Words of days and times; digits among them are not numbers."""
        self.asking: bytearray | None = None
        """Words of a question, which may contain a number or a day ("do you have rooms for 2?"), but no other value."""
        self.request: bytearray | None = None
        """Words of a request, which is never an answer as a whole."""
        self._days: list[Day] | None = None
        self._times: list[ClockTime] | None = None
        self._numbers: list[Number] | None = None
        if not said.known.isdisjoint(_ASKS):
            self._mark_questions()

    def is_free(self, first: int, last: int) -> bool:
        """Say whether no field took any of these words."""
        return 1 not in self.taken[first:last]

    def is_statement(self, place: int) -> bool:
        """Say whether a word belongs to a statement."""
        return self.asking is None or not self.asking[place]

    def is_request(self, place: int) -> bool:
        """Say whether a word belongs to a request."""
        return self.request is not None and bool(self.request[place])

    def take(self, profile: FieldProfile, first: int, last: int, value: Any) -> None:
        """Set the value of a field and mark its words as taken."""
        self.values[profile.name] = value
        self.spend(first, last)

    def spend(self, first: int, last: int) -> None:
        """Mark words as taken."""
        self.taken[first:last] = b"\1" * (last - first)

    def is_open(self, profile: FieldProfile) -> bool:
        """Say whether a field has no value yet."""
        return profile.name not in self.values

    def days(self) -> list[Day]:
        """Return the days of the text that no field took."""
        if self._days is None:
            self._days = find_days(self.said, self.today)
            for day in self._days:
                self.spent[day.first : day.last] = b"\1" * (day.last - day.first)
            self._days = self._without_refused(self._days)
        return self._days if 1 not in self.taken else [day for day in self._days if self.is_free(day.first, day.last)]

    def days_taken(self) -> list[Day]:
        """Return the days that fields took already."""
        return [day for day in self._days or () if not self.is_free(day.first, day.last)]

    def times(self) -> list[ClockTime]:
        """Return the times of day that no field took."""
        if self._times is None:
            self.days()
            self._times = [found for found in find_times(self.said) if not any(self.spent[found.first : found.last])]
            for found in self._times:
                self.spent[found.first : found.last] = b"\1" * (found.last - found.first)
            self._times = self._without_refused(self._times)
        if not self._times or 1 not in self.taken:
            return self._times
        return [found for found in self._times if self.is_free(found.first, found.last)]

    def numbers(self) -> list[Number]:
        """Return the numbers that no field took and that are not part of a day or a time."""
        if self._numbers is None:
            self.times()
            self._numbers = self._without_refused(find_numbers(self.said, self.spent))
        if 1 not in self.taken:
            return self._numbers
        return [number for number in self._numbers if self.is_free(number.first, number.last)]

    def _without_refused(self, found: list[_Found]) -> list[_Found]:
        """Drop what the text refuses."""
        if self.said.known.isdisjoint(_REFUSING):
            return found
        return [one for one in found if not is_refused(self.said.words, one.first, one.last)]

    def _mark_questions(self) -> None:
        said = self.said
        first = 0
        for place, word in enumerate(said.words):
            if word in SENTENCE_ENDS and (
                word in "?!\n" or place + 1 == len(said.words) or not said.is_attached(place + 1)
            ):
                self._mark_sentence(first, place + 1)
                first = place + 1
        self._mark_sentence(first, len(said.words))

    def _mark_sentence(self, first: int, last: int) -> None:
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
            self.request = _mark(self.request, first, last, len(words))
        elif doubt:
            self.asking = _mark(self.asking, first, last, len(words))


def _mark(marks: bytearray | None, first: int, last: int, size: int) -> bytearray:
    marks = bytearray(size) if marks is None else marks
    marks[first:last] = b"\1" * (last - first)
    return marks


def is_denied(words: list[str], place: int) -> bool:
    """Say whether "not", "without", "instead of" or "anything but" comes shortly before a word.

    >>> is_denied("i don't think i want to cancel".split(), 6), is_denied("no i want to cancel".split(), 4)
    (True, False)
    """
    reach = _REACH
    for at in range(place - 1, max(place - _FARTHEST, 0) - 1, -1):
        word = words[at]
        if word in STOPS or word in _TURNS:
            return _is_all_but(words, at)
        if word in _REPLIES and words[at + 1] in _NEW_THOUGHTS:
            return False  # "No I want …" lacks its comma.
        if word in NOT or (words[at - 1 : at + 1] in _RATHER):
            return True
        reach -= word not in _LIGHT
        if not reach:
            return False
    return False


def is_refused(words: list[str], place: int, end: int) -> bool:
    """Say whether a text refuses the day, time or number between two positions.

    "Not Friday", "any day but Friday" and "Friday won't do" do so; "not before Friday", "why not Friday" and "no more
    than 3" do not.

    >>> [is_refused(text.split(), 2, 3) for text in ("not on friday", "not before friday", "oh no 3")]
    [True, False, False]
    """
    if _fails(words[end : end + 2]):
        return True
    for at in range(place - 1, max(place - _REACH, 0) - 1, -1):
        word = words[at]
        if word in STOPS or word in _TURNS or word in _BOUNDS:
            return _is_all_but(words, at)
        if word in _REPLIES:
            # "No 3" may well lack its comma.
            beside = all(between in _BEFORE_REFUSED for between in words[at + 1 : place])
            return beside and not words[place][0].isdecimal()
        if word in _REFUSALS or words[at - 1 : at + 1] in _RATHER:
            return at == 0 or words[at - 1] not in _WHY
    return False


def _fails(after: list[str]) -> bool:
    """Say whether the words after a value refuse it: `won't do`, `is not possible`, `no` as the last word."""
    if not after:
        return False
    ends = len(after) == 1 or after[1] in STOPS
    return after[0] in _FAILS or (after[0] in _VERBS and after[-1] in ("not", "nicht")) or (ends and after[0] in _NOES)


def _is_all_but(words: list[str], place: int) -> bool:
    """Say whether a word is the "but" of "anything but"."""
    return words[place] == "but" and not _ANYTHING.isdisjoint(words[max(place - 2, 0) : place])
