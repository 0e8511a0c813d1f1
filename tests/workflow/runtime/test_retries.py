"""Retries of tasks: how many, after which delays, and which failures are not retried."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from memoranda import ActionFailed, Policy, Rule
from memoranda.api.memory import Memory
from memoranda.errors import ModelFailed, SchemaViolation
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour


class Fails:
    """An action that fails a number of times, and then gives how often it was called."""

    def __init__(self, times: int, error: Any = None) -> None:
        self.times = times
        self.error = error or RuntimeError("the dough fell")
        self.calls = 0

    def __call__(self, call: Call) -> Any:
        self.calls += 1
        if self.calls <= self.times:
            raise self.error
        return self.calls


def baking(retries: str, rest: str = "") -> str:
    return f"""
defs:
  bake: {{kind: task, action: bake, settings: {{retries: {retries}}}}}
flow: [{{do: bake}}]
{rest}
"""


def attempts_of(run: Any, step: str = "bake") -> list[int]:
    """Return how often a task was tried, each time that it was done; an event says so where it was more than once."""
    records = [event for event in run.events if event.kind == "step_record" and event.step == step]
    return [event.detail.get("attempts", 1) for event in records]


def run_baking(load: Any, kitchen: Any, fails: Fails, retries: str) -> tuple[Any, list[float]]:
    slept: list[float] = []
    kitchen.add("bake", fails)
    run = load(baking(retries), behaviour=Behaviour(sleep=slept.append)).run(owner="mira")
    return run, slept


def test_a_task_that_fails_is_not_tried_again_unless_it_says_so(load: Any, kitchen: Any) -> None:
    for retries in ("{}", "{enabled: false, max_attempts: 5}", "{max_attempts: 5}"):
        fails = Fails(1)
        run, slept = run_baking(load, kitchen, fails, retries)
        assert (run.status, fails.calls, slept, attempts_of(run)) == ("failed", 1, [], [1])
    run, slept = run_baking(load, kitchen, Fails(1), "{enabled: true}")
    assert (run.status, run.outputs, attempts_of(run)) == ("completed", {"bake": 2}, [2])
    assert slept == [0.025]


def test_the_last_attempt_is_the_last(load: Any, kitchen: Any) -> None:
    fails = Fails(100)
    run, slept = run_baking(load, kitchen, fails, "{enabled: true}")
    assert (run.status, fails.calls, slept, attempts_of(run)) == ("failed", 3, [0.025, 0.025], [3])
    assert (run.error.type, run.error.step) == ("action_failed", "bake")
    assert "the dough fell" in run.error.message
    only = Fails(1)
    run, slept = run_baking(load, kitchen, only, "{enabled: true, max_attempts: 1}")
    assert (run.status, only.calls, slept) == ("failed", 1, [])


@pytest.mark.parametrize(
    ("retries", "delays"),
    [
        ("{enabled: true, max_attempts: 5, backoff_ms: 100}", [0.1, 0.1, 0.1, 0.1]),
        ("{enabled: true, max_attempts: 5, backoff_ms: 100, multiplier: 2}", [0.1, 0.2, 0.4, 0.8]),
        ("{enabled: true, max_attempts: 5, backoff_ms: 100, multiplier: 3, max_delay_ms: 500}", [0.1, 0.3, 0.5, 0.5]),
        ("{enabled: true, max_attempts: 3, backoff_ms: 100, max_delay_ms: 40}", [0.04, 0.04]),
        ("{enabled: true, max_attempts: 3, backoff_ms: 20000}", [10.0, 10.0]),
        ("{enabled: true, max_attempts: 3, backoff_ms: 1.5, multiplier: 1.5}", [0.0015, 0.00225]),
    ],
)
def test_delays_grow_as_the_settings_say(load: Any, kitchen: Any, retries: str, delays: list[float]) -> None:
    run, slept = run_baking(load, kitchen, Fails(len(delays)), retries)
    assert run.status == "completed"
    assert slept == pytest.approx(delays)


def test_without_a_delay_the_next_attempt_comes_at_once(load: Any, kitchen: Any) -> None:
    run, slept = run_baking(load, kitchen, Fails(2), "{enabled: true, backoff_ms: 0, jitter: 1}")
    assert (run.status, sum(slept)) == ("completed", 0)


def test_a_delay_that_grows_beyond_all_numbers_is_the_longest_one(load: Any, kitchen: Any) -> None:
    retries = "{enabled: true, max_attempts: 1200, backoff_ms: 1, multiplier: 10, max_delay_ms: 7}"
    run, slept = run_baking(load, kitchen, Fails(1199), retries)
    assert run.status == "completed"
    assert slept[0] == pytest.approx(0.001)
    assert slept[1:] == pytest.approx([0.007] * 1198)


@pytest.mark.parametrize("multiplier", ["1.0e300", "1" + "0" * 40])
def test_a_multiplier_beyond_all_measure_gives_the_longest_delay(load: Any, kitchen: Any, multiplier: str) -> None:
    retries = f"{{enabled: true, max_attempts: 70, backoff_ms: 2, multiplier: {multiplier}, max_delay_ms: 9}}"
    run, slept = run_baking(load, kitchen, Fails(69), retries)
    assert run.status == "completed"
    assert slept == pytest.approx([0.002, *[0.009] * 68])


def test_a_delay_that_grows_slowly_grows_on(load: Any, kitchen: Any) -> None:
    retries = "{enabled: true, max_attempts: 200, backoff_ms: 1, multiplier: 1.05, max_delay_ms: 1000000}"
    run, slept = run_baking(load, kitchen, Fails(199), retries)
    assert run.status == "completed"
    assert slept == pytest.approx([0.001 * 1.05**number for number in range(199)])


def test_jitter_moves_a_delay_by_no_more_than_its_part(load: Any, kitchen: Any) -> None:
    retries = "{enabled: true, max_attempts: 200, backoff_ms: 100, jitter: 0.5, max_delay_ms: 1000}"
    run, slept = run_baking(load, kitchen, Fails(199), retries)
    assert run.status == "completed"
    assert len(set(slept)) > 100, "they differ"
    assert all(0.05 <= delay <= 0.15 for delay in slept)
    assert min(slept) < 0.095
    assert max(slept) > 0.105


def test_settings_of_all_tasks_are_merged_with_those_of_one(load: Any, kitchen: Any) -> None:
    slept: list[float] = []
    for name, times in (("bake", 4), ("glaze", 2)):
        kitchen.add(name, Fails(times))
    flow = load(
        """
    defaults: {settings: {retries: {enabled: true, max_attempts: 5, backoff_ms: 100}}}
    defs:
      bake: {kind: task, action: bake, settings: {retries: {multiplier: 2}}}
      glaze: {kind: task, action: glaze, settings: {retries: {max_attempts: 2}}}
    flow: [{do: bake}, {do: glaze}]
    """,
        behaviour=Behaviour(sleep=slept.append),
    )
    run = flow.run(owner="mira")
    assert slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 0.1])
    assert (run.status, run.outputs, run.error.step) == ("failed", {"bake": 5}, "glaze")
    assert (attempts_of(run), attempts_of(run, "glaze")) == ([5], [2])


# what is not tried again


def test_inputs_that_do_not_fit_are_not_tried_again(load: Any, kitchen: Any) -> None:
    fails = Fails(0)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    kitchen.add("bake", fails, inputs=schema)
    slept: list[float] = []
    text = """
    defs: {bake: {kind: task, action: bake, inputs: {n: "=$input.n"}, settings: {retries: {enabled: true}}}}
    flow: [{do: bake}]
    """
    flow = load(text, behaviour=Behaviour(sleep=slept.append))
    run = flow.run({"n": "three"}, owner="mira")
    assert (run.status, run.error.type, fails.calls, slept) == ("failed", "schema_violation", 0, [])
    assert flow.run({"n": 3}, owner="mira").outputs == {"bake": 1}


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ActionFailed("the bill is not paid", type="refused", retryable=False), 1),
        (ActionFailed("busy", type="busy", retryable=True), 3),
        (ActionFailed("who knows", type="error"), 3),
        (ModelFailed("no such model", retryable=False, reason="refused"), 1),
        (ModelFailed("too many", retryable=True, reason="rate"), 3),
        (RuntimeError("anything"), 3),
    ],
)
def test_an_error_that_says_it_is_final_is_not_tried_again(load: Any, kitchen: Any, error: Any, calls: int) -> None:
    fails = Fails(2, error)
    run, slept = run_baking(load, kitchen, fails, "{enabled: true}")
    assert (fails.calls, len(slept)) == (calls, calls - 1)
    assert run.status == ("failed" if calls == 1 else "completed")


def test_a_refusal_of_the_gate_is_not_tried_again(load: Any, memory: Memory, define: Any) -> None:
    define("diary")
    slept: list[float] = []
    text = """
    defs:
      keep: {kind: task, action: update_memory, inputs: {memory: {diary: {n: 1}}}, settings: {retries: {enabled: true}}}
    flow: [{do: keep}]
    """
    allowed = [Rule("allow", one) for one in ("runs", "memory.read", "memory.write", "definitions.read")]
    narrowed = memory.narrowed(Policy(rules=(*allowed, Rule("deny", "memory.write", path="diary"))))
    run = load(text, memory=narrowed, behaviour=Behaviour(sleep=slept.append)).run(owner="mira")
    assert (run.status, run.error.type, run.error.step, slept) == ("failed", "denied", "keep", [])
    assert memory.scope(user="mira").value("diary") is None
    load(text).run(owner="mira").check()
    assert memory.scope(user="mira").value("diary") == {"n": 1}


def test_a_record_that_its_definition_refuses_is_told_as_it_is(load: Any, define: Any) -> None:
    define("diary")
    text = """
    defs: {keep: {kind: task, action: update_memory, inputs: {memory: {diary: {n: "=$input.n"}}}}}
    flow: [{do: keep}]
    """
    run = load(text).run({"n": "many"}, owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", SchemaViolation.code, "keep")
    assert load(text).run({"n": 2}, owner="mira").check().context["memory"] == {"diary": {"n": 2}}


# what an attempt leaves behind


def test_each_attempt_gets_the_same_inputs_whatever_the_one_before_did_to_them(load: Any, kitchen: Any) -> None:
    seen: list[Any] = []

    def act(call: Call) -> Any:
        seen.append([dict(call.inputs), list(call.inputs["list"]), dict(call.settings)])
        call.inputs["list"].append("changed")
        call.inputs["more"] = 1
        call.settings["mode"] = "changed"
        if len(seen) < 3:
            raise RuntimeError("again")
        return len(seen)

    kitchen.add("bake", act)
    flow = load(
        """
    defs:
      bake:
        kind: task
        action: bake
        inputs: {list: [1, "=$input.n"], id: "=$uuid()"}
        settings: {mode: slow, retries: {enabled: true}}
    flow: [{do: bake}, {do: bake}]
    """,
        behaviour=Behaviour(sleep=lambda seconds: None),
    )
    flow.run({"n": 2}, owner="mira").check()
    assert len(seen) == 4
    assert [one[1] for one in seen] == [[1, 2]] * 4
    assert all("more" not in one[0] for one in seen)
    assert all(one[2].get("mode") == "slow" for one in seen)
    assert seen[0][0]["id"] == seen[1][0]["id"] == seen[2][0]["id"], "an attempt is the same task once more"
    assert seen[3][0]["id"] != seen[0][0]["id"], "doing it again is not"


def test_a_pause_between_attempts_ends_with_the_run(load: Any, kitchen: Any) -> None:
    """A branch that waits for its next attempt does not try again when the block is over."""
    fails = Fails(100)
    kitchen.add("bake", fails)
    asleep, awake, woke = threading.Event(), threading.Event(), threading.Event()

    def sleep(seconds: float) -> None:
        asleep.set()
        awake.wait(60)
        woke.set()

    def burn(call: Call) -> Any:
        assert asleep.wait(60)
        raise RuntimeError("the other branch")

    kitchen.add("burn", burn)
    flow = load(
        """
    defs:
      bake: {kind: task, action: bake, settings: {retries: {enabled: true, max_attempts: 50}}}
      burn: {kind: task, action: burn}
    flow:
      - parallel: {steps: [{do: bake}, {do: burn}]}
    """,
        behaviour=Behaviour(sleep=sleep),
    )
    run = flow.run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "burn")
    assert fails.calls == 1
    awake.set()
    assert woke.wait(60)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(0.05)
    assert fails.calls <= 1, "nobody tries again for a run that is over"
