"""Erasures as they travel."""

from __future__ import annotations

from datetime import datetime

import msgspec


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
