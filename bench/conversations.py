"""Read conversations and their questions from a file in LoCoMo's format.

The data are not ours and never part of this repository: https://github.com/snap-research/locomo has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

SOURCE = "https://github.com/snap-research/locomo (data/locomo10.json)"

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_SESSION = re.compile(r"session_(\d+)")
# Some references are written as `D:11:26`, `D30:05`, or several in one string.
_REFERENCE = re.compile(r"D:?(\d+):(\d+)")
_DATE = "%I:%M %p on %d %B, %Y"


@dataclass(frozen=True)
class Turn:
    """What one person said, in one session."""

    reference: str
    text: str
    speaker: str
    session: str
    time: str | None
    """ISO 8601."""


@dataclass(frozen=True)
class Question:
    """A question and the turns that its answer is in."""

    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True)
class Conversation:
    """The turns of two people in order, and the questions that can be answered from them."""

    name: str
    turns: list[Turn]
    questions: list[Question]
    without_evidence: int
    """How many questions were left out, because the file names no turn that exists."""


def read_conversations(path: Path) -> list[Conversation]:
    """Return the conversations of a file."""
    return [_conversation(one) for one in msgspec.json.decode(path.read_bytes())]


def _conversation(given: dict[str, object]) -> Conversation:
    said: dict[str, object] = given["conversation"]
    numbers = sorted(int(found[1]) for found in map(_SESSION.fullmatch, said) if found)
    turns = [_turn(one, number, said) for number in numbers for one in said[f"session_{number}"]]
    known = {turn.reference for turn in turns}
    questions = [
        Question(str(one["question"]), CATEGORIES[one["category"]], _evidence(one.get("evidence"), known))
        for one in given["qa"]
    ]
    answerable = [question for question in questions if question.evidence]
    return Conversation(given["sample_id"], turns, answerable, len(questions) - len(answerable))


def _turn(one: dict[str, str], session: int, said: dict[str, object]) -> Turn:
    text = one["text"]
    # What a shared photo shows is all that a text memory can know of it.
    if caption := one.get("blip_caption"):
        text = f"{text} [shares {caption}]"
    return Turn(one["dia_id"], text, one["speaker"], str(session), _iso(said.get(f"session_{session}_date_time", "")))


def _iso(date: str) -> str | None:
    try:
        return datetime.strptime(date.strip(), _DATE).isoformat()
    except ValueError:
        return None


def _evidence(given: list[str] | None, known: set[str]) -> frozenset[str]:
    references = (f"D{int(a)}:{int(b)}" for one in given or () for a, b in _REFERENCE.findall(str(one)))
    return frozenset(references) & known
