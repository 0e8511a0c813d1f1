"""The persistent variables of a session: paths in, facts of the engine out, each read and write through the gate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast

import msgspec

from memoranda.abl.document import Access, scope_of
from memoranda.abl.runtime.state import Grant
from memoranda.abl.runtime.trace import Happening, refusal
from memoranda.abl.runtime.work import Fault, Work, put_below, value_below, without
from memoranda.abl.variables import KEPT_FROM_VIEW, Persistent, at_or_above, fits, key_of
from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import MemorandaError, Refused, UsageError
from memoranda.lang.expression.dialect import Names, Run
from memoranda.model.effect import DeleteFact, GetFact, ListFacts, SetFact
from memoranda.model.fact import Fact
from memoranda.model.key import check_own_key, lies_under
from memoranda.model.policy import Policy
from memoranda.model.scope import Scope
from memoranda.model.value import encode_checked


class Pending(msgspec.Struct, frozen=True):
    """A change of a fact that is kept together with the session's state when the turn ends."""

    variable: Persistent
    below: tuple[str, ...]
    kind: Literal["put", "append", "remove"]
    value: Any
    ttl: int | None
    source: str
    told: Happening
    """What the trace says about it, taken back if it is refused in the end."""
    kept: tuple[dict[str, str], str] | None = None
    """Where a trigger keeps in mind what it stored, and by which id."""

    def put_off(self) -> None:
        """Let the trigger store it in a later turn: there was no room for it in this one."""
        if self.kept is not None:
            self.kept[0].pop(self.kept[1], None)

    @property
    def builds_on(self) -> bool:
        """Whether what is made depends on what is there."""
        return self.kind == "append" or bool(self.below)

    def made(self, before: Any) -> Any:
        """Return what the fact becomes; None when it goes."""
        if self.kind == "remove":
            return without(before, self.below) if self.below else None
        if self.below:
            return put_below(before, self.below, self.value, self.variable.path)
        if self.kind == "append":
            return [*cast("list[Any]", before), self.value] if type(before) is list else [self.value]
        return self.value


def why_refused(variable: Persistent, error: MemorandaError) -> dict[str, Any]:
    """Return what a trace says about a refused change; the reason may quote the value, which may be kept from view."""
    return {"why": KEPT_FROM_VIEW, "code": error.code} if variable.sensitive else refusal(error)


class CannotBeMade(Exception):
    """A change that the facts as they are now do not allow."""

    def __init__(self, change: Pending, error: Fault | Refused | UsageError) -> None:
        """Keep which change it is, and why."""
        super().__init__(error.message)
        self.change = change
        fault = isinstance(error, Fault)
        self.told = {"why": error.message, "code": error.kind} if fault else why_refused(change.variable, error)


class SessionFacts:
    """Where the facts of one session are: whose user, which project, which tree."""

    def __init__(self, memory: Memory, *, user: str | None, project: str, tree: str) -> None:
        """Stand in the scopes of a session; without a user there is no user's memory."""
        self.memory = memory
        self.user = None if user is None else Scope.of(tenant=memory.tenant, user=user)
        self.project = Scope.of(tenant=memory.tenant, project=project)
        self.tree = Scope.of(tenant=memory.tenant, tree=tree)
        self.pending: list[Pending] = []
        self.overlay: dict[tuple[str, str], Any] = {}
        """What pending writes will have made of facts, so that the rest of the turn sees it."""
        self.as_of: int | None = None
        """In a replay, the moment whose facts are read; then nothing is written."""

    def scope(self, variable: Persistent) -> Scope | None:
        """Return the scope of a variable; None for a user's where nobody has signed in."""
        if variable.scope == "user":
            return self.user
        return self.project if variable.scope == "project" else self.tree

    @property
    def entries(self) -> ScopedMemory:
        """What is remembered as texts: the user's, or the project's where nobody has signed in."""
        return self.memory.at(self.user or self.project)

    def fact(self, scope: Scope, key: str) -> Fact | None:
        """Return a fact as the store has it."""
        return self.memory.perform(GetFact(scope=scope, key=key, as_of=self.as_of))

    def value(self, scope: Scope, key: str) -> Any:
        """Return a fact's value as this turn sees it; None when there is none."""
        place = (scope.path, key)
        if place in self.overlay:
            return self.overlay[place]
        fact = self.fact(scope, key)
        return None if fact is None else fact.value

    def of_domain(self, scope: Scope, domain: str) -> dict[str, Any]:
        """Return the facts of a domain by key, as this turn sees them: tagged with it, or at and below its name."""
        found: dict[str, Any] = {}
        for prefix, tag in (("", domain), (domain, None)):
            kept: list[Fact] = self.memory.perform(ListFacts(scope=scope, prefix=prefix, domain=tag, as_of=self.as_of))
            found.update({fact.key: fact.value for fact in kept})
        for (path, key), value in self.overlay.items():
            if path == scope.path and (key in found or lies_under(key, domain)):
                found[key] = value
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
    ) -> SetFact | DeleteFact:
        """Return the effect of a change, a deletion for None; keys and values that cannot be are refused here."""
        check_own_key(key)
        if value is None:
            return DeleteFact(scope=scope, key=key, expect=expect or None, source=source)
        payload = msgspec.Raw(encode_checked(value, self.memory.limits))
        return SetFact(
            scope=scope, key=key, payload=payload, ttl=ttl, domain=domain, expect=expect, source=source, echo=False
        )

    def effects(self) -> list[SetFact | DeleteFact]:
        """Return the pending changes as effects, made from the facts as they are now."""
        made: dict[tuple[str, str], tuple[Any, int | None, str | None]] = {}
        effects: list[SetFact | DeleteFact] = []
        for change in self.pending:
            scope, key = self.scope(change.variable), change.variable.key
            assert scope is not None
            place = (scope.path, key)
            try:
                if place not in made:
                    made[place] = self._standing(scope, change)
                before, expect, domain = made[place]
                value = change.made(before)
                options: dict[str, Any] = {"source": change.source, "ttl": change.ttl, "expect": expect}
                effects.append(self.effect(scope, key, value, domain=domain, **options))
            except (Fault, Refused, UsageError) as error:
                raise CannotBeMade(change, error) from None
            made[place] = (value, None, domain)
        return effects

    def _standing(self, scope: Scope, change: Pending) -> tuple[Any, int | None, str | None]:
        """Return what a change builds on: the value and the version, if it does at all; and the domain, which stays."""
        try:
            fact = self.fact(scope, change.variable.key)
        except Refused:
            if change.builds_on:
                raise
            return None, None, None
        domain = fact.domain if fact else None
        if not change.builds_on:
            return None, None, domain
        return (fact.value, fact.version, domain) if fact else (None, 0, None)

    @property
    def touches_tree(self) -> bool:
        """Whether a pending change is about the handoff tree."""
        return any(change.variable.scope == "execution_tree" for change in self.pending)

    def settle(self) -> None:
        """Forget pending writes, once they are kept."""
        self.pending.clear()
        self.overlay.clear()


class FrameFacts:
    """The persistent variables of one agent in a session: what its declarations and its grants let it do."""

    def __init__(self, session: SessionFacts, agent: str, grants: dict[str, Grant]) -> None:
        """See a session's facts as an agent does, with what another one granted it."""
        self.session = session
        self.agent = agent
        self.grants = grants
        self.refusals: list[dict[str, Any]] = []
        """Reads that were refused since somebody looked; a refused read gives null and must not pass unseen."""

    def granted(self, path: str) -> tuple[Persistent, tuple[str, ...]] | None:
        """Return the fact of the granted path at or above this one, as its owner declares it, and what is left."""
        for whole, _ in at_or_above(path) if self.grants else ():
            grant = self.grants.get(whole)
            if grant is not None:
                fact = grant.fact or whole
                found = Persistent(
                    fact, grant.scope, key_of(fact), grant.access, grant.type, declared=False, sensitive=grant.sensitive
                )
                return found, tuple(path.split("."))[fact.count(".") + 1 :]
        return None

    def _meant(self, variable: Persistent, below: tuple[str, ...]) -> tuple[Persistent, tuple[str, ...]]:
        """Return which fact a path means: what another agent granted counts more than that this one names it."""
        granted = None if variable.declared else self.granted(".".join((variable.path, *below)))
        return granted or (variable, below)

    def grant(self, path: str, access: Access, named: tuple[Persistent, tuple[str, ...]] | None) -> Grant:
        """Return what another agent gets on a path, never more than this one has; `named` is how it declares it."""
        undeclared = Persistent(path, scope_of(path), key_of(path), declared=False)
        variable, below = self._meant(*(named or (undeclared, ())))
        held = variable.access
        return Grant(
            access if held == "readwrite" else held,
            variable.scope,
            variable.path if below else "",
            variable.type,
            variable.sensitive,
        )

    def closed(self, declared: Iterable[Persistent], scope: Scope) -> set[str]:
        """Return the keys in a scope that this agent may write and not read, by its declarations and its grants."""
        granted = [found[0] for path in self.grants if (found := self.granted(path)) is not None and not found[1]]
        return {one.key for one in (*declared, *granted) if one.access == "write" and self.session.scope(one) == scope}

    def read(self, variable: Persistent, names: Names, run: Run) -> Any:
        """Return the value of a path; its default where no fact is; null where it may not be read."""
        value = self._read(variable, (), names, run)
        for path in () if variable.declared else self.grants:
            # What was granted below it may be a fact by itself.
            if path.startswith(f"{variable.path}.") and (value is None or isinstance(value, dict)):
                rest = tuple(path.removeprefix(f"{variable.path}.").split("."))
                part = self._read(variable, rest, names, run)
                value = None if value is None and part is None else put_below(value, rest, part, variable.path)
        return value

    def _read(self, variable: Persistent, below: tuple[str, ...], names: Names, run: Run) -> Any:
        variable, below = self._meant(variable, below)
        return value_below(self._read_fact(variable, names, run), below)

    def _read_fact(self, variable: Persistent, names: Names, run: Run) -> Any:
        if variable.access == "write":
            self.refusals.append({"why": f"`{variable.path}` may be written, not read"})
            return None
        scope = self.session.scope(variable)
        value = None
        if scope is not None:
            try:
                value = self.session.value(scope, variable.key)
            except Refused as error:
                self.refusals.append(refusal(error))
                return None
        if value is None and variable.default is not None:
            return variable.default.value(names, run)
        return value

    def write(self, work: Work, variable: Persistent, below: tuple[str, ...], value: Any) -> None:
        """Change a path, as `SET` does; null forgets it."""
        variable, below = self._meant(variable, below)
        kind = "remove" if value is None else "put"
        self._change(work, variable, below, kind, value, None, {"value": self.shown(variable, value)})

    def clear(self, work: Work, variable: Persistent, below: tuple[str, ...]) -> None:
        """Forget a path, or a field below it."""
        self._change(work, *self._meant(variable, below), "remove", None, None, {})

    def store(
        self,
        work: Work,
        variable: Persistent,
        below: tuple[str, ...],
        value: Any,
        ttl: int | None,
        because: str,
        kept: tuple[dict[str, str], str] | None = None,
    ) -> None:
        """Change a path, as a trigger does: one value for a path that holds an array is added to it."""
        if value is None:
            # Nothing was said, which is no reason to forget what is known.
            work.note("skipped", variable.path, because="there is no value to remember")
            return
        variable, below = self._meant(variable, below)
        appends = (
            not below
            and work.behaviour.store_to_array == "append"
            and type(value) is not list
            and (variable.type == "array" or type(self._before(variable)) is list)
        )
        detail = {"value": self.shown(variable, value), "when": because or None, "ttl": ttl}
        try:
            self._change(work, variable, below, "append" if appends else "put", value, ttl, detail, kept)
        except Fault as fault:
            work.note("refused", variable.path, why=fault.message)

    def _before(self, variable: Persistent) -> Any:
        """Return what a fact is now, as far as this handle may see it."""
        scope = self.session.scope(variable)
        try:
            return None if scope is None else self.session.value(scope, variable.key)
        except Refused:
            return None

    def _change(
        self,
        work: Work,
        variable: Persistent,
        below: tuple[str, ...],
        kind: Literal["put", "append", "remove"],
        value: Any,
        ttl: int | None,
        detail: dict[str, Any],
        kept: tuple[dict[str, str], str] | None = None,
    ) -> None:
        """Note a change that is kept when the turn ends; one that is refused is refused, and recorded, at once."""
        scope = self._writable(work, variable, value, warn=kind == "put" and not below)
        if scope is None:
            return
        told = Happening("remembered" if kind != "remove" else "forgot", ".".join((variable.path, *below)), detail)
        change = Pending(variable, below, kind, value, ttl, self.agent, told, kept)
        made = change.made(self._before(variable) if change.builds_on else None)
        session = self.session
        try:
            effect = session.effect(scope, variable.key, made, source=self.agent, ttl=ttl)
            if session.as_of is None and not session.memory.may(effect):
                session.memory.perform(effect)
        except (Refused, UsageError) as error:
            work.note("refused", variable.path, **why_refused(variable, error))
            return
        session.overlay[(scope.path, variable.key)] = made
        session.pending.append(change)
        work.happened.append(told)

    def _writable(self, work: Work, variable: Persistent, value: Any, *, warn: bool) -> Scope | None:
        """Return where a path may be written; None after noting why not. The refusal is in the ledger too."""
        scope = self.session.scope(variable)
        if scope is None:
            work.note("refused", variable.path, why="nobody has signed in, and a user's fact belongs to a user")
            return None
        if variable.access == "read":
            self._refuse(work, variable, scope, value)
            return None
        if warn and not fits(value, variable.type):
            about = f"`{variable.path}` is declared {variable.type} and got another type"
            work.note("warning", about, type=variable.type, value=self.shown(variable, value))
        return scope

    def shown(self, variable: Persistent, value: Any) -> Any:
        """Return a value as traces may show it."""
        return KEPT_FROM_VIEW if variable.sensitive else value

    def _refuse(self, work: Work, variable: Persistent, scope: Scope, value: Any) -> None:
        """Let the gate refuse what the declaration refuses, so that the ledger knows of it too."""
        narrow = Policy.of(allow=("*",), access={variable.key: "read", "*": "readwrite"})
        try:
            effect = self.session.effect(scope, variable.key, value, source=self.agent)
            if self.session.as_of is None:
                self.session.memory.narrowed(narrow).perform(effect)
            told: dict[str, Any] = {"why": f"`{variable.path}` may be read, not written"}
        except (Refused, UsageError) as error:
            told = why_refused(variable, error)
        work.note("refused", variable.path, **told)
