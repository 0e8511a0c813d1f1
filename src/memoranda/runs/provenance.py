"""Where the values of a program come from: the least trusted origin among them, and the memory that was read for them.

A program writes in its own name what it computes. What a tool told it, or what it read of little trust, stays that
origin's word, also in what is made of it: a variable, an output or a step has a provenance, and an expression takes
those of everything that it mentions, whether or not it reads it this time. In doubt the lower origin counts. What a
program only decides by a value, by a condition or a branch, is its own decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from memoranda.model.context import Context
from memoranda.model.entry import Match
from memoranda.model.fact import Fact
from memoranda.model.ref import Ref
from memoranda.model.trust import OriginKind, kind_to_pass_on, lowest_kind

Path: TypeAlias = tuple[str, ...]


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a value comes from."""

    kind: OriginKind | None = None
    """The least trusted kind of origin that it is passed on from; None if it is the program's own."""
    refs: dict[str, int] = {}
    """The memory that was read for it, with the versions of facts; 0 for anything else."""

    def __bool__(self) -> bool:
        """Return whether it is anything but the program's own, made of no memory."""
        return self.kind is not None or bool(self.refs)

    def __or__(self, other: Provenance) -> Provenance:
        """Return the provenance of what is made of both."""
        if not other:
            return self
        if not self:
            return other
        return Provenance(lowest_kind(self.kind, other.kind), {**self.refs, **other.refs})


OWN = Provenance()
"""The provenance of what a program computes by itself."""


def together(parts: Iterable[Provenance]) -> Provenance:
    """Return the provenance of what is made of all of these.

    >>> together([OWN, Provenance("tool_internal"), Provenance("tool_external", {"entry:1": 0})])
    Provenance(kind='tool_external', refs={'entry:1': 0})
    """
    found = OWN
    for one in parts:
        found |= one
    return found


def provenance_of_fact(fact: Fact) -> Provenance:
    """Return the provenance of the value of a fact."""
    return Provenance(kind_to_pass_on(fact.origin), {fact.ref: fact.version})


def provenance_of_message(fact: Fact) -> Provenance:
    """Return the provenance of a message of a conversation, which is kept as a fact."""
    number = fact.key.rpartition(".")[2].lstrip("0") or "0"
    return Provenance(kind_to_pass_on(fact.origin), {str(Ref("message", fact.scope, number)): 0})


def provenance_of_matches(matches: Iterable[Match]) -> Provenance:
    """Return the provenance of what was recalled."""
    return together(Provenance(kind_to_pass_on(one.origin), {one.ref: 0}) for one in matches)


def provenance_of_context(context: Context) -> Provenance:
    """Return the provenance of what a model makes of a context."""
    return together(Provenance(kind_to_pass_on(one.origin), {one.ref: one.version}) for one in context.items)


class Provenances(dict[Path, Provenance]):
    """The provenances of named values: variables, outputs or steps, and fields of them, by their paths.

    >>> known = Provenances()
    >>> known.put(("trip", "hotel"), Provenance("tool_external"))
    >>> known.of([("trip",)]).kind, known.of([("trip", "name")]).kind
    ('tool_external', None)
    """

    __slots__ = ()

    def put(self, path: Path, provenance: Provenance) -> None:
        """Set the provenance of a value, in place of those of its fields."""
        if self:
            for one in [one for one in self if one[: len(path)] == path]:
                del self[one]
        if provenance:
            self[path] = provenance

    def of(self, paths: Iterable[Path]) -> Provenance:
        """Return the provenance of what is made of the values at some paths, of what they contain and are part of."""
        if not self:
            return OWN
        return together(
            provenance
            for path in paths
            for one, provenance in self.items()
            if one[: len(path)] == path or path[: len(one)] == one
        )

    def all(self) -> Provenance:
        """Return the provenance of what is made of all of them."""
        return together(self.values())

    def dump(self) -> list[Any]:
        """Return them as JSON."""
        return [[list(path), msgspec.to_builtins(provenance)] for path, provenance in self.items()]

    @classmethod
    def load(cls, stored: Iterable[Any]) -> Provenances:
        """Return those that were stored as JSON."""
        return cls({tuple(path): msgspec.convert(one, Provenance) for path, one in stored})
