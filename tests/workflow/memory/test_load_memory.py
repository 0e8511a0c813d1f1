"""Which definitions and records a run begins with. A number in a name is that of a behaviour, or T and a claim."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest

import memoranda
from memoranda import Policy
from memoranda.api.memory import Memory
from memoranda.engine.schemas import fill_defaults
from memoranda.errors import Denied, InvalidDefinition, InvalidScope, NotFound, SchemaViolation, UsageError
from memoranda.model.definition import Definition
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.runs.records import WorkingMemory, load_memory
from memoranda.store.memory import MemoryStore
from memoranda.testing import FakeClock

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]

EVERYTHING = {"everywhere": {"n": 1}, "course": {"n": 2}, "talk": {"n": 3}, "scratch": {"n": 4}}


# --- what is loaded ---------------------------------------------------------------------------------------------


def test_01_a_record_is_loaded_as_a_value_under_its_slug_and_the_working_memory_itself_is_no_value(
    memory: Memory, define: Define, load: Load
) -> None:
    made = define("tally")
    memory.scope(user="ada").set("tally", {"n": 1})
    working = load()
    assert working.values == {"tally": {"n": 1}}
    assert msgspec.json.encode(working.values) == b'{"tally":{"n":1}}'
    assert dict(working.definitions) == {"tally": made}
    with pytest.raises(TypeError):
        msgspec.json.encode(working)


def test_02_records_of_unknown_and_of_replaced_definitions_are_left_out(
    memory: Memory, define: Define, load: Load
) -> None:
    define("known")
    away = define("away", scope="workflow")
    ada = memory.scope(user="ada")
    ada.set("known", {"n": 1})
    ada.set("no_definition", {"n": 2})
    memory.scope(user="ada", workflow="w1").set("away", {"n": 3})
    assert load().values == {"known": {"n": 1}}
    assert load(away).values == {"known": {"n": 1}, "away": {"n": 3}}
    memory.definitions.delete("away")
    again = define("away", scope="thread")
    assert load(again).values == {"known": {"n": 1}}


def test_03_of_several_writes_the_newest_is_the_one_record(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    for n in (1, 2, 3):
        load().write({"tally": {"n": n}})
    assert load().values == {"tally": {"n": 3}}
    assert len(memory.definitions.records("tally")) == 1


def test_04_a_schema_that_cannot_be_checked_never_becomes_a_definition(memory: Memory, load: Load) -> None:
    unknown_type = {"type": "object", "properties": {"n": {"type": "fraction"}}}
    for schema in ({"type": "array"}, {"type": "nothing"}, unknown_type):
        with pytest.raises(InvalidDefinition):
            memory.definitions.create(name="N", slug="n", schema=schema)
    assert dict(load().definitions) == {}
    memory.definitions.create(name="N", slug="n", schema={"type": "object"})
    assert list(load().definitions) == ["n"]


@pytest.mark.parametrize("owner", [None, "", 5])
def test_18_24_without_an_owner_nothing_is_read(owner: Any) -> None:
    class Unread(MemoryStore):
        def read(self, work: Any, *, snapshot: bool = True) -> Any:
            raise AssertionError("the store was read")

    memory = Memory(Unread())
    with pytest.raises(InvalidScope):
        load_memory(memory, owner=owner)
    with pytest.raises(AssertionError):
        load_memory(memory, owner="ada")


def test_19_25_an_owner_alone_has_the_global_records_that_have_not_expired(
    memory: Memory, clock: FakeClock, define: Define, load: Load, scoped: list[Definition]
) -> None:
    define("brief", ttl=60)
    load(*scoped).write({**EVERYTHING, "brief": {"n": 9}})
    assert load(*scoped, workflow=None, thread=None, run=None).values == {"everywhere": {"n": 1}, "brief": {"n": 9}}
    clock.advance(60)
    assert load(*scoped, workflow=None, thread=None, run=None).values == {"everywhere": {"n": 1}}


def test_20_21_26_27_ids_of_workflow_thread_and_run_each_add_their_records_and_expired_ones_are_left_out(
    clock: FakeClock, define: Define, load: Load, scoped: list[Definition]
) -> None:
    brief = define("brief", scope="workflow", ttl=60)
    load(*scoped, brief).write({**EVERYTHING, "brief": {"n": 9}})
    assert load(*scoped, brief, thread=None).values.keys() == {"everywhere", "course", "scratch", "brief"}
    assert load(*scoped, brief, run=None).values.keys() == {"everywhere", "course", "talk", "brief"}
    assert load(*scoped, brief, workflow=None).values.keys() == {"everywhere", "talk", "scratch"}
    clock.advance(60)
    assert load(*scoped, brief).values == EVERYTHING


def test_32_33_only_global_definitions_are_known_unless_others_are_named(load: Load, scoped: list[Definition]) -> None:
    assert list(load().definitions) == ["everywhere"]
    assert list(load(scoped[3], scoped[1], scoped[1]).definitions) == ["everywhere", "course", "scratch"]


def test_34_all_missing_ids_are_named_at_once(load: Load, scoped: list[Definition]) -> None:
    gone, never = str(UUID(int=5)), str(UUID(int=6))
    with pytest.raises(NotFound) as caught:
        load(definition_ids=[scoped[1].id, gone, never, gone])
    assert gone in str(caught.value) and never in str(caught.value)
    assert scoped[1].id not in str(caught.value)
    assert caught.value.missing == [gone, never]
    assert "course" in load(definition_ids=[scoped[1].id.upper()]).definitions


def test_the_definitions_that_a_task_mounts_come_in_its_order_and_each_once(
    load: Load, scoped: list[Definition]
) -> None:
    working = load(*scoped)
    ids = [scoped[2].id, scoped[0].id, scoped[2].id.upper()]
    assert [one.slug for one in working.mounted(ids)] == ["talk", "everywhere"]
    with pytest.raises(NotFound) as caught:
        load().mounted([scoped[0].id, scoped[1].id])
    assert caught.value.missing == [scoped[1].id]


# --- whose it is ------------------------------------------------------------------------------------------------


def test_t4_two_owners_are_apart_and_one_owner_is_the_same_in_two_workflows(define: Define, load: Load) -> None:
    define("tally")
    load(owner="ada", workflow="w1").write({"tally": {"n": 1}})
    assert load(owner="bo").values == {}
    load(owner="bo").write({"tally": {"n": 2}})
    assert load(owner="ada", workflow="w2", run="r2").values == {"tally": {"n": 1}}
    assert load(owner="bo").values == {"tally": {"n": 2}}


def test_t5_a_record_of_a_workflow_is_shared_by_its_runs_and_hidden_from_other_workflows(
    load: Load, scoped: list[Definition]
) -> None:
    load(*scoped).write({"course": {"n": 1}})
    assert load(*scoped, run="r2", thread="t2").values == {"course": {"n": 1}}
    assert load(*scoped, workflow="w2").values == {}


def test_t5_a_record_of_a_thread_is_shared_by_workflows_and_hidden_from_other_threads(
    load: Load, scoped: list[Definition]
) -> None:
    load(*scoped).write({"talk": {"n": 1}})
    assert load(*scoped, workflow="w2", run="r2").values == {"talk": {"n": 1}}
    assert load(*scoped, thread="t2").values == {}


def test_t5_a_record_of_a_run_is_there_when_the_run_goes_on_and_hidden_from_the_next(
    load: Load, scoped: list[Definition]
) -> None:
    load(*scoped).write({"scratch": {"n": 1}})
    assert load(*scoped).values == {"scratch": {"n": 1}}
    assert load(*scoped, run="r2").values == {}


def test_tenants_are_apart(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    load().write({"tally": {"n": 1}})
    with memoranda.open(":memory:", tenant="elsewhere") as elsewhere:
        assert dict(load_memory(elsewhere, owner="ada").definitions) == {}
    assert load().values == {"tally": {"n": 1}}


def test_a_definition_of_a_scope_that_no_run_has_is_known_and_has_no_record(
    memory: Memory, define: Define, load: Load
) -> None:
    guild = define("guild", scope="project")
    memory.scope(project="p").set("guild", {"n": 1})
    working = load(guild)
    assert list(working.definitions) == ["guild"]
    assert working.values == {}
    with pytest.raises(UsageError) as caught:
        working.write({"guild": {"n": 2}})
    assert caught.value.kind == "project"
    assert memory.scope(project="p").value("guild") == {"n": 1}


def test_a_record_whose_definition_moved_to_another_scope_is_out_of_sight(
    memory: Memory, define: Define, load: Load
) -> None:
    tally = define("tally")
    load().write({"tally": {"n": 1}})
    memory.definitions.update("tally", scope="workflow")
    assert load(tally).values == {}
    load(tally).write({"tally": {"n": 2}})
    assert load(tally).values == {"tally": {"n": 2}}
    memory.definitions.update("tally", scope="global")
    assert load(tally).values == {"tally": {"n": 1}}


# --- what is not as it should be --------------------------------------------------------------------------------


def test_t16_a_stored_record_that_no_longer_fits_is_refused_with_its_slug_and_id(
    memory: Memory, define: Define, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    define("tally", schema={"type": "object", "properties": {"n": {}}})
    define("other")
    load().write({"tally": {"n": "many"}, "other": {"n": 1}})
    kept = memory.scope(user="ada").get("tally")
    assert kept is not None
    stricter = {"type": "object", "properties": {"n": {"type": "integer"}}}
    changed = memory.definitions.update("tally", schema=stricter, stale="keep")
    with pytest.raises(SchemaViolation) as caught:
        load(changed)
    assert "tally" in str(caught.value) and kept.id in str(caught.value)
    error = caught.value
    assert (error.slug, error.id, error.definition, error.path) == ("tally", kept.id, changed.id, "$.n")

    for options in ({"on_invalid": "skip"}, {}):
        # A program that does not name the definition goes on without its record, whatever `on_invalid` says.
        working = load(*([changed] if options else []), **options)
        assert working.values == {"other": {"n": 1}}
        assert [(one.slug, one.id) for one in working.skipped] == [("tally", kept.id)]
    with caplog.at_level("WARNING"):
        load()
    assert "tally" in caplog.text and "many" not in caplog.text
    working.write({"tally": {"n": 5}})
    assert load(changed).values == {"tally": {"n": 5}, "other": {"n": 1}}
    assert load().skipped == ()


def test_there_is_no_third_way_to_load(define: Define, load: Load) -> None:
    define("tally")
    with pytest.raises(UsageError):
        load(on_invalid="repair")
    assert load(on_invalid="raise").values == {}


def test_t18_a_deleted_definition_takes_its_records_and_whoever_names_it_cannot_load(
    memory: Memory, define: Define, load: Load
) -> None:
    tally, other = define("tally", scope="workflow"), define("other")
    load(tally).write({"tally": {"n": 1}, "other": {"n": 2}})
    assert memory.definitions.delete(tally.id) == 1
    assert memory.scope(user="ada", workflow="w1").get("tally") is None
    with pytest.raises(NotFound) as caught:
        load(tally)
    assert caught.value.missing == [tally.id]
    assert load(other).values == {"other": {"n": 2}}


def test_defaults_of_the_schema_are_filled_in_and_belong_to_the_value_alone(
    memory: Memory, define: Define, load: Load
) -> None:
    memory.scope(user="ada").set("singer", {"voice": "alto"})
    schema = {
        "type": "object",
        "properties": {
            "voice": {"type": "string"},
            "pieces": {"type": "array", "items": {"type": "string"}, "default": ["Kyrie"]},
            "seat": {"type": "object", "properties": {"row": {"type": "integer", "default": 2}}, "default": {"row": 3}},
        },
    }
    define("singer", schema=schema)
    first = load()
    assert first.values == {"singer": {"voice": "alto", "pieces": ["Kyrie"], "seat": {"row": 3}}}
    first.values["singer"]["pieces"].append("Gloria")
    assert first.definitions["singer"].schema["properties"]["pieces"]["default"] == ["Kyrie"]
    assert load().values["singer"]["pieces"] == ["Kyrie"]
    assert load().write({"singer": {"seat": {}}}) == {"singer": {"pieces": ["Kyrie"], "seat": {"row": 2}}}


def test_defaults_of_a_schema_in_parts_are_filled_in_at_any_depth() -> None:
    deeper = {"properties": {"x": {"$ref": "#"}, "n": {"default": 1}}}
    schema: dict[str, Any] = {"type": "object", "allOf": [deeper, dict(deeper)]}
    value: Any = {}
    filled: Any = {"n": 1}
    for _ in range(50):  # by each part for itself, these would be 2 to the power of 50 visits
        value, filled = {"x": value}, {"x": filled, "n": 1}
    assert fill_defaults(schema, value) == filled


# --- how it is read ---------------------------------------------------------------------------------------------


class CountingStore(MemoryStore):
    """A store that counts how often it is read."""

    reads = 0

    def read(self, work: Any, *, snapshot: bool = True) -> Any:
        self.reads += 1
        return super().read(work)


def test_two_hundred_records_are_read_at_once() -> None:
    store = CountingStore()
    with Memory(store) as memory:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        for number in range(200):
            memory.definitions.create(name=f"N{number}", slug=f"n{number}", schema=schema)
        everything = {f"n{number}": {"n": number} for number in range(200)}
        load_memory(memory, owner="ada").write(everything)
        store.reads = 0
        assert load_memory(memory, owner="ada", workflow="w").values == everything
        assert store.reads == 2  # the definitions, and all the records


def test_a_load_is_one_moment_and_sees_a_batch_whole_or_not_at_all(load: Load, scoped: list[Definition]) -> None:
    working = load(*scoped)
    working.write({slug: {"n": 0} for slug in EVERYTHING})
    done = threading.Event()

    def write() -> None:
        for n in range(1, 200):
            working.write({slug: {"n": n} for slug in EVERYTHING})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [load(*scoped).values for _ in range(50)]
    writer.join()
    assert done.is_set()
    assert all(len({value["n"] for value in values.values()}) == 1 for values in seen)
    assert load(*scoped).values == {slug: {"n": 199} for slug in EVERYTHING}


# --- who may ----------------------------------------------------------------------------------------------------


def test_global_records_that_an_actor_may_not_read_are_left_out_unless_they_are_named(
    memory: Memory, define: Define
) -> None:
    open_, closed = define("open"), define("closed")
    load_memory(memory, owner="ada").write({"open": {"n": 1}, "closed": {"n": 2}})
    policy = Policy.of(allow=("memory", "definitions.read"), access={"closed": "none"})
    agent = memory.acting_as("agent", policy=policy)
    assert load_memory(agent, owner="ada").values == {"open": {"n": 1}}
    assert [event.decision for event in memory.ledger.events() if event.decision == "deny"] == []
    assert load_memory(agent, owner="ada", definition_ids=[open_.id]).values == {"open": {"n": 1}}
    with pytest.raises(Denied):
        load_memory(agent, owner="ada", definition_ids=[closed.id])
    assert load_memory(memory, owner="ada", definition_ids=[closed.id]).values == {"open": {"n": 1}, "closed": {"n": 2}}


def test_an_actor_of_one_user_cannot_load_the_memory_of_another(memory: Memory, define: Define) -> None:
    tally = define("tally")
    for owner in ("ada", "bo"):
        load_memory(memory, owner=owner).write({"tally": {"n": 1}})
    rules = (Rule("allow", "memory", scope=Scope.of(user="ada")), Rule("allow", "definitions.read"))
    agent = memory.acting_as("agent", policy=Policy(rules=rules))
    assert load_memory(agent, owner="ada", definition_ids=[tally.id]).values == {"tally": {"n": 1}}
    with pytest.raises(Denied):
        load_memory(agent, owner="bo", definition_ids=[tally.id])
