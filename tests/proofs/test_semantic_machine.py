"""Drive entries on a database and on the reference store side by side; an oracle says what must be found.

Both are below the same engine and the same indexes, so a mistake in those would look the same on both sides. The
oracle, `Oracle`, shares no code with them: it keeps a list of entries, and says which of them a recall must find.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from broken_indexes import follow_no_removals
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from machines import OnPostgres

from memoranda import MemorandaError, Memory, NotFound, Receipt, Scope, ScopeEnded
from memoranda.engine import entries
from memoranda.engine.collections import BeginReembedding, EndReembedding, ReembedEntries
from memoranda.model.entry import MODES, Entry, Match, Mode, Recalled, Remembered
from memoranda.model.event import Event
from memoranda.model.probes import Remains
from memoranda.retrieval.index.columns import Columns
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.store.base import Reader, Store
from memoranda.store.memory import MemoryStore
from memoranda.store.sql import entries as entry_rows
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import CountingIds, FakeClock

TICK = timedelta(microseconds=1)
ALL = 1_000
"""More than there ever are."""

SCOPES = [
    Scope.of(user="ada"),
    Scope.of(user="ada", agent="x"),
    Scope.of(user="ad"),
    Scope.of(session="s1"),
    Scope.of(tenant="other", user="ada"),
]
SESSION = SCOPES[3]
TENANTS = ["default", "other"]
COLLECTIONS = ["notes", "notes.old"]
NAMESPACES = ["", "a", "ä"]
EMBEDDERS = ["hashing:64", "hashing:96"]
PLACES = [(scope, collection) for scope in SCOPES for collection in COLLECTIONS]

CONTENTS: list[Any] = [
    "The ferry to Skagen leaves at seven",
    "Skagen has a lighthouse, and the ferry is slow",
    "Who paid for the lighthouse?",
    "Invoice INV-2041 was paid in March 2024",
    "Zwei Fähren fahren nach Skagen",
    "灯台は遠い",
    "...",
    {"ferry": "Skagen", "seats": 12},
    ["lighthouse", 3],
    42,
]
METADATA: list[dict[str, Any]] = [
    {},
    {"kind": "trip", "n": 1},
    {"kind": "bill", "n": 2, "thread": "t1", "actor": "Marta"},
    {"kind": "trip", "n": 3, "thread": "t1", "time": "2024-03-05T10:00:00Z"},
]
Test = Callable[[dict[str, Any]], bool]
FILTERS: list[tuple[dict[str, Any] | None, Test]] = [
    (None, lambda about: True),
    ({"kind": "trip"}, lambda about: about.get("kind") == "trip"),
    ({"n": {"$gte": 2}}, lambda about: about.get("n", 0) >= 2),
    ({"kind": {"$ne": "trip"}}, lambda about: about.get("kind") != "trip"),
    ({"$or": [{"thread": {"$exists": False}}, {"n": 3}]}, lambda about: "thread" not in about or about["n"] == 3),
    ({"$not": {"n": {"$in": [1, 2]}}}, lambda about: about.get("n") not in (1, 2)),
    ({"kind": "none such"}, lambda about: False),
]
QUERIES = [
    "When does the ferry leave?",
    "lighthouse",
    "lighthuose",
    "Marta INV-2041",
    "what of 2024",
    "灯台",
    "the",
    "?",
]

scopes = st.sampled_from([*SCOPES[:2], *SCOPES])
collections = st.sampled_from(["notes", *COLLECTIONS])
namespaces = st.sampled_from(["", *NAMESPACES])
contents = st.sampled_from(range(len(CONTENTS)))
metadata = st.sampled_from(range(len(METADATA)))
keys = st.sampled_from([None, None, "k", "l"])
ttls = st.sampled_from([None, None, None, 1, "5s", "1h"])


@dataclass(frozen=True)
class Kept:
    """What the oracle knows of one entry."""

    id: str
    scope: Scope
    collection: str
    namespace: str
    key: str | None
    content: str
    about: str
    created: datetime
    expires: datetime | None
    ended: datetime | None = None

    def stands(self, now: datetime) -> bool:
        return self.ended is None and (self.expires is None or now < self.expires)

    def stood(self, moment: datetime) -> bool:
        return (
            self.created <= moment
            and (self.ended is None or moment < self.ended)
            and (self.expires is None or moment < self.expires)
        )

    def says(self, words: Iterable[str]) -> bool:
        """Whether its text has one of these words, as they are."""
        text = json.loads(self.content)
        own = text.casefold().replace("?", " ").replace(",", " ").split() if isinstance(text, str) else []
        return any(word in own for word in words)


class Oracle:
    """What must be findable, as the documentation says it: keys, duplicates, time to live, forgetting."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self.collections: set[tuple[str, str]] = set()
        self.owner: Scope | None = None
        self.session_ended = False

    def seen(
        self,
        scope: Scope,
        collection: str,
        now: datetime,
        namespace: str | None = None,
        test: Test = lambda about: True,
        as_of: datetime | None = None,
    ) -> list[Kept]:
        return [
            one
            for one in self.kept
            if (one.scope, one.collection) == (scope, collection)
            and namespace in (None, one.namespace)
            and (one.stands(now) if as_of is None else one.stood(as_of))
            and test(json.loads(one.about))
        ]

    def was_remembered(self, made: Remembered, new: Kept, now: datetime) -> None:
        """Under a key there is one entry; without one, the same content and metadata are there once."""
        here = [one for one in self.kept if (one.scope, one.collection, one.namespace) == place_of(new)]
        if new.key is not None:
            before = next((one for one in here if one.key == new.key and one.ended is None), None)
            if before is not None and not before.stands(now):
                self.kept.remove(before)
                before = None
        else:
            like = [one for one in here if one.stands(now) and alike(one, new)]
            before = next((one for one in like if one.key is None or outlives(one, new)), None)
        if before is not None and alike(before, new) and outlives(before, new):
            assert (made.stored, made.duplicate, made.replaced, made.id) == (False, True, None, before.id)
            return
        assert made.stored and made.duplicate == (before is not None and alike(before, new))
        assert made.replaced == (before.id if before else None)
        assert made.id not in {one.id for one in self.kept}
        if before is not None:
            # However far the clock was set back, what takes a place is never older than what it takes it from.
            now = max(now, before.created)
            self.kept[self.kept.index(before)] = replace(before, ended=now)
        self.kept.append(replace(new, id=made.id, created=now))

    def was_forgotten(self, answer: bool, found: Kept | None, now: datetime) -> None:
        stood = found is not None and found.stands(now)
        assert bool(answer) == stood
        if found is not None and stood:
            self.kept[self.kept.index(found)] = replace(found, ended=max(now, found.created))

    def drop(self, doomed: Callable[[Kept], bool]) -> int:
        gone = [one for one in self.kept if doomed(one)]
        self.kept = [one for one in self.kept if not doomed(one)]
        return len(gone)


def place_of(one: Kept) -> tuple[Scope, str, str]:
    return one.scope, one.collection, one.namespace


def alike(one: Kept, other: Kept) -> bool:
    return (one.content, one.about) == (other.content, other.about)


def outlives(before: Kept, new: Kept) -> bool:
    return before.expires is None or (new.expires is not None and before.expires >= new.expires)


def plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def seconds(ttl: str | int | None) -> int | None:
    return {None: None, 1: 1, "5s": 5, "1h": 3600}[ttl]


def near(one: float | None, other: float | None) -> bool:
    return one is other or (one is not None and other is not None and math.isclose(one, other, abs_tol=1e-4))


def compare(file: Recalled, plain: Recalled, *, whole: bool) -> None:
    """The same matches at the same places; only equally good ones may have changed places.

    One index grew step by step and another was built at once, so that sums differ in their last bits.
    """
    assert len(file.results) == len(plain.results) == file.count == plain.count
    for one, other in zip(file.results, plain.results, strict=True):
        assert near(one.score, other.score) and near(one.why.total, other.why.total), (one, other)
    theirs = {match.id: match for match in plain.results}
    if whole:
        assert {match.id for match in file.results} == set(theirs)
    for match in file.results:
        if match.id in theirs:
            assert_same_match(match, theirs[match.id])


def assert_same_match(one: Match, other: Match) -> None:
    def bare(match: Match) -> Match:
        return msgspec.structs.replace(match, score=0.0, why=None)

    assert msgspec.json.encode(bare(one)) == msgspec.json.encode(bare(other))
    assert near(one.why.relevance, other.why.relevance)
    assert near(one.why.cosine, other.why.cosine) and near(one.why.lexical, other.why.lexical)
    assert (one.why.matched, one.why.corrected) == (other.why.matched, other.why.corrected)
    names = {*one.why.parts, *other.why.parts}
    assert all(near(one.why.parts.get(name, 0.0), other.why.parts.get(name, 0.0)) for name in names)


class EntriesSideBySide(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="memoranda-entries-"))
        self.clocks = (FakeClock(), FakeClock())
        self.ids = (CountingIds(), CountingIds())
        self.plain = MemoryStore()
        self.store = self.open_store()
        self.memories = (self.stand_on(self.store, 0), self.stand_on(self.plain, 1))
        self.oracle = Oracle()
        self.moments: list[datetime] = [self.now]
        self.latest = self.now
        self.steps = 0

    def open_store(self) -> Store:
        return SqliteStore(str(self.directory / "memory.db"), durability="normal")

    def stand_on(self, store: Any, side: int) -> Memory:
        return Memory(store, clock=self.clocks[side], ids=self.ids[side], embedder=EMBEDDERS[0])

    @property
    def now(self) -> datetime:
        return self.clocks[0].now()

    def both(self, call: Callable[[Memory], Any], same: Callable[[Any, Any], object] | None = None) -> Any:
        """Make one call on both sides; the answers, or the errors, are the same. Return the answer or the error."""
        stored, plain = (self.attempt(call, memory) for memory in self.memories)
        if isinstance(stored, MemorandaError) or isinstance(plain, MemorandaError):
            assert (type(stored), str(stored)) == (type(plain), str(plain))
        elif same is not None:
            same(stored, plain)
        else:
            assert canonical(self.comparable(stored)) == canonical(self.comparable(plain))
        note(f"-> {stored!r}")
        return stored

    def comparable(self, answer: Any) -> Any:
        """Return the part of an answer that is the same on every store."""
        return answer

    def attempt(self, call: Callable[[Memory], Any], memory: Memory) -> Any:
        try:
            return call(memory)
        except MemorandaError as error:
            return error
        finally:
            memory.settle()  # so that the event of a recall comes before that of the next write, on both sides

    def was_refused(self, scope: Scope, answer: Any) -> bool:
        """Whether a write was refused, and rightly: its session has ended."""
        over = scope == SESSION and self.oracle.session_ended
        assert isinstance(answer, ScopeEnded) == over, answer
        return over

    # remembering and forgetting

    @initialize(
        chosen=st.lists(st.tuples(scopes, collections, namespaces, contents, metadata, ttls), min_size=4, max_size=10)
    )
    def begin(self, chosen: list[tuple[Scope, str, str, int, int, Any]]) -> None:
        self.start_session()
        for scope, collection, namespace, content, about, ttl in chosen:
            self.remember(scope, collection, namespace, [(content, about, None)], ttl)

    @rule(
        scope=scopes,
        collection=collections,
        namespace=namespaces,
        items=st.lists(st.tuples(contents, metadata, keys), min_size=1, max_size=4),
        ttl=ttls,
    )
    def remember(
        self, scope: Scope, collection: str, namespace: str, items: Sequence[tuple[int, int, str | None]], ttl: Any
    ) -> None:
        def send(memory: Memory) -> list[Remembered]:
            place, where = memory.at(scope), {"collection": collection, "namespace": namespace, "ttl": ttl}
            if len(items) == 1:
                content, about, key = items[0]
                return [place.remember(CONTENTS[content], metadata=METADATA[about], key=key, **where)]
            return place.remember_many(
                [
                    {"content": CONTENTS[content], "metadata": METADATA[about], "key": key}
                    for content, about, key in items
                ],
                **where,
            )

        answer = self.both(send)
        if self.was_refused(scope, answer):
            return
        self.oracle.collections.add((scope.tenant, collection))
        expires = None if ttl is None else self.now + timedelta(seconds=seconds(ttl) or 0)
        for made, (content, about, key) in zip(answer, items, strict=True):
            new = Kept(
                id="",
                scope=scope,
                collection=collection,
                namespace=namespace,
                key=key,
                content=plain(CONTENTS[content]),
                about=plain(METADATA[about]),
                created=self.now,
                expires=expires,
            )
            self.oracle.was_remembered(made, new, self.now)

    @rule(scope=scopes, collection=collections, which=st.integers(0, 30), astray=st.sampled_from([False] * 5 + [True]))
    def forget_one(self, scope: Scope, collection: str, which: int, astray: bool) -> None:
        here = [one for one in self.oracle.kept if astray or (one.scope, one.collection) == (scope, collection)]
        found = here[which % len(here)] if here else None
        id = found.id if found else "entry_9999"
        answer = self.both(lambda memory: memory.at(scope).forget(id, collection=collection))
        if not self.was_refused(scope, answer):
            mine = found if found and found.collection == collection and scope.covers(found.scope) else None
            self.oracle.was_forgotten(answer, mine, self.now)

    @rule(scope=scopes, collection=collections, namespace=namespaces, key=st.sampled_from(["k", "l"]))
    def forget_key(self, scope: Scope, collection: str, namespace: str, key: str) -> None:
        answer = self.both(lambda memory: memory.at(scope).forget(collection=collection, key=key, namespace=namespace))
        if not self.was_refused(scope, answer):
            seen = self.oracle.seen(scope, collection, self.now, namespace)
            self.oracle.was_forgotten(answer, next((one for one in seen if one.key == key), None), self.now)

    # recalling

    @rule(
        place=st.tuples(scopes, collections),
        namespace=st.sampled_from([None, None, *NAMESPACES]),
        query=st.sampled_from(QUERIES),
        mode=st.sampled_from(MODES),
        chosen=st.sampled_from([0, *range(len(FILTERS))]),
        threshold=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        limit=st.sampled_from([1, 2, 5]),
        expand=st.sampled_from([0, 0, 1, 3]),
        past=st.sampled_from([None, None, *range(8)]),
    )
    def recall(
        self,
        place: tuple[Scope, str],
        namespace: str | None,
        query: str,
        mode: Mode,
        chosen: int,
        threshold: float,
        limit: int,
        expand: int,
        past: int | None,
    ) -> None:
        scope, collection = place
        filter, test = FILTERS[chosen]
        as_of = None if past is None else self.moments[-1 - past % len(self.moments)]
        options = {"namespace": namespace, "mode": mode, "filter": filter, "as_of": as_of, "expand": expand}

        def ask(**more: Any) -> Recalled:
            return self.both(
                lambda memory: memory.at(scope).recall(query, collection=collection, **options, **more),
                lambda file, plain: compare(file, plain, whole="limit" not in more or more["limit"] == ALL),
            )

        seen = self.oracle.seen(scope, collection, self.now, namespace, test, as_of)
        every = ask(limit=ALL)
        self.judge(every, seen, query, mode)
        few, good = ask(limit=limit), ask(limit=ALL, threshold=threshold)
        assert [match.id for match in few.results] == [match.id for match in every.results[:limit]]
        assert [match.id for match in good.results] == [one.id for one in every.results if one.score >= threshold]

    def judge(self, every: Recalled, seen: list[Kept], query: str, mode: Mode) -> None:
        """Hold a recall without limit and threshold against the oracle."""
        found, findable = [match.id for match in every.results], {one.id for one in seen}
        assert len(found) == len(set(found)), "an entry was found twice"
        if mode == "keyword":
            words = [word.casefold().strip("?") for word in query.split() if word != "the"]
            certain = {one.id for one in seen if one.says(word for word in words if word in ("ferry", "lighthouse"))}
            assert certain <= set(found) <= findable
        else:
            assert set(found) == findable
        totals = [match.why.total for match in every.results]
        assert totals == sorted(totals, reverse=True) and all(0 <= match.score <= 1 for match in every.results)
        content = {one.id: (one.content, one.about, one.namespace) for one in seen}
        for match in every.results:
            assert (plain(match.content), plain(match.metadata), match.namespace) == content[match.id]
            assert near(math.fsum(match.why.parts.values()), match.why.total)

    @rule(place=st.sampled_from(PLACES), namespace=st.sampled_from([None, *NAMESPACES]), limit=st.integers(0, 4))
    def recall_the_newest(self, place: tuple[Scope, str], namespace: str | None, limit: int) -> None:
        scope, collection = place
        answer = self.both(
            lambda memory: memory.at(scope).recall(" ", collection=collection, namespace=namespace, limit=limit)
        )
        seen = [one.id for one in self.oracle.seen(scope, collection, self.now, namespace)]
        assert [match.id for match in answer.results] == seen[::-1][:limit]

    # what ends entries

    @rule()
    def sweep(self) -> None:
        swept = self.both(lambda memory: memory.sweep())
        over = self.oracle.drop(
            lambda one: one.scope.tenant == "default" and one.expires is not None and one.expires <= self.now
        )
        assert swept.entries == over

    @rule(scope=st.sampled_from(SCOPES))
    def erase(self, scope: Scope) -> None:
        ids = dict(part.split(":") for part in scope.path.split("/"))
        answer = self.both(lambda memory: memory.erase(tenant=scope.tenant, **ids))
        assert not isinstance(answer, MemorandaError), answer
        owner = self.oracle.owner
        gone = [scope, *([SESSION] if owner is not None and scope.covers(owner) else [])]
        went = self.oracle.drop(lambda one: any(each.covers(one.scope) for each in gone))
        assert answer.removed["entries"] == went
        if SESSION in gone:
            self.oracle.owner, self.oracle.session_ended = None, False

    @rule()
    def start_session(self) -> None:
        answer = self.both(lambda memory: str(memory.scope(user="ada").session("s1").scope))
        if not self.was_refused(SESSION, answer):
            self.oracle.owner = SCOPES[0]

    @rule()
    def end_session(self) -> None:
        self.both(lambda memory: memory.at(SESSION).end())
        self.oracle.drop(lambda one: one.scope == SESSION)
        self.oracle.session_ended = True

    @rule(collection=st.sampled_from(COLLECTIONS))
    def delete_collection(self, collection: str) -> None:
        answer = self.both(lambda memory: memory.collections.delete(collection))
        if ("default", collection) not in self.oracle.collections:
            assert isinstance(answer, NotFound)
            return
        self.oracle.collections.discard(("default", collection))
        assert answer == self.oracle.drop(lambda one: (one.scope.tenant, one.collection) == ("default", collection))

    # another embedder

    @rule(
        collection=st.sampled_from(COLLECTIONS),
        to=st.sampled_from(EMBEDDERS),
        batch=st.integers(1, 5),
        whole=st.booleans(),
    )
    def reembed(self, collection: str, to: str, batch: int, whole: bool) -> None:
        """Move a collection, or begin to; a move that was left is gone on with."""

        def move(memory: Memory) -> Any:
            if whole:
                return memory.collections.reembed(collection, to, batch=batch)
            scope, gate, caller = Scope.of(), memory._gate, memory._caller
            space = gate.embedders.space_of(gate.embedders.load(to))
            gate.perform(BeginReembedding(scope=scope, collection=collection, space=space), caller)
            return gate.perform(ReembedEntries(scope=scope, collection=collection, limit=batch), caller)

        self.both(move)

    @rule(collection=st.sampled_from(COLLECTIONS), give_up=st.booleans())
    def end_reembedding(self, collection: str, give_up: bool) -> None:
        effect = EndReembedding(scope=Scope.of(), collection=collection, give_up=give_up)
        self.both(lambda memory: memory._gate.perform(effect, memory._caller))

    # time and restarts

    @rule(by=st.sampled_from([0.000001, 0.5, 1, 4, 3600]))
    def time_passes(self, by: float) -> None:
        self.move_the_clock(by)

    @rule(by=st.sampled_from([2, 30]))
    def the_clock_is_set_back(self, by: float) -> None:
        self.move_the_clock(-by)

    @precondition(lambda self: any(one.expires and one.expires > self.now for one in self.oracle.kept))
    @rule(tick=st.sampled_from([-TICK, timedelta(0), TICK]))
    def time_comes_to_an_expiry(self, tick: timedelta) -> None:
        ends = [one.expires for one in self.oracle.kept if one.expires and one.expires > self.now]
        self.move_the_clock((min(ends) + tick - self.now) / timedelta(seconds=1))

    def move_the_clock(self, by: float) -> None:
        target = self.now + timedelta(seconds=by)
        self.latest = max(self.latest, target)
        if target >= self.latest - timedelta(seconds=1):
            target = self.latest  # up to a second behind is not set back: threads that ask at once differ too
        for clock in self.clocks:
            clock.set(target)

    @rule()
    def reopen(self) -> None:
        """One side begins anew, with no index in memory; the other goes on with what it has."""
        self.memories[0].close()
        self.store = self.open_store()
        self.memories = (self.stand_on(self.store, 0), self.memories[1])

    @rule()
    def scrub(self) -> None:
        assert self.memories[0].scrub()

    # what holds after each step

    @invariant()
    def the_oracle_agrees(self) -> None:
        self.steps += 1
        if self.moments[-1] != self.now:
            self.moments.append(self.now)
        for scope, collection in PLACES:
            listed = self.both(lambda memory, scope=scope, of=collection: memory.at(scope).entries(collection=of))
            assert [one.id for one in listed] == [one.id for one in self.oracle.seen(scope, collection, self.now)]
        self.find_all(*PLACES[self.steps % len(PLACES)])

    def find_all(self, scope: Scope, collection: str) -> None:
        findable = {one.id for one in self.oracle.seen(scope, collection, self.now)}
        for memory in self.memories:
            found = memory.at(scope).recall("lighthouse", collection=collection, limit=ALL)
            memory.settle()
            assert {match.id for match in found.results} == findable

    @invariant()
    def both_hold_the_same(self) -> None:
        self.both(lambda memory: memory.collections.list())
        if self.steps % 5 == 0:
            self.inspect()

    def inspect(self) -> None:
        assert self.comparable(self.store.read(events)) == self.comparable(self.plain.read(events))
        for memory in self.memories:
            assert [finding for finding in memory.inspect() if not finding.ok] == []

    def teardown(self) -> None:
        try:
            for scope, collection in PLACES:
                self.find_all(scope, collection)
            self.inspect()
        finally:
            for memory in self.memories:
                memory.close()
            shutil.rmtree(self.directory)


def events(rows: Reader) -> list[Event]:
    """What the ledgers say. Hashes are left out: each database has its own secrets; so is what a recall found."""
    return [
        msgspec.structs.replace(
            event, content=None, prev_hash="", hash="", detail={} if event.effect == "recall" else event.detail
        )
        for tenant in TENANTS
        for event in rows.events(tenant)
    ]


# A step looks at much, so fewer examples than of other properties have to do at ordinary depth.
EntriesSideBySide.TestCase.settings = settings(max_examples=max(12, settings().max_examples // 2))
TestEntriesSideBySide = pytest.mark.capability("state machine", backend="sqlite")(
    pytest.mark.slow(EntriesSideBySide.TestCase)
)


class PostgresEntriesSideBySide(OnPostgres, EntriesSideBySide):
    def comparable(self, answer: Any) -> Any:
        """Leave out what an erasure leaves in files, and sequence numbers: not every one that is taken is used."""
        if isinstance(answer, Receipt):
            assert answer.remains.rows == "gone"
            answer = msgspec.structs.replace(answer, scrubbed=True, remains=Remains())
        return _without_sequences(msgspec.to_builtins(answer))


def _without_sequences(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_without_sequences(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    is_of_entry = str(answer.get("key")).startswith("collections.")
    numbers = {"sequence", "last", *(["version"] if is_of_entry else [])}
    return {name: _without_sequences(value) for name, value in answer.items() if name not in numbers}


# Each step asks some hundred questions, of a server.
PostgresEntriesSideBySide.TestCase.settings = settings(max_examples=max(3, settings().max_examples // 10))
TestPostgresEntriesSideBySide = pytest.mark.capability("state machine", backend="postgres")(
    pytest.mark.usefixtures("machines_on_postgres")(pytest.mark.slow(PostgresEntriesSideBySide.TestCase))
)


# controls: each of these mistakes is found


def filter_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Columns, "mask", lambda columns, where: np.ones(len(columns), np.bool_))


def never_expire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "is_current_at", lambda entry, now: entry.ended_at is None)
    patch.setattr(ShelfIndex, "expire", lambda index, now: None)


def see_one_namespace(patch: pytest.MonkeyPatch) -> None:
    numbers = entry_rows.EntryRows._numbers
    patch.setattr(entry_rows.EntryRows, "_numbers", lambda rows, shelf: numbers(rows, shelf)[:1])


def store_doubles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(entries, "_same", lambda entry, item: False)


MISTAKES = [follow_no_removals, filter_nothing, never_expire, see_one_namespace, store_doubles]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    mistake(monkeypatch)
    found = settings(
        max_examples=200, phases=[Phase.generate], derandomize=True, database=None, report_multiple_bugs=False
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(EntriesSideBySide, settings=found)


@given(past=st.sampled_from([None, 0, 1]))
def test_the_oracle_knows_of_a_clock_that_is_set_back(past: int | None) -> None:
    """What takes a place is never older than what it takes it from. The machine found an oracle that had it older."""
    machine = EntriesSideBySide()
    place = (SCOPES[0], "notes")
    options = {"namespace": None, "query": QUERIES[0], "mode": "hybrid", "chosen": 0, "threshold": 0.0}
    machine.remember(collection="notes", items=[(0, 0, "k")], namespace="", scope=SCOPES[0], ttl=None)
    machine.the_clock_is_set_back(by=2)
    machine.remember(collection="notes", items=[(0, 1, "k")], namespace="", scope=SCOPES[0], ttl=None)
    machine.the_oracle_agrees()
    machine.recall(place=place, limit=1, expand=0, past=past, **options)
    machine.teardown()
