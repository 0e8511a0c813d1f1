"""Verbs: what carries out an effect, as hooks that the gate runs.

A verb reads and writes rows through `store.base` and says what happened in notes. It neither opens a transaction nor
asks who may: the gate does both. To add one, define the effect and, below it, a function under `@verb(TheEffect)`; the
hooks that differ from the defaults are arguments of the decorator. The module has to be one of `SUBJECTS` in
`governance.gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from memoranda.engine.embedding import Derived, EmbedderBook
from memoranda.engine.indexes import IndexBook
from memoranda.engine.rejection_book import RejectionBook
from memoranda.engine.schemas import Checks, SchemaBook
from memoranda.model.clock import Ids
from memoranda.model.effect import Demand, Effect, Side, register
from memoranda.model.event import Decision, Note
from memoranda.model.limits import Limits
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin, Trust
from memoranda.store.base import Reader, Store, Transaction

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Outcome(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """What the caller gets, and what the ledger will say."""

    value: T
    notes: tuple[Note, ...] = ()


class Rules(Protocol):
    """Which stored rules decide about a caller: those granted to it, or those of its role."""

    @property
    def granted(self) -> bool:
        """Whether the grants of the actor decide."""
        ...

    @property
    def membership(self) -> Any:
        """The role of the caller, with what is its own."""
        ...

    @property
    def epoch(self) -> int | None:
        """The permission epoch under which the caller decided, if it says one."""
        ...


class Call(msgspec.Struct, frozen=True, gc=False):
    """What a verb is given beside its effect: the moment, who asks, and the parts of the engine."""

    now: datetime
    origin: Origin
    tenant: str | None
    """The tenant that the caller is confined to; None for the owner."""
    ids: Ids
    limits: Limits
    schemas: SchemaBook
    embedders: EmbedderBook
    indexes: IndexBook
    rejections: RejectionBook
    checks: Checks
    """The checks of values by their definitions, as far as they were done before the transaction began."""
    keep_text: bool = False
    """Whether the ledger stores contents beside their hashes."""
    decision: Decision = "allow"
    """`approved` for an effect that waited; the ledger says so."""
    derived: Derived = Derived()
    """The words and vectors of the effect's texts, made before the transaction began."""
    seen: Outcome[Any] | None = None
    """What an approved read found before the transaction began."""
    found: Any = None
    """What the preparation of a write found in the rows."""
    findings: tuple[str, ...] = ()
    """What the guard found in the effect and redacted or let through."""
    authority: Trust = "high"
    """What the caller may replace: memory of at most this trust."""
    omits: bool = True
    """Whether what is deleted is left out of prompts, too; a verb that ends more than a fact sees to that itself."""
    rules: Rules | None = None
    """Which stored rules decide about the caller."""
    emptied: list[str | None] = []
    """The paths of scopes from which memory was removed and not replaced, None for a whole tenant: after the commit,
    their segments are removed."""
    may: Callable[[Reader, Demand], bool] = lambda rows, demand: True
    """Return whether the caller has a capability at a place, for verbs that show less to some callers."""


MayRead = Callable[[str], bool]
"""Says whether a key may be read."""


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """Long work that is done before the transaction, while nothing is locked."""

    prepare: Callable[[Store, Any, Any, Call], Call]
    """Do the work: `prepare(store, effect, found, call)` returns the call that the transaction gets."""
    inquire: Callable[[Any, Any, Call], Any] = lambda rows, effect, call: ()
    """Read what `prepare` has to know, and raise what is wrong with the effect; None where nothing is to be done."""
    needs_one_row: Callable[[Any, Call], bool] = lambda effect, call: False
    """Whether `inquire` asks for a single row, which needs no snapshot."""
    busy: str = ""
    """Why callers who must not wait are refused; empty where they are not."""


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A result that is too large to have at once."""

    parts: Callable[[Reader, Any, Call, MayRead | None], Iterator[Any]]
    """Yield the parts that the caller may read."""
    note: Callable[[Any, Iterable[Any]], Note]
    """Return what the ledger says about an effect with these parts."""


def _read_all(look: Callable[[Any], Outcome[Any]], effect: Any, may_read: MayRead) -> Outcome[Any]:
    return look(effect)


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of effect is carried out. All hooks but `perform` have defaults."""

    perform: Callable[[Any, Any, Call], Outcome[Any]]
    """`perform(rows, effect, call)`: a write in its transaction, a read on one moment of the store."""

    # before a write

    preparation: Preparation | None = None
    admit: Callable[[Reader, Any, Call], None] | None = None
    """Raise `Refused` before anything is written; the refusal is recorded."""
    touches: Callable[[Reader, Any, Call], Iterable[Demand]] | None = None
    """Return what the effect needs at the places that it finds in the rows, in place of what it demands by itself."""
    can_wait: bool = True
    """Whether the effect may wait for approval; if not, a policy that asks for approval denies it."""

    # writes

    within: Callable[[Any], Sequence[Scope] | None] = lambda effect: None
    """Return the scopes that the effect reads and writes, which others may not change meanwhile; None for the tenant.

    Rules of the tenant, such as grants, definitions, collections and ended scopes, do not change meanwhile anyway.
    """
    find_replay: Callable[[Transaction, Any], Any] | None = None
    """Return the result of the same request under the same idempotency key; None for the first one."""
    keep_replay: Callable[[Transaction, Any, Any, Call], None] | None = None
    """Keep the result for `find_replay`."""
    held_result: Callable[[Any, str], Any] | None = None
    """Return the result of an effect that is held for review under an id; without it, `Held` is raised."""
    sides: Callable[[Reader, Any, Call], Iterable[Side]] = lambda rows, effect, call: effect.sides()
    """Return what the effect would change, by place, for those who decide about it."""
    after_commit: Callable[[Store, Any, Any], Any] | None = None
    """`after_commit(store, effect, value)` returns the value that the caller gets."""

    # reads

    reads_often: bool = False
    """Whether a read takes several short looks: `perform` gets the store in place of rows."""
    needs_snapshot: Callable[[Any], bool] = lambda effect: True
    """Whether the rows of a read are those of one moment; a single query has no need of that."""
    read_filtered: Callable[[Callable[[Any], Outcome[Any]], Any, MayRead], Outcome[Any]] = _read_all
    """Read for a caller who may not read every key: `read_filtered(look, effect, may_read)`, by calls of `look`."""
    needs_chain: bool = False
    """Whether a read waits until every event that was committed is chained."""
    is_recorded_first: bool = False
    """Whether the notes of a read are in the ledger before its result is handed out."""
    stream: Stream | None = None


def within_scope(effect: Effect) -> tuple[Scope, ...]:
    """Return the scope of an effect that reads and writes nothing elsewhere."""
    return (effect.scope,)


def filter_by_key(look: Callable[[Any], Outcome[list[Any]]], effect: Any, may_read: MayRead) -> Outcome[list[Any]]:
    """Leave out the items of a list whose key the caller may not read."""
    outcome = look(effect)
    return Outcome([item for item in outcome.value if may_read(item.key)], outcome.notes)


VERBS: dict[type[Effect], Verb] = {}
"""Every effect and its verb, once `governance.gate` is imported."""


def verb(kind: type[Effect], **hooks: Any) -> Callable[[F], F]:
    """Make the decorated function the verb of a kind of effects, with these hooks of `Verb`."""

    def add(perform: F) -> F:
        register(kind)
        VERBS[kind] = Verb(perform=perform, **hooks)
        return perform

    return add
