"""A store in a PostgreSQL database."""

from memoranda.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
