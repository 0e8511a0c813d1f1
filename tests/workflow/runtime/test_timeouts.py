"""Tasks that time out: the run continues without them, and their late effects are refused."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.workflow.actions.base import Call, Stopped
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.threads import messages, open_thread

PATIENCE = 60.0


def slow(settings: str = "timeout_ms: 50", rest: str = "") -> str:
    return f"""
defs:
  before: {{kind: task, action: note, inputs: {{n: 1}}}}
  wait: {{kind: task, action: stand, inputs: {{bell: oven, value: 2}}, settings: {{{settings}}}}}
flow: [{{do: before}}, {{do: wait}}]
{rest}
"""


def test_a_task_that_takes_too_long_fails(load: Any, kitchen: Any) -> None:
    run = load(slow()).run(owner="mira")
    assert run.status == "failed"
    assert (run.error.type, run.error.step) == ("timeout", "wait")
    assert "50" in run.error.message
    assert run.outputs == {"before": {"n": 1}}
    assert run.verify().ok
    kitchen.bell("oven").ring()
    assert load(slow("timeout_ms: 60000")).run(owner="mira").check().outputs["wait"] == 2


@pytest.mark.parametrize("settings", ["timeout_ms: 0", "mode: any"])
def test_a_task_without_a_time_may_take_as_long_as_it_likes(load: Any, kitchen: Any, settings: str) -> None:
    ringer = threading.Timer(0.2, kitchen.bell("oven").ring)
    ringer.start()
    run = load(slow(settings, "defaults: {settings: {timeout_ms: 0}}")).run(owner="mira").check()
    assert run.outputs["wait"] == 2
    ringer.join()


def test_the_time_of_all_tasks_holds_unless_one_has_its_own(load: Any, kitchen: Any) -> None:
    text = slow("{}", "defaults: {settings: {timeout_ms: 50}}").replace("settings: {{}}", "settings: {}")
    assert load(text).run(owner="mira").error.type == "timeout"
    kitchen.bell("oven").ring()
    assert load(text).run(owner="mira").check().outputs["wait"] == 2


def test_the_time_is_that_of_one_attempt(load: Any, kitchen: Any) -> None:
    slept: list[float] = []
    begun: list[int] = []

    def act(call: Call) -> Any:
        begun.append(len(begun))
        if len(begun) < 3:
            kitchen.bell("late").await_ring()
            return "too late"
        return "in time"

    kitchen.add("bake", act)
    flow = load(
        """
    defs:
      bake: {kind: task, action: bake, settings: {timeout_ms: 700, retries: {enabled: true}}}
      after: {kind: task, action: stand, inputs: {bell: end}}
    flow: [{do: bake}, {do: after}]
    """,
        behaviour=Behaviour(sleep=slept.append),
    )
    ended: list[Any] = []
    running = threading.Thread(target=lambda: ended.append(flow.run(owner="mira")))
    running.start()
    kitchen.bell("end").await_guests()
    kitchen.bell("late").ring()  # the first two attempts end while the run goes on
    kitchen.bell("end").ring()
    running.join(PATIENCE)
    [run] = ended
    assert run.check().outputs["bake"] == "in time"
    assert len(begun) == 3
    assert len(slept) == 2
    [event] = [event for event in run.events if event.step == "bake"]
    assert event.detail["attempts"] == 3


def test_a_call_that_was_cut_off_can_do_nothing_more_to_the_run(
    load: Any, kitchen: Any, memory: Memory, define: Any
) -> None:
    define("diary")
    ran = threading.Event()
    tried: dict[str, Any] = {}

    def late(call: Call) -> Any:
        place = call.place
        place.send("in time")
        kitchen.bell("late").await_ring()
        for name, attempt in {
            "send": lambda: place.send("too late"),
            "write": lambda: place.memory.write({"diary": {"n": 7}}),
            "set_context": lambda: place.set_context({"late": True}),
            "call_workflow": lambda: place.call_workflow("other", {}),
            "call_task": lambda: place.call_task("note", {}),
            "wait": lambda: place.wait("something"),
        }.items():
            try:
                tried[name] = attempt()
            except Stopped as stopped:
                tried[name] = stopped
            except BaseException as error:
                tried[name] = error
        ran.set()
        return "late"

    kitchen.add("late", late)
    other = load("defs: {w: {kind: task, action: note, inputs: {child: 1}}}\nflow: [{do: w}]", name="other")
    flow = load(
        """
    defs:
      late: {kind: task, action: late, settings: {timeout_ms: 1000}}
    flow: [{do: late}]
    """,
        workflows=[other],
    )
    run = flow.run(owner="mira", thread="t1")
    assert (run.status, run.error.type) == ("failed", "timeout")
    events = memory.ledger.verify().length
    kitchen.bell("late").ring()
    assert ran.wait(PATIENCE)
    assert {name for name, what in tried.items() if not isinstance(what, Stopped)} == set()
    found = flow.find(run.id)
    assert found.messages == ["in time"]
    assert "late" not in found.context
    assert memory.scope(user="mira").value("diary") is None
    assert [one.text for one in messages(memory, open_thread(memory, owner="mira", id="t1"), 10)] == ["in time"]
    assert memory.ledger.verify().length == events
    assert len(memory.runs.list()) == 1
    assert kitchen.done == []


def test_a_call_that_does_not_care_about_being_cut_off_still_changes_nothing(
    load: Any, kitchen: Any, define: Any, memory: Memory
) -> None:
    """An action that catches everything goes on for a while; the run has long gone on without it."""
    define("diary")
    ended = threading.Event()

    def stubborn(call: Call) -> Any:
        end = time.monotonic() + PATIENCE  # a run that is never cut off must fail here, not hang
        number, last = 0, False
        while not last:
            number, last = number + 1, kitchen.bell("over").rung or time.monotonic() > end
            with contextlib.suppress(Exception):
                call.place.memory.write({"diary": {"n": number}})
                call.place.set_context({"n": number})
        ended.set()
        return "stubborn"

    kitchen.add("stubborn", stubborn)
    flow = load("""
    defs:
      try: {kind: task, action: stubborn, settings: {timeout_ms: 1000}}
    flow: [{do: try}]
    """)
    run = flow.run(owner="mira")
    stands = memory.scope(user="mira").value("diary")
    context = flow.find(run.id).context
    kitchen.bell("over").ring()
    assert ended.wait(PATIENCE)
    assert run.error.type == "timeout"
    assert memory.scope(user="mira").value("diary") == stands
    assert flow.find(run.id).context == context
    assert stands is not None, "it did write as long as it was in time"


def test_a_failure_that_comes_too_late_is_not_the_runs(load: Any, kitchen: Any) -> None:
    ended = threading.Event()

    def late(call: Call) -> Any:
        try:
            kitchen.bell("late").await_ring()
            raise RuntimeError("much too late")
        finally:
            ended.set()

    kitchen.add("late", late)
    flow = load("defs: {one: {kind: task, action: late, settings: {timeout_ms: 50}}}\nflow: [{do: one}]")
    run = flow.run(owner="mira")
    kitchen.bell("late").ring()
    assert ended.wait(PATIENCE)
    found = flow.find(run.id)
    assert (found.error.type, found.error) == ("timeout", run.error)
    assert found.verify().ok


def test_suspending_is_not_taking_long(load: Any, clock: Any) -> None:
    flow = load("""
    defs: {one: {kind: task, action: ask, settings: {timeout_ms: 30000}}}
    flow: [{do: one}]
    """)
    run = flow.run(owner="mira")
    assert run.status == "waiting"
    clock.advance(86_400)
    assert run.deliver("here").check().outputs == {"one": {"got": "here"}}


NEVER_ENDS = """
import sys, threading, memoranda
from memoranda.workflow import Action

def never(call):
    threading.Event().wait()

memory = memoranda.open(sys.argv[1])
flow = memoranda.workflow.load(sys.argv[2], memory=memory, actions=[Action(name="never", act=never)])
run = flow.run(owner="mira")
print(run.status, run.error.type, flush=True)
memory.close()
"""


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a parallel"])
def test_a_process_ends_although_an_action_never_does(tmp_path: Any, run_child: Any, inside: bool) -> None:
    step = "{do: one}" if not inside else "{parallel: {steps: [{do: one}, {do: one}]}}"
    text = f"defs: {{one: {{kind: task, action: never, settings: {{timeout_ms: 50}}}}}}\nflow: [{step}]"
    assert run_child(NEVER_ENDS, tmp_path / "m.db", text).finish() == ["failed timeout"]
