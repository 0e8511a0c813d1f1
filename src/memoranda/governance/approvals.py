"""Approvals: effects that wait for a decision, and the decision that carries them out or drops them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from memoranda.engine.embedding import Stale
from memoranda.engine.entries import entry_of_key
from memoranda.engine.pages import read_portions
from memoranda.engine.refs import Lines, Target, find_target
from memoranda.engine.verbs import VERBS, Call, Outcome, Preparation, verb
from memoranda.errors import Conflict, Denied, Hint, NotFound, UsageError
from memoranda.governance.ledger import Signature, append, carry_out, earlier_result, without_erased
from memoranda.governance.permissions import Membership, policies_of_role, policy_of_grants, why_stale
from memoranda.model.block import lines_of
from memoranda.model.effect import Approval, Cause, Contested, Effect, ReadEffect, Side, Status, WriteEffect
from memoranda.model.entry import Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.names import LONGEST_LABEL, why_not_a_name
from memoranda.model.policy import Grant
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Origin
from memoranda.store.base import Reader, Store, Transaction


def find_approval(rows: Reader, tenant: str, id: str) -> Approval | None:
    """Return an approval by its id, which may be any value from a caller."""
    return rows.get(Approval, tenant, id) if why_not_a_name(id, longest=LONGEST_LABEL) is None else None


class ReadApprovals(ReadEffect, frozen=True, kw_only=True, tag="read_approvals"):
    """Read what waits for a decision, and what was decided."""

    capability: ClassVar[str] = "approvals.read"
    id: str = ""
    """Only the one with this id."""
    status: Status | None = None
    """Only those with this status."""
    cause: Cause | None = None
    """Only those that wait for this reason."""
    below: Scope | None = None
    """Only those about this scope and what is below it."""
    after: str = ""
    """The id of the last one seen."""
    limit: int | None = None
    max_bytes: int | None = None


@verb(ReadApprovals)
def read_approvals(rows: Reader, effect: ReadApprovals, call: Call) -> Outcome[list[Approval]]:
    """Return what waits for a decision and what was decided, oldest first."""
    tenant = effect.scope.tenant
    if effect.id:
        one = find_approval(rows, tenant, effect.id)
        return Outcome([] if one is None else [one])
    if effect.after and find_approval(rows, tenant, effect.after) is None:
        raise UsageError(
            f"the approval {quote(effect.after)} is gone", hint="Begin again without `after`", path="after"
        )

    def read(last: Approval | None, limit: int | None) -> list[Approval]:
        return rows.scan(Approval, tenant, after=effect.after if last is None else last.id, limit=limit)

    found = read_portions(
        read,
        lambda approval: approval.effect,
        limit=effect.limit,
        max_bytes=effect.max_bytes,
        wanted=lambda approval: _is_asked_for(effect, approval),
    )
    return Outcome(found)


def _is_asked_for(effect: ReadApprovals, approval: Approval) -> bool:
    """Return whether a list of approvals includes one."""
    return (
        effect.status in (None, approval.status)
        and effect.cause in (None, approval.cause)
        and (effect.below is None or effect.below.covers(Scope(approval.tenant, approval.scope)))
    )


class ListConflicts(ReadEffect, frozen=True, kw_only=True, tag="list_conflicts"):
    """Read the writes that wait because they contradict something more trusted."""

    capability: ClassVar[str] = "approvals.read"
    below: Scope | None = None
    """Only those at and below this scope."""


@verb(ListConflicts)
def list_conflicts(rows: Reader, effect: ListConflicts, call: Call) -> Outcome[list[Contested]]:
    """Return both sides of each conflict, oldest first."""
    tenant = effect.scope.tenant
    found: list[Contested] = []
    for approval in rows.scan(Approval, tenant):
        waiting = approval.effect
        if approval.status != "pending" or approval.cause != "conflict" or waiting is None:
            continue
        scope = Scope(tenant, approval.scope)
        if effect.below is None or effect.below.covers(scope):
            # What it is about may be gone: then there is nothing to lose, but still something to decide.
            gone = Side(key=waiting.place or waiting.name)
            sides = list(VERBS[type(waiting)].sides(rows, waiting, call)) or [gone]
            found += [_both_sides(rows, approval, scope, side, call) for side in sides]
    return Outcome(found)


def _both_sides(rows: Reader, approval: Approval, scope: Scope, side: Side, call: Call) -> Contested:
    """Return what a write proposes, and what is current in its place."""
    place = side.scope or scope
    current: Target | None
    if side.ref is not None:
        current = find_target(rows, place, side.ref, call.now)
    elif side.collection is None:
        fact = rows.fact(place, side.key)
        current = fact if fact is not None and fact.active_at(call.now) else None
    else:
        entry = entry_of_key(rows, Shelf(place, side.collection, side.namespace), side.key)
        current = entry if entry is not None and entry.is_current_at(call.now) else None
    value, origin = _current_side(current)
    return Contested(
        id=approval.id,
        scope=place,
        key=side.key,
        collection=side.collection,
        namespace=side.namespace,
        change=side.change,
        current=value,
        current_origin=origin,
        proposed=side.proposed,
        proposed_origin=Origin(approval.actor, approval.door, kind=approval.kind, trust=approval.trust),
        at=approval.requested_at,
    )


def _current_side(target: Target | None) -> tuple[Any, Origin | None]:
    """Return what is current, and where it came from."""
    if target is None:
        return None, None
    if isinstance(target, Lines):
        lines = dict(lines_of(target.block.value))
        return "\n".join(lines[number] for number in target.numbers), target.block.origin
    return (target.value if isinstance(target, Fact) else target.content), target.origin


class Decide(WriteEffect, frozen=True, kw_only=True, tag="decide"):
    """Approve a waiting effect, which then happens, or refuse it."""

    capability: ClassVar[str] = "approvals.decide"
    approval: str
    verdict: Literal["approved", "refused"]
    reason: str = ""
    cause: Cause | None = None
    """Decide it only if this is why it waits."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, and the result of the approved effect."""

    approval: Approval
    result: Any = None


def _inquire_waiting(rows: Reader, effect: Decide, call: Call) -> tuple[Effect, Any] | None:
    """Return the effect that will be approved, with what its own preparation has to know."""
    approval = find_approval(rows, effect.scope.tenant, effect.approval)
    if approval is None or _is_own_request(approval, call) or effect.verdict != "approved":
        return None
    waiting = approval.effect
    if waiting is None:
        return None
    preparation = VERBS[type(waiting)].preparation
    return waiting, None if preparation is None else preparation.inquire(rows, waiting, call)


def _prepare_waiting(store: Store, effect: Decide, found: tuple[Effect, Any], call: Call) -> Call:
    """Prepare the waiting effect; a read is done here, because it cannot run inside the transaction."""
    waiting, inquired = found
    verb = VERBS[type(waiting)]
    if verb.reads_often:
        return msgspec.structs.replace(call, seen=verb.perform(store, waiting, call))
    if not waiting.mutates:
        return msgspec.structs.replace(call, seen=store.read(lambda rows: verb.perform(rows, waiting, call)))
    if verb.preparation is None or inquired is None:
        return call
    return verb.preparation.prepare(store, waiting, inquired, call)


def _is_own_request(approval: Approval, call: Call) -> bool:
    """Return whether the caller asked for it. A user decides about a conflict that was passed on in the user's name."""
    if approval.actor != call.origin.actor:
        return False
    return approval.cause == "policy" or approval.kind == call.origin.kind


def _ensure_decidable(rows: Reader, effect: Decide, call: Call) -> Approval:
    """Return the pending approval; its actor cannot decide it, and a decision is made once."""
    approval = find_approval(rows, effect.scope.tenant, effect.approval)
    if approval is None or effect.cause not in (None, approval.cause):
        raise NotFound(
            f"unknown approval {quote(effect.approval)}",
            hint=Hint("list", "approvals"),
        )
    if approval.status != "pending":
        raise Conflict(
            f"approval `{approval.id}` was already {approval.status} by `{approval.decided_by}`",
            hint="A decision is made once; ask again for another effect",
            expected="pending",
            actual=approval.status,
        )
    if _is_own_request(approval, call):
        raise Denied(
            f"`{approval.actor}` asked for this and cannot decide it",
            hint="Another actor with approvals.decide has to",
            capability=effect.capability,
        )
    if approval.cause != "policy" and call.authority != "high":
        raise Denied(
            f"`{call.origin.kind}` is not trusted to decide what waits because of its trust",
            hint="A user with approvals.decide has to",
            capability=effect.capability,
            actor=call.origin.actor,
        )
    if effect.verdict == "approved" and approval.effect is not None:
        _ensure_still_allowed(rows, approval, approval.effect, call)
    return approval


def _ensure_still_allowed(rows: Reader, approval: Approval, waiting: Effect, call: Call) -> None:
    """Raise Denied if the actor that asked may no longer do it: permissions may have changed while it waited.

    Raise StaleEpoch if it was asked under a permission epoch that has passed since.
    """
    from memoranda.governance.gate import decide  # which imports this module

    epoch = approval.rules.get("epoch")
    stale = None if epoch is None else why_stale(rows, waiting, epoch, call)
    if stale is not None:
        stale.advice = "Refuse it: who asked has to decide anew"
        raise stale
    if not approval.rules.keys() - {"epoch"}:
        return
    grants = rows.scan(Grant, approval.tenant)
    if approval.rules.get("granted"):
        policies = (policy_of_grants(grants, approval.actor),)
    else:
        policies = policies_of_role(msgspec.convert(approval.rules, Membership), grants, approval.actor)
    touches = VERBS[type(waiting)].touches
    verdict = decide(policies, waiting, () if touches is None else tuple(touches(rows, waiting, call)))
    if verdict.level == "deny":
        raise Denied(
            f"`{approval.actor}` may no longer do this: {verdict.reason}",
            hint="Refuse it, or grant it again",
            capability=verdict.capability,
            actor=approval.actor,
        )


def _after_commit(store: Store, effect: Decide, decided: Decided) -> Decided:
    """Do what the approved effect does after its commit."""
    waiting = decided.approval.effect
    after_commit = None if waiting is None else VERBS[type(waiting)].after_commit
    if waiting is None or after_commit is None or decided.result is None:
        return decided
    return msgspec.structs.replace(decided, result=after_commit(store, waiting, decided.result))


@verb(
    Decide,
    preparation=Preparation(inquire=_inquire_waiting, prepare=_prepare_waiting),
    admit=_ensure_decidable,
    can_wait=False,
    after_commit=_after_commit,
)
def decide_approval(rows: Transaction, effect: Decide, call: Call) -> Outcome[Decided]:
    """Record a verdict, and carry out what was approved."""
    approval = _ensure_decidable(rows, effect, call)
    approval = msgspec.structs.replace(
        approval,
        status=effect.verdict,
        decided_by=call.origin.actor,
        decided_at=call.now,
        reason=effect.reason,
    )
    # The decision stays on record; what the effect would have written does not.
    rows.put(msgspec.structs.replace(approval, effect=None))
    note = Note(
        effect="decide",
        scope=approval.scope,
        resource=approval.id,
        detail={"verdict": effect.verdict, "asked_by": approval.actor},
        decision=effect.verdict,
    )
    append(rows, (note,), Signature.of(effect, call))
    waiting = approval.effect
    if effect.verdict == "refused" or waiting is None:
        return Outcome(Decided(approval=approval))
    origin = Origin(approval.actor, approval.door, kind=approval.kind, trust=approval.trust)
    asked = msgspec.structs.replace(call, origin=origin, decision="approved")
    if not waiting.mutates:
        if call.seen is None:  # the caller was not allowed to decide when the read would have been done
            raise Stale("a read that was not done")
        signature = Signature.of(waiting, asked)
        append(rows, [without_erased(rows, note, signature) for note in call.seen.notes], signature)
        return Outcome(Decided(approval=approval, result=call.seen.value))
    # The same request may have been repeated meanwhile, by a caller who did not have to wait.
    result = earlier_result(rows, waiting)
    if result is None:
        result = carry_out(rows, waiting, asked)
    return Outcome(Decided(approval=approval, result=result))
