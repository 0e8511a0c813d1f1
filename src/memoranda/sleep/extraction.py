"""Extract what a conversation teaches about its user, as lines for memory blocks.

An extractor returns the lines to keep; it writes and removes nothing. Messages are read by `memoranda.learning`, by
rules or by a model; here its statements become lessons. Only what the user said can teach anything: the words of agents
and tools, and hidden parts of the conversation, may come from others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from memoranda.agent.connection import connect
from memoranda.chat.conversation import Part
from memoranda.learning.extraction import LONGEST_LINE, MOST_STATEMENTS, Extracted, Known, ask_model
from memoranda.learning.extraction import extract_by_rules as extract_statements
from memoranda.learning.messages import Message
from memoranda.learning.statements import bare, canonical
from memoranda.model.block import BlockScope, BlockType
from memoranda.sleep.jobs import check_interrupt

__all__ = [
    "LONGEST_LINE",
    "MOST_LESSONS",
    "Extractor",
    "Learned",
    "Lesson",
    "Standing",
    "bare",
    "canonical",
    "digest",
    "extract_by_model",
    "extract_by_rules",
    "spoken_by_user",
]

MOST_LESSONS = MOST_STATEMENTS
"""Maximum number of lines from one conversation."""


def digest(line: str) -> str:
    """Return the digest of a line's canonical form, stored in place of its text."""
    return hashlib.sha256(canonical(line).encode("utf-8", "replace")).hexdigest()[:32]


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """One line to keep, and the parts of the conversation that it comes from."""

    text: str
    """The line, without a bullet."""
    block: BlockType = "core"
    scope: BlockScope = "user"
    """`user` for all agents of the user, `agent` for the one of this conversation."""
    seqs: tuple[int, ...]
    """The sequence numbers of the parts it comes from, all of them the user's."""
    topic: str = ""
    """The name of a topic that has one line at a time: this line replaces the one before."""
    replaces: tuple[str, ...] = ()
    """Lines of the blocks that this one replaces."""
    ends: bool = False
    """Whether the user took the line back, so that it has to be removed."""


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """The lessons of a conversation, in the order they were said."""

    lessons: tuple[Lesson, ...] = ()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The current lines of each block, by scope and type."""

    lines: dict[tuple[BlockScope, BlockType], tuple[str, ...]] = {}


Extractor: TypeAlias = Callable[[Sequence[Part], Standing], Learned]
"""Returns what a conversation teaches, given the current blocks. If it raises, it is called again later."""


def extract_by_rules(parts: Sequence[Part], standing: Standing | None = None) -> Learned:
    """Extract what the user plainly said about themselves, by a table of patterns, without a model.

    Names, places, time zones, jobs, languages, diets, preferences and lasting wishes go to the core block; likes,
    favourites, people, plans and notes to the archive.
    """
    mine = spoken_by_user(parts)
    found = extract_statements([_message(part) for part in mine], between=check_interrupt)
    return Learned(lessons=tuple(_lesson(one, [mine[number].seq for number in one.messages]) for one in found))


def extract_by_model(model: object, *, timeout: float = 60.0) -> Extractor:
    """Return an extractor that asks a model: `provider:model`, a model of pydantic-ai, or any Model.

    The model names the messages that each line comes from; lines that come from no message of the user are dropped.
    """
    asked = connect(model)

    def extract(parts: Sequence[Part], standing: Standing | None = None) -> Learned:
        known = [Known(line, "") for lines in (standing or Standing()).lines.values() for line in lines]
        messages = {part.seq: _message(part) for part in parts if not part.hidden}
        found = ask_model(asked, messages, known, timeout=timeout)
        return Learned(lessons=tuple(_lesson(one, one.messages) for one in found))

    return extract


def spoken_by_user(parts: Sequence[Part]) -> list[Part]:
    """Return the visible parts of the user, which are the ones that can teach something."""
    return [part for part in parts if part.kind == "user" and not part.hidden]


def _message(part: Part) -> Message:
    role = "user" if part.kind == "user" else "assistant" if part.kind == "agent_text" else "tool"
    return Message(role=role, text=part.text, at=part.at)


def _lesson(found: Extracted, seqs: Sequence[int]) -> Lesson:
    stated = found.statement
    return Lesson(
        text=stated.text,
        block="core" if stated.core else "archival",
        scope="agent" if found.for_agent else "user",
        seqs=tuple(seqs),
        topic=stated.attribute if stated.single and not stated.ends else "",
        replaces=found.replaces,
        ends=stated.ends,
    )
