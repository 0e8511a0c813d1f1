"""Huge numbers, many of everything, and files as deep as permitted."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from memoranda.errors import SourceError, UsageError
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour

HUGE = ["99999999999999999999", "9223372036854775807", "1.0e+30"]


@pytest.mark.parametrize("number", HUGE)
def test_a_time_beyond_all_measure_is_long_or_refused_when_it_is_loaded(load: Any, number: str) -> None:
    text = f"defs: {{one: {{kind: task, action: give, settings: {{timeout_ms: {number}}}}}}}\nflow: [{{do: one}}]"
    try:
        flow = load(text)
    except SourceError:
        return
    assert flow.run(owner="mira").check().outputs == {"one": None}


@pytest.mark.parametrize("number", HUGE)
def test_a_delay_beyond_all_measure_is_one_that_can_be_slept(load: Any, kitchen: Any, number: str) -> None:
    failed: list[int] = []

    def act(call: Call) -> Any:
        failed.append(1)
        if len(failed) < 2:
            raise RuntimeError("again")

    kitchen.add("act", act)
    retries = f"{{enabled: true, backoff_ms: {number}, max_delay_ms: {number}}}"
    slept: list[float] = []
    try:
        flow = load(
            f"defs: {{one: {{kind: task, action: act, settings: {{retries: {retries}}}}}}}\nflow: [{{do: one}}]",
            behaviour=Behaviour(sleep=slept.append),
        )
    except SourceError:
        return
    flow.run(owner="mira").check()
    # What time.sleep takes on any platform.
    assert 0 < slept[0] <= 9_223_372_036


@pytest.mark.parametrize(
    "wrong",
    [{"passes": 0}, {"steps": -1}, {"branches": 1.5}, {"workflows": "8"}, {"on_invalid": "ignore"}, {"passes": True}],
    ids=str,
)
def test_choices_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Behaviour(**wrong)
    assert Behaviour(passes=1, steps=1, branches=1, workflows=1, on_invalid="skip")


def nested(step: str, depth: int) -> str:
    text = "{do: one}"
    for _ in range(depth):
        text = step.replace("STEP", text)
    return f"defs: {{one: {{kind: task, action: note, inputs: {{n: '=$iteration.index'}}}}}}\nflow: [{text}]"


@pytest.mark.parametrize(
    "step",
    [
        "{conditional: {when: [{steps: [STEP]}]}}",
        "{loop: {type: for_each, for_each: {in: [1]}, steps: [STEP]}}",
        "{loop: {type: for_each, for_each: {in: [1]}, max_concurrency: 2, steps: [STEP]}}",
        "{parallel: {steps: [STEP]}}",
    ],
    ids=["conditional", "loop", "loop beside", "parallel"],
)
def test_a_file_as_deep_as_it_may_be_runs(load: Any, kitchen: Any, step: str) -> None:
    deepest = 0
    for depth in range(1, 60):
        try:
            flow = load(nested(step, depth))
        except SourceError as refused:
            assert "nested" in str(refused)
            break
        deepest = depth
    assert 5 < deepest < 59
    kitchen.done.clear()
    flow.run(owner="mira").check()
    assert len(kitchen.done) >= 1


def test_many_tasks_many_outputs_and_many_runs(load: Any, memory: Any) -> None:
    names = [f"n{number}" for number in range(400)]
    tasks = ", ".join(f"{name}: {{kind: task, action: give, inputs: {{value: {name[1:]}}}}}" for name in names)
    steps = ", ".join(f"{{do: {name}}}" for name in names)
    flow = load(f"defs: {{{tasks}}}\nflow: [{steps}]\noutputs: {{last: '=$output.n399'}}")
    run = flow.run(owner="mira").check()
    assert run.output == {"last": 399}
    assert len(run.outputs) == 400
    assert len(run.events) == 402
    assert flow.find(run.id).outputs == run.outputs
    assert run.verify().ok


def test_a_run_of_many_steps_takes_time_in_proportion_to_them(load: Any, kitchen: Any) -> None:
    """Outputs that are there already do not make each further step slower."""
    text = """
    defs: {one: {kind: task, action: give, inputs: {value: "=$iteration.index"}}, %s}
    flow: [%s, {loop: {type: while, while: "=$iteration.index < 300", steps: [{do: one}]}}]
    """

    def took(others: int) -> float:
        names = [f"n{number}" for number in range(others)]
        defs = ", ".join(f"{name}: {{kind: task, action: big}}" for name in names)
        kitchen.add("big", lambda call: ["x" * 100] * 100)
        flow = load(text % (defs, ", ".join(f"{{do: {name}}}" for name in names)))
        before = time.perf_counter()
        flow.run(owner="mira").check()
        return time.perf_counter() - before

    took(1)
    quick = any((ratio := took(60) / took(1)) < 6 for _ in range(3))
    assert quick, f"with sixty outputs there, three hundred steps took {ratio:.1f} times as long"


def test_a_machine_that_has_no_more_threads_ends_the_run_and_those_that_had_begun(
    load: Any, kitchen: Any, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        if thread.name == "memoranda-workflow":
            begun.append(thread)
            if len(begun) > 2:
                raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    flow = load("""
    defs:
      stand: {kind: task, action: stand, inputs: {bell: here}}
      note: {kind: task, action: note, inputs: {n: 1}}
    flow:
      - parallel:
          steps:
            - conditional: {when: [{steps: [{do: stand}, {do: note}]}]}
            - conditional: {when: [{steps: [{do: stand}, {do: note}]}]}
            - do: note
    """)
    try:
        run = flow.run(owner="mira")
        assert run.status == "failed"
    except RuntimeError as error:
        assert "thread" in str(error)
    kitchen.bell("here").ring()
    for thread in begun[:2]:
        thread.join(60)
    assert kitchen.done == []
    assert [one.status for one in memory.runs.list()] == ["failed"]
    monkeypatch.undo()
    assert flow.run(owner="mira").check()
