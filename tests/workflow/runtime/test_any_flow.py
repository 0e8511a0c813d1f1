"""Random flows compared with a small interpreter: the tasks, their inputs, and the result.

The interpreter below knows nothing of threads, events or suspension: it walks the steps and computes each expression by
a Python function that says the same. A run must end as it does, also when some of its tasks suspend it.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import memoranda
from memoranda.workflow import Action
from memoranda.workflow.actions.base import Call

Json = dict[str, Any]
MISSING = object()
TASKS = ("t0", "t1", "t2", "t3")
PAUSING = ("p0", "p1")
"""Tasks that suspend the run; they cannot run beside others."""


class Seen:
    """What the interpreter's expressions see."""

    def __init__(self, input: Json, context: Json, outputs: Json) -> None:
        self.input, self.context, self.outputs = input, dict(context), dict(outputs)
        self.iteration: Json | None = None
        self.accumulator: Any = MISSING
        self.changed: tuple[Json, Json] = {}, {}

    def fork(self) -> Seen:
        other = Seen(self.input, self.context, self.outputs)
        other.iteration, other.accumulator = self.iteration, self.accumulator
        return other

    def give(self, name: str, value: Any) -> None:
        self.outputs[name] = self.changed[0][name] = value

    def put(self, values: Json) -> None:
        self.context.update(values)
        self.changed[1].update(values)

    def join(self, other: Seen) -> None:
        for name, value in other.changed[0].items():
            self.give(name, value)
        self.put(other.changed[1])


Expression = tuple[str, Callable[[Seen], Any]]


def path(text: str, read: Callable[[Seen], Any]) -> Expression:
    return text, read


PATHS: list[Expression] = [
    path("$input.a", lambda seen: seen.input["a"]),
    path("$input.nothing", lambda seen: MISSING),
    path("$context.x", lambda seen: seen.context.get("x", MISSING)),
    path("$context.y", lambda seen: seen.context.get("y", MISSING)),
    path("$iteration.index", lambda seen: (seen.iteration or {}).get("index", MISSING)),
    path("$iteration.item", lambda seen: (seen.iteration or {}).get("item", MISSING)),
    path("$accumulator", lambda seen: seen.accumulator),
    *[
        path(f"$output.{name}.n", lambda seen, name=name: seen.outputs.get(name, {}).get("n", MISSING))
        for name in (*TASKS, *PAUSING)
    ],
]


def or_zero(one: Expression) -> Expression:
    text, read = one
    return f"($exists({text}) ? {text} : 0)", lambda seen: 0 if read(seen) is MISSING else read(seen)


def added(one: Expression, other: Expression) -> Expression:
    (left, a), (right, b) = or_zero(one), or_zero(other)
    return f"(({left} + {right}) % 11)", lambda seen: (a(seen) + b(seen)) % 11


def less(one: Expression, other: Expression) -> Expression:
    (left, a), (right, b) = or_zero(one), or_zero(other)
    return f"{left} < {right}", lambda seen: a(seen) < b(seen)


def even(one: Expression) -> Expression:
    text, read = or_zero(one)
    return f"{text} % 2 = 0", lambda seen: read(seen) % 2 == 0


def number(value: int) -> Expression:
    return str(value), lambda seen: value


paths = st.sampled_from(PATHS)
numbers = st.one_of(
    st.integers(0, 9).map(number), paths.map(or_zero), st.builds(added, paths, paths), st.builds(added, paths, paths)
)
values = st.one_of(numbers, paths)
conditions = st.one_of(st.builds(less, paths, paths), paths.map(even), paths)

# --- flows, as data for both sides ---------------------------------------------------------------------------------


def tasks() -> st.SearchStrategy[Json]:
    one = st.fixed_dictionaries(
        {"act": st.sampled_from(["count", "count", "put", "trip"]), "key": st.sampled_from("xy"), "value": values}
    )
    pausing = st.fixed_dictionaries({"act": st.just("pause"), "key": st.just("x"), "value": values})
    return st.fixed_dictionaries({name: one for name in TASKS} | {name: pausing for name in PAUSING})


def blocks(depth: int, *, alone: bool, least: int = 0) -> st.SearchStrategy[list[Json]]:
    return st.lists(steps(depth, alone=alone), min_size=least, max_size=max(least, 3))


def steps(depth: int, *, alone: bool) -> st.SearchStrategy[Json]:
    """Return steps; where nothing runs beside them, some may suspend the run."""
    names = (*TASKS, *PAUSING, *PAUSING) if alone else TASKS
    do = st.builds(lambda name: {"do": name}, st.sampled_from(names))
    if depth == 0:
        return do
    inner = st.deferred(lambda: blocks(depth - 1, alone=alone))
    beside = st.deferred(lambda: blocks(depth - 1, alone=False))
    return st.one_of(
        do,
        do,
        st.builds(lambda steps, any: {"parallel": steps, "any": any and len(steps) == 1}, beside, st.booleans()),
        st.builds(
            lambda branches, otherwise: {"when": branches, "else": otherwise},
            st.lists(st.tuples(conditions, inner), min_size=1, max_size=2),
            st.one_of(st.none(), inner),
        ),
        st.builds(loop, inner, st.just(1), loops()),
        st.builds(loop, beside, st.integers(2, 4), loops()),
    )


def loops() -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {
            "items": st.one_of(st.none(), st.lists(st.integers(0, 5), max_size=4), st.just("input")),
            "times": st.integers(0, 3),
            "until": st.one_of(st.none(), conditions),
            "merge": st.one_of(st.none(), numbers),
            "initial": st.one_of(st.none(), numbers),
            "named": st.booleans(),
        }
    )


def loop(steps: list[Json], at_once: int, said: Json) -> Json:
    return {"loop": said, "steps": steps, "at_once": at_once if said["items"] is not None else 1}


def named(steps: list[Json], names: Iterator[str]) -> list[Json]:
    """Give loops that are to have a name one of their own."""
    for step in steps:
        if "loop" in step:
            step["loop"] = {**step["loop"], "name": next(names) if step["loop"]["named"] else None}
        for block in inside(step):
            named(block, names)
    return steps


def inside(step: Json) -> list[list[Json]]:
    return [step.get("parallel", []), step.get("steps", []), step.get("else") or []] + [
        block for _, block in step.get("when", ())
    ]


# --- as a file -----------------------------------------------------------------------------------------------------


def written(value: Expression) -> str:
    return f"={value[0]}"


def write_step(step: Json) -> Json:
    if "do" in step:
        return step
    if "parallel" in step:
        strategy = "wait_any" if step["any"] else "wait_all"
        return {"parallel": {"strategy": strategy, "steps": [write_step(one) for one in step["parallel"]]}}
    if "when" in step:
        branches = [{"condition": written(test), "steps": list(map(write_step, inner))} for test, inner in step["when"]]
        rest = {} if step["else"] is None else {"else": list(map(write_step, step["else"]))}
        return {"conditional": {"when": branches, **rest}}
    said = step["loop"]
    made: Json = {"steps": list(map(write_step, step["steps"]))}
    if said["items"] is None:
        made |= {"type": "while", "while": f"=$iteration.index < {said['times']}"}
    else:
        made |= {"type": "for_each", "for_each": {"in": "=$input.list" if said["items"] == "input" else said["items"]}}
    if step["at_once"] > 1:
        made["max_concurrency"] = step["at_once"]
    if said["until"] is not None:
        made["until"] = written(said["until"])
    if said["name"] is not None:
        made["name"] = said["name"]
    if said["merge"] is not None:
        initial = {} if said["initial"] is None else {"initial": written(said["initial"])}
        made["accumulate"] = {"as": "v", "merge": written(said["merge"]), **initial}
    return {"loop": made}


def write_flow(tasks: Json, flow: list[Json]) -> str:
    defs: Json = {}
    for name, task in tasks.items():
        value = written(task["value"])
        inputs = {"values": {task["key"]: value}} if task["act"] == "put" else {"n": value}
        defs[name] = {
            "kind": "task",
            "action": "set_context" if task["act"] == "put" else task["act"],
            "inputs": inputs,
        }
    # JSON is YAML.
    return json.dumps({"context": {"y": 3}, "defs": defs, "flow": list(map(write_step, flow))}, indent=1)


# --- the interpreter -----------------------------------------------------------------------------------------------


class Failed(Exception):
    """A task failed; `exact` says whether nothing ran beside it, `certain` whether it has to come to it."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task, self.exact, self.certain = task, True, True


class Interpreter:
    """Walks steps, and writes down which task got what."""

    def __init__(self, tasks: Json) -> None:
        self.tasks = tasks
        self.done: list[tuple[str, Any]] = []

    def block(self, steps: list[Json], seen: Seen) -> None:
        for step in steps:
            self.step(step, seen)

    def step(self, step: Json, seen: Seen) -> None:
        if "do" in step:
            self.do(step["do"], seen)
        elif "parallel" in step:
            self.beside([lambda one, step=inner: self.step(step, one) for inner in step["parallel"]], seen)
        elif "when" in step:
            for test, inner in step["when"]:
                if holds(test[1](seen)):
                    self.block(inner, seen)
                    return
            self.block(step["else"] or [], seen)
        else:
            self.loop(step, seen)

    def beside(self, branches: list[Callable[[Seen], None]], seen: Seen) -> None:
        forks = [seen.fork() for _ in branches]
        failures: list[Failed] = []
        for branch, fork in zip(branches, forks, strict=True):
            try:
                branch(fork)
            except Failed as failed:
                failures.append(failed)
        if failures:
            failures[0].exact = False
            raise failures[0]
        for fork in forks:
            seen.join(fork)

    def do(self, name: str, seen: Seen) -> None:
        task = self.tasks[name]
        value = task["value"][1](seen)
        given = {} if value is MISSING else {(task["key"] if task["act"] == "put" else "n"): value}
        if task["act"] == "put":
            seen.put(given)
            seen.give(name, given)
            return
        self.done.append((name, given))
        if task["act"] == "trip" and given.get("n", 0) % 4 == 3:
            raise Failed(name)
        seen.give(name, {"n": given.get("n", 0) + 1})

    def loop(self, step: Json, seen: Seen) -> None:
        said = step["loop"]
        before = seen.iteration, seen.accumulator
        items = seen.input["list"] if said["items"] == "input" else said["items"]
        initial = MISSING
        if said["merge"] is not None and said["initial"] is not None:
            initial = said["initial"][1](seen)
        seen.accumulator = initial
        count = said["times"] if items is None else len(items)
        try:
            if step["at_once"] > 1:
                assert items is not None
                self.passes_beside(step, seen, items)
            else:
                for index in range(count):
                    seen.iteration = {"index": index} if items is None else {"index": index, "item": items[index]}
                    self.block(step["steps"], seen)
                    if self.is_over(said, seen):
                        break
            value = seen.accumulator
        finally:
            seen.iteration, seen.accumulator = before
        if said["name"] is not None:
            seen.give(said["name"], {} if said["merge"] is None or value is MISSING else {"v": value})

    def passes_beside(self, step: Json, seen: Seen, items: list[Any]) -> None:
        forks = []
        for index, item in enumerate(items):
            fork = seen.fork()
            fork.iteration = {"index": index, "item": item}
            forks.append(fork)
        for fork in forks:
            try:
                self.block(step["steps"], fork)
            except Failed as failed:
                failed.exact = False
                # The loop may be over, by `until`, before this pass has begun.
                failed.certain = failed.certain and step["loop"]["until"] is None
                raise
        for fork in forks:
            seen.join(fork)
            seen.iteration = fork.iteration
            if self.is_over(step["loop"], seen):
                break

    def is_over(self, said: Json, seen: Seen) -> bool:
        if said["merge"] is not None:
            seen.accumulator = said["merge"][1](seen)
        return said["until"] is not None and holds(said["until"][1](seen))


def holds(value: Any) -> bool:
    return value is not MISSING and bool(value)


def uses(step: Json, what: Callable[[Json], bool]) -> bool:
    """Say whether a step, or one inside of it, is such a one."""
    return what(step) or any(uses(one, what) for block in inside(step) for one in block)


# --- both ----------------------------------------------------------------------------------------------------------


def actions(done: list[tuple[str, Any]]) -> list[Action]:
    def count(call: Call) -> Any:
        done.append((call.task, dict(call.inputs)))
        return {"n": call.inputs.get("n", 0) + 1}

    def trip(call: Call) -> Any:
        if call.inputs.get("n", 0) % 4 == 3:
            done.append((call.task, dict(call.inputs)))
            raise RuntimeError("tripped")
        return count(call)

    def pause(call: Call) -> Any:
        call.place.wait("go")
        return count(call)

    return [Action(name=one.__name__, act=one) for one in (count, trip, pause)]


@pytest.mark.slow
@given(
    tasks=tasks(),
    flow=blocks(3, alone=True, least=4),
    a=st.integers(0, 9),
    items=st.lists(st.integers(0, 5), max_size=3),
)
def test_any_flow_does_what_a_plain_reading_of_it_does(tasks: Json, flow: list[Json], a: int, items: list[int]) -> None:
    input = {"a": a, "list": items}
    named(flow, (f"l{count}" for count in itertools.count()))
    reference = Interpreter(tasks)
    seen = Seen(input, {"y": 3}, {})
    failure: Failed | None = None
    try:
        reference.block(flow, seen)
    except Failed as failed:
        failure = failed
    done: list[tuple[str, Any]] = []
    with memoranda.open(":memory:") as memory:
        text = write_flow(tasks, flow)
        workflow = memoranda.workflow.load(text, memory=memory, actions=actions(done))
        run = workflow.run(input, owner="mira")
        pauses = 0
        while run.status == "waiting":
            pauses += 1
            run = workflow.find(run.id).deliver(pauses)
        event(f"status {run.status}, pauses {min(pauses, 3)}")
        assert run.verify().ok
        found = workflow.find(run.id)
        assert (found.outputs, found.context, found.status) == (run.outputs, run.context, run.status)
        # Passes that have begun when `until` holds may act though nothing of them counts.
        sure = not any(uses(one, lambda step: step.get("at_once", 1) > 1) for one in flow)
        if failure is None:
            assert run.error is None
            assert (run.outputs, run.context) == (seen.outputs, {**seen.context, "memory": {}})
            if sure:
                assert Counter(map(str, done)) == Counter(map(str, reference.done))
        elif failure.certain or run.error is not None:
            assert run.status == "failed" and run.error is not None
            assert tasks[run.error.step]["act"] == "trip"
            if failure.exact and sure:
                assert run.error.step == failure.task
                assert (run.outputs, run.context) == (seen.outputs, {**seen.context, "memory": {}})
                assert Counter(map(str, done)) == Counter(map(str, reference.done))
        records = [one.step for one in run.events if one.kind == "step_record" and one.detail["type"] == "pause"]
        assert len(records) == pauses
