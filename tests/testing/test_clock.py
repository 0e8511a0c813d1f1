"""The fake clock does not advance until it is moved, and fake ids count up."""

from __future__ import annotations

import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from memoranda.model.clock import Clock, Ids, SystemIds
from memoranda.testing import CountingIds, FakeClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_clock_stands_still_until_it_is_moved():
    clock: Clock = FakeClock(NOON)
    assert clock.now() == clock.now() == NOON
    assert FakeClock().now() == FakeClock().now()


def test_the_clock_moves_forwards_and_backwards():
    clock = FakeClock(NOON)
    clock.advance(0.000001)
    assert clock.now() == NOON + timedelta(microseconds=1)
    clock.advance(-3600)
    assert clock.now() < NOON
    clock.set(NOON)
    assert clock.now() == NOON


def test_moments_come_out_in_utc():
    clock = FakeClock(datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now() == NOON and clock.now().tzinfo is UTC
    clock.set(datetime(2026, 3, 1, 12))
    assert clock.now() == NOON and clock.now().tzinfo is UTC


@pytest.fixture
def hectic():
    """Let threads take turns as often as they can, so that a missing lock shows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_no_step_is_lost_between_threads(hectic: None):
    clock = FakeClock(NOON)
    start = threading.Barrier(8)

    def step() -> None:
        start.wait()
        for _ in range(2000):
            clock.advance(1)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(step) for _ in range(8)]:
            done.result()
    assert clock.now() == NOON + timedelta(seconds=16000)


def test_ids_count_each_kind_for_itself():
    ids: Ids = CountingIds()
    assert [ids.new("fact"), ids.new("approval"), ids.new("fact")] == ["fact_0001", "approval_0001", "fact_0002"]
    assert CountingIds().new("fact") == "fact_0001"


def test_definitions_get_uuids_as_from_the_system():
    ids = CountingIds()
    first, second = ids.new("definition"), ids.new("definition")
    assert first == "00000000-0000-4000-8000-000000000001" != second
    assert uuid.UUID(first).version == uuid.UUID(SystemIds().new("definition")).version == 4


def test_ids_are_never_given_twice_between_threads(hectic: None):
    ids = CountingIds()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ids.new("fact"), range(4000)))
    assert len(set(made)) == 4000
