"""A record of a workflow is a fact like any other: what one door writes, the others read."""

from __future__ import annotations

from collections.abc import Callable

import memoranda
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition
from memoranda.runs.records import WorkingMemory, load_memory

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]

SINGER = {"type": "object", "properties": {"voice": {"type": "string"}, "row": {"type": "integer"}}}

USHER = """
AGENT: Usher
GOAL: "Show singers their place"
MEMORY:
  persistent:
    - user.singer
      SCOPE: user
      TYPE: object
FLOW:
  door:
    REASONING: false
    RESPOND: "{{user.singer.voice}} in row {{user.singer.row}}"
    ON_INPUT:
      - ELSE:
        SET:
          - user.singer = {voice: "bass", row: 4}
        THEN: door
"""


def test_a_record_written_by_a_workflow_is_a_fact_of_its_owner_and_the_other_way_round(
    memory: Memory, define: Define, load: Load
) -> None:
    singer = define("singer", schema=SINGER)
    ada = memory.scope(user="ada")
    load().write({"singer": {"voice": "alto"}})
    fact = ada.get("singer")
    assert fact is not None and (fact.value, fact.version) == ({"voice": "alto"}, 1)
    assert memory.definitions.records("singer") == [fact]

    ada.set("singer", {"voice": "tenor"}, expect=1)
    assert load().values == {"singer": {"voice": "tenor"}}
    assert [revision.value["voice"] for revision in ada.history("singer")] == ["alto", "tenor"]
    ada.delete("singer")
    assert load(singer).values == {}


def test_records_of_workflow_thread_and_run_are_facts_of_those_scopes(
    memory: Memory, load: Load, scoped: list[Definition]
) -> None:
    working = load(*scoped)
    working.write({"course": {"n": 1}})
    assert memory.scope(user="ada", workflow="w1").value("course") == {"n": 1}
    memory.scope(user="ada", thread="t1").set("talk", {"n": 2})
    memory.scope(user="ada", run="r1").set("scratch", {"n": 3})
    assert load(*scoped).values == {"course": {"n": 1}, "talk": {"n": 2}, "scratch": {"n": 3}}


def test_an_agent_reads_the_record_of_a_workflow_and_a_workflow_what_an_agent_wrote(
    memory: Memory, define: Define, load: Load
) -> None:
    define("singer", schema=SINGER)
    load().write({"singer": {"voice": "alto", "row": 2}})
    usher = memoranda.abl.load(USHER, memory=memory)
    session = usher.start(user="ada")
    assert session.opening.messages == ["alto in row 2"]
    assert session.say("move me").messages == ["bass in row 4"]
    assert load().values == {"singer": {"voice": "bass", "row": 4}}
    assert load(owner="bo").values == {}


def test_a_record_is_on_the_ledger_with_the_door_it_came_through(memory: Memory, define: Define) -> None:
    define("tally")
    load_memory(memory.through("workflow"), owner="ada").write({"tally": {"n": 1}})
    memory.scope(user="ada").set("tally", {"n": 2})
    doors = [(event.effect, event.door, event.key) for event in memory.ledger.events() if event.key == "tally"]
    assert doors == [("set_fact", "workflow", "tally"), ("set_fact", "python", "tally")]
