"""A database of PostgreSQL keeps every promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from memoranda.store.base import Store
from memoranda.store.postgres import PostgresStore, connection, store
from memoranda.testing.conformance import StoreConformance


class Stock(connection.Pool):
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
