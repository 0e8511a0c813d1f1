"""Lineage: what a memory was made of, and what was made of it; and what is done about memory that is not trusted."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from memoranda.model.result import Result
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, Trust


class Relative(Result, frozen=True, kw_only=True):
    """A source or a descendant of a memory."""

    _columns: ClassVar[tuple[str, ...]] = ("ref", "trust", "current", "of")
    ref: str
    version: int = 0
    """That of a fact; 0 of anything else."""
    of: tuple[str, ...] = ()
    """A source: what was derived from it. A descendant: what it was derived from."""
    trust: Trust | None = None
    """None if nothing is left of it."""
    origin: Origin | None = None
    current: bool = False
    """Whether it is what its ref names now."""


class Lineage(Result, frozen=True, kw_only=True):
    """What a memory was derived from, and what was derived from it, directly and further away."""

    ref: str
    trust: Trust
    origin: Origin
    sources: tuple[Relative, ...] = ()
    descendants: tuple[Relative, ...] = ()
    hidden: int = 0
    """Relatives that the caller may not read."""


class Validated(Result, frozen=True, kw_only=True):
    """How far something is trusted after a validation, and how far it was before."""

    ref: str
    trust: Trust
    before: Trust


class Served(Result, frozen=True, kw_only=True):
    """A recall, or a prompt, that gave someone tainted memory."""

    _columns: ClassVar[tuple[str, ...]] = ("position", "at", "actor", "effect", "to", "refs")
    position: int
    """That of its event in the ledger."""
    at: datetime
    actor: str
    effect: str
    scope: str
    refs: tuple[str, ...]
    """The tainted memory that it served."""
    to: str = ""
    """The run, session or conversation whose model was given it: `run:…`, `session:…`, `conversation:…`."""


class Tainted(msgspec.Struct, frozen=True, kw_only=True):
    """What a taint found, and what it ended."""

    refs: tuple[str, ...] = ()
    """What was tainted itself, also where something else is in its place now."""
    descendants: tuple[str, ...] = ()
    """What was derived from it."""
    served: tuple[Served, ...] = ()
    ended: tuple[str, ...] = ()
    """What was current, and is quarantined now."""
    undo: str | None = None
    """What `undo` takes to bring it back; None where nothing was ended."""
    dry_run: bool = False

    def __bool__(self) -> bool:
        """Return whether anything was found."""
        return bool(self.refs)


class Deletion(Result, frozen=True, kw_only=True):
    """A deletion, as the ledger has it."""

    _columns: ClassVar[tuple[str, ...]] = ("position", "at", "actor", "effect", "scope", "key", "resource")
    position: int
    at: datetime
    actor: str
    effect: str
    scope: Scope
    key: str | None
    resource: str | None
    version: int | None
    epoch: int


class Rollback(Result, frozen=True, kw_only=True):
    """A rollback, as the ledger has it: what it undid, and what had depended on that."""

    _columns: ClassVar[tuple[str, ...]] = ("position", "at", "actor", "scope", "undid")
    position: int
    at: datetime
    actor: str
    scope: Scope
    undid: tuple[int, ...]
    """The positions of the events that it undid."""
    refs: tuple[str, ...] = ()
    """What was rolled back."""
    dependants: tuple[Served, ...] = ()
    """The recalls and contexts that were given the state between."""
    derived: tuple[str, ...] = ()
    """What was derived from that state."""
    epoch: int = 0
