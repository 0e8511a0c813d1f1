"""The index over all memory of one subject: entries, facts, lines of blocks and messages, ranked together.

Like the index of a shelf it is derived data: it is made from the rows, follows them, and can be dropped at any moment.
Entries are followed by the states of their shelves, everything else by the ledger, which names each changed key. Texts
that are not entries have no stored words and vectors, so both are made here, by an embedder that needs no network.

A recall at `user:ada/agent:emails` uses the index of `user:ada`; which rows it may return is decided by their `Group`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.engine import segments
from memoranda.engine.derivation import messages_for
from memoranda.engine.embedding import EmbedderBook, word_packer
from memoranda.engine.segments import WORTH_SEALING_AGAIN, About, Place, SegmentBook
from memoranda.errors import UsageError
from memoranda.model.block import BLOCK_TYPES, key_of, lines_of
from memoranda.model.clock import from_micros, parse_moment, to_micros
from memoranda.model.definition import Definition, plain_text
from memoranda.model.entry import (
    CONFIRMATIONS,
    CONVERSATIONS,
    RETRACTED,
    STATEMENTS,
    Collection,
    Entry,
    Indexed,
    Kind,
    Shelf,
    ShelfState,
    Space,
)
from memoranda.model.event import Event
from memoranda.model.fact import Fact, Revision
from memoranda.model.names import CHAT_RECORD, THREAD_MESSAGES, is_block, is_internal
from memoranda.model.ref import Ref, line_digest
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.trust import TRUSTED, Origin
from memoranda.model.value import decode, encode
from memoranda.retrieval.index.columns import GrowingArray
from memoranda.retrieval.index.segment import Contents, Segment
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.store.base import EntryQuery, FactQuery, Progress, Reader, RevisionQuery

_FOLLOWED = 256
"""Events that are read one by one; after more of them, all facts are compared with the index instead."""
_WHOLE_SCOPE = frozenset({"erase", "end_scope", "import"})
"""Effects whose events do not name each key that they changed."""
_LONGEST_TEXT = 4_000
"""Characters of a fact that are searched."""
_CHAT_PARTS = "chat.parts."
_THREAD_MESSAGES = f"{THREAD_MESSAGES}."
_SPOKEN = {"user": "user", "agent_text": "assistant"}
_NOTHING = ShelfState()
_MOST_NARROWED = 64
"""Ways of narrowing a recall for which the groups are cached."""
_NUMBERS_OF_AN_ITEM = 150
"""Size of a text's item beside the text, in units of 8 bytes."""


class Group(msgspec.Struct, frozen=True):
    """What rows of one origin have in common, by which a recall is narrowed."""

    kind: Kind
    scope: Scope
    collection: str | None = None
    namespace: str | None = None
    agent: str | None = None
    """Of messages: the agent of the conversation."""
    block: str | None = None
    """Of lines: the block."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A text that is not an entry: a fact, a record, a line of a block or a message."""

    group: Group
    ref: str
    key: str
    text: str
    """What a match shows."""
    searched: str
    """What is indexed: the text, for a record also the descriptions in its schema."""
    bare: str = ""
    """Of records: the text without anything of its definition, for those who may not read that."""
    metadata: dict[str, Any] = {}
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    origin: Origin


_Place = tuple[str, str]
"""The scope and key of a fact."""


class Changes(msgspec.Struct):
    """What has changed since the index last followed its rows."""

    progress: Progress
    revision: int
    states: dict[Shelf, ShelfState]
    starts_over: bool = False
    """Whether the index is made anew: an embedder has changed, or the clock was set back."""
    new: list[tuple[Shelf, Space, list[Indexed]]] = []
    gone: list[tuple[Shelf, NDArray[np.int64] | None]] = []
    """Shelves with the sequences that are left; None for a shelf that is gone as a whole."""
    ended: list[tuple[Shelf, NDArray[np.int64]]] = []
    """Shelves with the sequences that ended or were removed there."""
    outdates: dict[Shelf, dict[int, tuple[tuple[int, ...], int]]] = {}
    """By the sequences of new statements: the messages that each of them outdates, and since when; a message that was
    retracted outdates itself."""
    facts: dict[_Place, tuple[int, list[Item]]] = {}
    """The version and the items of each fact that changed; no items for one that is gone."""
    only: bool = False
    """Whether facts that are not among `facts` are gone."""
    rejected: int = 0
    """The state of the tenant's rejections."""
    withheld: frozenset[int] | None = None
    """The messages that state what was rejected, if that changed."""
    sealing: tuple[str, About] | None = None
    """The name of the segment that is to be made of the entries, and what it says."""


_SAVED = "beside saved"
_GROUP, _SPACE = "beside group", "beside space"


class _SavedGroup(msgspec.Struct, frozen=True, array_like=True):
    kind: Kind
    path: str
    collection: str | None
    namespace: str | None


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What an index of a subject has beside its rows, in a segment. Shelves are numbered as their states are."""

    groups: list[_SavedGroup]
    indexed: list[int]
    outdates: dict[int, dict[int, tuple[tuple[int, ...], int]]]


class Part:
    """The rows in the space of one embedder."""

    def __init__(self, space: Space) -> None:
        """Start without rows."""
        self.space = space
        self.index = ShelfIndex(space.dimension)
        self._sequence = GrowingArray(np.int64)
        self._group = GrowingArray(np.int32)
        self.items: dict[int, Item] = {}
        """The items by the number of their row; entries are not among them."""
        self._bytes_of_items = 0

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return self.index.nbytes + self._sequence.nbytes + self._group.nbytes + self._bytes_of_items

    def save(self) -> Contents:
        """Return what a segment of these rows is made of, as long as all of them are entries."""
        contents = self.index.save()
        contents.add_rows(segments.SEQUENCES, self._sequence.rows)
        contents.add_rows(_GROUP, self._group.rows)
        contents.values[_SPACE] = msgspec.msgpack.encode(self.space)
        return contents

    @classmethod
    def load(cls, segment: Segment) -> Part:
        """Return the rows of a segment."""
        part = cls(msgspec.msgpack.decode(segment.values[_SPACE], type=Space))
        part.index = ShelfIndex.load(segment, part.space.dimension)
        part._sequence.start_from(segment, segments.SEQUENCES)
        part._group.start_from(segment, _GROUP)
        return part

    def add_entries(self, group: int, rows: Sequence[Indexed], place: str, kind: Kind) -> None:
        """Add entries of one group and kind; `place` keeps the neighbours of different shelves apart."""
        first = len(self._sequence)
        self._sequence.extend([row.sequence for row in rows])
        self._group.extend([group] * len(rows))
        self.index.add(
            Indexed(
                number,
                place,
                row.metadata,
                row.expires_at,
                row.analysis,
                row.vector,
                row.origin,
                _conversation_of(decode(row.metadata)) if kind == "message" else None,
            )
            for number, row in enumerate(rows, first + 1)
        )

    def add_items(self, groups: Sequence[int], items: Sequence[Item], vectors: Sequence[bytes]) -> list[int]:
        """Add items; return their numbers."""
        first = len(self._sequence)
        numbers = list(range(first + 1, first + 1 + len(items)))
        self._sequence.extend([-_row_id(item.ref) if item.group.kind == "message" else 0 for item in items])
        self._group.extend(list(groups))
        pack_words = word_packer()
        with self.index.lock:
            self.items.update(zip(numbers, items, strict=True))
            self._bytes_of_items += sum(map(_size_of, items))
            self.index.add(
                Indexed(
                    number,
                    # Messages of a conversation lend each other words; facts and lines say what they say alone.
                    "" if item.group.kind == "message" else item.ref,
                    encode(item.metadata),
                    None if item.expires_at is None else to_micros(item.expires_at),
                    pack_words(item.searched),
                    vector,
                    TRUSTED if item.origin.trust == "high" and item.origin.source is None else item.origin,
                    _conversation_of(item.metadata) if item.group.kind == "message" else None,
                )
                for number, item, vector in zip(numbers, items, vectors, strict=True)
            )
        return numbers

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove rows by their numbers."""
        with self.index.lock:
            gone = list(numbers)
            self.index.remove(gone)
            for number in gone:
                item = self.items.pop(number, None)
                self._bytes_of_items -= 0 if item is None else _size_of(item)

    def entry_sequence(self, number: int) -> int:
        """Return the sequence of the entry in a row; 0 if it is not an entry."""
        return max(0, self.row_id(number))

    def row_id(self, number: int) -> int:
        """Return what the text in a row is outdated by: the sequence of its entry, or a number of its message."""
        return int(self._sequence.rows[number - 1])

    def group_of(self, number: int) -> int:
        """Return the number of a row's group."""
        return int(self._group.rows[number - 1])

    def numbers_of(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers and the sequences of the rows of a group, those that have expired included."""
        lapsed = np.array(sorted(self.index.lapsed), np.int64)
        numbers = np.concatenate((self.index.sequences(), lapsed))
        numbers = numbers[self._group.rows[numbers - 1] == group]
        return numbers, self._sequence.rows[numbers - 1]

    def numbers_with(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the rows with the entries of these sequences."""
        return np.flatnonzero(np.isin(self._sequence.rows, sequences)) + 1

    def outdated(self, sequences: Iterable[int]) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        """Return a test for rows by their numbers: whether their entries or messages are among these."""
        old = np.array(sorted(sequences), np.int64)
        return lambda numbers: np.isin(self._sequence.rows[numbers - 1], old)

    def mask(self, allowed: NDArray[np.bool_]) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
        """Return a test for rows by their numbers: whether their group is among the allowed ones."""

        def is_allowed(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
            groups = self._group.rows.take(numbers - 1)
            try:
                return allowed.take(groups)
            except IndexError:  # another thread has added groups since, which are not among the allowed ones
                return (groups < len(allowed)) & allowed.take(groups, mode="clip")

        return is_allowed


def _conversation_of(metadata: dict[str, Any]) -> str:
    return f"conversation {metadata.get('thread', '')}".strip()


def _size_of(item: Item) -> int:
    return len(item.searched) + len(item.text) + _NUMBERS_OF_AN_ITEM * 8


class MemoryIndex:
    """The index of everything at and below one scope; of the shared scope, what is in it alone."""

    def __init__(self, root: Scope, segments: SegmentBook | None = None) -> None:
        """Start without rows; if there are many, they may be in a segment."""
        self.root = root
        self._segments = segments
        self.lock = threading.RLock()
        """Held while the index follows its rows."""
        self.size = 0
        """Its size in bytes when that was last asked."""
        self._clear()

    def _clear(self) -> None:
        self.parts: dict[str, Part] = {}
        self.groups: list[Group] = []
        self._allowed: dict[Hashable, NDArray[np.bool_]] = {}
        self._numbers: dict[Group, int] = {}
        self._states: dict[Shelf, ShelfState] = {}
        self._embedders: dict[Shelf, str] = {}
        self._outdates: dict[Shelf, dict[int, tuple[tuple[int, ...], int]]] = {}
        self.outdated: dict[int, int] = {}
        """Messages that state what is no longer true, by the ids of their rows, and since when that is so."""
        self.withheld: frozenset[int] = frozenset()
        """Messages that state what was rejected, by the ids of their rows."""
        self._rejected = 0
        self.outdated_by: dict[int, int] = {}
        """The sequences of the statements that say so."""
        self._rows: dict[_Place, tuple[int, list[int]]] = {}
        """The version of each fact, and the numbers of its rows."""
        self._agents: dict[Scope, str] = {}
        self._definitions: dict[str, list[Definition]] = {}
        self._progress: Progress | None = None
        self._revision = -1

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return sum(part.nbytes for part in self.parts.values()) + 500 * len(self._rows)

    def has_confirmations(self, scope: Scope) -> bool:
        """Return whether anything that was stated in a scope was ever confirmed by others."""
        return Shelf(scope, CONFIRMATIONS, "") in self._states

    def is_set_back(self, now: int) -> bool:
        """Return whether something was removed as expired that has not expired at this moment."""
        return any(now < part.index.expired_at for part in self.parts.values())

    # following the rows

    def changes(self, rows: Reader, *, now: int, anew: bool = False) -> Changes:
        """Return what has changed since the index last followed its rows, read in one snapshot."""
        is_new = self._progress is None and not self._states
        if is_new and not anew:
            self._start_from_segment(rows, now)
        states = dict(rows.shelf_states(self.root, below=bool(self.root.path)))
        state = rows.tenant_state(self.root.tenant)
        progress = rows.progress(self.root.tenant)
        changes = Changes(
            progress=progress,
            revision=state.revision,
            rejected=state.rejected,
            states=states,
            starts_over=anew or self.is_set_back(now) or self._is_ahead_of(states, progress),
        )
        if changes.starts_over:
            self._clear()
        if states != self._states and not self._read_entries(rows, changes):
            return self.changes(rows, now=now, anew=True)
        if changes.progress != self._progress or changes.revision != self._revision:
            self._read_facts(rows, changes, now)
        if changes.rejected != self._rejected:
            changes.withheld = withheld_messages(rows, self.root)
        if is_new:
            self._prepare_sealing(rows, changes)
        return changes

    def _is_ahead_of(self, states: Mapping[Shelf, ShelfState], progress: Progress) -> bool:
        """Return whether the index follows newer rows than these: a standby, which answers reads too, may lag."""
        if self._progress is not None and progress.newest < self._progress.newest:
            return True
        return states != self._states and any(
            state.newest < seen.newest or state.removed < seen.removed
            for shelf, state in states.items()
            if (seen := self._states.get(shelf)) is not None
        )

    def _start_from_segment(self, rows: Reader, now: int) -> None:
        """Take the entries from a segment, if there is one; the next changes are what is new since."""
        found = None if self._segments is None else self._segments.find(rows, Place(self.root))
        if found is None:
            return
        about, segment = found
        part = Part.load(segment)
        if now < part.index.expired_at:
            return
        saved = msgspec.msgpack.decode(segment.values[_SAVED], type=_Saved)
        self.parts, self._states = {part.space.embedder: part}, about.shelf_states
        for group in saved.groups:
            scope = Scope(self.root.tenant, group.path)
            self._group_number(Group(group.kind, scope, collection=group.collection, namespace=group.namespace))
        shelves = list(self._states)
        self._embedders = {shelves[place]: part.space.embedder for place in saved.indexed}
        self._outdates = {shelves[place]: outdates for place, outdates in saved.outdates.items()}
        self._note_outdated()

    def _prepare_sealing(self, rows: Reader, changes: Changes) -> None:
        """Say in the changes of a new index whether a segment is to be made of its entries."""
        known = sum(part.index.rows for part in self.parts.values())
        new = sum(len(rows) for _, _, rows in changes.new)
        spaces = {space.embedder: space for _, space, _ in changes.new} | {
            embedder: part.space for embedder, part in self.parts.items()
        }
        if self._segments is None or len(spaces) != 1 or known + new < segments.WORTH_SEALING:
            return
        if known and new * WORTH_SEALING_AGAIN < known:
            return
        name = self._segments.name(rows, Place(self.root))
        if name is not None:
            (space,) = spaces.values()
            changes.sealing = name, About.of(rows, self.root, changes.states, space)

    def _save(self, shelves: list[Shelf]) -> Contents:
        """Return what a segment of the entries is made of."""
        (part,) = self.parts.values()
        contents = part.save()
        places = {shelf: place for place, shelf in enumerate(shelves)}
        saved = _Saved(
            groups=[_SavedGroup(one.kind, one.scope.path, one.collection, one.namespace) for one in self.groups],
            indexed=[places[shelf] for shelf in self._embedders],
            outdates={places[shelf]: outdates for shelf, outdates in self._outdates.items()},
        )
        contents.values[_SAVED] = msgspec.msgpack.encode(saved)
        return contents

    def _note_outdated(self) -> None:
        """Note which messages are outdated."""
        known = [(number, *of) for on_shelf in self._outdates.values() for number, of in on_shelf.items()]
        self.outdated = {one: at for _, messages, at in known for one in messages}
        self.outdated_by = {one: number for number, messages, _ in known for one in messages if one != number}

    def _apply_removals(self, changes: Changes) -> None:
        for shelf, left in changes.gone:
            part = self.parts.get(self._embedders.get(shelf, ""))
            if part is not None:
                numbers, sequences = part.numbers_of(self._group_number(_entry_group(shelf)))
                part.remove((numbers if left is None else numbers[~np.isin(sequences, left)]).tolist())
            if left is None:
                self._embedders.pop(shelf, None)
            if shelf in self._outdates:
                live = set[int]() if left is None else set[int](left.tolist())
                still = {number: of for number, of in self._outdates[shelf].items() if number in live}
                self._outdates[shelf] = still
        for shelf, listed in changes.ended:
            part = self.parts.get(self._embedders.get(shelf, ""))
            if part is not None:
                part.remove(part.numbers_with(listed).tolist())
            if shelf in self._outdates:
                ended = set[int](listed.tolist())
                still = {number: of for number, of in self._outdates[shelf].items() if number not in ended}
                self._outdates[shelf] = still

    def apply(self, changes: Changes, embedders: EmbedderBook) -> bool:
        """Bring the index to where the changes were read; return whether there were any."""
        self._apply_removals(changes)
        for shelf, new in changes.outdates.items():
            self._outdates[shelf] = self._outdates.get(shelf, {}) | new
        if changes.outdates or changes.gone or changes.ended:
            self._note_outdated()
        for shelf, space, new in changes.new:
            self._embedders[shelf] = space.embedder
            if new:
                part = self.parts.setdefault(space.embedder, Part(space))
                group = _entry_group(shelf)
                place = "\0".join((shelf.scope.path, shelf.collection, shelf.namespace or ""))
                part.add_entries(self._group_number(group), new, place, group.kind)
        if changes.sealing is not None and self._segments is not None:
            # Before the facts, which are read anew by each process: what is in a file here is entries.
            name, about = changes.sealing
            contents = self._save(list(changes.states))
            self._segments.seal(Place(self.root), name, about, lambda: contents)
        self._apply_facts(changes, embedders)
        self._states, self._progress, self._revision = changes.states, changes.progress, changes.revision
        if changes.withheld is not None:
            self.withheld, self._rejected = changes.withheld, changes.rejected
        return bool(changes.new or changes.gone or changes.ended or changes.facts)

    def wanted_groups(self, narrowing: Hashable, is_wanted: Callable[[Group], bool]) -> NDArray[np.bool_]:
        """Return which groups are wanted, by number; what was asked for is `narrowing`, by which it is cached."""
        found = self._allowed.get(narrowing)
        if found is None or len(found) < len(self.groups):
            if len(self._allowed) >= _MOST_NARROWED:
                self._allowed.clear()
            found = self._allowed[narrowing] = np.array([is_wanted(group) for group in self.groups], np.bool_)
        return found

    def _read_entries(self, rows: Reader, changes: Changes) -> bool:
        """Read what became of entries; return False if the index has to be made anew."""
        for shelf in self._states.keys() - changes.states.keys():
            changes.gone.append((shelf, None))
        for shelf, state in changes.states.items():
            seen = self._states.get(shelf, _NOTHING)
            if state == seen or shelf.collection == CONFIRMATIONS:
                continue  # confirmations are counted, and never found instead of what they confirm
            collection = rows.get(Collection, shelf.scope.tenant, shelf.collection)
            if collection is None:
                changes.gone.append((shelf, None))
                continue
            space, embedder = collection.space, self._embedders.get(shelf)
            if embedder is not None and embedder != space.embedder:
                return False
            if embedder is None or state.removed == seen.removed:
                pass
            elif (listed := rows.removed_since(shelf, seen.removed)) is not None:
                changes.ended.append((shelf, np.array(listed, np.int64)))
            else:
                left = np.array(rows.live_sequences(shelf), np.int64)
                if self._lacks(shelf, left[left <= seen.newest]):
                    return False
                changes.gone.append((shelf, left))
            new = list(rows.index_rows(EntryQuery(shelf=shelf, after=seen.newest), space.embedder))
            changes.new.append((shelf, space, new))
            if outdates := _outdates(rows, shelf, new):
                changes.outdates[shelf] = outdates
        return True

    def _lacks(self, shelf: Shelf, sequences: NDArray[np.int64]) -> bool:
        """Return whether one of these entries is not in the index: it got its vector after later ones had theirs."""
        part = self.parts.get(self._embedders[shelf])
        if part is None:
            return bool(len(sequences))
        _, known = part.numbers_of(self._group_number(_entry_group(shelf)))
        return not np.isin(sequences, known).all()

    def _read_facts(self, rows: Reader, changes: Changes, now: int) -> None:
        """Read the facts that changed, by their events where these are few."""
        touched: set[_Place] | None = None
        if self._progress is not None and changes.revision == self._revision:
            start = self._progress.position + 1
            touched = self._places_in(rows.events(self.root.tenant, start=start, limit=_FOLLOWED + 1))
        if touched is None:
            self._definitions = {}
            for definition in rows.scan(Definition, self.root.tenant):
                self._definitions.setdefault(definition.slug, []).append(definition)
            anew = changes.revision != self._revision
            facts: Iterable[Fact] = _all_facts(rows, self.root, from_micros(now))
            changes.only = True
        else:
            anew = False
            found = ((place, rows.fact(Scope(self.root.tenant, place[0]), place[1])) for place in sorted(touched))
            facts = []
            for place, fact in found:
                if fact is None:
                    changes.facts[place] = 0, []
                else:
                    facts.append(fact)
        read = list(facts)
        self._note_agents(read)
        for fact in read:
            place = fact.scope.path, fact.key
            if anew or self._rows.get(place, (0,))[0] != fact.version:
                changes.facts[place] = fact.version, list(self._items(fact))
            elif changes.only:
                changes.facts[place] = fact.version, []

    def _places_in(self, events: Iterable[Event]) -> set[_Place] | None:
        """Return the places that events name; None if they do not name all that changed, or are too many."""
        touched: set[_Place] = set()
        below = self.root.path + "/" if self.root.path else None
        for number, event in enumerate(events, 1):
            if number > _FOLLOWED:
                return None
            inside = event.scope == self.root.path or (below is not None and event.scope.startswith(below))
            if event.effect in _WHOLE_SCOPE and (inside or not event.scope):
                return None
            if inside and event.key is not None and not event.key.startswith("collections."):
                touched.add((event.scope, event.key))
        return touched

    def _apply_facts(self, changes: Changes, embedders: EmbedderBook) -> None:
        gone = self._rows.keys() - changes.facts.keys() if changes.only else set[_Place]()
        added: list[tuple[_Place, int, list[Item]]] = []
        for place, (version, items) in changes.facts.items():
            if version and version == self._rows.get(place, (0,))[0] and not items:
                continue  # unchanged
            gone.add(place)
            if version:
                added.append((place, version, items))
        for place in gone:
            _, numbers = self._rows.pop(place, (0, []))
            for part in self.parts.values():
                part.remove([number for number in numbers if number in part.items])
        items = [item for _, _, of_fact in added for item in of_fact]
        numbers = iter(self._add(items, embedders) if items else ())
        for place, version, of_fact in added:
            self._rows[place] = version, [next(numbers) for _ in of_fact]

    def _add(self, items: list[Item], embedders: EmbedderBook) -> list[int]:
        embedder = embedders.local()
        part = self.parts.get(embedder.id)
        if part is None:
            part = self.parts[embedder.id] = Part(embedders.space_of(embedder))
        vectors = embedder.embed_as_bytes([item.searched for item in items])
        return part.add_items([self._group_number(item.group) for item in items], items, vectors)

    def _group_number(self, group: Group) -> int:
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self.groups)
            self.groups.append(group)
        return number

    def read_past_facts(self, rows: Reader, changes: Changes, moment: datetime) -> None:
        """Read the facts as they were at an earlier moment, from their revisions."""
        for definition in rows.scan(Definition, self.root.tenant):
            self._definitions.setdefault(definition.slug, []).append(definition)
        newest: dict[_Place, Revision] = {}
        for revision in rows.revisions(RevisionQuery(self.root)):
            if revision.at <= moment and (self.root.path or revision.scope == self.root):
                newest[revision.scope.path, revision.key] = revision
        facts = [fact for revision in newest.values() if (fact := _past_fact(revision, moment)) is not None]
        self._note_agents(facts)
        for fact in facts:
            changes.facts[fact.scope.path, fact.key] = fact.version, list(self._items(fact))

    def _note_agents(self, facts: Iterable[Fact]) -> None:
        """Note the agent of each conversation whose record is among these facts."""
        for fact in facts:
            if fact.key == CHAT_RECORD and is_internal(fact.scope, fact.key):
                self._agents[fact.scope] = str(_map(fact.value).get("agent_id", ""))

    # what is searched of a fact

    def _items(self, fact: Fact) -> Iterator[Item]:
        """Yield what is searched of a fact: its lines, if it is a block, and nothing for internal state."""
        if is_block(fact.scope, fact.key):
            yield from _lines(fact)
        elif is_internal(fact.scope, fact.key):
            if fact.key.startswith(_CHAT_PARTS):
                value = _map(fact.value)
                agent = self._agents.get(fact.scope, "")
                if not value.get("hidden"):
                    yield from _message(fact, _SPOKEN.get(str(value.get("kind", ""))), str(value.get("seq", "")), agent)
            elif fact.key.startswith(_THREAD_MESSAGES):
                value = _map(fact.value)
                role = "user" if value.get("by_owner") else "assistant"
                number = fact.key.rpartition(".")[2].lstrip("0")
                yield from _message(fact, role, number, "", sender=str(value.get("sender", "")))
        else:
            definition = next((one for one in self._definitions.get(fact.key, ()) if one.applies_to(fact.scope)), None)
            yield _record(fact, definition) if definition is not None else _fact(fact)


def _message(fact: Fact, role: str | None, number: str, agent: str, *, sender: str = "") -> Iterator[Item]:
    """Yield what is searched of a message; nothing if neither a user nor an agent said it."""
    value = _map(fact.value)
    text = str(value.get("text", ""))
    if role is None or not text.strip():
        return
    ids = dict(fact.scope.parts)
    actor = ids.get("user", "") if role == "user" else sender or agent
    yield Item(
        group=Group("message", fact.scope, agent=agent),
        ref=str(Ref("message", fact.scope, number)),
        key=fact.key,
        text=text,
        searched=text[:_LONGEST_TEXT],
        metadata={"thread": ids.get("thread", ""), "actor": actor, "role": role, "time": value.get("at", "")},
        **_times(fact),
    )


def past_changes(rows: Reader, past: MemoryIndex, moment: int) -> Changes:
    """Return everything that was there at an earlier moment, for an index without rows."""
    root, at = past.root, from_micros(moment)
    changes = Changes(progress=Progress(), revision=0, states={}, only=True)
    for shelf, state in rows.shelf_states(root, below=bool(root.path)):
        collection = rows.get(Collection, root.tenant, shelf.collection)
        if shelf.collection == CONFIRMATIONS:
            changes.states[shelf] = state
        elif collection is not None:
            new = list(rows.index_rows(EntryQuery(shelf=shelf, active_at=at), collection.space.embedder))
            changes.new.append((shelf, collection.space, new))
            if outdates := _outdates(rows, shelf, new):
                changes.outdates[shelf] = outdates
    past.read_past_facts(rows, changes, at)
    changes.withheld = withheld_messages(rows, root, at)
    return changes


def withheld_messages(rows: Reader, root: Scope, at: datetime | None = None) -> frozenset[int]:
    """Return the messages that state what was rejected in a subject, perhaps by a moment, by the ids of their rows."""
    if not rows.tenant_state(root.tenant).rejected:
        return frozenset()
    rejections = rows.scan(StoredRejection, root.tenant, below=root)
    names = {name for one in rejections if at is None or one.at <= at for name in one.messages}
    return frozenset(id for name in names for id in _row_ids(rows, root.tenant, name))


def _outdates(rows: Reader, shelf: Shelf, new: Iterable[Indexed]) -> dict[int, tuple[tuple[int, ...], int]]:
    """Return the messages that each new entry outdates, and since when, by the sequence of the entry."""
    found: dict[int, tuple[tuple[int, ...], int]] = {}
    if shelf.collection == CONVERSATIONS:
        for row in new:
            since = _since(decode(row.metadata), RETRACTED) if b'"retracted_at"' in row.metadata else None
            if since is not None:
                found[row.sequence] = (row.sequence,), since
    elif shelf.collection == STATEMENTS:
        for row in new:
            if b'"outdates"' in row.metadata:
                about = decode(row.metadata)
                named, since = about["outdates"], _since(about, "valid_from", "time")
                every = cast("list[Any]", named) if isinstance(named, list) else []
                names = [name for name in every if isinstance(name, str)]
                about_them = messages_for(rows, shelf.scope.tenant, names, row.origin.trust)
                messages = tuple(_row_id_of(name, message) for name, message in about_them)
                if since is not None:
                    found[row.sequence] = messages, since
    return found


def _since(metadata: dict[str, Any], *names: str) -> int | None:
    """Return the first moment under these names; anyone may write metadata, so it may be anything."""
    for name in names:
        try:
            return parse_moment(metadata[name])
        except (KeyError, TypeError, UsageError):
            continue
    return None


def _row_ids(rows: Reader, tenant: str, name: str) -> Iterator[int]:
    """Yield what a message's row is known by: the sequence of its entry, or a number that its ref gives."""
    if name.startswith("message:"):
        yield -_row_id(name)
    elif (entry := next(rows.entries(EntryQuery(tenant=tenant, id=name)), None)) is not None:
        yield entry.sequence


def _row_id_of(name: str, message: Entry | Fact) -> int:
    return message.sequence if isinstance(message, Entry) else -_row_id(name)


def _row_id(ref: str) -> int:
    return 1 + int.from_bytes(hashlib.sha256(ref.encode()).digest()[:7])


def _entry_group(shelf: Shelf) -> Group:
    kind: Kind = "message" if shelf.collection == CONVERSATIONS else "entry"
    return Group(kind, shelf.scope, collection=shelf.collection, namespace=shelf.namespace)


def _all_facts(rows: Reader, root: Scope, now: datetime) -> Iterator[Fact]:
    query = FactQuery(root, below=True) if root.path else FactQuery(root, active_at=now)
    return (fact for fact in rows.facts(query) if fact.active_at(now))


def _past_fact(revision: Revision, moment: datetime) -> Fact | None:
    """Return the fact of a revision, if it was active at a moment and its value is still there."""
    if revision.change != "set" or revision.forgotten:
        return None
    fact = revision.as_fact()
    return fact if fact.active_at(moment) else None


def _times(fact: Fact) -> dict[str, Any]:
    return {
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
        "expires_at": fact.expires_at,
        "origin": fact.origin,
    }


def _lines(fact: Fact) -> Iterator[Item]:
    block = next((block for block in BLOCK_TYPES if fact.key == key_of(block)), None)
    if block is None or not isinstance(fact.value, str):
        return
    ids = dict(fact.scope.parts)
    for number, line in lines_of(fact.value):
        yield Item(
            group=Group("line", fact.scope, agent=ids.get("agent"), block=block),
            ref=str(Ref("line", fact.scope, f"{block}:{line_digest(line)}")),
            key=fact.key,
            text=line,
            searched=line,
            metadata={"block": block, "line_number": number},
            **_times(fact),
        )


def _fact(fact: Fact) -> Item:
    text = _fact_text(fact)
    ref = str(Ref("fact", fact.scope, fact.key))
    return Item(group=Group("fact", fact.scope), ref=ref, key=fact.key, text=text, searched=text, **_times(fact))


def _fact_text(fact: Fact) -> str:
    name = " ".join(fact.key.replace(".", " ").replace("_", " ").split())
    return f"{name}: {plain_text(fact.value)}"[:_LONGEST_TEXT]


def _record(fact: Fact, definition: Definition) -> Item:
    """Return a record as text: the labels of its schema with their values; descriptions are searched too."""
    labels: list[str] = []
    text = f"{definition.name}: {plain_text(fact.value, definition.schema, labels)}"[:_LONGEST_TEXT]
    return Item(
        group=Group("record", fact.scope),
        ref=str(Ref("fact", fact.scope, fact.key)),
        key=fact.key,
        text=text,
        searched=" ".join([text, *labels])[:_LONGEST_TEXT],
        bare=_fact_text(fact),
        metadata={"definition": definition.name},
        **_times(fact),
    )


def _map(value: Any) -> dict[str, Any]:
    """Return a value that is a JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
