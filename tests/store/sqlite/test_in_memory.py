"""A database in memory has one connection, which readers and the writer share: a read sees only its own moment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.store.base import FactQuery, Reader, TenantState
from memoranda.store.sql import rows
from memoranda.store.sqlite import SqliteStore

MIRA = Scope.of(user="mira")
DAWN = datetime(2026, 3, 4, 6, tzinfo=UTC)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with SqliteStore(":memory:") as store:
        yield store


def put(store: SqliteStore, key: str, payload: bytes = b'"plum"') -> None:
    fact = Fact(id=f"fact_{key}", scope=MIRA, key=key, value=None, version=1, created_at=DAWN, updated_at=DAWN)
    store.transact(lambda rows: rows.put_fact(fact, payload))


def test_a_read_knows_nothing_of_the_read_before_it(store: SqliteStore):
    assert store.read(lambda rows: rows.tenant_state("default")) == TenantState(0, 0)
    store.transact(lambda rows: rows.set_tenant_state("default", TenantState(3, 2)))
    assert store.read(lambda rows: rows.tenant_state("default")) == TenantState(3, 2)


def test_a_read_inside_a_read_leaves_the_outer_one_its_iterators(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows, "FIRST_PAGE", 2)
    for number in range(5):
        put(store, f"crate_{number}")

    def keys(reader: Reader) -> list[str]:
        return [fact.key for fact in reader.facts(FactQuery(MIRA, below=True))]

    def look(reader: Reader) -> list[str]:
        found: list[str] = []
        for fact in reader.facts(FactQuery(MIRA, below=True)):
            assert fact.key in store.read(keys) and fact.key in store.read(keys, snapshot=False)
            found.append(fact.key)
        return found

    assert store.read(keys) == store.read(look) == [f"crate_{number}" for number in range(5)]


def test_an_iterator_is_taken_back_when_its_read_ends(store: SqliteStore):
    put(store, "crate")
    assert store.read(lambda rows: [fact.key for fact in rows.facts(FactQuery(MIRA, below=True))]) == ["crate"]
    left = store.read(lambda rows: rows.facts(FactQuery(MIRA, below=True)))
    with pytest.raises(RuntimeError, match="outlived"):
        next(left)


def test_after_a_read_that_failed_the_next_one_works(store: SqliteStore):
    put(store, "crate")

    def fail(_: object) -> None:
        raise LookupError("no such crate")

    with pytest.raises(LookupError):
        store.read(fail)
    found = store.read(lambda rows: rows.fact(MIRA, "crate"), snapshot=False)
    assert found is not None and found.value == "plum"
