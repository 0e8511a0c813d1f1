"""The statements of this store, by name."""

from __future__ import annotations

from pathlib import Path

from memoranda.store.sql.queries import read_queries

HERE = Path(__file__).parent
"""Where our SQL files are. A path, because `importlib.resources` alone takes as long to import as the whole store."""

SQL = read_queries(HERE)
"""Every statement, read once: `SQL["get_fact"]`."""
