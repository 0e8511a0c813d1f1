"""Expressions in every place that allows one: those that fail, that never end, and whose value does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.workflow.behaviour import Behaviour
from memoranda.workflow.jsonata_functions import Bounds

FRAME = """
context: {{c: {context}}}
defs:
  before: {{kind: task, action: note, inputs: {{before: 1}}}}
  one: {{kind: task, action: note, inputs: {{n: {inputs}}}, settings: {{mode: {settings}}}}}
  last: {{kind: task, action: note, inputs: {{last: 1}}}}
flow:
  - do: before
  - conditional: {{when: [{{condition: {condition}, steps: [{{do: one}}]}}]}}
  - loop:
      type: for_each
      name: each
      for_each: {{in: {items}}}
      until: {until}
      accumulate: {{as: sum, initial: {initial}, merge: {merge}}}
      steps: [{{do: one}}]
  - loop: {{type: while, while: {test}, steps: [{{do: one}}], until: true}}
  - do: last
outputs: {{o: {outputs}}}
"""
FINE = {
    "context": "1",
    "inputs": "1",
    "settings": "1",
    "condition": "true",
    "items": "[1]",
    "until": "false",
    "initial": "0",
    "merge": '"=1"',
    "test": "true",
    "outputs": "1",
}
PLACES = list(FINE)
WHERE = {
    "context": "context",
    "inputs": "one",
    "settings": "one",
    "condition": "flow[1]",
    "items": "flow[2]",
    "until": "flow[2]",
    "initial": "flow[2]",
    "merge": "flow[2]",
    "test": "flow[3]",
    "outputs": "outputs",
}


def text_with(**places: str) -> str:
    return FRAME.format(**{**FINE, **places})


def test_the_frame_is_fine(load: Any, kitchen: Any) -> None:
    run = load(text_with()).run(owner="mira").check()
    assert run.output == {"o": 1}
    assert [next(iter(one)) for one in kitchen.done] == ["before", "n", "n", "n", "last"]


FAULTS = {
    "an error of its own": ("\"=$error('on purpose')\"", "evaluation_failed"),
    "a number by zero": ('"=1/0"', "evaluation_failed"),
    "a text as a number": ("\"=$number('x')\"", "evaluation_failed"),
    "words added": ("\"='a' + 1\"", "evaluation_failed"),
    "a function": ('"=$sum"', "evaluation_failed"),
    "endless": ('"=($f := function($x){$f($x + 1)}; $f(1))"', "limit_exceeded"),
    "endlessly deep": ('"=($f := function($x){1 + $f($x)}; $f(1))"', "limit_exceeded"),
    "endlessly wide": ('"=$map([1..100000], function($x){$map([1..100000], function($y){$x})})"', "limit_exceeded"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_expression_that_fails_fails_the_run_and_says_where(
    load: Any, kitchen: Any, memory: Memory, place: str, fault: str
) -> None:
    written, code = FAULTS[fault]
    behaviour = Behaviour(bounds=Bounds(seconds=0.1))
    flow = load(text_with(**{place: written}), behaviour=behaviour)
    run = flow.run(owner="mira")
    assert run.status == "failed"
    assert run.error.type == code
    assert run.error.step.startswith(WHERE[place])
    assert run.error.message
    assert run.output is None
    assert {"last": 1} not in kitchen.done or place == "outputs"
    if place != "context":
        assert run.outputs["before"] == {"before": 1}
    assert [one.status for one in memory.runs.list()] == ["failed"]
    assert flow.find(run.id).error == run.error
    assert run.verify().ok


def test_a_fault_says_which_expression_it_was(load: Any) -> None:
    run = load(text_with(merge="\"=$error('on purpose')\"")).run(owner="mira")
    assert "on purpose" in run.error.message
    assert "merge" in str(run.error.details.get("path", ""))


@pytest.mark.parametrize("place", [one for one in PLACES if one not in ("items", "condition", "until", "test")])
def test_what_is_undefined_is_left_out_in_every_place(load: Any, kitchen: Any, place: str) -> None:
    run = load(text_with(**{place: '"=$input.nothing"'})).run(owner="mira").check()
    assert run.output == ({} if place == "outputs" else {"o": 1})
    assert ("c" in run.context) == (place != "context")
    assert ({"n": 1} in kitchen.done) == (place != "inputs")
    assert run.outputs["each"] == ({} if place == "merge" else {"sum": 1})


def test_a_context_that_is_too_large_fails_the_run(load: Any) -> None:
    large = '"=$pad($input.x, 800000, $input.x)"'
    flow = load(text_with(context=f"{{a: {large}, b: {large}, c: {large}}}"))
    run = flow.run({"x": "y"}, owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", "limit_exceeded", "context")
    assert load(text_with(context=large)).run({"x": "y"}, owner="mira").check()


def test_an_output_that_is_too_large_fails_the_run(load: Any) -> None:
    large = '"=$pad($input.x, 800000, $input.x)"'
    flow = load(text_with(outputs=f"{{a: {large}, b: {large}, c: {large}}}"))
    run = flow.run({"x": "y"}, owner="mira")
    assert (run.status, run.error.type, run.error.step) == ("failed", "limit_exceeded", "outputs")
    assert run.outputs["last"] == {"last": 1}


def test_a_value_that_grows_from_pass_to_pass_is_stopped(load: Any) -> None:
    flow = load("""
    defs: {}
    flow:
      - loop:
          type: while
          name: all
          while: true
          accumulate: {as: text, initial: x, merge: "=$accumulator & $accumulator"}
          steps: []
    """)
    run = flow.run(owner="mira")
    assert (run.status, run.error.type) == ("failed", "limit_exceeded")
    assert flow.find(run.id).status == "failed"


def test_a_value_that_grows_is_stopped_before_it_cannot_be_kept(load: Any) -> None:
    """What an expression may make is more than one value may be; the run must be kept all the same."""
    flow = load(
        """
    defs: {ask: {kind: task, action: ask}}
    flow:
      - loop:
          type: for_each
          name: all
          for_each: {in: [1, 2]}
          accumulate: {as: list, initial: [], merge: "=$map([1..100000], function($x){ 'twenty letters at least' })"}
          steps: [{do: ask}]
    """,
        behaviour=Behaviour(bounds=Bounds(seconds=30, work=10_000_000)),
    )
    run = flow.run(owner="mira").deliver(1)
    if run.status == "waiting":
        run = flow.find(run.id).deliver(2)
    assert run.status in ("completed", "failed")
    assert flow.find(run.id).status == run.status
    assert run.verify().ok


def test_time_and_chance_are_drawn_anew_for_each_expression(load: Any, kitchen: Any, clock: Any) -> None:
    flow = load("""
    defs: {one: {kind: task, action: note, inputs: {at: "=$millis()", id: "=$uuid()", again: "=$uuid()"}}}
    flow: [{loop: {type: for_each, for_each: {in: [1, 2, 3]}, steps: [{do: one}]}}]
    """)
    flow.run(owner="mira").check()
    ids = [one[name] for one in kitchen.done for name in ("id", "again")]
    assert len(set(ids)) == 6
    assert {one["at"] for one in kitchen.done} == {int(clock.now().timestamp() * 1000)}


def test_an_expression_cannot_change_what_it_reads(load: Any, kitchen: Any) -> None:
    flow = load("""
    context: {list: [3, 1, 2]}
    defs:
      sort: {kind: task, action: note, inputs: {sorted: "=$sort($context.list)"}}
      change: {kind: task, action: note, inputs: {changed: "=$context ~> |$|{'list': 'gone'}|"}}
      look: {kind: task, action: note, inputs: {list: "=$context.list"}}
    flow: [{do: sort}, {do: change}, {do: look}]
    """)
    flow.run(owner="mira").check()
    assert kitchen.done[0] == {"sorted": [1, 2, 3]}
    assert kitchen.done[-1] == {"list": [3, 1, 2]}
