"""The address of a database in, what the driver is told out."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from memoranda.errors import UsageError
from memoranda.store.sql.addresses import without_secrets

Durability = Literal["full", "normal"]

# Half a minute without an answer, and three questions in vain: the other side is gone.
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the connections of one store are opened, and how its transactions begin."""

    url: str
    """The address as it may be shown."""
    parameters: dict[str, Any]
    durability: Durability
    busy_timeout: float


def read_address(url: str, *, durability: Durability, busy_timeout: float) -> Settings:
    """Return the settings that an address stands for; what it says beats what is usual here."""
    shown = without_secrets(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Not what the driver says about it, nor the driver's error beneath: both may quote a part of a password.
        raise UsageError(
            f"`{shown}` is not an address of PostgreSQL",
            hint="Write postgresql://user@host:5432/database; in a password, write special characters as %40",
        ) from None
    usual: dict[str, Any] = {"connect_timeout": max(2, math.ceil(busy_timeout)), **_ALIVE}
    fixed = {"client_encoding": "UTF8", "fallback_application_name": "memoranda"}
    return Settings(url=shown, parameters={**usual, **given, **fixed}, durability=durability, busy_timeout=busy_timeout)
