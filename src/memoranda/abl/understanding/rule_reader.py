"""Read values, corrections and intents from the user's words by fixed rules, without a model.

The safest reading wins: a field that was not asked for takes only words that are clearly meant for it, the field that
was asked for may take the whole answer, and no word is used twice. The result depends on the words and the clock only.

This package is frozen: what it reads is covered by tests, and it does not grow. To read more, implement `Reader` with a
model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from memoranda.abl.understanding.answers import free_answer, take_answers
from memoranda.abl.understanding.choices import take_choices, take_decisions
from memoranda.abl.understanding.date_fields import take_days, take_stays, take_times
from memoranda.abl.understanding.extraction import SENTENCE_ENDS, Extraction, is_denied
from memoranda.abl.understanding.fields import FUNCTION_WORDS, FieldProfile, FieldSpec, Intent, stem
from memoranda.abl.understanding.number_fields import take_numbers
from memoranda.abl.understanding.text_fields import (
    take_codes,
    take_emails,
    take_labelled,
    take_languages,
    take_names,
    take_phones,
    take_places,
)
from memoranda.abl.understanding.vocabulary import NO, NOT, YES, word_set
from memoranda.abl.understanding.words import LONGEST, Utterance, utterance_of

_STEPS: tuple[tuple[str, Callable[[Extraction, list[FieldProfile]], None]], ...] = (
    ("email", take_emails),
    ("text", take_labelled),
    ("choice", take_choices),
    ("phone", take_phones),
    ("date", take_days),
    ("time", take_times),
    ("text", take_codes),
    ("number", take_numbers),
    ("date", take_stays),
    ("text", take_names),
    ("text", take_places),
    ("text", take_languages),
    ("boolean", take_decisions),
    ("text", take_answers),
)
"""The least ambiguous kinds come first: each step sees only the words that the steps before it left."""


_SIGNS = word_set(
    """
    actually sorry meant mean instead correction rather change update switch wait no oops not make set should
    correct edit replace scratch fix adjust move hold mistake bad said eigentlich nein doch lieber stattdessen statt
    nicht andern andere plutot finalement non mejor cambia cambiar nao melhor mudar muda changer changez better nope
    : =
    """
)
"""A text without any of these words corrects nothing."""
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
"""A long gap, which is cut to twenty characters: the patterns backtrack over every way to split it."""
_MOST_SIGNS = 6
_LONGEST_CLOSING = 80
_TURNS = (
    r"(?:no|oh),? wait|wait(?:,? no)?|no,? sorry|sorry(?:,? (?:no|i meant?))?|i meant?|scratch that|correction"
    r"|or rather|(?:no,? |actually,? )?make (?:that|it)|no,? actually|actually,? no"
)
_TURN = re.compile(rf"[,.;…-]\s*(?:{_TURNS})\b[\s,.:;…-]*|\s(?:{_TURNS})\s*[,.:;…-]\s*", re.IGNORECASE)
"""Where a user starts over within one message: `to Paris, no wait, London`."""
_SLACK = 3
"""Maximum number of other words between those of an intent's phrase."""
_WINDOW = 24
"""Words of a phrase that are tried after its first; further ones are repetitions."""


class RuleReader:
    """The default `Reader`."""

    def find(self, fields: Sequence[FieldSpec], text: str, *, now: datetime) -> dict[str, Any]:
        """Return the values that a text gives to fields, by name; of values that it takes back, the last.

        >>> from datetime import UTC
        >>> guests, now = FieldSpec(name="guests", asked=True), datetime(2026, 11, 2, tzinfo=UTC)
        >>> RuleReader().find([guests], "5, no sorry, 6", now=now)
        {'guests': 6}
        """
        values = self._find(fields, text, now=now)
        asked = next((field for field in fields if field.asked), None)
        answer = free_answer(asked.profile, utterance_of(text)) if asked is not None and not values else ""
        return {asked.name: answer} if asked is not None and answer else values

    def _find(self, fields: Sequence[FieldSpec], text: str, *, now: datetime) -> dict[str, Any]:
        values = extract(fields, text, now=now)
        turn = _TURN.search(text[:LONGEST])
        # Prose is kept whole, whatever it takes back.
        exact = [field for field in fields if field.profile.kind != "text" or field.profile.role in _NAMES]
        before = extract(exact, text[: turn.start()], now=now) if turn else {}
        if not turn or not before:
            return values
        after = _replacements(text[turn.end() :], exact, before, now)
        if not after:
            return values
        prose = {name: value for name, value in values.items() if all(name != field.name for field in exact)}
        return {**prose, **before, **after}

    def find_corrections(
        self, fields: Sequence[FieldSpec], text: str, *, now: datetime, missing: FieldSpec | None = None
    ) -> dict[str, Any]:
        """Return new values for fields that have one already; empty if the text corrects none of them.

        A field with `asked` is the one that was filled last: an ambiguous value goes to it. `missing` is the field that
        the user is being asked for, which "Ada, not Eve" and "actually, yes" may answer.

        >>> from datetime import UTC
        >>> now, fields = datetime(2026, 11, 2, tzinfo=UTC), [FieldSpec(name="destination"), FieldSpec(name="guests")]
        >>> RuleReader().find_corrections(fields, "actually 4 guests", now=now)
        {'guests': 4}
        >>> RuleReader().find_corrections(fields, "change the destination to Porto", now=now)
        {'destination': 'Porto'}
        """
        said = utterance_of(text)
        if not fields or said.known.isdisjoint(_SIGNS):
            return {}
        text = _GAP.sub(r"\1", said.text[:LONGEST])
        change = _CHANGES.search(text) or _SHOULD_BE.search(text)
        if change:
            values = _explicit_changes(f"{change['field']} to {change['value']}", fields, now)
            if values:
                return values
        rest, signed, strong, worded = _strip_correction_words(text)
        if not signed:
            return _label_values(said, fields, now)
        if missing is not None and _may_answer(rest, missing, now, worded=worded):
            return {}
        extraction = Extraction(Utterance(rest), now, certain=True)
        if not rest or extraction.asking is not None:
            return {}
        profiles = [field.profile.when(asked=False) for field in fields]
        if not NOT.isdisjoint(extraction.said.known):
            # "No breakfast" is a value; "I don't want 3 rooms" gives none.
            take_all(extraction, [profile for profile in profiles if profile.kind == "boolean" or profile.counted])
            return {name: value for name, value in extraction.values.items() if value in (0, False, True)}
        take_all(extraction, profiles)
        return extraction.values or _only_possible(rest, fields, now, strong=strong)

    def find_intent(self, intents: Sequence[Intent], text: str) -> int | None:
        """Return the position of the intent that a text expresses: the one with most words, then the first; or None.

        An intent is expressed where all words of its label, or of one of its keywords, are near each other in any order
        without a "not" before them. Small words and endings do not count.

        >>> reader, intents = RuleReader(), [Intent("change_dates"), Intent("cancel", ("call it off",))]
        >>> [reader.find_intent(intents, text) for text in ("I want to change the dates", "please call it off")]
        [0, 1]
        >>> [reader.find_intent(intents, text) for text in ("which dates do you have", "don't change the dates")]
        [None, None]
        """
        said = utterance_of(text)
        if not said.words or not intents:
            return None
        stems = list(map(stem, said.words))
        known = set(stems)
        best, most = None, 0
        for place, intent in enumerate(intents):
            if known.isdisjoint(intent.stems):
                continue
            for phrase in intent.phrases:
                if len(phrase) > most and known.issuperset(phrase) and _occurs(said, stems, phrase):
                    best, most = place, len(phrase)
        return best


# --- values ---------------------------------------------------------------------------------------------------------


def extract(fields: Sequence[FieldSpec], text: str, *, now: datetime) -> dict[str, Any]:
    """Return the values that a text gives to fields, by name, without looking for values that it takes back.

    >>> from datetime import UTC
    >>> fields = [FieldSpec(name=name, asked=name == "destination") for name in ("destination", "guests", "checkin")]
    >>> extract(fields, "Lisbon for 2 guests, from 3 May", now=datetime(2026, 11, 2, tzinfo=UTC))
    {'checkin': '2027-05-03', 'guests': 2, 'destination': 'Lisbon'}
    """
    said = utterance_of(text)
    if not said.words or not fields:
        return {}
    extraction = Extraction(said, now)
    take_all(extraction, [field.profile for field in fields])
    return extraction.values


def take_all(extraction: Extraction, profiles: Sequence[FieldProfile]) -> None:
    """Fill fields from a text, one kind after the other."""
    kinds: dict[str, list[FieldProfile]] = {}
    for profile in profiles:
        kind = "date" if profile.kind == "datetime" else profile.kind
        if kind not in kinds:
            kinds[kind] = [profile]
        elif profile.asked:
            kinds[kind].insert(0, profile)
        else:
            kinds[kind].append(profile)
    for kind, take in _steps_for(frozenset(kinds)):
        take(extraction, kinds[kind])


@cache
def _steps_for(kinds: frozenset[str]) -> list[tuple[str, Callable[[Extraction, list[FieldProfile]], None]]]:
    """Return the steps that some kinds need; cached, since few combinations of kinds occur."""
    return [step for step in _STEPS if step[0] in kinds]


def _replacements(text: str, fields: Sequence[FieldSpec], before: dict[str, Any], now: datetime) -> dict[str, Any]:
    """Return the values after a turn; empty if it is unclear which of the values before it they replace."""
    possible: list[dict[str, Any]] = []
    for asked in (None, *before):
        extraction = Extraction(Utterance(text), now)
        take_all(extraction, [field.profile.when(asked=field.name == asked) for field in fields])
        if asked is None and not before.keys().isdisjoint(extraction.values):
            return extraction.values
        if asked in extraction.values:
            possible.append(extraction.values)
    return possible[0] if len(possible) == 1 else {}


# --- corrections ----------------------------------------------------------------------------------------------------


def _explicit_changes(text: str, collected: Sequence[FieldSpec], now: datetime) -> dict[str, Any]:
    """Return the new values in `guests to 4 and the destination to Porto`."""
    values: dict[str, Any] = {}
    for part in _NEXT.split(text):
        name, _, value = part.partition(" to ")
        field = _field_by_name(name, collected)
        if field is not None and value.strip():
            values.update(_answer(value, field, now))
    return values


def _may_answer(rest: str, missing: FieldSpec, now: datetime, *, worded: bool) -> bool:
    """Say whether a text rather answers the question: it is a "yes", or only a "not" suggests a correction."""
    if missing.profile.kind == "boolean":
        first = Utterance(rest).word(0)
        return first in YES or first in NO
    return not worded and bool(_answer(rest, missing, now))


def _strip_correction_words(text: str) -> tuple[str, bool, bool, bool]:
    """Return a text without the words that announce a correction, and three facts about these words.

    Whether there were any, whether they leave no doubt, and whether there were others than a "not".
    """
    rest, signed, strong, worded = text.strip(), False, False, False
    affirmed = _DENIED.sub(" ", rest)
    # A "not" may negate the whole sentence: `I do not want 3 rooms`.
    if affirmed != rest and affirmed.strip(" ,.!") and not _REFUSAL.match(rest):
        rest, signed, strong = affirmed.strip(" ,;"), True, True
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


def _field_by_name(words: str, collected: Sequence[FieldSpec]) -> FieldSpec | None:
    """Return the one field that words name, in full or by a part that no other field has."""
    told = [word for word in Utterance(words).words if word.isalpha()]
    if not told:
        return None
    told.append("".join(told))
    scores = [_likeness(field.profile, told) for field in collected]
    most = max(scores)
    return collected[scores.index(most)] if most and scores.count(most) == 1 else None


def _likeness(profile: FieldProfile, told: list[str]) -> int:
    """Return how well words match the name of a field: its last word counts most, an exact ending a little."""
    names = profile.labels[0] if profile.labels else ("",)
    said = {word.removesuffix("s") for word in told}
    score = sum(4 + (word in told) for word in names if word.removesuffix("s") in said)
    score += 2 * (names[-1].removesuffix("s") in said)
    score += 4 * ("".join(names) in told or "".join(names[:2]) in told)
    score += sum(2 for hint in profile.hints if set(hint) <= set(told))
    return score + sum(1 for word in told if word in profile.cues)


def _answer(text: str, field: FieldSpec, now: datetime) -> dict[str, Any]:
    """Return the value that the text has as an answer to the question for one field."""
    extraction = Extraction(Utterance(_CLOSING.sub("", text)), now)
    if extraction.said.words:
        take_all(extraction, [field.profile.when(asked=True)])
    return extraction.values


def _label_values(said: Utterance, collected: Sequence[FieldSpec], now: datetime) -> dict[str, Any]:
    """Return the values in `field: value`, where nothing else announces a correction."""
    if said.known.isdisjoint({":", "="}):
        return {}
    extraction = Extraction(said, now)
    profiles = [field.profile.when(asked=False) for field in collected]
    named = [profile for profile in profiles if any(_is_mark(said, label) for label in profile.labels)]
    take_all(extraction, named)
    return extraction.values


def _is_mark(said: Utterance, label: tuple[str, ...]) -> bool:
    return any(said.word(place + len(label)) in (":", "=") for place in said.places(label))


def _only_possible(rest: str, collected: Sequence[FieldSpec], now: datetime, *, strong: bool) -> dict[str, Any]:
    """Return the value for the only field that the rest fits, or for the one that was filled last."""
    found: list[dict[str, Any]] = []
    said = Utterance(rest)
    extraction = Extraction(said, now)
    # "Saturday" is not the name of a person or a place.
    capitalized = rest[:1].isalpha() and not rest[:1].islower() and not extraction.days() and not extraction.times()
    for field in collected:
        profile = field.profile
        if profile.kind == "text" and not (capitalized and profile.role in _NAMES) and not (strong and field.asked):
            continue
        if profile.kind == "boolean" and not field.asked and said.word(0) not in YES and said.word(0) not in NO:
            continue
        values = _answer(rest, field, now)
        if values and field.asked:
            return values
        if values:
            found.append(values)
    return found[0] if len(found) == 1 else {}


# --- intents --------------------------------------------------------------------------------------------------------


def _occurs(said: Utterance, stems: list[str], phrase: frozenset[str]) -> bool:
    """Say whether the words of a phrase occur near each other, and are not denied."""
    places = [place for place, word in enumerate(stems) if word in phrase]
    for start, first in enumerate(places):
        missing = set(phrase)
        for place in places[start : start + _WINDOW]:
            missing.discard(stems[place])
            if not missing:
                if _is_near(said, stems, phrase, first, place) and not is_denied(said.words, first):
                    return True
                break
    return False


def _is_near(said: Utterance, stems: list[str], phrase: frozenset[str], first: int, last: int) -> bool:
    """Say whether few words that count, no "not" and no end of a sentence separate the words of a phrase."""
    between = [
        said.words[place]
        for place in range(first, last)
        if stems[place] not in phrase and said.words[place] not in FUNCTION_WORDS
    ]
    return len(between) <= _SLACK and NOT.isdisjoint(between) and SENTENCE_ENDS.isdisjoint(between)
