"""Records: facts written for their definition, which says whether an update replaces or is merged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import (
    Denied,
    IdempotencyMismatch,
    InvalidDefinition,
    LimitExceeded,
    NotFound,
    SchemaViolation,
    UsageError,
)
from memoranda.model.definition import Definition
from memoranda.model.effect import GetFact, GetFacts, SetFact, Sweep, WriteFacts
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.store.base import Store
from memoranda.testing.clock import FakeClock
from memoranda.testing.conformance.base import Capability, requires, snapshot

GARDEN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "owner": {"type": "string"},
        "beds": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": True}},
        "tools": {"type": "array", "items": {"type": "string"}},
        "note": {"type": ["string", "null"]},
    },
}


class RecordPromises:
    """An update of a record does what its definition says at that moment, and loses nothing of another."""

    # mode

    def test_a_mode_is_kept_with_its_definition(self, memory: Memory) -> None:
        assert memory.definitions.create(name="Plain", slug="plain", schema=GARDEN).mode == "replace"
        made = _garden(memory)
        assert made.mode == memory.definitions.get("garden").mode == "merge"
        said = memory.definitions.create(name="Said", slug="said", schema={**GARDEN, "x-mode": "merge"})
        assert said.mode == "merge"
        assert memory.definitions.update("said", schema=GARDEN).mode == "merge"
        assert memory.definitions.update("said", name="Said again").mode == "merge"
        changed = memory.definitions.update("said", mode="replace")
        assert changed.mode == "replace"
        assert changed.schema == memory.definitions.get("plain").schema
        assert memory.definitions.update("said", schema={**GARDEN, "x-mode": "merge"}).mode == "merge"

    def test_no_other_mode_is_accepted(self, memory: Memory, store: Store) -> None:
        _garden(memory)
        before = snapshot(store)
        bad: Any = "append"
        for attempt in (
            lambda: memory.definitions.create(name="N", slug="n", schema=GARDEN, mode=bad),
            lambda: memory.definitions.create(name="N", slug="n", schema={**GARDEN, "x-mode": bad}),
            lambda: memory.definitions.update("garden", mode=bad),
            lambda: memory.definitions.update("garden", schema={**GARDEN, "x-mode": 5}),
        ):
            with pytest.raises(InvalidDefinition) as caught:
                attempt()
            assert "mode" in caught.value.path
        assert snapshot(store) == before
        assert memory.definitions.get("garden").mode == "merge"

    # updates

    def test_an_update_takes_the_place_of_a_record(self, memory: Memory) -> None:
        garden = memory.definitions.create(name="Garden", slug="garden", schema=GARDEN)
        ada = memory.scope(user="ada")
        _update(memory, ada, garden, {"owner": "Ada", "note": "dry"})
        assert _update(memory, ada, garden, {"note": "wet"}).value == {"note": "wet"}
        assert ada.value("garden") == {"note": "wet"}

    def test_a_merge_changes_the_fields_it_names_at_every_level(self, memory: Memory) -> None:
        garden, ada = _garden(memory), memory.scope(user="ada")
        first = {"owner": "Ada", "beds": {"a": {"peas": 3, "soil": {"ph": 6}}}, "tools": ["hoe", "rake"], "note": "dry"}
        _update(memory, ada, garden, first)
        change = {"beds": {"a": {"soil": {"wet": True}}, "b": {"leek": 1}}, "tools": ["fork"], "note": None}
        merged = _update(memory, ada, garden, change)
        assert merged.value == {
            "owner": "Ada",
            "beds": {"a": {"peas": 3, "soil": {"ph": 6, "wet": True}}, "b": {"leek": 1}},
            "tools": ["fork"],
            "note": None,
        }
        assert ada.get("garden") == merged
        assert [revision.value for revision in ada.history("garden")] == [first, merged.value]
        assert _update(memory, ada, garden, {"beds": {"a": {"soil": "none"}}}).value["beds"]["a"]["soil"] == "none"
        assert all(finding.ok for finding in memory.inspect())

    def test_a_plain_write_replaces_whatever_the_mode(self, memory: Memory) -> None:
        garden, ada = _garden(memory), memory.scope(user="ada")
        _update(memory, ada, garden, {"owner": "Ada", "note": "dry"})
        ada.set("garden", {"note": "wet"})
        assert ada.value("garden") == {"note": "wet"}
        assert _update(memory, ada, garden, {"owner": "Bo"}).value == {"note": "wet", "owner": "Bo"}

    def test_what_a_merge_comes_to_is_checked(self, memory: Memory, store: Store) -> None:
        garden = memory.definitions.create(
            name="Garden", slug="garden", schema={**GARDEN, "required": ["owner"]}, mode="merge"
        )
        ada = memory.scope(user="ada")
        with pytest.raises(SchemaViolation):
            _update(memory, ada, garden, {"note": "dry"})
        _update(memory, ada, garden, {"owner": "Ada"})
        before = snapshot(store)
        for bad in ({"owner": 5}, {"weeds": 1}, "no object"):
            with pytest.raises(SchemaViolation):
                _update(memory, ada, garden, bad)
        assert snapshot(store) == before
        assert _update(memory, ada, garden, {"note": "dry"}).value == {"owner": "Ada", "note": "dry"}

    def test_a_record_does_not_grow_beyond_the_limit_by_merging(self, open_beside: Callable[..., Memory]) -> None:
        memory = open_beside(limits=Limits(value_bytes=1_000))
        garden, ada = _garden(memory), memory.scope(user="ada")
        _update(memory, ada, garden, {"owner": "a" * 600})
        with pytest.raises(LimitExceeded):
            _update(memory, ada, garden, {"note": "b" * 600})
        assert ada.value("garden") == {"owner": "a" * 600}
        assert _update(memory, ada, garden, {"note": "b" * 300}).version == 2

    def test_an_update_begins_the_ttl_anew_and_an_expired_record_lends_nothing(
        self, memory: Memory, clock: FakeClock
    ) -> None:
        garden = memory.definitions.create(name="Garden", slug="garden", schema=GARDEN, mode="merge", ttl=60)
        ada = memory.scope(user="ada")
        _update(memory, ada, garden, {"owner": "Ada"})
        clock.advance(59)
        _update(memory, ada, garden, {"note": "dry"})
        clock.advance(59.999999)
        assert ada.value("garden") == {"owner": "Ada", "note": "dry"}
        clock.advance(0.000001)
        assert ada.get("garden") is None
        assert _update(memory, ada, garden, {"note": "new"}).value == {"note": "new"}
        assert ada.value("garden") == {"note": "new"}
        assert len(memory.definitions.records("garden")) == 1

    def test_updates_of_one_batch_build_on_each_other(self, memory: Memory) -> None:
        garden, ada = _garden(memory), memory.scope(user="ada")
        writes = tuple(_write(ada.scope, garden, value) for value in ({"owner": "Ada"}, {"note": "dry"}))
        last: Fact = memory.perform(WriteFacts(scope=ada.scope, writes=writes))[-1]
        assert last.value == ada.value("garden") == {"owner": "Ada", "note": "dry"}

    def test_merges_at_once_lose_nothing(self, memory: Memory, second: Memory) -> None:
        garden, count = _garden(memory), 20
        together = threading.Barrier(4)

        def write(number: int) -> None:
            handle = (memory, second)[number % 2]
            together.wait()
            for turn in range(count):
                bed = {f"{number}-{turn}": {"turn": turn}}
                _update(handle, handle.scope(user="ada"), garden, {"beds": bed})

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        beds = memory.scope(user="ada").value("garden")["beds"]
        assert beds == {f"{number}-{turn}": {"turn": turn} for number in range(4) for turn in range(count)}

    def test_an_update_is_refused_once_its_definition_speaks_about_something_else(
        self, memory: Memory, store: Store
    ) -> None:
        garden, ada = _garden(memory), memory.scope(user="ada")
        _update(memory, ada, garden, {"owner": "Ada"})
        agent = memory.scope(user="ada", agent="x")
        with pytest.raises(NotFound):
            _update(memory, agent, garden, {"owner": "Ada"})
        for change in (
            lambda: memory.definitions.update(garden.id, scope="thread"),
            lambda: memory.definitions.update(garden.id, scope="global", slug="plot"),
            lambda: memory.definitions.delete(garden.id),
            lambda: memory.definitions.create(name="Garden", slug="garden", schema=GARDEN),
        ):
            change()
            before = snapshot(store)
            with pytest.raises(NotFound) as caught:
                _update(memory, ada, garden, {"owner": "Bo"})
            assert (caught.value.slug, caught.value.value) == ("garden", garden.id)
            assert snapshot(store) == before
        assert _update(memory, ada, memory.definitions.get("garden"), {"owner": "Bo"}).value == {"owner": "Bo"}

    # several at once

    def test_several_facts_are_read_in_the_order_asked_for(self, memory: Memory, clock: FakeClock) -> None:
        ada, agent = memory.scope(user="ada"), memory.scope(user="ada", agent="x")
        first, second = ada.set("a", 1), agent.set("b", 2)
        ada.set("short", 3, ttl=60)
        clock.advance(60)
        places = [(agent.scope, "b"), (ada.scope, "none"), (ada.scope, "a"), (ada.scope, "short"), (ada.scope, "b")]
        gets = tuple(GetFact(scope=scope, key=key) for scope, key in places)
        assert memory.perform(GetFacts(scope=ada.scope, gets=gets)) == [second, None, first, None, None]
        elsewhere = GetFact(scope=Scope.of(tenant="other", user="ada"), key="a")
        with pytest.raises(UsageError):
            memory.perform(GetFacts(scope=ada.scope, gets=(elsewhere,)))

    def test_reading_several_facts_needs_the_right_to_each(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        open_, closed = ada.set("open", 1), ada.set("closed", 2)
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory.read",), access={"closed": "write"}))
        gets = {fact.key: GetFact(scope=ada.scope, key=fact.key) for fact in (open_, closed)}
        assert agent.perform(GetFacts(scope=ada.scope, gets=(gets["open"],))) == [open_]
        with pytest.raises(Denied):
            agent.perform(GetFacts(scope=ada.scope, gets=tuple(gets.values())))

    def test_several_definitions_are_deleted_together_or_not_at_all(self, memory: Memory, store: Store) -> None:
        for slug in ("one", "two", "three"):
            memory.definitions.create(name=slug, slug=slug, schema=GARDEN)
            memory.scope(user="ada").set(slug, {"owner": "Ada"})
        before = snapshot(store)
        with pytest.raises(NotFound) as caught:
            memory.definitions.delete("one", "four", "two", "five")
        assert caught.value.missing == ["four", "five"]
        with pytest.raises(UsageError):
            memory.definitions.delete()
        assert snapshot(store) == before
        assert memory.definitions.delete("one", memory.definitions.get("two").id, "one") == 2
        assert [one.slug for one in memory.definitions.list()] == ["three"]
        assert [fact.key for fact in memory.scope(user="ada").list()] == ["three"]
        assert all(finding.ok for finding in memory.inspect())

    # ends

    def test_a_sweep_counts_the_records_of_each_definition(self, memory: Memory, clock: FakeClock) -> None:
        memory.scope(user="ada").set("garden.bed", "older than the definition", ttl=60)
        for slug in ("garden", "shed"):
            memory.definitions.create(name=slug, slug=slug, schema=GARDEN, ttl=60)
        for user in ("ada", "bo"):
            memory.scope(user=user).set("garden", {"owner": user})
        memory.scope(user="ada").set("shed", {})
        memory.scope(user="cy").set("garden", {}, ttl=61)
        memory.scope(user="ada").set("free", 1, ttl=60)
        memory.scope(user="ada", agent="x").set("garden", "no record", ttl=60)
        clock.advance(60)
        swept = memory.perform(Sweep(scope=Scope()))
        assert (swept.facts, swept.records) == (6, {"garden": 2, "shed": 1})
        assert [str(fact.scope) for fact in memory.definitions.records("garden")] == ["user:cy"]
        assert memory.perform(Sweep(scope=Scope())).records == {}

    def test_an_update_is_another_request_than_a_set_of_the_same_value(self, memory: Memory) -> None:
        garden, scope = _garden(memory), Scope.of(user="ada")
        update = msgspec.structs.replace(_write(scope, garden, {"note": "dry"}), idempotency_key="once")
        first = memory.perform(update)
        assert memory.perform(update) == first, "the same request gives the same"
        with pytest.raises(IdempotencyMismatch):
            memory.perform(msgspec.structs.replace(update, record=None))

    @requires(Capability.RESTART)
    def test_a_mode_holds_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        garden = _garden(memory)
        _update(memory, memory.scope(user="ada"), garden, {"owner": "Ada"})
        again = reopen()
        assert again.definitions.list() == [garden]
        merged = _update(again, again.scope(user="ada"), garden, {"note": "dry"})
        assert merged.value == {"owner": "Ada", "note": "dry"}


def _garden(memory: Memory) -> Definition:
    return memory.definitions.create(name="Garden", slug="garden", schema=GARDEN, mode="merge")


def _write(scope: Scope, definition: Definition, value: Any) -> SetFact:
    return SetFact(scope=scope, key="garden", payload=msgspec.Raw(encode(value)), record=definition.id)


def _update(memory: Memory, place: ScopedMemory, definition: Definition, value: Any) -> Fact:
    return memory.perform(_write(place.scope, definition, value))
