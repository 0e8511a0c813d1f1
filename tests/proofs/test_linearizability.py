"""G57, G58: what many threads and processes see of one database is what one register could have answered.

Each check that accepts our store is shown to reject one that races.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import ScopedMemory
from memoranda.testing import Operation, Recorder, check, check_versions, load, merge

# What one client does. Processes run this text, threads call the function that it makes.
CLIENT = """
import random
import time
import memoranda

def set_if(place, key, value, expect):
    return place.set(key, value, expect=expect)

def set_racily(place, key, value, expect):
    '''Compare, take a breath, and set: what a store without compare-and-set offers.'''
    fact = place.get(key)
    found = fact.version if fact else 0
    if found != expect:
        raise memoranda.Conflict("somebody was faster", actual=found)
    time.sleep(0.002)
    return place.set(key, value)

def live(client, place, recorder, operations, keys, compare_and_set=set_if):
    choose = random.Random(client)
    seen = {}
    for number in range(operations):
        key = choose.choice(keys)
        kind = choose.choice(["read", "read", "write", "cas", "cas", "delete"])
        value = f"{client}/{number}"
        expected = seen.get(key, 0) if kind == "cas" else None
        argument = value if kind in ("write", "cas") else None
        try:
            with recorder.call(client, key, kind, argument=argument, expected=expected) as call:
                if kind == "read":
                    fact = place.get(key)
                    seen[key] = fact.version if fact else 0
                    call.ok(fact.value if fact else None, version=seen[key])
                elif kind == "write":
                    seen[key] = place.set(key, value).version
                    call.ok(version=seen[key])
                elif kind == "delete":
                    call.ok(place.delete(key))
                else:
                    try:
                        seen[key] = compare_and_set(place, key, value, expected).version
                        call.ok(version=seen[key])
                    except memoranda.Conflict as conflict:
                        seen[key] = conflict.actual
                        call.conflict(conflict.actual)
        except memoranda.Busy:
            pass  # without an answer it is a "maybe"
"""

PROCESS = (
    CLIENT
    + """
import sys
from pathlib import Path
from memoranda.testing import Recorder, save

address, folder, client, operations, keys, timeout = sys.argv[1:]
recorder = Recorder()


def open_patiently():
    while True:
        try:
            return memoranda.open(address, busy_timeout=float(timeout))
        except memoranda.Busy:
            pass  # another child is making the tables at this moment


with open_patiently() as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    live(client, memory.scope(user="ada"), recorder, int(operations), keys.split(), set_if)
save(recorder.history, Path(folder, client))
"""
)

_client: dict[str, Any] = {}
exec(CLIENT, _client)
live, set_racily = _client["live"], _client["set_racily"]

KEYS = ["a", "b", "c"]


def run_threads(count: int, work: Callable[[int], object]) -> None:
    """Run work in many threads at once; fail if one of them does."""
    together = threading.Barrier(count)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            together.wait()
            work(number)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def record_threads(address: str, *, threads: int, each: int, keys: list[str], **options: Any) -> list[Operation]:
    recorder = Recorder()
    with memoranda.open(address) as memory:
        place = memory.scope(user="ada")
        run_threads(threads, lambda number: live(f"thread{number}", place, recorder, each, keys, **options))
    return recorder.history


def record_processes(
    address: str, folder: Path, run_child: Callable[..., Any], *, processes: int, each: int, timeout: float = 30
) -> list[Operation]:
    clients = [f"process{number}" for number in range(processes)]
    children = [run_child(PROCESS, address, folder, client, each, " ".join(KEYS), timeout) for client in clients]
    children[0].run_together(children)
    return merge(*(load(folder / client) for client in clients))


def assert_telling(history: list[Operation], operations: int) -> None:
    """Make sure that a history is worth checking: all is in it, clients met, and some lost a race."""
    assert len(history) == operations
    met: set[int] = set()
    ordered = sorted((each for each in history if each.returned is not None), key=lambda each: each.called)
    for place, earlier in enumerate(ordered):
        for later, other in enumerate(ordered[place + 1 :], start=place + 1):
            if earlier.returned is None or other.called > earlier.returned:
                break
            if other.client != earlier.client:
                met |= {place, later}
    assert len(met) > operations / 20
    assert {"read", "write", "cas", "delete"} == {each.kind for each in history}
    assert any(each.kind == "cas" and each.outcome == "ok" for each in history)
    assert any(each.outcome == "conflict" for each in history)


@pytest.mark.capability("linearizability")
def test_g57_eight_threads_see_one_register(address: str):
    history = record_threads(address, threads=8, each=40, keys=KEYS)
    assert_telling(history, 320)
    assert check(history).ok, check(history).explanation
    assert check_versions(history).ok


@pytest.mark.capability("linearizability")
def test_g57_four_processes_see_one_register(address: str, tmp_path: Path, run_child: Callable[..., Any]):
    history = record_processes(address, tmp_path, run_child, processes=4, each=60)
    assert_telling(history, 240)
    assert check(history).ok, check(history).explanation
    assert check_versions(history).ok


@pytest.mark.capability("linearizability")
def test_g57_who_gave_up_waiting_may_have_written(address: str, tmp_path: Path, run_child: Callable[..., Any]):
    """Without any patience some writes end as Busy; the history with those left open still fits."""
    history = record_processes(address, tmp_path, run_child, processes=4, each=60, timeout=0)
    assert len(history) == 240
    assert any(each.returned is None for each in history)
    verdict = check(history)
    assert verdict.ok or not verdict.decided, verdict.explanation
    assert check_versions(history).ok, check_versions(history).explanation
    # Busy means that nothing was changed: as if the calls had never been made.
    answered = [each for each in history if each.returned is not None]
    assert check(answered).ok, check(answered).explanation


@pytest.mark.slow
@pytest.mark.capability("linearizability")
def test_g58_a_long_run_keeps_its_versions_in_line(address: str, deep: bool):
    each = 5_000 if deep else 300
    history = record_threads(address, threads=8, each=each, keys=["a", "b"])
    assert_telling(history, 8 * each)
    assert check_versions(history).ok, check_versions(history).explanation


def test_g58_a_racy_store_is_rejected_by_both_checks(address: str):
    history = record_threads(address, threads=6, each=40, keys=["a"], compare_and_set=set_racily)
    assert len(history) == 240
    searched, counted = check(history), check_versions(history)
    assert not searched.ok and searched.decided and searched.key == "a"
    assert not counted.ok and counted.explanation


# the lost update


def count_up(place: ScopedMemory, times: int) -> None:
    for _ in range(times):
        place.update("count", lambda count: count + 1, default=0)


def count_up_naively(place: ScopedMemory, times: int) -> None:
    for _ in range(times):
        count = place.value("count", 0)
        time.sleep(0.001)
        place.set("count", count + 1)


COUNTER = """
import sys, memoranda
with memoranda.open(sys.argv[1], busy_timeout=60) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        memory.scope(user="ada").update("count", lambda count: count + 1, default=0)
"""


@pytest.mark.capability("races")
def test_no_update_of_eight_threads_is_lost(address: str):
    with memoranda.open(address) as memory:
        place = memory.scope(user="ada")
        run_threads(8, lambda number: count_up(place, 25))
        assert place.value("count") == 200
        assert [revision.value for revision in place.history("count")] == list(range(1, 201))


@pytest.mark.capability("races")
def test_no_update_of_four_processes_is_lost(address: str, run_child: Callable[..., Any]):
    children = [run_child(COUNTER, address, 50) for _ in range(4)]
    children[0].run_together(children)
    with memoranda.open(address) as memory:
        place = memory.scope(user="ada")
        assert place.value("count") == 200
        assert [revision.value for revision in place.history("count")] == list(range(1, 201))


def test_reading_pausing_and_writing_loses_updates(address: str):
    """The control: there is a race to lose."""
    with memoranda.open(address) as memory:
        place = memory.scope(user="ada")
        run_threads(8, lambda number: count_up_naively(place, 25))
        assert place.value("count") < 200
        assert len(place.history("count")) == 200  # all were written, each over the value of another
