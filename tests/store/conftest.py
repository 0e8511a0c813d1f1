"""Fixtures for stores: events to append."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
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


UNPARTITIONED = migration.SCHEMA.replace(" PARTITION BY HASH (tenant)", "")
"""The schema as databases have it that are older than partitions, once they are migrated."""


@pytest.fixture
def unpartitioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new databases have the tables of older ones."""
    monkeypatch.setattr(migration, "SCHEMA", UNPARTITIONED)
