"""Carry out the effects of steps: permission, guards and budget first, on record, then the effect itself.

`carry_out` is the only way to memory, to models and to other machines. Nothing is embedded, read, written or asked
before the permission was checked and is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from memoranda.errors import MemorandaError
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.mashin.contracts import Contract
from memoranda.mashin.document import Config
from memoranda.mashin.guards import GuardViolated, apply, redact
from memoranda.mashin.permissions import Need, Verdict
from memoranda.mashin.runtime.execution import Resources, Visit, failure_of, step_failed
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.runs.outcome import Failure, Paused, StepFailed, Waiting
from memoranda.runs.provenance import OWN, Provenance
from memoranda.runs.storage import JournalEntry

_UNSET: Any = object()
_JOURNAL_ONLY = frozenset({"spent", "calls", "made_of"})
"""Details of an effect that are in the journal and not in the event of the step."""
_SHOWN = 500
"""Maximum length of each value in a request for approval, in characters."""


class EffectResult(msgspec.Struct, frozen=True):
    """The value of an effect, and details for the ledger and the journal."""

    value: Any
    about: dict[str, Any] = {}
    made_of: Provenance = OWN
    """Where the value comes from, apart from what the step sends."""


class StepEffect(msgspec.Struct, frozen=True, kw_only=True):
    """An effect of a step: the permission it needs, what it sends, and how to perform it."""

    need: Need
    spends: str | None
    sends: dict[str, Any]
    about: dict[str, Any]
    """Details for the request for approval and for the ledger, without content."""
    perform: Callable[[Resources, dict[str, Any]], EffectResult]
    in_tests: Callable[[dict[str, Any]], Any]
    """Its value in test mode, unless the test assumes one."""
    shows: dict[str, Any] = {}
    """Further details for the person who approves it."""
    returns: Contract | None = None
    """The contract of its value, also in test mode."""


def carry_out(visit: Visit, effect: StepEffect) -> Any:
    """Carry out an effect if it is permitted and within the budget, guard both sides, and record it."""
    execution = visit.execution
    visit.about.update(effect.about)
    verdict = execution.permissions.verdict(effect.need)
    if verdict.level == "deny":
        raise _denial(visit, effect, verdict)
    sends = effect.sends
    if execution.guards:
        sends = _guard_request(visit, sends)
    record = execution.recorder.current_step
    record.inputs = sends
    _require_permission(visit, verdict, {**effect.about, **effect.shows, **sends} if verdict.level == "approve" else {})
    if effect.spends is not None:
        _spend(visit, effect, effect.spends)
    entry = visit.find("result")
    if entry is None:
        entry = _perform(visit, effect, sends)
    else:
        # It happened in an earlier execution: count what it used, and note the calls of its model again.
        execution.spending.add(entry.about.get("spent", {}))
        for call in entry.about.get("calls", ()):
            _repeat_call(visit, call)
    for name, detail in entry.about.items():
        if name == "found":
            _note_findings(visit, detail)
        elif name not in _JOURNAL_ONLY:
            visit.about[name] = detail
    if "made_of" in entry.about:
        visit.provenance |= msgspec.convert(entry.about["made_of"], Provenance)
    if "run" in visit.about:
        record.run = visit.about["run"]
    if entry.error is not None:
        raise StepFailed(msgspec.convert(entry.error, Failure))
    return entry.value


def _perform(visit: Visit, effect: StepEffect, sends: dict[str, Any]) -> JournalEntry:
    execution = visit.execution
    if execution.mode == "test":
        return _assume(visit, effect, sends)
    if execution.resources is None:
        raise _missing_record(visit)
    # What was allowed is on record before it happens.
    execution.recorder.flush()
    before = execution.spending.totals()
    value: Any = None
    failure: Failure | None = None
    about: dict[str, Any] = {}
    try:
        result = effect.perform(execution.resources, sends)
        value, about = result.value, result.about
        if result.made_of:
            about = {**about, "made_of": msgspec.to_builtins(result.made_of)}
    except MemorandaError as error:
        failure = failure_of(error, visit.step)
    except StepFailed as caught:
        failure = caught.failure
    found: list[dict[str, Any]] = []
    if failure is None:
        # What a guard withholds is not stored either.
        value, found, failure = _apply_guards(visit, value, "after")
    spent = execution.spending.since(before)
    if spent or visit.calls or found:
        details = {"spent": spent, "calls": visit.calls, "found": found}
        about = {**about, **{name: one for name, one in details.items() if one}}
    return visit.record("result", value, error=None if failure is None else msgspec.to_builtins(failure), about=about)


def _assume(visit: Visit, effect: StepEffect, sends: dict[str, Any]) -> JournalEntry:
    """Record what a test assumes of a step, under the same contract and guards as a real result."""
    assumed = visit.execution.assumed.get(visit.step, _UNSET)
    value = effect.in_tests(sends) if assumed is _UNSET else assumed
    found: list[dict[str, Any]] = []
    try:
        value = value if effect.returns is None else fit_assumption(visit, effect.returns, value)
        value, found, failure = _apply_guards(visit, value, "after")
    except MemorandaError as error:
        value, failure = None, failure_of(error, visit.step)
    error = None if failure is None else msgspec.to_builtins(failure)
    return visit.record("result", value, error=error, about={"found": found} if found else {})


def fit_assumption(visit: Visit, contract: Contract, assumed: Any) -> dict[str, Any]:
    """Return what a test assumes of a step, checked and completed by its contract."""
    execution = visit.execution
    # A run of its own: what it draws goes into the value, which is stored as a whole.
    run = ExpressionRun(clock=execution.clock, ids=execution.ids)
    return contract.assume(assumed, run=run, what=f"what is assumed of {quote(visit.step)}")


def _missing_record(visit: Visit) -> StepFailed:
    hint = "The path differs from here on"
    return step_failed("runtime", "nothing was recorded for this step", visit.step, hint=hint)


# permission and budget


def _denial(visit: Visit, effect: StepEffect, verdict: Verdict) -> StepFailed:
    execution = visit.execution
    detail = {"capability": verdict.capability, "mode": execution.mode, "reason": verdict.reason}
    execution.recorder.note("policy_decision", visit.step, decision="deny", detail=detail)
    execution.recorder.flush()
    message = f"the step {quote(visit.step)} was denied: {verdict.reason}"
    explicit = execution.permissions.level(effect.need) is not None
    hint = (
        "A denial overrides every permission: remove it" if explicit else f"Add `allowed to {effect.need}` to `ensures`"
    )
    return step_failed("permission_denied", message, visit.step, hint=hint, capability=verdict.capability)


def _require_permission(visit: Visit, verdict: Verdict, about: dict[str, Any]) -> None:
    """Return if the step is allowed or approved, fail if it was refused, and pause while nothing is decided."""
    execution, note = visit.execution, visit.execution.recorder.note
    detail: dict[str, Any] = {"capability": verdict.capability, "mode": execution.mode}
    if verdict.level == "allow":
        note("policy_decision", visit.step, detail=detail)
        return
    note("policy_decision", visit.step, decision="pending", detail=detail)
    decided = visit.find("verdict")
    if decided is None:
        if execution.mode == "live" and (execution.resources is not None or visit.find("result") is None):
            shown = {name: _shorten(value) for name, value in about.items() if value is not None}
            waiting = Waiting(
                kind="approval", step=visit.step, time=visit.time, capability=verdict.capability, about=shown
            )
            raise Paused(waiting)
        # Nothing happens in a test, and in a simulation it has happened: neither needs a person.
        note("policy_decision", visit.step, decision="approved", detail={**detail, "by": execution.mode})
        return
    by = decided.about.get("by")
    detail = {**detail, "approval": decided.about.get("approval"), "by": by}
    if decided.value == "approved":
        note("policy_decision", visit.step, decision="approved", detail=detail)
        return
    note("policy_decision", visit.step, decision="refused", detail=detail)
    reason = decided.about.get("reason") or "no reason was given"
    message = f"{by} refused the step {quote(visit.step)}: {reason}"
    raise step_failed("permission_denied", message, visit.step, capability=verdict.capability)


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _spend(visit: Visit, effect: StepEffect, what: str) -> None:
    spending = visit.execution.spending
    refusal = spending.out_of_tokens(visit.step) if what == "model_calls" else None
    refusal = refusal or spending.spend(what, visit.step)
    if refusal is not None:
        reason = refusal.failure.message
        detail = {"capability": effect.need.capability, "mode": visit.execution.mode, "reason": reason}
        visit.execution.recorder.note("policy_decision", visit.step, decision="deny", detail=detail)
        raise refusal


# guards


def _guard_request(visit: Visit, sends: dict[str, Any]) -> dict[str, Any]:
    """Return what the guards leave of a request, or raise why it is blocked.

    Guards are asked once: their answer may depend on more than the data, such as the hour, and a step that was allowed
    stays allowed when the run resumes.
    """
    entry, left = visit.find("guarded"), None
    if entry is None:
        left, found, violation = _apply_guards(visit, sends, "before")
        entry = visit.record("guarded", found, error=None if violation is None else msgspec.to_builtins(violation))
    _note_findings(visit, entry.value)
    if entry.error is not None:
        raise StepFailed(msgspec.convert(entry.error, Failure))
    return redact(visit.execution.guards, sends) if left is None else left


def _apply_guards(
    visit: Visit, data: Any, when: Literal["before", "after"]
) -> tuple[Any, list[dict[str, Any]], Failure | None]:
    """Return what the guards leave of some data, what they found, and the failure if one of them blocks it."""
    guards = visit.execution.guards
    if not guards:
        return data, [], None
    try:
        checked = apply(guards, data, when)
    except GuardViolated as violation:
        found = {"guard": violation.guard, "when": when, "action": "block", "reason": violation.reason}
        message = f"the guard {quote(violation.guard)} stopped the step {quote(visit.step)}: {violation.reason}"
        details = {"guard": violation.guard, "when": when}
        return None, [found], Failure(type="guard", message=message, step=visit.step, details=details)
    return checked.data, [{**msgspec.to_builtins(one), "when": when} for one in checked.findings], None


def _note_findings(visit: Visit, found: Iterable[dict[str, Any]]) -> None:
    for one in found:
        decision = "deny" if one["action"] == "block" else "allow"
        detail = {**one, "mode": visit.execution.mode}
        visit.execution.recorder.note("policy_decision", visit.step, decision=decision, detail=detail)


# machines that a model calls


def note_call(visit: Visit, call: dict[str, Any]) -> None:
    """Note the call of a machine by a model, and what guards found in it."""
    details = {name: one for name, one in call.items() if name != "found"}
    detail = {"capability": "machine.call", "mode": visit.execution.mode, **details}
    decision = "deny" if "reason" in call else "allow"
    visit.execution.recorder.note("policy_decision", visit.step, decision=decision, detail=detail)
    _note_findings(visit, call.get("found", ()))


def guard_call(visit: Visit, call: dict[str, Any], data: Any, when: Literal["before", "after"]) -> Any:
    """Return what the guards leave of the arguments or the output of a call; note what they found."""
    data, found, violation = _apply_guards(visit, data, when)
    if found:
        call["found"] = [*call.get("found", ()), *found]
        _note_findings(visit, found)
    if violation is not None:
        raise StepFailed(violation)
    return data


def call_denial(machine: str, reason: str, step: str) -> StepFailed:
    """Return the failure of a step whose model called a machine that it may not call."""
    return step_failed("permission_denied", f"{machine} cannot be called here: {reason}", step)


def _repeat_call(visit: Visit, call: dict[str, Any]) -> None:
    """Note a recorded call again; under other permissions, note what they would have made of it."""
    execution, machine = visit.execution, call["machine"]
    need = Need("machine.call", machine)
    verdict = execution.permissions.verdict(need)
    allowed, was_allowed = verdict.level == "allow", execution.plan.permissions.verdict(need).level == "allow"
    if was_allowed and not allowed and "reason" not in call:
        note_call(visit, {**call, "reason": verdict.reason})
        raise call_denial(machine, verdict.reason, visit.step)
    if allowed and not was_allowed:
        note_call(visit, {"machine": machine})
        raise _missing_record(visit)
    note_call(visit, call)


# configuration


def values_of(visit: Visit, config: Iterable[Config]) -> dict[str, Any]:
    """Return the values of some configuration, by key."""
    return {one.key.text: visit.value(one.value) for one in config}


def as_integer(value: Any) -> Any:
    """Return a whole number as an integer: 10 / 2 is 5.0 to an expression."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
