"""The tool with which a model updates what its task mounts; the numbers are those of behaviours and claims."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

import memoranda
from memoranda import Policy
from memoranda.agent.conversation import ToolFailed
from memoranda.api.memory import Memory
from memoranda.errors import StorageError, Unavailable
from memoranda.model.definition import Definition
from memoranda.model.value import encode
from memoranda.runs.records import WorkingMemory, load_memory, update_records, update_tool

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]

SINGER: dict[str, Any] = {
    "type": "object",
    "title": "Singer",
    "properties": {
        "stage_name": {"type": "string", "description": "What the posters say."},
        "voice": {"type": "string", "enum": ["alto", "bass"]},
    },
    "required": ["stage_name"],
}


class Done(NamedTuple):
    """What a call came to, and the text that a model is told."""

    failed: bool
    memory: dict[str, Any]
    text: str


def update(working: WorkingMemory, mounted: list[str], arguments: Any) -> Done:
    try:
        stored = update_records(working, mounted, arguments)
    except ToolFailed as error:
        return Done(True, {}, encode({"error": str(error), **error.about}).decode())
    return Done(False, stored, encode({"memory": stored}).decode())


def test_05_there_is_no_tool_where_nothing_is_mounted(define: Define) -> None:
    assert update_tool([]) is None
    assert update_tool([define("tally")]) is not None


def test_06_the_tool_takes_right_values_and_no_values_and_refuses_what_lacks_something(define: Define) -> None:
    tool = update_tool([define("singer", schema=SINGER), define("tally")])
    assert tool is not None and tool.name == "update_memory"
    fits = jsonschema_rs.validator_for(tool.parameters).is_valid
    assert fits({"memory": {"singer": {"stage_name": "Ada", "voice": "alto"}}})
    assert fits({"memory": {"singer": {"stage_name": "Ada"}, "tally": {"n": 1}}})
    assert fits({"memory": {}})
    assert not fits({})
    assert not fits({"memory": {"singer": {"voice": "alto"}}})
    assert not fits({"memory": {"tally": {"n": "one"}}})
    assert not fits({"memory": {"other": {}}})
    assert not fits({"memory": {}, "more": 1})


def test_a_definition_reaches_the_model_with_its_titles_descriptions_and_choices(define: Define) -> None:
    singer = define("singer", schema=SINGER)
    tool = update_tool([singer, singer])
    assert tool is not None
    assert tool.parameters["properties"]["memory"]["properties"] == {"singer": singer.schema}
    assert singer.schema["properties"] == SINGER["properties"]


def test_references_inside_a_schema_lead_to_the_right_place_in_the_tool(define: Define) -> None:
    note = {"type": "object", "properties": {"pitch": {"type": "string"}, "next": {"$ref": "#/$defs/note"}}}
    tune = {"type": "object", "properties": {"first": {"$ref": "#/$defs/note"}}, "$defs": {"note": note}}
    nested = {"type": "object", "properties": {"n": {"type": "integer"}, "inner": {"$ref": "#"}}}
    tool = update_tool([define("tune", schema=tune), define("nested", schema=nested)])
    assert tool is not None
    fits = jsonschema_rs.validator_for(tool.parameters).is_valid
    assert fits({"memory": {"tune": {"first": {"pitch": "a", "next": {"pitch": "b"}}}}})
    assert not fits({"memory": {"tune": {"first": {"pitch": "a", "next": {"pitch": 5}}}}})
    assert fits({"memory": {"nested": {"inner": {"inner": {"n": 1}}}}})
    assert not fits({"memory": {"nested": {"inner": {"inner": {"n": "one"}}}}})


def test_where_updates_are_merged_no_field_has_to_be_sent(define: Define) -> None:
    deep = {**SINGER, "properties": {**SINGER["properties"], "seat": {**SINGER, "title": "Seat"}}}
    merging = define("singer", schema=deep, mode="merge")
    tool = update_tool([merging, define("strict", schema=SINGER)])
    assert tool is not None
    fits = jsonschema_rs.validator_for(tool.parameters).is_valid
    assert fits({"memory": {"singer": {"voice": "alto", "seat": {"voice": "bass"}}}})
    assert not fits({"memory": {"singer": {"voice": "tenor"}}})
    assert not fits({"memory": {"strict": {"voice": "alto"}}})
    assert merging.schema["required"] == ["stage_name"]
    assert "`singer` keeps the fields that you leave out" in tool.description
    assert "`strict` is replaced" in tool.description
    assert "x-mode" not in json.dumps(tool.parameters)


def test_a_call_stores_what_it_sends_and_tells_the_model_what_is_kept(
    memory: Memory, define: Define, load: Load
) -> None:
    define("singer", schema={**SINGER, "properties": {**SINGER["properties"], "row": {"default": 1}}})
    working = load()
    done = update(working, ["singer"], {"memory": {"singer": {"stage_name": "Ada"}}})
    kept = {"singer": {"stage_name": "Ada", "row": 1}}
    assert (done.failed, done.memory, json.loads(done.text)) == (False, kept, {"memory": kept})
    assert working.values == kept
    assert memory.scope(user="ada").value("singer") == kept["singer"]


def test_an_empty_call_is_fine_and_stores_nothing(memory: Memory, define: Define, load: Load) -> None:
    define("tally")
    before = memory.ledger.anchor()
    done = update(load(), ["tally"], {"memory": {}})
    assert (done.failed, done.memory, done.text) == (False, {}, '{"memory":{}}')
    assert memory.ledger.anchor() == before
    assert update(load(), ["tally"], {"memory": {"tally": {"n": 1}}}).memory == {"tally": {"n": 1}}


def test_t14_a_slug_that_is_not_mounted_is_an_error_and_nothing_of_the_call_is_stored(
    memory: Memory, define: Define, load: Load
) -> None:
    define("tally")
    define("other")
    working = load()
    done = update(working, ["tally"], {"memory": {"tally": {"n": 1}, "other": {"n": 2}}})
    assert done.failed and done.memory == {}
    assert "`other`" in json.loads(done.text)["error"]
    assert (working.values, memory.scope(user="ada").list()) == ({}, [])
    assert not update(working, ["tally", "other"], {"memory": {"tally": {"n": 1}, "other": {"n": 2}}}).failed
    assert working.values == {"tally": {"n": 1}, "other": {"n": 2}}


def test_t15_what_is_only_shown_is_not_written(memory: Memory, define: Define, load: Load) -> None:
    tally = define("tally")
    load().write({"tally": {"n": 1}})
    before, working = memory.ledger.anchor(), load()
    assert update_tool(working.mounted([tally.id])) is not None
    assert working.values == {"tally": {"n": 1}}
    assert memory.ledger.anchor() == before
    update(working, ["tally"], {"memory": {"tally": {"n": 2}}})
    assert memory.ledger.anchor() != before


class Odd:
    """Something that no model can send."""

    def __repr__(self) -> str:
        """Return the same in every process: it is part of a test's name."""
        return "Odd()"


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        [],
        "memory",
        {},
        {"tally": {"n": 1}},
        {"memory": {"tally": {"n": 1}}, "more": 1},
        {"memory": None},
        {"memory": ["tally"]},
        {"memory": {"tally": {"n": "one"}}},
        {"memory": {"tally": {"n": 1, "extra": 2}}},
        {"memory": {"tally": None}},
        {"memory": {"bad-slug": {"n": 1}}},
        {"memory": {"\ud800": {"n": 1}}},
        {"memory": {5: {"n": 1}}},
        {"memory": {"tally": {"n": 2**70}}},
        {"memory": {"tally": {"n": float("nan")}}},
        {"memory": {"tally": {"n": "\ud800"}}},
        {"memory": {"tally": {"n": Odd()}}},
        {"memory": {"talk": {"n": 1}}},
        {"memory": {"gone": {"n": 1}}},
    ],
    ids=repr,
)
def test_whatever_a_model_sends_it_gets_an_error_to_read_and_nothing_is_stored(
    memory: Memory, define: Define, load: Load, arguments: Any
) -> None:
    define("tally")
    talk = define("talk", scope="thread")
    working = load(talk, thread=None)
    mounted = ["tally", "talk", "gone"]
    done = update(working, mounted, arguments)
    assert done.failed and done.memory == {}
    assert json.loads(done.text)["error"]
    assert (working.values, memory.scope(user="ada").list()) == ({}, [])
    assert not update(working, mounted, {"memory": {"tally": {"n": 1}}}).failed


def test_huge_and_endless_values_are_errors_of_few_words(memory: Memory, define: Define, load: Load) -> None:
    define("free", schema={"type": "object"})
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"below": deep}
    around: dict[str, Any] = {}
    around["itself"] = around
    for huge in ({"text": "x" * memory.limits.value_bytes}, deep, around):
        done = update(load(), ["free"], {"memory": {"free": huge}})
        assert done.failed and len(done.text) < 500
    unknown = update(load(), ["free"], {"memory": {f"{number}" * 1_000: {} for number in range(1_000)}})
    assert unknown.failed and len(unknown.text) < 1_000
    assert memory.scope(user="ada").list() == []
    assert not update(load(), ["free"], {"memory": {"free": {"text": "x"}}}).failed


def test_what_the_gate_refuses_is_an_error_for_the_model_and_on_record(memory: Memory, define: Define) -> None:
    define("open")
    define("closed")
    policy = Policy.of(allow=("memory", "definitions.read"), access={"closed": "read"})
    working = load_memory(memory.acting_as("agent", policy=policy), owner="ada")
    done = update(working, ["open", "closed"], {"memory": {"open": {"n": 1}, "closed": {"n": 1}}})
    assert done.failed and "closed" in done.text
    assert [event.actor for event in memory.ledger.events() if event.decision == "deny"] == ["agent"]
    assert memory.scope(user="ada").list() == []
    assert not update(working, ["open"], {"memory": {"open": {"n": 1}}}).failed


def test_a_store_that_fails_is_nothing_for_a_model_to_read() -> None:
    memory = memoranda.open(":memory:")
    schema = {"type": "object"}
    memory.definitions.create(name="Free", slug="free", schema=schema)
    working = load_memory(memory, owner="ada")
    assert not update(working, ["free"], {"memory": {"free": {}}}).failed
    memory.close()
    with pytest.raises(StorageError) as caught:
        update(working, ["free"], {"memory": {"free": {}}})
    assert isinstance(caught.value, Unavailable)
