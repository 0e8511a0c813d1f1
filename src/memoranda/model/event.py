"""One line of the ledger, and the hash that chains it to the line before."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Literal

import msgspec

from memoranda.model.value import canonical

GENESIS = "sha256:" + "0" * 64
"""What the first event of a chain names as its predecessor."""

Decision = Literal["allow", "deny", "pending", "approved", "refused"]


class Note(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a verb says happened, before the ledger gives it a place in the chain."""

    effect: str
    scope: str = ""
    key: str | None = None
    resource: str | None = None
    version: int | None = None
    payload: bytes | None = None
    """The content as JSON; the ledger keeps its keyed hash, and the text only when asked to."""
    detail: dict[str, Any] = {}
    decision: Decision | None = None
    """What was decided, where it is not what the gate decided about the whole effect."""


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One thing that happened: who, through which door, what, to which memory, and whether it was allowed.

    `content` is a keyed hash of the value. `text`, when the ledger keeps it, stands outside the hash chain,
    so that erasing it later leaves the chain whole. These two alone have defaults: what is left out is not hashed.
    """

    tenant: str
    position: int
    at: datetime
    actor: str
    door: str
    effect: str
    decision: Decision
    scope: str
    key: str | None
    resource: str | None
    version: int | None
    content: str | None
    epoch: int
    """How often the tenant's permissions had changed by then."""
    detail: dict[str, Any]
    prev_hash: str
    hash: str = ""
    text: Any = None


def hash_event(event: Event) -> str:
    """Return the hash an event must carry: SHA-256 over the canonical JSON of all it says and its predecessor."""
    return hash_body(event_body(event))


def hash_body(body: bytes) -> str:
    """Return the hash of an event's canonical JSON."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def event_body(event: Event) -> bytes:
    """Return the canonical JSON that is hashed and stored: every field but `hash` and `text`."""
    if event.hash or event.text is not None:
        event = msgspec.structs.replace(event, hash="", text=None)
    return canonical(event)


def keyed_hash(key: bytes, payload: bytes) -> str:
    """Return a hash of content that nobody can guess at without the key; the key goes when its subject is erased."""
    return "blake2b:" + hashlib.blake2b(payload, key=key, digest_size=32).hexdigest()


class Anchor(msgspec.Struct, frozen=True):
    """The length and head of a chain at one moment, to be kept elsewhere: what catches a cut-off tail."""

    length: int
    head: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a chain is whole; if not, the first bad position and why."""

    ok: bool
    length: int
    head: str
    position: int | None = None
    reason: str = ""
