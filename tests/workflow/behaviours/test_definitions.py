"""Behaviours 4, 31 to 41 and 53 to 56: definitions, and workflows that travel with theirs.

Behaviours 35 to 41 are those of a REST controller; here the same is asked of `memory.definitions`, which every door
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import AlreadyExists, Conflict, InvalidDefinition, NotFound, UsageError
from memoranda.model.definition import Definition
from memoranda.testing.conformance.base import present
from memoranda.workflow import Run
from memoranda.workflow.transfer import export_workflow, import_workflow

Define = Callable[..., Definition]
Load = Callable[..., Any]
Keep = Callable[..., Run]
Look = Callable[..., dict[str, Any]]

COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_04_a_schema_that_cannot_be_checked_never_becomes_a_definition(memory: Memory, look: Look, keep: Keep) -> None:
    unknown_type = {"type": "object", "properties": {"n": {"type": "fraction"}}}
    for schema in ({"type": "array"}, {"type": "nothing"}, unknown_type):
        with pytest.raises(InvalidDefinition):
            memory.definitions.create(name="N", slug="n", schema=schema)
    assert look() == {}
    memory.definitions.create(name="N", slug="n", schema={"type": "object", "properties": {"n": {}}})
    assert keep({"n": {"n": 1}}).check().context["memory"] == {"n": {"n": 1}}


# --- finding ----------------------------------------------------------------------------------------------------


def test_31_a_definition_is_found_by_its_slug_or_not_at_all(memory: Memory, define: Define) -> None:
    plot = define("plot")
    assert memory.definitions.get("plot") == plot
    with pytest.raises(NotFound) as caught:
        memory.definitions.get("plots")
    assert caught.value.missing == ["plots"]


def test_32_33_a_run_knows_global_definitions_and_those_that_it_names(keep: Keep, scoped: list[Definition]) -> None:
    for other in ("season", "errand"):
        assert present(keep({other: {"n": 1}}).error).type == "not_found"
    assert keep({"plot": {"n": 1}}).check().context["memory"] == {"plot": {"n": 1}}
    named = keep({"season": {"n": 2}, "errand": {"n": 4}}, scoped[1], scoped[3]).check()
    assert named.context["memory"] == {"plot": {"n": 1}, "season": {"n": 2}, "errand": {"n": 4}}
    assert present(keep({"gossip": {"n": 3}}, scoped[1], thread="t1").error).type == "not_found"


def test_34_missing_ids_are_all_named_before_a_run_begins(memory: Memory, keep: Keep, scoped: list[Definition]) -> None:
    gone, never = str(UUID(int=5)), str(UUID(int=6))
    before = memory.ledger.anchor()
    with pytest.raises(NotFound) as caught:
        keep({}, scoped[1], gone, never)
    assert gone in str(caught.value) and never in str(caught.value)
    assert scoped[1].id not in str(caught.value)
    assert (memory.ledger.anchor(), memory.runs.list()) == (before, [])
    assert keep({}, scoped[1]).check().status == "completed"


# --- what a controller does -------------------------------------------------------------------------------------


def test_35_a_definition_is_created_with_all_that_was_said(memory: Memory) -> None:
    made = memory.definitions.create(name="Plot", slug="plot", schema=COUNT, scope="thread", ttl=60, mode="merge")
    assert (made.name, made.slug, made.scope, made.ttl, made.mode) == ("Plot", "plot", "thread", 60, "merge")
    for name, slug in (("Plot", "other"), ("Other", "plot")):
        with pytest.raises(AlreadyExists):
            memory.definitions.create(schema=COUNT, name=name, slug=slug)
    for slug in ("bad-slug", "", "Plot", "a.b"):
        with pytest.raises(InvalidDefinition):
            memory.definitions.create(name="Other", slug=slug, schema=COUNT)
    assert memory.definitions.list() == [made]


def test_36_37_definitions_are_listed_and_counted(memory: Memory, define: Define) -> None:
    assert memory.definitions.list() == []
    made = [define(slug) for slug in ("one", "two", "three")]
    assert memory.definitions.list() == made
    assert len(memory.definitions.list()) == 3


def test_38_a_definition_is_shown_or_not_found(memory: Memory, define: Define) -> None:
    plot = define("plot")
    assert memory.definitions.get(plot.id) == plot
    with pytest.raises(NotFound):
        memory.definitions.get(str(UUID(int=7)))


def test_39_a_change_leaves_alone_what_it_does_not_name_or_finds_nothing(memory: Memory, define: Define) -> None:
    made = define("plot", ttl=60)
    changed = memory.definitions.update("plot", ttl=90)
    assert (changed.id, changed.ttl) == (made.id, 90)
    assert (changed.name, changed.slug, changed.scope, changed.schema) == ("Plot", "plot", made.scope, made.schema)
    with pytest.raises(NotFound):
        memory.definitions.update("nothing", name="N")


def test_40_a_definition_is_deleted_with_its_records_or_not_found(memory: Memory, define: Define, keep: Keep) -> None:
    define("plot")
    define("other")
    keep({"plot": {"n": 1}, "other": {"n": 2}}).check()
    with pytest.raises(NotFound):
        memory.definitions.delete("nothing")
    assert memory.definitions.delete("plot") == 1
    assert memory.scope(user="nora").get("plot") is None
    assert memory.scope(user="nora").value("other") == {"n": 2}


def test_41_several_are_deleted_together_and_an_empty_list_or_an_unknown_name_deletes_none(
    memory: Memory, define: Define
) -> None:
    for slug in ("one", "two", "three"):
        define(slug)
    with pytest.raises(UsageError):
        memory.definitions.delete()
    with pytest.raises(NotFound) as caught:
        memory.definitions.delete("one", "four")
    assert caught.value.missing == ["four"]
    assert len(memory.definitions.list()) == 3
    memory.definitions.delete("one", "two")
    assert [one.slug for one in memory.definitions.list()] == ["three"]


# --- transfer ---------------------------------------------------------------------------------------------------


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Memory]:
    """Another memory, to which workflows travel."""
    with memoranda.open(tmp_path / "there.db") as memory:
        yield memory


def text_of(definition: Definition) -> str:
    return (
        "defs:\n"
        f"  season: {{kind: memory, settings: {{definition_id: {definition.id}}}}}\n"
        "  keep: {kind: task, action: update_memory, inputs: {memory: {season: {n: =$input.n}}}}\n"
        "flow:\n  - do: keep\n"
    )


def test_53_an_export_lists_the_definitions_that_the_workflow_refers_to(memory: Memory, define: Define) -> None:
    season = define("season", scope="workflow", ttl=60)
    define("plot")
    bundle = export_workflow(memory, text_of(season))
    kept = {"id": season.id, "name": "Season", "scope": "workflow", "ttl": 60, "schema": season.schema}
    assert bundle["definitions"] == {"season": kept}


def test_54_an_imported_workflow_runs_where_it_arrived_on_definitions_of_that_memory(
    memory: Memory, there: Memory, define: Define, load: Load
) -> None:
    text = text_of(define("season", scope="workflow"))
    with pytest.raises(NotFound):
        load(text, memory=there).run({"n": 1}, owner="nora")
    imported = import_workflow(there, export_workflow(memory, text))
    assert [one.slug for one in imported.created] == ["season"]
    assert imported.created[0].id in imported.text != text
    run = load(imported.text, memory=there, name="garden").run({"n": 1}, owner="nora").check()
    assert run.context["memory"] == {"season": {"n": 1}}
    assert there.scope(user="nora", workflow="garden").value("season") == {"n": 1}
    assert memory.definitions.records("season") == []


def test_55_a_definition_of_the_same_slug_that_differs_is_a_conflict_and_nothing_is_imported(
    memory: Memory, there: Memory, define: Define
) -> None:
    text = text_of(define("season", scope="workflow"))
    other = there.definitions.create(name="Season", slug="season", scope="thread", schema=COUNT)
    with pytest.raises(Conflict, match="scope"):
        import_workflow(there, export_workflow(memory, text))
    assert there.definitions.list() == [other]
    there.definitions.delete("season")
    assert import_workflow(there, export_workflow(memory, text)).created != ()


def test_56_an_equal_definition_is_reused_and_the_workflow_finds_its_records(
    memory: Memory, there: Memory, define: Define, load: Load
) -> None:
    text = text_of(define("season", scope="workflow"))
    standing = there.definitions.create(name="Season", slug="season", scope="workflow", schema=COUNT)
    there.scope(user="nora", workflow="garden").set("season", {"n": 5})
    imported = import_workflow(there, export_workflow(memory, text))
    assert (imported.created, imported.reused) == ((), (standing,))
    flow = load(imported.text + "outputs: {before: =$input.n}\n", memory=there, name="garden")
    assert flow.run({"n": 6}, owner="nora").check().context["memory"] == {"season": {"n": 6}}
    assert [one.value for one in there.scope(user="nora", workflow="garden").history("season")] == [{"n": 5}, {"n": 6}]
