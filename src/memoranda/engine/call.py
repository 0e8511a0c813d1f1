"""What a verb is given beside its effect, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from memoranda.engine.deriving import Derived
from memoranda.engine.embedders import EmbedderBook
from memoranda.engine.indexes import IndexBook
from memoranda.engine.schemas import Checks, SchemaBook
from memoranda.model.event import Note
from memoranda.model.fact import Origin
from memoranda.model.ids import Ids
from memoranda.model.limits import Limits

T = TypeVar("T")

_TICK = timedelta(microseconds=1)


class Call(msgspec.Struct, frozen=True, gc=False):
    """The moment, who asks, and the engine's own parts."""

    now: datetime
    origin: Origin
    ids: Ids
    limits: Limits
    schemas: SchemaBook
    embedders: EmbedderBook
    indexes: IndexBook
    checks: Checks
    """The checks of values by their definitions, as far as they were done before the transaction began."""
    derived: Derived = Derived()
    """The words and vectors of the effect's texts, made before the transaction began."""

    def origin_from(self, source: str | None) -> Origin:
        """Return who asks, with the source that an effect names; without one, with the caller's own."""
        return self.origin if source is None else Origin(self.origin.actor, self.origin.door, source)

    def after(self, moment: datetime | None) -> datetime:
        """Return now, or one tick after the moment where the clock has gone backwards or stood still."""
        return self.now if moment is None or self.now > moment else moment + _TICK


class Outcome(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """What the caller gets, and what the ledger will say."""

    value: T
    notes: tuple[Note, ...] = ()


Verb = Callable[[Any, Any, Call], Outcome[Any]]
