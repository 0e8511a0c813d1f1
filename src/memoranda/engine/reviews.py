"""What waits for a decision: effects that a policy, a conflict or a detector holds back.

Until it is released, a held write is in no read: only its effect is stored, with who asked for it.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from memoranda.engine.verbs import Call, Outcome, Rules
from memoranda.errors import Denied, Held, Hint, UsageError
from memoranda.model.effect import Approval, Cause, Effect
from memoranda.model.event import Note
from memoranda.model.trust import Origin, is_at_least
from memoranda.model.value import encode
from memoranda.store.base import ContentKey, Transaction


def hold(
    rows: Transaction,
    effect: Effect,
    capability: str,
    call: Call,
    cause: Cause = "policy",
    findings: Sequence[str] = (),
) -> tuple[Approval, Note]:
    """Store an effect until it is decided; erasing its subject removes it."""
    if call.origin.source is not None:  # the decision will come from another source
        effect = effect.with_source(call.origin.source)
    _ensure_keepable(effect)
    id, earlier = _id_of_conflict(rows, effect, call) if cause == "conflict" else (call.ids.new("approval"), None)
    approval = earlier or Approval(
        id=id,
        tenant=effect.scope.tenant,
        scope=effect.scope.path,
        actor=call.origin.actor,
        door=call.origin.door,
        kind=call.origin.kind,
        trust=call.origin.trust,
        cause=cause,
        findings=tuple(findings),
        rules=_rules_to_keep(call.rules),
        capability=capability,
        effect=effect,
        requested_at=call.now,
    )
    if earlier is None:
        rows.put(approval)
    detail = {"capability": capability, **effect.pending_detail()}
    if cause != "policy":
        detail |= {"cause": cause, "findings": list(findings)}
    note = Note(
        effect=effect.name,
        scope=effect.scope.path,
        key=effect.place,
        resource=approval.id,
        detail=detail,
        decision="pending",
    )
    return approval, note


def _id_of_conflict(rows: Transaction, effect: Effect, call: Call) -> tuple[str, Approval | None]:
    """Return the id of a conflict, and the conflict if the same write of the same origin is waiting already.

    A program that repeats a contested write in each turn does not fill the list. One that was decided is asked again.
    """
    origin, tenant = call.origin, effect.scope.tenant
    key = rows.get(ContentKey, tenant, effect.scope.path)
    if key is None:
        return call.ids.new("approval"), None
    said = encode([effect, origin.actor, origin.kind, origin.source])
    attempt = 0
    while True:
        # The scope's secret, because the id stays in the ledger when the content is erased.
        id = "approval_" + hmac.digest(key.secret, b"%d %b" % (attempt, said), "sha256").hex()[:32]
        earlier = rows.get(Approval, tenant, id)
        if earlier is None or earlier.status == "pending":
            return id, earlier
        attempt += 1


def _rules_to_keep(rules: Rules | None) -> dict[str, Any]:
    """Return which rules decide about who asks, so that the effect is decided again when it is approved."""
    if rules is None:
        return {}
    decided: dict[str, Any] = {} if rules.epoch is None else {"epoch": rules.epoch}
    if rules.granted:
        return {"granted": True, **decided}
    return decided if rules.membership is None else {**msgspec.to_builtins(rules.membership), **decided}


def _ensure_keepable(effect: Effect) -> None:
    """Raise UsageError for what no store can encode; otherwise only the decision would find out."""
    try:
        encode(effect)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"`{effect.name}` cannot wait for approval: {error}", hint="Pass JSON values and text that can be encoded"
        ) from error


def confirm(rows: Transaction, effect: Effect, call: Call) -> Outcome[Any]:
    """Hold an effect whose writer asked for confirmation."""
    approval, note = hold(rows, effect, effect.capability, call, "confirmation")
    error = Held(
        f"the write waits as `{approval.id}` until someone else confirms it",
        hint=Hint("approve", approval.id),
        approval=approval.id,
        capability=effect.capability,
        cause="confirmation",
    )
    return Outcome(error, (note,))


def contest(rows: Transaction, effect: Effect, origins: Iterable[Origin], call: Call) -> Outcome[Held] | None:
    """Hold an effect that would replace something more trusted than its caller; return None if there is no such thing.

    The newest write wins only among equals: what a page or a tool says never replaces what a user said.
    """
    if call.authority == "high":
        return None
    above = next((origin for origin in origins if not is_at_least(call.authority, origin.trust)), None)
    if above is None:
        return None
    approval, note = hold(rows, effect, effect.capability, call, "conflict")
    place = f"`{effect.place}`" if effect.place else "this"
    error = Held(
        f"{place} was written by `{above.actor}`, who is trusted more: {above.trust}, not {call.origin.trust}. "
        f"The write waits as `{approval.id}`",
        hint=Hint("approve", approval.id),
        approval=approval.id,
        capability=effect.capability,
        cause="conflict",
    )
    return Outcome(error, (note,))


def ensure_authority(effect: Effect, call: Call, what: str) -> None:
    """Raise Denied unless the caller is fully trusted or a program of the operator."""
    if call.authority != "high":
        raise Denied(
            f"`{call.origin.actor}` is not trusted {what}",
            hint="A user has to",
            capability=effect.capability,
            actor=call.origin.actor,
        )
