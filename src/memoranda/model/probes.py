"""What is left of removed content: in the files of a store, and wherever a probe looks for a text."""

from __future__ import annotations

from typing import Literal

import msgspec

from memoranda.model.result import Result


class LeakProbes(Result, frozen=True, kw_only=True):
    """Where a text is left: True, False, or None for a place that was not tested."""

    facts: bool | None = None
    """Facts and records, and their keys."""
    blocks: bool | None = None
    """Memory blocks, and what is known of their learned lines."""
    entries: bool | None = None
    statements: bool | None = None
    messages: bool | None = None
    """Messages that were learned."""
    conversations: bool | None = None
    """Chats and conversations with workflows as they are stored: what was said stays as it was said."""
    sessions: bool | None = None
    """Sessions of agents: their variables, their turns, and results of their tools."""
    runs: bool | None = None
    """Runs of machines and workflows: their input, journal and output."""
    steps: bool | None = None
    """Step records of runs and sessions."""
    programs: bool | None = None
    """Stored texts of programs."""
    jobs: bool | None = None
    """Sleep-time jobs, and messages that have to be read again."""
    history: bool | None = None
    """Earlier values of facts and blocks, and entries that ended: what recall as of an earlier moment finds."""
    approvals: bool | None = None
    """Effects that wait for a decision, or were decided."""
    conflicts: bool | None = None
    """Writes that contradict something more trusted."""
    quarantine: bool | None = None
    """Writes that the guard holds, or held."""
    rejections: bool | None = None
    """The reasons of rejections; their values are kept as hashes."""
    definitions: bool | None = None
    """Names, labels and schemas, of the whole tenant; None without the right to read them."""
    idempotency_keys: bool | None = None
    """They hold hashes of requests, and where results are."""
    ledger: bool | None = None
    """Events, and the texts that the ledger keeps."""
    words: bool | None = None
    """Whether recall finds it by its words."""
    vectors: bool | None = None
    """Whether it is among the nearest neighbours of its text."""
    prompts: bool | None = None
    """Whether it would be in a prompt: in the core block, in what recall adds, or in what an open conversation, session
    or run passes on from before."""
    database_bytes: bool | None = None
    """Whether the pages of the database contain it, those included that are free."""
    caches: bool | None = None
    """The indexes and entries that this process holds in memory, those of facts and lines included."""
    segments: bool | None = None
    """Indexes in the cache folder of this host."""
    portions: bool | None = None
    """Indexes of large collections in the database."""
    exports: bool | None = None
    backups: bool | None = None
    other_processes: bool | None = None
    """What other processes, and the caches of the operating system, hold in memory."""
    absent: tuple[str, ...] = ()
    """Places that are False because they do not exist here, such as exports: they are sent and not kept."""

    @property
    def places(self) -> dict[str, bool | None]:
        """Every place, and whether it is left there."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "absent"}

    @property
    def found(self) -> tuple[str, ...]:
        """The places where it is left."""
        return tuple(name for name, state in self.places.items() if state is True)

    @property
    def untested(self) -> tuple[str, ...]:
        """The places that were not tested."""
        return tuple(name for name, state in self.places.items() if state is None)


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
