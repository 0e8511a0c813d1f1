"""What the server says of itself."""

from __future__ import annotations

import msgspec


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the process answers (`/health`), or also its store (`/ready`)."""

    status: str
    version: str
