"""What a verb is given beside its effect, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from recollect.engine.schemas import SchemaBook
from recollect.model.event import Note
from recollect.model.fact import Origin
from recollect.model.ids import Ids
from recollect.model.limits import Limits

T = TypeVar("T")

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Call:
    """The moment, who asks, and the engine's own parts."""

    now: datetime
    origin: Origin
    ids: Ids
    limits: Limits
    schemas: SchemaBook

    def after(self, moment: datetime | None) -> datetime:
        """Return now, or one tick after the moment where the clock has gone backwards or stood still."""
        return self.now if moment is None or self.now > moment else moment + _TICK


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What the caller gets, and what the ledger will say."""

    value: T
    notes: tuple[Note, ...] = ()


Verb = Callable[[Any, Any, Call], Outcome[Any]]
