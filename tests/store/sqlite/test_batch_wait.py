"""Waiting for others before a commit: only where they come, never for long, and never by who writes alone."""

from __future__ import annotations

import threading
import time

import pytest

from memoranda.store.sqlite import SqliteStore
from memoranda.store.sqlite.group_commit import MOST_SKIPS, SHORTEST_COMMIT, BatchWait

SLOW = 1.0
"""Seconds that a commit takes, so that waiting for half of it can be told from not waiting."""


def trained(together: int, meanwhile: int, seconds: float = SLOW) -> BatchWait:
    """Return a wait that has seen two such commits: it goes by the shorter of two."""
    made = BatchWait()
    for _ in range(2):
        made.note_commit(together=together, meanwhile=meanwhile, seconds=seconds)
    return made


def waits_in_vain(one: BatchWait) -> int:
    """Call `should_wait` until it says yes, without arrivals; return how many chances it skipped before."""
    chances = 0
    while not one.should_wait(1):
        chances += 1
        assert chances <= MOST_SKIPS
    one.stop_waiting(1)
    return chances


def test_nobody_is_expected_before_the_first_commit_nor_by_a_lone_writer():
    assert not BatchWait().should_wait(1)
    assert not trained(together=1, meanwhile=0).should_wait(1)
    assert trained(together=1, meanwhile=1).should_wait(1)


def test_those_in_the_commit_and_those_who_came_meanwhile_are_expected():
    assert trained(together=2, meanwhile=3).should_wait(4)
    assert not trained(together=2, meanwhile=3).should_wait(5)


def test_a_commit_that_costs_next_to_nothing_is_not_waited_for():
    assert not trained(together=8, meanwhile=0, seconds=SHORTEST_COMMIT * 0.9).should_wait(1)
    assert trained(together=8, meanwhile=0, seconds=SHORTEST_COMMIT * 1.1).should_wait(1)


def test_one_slow_commit_makes_nobody_patient():
    one = trained(together=2, meanwhile=0, seconds=0.0002)
    one.note_commit(together=2, meanwhile=0, seconds=3600.0)  # it moved the log into the file
    assert one.should_wait(1)
    one.wait([1])  # for half of 0.2 ms, not for half an hour


def test_the_last_who_is_expected_ends_the_waiting():
    one = trained(together=3, meanwhile=0, seconds=3600.0)
    queue = [1]
    assert one.should_wait(len(queue))
    waiting = threading.Thread(target=one.wait, args=(queue,), daemon=True)
    waiting.start()
    for _ in range(2):
        assert waiting.is_alive()
        queue.append(1)
        one.arrive(len(queue))
    waiting.join(30)
    assert not waiting.is_alive()
    one.stop_waiting(len(queue))
    assert one.should_wait(1), "it paid, so it is done again"


def test_waiting_goes_on_while_they_come_and_ends_when_nobody_does():
    queue = [1]
    slept: list[float] = []

    class NeverComplete:
        """A lock whose waits take no time; a writer arrives during the first three."""

        def acquire(self, timeout: float) -> bool:
            slept.append(timeout)
            if len(slept) <= 3:
                queue.append(1)
            return False

    one = trained(together=100, meanwhile=0, seconds=0.5)
    assert one.should_wait(1)
    setattr(one, "_complete", NeverComplete())  # noqa: B010 (a fake lock)
    one.wait(queue)
    assert slept == [0.25] * 4


def test_waiting_in_vain_is_tried_less_and_less_often_but_never_given_up():
    one = trained(together=2, meanwhile=0)
    assert [waits_in_vain(one) for _ in range(9)] == [0, 2, 4, 8, 16, 32, 64, 64, 64]


def test_each_time_that_all_come_is_half_a_step_back():
    one = trained(together=2, meanwhile=0)
    for _ in range(4):
        waits_in_vain(one)  # 16 chances are let go by from here
    while not one.should_wait(1):
        pass
    one.stop_waiting(2)
    assert waits_in_vain(one) == 0
    assert waits_in_vain(one) == 16, "8, doubled again"


def test_one_who_comes_after_the_waiting_ended_leaves_no_trace():
    one = trained(together=2, meanwhile=0)
    assert one.should_wait(1)
    one.arrive(2)  # after `wait` gave up, before `stop_waiting`
    one.stop_waiting(2)
    assert one.should_wait(1)
    start = time.monotonic()
    one.wait([1])
    assert time.monotonic() - start >= SLOW / 4, "the lock was not left open"


def test_one_who_comes_back_twice_ends_the_waiting_once():
    one = trained(together=2, meanwhile=0)
    assert one.should_wait(1)
    one.arrive(2)
    one.arrive(2)  # a writer was interrupted and left the queue in between
    one.wait([1, 1])
    one.stop_waiting(2)


def test_how_long_a_commit_takes_is_told_by_the_quicker_of_two():
    assert BatchWait().commit_seconds == 0
    one = trained(together=1, meanwhile=0, seconds=0.25)
    assert one.commit_seconds == 0.25
    one.note_commit(together=1, meanwhile=0, seconds=4.0)
    assert one.commit_seconds == 0.25
    one.note_commit(together=1, meanwhile=0, seconds=2.0)
    assert one.commit_seconds == 2.0


@pytest.fixture
def store(tmp_path):
    with SqliteStore(str(tmp_path / "m.db")) as store:
        yield store


def expecting(store: SqliteStore, regulars: int) -> BatchWait:
    """Make the writer expect others, for as long as a test lasts."""
    waited = trained(together=regulars, meanwhile=0, seconds=3600.0)
    store._writer._batch_wait = waited
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
    class Interrupted(BatchWait):
        def wait(self, queue) -> None:
            raise KeyboardInterrupt

    interrupted = Interrupted()
    for _ in range(2):
        interrupted.note_commit(together=2, meanwhile=0, seconds=3600.0)
    store._writer._batch_wait = interrupted
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

    class Watched(BatchWait):
        def wait(self, queue) -> None:
            waited.append(threading.current_thread().name)
            super().wait(queue)

    watched = Watched()
    for _ in range(2):
        watched.note_commit(together=3, meanwhile=0, seconds=0.2)
    store._writer._batch_wait = watched
    other = threading.Thread(target=lambda: store.transact(lambda rows: None), name="leads", daemon=True)

    def write_in_hand(_: object) -> None:
        other.start()
        while not waited:
            time.sleep(0.001)
        store.transact(lambda rows: None)

    inside = threading.Thread(target=lambda: store._writer.run_reading(write_in_hand), name="in hand", daemon=True)
    inside.start()
    for thread in (inside, other):
        thread.join(30)
        assert not thread.is_alive()
    assert waited == ["leads"]
