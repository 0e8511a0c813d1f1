"""A database of PostgreSQL keeps every promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
from postgres_server import PostgresServer, make_released_schema

from memoranda.store.base import Store
from memoranda.store.postgres import PostgresStore, connection, pool, store
from memoranda.testing.conformance import StoreConformance
from memoranda.testing.conformance.base import ConformanceBase
from memoranda.testing.conformance.entries import EntryLifePromises, EntryPromises
from memoranda.testing.conformance.facts import (
    ErasurePromises,
    FactPromises,
    HistoryPromises,
    SessionPromises,
)
from memoranda.testing.conformance.transfer import TransferPromises


class Stock(pool.Pool):
    """A pool that leaves its connections to the next one: a new one costs the server more than most tests."""

    left: ClassVar[list[connection.PostgresRows]] = []

    def close(self) -> None:
        self._closed = True
        self.left.extend(self._idle)
        self._idle.clear()

    def _take(self) -> connection.PostgresRows:
        if not self._closed and not self._idle and self.left:
            return self.left.pop()
        return super()._take()


@pytest.fixture(scope="module")
def stock() -> Iterator[type[Stock]]:
    yield Stock
    for rows in Stock.left:
        rows.connection.close()
    Stock.left.clear()


class TestPostgres(StoreConformance):
    backend: ClassVar = "postgres"

    @pytest.fixture
    def store(self, reopen_store: Callable[[], Store]) -> Store:
        return reopen_store()

    @pytest.fixture
    def reopen_store(self, database: str, stock: type[Stock], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Store]:
        monkeypatch.setattr(store, "Pool", stock)
        return lambda: PostgresStore(database)


class InTheOldDatabase(Stock):
    """Connections to another database than the first."""

    left: ClassVar[list[connection.PostgresRows]] = []


@pytest.fixture(scope="module")
def old_database(postgres: PostgresServer) -> Iterator[str]:
    """Return the name of a database that 0.1.0 made, so that its tables are not partitioned."""
    postgres.execute("CREATE DATABASE released")
    make_released_schema(postgres.url("released"))
    PostgresStore(postgres.url("released")).close()
    yield "released"
    for rows in InTheOldDatabase.left:
        rows.connection.close()
    InTheOldDatabase.left.clear()
    postgres.execute("DROP DATABASE released WITH (FORCE)")


class TestMigrated(
    FactPromises,
    HistoryPromises,
    ErasurePromises,
    SessionPromises,
    EntryPromises,
    EntryLifePromises,
    TransferPromises,
    ConformanceBase,
):
    """A database that 0.1.0 made keeps the promises that use every table."""

    @pytest.fixture
    def store(self, reopen_store: Callable[[], Store]) -> Store:
        return reopen_store()

    @pytest.fixture
    def reopen_store(
        self, postgres: PostgresServer, old_database: str, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Store]:
        postgres.empty(old_database)
        monkeypatch.setattr(store, "Pool", InTheOldDatabase)
        return lambda: PostgresStore(postgres.url(old_database))
