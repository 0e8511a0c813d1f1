"""A job is asked for once, done by one worker, tried again later, and never lost."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

import memoranda
from memoranda import Conflict, Memory, NotFound, Scope
from memoranda.errors import ModelFailed
from memoranda.model.job import FIRST_PAUSE, LEASE, LONGEST_PAUSE, MOST_ATTEMPTS, Job
from memoranda.sleep.jobs import (
    enqueue,
    fail,
    find_job,
    finish_effect,
    get_job,
    lease,
    list_jobs,
    put_off,
    retry,
)
from memoranda.testing import FakeClock

ADA = Scope.of(user="ada", thread="c1")
BOB = Scope.of(user="bob", thread="c1")


def asked(memory: Memory, scope: Scope = ADA, mark: int = 3) -> Job:
    job = enqueue(memory, scope, "tidy", mark=mark)
    assert job is not None
    return job


def taken(memory: Memory, job: Job, worker: str = "w") -> Job:
    found = lease(memory, job, worker=worker)
    assert found is not None
    return found


def finish(memory: Memory, job: Job, *, done: int, result: dict[str, object]) -> Job:
    memory.perform(finish_effect(memory, job, done=done, result=result))
    return get_job(memory, job.scope, job.kind)


def test_a_job_is_asked_for_once(memory: Memory) -> None:
    first = asked(memory)
    assert enqueue(memory, ADA, "tidy", mark=3) is None
    assert enqueue(memory, ADA, "tidy", mark=2) is None
    assert enqueue(memory, ADA, "other", mark=3) is not None
    assert list_jobs(memory, "tidy") == [first]


def test_a_job_that_is_done_is_asked_for_again_only_for_more(memory: Memory) -> None:
    done = finish(memory, taken(memory, asked(memory)), done=3, result={"lines": 2})
    assert (done.state, done.done, done.result) == ("done", 3, {"lines": 2})
    assert enqueue(memory, ADA, "tidy", mark=3) is None
    again = asked(memory, mark=5)
    assert (again.state, again.mark, again.done, again.result) == ("waiting", 5, 3, {"lines": 2})


def test_a_job_is_leased_by_one_worker(memory: Memory) -> None:
    job = asked(memory)
    mine = taken(memory, job, "one")
    assert (mine.state, mine.worker, mine.attempts) == ("running", "one", 1)
    assert lease(memory, job, worker="two") is None
    assert lease(memory, mine, worker="two") is None
    assert get_job(memory, ADA, "tidy") == mine


def test_a_lease_that_is_over_passes_to_another_worker(memory: Memory, clock: FakeClock) -> None:
    slow = taken(memory, asked(memory), "slow")
    clock.advance(LEASE.total_seconds() - 1)
    assert lease(memory, slow, worker="quick") is None
    clock.advance(1)
    quick = taken(memory, slow, "quick")
    assert quick.attempts == 2
    with pytest.raises(Conflict):
        finish(memory, slow, done=3, result={})
    assert finish(memory, quick, done=3, result={}).state == "done"


def test_nothing_is_asked_for_while_a_job_runs(memory: Memory) -> None:
    running = taken(memory, asked(memory))
    assert enqueue(memory, ADA, "tidy", mark=9) is None
    finish(memory, running, done=3, result={})
    assert enqueue(memory, ADA, "tidy", mark=9) is not None


def test_a_failure_is_seen_and_tried_again_later_each_time_later_still(memory: Memory, clock: FakeClock) -> None:
    job = asked(memory)
    pauses = []
    for _ in range(MOST_ATTEMPTS - 1):
        job = fail(memory, taken(memory, job), ModelFailed("the model was away", reason="timeout"))
        assert (job.state, job.error) == ("waiting", "model_failed: the model was away")
        pauses.append(job.due_at - clock.now())
        assert lease(memory, job, worker="early") is None
        clock.set(job.due_at)
    assert pauses == [FIRST_PAUSE * 2**n for n in range(MOST_ATTEMPTS - 1)]
    dead = fail(memory, taken(memory, job), ValueError("still away"))
    assert (dead.state, dead.attempts, dead.error) == ("dead", MOST_ATTEMPTS, "ValueError: still away")
    clock.advance(1_000_000)
    assert lease(memory, dead, worker="late") is None
    assert list_jobs(memory, "tidy", state="dead") == [dead]


def test_no_pause_is_longer_than_the_longest(memory: Memory, clock: FakeClock) -> None:
    tried = msgspec.structs.replace(taken(memory, asked(memory)), attempts=40)
    assert fail(memory, tried, ValueError("x"), most_attempts=99).due_at - clock.now() == LONGEST_PAUSE


def test_a_dead_job_can_be_tried_again(memory: Memory) -> None:
    dead = fail(memory, taken(memory, asked(memory)), ValueError("x"), most_attempts=1)
    assert enqueue(memory, ADA, "tidy", mark=3) is None
    alive = retry(memory, dead)
    assert (alive.state, alive.attempts, alive.error) == ("waiting", 0, "ValueError: x")
    assert finish(memory, taken(memory, alive), done=3, result={}).error == ""


def test_more_to_do_revives_a_dead_job(memory: Memory) -> None:
    fail(memory, taken(memory, asked(memory)), ValueError("x"), most_attempts=1)
    assert asked(memory, mark=4).state == "waiting"


def test_a_job_that_is_put_off_loses_no_attempt(memory: Memory, clock: FakeClock) -> None:
    later = clock.now() + timedelta(seconds=60)
    job = put_off(memory, taken(memory, asked(memory)), until=later, mark=7)
    assert (job.state, job.attempts, job.mark) == ("waiting", 0, 7)
    assert lease(memory, job, worker="w") is None
    clock.set(later)
    assert taken(memory, job).attempts == 1


def test_what_an_error_says_is_kept_as_far_as_it_can_be(memory: Memory) -> None:
    job = fail(memory, taken(memory, asked(memory)), ValueError("\0\ud800" + "x" * 5_000))
    assert len(job.error) < 400 and "\0" not in job.error
    assert find_job(memory, ADA, "tidy") == job


def test_jobs_are_listed_by_user_and_go_with_their_scope(memory: Memory) -> None:
    ada, bob = asked(memory, ADA), asked(memory, BOB)
    assert list_jobs(memory, "tidy") == [ada, bob]
    assert list_jobs(memory, "tidy", user="ada") == [ada]
    memory.erase(user="ada")
    assert list_jobs(memory, "tidy") == [bob]
    with pytest.raises(NotFound):
        get_job(memory, ADA, "tidy")


def test_jobs_of_another_tenant_are_not_seen(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "m.db") as here, memoranda.open(tmp_path / "m.db", tenant="other") as there:
        asked(here)
        assert list_jobs(there, "tidy") == [] and len(list_jobs(here, "tidy")) == 1


def test_many_workers_do_each_job_once(tmp_path: Path) -> None:
    done: list[str] = []
    with memoranda.open(tmp_path / "m.db") as memory:
        for number in range(20):
            asked(memory, Scope.of(user=f"u{number}", thread="c"))
        start = threading.Barrier(6)

        def work(name: str) -> None:
            with memoranda.open(tmp_path / "m.db") as own:
                start.wait()
                for job in list_jobs(own, "tidy"):
                    mine = lease(own, job, worker=name)
                    if mine is not None:
                        done.append(mine.scope.path)
                        finish(own, mine, done=3, result={"by": name})

        threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == sorted({f"user:u{number}/thread:c" for number in range(20)})
        assert {job.state for job in list_jobs(memory, "tidy")} == {"done"}


CRASHING = """
import os, sys, memoranda
from memoranda import Scope
from memoranda.sleep.jobs import enqueue, lease
memory = memoranda.open(sys.argv[1])
job = enqueue(memory, Scope.of(user="ada", thread="c1"), "tidy", mark=3)
assert lease(memory, job, worker="doomed")
print("leased", flush=True)
os._exit(0)
"""


def test_a_job_outlives_the_process_that_had_it(tmp_path: Path, run_child) -> None:
    assert run_child(CRASHING, tmp_path / "m.db").hear() == "leased"
    clock = FakeClock()
    with memoranda.open(tmp_path / "m.db", clock=clock) as memory:
        [job] = list_jobs(memory, "tidy")
        assert (job.state, job.worker) == ("running", "doomed")
        assert job.leased_until is not None
        clock.set(job.leased_until)
        assert taken(memory, job, "heir").worker == "heir"
