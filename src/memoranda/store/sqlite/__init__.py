"""A store in a SQLite file."""

from memoranda.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
