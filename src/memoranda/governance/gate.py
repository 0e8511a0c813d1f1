"""An effect in, its result out, if the caller may: the one way to the store.

Everything a write needs happens in one transaction: permission, quota, idempotency, the verb, and the ledger's
line about it. A revoked grant can therefore never race a write, and no state exists without its event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec

from memoranda.engine.blocks import recall_blocks_note
from memoranda.engine.call import Call, Outcome, Verb
from memoranda.engine.comparison import compare_from
from memoranda.engine.definitions import prepare_ahead
from memoranda.engine.deriving import Stale, Texts, derive, holds_text, texts_of, texts_to_remember
from memoranda.engine.embedders import EmbedderBook
from memoranda.engine.entries import ensure_storable
from memoranda.engine.erase import Receipt
from memoranda.engine.facts import get_fact_from
from memoranda.engine.indexes import IndexBook
from memoranda.engine.portions import content_bytes, is_over
from memoranda.engine.recall import recall_from, recall_note
from memoranda.engine.schemas import Checks, SchemaBook, Unchecked
from memoranda.engine.sessions import may_end
from memoranda.engine.transfer import Exported, ExportedPart, export_note, exported_parts
from memoranda.engine.verbs import VERBS
from memoranda.errors import ApprovalRequired, Busy, Conflict, Denied, QuotaExceeded, Refused, StorageError, Unavailable
from memoranda.governance.approvals import find_approval, hold, settle
from memoranda.governance.deferred import DeferredEvents, without_the_erased
from memoranda.governance.inspection import Finding, inspect_index, inspect_tenant
from memoranda.governance.ledger import Signature, append
from memoranda.governance.oversight import OVERSIGHT
from memoranda.governance.permissions import TOO_NARROW, Verdict, decide, granted_policy, readable
from memoranda.governance.quotas import charge, check_quotas
from memoranda.governance.replays import Repeatable, find_replay, keep_replay
from memoranda.governance.runs import RUNS, ensure_holdable, record_run
from memoranda.model.approval import Approval
from memoranda.model.clock import Clock
from memoranda.model.effect import (
    CompareEmbedders,
    CreateDefinition,
    Decide,
    DeleteFact,
    Effect,
    EffectBase,
    Export,
    FindFacts,
    GetFact,
    HoldStep,
    Import,
    Inspect,
    ListBlocks,
    ListFacts,
    ListTenants,
    ReadRecords,
    Recall,
    RecallBlocks,
    RecordRun,
    Remember,
    Scrub,
    SetFact,
    UpdateDefinition,
    WriteFacts,
)
from memoranda.model.entry import Entry
from memoranda.model.event import Decision, Note
from memoranda.model.fact import OWNER_ACTOR, Fact, Origin
from memoranda.model.ids import Ids
from memoranda.model.key import collection_key
from memoranda.model.limits import Limits
from memoranda.model.policy import OWNER, Policy
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Store, Transaction

T = TypeVar("T")

_VERBS: dict[type[EffectBase], Verb] = {**VERBS, **OVERSIGHT, **RUNS}
_ATTEMPTS = 5
_ROUNDS = 50
"""Transactions of one write: a batch that merges into one record again and again may need a check after each merge."""
_CHECKED = 100_000
"""Small checks of values by their definitions that a transaction may make: a few milliseconds."""
_CHECKED_AT_ONCE = 20_000
"""The same for callers who must not be held up: about a millisecond."""
_NONE_CHECKED = Checks()
_MOST_ACTORS = 4_096
"""Actors whose grants are kept in mind: a server meets any number of them."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, through which door, and under which policies.

    `granted` adds what the database itself grants the actor; every policy must agree to an effect. A caller with
    a `tenant` cannot reach into another, whatever its policies say; only the owner has none.
    """

    actor: str = OWNER_ACTOR
    door: str = "python"
    source: str | None = None
    policies: tuple[Policy, ...] = (OWNER,)
    granted: bool = False
    tenant: str | None = None
    at_once: bool = False
    """Whether a write that would have to wait is refused as `Busy`."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, and what the approved effect gave."""

    approval: Approval
    result: Any = None


class Gate:
    """The store and the rules around it."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        embedders: EmbedderBook,
        record_reads: bool = False,
        keep_text: bool = False,
    ) -> None:
        """Stand in front of a store."""
        self._store = store
        self.waits = store.waits
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.embedders = embedders
        self._record_reads = record_reads
        self._keep_text = keep_text
        self._schemas = SchemaBook()
        self._indexes = IndexBook(limits.index_bytes)
        self._granted: dict[tuple[str, str], tuple[int, Policy]] = {}
        self._deferred = DeferredEvents(store)

    def perform(self, effect: Effect, caller: Caller) -> Any:
        """Carry out an effect for a caller, or raise why not."""
        self._ensure_own_tenant(effect, caller)
        return self._write(effect, caller) if effect.mutates else self._read(effect, caller)

    def export(self, effect: Export, caller: Caller, take: Callable[[datetime, Iterator[ExportedPart]], T]) -> T:
        """Let `take` have what is exported, part by part, on one moment of the store; return what it gives.

        How much there is has been counted and recorded before, in moments of their own: what leaves the house is on
        record before it does.
        """
        self._ensure_own_tenant(effect, caller)
        may_read = readable(self._admitting(effect, caller))
        call = self._call(caller)

        def parts(rows: Reader) -> Iterator[ExportedPart]:
            for part in exported_parts(rows, effect, call):
                key = part.key if isinstance(part, Fact) else None
                if isinstance(part, Entry):
                    key = collection_key(part.collection)
                if key is None or may_read is None or may_read(key):
                    yield part

        counts = self._store.read(lambda rows: Counter(type(part) for part in parts(rows)))
        note = export_note(effect, counts[Fact], counts[Entry])
        self._store.transact(lambda rows: append(rows, (note,), self._signature(effect, call, "allow")))
        begun = False

        def take_once(rows: Reader) -> T:
            nonlocal begun
            if begun:  # a store reads again where its connection was lost, but some of it has left already
                raise Unavailable(
                    f"`{self._store.url}`: the connection was lost during the export",
                    hint="Export again",
                    url=self._store.url,
                )
            begun = True
            return take(call.now, parts(rows))

        return self._store.read(take_once)

    def _ensure_own_tenant(self, effect: Effect, caller: Caller) -> None:
        if caller.tenant is not None and effect.scope.tenant != caller.tenant:
            outside = _outside(effect, caller)
            # The refusal is written into the caller's own ledger: the other tenant's is none of its business.
            home = msgspec.structs.replace(effect, scope=Scope(caller.tenant))
            raise self._store.transact(lambda rows: self._refuse(rows, home, caller, outside))

    def _admitting(self, effect: Effect, caller: Caller) -> Sequence[Policy]:
        """Return the policies that let a read pass, or raise why they do not."""
        policies = self._policies_now(effect, caller)
        verdict = decide(policies, effect)
        if verdict.level != "allow":
            raise self._store.transact(lambda rows: self._refuse(rows, effect, caller, verdict))
        return policies

    def verdict(self, effect: Effect, caller: Caller) -> Verdict:
        """Return what the policies say to an effect now; nothing is done, and nothing recorded."""
        if caller.tenant not in (None, effect.scope.tenant):
            return _outside(effect, caller)
        return decide(self._policies_now(effect, caller), effect)

    def _policies_now(self, effect: Effect, caller: Caller) -> Sequence[Policy]:
        if not caller.granted:
            return caller.policies
        return self._store.read(lambda rows: self._policies(rows, effect.scope.tenant, caller))

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that is another one once anybody has written anything; it says nothing else."""
        return self._store.mark(tenant)

    def settle(self) -> None:
        """Return once every event that was put off is in the ledger."""
        self._deferred.flush()

    def close(self) -> None:
        """Write what was put off, and let go of the store and of what was opened to embed."""
        try:
            self._deferred.close()
        finally:
            self._store.close()
            self.embedders.close()

    def _read(self, effect: Effect, caller: Caller) -> Any:
        may_read = readable(self._admitting(effect, caller))
        call = self._call(caller)
        if type(effect) is Inspect:
            value: Any = self._inspect(caller, call)
        elif type(effect) is ListTenants:
            value = self._store.read(lambda rows: _tenants(rows, caller))
        else:
            value = self._look(effect, call) if may_read is None else self._look_past(effect, call, may_read)
        notes = _notes_of(effect, value)
        if type(effect) is Export:
            # What leaves the house is on record before it does.
            self._store.transact(lambda rows: append(rows, notes, self._signature(effect, call, "allow")))
            return value
        if self._record_reads and not notes:
            notes = (Note(effect=effect.name, scope=effect.scope.path, key=effect.place),)
        for note in notes:
            self._deferred.add(note, self._signature(effect, call, "allow"))
        return value

    def _inspect(self, caller: Caller, call: Call) -> list[Finding]:
        damage = self._store.check()
        file = Finding(what=f"storage {self._store.url}", ok=not damage, detail="; ".join(damage[:3]))
        if damage:
            return [file]  # rows of a damaged file may be anything, and what they say proves nothing

        findings = [file]
        findings += [Finding(what="rights in the database", ok=False, detail=line) for line in self._store.warnings()]
        for tenant in self._store.read(lambda rows: _tenants(rows, caller)):
            findings += self._store.read(lambda rows, tenant=tenant: inspect_tenant(rows, tenant, call.now))
            findings += inspect_index(self._store.read, tenant, self.embedders)
        return findings

    def _look_past(self, effect: Effect, call: Call, may_read: Callable[[str], bool]) -> Any:
        """Read for a caller to whom some keys are closed: they are left out before a limit counts."""
        if isinstance(effect, ListFacts) and effect.max_bytes is not None:
            return self._list_readable(effect, effect.max_bytes, call, may_read)
        if isinstance(effect, (FindFacts, ListFacts)):
            every = self._look(msgspec.structs.replace(effect, limit=None), call)
            return [fact for fact in every if may_read(fact.key)][: effect.limit]
        value = self._look(effect, call)
        if isinstance(effect, (ListBlocks, ReadRecords)):
            return [fact for fact in value if may_read(fact.key)]
        if isinstance(value, Exported):
            return msgspec.structs.replace(
                value,
                facts=[fact for fact in value.facts if may_read(fact.key)],
                entries=[entry for entry in value.entries if may_read(collection_key(entry.collection))],
            )
        return value

    def _list_readable(
        self, effect: ListFacts, max_bytes: int, call: Call, may_read: Callable[[str], bool]
    ) -> list[Fact]:
        """Return the facts that a caller may read, up to the bounds, without reading much more at once."""
        found: list[Fact] = []
        after, size = effect.after, 0
        while portion := self._look(msgspec.structs.replace(effect, after=after), call):
            for fact in portion:
                if may_read(fact.key):
                    found.append(fact)
                    size += content_bytes(fact.value)
                    if is_over(found, size, max_bytes) or len(found) == effect.limit:
                        return found
            after = portion[-1].key
        return found

    def _look(self, effect: Effect, call: Call) -> Any:
        if type(effect) is GetFact and effect.as_of is None:
            return get_fact_from(self._store, effect, call)
        if type(effect) is Scrub:
            return self._store.scrub()
        if type(effect) is Recall:
            # Not one read: the query is embedded in between.
            return recall_from(self._store.read, self._store.shelf_state, effect, call)
        if type(effect) is CompareEmbedders:
            return compare_from(self._store.read, effect, call)  # the same: a sample is embedded after it was read
        return self._store.read(lambda rows: _VERBS[type(effect)](rows, effect, call).value)

    def _write(self, effect: Effect, caller: Caller) -> Any:
        checks = Checks(_CHECKED_AT_ONCE if caller.at_once else _CHECKED)
        stale = 0
        for _ in range(_ROUNDS):
            call = self._call(caller, checks)
            try:
                if type(effect) in _DEFINING:
                    self._prepare(effect, caller, call)
                if type(effect) is Decide:
                    return self._write_decision(effect, caller, call)
                if holds_text(effect):
                    _ensure_may_wait(caller, "what is embedded takes its time")
                    call = self._with_derived(effect, effect, caller, call)
                return self._write_once(effect, caller, call)
            except Stale:
                # What was made does not fit any more: a collection moved to another embedder.
                stale += 1
                if stale == _ATTEMPTS:
                    break
            except Unchecked:
                _ensure_may_wait(caller, "checking the value by its definition takes its time")
                checks.settle()
        raise Conflict("what the write depends on changed again and again", hint="Try again in a moment")

    def _prepare(self, effect: Effect, caller: Caller, call: Call) -> None:
        """Compile the schemas of an effect while nothing is locked."""
        _ensure_may_wait(caller, "compiling a schema takes its time")
        if self._worth_doing(effect, effect, caller, call):
            prepare_ahead(effect, call)

    def _write_decision(self, effect: Decide, caller: Caller, call: Call) -> Any:
        """Decide what waits, with all that an embedder has to do for it done before, while nothing is locked."""
        approval = self._store.read(lambda rows: find_approval(rows, effect.scope.tenant, effect.approval))
        waiting: Effect | None = None
        if approval is not None and approval.actor != caller.actor and effect.verdict == "approved":
            waiting = approval.effect
        seen: Outcome[Any] | None = None
        if waiting is not None and holds_text(waiting):
            call = self._with_derived(effect, waiting, caller, call)
        if waiting is not None and type(waiting) in _DEFINING and self._worth_doing(effect, waiting, caller, call):
            prepare_ahead(waiting, call)
        elif waiting is not None and not waiting.mutates and self._worth_doing(effect, waiting, caller, call):
            value = self._look(waiting, call)
            seen = Outcome(value, _notes_of(waiting, value))
        return self._write_once(effect, caller, call, seen)

    def _with_derived(self, effect: Effect, waiting: Effect, caller: Caller, call: Call) -> Call:
        """Return the call with the words and vectors that its effect needs, made while nothing is locked."""
        if effect is waiting and type(effect) is Remember and _passes_unread(effect, caller, call):
            collection = self._store.collection(effect.scope.tenant, effect.collection)
            texts: Texts | None = texts_to_remember(effect, collection)
        else:
            texts = self._store.read(
                lambda rows: texts_of(rows, waiting) if self._passes(rows, effect, waiting, caller, call) else None
            )
        return call if texts is None else msgspec.structs.replace(call, derived=derive(texts, waiting, self.embedders))

    def _worth_doing(self, effect: Effect, waiting: Effect, caller: Caller, call: Call) -> bool:
        """Say whether to prepare an effect. Who may not carry it out makes nobody work: a transaction refuses."""
        return self._store.read(lambda rows: self._passes(rows, effect, waiting, caller, call))

    def _passes(self, rows: Reader, effect: Effect, waiting: Effect, caller: Caller, call: Call) -> bool:
        """Say whether an effect will not be refused; raise what is wrong with it whoever asks."""
        policies = self._policies(rows, effect.scope.tenant, caller)
        if decide(policies, effect).level != "allow":
            return False
        quotas = [policy.quota for policy in policies if policy.quota is not None]
        try:
            check_quotas(rows, effect.scope.tenant, caller.actor, quotas, effect, call.now)
        except QuotaExceeded:
            return False
        if isinstance(waiting, Remember):
            ensure_storable(rows, waiting, call.limits)
        return True

    def _write_once(self, effect: Effect, caller: Caller, call: Call, seen: Outcome[Any] | None = None) -> Any:
        def work(rows: Transaction) -> Any:
            policies = self._policies(rows, effect.scope.tenant, caller)
            verdict = decide(policies, effect)
            if verdict.level == "deny":
                return self._refuse(rows, effect, caller, verdict)
            earlier = _replayed(rows, effect)
            if earlier is not None:
                return earlier
            quotas = [policy.quota for policy in policies if policy.quota is not None]
            try:
                if quotas:
                    charge(rows, effect.scope.tenant, caller.actor, quotas, effect, call.now)
                if verdict.level == "approve":
                    return self._refuse(rows, effect, caller, verdict)
                if type(effect) is Decide:
                    return self._decide(rows, effect, call, seen)
                if type(effect) is HoldStep:
                    return self._hold_step(rows, effect, call)
            except Refused as refusal:  # raised before anything was written, so only the refusal is
                self._record_refusal(rows, effect, call, refusal.message)
                return refusal
            return self._carry_out(rows, effect, call, "allow")

        result = self._store.attempt(work) if caller.at_once else self._store.transact(work)
        if isinstance(result, Refused):
            raise result
        if type(result) is Decided:
            return msgspec.structs.replace(result, result=self._scrubbed(result.result))
        return self._scrubbed(result)

    def _scrubbed(self, result: Any) -> Any:
        """Return a receipt that says whether the bytes are gone too; anything else as it is."""
        if type(result) is not Receipt:
            return result
        try:
            return msgspec.structs.replace(result, scrubbed=self._store.scrub())
        except StorageError:
            return result  # the erasure is kept whatever happens to the rewriting; `scrubbed` says that it did not

    def _carry_out(self, rows: Transaction, effect: Effect, call: Call, decision: Decision) -> Any:
        if type(effect) is RecordRun:
            recorded = record_run(rows, effect, call, self._signature(effect, call, decision))
            call.checks.ensure_settled()
            return recorded
        outcome = _VERBS[type(effect)](rows, effect, call)
        call.checks.ensure_settled()
        repeatable = _repeatable(effect)
        if repeatable is not None and repeatable.idempotency_key is not None:
            keep_replay(rows, repeatable, repeatable.idempotency_key, outcome.value, call)
        if outcome.notes:
            position = append(rows, outcome.notes, self._signature(effect, call, decision))
            if type(outcome.value) is Receipt:
                return msgspec.structs.replace(outcome.value, position=position)
        return outcome.value

    def _decide(self, rows: Transaction, effect: Decide, call: Call, seen: Outcome[Any] | None) -> Decided:
        """Write a verdict down, and carry out what was approved; of a read, `seen` is what it gave."""
        approval, note = settle(rows, effect, call)
        append(rows, (note,), self._signature(effect, call, effect.verdict))
        waiting = approval.effect
        if effect.verdict == "refused" or waiting is None:
            return Decided(approval=approval)
        asked = msgspec.structs.replace(call, origin=Origin(approval.actor, approval.door))
        if not waiting.mutates:
            if seen is None:  # it was not worth doing: whoever decides was granted that a moment ago
                raise Stale("a read that was not done")
            signature = self._signature(waiting, asked, "approved")
            append(rows, [without_the_erased(rows, note, signature) for note in seen.notes], signature)
            return Decided(approval=approval, result=seen.value)
        # Somebody may have sent the same request again, without its having to wait.
        result = _replayed(rows, waiting)
        if result is None:
            result = self._carry_out(rows, waiting, asked, "approved")
        return Decided(approval=approval, result=result)

    def _hold_step(self, rows: Transaction, effect: HoldStep, call: Call) -> Approval:
        """Keep a step until somebody decides. That is what was asked for, so it is no refusal."""
        ensure_holdable(rows, effect)
        approval, note = hold(rows, effect, effect.needs, call)
        append(rows, (note,), self._signature(effect, call, "pending"))
        return approval

    def _refuse(self, rows: Transaction, effect: Effect, caller: Caller, verdict: Verdict) -> Refused:
        """Write the refusal down and return it: raising it here would undo what was just written."""
        call = self._call(caller)
        if verdict.level == "approve" and type(effect) in _VERBS:
            approval, note = hold(rows, effect, verdict.capability, call)
            append(rows, (note,), self._signature(effect, call, "pending"))
            return ApprovalRequired(
                f"{verdict.reason}; it waits as `{approval.id}`",
                hint="Somebody with approvals.decide may approve or refuse it: memoranda approvals approve …",
                approval=approval.id,
                capability=verdict.capability,
            )
        self._record_refusal(rows, effect, call, verdict.reason)
        return Denied(
            f"`{caller.actor}` may not do this: {verdict.reason}",
            hint=verdict.remedy or _grant_of(caller, verdict),
            capability=verdict.capability,
            actor=caller.actor,
        )

    def _record_refusal(self, rows: Transaction, effect: Effect, call: Call, reason: str) -> None:
        note = Note(effect=effect.name, scope=effect.scope.path, key=effect.place, detail={"reason": reason})
        append(rows, (note,), self._signature(effect, call, "deny"))

    def _policies(self, rows: Reader, tenant: str, caller: Caller) -> tuple[Policy, ...]:
        if not caller.granted:
            return caller.policies
        revision = rows.tenant_state(tenant).revision
        known = self._granted.get((tenant, caller.actor))
        if known is None or known[0] != revision:
            known = (revision, granted_policy(rows.grants(tenant), caller.actor))
            if len(self._granted) >= _MOST_ACTORS:
                self._granted.clear()
            self._granted[tenant, caller.actor] = known
        return (known[1], *caller.policies)

    def _call(self, caller: Caller, checks: Checks = _NONE_CHECKED) -> Call:
        now = self.clock.now()
        if now.tzinfo is not UTC:
            now = now.astimezone(UTC)
        origin = Origin(caller.actor, caller.door, caller.source)
        return Call(now, origin, self.ids, self.limits, self._schemas, self.embedders, self._indexes, checks)

    def _signature(self, effect: EffectBase, call: Call, decision: Decision) -> Signature:
        return Signature(
            tenant=effect.scope.tenant,
            at=call.now,
            actor=call.origin.actor,
            door=call.origin.door,
            decision=decision,
            keep_text=self._keep_text,
        )


_DEFINING = frozenset({CreateDefinition, UpdateDefinition, Import})


def _ensure_may_wait(caller: Caller, why: str) -> None:
    if caller.at_once:
        raise Busy(why, hint="Wait for it, in a thread")


def _passes_unread(effect: Remember, caller: Caller, call: Call) -> bool:
    """Say whether it is plain without a look at any row what `Gate._passes` would say: that it will not be refused."""
    return (
        not caller.granted
        and decide(caller.policies, effect).level == "allow"
        and all(policy.quota is None for policy in caller.policies)
        and not may_end(effect.scope)
        and len(effect.items) <= call.limits.batch
    )


def _outside(effect: Effect, caller: Caller) -> Verdict:
    """Return the denial of an effect in another tenant than the caller's."""
    reason = f"it stands in the tenant `{caller.tenant}`, not in `{effect.scope.tenant}`"
    return Verdict("deny", effect.capability, reason, "Ask the program that opened the memory")


def _grant_of(caller: Caller, verdict: Verdict) -> str:
    """Return how to let a caller do what nothing lets them do, there and nowhere else."""
    if any(verdict.silent is own for own in caller.policies):
        return TOO_NARROW
    place = verdict.scope.path if verdict.scope else ""
    where = f", scope=memory.at({place!r}).scope" if place else ""
    return f"Grant it with memory.permissions.grant({caller.actor!r}, {verdict.capability!r}{where})"


def _tenants(rows: Reader, caller: Caller) -> list[str]:
    return rows.tenants() if caller.tenant is None else [caller.tenant]


def _notes_of(effect: Effect, value: Any) -> tuple[Note, ...]:
    """Return what the ledger says of every read of this kind: of most it says nothing."""
    if type(effect) is Recall:
        return (recall_note(effect, value),)
    if type(effect) is RecallBlocks:
        return (recall_blocks_note(effect, value),)
    if type(effect) is Export:
        return (export_note(effect, len(value.facts), len(value.entries)),)
    return ()


def _repeatable(effect: Effect) -> Repeatable | None:
    """Return an effect that may have an idempotency key; every write asks, so by its type and not by its classes."""
    return cast("Repeatable", effect) if type(effect) in _REPEATABLE else None


_REPEATABLE = frozenset({SetFact, DeleteFact, WriteFacts})


def _replayed(rows: Transaction, effect: Effect) -> Any:
    """Return what the first request under this idempotency key gave; None without a key, and for the first."""
    repeatable = _repeatable(effect)
    if repeatable is None or repeatable.idempotency_key is None:
        return None
    earlier = find_replay(rows, repeatable, repeatable.idempotency_key)
    if earlier is None:
        return None
    return earlier if isinstance(effect, WriteFacts) else earlier[0]
