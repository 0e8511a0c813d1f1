"""Run the steps of a machine in order: flows, branches, retries and failures, from the first event to the last."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from memoranda.errors import MemorandaError
from memoranda.mashin import document
from memoranda.mashin.document import Block, Config
from memoranda.mashin.expression.operators import is_whole
from memoranda.mashin.keywords import BACKOFFS
from memoranda.mashin.runtime.effects import values_of
from memoranda.mashin.runtime.execution import Execution, Jumped, Visit, failure_of, step_failed
from memoranda.mashin.runtime.steps import ask, read_memory, recall, remember, wait_for
from memoranda.model.value import encode_checked
from memoranda.runs import outcome
from memoranda.runs.outcome import Failure, Outcome, Paused, StepFailed
from memoranda.runs.provenance import OWN
from memoranda.runs.steps import OpenStep

T = TypeVar("T")

_ATTEMPTS, _DELAY, _LONGEST_DELAY = 3, 1000, 3_600_000
_FINAL = frozenset({"permission_denied", "budget_exceeded"})
"""Failures that another attempt would not change."""


def execute(execution: Execution, keep: Callable[[Outcome], T]) -> T:
    """Run a machine; `keep` stores the outcome with the last events."""
    plan, mode = execution.plan, execution.mode
    execution.recorder.note(
        "exec_start",
        payload=encode_checked(execution.input, execution.limits),
        detail={"machine": plan.name, "digest": plan.digest, "mode": mode},
    )
    return outcome.execute(
        execution.recorder, lambda: _outcome(execution), keep, limits=execution.limits, said={"mode": mode}
    )


def _outcome(execution: Execution) -> Outcome:
    try:
        output = _output(execution, _run_main(execution))
    except Paused as pause:
        return Outcome(status="waiting", waiting=pause.waiting)
    except StepFailed as caught:
        return Outcome(status="failed", error=caught.failure)
    return Outcome(status="completed", output=output)


def _output(execution: Execution, value: Any) -> Any:
    """Return the output: the value of the last step, or of the steps that its fields name.

    A machine that asks something and then remembers the turn replies with the answer, not with the receipt.
    """
    plan = execution.plan
    # Fields of the output may be computed from anything.
    known = OWN if plan.responds is None else execution.made_of.all()
    execution.output_made_of = execution.last_made_of | execution.reply_made_of | known
    try:
        if plan.responds is None and execution.stores_reply:
            value = execution.reply
        if plan.responds is not None:
            given = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
            for field, path in plan.origins.items():
                given[field] = _read_path(execution, field, path)
            visit = execution.enter("responds with")
            value = plan.responds.respond(given, run=visit.run, names=execution.names)
            visit.leave()
        encode_checked(value, execution.limits)
    except MemorandaError as error:
        failure = failure_of(error, "")
        raise StepFailed(msgspec.structs.replace(failure, type="contract")) from error
    return value


def _read_path(execution: Execution, field: str, path: tuple[str, ...]) -> Any:
    first, *rest = path if path[0] not in ("steps", "state") or len(path) == 1 else list(path[1:])
    place: dict[str, Any] = execution.names if first in ("input", "context") else execution.steps
    if first not in place:
        raise step_failed("contract", f"the output `{field}` comes from `{'.'.join(path)}`, which gave nothing", "")
    value: Any = place[first]
    for name in rest:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    if not rest and isinstance(value, dict):
        return cast("dict[str, Any]", value).get(field, value)
    return value


# flows


def _run_main(execution: Execution) -> Any:
    """Run the main steps and return the last value; the machine's `on failure` covers every flow they lead to."""
    plan = execution.plan
    flow = plan.main
    while True:
        try:
            return _catch(execution, partial(_run_flow, execution, flow), plan.on_failure)
        except Jumped as jump:  # out of `on failure`
            execution.spending.step(jump.flow)
            flow = plan.flows[jump.flow]


def _run_flow(execution: Execution, flow: document.Flow) -> Any:
    """Run a flow, and the flows that it jumps to; return the last value."""
    spending, most = execution.spending, execution.behaviour.flows
    spending.flows += 1
    try:
        if spending.flows > most:
            message, hint = f"more than {most} flows are nested", "Let a flow end before it runs again, or use goto"
            raise step_failed("runtime", message, "", hint=hint, limit=most)
        while True:
            try:
                return _catch(execution, partial(_run_block, execution, flow.body), flow.on_failure)
            except Jumped as jump:
                spending.step(flow.name.text)
                flow = execution.plan.flows[jump.flow]
    finally:
        spending.flows -= 1


def _catch(execution: Execution, act: Callable[[], Any], handler: Block | None) -> Any:
    """Do something; if it fails and there is a handler, run that with the failure as `error`."""
    if handler is None:
        return act()
    try:
        return act()
    except StepFailed as caught:
        error = msgspec.to_builtins(caught.failure)
    before = execution.names["error"]
    execution.names["error"] = error
    execution.made_of.put(("error",), execution.last_made_of)
    try:
        return _run_block(execution, handler)
    finally:
        execution.names["error"] = before


def _run_block(execution: Execution, block: Block) -> Any:
    value: Any = None
    for item in block:
        value = _run_item(execution, item)
    return value


def _run_item(execution: Execution, item: document.Item) -> Any:
    if type(item) is document.RunFlow:
        if item.jump:
            raise Jumped(item.flow.text)
        return _run_flow(execution, execution.plan.flows[item.flow.text])
    if type(item) is document.Result:
        value = _compute(execution, "", lambda visit: visit.value(item.value))
        execution.stores_reply, execution.reply, execution.reply_made_of = False, value, execution.last_made_of
        return value
    if type(item) is document.Retry:
        return _retry(execution, item, "", lambda: _run_block(execution, item.steps))
    retry = getattr(item, "retry", None)
    if retry is None:
        return _run_step(execution, item)
    return _retry(execution, retry, item.name.text, lambda: _run_step(execution, item))


# steps


def _run_step(execution: Execution, step: document.NamedStep | document.AskMemory) -> Any:
    """Run one step: its value is stored under its name, and its event is noted."""
    with execution.recorder.step(step.name.text, type_of(step)) as record:
        return _run_recorded(execution, step, record)


def _run_recorded(execution: Execution, step: document.NamedStep | document.AskMemory, record: OpenStep) -> Any:
    name = step.name.text
    execution.spending.step(name)
    visit = execution.enter(name)
    try:
        value = _STEPS[type(step)](visit, step)
        payload = _payload(visit, value)
    except Jumped:
        record.status = "completed"
        if not visit.noted:
            _note_step(visit, step)
        raise
    except StepFailed as caught:
        if caught.failure.step == name:  # otherwise a nested step has noted it
            _note_failure(visit, step, caught.failure)
        raise
    except (MemorandaError, RecursionError) as error:
        failure = _failure_of(error, name)
        _note_failure(visit, step, failure)
        raise StepFailed(failure) from error
    finally:
        visit.leave()
        execution.last_made_of |= visit.provenance
    record.output = msgspec.Raw(payload)
    if not visit.noted:
        _note_step(visit, step, payload=payload)
    if type(step) is document.Decide:  # whose value is that of its branch
        visit.provenance |= execution.last_made_of
    execution.last_made_of = visit.provenance
    execution.keep(name, value, visit.provenance)
    if type(step) is document.Remember:
        execution.stores_reply = execution.asked
    elif type(step) is not document.Decide:  # whose value is that of its branch
        execution.stores_reply, execution.reply, execution.reply_made_of = False, value, visit.provenance
        execution.asked = execution.asked or type(step) is document.Ask
    return value


def _compute(execution: Execution, name: str, compute: Callable[[Visit], T]) -> T:
    """Compute something that is not a step; an error is a failure under this name."""
    visit = execution.enter(name)
    try:
        value = compute(visit)
        execution.last_made_of = visit.provenance
        return value
    except (MemorandaError, RecursionError) as error:
        raise StepFailed(_failure_of(error, name)) from error
    finally:
        visit.leave()


def _failure_of(error: MemorandaError | RecursionError, step: str) -> Failure:
    if isinstance(error, MemorandaError):
        return failure_of(error, step)
    details = {"hint": "Nest fewer flows"}
    return Failure(type="runtime", message="the steps are nested too deeply", step=step, details=details)


def _note_failure(visit: Visit, step: document.NamedStep | document.AskMemory, failure: Failure) -> None:
    visit.about["error"] = failure.type
    _note_step(visit, step)


def _note_step(visit: Visit, step: document.NamedStep | document.AskMemory, *, payload: bytes | None = None) -> None:
    detail = {"type": type_of(step), "mode": visit.execution.mode, **visit.about}
    visit.execution.recorder.note("step_record", visit.step, payload=payload, detail=detail)
    visit.noted = True


def type_of(step: document.NamedStep | document.AskMemory) -> str:
    """Return the type of a step, as the ledger names it."""
    return "call" if isinstance(step, document.Ask) and step.machine is not None else _TYPES[type(step)]


def _payload(visit: Visit, value: Any) -> bytes:
    try:
        return visit.payload(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise step_failed("runtime", f"the value cannot be stored: {error}", visit.step) from error


def _ask(visit: Visit, step: document.Ask) -> Any:
    """Ask a model or a machine. What a model is told of memory is read first, as a step of its own."""
    told = ""
    if step.memory is not None:
        told = _run_step(visit.execution, step.memory)["text"]
        visit.provenance |= visit.execution.last_made_of
    return ask(visit, step, told)


def _decide(visit: Visit, step: document.Decide) -> Any:
    for number, branch in enumerate(step.branches, start=1):
        if visit.test(branch.test):
            return _run_branch(visit, step, f"when {number}", branch.body)
    if step.otherwise is not None:
        return _run_branch(visit, step, "otherwise", step.otherwise)
    visit.about["branch"] = None
    return None


def _run_branch(visit: Visit, step: document.Decide, name: str, body: Block) -> Any:
    # The event comes before those of its steps: they may jump elsewhere.
    visit.about["branch"] = name
    _note_step(visit, step)
    return _run_block(visit.execution, body)


_TYPES: dict[type[document.NamedStep | document.AskMemory], str] = {
    document.Compute: "compute",
    document.Decide: "decide",
    document.Ask: "reason",
    document.AskMemory: "memory",
    document.Remember: "memory",
    document.Recall: "memory",
    document.WaitFor: "control",
}
"""The type of each kind of step in the ledger; an `ask` of a machine is a `call`."""
_STEPS: dict[type[document.NamedStep | document.AskMemory], Callable[[Visit, Any], Any]] = {
    document.Compute: Visit.value,
    document.Decide: _decide,
    document.Ask: _ask,
    document.AskMemory: read_memory,
    document.Remember: remember,
    document.Recall: recall,
    document.WaitFor: wait_for,
}


# attempts


def _retry(execution: Execution, retry: document.Retry, name: str, act: Callable[[], Any]) -> Any:
    """Do something until it succeeds or the attempts are used up, with growing delays."""
    most, delay, backoff = _retry_options(execution, retry.config, name)
    for number in range(1, most + 1):
        try:
            return act()
        except StepFailed as caught:
            if number == most or caught.failure.type in _FINAL:
                raise
            _sleep(execution, delay, backoff, number)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _retry_options(execution: Execution, config: tuple[Config, ...], name: str) -> tuple[int, int, str]:
    given = _compute(execution, f"{name} retry".lstrip(), lambda visit: values_of(visit, config))
    most, delay, backoff = given.get("max", _ATTEMPTS), given.get("delay", _DELAY), given.get("backoff", BACKOFFS[0])
    if not is_whole(most, least=1) or not is_whole(delay, least=0) or backoff not in BACKOFFS:
        message = "`max` and `delay` are whole numbers, and `backoff` is exponential, linear or fixed"
        raise step_failed("runtime", message, name)
    return int(most), int(delay), backoff


def _sleep(execution: Execution, delay: int, backoff: str, number: int) -> None:
    # A replay, a test and an execution that catches up have nothing to wait for.
    if execution.resources is None or execution.mode == "test" or execution.recorder.catching_up:
        return
    factor = {"exponential": 2 ** min(number - 1, 32), "linear": number}.get(backoff, 1)
    execution.recorder.flush()
    execution.behaviour.sleep(min(delay * factor, _LONGEST_DELAY) / 1000)
