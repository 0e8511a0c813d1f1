"""Runs that wait: at every depth, more than once, for a time, and what they still know when they go on."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, MemorandaError, NotFound, UsageError
from memoranda.testing import FakeClock
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.threads import messages, open_thread

ASKING = """
context: {shop: Mill}
defs:
  before: {kind: task, action: note, inputs: {n: 1, id: "=$uuid()"}}
  put: {kind: task, action: set_context, inputs: {values: {step: "=$output.before.n"}}}
  say: {kind: task, action: send_text_message, inputs: {text: 'Which loaf?'}}
  ask: {kind: task, action: ask, inputs: {event: choice, at: "=$now()"}}
  after: {kind: task, action: note, inputs: {got: "=$output.ask.got", step: "=$context.step", id: "=$output.before.id",
    shop: "=$context.shop", last: "=$result.got"}}
flow: [{do: before}, {do: put}, {do: say}, {do: ask}, {do: after}]
outputs: {chosen: "=$output.after.got"}
"""


def test_a_run_waits_and_goes_on_where_it_stood(load: Any, kitchen: Any, clock: FakeClock) -> None:
    flow = load(ASKING)
    run = flow.run(owner="mira")
    assert run.status == "waiting"
    assert (run.waiting.kind, run.waiting.step, run.waiting.event) == ("event", "ask", "choice")
    assert run.waiting.deadline is None
    assert (run.output, run.error) == (None, None)
    assert list(run.outputs) == ["before", "put", "say"]
    assert run.messages == ["Which loaf?"]
    id = run.outputs["before"]["id"]
    clock.advance(3600)
    done = run.deliver({"loaf": "rye"}).check()
    assert kitchen.done == [
        {"n": 1, "id": id},
        {"asks": "ask"},
        {"asks": "ask"},
        {"got": {"loaf": "rye"}},
        {"got": {"loaf": "rye"}, "step": 1, "id": id, "shop": "Mill", "last": {"loaf": "rye"}},
    ]
    assert done.id == run.id
    assert done.output == {"chosen": {"loaf": "rye"}}
    assert list(done.outputs) == ["before", "put", "say", "ask", "after"]
    assert done.messages == ["Which loaf?"]
    assert (done.waiting, done.status) == (None, "completed")
    assert done.verify().ok
    kinds = [(event.kind, event.step, event.detail.get("type")) for event in done.events]
    assert kinds == [
        ("exec_start", None, None),
        ("step_record", "before", "note"),
        ("step_record", "put", "set_context"),
        ("step_record", "say", "send_text_message"),
        ("step_record", "ask", "resumed"),
        ("step_record", "ask", "ask"),
        ("step_record", "after", "note"),
        ("exec_end", None, None),
    ]


@pytest.mark.parametrize("payload", [None, False, 0, "", "=1+1", [], {}, {"a": [1, None]}, "ünï\u2028"])
def test_whatever_json_is_delivered_comes_through(load: Any, payload: Any) -> None:
    flow = load(ASKING)
    done = flow.run(owner="mira").deliver(payload).check()
    assert done.outputs["ask"] == {"got": payload}
    assert flow.find(done.id).outputs["ask"] == {"got": payload}


@pytest.mark.parametrize("payload", [{1, 2}, float("nan"), b"x", {1: 2}, object(), "x" * 10_000_000])
def test_a_payload_that_cannot_be_kept_is_refused_and_the_run_waits_on(load: Any, kitchen: Any, payload: Any) -> None:
    run = load(ASKING).run(owner="mira")
    events = len(run.events)
    with pytest.raises(UsageError):
        run.deliver(payload)
    assert run.status == "waiting"
    assert load(ASKING).find(run.id).status == "waiting"
    assert len(run.events) == events
    assert kitchen.done.count({"asks": "ask"}) == 1
    assert run.deliver("rye").check().outputs["ask"] == {"got": "rye"}


def test_an_action_is_called_again_with_the_same_inputs(load: Any, kitchen: Any, clock: FakeClock) -> None:
    seen: list[Any] = []

    def act(call: Call) -> Any:
        seen.append((dict(call.inputs), dict(call.settings), call.task))
        call.inputs.clear()
        return call.place.wait("go")

    kitchen.add("act", act)
    flow = load("""
    defs:
      one:
        kind: task
        action: act
        inputs: {id: "=$uuid()", at: "=$millis()", chance: "=$random()", ctx: "=$context.memory"}
        settings: {mode: "=$uuid()"}
    flow: [{do: one}]
    """)
    run = flow.run(owner="mira")
    clock.advance(60)
    run.deliver(1).check()
    first, second = seen
    assert first == second
    assert first[0]["id"] != first[1]["mode"]


# at every depth

DEPTHS = {
    "in a branch": (
        "[{conditional: {when: [{condition: false, steps: []}, {steps: [{do: a}, {do: ask}, {do: b}]}]}}]",
        ["a", "b"],
    ),
    "in an else": ("[{conditional: {when: [{condition: false, steps: []}], else: [{do: ask}, {do: b}]}}]", ["b"]),
    "in a branch in a branch": (
        "[{do: a}, {conditional: {when: [{steps: [{conditional: {else: [{do: ask}, {do: b}], when: []}}, {do: a}]}]}}]",
        ["a", "b", "a"],
    ),
    "first in the flow": ("[{do: ask}, {do: a}]", ["a"]),
    "last in the flow": ("[{do: a}, {do: ask}]", ["a"]),
    "alone": ("[{do: ask}]", []),
}


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_run_can_wait_at_any_depth(load: Any, kitchen: Any, depth: str) -> None:
    steps, expected = DEPTHS[depth]
    flow = load(f"""
    defs:
      a: {{kind: task, action: note, inputs: {{task: a}}}}
      b: {{kind: task, action: note, inputs: {{task: b, got: "=$output.ask.got"}}}}
      ask: {{kind: task, action: ask}}
    flow: {steps}
    """)
    run = flow.run(owner="mira")
    assert (run.status, run.waiting.step) == ("waiting", "ask")
    done = flow.find(run.id).deliver("here").check()
    tasks = [one["task"] for one in kitchen.done if "task" in one]
    assert tasks == expected
    assert all(one["got"] == "here" for one in kitchen.done if one.get("task") == "b")
    assert done.verify().ok


def test_a_run_can_wait_in_every_pass_of_loops_inside_loops(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs:
      ask: {kind: task, action: ask, inputs: {event: "=$iteration.item & ''"}}
      note: {kind: task, action: note, inputs: {inner: "=$iteration.item", at: "=$iteration.index",
        so: "=$accumulator"}}
      outer: {kind: task, action: note, inputs: {outer: "=$iteration.item.name", sum: "=$output.cells.sum"}}
    flow:
      - loop:
          type: for_each
          name: rows
          for_each: {in: "=$input.rows"}
          accumulate: {as: all, initial: [], merge: "=$append($accumulator, [$output.cells.sum])"}
          steps:
            - conditional:
                when:
                  - condition: "=$iteration.item.name != 'skip'"
                    steps:
                      - loop:
                          type: for_each
                          name: cells
                          for_each: {in: "=$iteration.item.cells"}
                          accumulate: {as: sum, initial: 0, merge: "=$accumulator + $output.ask.got * $iteration.item"}
                          steps: [{do: ask}, {do: note}]
            - do: outer
    outputs: {all: "=$output.rows.all"}
    """)
    rows = [{"name": "x", "cells": [1, 2]}, {"name": "skip", "cells": [9]}, {"name": "y", "cells": [3]}]
    run = flow.run({"rows": rows}, owner="mira")
    events = []
    for answer in (10, 20, 30):
        assert run.status == "waiting"
        events.append(run.waiting.event)
        # A handle of its own each time: nothing is kept in the one before.
        run = flow.find(run.id).deliver(answer)
    assert run.check().output == {"all": [50, 50, 90]}
    assert events == ["1", "2", "3"]
    noted = [one for one in kitchen.done if "inner" in one or "outer" in one]
    assert noted == [
        {"inner": 1, "at": 0, "so": 0},
        {"inner": 2, "at": 1, "so": 10},
        {"outer": "x", "sum": 50},
        {"outer": "skip", "sum": 50},
        {"inner": 3, "at": 0, "so": 0},
        {"outer": "y", "sum": 90},
    ]
    assert run.verify().ok


def test_a_run_can_wait_in_a_while_and_its_until(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {ask: {kind: task, action: ask}}
    flow:
      - loop:
          type: while
          name: all
          while: "=$iteration.index < 10"
          until: "=$output.ask.got = 'stop'"
          accumulate: {as: list, initial: [], merge: "=$append($accumulator, [$output.ask.got])"}
          steps: [{do: ask}]
    """)
    run = flow.run(owner="mira")
    for answer in ("a", "b", "stop"):
        run = run.deliver(answer)
    assert run.check().outputs["all"] == {"list": ["a", "b", "stop"]}


def test_lists_and_branches_stay_as_they_were_chosen(load: Any, kitchen: Any, define: Any, memory: Memory) -> None:
    """What was computed before a pause is not computed anew, though memory has changed since."""
    define("list", schema={"type": "object", "properties": {"items": {"type": "array"}}})
    memory.scope(user="mira").set("list", {"items": ["a", "b"]})
    flow = load("""
    defs:
      ask: {kind: task, action: ask}
      note: {kind: task, action: note, inputs: {item: "=$iteration.item", now: "=$context.memory.list.items"}}
    flow:
      - conditional:
          when:
            - condition: "=$count($context.memory.list.items) = 2"
              steps:
                - loop:
                    type: for_each
                    for_each: {in: "=$context.memory.list.items"}
                    steps: [{do: ask}, {do: note}]
    """)
    run = flow.run(owner="mira")
    memory.scope(user="mira").set("list", {"items": ["x", "y", "z"]})
    run.deliver(1).deliver(2).check()
    assert [one for one in kitchen.done if "item" in one] == [
        {"item": "a", "now": ["x", "y", "z"]},
        {"item": "b", "now": ["x", "y", "z"]},
    ]


# more than once in one action


def test_the_nth_wait_gets_the_nth_payload(load: Any, kitchen: Any) -> None:
    begun: list[int] = []

    def act(call: Call) -> Any:
        begun.append(1)
        call.place.send("Hello")
        first = call.place.wait("first")
        call.place.send(f"You said {first}")
        second = call.place.wait("second", timeout=60)
        third = call.place.wait("third") if second == "more" else None
        return [first, second, third]

    kitchen.add("talk", act)
    flow = load("defs: {talk: {kind: task, action: talk}}\nflow: [{do: talk}]")
    run = flow.run(owner="mira", thread="t1")
    names = [run.waiting.event]
    for payload in ("one", "more"):
        run = flow.find(run.id).deliver(payload)
        names.append(run.waiting.event)
    done = run.deliver("end").check()
    assert names == ["first", "second", "third"]
    assert done.outputs == {"talk": ["one", "more", "end"]}
    assert done.messages == ["Hello", "You said one"], "nothing is said twice"
    assert len(begun) == 4
    short = flow.run(owner="mira").deliver("one").deliver("enough").check()
    assert short.outputs == {"talk": ["one", "enough", None]}


def test_waiting_again_and_again_is_one_task(load: Any, kitchen: Any) -> None:
    kitchen.add("talk", lambda call: [call.place.wait(f"e{number}") for number in range(5)])
    flow = load("defs: {talk: {kind: task, action: talk}}\nflow: [{do: talk}]", behaviour=Behaviour(steps=1))
    run = flow.run(owner="mira")
    for number in range(5):
        run = run.deliver(number)
    assert run.check().outputs == {"talk": [0, 1, 2, 3, 4]}
    assert run.summary.steps == 1


def test_an_action_that_fails_after_its_wait_is_tried_again_with_what_it_was_told(load: Any, kitchen: Any) -> None:
    tries: list[Any] = []

    def act(call: Call) -> Any:
        got = call.place.wait("go")
        tries.append(got)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return got

    kitchen.add("act", act)
    flow = load(
        "defs: {one: {kind: task, action: act, settings: {retries: {enabled: true}}}}\nflow: [{do: one}]",
        behaviour=Behaviour(sleep=lambda seconds: None),
    )
    run = flow.run(owner="mira")
    assert (run.status, tries) == ("waiting", [])
    assert run.deliver("rye").check().outputs == {"one": "rye"}
    assert tries == ["rye"] * 3


def test_an_action_may_wait_at_its_second_attempt(load: Any, kitchen: Any) -> None:
    begun: list[int] = []

    def act(call: Call) -> Any:
        begun.append(1)
        if len(begun) == 1:
            raise RuntimeError("not yet")
        return call.place.wait("go")

    kitchen.add("act", act)
    flow = load(
        "defs: {one: {kind: task, action: act, settings: {retries: {enabled: true, max_attempts: 2}}}}\n"
        "flow: [{do: one}]",
        behaviour=Behaviour(sleep=lambda seconds: None),
    )
    assert flow.run(owner="mira").deliver("rye").check().outputs == {"one": "rye"}


def test_attempts_before_a_pause_are_counted_after_it(load: Any, kitchen: Any) -> None:
    calls: list[str] = []

    def act(call: Call) -> Any:
        calls.append("called")
        if len(calls) == 1:
            raise RuntimeError("not yet")
        call.place.wait("go")
        raise RuntimeError("not even then")

    kitchen.add("act", act)
    slept: list[float] = []
    flow = load(
        "defs: {one: {kind: task, action: act, settings: {retries: "
        "{enabled: true, max_attempts: 3, backoff_ms: 1000, multiplier: 2}}}}\nflow: [{do: one}]",
        behaviour=Behaviour(sleep=slept.append),
    )
    run = flow.find(flow.run(owner="mira").id).deliver("rye")
    # The first attempt; the second up to its wait, and that one again with what came; the third. One more is too many.
    assert (run.status, len(calls), slept) == ("failed", 4, [1.0, 2.0])
    assert [one.detail["attempts"] for one in run.events if "attempts" in one.detail] == [3]


# a time


TIMED = "defs: {one: {kind: task, action: ask, inputs: {timeout: 60}}}\nflow: [{do: one}]\n"


def test_after_the_deadline_the_run_goes_on_without_an_answer(load: Any, clock: FakeClock) -> None:
    flow = load(TIMED)
    run = flow.run(owner="mira")
    assert run.waiting.deadline == clock.now() + timedelta(seconds=60)
    clock.advance(59.999)
    assert run.resume().status == "waiting"
    clock.advance(0.001)
    done = flow.find(run.id).resume().check()
    assert done.outputs == {"one": {"got": None}}
    assert done.verify().ok


def test_an_answer_in_time_counts_and_one_that_is_late_does_not(load: Any, clock: FakeClock) -> None:
    early, late = load(TIMED).run(owner="mira"), load(TIMED).run(owner="mira")
    clock.advance(59.999)
    assert early.deliver("rye").check().outputs == {"one": {"got": "rye"}}
    clock.advance(0.001)
    assert late.deliver("rye").check().outputs == {"one": {"got": None}}


def test_a_run_without_a_deadline_waits_for_ever(load: Any, clock: FakeClock) -> None:
    flow = load("defs: {one: {kind: task, action: ask}}\nflow: [{do: one}]\n")
    run = flow.run(owner="mira")
    clock.advance(3650 * 86_400)
    assert flow.find(run.id).resume().status == "waiting"
    assert flow.find(run.id).deliver(1).check()


@pytest.mark.parametrize("timeout", ["soon", float("nan"), float("inf"), 1e300, -5, True, [1]])
def test_a_time_that_is_none_is_a_failure_of_the_task(load: Any, kitchen: Any, timeout: Any) -> None:
    kitchen.add("act", lambda call: call.place.wait("go", timeout=timeout))
    flow = load("defs: {one: {kind: task, action: act}}\nflow: [{do: one}]\n")
    run = flow.run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert run.verify().ok
    kitchen.add("act", lambda call: call.place.wait("go", timeout=1.5))
    assert load("defs: {one: {kind: task, action: act}}\nflow: [{do: one}]\n").run(owner="mira").status == "waiting"


@pytest.mark.parametrize("event", ["", None, 7, {1, 2}, object(), "x" * 100_000])
def test_an_event_that_has_no_name_is_a_failure_of_the_task(
    load: Any, kitchen: Any, memory: Memory, event: Any
) -> None:
    kitchen.add("act", lambda call: call.place.wait(event))
    run = load("defs: {one: {kind: task, action: act}}\nflow: [{do: one}]\n").run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert [one.status for one in memory.runs.list()] == ["failed"]


# the built-in one


def test_wait_for_reply_gives_the_text_and_adds_it_to_the_thread(load: Any, memory: Memory, clock: FakeClock) -> None:
    flow = load("""
    defs:
      say: {kind: task, action: send_text_message, inputs: {text: 'Which loaf?'}}
      reply: {kind: task, action: wait_for_reply, inputs: {timeout: 60}}
    flow: [{do: say}, {do: reply}]
    """)
    run = flow.run({"text": "Hello"}, owner="mira", thread="t1")
    done = run.deliver("Rye, please").check()
    assert done.outputs["reply"] == {"text": "Rye, please"}
    said = messages(memory, open_thread(memory, owner="mira", id="t1"), 10)
    assert [(one.text, one.by_owner) for one in said] == [
        ("Hello", True),
        ("Which loaf?", False),
        ("Rye, please", True),
    ]
    late = flow.run(owner="mira", thread="t1")
    clock.advance(60)
    assert late.resume().check().outputs["reply"] == {"timed_out": True}
    assert len(messages(memory, open_thread(memory, owner="mira", id="t1"), 10)) == 4


@pytest.mark.parametrize("timeout", [None, 60])
def test_nothing_is_no_reply_and_not_the_end_of_a_time(load: Any, clock: FakeClock, timeout: int | None) -> None:
    inputs = "" if timeout is None else f"timeout: {timeout}"
    inner = load(
        f"{{defs: {{reply: {{kind: task, action: wait_for_reply, inputs: {{{inputs}}}}}}}, flow: [{{do: reply}}]}}",
        name="inner",
    )
    outer = load(
        "{defs: {call: {kind: task, action: call_workflow, inputs: {workflow: inner}}}, flow: [{do: call}]}",
        workflows=[inner],
    )
    for flow in (inner, outer):
        run = flow.run(owner="mira")
        with pytest.raises(UsageError, match="nothing was delivered"):
            run.deliver()
        assert flow.find(run.id).status == "waiting"
        assert run.deliver("Rye").status == "completed"
    late = inner.run(owner="mira")
    clock.advance(61)
    if timeout:
        assert late.deliver().check().outputs["reply"] == {"timed_out": True}, "the time decides, whatever comes"


# who may go on


def test_a_run_that_does_not_wait_cannot_go_on(load: Any, kitchen: Any) -> None:
    flow = load(ASKING)
    done = flow.run(owner="mira").deliver(1)
    count = len(kitchen.done)
    for attempt in (lambda: done.deliver(2), done.resume, lambda: done.cancel()):
        with pytest.raises(MemorandaError) as caught:
            attempt()
        assert isinstance(caught.value, Conflict | UsageError)
    with pytest.raises(MemorandaError):
        flow.find(done.id).deliver(2)
    assert len(kitchen.done) == count
    assert flow.find(done.id).outputs == done.outputs


def test_an_old_handle_cannot_go_on_once_more(load: Any, kitchen: Any) -> None:
    flow = load("defs: {a: {kind: task, action: ask}, b: {kind: task, action: ask}}\nflow: [{do: a}, {do: b}]\n")
    run = flow.run(owner="mira")
    old = flow.find(run.id)
    second = run.deliver("first")
    assert second.waiting.step == "b"
    with pytest.raises(Conflict):
        old.deliver("first again")
    with pytest.raises(Conflict):
        run.deliver("first again")
    done = second.deliver("second").check()
    assert done.outputs == {"a": {"got": "first"}, "b": {"got": "second"}}


def test_an_old_handle_of_the_same_task_in_a_loop_cannot_go_on(load: Any) -> None:
    """It waits for the same event of the same task again, in another pass."""
    flow = load("""
    defs: {ask: {kind: task, action: ask}}
    flow: [{loop: {type: for_each, for_each: {in: [1, 2, 3]}, name: all, accumulate: {as: list, initial: [],
      merge: "=$append($accumulator, [$output.ask.got])"}, steps: [{do: ask}]}}]
    """)
    run = flow.run(owner="mira")
    old = flow.find(run.id)
    run = run.deliver("one")
    with pytest.raises(Conflict):
        old.deliver("one again")
    assert run.deliver("two").deliver("three").check().outputs["all"] == {"list": ["one", "two", "three"]}


def test_of_threads_that_deliver_at_once_one_wins(load: Any, kitchen: Any, memory: Memory) -> None:
    flow = load(ASKING)
    for _ in range(10):
        kitchen.done.clear()
        run = flow.run(owner="mira")
        together = threading.Barrier(6)
        ended: list[Any] = []

        def go(name: str, run: Any = run, together: Any = together, ended: Any = ended) -> None:
            found = flow.find(run.id)
            together.wait()
            try:
                ended.append(found.deliver(name).output)
            except Conflict:
                ended.append("conflict")

        threads = [threading.Thread(target=go, args=(f"t{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ended.count("conflict") == 5
        [won] = [one for one in ended if one != "conflict"]
        found = flow.find(run.id)
        assert found.output == won
        assert [one["got"] for one in kitchen.done if "step" in one] == [won["chosen"]]
        assert found.verify().ok
    assert memory.ledger.verify().ok


# another text, another workflow


def test_a_run_goes_on_with_the_text_it_was_begun_with(load: Any, kitchen: Any, memory: Memory) -> None:
    run = load(ASKING).run(owner="mira")
    changed = load(ASKING.replace("chosen:", "picked:"))
    with pytest.raises(Conflict, match="text"):
        changed.find(run.id).deliver("rye")
    assert load(ASKING).find(run.id).status == "waiting"
    actions = list(kitchen.actions.values())
    done = memoranda.workflow.find(memory, run.id, actions=actions).deliver("rye").check()
    assert done.output == {"chosen": "rye"}
    assert changed.find(done.id).output == {"chosen": "rye"}, "looking is always possible"


def test_what_is_left_of_a_run_can_be_looked_at_and_resumed_by_its_id(
    load: Any, kitchen: Any, memory: Memory, clock: FakeClock
) -> None:
    actions = list(kitchen.actions.values())
    run = load(TIMED).run(owner="mira")
    assert memoranda.workflow.resume(memory, run.id, actions=actions).status == "waiting"
    clock.advance(60)
    assert memoranda.workflow.resume(memory, run.id, actions=actions).check().outputs == {"one": {"got": None}}
    with pytest.raises(NotFound):
        memoranda.workflow.find(memory, "run_nothing")


def test_a_run_cannot_go_on_without_its_actions(load: Any, kitchen: Any, memory: Memory) -> None:
    run = load(ASKING).run(owner="mira")
    with pytest.raises(UsageError, match=r"`note`|`ask`"):
        memoranda.workflow.find(memory, run.id).deliver("rye")
    assert load(ASKING).find(run.id).deliver("rye").check()


def test_a_run_of_another_workflow_is_not_this_ones(load: Any, memory: Memory) -> None:
    run = load(ASKING, name="first").run(owner="mira")
    with pytest.raises(UsageError, match="first"):
        load(ASKING, name="second").find(run.id)
    machine = memoranda.mashin.load("machine desk\n  implements\n    compute x\n      1\n", memory=memory)
    other = machine.run()
    with pytest.raises(MemorandaError):
        load(ASKING).find(other.id)
    with pytest.raises(MemorandaError):
        machine.find(run.id)
    assert load(ASKING, name="first").find(run.id).status == "waiting"


# cancelling


def test_a_run_that_waits_can_be_cancelled(load: Any, kitchen: Any, memory: Memory) -> None:
    flow = load(ASKING)
    run = flow.run(owner="mira")
    ended = run.cancel(reason="the shop is closed")
    assert ended.status == "cancelled"
    assert (ended.output, ended.waiting) == (None, None)
    assert list(ended.outputs) == ["before", "put", "say"]
    assert flow.find(run.id).status == "cancelled"
    assert [one.id for one in memory.runs.list(status="cancelled")] == [run.id]
    events = ended.events
    assert (events[-1].kind, events[-1].detail["status"]) == ("exec_end", "cancelled")
    assert ended.verify().ok
    for attempt in (lambda: ended.deliver(1), ended.resume, ended.cancel, lambda: run.deliver(1), run.cancel):
        with pytest.raises(MemorandaError):
            attempt()
    assert kitchen.done.count({"asks": "ask"}) == 1
    assert len(flow.find(run.id).events) == len(events)
    assert (ended.error.type, ended.error.message) == ("cancelled", "the shop is closed")


def test_of_one_who_cancels_and_one_who_delivers_one_wins(load: Any, kitchen: Any) -> None:
    flow = load(ASKING)
    seen: set[str] = set()
    for _ in range(10):
        run = flow.run(owner="mira")
        together = threading.Barrier(2)
        ended: list[str] = []

        def go(how: str, run: Any = run, together: Any = together, ended: Any = ended) -> None:
            found = flow.find(run.id)
            together.wait()
            try:
                ended.append((found.cancel() if how == "cancel" else found.deliver(1)).status)
            except Conflict:
                ended.append("conflict")

        threads = [threading.Thread(target=go, args=(how,)) for how in ("cancel", "deliver")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ended.count("conflict") == 1
        status = flow.find(run.id).status
        assert status in ended
        assert status in ("cancelled", "completed")
        assert flow.find(run.id).verify().ok
        seen.add(status)
    assert seen


# failures after a pause


def test_a_failure_after_a_pause_keeps_what_was_done_before_it(load: Any) -> None:
    flow = load("""
    defs:
      a: {kind: task, action: note, inputs: {n: 1}}
      say: {kind: task, action: send_text_message, inputs: {text: Hello}}
      ask: {kind: task, action: ask}
      burn: {kind: task, action: burn}
    flow: [{do: a}, {do: say}, {do: ask}, {do: burn}]
    """)
    run = flow.run(owner="mira").deliver("x")
    assert (run.status, run.error.step) == ("failed", "burn")
    assert run.outputs == {"a": {"n": 1}, "say": {"text": "Hello"}, "ask": {"got": "x"}}
    assert run.messages == ["Hello"]
    assert flow.find(run.id).outputs == run.outputs
    assert run.verify().ok


def test_an_action_that_hides_its_pause_does_not_harm_the_run(load: Any, kitchen: Any) -> None:
    def act(call: Call) -> Any:
        try:
            return call.place.wait("go")
        except Exception:
            return "I do not wait"

    kitchen.add("act", act)
    flow = load("defs: {one: {kind: task, action: act}, two: {kind: task, action: give}}\nflow: [{do: one}, {do: two}]")
    run = flow.run(owner="mira")
    assert run.verify().ok
    if run.status == "waiting":
        run = run.deliver("went on").check()
        assert run.outputs["one"] == "went on"
    else:
        assert run.check().outputs["one"] == "I do not wait"


def test_a_run_that_knows_less_than_before_goes_on_from_its_newest_state(load: Any) -> None:
    flow = load("""
    defs:
      one: {kind: task, action: ask}
      two: {kind: task, action: ask}
    flow: [{loop: {type: while, while: "=$iteration.index < 3", steps: [{do: one}, {do: two}]}}]
    outputs: {last: "=$output.two.got"}
    """)
    id = flow.run(owner="mira").id
    big = "x" * 500_000
    for task, payload in [("one", big), ("two", big), ("one", "small"), ("two", "small"), ("one", "last")]:
        flow.find(id).deliver(payload)
        assert flow.find(id).outputs[task]["got"] == payload
    assert flow.find(id).deliver("end").check().output == {"last": "end"}
