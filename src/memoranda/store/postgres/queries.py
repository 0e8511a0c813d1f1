"""The statements of this store, by name."""

from __future__ import annotations

from pathlib import Path

from memoranda.store.sql.queries import read_queries

HERE = Path(__file__).parent
"""Where our SQL files are."""

SQL = {name: text.encode() for name, text in read_queries(HERE).items()}
"""Every statement, read once: `SQL["get_fact"]`. Bytes: the driver takes no text that a program put together."""
