"""Leak probes: where a text is left."""

from __future__ import annotations

from memoranda.model.result import Result


class LeakProbes(Result, frozen=True, kw_only=True):
    """Where a text is left: True, False, or None for a place that was not tested."""

    facts: bool | None = None
    blocks: bool | None = None
    entries: bool | None = None
    statements: bool | None = None
    messages: bool | None = None
    """Messages that were learned, and those of chats below the scope."""
    history: bool | None = None
    """Earlier values of facts and blocks, and entries that ended: what recall as of an earlier moment finds."""
    approvals: bool | None = None
    """Writes that wait for a decision."""
    idempotency_keys: bool | None = None
    """They hold hashes of requests, and where results are."""
    ledger: bool | None = None
    """Texts that the ledger keeps."""
    words: bool | None = None
    """Whether recall finds it by its words."""
    vectors: bool | None = None
    """Whether it is among the nearest neighbours of its text."""
    prompts: bool | None = None
    """Whether the core block or what recall adds to the prompts of a conversation contains it."""
    database_bytes: bool | None = None
    """Whether the pages of the database contain it, those included that are free."""
    caches: bool | None = None
    exports: bool | None = None
    """Files outside; Memoranda keeps none."""
    backups: bool | None = None

    @property
    def found(self) -> tuple[str, ...]:
        """The places where it is left."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is True)

    @property
    def untested(self) -> tuple[str, ...]:
        """The places that were not tested."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is None)
