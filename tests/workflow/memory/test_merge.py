"""Records whose definition says `merge`: what is sent changes the record, and concurrent writers lose nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Policy, Rule
from memoranda.api.memory import Memory
from memoranda.errors import SchemaViolation
from memoranda.model.definition import Definition
from memoranda.runs.records import WorkingMemory, load_memory

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]

SINGER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "stage_name": {"type": "string"},
        "voice": {"type": "string"},
        "pieces": {"type": "array", "items": {"type": "string"}},
        "seat": {"type": "object", "properties": {"row": {"type": "integer"}, "side": {"type": ["string", "null"]}}},
    },
    "required": ["stage_name"],
}
SCORES: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer"}}


def test_17_a_part_of_a_record_keeps_the_required_field_that_was_there(define: Define, load: Load) -> None:
    define("singer", schema=SINGER, mode="merge")
    define("strict", schema=SINGER)
    load().write({"singer": {"stage_name": "Ada"}, "strict": {"stage_name": "Ada"}})
    working = load()
    assert working.write({"singer": {"voice": "alto"}}) == {"singer": {"stage_name": "Ada", "voice": "alto"}}
    assert working.values["singer"] == load().values["singer"] == {"stage_name": "Ada", "voice": "alto"}
    with pytest.raises(SchemaViolation):
        working.write({"strict": {"voice": "alto"}})


def test_17_objects_are_merged_at_every_level_and_all_else_is_replaced(define: Define, load: Load) -> None:
    define("singer", schema=SINGER, mode="merge")
    seat = {"row": 1, "side": "left"}
    load().write({"singer": {"stage_name": "Ada", "pieces": ["Kyrie", "Gloria"], "seat": seat}})
    merged = load().write({"singer": {"pieces": ["Credo"], "seat": {"side": None}}})
    assert merged == {"singer": {"stage_name": "Ada", "pieces": ["Credo"], "seat": {"row": 1, "side": None}}}


NO_READING = {
    "a key that can only be written": Policy.of(allow=("memory", "definitions.read"), access={"singer": "write"}),
    "a right to write alone": Policy.of(allow=("memory.write", "definitions.read")),
    "a reading that is denied": Policy(
        rules=(Rule("allow", "memory"), Rule("allow", "definitions.read"), Rule("deny", "memory.read", path="singer"))
    ),
}


@pytest.mark.parametrize("policy", NO_READING.values(), ids=NO_READING)
def test_who_may_not_read_a_record_does_not_see_what_was_merged_into(
    memory: Memory, define: Define, load: Load, policy: Policy
) -> None:
    define("singer", schema=SINGER, mode="merge")
    load().write({"singer": {"stage_name": "Ada", "seat": {"row": 3}}})
    working = load_memory(memory.acting_as("usher", policy=policy), owner="ada")
    sent = {"voice": "alto", "seat": {"side": "left"}}
    assert working.write({"singer": sent}) == working.values == {"singer": sent}
    whole = {"stage_name": "Ada", "seat": {"row": 3, "side": "left"}, "voice": "alto"}
    assert load().values == {"singer": whole}
    reader = load_memory(memory.acting_as("clerk", policy=Policy.of(allow=("memory", "definitions.read"))), owner="ada")
    assert reader.write({"singer": {}}) == reader.values == {"singer": whole}
    memory.definitions.update("singer", schema={**SINGER, "maxProperties": 3}, stale="keep")
    for one, told in ((working, False), (reader, True)):
        with pytest.raises(SchemaViolation) as refused:
            one.write({"singer": {"pieces": []}})
        assert (refused.value.path, "Ada" in str(refused.value)) == ("$", told)


def test_17_what_comes_of_a_merge_is_checked_and_a_refused_one_changes_nothing(
    memory: Memory, define: Define, load: Load
) -> None:
    define("singer", schema=SINGER, mode="merge")
    working = load()
    with pytest.raises(SchemaViolation):
        working.write({"singer": {"voice": "alto"}})
    working.write({"singer": {"stage_name": "Ada"}})
    for bad in ({"voice": 5}, {"shoes": 38}, {"seat": {"row": "one"}}, [], None):
        with pytest.raises(SchemaViolation):
            working.write({"singer": bad})
    assert working.values == {"singer": memory.scope(user="ada").value("singer")} == {"singer": {"stage_name": "Ada"}}


def test_a_merge_is_into_what_stands_now_and_not_into_what_the_run_began_with(define: Define, load: Load) -> None:
    define("singer", schema=SINGER, mode="merge")
    load().write({"singer": {"stage_name": "Ada"}})
    one, other = load(run="r1"), load(run="r2")
    one.write({"singer": {"voice": "alto"}})
    assert other.values == {"singer": {"stage_name": "Ada"}}
    merged = {"stage_name": "Ada", "voice": "alto", "pieces": ["Kyrie"]}
    assert other.write({"singer": {"pieces": ["Kyrie"]}}) == {"singer": merged}
    assert other.values == load().values == {"singer": merged}


def test_a_mode_that_is_changed_counts_from_the_next_write(memory: Memory, define: Define, load: Load) -> None:
    define("scores", schema=SCORES)
    working = load()
    working.write({"scores": {"a": 1}})
    memory.definitions.update("scores", mode="merge")
    assert working.write({"scores": {"b": 2}}) == {"scores": {"a": 1, "b": 2}}
    memory.definitions.update("scores", mode="replace")
    assert working.write({"scores": {"c": 3}}) == {"scores": {"c": 3}}


def test_merges_of_many_threads_lose_nothing(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.definitions.create(name="Scores", slug="scores", schema=SCORES, mode="merge")
        together = threading.Barrier(8)

        def write(number: int) -> None:
            working = load_memory(memory, owner="ada", run=f"r{number}")
            together.wait()
            for turn in range(25):
                working.write({"scores": {f"{number}-{turn}": turn}})

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = load_memory(memory, owner="ada").values["scores"]
        assert kept == {f"{number}-{turn}": turn for number in range(8) for turn in range(25)}
        assert len(memory.scope(user="ada").history("scores")) == 200


WRITER = """
import sys, memoranda
from memoranda.runs.records import load_memory
with memoranda.open(sys.argv[1], busy_timeout=60) as memory:
    working = load_memory(memory, owner="ada", run=sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(25):
        working.write({"scores": {f"{sys.argv[2]}-{turn}": turn}})
"""


@pytest.mark.slow
def test_merges_of_several_processes_lose_nothing(tmp_path: Path, run_child: Any) -> None:
    path = str(tmp_path / "memory.db")
    with memoranda.open(path) as memory:
        memory.definitions.create(name="Scores", slug="scores", schema=SCORES, mode="merge")
    children = [run_child(WRITER, path, number) for number in range(3)]
    children[0].run_together(children)
    with memoranda.open(path) as memory:
        kept = load_memory(memory, owner="ada").values["scores"]
        assert kept == {f"{number}-{turn}": turn for number in range(3) for turn in range(25)}
        assert all(finding.ok for finding in memory.inspect())


def test_a_merge_repairs_a_record_that_does_not_fit_if_what_it_gives_fits(
    memory: Memory, define: Define, load: Load
) -> None:
    parts = {"name": {"type": "string"}, "age": {}}
    singer = define("singer", schema={"type": "object", "properties": parts, "x-mode": "merge"})
    load(singer).write({"singer": {"name": "Ida", "age": "ten"}})
    stricter = {"type": "object", "properties": {**parts, "age": {"type": "integer"}}, "x-mode": "merge"}
    memory.definitions.update(singer.id, schema=stricter, stale="keep")
    working = load(singer, on_invalid="skip")
    assert working.values == {}
    with pytest.raises(SchemaViolation):
        working.write({"singer": {"name": "Ada"}})
    assert working.write({"singer": {"age": 10}}) == {"singer": {"name": "Ida", "age": 10}}
    assert load(singer).values == {"singer": {"name": "Ida", "age": 10}}
