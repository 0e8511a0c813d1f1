"""What one door writes, every other reads: the same value, contract, time to live, history, ledger and erasure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition
from memoranda.workflow import action
from memoranda.workflow.threads import add_message, current_thread, messages

Cli = Callable[..., Any]

WRITERS = ("python", "cli", "workflow", "model", "abl")
LEDGER = {"python": "python", "cli": "cli", "workflow": "workflow", "model": "workflow", "abl": "abl"}


def test_doors_that_write_in_turn_make_one_history(doors: Any, memory: Memory) -> None:
    for number, writer in enumerate(WRITERS, 1):
        doors.write(writer, {"colour": "red", "lines": number})
    history = memory.scope(user="nora").history("kite")
    assert [(one.version, one.value["lines"]) for one in history] == [(n, n) for n in range(1, len(WRITERS) + 1)]
    assert [one.origin.door for one in history] == [LEDGER[writer] for writer in WRITERS]
    written = [event for event in memory.ledger.events() if event.key == "kite" and event.effect == "set_fact"]
    assert [event.door for event in written] == [LEDGER[writer] for writer in WRITERS]
    assert {event.scope for event in written} == {"user:nora"}
    assert memory.ledger.verify().ok
    assert all(finding.ok for finding in memory.inspect())


@pytest.mark.parametrize("value", [{"lines": 2}, {"colour": "red", "lines": 0}, {"colour": "red", "tail": "long"}])
@pytest.mark.parametrize("writer", WRITERS)
def test_every_door_is_refused_by_the_same_contract(doors: Any, memory: Memory, writer: str, value: Any) -> None:
    doors.write("python", {"colour": "blue"})
    try:
        doors.write(writer, value)
    except (memoranda.MemorandaError, AssertionError):
        pass
    else:
        assert writer == "abl", "an agent goes on with its turn, and its trace says what was refused"
    assert memory.scope(user="nora").value("kite") == {"colour": "blue"}
    doors.write(writer, {"colour": "red"})
    assert memory.scope(user="nora").value("kite") == {"colour": "red"}


# --- the command line -------------------------------------------------------------------------------------------

SCOPED = """
defs:
  in_workflow: {{kind: memory, settings: {{definition_id: {workflow}}}}}
  in_thread: {{kind: memory, settings: {{definition_id: {thread}}}}}
  keep: {{kind: task, action: update_memory, inputs: {{memory: "=$input.records"}}}}
  hear: {{kind: task, action: wait_for_reply}}
flow:
  - do: keep
  - conditional: {{when: [{{condition: "=$input.wait", steps: [{{do: hear}}]}}]}}
outputs: {{seen: "=$context.memory", heard: "=$output.hear.text"}}
"""
FIRST, SECOND = {"in_workflow": {"n": 1}, "in_thread": {"n": 2}}, {"in_workflow": {"n": 3}, "in_thread": {"n": 4}}


@pytest.fixture
def kites_file(memory: Memory, path: Path) -> Path:
    """A workflow in a file, with a definition for its own records and one for those of a thread."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    made = {
        scope: memory.definitions.create(name=scope.title(), slug=f"in_{scope}", scope=scope, schema=schema).id
        for scope in ("workflow", "thread")
    }
    file = path.parent / "kites.yaml"
    file.write_text(SCOPED.format(**made))
    return file


def test_records_of_workflows_and_threads_are_facts_of_those_scopes_at_every_door(
    memory: Memory, kites_file: Path, cli: Cli
) -> None:
    flow = memoranda.workflow.load(kites_file, memory=memory)
    flow.run({"records": FIRST}, owner="nora", thread="t1").check()
    places = {"in_workflow": {"workflow": "kites"}, "in_thread": {"thread": "t1"}}
    for slug, place in places.items():
        flags = [word for kind, id in place.items() for word in (f"--{kind}", id)]
        assert memory.scope(user="nora", **place).value(slug) == FIRST[slug]
        assert cli("facts", "get", slug, "--user", "nora", *flags)["value"] == FIRST[slug]
        cli("facts", "set", slug, json.dumps(SECOND[slug]), "--as-json", "--user", "nora", *flags)
        cli("facts", "set", slug, '{"n": "many"}', "--as-json", "--user", "nora", *flags, fails=True)
    assert flow.run({"records": {}}, owner="nora", thread="t1").check().output["seen"] == SECOND


def test_a_workflow_that_a_command_runs_shares_memory_and_runs_with_python(
    memory: Memory, kites_file: Path, cli: Cli
) -> None:
    given = json.dumps({"records": FIRST, "wait": True})
    printed = cli("run", str(kites_file), "--user", "nora", "--thread", "t1", "--input", given)
    assert printed["status"] == "waiting"
    assert memory.scope(user="nora", workflow="kites").value("in_workflow") == {"n": 1}
    found = memoranda.workflow.find(memory, printed["run"])
    assert (found.owner, found.thread, found.status) == ("nora", "t1", "waiting")
    done = found.deliver("It flies.").check()
    assert done.output == {"seen": FIRST, "heard": "It flies."}

    begun = memoranda.workflow.load(kites_file, memory=memory).run(
        {"records": SECOND, "wait": True}, owner="nora", thread="t1"
    )
    printed = cli("resume", begun.id, "--payload", '"It fell."')
    assert (printed["status"], printed["output"]) == ("completed", {"seen": SECOND, "heard": "It fell."})
    assert {one["id"]: one["status"] for one in cli("runs", "list")} == {done.id: "completed", begun.id: "completed"}
    events = [event for event in memory.ledger.events() if event.key == "in_workflow"]
    assert {event.door for event in events} == {"workflow"}
    assert memory.runs.verify(done.id).ok and memory.runs.verify(begun.id).ok


# --- machines ---------------------------------------------------------------------------------------------------

NOTE = """
machine {name}
  accepts
    words as text
  ensures
    allowed to memory
  implements
{steps}
"""
REMEMBER = NOTE.format(name="notes", steps='    remember keep\n      content: input.words\n      collection: "kites"')
RECALL = NOTE.format(name="finds", steps='    recall found\n      query: input.words\n      collection: "kites"')


def test_a_machine_recalls_what_an_action_of_a_workflow_remembered_and_the_other_way_round(
    doors: Any, memory: Memory
) -> None:
    """Machines know entries and no records, so that the two meet at what an action remembers."""

    @action("note_down")
    def note_down(words: str, call: memoranda.workflow.Call) -> dict[str, Any]:
        """Remember words for the owner."""
        return {"id": memory.scope(user=call.place.owner).remember(words, collection="kites").id}

    @action("find_again")
    def find_again(words: str, call: memoranda.workflow.Call) -> list[str]:
        """Recall words of the owner."""
        return [one.content for one in memory.scope(user=call.place.owner).recall(words, collection="kites").results]

    text = """
    defs:
      note: {kind: task, action: note_down, inputs: {words: "=$input.text"}}
      find: {kind: task, action: find_again, inputs: {words: "=$input.text"}}
    flow:
      - do: note
      - do: find
    outputs: {found: "=$output.find"}
    """
    memoranda.mashin.load(REMEMBER, memory=memory).run({"words": "the red kite flies high"}, user="nora").check()
    flow = doors.workflow(text, actions=[note_down, find_again])
    run = flow.run({"text": "the blue kite flies low"}, owner="nora").check()
    assert set(run.output["found"]) == {"the red kite flies high", "the blue kite flies low"}
    seen = memoranda.mashin.load(RECALL, memory=memory).run({"words": "which kite flies low"}, user="nora").check()
    assert {one["content"] for one in seen.output["results"]} == set(run.output["found"])
    other = memoranda.mashin.load(RECALL, memory=memory).run({"words": "which kite flies low"}, user="otto").check()
    assert other.output["results"] == []


def test_runs_of_machines_and_of_workflows_are_told_apart(doors: Any, memory: Memory) -> None:
    doors.write("workflow", {"colour": "red"})
    machine = memoranda.mashin.load(REMEMBER, memory=memory)
    machine.run({"words": "the red kite"}, user="nora").check()
    found = {one.language: one for one in memory.runs.list()}
    assert {language: one.program for language, one in found.items()} == {"mashin": "notes", "workflow": "kites"}
    assert [one.program for one in memory.runs.list(language="workflow")] == ["kites"]
    for door, wrong in ((memoranda.mashin, "workflow"), (memoranda.workflow, "mashin")):
        with pytest.raises(memoranda.MemorandaError, match=found[wrong].program):
            door.find(memory, found[wrong].id)
    assert memoranda.mashin.find(memory, found["mashin"].id).status == "completed"
    assert memoranda.workflow.find(memory, found["workflow"].id).status == "completed"
    assert all(memory.runs.verify(one.id).ok for one in found.values())


# --- conversations ----------------------------------------------------------------------------------------------


def test_what_is_said_in_a_thread_is_the_same_for_python_and_for_workflows(doors: Any, memory: Memory) -> None:
    thread = current_thread(memory, owner="nora")
    add_message(memory, thread, "Which kite is mine?", sender="nora", by_owner=True)
    text = """
    defs:
      say: {kind: task, action: send_text_message, inputs: {text: "='You asked: ' & $input.text"}}
    flow:
      - do: say
    """
    run = doors.workflow(text).run({"text": "And the string?"}, owner="nora", thread=thread.id).check()
    assert run.messages == ["You asked: And the string?"]
    said = [(one.by_owner, one.text) for one in messages(memory, thread, 10)]
    assert said == [(True, "Which kite is mine?"), (True, "And the string?"), (False, "You asked: And the string?")]


# --- erasing ----------------------------------------------------------------------------------------------------

WAITING = """
defs:
  {bound}
  note: {{kind: task, action: update_memory, inputs: {{memory: {updates}}}}}
  say: {{kind: task, action: send_text_message, inputs: {{text: "='About ' & $input.text"}}}}
  hear: {{kind: task, action: wait_for_reply}}
flow:
  - do: note
  - do: say
  - conditional:
      when:
        - condition: "=$input.wait"
          steps: [{{do: hear}}]
"""


def test_erasing_a_person_takes_records_threads_and_runs_written_through_every_door(
    doors: Any, memory: Memory, kite: Definition, path: Any, cli: Cli
) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    scoped = [
        memory.definitions.create(name=scope.title(), slug=f"in_{scope}", scope=scope, schema=schema)
        for scope in ("workflow", "thread", "run")
    ]
    bound = "\n  ".join(f"{one.slug}: {{kind: memory, settings: {{definition_id: {one.id}}}}}" for one in scoped)
    updates = "{" + ", ".join(f'{one.slug}: {{text: "=$input.text"}}' for one in scoped) + "}"
    flow = doors.workflow(WAITING.format(bound=bound, updates=updates))
    runs = {
        (owner, wait): flow.run({"text": f"{owner}s secret string", "wait": wait}, owner=owner, thread="t1")
        for owner in ("nora", "otto")
        for wait in (False, True)
    }
    assert {run.status for run in runs.values()} == {"completed", "waiting"}
    for writer in WRITERS:
        doors.write(writer, {"colour": "noras secret string"})

    memory.erase(user="nora")
    for wait in (False, True):
        gone, stays = runs["nora", wait].id, runs["otto", wait].id
        with pytest.raises(memoranda.NotFound):
            memory.runs.get(gone)
        with pytest.raises(memoranda.NotFound):
            memoranda.workflow.find(memory, gone)
        assert memory.runs.verify(gone).ok, "that it happened stays on record"
        assert memory.runs.get(stays).status == ("waiting" if wait else "completed")
    with pytest.raises(memoranda.MemorandaError):
        runs["nora", True].deliver("on")
    for one in (kite, *scoped):
        assert {str(fact.scope).partition("/")[0] for fact in memory.definitions.records(one.slug)} <= {"user:otto"}
    assert runs["otto", True].deliver("on").check().status == "completed"
    assert memory.ledger.verify().ok
    memory.scrub()
    memory.close()
    written = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    assert b"noras secret string" not in written
    assert b"ottos secret string" in written
