"""Behaviours 1 to 3 and 7 to 30 of the checklist: which records a run reads and writes, seen through whole runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from memoranda.api.memory import Memory
from memoranda.engine.transfer import Export
from memoranda.errors import InvalidScope, UsageError
from memoranda.model.definition import Definition
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.runs.records import load_memory
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import present
from memoranda.workflow import Run

Define = Callable[..., Definition]
Load = Callable[..., Any]
Keep = Callable[..., Run]
Look = Callable[..., dict[str, Any]]

EVERYTHING = {"plot": {"n": 1}, "season": {"n": 2}, "gossip": {"n": 3}, "errand": {"n": 4}}
PLOT: dict[str, Any] = {
    "type": "object",
    "properties": {"main_crop": {"type": "string"}, "beds": {"type": "integer"}},
    "required": ["main_crop"],
}


def records(memory: Memory) -> dict[str, Fact]:
    """Return the current records by scope and key, without the internal facts of runs and threads."""
    facts: list[Fact] = memory.perform(Export(scope=Scope.of(tenant=memory.tenant))).facts
    slugs = {one.slug for one in memory.definitions.list()}
    return {f"{fact.scope}/{fact.key}": fact for fact in facts if fact.key in slugs}


def failure(run: Run) -> str:
    """Return why a run failed, at its one task."""
    assert run.status == "failed"
    assert run.error is not None and run.error.step == "keep"
    assert run.output is None
    assert run.verify().ok
    return run.error.type


# --- loading ----------------------------------------------------------------------------------------------------


def test_01_a_record_is_a_value_of_the_context_and_the_store_itself_is_never_written_down(
    memory: Memory, define: Define, keep: Keep
) -> None:
    define("plot")
    memory.scope(user="nora").set("plot", {"n": 1})
    run = keep({}).check()
    assert run.context == {"memory": {"plot": {"n": 1}}}
    assert run.output["seen"] == {"plot": {"n": 1}}
    assert msgspec.json.decode(msgspec.json.encode(run.context)) == run.context
    with pytest.raises(TypeError):
        msgspec.json.encode(load_memory(memory, owner="nora"))


def test_02_records_of_unknown_and_of_replaced_definitions_are_left_out(
    memory: Memory, define: Define, look: Look
) -> None:
    define("plot")
    season = define("season", scope="workflow")
    nora = memory.scope(user="nora")
    nora.set("plot", {"n": 1})
    nora.set("nobody_defined_this", {"n": 2})
    memory.scope(user="nora", workflow="garden").set("season", {"n": 3})
    assert look() == {"plot": {"n": 1}}
    assert look(season) == {"plot": {"n": 1}, "season": {"n": 3}}
    memory.definitions.delete("season")
    assert look(define("season", scope="thread"), thread="t1") == {"plot": {"n": 1}}


def test_03_a_slug_has_one_record_and_it_is_the_newest(memory: Memory, define: Define, keep: Keep, look: Look) -> None:
    define("plot")
    for n in (1, 2, 3):
        keep({"plot": {"n": n}}).check()
    assert look() == {"plot": {"n": 3}}
    assert len(memory.definitions.records("plot")) == 1


@pytest.mark.parametrize("owner", [None, "", 5, "a\nb"])
def test_18_24_without_an_owner_no_run_begins_and_nothing_is_read(
    memory: Memory, define: Define, keep: Keep, owner: Any
) -> None:
    define("plot")
    before = memory.ledger.anchor()
    with pytest.raises(InvalidScope):
        keep({"plot": {"n": 1}}, owner=owner)
    assert memory.ledger.anchor() == before
    assert memory.runs.list() == []
    assert keep({"plot": {"n": 1}}).check().context == {"memory": {"plot": {"n": 1}}}


def test_19_25_a_run_that_names_no_definition_has_the_global_records_that_have_not_expired(
    clock: FakeClock, define: Define, keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    define("frost", ttl=60)
    keep({**EVERYTHING, "frost": {"n": 9}}, *scoped, thread="t1").check()
    assert look() == {"plot": {"n": 1}, "frost": {"n": 9}}
    clock.advance(60)
    assert look() == {"plot": {"n": 1}}


def test_20_21_26_27_a_run_has_the_records_of_its_workflow_and_thread_without_the_expired_ones(
    clock: FakeClock, define: Define, load: Load, keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    frost = define("frost", scope="workflow", ttl=60)
    run = keep({**EVERYTHING, "frost": {"n": 9}}, *scoped, frost, thread="t1").check()
    assert run.context["memory"] == {**EVERYTHING, "frost": {"n": 9}}, "its own record of the run is among them"
    assert look(*scoped, frost, thread="t1").keys() == {"plot", "season", "gossip", "frost"}
    assert look(*scoped, frost).keys() == {"plot", "season", "frost"}
    assert look(*scoped, frost, thread="t1", name="other").keys() == {"plot", "gossip"}
    clock.advance(60)
    assert look(*scoped, frost, thread="t1").keys() == {"plot", "season", "gossip"}


# --- refusals ---------------------------------------------------------------------------------------------------


def test_07_update_without_an_owner_fails(memory: Memory, define: Define, keep: Keep) -> None:
    define("plot")
    with pytest.raises(InvalidScope):
        keep({"plot": {"n": 1}}, owner=None)
    assert records(memory) == {}
    keep({"plot": {"n": 1}}).check()
    assert list(records(memory)) == ["user:nora/plot"]


def test_08_an_unknown_slug_fails_the_task_and_nothing_is_written(memory: Memory, define: Define, keep: Keep) -> None:
    define("plot")
    run = keep({"plot": {"n": 1}, "plott": {"n": 1}})
    assert failure(run) == "not_found"
    assert run.error is not None and "plott" in run.error.message
    assert (records(memory), run.context["memory"]) == ({}, {})
    assert keep({"plot": {"n": 1}}).check().context["memory"] == {"plot": {"n": 1}}


@pytest.mark.parametrize(("slug", "kind"), [("season", "workflow"), ("errand", "run")], ids=["09", "10"])
def test_09_10_records_of_workflow_and_run_need_their_ids(
    memory: Memory, keep: Keep, scoped: list[Definition], slug: str, kind: str
) -> None:
    """Every run has both ids, so that only the working memory itself can lack one."""
    ids = {"workflow": "garden", "thread": "t1", "run": "r1", kind: None}
    working = load_memory(memory, owner="nora", definition_ids=[one.id for one in scoped], **ids)
    with pytest.raises(UsageError) as caught:
        working.write({"plot": {"n": 1}, slug: {"n": 1}})
    assert (caught.value.slug, caught.value.kind) == (slug, kind)
    assert records(memory) == {}
    assert keep({slug: {"n": 1}}, *scoped).check().output["given"] == {"memory": {slug: {"n": 1}}}


def test_11_a_record_of_a_thread_cannot_be_written_by_a_run_in_none(
    memory: Memory, keep: Keep, scoped: list[Definition]
) -> None:
    run = keep({"plot": {"n": 1}, "gossip": {"n": 1}}, *scoped)
    assert failure(run) == "usage_error"
    assert run.error is not None and "thread" in run.error.message
    assert records(memory) == {}
    keep({"gossip": {"n": 1}}, *scoped, thread="t1").check()
    assert list(records(memory)) == ["user:nora/thread:t1/gossip"]


@pytest.mark.parametrize("bad", [{"n": "one"}, {}, {"n": True}, {"n": 1, "m": 2}, [1], "text", None])
def test_12_a_value_that_the_schema_refuses_fails_the_task_and_the_record_stays(
    memory: Memory, define: Define, keep: Keep, bad: Any
) -> None:
    define("plot")
    keep({"plot": {"n": 1}}).check()
    run = keep({"plot": bad})
    assert failure(run) == "schema_violation"
    assert run.context["memory"] == {"plot": {"n": 1}}
    assert records(memory)["user:nora/plot"].value == {"n": 1}
    assert keep({"plot": {"n": 2}}).check().context["memory"] == {"plot": {"n": 2}}


# --- what is written --------------------------------------------------------------------------------------------


def test_13_22_a_write_is_kept_once_with_all_ids_and_seen_at_once(
    memory: Memory, keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    run = keep({"season": {"n": 1}}, *scoped, thread="t1").check()
    assert run.output == {"given": {"memory": {"season": {"n": 1}}}, "seen": {"season": {"n": 1}}}
    assert run.outputs == {"keep": {"memory": {"season": {"n": 1}}}}
    assert look(*scoped) == {"season": {"n": 1}}
    [(place, fact)] = records(memory).items()
    assert (place, fact.version) == ("user:nora/workflow:garden/season", 1)


def test_14_30_a_record_of_a_thread_lies_in_the_thread_and_in_no_workflow_or_run(
    memory: Memory, keep: Keep, scoped: list[Definition]
) -> None:
    keep({"gossip": {"n": 1}}, *scoped, thread="t1").check()
    assert list(records(memory)) == ["user:nora/thread:t1/gossip"]


def test_15_an_empty_batch_gives_nothing_and_writes_nothing(memory: Memory, define: Define, keep: Keep) -> None:
    define("plot")
    run = keep({}).check()
    assert (run.outputs, run.context) == ({"keep": {}}, {"memory": {}})
    assert not [event for event in memory.ledger.events() if event.key == "plot"]
    keep({"plot": {"n": 1}}).check()
    assert [event.effect for event in memory.ledger.events() if event.key == "plot"] == ["set_fact"]


def test_16_several_records_are_written_in_the_order_given_and_all_are_seen(
    memory: Memory, define: Define, keep: Keep
) -> None:
    define("first")
    define("second")
    run = keep({"second": {"n": 2}, "first": {"n": 1}}).check()
    assert list(run.output["given"]["memory"]) == ["second", "first"]
    assert run.context["memory"] == {"second": {"n": 2}, "first": {"n": 1}}
    written = [event.key for event in memory.ledger.events() if event.key in ("first", "second")]
    assert written == ["second", "first"]


@pytest.mark.parametrize(("mode", "fits"), [("merge", True), ("replace", False)])
def test_17_a_partial_object_keeps_a_required_field_only_where_the_definition_merges(
    define: Define, keep: Keep, look: Look, mode: str, fits: bool
) -> None:
    define("plot", schema=PLOT, mode=mode)
    keep({"plot": {"main_crop": "leeks"}}).check()
    run = keep({"plot": {"beds": 3}})
    if fits:
        assert run.check().output["given"] == {"memory": {"plot": {"main_crop": "leeks", "beds": 3}}}
    else:
        assert failure(run) == "schema_violation"
    assert look()["plot"]["main_crop"] == "leeks"


def test_23_a_write_to_every_scope_lies_where_each_belongs_and_that_of_the_run_goes_with_it(
    memory: Memory, clock: FakeClock, load: Load, keep: Keep, look: Look, scoped: list[Definition]
) -> None:
    run = keep(EVERYTHING, *scoped, thread="t1").check()
    assert run.output["seen"] == EVERYTHING
    assert {place: fact.value for place, fact in records(memory).items()} == {
        "user:nora/plot": {"n": 1},
        "user:nora/workflow:garden/season": {"n": 2},
        "user:nora/thread:t1/gossip": {"n": 3},
    }
    errand = [event for event in memory.ledger.events() if event.key == "errand" and event.effect == "set_fact"]
    assert [event.scope for event in errand] == [f"user:nora/run:{run.id}"]
    assert look(*scoped, thread="t1") == {"plot": {"n": 1}, "season": {"n": 2}, "gossip": {"n": 3}}


def test_28_an_update_keeps_the_record_and_moves_its_expiry(
    memory: Memory, clock: FakeClock, define: Define, keep: Keep
) -> None:
    define("plot", ttl=60)
    keep({"plot": {"n": 1}}).check()
    first = records(memory)["user:nora/plot"]
    clock.advance(10)
    keep({"plot": {"n": 2}}).check()
    second = records(memory)["user:nora/plot"]
    assert (second.id, second.value) == (first.id, {"n": 2})
    assert second.expires_at == clock.now() + timedelta(seconds=60)
    assert second.expires_at == present(first.expires_at) + timedelta(seconds=10)


def test_29_a_new_global_record_has_its_expiry_and_lies_in_no_workflow_or_run(
    memory: Memory, clock: FakeClock, define: Define, keep: Keep
) -> None:
    define("plot", ttl=60)
    keep({"plot": {"n": 1}}, thread="t1").check()
    [(place, fact)] = records(memory).items()
    assert place == "user:nora/plot"
    assert fact.expires_at == clock.now() + timedelta(seconds=60)
