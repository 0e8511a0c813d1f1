"""Memory blocks as they travel. A block and a match are sent as the model has them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from memoranda.model.block import MOST_MATCHES, check_lines
from memoranda.model.block import Block as Block
from memoranda.model.block import BlockMatch as BlockMatch
from memoranda.model.block import BlockScope as BlockScope
from memoranda.model.block import BlockType as BlockType
from memoranda.wire.bounds import between

Limit = Annotated[int, between(1, MOST_MATCHES)]


class UpdateBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a block is to hold, and the stamp it must still have: null only for a block that does not exist yet.

    The stamp has to be there, unless the header `If-Match` or `If-None-Match: *` says the same.
    """

    content: str
    expected_updated_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    source: str | None = None
    """Where the text comes from; kept in the history."""


class UndoBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The stamp of the block whose newest text is taken back, null for one that was deleted."""

    expected_updated_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


class RecallBlocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the archives: the user's, and with an `agent_id` that agent's as well."""

    query: str
    agent_id: str | None = None
    limit: Limit = 10
    min_score: float | None = None

    def __post_init__(self) -> None:
        """Refuse a number of lines that cannot be asked for, in the words of the engine."""
        check_lines(self.limit)
