"""The store in a PostgreSQL database."""

from recollect.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
