"""Workflows that call workflows: runs of their own, their memory, waiting through several of them, and how deep."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, MemorandaError, UsageError
from memoranda.testing import FakeClock
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.threads import messages, open_thread

PATIENCE = 60.0

INNER = """
defs:
  ask: {kind: task, action: ask, inputs: {event: inner, timeout: "=$input.timeout"}}
  note: {kind: task, action: note, inputs: {inner: "=$output.ask.got"}}
flow: [{do: ask}, {do: note}]
outputs: {answer: "=$output.ask.got", from: "=$input.from"}
"""

MIDDLE = """
defs:
  call: {kind: task, action: call_workflow, inputs: {workflow: inner, inputs: {from: middle,
    timeout: "=$input.timeout"}}}
  note: {kind: task, action: note, inputs: {middle: "=$output.call.answer"}}
flow: [{do: call}, {do: note}]
outputs: {answer: "='m' & $output.call.answer", from: "=$output.call.from"}
"""

OUTER = """
defs:
  before: {kind: task, action: note, inputs: {before: 1}}
  call: {kind: task, action: call_workflow, inputs: {workflow: middle}}
  after: {kind: task, action: note, inputs: {outer: "=$output.call.answer"}}
flow: [{do: before}, {do: call}, {do: after}]
outputs: {answer: "='o' & $output.call.answer", from: "=$output.call.from"}
"""


@pytest.fixture
def three(load: Any) -> Any:
    inner = load(INNER, name="inner")
    middle = load(MIDDLE, name="middle", workflows=[inner])
    return load(OUTER, name="outer", workflows=[middle, inner])


SIMPLE = """
defs:
  note: {kind: task, action: note, inputs: {got: "=$input"}}
flow: [{do: note}]
outputs: {doubled: "=$input.n * 2"}
"""


def calling(inputs: str = ", inputs: {n: 21}", rest: str = "") -> str:
    return f"""
defs:
  call: {{kind: task, action: call_workflow, inputs: {{workflow: other{inputs}}}}}
  {rest}
flow: [{{do: call}}]
"""


def test_a_called_workflow_is_a_run_of_its_own_and_gives_its_output(load: Any, memory: Memory, kitchen: Any) -> None:
    flow = load(calling(), name="first", workflows=[load(SIMPLE, name="other")])
    run = flow.run({"n": 1}, owner="mira", thread="t1").check()
    assert run.outputs == {"call": {"doubled": 42}}
    assert kitchen.done == [{"got": {"n": 21}}]
    child, parent = sorted(memory.runs.list(), key=lambda one: one.program != "other")
    assert (parent.id, parent.parent) == (run.id, None)
    assert (child.parent, child.program, child.language, child.status) == (run.id, "other", "workflow", "completed")
    assert memory.runs.verify(child.id).ok
    assert memory.runs.verify(parent.id).ok
    assert memory.ledger.verify().ok


def test_without_inputs_the_called_workflow_gets_those_of_the_run(load: Any, kitchen: Any) -> None:
    flow = load(calling(""), workflows=[load(SIMPLE, name="other")])
    assert flow.run({"n": 4, "x": None}, owner="mira").check().outputs == {"call": {"doubled": 8}}
    assert kitchen.done == [{"got": {"n": 4, "x": None}}]


def test_workflows_are_given_as_texts_paths_and_themselves(load: Any, tmp_path: Any) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(SIMPLE)
    for given in (path, str(path), load(SIMPLE, name="other")):
        flow = load(calling(), workflows=[given])
        assert flow.run(owner="mira").check().outputs == {"call": {"doubled": 42}}


def test_a_workflow_that_nobody_knows_fails_the_task(load: Any) -> None:
    run = load(calling()).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "call")
    assert "other" in run.error.message


def test_an_input_that_the_called_workflow_refuses_fails_the_task(load: Any, memory: Memory) -> None:
    schema = "inputs: {schema: {type: object, properties: {n: {type: integer, maximum: 30}}, required: [n]}}\n"
    other = load(schema + SIMPLE, name="other")
    assert load(calling(), workflows=[other]).run(owner="mira").check()
    run = load(calling(", inputs: {n: 40}"), workflows=[other]).run(owner="mira")
    assert (run.status, run.error.step, run.error.type) == ("failed", "call", "schema_violation")
    assert len(memory.runs.list(program="other")) == 1


def test_a_called_workflow_that_fails_fails_the_task(load: Any, memory: Memory) -> None:
    other = load("defs: {burn: {kind: task, action: burn, inputs: {why: too hot}}}\nflow: [{do: burn}]", name="other")
    run = load(calling(), workflows=[other]).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "call")
    assert "too hot" in run.error.message
    [child] = memory.runs.list(program="other")
    assert child.status == "failed"
    assert run.error.details.get("run") == child.id


def test_messages_of_a_called_workflow_are_in_the_same_thread(load: Any, memory: Memory) -> None:
    other = load(
        "defs: {say: {kind: task, action: send_text_message, inputs: {text: from below}}}\nflow: [{do: say}]",
        name="other",
    )
    rest = "say: {kind: task, action: send_text_message, inputs: {text: from above}}"
    flow = load(calling("", rest).replace("[{do: call}]", "[{do: say}, {do: call}, {do: say}]"), workflows=[other])
    flow.run({"text": "Hello"}, owner="mira", thread="t1").check()
    said = messages(memory, open_thread(memory, owner="mira", id="t1"), 10)
    assert [one.text for one in said] == ["Hello", "from above", "from below", "from above"], "Hello is said once"


def test_what_a_called_workflow_says_around_its_pauses_is_told_once(load: Any, memory: Memory) -> None:
    other = load(
        """
    defs:
      say: {kind: task, action: send_text_message, inputs: {text: "='question ' & $iteration.item"}}
      reply: {kind: task, action: wait_for_reply}
    flow: [{loop: {type: for_each, for_each: {in: [1, 2]}, steps: [{do: say}, {do: reply}]}}, {do: say}]
    """,
        name="other",
    )
    flow = load(
        calling("", "say: {kind: task, action: send_text_message, inputs: {text: begin}}").replace(
            "[{do: call}]", "[{do: say}, {do: call}]"
        ),
        workflows=[other],
    )
    run = flow.run(owner="mira", thread="t1")
    assert run.messages == ["begin", "question 1"]
    run = flow.find(run.id).deliver("a")
    assert run.messages == ["begin", "question 1", "question 2"]
    done = flow.find(run.id).deliver("b").check()
    assert done.messages == ["begin", "question 1", "question 2", "question "]
    assert flow.find(run.id).messages == done.messages
    said = [one.text for one in messages(memory, open_thread(memory, owner="mira", id="t1"), 10)]
    assert said == ["begin", "question 1", "a", "question 2", "b", "question "]


# memory of runs


def test_each_run_has_a_memory_of_its_own(load: Any, define: Any, memory: Memory, kitchen: Any) -> None:
    ids = {scope: define(f"{scope}_note", scope=scope).id for scope in ("run", "workflow", "thread")}
    everywhere = define("all_note")
    mounts = "\n".join(
        f"  {scope}_memory: {{kind: memory, settings: {{definition_id: {id}}}}}" for scope, id in ids.items()
    )
    body = """
defs:
%s
  look: {kind: task, action: note, inputs: {seen: "=$context.memory"}}
  keep: {kind: task, action: update_memory, inputs: {memory: {run_note: {n: %d}, workflow_note: {n: %d},
    thread_note: {n: %d}, all_note: {n: %d}}}}
  call: {kind: task, action: call_workflow, inputs: {workflow: other}}
flow: %s
"""
    other = load(body % (mounts, 2, 2, 2, 2, "[{do: look}, {do: keep}, {do: look}]"), name="other")
    flow = load(body % (mounts, 1, 1, 1, 1, "[{do: keep}, {do: call}, {do: look}]"), name="first", workflows=[other])
    run = flow.run(owner="mira", thread="t1").check()
    inside, after_inside, outside = (one["seen"] for one in kitchen.done)
    assert inside == {"thread_note": {"n": 1}, everywhere.slug: {"n": 1}}, "of run and workflow nothing is shared"
    assert after_inside == {name: {"n": 2} for name in ("run_note", "workflow_note", "thread_note", "all_note")}
    assert outside["run_note"] == {"n": 1}
    assert outside["workflow_note"] == {"n": 1}
    assert run.verify().ok


def test_what_a_called_workflow_wrote_is_seen_by_the_caller(
    load: Any, define: Any, memory: Memory, kitchen: Any
) -> None:
    define("all_note")
    other = load(
        "defs: {keep: {kind: task, action: update_memory, inputs: {memory: {all_note: {n: 2}}}}}\nflow: [{do: keep}]",
        name="other",
    )
    rest = "look: {kind: task, action: note, inputs: {seen: '=$context.memory.all_note.n'}}"
    flow = load(calling("", rest).replace("[{do: call}]", "[{do: call}, {do: look}]"), workflows=[other])
    memory.scope(user="mira").set("all_note", {"n": 1})
    run = flow.run(owner="mira").check()
    assert memory.scope(user="mira").value("all_note") == {"n": 2}
    assert kitchen.done == [{"seen": 2}]
    assert run.context["memory"] == {"all_note": {"n": 2}}


# waiting


def test_a_run_waits_for_a_run_that_waits_for_a_run(three: Any, memory: Memory, kitchen: Any) -> None:
    run = three.run({}, owner="mira", thread="t1")
    assert run.status == "waiting"
    assert run.waiting.kind == "run"
    assert run.waiting.step == "call"
    by_program = {one.program: one for one in memory.runs.list()}
    assert {one.status for one in by_program.values()} == {"waiting"}
    assert by_program["middle"].parent == run.id
    assert by_program["inner"].parent == by_program["middle"].id
    assert run.waiting.run == by_program["middle"].id
    done = three.find(run.id).deliver("yes").check()
    assert done.output == {"answer": "omyes", "from": "middle"}
    assert {one.status for one in memory.runs.list()} == {"completed"}
    assert len(memory.runs.list()) == 3, "nothing was called twice"
    assert kitchen.done == [
        {"before": 1},
        {"asks": "ask"},
        {"asks": "ask"},
        {"got": "yes"},
        {"inner": "yes"},
        {"middle": "yes"},
        {"outer": "myes"},
    ]
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())
    assert memory.ledger.verify().ok


def test_the_run_below_may_be_told_itself_and_those_above_resume(three: Any, load: Any, memory: Memory) -> None:
    run = three.run({}, owner="mira")
    inner = next(one for one in memory.runs.list() if one.program == "inner")
    assert run.resume().status == "waiting", "what it waits for still waits"
    load(INNER, name="inner").find(inner.id).deliver("yes").check()
    assert three.find(run.id).status == "waiting"
    done = three.find(run.id).resume().check()
    assert done.output == {"answer": "omyes", "from": "middle"}
    assert len(memory.runs.list()) == 3


def test_a_deadline_two_levels_down_ends_the_waiting_of_all(three: Any, memory: Memory, clock: FakeClock) -> None:
    run = three.run({"timeout": 60}, owner="mira")
    assert run.resume().status == "waiting"
    clock.advance(60)
    done = three.find(run.id).resume()
    assert done.status == "completed"
    assert {one.status for one in memory.runs.list()} == {"completed"}


def test_a_called_run_that_is_cancelled_fails_the_task_of_its_caller(three: Any, load: Any, memory: Memory) -> None:
    run = three.run({}, owner="mira")
    inner = next(one for one in memory.runs.list() if one.program == "inner")
    load(INNER, name="inner").find(inner.id).cancel()
    done = three.find(run.id).resume()
    assert (done.status, done.error.step) == ("failed", "call")
    assert {one.program: one.status for one in memory.runs.list()} == {
        "inner": "cancelled",
        "middle": "failed",
        "outer": "failed",
    }


def test_cancelling_a_run_cancels_the_runs_that_it_called(three: Any, memory: Memory) -> None:
    run = three.run({}, owner="mira")
    assert run.cancel().status == "cancelled"
    assert {one.program: one.status for one in memory.runs.list()} == dict.fromkeys(
        ("inner", "middle", "outer"), "cancelled"
    )
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())


def test_a_payload_that_cannot_be_kept_is_refused_at_the_top(three: Any, memory: Memory) -> None:
    run = three.run({}, owner="mira")
    with pytest.raises(MemorandaError):
        run.deliver({1, 2})
    assert {one.status for one in memory.runs.list()} == {"waiting"}
    assert three.find(run.id).deliver("yes").check()


def test_a_called_workflow_may_wait_several_times(load: Any, memory: Memory) -> None:
    other = load(
        """
    defs: {ask: {kind: task, action: ask}}
    flow: [{loop: {type: for_each, for_each: {in: [1, 2, 3]}, name: all, accumulate: {as: list, initial: [],
      merge: "=$append($accumulator, [$output.ask.got])"}, steps: [{do: ask}]}}]
    outputs: {list: "=$output.all.list"}
    """,
        name="other",
    )
    flow = load(calling(), workflows=[other])
    run = flow.run(owner="mira")
    for answer in ("a", "b", "c"):
        assert (run.status, run.waiting.kind) == ("waiting", "run")
        run = flow.find(run.id).deliver(answer)
    assert run.check().outputs == {"call": {"list": ["a", "b", "c"]}}
    assert len(memory.runs.list()) == 2


def test_an_old_handle_of_a_caller_cannot_deliver_once_more(load: Any) -> None:
    other = load(
        """
    defs: {a: {kind: task, action: ask}, b: {kind: task, action: ask}}
    flow: [{do: a}, {do: b}]
    outputs: {a: "=$output.a.got", b: "=$output.b.got"}
    """,
        name="other",
    )
    flow = load(calling(), workflows=[other])
    run = flow.run(owner="mira")
    old = flow.find(run.id)
    run = run.deliver("one")
    with pytest.raises(Conflict):
        old.deliver("one again")
    assert run.deliver("two").check().outputs == {"call": {"a": "one", "b": "two"}}


def test_an_action_may_call_several_workflows_of_which_some_wait(load: Any, memory: Memory, kitchen: Any) -> None:
    waits = load(
        "defs: {ask: {kind: task, action: ask}}\nflow: [{do: ask}]\noutputs: {got: '=$output.ask.got'}", name="waits"
    )
    plain = load(SIMPLE, name="plain")

    def act(call: Call) -> Any:
        call.place.send("begin")
        first = call.place.call_workflow("plain", {"n": 1})
        second = call.place.call_workflow("waits", {})
        call.place.send(f"heard {second['got']}")
        own = call.place.wait("own")
        third = call.place.call_workflow("waits", {})
        fourth = call.place.call_workflow("plain", {"n": 2})
        return [first, second, own, third, fourth]

    kitchen.add("many", act)
    flow = load("defs: {one: {kind: task, action: many}}\nflow: [{do: one}]", workflows=[waits, plain])
    run = flow.run(owner="mira")
    kinds = [run.waiting.kind]
    for answer in ("x", "y"):
        run = flow.find(run.id).deliver(answer)
        kinds.append(run.waiting.kind)
    run = flow.find(run.id).deliver("z").check()
    assert kinds == ["run", "event", "run"]
    assert run.outputs == {"one": [{"doubled": 2}, {"got": "x"}, "y", {"got": "z"}, {"doubled": 4}]}
    assert run.messages == ["begin", "heard x"]
    assert len(memory.runs.list(program="plain")) == 2
    assert len(memory.runs.list(program="waits")) == 2


def test_a_called_workflow_that_would_wait_inside_a_parallel_is_an_error_and_given_up(
    load: Any, memory: Memory
) -> None:
    other = load("defs: {ask: {kind: task, action: ask}}\nflow: [{do: ask}]", name="other")
    text = calling().replace("[{do: call}]", "[{parallel: {steps: [{do: call}]}}]")
    run = load(text, workflows=[other]).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "call")
    [child] = memory.runs.list(program="other")
    assert child.status == "cancelled", "nobody would ever go on with it"
    assert load(calling(), workflows=[other]).run(owner="mira").status == "waiting"


def test_called_workflows_run_at_the_same_time(load: Any, memory: Memory) -> None:
    other = load(SIMPLE, name="other")
    flow = load(
        """
    defs: {call: {kind: task, action: call_workflow, inputs: {workflow: other, inputs: {n: "=$iteration.item"}}}}
    flow:
      - loop:
          type: for_each
          name: all
          for_each: {in: "=$input.items"}
          max_concurrency: 8
          accumulate: {as: list, initial: [], merge: "=$append($accumulator, [$output.call.doubled])"}
          steps: [{do: call}]
    """,
        workflows=[other],
    )
    run = flow.run({"items": list(range(20))}, owner="mira").check()
    assert run.outputs["all"] == {"list": [2 * one for one in range(20)]}
    children = memory.runs.list(program="other")
    assert {one.parent for one in children} == {run.id}
    assert all(memory.runs.verify(one.id).ok for one in children)


# how deep


def nest(load: Any, depth: int, **options: Any) -> Any:
    """Return a workflow that calls another one, and so on, so many in all."""
    flow = load("defs: {}\nflow: []\noutputs: {deep: 1}", name="w1", **options)
    for number in range(2, depth + 1):
        flow = load(
            f"""
        defs: {{call: {{kind: task, action: call_workflow, inputs: {{workflow: w{number - 1}}}}}}}
        flow: [{{do: call}}]
        outputs: {{deep: "=$output.call.deep + 1"}}
        """,
            name=f"w{number}",
            workflows=[flow],
            **options,
        )
    return flow


def test_workflows_call_one_another_to_a_limit(load: Any, memory: Memory) -> None:
    assert nest(load, 8).run(owner="mira").check().output == {"deep": 8}
    run = nest(load, 9).run(owner="mira")
    assert run.status == "failed"
    assert "limit" in str(run.error).lower() or "8" in run.error.message
    assert nest(load, 2, behaviour=Behaviour(workflows=2)).run(owner="mira").check().output == {"deep": 2}
    assert nest(load, 3, behaviour=Behaviour(workflows=2)).run(owner="mira").status == "failed"
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())


def test_a_workflow_that_calls_itself_comes_to_an_end(load: Any, memory: Memory) -> None:
    flow = load(
        """
    defs: {call: {kind: task, action: call_workflow, inputs: {workflow: again}}}
    flow: [{do: call}]
    """,
        name="again",
    )
    run = flow.run(owner="mira")
    assert run.status == "failed"
    assert len(memory.runs.list()) <= 8
    assert all(one.status == "failed" for one in memory.runs.list())


def test_the_limit_counts_a_run_that_goes_on(load: Any, memory: Memory) -> None:
    """A pause in the middle does not make room for more."""
    flow = load(
        """
    defs:
      ask: {kind: task, action: ask}
      call: {kind: task, action: call_workflow, inputs: {workflow: again}}
    flow: [{do: ask}, {do: call}]
    """,
        name="again",
        behaviour=Behaviour(workflows=3),
    )
    run = flow.run(owner="mira")
    for _ in range(10):
        if run.status != "waiting":
            break
        run = flow.find(run.id).deliver(1)
    assert run.status == "failed"
    assert len(memory.runs.list()) == 3


# while the run below is at work


@pytest.mark.parametrize("how", ["resume", "deliver"])
def test_a_caller_waits_on_while_the_run_below_is_at_work_elsewhere(
    load: Any, kitchen: Any, memory: Memory, how: str
) -> None:
    """The event goes to the called run directly, while another caller resumes or tells the calling run."""
    met: list[Any] = []

    def meanwhile(call: Call) -> Any:
        above = flow.find(parent.id)
        try:
            met.append((above.resume() if how == "resume" else above.deliver("too much")).status)
        except Conflict:
            met.append("conflict")
        return "worked"

    kitchen.add("meanwhile", meanwhile)
    other = load(
        """
    defs: {ask: {kind: task, action: ask}, work: {kind: task, action: meanwhile}}
    flow: [{do: ask}, {do: work}]
    outputs: {got: "=$output.ask.got"}
    """,
        name="other",
    )
    flow = load(calling(), workflows=[other])
    parent = flow.run(owner="mira")
    [child] = memory.runs.list(program="other")
    other.find(child.id).deliver("directly").check()
    assert met == (["waiting"] if how == "resume" else ["conflict"])
    assert flow.find(parent.id).status == "waiting"
    assert flow.find(parent.id).resume().check().outputs == {"call": {"got": "directly"}}
    assert kitchen.done.count({"got": "directly"}) == 1


def test_a_caller_is_not_cancelled_while_the_run_below_is_at_work(load: Any, kitchen: Any, memory: Memory) -> None:
    met: list[Any] = []

    def meanwhile(call: Call) -> Any:
        try:
            met.append(flow.find(parent.id).cancel().status)
        except Conflict:
            met.append("conflict")

    kitchen.add("meanwhile", meanwhile)
    other = load(
        """
    defs: {ask: {kind: task, action: ask}, work: {kind: task, action: meanwhile}}
    flow: [{do: ask}, {do: work}]
    """,
        name="other",
    )
    flow = load(calling(), workflows=[other])
    parent = flow.run(owner="mira")
    done = flow.find(parent.id).deliver("x")
    statuses = {one.program: one.status for one in memory.runs.list()}
    assert met == ["conflict"], "nothing would ever come of the run below"
    assert done.status == statuses["workflow"] == "completed"
    assert statuses["other"] == "completed"


def test_an_action_that_goes_on_with_its_own_run_is_refused(load: Any, kitchen: Any) -> None:
    met: list[str] = []

    def own(call: Call) -> Any:
        for attempt in ("deliver", "resume", "cancel"):
            try:
                getattr(flow.find(call.place.run), attempt)()
            except Conflict:
                met.append(attempt)

    kitchen.add("own", own)
    flow = load(
        "defs: {one: {kind: task, action: own}, ask: {kind: task, action: ask}}\n"
        "flow: [{do: one}, {do: ask}, {do: one}]\n"
    )
    flow.run(owner="mira").deliver(1).check()
    assert met == ["deliver", "resume", "cancel"] * 2


# callers that are cut off

LATE = """
defs:
  stand: {kind: task, action: stand, inputs: {bell: below}}
  say: {kind: task, action: send_text_message, inputs: {text: too late}}
  keep: {kind: task, action: update_memory, inputs: {memory: {diary: {n: 1}}}}
  note: {kind: task, action: note, inputs: {late: 1}}
flow: [{do: stand}, {do: say}, {do: keep}, {do: note}]
"""


@pytest.mark.parametrize("cut", ["a time", "a faster branch", "a failure beside it"])
def test_a_called_workflow_whose_caller_was_cut_off_does_nothing_more(
    load: Any, kitchen: Any, memory: Memory, define: Any, cut: str
) -> None:
    define("diary")

    def await_below(call: Call) -> Any:
        kitchen.bell("below").await_guests()
        if cut == "a failure beside it":
            raise RuntimeError("beside it")

    kitchen.add("beside", await_below)
    other = load(LATE, name="other")
    steps = {
        "a time": "[{do: timed}]",
        "a faster branch": "[{parallel: {strategy: wait_any, steps: [{do: call}, {do: beside}]}}]",
        "a failure beside it": "[{parallel: {steps: [{do: call}, {do: beside}]}}]",
    }[cut]
    flow = load(
        f"""
    defs:
      call: {{kind: task, action: call_workflow, inputs: {{workflow: other}}}}
      timed: {{kind: task, action: call_workflow, inputs: {{workflow: other}}, settings: {{timeout_ms: 1500}}}}
      beside: {{kind: task, action: beside}}
    flow: {steps}
    """,
        workflows=[other],
    )
    run = flow.run(owner="mira", thread="t1")
    assert run.status == ("completed" if cut == "a faster branch" else "failed")
    kitchen.bell("below").ring()
    for thread in threading.enumerate():
        if thread.name == "memoranda-workflow":
            thread.join(PATIENCE)
    assert kitchen.done == []
    assert memory.scope(user="mira").value("diary") is None
    assert messages(memory, open_thread(memory, owner="mira", id="t1"), 10) == []
    [child] = memory.runs.list(program="other")
    assert child.status in ("failed", "cancelled"), "it is not left as one that still goes on"
    assert memory.runs.verify(child.id).ok
    assert load(LATE, name="other").run(owner="mira", thread="t1").check().messages == ["too late"]


# texts that were kept


def test_a_run_goes_on_with_the_kept_texts_of_the_workflows_that_it_called(
    three: Any, load: Any, kitchen: Any, memory: Memory
) -> None:
    run = three.run({}, owner="mira")
    actions = list(kitchen.actions.values())
    found = memoranda.workflow.find(memory, run.id, actions=actions)
    assert found.deliver("yes").check().output == {"answer": "omyes", "from": "middle"}


def test_a_workflow_that_waited_is_called_again_on_its_kept_text(load: Any, kitchen: Any, memory: Memory) -> None:
    each = load(
        """
        defs:
          one: {kind: task, action: call_workflow, inputs: {workflow: inner}}
        flow:
          - loop:
              type: for_each
              name: all
              for_each: {in: [1, 2, 3]}
              accumulate: {as: said, initial: [], merge: "=[$accumulator, $output.one.answer]"}
              steps: [{do: one}]
        outputs: {said: "=$output.all.said"}
        """,
        name="each",
        workflows=[load(INNER, name="inner")],
    )
    run = each.run(owner="mira")
    for said in ("a", "b"):
        run = memoranda.workflow.find(memory, run.id, actions=list(kitchen.actions.values())).deliver(said)
        assert run.status == "waiting", run.error
    assert run.deliver("c").check().output == {"said": ["a", "b", "c"]}

    other = each.run(owner="noa")
    with pytest.raises(UsageError, match="needs"):
        memoranda.workflow.find(memory, other.id).deliver("a")


def test_a_called_workflow_that_was_changed_meanwhile_goes_on_as_it_was(three: Any, load: Any, memory: Memory) -> None:
    run = three.run({}, owner="mira")
    inner = load(INNER.replace("answer: ", "reply: "), name="inner")
    changed = load(OUTER, name="outer", workflows=[load(MIDDLE, name="middle", workflows=[inner]), inner])
    assert changed.find(run.id).deliver("yes").check().output == {"answer": "omyes", "from": "middle"}
    assert changed.run({}, owner="mira").deliver("yes").output != {"answer": "omyes", "from": "middle"}


# ending by force


def test_a_run_that_is_ended_by_force_gets_no_further(load: Any, kitchen: Any, memory: Memory, define: Any) -> None:
    id = define("scratch", scope="run").id
    kitchen.add("end", lambda call: flow.find(call.place.run).cancel(reason="stuck", force=True).status)
    flow = load(f"""
    defs:
      m: {{kind: memory, settings: {{definition_id: {id}}}}}
      keep: {{kind: task, action: update_memory, inputs: {{memory: {{scratch: {{n: 1}}}}}}}}
      end: {{kind: task, action: end}}
      note: {{kind: task, action: note, inputs: {{after: 1}}}}
    flow: [{{do: keep}}, {{do: end}}, {{do: note}}]
    """)
    with pytest.raises(Conflict):
        flow.run(owner="mira")
    [run] = memory.runs.list()
    assert run.status == "cancelled"
    assert kitchen.done == []
    assert memory.scope(user="mira", run=run.id).value("scratch") is None
    assert memory.runs.verify(run.id).ok
    assert flow.find(run.id).error.message == "stuck"


def test_ending_a_caller_by_force_ends_the_run_below(load: Any, kitchen: Any, memory: Memory) -> None:
    kitchen.add("end", lambda call: flow.find(parent.id).cancel(force=True).status)
    other = load(
        """
    defs: {ask: {kind: task, action: ask}, end: {kind: task, action: end}, note: {kind: task, action: note}}
    flow: [{do: ask}, {do: end}, {do: note}]
    """,
        name="other",
    )
    flow = load(calling(), workflows=[other])
    parent = flow.run(owner="mira")
    [child] = memory.runs.list(program="other")
    with pytest.raises(Conflict):
        other.find(child.id).deliver(1)
    assert {one.status for one in memory.runs.list()} == {"cancelled"}
    assert {} not in kitchen.done
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())


def test_a_caller_that_was_resumed_while_the_run_below_waits_on_can_be_told(
    load: Any, clock: FakeClock, memory: Memory
) -> None:
    """The first question below was not answered in time; the handle above is the one for the second."""
    other = load(
        """
    defs: {a: {kind: task, action: ask, inputs: {timeout: 60}}, b: {kind: task, action: ask}}
    flow: [{do: a}, {do: b}]
    outputs: {a: "=$output.a.got", b: "=$output.b.got"}
    """,
        name="other",
    )
    flow = load(calling(), workflows=[other])
    run = flow.run(owner="mira")
    old = flow.find(run.id)
    clock.advance(60)
    run = run.resume()
    assert (run.status, run.waiting.kind) == ("waiting", "run")
    with pytest.raises(Conflict):
        old.deliver("for the first question")
    assert run.deliver("yes").check().outputs == {"call": {"a": None, "b": "yes"}}
    assert len(memory.runs.list()) == 2
