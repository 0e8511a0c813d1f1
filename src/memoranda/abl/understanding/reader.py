"""The protocol by which the runtime reads what a user said."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from memoranda.abl.understanding.fields import FieldSpec, Intent


class Reader(Protocol):
    """Finds values, corrections and intents in the user's words.

    `RuleReader` is the default. An implementation that asks a model can take its place: the runtime uses nothing else.
    """

    def find(self, fields: Sequence[FieldSpec], text: str, *, now: datetime) -> dict[str, Any]:
        """Return the values that a text gives to fields, by name; fields that it does not mention are left out."""
        ...

    def find_corrections(
        self, fields: Sequence[FieldSpec], text: str, *, now: datetime, missing: FieldSpec | None = None
    ) -> dict[str, Any]:
        """Return new values for fields that have one already; empty if the text corrects none of them.

        `missing` is the field that the user is being asked for: a text that may answer it corrects nothing.
        """
        ...

    def find_intent(self, intents: Sequence[Intent], text: str) -> int | None:
        """Return the position of the intent that a text expresses, or None."""
        ...
