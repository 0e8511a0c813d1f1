"""Whose rights a run has, who may go on with it, and where its text is kept."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda import Denied, NotFound, Policy, UsageError
from memoranda.api.memory import Memory
from memoranda.mashin import Machine

HELD = """
machine desk
  ensures
    requires approval for memory.write
  implements
    remember keep
      content: "one jar"
      collection: "jars"
"""


def load(memory: Memory, text: str = HELD, **options: Any) -> Machine:
    return memoranda.mashin.load(text, memory=memory, **options)


def kept(memory: Memory) -> list[str]:
    return [entry.content for entry in memory.scope().entries(collection="jars")]


def test_who_decides_and_who_goes_on_are_two(memory: Memory) -> None:
    guest = memory.acting_as("guest", policy=Policy.of(allow=("runs", "memory")))
    begun = load(guest).run()
    seen = memoranda.mashin.find(memory, begun.id)
    assert not seen.is_ours
    assert begun.is_ours
    assert seen.approve(reason="fine").status == "waiting"
    assert kept(memory) == []
    with pytest.raises(Denied, match="begun by `guest`"):
        seen.resume()
    assert begun.resume().check().status == "completed"
    assert kept(memory) == ["one jar"]


def test_a_run_of_a_workflow_is_no_run_of_a_machine_and_the_hint_leads_to_it(memory: Memory) -> None:
    text = "defs:\n  hello: {kind: task, action: send_text_message, inputs: {text: Hi}}\nflow:\n  - do: hello\n"
    run = memoranda.workflow.load(text, memory=memory, name="greet").run(owner="ada")
    for take_up in (load(memory).find, lambda id: memoranda.mashin.find(memory, id)):
        with pytest.raises(UsageError, match="is one of the workflow `greet`") as caught:
            take_up(run.id)
        assert "memoranda.workflow.find(…)" in caught.value.hint
    assert memoranda.workflow.find(memory, run.id).messages == ["Hi"]


def test_a_refusal_of_somebody_elses_run_is_seen_when_they_go_on(memory: Memory) -> None:
    guest = memory.acting_as("guest", policy=Policy.of(allow=("runs", "memory")))
    begun = load(guest).run()
    assert memoranda.mashin.find(memory, begun.id).refuse(reason="not today").status == "waiting"
    ended = begun.resume()
    assert ended.error is not None
    assert (ended.error.type, kept(memory)) == ("permission_denied", [])
    assert "not today" in ended.error.message


def test_who_may_only_run_keeps_the_text_with_the_run(memory: Memory) -> None:
    pure = "machine adder\n  accepts\n    n as number\n  implements\n    compute more\n      input.n + 1\n"
    guest = memory.acting_as("guest", policy=Policy.of(allow=("runs",)))
    run = load(guest, pure).run({"n": 1})
    assert memoranda.mashin.find(memory, run.id).replay().output == 2
    place = memory.scope(agent="adder")
    assert place.list("runs", internal=True) == []
    assert memory.scope(run=run.id).get("runs.source") is not None
    owned = load(memory, pure).run({"n": 2})
    assert len(place.list("runs.sources", internal=True)) == 1
    assert memory.scope(run=owned.id).get("runs.source") is None
    assert memoranda.mashin.find(memory, owned.id).replay().output == 3


def test_a_policy_that_holds_writes_files_no_approval_for_a_text_nor_for_a_step(memory: Memory) -> None:
    text = HELD.replace("requires approval for", "allowed to")
    careful = memory.acting_as("careful", policy=Policy.of(allow=("runs", "memory.read"), approve=("memory.write",)))
    run = load(careful, text).run()
    assert run.error is not None
    assert (run.error.type, run.error.step) == ("permission_denied", "keep")
    assert "requires approval for memory.write" in run.error.details["hint"]
    assert memory.approvals.list(status="all") == []
    assert kept(memory) == []
    free = memory.acting_as("free", policy=Policy.of(allow=("runs", "memory")))
    assert load(free, text).run().check().status == "completed"
    assert kept(memory) == ["one jar"]


def test_a_policy_that_holds_reads_files_no_approval_either(memory: Memory) -> None:
    memory.scope().remember("one jar", collection="jars")
    text = HELD.partition("  implements")[0].replace("requires approval for memory.write", "allowed to memory")
    text += '  implements\n    recall found\n      query: "jar"\n      collection: "jars"\n'
    careful = memory.acting_as("careful", policy=Policy.of(allow=("runs",), approve=("memory.read",)))
    run = load(careful, text).run()
    assert run.error is not None
    assert (run.error.type, memory.approvals.list(status="all")) == ("permission_denied", [])
    free = memory.acting_as("free", policy=Policy.of(allow=("runs", "memory.read")))
    assert load(free, text).run().check().output["count"] == 1


def test_two_machines_of_one_name_cannot_be_called(memory: Memory) -> None:
    one = "machine clerk\n  implements\n    compute a\n      1\n"
    two = "machine clerk\n  implements\n    compute a\n      2\n"
    caller = 'machine desk\n  ensures\n    allowed to machine.call\n  implements\n    ask it, from: "clerk"\n'
    with pytest.raises(UsageError, match="two machines `clerk`"):
        load(memory, caller, machines=[one, two])
    assert load(memory, caller, machines=[two]).run().check().output == 2


def test_the_text_of_a_run_that_is_gone_is_said_to_be_missing(memory: Memory) -> None:
    run = load(memory, HELD).run()
    assert memoranda.mashin.find(memory, run.id).status == "waiting"
    memory.erase(agent="desk")
    with pytest.raises(NotFound, match="text of the machine `desk`"):
        memoranda.mashin.find(memory, run.id)


WRITES = """
machine shelf
  ensures
    allowed to memory
  implements
    remember keep
      content: "one jar"
      collection: "jars"
"""
CALLS = """
machine desk
  ensures
    allowed to machine.call
  implements
    ask put, from: "shelf"
"""


def test_a_called_machine_has_no_more_than_the_one_that_calls_it(memory: Memory) -> None:
    """It has the rights of its caller, not of the actor who loaded it."""
    shelf = load(memory, WRITES)
    reader = memory.acting_as("reader", policy=Policy.of(allow=("runs", "memory.read")))
    refused = load(reader, CALLS, machines=[shelf]).run()
    assert refused.error is not None and refused.error.step == "put"
    assert kept(memory) == []
    writer = memory.acting_as("writer", policy=Policy.of(allow=("runs", "memory")))
    load(writer, CALLS, machines=[shelf]).run().check()
    assert kept(memory) == ["one jar"]
    load(memory, CALLS, machines=[shelf]).run().check()
    assert {run.actor for run in memory.runs.list(program="shelf")} == {"reader", "writer", "machine:shelf"}
