"""What a write checks, in which order, and what it leaves behind; the numbers are those of behaviours and claims."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memoranda import Policy
from memoranda.api.memory import Memory
from memoranda.engine.transfer import Export
from memoranda.errors import (
    Denied,
    InvalidKey,
    InvalidScope,
    InvalidValue,
    LimitExceeded,
    NotFound,
    SchemaViolation,
    ScopeEnded,
    UsageError,
)
from memoranda.model.definition import Definition
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.runs.records import WorkingMemory, load_memory, sweep_expired
from memoranda.testing import FakeClock

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]

SINGER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "stage_name": {"type": "string"},
        "voice": {"type": "string"},
        "seat": {"type": "object", "properties": {"row": {"type": "integer"}}},
    },
}


def facts(memory: Memory) -> list[Fact]:
    """Return all facts, of all owners."""
    return memory.perform(Export(scope=Scope.of(tenant=memory.tenant))).facts


# --- refusals ---------------------------------------------------------------------------------------------------


def test_07_there_is_no_working_memory_without_an_owner(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    with pytest.raises(InvalidScope):
        load(owner=None).write({"tally": {"n": 1}})
    assert facts(memory) == []
    load(owner="ada").write({"tally": {"n": 1}})
    assert [str(fact.scope) for fact in facts(memory)] == ["user:ada"]


def test_08_unknown_slugs_are_all_named_and_nothing_is_written(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    working = load()
    with pytest.raises(NotFound) as caught:
        working.write({"tally": {"n": 1}, "talley": {"n": 1}, "other": {}})
    assert caught.value.missing == ["talley", "other"]
    assert "tally" in caught.value.hint
    assert (facts(memory), working.values) == ([], {})
    assert working.write({"tally": {"n": 1}}) == working.values == {"tally": {"n": 1}}


@pytest.mark.parametrize(
    ("slug", "kind"), [("course", "workflow"), ("scratch", "run"), ("talk", "thread")], ids=["09", "10", "11"]
)
def test_09_10_11_a_record_of_a_scope_that_the_run_lacks_cannot_be_written(
    memory: Memory, load: Load, scoped: list[Definition], slug: str, kind: str
) -> None:
    working = load(*scoped, **{kind: None})
    with pytest.raises(UsageError) as caught:
        working.write({"everywhere": {"n": 1}, slug: {"n": 1}})
    assert (caught.value.slug, caught.value.kind) == (slug, kind)
    assert (facts(memory), working.values) == ([], {})
    assert load(*scoped).write({slug: {"n": 1}}) == {slug: {"n": 1}}


def test_12_a_value_that_the_schema_refuses_is_not_written(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    working = load()
    working.write({"tally": {"n": 1}})
    for bad in ({"n": "one"}, {}, {"n": True}, [1], "text", None):
        with pytest.raises(SchemaViolation) as caught:
            working.write({"tally": bad})
        assert caught.value.slug == "tally"
    assert working.values == {"tally": {"n": 1}}
    assert memory.scope(user="ada").value("tally") == {"n": 1}
    assert working.write({"tally": {"n": 2.0}})["tally"]["n"] == 2


def test_t8_a_property_that_the_schema_does_not_list_is_refused_and_a_nested_one_too(
    define: Define, load: Load
) -> None:
    define("singer", schema=SINGER)
    working = load()
    for bad in ({"stage_name": "Ada", "age": 3}, {"seat": {"row": 1, "aisle": True}}):
        with pytest.raises(SchemaViolation):
            working.write({"singer": bad})
    assert working.values == {}
    assert working.write({"singer": {"seat": {"row": 1}}}) == {"singer": {"seat": {"row": 1}}}


@pytest.mark.parametrize("slug", ["bad-slug", "", "Tally", "a.b", "ä", 5])
def test_t9_a_bad_slug_is_told_before_anything_else(memory: Memory, define: Define, load: Load, slug: Any) -> None:
    define("tally")
    working = load()
    with pytest.raises(InvalidKey):
        working.write({"unknown": {}, "tally": {"n": "wrong"}, slug: {}})
    assert facts(memory) == []
    with pytest.raises(NotFound):
        working.write({"unknown": {}, "tally": {"n": "wrong"}})


def test_t10_an_unknown_slug_is_told_before_a_missing_scope_and_that_before_the_schema(
    load: Load, scoped: list[Definition]
) -> None:
    working = load(*scoped, thread=None)
    wrong = {"n": "wrong"}
    with pytest.raises(NotFound):
        working.write({"everywhere": wrong, "talk": wrong, "unknown": wrong})
    with pytest.raises(UsageError) as caught:
        working.write({"everywhere": wrong, "talk": wrong})
    assert caught.value.kind == "thread"
    with pytest.raises(SchemaViolation):
        working.write({"everywhere": wrong})
    assert working.write({"everywhere": {"n": 1}}) == {"everywhere": {"n": 1}}


def test_t11_a_definition_of_another_scope_is_unknown_until_it_is_named_and_a_global_one_is_known(
    load: Load, scoped: list[Definition]
) -> None:
    working = load()
    for slug in ("course", "talk", "scratch"):
        with pytest.raises(NotFound):
            working.write({slug: {"n": 1}})
    assert working.write({"everywhere": {"n": 1}}) == {"everywhere": {"n": 1}}
    assert load(scoped[1]).write({"course": {"n": 1}}) == {"course": {"n": 1}}


@pytest.mark.parametrize("updates", [None, [], "tally", 5])
def test_updates_are_an_object(define: Define, load: Load, updates: Any) -> None:
    define("tally")
    with pytest.raises(InvalidValue):
        load().write(updates)
    assert load().write({"tally": {"n": 1}}) == {"tally": {"n": 1}}


def test_a_value_that_is_too_large_or_no_json_is_refused(memory: Memory, define: Define, load: Load) -> None:
    define("free", schema={"type": "object"})
    working = load()
    with pytest.raises(LimitExceeded):
        working.write({"free": {"text": "x" * memory.limits.value_bytes}})
    with pytest.raises(InvalidValue):
        working.write({"free": {"number": float("nan")}})
    assert (facts(memory), working.values) == ([], {})
    assert working.write({"free": {"text": "x"}}) == {"free": {"text": "x"}}


def test_a_write_that_an_actor_may_not_make_leaves_everything_as_it_was(memory: Memory, define: Define) -> None:
    define("open")
    define("closed")
    policy = Policy.of(allow=("memory", "definitions.read"), access={"closed": "read"})
    working = load_memory(memory.acting_as("agent", policy=policy), owner="ada")
    with pytest.raises(Denied):
        working.write({"open": {"n": 1}, "closed": {"n": 2}})
    assert (facts(memory), working.values) == ([], {})
    assert working.write({"open": {"n": 1}}) == {"open": {"n": 1}}


def test_a_definition_that_is_gone_by_now_is_not_written_as_a_free_fact(
    memory: Memory, define: Define, load: Load
) -> None:
    define("tally")
    define("other")
    working = load()
    memory.definitions.delete("tally")
    with pytest.raises(NotFound):
        working.write({"other": {"n": 1}, "tally": {"n": "anything"}})
    assert facts(memory) == []
    assert working.write({"other": {"n": 1}}) == {"other": {"n": 1}}


def test_what_the_schema_says_now_counts_and_not_what_it_said_when_the_run_began(
    memory: Memory, define: Define, load: Load
) -> None:
    define("tally")
    working = load()
    memory.definitions.update("tally", schema={"type": "object", "properties": {"n": {"type": "string"}}}, stale="keep")
    with pytest.raises(SchemaViolation):
        working.write({"tally": {"n": 1}})
    assert working.write({"tally": {"n": "one"}}) == {"tally": {"n": "one"}}


# --- what is written --------------------------------------------------------------------------------------------


def test_13_22_a_write_is_kept_once_and_seen_at_once(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    working = load()
    assert working.write({"tally": {"n": 1}}) == {"tally": {"n": 1}}
    assert working.values == {"tally": {"n": 1}}
    assert load().values == {"tally": {"n": 1}}
    assert [(str(fact.scope), fact.key, fact.version) for fact in facts(memory)] == [("user:ada", "tally", 1)]


def test_14_30_a_record_of_a_thread_lies_in_the_thread_and_in_no_workflow_or_run(
    memory: Memory, load: Load, scoped: list[Definition]
) -> None:
    load(*scoped).write({"talk": {"n": 1}})
    assert [str(fact.scope) for fact in facts(memory)] == ["user:ada/thread:t1"]


def test_15_an_empty_write_gives_nothing_and_touches_nothing(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    working = load()
    before, values = memory.ledger.anchor(), working.values
    assert working.write({}) == {}
    assert memory.ledger.anchor() == before
    assert working.values is values
    working.write({"tally": {"n": 1}})
    assert memory.ledger.anchor() != before


def test_16_several_records_are_written_in_the_order_given_and_all_are_seen(
    memory: Memory, define: Define, load: Load
) -> None:
    define("first")
    define("second")
    working = load()
    assert list(working.write({"second": {"n": 2}, "first": {"n": 1}})) == ["second", "first"]
    assert working.values == {"second": {"n": 2}, "first": {"n": 1}}
    written = [event.key for event in memory.ledger.events() if event.effect == "set_fact"]
    assert written == ["second", "first"]


def test_23_a_write_to_every_scope_lies_where_each_belongs(
    memory: Memory, load: Load, scoped: list[Definition]
) -> None:
    everything = {"everywhere": {"n": 1}, "course": {"n": 2}, "talk": {"n": 3}, "scratch": {"n": 4}}
    load(*scoped).write(everything)
    assert load(*scoped).values == everything
    assert {fact.key: str(fact.scope) for fact in facts(memory)} == {
        "everywhere": "user:ada",
        "course": "user:ada/workflow:w1",
        "talk": "user:ada/thread:t1",
        "scratch": "user:ada/run:r1",
    }


def test_a_write_is_kept_whole_or_not_at_all(memory: Memory, load: Load, scoped: list[Definition]) -> None:
    working = load(*scoped)
    working.write({"everywhere": {"n": 1}})
    before = facts(memory)
    with pytest.raises(SchemaViolation):
        working.write({"everywhere": {"n": 2}, "course": {"n": 2}, "scratch": {"n": "wrong"}})
    assert facts(memory) == before
    assert working.values == {"everywhere": {"n": 1}}
    working.write({"everywhere": {"n": 2}, "course": {"n": 2}, "scratch": {"n": 2}})
    assert len(facts(memory)) == 3


def test_28_an_update_keeps_the_record_and_moves_its_expiry(
    memory: Memory, clock: FakeClock, define: Define, load: Load
) -> None:
    define("tally", ttl=60)
    ada = memory.scope(user="ada")
    load().write({"tally": {"n": 1}})
    first = ada.get("tally")
    clock.advance(10)
    load().write({"tally": {"n": 2}})
    second = ada.get("tally")
    assert first is not None and second is not None
    assert second.id == first.id
    assert second.expires_at == clock.now() + timedelta(seconds=60)


def test_29_a_new_global_record_has_its_expiry_and_lies_in_no_workflow_or_run(
    memory: Memory, clock: FakeClock, define: Define, load: Load
) -> None:
    define("tally", ttl=60)
    load().write({"tally": {"n": 1}})
    [fact] = facts(memory)
    assert str(fact.scope) == "user:ada"
    assert fact.expires_at == clock.now() + timedelta(seconds=60)


def test_t3_a_write_replaces_the_record_and_fields_that_are_not_sent_are_gone(define: Define, load: Load) -> None:
    define("singer", schema=SINGER)
    load().write({"singer": {"stage_name": "Ada", "voice": "alto"}})
    working = load()
    assert working.write({"singer": {"voice": "tenor"}}) == {"singer": {"voice": "tenor"}}
    assert working.values == load().values == {"singer": {"voice": "tenor"}}


def test_t6_a_record_is_gone_at_exactly_its_end_and_a_write_begins_its_time_anew(
    clock: FakeClock, define: Define, load: Load
) -> None:
    define("brief", ttl=60)
    define("lasting")
    load().write({"brief": {"n": 1}, "lasting": {"n": 1}})
    clock.advance(59)
    load().write({"brief": {"n": 2}})
    clock.advance(59.999)
    assert load().values == {"brief": {"n": 2}, "lasting": {"n": 1}}
    clock.advance(0.001)
    assert load().values == {"lasting": {"n": 1}}
    clock.advance(86_400 * 3_650)
    assert load().values == {"lasting": {"n": 1}}


def test_t6_reading_does_not_lengthen_a_life_and_a_run_keeps_what_it_began_with(
    clock: FakeClock, define: Define, load: Load
) -> None:
    define("brief", ttl=60)
    load().write({"brief": {"n": 1}})
    clock.advance(59)
    working = load()
    clock.advance(1)
    assert working.values == {"brief": {"n": 1}}
    assert load().values == {}


def test_t6_a_sweep_removes_what_has_expired_and_counts_it_by_definition(
    memory: Memory, clock: FakeClock, define: Define, load: Load
) -> None:
    define("brief", ttl=60)
    define("longer", ttl=61)
    define("lasting")
    for owner in ("ada", "bo"):
        load(owner=owner).write({"brief": {"n": 1}, "longer": {"n": 1}, "lasting": {"n": 1}})
    memory.scope(user="ada").set("no_record", 1, ttl=60)
    assert sweep_expired(memory) == {}
    clock.advance(60)
    assert sweep_expired(memory) == {"brief": 2}
    assert sweep_expired(memory) == {}
    clock.advance(1)
    assert sweep_expired(memory) == {"longer": 2}
    assert load().values == {"lasting": {"n": 1}}


def test_t6_a_sweep_counts_beyond_what_is_removed_at_once(memory: Memory, clock: FakeClock, define: Define) -> None:
    define("brief", ttl=60)
    with memory.batch() as batch:
        for number in range(700):
            batch.set(memory.scope(user=f"u{number}"), "brief", {"n": number})
    clock.advance(60)
    assert sweep_expired(memory) == {"brief": 700}


def test_t7_a_write_after_the_end_revives_one_record_without_its_old_fields(
    memory: Memory, clock: FakeClock, define: Define, load: Load
) -> None:
    define("singer", schema=SINGER, ttl=60, mode="merge")
    load().write({"singer": {"stage_name": "Ada"}})
    clock.advance(60)
    assert load().write({"singer": {"voice": "alto"}}) == {"singer": {"voice": "alto"}}
    assert load().values == {"singer": {"voice": "alto"}}
    assert len(memory.definitions.records("singer")) == 1
    assert load().write({"singer": {"stage_name": "Bo"}}) == {"singer": {"voice": "alto", "stage_name": "Bo"}}


def test_t13_a_later_reader_sees_an_earlier_write_and_what_was_held_before_stays_as_it_was(
    define: Define, load: Load
) -> None:
    define("tally")
    define("other")
    working = load()
    working.write({"other": {"n": 0}})
    held = working.values
    given = working.write({"tally": {"n": 1}})
    assert working.values == {"other": {"n": 0}, "tally": {"n": 1}}
    assert held == {"other": {"n": 0}}
    given["tally"]["n"] = 99
    assert working.values["tally"] == {"n": 1}


def test_of_writes_at_once_the_values_show_what_the_last_one_left(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    working, together = load(), threading.Barrier(8)

    def write(number: int) -> None:
        together.wait()
        for turn in range(20):
            working.write({"tally": {"n": number * 100 + turn}})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert working.values == {"tally": memory.scope(user="ada").value("tally")}
    assert len(memory.scope(user="ada").history("tally")) == 160


def test_a_write_that_comes_back_late_does_not_hide_a_later_one(
    memory: Memory, define: Define, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    define("tally")
    working, perform = load(), memory.perform
    kept, go_on = threading.Event(), threading.Event()

    def perform_and_wait(effect: Any) -> Any:
        done = perform(effect)
        if threading.current_thread() is slow:
            kept.set()
            assert go_on.wait(60)
        return done

    monkeypatch.setattr(memory, "perform", perform_and_wait)
    slow = threading.Thread(target=working.write, args=({"tally": {"n": 1}},))
    slow.start()
    assert kept.wait(60)
    assert working.values == {}
    working.write({"tally": {"n": 2}})
    go_on.set()
    slow.join()
    assert working.values == {"tally": {"n": 2}} == {"tally": memory.scope(user="ada").value("tally")}


# --- the end of a run -------------------------------------------------------------------------------------------


def test_the_records_of_a_run_go_with_it_and_no_others(memory: Memory, load: Load, scoped: list[Definition]) -> None:
    everything = {slug: {"n": 1} for slug in ("everywhere", "course", "talk", "scratch")}
    working = load(*scoped)
    working.write(everything)
    load(*scoped, run="r2").write({"scratch": {"n": 2}})
    load(*scoped, owner="bo").write({"scratch": {"n": 3}})
    assert load(*scoped).values == everything  # suspended and taken up again

    assert memory.scope(user="ada", run="r1").end()["facts"] == 1
    assert memory.scope(user="ada", run="r1").end() == {}
    rest = {slug: {"n": 1} for slug in ("everywhere", "course", "talk")}
    assert load(*scoped).values == rest
    assert load(*scoped, run="r2").values == {**rest, "scratch": {"n": 2}}
    assert load(*scoped, owner="bo").values == {"scratch": {"n": 3}}
    assert memory.scope(user="ada", run="r1").history("scratch") == []
    with pytest.raises(ScopeEnded):
        working.write({"everywhere": {"n": 9}, "scratch": {"n": 9}})
    assert working.write({"course": {"n": 2}}) == {"course": {"n": 2}}


def test_erasing_an_owner_takes_the_records_of_every_scope(
    memory: Memory, load: Load, scoped: list[Definition]
) -> None:
    everything = {slug: {"n": 1} for slug in ("everywhere", "course", "talk", "scratch")}
    for owner in ("ada", "bo"):
        load(*scoped, owner=owner).write(everything)
    memory.erase(user="ada")
    assert load(*scoped, owner="ada").values == {}
    assert load(*scoped, owner="bo").values == everything
