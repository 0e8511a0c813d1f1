"""Merge lessons into the memory blocks of a user and of one agent.

Merging is pure computation, so it can start again if a block changes meanwhile. It adds lines, and removes
only lines that it added itself. What people and agents wrote stays, whatever a model says, and what they removed is not
added again. The sources of learned lines are stored beside the blocks of their scope, at `sleep.learned`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Literal

import msgspec

from memoranda.api.blocks import update_effect
from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, GetFacts, ReadHistory, SetFact
from memoranda.model.block import (
    ARCHIVAL_CHARACTERS,
    BLOCK_TYPES,
    CORE_CHARACTERS,
    CORE_ENTRIES,
    BlockScope,
    BlockType,
    key_of,
    lines_of,
)
from memoranda.model.fact import Fact, Revision
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.sleep.extraction import LONGEST_LINE, Learned, Lesson, Standing, bare, canonical, digest

Place = tuple[BlockScope, BlockType]

SLEEP = "sleep"
"""The door of writes that were learned from conversations."""

Why = Literal["known", "taken_out", "outdated", "no_room", "unfit", "kept"]
"""Why a lesson changes nothing: it is known, it was removed before, something newer is known, the blocks are full, it
is not a valid line, or the line that it would replace was not learned and is kept."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was added to a block or removed from it."""

    change: Literal["added", "removed"]
    scope: BlockScope
    block: BlockType
    line: str
    seqs: tuple[int, ...] = ()
    """The parts of the conversation that it comes from."""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A line that was not added or not removed, and why."""

    line: str
    why: Why


class Source(msgspec.Struct, frozen=True, order=True):
    """Where a line was learned: a conversation, and the sequence number of one of its parts."""

    conversation: str
    seq: int


class LearnedLine(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of a learned line, when it was last said, and its topic."""

    sources: tuple[Source, ...]
    said_at: datetime
    topic: str = ""
    ended: bool = False
    """Whether the user took it back, so that it is in no block: an earlier statement of it is outdated."""


Book = dict[str, LearnedLine]
"""The learned lines of one scope, by their digests: their texts are in the blocks and nowhere else."""


class ScopeBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks of one scope, as read at one moment."""

    texts: dict[BlockType, str]
    book: Book = {}
    removed_lines: frozenset[str] = frozenset()
    """Lines that were removed by hand, in canonical form."""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """The new blocks and books, and what changes with them."""

    texts: dict[Place, str]
    """The blocks that change."""
    books: dict[BlockScope, Book]
    changes: tuple[Change, ...]
    left_out: tuple[LeftOut, ...]


def removed_lines(history: Iterable[Revision]) -> set[str]:
    """Return the lines that were removed from a block by hand, in canonical form.

    A line that was replaced by a newer one of the same topic does not count: it may come back.
    """
    gone: set[str] = set()
    before: set[str] = set()
    # Cached, because most lines are the same in every revision.
    plain = cache(canonical)
    for revision in history:
        now = {plain(line) for _, line in lines_of(revision.value)} if revision.change == "set" else set[str]()
        if revision.origin.door != SLEEP:
            gone |= before - now
        gone -= now
        before = now
    return gone


def merge(
    scopes: dict[BlockScope, ScopeBlocks], learned: Learned, *, conversation: str, moments: Mapping[int, datetime]
) -> Merge:
    """Merge what a conversation taught into the blocks; `moments` has the time of each part of the user."""
    work = _Work(scopes, conversation, moments)
    for lesson in learned.lessons:
        work.take(lesson)
    return work.result()


def without(current: ScopeBlocks, conversations: set[str]) -> tuple[dict[BlockType, str], Book, list[str]]:
    """Return blocks and book without what was learned only from these conversations, and the removed lines."""
    kept: Book = {}
    gone: set[str] = set()
    for name, line in current.book.items():
        left = tuple(source for source in line.sources if source.conversation not in conversations)
        if left or line.ended:
            kept[name] = msgspec.structs.replace(line, sources=left)
        else:
            gone.add(name)
    texts: dict[BlockType, str] = {}
    removed: list[str] = []
    for block, text in current.texts.items():
        lines = text.split("\n")
        stay = [line for line in lines if not line.strip() or digest(line) not in gone]
        if len(stay) != len(lines):
            texts[block] = "\n".join(stay)
            removed += [line for line in lines if line.strip() and digest(line) in gone]
    return texts, kept, removed


def revert(before: str, after: str, now: str) -> str:
    """Revert one write: return exactly the text before it, if it was not changed since.

    Otherwise the lines that it added are removed, those that it removed are appended, and later changes stay.
    """
    if now == after:
        return before
    old, new = _lines(before), _lines(after)
    added = {canonical(line) for line in new} - {canonical(line) for line in old}
    kept = [line for line in now.split("\n") if not line.strip() or canonical(line) not in added]
    present = {canonical(line) for line in kept}
    missing = {canonical(line) for line in old} - {canonical(line) for line in new}
    back = [line for line in old if canonical(line) in missing and canonical(line) not in present]
    return "\n".join([*_trim(kept), *back]) if back else "\n".join(kept)


class _Work:
    """A merge in progress."""

    def __init__(
        self, scopes: dict[BlockScope, ScopeBlocks], conversation: str, moments: Mapping[int, datetime]
    ) -> None:
        self._scopes = scopes
        self._conversation = conversation
        self._moments = moments
        self._lines: dict[Place, list[str]] = {
            (scope, block): text.split("\n") if (text := current.texts.get(block, "")) else []
            for scope, current in scopes.items()
            for block in BLOCK_TYPES
        }
        self._before = {place: list(lines) for place, lines in self._lines.items()}
        self._books: dict[BlockScope, Book] = {scope: dict(current.book) for scope, current in scopes.items()}
        self._changes: list[Change] = []
        self._left_out: list[LeftOut] = []
        # Cached, because every lesson is compared with every line.
        self._canonical = cache(canonical)
        self._digest = cache(digest)

    def take(self, lesson: Lesson) -> None:
        scope: BlockScope = lesson.scope if lesson.scope in self._scopes else "user"
        line = f"- {bare(lesson.text)}"
        said = [self._moments[seq] for seq in lesson.seqs if seq in self._moments]
        if not said or not _is_line(lesson.text):
            self._leave(line, "unfit")
        elif lesson.ends:
            self._end(scope, line, max(said))
        elif any(canonical(line) in current.removed_lines for current in self._scopes.values()):
            # A line that was removed from any block is not learned again.
            self._leave(line, "taken_out")
        elif self._is_present(line):
            if digest(line) in self._books[scope]:
                self._note(scope, lesson, line, max(said))
            self._leave(line, "known")
        elif self._is_outdated(scope, lesson, line, max(said)):
            self._leave(line, "outdated")
        else:
            self._add(scope, lesson, line, max(said))

    def _add(self, scope: BlockScope, lesson: Lesson, line: str, at: datetime) -> None:
        replaced = self._replaceable(scope, lesson)
        block = self._block_with_room(scope, lesson.block, line, replaced)
        if block is None:
            return self._leave(line, "no_room")
        self._remove(scope, replaced)
        self._lines[scope, block] = [*_trim(self._lines[scope, block]), line]
        self._changes.append(Change(change="added", scope=scope, block=block, line=line, seqs=lesson.seqs))
        self._note(scope, lesson, line, at)

    def _end(self, scope: BlockScope, line: str, at: datetime) -> None:
        """Remove a line that the user took back, and remember when, so that earlier statements of it are outdated."""
        name = digest(line)
        known = self._books[scope].get(name)
        if known is not None and known.said_at > at:
            return self._leave(line, "outdated")
        if known is None and self._is_present(line):
            return self._leave(line, "kept")
        self._remove(scope, {name})
        self._books[scope][name] = LearnedLine(sources=(), said_at=at, ended=True)

    def _is_outdated(self, scope: BlockScope, lesson: Lesson, line: str, at: datetime) -> bool:
        """Return whether something newer is known: the line was taken back, or another one of its topic was said."""
        name = digest(line)
        return any(
            known.said_at > at
            for other, known in self._books[scope].items()
            if (known.ended and other == name) or (lesson.topic and not known.ended and known.topic == lesson.topic)
        )

    def _replaceable(self, scope: BlockScope, lesson: Lesson) -> set[str]:
        """Return the digests of the learned lines that a lesson replaces: those of its topic, or named by it."""
        book = self._books[scope]
        named = {digest(line): line for line in lesson.replaces}
        for line in (line for name, line in named.items() if name not in book and self._is_present(line)):
            self._leave(line, "kept")
        about = {name for name, line in book.items() if lesson.topic and line.topic == lesson.topic}
        return (set(named) & set(book)) | about

    def _block_with_room(self, scope: BlockScope, block: BlockType, line: str, replaced: set[str]) -> BlockType | None:
        """Return the block that has room for a line: its own, or the archive if the core is full."""
        for candidate in (block, "archival") if block == "core" else (block,):
            lines = [
                one for one in self._lines[scope, candidate] if not one.strip() or self._digest(one) not in replaced
            ]
            longer = [*_trim(lines), line]
            full = len([one for one in longer if one.strip()]) > CORE_ENTRIES if candidate == "core" else False
            most = CORE_CHARACTERS if candidate == "core" else ARCHIVAL_CHARACTERS
            if not full and len("\n".join(longer)) <= most:
                return candidate
        return None

    def _remove(self, scope: BlockScope, names: set[str]) -> None:
        """Remove learned lines; a line that is not in the book was not learned and stays."""
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
        """Add the sources of a line to the book."""
        name = digest(line)
        known = self._books[scope].get(name)
        before = known.sources if known is not None and not known.ended else ()
        self._books[scope][name] = LearnedLine(
            sources=tuple(sorted({*before, *(Source(self._conversation, seq) for seq in lesson.seqs)})),
            said_at=at if known is None else max(at, known.said_at),
            topic=lesson.topic or (known.topic if known is not None else ""),
        )

    def _is_present(self, line: str) -> bool:
        wanted = self._canonical(line)
        return any(self._canonical(one) == wanted for lines in self._lines.values() for one in lines if one.strip())

    def _leave(self, line: str, why: Why) -> None:
        self._left_out.append(LeftOut(line=line, why=why))

    def result(self) -> Merge:
        texts = {place: "\n".join(lines) for place, lines in self._lines.items() if lines != self._before[place]}
        for scope, book in self._books.items():
            self._books[scope] = prune(book, [line for block in BLOCK_TYPES for line in self._lines[scope, block]])
        books: dict[BlockScope, Book] = {
            scope: book for scope, book in self._books.items() if book != self._scopes[scope].book
        }
        return Merge(texts=texts, books=books, changes=tuple(self._changes), left_out=tuple(self._left_out))


def prune(book: Book, lines: Iterable[str]) -> Book:
    """Return a book without the lines that are no longer in a block: not even their digests are kept."""
    present = {digest(line) for line in lines if line.strip()}
    return {name: line for name, line in book.items() if line.ended or name in present}


def _is_line(text: str) -> bool:
    return any(character.isalnum() for character in text) and len(text) <= LONGEST_LINE and len(text.splitlines()) == 1


def _lines(text: str) -> list[str]:
    return [line for _, line in lines_of(text)]


def _trim(lines: Sequence[str]) -> list[str]:
    """Return lines without the trailing blank ones."""
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept


BOOK = "sleep.learned"
"""The key of the book of a scope."""
RACES = 50
"""Maximum number of attempts when other writers are faster."""

Places = dict[BlockScope, Scope]
"""The scopes of the blocks: the user's, and the agent's if there is one."""


class BlockSnapshot(msgspec.Struct, frozen=True):
    """Blocks as read at one moment, with what their next write has to expect."""

    places: Places
    by_scope: dict[BlockScope, ScopeBlocks]
    stamps: dict[Place, datetime]
    """When each block was last written."""
    versions: dict[BlockScope, int]
    """The version of each book."""

    def standing(self) -> Standing:
        """Return the lines of all blocks."""
        return Standing(
            lines={
                (scope, block): tuple(line for _, line in lines_of(text))
                for scope, current in self.by_scope.items()
                for block, text in current.texts.items()
            }
        )

    def writes(
        self, memory: Memory, texts: Mapping[Place, str], books: Mapping[BlockScope, Book], *, source: str | None
    ) -> list[SetFact]:
        """Return the writes of new texts and books; they raise `Conflict` if another writer was faster."""
        return [
            *(
                update_effect(
                    self.places[scope],
                    block,
                    text,
                    memory.limits,
                    expected_updated_at=self.stamps.get((scope, block)),
                    source=source,
                )
                for (scope, block), text in texts.items()
            ),
            *(
                SetFact(
                    scope=self.places[scope],
                    key=BOOK,
                    payload=msgspec.Raw(encode(msgspec.to_builtins(book))),
                    expect=self.versions[scope],
                    source=source,
                )
                for scope, book in books.items()
            ),
        ]


def places_of(memory: Memory, user: str, agent: str | None) -> Places:
    """Return the scopes of the blocks of a user, and of one agent."""
    places: Places = {"user": Scope.of(tenant=memory.tenant, user=user)}
    if agent is not None:
        places["agent"] = Scope.of(tenant=memory.tenant, user=user, agent=agent)
    return places


def limit_to_user(memory: Memory, user: str) -> Memory:
    """Return a handle that is limited to the memory of one user, so that no bug can mix users."""
    own = Scope.of(tenant=memory.tenant, user=user)
    return memory.narrowed(Policy(rules=(Rule("allow", "memory", own),)))


def read_blocks(memory: Memory, places: Places) -> BlockSnapshot:
    """Read the blocks of these scopes."""
    keys = [*(key_of(block) for block in BLOCK_TYPES), BOOK]
    gets = tuple(GetFact(scope=place, key=key) for place in places.values() for key in keys)
    found: list[Fact | None] = memory.perform(GetFacts(scope=places["user"], gets=gets))
    snapshot = BlockSnapshot(places, {}, {}, {})
    for number, (scope, place) in enumerate(places.items()):
        *blocks, book = found[number * len(keys) : (number + 1) * len(keys)]
        present: dict[BlockType, Fact] = {
            block: fact for block, fact in zip(BLOCK_TYPES, blocks, strict=True) if fact is not None
        }
        snapshot.stamps.update({(scope, block): fact.updated_at for block, fact in present.items()})
        snapshot.versions[scope] = 0 if book is None else book.version
        snapshot.by_scope[scope] = ScopeBlocks(
            texts={block: fact.value for block, fact in present.items()},
            book=read_book(book),
            removed_lines=frozenset(
                line
                for block in BLOCK_TYPES
                for line in removed_lines(memory.perform(ReadHistory(scope=place, key=key_of(block))))
            ),
        )
    return snapshot


def read_book(fact: Fact | None) -> Book:
    """Decode the book of a scope."""
    return {} if fact is None else msgspec.convert(fact.value, Book)
