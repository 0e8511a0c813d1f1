"""Read the durability settings of a connection; they belong to the connection, so it has to be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import memoranda

_CHECKED = ("journal_mode", "synchronous", "wal_autocheckpoint", "page_size", "cache_size")


def read_settings(ask: Callable[[str], Any]) -> dict[str, Any]:
    """Return what a connection says about how it keeps data."""
    return {name: ask(name) for name in _CHECKED}


def settings_of_ours(memory: memoranda.Memory) -> dict[str, Any]:
    """Return the settings of the connection that writes."""
    writer = memory._gate._store._writer  # no door leads there, and none should
    return writer.run_alone(lambda connection: read_settings(connection.pragma))


def settings_of(connection: Any) -> dict[str, Any]:
    """Return the settings of a peer's connection."""
    return read_settings(lambda name: connection.execute(f"PRAGMA {name}").fetchone()[0])
