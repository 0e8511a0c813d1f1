"""API keys as they travel: what is known of them, and a new one, which is shown once."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

Role = Literal["admin", "member", "reader"]
"""What a key may do, at most."""


class CreateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom a key is for, and how far it reaches."""

    user: str
    role: Role = "member"
    allow: list[str] = []
    """Capabilities that it is narrowed to; without any it may do what its role may."""
    expires: str | int | None = None
    """How long it is to last: `90d`, or seconds."""
    label: str = ""


class RotateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the old key still works beside the new one; without it, it ends now."""

    grace: str | int | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a key; the key itself was shown once and is kept nowhere."""

    id: str
    tenant: str
    user: str
    role: Role
    allow: list[str] = []
    label: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """When it was last used, to the hour."""


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made: its token, which cannot be shown again, and what is known about it."""

    token: str
    key: Key

    def __repr__(self) -> str:
        """Return what is known about the key; the token is left out, since a `repr` ends up in logs."""
        return f"NewKey(token=…, key={self.key!r})"


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys, oldest first, those that were revoked too."""

    keys: list[Key]
    next: str | None = None
