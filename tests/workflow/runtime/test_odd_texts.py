"""Texts and numbers that cannot be kept, wherever they can come from: they are refused or cleaned, and harm no run."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import ActionFailed
from memoranda.api.memory import Memory
from memoranda.errors import NotFound, UsageError
from memoranda.workflow.actions.base import Call

HALF = "half a letter: \ud800"
WRITTEN = r'"half a letter: \ud800"'
"""The same as a YAML text."""
COMPUTED = r"""'="half a letter: \ud800"'"""
"""The same as what an expression gives."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError(HALF),
        ActionFailed(HALF),
        ActionFailed("plain", hint=HALF),
        ActionFailed("plain", about=HALF),
        ActionFailed("plain", type=HALF),
        NotFound(HALF, missing=HALF),
        ActionFailed("plain", number=10**30, other=float("nan"), third=float("inf")),
        ActionFailed("x" * 5_000_000, hint="y" * 5_000_000, about="z" * 5_000_000),
        ActionFailed("an end \x00 of text", about="\x00"),
    ],
    ids=["ValueError", "message", "hint", "detail", "type", "NotFound", "numbers", "huge", "nul"],
)
def test_an_error_that_says_what_cannot_be_kept_is_a_failure_that_can(
    load: Any, kitchen: Any, memory: Memory, error: Exception
) -> None:
    def act(call: Call) -> Any:
        raise error

    kitchen.add("act", act)
    flow = load("defs: {one: {kind: task, action: act}}\nflow: [{do: one}]")
    run = flow.run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert memory.runs.get(run.id).status == "failed"
    assert flow.find(run.id).error == run.error
    assert len(run.error.message) < 100_000
    assert len(str(run.error.details)) < 100_000
    assert run.verify().ok


PLACES = {
    "inputs": "defs: {one: {kind: task, action: ask, inputs: {x: ODD}}}\nflow: [{do: one}]",
    "settings": "defs: {one: {kind: task, action: ask, settings: {x: ODD}}}\nflow: [{do: one}]",
    "context": "context: {x: ODD}\ndefs: {one: {kind: task, action: ask}}\nflow: [{do: one}]",
    "items": "defs: {one: {kind: task, action: ask}}\nflow: [{loop: {type: for_each, for_each: {in: [ODD]},"
    " steps: [{do: one}]}}]",
    "initial": "defs: {one: {kind: task, action: ask}}\nflow: [{loop: {type: for_each, for_each: {in: [1]},"
    " accumulate: {as: v, initial: ODD, merge: '=1'}, steps: [{do: one}]}}]",
    "merge": "defs: {one: {kind: task, action: ask}}\nflow: [{loop: {type: for_each, for_each: {in: [1, 2]},"
    " name: all, accumulate: {as: v, initial: 1, merge: ODD}, steps: [{do: one}]}}]",
    "outputs": "defs: {one: {kind: task, action: ask}}\nflow: [{do: one}]\noutputs: {x: ODD}",
}


@pytest.mark.parametrize("odd", [WRITTEN, COMPUTED], ids=["written", "computed"])
@pytest.mark.parametrize("place", PLACES)
def test_half_a_letter_in_a_workflow_is_refused_where_it_stands(
    load: Any, memory: Memory, place: str, odd: str
) -> None:
    try:
        flow = load(PLACES[place].replace("ODD", odd))
    except UsageError:
        return
    run = flow.run(owner="mira")
    while run.status == "waiting":
        run = flow.find(run.id).deliver(1)
    assert run.status == "failed"
    assert run.error.type == "invalid_value"
    assert [one.status for one in memory.runs.list()] == ["failed"]
    assert flow.find(run.id).error == run.error
    assert run.verify().ok


@pytest.mark.parametrize("odd", ["99999999999999999999999999", "-99999999999999999999999999", "1.0e+400", ".nan"])
@pytest.mark.parametrize("place", PLACES)
def test_a_number_beyond_all_measure_is_refused_or_the_same_afterwards(load: Any, place: str, odd: str) -> None:
    try:
        flow = load(PLACES[place].replace("ODD", odd))
    except UsageError:
        return
    run = flow.run(owner="mira")
    while run.status == "waiting":
        run = flow.find(run.id).deliver(1)
    found = flow.find(run.id)
    assert (found.status, found.outputs, found.output, found.context) == (
        run.status,
        run.outputs,
        run.output,
        run.context,
    )
    assert run.verify().ok


@pytest.mark.parametrize("reason", [HALF, 5, {"a": 1}, ["x"], "x" * 5_000_000, "\x00"])
def test_a_reason_that_cannot_be_kept_is_refused_or_cleaned(load: Any, reason: Any) -> None:
    flow = load("defs: {one: {kind: task, action: ask}}\nflow: [{do: one}]")
    run = flow.run(owner="mira")
    try:
        ended = run.cancel(reason=reason)
    except UsageError:
        assert flow.find(run.id).status == "waiting"
        ended = flow.find(run.id).cancel(reason="closed")
    assert ended.status == "cancelled"
    assert flow.find(run.id).error == ended.error
    assert len(ended.error.message) < 100_000


@pytest.mark.parametrize("name", [HALF, "", "  ", None, 7, "x" * 1000, "no/such"])
def test_a_workflow_that_cannot_be_called_so_is_a_failure_of_the_task(load: Any, kitchen: Any, name: Any) -> None:
    kitchen.add("act", lambda call: call.place.call_workflow(name, {}))
    flow = load("defs: {one: {kind: task, action: act}}\nflow: [{do: one}]")
    run = flow.run(owner="mira")
    assert (run.status, run.error.step) == ("failed", "one")
    assert flow.find(run.id).error == run.error


@pytest.mark.parametrize("input", [HALF, None, 7, ["x"], {"x": HALF}, {"x": {1}}, {1: 2}], ids=str)
def test_an_input_that_cannot_be_given_to_a_workflow_is_a_failure_of_the_task(
    load: Any, kitchen: Any, memory: Memory, input: Any
) -> None:
    other = load("defs: {}\nflow: []", name="other")
    kitchen.add("act", lambda call: call.place.call_workflow("other", input))
    flow = load("defs: {one: {kind: task, action: act}}\nflow: [{do: one}]", name="first", workflows=[other])
    run = flow.run(owner="mira")
    if input is None:
        assert run.status in ("completed", "failed")
    else:
        assert (run.status, run.error.step) == ("failed", "one")
        assert memory.runs.list(program="other") == []
    assert flow.find(run.id).status == run.status
