"""The user's words and the fields that have a value already in; the values that were taken back out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memoranda.abl.understanding.extract import extract, take_all
from memoranda.abl.understanding.reading import Reading
from memoranda.abl.understanding.vocabulary import NO, NOT, YES, bag
from memoranda.abl.understanding.wanted import Plan, Wanted
from memoranda.abl.understanding.words import LONGEST, Said, read_words

_SIGNS = bag(
    """
    actually sorry meant mean instead correction rather change update switch wait no oops not make set should
    correct edit replace scratch fix adjust move hold mistake bad said eigentlich nein doch lieber stattdessen statt
    nicht andern andere plutot finalement non mejor cambia cambiar nao melhor mudar muda changer changez better nope
    : =
    """
)
"""A text without any of these corrects nothing."""
_CHANGES = re.compile(
    r"\b(?:change|update|switch|set|edit|correct|fix|adjust|replace|move|ändere?|cambia(?:r)?|changez?r?|muda(?:r)?)\s+"
    r"(?:the |my |our |your |die |das |den |meine? |le |la |mon |ma |el |mi |o |a |meu )?"
    r"(?P<field>[\w' -]{1,60}?)\s*(?:\bfrom\b[^,;.]{1,60}?)?"
    r"(?:\b(?:to|with|auf|zu|en|à|para)\b|:|=|->)\s*(?P<value>.{1,500})",
    re.IGNORECASE | re.DOTALL,
)
_SHOULD_BE = re.compile(
    r"(?:^|[.,;!]\s*|\b(?:no|sorry|wait|oops|actually)\s+)(?:the |my |our )?(?P<field>[\w' -]{1,60}?)"
    r"\s+(?:should|must)\s+(?:be|have been|read)\b:?\s*(?P<value>.{1,500})",
    re.IGNORECASE | re.DOTALL,
)
_NEXT = re.compile(r"\s*(?:,|\band\b|\bund\b)\s*(?=[\w' -]{1,60}?\sto\s)", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:(?P<strong>make (?:it|that)|let['’]?s (?:make it|make that|say)|i (?:meant|mean|said)|change (?:it|that) to"
    r"|correction|(?:it|that) should (?:be|have been)|should be|better make it|set it to|switch to|scratch that)"
    r"|(?P<weak>(?:no|nope|nein|non|não|nao)(?=\s*[,.;:!…-]|\s+(?:make|actually|wait|sorry|i|it|change|rather|that)\b)"
    r"|sorry|wait|actually|oops|hold on|rather|instead|better|my mistake|my bad|eigentlich|doch|lieber|plutôt"
    r"|finalement|mejor|melhor)"
    r"|oh|hm+|um+|uh|well|and|ok|okay|please|(?:can|could|may) (?:you|we|i)"
    r"|(?:i|we)(?: want|['’]d like| would like| need) to|let['’]?s)"
    r"\b[\s,.:;!…-]*",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"[\s,]+(?:(?P<sign>instead|actually|rather|stattdessen|sorry)|please|thanks)[\s.!]*$", re.IGNORECASE
)
_DENIED = re.compile(
    r"[\s,]*\b(?:not|instead of|rather than|statt|nicht)\b\s[^,;.!?\n]{1,80}?"
    r"(?:,?\s*\b(?:but|sondern)\b|(?=[,;.!?\n]|$))",
    re.IGNORECASE,
)
_REFUSAL = re.compile(r"(?:i|we|it|that|this|do|please|you)\b(?!.{0,80}\bbut\b)", re.IGNORECASE)
_NAMES = frozenset({"person", "first name", "last name", "recipient", "place", "origin"})
_GAP = re.compile(r"([\s,]{20})[\s,]+")
"""Patterns try each way to share a gap between their parts, so a long one is cut to twenty characters."""
_MOST_SIGNS = 6
_LONGEST_CLOSING = 80


_TURNS = (
    r"(?:no|oh),? wait|wait(?:,? no)?|no,? sorry|sorry(?:,? (?:no|i meant?))?|i meant?|scratch that|correction"
    r"|or rather|(?:no,? |actually,? )?make (?:that|it)|no,? actually|actually,? no"
)
_TURN = re.compile(rf"[,.;…-]\s*(?:{_TURNS})\b[\s,.:;…-]*|\s(?:{_TURNS})\s*[,.:;…-]\s*", re.IGNORECASE)
"""Where somebody begins anew within one message: `to Paris, no wait, London`."""


def understand(text: str, wanted: Sequence[Wanted], *, now: datetime) -> dict[str, Any]:
    """Return the values that a text gives to fields, by name, as `extract` does; of what it takes back, the last.

    >>> from datetime import UTC
    >>> understand("5, no sorry, 6", [Wanted(name="guests", asked=True)], now=datetime(2026, 11, 2, tzinfo=UTC))
    {'guests': 6}
    """
    values = extract(text, wanted, now=now)
    turn = _TURN.search(text[:LONGEST])
    # Prose may turn as it likes: it is kept whole.
    fields = [field for field in wanted if field.plan.kind != "text" or field.plan.role in _NAMES]
    before = extract(text[: turn.start()], fields, now=now) if turn else {}
    if not turn or not before:
        return values
    after = _taken_back(text[turn.end() :], fields, before, now)
    if not after:
        return values
    prose = {name: value for name, value in values.items() if all(name != field.name for field in fields)}
    return {**prose, **before, **after}


def _taken_back(text: str, fields: Sequence[Wanted], before: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return the values behind a turn; nothing where it is not clear which of those before it they replace."""
    possible: list[dict[str, Any]] = []
    for asked in (None, *before):
        reading = Reading(Said(text), now)
        take_all(reading, [field.plan.when(asked=field.name == asked) for field in fields])
        if asked is None and not before.keys().isdisjoint(reading.values):
            return reading.values
        if asked in reading.values:
            possible.append(reading.values)
    return possible[0] if len(possible) == 1 else {}


def may_correct(text: str) -> bool:
    """Say whether a text has a word that corrections have; most texts have none, and need no closer look."""
    return not read_words(text).known.isdisjoint(_SIGNS)


def corrections(
    text: str, collected: Sequence[Wanted], *, now: datetime, missing: Wanted | None = None
) -> dict[str, Any]:
    """Return new values for fields that have one already; nothing when the text corrects nothing.

    A field with `asked` is the one that was filled last: what could be the value of several fields is taken for it.
    `missing` is the field that the user is being asked for: "Ada, not Eve" and "actually, yes" may answer that.

    >>> from datetime import UTC
    >>> fields = [Wanted(name="destination"), Wanted(name="guests")]
    >>> corrections("actually 4 guests", fields, now=datetime(2026, 11, 2, tzinfo=UTC))
    {'guests': 4}
    >>> corrections("change the destination to Porto", fields, now=datetime(2026, 11, 2, tzinfo=UTC))
    {'destination': 'Porto'}
    """
    if not collected or not may_correct(text):
        return {}
    said = read_words(text)
    text = _GAP.sub(r"\1", said.text[:LONGEST])
    changed = _CHANGES.search(text) or _SHOULD_BE.search(text)
    if changed:
        values = _changed(f"{changed['field']} to {changed['value']}", collected, now)
        if values:
            return values
    rest, signed, strong, worded = _unsigned(text)
    if not signed:
        return _labelled(said, collected, now)
    if missing is not None and _may_answer(rest, missing, now, worded=worded):
        return {}
    reading = Reading(Said(rest), now, certain=True)
    if not rest or reading.asking is not None:
        return {}
    plans = [field.plan.when(asked=False) for field in collected]
    if not NOT.isdisjoint(reading.said.known):
        # "No breakfast" is a value; in "I don't want 3 rooms" nothing is.
        take_all(reading, [plan for plan in plans if plan.kind == "boolean" or plan.counted])
        return {name: value for name, value in reading.values.items() if value in (0, False, True)}
    take_all(reading, plans)
    return reading.values or _only_possible(rest, collected, now, strong=strong)


def _changed(text: str, collected: Sequence[Wanted], now: datetime) -> dict[str, Any]:
    """Return the new values in `guests to 4 and the destination to Porto`."""
    values: dict[str, Any] = {}
    for part in _NEXT.split(text):
        name, _, value = part.partition(" to ")
        field = _named(name, collected)
        if field is not None and value.strip():
            values.update(_answer(value, field, now))
    return values


def _may_answer(rest: str, missing: Wanted, now: datetime, *, worded: bool) -> bool:
    """Say whether a text rather answers the question: no word shows a correction but "not", or it is a mere "yes"."""
    if missing.plan.kind == "boolean":
        first = Said(rest).word(0)
        return first in YES or first in NO
    return not worded and bool(_answer(rest, missing, now))


def _unsigned(text: str) -> tuple[str, bool, bool, bool]:
    """Return a text without the words that show a correction; whether there were any, whether they are strong.

    The last says whether there were others than a "not".
    """
    rest, signed, strong, worded = text.strip(), False, False, False
    denied = _DENIED.sub(" ", rest)
    # "Not" may turn a whole sentence round: `I do not want 3 rooms`.
    if denied != rest and denied.strip(" ,.!") and not _REFUSAL.match(rest):
        rest, signed, strong = denied.strip(" ,;"), True, True
    for _ in range(_MOST_SIGNS):
        found = _OPENING.match(rest)
        if not found:
            break
        strong = strong or found["strong"] is not None
        worded = worded or found["strong"] is not None or found["weak"] is not None
        rest = rest[found.end() :]
    for _ in range(_MOST_SIGNS):
        found = _CLOSING.search(rest, max(len(rest) - _LONGEST_CLOSING, 0))
        if not found:
            break
        worded = worded or found["sign"] is not None
        rest = rest[: found.start()]
    return rest.rstrip("? ") if strong else rest, signed or worded, strong, worded


def _named(words: str, collected: Sequence[Wanted]) -> Wanted | None:
    """Return the one field that words call by its name, or by a part of it that no other has."""
    told = [word for word in Said(words).words if word.isalpha()]
    if not told:
        return None
    told.append("".join(told))
    scores = [_likeness(field.plan, told) for field in collected]
    most = max(scores)
    return collected[scores.index(most)] if most and scores.count(most) == 1 else None


def _likeness(plan: Plan, told: list[str]) -> int:
    """Return how much words are like the name of a field: its last word counts most, the right ending a little."""
    names = plan.labels[0] if plan.labels else ("",)
    said = {word.removesuffix("s") for word in told}
    score = sum(4 + (word in told) for word in names if word.removesuffix("s") in said)
    score += 2 * (names[-1].removesuffix("s") in said)
    score += 4 * ("".join(names) in told or "".join(names[:2]) in told)
    score += sum(2 for hint in plan.hints if set(hint) <= set(told))
    return score + sum(1 for word in told if word in plan.cues)


def _answer(text: str, field: Wanted, now: datetime) -> dict[str, Any]:
    """Return the value that an answer to a question for this one field would have."""
    reading = Reading(Said(_CLOSING.sub("", text)), now)
    if reading.said.words:
        take_all(reading, [field.plan.when(asked=True)])
    return reading.values


def _labelled(said: Said, collected: Sequence[Wanted], now: datetime) -> dict[str, Any]:
    """Return what `field: value` says, where nothing else shows that something is corrected."""
    if said.known.isdisjoint({":", "="}):
        return {}
    reading = Reading(said, now)
    plans = [field.plan.when(asked=False) for field in collected]
    named = [plan for plan in plans if any(_is_marked(said, label) for label in plan.labels)]
    take_all(reading, named)
    return reading.values


def _is_marked(said: Said, label: tuple[str, ...]) -> bool:
    return any(said.word(place + len(label)) in (":", "=") for place in said.places(label))


def _only_possible(rest: str, collected: Sequence[Wanted], now: datetime, *, strong: bool) -> dict[str, Any]:
    """Return the value of the only field that the rest can be a value of, or of the one that was filled last."""
    found: list[dict[str, Any]] = []
    said = Said(rest)
    reading = Reading(said, now)
    # "Saturday" is nobody's name.
    capital = rest[:1].isalpha() and not rest[:1].islower() and not reading.days() and not reading.times()
    for field in collected:
        plan = field.plan
        if plan.kind == "text" and not (capital and plan.role in _NAMES) and not (strong and field.asked):
            continue
        if plan.kind == "boolean" and not field.asked and said.word(0) not in YES and said.word(0) not in NO:
            continue
        values = _answer(rest, field, now)
        if values and field.asked:
            return values
        if values:
            found.append(values)
    return found[0] if len(found) == 1 else {}
