"""Persistent variables as facts of the engine, recall instructions and remember triggers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, cast

import msgspec

from memoranda.abl.document import Access, scope_of
from memoranda.abl.expression.semantics import round_cents
from memoranda.abl.runtime.active_turn import ActiveTurn, Frame, StepError, field_at, with_field, without_field
from memoranda.abl.runtime.plan import CompletePlan, Plan, RecallPlan, TriggerPlan
from memoranda.abl.runtime.state import PathGrant
from memoranda.abl.runtime.trace import TraceEntry, refusal
from memoranda.abl.variables import KEPT_FROM_VIEW, Persistent, at_or_above, fits, key_of
from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.definitions import ReadContract
from memoranda.engine.facts import DeleteFact, GetFact, GetFacts, ListFacts, SetFact
from memoranda.errors import LimitExceeded, MemorandaError, Refused, UsageError
from memoranda.lang.expression.dialect import ExpressionRun, Names
from memoranda.lang.expression.nodes import Path
from memoranda.model.entry import Match
from memoranda.model.fact import Fact
from memoranda.model.names import check_own_key, lies_under
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.model.trust import OriginKind, kind_to_pass_on, lowest_kind
from memoranda.model.value import canonical, encode_checked
from memoranda.runs.provenance import OWN, Provenance, provenance_of_fact, provenance_of_matches, together


class FactPlace(msgspec.Struct, frozen=True):
    """Where the value of a key is stored: a fact, and the fields inside it that lead to the value."""

    key: str
    fields: Path = ()
    value: Any = None
    """The value of the whole fact."""
    stored: Fact | None = None
    """The fact as it is stored, if it was read."""


class PendingChange(msgspec.Struct, frozen=True):
    """A change of a fact that is written together with the session's state when the turn ends."""

    variable: Persistent
    below: Path
    key: str
    """The key of the fact that changes: the variable's, or that of a record which has the variable as a field."""
    fields: Path
    """The fields inside the fact that lead to the value."""
    kind: Literal["put", "append", "remove"]
    value: Any
    ttl: int | None
    source: str
    entry: TraceEntry
    """The entry of the trace, removed if the change is refused in the end."""
    trigger: tuple[Frame, TriggerPlan] | None = None
    """The trigger that stores the value, with its agent."""
    place: FactPlace | None = None
    """The fact, if it was read before and is replaced as a whole, so that it need not be read again."""
    provenance: Provenance = OWN
    """Where the value comes from."""

    def retry_later(self) -> None:
        """Let the trigger store the value in a later turn, because a quota was exceeded in this one."""
        if self.trigger is not None:
            frame, trigger = self.trigger
            frame.state.stored.pop(trigger.id, None)
            frame.due_triggers.add(trigger.number)

    @property
    def builds_on(self) -> bool:
        """Whether the new value depends on the current one."""
        return self.kind == "append" or bool(self.fields)

    def apply(self, before: Any) -> Any:
        """Return the new value of the fact; None deletes it."""
        if self.kind == "remove":
            return without_field(before, self.fields) if self.fields else None
        value = self.value
        if self.kind == "append":
            listed = field_at(before, self.fields)
            value = [*cast("list[Any]", listed), value] if type(listed) is list else [value]
        if not self.fields:
            return value
        path = (*self.variable.path.split("."), *self.below)
        return with_field(before, self.fields, value, ".".join(path[: -len(self.fields)]))

    def at(self, place: FactPlace) -> PendingChange:
        """Return the same change at another place: records come and go until it is written."""
        return msgspec.structs.replace(self, key=place.key, fields=(*place.fields, *self.below))


def refusal_detail(variable: Persistent, error: MemorandaError) -> dict[str, Any]:
    """Return the trace's detail about a refused change; the reason may quote a value, so a sensitive one is hidden."""
    return {"why": KEPT_FROM_VIEW, "code": error.code} if variable.sensitive else refusal(error)


class ChangeError(Exception):
    """A pending change that cannot be applied to the current facts."""

    def __init__(self, change: PendingChange, error: StepError | Refused | UsageError) -> None:
        """Wrap the error of a change."""
        super().__init__(error.message)
        self.change = change
        if isinstance(error, StepError):
            self.detail = {"why": error.message, "code": error.kind}
        else:
            self.detail = refusal_detail(change.variable, error)


class SessionFacts:
    """The facts of one session: of its user, its project and its handoff tree."""

    def __init__(self, memory: Memory, *, user: str | None, project: str, tree: str, has_model: bool = False) -> None:
        """Open the scopes of a session; without a user, facts of users are not available."""
        self.memory = memory
        self.has_model = has_model
        """Whether one of its agents has a model, so that it matters what memory a value is made of."""
        self.user = None if user is None else Scope.of(tenant=memory.tenant, user=user)
        self.project = Scope.of(tenant=memory.tenant, project=project)
        self.tree = Scope.of(tenant=memory.tenant, tree=tree)
        self.pending: list[PendingChange] = []
        self.overlay: dict[tuple[str, str], Any] = {}
        """The values after the pending changes, which the rest of the turn reads."""
        self.reads: dict[tuple[str, str], Fact | Provenance] = {}
        """The facts that were read since this was cleared; of a pending change, where its value comes from."""
        self._changed_by: dict[tuple[str, str], Provenance] = {}
        self.as_of: int | None = None
        """In a replay, the moment as of which facts are read; nothing is written then."""

    def scope(self, variable: Persistent) -> Scope | None:
        """Return the scope of a variable; None for a user's fact in a session without a user."""
        if variable.scope == "user":
            return self.user
        return self.project if variable.scope == "project" else self.tree

    def entries(self, kind: OriginKind | None = None) -> ScopedMemory:
        """Return the entries of the user, or of the project in a session without a user.

        `kind` says as what kind of origin something is passed on that is remembered.
        """
        return self.memory.passing_on(kind).at(self.user or self.project)

    def provenance_read(self) -> Provenance:
        """Return where the facts come from that were read since `reads` was cleared."""
        if not self.reads:
            return OWN
        found = together(one if isinstance(one, Provenance) else provenance_of_fact(one) for one in self.reads.values())
        return found if self.has_model else Provenance(found.kind)

    def note_change(self, scope: Scope, key: str, value: Any, provenance: Provenance, *, is_part: bool) -> None:
        """Let the rest of the turn read a pending change; of `is_part`, the rest of the fact stays what it was."""
        at = scope.path, key
        before = self.reads.get(at, OWN) if is_part else OWN
        self._changed_by[at] = provenance | (before if isinstance(before, Provenance) else provenance_of_fact(before))
        self.overlay[at] = value

    def value(self, scope: Scope, key: str) -> Any:
        """Return the value of a key including pending changes: of its fact, or of its field in a record; or None."""
        place = self.place(scope, key)
        return field_at(place.value, place.fields)

    def place(self, scope: Scope, key: str, *, create: bool = False) -> FactPlace:
        """Return where the value of a key is stored, including pending changes; `create` if it is to be written."""
        return self._locate(scope, key, self.overlay, create=create)

    def _locate(
        self, scope: Scope, key: str, changed: Mapping[tuple[str, str], Any], *, create: bool = False
    ) -> FactPlace:
        """Return the fact of a key; without one, the record above it, the longest key with an object.

        A key below a definition that has no record yet belongs to the record if it is to be created. `changed` has
        the values of facts that the caller has changed.
        """
        if "." not in key or changed.get((scope.path, key)) is not None:
            if (scope.path, key) in changed:
                self.reads[scope.path, key] = self._changed_by.get((scope.path, key), OWN)
                return FactPlace(key, (), changed[scope.path, key])
            fact: Fact | None = self.memory.perform(GetFact(scope=scope, key=key, as_of=self.as_of))
            if fact is not None:
                self.reads[scope.path, key] = fact
            return FactPlace(key, (), fact.value if fact else None, fact)
        names = [name for name, _ in at_or_above(key)]
        stored = self._read_facts(scope, [name for name in names if (scope.path, name) not in changed])
        values = {name: changed.get((scope.path, name)) for name in names}
        for name, value in values.items():
            if value is not None:
                self.reads[scope.path, name] = self._changed_by.get((scope.path, name), OWN)
        values.update({name: fact.value for name, fact in stored.items()})
        if values[key] is None:
            for name, rest in at_or_above(key)[1:]:
                if type(values[name]) is dict:
                    return FactPlace(name, rest, values[name], stored.get(name))
            slug, _, rest = key.partition(".")
            if create and values[slug] is None and self._has_definition(scope, slug):
                return FactPlace(slug, tuple(rest.split(".")))
        return FactPlace(key, (), values[key], stored.get(key))

    def _read_facts(self, scope: Scope, keys: Sequence[str]) -> dict[str, Fact]:
        """Return the facts of these keys, read in one snapshot, by key."""
        gets = [GetFact(scope=scope, key=key, as_of=self.as_of) for key in keys]
        if len(gets) > 1 and not self.memory.may(GetFacts(scope=scope, gets=tuple(gets))):
            # The fields of a record that may not be read do not exist here; the first key is refused as it always is.
            gets = [gets[0], *(get for get in gets[1:] if self.memory.may(get))]
        if len(gets) == 1:
            found: list[Fact | None] = [self.memory.perform(gets[0])]
        else:
            found = self.memory.perform(GetFacts(scope=scope, gets=tuple(gets))) if gets else []
        stored = {fact.key: fact for fact in found if fact is not None}
        self.reads.update(((scope.path, key), fact) for key, fact in stored.items())
        return stored

    def _has_definition(self, scope: Scope, key: str) -> bool:
        effect = ReadContract(scope=scope, key=key)
        return self.memory.may(effect) and self.memory.perform(effect) is not None

    def of_domain(self, scope: Scope, domain: str) -> dict[str, Any]:
        """Return the facts of a domain by key, including pending changes: tagged with it, or at or below its key.

        A domain that is the path of a field gives that field of the record.
        """
        found = self._facts(scope, ("", domain), (domain, None))
        if "." in domain and domain not in found and (value := self.value(scope, domain)) is not None:
            found[domain] = value
        return found

    def below(self, scope: Scope, key: str) -> dict[str, Any]:
        """Return the facts below a key, including pending changes."""
        found = self._facts(scope, (key, None))
        return {below: value for below, value in found.items() if below != key}

    def _facts(self, scope: Scope, *queries: tuple[str, str | None]) -> dict[str, Any]:
        """Return the facts at or below keys, if they have a domain, by key."""
        found: dict[str, Any] = {}
        for prefix, domain in queries:
            query = ListFacts(scope=scope, prefix=prefix, domain=domain, as_of=self.as_of)
            kept: list[Fact] = self.memory.perform(query)
            found.update({fact.key: fact.value for fact in kept})
            self.reads.update(((scope.path, fact.key), fact) for fact in kept)
        below = queries[-1][0]
        for (path, key), value in self.overlay.items():
            if path == scope.path and (key in found or lies_under(key, below)):
                found[key] = value
                self.reads[path, key] = self._changed_by.get((path, key), OWN)
        return {key: value for key, value in found.items() if value is not None}

    def effect(
        self,
        scope: Scope,
        key: str,
        value: Any,
        *,
        source: str,
        ttl: int | None = None,
        expect: int | None = None,
        domain: str | None = None,
        keep_end: bool = False,
        kind: OriginKind | None = None,
    ) -> SetFact | DeleteFact:
        """Return the effect that sets a fact, or deletes it for None; raise for an invalid key or value."""
        check_own_key(scope, key)
        if value is None:
            return DeleteFact(scope=scope, key=key, expect=expect or None, source=source, kind=kind)
        payload = msgspec.Raw(encode_checked(value, self.memory.limits))
        return SetFact(
            scope=scope,
            key=key,
            payload=payload,
            ttl=ttl,
            keep_end=keep_end,
            domain=domain,
            expect=expect,
            source=source,
            kind=kind,
            echo=False,
        )

    def effects(self) -> list[SetFact | DeleteFact]:
        """Return the pending changes as effects, applied to the current facts.

        Changes inside one fact that follow each other are one write: a record may need all of its fields at once.
        """
        values: dict[tuple[str, str], Any] = {}
        domains: dict[tuple[str, str], str | None] = {}
        kinds: dict[tuple[str, str], OriginKind | None] = {}
        effects: list[SetFact | DeleteFact] = []
        inside: dict[tuple[str, str], tuple[int, int | None]] = {}
        for number, pending in enumerate(self.pending):
            scope = self.scope(pending.variable)
            assert scope is not None
            change = pending
            try:
                place = self._base(scope, pending, values)
                change = self.pending[number] = pending.at(place)
                at, fact = (scope.path, change.key), place.stored
                expect = (fact.version if fact else 0) if change.builds_on and at not in values else None
                domain = domains.setdefault(at, fact.domain if fact else None)
                value = change.apply(place.value)
                # What is added to a fact makes the rest of it no more trusted.
                before = kinds.get(at) if at in values else kind_to_pass_on(fact.origin) if fact else None
                kind = lowest_kind(change.provenance.kind, before if change.builds_on else None)
                if value is None and change.fields:
                    continue  # A field of nothing is removed.
                joined = inside.get(at) if change.fields else None
                # A record keeps its own time to live, also one that came into being after the trigger.
                ttl = None if place.fields else change.ttl
                if joined:
                    expect, earlier = joined[1], effects[joined[0]]
                    ttl = earlier.ttl if ttl is None and isinstance(earlier, SetFact) else ttl
                options: dict[str, Any] = {"source": change.source, "ttl": ttl, "expect": expect, "kind": kind}
                effect = self.effect(scope, change.key, value, domain=domain, keep_end=change.builds_on, **options)
            except (StepError, Refused, UsageError) as error:
                raise ChangeError(change, error) from None
            values[at], kinds[at] = value, kind
            if joined:
                effects[joined[0]] = effect
                continue
            effects.append(effect)
            if change.fields:
                inside[at] = (len(effects) - 1, expect)
            else:
                inside.pop(at, None)
        return effects

    def _base(self, scope: Scope, change: PendingChange, values: Mapping[tuple[str, str], Any]) -> FactPlace:
        """Return the fact that a change builds on; a fact that may be written, not read, is replaced unread."""
        key = change.variable.key
        try:
            return change.place or self._locate(scope, key, values, create=change.kind != "remove")
        except Refused:
            if change.kind == "append" or change.below:
                raise
            return FactPlace(key)

    @property
    def touches_tree(self) -> bool:
        """Whether a pending change concerns the handoff tree."""
        return any(change.variable.scope == "execution_tree" for change in self.pending)

    def settle(self) -> None:
        """Drop the pending changes, after they were written or the turn failed."""
        self.pending.clear()
        self.overlay.clear()
        self._changed_by.clear()


def _exact(variable: Persistent, value: Any) -> Any:
    """Return an amount of money without fractions of a cent; other values as they are."""
    return float(round_cents(value)) if variable.money and type(value) is float and math.isfinite(value) else value


class FrameFacts:
    """The persistent variables of one agent, with the access that its declarations and grants give it."""

    def __init__(self, session: SessionFacts, plan: Plan, grants: dict[str, PathGrant]) -> None:
        """View a session's facts as an agent with the grants of another agent."""
        self.session = session
        self.agent = plan.name
        self._declarations = plan.declarations
        self.grants = grants
        self.refusals: list[dict[str, Any]] = []
        """Refused reads that are not in the trace yet; a refused read gives null, so the trace has to report it."""

    def find_grant(self, path: str) -> tuple[Persistent, Path] | None:
        """Return the fact that was granted at or above a path, as its owner declares it, and the rest of the path."""
        if not self.grants:
            return None
        for whole, _ in at_or_above(path):
            grant = self.grants.get(whole)
            if grant is not None:
                fact = grant.fact or whole
                found = Persistent(fact, grant.scope, key_of(fact), grant.access, grant.type, sensitive=grant.sensitive)
                return found, tuple(path.split("."))[fact.count(".") + 1 :]
        return None

    def _resolve(self, variable: Persistent, below: Path) -> tuple[Persistent, Path]:
        """Return the fact of a path; a grant takes precedence over a path that is not declared."""
        granted = None if variable.declared else self.find_grant(".".join((variable.path, *below)))
        return granted or (variable, below)

    def grant(self, path: str, access: Access, named: tuple[Persistent, Path] | None) -> PathGrant:
        """Return a grant for another agent, with at most this agent's access; `named` is this agent's declaration."""
        undeclared = Persistent(path, scope_of(path), key_of(path), declared=False)
        variable, below = self._resolve(*(named or (undeclared, ())))
        held = variable.access
        return PathGrant(
            access if held == "readwrite" else held,
            variable.scope,
            variable.path if below else "",
            variable.type,
            variable.sensitive,
        )

    def write_only_keys(self, scope: Scope) -> set[str]:
        """Return the keys in a scope that this agent may write but not read."""
        granted = [found[0] for path in self.grants if (found := self.find_grant(path)) is not None and not found[1]]
        known = (*self._declarations.persistent.values(), *granted)
        return {one.key for one in known if one.access == "write" and self.session.scope(one) == scope}

    def readable(self, scope: Scope, key: str, value: Any) -> Any:
        """Return the value of a key without the fields that this agent may write but not read."""
        shown: Any = value
        for name in self.write_only_keys(scope) if type(value) is dict else ():
            if name.startswith(f"{key}."):
                shown = without_field(shown, tuple(name.removeprefix(f"{key}.").split(".")))
        return shown

    def read(self, variable: Persistent, names: Names, run: ExpressionRun) -> Any:
        """Return the value of a path: its default without a fact, None if it may not be read."""
        value = self._read(variable, (), names, run)
        for path in () if variable.declared else self.grants:
            # A path granted below it may be a fact of its own.
            if path.startswith(f"{variable.path}.") and (value is None or isinstance(value, dict)):
                rest = tuple(path.removeprefix(f"{variable.path}.").split("."))
                part = self._read(variable, rest, names, run)
                value = None if value is None and part is None else with_field(value, rest, part, variable.path)
        return value

    def _read(self, variable: Persistent, below: Path, names: Names, run: ExpressionRun) -> Any:
        variable, below = self._resolve(variable, below)
        return field_at(self._read_fact(variable, names, run), below)

    def _is_withheld(self, variable: Persistent) -> bool:
        """Say whether a path is neither declared by the agent nor granted by the one that handed over with grants."""
        return bool(self.grants) and not variable.declared and self.find_grant(variable.path) is None

    def _read_fact(self, variable: Persistent, names: Names, run: ExpressionRun) -> Any:
        if self._is_withheld(variable):
            self.refusals.append({"why": f"`{variable.path}` was not granted to {self.agent}"})
            return None
        if variable.access == "write":
            self.refusals.append({"why": f"`{variable.path}` may be written, not read"})
            return None
        scope = self.session.scope(variable)
        value = None
        if scope is not None:
            try:
                value = self.readable(scope, variable.key, self.session.value(scope, variable.key))
                if value is None and variable.type in (None, "object"):
                    value = self._fields(variable, scope, None)
            except Refused as error:
                self.refusals.append(refusal(error))
                return None
        if value is None and variable.default is not None:
            return variable.default.value(names, run)
        return value

    def read_with_fields(self, variable: Persistent, names: Names, run: ExpressionRun) -> Any:
        """Return the value of a path as `read` does, but with all facts below it as its fields."""
        value = self.read(variable, names, run)
        scope = self.session.scope(variable)
        return self._fields(variable, scope, value) if scope is not None and type(value) is dict else value

    def _fields(self, variable: Persistent, scope: Scope, value: Any) -> Any:
        """Return an object with the facts below a path as further fields; None if there are none."""
        closed = self.write_only_keys(scope)
        for key, part in self.session.below(scope, variable.key).items():
            if key not in closed:
                value = with_field(value, tuple(key.removeprefix(f"{variable.key}.").split(".")), part, variable.path)
        return value

    def write(self, turn: ActiveTurn, variable: Persistent, below: Path, value: Any, provenance: Provenance) -> None:
        """Set a path, as `SET` does; None deletes it."""
        variable, below = self._resolve(variable, below)
        value = _exact(variable, value)
        kind = "remove" if value is None else "put"
        detail = {"value": self.redact(variable, value)}
        self._change(turn, variable, below, kind, value, None, detail, provenance)

    def clear(self, turn: ActiveTurn, variable: Persistent, below: Path) -> None:
        """Delete a path, or a field of it."""
        self._change(turn, *self._resolve(variable, below), "remove", None, None, {}, OWN)

    def store(
        self,
        turn: ActiveTurn,
        variable: Persistent,
        below: Path,
        value: Any,
        ttl: int | None,
        because: str,
        provenance: Provenance,
        trigger: tuple[Frame, TriggerPlan] | None = None,
    ) -> None:
        """Store a value as a trigger does: a single value is appended to an array."""
        if value is None:
            # An unset variable must not delete what is known.
            turn.note("skipped", variable.path, because="no value to remember")
            return
        variable, below = self._resolve(variable, below)
        value = _exact(variable, value)
        appends, place = variable.type == "array", None
        scope = self.session.scope(variable)
        if below or turn.behaviour.store_to_array != "append" or type(value) is list:
            appends = False
        elif not appends and scope is not None:
            place = self._place(scope, variable, create=True)
            appends = type(field_at(place.value, place.fields)) is list
        kind = "append" if appends else "put"
        detail = {"value": self.redact(variable, value), "when": because or None, "ttl": ttl}
        try:
            self._change(turn, variable, below, kind, value, ttl, detail, provenance, place=place, trigger=trigger)
        except StepError as error:
            turn.note("refused", variable.path, why=error.message)

    def _place(self, scope: Scope, variable: Persistent, *, create: bool = False) -> FactPlace:
        """Return where a path is stored; one that may not be read is a fact of its own, without a value."""
        try:
            return self.session.place(scope, variable.key, create=create)
        except Refused:
            return FactPlace(variable.key)

    def _change(
        self,
        turn: ActiveTurn,
        variable: Persistent,
        below: Path,
        kind: Literal["put", "append", "remove"],
        value: Any,
        ttl: int | None,
        detail: dict[str, Any],
        provenance: Provenance,
        *,
        place: FactPlace | None = None,
        trigger: tuple[Frame, TriggerPlan] | None = None,
    ) -> None:
        """Add a pending change; a change that the gate refuses is refused, and in the ledger, at once.

        `place` is where a new value is stored, if the caller has looked it up.
        """
        scope = self._writable(turn, variable, value, warn=kind == "put" and not below)
        if scope is None:
            return
        # A field of a record and an item of a list are merged into what is stored; anything else replaces it unread.
        whole = "." not in variable.key and not below and kind != "append"
        found = place if whole else None
        if place is None:
            place = FactPlace(variable.key) if whole else self._place(scope, variable, create=kind != "remove")
        if ttl is not None and place.fields:
            about = f"`{variable.path}` is a field of a record, which keeps its own time to live"
            turn.note("warning", about, ttl=ttl)
            detail, ttl = {**detail, "ttl": None}, None
        entry = TraceEntry("remembered" if kind != "remove" else "forgot", ".".join((variable.path, *below)), detail)
        fields = (*place.fields, *below)
        change = PendingChange(
            variable, below, place.key, fields, kind, value, ttl, self.agent, entry, trigger, found, provenance
        )
        after = change.apply(place.value)
        session = self.session
        try:
            expect = place.stored.version if place.fields and place.stored else None
            effect = session.effect(scope, place.key, after, source=self.agent, ttl=ttl, expect=expect)
            needed = [effect]
            if place.fields:
                # Who writes a field of a record needs the right to write the record, and the path of the field.
                needed.append(session.effect(scope, variable.key, value, source=self.agent))
            for one in needed:
                if session.as_of is None and not session.memory.may(one):
                    session.memory.perform(one)
        except (Refused, UsageError) as error:
            turn.note("refused", variable.path, **refusal_detail(variable, error))
            return
        session.note_change(scope, place.key, after, provenance, is_part=change.builds_on)
        turn.frame.names.note_change(variable.path.partition(".")[0])
        session.pending.append(change)
        turn.happened.append(entry)

    def _writable(self, turn: ActiveTurn, variable: Persistent, value: Any, *, warn: bool) -> Scope | None:
        """Return the scope to which a path may be written; None after adding the refusal to trace and ledger."""
        scope = self.session.scope(variable)
        if scope is None:
            turn.note("refused", variable.path, why="the session has no user, so it cannot store facts of a user")
            return None
        if self._is_withheld(variable):
            turn.note("refused", variable.path, why=f"it was not granted to {self.agent}")
            return None
        if variable.access == "read":
            self._refuse(turn, variable, scope, value)
            return None
        if warn and variable.type is not None and not fits(value, variable.type):
            about = f"`{variable.path}` is declared {variable.type} and got another type"
            turn.note("warning", about, type=variable.type, value=self.redact(variable, value))
        return scope

    def redact(self, variable: Persistent, value: Any) -> Any:
        """Return a value for a trace; a sensitive one is hidden."""
        return KEPT_FROM_VIEW if variable.sensitive else value

    def _refuse(self, turn: ActiveTurn, variable: Persistent, scope: Scope, value: Any) -> None:
        """Let the gate refuse a write that the declaration forbids, so that the ledger records it."""
        narrow = Policy.of(allow=("*",), access={variable.key: "read", "*": "readwrite"})
        try:
            effect = self.session.effect(scope, variable.key, value, source=self.agent)
            if self.session.as_of is None:
                self.session.memory.narrowed(narrow).perform(effect)
            detail: dict[str, Any] = {"why": f"`{variable.path}` may be read, not written"}
        except (Refused, UsageError) as error:
            detail = refusal_detail(variable, error)
        turn.note("refused", variable.path, **detail)


def recall(turn: ActiveTurn, event: str, also: str = "") -> None:
    """Run the recall instructions of the active agent for an event; `also` is the wildcard of its kind.

    A failure adds a warning to the trace, and the turn continues.
    """
    recalls = turn.frame.plan.recalls
    plans = recalls.get(event, ())
    if also and also in recalls:
        plans = sorted((*plans, *recalls[also]), key=lambda plan: plan.number)
    for plan in plans:
        try:
            _ACTIONS[plan.action](turn, plan, event)
        except MemorandaError as error:
            turn.note("warning", f"recall at {event} failed", why=error.message, code=error.code)


def _inject(turn: ActiveTurn, plan: RecallPlan, event: str) -> None:
    for variable in plan.paths:
        session = turn.frame.facts.session
        session.reads.clear()
        value = turn.frame.facts.read_with_fields(variable, turn.frame.names, turn.run)
        _put(turn, variable, value, session.provenance_read())
    turn.note("recalled", ", ".join(variable.path for variable in plan.paths), on=event)


def _put(turn: ActiveTurn, variable: Persistent, value: Any, provenance: Provenance) -> None:
    """Copy a fact to its dotted path among the variables; the copy is not stored with the session."""
    head, *rest = variable.path.split(".")
    names, notes = turn.frame.names, turn.frame.state.notes
    if head not in notes.injected:
        notes.injected = [*notes.injected, head]
    held = names.get(head)
    names[head] = with_field(held if type(held) is dict else None, tuple(rest), value, head) if rest else value
    turn.frame.provenances.put((head, *rest), provenance)


def _load(turn: ActiveTurn, plan: RecallPlan, event: str) -> None:
    if plan.paths:
        _inject(turn, plan, event)
    if plan.domain is None:
        return
    facts = turn.frame.facts.session
    count = 0
    prefix, _, rest = plan.domain.partition(".")
    for head, scope in (("user", facts.user), ("project", facts.project), ("workflow", facts.tree)):
        # `user.history` is the domain `history` of the user.
        domain = rest if rest and head == prefix else plan.domain
        facts.reads.clear()
        found = _of_domain(turn, scope, domain, head)
        provenance = facts.provenance_read()
        for path, value in found:
            _put(turn, Persistent(path, "user", path), value, provenance)
            count += 1
    entries = _entries(turn, plan.domain)
    if entries:
        names = turn.frame.names
        names["recalled"] = {**(names.get("recalled") or {}), plan.domain: [match.content for match in entries]}
        turn.frame.provenances.put(("recalled", plan.domain), provenance_of_matches(entries))
    turn.note("recalled", plan.domain, on=event, facts=count, entries=len(entries))


def _of_domain(turn: ActiveTurn, scope: Scope | None, domain: str, head: str) -> list[tuple[str, Any]]:
    """Return the readable facts of a domain in one scope, by their paths."""
    if scope is None:
        return []
    facts = turn.frame.facts.session
    closed = turn.frame.facts.write_only_keys(scope)
    return [
        (f"{head}.{key}", turn.frame.facts.readable(scope, key, value))
        for key, value in sorted(facts.of_domain(scope, domain).items())
        if key not in closed
    ]


def _entries(turn: ActiveTurn, domain: str) -> list[Match]:
    """Recall entries of the domain's collection with the user's words."""
    facts = turn.frame.facts.session
    if facts.as_of is not None:
        return []
    found = facts.entries().recall(turn.text, collection=domain, limit=turn.behaviour.loaded)
    return found.results


def _instruct(turn: ActiveTurn, plan: RecallPlan, event: str) -> None:
    if plan.instruction is None:
        return
    told = turn.frame.state.told
    text = turn.render(plan.instruction)
    what = plan.number if plan.number in turn.frame.plan.instructions else text
    if what not in told:
        told.append(what)
    turn.note("recalled", "an instruction for the model", on=event)


_ACTIONS = {"inject_context": _inject, "load_memory": _load, "prompt_llm": _instruct}


class _Still:
    """A constant clock and source of ids, so that values can be compared between turns."""

    def now(self) -> datetime:
        return datetime(2000, 1, 1, tzinfo=UTC)

    def new(self, kind: str) -> str:
        return kind


_STILL = _Still()


def remember(turn: ActiveTurn, frame: Frame) -> None:
    """Run the remember triggers of an agent that may have something to do, in the order of the file."""
    plan, due, changed = frame.plan, frame.due_triggers, frame.names.unremembered
    for name in changed:
        due |= plan.triggers_of_variable.get(name, frozenset())
    changed.clear()
    for trigger in [plan.triggers[number] for number in sorted(due)] if due else ():
        try:
            if turn.test(trigger.when, frame.names):
                _store(turn, frame, trigger)
            else:
                frame.state.stored.pop(trigger.id, None)
        except StepError as error:
            # The other triggers still run.
            turn.note("error", error.kind, message=error.message, when=trigger.text)
        else:
            if trigger.inputs is not None and turn.behaviour.remember == "changes":
                due.discard(trigger.number)


def _store(turn: ActiveTurn, frame: Frame, trigger: TriggerPlan) -> None:
    """Store the value of a trigger whose condition holds, unless it was stored already."""
    stored = frame.state.stored
    digest = _digest(_timeless_value(turn, frame, trigger))
    if turn.behaviour.remember == "changes" and stored.get(trigger.id) == digest:
        return
    value, provenance = turn.derive(trigger.value, frame)
    stored[trigger.id] = digest
    by = frame, trigger
    frame.facts.store(turn, trigger.target, trigger.below, value, trigger.ttl, trigger.text, provenance, by)


def _timeless_value(turn: ActiveTurn, frame: Frame, trigger: TriggerPlan) -> Any:
    """Return the value of a trigger with a constant clock and ids: the current time would differ in every turn."""
    if trigger.inputs is not None:
        return turn.value(trigger.value, frame.names)
    try:
        return trigger.value.value(frame.names, ExpressionRun(clock=_STILL, ids=_STILL))
    except LimitExceeded as error:
        raise StepError("validation_error", error.message) from None


def store_result(turn: ActiveTurn, frame: Frame, complete: CompletePlan) -> None:
    """Store the value of a COMPLETE."""
    if complete.value is None or complete.target is None:
        return
    value, provenance = turn.derive(complete.value, frame)
    frame.facts.store(turn, complete.target, complete.below, value, None, "", provenance)


def _digest(value: object) -> str:
    try:
        return hashlib.blake2b(canonical(value), digest_size=9).hexdigest()
    except (TypeError, UnicodeEncodeError, RecursionError):
        return "unequal"
