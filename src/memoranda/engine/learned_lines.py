"""Learned lines: keep the lines of memory blocks in step with the statements that they say.

The book of a scope, the fact `sleep.learned`, knows each line that was learned by the digest of its text, with its
sources and the key of its statement. Only such lines are ever removed: what people and agents wrote stays, whatever a
model says, and what they removed is not added again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Literal, NamedTuple

import msgspec

from memoranda.engine.blocks import BOOK, LEARNED, Book, read_book
from memoranda.engine.confirmations import end_confirmations
from memoranda.engine.derivation import editing
from memoranda.engine.entries import entry_of_key
from memoranda.engine.facts import SetFact, set_fact
from memoranda.engine.verbs import Call
from memoranda.model.block import (
    BLOCK_TYPES,
    BlockScope,
    BlockType,
    bare_line,
    canonical_digest,
    canonical_line,
    fits_a_block,
    fits_a_line,
    has_blocks,
    key_of,
    lines_of,
    owner_of,
    trim_lines,
)
from memoranda.model.entry import STATEMENTS, Entry, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Revision
from memoranda.model.lesson import LearnedLine, LeftOut, LineChange, Source, WhyLeftOut
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, Trust, lowest
from memoranda.model.value import encode
from memoranda.store.base import Reader, RevisionQuery, Transaction


class Line(NamedTuple):
    """A line that says a statement."""

    scope: BlockScope
    key: str
    """The key of the statement."""
    text: str
    at: datetime
    """When it was said."""
    block: BlockType = "core"
    """Where it belongs, if there is room."""
    sources: tuple[Source, ...] = ()
    trust: Trust = "high"
    """How far its statement is trusted: its block is trusted no more."""

    @property
    def written(self) -> str:
        """The line as it is written in a block."""
        return f"- {bare_line(self.text)}"


class LearnedLines:
    """The learned lines in the blocks of a user, and of one agent, while they are edited in a transaction."""

    def __init__(self, rows: Reader, scopes: Iterable[Scope], call: Call) -> None:
        """Read the books of these scopes; those without memory blocks are ignored."""
        self._rows = rows
        self._call = call
        self._scopes: dict[BlockScope, Scope] = {owner_of(scope)[0]: scope for scope in scopes if has_blocks(scope)}
        self._books: dict[BlockScope, Book] = {name: read_book(rows, scope) for name, scope in self._scopes.items()}
        self._books_before = {name: dict(book) for name, book in self._books.items()}
        self._texts: dict[tuple[BlockScope, BlockType], list[str]] | None = None
        self._texts_before: dict[tuple[BlockScope, BlockType], list[str]] = {}
        self._removed: set[str] | None = None
        self._least: dict[tuple[BlockScope, BlockType], Trust] = {}
        """How far the least trusted line that was added to a block is trusted."""
        self.changes: list[LineChange] = []
        self.left_out: list[LeftOut] = []
        # Cached, because each statement is compared with every line.
        self._canonical = cache(canonical_line)
        self._digest = cache(canonical_digest)

    @property
    def has_any(self) -> bool:
        """Whether any line was learned."""
        return any(self._books.values())

    @property
    def _lines(self) -> dict[tuple[BlockScope, BlockType], list[str]]:
        if self._texts is None:
            self._texts = {
                (name, block): self._read(scope, block) for name, scope in self._scopes.items() for block in BLOCK_TYPES
            }
            self._texts_before = {place: list(lines) for place, lines in self._texts.items()}
        return self._texts

    def _read(self, scope: Scope, block: BlockType) -> list[str]:
        fact = self._rows.fact(scope, key_of(block))
        return fact.value.split("\n") if fact is not None and fact.active_at(self._call.now) and fact.value else []

    # what is known

    def state(self, line: Line) -> Literal["learned", "by_hand", "absent"]:
        """Return whether a line is in a block, and whether it was learned there."""
        wanted = self._canonical(line.written)
        if not any(self._canonical(one) == wanted for lines in self._lines.values() for one in lines if one.strip()):
            return "absent"
        known = self._books[line.scope].get(self._digest(line.written))
        return "learned" if known is not None and not known.ended else "by_hand"

    def said_at(self, line: Line) -> datetime | None:
        """Return when a line of the same statement was last said or taken back; None if there is none."""
        book, own = self._books.get(line.scope, {}), self._digest(line.written)
        names = self._names_of(line)
        return max((known.said_at for name, known in book.items() if name in names or name == own), default=None)

    def is_learned(self, line: Line) -> bool:
        """Return whether a line of the same statement was learned and not taken back."""
        return bool(self._names_of(line))

    def is_taken_out(self, line: Line) -> bool:
        """Return whether a line was removed from any of the blocks by hand."""
        if self._removed is None:
            self._removed = {
                gone
                for scope in self._scopes.values()
                for block in BLOCK_TYPES
                for gone in removed_lines(self._rows.revisions(RevisionQuery(scope, key_of(block))))
            }
        return self._canonical(line.written) in self._removed

    def has_room(self, line: Line) -> bool:
        """Return whether a line fits into a block, if those that it replaces are removed."""
        return self._block_with_room(line, line.block, self._names_of(line)) is not None

    def _names_of(self, line: Line) -> set[str]:
        """Return the digests of the learned lines of a statement."""
        book, own = self._books.get(line.scope, {}), self._digest(line.written)
        return {
            name
            for name, known in book.items()
            if not known.ended
            # A line of an earlier version has no key.
            and (known.key == line.key if known.key else name == own or f"user.{known.topic}" == line.key)
        }

    # what changes

    def put(self, line: Line, *, adds: bool) -> None:
        """Write the line of a statement in place of those before it; only where there was one, unless it `adds`."""
        own = self._digest(line.written)
        before = self._names_of(line) - {own}
        block = self._block_of(line.scope, before)
        if not adds and block is None:
            return self._note(line) if own in self._books.get(line.scope, {}) else None
        state = self.state(line)
        if state == "learned":
            self._remove(line.scope, before)
            self._note(line)
            return self.leave(line.written, "known")
        why = "known" if state == "by_hand" else "taken_out" if self.is_taken_out(line) else None
        chosen = self._block_with_room(line, line.block if adds or block is None else block, before)
        self._remove(line.scope, before)
        if why is not None or chosen is None:
            return self.leave(line.written, why or "no_room")
        self._lines[line.scope, chosen] = [*trim_lines(self._lines[line.scope, chosen]), line.written]
        self._least[line.scope, chosen] = lowest(line.trust, self._least.get((line.scope, chosen), "high"))
        seqs = tuple(source.seq for source in line.sources)
        self.changes.append(LineChange(change="added", scope=line.scope, block=chosen, line=line.written, seqs=seqs))
        self._note(line)

    def end(self, line: Line, *, adds: bool, noted: bool) -> None:
        """Remove the lines of a statement that was taken back; a line that was not learned is kept.

        That it was taken back is `noted` if no statement says so: an older conversation may be read later.
        """
        self._remove(line.scope, self._names_of(line))
        if adds and self.state(line) == "by_hand":
            return self.leave(line.written, "kept")
        if adds and noted:
            self._books[line.scope][self._digest(line.written)] = LearnedLine(said_at=line.at, ended=True)

    def replace(self, scope: BlockScope, texts: Iterable[str]) -> list[str]:
        """Remove learned lines by their texts; return the keys of their statements."""
        keys: list[str] = []
        for text in texts:
            known = self._books[scope].get(self._digest(text))
            if known is not None and not known.ended:
                keys += [known.key] if known.key else []
                self._remove(scope, {self._digest(text)})
            elif self.state(Line(scope, "", text, self._call.now)) == "by_hand":
                self.leave(text, "kept")
        return keys

    def remove(self, scope: BlockScope, key: str) -> None:
        """Remove the learned lines of a statement."""
        self._remove(scope, {name for name, known in self._books.get(scope, {}).items() if known.key == key})

    def forget(self, conversations: frozenset[str]) -> list[tuple[str, LearnedLine]]:
        """Remove what was learned only from these chats; return each line with what was known of it."""
        gone: list[tuple[str, LearnedLine]] = []
        for scope, book in self._books.items():
            for name, known in list(book.items()):
                left = tuple(source for source in known.sources if source.conversation not in conversations)
                if left == known.sources:
                    continue
                book[name] = msgspec.structs.replace(known, sources=left)
                if not left and not known.ended:
                    gone += [(line, known) for line in self._remove(scope, {name})]
        return gone

    def drop_stale(self) -> None:
        """Remove the learned lines whose statements are no longer current."""
        for (scope, _), lines in self._lines.items():
            shelf = Shelf(self._scopes[scope], STATEMENTS, "")
            for line in [one for one in lines if one.strip()]:
                known = self._books[scope].get(self._digest(line))
                if known is None or not known.key:
                    continue
                entry = entry_of_key(self._rows, shelf, known.key)
                if entry is None or self._canonical(str(entry.content)) != self._canonical(line):
                    self._remove(scope, {self._digest(line)})

    def leave(self, line: str, why: WhyLeftOut) -> None:
        """Note that a line does not change, and why."""
        self.left_out.append(LeftOut(line=line, why=why))

    def _note(self, line: Line) -> None:
        """Bring what the book knows of a line up to date."""
        book, name = self._books[line.scope], self._digest(line.written)
        known = book.get(name)
        before = known.sources if known is not None and not known.ended else ()
        book[name] = LearnedLine(
            sources=tuple(sorted({*before, *line.sources})),
            said_at=line.at if known is None else max(line.at, known.said_at),
            key=line.key,
        )

    def _remove(self, scope: BlockScope, names: set[str]) -> list[str]:
        """Remove learned lines from the blocks and from the book; return them."""
        removed: list[str] = []
        for block in BLOCK_TYPES if names else ():
            lines = self._lines[scope, block]
            gone = [line for line in lines if line.strip() and self._digest(line) in names]
            self._lines[scope, block] = [line for line in lines if line not in gone]
            self.changes += [LineChange(change="removed", scope=scope, block=block, line=line) for line in gone]
            removed += gone
        for name in names:
            self._books[scope].pop(name, None)
        return removed

    def _block_of(self, scope: BlockScope, names: set[str]) -> BlockType | None:
        """Return the block that has one of these lines."""
        if not names:
            return None
        lines = self._lines
        return next(
            (block for block in BLOCK_TYPES if any(self._digest(one) in names for one in lines[scope, block])), None
        )

    def _block_with_room(self, line: Line, block: BlockType, replaced: set[str]) -> BlockType | None:
        """Return the block that has room for a line: its own, or the archive if the core is full."""
        for candidate in dict.fromkeys((block, "archival" if block == "core" else block)):
            lines = self._lines[line.scope, candidate]
            left = [one for one in lines if not one.strip() or self._digest(one) not in replaced]
            if fits_a_block(candidate, [*trim_lines(left), line.written]):
                return candidate
        return None

    # writing

    def write(self, rows: Transaction, source: str | None, *, by_hand: bool = False) -> list[Note]:
        """Write what has changed; return the notes for the ledger. What is removed `by_hand` is not learned again."""
        if self._texts is None and self._books == self._books_before:
            return []
        origin = self._call.origin
        call = (
            self._call
            if by_hand
            else msgspec.structs.replace(
                self._call, origin=Origin(origin.actor, LEARNED, origin.source, origin.kind, origin.trust)
            )
        )
        writes: list[tuple[SetFact, Call]] = []
        for (scope, block), lines in self._lines.items():
            if lines != self._texts_before[scope, block]:
                payload = msgspec.Raw(encode("\n".join(lines)))
                write = SetFact(scope=self._scopes[scope], key=key_of(block), payload=payload, source=source)
                own = editing(call, rows.fact(write.scope, write.key, value=False))
                least = own.origin.at_most(self._least.get((scope, block), "high"))
                writes.append((write, msgspec.structs.replace(own, origin=least)))
        for scope, book in self._books.items():
            present = {self._digest(one) for block in BLOCK_TYPES for one in self._lines[scope, block] if one.strip()}
            # Of lines that are no longer in a block not even the digests are kept.
            kept = {name: known for name, known in book.items() if known.ended or name in present}
            if kept != self._books_before[scope]:
                payload = msgspec.Raw(encode(msgspec.to_builtins(kept)))
                writes.append((SetFact(scope=self._scopes[scope], key=BOOK, payload=payload, source=source), call))
        return [
            note
            for write, own in writes
            for note in set_fact(rows, write, msgspec.structs.replace(own, omits=False)).notes
        ]


def follow_statement(rows: Transaction, entry: Entry, text: str | None, call: Call) -> list[Note]:
    """Let the learned line of a statement, which ended or has another text now, follow it; return the notes.

    What confirmed it ends with it.
    """
    ended = end_confirmations(rows, entry, call.now)
    if entry.collection != STATEMENTS or entry.key is None or not has_blocks(entry.scope):
        return ended
    lines = LearnedLines(rows, [entry.scope], call)
    if not lines.has_any:
        return ended
    scope = owner_of(entry.scope)[0]
    if text is None or not fits_a_line(text):
        lines.remove(scope, entry.key)
    else:
        lines.put(Line(scope, entry.key, text, call.now), adds=False)
    return [*ended, *lines.write(rows, None, by_hand=True)]


def removed_lines(history: Iterable[Revision]) -> set[str]:
    """Return the lines that were removed from a block by hand, in canonical form.

    A line that was replaced by a newer one of the same statement does not count: it may come back.
    """
    gone: set[str] = set()
    before: set[str] = set()
    # Cached, because most lines are the same in every revision.
    plain = cache(canonical_line)
    for revision in history:
        is_set = revision.change == "set" and isinstance(revision.value, str)
        now = {plain(line) for _, line in lines_of(revision.value)} if is_set else set[str]()
        if revision.origin.door != LEARNED:
            gone |= before - now
        gone -= now
        before = now
    return gone


def revert_text(before: str, after: str, now: str) -> str:
    """Revert one write of a block: return exactly the text before it, if it was not changed since.

    Otherwise the lines that it added are removed, those that it removed are appended, and later changes stay.
    """
    if now == after:
        return before
    old, new = _lines(before), _lines(after)
    added = {canonical_line(line) for line in new} - {canonical_line(line) for line in old}
    kept = [line for line in now.split("\n") if not line.strip() or canonical_line(line) not in added]
    present = {canonical_line(line) for line in kept}
    missing = {canonical_line(line) for line in old} - {canonical_line(line) for line in new}
    back = [line for line in old if canonical_line(line) in missing and canonical_line(line) not in present]
    return "\n".join([*trim_lines(kept), *back]) if back else "\n".join(kept)


def revert_book(before: dict[str, object], after: dict[str, object], now: dict[str, object]) -> dict[str, object]:
    """Revert one write of a book in the same way: what was noted since of other lines stays."""
    changed = {name for name in (*before, *after) if before.get(name) != after.get(name)}
    kept = {name: line for name, line in now.items() if name not in changed or line != after.get(name)}
    return {**{name: before[name] for name in before if name in changed and name not in kept}, **kept}


def _lines(text: str) -> Sequence[str]:
    return [line for _, line in lines_of(text)]
