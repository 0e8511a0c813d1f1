"""What the ledger holds of a run: each step, in order, before anything happens, and never what it was about."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import Unavailable
from memoranda.workflow.actions.base import Call

WHOLE = """
context: {shop: Mill}
defs:
  one: {kind: task, action: give, inputs: {value: "=$input.secret"}}
  keep: {kind: task, action: update_memory, inputs: {memory: {diary: {text: "=$input.secret"}}}}
  say: {kind: task, action: send_text_message, inputs: {text: "=$input.secret"}}
  put: {kind: task, action: set_context, inputs: {values: {secret: "=$input.secret"}}}
  ask: {kind: task, action: ask, inputs: {event: answer}}
flow:
  - do: one
  - conditional:
      when:
        - {condition: "=$input.secret = 'other'", steps: [{do: ask}]}
        - {condition: "=$exists($input.secret)", steps: [{do: keep}, {do: say}]}
  - loop:
      type: for_each
      for_each: {in: [1, 2, 3]}
      steps: [{do: put}]
  - loop: {type: for_each, for_each: {in: [1, 2]}, max_concurrency: 2, steps: [{do: one}]}
  - parallel: {steps: [{do: one}, {do: put}]}
  - do: ask
outputs: {secret: "=$output.one"}
"""
SECRET = "the recipe of grandmother"


@pytest.fixture
def diary(memory: Memory) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    memory.definitions.create(name="Diary", slug="diary", schema=schema)


def test_each_step_is_an_event_in_the_order_in_which_it_was_done(load: Any, memory: Memory, diary: None) -> None:
    run = load(WHOLE, name="desk").run({"secret": SECRET}, owner="mira").deliver(SECRET).check()
    events = run.events
    assert [event.index for event in events] == list(range(1, len(events) + 1))
    told = [(event.kind, event.step, event.detail.get("type")) for event in events]
    assert told[0][0] == "exec_start"
    assert told[-1][0] == "exec_end"
    steps = [(step, kind) for _, step, kind in told[1:-1]]
    assert steps[0] == ("one", "give")
    assert ("keep", "update_memory") in steps
    assert steps.count(("put", "set_context")) == 4
    assert steps.count(("one", "give")) == 1 + 2 + 1
    [branch] = [event.detail for event in events if event.detail.get("type") == "conditional"]
    assert branch["branch"] == 2
    assert sorted(event.detail["passes"] for event in events if event.detail.get("type") == "loop") == [2, 3]
    assert events[0].detail["workflow"] == "desk"
    assert events[-1].detail["status"] == "completed"
    assert run.verify().ok
    assert (run.summary.events, run.summary.head) == (events[-1].index, events[-1].hash)


def test_no_event_says_what_it_was_about(load: Any, memory: Memory, diary: None, kitchen: Any) -> None:
    def act(call: Call) -> Any:
        raise RuntimeError(f"failed over {SECRET}")

    kitchen.add("burn", act)
    text = WHOLE + "\n"
    done = load(text).run({"secret": SECRET}, owner="mira", thread="t1").deliver(SECRET).check()
    failed = load("defs: {burn: {kind: task, action: burn}}\nflow: [{do: burn}]").run(owner="mira")
    assert SECRET in failed.error.message
    for run in (done, failed):
        for event in run.events:
            assert SECRET not in json.dumps(event.detail)
            assert SECRET not in str(event.step)
    everything = [json.dumps(event.detail, default=str) for event in memory.ledger.events(limit=1000)]
    assert len(everything) > 20
    assert not any(SECRET in one for one in everything)


def test_everything_that_a_workflow_does_came_through_its_door(load: Any, memory: Memory, diary: None) -> None:
    before = memory.ledger.verify().length
    load(WHOLE).run({"secret": SECRET}, owner="mira", thread="t1").deliver(SECRET).check()
    events = [event for event in memory.ledger.events(limit=1000) if event.position > before]
    assert len(events) > 10
    assert {event.door for event in events} == {"workflow"}


def test_what_came_before_is_on_record_before_an_action_acts(load: Any, memory: Memory, kitchen: Any) -> None:
    seen: list[Any] = []

    def act(call: Call) -> Any:
        seen.append([(event.kind, event.step) for event in memory.runs.events(call.place.run)])
        seen.append(memory.runs.get(call.place.run).status)

    kitchen.add("act", act)
    load("defs: {a: {kind: task, action: act}, b: {kind: task, action: act}}\nflow: [{do: a}, {do: b}]").run(
        owner="mira"
    )
    assert seen == [
        [("exec_start", None)],
        "running",
        [("exec_start", None), ("step_record", "a")],
        "running",
    ]


def test_a_failure_is_an_event_with_its_code_and_its_place(load: Any) -> None:
    run = load("defs: {burn: {kind: task, action: burn}}\nflow: [{do: burn}]").run(owner="mira")
    record, end = run.events[-2:]
    assert (record.step, record.detail["error"]) == ("burn", "action_failed")
    assert (end.kind, end.detail["status"], end.detail["error"], end.detail["at"]) == (
        "exec_end",
        "failed",
        "action_failed",
        "burn",
    )


def test_the_list_of_runs_tells_workflows_from_machines(load: Any, memory: Memory) -> None:
    run = load("defs: {}\nflow: []\n", name="desk").run(owner="mira").check()
    memoranda.mashin.load("machine desk\n  implements\n    compute x\n      1\n", memory=memory).run()
    assert len(memory.runs.list(program="desk")) == 2
    [found] = memory.runs.list(language="workflow")
    assert (found.id, found.program, found.language, found.status) == (run.id, "desk", "workflow", "completed")
    assert found.scope == "user:mira"
    assert memory.runs.get(run.id).ended_at is not None


def test_a_run_whose_events_were_changed_does_not_verify(tmp_path: Any, load: Any) -> None:
    with memoranda.open(tmp_path / "m.db") as memory:
        run = load("defs: {a: {kind: task, action: give}}\nflow: [{do: a}]", memory=memory).run(owner="mira")
        assert run.verify().ok
        id = run.id
    database = sqlite3.connect(tmp_path / "m.db")
    swapped = "cast(replace(cast(body as text), 'give', 'take') as blob)"
    changed = database.execute(f"update events set body = {swapped} where cast(body as text) like '%give%'").rowcount
    database.commit()
    database.close()
    assert changed > 0
    with memoranda.open(tmp_path / "m.db") as memory:
        assert not memory.runs.verify(id).ok


def test_a_run_is_kept_for_a_time_and_its_events_for_ever(load: Any, memory: Memory, clock: Any) -> None:
    flow = load(
        "defs: {a: {kind: task, action: give, inputs: {value: 1}}, ask: {kind: task, action: ask}}\n"
        "flow: [{do: a}, {do: ask}]\n"
    )
    done, waiting = flow.run(owner="mira").deliver(1).check(), flow.run(owner="mira")
    clock.advance(30 * 86_400)
    memory.sweep()
    with pytest.raises(memoranda.NotFound):
        flow.find(done.id)
    assert memory.runs.events(done.id)[-1].kind == "exec_end"
    assert flow.find(waiting.id).deliver(2).check().outputs == {"a": 1, "ask": {"got": 2}}


def test_a_ledger_that_cannot_be_written_stops_the_run_before_the_next_action(
    load: Any, memory: Memory, kitchen: Any
) -> None:
    flow = load(
        """
    defs: {a: {kind: task, action: note, inputs: {n: 1}}, cut: {kind: task, action: cut}}
    flow: [{do: a}, {do: cut}, {do: a}]
    """,
        actions=[*kitchen.actions.values(), kitchen.add("cut", lambda call: memory.close())],
    )
    with pytest.raises(memoranda.MemorandaError) as caught:
        flow.run(owner="mira")
    assert not isinstance(caught.value, memoranda.RunFailed)
    assert isinstance(caught.value, Unavailable | memoranda.UsageError | memoranda.StorageError)
    assert kitchen.done == [{"n": 1}]


def test_erasing_an_owner_takes_the_runs_along(load: Any, memory: Memory, diary: None) -> None:
    flow = load(WHOLE)
    mira = flow.run({"secret": SECRET}, owner="mira", thread="t1").deliver(SECRET).check()
    noa = flow.run({"secret": SECRET}, owner="noa", thread="t1").deliver(SECRET).check()
    memory.erase(user="mira")
    with pytest.raises(memoranda.NotFound):
        flow.find(mira.id)
    assert flow.find(noa.id).output == {"secret": SECRET}
    assert memory.runs.events(mira.id), "what happened stays on record"
    assert memory.ledger.verify().ok


def test_an_action_that_erases_its_own_owner_leaves_nothing_behind(load: Any, memory: Memory, kitchen: Any) -> None:
    kitchen.add("erase", lambda call: memory.erase(user="mira") and None)
    flow = load("""
    defs:
      one: {kind: task, action: give, inputs: {value: "=$input.secret"}}
      erase: {kind: task, action: erase}
      say: {kind: task, action: send_text_message, inputs: {text: "=$input.secret"}}
    flow: [{do: one}, {do: say}, {do: erase}, {do: one}, {do: say}]
    """)
    with pytest.raises(memoranda.ScopeEnded):
        flow.run({"secret": SECRET}, owner="mira", thread="t1")
    assert memory.runs.list() == []
    assert memory.ledger.verify().ok
    assert flow.run({"secret": SECRET}, owner="noa").status == "completed"
