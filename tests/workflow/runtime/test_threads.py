"""Conversations: what is said in runs, what later runs know of it, and threads that are closed."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import LimitExceeded, MemorandaError, ScopeEnded
from memoranda.testing import FakeClock
from memoranda.workflow.actions.base import Call
from memoranda.workflow.threads import add_message, close_thread, current_thread, messages, open_thread

TALK = """
defs:
  say: {kind: task, action: send_text_message, inputs: {text: "='You said ' & $input.text"}}
  reply: {kind: task, action: wait_for_reply}
  read: {kind: task, action: read, inputs: {limit: 10}}
flow: %s
"""


@pytest.fixture(autouse=True)
def read(kitchen: Any) -> None:
    def act(call: Call) -> Any:
        return [[one.text, one.by_owner, one.sender] for one in call.place.history(call.inputs["limit"])]

    kitchen.add("read", act)


def said(memory: Memory, id: str = "t1", owner: str = "mira") -> list[tuple[str, bool]]:
    found = messages(memory, open_thread(memory, owner=owner, id=id), 100)
    return [(one.text, one.by_owner) for one in found]


def test_what_is_said_in_one_run_is_history_in_the_next(load: Any, memory: Memory) -> None:
    flow = load(TALK % "[{do: say}, {do: read}]", name="desk")
    flow.run({"text": "one"}, owner="mira", thread="t1").check()
    run = flow.run({"text": "two"}, owner="mira", thread="t1").check()
    assert run.outputs["read"] == [
        ["one", True, "mira"],
        ["You said one", False, "desk"],
        ["two", True, "mira"],
        ["You said two", False, "desk"],
    ]
    assert run.messages == ["You said two"], "of this run"
    other = load(TALK % "[{do: read}]", name="other").run(owner="mira", thread="t1").check()
    assert len(other.outputs["read"]) == 4, "a thread is shared by workflows"
    for stranger in (
        load(TALK % "[{do: read}]").run(owner="mira", thread="t2"),
        load(TALK % "[{do: read}]").run(owner="noa", thread="t1"),
    ):
        assert stranger.check().outputs["read"] == []


def test_without_a_thread_there_is_no_history(load: Any, memory: Memory) -> None:
    run = load(TALK % "[{do: say}, {do: read}]").run({"text": "one"}, owner="mira").check()
    assert (run.messages, run.outputs["read"]) == (["You said one"], [])
    again = load(TALK % "[{do: say}, {do: read}]").run({"text": "one"}, owner="mira", thread="t1").check()
    assert len(again.outputs["read"]) == 2


@pytest.mark.parametrize("text", ["", "   ", None, 7, ["x"], {"a": 1}])
def test_an_input_that_says_nothing_is_no_message(load: Any, memory: Memory, text: Any) -> None:
    flow = load("defs: {}\nflow: []\n")
    flow.run({"text": text}, owner="mira", thread="t1").check()
    flow.run({}, owner="mira", thread="t1").check()
    assert said(memory) == []
    flow.run({"text": "=1+1"}, owner="mira", thread="t1").check()
    assert said(memory) == [("=1+1", True)]


def test_an_input_that_is_refused_says_nothing(load: Any, memory: Memory) -> None:
    flow = load("""
    inputs: {schema: {type: object, properties: {text: {type: string, maxLength: 3}}}}
    defs: {}
    flow: []
    """)
    with pytest.raises(MemorandaError):
        flow.run({"text": "too long"}, owner="mira", thread="t1")
    flow.run({"text": "ok"}, owner="mira", thread="t1").check()
    assert said(memory) == [("ok", True)]


def test_a_run_in_a_channel_goes_on_with_its_thread_until_it_is_quiet(
    load: Any, memory: Memory, clock: FakeClock
) -> None:
    flow = load(TALK % "[{do: say}, {do: read}]")

    def talk(text: str) -> Any:
        thread = current_thread(memory, owner="mira", channel="counter", window="1h")
        return flow.run({"text": text}, owner="mira", thread=thread.id).check()

    first, second = talk("one"), talk("two")
    clock.advance(3600)
    third = talk("three")
    assert first.thread == second.thread != third.thread
    assert [len(run.outputs["read"]) for run in (first, second, third)] == [2, 4, 2]


def test_a_thread_that_is_closed_takes_no_run(load: Any, memory: Memory) -> None:
    close_thread(memory, open_thread(memory, owner="mira", id="t1"))
    flow = load(TALK % "[{do: say}]")
    with pytest.raises(ScopeEnded):
        flow.run({"text": "one"}, owner="mira", thread="t1")
    assert memory.runs.list() == []
    assert flow.run({"text": "one"}, owner="mira", thread="t2").check()


def test_saying_something_in_a_thread_that_was_closed_meanwhile_fails_the_task(
    load: Any, memory: Memory, kitchen: Any
) -> None:
    kitchen.add("close", lambda call: close_thread(memory, open_thread(memory, owner="mira", id="t1")) and None)
    flow = load("""
    defs: {close: {kind: task, action: close}, say: {kind: task, action: send_text_message, inputs: {text: Hello}}}
    flow: [{do: say}, {do: close}, {do: say}]
    """)
    run = flow.run(owner="mira", thread="t1")
    assert (run.status, run.error.step, run.error.type) == ("failed", "say", "scope_ended")
    assert run.messages == ["Hello"]
    assert said(memory) == [("Hello", False)]


# what is delivered


def test_a_delivered_text_is_said_once(load: Any, memory: Memory) -> None:
    flow = load(TALK % "[{do: reply}, {do: reply}]")
    run = flow.run({"text": "one"}, owner="mira", thread="t1")
    run = flow.find(run.id).deliver("two")
    run = flow.find(run.id).deliver({"text": "three"})
    assert run.check().outputs["reply"] == {"text": "three"}
    assert said(memory) == [("one", True), ("two", True), ("three", True)]


def test_a_delivery_that_is_refused_as_a_conflict_says_nothing(load: Any, memory: Memory) -> None:
    flow = load(TALK % "[{do: reply}]")
    run = flow.run(owner="mira", thread="t1")
    old = flow.find(run.id)
    run.deliver("first").check()
    with pytest.raises(MemorandaError):
        old.deliver("second")
    assert said(memory) == [("first", True)]


def test_a_delivery_to_a_closed_thread_is_refused_and_the_run_waits_on(load: Any, memory: Memory) -> None:
    flow = load(TALK % "[{do: reply}]")
    run = flow.run(owner="mira", thread="t1")
    close_thread(memory, open_thread(memory, owner="mira", id="t1"))
    with pytest.raises(ScopeEnded):
        flow.find(run.id).deliver("too late")
    found = flow.find(run.id)
    assert found.status == "waiting"
    assert found.verify().ok
    assert found.cancel().status == "cancelled"


def test_a_text_that_is_too_long_for_a_message_is_refused_and_the_run_waits_on(load: Any, memory: Memory) -> None:
    flow = load(TALK % "[{do: reply}]")
    run = flow.run(owner="mira", thread="t1")
    with pytest.raises(LimitExceeded):
        flow.find(run.id).deliver("x" * 100_000)
    assert flow.find(run.id).status == "waiting"
    assert flow.find(run.id).deliver("short").check().outputs["reply"] == {"text": "short"}
    assert said(memory) == [("short", True)]


def test_an_answer_to_a_called_workflow_is_said_once(load: Any, memory: Memory) -> None:
    inner = load(TALK % "[{do: reply}]", name="inner")
    flow = load(
        "defs: {call: {kind: task, action: call_workflow, inputs: {workflow: inner}}}\nflow: [{do: call}]",
        workflows=[inner],
    )
    flow.run({"text": "one"}, owner="mira", thread="t1").deliver("two").check()
    assert said(memory) == [("one", True), ("two", True)]


def test_a_thread_that_goes_on_elsewhere_is_read_as_it_stands(load: Any, memory: Memory) -> None:
    flow = load(TALK % "[{do: reply}, {do: read}]")
    run = flow.run(owner="mira", thread="t1")
    add_message(memory, open_thread(memory, owner="mira", id="t1"), "from elsewhere", sender="clerk", by_owner=False)
    done = run.deliver("answer").check()
    assert done.outputs["read"] == [["from elsewhere", False, "clerk"], ["answer", True, "mira"]]


@pytest.mark.parametrize("limit", [0, -1, "x", None, 10**9, 1.5])
def test_a_history_that_cannot_be_asked_for_fails_the_task(load: Any, kitchen: Any, limit: Any) -> None:
    kitchen.add("read", lambda call: len(call.place.history(limit)))
    run = load(TALK % "[{do: read}]").run(owner="mira", thread="t1")
    assert (run.status, run.error.step) == ("failed", "read")
    kitchen.add("read", lambda call: len(call.place.history(1)))
    assert load(TALK % "[{do: read}]").run(owner="mira", thread="t1").check().outputs == {"read": 0}
