"""Carrying out an action: what it is given is checked and its own, and whatever it raises says whose task failed."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from memoranda.errors import ActionFailed, Busy, MemorandaError, NotFound, SchemaViolation, UsageError
from memoranda.runs.outcome import Paused, Unrecorded, Waiting
from memoranda.workflow.actions.base import (
    NO_SETTINGS,
    Action,
    Call,
    Stopped,
    action,
    actions_of,
    carry_out,
    object_schema,
)

CUPS = object_schema({"cups": {"type": "integer"}, "for": {"type": "array"}}, required=["cups"])
HEAT = object_schema({"degrees": {"type": "number", "maximum": 100}})


def done(place: Any, act: Any, given: Any = None, told: Any = None, **described: Any) -> Any:
    """Carry out an action that is described so, with these inputs and settings."""
    made = Action(name="pour", act=act, **described)
    return carry_out(made, Call(task="serve", inputs=given or {}, settings=told or {}, place=place))


def raising(error: BaseException) -> Any:
    def act(call: Call) -> Any:
        raise error

    return act


def test_what_an_action_gives_is_returned_as_it_is(place: Any) -> None:
    given = {"poured": [1, (2, 3)]}
    assert done(place, lambda call: given) is given
    assert done(place, lambda call: None) is None


@pytest.mark.parametrize(
    ("inputs", "settings", "path", "why"),
    [
        ({}, {}, "$.inputs", "cups"),
        ({"cups": "two"}, {}, "$.inputs.cups", "integer"),
        ({"cups": 2, "milk": True}, {}, "$.inputs", "milk"),
        ({"cups": 2}, {"degrees": 101}, "$.settings.degrees", "100"),
        ({"cups": 2}, {"warm": True}, "$.settings", "warm"),
        ({"cups": "two"}, {"warm": True}, "$.inputs.cups", "integer"),
    ],
)
def test_inputs_and_settings_that_do_not_fit_are_refused_before_it_acts(
    place: Any, inputs: Any, settings: Any, path: str, why: str
) -> None:
    poured: list[int] = []

    def act(call: Call) -> None:
        poured.append(call.inputs["cups"])

    with pytest.raises(SchemaViolation) as caught:
        done(place, act, inputs, settings, inputs=CUPS, settings=HEAT)
    error = caught.value
    assert (error.path, error.task, error.action) == (path, "serve", "pour")
    assert error.hint == ("It takes cups, for" if path.startswith("$.inputs") else "It takes degrees")
    assert why in error.expected and "`serve`" in error.message and "`pour`" in error.message
    assert not poured
    done(place, act, {"cups": 2}, {"degrees": 80}, inputs=CUPS, settings=HEAT)
    assert poured == [2]


def test_settings_of_every_task_are_no_settings_of_the_action_and_yet_it_sees_them(place: Any) -> None:
    common = {"timeout_ms": 500, "retries": {"enabled": True}}
    assert done(place, lambda call: call.settings, told=common, settings=NO_SETTINGS) == common
    with pytest.raises(SchemaViolation, match="degrees"):
        done(place, lambda call: call.settings, told={**common, "degrees": 1}, settings=NO_SETTINGS)


def test_a_fault_that_quotes_a_long_value_is_cut(place: Any) -> None:
    with pytest.raises(SchemaViolation) as caught:
        done(place, print, {"cups": "x" * 10_000}, inputs=CUPS)
    assert len(caught.value.message) < 500 and caught.value.expected.endswith("…")


def test_an_action_may_change_what_it_is_given_and_nobody_else_sees_it(place: Any) -> None:
    def act(call: Call) -> int:
        call.inputs["for"].append("bo")
        call.inputs.pop("cups")
        call.settings["degrees"] = 0
        return len(call.inputs["for"])

    inputs: dict[str, Any] = {"cups": 2, "for": ["ana"]}
    settings: dict[str, Any] = {"degrees": 80}
    for _ in range(2):
        assert done(place, act, inputs, settings, inputs=CUPS) == 2
    assert (inputs, settings) == ({"cups": 2, "for": ["ana"]}, {"degrees": 80})


def test_an_exception_becomes_a_failure_that_names_task_action_and_reason(place: Any) -> None:
    fault = ZeroDivisionError("division by zero")
    with pytest.raises(ActionFailed) as caught:
        done(place, raising(fault))
    error = caught.value
    assert (error.code, error.type, error.task, error.action) == ("action_failed", "error", "serve", "pour")
    assert error.message == "the action `pour` of the task `serve` failed: ZeroDivisionError: `division by zero`"
    assert error.__cause__ is fault
    # It is unknown whether another attempt may help.
    assert "retryable" not in error.details
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.details) == (str(error), error.details)


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (KeyError(), "KeyError: `KeyError`"),
        (Wordless(), "Wordless: `Wordless`"),
        (ValueError("half of \ud800, and \0"), "ValueError: `half of ?, and `"),
        (TimeoutError("late"), "TimeoutError: `late`"),
        (RecursionError("too deep"), "RecursionError: `too deep`"),
    ],
)
def test_whatever_an_exception_says_can_be_kept(place: Any, fault: Exception, said: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        done(place, raising(fault))
    assert caught.value.message.endswith(said)
    assert caught.value.type == "error"


def test_a_long_exception_is_cut(place: Any) -> None:
    with pytest.raises(ActionFailed) as caught:
        done(place, raising(ValueError("x" * 10_000)))
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    "error",
    [
        NotFound("there is no pot"),
        Busy("the database is locked"),
        UsageError("no such cup", value=3),
        ActionFailed("the kettle is cold", type="cold", task="heat", retryable=True),
        Stopped("its time is over"),
        Paused(Waiting(kind="event", step="serve", event="reply")),
        Unrecorded(MemorandaError("the ledger is full")),
        KeyboardInterrupt(),
        SystemExit(3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_ours_and_signals_of_a_run_pass_as_they_are(place: Any, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        done(place, raising(error))
    assert caught.value is error and error.__cause__ is None
    with pytest.raises(ActionFailed):
        done(place, raising(OSError("no water")))


def test_what_a_typed_function_raises_is_told_like_the_rest(place: Any) -> None:
    @action
    def divide(cups: int, guests: int) -> float:
        return cups / guests

    call = Call(task="serve", inputs={"cups": 3, "guests": 2}, settings={}, place=place)
    made = actions_of([divide])["divide"]
    assert carry_out(made, call) == 1.5
    call.inputs["guests"] = 0
    with pytest.raises(ActionFailed, match=r"`divide` of the task `serve` failed: ZeroDivisionError"):
        carry_out(made, call)
