"""Own functions, installed actions and tasks that wait, in workflows that run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest

from memoranda import workflow
from memoranda.api.memory import Memory
from memoranda.errors import SourceError
from memoranda.testing import FakeClock
from memoranda.workflow import Call, action
from memoranda.workflow.threads import messages, open_thread


@dataclass
class Plant:
    name: str
    litres: float = 0.5


@action
def water(plants: list[Plant], on: date, call: Call) -> dict[str, Any]:
    """Water the plants."""
    plants.append(Plant("the one in the hall"))
    call.place.send(f"{len(plants)} plants")
    return {"again": (on + timedelta(days=3)).isoformat(), "litres": sum(plant.litres for plant in plants)}


@action
def wilt(days: int) -> None:
    """Fail."""
    raise LookupError(f"nobody came for {days} days")


BALCONY = """
defs:
  water: {kind: task, action: water, inputs: {plants: [{name: basil}, {name: fig, litres: 2}], on: "=$input.on"}}
flow:
  - do: water
  - do: water
outputs: {next: "=$output.water.again"}
"""

ASKING = """
defs:
  ask: {kind: task, action: send_text_message, inputs: {text: "Water them today?"}}
  hear: {kind: task, action: wait_for_reply, inputs: {timeout: 600}}
flow:
  - do: ask
  - do: hear
outputs: {heard: =$output.hear}
"""


def test_a_typed_function_is_a_task_and_what_it_changes_is_its_own(memory: Memory) -> None:
    flow = workflow.load(BALCONY, memory=memory, actions=[water])
    run = flow.run({"on": "2031-05-01"}, owner="mira")
    assert run.check().output == {"next": "2031-05-04"}
    assert run.outputs["water"]["litres"] == 3.0
    assert run.messages == ["3 plants", "3 plants"]


def test_a_function_may_give_what_json_has_a_form_for(memory: Memory) -> None:
    @action
    def harvest(plant: str) -> tuple[Plant, date]:
        return Plant(plant), date(2031, 8, 1)

    text = "defs:\n  pick: {kind: task, action: harvest, inputs: {plant: fig}}\nflow:\n  - do: pick\n"
    run = workflow.load(text, memory=memory, actions=[harvest]).run(owner="mira")
    assert run.check().outputs["pick"] == [{"name": "fig", "litres": 0.5}, "2031-08-01"]


def test_inputs_that_are_computed_are_checked_when_they_are_there(memory: Memory) -> None:
    flow = workflow.load(BALCONY, memory=memory, actions=[water])
    run = flow.run({"on": "soon"}, owner="mira")
    assert run.status == "failed" and run.error is not None
    assert (run.error.type, run.error.step) == ("schema_violation", "water")
    assert "$.inputs.on" in run.error.message
    assert run.messages == []
    assert flow.run({"on": "2031-05-01"}, owner="mira").status == "completed"


def test_what_a_function_raises_fails_the_run_with_its_words(memory: Memory) -> None:
    text = "defs:\n  wilt: {kind: task, action: wilt, inputs: {days: 9}}\nflow:\n  - do: wilt\n"
    run = workflow.load(text, memory=memory, actions=[wilt]).run(owner="mira")
    assert run.error is not None and (run.error.type, run.error.step) == ("action_failed", "wilt")
    assert "LookupError: `nobody came for 9 days`" in run.error.message


def test_what_a_function_takes_is_known_to_the_checker(memory: Memory) -> None:
    wrong = "defs:\n  wilt: {kind: task, action: wilt, inputs: {days: nine, why: heat}}\nflow:\n  - do: wilt\n"
    with pytest.raises(SourceError) as caught:
        workflow.load(wrong, memory=memory, actions=[wilt])
    assert sorted(one.code for one in caught.value.diagnostics) == ["unknown_input", "wrong_value"]


@pytest.mark.parametrize("reply", ["Not today.", {"text": "Not today."}])
def test_a_run_waits_for_a_reply_which_becomes_part_of_the_conversation(memory: Memory, reply: Any) -> None:
    flow = workflow.load(ASKING, memory=memory)
    run = flow.run(owner="mira", thread="balcony")
    assert run.status == "waiting" and run.waiting is not None
    assert (run.waiting.kind, run.waiting.event, run.waiting.step) == ("event", "reply", "hear")
    run = flow.find(run.id).deliver(reply)
    assert run.check().output == {"heard": {"text": "Not today."}}
    said = messages(memory, open_thread(memory, owner="mira", id="balcony"), 10)
    assert [(one.text, one.by_owner) for one in said] == [("Water them today?", False), ("Not today.", True)]


def test_a_run_goes_on_without_a_reply_when_the_time_is_over(memory: Memory, clock: FakeClock) -> None:
    run = workflow.load(ASKING, memory=memory).run(owner="mira")
    assert run.resume().status == "waiting"
    clock.advance(600)
    assert run.resume().check().output == {"heard": {"timed_out": True}}


def test_the_records_in_the_context_cannot_be_set_by_any_action(memory: Memory) -> None:
    @action
    def put(call: Call) -> None:
        call.place.set_context(call.inputs["values"])

    for name in ("set_context", "put"):
        text = f"defs:\n  it: {{kind: task, action: {name}, inputs: {{values: =$input}}}}\nflow:\n  - do: it\n"
        flow = workflow.load(text, memory=memory, actions=[put])
        run = flow.run({"stand": 3, "memory": {}}, owner="mira")
        assert run.error is not None and "$context.memory" in run.error.message
        assert "stand" not in run.context
        assert flow.run({"stand": 3, "memories": {}}, owner="mira").check().context["stand"] == 3
