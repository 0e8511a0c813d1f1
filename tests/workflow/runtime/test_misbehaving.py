"""Misbehaving actions: the run ends with a reason, and is not corrupted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import MemorandaError
from memoranda.runs.outcome import Paused, Waiting
from memoranda.workflow.actions.base import Call, Stopped

PATIENCE = 60.0
ONE = "defs: {one: {kind: task, action: act, inputs: {n: [1]}}}\nflow: [{do: one}]\n"
THEN = """
defs:
  one: {kind: task, action: act, inputs: {list: [1, {deep: "=$input.deep"}]}, settings: {mode: [slow]}}
  two: {kind: task, action: note, inputs: {seen: "=$output.one", input: "=$input"}}
flow: [{do: one}, {do: two}, {do: one}, {do: two}]
"""


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# what they give

NO_JSON: dict[str, Callable[[], Any]] = {
    "a set": lambda: {1, 2},
    "bytes": lambda: b"x",
    "not a number": lambda: float("nan"),
    "infinity": lambda: [float("inf")],
    "an object": object,
    "a function": lambda: print,
    "a generator": lambda: (number for number in range(3)),
    "a class": lambda: int,
    "keys that are no text": lambda: {1: 2},
    "a circle": cyclic,
    "too deep": lambda: deep(500),
    "far too deep": lambda: deep(100_000),
    "too large": lambda: "x" * 5_000_000,
    "too many": lambda: list(range(1_000_000)),
    "half a letter": lambda: "\ud800",
    "an end of text": lambda: "a\x00b",
    "a number without end": lambda: 10**400,
    "an error": lambda: ValueError("given, not raised"),
}


@pytest.mark.parametrize("what", NO_JSON)
def test_what_is_no_json_is_no_output(load: Any, kitchen: Any, what: str, memory: Memory) -> None:
    kitchen.add("act", lambda call: NO_JSON[what]())
    flow = load(
        "defs: {ok: {kind: task, action: give, inputs: {value: 1}}, one: {kind: task, action: act}}\n"
        "flow: [{do: ok}, {do: one}, {do: ok}]\n"
    )
    run = flow.run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert run.error.type in ("invalid_value", "limit_exceeded")
    assert "`one`" in run.error.message
    assert run.outputs == {"ok": 1}
    found = flow.find(run.id)
    assert (found.status, found.outputs, found.error) == ("failed", {"ok": 1}, run.error)
    assert run.verify().ok
    assert memory.ledger.verify().ok


def test_a_tuple_a_date_and_the_like_are_json_or_refused_but_never_themselves(load: Any, kitchen: Any) -> None:
    kinds: set[str] = set()
    for value in ((1, 2), datetime(2026, 1, 1, tzinfo=UTC), 1 + 2j, range(3)):
        kitchen.add("act", lambda call, value=value: value)
        run = load(ONE).run(owner="mira")
        kinds.add(run.status)
        if run.status == "completed":
            assert isinstance(run.outputs["one"], list | str)
    assert "failed" in kinds


# what they change


def test_an_action_that_changes_what_it_was_given_changes_it_for_itself(load: Any, kitchen: Any) -> None:
    seen: list[Any] = []

    def act(call: Call) -> Any:
        seen.append([repr(call.inputs), repr(call.settings)])
        call.inputs["list"].append("mine")
        call.inputs["list"][1]["deep"]["x"] = "mine"
        call.inputs["more"] = 1
        call.settings["mode"].append("mine")
        call.place.input["deep"]["x"] = "mine"
        call.place.input.clear()
        return {"n": 1}

    kitchen.add("act", act)
    given = {"deep": {"x": 1}}
    flow = load(THEN)
    for _ in range(2):
        run = flow.run(given, owner="mira").check()
        assert run.input == {"deep": {"x": 1}}
    assert given == {"deep": {"x": 1}}
    assert len(seen) == 4
    assert all(one == seen[0] for one in seen)
    assert all(one["input"] == {"deep": {"x": 1}} for one in kitchen.done)


def test_an_action_that_keeps_its_output_and_changes_it_later_changes_nothing(load: Any, kitchen: Any) -> None:
    kept: list[Any] = []

    def act(call: Call) -> Any:
        for one in kept:
            one["list"].append("later")
            one["more"] = 1
        kept.append({"list": [len(kept)]})
        return kept[-1]

    kitchen.add("act", act)
    run = load(THEN).run({"deep": {}}, owner="mira").check()
    kept[-1]["list"].append("after the end")
    assert [one["seen"] for one in kitchen.done] == [{"list": [0]}, {"list": [1]}]
    assert run.outputs["one"] == {"list": [1]}


def test_an_action_that_gives_its_inputs_shares_nothing_with_them(load: Any, kitchen: Any) -> None:
    kept: list[Any] = []

    def act(call: Call) -> Any:
        kept.append(call.inputs)
        return call.inputs

    kitchen.add("act", act)
    flow = load(THEN)
    run = flow.run({"deep": {"x": 1}}, owner="mira").check()
    for one in kept:
        one["list"].clear()
    assert run.outputs["one"] == {"list": [1, {"deep": {"x": 1}}]}
    assert flow.run({"deep": {"x": 1}}, owner="mira").check().outputs["one"] == {"list": [1, {"deep": {"x": 1}}]}


def test_values_of_the_context_are_the_runs_own(load: Any, kitchen: Any) -> None:
    mine: dict[str, Any] = {"list": [1]}

    def act(call: Call) -> Any:
        call.place.set_context(mine)
        mine["list"].append("later")
        mine["other"] = 1

    kitchen.add("act", act)
    run = (
        load("""
    defs: {one: {kind: task, action: act}, two: {kind: task, action: note, inputs: {seen: "=$context.list"}}}
    flow: [{do: one}, {do: two}]
    """)
        .run(owner="mira")
        .check()
    )
    assert kitchen.done == [{"seen": [1]}]
    assert run.context == {"list": [1], "memory": {}}


def test_what_a_run_shows_is_not_the_run(load: Any) -> None:
    flow = load(
        "context: {a: [1]}\ndefs: {one: {kind: task, action: give, inputs: {value: [1]}}}\nflow: [{do: one}]\n"
        "outputs: {o: '=$output.one'}"
    )
    run = flow.run({"x": [1]}, owner="mira").check()
    run.messages.append("mine")
    run.context["memory"]["mine"] = 1
    assert run.messages == []
    assert run.context["memory"] == {}
    assert flow.find(run.id).output == {"o": [1]}


@pytest.mark.parametrize(
    "values",
    [{"memory": {"x": 1}}, {"x": {1, 2}}, {"x": float("nan")}, {1: 2}, "text", None, {"x": cyclic()}, {"x": "\ud800"}],
    ids=["memory", "a set", "nan", "number as name", "text", "none", "circle", "half a letter"],
)
def test_a_context_that_cannot_be_is_refused(load: Any, kitchen: Any, values: Any) -> None:
    def act(call: Call) -> Any:
        call.place.set_context({"fine": 1})
        call.place.set_context(values)

    kitchen.add("act", act)
    flow = load(ONE)
    run = flow.run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert run.context == {"fine": 1, "memory": {}}
    assert flow.find(run.id).context == {"fine": 1, "memory": {}}


@pytest.mark.parametrize("text", ["", "  ", None, 7, {"a": 1}, ["x"], "x" * 1_000_000, "\ud800", "a\x00b"])
@pytest.mark.parametrize("thread", [None, "t1"])
def test_a_message_that_says_nothing_is_refused_with_and_without_a_thread(
    load: Any, kitchen: Any, text: Any, thread: str | None
) -> None:
    def act(call: Call) -> Any:
        call.place.send("fine")
        call.place.send(text)

    kitchen.add("act", act)
    flow = load(ONE)
    run = flow.run(owner="mira", thread=thread)
    assert (run.status, run.error.step) == ("failed", "one")
    assert run.messages == ["fine"]
    assert flow.find(run.id).messages == ["fine"]


# who they call


@pytest.mark.parametrize("depth", ["flow", "parallel", "timeout", "loop"])
@pytest.mark.parametrize("torn", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_ends_the_run_and_is_passed_on(
    load: Any, kitchen: Any, memory: Memory, torn: type[BaseException], depth: str
) -> None:
    def act(call: Call) -> Any:
        raise torn("by hand")

    kitchen.add("act", act)
    step = {
        "flow": "{do: one}",
        "timeout": "{do: slow}",
        "parallel": "{parallel: {steps: [{do: one}, {do: stand}]}}",
        "loop": "{loop: {type: for_each, for_each: {in: [1, 2]}, max_concurrency: 2, steps: [{do: one}]}}",
    }[depth]
    flow = load(f"""
    defs:
      ok: {{kind: task, action: give, inputs: {{value: 1}}}}
      one: {{kind: task, action: act}}
      slow: {{kind: task, action: act, settings: {{timeout_ms: 50000}}}}
      stand: {{kind: task, action: stand, inputs: {{bell: never}}}}
    flow: [{{do: ok}}, {step}]
    """)
    with pytest.raises(torn):
        flow.run(owner="mira")
    [stopped] = memory.runs.list()
    assert stopped.status == "failed" and stopped.error is not None
    assert torn.__name__ in stopped.error["message"]
    found = flow.find(stopped.id)
    assert found.outputs == {"ok": 1}
    assert found.events[-1].kind == "exec_end"
    assert found.verify().ok


def test_an_action_that_leaves_by_sys_exit_is_passed_on_too(load: Any, kitchen: Any, memory: Memory) -> None:
    kitchen.add("act", lambda call: sys.exit(3))
    with pytest.raises(SystemExit):
        load(ONE).run(owner="mira")
    assert [one.status for one in memory.runs.list()] == ["failed"]


def test_a_place_is_of_no_use_after_its_call(load: Any, kitchen: Any, memory: Memory, define: Any) -> None:
    define("diary")
    places: list[Any] = []

    def act(call: Call) -> Any:
        places.append(call.place)
        call.place.send("in time")

    kitchen.add("act", act)
    flow = load(ONE)
    run = flow.run(owner="mira", thread="t1").check()
    length = memory.ledger.verify().length
    [place] = places
    for attempt in (
        lambda: place.send("late"),
        lambda: place.set_context({"late": 1}),
        lambda: place.memory.write({"diary": {"n": 1}}),
        lambda: place.wait("late"),
        lambda: place.call_workflow("workflow", {}),
        lambda: place.call_task("one", {}),
        lambda: place.history(3),
    ):
        with pytest.raises((Stopped, MemorandaError)):
            attempt()
    assert (place.run, place.owner, place.workflow, place.thread) == (run.id, "mira", "workflow", "t1")
    found = flow.find(run.id)
    assert (found.messages, found.context) == (["in time"], {"memory": {}})
    assert memory.ledger.verify().length == length


def test_an_action_that_uses_the_place_of_an_earlier_call_fails(load: Any, kitchen: Any, memory: Memory) -> None:
    """What it runs into there is not its own end, and not that of the run."""
    places: list[Any] = []

    def act(call: Call) -> Any:
        places.append(call.place)
        places[0].send("with the first one")

    kitchen.add("act", act)
    for steps in ("[{do: one}, {do: one}]", "[{do: one}, {parallel: {steps: [{do: one}]}}]"):
        places.clear()
        run = load(f"defs: {{one: {{kind: task, action: act}}}}\nflow: {steps}\n").run(owner="mira")
        assert (run.status, run.error.step) == ("failed", "one")
        assert run.messages == ["with the first one"]
        assert run.verify().ok


@pytest.mark.parametrize("error", [Stopped("made up"), Paused(Waiting(kind="event", step="one", event="made up"))])
def test_an_action_that_raises_what_only_runs_raise_does_not_harm_the_run(
    load: Any, kitchen: Any, memory: Memory, error: Exception
) -> None:
    def act(call: Call) -> Any:
        raise error

    kitchen.add("act", act)
    run = load(ONE).run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert memory.runs.list()[0].status == "failed"
    assert run.verify().ok


def test_what_threads_of_an_action_do_together_is_all_there(
    load: Any, kitchen: Any, memory: Memory, define: Any
) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    memory.definitions.create(name="Shelf", slug="shelf", schema=schema, mode="merge")

    def act(call: Call) -> Any:
        def work(number: int) -> None:
            call.place.send(f"m{number}")
            call.place.set_context({f"c{number}": number})
            call.place.memory.write({"shelf": {f"n{number}": number}})
            call.place.history(5)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    kitchen.add("act", act)
    flow = load(ONE)
    run = flow.run(owner="mira", thread="t1").check()
    assert sorted(run.messages) == sorted(f"m{number}" for number in range(16))
    assert {name for name in run.context if name != "memory"} == {f"c{number}" for number in range(16)}
    assert memory.scope(user="mira").value("shelf") == {f"n{number}": number for number in range(16)}
    assert run.context["memory"] == {"shelf": {f"n{number}": number for number in range(16)}}
    assert flow.find(run.id).context == run.context


def test_threads_that_an_action_left_behind_change_nothing(load: Any, kitchen: Any, memory: Memory) -> None:
    ended = threading.Event()
    met: list[Exception] = []

    def act(call: Call) -> Any:
        def work() -> None:
            kitchen.bell("later").await_ring()
            try:
                call.place.send("late")
            except Stopped as stopped:
                met.append(stopped)
            ended.set()

        threading.Thread(target=work, daemon=True).start()
        kitchen.bell("later").await_guests()

    kitchen.add("act", act)
    flow = load(ONE)
    run = flow.run(owner="mira").check()
    kitchen.bell("later").ring()
    assert ended.wait(PATIENCE)
    assert len(met) == 1
    assert flow.find(run.id).messages == []


def test_an_action_may_run_the_same_workflow_again_from_inside(load: Any, kitchen: Any, memory: Memory) -> None:
    flows: list[Any] = []

    def act(call: Call) -> Any:
        if call.place.input.get("n", 0) < 3:
            return flows[0].run({"n": call.place.input.get("n", 0) + 1}, owner=call.place.owner).outputs["one"] + 1
        return 0

    kitchen.add("act", act)
    flows.append(load(ONE))
    assert flows[0].run(owner="mira").check().outputs == {"one": 3}
    assert len(memory.runs.list()) == 4
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list())


def test_one_workflow_runs_in_many_threads_at_once(load: Any, kitchen: Any, memory: Memory) -> None:
    flow = load("""
    context: {me: "=$input.n"}
    defs:
      one: {kind: task, action: give, inputs: {value: "=$input.n * 10"}}
      two: {kind: task, action: set_context, inputs: {values: {sum: "=$context.me + $output.one"}}}
    flow:
      - do: one
      - parallel: {steps: [{do: two}, {do: one}]}
    outputs: {sum: "=$context.sum"}
    """)
    results: dict[int, Any] = {}

    def go(number: int) -> None:
        results[number] = flow.run({"n": number}, owner=f"owner{number % 3}").output

    threads = [threading.Thread(target=go, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: {"sum": number * 11} for number in range(24)}
    assert all(memory.runs.verify(one.id).ok for one in memory.runs.list(limit=100))
    assert memory.ledger.verify().ok


# how much they give


def test_many_large_outputs_are_kept_over_a_pause(load: Any, kitchen: Any) -> None:
    """Each fits; together they are more than one value may be."""
    kitchen.add("act", lambda call: "x" * 900_000)
    names = [f"n{number}" for number in range(6)]
    tasks = ", ".join(f"{name}: {{kind: task, action: act}}" for name in names)
    puts = ", ".join(
        f"p{name}: {{kind: task, action: set_context, inputs: {{values: {{{name}: '=$output.{name}'}}}}}}"
        for name in names
    )
    steps = ", ".join(f"{{do: {name}}}, {{do: p{name}}}" for name in names)
    flow = load(f"defs: {{{tasks}, {puts}, ask: {{kind: task, action: ask}}}}\nflow: [{steps}, {{do: ask}}]\n")
    run = flow.run(owner="mira")
    assert run.status == "waiting"
    done = flow.find(run.id).deliver(1).check()
    assert sum(len(done.outputs[name]) for name in names) == 5_400_000
    assert len(flow.find(run.id).context["n5"]) == 900_000


def test_a_long_list_is_kept_over_a_pause_in_the_middle_of_it(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {ask: {kind: task, action: ask}}
    flow:
      - loop:
          type: for_each
          for_each: {in: "=$input.items"}
          until: "=$iteration.index = 1"
          steps: [{do: ask}]
    """)
    run = flow.run({"items": ["y" * 1000] * 900}, owner="mira")
    assert flow.find(run.id).deliver(1).deliver(2).check().outputs["ask"] == {"got": 2}


def test_thousands_of_messages_are_kept(load: Any, kitchen: Any) -> None:
    def act(call: Call) -> Any:
        for number in range(3000):
            call.place.send("m" * 500 + str(number))

    kitchen.add("act", act)
    flow = load(ONE)
    run = flow.run(owner="mira").check()
    assert len(flow.find(run.id).messages) == len(run.messages) == 3000
