"""Learning: keep the messages of a conversation, and what they state, in one transaction.

Messages are entries of the collection `conversations`; those of a chat are kept there already. Statements are entries
of the collection `statements`, each under a key made of its subject and attribute, so that the entries of one key are a
chain: the newest is true now, and the ones before it are found as of earlier moments. Nothing is deleted, and the same
call twice changes nothing. Learned lines of memory blocks follow their statements; sleep-time memory adds such lines.

Messages whose model failed are noted in a job, until they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from memoranda.engine.blocks import BOOK, read_book
from memoranda.engine.confirmations import confirm, end_confirmations, may_confirm
from memoranda.engine.derivation import find_source, limit_to, link, source_of
from memoranda.engine.embedding import Texts, texts_by_space
from memoranda.engine.entries import (
    EMBEDDING_TAKES_TIME,
    Item,
    Remember,
    embed_texts,
    end_entry,
    entry_of_key,
    live_entries,
    store_items,
)
from memoranda.engine.facts import SetFact, set_fact
from memoranda.engine.forget import forgotten_key, undo_token
from memoranda.engine.learned_lines import LearnedLines, Line
from memoranda.engine.refs import Lines
from memoranda.engine.rejection_book import note_messages
from memoranda.engine.reviews import hold
from memoranda.engine.sessions import ensure_open
from memoranda.engine.verbs import Call, Outcome, Preparation, verb
from memoranda.model.block import (
    BLOCK_TYPES,
    BLOCKS,
    BlockType,
    agent_scope,
    canonical_digest,
    canonical_line,
    fits_a_line,
    has_blocks,
    key_of,
    lines_of,
    owner_of,
)
from memoranda.model.clock import from_micros
from memoranda.model.effect import Demand, ReadEffect, WriteEffect
from memoranda.model.entry import CONFIRMATIONS, CONVERSATIONS, STATEMENTS, Entry, Shelf
from memoranda.model.event import Note
from memoranda.model.job import LEARN, Job, job_key, read_job, scope_of_job
from memoranda.model.lesson import Learned, Lesson, Source, Verdict
from memoranda.model.names import FORGOTTEN_MESSAGES, collection_key, is_internal
from memoranda.model.ref import parse_ref
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.trust import OriginKind, is_at_least
from memoranda.model.value import decode, encode
from memoranda.store.base import EntryQuery, FactQuery, Reader, Transaction

_MOST_KNOWN = 200
"""Statements that a model is told are known: the newest ones."""
_MOST_OUTDATED = 100
"""Messages that a statement may outdate: the newest ones of its chain."""


class Turn(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A message to keep. If there is an entry under its key, it was kept before."""

    key: str
    text: str
    metadata: msgspec.Raw
    at: int | None = None
    """When it was said, in microseconds; now if None."""
    kind: OriginKind = "user"
    """What said it: what a model or a tool says is trusted less."""


class Stated(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Something that messages state."""

    key: str
    text: str
    value: str
    """What two statements under one key are compared by: they agree if it is the same."""
    at: int | None = None
    """When it was said, in microseconds."""
    valid_from: int | None = None
    """Since when it is true, in microseconds, where a message says so."""
    ends: bool = False
    """Whether the messages say that it is no longer true."""
    metadata: dict[str, Any] = {}
    messages: tuple[int, ...] = ()
    """The places among the turns of the messages that state it."""
    said_in: tuple[str, ...] = ()
    """The refs of messages of a chat that state it."""
    for_agent: bool = False
    """Whether it matters only to the agent of the conversation."""
    replaces: tuple[str, ...] = ()
    """Lines that it makes untrue, as a model copied them."""
    also_ends: tuple[str, ...] = ()
    """The keys of other statements that it makes untrue."""
    block: BlockType = "core"
    """The memory block that it belongs into."""


class Unread(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Messages that are kept, but could not be read because a model failed."""

    keys: tuple[str, ...]
    error: str
    model: str | None = None
    """The model to ask again; the worker's own if None."""


class Learn(WriteEffect, frozen=True, kw_only=True, tag="learn"):
    """Keep messages and what they state."""

    conversation: str
    agent: str | None = None
    turns: tuple[Turn, ...] = ()
    statements: tuple[Stated, ...] = ()
    source: str | None = None
    lines: bool = False
    """Whether statements become lines of memory blocks, and are left out if they cannot."""
    job: SetFact | None = None
    """The job that learns, as it is afterwards; the verb adds to its result what changed."""
    unread: Unread | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The messages, and the statements in them."""
        return "turns", "statements"

    def passes_on(self, *, is_owner: bool) -> bool:
        """Return whether a tool said something in it."""
        return any(turn.kind not in ("user", "assistant") for turn in self.turns)

    def divide(self, fate: Callable[[Any], str], refused: list[tuple[Any, str]]) -> tuple[Learn, Learn | None]:
        """Return what is learned now and what waits: a statement goes with the messages that state it."""

        def fate_of(stated: Stated) -> str:
            fates = {fate(self.turns[place]) for place in stated.messages} | {fate(stated)}
            return next(one for one in ("refused", "held", "kept") if one in fates or one == "kept")

        def only(wanted: str) -> tuple[tuple[Turn, ...], tuple[Stated, ...]]:
            places = [place for place, turn in enumerate(self.turns) if fate(turn) == wanted]
            numbers = {place: number for number, place in enumerate(places)}
            statements = tuple(
                msgspec.structs.replace(one, messages=tuple(numbers[at] for at in one.messages if at in numbers))
                for one in self.statements
                if fate_of(one) == wanted
            )
            return tuple(self.turns[place] for place in places), statements

        turns, statements = only("kept")
        held_turns, held_statements = only("held")
        held = Learn(
            scope=self.scope,
            conversation=self.conversation,
            agent=self.agent,
            turns=held_turns,
            statements=held_statements,
            source=self.source,
            lines=self.lines,
        )
        rest = msgspec.structs.replace(self, turns=turns, statements=statements)
        return rest, held if held_turns or held_statements else None

    def demands(self) -> Iterator[Demand]:
        """Yield the right to write each collection, each block that may change, and the job."""
        if self.turns:
            yield self.capability, self.scope, collection_key(CONVERSATIONS)
        for scope in dict.fromkeys(self.place_of(stated) for stated in self.statements):
            yield self.capability, scope, collection_key(STATEMENTS)
            if self.lines:
                yield from self.block_demands(scope)
        if self.job is not None:
            yield from self.job.demands()

    def block_demands(self, scope: Scope) -> Iterator[Demand]:
        """Yield the right to write the blocks of a scope."""
        for block in BLOCK_TYPES:
            yield self.capability, scope, key_of(block)

    def weight(self) -> tuple[int, int]:
        """Return the number of messages and statements, and the bytes of their texts."""
        texts = [one.text for one in (*self.turns, *self.statements)]
        return len(texts), sum(len(text.encode()) for text in texts)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of its statements: its own, and that of its agent."""
        return _scopes_of(self.scope, self.agent)

    def place_of(self, stated: Stated) -> Scope:
        """Return the scope of a statement: that of the effect, or the one of its agent."""
        return self.scopes[-1] if stated.for_agent else self.scope


def _scopes_of(scope: Scope, agent: str | None) -> tuple[Scope, ...]:
    return (scope,) if agent is None or scope.shape != ("user",) else (scope, agent_scope(scope, agent))


class ReadStatements(ReadEffect, frozen=True, kw_only=True, tag="read_statements"):
    """Read which of some messages were read before, and what is stated now."""

    capability: ClassVar[str] = "memory.read"
    keys: tuple[str, ...] = ()
    conversation: str = ""
    agent: str | None = None
    lines: bool = False
    """Whether to read the lines of memory blocks, too, and what only the agent knows."""

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read each collection, and the blocks."""
        yield self.capability, self.scope, collection_key(CONVERSATIONS)
        for scope in self.scopes:
            yield self.capability, scope, collection_key(STATEMENTS)
            if self.lines:
                yield self.capability, scope, BLOCKS

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that are read: its own and, with lines, that of its agent."""
        return _scopes_of(self.scope, self.agent if self.lines else None)


class KnownBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of messages that were read before, the current statements, newest first, and lines with their keys."""

    keys: frozenset[str] = frozenset()
    statements: tuple[Entry, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()


@verb(ReadStatements)
def read_statements(rows: Reader, effect: ReadStatements, call: Call) -> Outcome[KnownBefore]:
    """Return which messages were read before, and what is stated now."""
    keys = _keys_of_messages(rows, effect.scope, effect.keys, call.now)
    if keys and (job := _find_job(rows, effect.scope, effect.conversation)) is not None:
        keys -= set(job.work["keys"])
    live = [one for scope in effect.scopes for one in rows.live_sequences(Shelf(scope, STATEMENTS, ""))]
    newest = sorted(live, reverse=True)[:_MOST_KNOWN]
    found = rows.entries(EntryQuery(tenant=effect.scope.tenant, sequences=newest)) if newest else ()
    current = sorted((entry for entry in found if entry.is_current_at(call.now)), key=lambda one: -one.sequence)
    lines = tuple(line for scope in effect.scopes for line in _lines_of(rows, scope, call)) if effect.lines else ()
    return Outcome(KnownBefore(keys=frozenset(keys), statements=tuple(current), lines=lines))


def _keys_of_messages(rows: Reader, scope: Scope, keys: Sequence[str], now: datetime) -> set[str]:
    """Return which of these keys messages have that are kept, or that were forgotten."""
    if not keys:
        return set()
    known = {str(key) for key in rows.known(Shelf(scope, CONVERSATIONS, ""), keys=list(keys))}
    if len(known) < len(keys) and scope.shape and is_internal(scope, forgotten_key("")):
        forgotten = {fact.key for fact in rows.facts(FactQuery(scope, prefix=FORGOTTEN_MESSAGES, active_at=now))}
        known |= {key for key in keys if forgotten and forgotten_key(key) in forgotten}
    return known


def _lines_of(rows: Reader, scope: Scope, call: Call) -> Iterator[tuple[str, str]]:
    """Yield the lines of the blocks of a scope, each with the key of its statement if it was learned."""
    book = read_book(rows, scope)
    for block in BLOCK_TYPES:
        fact = rows.fact(scope, key_of(block))
        for _, line in lines_of(fact.value) if fact is not None and fact.active_at(call.now) else ():
            known = book.get(canonical_digest(line))
            yield line, "" if known is None else known.key


def _texts(rows: Reader, effect: Learn, call: Call) -> Texts:
    ensure_open(rows, effect.scope)
    # Of a list that grows with each turn, most messages are kept already.
    known = _keys_of_messages(rows, effect.scope, [turn.key for turn in effect.turns], call.now)
    texts = {
        CONVERSATIONS: [turn.text for turn in effect.turns if turn.key not in known],
        STATEMENTS: [text_of(one) for one in effect.statements],
        CONFIRMATIONS: list(_texts_to_confirm(rows, effect, call)),
    }
    return texts_by_space(rows, effect.scope.tenant, [one for one in texts.items() if one[1]])


def _texts_to_confirm(rows: Reader, effect: Learn, call: Call) -> Iterator[str]:
    """Yield the texts of statements that others may confirm, as they are or will be."""
    for stated in effect.statements:
        place = effect.place_of(stated)
        known = entry_of_key(rows, Shelf(place, STATEMENTS, ""), stated.key)
        origin = call.origin.with_source(effect.source)
        kinds: set[OriginKind] = {effect.turns[number].kind for number in stated.messages}
        if known is not None and (stated.said_in or may_confirm(known, map(origin.from_kind, kinds))):
            yield str(known.content)
        if stated.said_in or len(kinds) > 1:
            yield text_of(stated)


def _demands_with_lines(rows: Reader, effect: Learn, call: Call) -> Iterator[Demand]:
    """Yield what an effect demands, and the right to write blocks whose learned lines it may change."""
    yield from effect.demands()
    keys = {key for stated in effect.statements for key in (stated.key, *stated.also_ends)}
    for scope in effect.scopes if keys and has_blocks(effect.scope) else ():
        if any(not known.key or known.key in keys for known in read_book(rows, scope).values()):
            yield from effect.block_demands(scope)


def _within(effect: Learn) -> tuple[Scope, ...]:
    """Return the scopes of messages and statements, and those of the jobs."""
    jobs = (scope_of_job(effect.scope, effect.conversation), None if effect.job is None else effect.job.scope)
    return (*effect.scopes, *(one for one in jobs if one is not None))


@verb(
    Learn,
    within=_within,
    touches=_demands_with_lines,
    preparation=Preparation(inquire=_texts, prepare=embed_texts, busy=EMBEDDING_TAKES_TIME),
)
def learn(rows: Transaction, effect: Learn, call: Call) -> Outcome[Learned]:
    """Keep the messages that are not there yet, and bring what they state and the lines that say it up to date."""
    ensure_open(rows, effect.scope)
    if effect.lines:
        owner_of(effect.scope)  # raises for a scope without memory blocks
    refs, notes, new = _keep_turns(rows, effect, call)
    lines = LearnedLines(rows, effect.scopes if effect.statements else (), call)
    lessons: list[Lesson] = []
    for stated in effect.statements:
        update = _ChainUpdate(rows, effect, stated, refs, call, lines if effect.lines or lines.has_any else None)
        lessons += update.lessons()
        notes += update.notes
    notes += lines.write(rows, effect.source)
    if notes:  # a call that changes nothing leaves no event
        detail = {"conversation": effect.conversation, "messages": len(new), "statements": len(lessons)}
        notes.append(Note(effect=effect.name, scope=effect.scope.path, detail=detail))
    learned = Learned(
        conversation=effect.conversation,
        messages=tuple(new),
        known_messages=len(effect.turns) - len(new),
        lessons=tuple(lessons),
        undo=(undo_token(rows, effect.scope.tenant, len(notes)),) if notes else (),
        lines=tuple(lines.changes),
        left_out=tuple(lines.left_out) if effect.lines else (),
    )
    # Jobs come after what `undo` takes back.
    if effect.job is not None:
        notes += set_fact(rows, _with_result(effect.job, learned), call).notes
    if effect.unread is not None or len(new) < len(effect.turns):
        job, about = _note_unread(rows, effect, learned, call)
        notes += about
        if effect.unread is not None:
            learned = msgspec.structs.replace(
                learned, pending=_pending_text(effect.unread, job), retry_at=None if job is None else job.due_at
            )
    return Outcome(learned, tuple(notes))


def _keep_turns(rows: Transaction, effect: Learn, call: Call) -> tuple[list[str], list[Note], list[str]]:
    """Store the messages that are new; return the refs of all, the notes, and the refs of the new ones."""
    if not effect.turns:
        return [], [], []
    shelf = Shelf(effect.scope, CONVERSATIONS, "")
    known = _keys_of_messages(rows, effect.scope, [turn.key for turn in effect.turns], call.now)
    new = [turn for turn in effect.turns if turn.key not in known]
    items = [
        Item(payload=msgspec.Raw(encode(turn.text)), metadata=turn.metadata, key=turn.key, at=turn.at, kind=turn.kind)
        for turn in new
    ]
    ids: dict[str, str] = {}
    notes: list[Note] = []
    if items:
        origin = call.origin.with_source(effect.source)
        stored, notes = store_items(
            rows, shelf, items, call, at=call.now, expires_at=None, origin=origin, is_evidence=True
        )
        ids = {turn.key: one.id for turn, one in zip(new, stored, strict=True)}
        for turn, one in zip(new, stored, strict=True):
            rejection = call.rejections.find(rows, effect.scope, turn.text)
            if rejection is not None:
                note_messages(rows, rejection, [one.id])
    needed = {place for stated in effect.statements for place in stated.messages}
    refs: list[str] = []
    for place, turn in enumerate(effect.turns):
        if turn.key not in ids and place in needed and (entry := entry_of_key(rows, shelf, turn.key)) is not None:
            ids[turn.key] = entry.id
        refs.append(f"entry:{ids[turn.key]}" if turn.key in ids else "")
    return refs, notes, [f"entry:{ids[turn.key]}" for turn in new]


class _ChainUpdate:
    """How one statement changes its chain, and the line that says it."""

    def __init__(
        self,
        rows: Transaction,
        effect: Learn,
        stated: Stated,
        refs: list[str],
        call: Call,
        lines: LearnedLines | None,
    ) -> None:
        self._rows, self._effect, self._stated, self._call, self._lines = rows, effect, stated, call, lines
        scope = effect.place_of(stated)
        self._shelf = Shelf(scope, STATEMENTS, "")
        self._said_in = (*(refs[place] for place in stated.messages), *stated.said_in)
        self._at = call.now if stated.at is None else from_micros(stated.at)
        self.notes: list[Note] = []
        current = entry_of_key(rows, self._shelf, stated.key)
        self._current = current if current is not None and current.is_current_at(call.now) else None
        self._origin = call.origin.with_source(effect.source)
        for place in stated.messages:
            self._origin = self._origin.from_kind(effect.turns[place].kind)
        # A message is trusted as far as it was when it was kept, no matter who reads it.
        found = ((ref, find_source(rows, scope.tenant, ref, call)) for ref in self._said_in if ref)
        said = [(source_of(ref, target), target) for ref, target in found if target is not None]
        self._said = [(source, target.origin) for source, target in said if not isinstance(target, Lines)]
        self._sources = [source for source, _ in said]
        self._origin = limit_to(self._origin, self._sources)
        self._line = Line(
            owner_of(scope)[0] if has_blocks(scope) else "user",
            stated.key,
            stated.text,
            self._at,
            stated.block,
            tuple(source for ref in stated.said_in for source in _source_of(ref)),
            self._origin.trust,
        )

    def lessons(self) -> list[Lesson]:
        """Bring the chain and the line up to date; return what became of the statement, if it was not left out."""
        rejected = self._rejection()
        if rejected is not None:
            return [self._refuse(rejected)]
        verdict = self._verdict()
        if self._current is not None and verdict in ("replaced", "ended"):
            if not is_at_least(self._origin.trust, self._current.origin.trust):
                return [self._contest(self._current)]
        if self._lines is None:
            return [self._keep(verdict)]
        if self._effect.lines and self._is_left_out(self._lines, verdict):
            return []
        lesson = self._keep(verdict)
        self._follow(self._lines, verdict)
        return [lesson]

    def _verdict(self) -> Verdict:
        current, line, lines, ends = self._current, self._line, self._lines, self._stated.ends
        said_at = None if lines is None else lines.said_at(line)
        if current is not None:
            said_at = max(current.moment("time"), said_at or current.moment("time"))
        elif lines is None or not lines.is_learned(line):
            return "outdated" if ends or (said_at is not None and said_at > self._at) else "added"
        agrees = self._agrees
        if current is not None and agrees and not ends:
            return "confirmed"
        if said_at is not None and said_at > self._at:
            return "outdated"
        if ends:
            return "ended" if agrees else "confirmed"  # "I no longer live in Oslo" says nothing about Porto
        return "added" if current is None else "replaced"

    @property
    def _agrees(self) -> bool:
        """Whether what is known is the same: a line of an earlier version has no statement to compare."""
        if self._current is not None:
            return self._current.metadata.get("value") == self._stated.value
        return self._lines is not None and self._lines.state(self._line) == "learned"

    def _is_left_out(self, lines: LearnedLines, verdict: Verdict) -> bool:
        """Return whether a statement cannot become a line, and so is not learned."""
        line, ends = self._line, self._stated.ends
        if not self._said_in or not fits_a_line(line.text):
            lines.leave(line.written, "unfit")
        elif not ends and not is_at_least(line.trust, "medium"):
            lines.leave(line.written, "untrusted")
        elif not ends and lines.is_taken_out(line):
            lines.leave(line.written, "taken_out")
        elif verdict == "added" and lines.state(line) == "by_hand":
            lines.leave(line.written, "known")
        elif verdict == "added" and not lines.has_room(line):
            lines.leave(line.written, "no_room")
        else:
            return False
        return True

    def _follow(self, lines: LearnedLines, verdict: Verdict) -> None:
        """Bring the line of the statement up to date."""
        line, adds, ends = self._line, self._effect.lines, self._stated.ends
        if verdict == "ended" or (ends and verdict == "outdated" and self._current is None):
            lines.end(line, adds=adds, noted=self._current is None)
        elif verdict == "outdated" and adds:
            lines.leave(line.written, "outdated")
        elif verdict in ("added", "replaced") or (verdict == "confirmed" and adds and not ends):
            for key in (*self._stated.also_ends, *lines.replace(line.scope, self._stated.replaces)):
                lines.remove(line.scope, key)
                self._end_other(key)
            lines.put(line, adds=adds)

    def _end_other(self, key: str) -> None:
        """End another statement that this one makes untrue."""
        entry = entry_of_key(self._rows, self._shelf, key)
        if entry is not None and key != self._stated.key and entry.is_current_at(self._call.now):
            self.notes += end_statement(self._rows, entry, self._call.now)

    def _keep(self, verdict: Verdict) -> Lesson:
        """Add the statement to its chain, if that changes; return what became of it."""
        current, stated = self._current, self._stated
        ref = None if current is None else current.ref
        if verdict in ("added", "replaced", "ended"):
            if current is not None:
                self.notes += end_confirmations(self._rows, current, self._call.now)
            ref = self._store()
            current_now = entry_of_key(self._rows, self._shelf, stated.key)
            if self._lines is None:
                for key in stated.also_ends:
                    self._end_other(key)
        else:
            current_now = current
        if current_now is not None and not stated.ends and verdict in ("added", "replaced", "confirmed"):
            self.notes += confirm(self._rows, current_now, self._said, self._call)
        return Lesson(
            text=stated.text,
            verdict=verdict,
            key=stated.key,
            ref=ref,
            replaced=None if current is None or verdict not in ("replaced", "ended") else current.ref,
            said_in=self._said_in,
            valid_from=None if stated.valid_from is None else from_micros(stated.valid_from),
        )

    def _rejection(self) -> StoredRejection | None:
        """Return what rejects the statement, in these words or in others; taking it back is never rejected."""
        stated = self._stated
        if stated.ends:
            return None
        return self._call.rejections.find(self._rows, self._shelf.scope, stated.text, stated.key, stated.value or None)

    def _refuse(self, rejection: StoredRejection) -> Lesson:
        """Leave a statement out that was rejected, and note which messages state it; return what became of it."""
        stated = self._stated
        note_messages(self._rows, rejection, [ref.removeprefix("entry:") for ref in self._said_in if ref])
        detail = {"reason": "rejected", "rejection": rejection.id}
        place = collection_key(STATEMENTS)
        self.notes.append(
            Note(effect="remember", scope=self._shelf.scope.path, key=place, detail=detail, decision="deny")
        )
        return Lesson(
            text=stated.text, verdict="rejected", key=stated.key, said_in=self._said_in, rejected=rejection.id
        )

    def _contest(self, current: Entry) -> Lesson:
        """Hold a statement back that contradicts a more trusted one; return what became of it."""
        stated = self._stated
        write = Remember(
            scope=self._shelf.scope, collection=STATEMENTS, items=(self._item(),), source=self._effect.source
        )
        asked = msgspec.structs.replace(self._call, origin=self._origin)
        approval, note = hold(self._rows, write, write.capability, asked, "conflict")
        self.notes.append(note)
        return Lesson(
            text=stated.text,
            verdict="contested",
            key=stated.key,
            ref=current.ref,
            said_in=self._said_in,
            held=approval.id,
        )

    def _store(self) -> str:
        """Store the entry of the statement; return its ref."""
        stored, notes = store_items(
            self._rows, self._shelf, [self._item()], self._call, at=self._call.now, expires_at=None, origin=self._origin
        )
        self.notes += notes
        ref = f"entry:{stored[0].id}"
        link(self._rows, self._shelf.scope, ref, 0, self._sources)
        return ref

    def _item(self) -> Item:
        """Return the entry of the statement."""
        stated, current = self._stated, self._current
        metadata: dict[str, Any] = {
            **stated.metadata,
            "value": "" if stated.ends else stated.value,
            "said_in": list(self._said_in),
            "time": self._at.isoformat(),
            # Statements say what they say alone: none lends words to the one before it.
            "thread": stated.key,
        }
        if stated.valid_from is not None:
            metadata["valid_from"] = from_micros(stated.valid_from).isoformat()
        if current is not None:
            metadata["replaces"] = current.id
            # The messages behind what is no longer true are found all the same, marked and after what is true now.
            before = [*current.metadata.get("outdates", ()), *current.metadata.get("said_in", ())]
            metadata["outdates"] = [ref.removeprefix("entry:") for ref in before][-_MOST_OUTDATED:]
        return Item(
            payload=msgspec.Raw(encode(text_of(stated))),
            metadata=msgspec.Raw(encode(metadata)),
            key=stated.key,
            at=stated.at if stated.valid_from is None else stated.valid_from,
        )


def end_statement(rows: Transaction, entry: Entry, now: datetime) -> list[Note]:
    """End a statement with what confirms it; return the notes."""
    return [*end_confirmations(rows, entry, now), end_entry(rows, entry, now)]


def text_of(stated: Stated) -> str:
    """Return the text of a statement's entry; the end of something is worth remembering too."""
    return f"No longer true: {stated.text}" if stated.ends else stated.text


def _source_of(ref: str) -> Iterator[Source]:
    """Yield the part of a chat that a ref names."""
    said = parse_ref(ref)
    if said.scope is not None:
        yield Source(dict(said.scope.parts)["thread"], int(said.name))


# jobs


def _with_result(job: SetFact, learned: Learned) -> SetFact:
    """Return the write of a finished job with its result: how much was changed and where, not what."""
    state = decode(bytes(job.payload))
    state["result"] = {
        **state["result"],
        "written": list(dict.fromkeys(f"{change.scope}.{change.block}" for change in learned.lines)),
        "added": sum(change.change == "added" for change in learned.lines),
        "removed": sum(change.change == "removed" for change in learned.lines),
        "left_out": sum(one.why != "known" for one in learned.left_out),
        "undo": list(learned.undo),
    }
    return msgspec.structs.replace(job, payload=msgspec.Raw(encode(state)))


def _find_job(rows: Reader, scope: Scope, conversation: str) -> Job | None:
    """Return the job that reads messages of a conversation again, if there is one."""
    place = scope_of_job(scope, conversation)
    fact = None if place is None else rows.fact(place, job_key(LEARN))
    return None if fact is None else read_job(fact, LEARN)


def _note_unread(rows: Transaction, effect: Learn, learned: Learned, call: Call) -> tuple[Job | None, list[Note]]:
    """Bring the job up to date that reads messages again: some could not be read, or were read now."""
    place = scope_of_job(effect.scope, effect.conversation)
    job = _find_job(rows, effect.scope, effect.conversation)
    waiting: list[str] = [] if job is None else job.work["keys"]
    if place is None or (effect.unread is None and not waiting):
        return job, []
    if effect.unread is None:
        assert job is not None
        read = {turn.key for turn in effect.turns}
        kept = _keys_of_messages(rows, effect.scope, waiting, call.now)
        left = [key for key in waiting if key in kept and key not in read]
        if left == waiting:
            return job, []
        result = {"added": len(learned.added), "removed": len(learned.replaced)}
        job = msgspec.structs.replace(job, work={**job.work, "keys": left}, result=result)
        job = job if left else job.after_success(call.now, done=job.mark)
    else:
        unread = effect.unread
        keys = list(dict.fromkeys((*waiting, *unread.keys)))
        work = {
            "keys": keys,
            "scope": effect.scope.path,
            "conversation": effect.conversation,
            "agent": effect.agent,
            "model": unread.model,
            "source": effect.source,
        }
        job = Job(
            scope=place,
            kind=LEARN,
            state="waiting",
            mark=len(keys),
            attempts=max(1, job.attempts if job is not None and job.state == "waiting" else 0),
            due_at=call.now,
            work=work,
            version=0 if job is None else job.version,
        )
        job = job.after_failure(unread.error, call.now, most_attempts=job.attempts + 1)
    write = SetFact(scope=place, key=job_key(LEARN), payload=msgspec.Raw(job.payload))
    return job, list(set_fact(rows, write, call).notes)


def _pending_text(unread: Unread, job: Job | None) -> str:
    if job is None:
        return f"{unread.error}; the messages are kept: undo this and learn again to read them"
    return f"{unread.error}; the messages are kept and read again after {job.due_at:%Y-%m-%d %H:%M} UTC"


# forgetting


class Unlearn(WriteEffect, frozen=True, kw_only=True, tag="unlearn"):
    """End what was learned only from certain chats of a user: statements, and the lines that say them."""

    conversations: tuple[str, ...]


@verb(Unlearn)
def unlearn(rows: Transaction, effect: Unlearn, call: Call) -> Outcome[list[str]]:
    """End what was learned only from these chats, in all scopes of a user; return the removed lines."""
    ensure_open(rows, effect.scope)
    forgotten = frozenset(effect.conversations)
    notes: list[Note] = []
    removed: list[str] = []
    for fact in list(rows.facts(FactQuery(effect.scope, below=True, key=BOOK))):
        lines = LearnedLines(rows, [fact.scope], call)
        for line, known in lines.forget(forgotten):
            removed.append(line)
            entry = entry_of_key(rows, Shelf(fact.scope, STATEMENTS, ""), known.key) if known.key else None
            # What was said in a conversation that `learn` was given is still known.
            if entry is not None and _chats_of(entry) and canonical_line(str(entry.content)) == canonical_line(line):
                notes += end_statement(rows, entry, call.now)
        notes += lines.write(rows, None)
    for collection in (STATEMENTS, CONFIRMATIONS):
        for entry in list(live_entries(rows, effect.scope, call.now, collection=collection)):
            chats = _chats_of(entry)
            if chats and chats <= forgotten and not _has_line(rows, entry):
                notes += end_statement(rows, entry, call.now)
    return Outcome(removed, tuple(notes))


def _chats_of(entry: Entry) -> frozenset[str]:
    """Return the chats that a statement comes from; none if it comes from elsewhere too."""
    refs: Any = entry.metadata.get("said_in", [])
    try:
        found = [source.conversation for ref in refs for source in _source_of(ref)]
    except (KeyError, TypeError, ValueError, AttributeError):
        return frozenset()  # its metadata were written by hand
    return frozenset(found if len(found) == len(refs) else ())


def _has_line(rows: Reader, entry: Entry) -> bool:
    return any(known.key == entry.key for known in read_book(rows, entry.scope).values())
