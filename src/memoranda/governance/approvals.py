"""Effects that wait for a person: one in, a pending record out; a verdict in, the effect done or dropped."""

from __future__ import annotations

import msgspec

from memoranda.engine.call import Call
from memoranda.errors import Conflict, Denied, NotFound, UsageError
from memoranda.model.approval import Approval
from memoranda.model.effect import Decide, DeleteFact, Effect, HoldStep, Remember, SetFact, WriteFacts
from memoranda.model.event import Note
from memoranda.model.text import LONGEST_LABEL, quote, why_not_a_name
from memoranda.model.value import encode
from memoranda.store.base import Reader, Transaction


def hold(rows: Transaction, effect: Effect, capability: str, call: Call) -> tuple[Approval, Note]:
    """Keep an effect until somebody decides; it survives restarts, and goes when its subject is erased."""
    effect = _from_source(effect, call.origin.source)
    _ensure_keepable(effect)
    approval = Approval(
        id=call.ids.new("approval"),
        tenant=effect.scope.tenant,
        scope=effect.scope.path,
        actor=call.origin.actor,
        door=call.origin.door,
        capability=capability,
        effect=effect,
        requested_at=call.now,
    )
    rows.put_approval(approval)
    asked = {"run": effect.run, "step": effect.step} if isinstance(effect, HoldStep) else {}
    note = Note(
        effect=effect.name,
        scope=effect.scope.path,
        key=effect.place,
        resource=approval.id,
        detail={"capability": capability, **asked},
    )
    return approval, note


def _ensure_keepable(effect: Effect) -> None:
    """Refuse what no store could keep: it is wrong whatever would be decided, and is looked at only then otherwise."""
    try:
        encode(effect)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"`{effect.name}` cannot wait for approval: {error}", hint="Pass JSON values and text that can be encoded"
        ) from error


def _from_source(effect: Effect, source: str | None) -> Effect:
    """Return the effect with the source its caller stands for: the decision will come from somebody else's."""
    if source is None:
        return effect
    if isinstance(effect, WriteFacts):
        return msgspec.structs.replace(effect, writes=tuple(_from_source(write, source) for write in effect.writes))
    if isinstance(effect, SetFact | DeleteFact | Remember) and effect.source is None:
        return msgspec.structs.replace(effect, source=source)
    return effect


def find_approval(rows: Reader, tenant: str, id: str) -> Approval | None:
    """Return an approval by its id, which may be anything a caller has given."""
    return rows.approval(tenant, id) if why_not_a_name(id, longest=LONGEST_LABEL) is None else None


def settle(rows: Transaction, effect: Decide, call: Call) -> tuple[Approval, Note]:
    """Write a verdict down. Who asked cannot decide, and a decision is made once."""
    approval = find_approval(rows, effect.scope.tenant, effect.approval)
    if approval is None:
        raise NotFound(
            f"there is no approval {quote(effect.approval)}",
            hint="It may have been erased with its subject; list what waits with memory.approvals.list()",
        )
    if approval.status != "pending":
        raise Conflict(
            f"approval `{approval.id}` was {approval.status} by `{approval.decided_by}` already",
            hint="A decision is made once; ask again for another effect",
            expected="pending",
            actual=approval.status,
        )
    if approval.actor == call.origin.actor:
        raise Denied(
            f"`{approval.actor}` asked for this and cannot decide it",
            hint="Somebody else with approvals.decide must",
            capability=effect.capability,
        )
    decided = msgspec.structs.replace(
        approval,
        status=effect.verdict,
        decided_by=call.origin.actor,
        decided_at=call.now,
        reason=effect.reason,
    )
    # What was decided stays on record; what it would have written does not.
    rows.put_approval(msgspec.structs.replace(decided, effect=None))
    note = Note(
        effect="decide",
        scope=approval.scope,
        resource=approval.id,
        detail={"verdict": effect.verdict, "asked_by": approval.actor},
    )
    return decided, note
