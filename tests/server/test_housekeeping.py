"""Housekeeping: expired rows and leftovers go by themselves, by one process at a time, and writers are not held up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

import memoranda
from memoranda.model.scope import Scope
from memoranda.server.auth.keys import SYSTEM_TENANT
from memoranda.server.housekeeping import Housekeeper
from memoranda.server.metrics import Metrics
from memoranda.server.programs import load_programs
from memoranda.server.settings import Settings
from memoranda.sleep.jobs import LEASE, find_job, lease
from memoranda.testing.fakes import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path, clock) -> Iterator[memoranda.Memory]:
    with memoranda.open(tmp_path / "memory.db", clock=clock) as opened:
        yield opened


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not look():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.005)


def keep_house(memory: memoranda.Memory, **settings: object) -> tuple[Housekeeper, Metrics]:
    chosen = Settings(**{"sweep_every": 0.02, **settings})  # pyright: ignore[reportArgumentType]
    metrics = Metrics("0")
    return Housekeeper(chosen, memory, metrics, load_programs(Settings(), memory)), metrics


def test_what_expired_goes_in_every_tenant_and_is_counted(memory, clock):
    for tenant in ("acme", "default"):
        memory.in_tenant(tenant).scope(user="ada").set("otp", 1, ttl=60)
        memory.in_tenant(tenant).scope(user="ada").set("name", "Ada")
    clock.advance(61)
    keeper, metrics = keep_house(memory)
    keeper.start()
    until(lambda: metrics.sweeps["done"] > 0)
    keeper.stop(timeout=10)
    assert metrics.swept["facts"] == 2
    assert 'memoranda_swept_total{kind="facts"} 2' in metrics.render()
    assert 'memoranda_sweeps_total{outcome="done"} 1' in metrics.render()
    for tenant in ("acme", "default"):
        assert [one.forgotten for one in memory.in_tenant(tenant).scope(user="ada").history("otp")][:1] == [True]
        assert memory.in_tenant(tenant).scope(user="ada").value("name") == "Ada"
        assert memory.in_tenant(tenant).ledger.tail(1)[0].door == "housekeeping"


def test_one_process_sweeps_at_a_time_and_another_takes_over_when_it_is_gone(memory, clock):
    first, metrics = keep_house(memory)
    first.start()
    until(lambda: metrics.sweeps["done"] > 0)
    first.stop(timeout=10)
    # Another process has taken the next sweep, and was killed.
    system = memory.in_tenant(SYSTEM_TENANT)
    clock.advance(10)
    job = find_job(system, Scope(SYSTEM_TENANT), "sweep")
    assert job is not None and lease(system, job, worker="gone") is not None
    memory.scope(user="ada").set("otp", 1, ttl=1)
    clock.advance(2)
    second, metrics = keep_house(memory)
    second.start()
    time.sleep(0.3)
    assert metrics.sweeps["done"] == 0
    clock.advance(LEASE / timedelta(seconds=1))
    until(lambda: metrics.swept["facts"] == 1)
    second.stop(timeout=10)


def test_idle_sessions_are_ended_and_others_are_not(memory, clock):
    flow = 'FLOW:\n  ring:\n    REASONING: false\n    ON_INPUT:\n      - ELSE:\n        RESPOND: "Ding"\n'
    text = f'AGENT: Bell\nGOAL: "Ring"\n{flow}'
    agent = memoranda.abl.load(text, memory=memory)
    idle, busy = agent.start(user="ada"), agent.start(user="ada")
    clock.advance(2 * 86_400)
    busy.say("hello")
    keeper, metrics = keep_house(memory, keep_sessions="1d")
    keeper.start()
    until(lambda: metrics.swept["sessions"] == 1)
    keeper.stop(timeout=10)
    with pytest.raises(memoranda.NotFound):
        agent.resume(idle.id)
    assert agent.resume(busy.id).say("again").messages == ["Ding"]


def test_nothing_is_swept_where_that_is_switched_off(memory, clock):
    memory.scope(user="ada").set("otp", 1, ttl=60)
    clock.advance(61)
    keeper, metrics = keep_house(memory, sweep_every=0)
    keeper.start()
    time.sleep(0.2)
    keeper.stop(timeout=10)
    assert metrics.sweeps["done"] == 0
    assert find_job(memory.in_tenant(SYSTEM_TENANT), Scope(SYSTEM_TENANT), "sweep") is None
    assert memory.sweep().facts == 1


def test_writers_go_on_between_the_portions_of_a_long_sweep(memory, clock):
    ada = memory.scope(user="ada")
    with ada.batch() as batch:
        for number in range(1_000):
            batch.set(f"otp{number}", number, ttl=60)
    clock.advance(61)
    keeper, metrics = keep_house(memory)
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        bo = memory.scope(user="bo")
        while not stop.is_set():
            written.append(bo.set("beat", len(written)).version)

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: len(written) > 0)
    before = len(written)
    keeper.start()
    until(lambda: metrics.sweeps["done"] > 0)
    during = len(written) - before
    stop.set()
    writer.join()
    keeper.stop(timeout=10)
    assert metrics.swept["facts"] == 1_000
    # There were ten portions or more, and the writer had its turn after most of them.
    assert during >= 5
