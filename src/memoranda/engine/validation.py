"""Validation: another principal vouches for an entry or a fact, which is then trusted as far as that principal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from memoranda.engine.derivation import Source, link
from memoranda.engine.entries import attribute, end_entry
from memoranda.engine.facts import write_fact
from memoranda.engine.refs import Lines, demand_of, find_target, unknown
from memoranda.engine.sessions import ensure_open
from memoranda.engine.undo import store_again
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import Conflict, Denied, UsageError
from memoranda.model.clock import moment_after
from memoranda.model.effect import Demand, WriteEffect
from memoranda.model.entry import Entry
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.lineage import Validated
from memoranda.model.names import collection_key
from memoranda.model.ref import as_ref
from memoranda.model.text import quote
from memoranda.model.trust import is_at_least
from memoranda.model.value import encode
from memoranda.store.base import Reader, Transaction


class Validate(WriteEffect, frozen=True, kw_only=True, tag="validate"):
    """Trust an entry or a fact as far as the principal who has checked it; who wrote it cannot."""

    capability: ClassVar[str] = "memory.validate"
    in_one_scope: ClassVar[bool] = True
    ref: str
    expect: int | None = None
    """The version of the fact that was checked."""
    reason: str = ""


def _demands_of_validation(rows: Reader, effect: Validate, call: Call) -> Iterator[Demand]:
    target = find_target(rows, effect.scope, effect.ref, call.now)
    yield demand_of(target, effect.capability) if target else (effect.capability, effect.scope, None)


def _ensure_may_validate(rows: Reader, effect: Validate, call: Call) -> None:
    """Raise Denied for a model, a tool, and the writer itself."""
    target = find_target(rows, effect.scope, effect.ref, call.now)
    if target is None:
        raise unknown(effect.ref, effect.scope)
    if isinstance(target, Lines):
        raise UsageError(f"{quote(effect.ref)} is a line of a block", hint="Validate the statement that it says")
    if effect.expect is not None and isinstance(target, Entry):
        raise UsageError(
            f"{quote(effect.ref)} is an entry, which never changes", hint="Leave `expect` out", path="expect"
        )
    if isinstance(target, Fact) and effect.expect not in (None, target.version):
        raise Conflict(
            f"`{target.key}` is at version {target.version}, expected {effect.expect}",
            hint="Check the value that is there now",
            expected=effect.expect,
            actual=target.version,
        )
    why = ""
    if call.origin.kind != "user":
        why = f"`{call.origin.actor}` writes as `{call.origin.kind}`, which validates nothing"
    elif call.origin.actor == target.origin.actor:
        why = f"`{call.origin.actor}` wrote this itself"
    if why:
        raise Denied(why, hint="Another user has to", capability=effect.capability, actor=call.origin.actor)


@verb(Validate, touches=_demands_of_validation, admit=_ensure_may_validate)
def validate(rows: Transaction, effect: Validate, call: Call) -> Outcome[Validated]:
    """Raise the trust of an entry or a fact to that of its validator; it keeps its author."""
    ensure_open(rows, effect.scope)
    _ensure_may_validate(rows, effect, call)
    target = find_target(rows, effect.scope, effect.ref, call.now)
    assert isinstance(target, Entry | Fact)
    before, trust = target.origin.trust, call.origin.trust
    ref = str(as_ref(effect.ref, tenant=effect.scope.tenant))
    if is_at_least(before, trust):
        return Outcome(Validated(ref=ref, trust=before, before=before))
    origin = msgspec.structs.replace(target.origin, trust=trust)
    if isinstance(target, Entry):
        ended = end_entry(rows, target, call.now, replaced=True)
        again = msgspec.structs.replace(target, origin=origin, ended_at=max(call.now, target.created_at))
        notes = [ended, store_again(rows, again, call)]
        version = notes[-1].version
        key: str | None = collection_key(target.collection)
    else:
        at = moment_after(target.updated_at, call.now)
        version, key = target.version + 1, target.key
        fact = msgspec.structs.replace(target, version=version, updated_at=at, origin=origin)
        link(rows, fact.scope, ref, version, [Source(ref, target.version, before)])
        notes = [attribute(write_fact(rows, fact, encode(target.value)), origin)]
    done = Note(
        effect=effect.name,
        scope=target.scope.path,
        key=key,
        resource=target.id,
        version=version,
        payload=encode(effect.reason) if effect.reason else None,
        detail={"trust": trust, "before": before},
    )
    return Outcome(Validated(ref=ref, trust=trust, before=before), (*notes, done))
