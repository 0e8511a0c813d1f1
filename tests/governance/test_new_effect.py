"""A new effect is one class with its verb, in one file: the gate runs its hooks without knowing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

import memoranda
from memoranda import ApprovalRequired, Busy, Denied, Policy, Quota, QuotaExceeded, Scope
from memoranda.engine.verbs import VERBS, Call, Outcome, Preparation, filter_by_key, verb
from memoranda.model import effect
from memoranda.model.effect import Effect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.store.base import FactQuery, Reader, Store, Transaction


class CountFacts(Effect, frozen=True, kw_only=True, tag="count_facts"):
    """Read the facts of a scope, for counting."""

    capability: ClassVar[str] = "memory.read"
    mutates: ClassVar[bool] = False


class Greet(Effect, frozen=True, kw_only=True, tag="greet"):
    """Add a line to the ledger."""

    capability: ClassVar[str] = "memory.write"
    mutates: ClassVar[bool] = True
    greeting: str

    def weight(self) -> tuple[int, int]:
        return 1, len(self.greeting)


class Compact(Effect, frozen=True, kw_only=True, tag="compact"):
    """Ask the store itself."""

    capability: ClassVar[str] = "upkeep"
    mutates: ClassVar[bool] = False


def count_facts(rows: Reader, effect: CountFacts, call: Call) -> Outcome[list[Fact]]:
    found = list(rows.facts(FactQuery(effect.scope, active_at=call.now)))
    return Outcome(found, (Note(effect=effect.name, scope=effect.scope.path, detail={"count": len(found)}),))


def shout(store: Store, effect: Greet, found: Any, call: Call) -> Call:
    return msgspec.structs.replace(call, seen=Outcome(effect.greeting.upper()))


def greet(rows: Transaction, effect: Greet, call: Call) -> Outcome[Any]:
    assert call.seen is not None
    note = Note(effect=effect.name, scope=effect.scope.path, detail={"said": call.seen.value})
    return Outcome(call.seen.value, (note,))


def add_mark(store: Store, effect: Greet, value: str) -> str:
    return f"{value}!"


def compact(store: Store, effect: Compact, call: Call) -> Outcome[str]:
    return Outcome(store.url)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    verb(CountFacts, read_filtered=filter_by_key)(count_facts)
    verb(Greet, preparation=Preparation(prepare=shout, busy="greeting takes its time"), after_commit=add_mark)(greet)
    verb(Compact, reads_often=True, can_wait=False)(compact)
    yield
    for kind in (CountFacts, Greet, Compact):
        del VERBS[kind], effect._kinds[kind.__name__]
    effect.effect_decoder.cache_clear()


@pytest.fixture
def memory() -> Iterator[memoranda.Memory]:
    with memoranda.open(":memory:") as memory:
        yield memory


ADA = Scope.of(user="ada")


def last(memory: memoranda.Memory) -> tuple[str, str, str, Any]:
    memory.settle()
    event = memory.ledger.tail(1)[0]
    return event.actor, event.effect, event.decision, event.detail


def test_a_write_is_prepared_performed_noted_and_followed_up(memory: memoranda.Memory) -> None:
    assert memory.perform(Greet(scope=ADA, greeting="hello")) == "HELLO!"
    assert last(memory) == ("owner", "greet", "allow", {"said": "HELLO"})
    with pytest.raises(Busy, match="greeting takes its time"):
        memory.at_once().perform(Greet(scope=ADA, greeting="hello"))


def test_a_write_needs_its_capability_and_fits_its_quota(memory: memoranda.Memory) -> None:
    with pytest.raises(Denied):
        memory.acting_as("agent:x", policy=Policy.of(allow=("memory.read",))).perform(Greet(scope=ADA, greeting="hi"))
    assert last(memory)[:3] == ("agent:x", "greet", "deny")
    small = memory.narrowed(Policy.of(allow=("memory",), quota=Quota(bytes=4)))
    assert small.perform(Greet(scope=ADA, greeting="hey")) == "HEY!"
    with pytest.raises(QuotaExceeded):
        small.perform(Greet(scope=ADA, greeting="hey"))


def test_a_write_waits_for_approval_in_a_database_and_is_prepared_then(tmp_path: Any) -> None:
    with memoranda.open(tmp_path / "m.db") as memory:
        with pytest.raises(ApprovalRequired) as waits:
            asking = memory.acting_as("agent:x", policy=Policy.of(approve=("memory.write",)))
            asking.perform(Greet(scope=ADA, greeting="hello"))
    with memoranda.open(tmp_path / "m.db") as memory:
        assert memory.approvals.get(waits.value.approval).effect == Greet(scope=ADA, greeting="hello")
        assert memory.approvals.approve(waits.value.approval).result == "HELLO!"
        assert last(memory) == ("agent:x", "greet", "approved", {"said": "HELLO"})


def test_a_read_is_filtered_by_access_and_noted(memory: memoranda.Memory) -> None:
    for key in ("diary", "tone"):
        memory.scope(user="ada").set(key, 1)
    assert [fact.key for fact in memory.perform(CountFacts(scope=ADA))] == ["diary", "tone"]
    assert last(memory) == ("owner", "count_facts", "allow", {"count": 2})
    narrow = memory.narrowed(Policy.of(allow=("memory.read",), access={"diary": "none"}))
    assert [fact.key for fact in narrow.perform(CountFacts(scope=ADA))] == ["tone"]


def test_a_read_may_ask_the_store_itself_and_refuse_to_wait(memory: memoranda.Memory) -> None:
    assert memory.perform(Compact(scope=ADA)) == memory.url
    with pytest.raises(Denied):
        memory.narrowed(Policy.of(approve=("upkeep",))).perform(Compact(scope=ADA))
