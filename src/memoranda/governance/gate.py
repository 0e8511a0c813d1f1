"""The gate: the one way to the store.

Everything a write needs happens in one transaction: permission, quota, idempotency, the verb, and the ledger's event
about it. A revoked grant can therefore never race a write, and no state exists without its event. The gate knows no
particular effect: what differs between them is in the hooks of their verbs.

Of several policies and rules, deny beats approve, approve beats allow, and what no rule mentions is denied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from memoranda.engine import (
    batch,
    blocks,
    collections,
    containment,
    copies,
    definitions,
    entries,
    erasure,
    facts,
    forget,
    learning,
    lineage,
    omissions,
    probes,
    recall,
    rejections,
    scopes,
    sessions,
    supersede,
    transfer,
    undo,
    validation,
)
from memoranda.engine.embedding import EmbedderBook, Stale
from memoranda.engine.indexes import IndexBook
from memoranda.engine.rejection_book import RejectionBook
from memoranda.engine.reviews import hold
from memoranda.engine.schemas import Checks, SchemaBook, Unchecked
from memoranda.engine.verbs import VERBS, Call, Outcome, Preparation, Verb
from memoranda.errors import (
    Advice,
    ApprovalRequired,
    Busy,
    Conflict,
    Denied,
    Held,
    Hint,
    QuotaExceeded,
    Refused,
    Rejected,
    Unavailable,
)
from memoranda.governance import approvals, guard, ledger, maintenance, permissions, runs
from memoranda.governance.guard import Examined, ensure_open, examine, warn
from memoranda.governance.ledger import DeferredEvents, Signature, append, carry_out, earlier_result
from memoranda.governance.permissions import (
    OTHER_KEY,
    Membership,
    charge,
    check_quotas,
    needs_grants,
    place_of,
    policies_of_role,
    policy_of_grants,
    restricted_actors,
    why_not_granted,
    why_stale,
)
from memoranda.model.clock import Clock, Ids
from memoranda.model.effect import Approval, Demand, Effect
from memoranda.model.event import Note
from memoranda.model.guard import GuardBook, GuardRule
from memoranda.model.limits import Limits
from memoranda.model.names import lies_under
from memoranda.model.policy import OWNER, Access, Grant, Level, Policy
from memoranda.model.scope import SHARED, Scope
from memoranda.model.trust import OWNER_ACTOR, Origin, OriginKind, Trust
from memoranda.store.base import Reader, ReplicaStore, Store, Transaction

if TYPE_CHECKING:
    from memoranda.engine.portions import PortionBook
    from memoranda.engine.segments import SegmentFolder

T = TypeVar("T")

SUBJECTS = (
    facts,
    sessions,
    blocks,
    entries,
    forget,
    supersede,
    omissions,
    undo,
    rejections,
    lineage,
    copies,
    validation,
    containment,
    batch,
    recall,
    learning,
    probes,
    collections,
    scopes,
    definitions,
    erasure,
    transfer,
    ledger,
    permissions,
    guard,
    approvals,
    runs,
    maintenance,
)
"""The modules of all effects: importing one registers its effects with their verbs. A new subject is a line here."""

_ATTEMPTS = 5
_ROUNDS = 50
"""Transactions of one write: a batch that merges into one record again and again may need a check after each merge."""
_CHECKED = 100_000
"""Small checks of values by their definitions that a transaction may make: a few milliseconds."""
_CHECKED_AT_ONCE = 20_000
"""The same for callers who must not wait: about a millisecond."""
_NONE_CHECKED = Checks()
_MOST_ACTORS = 4_096
"""Actors whose grants are cached: a server meets any number of them."""


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What the policies say about an effect, and about which capability.

    `silent` is the policy that has no rule for `scope`, if that is the reason.
    """

    level: Level
    capability: str
    reason: str = ""
    remedy: Advice = ""
    scope: Scope | None = None
    key: str | None = None
    silent: Policy | None = None


def decide(policies: Sequence[Policy], effect: Effect, touched: Sequence[Demand] = ()) -> Verdict:
    """Return the strictest verdict of all policies on all places the effect touches, by itself or in the rows."""
    if len(policies) == 1:
        policy = policies[0]
        # Most effects need one capability in one scope, and most handles have it there, whatever the key.
        if policy is OWNER or (
            not touched
            and type(effect).demands is Effect.demands
            and policy.plainly_allows(effect.capability, effect.reach)
        ):
            return Verdict("allow", effect.capability)
    strictest: Verdict | None = None
    for policy in policies:
        for capability, scope, key in touched or effect.demands():
            verdict = _decide_one(policy, capability, scope, key)
            if verdict.level == "deny":
                return verdict
            if strictest is None or (verdict.level == "approve" and strictest.level == "allow"):
                strictest = verdict
    return strictest or Verdict("deny", effect.capability, "no policy speaks for this actor")


def readable(policies: Sequence[Policy]) -> Callable[[str], bool] | None:
    """Return a test for the keys that every policy lets be read; None when none of them closes any."""
    if len(policies) == 1 and not policies[0].access:
        return None
    narrowing = [policy for policy in policies if policy.access]
    if not narrowing:
        return None
    return lambda key: all(_access_of(policy, key) in ("read", "readwrite") for policy in narrowing)


def _decide_one(policy: Policy, capability: str, scope: Scope | None, key: str | None) -> Verdict:
    if policy.plainly_allows(capability, scope):
        return Verdict("allow", capability)
    levels = policy.levels(capability, scope, key)
    if "deny" in levels:
        denied = f"{capability} is denied for {place_of(scope, key)}"
        return Verdict("deny", capability, denied, "A denial beats every grant: take it back first")
    if not levels:
        reason = f"nothing grants {capability} for {place_of(scope, key)}"
        return Verdict("deny", capability, reason, scope=scope, key=key, silent=policy)
    needed = _NEEDED.get(capability)
    if needed and key is not None and policy.access:
        access = _access_of(policy, key)
        if access not in (needed, "readwrite"):
            closed = f"`{key}` has access {access}, so it cannot be {_PAST[needed]}"
            return Verdict("deny", capability, closed, "Give the key another access in the policy")
    if "approve" in levels:
        return Verdict("approve", capability, f"{capability} for {place_of(scope, key)} needs approval")
    return Verdict("allow", capability)


_NEEDED: dict[str, Access] = {"memory.read": "read", "memory.write": "write"}
"""The access that a key must have for a capability to reach it."""
_PAST = {"read": "read", "write": "written"}


def _access_of(policy: Policy, key: str) -> Access:
    matching = [path for path in policy.access if path != "*" and lies_under(key, path)]
    if matching:
        return policy.access[max(matching, key=len)]
    return policy.access.get("*", "readwrite")


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, through which door, and under which policies.

    `granted` adds what the database itself grants the actor, and `membership` what its role allows; every policy must
    agree to an effect. A caller with a `tenant` cannot reach into another, whatever its policies say; only the owner
    has none.
    """

    actor: str = OWNER_ACTOR
    door: str = "python"
    source: str | None = None
    policies: tuple[Policy, ...] = (OWNER,)
    granted: bool = False
    membership: Membership | None = None
    base: Policy | None = None
    """What a built-in role allows without any grant: most calls need no more, and no row to decide."""
    tenant: str | None = None
    at_once: bool = False
    """Whether a write that would have to wait is refused as `Busy`."""
    kind: OriginKind = "user"
    """What kind of origin its writes have."""
    trust: Trust = "high"
    """How far its writes are trusted."""
    authority: Trust = "high"
    """What it may replace: memory of at most this trust."""
    epoch: int | None = None
    """The permission epoch under which its writes were decided upon: under a later one they are refused."""
    observe: Callable[[Effect, Any], None] | None = None
    """Told of every effect that was carried out, and what it returned."""


class Gate:
    """A store, and the rules about who may do what with it."""

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
        reading: ReplicaStore | None = None,
        segments: SegmentFolder | None = None,
    ) -> None:
        """Wrap a store.

        `reading` is what answers reads that no write depends on, if it is not the store itself. Indexes of large
        shelves are kept in a folder of the host, if there is one.
        """
        self._store = store
        self._reading: Store = store if reading is None else reading
        self._replica = reading
        self.waits = store.waits
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.embedders = embedders
        self._record_reads = record_reads
        self._keep_text = keep_text
        self._schemas = SchemaBook()
        book = None if segments is None else segments.book_of(store)
        self._indexes = IndexBook(limits.index_bytes, book, _portions_in(store, limits))
        self._rejections = RejectionBook()
        self._granted: dict[tuple[str, str, Membership | None], tuple[int, tuple[Policy, ...]]] = {}
        self._restricted: dict[str, tuple[Hashable, int, frozenset[str]]] = {}
        self._guards: dict[str, tuple[int, GuardBook]] = {}
        self._deferred = DeferredEvents(store)

    def perform(self, effect: Effect, caller: Caller) -> Any:
        """Carry out an effect for a caller, or raise why not."""
        if caller.tenant is not None and effect.scope.tenant != caller.tenant:
            raise self._refuse_outside(effect, caller)
        verb = VERBS[type(effect)]
        result = self._write(effect, verb, caller) if effect.mutates else self._read(effect, verb, caller)
        if caller.observe is not None:
            caller.observe(effect, result)
        return result

    def stream(self, effect: Effect, caller: Caller, take: Callable[[datetime, Iterator[Any]], T]) -> T:
        """Pass the parts of a large result to `take` one by one, at one moment of the store; return what it returns.

        The event about it, which counts the parts, is committed before the first one is handed out.
        """
        if caller.tenant is not None and effect.scope.tenant != caller.tenant:
            raise self._refuse_outside(effect, caller)
        may_read = readable(self._policies_for_read(effect, caller))
        call = self._call(caller, effect.scope.tenant)
        stream = VERBS[type(effect)].stream
        if stream is None:
            raise TypeError(f"the result of `{effect.name}` has no parts")
        note = self._reading.read(lambda rows: stream.note(effect, stream.parts(rows, effect, call, may_read)))
        self._store.transact(lambda rows: append(rows, (note,), Signature.of(effect, call)), within=())
        has_begun = False

        def take_once(rows: Reader) -> T:
            nonlocal has_begun
            if has_begun:  # a store reads again if its connection was lost, but some parts are already handed out
                raise Unavailable(
                    f"`{self._store.url}`: the connection was lost during `{effect.name}`",
                    hint="Try again",
                    url=self._store.url,
                )
            has_begun = True
            return take(call.now, stream.parts(rows, effect, call, may_read))

        return self._reading.read(take_once)

    def verdict(self, effect: Effect, caller: Caller) -> Verdict:
        """Return what the policies say about an effect now; nothing is done, and nothing recorded."""
        if caller.tenant not in (None, effect.scope.tenant):
            return _outside(effect, caller)
        return decide(self._current_policies(effect, caller), effect)

    def reason(self, effect: Effect, caller: Caller) -> str:
        """Return why the policies refuse an effect now; empty if they do not."""
        verdict = self.verdict(effect, caller)
        if verdict.level == "allow":
            return ""
        return self._reading.read(lambda rows: _explain(rows, effect, caller, verdict)[0])

    def mark(self, tenant: str | None = None) -> Hashable:
        """Return a mark that changes with every write, and means nothing else."""
        return self._reading.mark(tenant)

    def staleness(self) -> float:
        """Return how many seconds reads are behind writes, at most."""
        return 0.0 if self._replica is None else self._replica.staleness()

    def record_prompt(self, scope: Scope, refs: Mapping[str, int], to: str, caller: Caller) -> None:
        """Note in the ledger, within 50 ms, what a prompt showed of memory; see `Memory.record_prompt`."""
        detail: dict[str, Any] = {"results": list(refs)}
        versions = {ref: version for ref, version in refs.items() if version}
        if versions:
            detail["versions"] = versions
        if to:
            detail["to"] = to
        call = self._call(caller, scope.tenant)
        signature = Signature(
            tenant=scope.tenant, at=call.now, actor=caller.actor, door=caller.door, decision=call.decision
        )
        self._deferred.add(Note(effect="context", scope=scope.path, detail=detail), signature)

    def settle(self, tenant: str | None = None) -> None:
        """Write every deferred event to the ledger; with a tenant, wait until its events are chained."""
        self._deferred.flush()
        if tenant is not None:
            self._store.settle(tenant)

    def close(self) -> None:
        """Write deferred events, and close the store and the embedders that were opened here."""
        try:
            self._deferred.close()
            self._indexes.close()
        finally:
            self._store.close()
            self.embedders.close()

    # reads

    def _read(self, effect: Effect, verb: Verb, caller: Caller) -> Any:
        may_read = readable(self._policies_for_read(effect, caller))
        call = self._call(caller, effect.scope.tenant)

        def look(effect: Any) -> Outcome[Any]:
            if verb.reads_often:
                return verb.perform(self._reading, effect, call)
            return self._reading.read(
                lambda rows: verb.perform(rows, effect, call), snapshot=verb.needs_snapshot(effect)
            )

        if verb.needs_chain:
            self._store.settle(effect.scope.tenant)
        outcome = look(effect) if may_read is None else verb.read_filtered(look, effect, may_read)
        notes = outcome.notes
        if verb.is_recorded_first:
            self._store.transact(lambda rows: append(rows, notes, Signature.of(effect, call)), within=())
            return outcome.value
        if self._record_reads and not notes:
            notes = (Note(effect=effect.name, scope=effect.scope.path, key=effect.place),)
        for note in notes:
            self._deferred.add(note, Signature.of(effect, call))
        return outcome.value

    def _policies_for_read(self, effect: Effect, caller: Caller) -> Sequence[Policy]:
        """Return the policies that allow a read, or raise why they do not."""
        policies = self._current_policies(effect, caller)
        verdict = decide(policies, effect)
        if verdict.level != "allow":
            raise self._store.transact(lambda rows: self._refuse(rows, effect, caller, verdict), within=())
        return policies

    def _current_policies(self, effect: Effect, caller: Caller) -> Sequence[Policy]:
        if _needs_grants(effect, caller) or self._is_restricted(effect.scope.tenant, caller, self._reading):
            return self._reading.read(lambda rows: self._policies(rows, effect, caller))
        return _own_policies(caller)

    def _is_restricted(self, tenant: str, caller: Caller, store: Store) -> bool:
        """Return whether a denial or an approval may reach a caller, who could otherwise do what its role allows."""
        if caller.membership is None:
            return False
        mark = store.mark(tenant)
        known = self._restricted.get(tenant)
        if known is None or known[0] != mark:
            known = self._restricted[tenant] = (mark, *store.read(lambda rows: self._limits(rows, tenant)))
        return caller.actor in known[2] or "*" in known[2]

    def _limits(self, rows: Reader, tenant: str) -> tuple[int, frozenset[str]]:
        """Return the revision of a tenant, and whom its denials and approvals reach; grants are read if it is new."""
        revision = rows.tenant_state(tenant).revision
        known = self._restricted.get(tenant)
        if known is not None and known[1] == revision:
            return revision, known[2]
        return revision, restricted_actors(rows.scan(Grant, tenant))

    # writes

    def _write(self, effect: Effect, verb: Verb, caller: Caller) -> Any:
        checks = Checks(_CHECKED_AT_ONCE if caller.at_once else _CHECKED)
        stale = 0
        examined: Examined | None = None
        if caller.trust != "high" or effect.passes_on(is_owner=caller.tenant is None):
            examined = self._examine(effect, caller)
        for _ in range(_ROUNDS):
            call = self._call(caller, effect.scope.tenant, checks)
            rest = effect if examined is None else examined.rest
            try:
                if verb.preparation is not None and rest is not None:
                    call = self._prepare(rest, verb.preparation, caller, call)
                return self._write_once(effect, verb, caller, call, examined)
            except _Unexamined:
                examined = self._examine(effect, caller)
            except Stale:
                # What was prepared no longer fits: a collection moved to another embedder.
                stale += 1
                if stale == _ATTEMPTS:
                    break
            except Unchecked:
                _ensure_may_wait(caller, "checking the value by its definition takes its time")
                checks.settle()
        raise Conflict("what the write depends on changed again and again", hint="Try again in a moment")

    def _examine(self, effect: Effect, caller: Caller) -> Examined:
        """Return what the guard makes of an effect; raise why it is refused, which is recorded.

        It goes by the rules that are known here: the transaction compares them with those of the tenant.
        """
        tenant, call = effect.scope.tenant, self._call(caller, effect.scope.tenant)
        known = self._guards.get(tenant)
        book = known[1] if known is not None else self._store.read(lambda rows: self._guard_book(rows, tenant))
        try:
            examined = examine(effect, call.origin, caller.authority, book, is_owner=caller.tenant is None)
        except Refused as refusal:
            reason = refusal.message

            def refuse(rows: Transaction) -> tuple[bool, Refused | None]:
                verdict = _decide_in(rows, self._policies(rows, effect, caller), effect, call)
                if verdict.level == "deny":
                    return True, self._refuse(rows, effect, caller, verdict)
                is_current = self._guard_book(rows, tenant) is book
                if is_current:
                    self._record_refusal(rows, effect, call, reason)
                return is_current, None

            is_current, denied = self._store.transact(refuse, within=VERBS[type(effect)].within(effect))
            if denied is not None:
                raise denied from None
            if is_current:
                raise
        else:
            return examined
        return self._examine(effect, caller)

    def _guard_book(self, rows: Reader, tenant: str) -> GuardBook:
        """Return the rules of the guard, which are read again when the rules of the tenant changed."""
        revision = rows.tenant_state(tenant).revision
        known = self._guards.get(tenant)
        if known is None or known[0] != revision:
            known = self._guards[tenant] = (revision, GuardBook(rows.scan(GuardRule, tenant)))
        return known[1]

    def _hold(self, rows: Transaction, examined: Examined, call: Call) -> tuple[str, ...]:
        """Hold the parts of an effect that have to be reviewed; return the ids of what waits."""
        ids: list[str] = []
        for part in examined.held:
            asked = msgspec.structs.replace(call, origin=part.origin)
            waiting = (one for one in rows.scan(Approval, part.effect.scope.tenant) if one.status == "pending")
            same = next((one for one in waiting if one.cause == "quarantine" and one.effect == part.effect), None)
            if same is not None:  # a conversation that grows is learned again and again
                ids.append(same.id)
                continue
            approval, note = hold(rows, part.effect, part.effect.capability, asked, "quarantine", part.findings)
            append(rows, (note,), Signature.of(part.effect, asked))
            ids.append(approval.id)
        return tuple(ids)

    def _prepare(self, effect: Effect, preparation: Preparation, caller: Caller, call: Call) -> Call:
        """Return the call with its long work done, unless the effect will be refused: the transaction says why."""
        if preparation.busy:
            _ensure_may_wait(caller, preparation.busy)
        restricted = self._is_restricted(effect.scope.tenant, caller, self._store)
        if not restricted and preparation.needs_one_row(effect, call) and _surely_passes(effect, caller):
            found = self._store.read(lambda rows: preparation.inquire(rows, effect, call), snapshot=False)
        else:
            found = self._store.read(
                lambda rows: (
                    preparation.inquire(rows, effect, call) if self._passes(rows, effect, caller, call) else None
                )
            )
        return call if found is None else preparation.prepare(self._store, effect, found, call)

    def _passes(self, rows: Reader, effect: Effect, caller: Caller, call: Call) -> bool:
        policies = self._policies(rows, effect, caller)
        if _decide_in(rows, policies, effect, call).level != "allow":
            return False
        quotas = [policy.quota for policy in policies if policy.quota is not None]
        try:
            check_quotas(rows, effect.scope.tenant, caller.actor, quotas, effect, call.now)
        except QuotaExceeded:
            return False
        return True

    def _write_once(
        self, effect: Effect, verb: Verb, caller: Caller, call: Call, examined: Examined | None = None
    ) -> Any:
        if examined is not None:
            call = msgspec.structs.replace(call, findings=examined.findings)

        def work(rows: Transaction) -> Any:
            policies = self._policies(rows, effect, caller)
            verdict = _decide_in(rows, policies, effect, call)
            if verdict.level == "deny":
                return self._refuse(rows, effect, caller, verdict)
            closed = self._refusal_by_guard(rows, effect, verb, call, examined)
            if closed is not None:
                return closed
            earlier = earlier_result(rows, effect)
            if earlier is not None:
                return earlier
            stale = None if caller.epoch is None else why_stale(rows, effect, caller.epoch, call)
            if stale is not None:
                self._record_refusal(rows, effect, call, stale.message)
                return stale
            quotas = [policy.quota for policy in policies if policy.quota is not None]
            try:
                if quotas:
                    charge(rows, effect.scope.tenant, caller.actor, quotas, effect, call.now)
                if verdict.level == "approve":
                    waiting = effect if examined is None else examined.effect
                    return self._refuse(rows, waiting, caller, verdict, () if examined is None else examined.suspicions)
                if verb.admit is not None:
                    verb.admit(rows, effect, call)
            except Refused as refusal:  # raised before anything was written, so only the refusal is
                self._record_refusal(rows, effect, call, refusal.message)
                return refusal
            return carry_out(rows, effect, call) if examined is None else self._carry_out(rows, examined, verb, call)

        result = self._transact(work, effect, caller, call)
        if examined is not None:
            warn(effect, call.origin, examined)
        return result if verb.after_commit is None else verb.after_commit(self._store, effect, result)

    def _transact(self, work: Callable[[Transaction], Any], effect: Effect, caller: Caller, call: Call) -> Any:
        """Return the result of some work in a transaction, or raise the refusal that it returned or ran into."""
        wait = not caller.at_once
        try:
            result = self._store.transact(work, wait=wait, within=VERBS[type(effect)].within(effect))
        except Rejected as refusal:  # found while it was carried out: what was written until then is undone
            reason = refusal.message
            self._store.transact(lambda rows: self._record_refusal(rows, effect, call, reason), wait=wait, within=())
            raise
        if isinstance(result, Refused):
            raise result
        for path in set(call.emptied) if call.emptied else ():
            self._indexes.remove_segments(effect.scope.tenant, path)
        return result

    def _refusal_by_guard(
        self, rows: Transaction, effect: Effect, verb: Verb, call: Call, examined: Examined | None
    ) -> Refused | None:
        """Return why the guard refuses what an effect names in the rows, which is recorded; None if it does not."""
        book = self._guard_book(rows, effect.scope.tenant)  # the ledger reads the same row for its epoch
        if examined is None:
            if book.has("user"):
                raise _Unexamined
            return None
        if examined.book is not book:
            raise _Unexamined
        if verb.touches is None:
            return None
        try:
            ensure_open(_places(effect, verb.touches(rows, effect, call)), call.origin, book, effect.capability)
        except Refused as refusal:
            self._record_refusal(rows, effect, call, refusal.message)
            return refusal
        return None

    def _carry_out(self, rows: Transaction, examined: Examined, verb: Verb, call: Call) -> Any:
        """Hold what has to be reviewed, carry out the rest, and return its result."""
        held = self._hold(rows, examined, call)
        if examined.rest is None:
            return _result_of_hold(examined.effect, verb, examined, held)
        return _with_findings(carry_out(rows, examined.rest, call), examined, held)

    # refusals

    def _refuse_outside(self, effect: Effect, caller: Caller) -> Refused:
        outside = _outside(effect, caller)
        # The refusal is written into the caller's own ledger: the other tenant's is none of its business.
        home = msgspec.structs.replace(effect, scope=Scope(caller.tenant or ""))
        return self._store.transact(lambda rows: self._refuse(rows, home, caller, outside), within=())

    def _refuse(
        self, rows: Transaction, effect: Effect, caller: Caller, verdict: Verdict, findings: Sequence[str] = ()
    ) -> Refused:
        """Record a refusal and return it: raising it here would undo what was just written."""
        call = self._call(caller, effect.scope.tenant)
        if verdict.level == "approve" and VERBS[type(effect)].can_wait:
            approval, note = hold(rows, effect, verdict.capability, call, findings=findings)
            append(rows, (note,), Signature.of(effect, call))
            return ApprovalRequired(
                f"{verdict.reason}; it waits as `{approval.id}`",
                hint=Hint("approve", approval.id),
                approval=approval.id,
                capability=verdict.capability,
            )
        reason, remedy = _explain(rows, effect, caller, verdict)
        self._record_refusal(rows, effect, call, reason)
        return Denied(
            f"`{caller.actor}` may not do this: {reason}",
            hint=remedy,
            capability=verdict.capability,
            actor=caller.actor,
        )

    def _record_refusal(self, rows: Transaction, effect: Effect, call: Call, reason: str) -> None:
        note = Note(
            effect=effect.name, scope=effect.scope.path, key=effect.place, detail={"reason": reason}, decision="deny"
        )
        append(rows, (note,), Signature.of(effect, call))

    def _policies(self, rows: Reader, effect: Effect, caller: Caller) -> tuple[Policy, ...]:
        if caller.membership is None and not caller.granted:
            return caller.policies
        return _together(self._policies_in_store(rows, effect.scope.tenant, caller), caller)

    def _policies_in_store(self, rows: Reader, tenant: str, caller: Caller) -> tuple[Policy, ...]:
        """Return what the database grants a caller, or what its role allows."""
        revision = rows.tenant_state(tenant).revision
        known = self._granted.get((tenant, caller.actor, caller.membership))
        if known is None or known[0] != revision:
            grants = rows.scan(Grant, tenant)
            if caller.membership is None:
                policies = (policy_of_grants(grants, caller.actor),)
            else:
                policies = policies_of_role(caller.membership, grants, caller.actor)
            known = (revision, policies)
            if len(self._granted) >= _MOST_ACTORS:
                self._granted.clear()
            self._granted[tenant, caller.actor, caller.membership] = known
        return known[1]

    def _may(self, rows: Reader, caller: Caller, tenant: str, demand: Demand) -> bool:
        """Return whether the policies of a caller allow a capability at a place."""
        policies = caller.policies
        if caller.granted or caller.membership is not None:
            policies = _together(self._policies_in_store(rows, tenant, caller), caller)
        return all(policy is OWNER or _decide_one(policy, *demand).level == "allow" for policy in policies)

    def _call(self, caller: Caller, tenant: str, checks: Checks = _NONE_CHECKED) -> Call:
        now = self.clock.now()
        if now.tzinfo is not UTC:
            now = now.astimezone(UTC)
        return Call(
            now,
            Origin(caller.actor, caller.door, caller.source, caller.kind, caller.trust),
            caller.tenant,
            self.ids,
            self.limits,
            self._schemas,
            self.embedders,
            self._indexes,
            self._rejections,
            checks,
            self._keep_text,
            authority=caller.authority,
            rules=caller,
            may=lambda rows, demand: self._may(rows, caller, tenant, demand),
        )


def _decide_in(rows: Reader, policies: Sequence[Policy], effect: Effect, call: Call) -> Verdict:
    """Return the verdict on an effect, and on the places that it finds in these rows."""
    touches = VERBS[type(effect)].touches
    if touches is None or all(policy.plainly_allows(effect.capability, effect.scope) for policy in policies):
        return decide(policies, effect)
    return decide(policies, effect, tuple(dict.fromkeys(touches(rows, effect, call))))


class _Unexamined(Exception):  # a signal to the gate itself, which no caller sees
    """A write was not looked through by the rules that the tenant has now."""


def _portions_in(store: Store, limits: Limits) -> PortionBook | None:
    if not store.keeps_portions:
        return None
    from memoranda.engine.portions import PortionBook  # other stores do without

    return PortionBook(store, limits)


def _places(effect: Effect, demands: Iterable[Demand]) -> Iterator[tuple[Scope, str]]:
    """Yield the keys that an effect changes in the rows, with their scopes."""
    for capability, scope, key in demands:
        if key is not None and not capability.endswith(".read"):
            yield scope or effect.scope, key.removeprefix("collections.")


def _result_of_hold(effect: Effect, verb: Verb, examined: Examined, held: tuple[str, ...]) -> Any:
    """Return the result of an effect that waits as a whole: the error Held, if its verb has none."""
    if verb.held_result is not None:
        return verb.held_result(effect, held[0])
    part = examined.held[0]
    return Held(
        f"`{part.findings[0]}` was found in this, and `{part.origin.kind}` is not trusted: it waits as `{held[0]}`",
        hint=Hint("approve", held[0]),
        approval=held[0],
        capability=effect.capability,
        cause="quarantine",
        findings=list(part.findings),
    )


def _with_findings(result: Any, examined: Examined, held: tuple[str, ...]) -> Any:
    """Return a result that says what the guard found and held."""
    if isinstance(result, Refused) or not (examined.findings or examined.refused or held):
        return result
    if isinstance(result, list):
        return [_with_findings(one, examined, held) for one in cast("list[Any]", result)]
    said = {"findings": examined.findings, "refused": examined.refused, "held": held}
    fields = {
        name: value
        for name, value in said.items()
        if value and name in getattr(result, "__struct_fields__", ()) and not isinstance(getattr(result, name), int)
    }
    return msgspec.structs.replace(result, **fields) if fields else result


def _ensure_may_wait(caller: Caller, why: str) -> None:
    if caller.at_once:
        raise Busy(why, hint="Wait for it, in a thread")


def _own_policies(caller: Caller) -> tuple[Policy, ...]:
    """Return the policies of a caller that no row decides."""
    return caller.policies if caller.base is None else _together((caller.base,), caller)


def _together(stored: tuple[Policy, ...], caller: Caller) -> tuple[Policy, ...]:
    together = (*stored, *caller.policies)
    return tuple(policy for policy in together if policy is not OWNER) or (OWNER,)


def _needs_grants(effect: Effect, caller: Caller) -> bool:
    """Return whether what the database grants a caller, or its role, matters for an effect."""
    if caller.membership is None:
        return caller.granted
    base = caller.base
    if base is None or base is OWNER:
        return base is None
    if type(effect).demands is Effect.demands and base.plainly_allows(effect.capability, effect.reach):
        return needs_grants(effect.capability, effect.reach)
    if any(needs_grants(capability, scope) for capability, scope, _ in effect.demands()):
        return True
    return decide((base,), effect).level != "allow"


def _surely_passes(effect: Effect, caller: Caller) -> bool:
    """Return whether it is certain, without reading any row, that an effect will not be refused."""
    return (
        not _needs_grants(effect, caller)
        and decide(_own_policies(caller), effect).level == "allow"
        and all(policy.quota is None for policy in caller.policies)
    )


def _outside(effect: Effect, caller: Caller) -> Verdict:
    """Return the denial of an effect in another tenant than the caller's."""
    reason = f"it is confined to the tenant `{caller.tenant}`, and this is in `{effect.scope.tenant}`"
    return Verdict("deny", effect.capability, reason, "Ask the program that opened the memory")


def _explain(rows: Reader, effect: Effect, caller: Caller, verdict: Verdict) -> tuple[str, Advice]:
    """Return why an effect is refused, and how to allow it there and nowhere else."""
    is_own = any(verdict.silent is own for own in caller.policies)
    place = "" if verdict.scope is None else verdict.scope.path or SHARED
    remedy: Advice = Hint("policy") if is_own else Hint("grant", verdict.capability, actor=caller.actor, scope=place)
    if caller.membership is not None and not is_own and not needs_grants(verdict.capability, verdict.scope):
        remedy = OTHER_KEY
    if verdict.silent is None:
        return verdict.reason, verdict.remedy or remedy
    why = why_not_granted(
        rows.scan(Grant, effect.scope.tenant),
        caller.actor,
        caller.membership,
        verdict.silent,
        (verdict.capability, verdict.scope, verdict.key),
        is_own_policy=is_own,
    )
    return (why[0], why[1] or remedy) if why else (verdict.reason, remedy)
