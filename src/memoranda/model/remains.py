"""Where removed content can still be read, by someone with access to the files of a store."""

from __future__ import annotations

from typing import Literal

import msgspec

Trace = Literal["gone", "remains", "untested"]
"""`remains`: it is there until something else is written over it. `untested`: it may be there or not."""


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """What an erasure left of the content that it removed, place by place."""

    rows: Trace = "gone"
    """Rows that a query can find."""
    dead_rows: Trace = "gone"
    """Rows that no query finds, and that are in the pages as they were."""
    index_entries: Trace = "gone"
    """What the indexes of the database had of the rows: keys, ids and digests."""
    free_space: Trace = "gone"
    """Free space of pages and files, where bytes stay until something is written over them."""
    log: Trace = "gone"
    """The write-ahead log of the database."""
    copies: Trace = "untested"
    """Standbys, archived logs, backups, exports, snapshots of disks: nothing outside of the database is looked at."""
    reason: str | None = None
    """Why less is gone than could be, with what to do."""

    @property
    def scrubbed(self) -> bool:
        """Whether no byte of the tables has it."""
        return {self.rows, self.dead_rows, self.index_entries, self.free_space} == {"gone"}
