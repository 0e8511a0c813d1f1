"""The lines of an export, and the result of importing them."""

from __future__ import annotations

from typing import Any

import msgspec

from memoranda.model.clock import Moment
from memoranda.model.trust import Trust


class ImportedFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact as a file gives it."""

    scope: str
    key: str
    payload: msgspec.Raw
    updated_at: Moment
    expires_at: Moment | None = None
    domain: str | None = None
    trust: Trust = "medium"
    """How far it was trusted where it was exported: only an import of the owner believes it."""


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose a session is, as a file gives it."""

    scope: str
    owner: str


class ImportedDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition as a file gives it."""

    id: str
    name: str
    slug: str
    scope: str
    ttl: int | None = None
    schema: dict[str, Any]


class ImportedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry as a file gives it."""

    scope: str
    collection: str
    namespace: str = ""
    key: str | None = None
    payload: msgspec.Raw
    metadata: msgspec.Raw
    created_at: Moment
    expires_at: Moment | None = None
    trust: Trust = "medium"


class ImportedRejection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rejection as a file gives it: hashes, never the value."""

    id: str
    scope: str
    key: str | None = None
    at: Moment
    actor: str
    reason: str = ""
    salt: str
    """In hexadecimal digits, like the digests."""
    digests: tuple[str, ...]


class ImportRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file that was not imported: where it belongs, and why it was refused."""

    scope: str
    key: str | None = None
    """The key of a fact; None for an entry or a session."""
    reason: str


MAX_REFUSALS = 100
"""Refusals that an import lists; `refused` counts all of them."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did: written, and why the rest was left alone."""

    written: int = 0
    kept: int = 0
    """Facts that were changed or deleted here later than in the file."""
    erased: int = 0
    """Facts of subjects that were erased since the file was made: they stay erased."""
    ended: int = 0
    """Facts of sessions that are over."""
    expired: int = 0
    definitions: int = 0
    remembered: int = 0
    """Entries that were written; existing, erased and ended ones are not counted."""
    rejections: int = 0
    """Rejections that were not known here."""
    refused: int = 0
    """Lines that only the runtime writes: runs, sessions of agents, and the texts of programs; and values that were
    rejected."""
    held: tuple[str, ...] = ()
    """Lines that wait for a decision."""
    findings: tuple[str, ...] = ()
    """What was found and redacted or let through, by kind and rule."""
    refusals: tuple[ImportRefusal, ...] = ()
    """Which lines were refused and why, the first 100 of them."""
