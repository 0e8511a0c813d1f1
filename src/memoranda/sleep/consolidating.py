"""Lessons and the texts of memory blocks in; new texts, what changed and what was left out, and why, out.

Plain computing, no memory: so it can be done again from the start when somebody else wrote a block meanwhile. It adds
lines, and takes away only lines that it added itself. What people and agents wrote stays, whatever a model says, and
what they took out stays out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Literal

import msgspec

from memoranda.model.block import (
    ARCHIVAL_CHARACTERS,
    BLOCK_TYPES,
    CORE_CHARACTERS,
    CORE_ENTRIES,
    BlockScope,
    BlockType,
    lines_of,
)
from memoranda.model.fact import Revision
from memoranda.sleep.extracting import LONGEST_LINE, Learned, Lesson
from memoranda.sleep.lines import bare, canonical, digest

Place = tuple[BlockScope, BlockType]

SLEEP = "sleep"
"""The door through which blocks are written that were made of conversations."""

Why = Literal["known", "taken_out", "outdated", "no_room", "unfit", "kept"]
"""Why something that was learned changes nothing: it is known, somebody took it out before, something newer is known,
there is no room for it, it is no line that a block can hold, or the line that it would take away is somebody else's
and is kept."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was added to a block or taken away."""

    change: Literal["added", "removed"]
    scope: BlockScope
    block: BlockType
    line: str
    seqs: tuple[int, ...] = ()
    """The parts of the conversation that it comes from."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was not added or not taken away, and why."""

    line: str
    why: Why


class Source(msgspec.Struct, frozen=True, order=True):
    """Where a line was learned: a conversation, and the number of a part of it."""

    conversation: str
    seq: int


class LearnedLine(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a line that was learned: where from, when it was last said, and what it is about."""

    sources: tuple[Source, ...]
    said_at: datetime
    topic: str = ""
    ended: bool = False
    """Whether the user took it back, and it stands in no block: said earlier, it teaches nothing."""


Book = dict[str, LearnedLine]
"""The lines of one scope that were learned, by their digests: their texts stand in the blocks and nowhere else."""


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one scope as they stand."""

    texts: dict[BlockType, str]
    book: Book = {}
    taken_out: frozenset[str] = frozenset()
    """Lines, in canonical form, that somebody took out."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """What the blocks are to be, and what that changes."""

    texts: dict[Place, str]
    """Of the blocks that change."""
    books: dict[BlockScope, Book]
    changes: tuple[Change, ...]
    left_out: tuple[LeftOut, ...]


def taken_out(history: Iterable[Revision]) -> set[str]:
    """Return the lines that somebody took out of a block, in canonical form.

    A line that only made room for a newer one of the same topic was not taken out: it may come back.
    """
    gone: set[str] = set()
    before: set[str] = set()
    # Most lines stay from one revision to the next.
    plain = cache(canonical)
    for revision in history:
        now = {plain(line) for _, line in lines_of(revision.value)} if revision.change == "set" else set[str]()
        if revision.origin.door != SLEEP:
            gone |= before - now
        gone -= now
        before = now
    return gone


def merge(
    shelves: dict[BlockScope, Shelf], learned: Learned, *, conversation: str, moments: Mapping[int, datetime]
) -> Merged:
    """Return the blocks with what a conversation taught; `moments` says when each part that can teach was said."""
    work = _Work(shelves, conversation, moments)
    for lesson in learned.lessons:
        work.take(lesson)
    return work.merged()


def without(shelf: Shelf, conversations: set[str]) -> tuple[dict[BlockType, str], Book, list[str]]:
    """Return blocks and book without what was learned from these conversations alone, and the lines that went."""
    kept: Book = {}
    gone: set[str] = set()
    for name, line in shelf.book.items():
        left = tuple(source for source in line.sources if source.conversation not in conversations)
        if left or line.ended:
            kept[name] = msgspec.structs.replace(line, sources=left)
        else:
            gone.add(name)
    texts: dict[BlockType, str] = {}
    removed: list[str] = []
    for block, text in shelf.texts.items():
        lines = text.split("\n")
        stay = [line for line in lines if not line.strip() or digest(line) not in gone]
        if len(stay) != len(lines):
            texts[block] = "\n".join(stay)
            removed += [line for line in lines if line.strip() and digest(line) in gone]
    return texts, kept, removed


def undone(before: str, after: str, now: str) -> str:
    """Return a text without what one write changed in it: exactly the one before, where nobody wrote since.

    Else the lines that it added go, and those that it took away come back at the end; what was written since stays.
    """
    if now == after:
        return before
    old, new = _said(before), _said(after)
    added = {canonical(line) for line in new} - {canonical(line) for line in old}
    kept = [line for line in now.split("\n") if not line.strip() or canonical(line) not in added]
    standing = {canonical(line) for line in kept}
    missing = {canonical(line) for line in old} - {canonical(line) for line in new}
    back = [line for line in old if canonical(line) in missing and canonical(line) not in standing]
    return "\n".join([*_trimmed(kept), *back]) if back else "\n".join(kept)


class _Work:
    """The blocks while lessons are taken in, one after the other."""

    def __init__(self, shelves: dict[BlockScope, Shelf], conversation: str, moments: Mapping[int, datetime]) -> None:
        self._shelves = shelves
        self._conversation = conversation
        self._moments = moments
        self._lines: dict[Place, list[str]] = {
            (scope, block): text.split("\n") if (text := shelf.texts.get(block, "")) else []
            for scope, shelf in shelves.items()
            for block in BLOCK_TYPES
        }
        self._before = {place: list(lines) for place, lines in self._lines.items()}
        self._books: dict[BlockScope, Book] = {scope: dict(shelf.book) for scope, shelf in shelves.items()}
        self._changes: list[Change] = []
        self._left_out: list[LeftOut] = []
        # Every lesson is compared with every line.
        self._canonical = cache(canonical)
        self._digest = cache(digest)

    def take(self, lesson: Lesson) -> None:
        scope: BlockScope = lesson.scope if lesson.scope in self._shelves else "user"
        line = f"- {bare(lesson.text)}"
        said = [self._moments[seq] for seq in lesson.seqs if seq in self._moments]
        if not said or not _is_line(lesson.text):
            self._leave(line, "unfit")
        elif lesson.ends:
            self._end(scope, line, max(said))
        elif any(canonical(line) in shelf.taken_out for shelf in self._shelves.values()):
            # Nobody wants to hear again what they took out, from whichever block.
            self._leave(line, "taken_out")
        elif self._stands(line):
            if digest(line) in self._books[scope]:
                self._note(scope, lesson, line, max(said))
            self._leave(line, "known")
        elif self._is_outdated(scope, lesson, line, max(said)):
            self._leave(line, "outdated")
        else:
            self._add(scope, lesson, line, max(said))

    def _add(self, scope: BlockScope, lesson: Lesson, line: str, at: datetime) -> None:
        replaced = self._replaced(scope, lesson)
        block = self._roomy(scope, lesson.block, line, replaced)
        if block is None:
            return self._leave(line, "no_room")
        self._remove(scope, replaced)
        self._lines[scope, block] = [*_trimmed(self._lines[scope, block]), line]
        self._changes.append(Change(change="added", scope=scope, block=block, line=line, seqs=lesson.seqs))
        self._note(scope, lesson, line, at)

    def _end(self, scope: BlockScope, line: str, at: datetime) -> None:
        """Take a line away because the user took it back; whoever says it earlier teaches nothing."""
        name = digest(line)
        known = self._books[scope].get(name)
        if known is not None and known.said_at > at:
            return self._leave(line, "outdated")
        if known is None and self._stands(line):
            return self._leave(line, "kept")
        self._remove(scope, {name})
        self._books[scope][name] = LearnedLine(sources=(), said_at=at, ended=True)

    def _is_outdated(self, scope: BlockScope, lesson: Lesson, line: str, at: datetime) -> bool:
        """Say whether something newer is known: the user took the line back, or said another one of its topic."""
        name = digest(line)
        return any(
            known.said_at > at
            for other, known in self._books[scope].items()
            if (known.ended and other == name) or (lesson.topic and not known.ended and known.topic == lesson.topic)
        )

    def _replaced(self, scope: BlockScope, lesson: Lesson) -> set[str]:
        """Return the digests of the lines that make room for a lesson: of its topic, or named by it, and learned."""
        book = self._books[scope]
        named = {digest(line): line for line in lesson.replaces}
        for line in (line for name, line in named.items() if name not in book and self._stands(line)):
            self._leave(line, "kept")
        about = {name for name, line in book.items() if lesson.topic and line.topic == lesson.topic}
        return (set(named) & set(book)) | about

    def _roomy(self, scope: BlockScope, block: BlockType, line: str, replaced: set[str]) -> BlockType | None:
        """Return the block that has room for a line: its own, or the archive where the core is full."""
        for candidate in (block, "archival") if block == "core" else (block,):
            lines = [
                one for one in self._lines[scope, candidate] if not one.strip() or self._digest(one) not in replaced
            ]
            longer = [*_trimmed(lines), line]
            full = len([one for one in longer if one.strip()]) > CORE_ENTRIES if candidate == "core" else False
            most = CORE_CHARACTERS if candidate == "core" else ARCHIVAL_CHARACTERS
            if not full and len("\n".join(longer)) <= most:
                return candidate
        return None

    def _remove(self, scope: BlockScope, names: set[str]) -> None:
        """Take learned lines away; a line that is not in the book is somebody else's."""
        book = self._books[scope]
        mine = {name for name in names if name in book and not book[name].ended}
        for block in BLOCK_TYPES:
            lines = self._lines[scope, block]
            gone = [line for line in lines if line.strip() and self._digest(line) in mine]
            if gone:
                lost = set(gone)
                self._lines[scope, block] = [line for line in lines if line not in lost]
                self._changes += [Change(change="removed", scope=scope, block=block, line=line) for line in gone]
        for name in mine:
            del book[name]

    def _note(self, scope: BlockScope, lesson: Lesson, line: str, at: datetime) -> None:
        """Keep where a line comes from, beside where it came from before."""
        name = digest(line)
        known = self._books[scope].get(name)
        before = known.sources if known is not None and not known.ended else ()
        self._books[scope][name] = LearnedLine(
            sources=tuple(sorted({*before, *(Source(self._conversation, seq) for seq in lesson.seqs)})),
            said_at=at if known is None else max(at, known.said_at),
            topic=lesson.topic or (known.topic if known is not None else ""),
        )

    def _stands(self, line: str) -> bool:
        said = self._canonical(line)
        return any(self._canonical(one) == said for lines in self._lines.values() for one in lines if one.strip())

    def _leave(self, line: str, why: Why) -> None:
        self._left_out.append(LeftOut(line=line, why=why))

    def merged(self) -> Merged:
        texts = {place: "\n".join(lines) for place, lines in self._lines.items() if lines != self._before[place]}
        for scope, book in self._books.items():
            self._books[scope] = pruned(book, [line for block in BLOCK_TYPES for line in self._lines[scope, block]])
        books: dict[BlockScope, Book] = {
            scope: book for scope, book in self._books.items() if book != self._shelves[scope].book
        }
        return Merged(texts=texts, books=books, changes=tuple(self._changes), left_out=tuple(self._left_out))


def pruned(book: Book, lines: Iterable[str]) -> Book:
    """Return a book without the lines that no longer stand: of those nothing is kept, not even their digests."""
    standing = {digest(line) for line in lines if line.strip()}
    return {name: line for name, line in book.items() if line.ended or name in standing}


def _is_line(text: str) -> bool:
    return any(sign.isalnum() for sign in text) and len(text) <= LONGEST_LINE and len(text.splitlines()) == 1


def _said(text: str) -> list[str]:
    return [line for _, line in lines_of(text)]


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Return lines without the blank ones at their end."""
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
