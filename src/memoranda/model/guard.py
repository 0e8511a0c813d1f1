"""What the guard does about what it finds in a write: data, by scope and by kind of origin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, get_args

import msgspec

from memoranda.errors import UsageError
from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import TRUST_OF, Origin, OriginKind, Trust, is_at_least

Action = Literal["allow", "warn", "redact", "hold", "refuse"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""Store it; store it and say so; store it without what was found; hold it for review; refuse it."""
Subject = Literal["instructions", "secrets", "payment", "codes", "protected"]
SUBJECTS: tuple[Subject, ...] = get_args(Subject)
"""What the guard acts on: four kinds of text, and writes to protected keys."""
NOT_REDACTED: frozenset[Subject] = frozenset({"instructions", "protected"})
"""What cannot be taken out of a write: an order can be said in many ways, and a key is the place itself."""


class GuardRule(Result, frozen=True, kw_only=True):
    """What the guard does about what one kind of origin writes in a scope; what is None is said above or by default."""

    _columns: ClassVar[tuple[str, ...]] = ("scope", "origin", "instructions", "secrets", "payment", "codes")
    tenant: str
    scope: str = ""
    """The path of the scope; empty for the whole tenant."""
    origin: OriginKind
    instructions: Action | None = None
    secrets: Action | None = None
    payment: Action | None = None
    codes: Action | None = None
    protected: Action | None = None
    """About keys, blocks and records that say who an agent is and what it may do."""
    largest: int | None = None
    """The bytes of a value; 0 for values of any size."""


class GuardPolicy(Result, frozen=True, kw_only=True):
    """What the guard does about what one kind of origin writes."""

    origin: OriginKind
    instructions: Action = "allow"
    secrets: Action = "allow"
    payment: Action = "allow"
    codes: Action = "allow"
    protected: Action = "allow"
    largest: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it lets everything through, so that nothing has to be looked for."""
        return self.largest == 0 and self.looks_for_nothing and self.protected == "allow"

    @property
    def looks_for_nothing(self) -> bool:
        """Whether no text has to be looked through."""
        return self.instructions == self.secrets == self.payment == self.codes == "allow"


LARGEST = 65_536


def _external(origin: OriginKind) -> GuardPolicy:
    return GuardPolicy(
        origin=origin,
        instructions="hold",
        secrets="redact",
        payment="redact",
        codes="redact",
        protected="refuse",
        largest=LARGEST,
    )


DEFAULTS: dict[OriginKind, GuardPolicy] = {
    "user": GuardPolicy(origin="user"),
    "agent": GuardPolicy(origin="agent"),
    "assistant": GuardPolicy(origin="assistant", protected="refuse"),
    "tool_internal": GuardPolicy(origin="tool_internal", protected="refuse"),
    "tool_external": _external("tool_external"),
    "import": _external("import"),
    "unknown": _external("unknown"),
}
"""What counts where no rule says otherwise."""

_LIKE: dict[Trust, OriginKind] = {"medium": "assistant", "low": "tool_external", "untrusted": "unknown"}


def kind_to_guard(origin: Origin) -> OriginKind:
    """Return the kind of origin whose policy counts: one that passes on what is trusted less counts as that.

    >>> kind_to_guard(Origin(kind="user")), kind_to_guard(Origin(kind="user", trust="low"))
    ('user', 'tool_external')
    """
    return origin.kind if is_at_least(origin.trust, TRUST_OF[origin.kind]) else _LIKE[origin.trust]


class GuardBook:
    """The rules of one tenant: for each scope and kind of origin, what the nearest rules say."""

    def __init__(self, rules: Iterable[GuardRule] = ()) -> None:
        """Take the rules."""
        self._rules: dict[OriginKind, list[tuple[Scope, GuardRule]]] = {}
        for rule in rules:
            self._rules.setdefault(rule.origin, []).append((Scope(rule.tenant, rule.scope), rule))
        for found in self._rules.values():
            found.sort(key=lambda one: len(one[0].path))  # the nearest last
        self._known: dict[tuple[OriginKind, Scope], GuardPolicy] = {}

    def has(self, kind: OriginKind) -> bool:
        """Return whether any rule is about this kind of origin."""
        return kind in self._rules

    def policy(self, kind: OriginKind, scope: Scope) -> GuardPolicy:
        """Return what counts for a kind of origin in a scope."""
        rules = self._rules.get(kind)
        if rules is None:
            return DEFAULTS[kind]
        known = self._known.get((kind, scope))
        if known is None:
            said = {
                name: value
                for place, rule in rules
                if not place.path or place.covers(scope)
                for name in (*SUBJECTS, "largest")
                if (value := getattr(rule, name)) is not None
            }
            known = msgspec.structs.replace(DEFAULTS[kind], **said)
            if len(self._known) < _MOST_KNOWN:
                self._known[kind, scope] = known
        return known


_MOST_KNOWN = 4_096


def check_action(subject: Subject, action: object) -> Action | None:
    """Return an action about a subject, or raise UsageError."""
    if action is None:
        return None
    allowed = [one for one in ACTIONS if one != "redact" or subject not in NOT_REDACTED]
    if action not in allowed:
        raise UsageError(
            f"{quote(action)} is not an action for `{subject}`",
            hint=f"Pass one of {', '.join(allowed)}",
            value=action,
            path=subject,
        )
    return action  # pyright: ignore[reportReturnType]  # it is one of the actions
