"""The items of a block in, its value out: steps in their order, flows, branches, attempts and failures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from memoranda.errors import MemorandaError
from memoranda.mashin.expression.semantics import is_whole
from memoranda.mashin.keywords import BACKOFFS
from memoranda.mashin.runtime.calling import ask_model, call_machine
from memoranda.mashin.runtime.failures import Failed, Failure, Jumped, failed, failure_of
from memoranda.mashin.runtime.plan import (
    AskModel,
    Attempts,
    Block,
    CallMachine,
    Compute,
    Decide,
    Flow,
    Item,
    Recall,
    Remember,
    Retry,
    RunFlow,
    Step,
    Value,
    WaitFor,
)
from memoranda.mashin.runtime.remembering import recall, remember
from memoranda.mashin.runtime.waiting import wait_for
from memoranda.mashin.runtime.work import Taking, Work

_ATTEMPTS, _DELAY, _LONGEST_DELAY = 3, 1000, 3_600_000
_FINAL = frozenset({"permission_denied", "budget_exceeded"})
"""Failures that another attempt would not change."""
_TYPES: dict[type[Step], str] = {
    Compute: "compute",
    Decide: "decide",
    AskModel: "reason",
    CallMachine: "call",
    Remember: "memory",
    Recall: "memory",
    WaitFor: "control",
}
"""What the ledger calls each kind of step."""


def run_main(work: Work) -> Any:
    """Run the main steps and return the last value; what the machine does on failure holds wherever they lead."""
    main = work.plan.main
    flow = Flow("", main.body, None)
    while True:
        try:
            return _caught(work, partial(run_flow, work, flow), main.on_failure)
        except Jumped as jump:  # out of what is done on failure
            work.spending.step(jump.flow)
            flow = work.plan.flows[jump.flow]


def run_flow(work: Work, flow: Flow) -> Any:
    """Run a flow to its end, and those it jumps to in its place; return the last value."""
    spending, most = work.spending, work.behaviour.flows
    spending.flows += 1
    try:
        if spending.flows > most:
            message = f"more than {most} flows run inside one another"
            raise failed("runtime", message, "", hint="Let a flow end before it is run again, or use goto", limit=most)
        while True:
            try:
                return _caught(work, partial(run_block, work, flow.body), flow.on_failure)
            except Jumped as jump:
                spending.step(flow.name)
                flow = work.plan.flows[jump.flow]
    finally:
        spending.flows -= 1


def _caught(work: Work, act: Callable[[], Any], failing: Block | None) -> Any:
    """Do something; where it fails and something is to be done on failure, do that with the `error` at hand."""
    if failing is None:
        return act()
    try:
        return act()
    except Failed as caught:
        error = msgspec.to_builtins(caught.failure)
    before = work.names["error"]
    work.names["error"] = error
    try:
        return run_block(work, failing)
    finally:
        work.names["error"] = before


def run_block(work: Work, block: Block) -> Any:
    """Run the items of a block; return the value of the last one."""
    value: Any = None
    for item in block:
        value = _run_item(work, item)
    return value


def _run_item(work: Work, item: Item) -> Any:
    if type(item) is RunFlow:
        if item.jump:
            raise Jumped(item.flow)
        return run_flow(work, work.plan.flows[item.flow])
    if type(item) is Value:
        return _with(work, "", lambda taking: taking.value(item.program))
    if type(item) is Retry:
        return _again(work, item.attempts, "", lambda: run_block(work, item.body))
    attempts = getattr(item, "attempts", None)
    if attempts is None:
        return take_step(work, item)
    return _again(work, attempts, item.name, lambda: take_step(work, item))


def take_step(work: Work, step: Step) -> Any:
    """Take one step: its value goes under its name, and the ledger gets to know."""
    work.spending.step(step.name)
    taking = work.take(step.name)
    try:
        value = _STEPS[type(step)](taking, step)
        payload = _payload(taking, value)
    except Jumped:
        if not taking.noted:
            note_step(taking, step)
        raise
    except Failed as caught:
        if caught.failure.step == step.name:  # a step inside of this one has said so itself
            _note_failure(taking, step, caught.failure)
        raise
    except (MemorandaError, RecursionError) as error:
        failure = _failure_of(error, step.name)
        _note_failure(taking, step, failure)
        raise Failed(failure) from error
    finally:
        taking.done()
    if not taking.noted:
        note_step(taking, step, payload=payload)
    work.steps[step.name] = value
    return value


def _with(work: Work, name: str, act: Callable[[Taking], Any]) -> Any:
    """Compute something that is no step of its own; whatever goes wrong in it is a failure of this name."""
    taking = work.take(name)
    try:
        return act(taking)
    except (MemorandaError, RecursionError) as error:
        raise Failed(_failure_of(error, name)) from error
    finally:
        taking.done()


def _failure_of(error: MemorandaError | RecursionError, step: str) -> Failure:
    if isinstance(error, MemorandaError):
        return failure_of(error, step)
    hint = {"hint": "Call fewer flows inside one another"}
    return Failure(type="runtime", message="the steps are nested too deeply", step=step, details=hint)


def _note_failure(taking: Taking, step: Step, failure: Failure) -> None:
    taking.about["error"] = failure.type
    note_step(taking, step)


def note_step(taking: Taking, step: Step, *, payload: bytes | None = None) -> None:
    """Make the event of a step that was taken."""
    detail = {"type": _TYPES[type(step)], "mode": taking.work.mode, **taking.about}
    taking.work.recorder.note("step_record", step.name, payload=payload, detail=detail)
    taking.noted = True


def _payload(taking: Taking, value: Any) -> bytes:
    try:
        return taking.written(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise failed("runtime", f"the value cannot be written down: {error}", taking.step) from error


def _compute(taking: Taking, step: Compute) -> Any:
    return taking.value(step.program)


def _decide(taking: Taking, step: Decide) -> Any:
    for number, branch in enumerate(step.branches, start=1):
        if branch.test.test(taking.work.names, taking.run):
            return _branch(taking, step, f"when {number}", branch.body)
    if step.otherwise is not None:
        return _branch(taking, step, "otherwise", step.otherwise)
    taking.about["branch"] = None
    return None


def _branch(taking: Taking, step: Decide, name: str, body: Block) -> Any:
    # On record before its steps are: they may jump elsewhere.
    taking.about["branch"] = name
    note_step(taking, step)
    return run_block(taking.work, body)


_STEPS: dict[type[Step], Callable[[Taking, Any], Any]] = {
    Compute: _compute,
    Decide: _decide,
    AskModel: ask_model,
    CallMachine: call_machine,
    Remember: remember,
    Recall: recall,
    WaitFor: wait_for,
}


# attempts


def _again(work: Work, attempts: Attempts, name: str, act: Callable[[], Any]) -> Any:
    """Do something until it succeeds, as often as it may be tried; wait longer each time."""
    most, delay, backoff = _attempts(work, attempts, name)
    for number in range(1, most + 1):
        try:
            return act()
        except Failed as caught:
            if number == most or caught.failure.type in _FINAL:
                raise
            _wait_before(work, delay, backoff, number)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _attempts(work: Work, attempts: Attempts, name: str) -> tuple[int, int, str]:
    def read(taking: Taking) -> dict[str, Any]:
        return {key: taking.value(program) for key, program in attempts.config}

    given = _with(work, f"{name} retry".lstrip(), read)
    most, delay, backoff = given.get("max", _ATTEMPTS), given.get("delay", _DELAY), given.get("backoff", BACKOFFS[0])
    if not is_whole(most, least=1) or not is_whole(delay, least=0) or backoff not in BACKOFFS:
        message = "`max` and `delay` are whole numbers, and `backoff` is exponential, linear or fixed"
        raise failed("runtime", message, name)
    return int(most), int(delay), backoff


def _wait_before(work: Work, delay: int, backoff: str, number: int) -> None:
    # Nothing is waited for where nothing is reached.
    if work.outside is None or work.mode == "test" or work.recorder.catching_up:
        return
    factor = {"exponential": 2 ** min(number - 1, 32), "linear": number}.get(backoff, 1)
    work.recorder.flush()
    work.behaviour.sleep(min(delay * factor, _LONGEST_DELAY) / 1000)
