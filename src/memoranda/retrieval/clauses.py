"""Clauses: split a compound sentence into statements that say one thing each.

`Ada lives in Oslo and works at Kiln` says two things about Ada, `Ada plays squash and tennis` one. A sentence is split
only where both halves have a verb of their own and a subject that can be carried over; anything else stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bDr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bSt\.)\s+(?=[A-Z\"'])"
)
_BULLET = re.compile(r"\s*(?:[-*•]\s+)?")
_JOINT = re.compile(r"(?:\s?;|,)?\s(?:and|but|while|whereas)\s|\s?[;,]\s")
_RELATIVE = re.compile(r",\s(?:who|which|that)\s([^,;]{3,200}),\s")
_WORD = re.compile(r"[^\W\d_][\w'\u2019-]*")
_MOST_SUBJECT_WORDS = 8
_PLURAL = frozenset({"i", "we", "you", "they"})
_PRONOUNS = frozenset({"he", "she", "it", "they", "i", "we", "you"})
_BACK = re.compile(r"\b(?:this|that|these|those|there|it|so|them|such)\b", re.IGNORECASE)
"""Words of a clause that mean something in the clause before it."""
_LONGEST = 2_000
"""Characters of a text; a longer one is not split."""


class _Words(msgspec.Struct, frozen=True):
    helpers: str
    adverbs: str
    verbs: str
    irregular: str


class _Verbs(msgspec.Struct, frozen=True):
    helpers: frozenset[str]
    adverbs: frozenset[str]
    bases: frozenset[str]
    forms: frozenset[str]


@cache
def _verbs() -> _Verbs:
    words = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Words)
    bases = frozenset(words.verbs.split())
    forms = {form for base in bases for form in _forms_of(base)}
    return _Verbs(
        helpers=frozenset(words.helpers.split()),
        adverbs=frozenset(words.adverbs.split()),
        bases=bases,
        forms=frozenset(forms | set(words.irregular.split())),
    )


def _forms_of(base: str) -> tuple[str, ...]:
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies", base[:-1] + "ied"
    third = base + ("es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    if base.endswith("e"):
        return third, base + "d"
    return third, base + "ed", base + base[-1] + "ed"


class Clause(msgspec.Struct, frozen=True):
    """One statement of a text: where it is, and what it says alone."""

    text: str
    sentence: int
    refers_back: bool = False
    """Whether it means something that the clause before it says."""


def clauses_of(text: str) -> list[Clause]:
    """Return the statements of a text, each with its subject; one for each sentence that cannot be split.

    >>> [clause.text for clause in clauses_of("Ada lives in Oslo and works at Kiln.")]
    ['Ada lives in Oslo', 'Ada works at Kiln']
    >>> [clause.text for clause in clauses_of("Ada plays squash and tennis on Fridays.")]
    ['Ada plays squash and tennis on Fridays']
    """
    if len(text) > _LONGEST:
        return [Clause(text, 0)]
    found: list[Clause] = []
    for number, sentence in enumerate(_SENTENCE_END.split(text)):
        parts = _split(sentence.strip().rstrip(".!").rstrip())
        found += [Clause(part, number, place > 0 and refers) for place, (part, refers) in enumerate(parts)]
    return found


def text_of_clauses(clauses: Sequence[Clause], original: str) -> str:
    """Return the text of the clauses that stay, written as the original is."""
    bullet = _BULLET.match(original)
    begins = "" if bullet is None else bullet.group()
    end = "." if original.rstrip().endswith((".", "!")) else ""
    joined = ". ".join(
        _capital(clause.text[len(begins) :] if clause.text.startswith(begins) else clause.text) for clause in clauses
    )
    return f"{begins}{joined}{end}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _split(sentence: str) -> list[tuple[str, bool]]:
    bullet = _BULLET.match(sentence)
    body = sentence[bullet.end() :] if bullet is not None else sentence
    if (relative := _RELATIVE.search(body)) is not None:
        subject, inside, rest = body[: relative.start()], relative[1], body[relative.end() :]
        if (
            len(subject.split()) <= _MOST_SUBJECT_WORDS
            and _begins_with_verb(inside, subject)
            and _begins_with_verb(rest, subject)
        ):
            own = [(f"{subject} {inside}", False)]
            return own + [(part, refers) for part, refers in _split(f"{subject} {rest}")]
    pieces, joints = _pieces(body)
    if len(pieces) == 1:
        return [(sentence, False)]
    subject = subject_of(pieces[0])
    if subject is None:
        return [(sentence, False)]
    parts: list[list[str]] = [[pieces[0], subject, ""]]
    for piece, joint in zip(pieces[1:], joints, strict=True):
        own = subject_of(piece)
        # After a comma alone, `bought in 2022` may belong to what is before it.
        if _begins_with_verb(piece, parts[0][1], alone="and" not in joint and "but" not in joint and ";" not in joint):
            parts.append([f"{parts[0][1]} {piece}".strip(), parts[0][1], "back" if _BACK.search(piece) else ""])
        elif own and (
            ";" in joint or own.casefold() in _PRONOUNS or own[:1].isupper() or own.casefold() == subject.casefold()
        ):
            if own.casefold() in _PRONOUNS - _PLURAL:
                piece = f"{subject}{piece[len(own) :]}"
            parts.append([piece, subject, "back" if _BACK.search(piece) else ""])
        else:
            parts[-1][0] += joint + piece
    if len(parts) == 1:
        return [(sentence, False)]
    return [(text.strip(), refers == "back") for text, _, refers in parts]


def _pieces(body: str) -> tuple[list[str], list[str]]:
    """Return what lies between the joints of a sentence, and the joints."""
    pieces, joints, start = list[str](), list[str](), 0
    for joint in _JOINT.finditer(body):
        pieces.append(body[start : joint.start()])
        joints.append(joint.group())
        start = joint.end()
    return [*pieces, body[start:]], joints


def subject_of(clause: str) -> str | None:
    """Return the words before the first finite verb; an empty text if it begins with one, None if it has none."""
    verbs = _verbs()
    for number, word in enumerate(_WORD.finditer(clause)):
        plain = word.group().casefold().replace("\u2019", "'")
        if number > _MOST_SUBJECT_WORDS:
            return None
        before = clause[: word.start()].strip(" -*•")
        if plain in verbs.helpers or plain in verbs.forms or (plain in verbs.bases and before.casefold() in _PLURAL):
            words = before.split()
            while words and words[-1].casefold() in verbs.adverbs:
                words.pop()
            return " ".join(words)
    return None


def _begins_with_verb(piece: str, subject: str, *, alone: bool = False) -> bool:
    verbs = _verbs()
    for word in _WORD.finditer(piece):
        plain = word.group().casefold().replace("\u2019", "'")
        if plain in verbs.adverbs:
            continue
        if plain in verbs.helpers or (plain in verbs.forms and (not alone or plain.endswith("s"))):
            return True
        return plain in verbs.bases and subject.casefold() in _PLURAL
    return False
