"""What can be done with definitions themselves; the numbers are those of behaviours and claims."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import AlreadyExists, InvalidDefinition, NotFound, UsageError
from memoranda.model.definition import Definition
from memoranda.runs.records import WorkingMemory, working_memory

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def test_31_a_definition_is_found_by_its_slug_or_not_at_all(memory: Memory, define: Define) -> None:
    tally = define("tally")
    assert memory.definitions.get("tally") == memory.definitions.get(tally.id) == tally
    with pytest.raises(NotFound) as caught:
        memory.definitions.get("tallies")
    assert caught.value.missing == ["tallies"]


def test_35_a_definition_is_created_with_all_that_was_said(memory: Memory) -> None:
    made = memory.definitions.create(name="Tally", slug="tally", schema=SCHEMA, scope="thread", ttl=60, mode="merge")
    assert (made.name, made.slug, made.scope, made.ttl, made.mode) == ("Tally", "tally", "thread", 60, "merge")
    for name, slug in (("Tally", "other"), ("Other", "tally")):
        with pytest.raises(AlreadyExists):
            memory.definitions.create(schema=SCHEMA, name=name, slug=slug)
    with pytest.raises(InvalidDefinition):
        memory.definitions.create(name="Other", slug="bad-slug", schema=SCHEMA)
    assert memory.definitions.list() == [made]


def test_36_37_definitions_are_listed_and_counted(memory: Memory, define: Define) -> None:
    assert memory.definitions.list() == []
    made = [define(slug) for slug in ("one", "two", "three")]
    assert memory.definitions.list() == made
    assert len(memory.definitions.list()) == 3


def test_38_39_40_what_is_not_there_cannot_be_shown_changed_or_deleted(memory: Memory, define: Define) -> None:
    define("tally")
    for attempt in (
        lambda: memory.definitions.get("nothing"),
        lambda: memory.definitions.update("nothing", name="N"),
        lambda: memory.definitions.delete("nothing"),
    ):
        with pytest.raises(NotFound) as caught:
            attempt()
        assert "nothing" in str(caught.value)
    assert memory.definitions.get("tally").name == "Tally"
    assert memory.definitions.update("tally", name="Count").name == "Count"
    assert memory.definitions.delete("tally") == 0
    assert memory.definitions.list() == []


def test_39_a_change_leaves_alone_what_it_does_not_name(memory: Memory, define: Define) -> None:
    made = define("tally", ttl=60, mode="merge")
    changed = memory.definitions.update("tally", ttl=90)
    assert (changed.ttl, changed.name, changed.slug, changed.schema) == (90, made.name, made.slug, made.schema)
    assert (changed.id, changed.mode) == (made.id, "merge")


def test_41_several_are_deleted_together_and_an_empty_list_or_an_unknown_name_deletes_none(
    memory: Memory, define: Define, load: Load
) -> None:
    for slug in ("one", "two", "three"):
        define(slug)
    load().write({slug: {"n": 1} for slug in ("one", "two", "three")})
    with pytest.raises(UsageError):
        memory.definitions.delete()
    with pytest.raises(NotFound) as caught:
        memory.definitions.delete("one", "four")
    assert caught.value.missing == ["four"]
    assert len(memory.definitions.list()) == 3
    assert memory.definitions.delete("one", "two") == 2
    assert load().values == {"three": {"n": 1}}


def test_t17_another_name_is_another_heading_and_nothing_else(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    load().write({"tally": {"n": 1}})
    before = load()
    assert working_memory(before.definitions.values(), before.values) == "# Working Memory\n## Tally\n- N: 1"
    memory.definitions.update("tally", name="Pieces sung")
    after = load()
    assert after.values == before.values
    assert working_memory(after.definitions.values(), after.values) == "# Working Memory\n## Pieces sung\n- N: 1"
