"""The moment and the ids of one turn: the same for all of it, and the same again when it is replayed."""

from __future__ import annotations

import hashlib
from datetime import datetime


class TurnClock:
    """A clock that stands still for a turn, so that the whole turn happens at one moment."""

    def __init__(self, moment: datetime) -> None:
        """Show a moment."""
        self._moment = moment

    def now(self) -> datetime:
        """Return the moment of the turn."""
        return self._moment


class TurnIds:
    """Ids that are the same when a turn is done again."""

    def __init__(self, session: str, number: int) -> None:
        """Make the ids of one turn of a session."""
        self._seed = f"{session}:{number}"
        self._made = 0

    def new(self, kind: str) -> str:
        """Return the next id of this turn."""
        self._made += 1
        text = f"{self._seed}:{self._made}"
        return f"{kind}_{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
