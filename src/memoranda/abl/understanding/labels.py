"""The words of a user in; text fields filled from `field: value`, `field is value` and the hints of a field out."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from memoranda.abl.understanding.answers import is_evasive, take_text, tidy
from memoranda.abl.understanding.reading import SENTENCE_ENDS, STOPS, Reading
from memoranda.abl.understanding.vocabulary import bag
from memoranda.abl.understanding.wanted import Plan

_MARKS = frozenset({":", "="})
_VERBS = bag("is are ist est will should would sera")
DETERMINERS = bag(
    """
    my the our your a an and its his her their full is mein meine mon ma mi meu minha with new change set update
    make
    """
)
_NO_VALUES = bag(
    """
    not still unclear unknown wrong too very so missing what correct fine great good bad important ok okay open
    up being always also now already really quite a an beautiful nice late early lost broken where when how why
    that unfortunately no yes gone pending unavailable expensive cheap similar different the
    """
)
"""What after "is" says something about a field and not its value: `the destination is too far`."""

_TURNS = frozenset({"but", "because", "so", "please"})
_NEW_THOUGHTS = bag("i i'm my we the please it our there i'd need want")
_DIGIT = re.compile(r"\d")


class _Label(NamedTuple):
    """A label at the word `first` whose value begins at `begin`; `marked` if a colon stands between."""

    plan: Plan
    first: int
    begin: int
    marked: bool


def take_labelled(reading: Reading, plans: list[Plan]) -> None:
    """Fill text fields from `field: value`, `field = value` and `field is value`."""
    known = reading.said.known
    if known.isdisjoint(_MARKS) and known.isdisjoint(_VERBS) and not any(plan.hints for plan in plans):
        return
    labels = [label for plan in plans for label in _find_labels(reading, plan)]
    firsts = sorted(label.first for label in labels)
    for label in labels:
        if reading.open(label.plan) and reading.told(label.first):
            following = bisect_right(firsts, label.first)
            _take_value(reading, label, firsts[following] if following < len(firsts) else len(reading.said.words))


def _find_labels(reading: Reading, plan: Plan) -> list[_Label]:
    said = reading.said
    found: list[_Label] = []
    for rank, phrase in enumerate((*plan.labels, *plan.hints)):
        hint = rank >= len(plan.labels)
        for place in said.places(phrase):
            before = said.word(place - 1)
            if not hint and before.isalpha() and before not in DETERMINERS:
                continue
            behind = place + len(phrase)
            begin = _value_begin(said.words, behind, hint=hint, whole=rank == 0)
            if begin:
                found.append(_Label(plan, place, begin, said.words[behind] in _MARKS))
    return found


def _value_begin(words: list[str], place: int, *, hint: bool, whole: bool) -> int:
    """Return where the value behind a label begins, or 0."""
    if place >= len(words):
        return 0
    if words[place] in _MARKS:
        return place + 1
    if words[place] in _VERBS and (whole or hint):
        return place + 2 if words[place + 1 : place + 2] == ["be"] else place + 1
    return place if hint and words[place] not in STOPS else 0


def _take_value(reading: Reading, label: _Label, end: int) -> None:
    said, plan, begin = reading.said, label.plan, label.begin
    closing = SENTENCE_ENDS | {";"} if plan.many else SENTENCE_ENDS | {",", ";"}
    last = begin
    while last < end and not (said.words[last] in closing and not _is_inside(reading, last)):
        last += 1
    if not label.marked:
        last = _cut(reading, begin, last)
    if begin >= last or not reading.free(begin, last):
        return
    if not label.marked and (said.words[begin] in _NO_VALUES or is_evasive(said, begin, last)):
        return
    value = tidy(said.part(begin, last))
    if plan.role != "code" or _DIGIT.search(value):
        take_text(reading, plan, label.first, last, value)


def _is_inside(reading: Reading, place: int) -> bool:
    """Say whether a mark stands inside of a word, such as the point of `example.org`."""
    said = reading.said
    return said.words[place] != "\n" and said.glued(place) and said.glued(place + 1)


def _cut(reading: Reading, begin: int, last: int) -> int:
    """Return where a value ends that another thought follows without a mark: `my city is Porto and I need …`."""
    words = reading.said.words
    for place in range(begin + 1, last):
        if words[place] in _TURNS or (words[place] == "and" and reading.said.word(place + 1) in _NEW_THOUGHTS):
            return place
    return last
