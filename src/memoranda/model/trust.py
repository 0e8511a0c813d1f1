"""Where a memory came from, and how far it is trusted.

The door that a write comes through says both: no argument of a write does. What is derived from other memories is never
trusted more than the least of them.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from memoranda.errors import UsageError
from memoranda.model.text import choice_fault, quote

OWNER_ACTOR = "owner"
"""The actor who opened the database itself. It needs no grant, so none can be given to it."""

OriginKind = Literal["user", "assistant", "agent", "tool_internal", "tool_external", "import", "unknown"]
ORIGIN_KINDS: tuple[OriginKind, ...] = get_args(OriginKind)
"""What wrote: a user or the program that acts for one, a model, a program of the operator, a tool of the operator, a
tool or text from elsewhere, a file, or something unknown."""

Trust = Literal["untrusted", "low", "medium", "high"]
TRUSTS: tuple[Trust, ...] = get_args(Trust)
"""In ascending order."""

TRUST_OF: dict[OriginKind, Trust] = {
    "user": "high",
    "assistant": "medium",
    "agent": "medium",
    "tool_internal": "medium",
    "tool_external": "low",
    "import": "low",
    "unknown": "untrusted",
}
"""How far each kind of origin is trusted by itself."""

_LOWERED: tuple[OriginKind, ...] = ("user", "agent", "assistant", "tool_internal", "tool_external", "import", "unknown")
"""What may speak for what: an origin passes on those after it, and never those before it."""

RANK_OF: dict[Trust, int] = {trust: rank for rank, trust in enumerate(TRUSTS)}
"""The number that stores keep for a trust."""

_KIND_OF_ACTOR: dict[str, OriginKind] = {"tool": "tool_external", "agent": "agent", "machine": "agent"}


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Who wrote, through which door, from which source, what kind of origin that is, and how far it is trusted."""

    actor: str = OWNER_ACTOR
    door: str = "python"
    source: str | None = None
    kind: OriginKind = "user"
    trust: Trust = "high"

    def with_source(self, source: str | None) -> Origin:
        """Return this origin with a source, if one is given."""
        return self if source is None else msgspec.structs.replace(self, source=source)

    def from_kind(self, kind: OriginKind) -> Origin:
        """Return the origin of something that this one only passes on; it stays itself where that would raise it."""
        kind = lower_kind(self.kind, kind)
        if kind == self.kind:
            return self
        return msgspec.structs.replace(self, kind=kind, trust=lowest(self.trust, TRUST_OF[kind]))

    def at_most(self, trust: Trust) -> Origin:
        """Return this origin with at most this trust."""
        return self if is_at_least(trust, self.trust) else msgspec.structs.replace(self, trust=trust)


TRUSTED = Origin()
"""The origin of what is fully trusted, where it does not matter who wrote it."""


Voice = tuple[str, str]
"""An independent origin: an actor with its source or, of one that is not fully trusted, with its kind."""


def independent_origin(origin: Origin) -> Voice:
    """Return what two independent origins differ in.

    A source is text that the writer chose, so it tells origins apart only for writers who are fully trusted.

    >>> independent_origin(Origin("tool:web", source="a", kind="tool_external", trust="low"))
    ('tool:web', 'tool_external')
    """
    return origin.actor, (origin.source or "") if origin.trust == "high" else origin.kind


def origin_for_index(origin: Origin) -> tuple[str, ...]:
    """Return what is bounded together: all of a writer or, if that is fully trusted, of a source; empty without one."""
    if origin.trust != "high":
        return independent_origin(origin)
    return () if origin.source is None else (origin.source,)


def is_at_least(trust: Trust, minimum: Trust) -> bool:
    """Return whether a trust reaches a minimum.

    >>> is_at_least("medium", "low"), is_at_least("low", "medium")
    (True, False)
    """
    return RANK_OF[trust] >= RANK_OF[minimum]


def lowest(*trusts: Trust) -> Trust:
    """Return the lowest of some trusts.

    >>> lowest("high", "low", "medium")
    'low'
    """
    return min(trusts, key=RANK_OF.__getitem__)


def lower_kind(own: OriginKind, kind: OriginKind) -> OriginKind:
    """Return the kind of what an origin passes on: the lower of its own and that one.

    A model that says that the user said something is still a model.

    >>> lower_kind("assistant", "tool_external"), lower_kind("assistant", "user")
    ('tool_external', 'assistant')
    """
    return own if _LOWERED.index(own) >= _LOWERED.index(kind) else kind


def kind_to_pass_on(origin: Origin) -> OriginKind | None:
    """Return as what a program passes on something of this origin; None if it may say it in its own name.

    >>> kind_to_pass_on(Origin()), kind_to_pass_on(Origin(kind="tool_external", trust="low"))
    (None, 'tool_external')
    """
    if is_at_least(origin.trust, "medium"):
        return origin.kind if origin.kind == "tool_internal" else None
    if TRUST_OF[origin.kind] == origin.trust:
        return origin.kind
    return "tool_external" if origin.trust == "low" else "unknown"


def lowest_kind(*kinds: OriginKind | None) -> OriginKind | None:
    """Return the lowest of some kinds that are passed on; None if all of them are the program's own.

    >>> lowest_kind(None, "tool_internal", "tool_external"), lowest_kind(None, None)
    ('tool_external', None)
    """
    given = [kind for kind in kinds if kind is not None]
    return _LOWERED[max(map(_LOWERED.index, given))] if given else None


def kind_of_actor(actor: str) -> OriginKind:
    """Return what kind of origin an actor is, by the first part of its name.

    >>> kind_of_actor("tool:web"), kind_of_actor("agent:mail"), kind_of_actor("user:ada")
    ('tool_external', 'agent', 'user')
    """
    return _KIND_OF_ACTOR.get(actor.partition(":")[0] if ":" in actor else "", "user")


def check_origin(origin: object) -> OriginKind:
    """Return a kind of origin, or raise UsageError."""
    if origin not in ORIGIN_KINDS:
        raise UsageError(
            f"{quote(origin)} is not a kind of origin", hint=_choices(origin, ORIGIN_KINDS), value=origin, path="origin"
        )
    return origin


def check_trust(trust: object, path: str = "min_trust") -> Trust:
    """Return a trust, or raise UsageError."""
    if trust not in TRUSTS:
        raise UsageError(f"{quote(trust)} is not a trust", hint=_choices(trust, TRUSTS), value=trust, path=path)
    return trust


def _choices(given: object, choices: tuple[str, ...]) -> str:
    fault = choice_fault(given, choices)
    return f"It {fault}"
