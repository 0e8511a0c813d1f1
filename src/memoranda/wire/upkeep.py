"""Erasures, sweeps, imports and the ends of scopes as they travel."""

from __future__ import annotations

from datetime import datetime

import msgspec

from memoranda.model.transfer import Imported as Imported


class Erase(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whose memory is to be removed; at least one of the ids, and together they name one scope."""

    user: str | None = None
    project: str | None = None
    tree: str | None = None
    agent: str | None = None
    workflow: str | None = None
    thread: str | None = None
    run: str | None = None
    session: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, by kind, and where the ledger says so."""

    id: str
    tenant: str
    scope: str
    at: datetime
    removed: dict[str, int]
    position: int
    scrubbed: bool


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep removed, by kind."""

    facts: int = 0
    revisions: int = 0
    entries: int = 0
    idempotency_keys: int = 0
    records: dict[str, int] = {}
    """How many of the facts were records, by the slug of their definition."""


class EndScope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session, run or tree below the caller, such as `session:s1`, that is over."""

    scope: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What went with a scope that ended, by kind."""

    removed: dict[str, int]
