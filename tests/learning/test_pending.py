"""A model that fails loses nothing: messages are kept, the result says so, and they are read later."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Memory, ModelUnavailable
from memoranda.agent.models import Ask, Reply
from memoranda.agent.request import ANSWER
from memoranda.api.scoped import ScopedMemory
from memoranda.model.job import MOST_ATTEMPTS
from memoranda.sleep import forget_conversation, run_due, run_sleep_time, sleep_jobs
from memoranda.testing import FakeClock

CELLO = {"text": "Plays the cello", "attribute": "instrument", "object": "cello", "block": "core", "messages": [0]}
TALK = [{"role": "user", "content": "The cello comes along, as always."}, {"role": "assistant", "content": "Noted."}]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "memory.db", clock=clock, embedder="hashing:64") as opened:
        yield opened


@pytest.fixture
def ada(memory: Memory) -> ScopedMemory:
    return memory.scope(user="ada")


class Model:
    """A model that gives what it is told to: a value, or an error."""

    name = "made:up"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, Reply) else Reply(value=self.answer)


DOWN = ModelUnavailable("the model does not answer", hint="Start it")
FAILURES = [
    DOWN,
    ConnectionError("no route to host"),
    Reply("I would rather talk about the weather."),
    {"lines": "nonsense"},
    {"lines": [{"text": 7}]},
    {"facts": ["Plays the cello"]},
]


@pytest.mark.parametrize("answer", FAILURES, ids=lambda one: type(one).__name__)
def test_messages_of_a_model_that_fails_are_kept_and_read_by_the_next_learn(ada: ScopedMemory, answer: Any) -> None:
    failed = ada.learn(TALK, conversation="c1", model=Model(answer))
    assert failed.pending and failed.retry_at is not None
    assert (len(failed.messages), failed.lessons) == (2, ())
    working = Model({"lines": [CELLO]})
    again = ada.learn(TALK, conversation="c1", model=working)
    assert (again.pending, again.retry_at, again.messages, again.known_messages) == (None, None, (), 2)
    assert [lesson.text for lesson in again.added] == ["Plays the cello"]
    assert again.added[0].said_in == failed.messages[:1]
    third = ada.learn(TALK, conversation="c1", model=working)
    assert (third.lessons, len(working.asked)) == ((), 1)


def test_the_result_says_when_it_is_tried_again_and_the_job_is_listed(
    memory: Memory, ada: ScopedMemory, clock: FakeClock
) -> None:
    failed = ada.learn(TALK, conversation="c1", model=Model(DOWN))
    [job] = sleep_jobs(memory, user="ada")
    assert (job.kind, job.state, job.conversation, job.due_at) == ("learn", "waiting", ("ada", "c1"), failed.retry_at)
    assert failed.pending == (
        f"the model does not answer; the messages are kept and read again after {job.due_at:%Y-%m-%d %H:%M} UTC"
    )
    assert job.error == "the model does not answer"
    assert "cello" not in repr(job)
    assert sleep_jobs(memory, user="bob") == []


def test_nothing_is_noted_where_no_model_fails(memory: Memory, ada: ScopedMemory) -> None:
    ada.learn(TALK, conversation="c1", model=Model({"lines": [CELLO]}))
    ada.learn("I live in Porto.", conversation="c2")
    assert sleep_jobs(memory) == []


def test_the_worker_reads_them_again_after_a_while_each_time_a_longer_one(
    memory: Memory, ada: ScopedMemory, clock: FakeClock
) -> None:
    failed = ada.learn(TALK, conversation="c1", model=Model(DOWN), agent="desk")
    broken, working = Model(DOWN), Model({"lines": [CELLO]})
    extract = memoranda.sleep.extract_by_model
    assert run_due(memory, extractor=extract(working)) == []
    pauses = []
    for _ in range(3):
        [job] = sleep_jobs(memory)
        pauses.append((job.due_at - clock.now()).total_seconds())
        clock.set(job.due_at)
        [ran] = run_due(memory, extractor=extract(broken))
        assert (ran.failed, ran.job.state, ran.job.error.partition(":")[0]) == (True, "waiting", "model_unavailable")
    assert pauses == [60, 120, 240]
    clock.set(ran.job.due_at)
    [ran] = run_due(memory, extractor=extract(working))
    assert ran.learned is not None and [lesson.text for lesson in ran.learned.added] == ["Plays the cello"]
    assert (ran.job.state, ran.job.error, ran.job.result["added"]) == ("done", "", 1)
    [entry] = ada.entries(collection="statements")
    assert (entry.metadata["said_in"], entry.origin.door) == ([failed.messages[0]], "sleep")
    assert run_due(memory, extractor=extract(broken)) == []
    assert ada.learn(TALK, conversation="c1", model=broken).pending is None  # they were read


def test_a_job_that_failed_too_often_is_dead_until_it_is_asked_for_again(
    memory: Memory, ada: ScopedMemory, clock: FakeClock
) -> None:
    extractor = memoranda.sleep.extract_by_model(Model(DOWN))
    ada.learn(TALK, conversation="c1", model=Model(DOWN))
    for _ in range(MOST_ATTEMPTS):
        clock.advance(10_000)
        run_due(memory, extractor=extractor)
    assert [job.state for job in sleep_jobs(memory)] == ["dead"]
    assert ada.learn(TALK, conversation="c1", model=Model(DOWN)).pending
    assert [(job.state, job.attempts) for job in sleep_jobs(memory)] == [("waiting", 1)]
    assert ada.learn(TALK, conversation="c1", model=Model({"lines": [CELLO]})).added
    assert [job.state for job in sleep_jobs(memory)] == ["done"]


def test_rules_read_what_a_model_could_not(memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
    talk = [{"role": "user", "content": "I live in Porto.", "at": "2025-02-03T09:00:00Z"}]
    ada.learn(talk, conversation="c1", model=Model(DOWN))
    clock.advance(60)
    [ran] = run_due(memory)
    assert ran.learned is not None and [lesson.text for lesson in ran.learned.added] == ["Lives in Porto"]
    [entry] = ada.entries(collection="statements")
    assert entry.metadata["time"].startswith("2025-02-03")


def test_only_what_is_pending_is_read_again(memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
    ada.learn("I live in Porto.", conversation="c1")
    longer = ["I live in Porto.", "I prefer tea.", {"role": "user", "content": "I speak Dutch.", "name": "Bruno"}]
    assert ada.learn(longer, conversation="c1", model=Model(DOWN)).pending
    [job] = sleep_jobs(memory)
    assert job.mark == 2
    clock.advance(60)
    [ran] = run_due(memory)
    assert ran.learned is not None
    assert [lesson.text for lesson in ran.learned.lessons] == ["Prefers tea", "Bruno: Speaks Dutch"]


def test_long_messages_are_read_whole(memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
    talk = f"{'The sea is calm. ' * 2_000}\nI live in Porto."
    failed = ada.learn(talk, model=Model(DOWN))
    assert len(failed.messages) == 3
    clock.advance(60)
    [ran] = run_due(memory)
    assert ran.learned is not None and [lesson.text for lesson in ran.learned.added] == ["Lives in Porto"]


def test_undone_messages_are_not_read_again(memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
    failed = ada.learn("I live in Porto.", conversation="c1", model=Model(DOWN))
    ada.undo(failed)
    clock.advance(60)
    [ran] = run_due(memory)
    assert (ran.failed, ran.job.state) == (False, "done")
    assert ada.entries() == []
    assert ada.learn("I live in Porto.", conversation="c1").added


@pytest.mark.parametrize("gone", ["user", "conversation", "forgotten"])
def test_jobs_go_with_the_scope_and_with_the_conversation(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, gone: str
) -> None:
    for user in ("ada", "bob"):
        memory.scope(user=user).learn(TALK, conversation="c1", model=Model(DOWN))
    if gone == "user":
        memory.erase(user="ada")
    elif gone == "conversation":
        memory.erase(user="ada", thread="c1")
    else:
        forget_conversation(memory, "c1", user="ada")
    assert [job.conversation for job in sleep_jobs(memory)] == [("bob", "c1")]


@pytest.mark.parametrize(
    "ids", [{}, {"project": "atlas"}, {"user": "ada", "agent": "desk"}, {"user": "ada", "thread": "t1"}]
)
def test_every_scope_that_lasts_has_such_jobs(memory: Memory, clock: FakeClock, ids: dict[str, str]) -> None:
    place = memory.scope(**ids)
    assert place.learn("I live in Porto.", conversation="c1", model=Model(DOWN)).retry_at
    assert place.list() == []  # the job is not stored as a fact of the user
    clock.advance(60)
    [ran] = run_due(memory)
    assert ran.learned is not None and ran.learned.added
    assert [entry.content for entry in place.entries(collection="statements")] == ["Lives in Porto"]


def test_any_id_of_a_conversation_will_do(memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
    for id in ("a/b:c #1", "x" * 200, "naïve ☕"):
        assert ada.learn("I live in Porto.", conversation=id, model=Model(DOWN)).retry_at
    clock.advance(60)
    assert [ran.failed for ran in run_due(memory)] == [False] * 3
    assert sorted(job.conversation[1] for job in sleep_jobs(memory, state="done")) == sorted(
        ("a/b:c #1", "x" * 200, "naïve ☕")
    )


def test_a_session_has_no_job_and_says_what_to_do(memory: Memory) -> None:
    session = memory.scope(session="s1")
    failed = session.learn("I live in Porto.", model=Model(DOWN))
    assert failed.retry_at is None
    assert failed.pending == (
        "the model does not answer; the messages are kept: undo this and learn again to read them"
    )
    session.undo(failed)
    assert session.learn("I live in Porto.").added
    assert sleep_jobs(memory) == []


def test_a_chat_and_a_learned_conversation_of_one_id_have_jobs_of_their_own(
    memory: Memory, ada: ScopedMemory, clock: FakeClock
) -> None:
    from lessons import Talk

    Talk(memory)("I prefer tea.", conversation="c1")
    ada.learn("I live in Porto.", conversation="c1", model=Model(DOWN))
    run_sleep_time(memory, "c1", user="ada")
    clock.advance(60)
    run_due(memory)
    assert {(job.kind, job.state) for job in sleep_jobs(memory)} == {("sleep", "done"), ("learn", "done")}
    assert [entry.content for entry in ada.entries(collection="statements")] == ["Prefers tea", "Lives in Porto"]


def test_a_provider_that_is_down_and_comes_up_is_asked_by_its_name(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, server: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as down:
        with socket.socket() as taken:  # a port at which nothing listens
            taken.bind(("127.0.0.1", 0))
            down.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        failed = ada.learn(TALK, conversation="c1", model="openai-chat:made-up")
    assert failed.pending and failed.retry_at is not None and server.asked == []
    clock.set(failed.retry_at)
    server.waiting.append(wire.calls((ANSWER, {"lines": [CELLO]})))
    [ran] = run_due(memory)  # the worker itself would read by rules
    assert ran.learned is not None and [lesson.text for lesson in ran.learned.added] == ["Plays the cello"]
