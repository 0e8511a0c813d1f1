"""Loops: over lists, as long as something holds, with a value that goes along, and several passes at a time."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

import memoranda
from memoranda.model.limits import Limits
from memoranda.workflow import evaluate, jsonata
from memoranda.workflow.actions.base import Call
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.jsonata_functions import Bounds


def each(steps: str = "[{do: one}]", more: str = "", items: str = '"=$input.items"') -> str:
    return f"""
defs:
  one: {{kind: task, action: note, inputs: {{item: "=$iteration.item", at: "=$iteration.index"}}}}
  two: {{kind: task, action: note, inputs: {{two: "=$iteration.index"}}}}
flow:
  - loop:
      type: for_each
      name: all
      for_each: {{item: loaf, in: {items}}}
      {more}
      steps: {steps}
"""


# for_each


def test_a_loop_goes_through_a_list_in_its_order(load: Any, kitchen: Any) -> None:
    run = load(each()).run({"items": ["rye", None, {"a": 1}, [2]]}, owner="mira").check()
    assert kitchen.done == [
        {"item": "rye", "at": 0},
        {"item": None, "at": 1},
        {"item": {"a": 1}, "at": 2},
        {"item": [2], "at": 3},
    ]
    assert run.outputs == {"one": {"item": [2], "at": 3}, "all": {}}


@pytest.mark.parametrize("items", [None, "rye", 3, True, {"a": 1}, []])
def test_what_is_no_list_is_gone_through_not_at_all(load: Any, kitchen: Any, items: Any) -> None:
    run = load(each()).run({"items": items}, owner="mira").check()
    assert (kitchen.done, run.outputs) == ([], {"all": {}})
    load(each()).run({}, owner="mira").check()
    assert kitchen.done == []
    load(each()).run({"items": [items]}, owner="mira").check()
    assert kitchen.done == [{"item": items, "at": 0}]


def test_a_list_that_is_written_down_may_hold_expressions(load: Any, kitchen: Any) -> None:
    flow = load(each(items='[rye, "=$input.more", "=$input.missing", {kind: "=$input.more"}]'))
    flow.run({"more": "spelt"}, owner="mira").check()
    assert [one["item"] for one in kitchen.done] == ["rye", "spelt", {"kind": "spelt"}]


def test_the_list_is_computed_once(load: Any, kitchen: Any) -> None:
    flow = load("""
    context: {list: [1, 2, 3]}
    defs:
      grow: {kind: task, action: set_context, inputs: {values: {list: "=$append($context.list, 9)"}}}
    flow:
      - loop: {type: for_each, for_each: {in: "=$context.list"}, steps: [{do: grow}]}
    """)
    assert flow.run(owner="mira").check().context["list"] == [1, 2, 3, 9, 9, 9]


def test_until_is_asked_after_each_pass(load: Any, kitchen: Any) -> None:
    flow = load(each(more='until: "=$output.one.item = $input.stop"'))
    flow.run({"items": [1, 2, 3, 4], "stop": 3}, owner="mira").check()
    assert [one["item"] for one in kitchen.done] == [1, 2, 3]
    kitchen.done.clear()
    flow.run({"items": [1, 2, 3, 4], "stop": 1}, owner="mira").check()
    assert [one["item"] for one in kitchen.done] == [1]
    kitchen.done.clear()
    flow.run({"items": [1, 2], "stop": 7}, owner="mira").check()
    assert [one["item"] for one in kitchen.done] == [1, 2]


def test_until_sees_the_place_in_the_loop(load: Any, kitchen: Any) -> None:
    flow = load(each(more='until: "=$iteration.index = 1"'))
    flow.run({"items": [7, 8, 9]}, owner="mira").check()
    assert [one["item"] for one in kitchen.done] == [7, 8]


def test_loops_inside_loops_have_their_own_iteration(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs:
      inner: {kind: task, action: note, inputs: {inner: "=$iteration.item", at: "=$iteration.index"}}
      outer: {kind: task, action: note, inputs: {outer: "=$iteration.item.name", at: "=$iteration.index"}}
      after: {kind: task, action: note, inputs: {after: "=$exists($iteration)"}}
    flow:
      - loop:
          type: for_each
          for_each: {in: "=$input.rows"}
          steps:
            - loop: {type: for_each, for_each: {in: "=$iteration.item.cells"}, steps: [{do: inner}]}
            - do: outer
      - do: after
    """)
    rows = [{"name": "a", "cells": ["x", "y"]}, {"name": "b", "cells": []}, {"name": "c", "cells": ["z"]}]
    flow.run({"rows": rows}, owner="mira").check()
    assert kitchen.done == [
        {"inner": "x", "at": 0},
        {"inner": "y", "at": 1},
        {"outer": "a", "at": 0},
        {"outer": "b", "at": 1},
        {"inner": "z", "at": 0},
        {"outer": "c", "at": 2},
        {"after": False},
    ]


# while


def test_while_is_asked_before_each_pass(load: Any, kitchen: Any) -> None:
    text = """
    defs: {one: {kind: task, action: note, inputs: {at: "=$iteration.index", item: "=$iteration.item"}}}
    flow: [{loop: {type: while, name: all, while: "=$iteration.index < $input.n", steps: [{do: one}]}}]
    """
    for n in (0, 1, 3):
        run = load(text).run({"n": n}, owner="mira").check()
        assert kitchen.done == [{"at": at} for at in range(n)]
        assert run.outputs["all"] == {}
        kitchen.done.clear()


def test_while_goes_on_as_long_as_outputs_say(load: Any) -> None:
    flow = load("""
    defs: {halve: {kind: task, action: give, inputs: {value: "=$exists($output.halve) ? $output.halve / 2 : 64"}}}
    flow: [{loop: {type: while, while: "=$not($exists($output.halve)) or $output.halve > 1", steps: [{do: halve}]}}]
    """)
    assert flow.run(owner="mira").check().outputs == {"halve": 1}


def test_while_may_end_by_until(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {one: {kind: task, action: note, inputs: {at: "=$iteration.index"}}}
    flow: [{loop: {type: while, while: true, until: "=$output.one.at = 2", steps: [{do: one}]}}]
    """)
    flow.run(owner="mira").check()
    assert kitchen.done == [{"at": 0}, {"at": 1}, {"at": 2}]


# accumulate


def test_a_value_goes_from_pass_to_pass(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {one: {kind: task, action: note, inputs: {n: "=$iteration.item", so_far: "=$accumulator"}}}
    flow:
      - loop:
          type: for_each
          name: all
          for_each: {in: "=$input.items"}
          accumulate: {as: total, initial: "=$input.start", merge: "=$accumulator + $output.one.n * 2"}
          steps: [{do: one}]
    outputs: {total: "=$output.all.total"}
    """)
    run = flow.run({"items": [1, 2, 3], "start": 10}, owner="mira").check()
    assert run.output == {"total": 22}
    assert run.outputs["all"] == {"total": 22}
    assert kitchen.done == [{"n": 1, "so_far": 10}, {"n": 2, "so_far": 12}, {"n": 3, "so_far": 16}]
    assert flow.run({"items": [], "start": 10}, owner="mira").check().output == {"total": 10}


def test_without_a_first_value_the_accumulator_is_not_there_before_the_first_pass(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {one: {kind: task, action: note, inputs: {there: "=$exists($accumulator)"}}}
    flow:
      - loop:
          type: for_each
          name: all
          for_each: {in: "=$input.items"}
          accumulate: {as: list, merge: "=$append($accumulator, [$iteration.item])"}
          steps: [{do: one}]
    """)
    assert flow.run({"items": [1, 2]}, owner="mira").check().outputs["all"] == {"list": [1, 2]}
    assert [one["there"] for one in kitchen.done] == [False, True]
    assert flow.run({"items": []}, owner="mira").check().outputs["all"].get("list") is None


@pytest.mark.parametrize("at_once", [1, 3])
def test_until_sees_what_was_merged(load: Any, at_once: int) -> None:
    flow = load(f"""
    defs: {{}}
    flow:
      - loop:
          type: for_each
          name: all
          for_each: {{in: [1, 2, 3, 4, 5]}}
          max_concurrency: {at_once}
          until: "=$accumulator >= 3"
          accumulate: {{as: sum, initial: 0, merge: "=$accumulator + $iteration.item"}}
          steps: []
    """)
    assert flow.run(owner="mira").check().outputs == {"all": {"sum": 3}}


def test_accumulators_of_loops_inside_loops_are_their_own(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {after: {kind: task, action: note, inputs: {there: "=$exists($accumulator)"}}}
    flow:
      - loop:
          type: for_each
          name: rows
          for_each: {in: "=$input.rows"}
          accumulate: {as: sum, initial: 0, merge: "=$accumulator + $output.cells.product"}
          steps:
            - loop:
                type: for_each
                name: cells
                for_each: {in: "=$iteration.item"}
                accumulate: {as: product, initial: 1, merge: "=$accumulator * $iteration.item"}
                steps: []
      - do: after
    """)
    run = flow.run({"rows": [[2, 3], [4], []]}, owner="mira").check()
    assert run.outputs["rows"] == {"sum": 6 + 4 + 1}
    assert kitchen.done == [{"there": False}]


def test_an_accumulator_without_a_name_is_seen_inside_only(load: Any, kitchen: Any) -> None:
    flow = load("""
    defs: {one: {kind: task, action: note, inputs: {so_far: "=$accumulator"}}}
    flow:
      - loop:
          type: while
          while: "=$accumulator < 3"
          accumulate: {as: n, initial: 0, merge: "=$accumulator + 1"}
          steps: [{do: one}]
    """)
    run = flow.run(owner="mira").check()
    assert [one["so_far"] for one in kitchen.done] == [0, 1, 2]
    assert list(run.outputs) == ["one"]


# limits


@pytest.mark.parametrize("text", [each(), each(more="max_concurrency: 3")], ids=["one by one", "three at a time"])
def test_a_loop_ends_at_the_limit_of_passes(load: Any, kitchen: Any, text: str) -> None:
    behaviour = Behaviour(passes=5)
    load(text, behaviour=behaviour).run({"items": [0] * 5}, owner="mira").check()
    assert len(kitchen.done) == 5
    run = load(text, behaviour=behaviour).run({"items": [0] * 6}, owner="mira")
    assert (run.status, run.error.type) == ("failed", "limit_exceeded")
    assert run.error.details.get("limit") == 5
    assert len(kitchen.done) <= 10
    assert run.verify().ok


def test_a_loop_that_never_ends_is_stopped(load: Any, kitchen: Any) -> None:
    text = """
    defs: {one: {kind: task, action: note, inputs: {at: "=$iteration.index"}}}
    flow: [{loop: {type: while, while: true, steps: %s}}]
    """
    run = load(text % "[{do: one}]", behaviour=Behaviour(passes=50)).run(owner="mira")
    assert (run.status, run.error.type) == ("failed", "limit_exceeded")
    assert len(kitchen.done) == 50
    empty = load(text % "[]").run(owner="mira")
    assert (empty.status, empty.error.type) == ("failed", "limit_exceeded")


def test_the_limit_of_passes_is_that_of_one_loop(load: Any, kitchen: Any) -> None:
    flow = load(
        """
    defs: {one: {kind: task, action: note, inputs: {at: "=$iteration.index"}}}
    flow:
      - loop:
          type: for_each
          for_each: {in: [1, 2, 3, 4]}
          steps: [{loop: {type: for_each, for_each: {in: [1, 2, 3, 4]}, steps: [{do: one}]}}]
    """,
        behaviour=Behaviour(passes=4),
    )
    flow.run(owner="mira").check()
    assert len(kitchen.done) == 16


# several passes at a time


class Watch:
    """Counts how many calls are inside at the same time."""

    def __init__(self, together: int) -> None:
        self.now, self.most = 0, 0
        self.together = together
        self.lock = threading.Condition()

    def __call__(self, call: Call) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.lock.notify_all()
            # Those that can run together wait for one another, as long as it takes; more than that must not come.
            self.lock.wait_for(lambda: self.most >= self.together, timeout=20)
        with self.lock:
            self.now -= 1
        return call.inputs.get("n")


TOGETHER = """
defs:
  one: {kind: task, action: watch, inputs: {n: "=$iteration.item"}}
  keep: {kind: task, action: set_context, inputs: {values: {last: "=$iteration.item"}}}
flow:
  - loop:
      type: for_each
      name: all
      for_each: {in: "=$input.items"}
      max_concurrency: 3
      accumulate: {as: list, initial: [], merge: "=$append($accumulator, [$output.one])"}
      steps: [{do: one}, {do: keep}]
"""


def test_so_many_passes_run_at_a_time_and_are_merged_in_order(load: Any, kitchen: Any) -> None:
    watch = Watch(3)
    kitchen.add("watch", watch)
    run = load(TOGETHER).run({"items": list(range(10))}, owner="mira").check()
    assert watch.most == 3
    assert run.outputs == {"one": 9, "keep": {"last": 9}, "all": {"list": list(range(10))}}
    assert run.context["last"] == 9


def test_passes_that_end_in_another_order_are_merged_in_the_order_of_the_items(load: Any, kitchen: Any) -> None:
    ended = [threading.Event() for _ in range(3)]

    def act(call: Call) -> Any:
        at = call.inputs["n"]
        # The last one ends first.
        if at < 2:
            assert ended[at + 1].wait(60)
        threading.Timer(0.01, ended[at].set).start()
        return at

    kitchen.add("watch", act)
    run = load(TOGETHER).run({"items": [0, 1, 2]}, owner="mira").check()
    assert run.outputs["all"] == {"list": [0, 1, 2]}
    assert run.outputs["one"] == 2
    assert run.context["last"] == 2


def test_passes_at_the_same_time_do_not_see_one_another(load: Any, kitchen: Any) -> None:
    met = threading.Barrier(3)
    kitchen.add("meet", lambda call: met.wait(60) and None)
    flow = load("""
    context: {who: nobody}
    defs:
      put: {kind: task, action: set_context, inputs: {values: {who: "=$iteration.item"}}}
      meet: {kind: task, action: meet}
      look: {kind: task, action: note, inputs: {me: "=$iteration.item", who: "=$context.who", put: "=$output.put.who"}}
    flow:
      - loop:
          type: for_each
          for_each: {in: [a, b, c]}
          max_concurrency: 3
          steps: [{do: put}, {do: meet}, {do: look}]
    """)
    run = flow.run(owner="mira").check()
    assert sorted(kitchen.done, key=str) == [{"me": one, "who": one, "put": one} for one in "abc"]
    assert run.context["who"] == "c"


def test_a_pass_that_fails_stops_the_others(load: Any, kitchen: Any) -> None:
    def act(call: Call) -> Any:
        if call.inputs["n"] == 1:
            kitchen.bell("here").await_guests()
            raise RuntimeError("burnt")
        kitchen.bell("here").await_ring()
        kitchen.tell(call.inputs["n"])

    kitchen.add("watch", act)
    run = load(TOGETHER.replace("max_concurrency: 3", "max_concurrency: 2")).run(
        {"items": list(range(20))}, owner="mira"
    )
    assert (run.status, run.error.type, run.error.step) == ("failed", "action_failed", "one")
    assert kitchen.done == [], "nobody else came to an end, and nobody else began"


def test_until_ends_passes_that_run_at_a_time_too(load: Any, kitchen: Any) -> None:
    flow = load(each(more='max_concurrency: 2\n      until: "=$iteration.item = 3"'))
    flow.run({"items": list(range(100))}, owner="mira").check()
    seen = sorted(one["item"] for one in kitchen.done)
    assert seen[:4] == [0, 1, 2, 3]
    assert len(seen) < 20, "those that had begun by then may be among them"


def test_suspending_in_passes_that_run_at_a_time_is_an_error(load: Any) -> None:
    text = """
    defs: {one: {kind: task, action: ask}}
    flow: [{loop: {type: for_each, for_each: {in: [1, 2]}, max_concurrency: %d, steps: [{do: one}]}}]
    """
    run = load(text % 2).run(owner="mira")
    assert run.status == "failed"
    assert run.error.step == "one"
    assert load(text % 1).run(owner="mira").status == "waiting"


def test_a_loop_that_runs_long_takes_time_in_proportion(load: Any) -> None:
    """Twice as many passes do not take four times as long."""
    flow = load("""
    defs: {one: {kind: task, action: give, inputs: {value: "=$iteration.item"}}}
    flow: [{loop: {type: for_each, for_each: {in: "=$input.items"}, steps: [{do: one}]}}]
    """)

    def took(count: int) -> float:
        begun = time.perf_counter()
        flow.run({"items": list(range(count))}, owner="mira").check()
        return time.perf_counter() - begun

    took(100)
    in_proportion = any((ratio := took(4000) / took(500)) < 8 * 3 for _ in range(3))
    assert in_proportion, f"eight times as many passes took {ratio:.1f} times as long"


# lists that grow


GATHERING = """
defs: {{one: {{kind: task, action: note}}}}
flow:
  - loop:
      type: for_each
      name: all
      for_each: {{in: "=$input.items"}}
      accumulate: {{as: got, initial: {initial}, merge: "={merge}"}}
      steps: []
outputs: {{got: "=$output.all.got"}}
"""
ODD_ITEMS: list[Any] = [1, None, "", [], [1, [2]], {}, {"a": [1]}, [[]], "=1", True, 2.5, {"a": None, "b": {"c": []}}]


@pytest.mark.parametrize("initial", ["[]", "[1, 2]", "null", "{}", "''"])
@pytest.mark.parametrize(
    "merge",
    [
        "$append($accumulator, $iteration.item)",
        "$append($accumulator, $iteration.item.a)",
        "$append($accumulator, [$iteration.item])",
        "[$accumulator, $iteration.item]",
        "[$accumulator, [$iteration.item]]",
        "[$accumulator, $iteration.item.a][]",
        "$append($accumulator, $iteration.item)[0]",
        "$append($iteration.item, $accumulator)",
        "$append($accumulator, $sum($accumulator[$type($) = 'number']))",
        "$append($accumulator, function($x) {{ $x }})",
    ],
)
def test_a_loop_that_gathers_gives_what_its_expression_does(load: Any, initial: str, merge: str) -> None:
    run = load(GATHERING.format(initial=initial, merge=merge.format())).run({"items": ODD_ITEMS}, owner="mira").check()
    expected: Any = {"[]": [], "[1, 2]": [1, 2], "null": None, "{}": {}, "''": ""}[initial]
    for item in ODD_ITEMS:
        expected = evaluate(merge.format(), {"accumulator": expected, "iteration": {"item": item}})
    assert run.output == ({} if expected is UNDEFINED else {"got": expected})


def test_what_was_gathered_is_not_gone_through_again(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Any] = []
    copy = jsonata._copy
    monkeypatch.setattr(jsonata, "_copy", lambda value, size: (copied.append(value), copy(value, size))[1])
    items = [{"n": number} for number in range(200)]
    done: list[int] = []
    for merge in ("$append($accumulator, $iteration.item)", "$append($accumulator, $iteration.item)[]"):
        copied.clear()
        run = load(GATHERING.format(initial="[]", merge=merge)).run({"items": items}, owner="mira").check()
        assert run.output == {"got": items}
        done.append(len(copied))
    # The second one says the same in other words, and is computed as any expression is.
    assert done[0] < 10 * len(items) < 100 * len(items) < done[1]


@pytest.mark.parametrize(
    ("bounds", "limits", "item"),
    [
        ({"items": 50}, {}, 1),
        ({"items": 50}, {}, {"a": 1}),
        ({"text": 200}, {}, "a loaf"),
        ({"text": 200}, {}, {"loaf": 1}),
        ({}, {"value_bytes": 300}, "a loaf"),
        ({}, {"value_bytes": 300}, 12345),
    ],
)
def test_a_list_that_grows_too_long_fails_at_the_same_pass_and_in_the_same_words(
    kitchen: Any, bounds: dict[str, int], limits: dict[str, int], item: Any
) -> None:
    failed: list[tuple[Any, ...]] = []
    with memoranda.open(":memory:", limits=Limits(**{"value_bytes": 4_000, **limits})) as memory:
        for merge in ("$append($accumulator, $context.item)", "$append($accumulator, $context.item)[]"):
            text = f"""
defs: {{last: {{kind: task, action: set_context, inputs: {{values: {{at: "=$iteration.index"}}}}}}}}
context: {{item: {json.dumps(item)}}}
flow:
  - loop:
      type: while
      while: "=$iteration.index < 500"
      accumulate: {{as: got, initial: [], merge: "={merge}"}}
      steps: [{{do: last}}]
"""
            flow = memoranda.workflow.load(text, memory=memory, behaviour=Behaviour(bounds=Bounds(**bounds)))
            run = flow.run(owner="mira")
            assert run.error is not None
            assert (run.status, run.error.step) == ("failed", "flow[0].loop")
            failed.append((run.error.type, run.error.message, run.context["at"]))
    assert failed[0] == failed[1]
    assert failed[0][0] == "limit_exceeded"
