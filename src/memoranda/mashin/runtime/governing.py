"""An effect of a step in, its result out: permission, guards and budget first, on record, then the effect itself.

`governed` is the one way to memory, to models and to other machines. Nothing is embedded, read, written or asked
before the permission was looked at and is on record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from memoranda.errors import MemorandaError
from memoranda.lang.expression.dialect import Run
from memoranda.mashin.contracts import Contract
from memoranda.mashin.guards import GuardViolated, apply, redacted
from memoranda.mashin.permissions import Need, Verdict
from memoranda.mashin.runtime.failures import Failed, Failure, failed, failure_of
from memoranda.mashin.runtime.plan import Config
from memoranda.mashin.runtime.work import Outside, Taking
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.runs.journal import Noted
from memoranda.runs.waiting import Paused, Waiting


class Given(msgspec.Struct, frozen=True):
    """What an effect gave, and what the ledger and the journal say about it."""

    value: Any
    about: dict[str, Any] = {}


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One effect: what it needs, what it sends, and how it is done."""

    need: Need
    spends: str | None
    sends: dict[str, Any]
    about: dict[str, Any]
    """What the request for an approval, and the ledger, say about it: no content."""
    perform: Callable[[Outside, dict[str, Any]], Given]
    in_tests: Callable[[dict[str, Any]], Any]
    """What it gives in test mode where the test assumes nothing, of what it would send."""
    shows: dict[str, Any] = {}
    """What else a person is shown who decides about it."""
    returns: Contract | None = None
    """What it gives has to fit this in test mode too."""


def governed(taking: Taking, act: Act) -> Any:
    """Carry out an effect: allowed, within the budget, guarded on both sides, recorded; or raise why not."""
    work = taking.work
    taking.about.update(act.about)
    verdict = work.permissions.verdict(act.need)
    if verdict.level == "deny":
        raise _denied(taking, act, verdict)
    sends = act.sends
    if work.guards:
        sends = _let_through(taking, sends)
    _permitted(taking, verdict, {**act.about, **act.shows, **sends} if verdict.level == "approve" else {})
    if act.spends is not None:
        _affordable(taking, act, act.spends)
    kept = taking.find("result")
    if kept is None:
        kept = _done(taking, act, sends)
    else:
        # It happened before: what it used is counted, and what its model called is told again.
        work.spending.add(kept.about.get("spent", {}))
        for call in kept.about.get("calls", ()):
            _called_again(taking, call)
    for name, told in kept.about.items():
        if name == "found":
            _note_findings(taking, told)
        elif name not in _OWN:
            taking.about[name] = told
    if kept.error is not None:
        raise Failed(msgspec.convert(kept.error, Failure))
    return kept.value


def _done(taking: Taking, act: Act, sends: dict[str, Any]) -> Noted:
    """Do what was not done before, and keep what came of it."""
    work = taking.work
    if work.mode == "test":
        return _done_in_test(taking, act, sends)
    if work.outside is None:
        raise _unrecorded(taking)
    # What was allowed is on record before it happens.
    work.recorder.flush()
    before = work.spending.used()
    value: Any = None
    failure: Failure | None = None
    about: dict[str, Any] = {}
    try:
        given = act.perform(work.outside, sends)
        value, about = given.value, given.about
    except MemorandaError as error:
        failure = failure_of(error, taking.step)
    except Failed as caught:
        failure = caught.failure
    found: list[dict[str, Any]] = []
    if failure is None:
        # What a guard withholds is not kept either.
        value, found, failure = _looked_at(taking, value, "after")
    spent = work.spending.since(before)
    if spent or taking.calls or found:
        told = {"spent": spent, "calls": taking.calls, "found": found}
        about = {**about, **{name: one for name, one in told.items() if one}}
    return taking.keep("result", value, error=None if failure is None else msgspec.to_builtins(failure), about=about)


def _done_in_test(taking: Taking, act: Act, sends: dict[str, Any]) -> Noted:
    """Keep what a test assumes of a step; what came from outside would be held to the same contract and guards."""
    assumed = taking.work.assumed.get(taking.step, _NOTHING)
    given = act.in_tests(sends) if assumed is _NOTHING else assumed
    found: list[dict[str, Any]] = []
    try:
        given = given if act.returns is None else fitting(taking, act.returns, given)
        value, found, failure = _looked_at(taking, given, "after")
    except MemorandaError as error:
        value, failure = None, failure_of(error, taking.step)
    error = None if failure is None else msgspec.to_builtins(failure)
    return taking.keep("result", value, error=error, about={"found": found} if found else {})


def fitting(taking: Taking, contract: Contract, assumed: Any) -> dict[str, Any]:
    """Return what a test assumes of a step as its contract leaves it, or refuse it."""
    work = taking.work
    # Of its own: what it draws goes into the value, which is kept as a whole.
    run = Run(clock=work.clock, ids=work.ids)
    return contract.assume(assumed, run=run, what=f"what is assumed of {quote(taking.step)}")


def _unrecorded(taking: Taking) -> Failed:
    return failed("runtime", "nothing was recorded for this step", taking.step, hint="The path differs from here on")


_NOTHING: Any = object()
_OWN = frozenset({"spent", "calls"})
"""What the journal keeps of an effect beside what guards found, and the event of the step does not repeat."""
_SHOWN = 500
"""Characters of what would be sent that a request for approval shows."""


# permission, budget, guards


def _denied(taking: Taking, act: Act, verdict: Verdict) -> Failed:
    work = taking.work
    detail = {"capability": verdict.capability, "mode": work.mode, "reason": verdict.reason}
    work.recorder.note("policy_decision", taking.step, decision="deny", detail=detail)
    work.recorder.flush()
    message = f"the step {quote(taking.step)} was denied: {verdict.reason}"
    said = work.permissions.level(act.need) is not None
    hint = "A denial beats every permission: remove it" if said else f"Add `allowed to {act.need}` to `ensures`"
    return failed("permission_denied", message, taking.step, hint=hint, capability=verdict.capability)


def _permitted(taking: Taking, verdict: Verdict, about: dict[str, Any]) -> None:
    work = taking.work
    detail: dict[str, Any] = {"capability": verdict.capability, "mode": work.mode}
    if verdict.level == "allow":
        work.recorder.note("policy_decision", taking.step, detail=detail)
        return
    work.recorder.note("policy_decision", taking.step, decision="pending", detail=detail)
    _approved(taking, verdict.capability, detail, about)


def _approved(taking: Taking, capability: str, detail: dict[str, Any], about: dict[str, Any]) -> None:
    """Go on where somebody has approved, fail where somebody has refused, and pause where nobody has said anything."""
    work = taking.work
    verdict = taking.find("verdict")
    if verdict is None:
        if work.mode == "live" and (work.outside is not None or taking.find("result") is None):
            shown = {name: _short(value) for name, value in about.items() if value is not None}
            raise Paused(
                Waiting(kind="approval", step=taking.step, time=taking.time, capability=capability, about=shown)
            )
        # Nothing happens in a test, and in a simulation it has happened: neither needs a person.
        work.recorder.note("policy_decision", taking.step, decision="approved", detail={**detail, "by": work.mode})
        return
    told = {**detail, "approval": verdict.about.get("approval"), "by": verdict.about.get("by")}
    if verdict.value == "approved":
        work.recorder.note("policy_decision", taking.step, decision="approved", detail=told)
        return
    work.recorder.note("policy_decision", taking.step, decision="refused", detail=told)
    reason = verdict.about.get("reason") or "no reason was given"
    message = f"{verdict.about.get('by')} refused the step {quote(taking.step)}: {reason}"
    raise failed("permission_denied", message, taking.step, capability=capability)


def _short(value: Any) -> str:
    """Return as much of what would be sent as a person needs to decide about it."""
    text = value if isinstance(value, str) else encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _affordable(taking: Taking, act: Act, what: str) -> None:
    spending = taking.work.spending
    refusal = spending.out_of_tokens(taking.step) if what == "model_calls" else None
    refusal = refusal or spending.over(what, taking.step)
    if refusal is not None:
        detail = {"capability": act.need.capability, "mode": taking.work.mode, "reason": refusal.failure.message}
        taking.work.recorder.note("policy_decision", taking.step, decision="deny", detail=detail)
        raise refusal


def _let_through(taking: Taking, sends: dict[str, Any]) -> dict[str, Any]:
    """Return what the guards leave of what goes out, or raise why nothing may.

    They are asked once: what they say may depend on more than the data, such as the hour, and a step that was taken
    stays taken when the run goes on.
    """
    kept, asked = taking.find("guarded"), None
    if kept is None:
        asked, found, violation = _looked_at(taking, sends, "before")
        kept = taking.keep("guarded", found, error=None if violation is None else msgspec.to_builtins(violation))
    _note_findings(taking, kept.value)
    if kept.error is not None:
        raise Failed(msgspec.convert(kept.error, Failure))
    return redacted(taking.work.guards, sends) if asked is None else asked


def _looked_at(
    taking: Taking, data: Any, when: Literal["before", "after"]
) -> tuple[Any, list[dict[str, Any]], Failure | None]:
    """Return what the guards leave of some data, what they found, and the failure where one lets nothing through."""
    work = taking.work
    if not work.guards:
        return data, [], None
    try:
        checked = apply(work.guards, data, when)
    except GuardViolated as violation:
        found = {"guard": violation.guard, "when": when, "action": "block", "reason": violation.reason}
        message = f"the guard {quote(violation.guard)} stopped the step {quote(taking.step)}: {violation.reason}"
        details = {"guard": violation.guard, "when": when}
        return None, [found], Failure(type="guard", message=message, step=taking.step, details=details)
    return checked.data, [{**msgspec.to_builtins(one), "when": when} for one in checked.findings], None


def _note_findings(taking: Taking, found: Iterable[dict[str, Any]]) -> None:
    for one in found:
        decision = "deny" if one["action"] == "block" else "allow"
        detail = {**one, "mode": taking.work.mode}
        taking.work.recorder.note("policy_decision", taking.step, decision=decision, detail=detail)


def note_call(taking: Taking, call: dict[str, Any]) -> None:
    """Make the event of a machine that a model wanted to call, and those of what guards found in the call."""
    told = {name: one for name, one in call.items() if name != "found"}
    detail = {"capability": "machine.call", "mode": taking.work.mode, **told}
    decision = "deny" if "reason" in call else "allow"
    taking.work.recorder.note("policy_decision", taking.step, decision=decision, detail=detail)
    _note_findings(taking, call.get("found", ()))


def guarded(taking: Taking, call: dict[str, Any], data: Any, when: Literal["before", "after"]) -> Any:
    """Return what the guards leave of what a model gives a machine, or that the model; tell what they found."""
    data, found, violation = _looked_at(taking, data, when)
    if found:
        call["found"] = [*call.get("found", ()), *found]
        _note_findings(taking, found)
    if violation is not None:
        raise Failed(violation)
    return data


def not_callable(machine: str, reason: str, step: str) -> Failed:
    """Return the failure of a step whose model wanted to call a machine that it may not call."""
    return failed("permission_denied", f"{machine} cannot be called here: {reason}", step)


def _called_again(taking: Taking, call: dict[str, Any]) -> None:
    """Tell of a machine that a model called; where permissions are others now, what would have become of the call."""
    work, machine = taking.work, call["machine"]
    need = Need("machine.call", machine)
    verdict = work.permissions.verdict(need)
    allowed, was_allowed = verdict.level == "allow", work.plan.permissions.verdict(need).level == "allow"
    if was_allowed and not allowed and "reason" not in call:
        note_call(taking, {**call, "reason": verdict.reason})
        raise not_callable(machine, verdict.reason, taking.step)
    if allowed and not was_allowed:
        note_call(taking, {"machine": machine})
        raise _unrecorded(taking)
    note_call(taking, call)


# what steps are configured with


def values_of(taking: Taking, config: Config) -> dict[str, Any]:
    """Return the values of some configuration, by name."""
    return {key: taking.value(program) for key, program in config}


def whole(value: Any) -> Any:
    """Return a whole number as an integer: 10 / 2 is 5.0 to an expression."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
