"""Waiting for others before a commit: only where they come, never for long, and never by who writes alone."""

from __future__ import annotations

import threading
import time

import pytest

from memoranda.store.sqlite import SqliteStore
from memoranda.store.sqlite.company import MOST_LET_GO, SHORTEST, Company

SLOW = 1.0
"""Seconds that a commit takes, so that waiting for half of it can be told from not waiting."""


def company(together: int, meanwhile: int, seconds: float = SLOW) -> Company:
    """Return the company after two commits like this: patience goes by the quicker of two."""
    made = Company()
    for _ in range(2):
        made.committed(together=together, meanwhile=meanwhile, seconds=seconds)
    return made


def waits_in_vain(one: Company) -> int:
    """Wait where that is worth it, with nobody coming; return how many chances were let go by before."""
    chances = 0
    while not one.worth_waiting(1):
        chances += 1
        assert chances <= MOST_LET_GO
    one.stop_waiting(1)
    return chances


def test_nobody_is_expected_before_the_first_commit_nor_by_a_lone_writer():
    assert not Company().worth_waiting(1)
    assert not company(together=1, meanwhile=0).worth_waiting(1)
    assert company(together=1, meanwhile=1).worth_waiting(1)


def test_those_in_the_commit_and_those_who_came_meanwhile_are_expected():
    assert company(together=2, meanwhile=3).worth_waiting(4)
    assert not company(together=2, meanwhile=3).worth_waiting(5)


def test_a_commit_that_costs_next_to_nothing_is_not_waited_for():
    assert not company(together=8, meanwhile=0, seconds=SHORTEST * 0.9).worth_waiting(1)
    assert company(together=8, meanwhile=0, seconds=SHORTEST * 1.1).worth_waiting(1)


def test_one_slow_commit_makes_nobody_patient():
    one = company(together=2, meanwhile=0, seconds=0.0002)
    one.committed(together=2, meanwhile=0, seconds=3600.0)  # it moved the log into the file
    assert one.worth_waiting(1)
    one.wait([1])  # for half of 0.2 ms, not for half an hour


def test_the_last_who_is_expected_ends_the_waiting():
    one = company(together=3, meanwhile=0, seconds=3600.0)
    queue = [1]
    assert one.worth_waiting(len(queue))
    waiting = threading.Thread(target=one.wait, args=(queue,), daemon=True)
    waiting.start()
    for _ in range(2):
        assert waiting.is_alive()
        queue.append(1)
        one.joined(len(queue))
    waiting.join(30)
    assert not waiting.is_alive()
    one.stop_waiting(len(queue))
    assert one.worth_waiting(1), "it paid, so it is done again"


def test_waiting_goes_on_while_they_come_and_ends_when_nobody_does():
    queue = [1]
    slept: list[float] = []

    class NeverAllHere:
        """A lock on which time passes at once; somebody comes the first three times."""

        def acquire(self, timeout: float) -> bool:
            slept.append(timeout)
            if len(slept) <= 3:
                queue.append(1)
            return False

    one = company(together=100, meanwhile=0, seconds=0.5)
    assert one.worth_waiting(1)
    one._all_here = NeverAllHere()
    one.wait(queue)
    assert slept == [0.25] * 4


def test_waiting_in_vain_is_tried_less_and_less_often_but_never_given_up():
    one = company(together=2, meanwhile=0)
    assert [waits_in_vain(one) for _ in range(9)] == [0, 2, 4, 8, 16, 32, 64, 64, 64]


def test_each_time_that_all_come_is_half_a_step_back():
    one = company(together=2, meanwhile=0)
    for _ in range(4):
        waits_in_vain(one)  # 16 chances are let go by from here
    while not one.worth_waiting(1):
        pass
    one.stop_waiting(2)
    assert waits_in_vain(one) == 0
    assert waits_in_vain(one) == 16, "8, doubled again"


def test_one_who_comes_after_the_waiting_ended_leaves_no_trace():
    one = company(together=2, meanwhile=0)
    assert one.worth_waiting(1)
    one.joined(2)  # after `wait` gave up, before `stop_waiting`
    one.stop_waiting(2)
    assert one.worth_waiting(1)
    start = time.monotonic()
    one.wait([1])
    assert time.monotonic() - start >= SLOW / 4, "the lock was not left open"


def test_one_who_comes_back_twice_ends_the_waiting_once():
    one = company(together=2, meanwhile=0)
    assert one.worth_waiting(1)
    one.joined(2)
    one.joined(2)  # somebody was interrupted and left the queue in between
    one.wait([1, 1])
    one.stop_waiting(2)


def test_how_long_a_commit_takes_is_told_by_the_quicker_of_two():
    assert Company().commit_takes == 0
    one = company(together=1, meanwhile=0, seconds=0.25)
    assert one.commit_takes == 0.25
    one.committed(together=1, meanwhile=0, seconds=4.0)
    assert one.commit_takes == 0.25
    one.committed(together=1, meanwhile=0, seconds=2.0)
    assert one.commit_takes == 2.0


@pytest.fixture
def store(tmp_path):
    with SqliteStore(str(tmp_path / "m.db")) as store:
        yield store


def expecting(store: SqliteStore, regulars: int) -> Company:
    """Make the writer expect others, for as long as a test lasts."""
    waited = company(together=regulars, meanwhile=0, seconds=3600.0)
    store._writer._company = waited
    return waited


def test_the_leader_takes_those_along_for_whom_it_waits(store: SqliteStore):
    expecting(store, 3)
    commits = store._writer.commits
    writers = [threading.Thread(target=lambda: store.transact(lambda rows: None), daemon=True) for _ in range(3)]
    for number, writer in enumerate(writers):
        assert store._writer.commits == commits, f"{number} of 3 are there"
        writer.start()
    for writer in writers:
        writer.join(30)
        assert not writer.is_alive()
    assert store._writer.commits == commits + 1
    store.transact(lambda rows: None)
    assert store._writer.commits == commits + 2


def test_a_leader_that_is_interrupted_while_it_waits_leaves_the_way_free(store: SqliteStore):
    class Interrupted(Company):
        def wait(self, queue) -> None:
            raise KeyboardInterrupt

    interrupted = Interrupted()
    for _ in range(2):
        interrupted.committed(together=2, meanwhile=0, seconds=3600.0)
    store._writer._company = interrupted
    ran: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        store.transact(lambda rows: ran.append("interrupted"))
    other = threading.Thread(target=lambda: store.transact(lambda rows: ran.append("other")), daemon=True)
    other.start()
    other.join(30)
    assert not other.is_alive()
    assert ran == ["other"], "what was interrupted before it began is never run"


def test_who_has_the_connection_in_hand_does_not_wait_for_others(store: SqliteStore):
    """The one that leads is waiting for that hand to open."""
    waited: list[str] = []

    class Watched(Company):
        def wait(self, queue) -> None:
            waited.append(threading.current_thread().name)
            super().wait(queue)

    watched = Watched()
    for _ in range(2):
        watched.committed(together=3, meanwhile=0, seconds=0.2)
    store._writer._company = watched
    other = threading.Thread(target=lambda: store.transact(lambda rows: None), name="leads", daemon=True)

    def write_in_hand(_: object) -> None:
        other.start()
        while not waited:
            time.sleep(0.001)
        store.transact(lambda rows: None)

    inside = threading.Thread(target=lambda: store._writer.in_hand(write_in_hand), name="in hand", daemon=True)
    inside.start()
    for thread in (inside, other):
        thread.join(30)
        assert not thread.is_alive()
    assert waited == ["leads"]
