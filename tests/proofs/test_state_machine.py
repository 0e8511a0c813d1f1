"""Drive a database and the plain reference store side by side: they cannot be told apart.

Both are below the same engine, so a mistake in the engine would look the same on both sides. An oracle that shares
no code with it, `Oracle`, says what plain facts must be.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machines import OnPostgres

from memoranda import Fact, MemorandaError, Memory, Receipt, Scope
from memoranda.engine.erasure import Erase
from memoranda.engine.facts import DeleteFact, SetFact
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.policy import Grant
from memoranda.model.probes import Remains
from memoranda.store.base import ContentKey, Erasure, FactQuery, Reader, Replay, RevisionQuery, Session, Store
from memoranda.store.memory import MemoryStore
from memoranda.store.sqlite import SqliteStore
from memoranda.testing import CountingIds, FakeClock

DEEP = os.environ.get("MEMORANDA_DEPTH") == "deep"
TICK = timedelta(microseconds=1)

SCOPES = [
    Scope.of(user="ada"),
    Scope.of(user="ada", agent="x"),
    Scope.of(user="ad"),
    Scope.of(session="s1"),
    Scope.of(session="s2"),
    Scope.of(),
    Scope.of(tenant="other", user="ada"),
]
PLAIN_KEYS = ["k", "k.a", "k.b", "k!", "kx"]
SLUGS = ["profile", "note"]
KEYS = [*PLAIN_KEYS, *SLUGS, "note.deep"]
TENANTS = ["default", "other"]
ACTORS = ["agent:a", "agent:b"]

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"},
    {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}},
    {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]},
    {"type": "text"},
]

scopes = st.sampled_from([*SCOPES[:2], *SCOPES])
keys = st.sampled_from(["k", "k.a", *KEYS])
values = st.one_of(
    st.sampled_from([{}, {"n": 1}, {"n": "one"}, None, True, 0, -0.0, 1e16, "é\u2028\U0001f600", [[], {"": None}]]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
ttls = st.sampled_from([None, None, 1, "5s", "1h"])
domains = st.sampled_from([None, None, "work", "home"])
expectations = st.sampled_from([None, None, None, 0, 1, 2, 3, 5])
idempotency_keys = st.sampled_from([None, None, None, "once", "twice"])


class Oracle:
    """What plain facts must be, as the documentation says it: versions, compare-and-set, time to live."""

    def __init__(self) -> None:
        self.facts: dict[tuple[Scope, str], Fact] = {}
        self.used: dict[tuple[Scope, str], int] = {}
        self.stamps: dict[tuple[Scope, str], datetime] = {}
        self.erased: list[Scope] = []

    def look(self, place: tuple[Scope, str], now: datetime) -> Fact | None:
        """A fact counts only strictly before its expiry."""
        fact = self.facts.get(place)
        return fact if fact and (fact.expires_at is None or now < fact.expires_at) else None

    def refuses(self, place: tuple[Scope, str], expect: int | None, now: datetime) -> bool:
        """`expect` is the version it must be at, 0 means that it must not exist."""
        fact = self.look(place, now)
        return expect is not None and expect != (fact.version if fact else 0)

    def expire(self, place: tuple[Scope, str], now: datetime) -> None:
        """An expiry takes a version too, when a write or a sweep comes upon it."""
        if place in self.facts and self.look(place, now) is None:
            del self.facts[place]
            self.used[place] += 1

    def was_set(self, made: Fact, value: Any, ttl: int | None, now: datetime) -> None:
        """A write takes the next version, is stamped after all before it, and is permanent without a ttl."""
        place = (made.scope, made.key)
        self.expire(place, now)
        before = self.used.get(place, 0)
        erased = any(scope.covers(made.scope) for scope in self.erased)
        assert made.version > before if erased else made.version == before + 1
        assert made.updated_at >= now and (place not in self.stamps or made.updated_at > self.stamps[place])
        assert made.expires_at == (None if ttl is None else now + timedelta(seconds=ttl))
        assert (made.id == self.facts[place].id) if place in self.facts else True
        assert msgspec.json.encode(made.value) == msgspec.json.encode(value)
        self.facts[place], self.used[place], self.stamps[place] = made, made.version, made.updated_at

    def was_deleted(self, place: tuple[Scope, str], found: bool, now: datetime) -> None:
        """A delete says whether there was a fact, and takes a version if so."""
        assert found == (self.look(place, now) is not None)
        self.expire(place, now)
        if self.facts.pop(place, None) is not None:
            self.used[place] += 1

    def was_erased(self, scope: Scope, sessions: list[Scope]) -> None:
        """An erasure takes all at and below a scope and its sessions; their versions are never used again."""
        gone = [scope, *sessions]
        self.erased.extend(gone)
        for place in [place for place in self.used if any(each.covers(place[0]) for each in gone)]:
            self.facts.pop(place, None)
            self.stamps.pop(place, None)


def seconds(ttl: str | int | None) -> int | None:
    return {None: None, 1: 1, "5s": 5, "1h": 3600}[ttl]


def canonical(result: Any) -> bytes:
    return msgspec.json.encode(result, order="deterministic")


class SideBySide(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="memoranda-machine-"))
        self.clocks = (FakeClock(), FakeClock())
        self.ids = (CountingIds(), CountingIds())
        self.plain = MemoryStore()
        self.store = self.open_store()
        self.memories = (self.stand_on(self.store, 0), self.stand_on(self.plain, 1))
        self.oracle = Oracle()
        self.moments: list[datetime] = [self.now]
        self.exports: list[str] = []
        self.steps = 0

    def open_store(self) -> Store:
        return SqliteStore(str(self.directory / "memory.db"), durability="normal")

    def stand_on(self, store: Any, side: int) -> Memory:
        return Memory(store, clock=self.clocks[side], ids=self.ids[side])

    @property
    def now(self) -> datetime:
        return self.clocks[0].now()

    def both(self, call: Callable[[Memory], Any]) -> Any:
        """Make one call on both sides; the answers, or the errors, are the same. Return the answer or the error."""
        answers = [self.attempt(call, memory) for memory in self.memories]
        stored, plain = answers
        if isinstance(stored, MemorandaError) or isinstance(plain, MemorandaError):
            assert (type(stored), str(stored)) == (type(plain), str(plain))
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

    def judge_write(self, scope: Scope, key: str, value: Any, ttl: Any, expect: int | None, answer: Any) -> None:
        """Hold a write of a plain fact against the oracle."""
        if key not in PLAIN_KEYS:
            return
        if isinstance(answer, Fact):
            assert not self.oracle.refuses((scope, key), expect, self.now)
            self.oracle.was_set(answer, value, seconds(ttl), self.now)
        elif getattr(answer, "code", "") == "conflict":
            assert self.oracle.refuses((scope, key), expect, self.now)
            fact = self.oracle.look((scope, key), self.now)
            assert answer.actual == (fact.version if fact else 0)

    def judge_delete(self, scope: Scope, key: str, answer: Any) -> None:
        if key in PLAIN_KEYS and isinstance(answer, bool):
            self.oracle.was_deleted((scope, key), answer, self.now)

    # facts

    @initialize(lifetimes=st.lists(st.sampled_from([None, None, 1, "5s"]), min_size=5, max_size=5))
    def begin(self, lifetimes: list[Any]) -> None:
        """Begin with neighbours that a careless range or a careless clock would mistake for each other."""
        for scope in SCOPES[:4]:
            for key, ttl in zip(PLAIN_KEYS, lifetimes, strict=True):
                self.set_plainly(scope, key, ttl)

    def set_plainly(self, scope: Scope, key: str, ttl: Any) -> None:
        domain = {"k": "home", "kx": None}.get(key, "work")
        answer = self.both(lambda memory: memory.at(scope).set(key, key, ttl=ttl, domain=domain))
        self.judge_write(scope, key, key, ttl, None, answer)

    @rule(scope=scopes, key=keys, value=values, expect=expectations, ttl=ttls, domain=domains)
    def set(self, scope: Scope, key: str, value: Any, expect: int | None, ttl: Any, domain: str | None) -> None:
        answer = self.both(lambda memory: memory.at(scope).set(key, value, expect=expect, ttl=ttl, domain=domain))
        self.judge_write(scope, key, value, ttl, expect, answer)

    @rule(scope=scopes, key=keys, value=values, stale=st.sampled_from([0, 0, 0, -1, 1]))
    def compare_and_set(self, scope: Scope, key: str, value: Any, stale: int) -> None:
        fact = self.both(lambda memory: memory.at(scope).get(key))
        expect = max(0, (fact.version if fact else 0) + stale)
        answer = self.both(lambda memory: memory.at(scope).set(key, value, expect=expect))
        self.judge_write(scope, key, value, None, expect, answer)

    @rule(scope=scopes, key=keys, value=values, ttl=ttls, once=st.sampled_from(["once", "twice"]))
    def set_once(self, scope: Scope, key: str, value: Any, ttl: Any, once: str) -> None:
        before = self.length(scope.tenant)
        answer = self.both(lambda memory: memory.at(scope).set(key, value, ttl=ttl, idempotency_key=once))
        if self.length(scope.tenant) > before:  # else it was answered from the first time
            self.judge_write(scope, key, value, ttl, None, answer)

    @rule(scope=scopes, key=keys, value=values)
    def update(self, scope: Scope, key: str, value: Any) -> None:
        answer = self.both(lambda memory: memory.at(scope).update(key, lambda old: [value], default=None))
        self.judge_write(scope, key, [value], None, None, answer)

    @rule(scope=scopes, key=keys, expect=expectations)
    def delete(self, scope: Scope, key: str, expect: int | None) -> None:
        answer = self.both(lambda memory: memory.at(scope).delete(key, expect=expect))
        if getattr(answer, "code", "") == "conflict":
            assert key not in PLAIN_KEYS or self.oracle.refuses((scope, key), expect, self.now)
        self.judge_delete(scope, key, answer)

    @rule(
        writes=st.lists(st.tuples(scopes, keys, st.one_of(st.none(), values), expectations), max_size=4),
        once=idempotency_keys,
    )
    def batch(self, writes: list[tuple[Scope, str, Any, int | None]], once: str | None) -> None:
        def send(memory: Memory) -> list[Any]:
            with memory.batch(idempotency_key=once) as batch:
                for scope, key, value, expect in writes:
                    if value is None:
                        batch.delete(memory.at(scope), key, expect=expect)
                    else:
                        batch.set(memory.at(scope), key, value, expect=expect)
            return batch.results

        tenant = writes[0][0].tenant if writes else "default"
        before = self.length(tenant)
        answer = self.both(send)
        if isinstance(answer, list) and (once is None or self.length(tenant) > before):
            for (scope, key, value, expect), done in zip(writes, answer, strict=True):
                if value is None:
                    self.judge_delete(scope, key, done)
                else:
                    self.judge_write(scope, key, value, None, expect, done)

    @rule(
        scope=scopes,
        prefix=st.sampled_from(["", "", "k", "k.a", "profile"]),
        domain=domains,
        after=st.sampled_from(["", "", "k", "k.a"]),
        limit=st.sampled_from([None, None, 0, 1, 2]),
        back=st.one_of(st.none(), st.tuples(st.integers(0, 50), st.integers(-1, 1))),
    )
    def list(
        self,
        scope: Scope,
        prefix: str,
        domain: str | None,
        after: str,
        limit: int | None,
        back: tuple[int, int] | None,
    ) -> None:
        as_of = None if back is None else self.moments[back[0] % len(self.moments)] + back[1] * TICK
        found = self.both(
            lambda memory: memory.at(scope).list(prefix, domain=domain, after=after, limit=limit, as_of=as_of)
        )
        listed = [fact.key for fact in found]
        assert listed == sorted(listed) and all(key > after for key in listed)
        assert all(not prefix or key == prefix or key.startswith(prefix + ".") for key in listed)

    @rule(scope=scopes, key=keys, back=st.tuples(st.integers(0, 50), st.integers(-1, 1)))
    def look_back(self, scope: Scope, key: str, back: tuple[int, int]) -> None:
        as_of = self.moments[back[0] % len(self.moments)] + back[1] * TICK
        one = self.both(lambda memory: memory.at(scope).get(key, as_of=as_of))
        same = [fact for fact in self.both(lambda memory: memory.at(scope).list(key, as_of=as_of)) if fact.key == key]
        assert canonical(same) == canonical([one] if one else [])

    # time and upkeep

    @rule()
    def let_a_second_pass(self) -> None:
        """A rule of its own, as little happens to expired facts unless time passes often."""
        self.move_the_clock(1)

    @rule(by=st.sampled_from([4, 5, 0.000001, 3600, -0.000002, -1, -3600, 8 * 86400]))
    def move_the_clock(self, by: float) -> None:
        for clock in self.clocks:
            clock.advance(by)
        self.moments.append(self.now)

    @rule()
    def sweep(self) -> None:
        self.both(lambda memory: memory.sweep())
        for place in [*self.oracle.facts]:
            if place[0].tenant == "default":
                self.oracle.expire(place, self.now)

    @rule(id=st.sampled_from(["s1", "s2"]), owner=st.sampled_from([*SCOPES[:3], Scope.of()]))
    def start_session(self, id: str, owner: Scope) -> None:
        self.both(lambda memory: memory.at(owner).session(id).scope)

    @rule(id=st.sampled_from(["s1", "s2"]))
    def end_session(self, id: str) -> None:
        answer = self.both(lambda memory: memory.scope(session=id).end())
        if isinstance(answer, dict) and answer:
            scope = Scope.of(session=id)
            self.oracle.facts = {place: fact for place, fact in self.oracle.facts.items() if place[0] != scope}
            assert answer["facts"] >= 0

    @rule(scope=st.sampled_from([SCOPES[0], SCOPES[1], SCOPES[2], SCOPES[3]]))
    def erase(self, scope: Scope) -> None:
        owned = self.sessions_of(scope)
        receipt = self.both(lambda memory: memory.erase(**dict(scope.parts)))
        assert self.comparable(receipt).scrubbed
        self.oracle.was_erased(scope, owned)

    def sessions_of(self, scope: Scope) -> list[Scope]:
        sessions = [self.plain.read(lambda rows, each=each: rows.get(Session, each)) for each in SCOPES[3:5]]
        return [each.scope for each in sessions if each and each.owner and scope.covers(each.owner)]

    @rule()
    def restart(self) -> None:
        self.memories[0].close()
        self.store = self.open_store()
        self.memories = (self.stand_on(self.store, 0), self.memories[1])

    # definitions

    @rule(
        name=st.sampled_from(["One", "Two"]),
        slug=st.sampled_from([*SLUGS, "Bad"]),
        kind=st.sampled_from(["global", "agent", "session"]),
        schema=st.sampled_from(SCHEMAS),
        ttl=st.sampled_from([None, "5s"]),
    )
    def define(self, name: str, slug: str, kind: str, schema: dict[str, Any], ttl: str | None) -> None:
        self.both(lambda memory: memory.definitions.create(name=name, slug=slug, scope=kind, schema=schema, ttl=ttl))

    @rule(
        which=st.sampled_from(SLUGS),
        name=st.sampled_from([None, "One", "Two", "Three"]),
        slug=st.sampled_from([None, *SLUGS]),
        kind=st.sampled_from([None, None, "global", "session"]),
        schema=st.sampled_from([None, *SCHEMAS[:3]]),
        clear_ttl=st.booleans(),
    )
    def redefine(self, which: str, clear_ttl: bool, **changes: Any) -> None:
        self.both(
            lambda memory: memory.definitions.update(
                which,
                clear_ttl=clear_ttl,
                name=changes["name"],
                slug=changes["slug"],
                scope=changes["kind"],
                schema=changes["schema"],
            )
        )

    @rule(which=st.sampled_from(SLUGS))
    def undefine(self, which: str) -> None:
        self.both(lambda memory: memory.definitions.records(which))
        self.both(lambda memory: memory.definitions.delete(which))

    # who may

    @rule(
        actor=st.sampled_from([*ACTORS, "*"]),
        capability=st.sampled_from(["memory", "memory.read", "memory.write", "memory.erase", "*"]),
        level=st.sampled_from(["allow", "allow", "approve", "approve", "deny"]),
        scope=st.sampled_from([None, None, SCOPES[0], SCOPES[1]]),
        path=st.sampled_from(["", "", "k", "k.a"]),
    )
    def grant(self, actor: str, capability: str, level: Any, scope: Scope | None, path: str) -> None:
        self.both(lambda memory: memory.permissions.grant(actor, capability, level=level, scope=scope, path=path))

    @rule(which=st.integers(0, 5))
    def revoke(self, which: int) -> None:
        grants = self.both(lambda memory: memory.permissions.list())
        id = grants[which % len(grants)].id if grants else "grant_9999"
        self.both(lambda memory: memory.permissions.revoke(id))

    @rule(actor=st.sampled_from(ACTORS), scope=scopes, key=keys, value=values, verb=st.integers(0, 4))
    def act_for_somebody(self, actor: str, scope: Scope, key: str, value: Any, verb: int) -> None:
        def act(memory: Memory) -> Any:
            handle = memory.acting_as(actor)
            place = handle.at(scope)
            if verb == 4:
                return handle.erase(user="ad")
            return (
                lambda: place.get(key),
                lambda: place.list(key),
                lambda: place.set(key, value),
                lambda: place.delete(key),
            )[verb]()

        answer = self.both(act)
        if verb == 2:
            self.judge_write(scope, key, value, None, None, answer)
        elif verb == 3:
            self.judge_delete(scope, key, answer)
        elif isinstance(answer, Receipt):
            self.judge_erasure(Scope.of(user="ad"))

    def judge_erasure(self, scope: Scope) -> None:
        # Its sessions are gone from the stores by now; their facts are those that no longer exist there.
        kept = {(fact.scope, fact.key) for tenant in TENANTS for fact in self.facts(tenant)}
        gone = [place[0] for place in self.oracle.facts if place not in kept and place[0].shape == ("session",)]
        self.oracle.was_erased(scope, gone)

    @rule(which=st.integers(0, 5), approve=st.booleans())
    def decide(self, which: int, approve: bool) -> None:
        waiting = self.both(lambda memory: memory.approvals.list())
        if not waiting:
            return
        chosen = waiting[which % len(waiting)]
        verb = "approve" if approve else "refuse"
        answer = self.both(lambda memory: getattr(memory.approvals, verb)(chosen.id, reason="because"))
        if isinstance(answer, MemorandaError) or not approve:
            return
        effect = chosen.effect
        if isinstance(effect, SetFact):
            value = msgspec.json.decode(effect.payload)
            self.judge_write(effect.scope, effect.key, value, None, None, answer.result)
        elif isinstance(effect, DeleteFact):
            self.judge_delete(effect.scope, effect.key, answer.result)
        elif isinstance(effect, Erase):
            self.judge_erasure(effect.scope)

    # files

    @rule()
    def export(self) -> None:
        name = f"export-{len(self.exports)}"
        texts: list[bytes] = []

        def write(memory: Memory) -> int:
            count = memory.export(self.directory / name)
            memory.settle()
            texts.append((self.directory / name).read_bytes())
            return count

        self.both(write)
        assert texts[0] == texts[1]
        self.exports.append(name)

    @precondition(lambda self: self.exports)
    @rule(which=st.integers(0, 5))
    def import_again(self, which: int) -> None:
        name = self.exports[which % len(self.exports)]
        self.both(lambda memory: memory.import_file(self.directory / name))
        # What an import leaves alone depends on both histories, so the oracle only insists that nothing goes back.
        for fact in self.facts("default"):
            place = (fact.scope, fact.key)
            if fact.key in PLAIN_KEYS and self.oracle.facts.get(place) != fact:
                assert fact.version > self.oracle.used.get(place, 0)
                self.oracle.facts[place] = fact
                self.oracle.used[place], self.oracle.stamps[place] = fact.version, fact.updated_at

    # what holds after each step

    def facts(self, tenant: str) -> list[Fact]:
        return self.store.read(lambda rows: [*rows.facts(FactQuery(Scope(tenant), below=True))])

    def length(self, tenant: str) -> int:
        """How many events a tenant's ledger holds."""
        return self.plain.read(lambda rows: (rows.head(tenant) or (0, ""))[0])

    @invariant()
    def both_hold_the_same(self) -> None:
        stored, plain = self.store.read(dump), self.plain.read(dump)
        different = {where: (stored[where], plain[where]) for where in stored if stored[where] != plain[where]}
        assert different == {}, different

    @invariant()
    def the_oracle_agrees(self) -> None:
        found = {
            (fact.scope, fact.key): (fact.version, canonical(fact.value), fact.expires_at)
            for tenant in TENANTS
            for fact in self.facts(tenant)
            if fact.key in PLAIN_KEYS
        }
        assert found == {
            place: (fact.version, canonical(fact.value), fact.expires_at) for place, fact in self.oracle.facts.items()
        }

    @invariant()
    def active_means_before_expiry(self) -> None:
        for scope in SCOPES:
            listed = {fact.key for fact in self.memories[0].at(scope).list() if fact.key in PLAIN_KEYS}
            assert listed == {key for key in PLAIN_KEYS if self.oracle.look((scope, key), self.now)}

    @invariant()
    def ledger_and_state_agree(self) -> None:
        self.steps += 1
        if self.steps % 5 == 0:  # damage stays, so that it is found a little later too; and looking takes its time
            self.inspect()

    def inspect(self) -> None:
        for memory in self.memories:
            assert memory.ledger.verify().ok
            assert [finding for finding in memory.inspect() if not finding.ok] == []

    def teardown(self) -> None:
        self.inspect()
        for memory in self.memories:
            memory.close()
        shutil.rmtree(self.directory)


def dump(rows: Reader) -> dict[str, bytes]:
    """Everything there is, as text by where it is. Hashes and marks are left out: each database has its own secrets."""
    places = [Scope(tenant, scope.path) for tenant in TENANTS for scope in SCOPES]
    whole: dict[str, dict[str, Any]] = {"": {"tenants": rows.tenants()}}
    for tenant in TENANTS:
        whole[tenant] = {
            "epoch": rows.tenant_state(tenant).epoch,
            "facts": list(rows.facts(FactQuery(Scope(tenant), below=True))),
            "definitions": rows.scan(Definition, tenant),
            "grants": rows.scan(Grant, tenant),
            "approvals": rows.scan(Approval, tenant),
            "events": [
                msgspec.structs.replace(event, content=None, prev_hash="", hash="") for event in rows.events(tenant)
            ],
        }
    for place in places:
        whole[f"{place.tenant} {place.path}"] = {
            "history": {key: list(rows.revisions(RevisionQuery(place, key))) for key in KEYS},
            "last": {key: rows.revision(place, key) for key in KEYS},
            "session": rows.get(Session, place),
            "replays": [
                msgspec.structs.replace(replay, request="")
                for key in ("once", "twice")
                if (replay := rows.get(Replay, place, key)) is not None
            ],
            "erasure": rows.get(Erasure, place),
            "secret": rows.get(ContentKey, place.tenant, place.subject) is not None,
        }
    return {f"{where} {what}": canonical(part) for where, parts in whole.items() for what, part in parts.items()}


# A step looks at everything, so fewer examples than of other properties have to do at ordinary depth.
SideBySide.TestCase.settings = settings() if DEEP else settings(max_examples=12)
TestSideBySide = pytest.mark.capability("state machine", backend="sqlite")(pytest.mark.slow(SideBySide.TestCase))


class PostgresSideBySide(OnPostgres, SideBySide):
    def comparable(self, answer: Any) -> Any:
        # What is gone from the files depends on what else the server does.
        if not isinstance(answer, Receipt):
            return answer
        assert answer.remains.rows == "gone"
        return msgspec.structs.replace(answer, scrubbed=True, remains=Remains())


# Each step asks some hundred questions, of a server.
PostgresSideBySide.TestCase.settings = settings(max_examples=settings().max_examples // 5 if DEEP else 3)
TestPostgresSideBySide = pytest.mark.capability("state machine", backend="postgres")(
    pytest.mark.usefixtures("machines_on_postgres")(pytest.mark.slow(PostgresSideBySide.TestCase))
)
