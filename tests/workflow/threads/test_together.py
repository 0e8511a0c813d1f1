"""Concurrent callers: no message is lost and no thread is begun twice, in whatever order they arrive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Memory
from memoranda.engine.facts import ListFacts, SetFact, WriteFacts
from memoranda.errors import NotFound, ScopeEnded
from memoranda.testing import FakeClock
from memoranda.workflow.threads import (
    Thread,
    add_message,
    close_thread,
    current_thread,
    messages,
    open_thread,
)

DAY = 86_400
PATIENCE = 120.0
"""Seconds after which a thread counts as hung; nothing is measured with it."""

TALK = """
import sys, memoranda
from memoranda.workflow.threads import add_message, current_thread
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memoranda.open(path, busy_timeout=60) as memory:
    memory.scope(user=name).set("ready", True)
    print("ready", flush=True)
    sys.stdin.readline()
    thread = current_thread(memory, owner="iris")
    for number in range(count):
        add_message(memory, thread, f"{name} {number}", sender=name, by_owner=name == "iris")
    print(thread.id, flush=True)
"""

OPEN = """
import sys, memoranda
from memoranda.workflow.threads import current_thread
path, channels = sys.argv[1], int(sys.argv[2])
with memoranda.open(path, busy_timeout=60) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    print(*(current_thread(memory, owner="iris", channel=f"c{number}").id for number in range(channels)), flush=True)
"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "m.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def rival(tmp_path: Path, clock: FakeClock, memory: Memory) -> Iterator[Memory]:
    """The same file, opened by another process."""
    with memoranda.open(tmp_path / "m.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def run_together(run_child: Any) -> Callable[[str, list[tuple[object, ...]]], list[str]]:
    """Run a script in a process for each call, let all of them go at once, and return what each said last."""

    def run(script: str, calls: list[tuple[object, ...]]) -> list[str]:
        children = [run_child(script, *call) for call in calls]
        return [said[-1] for said in children[0].run_together(children)]

    return run


def before_the_write(memory: Memory, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[object]:
    """Let another writer act once, after the next write was decided on and before it happens; return their results."""
    return before(memory, monkeypatch, act, SetFact | WriteFacts)


def before(memory: Memory, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], kind: Any) -> list[object]:
    """Let another writer act once, right before the next effect of a kind; return their results."""
    perform, happened = memory.perform, list[object]()

    def interrupted(effect: Any) -> Any:
        if isinstance(effect, kind) and not happened:
            happened.append(None)  # what they do must not interrupt itself
            happened[0] = act()
        return perform(effect)

    monkeypatch.setattr(memory, "perform", interrupted)
    return happened


def say(memory: Memory, thread: Thread, text: str) -> None:
    add_message(memory, thread, text, sender=thread.owner, by_owner=True)


def texts(memory: Memory, thread: Thread) -> list[str]:
    return [message.text for message in messages(memory, thread, 1_000)]


@pytest.mark.slow
def test_processes_that_talk_at_once_lose_no_message_and_share_one_thread(tmp_path: Path, run_together: Any) -> None:
    names = ["iris", "nursery", "gardener"]
    ids = run_together(TALK, [(tmp_path / "m.db", name, 40) for name in names])
    assert len(set(ids)) == 1
    with memoranda.open(tmp_path / "m.db") as memory:
        thread = current_thread(memory, owner="iris")
        found = messages(memory, thread, 1_000)
        assert (thread.id, thread.count, len(found)) == (ids[0], 120, 120)
        for name in names:
            own = [message.text for message in found if message.sender == name]
            assert own == [f"{name} {number}" for number in range(40)]  # each in its own order
        assert all(finding.ok for finding in memory.inspect())


@pytest.mark.slow
def test_processes_that_ask_at_once_begin_one_thread_in_each_channel(tmp_path: Path, run_together: Any) -> None:
    with memoranda.open(tmp_path / "m.db") as memory:
        said = run_together(OPEN, [(tmp_path / "m.db", 12)] * 3)
        assert said[0] == said[1] == said[2]
        assert len(set(said[0].split())) == 12
        kept = [event for event in memory.ledger.events() if event.key == "threads.thread"]
        assert len(kept) == 12  # no thread was begun without being used


def test_threads_of_one_process_that_talk_at_once_lose_no_message(memory: Memory) -> None:
    thread = current_thread(memory, owner="iris")
    talkers = [
        threading.Thread(target=lambda name=name: [say(memory, thread, f"{name} {n}") for n in range(25)])
        for name in "abcd"
    ]
    for talker in talkers:
        talker.start()
    for talker in talkers:
        talker.join(PATIENCE)
    found = texts(memory, thread)
    assert sorted(found) == sorted(f"{name} {n}" for name in "abcd" for n in range(25))
    keys = [fact.key for fact in memory.scope(user="iris", thread=thread.id).list("threads.messages", internal=True)]
    assert keys == [f"threads.messages.{number:012}" for number in range(1, 101)]


def test_of_two_messages_at_once_the_slower_comes_after(
    memory: Memory, rival: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = current_thread(memory, owner="iris")
    happened = before_the_write(memory, monkeypatch, lambda: say(rival, thread, "Faster"))
    say(memory, thread, "Slower")
    assert happened
    assert texts(memory, thread) == ["Faster", "Slower"]
    assert open_thread(memory, owner="iris", id=thread.id).count == 2


def test_of_two_who_begin_a_thread_at_once_both_get_the_faster_ones(
    memory: Memory, rival: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = before_the_write(memory, monkeypatch, lambda: current_thread(rival, owner="iris"))
    thread = current_thread(memory, owner="iris")
    assert happened == [thread]
    say(memory, thread, "Together")
    assert texts(rival, thread) == ["Together"]


def test_of_two_who_begin_a_thread_of_one_id_at_once_both_get_the_same(
    memory: Memory, rival: Memory, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_later() -> Thread:
        clock.advance(1)
        return open_thread(rival, owner="iris", id="order-3")

    happened = before_the_write(memory, monkeypatch, begin_later)
    assert happened == [] and open_thread(memory, owner="iris", id="order-3") == happened[0]


def test_of_two_who_find_a_thread_quiet_at_once_one_closes_it_and_both_go_on_in_the_next(
    memory: Memory, rival: Memory, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = current_thread(memory, owner="iris")
    clock.advance(DAY)
    happened = before_the_write(memory, monkeypatch, lambda: current_thread(rival, owner="iris"))
    second = current_thread(memory, owner="iris")
    assert happened == [second]
    assert second.id != first.id
    closings = [event for event in memory.ledger.events() if event.scope.endswith(first.id) and event.version == 2]
    assert len(closings) == 1


def test_a_message_that_comes_in_just_before_a_quiet_thread_is_closed_keeps_it_open(
    memory: Memory, rival: Memory, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = current_thread(memory, owner="iris")
    clock.advance(DAY)
    happened = before_the_write(memory, monkeypatch, lambda: say(rival, first, "Wait"))
    assert current_thread(memory, owner="iris").id == first.id
    assert happened
    assert texts(memory, first) == ["Wait"]
    clock.advance(DAY)
    assert current_thread(memory, owner="iris").id != first.id


def test_a_message_to_a_thread_that_is_closed_meanwhile_is_refused_and_can_be_said_in_the_next(
    memory: Memory, rival: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = current_thread(memory, owner="iris")
    happened = before_the_write(memory, monkeypatch, lambda: close_thread(rival, first))
    with pytest.raises(ScopeEnded):
        say(memory, first, "Too late")
    assert happened
    assert texts(memory, first) == []
    second = current_thread(memory, owner="iris")
    say(memory, second, "Not too late")
    assert texts(memory, second) == ["Not too late"]


def test_a_message_that_comes_in_just_before_its_thread_is_closed_is_kept(
    memory: Memory, rival: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = current_thread(memory, owner="iris")
    happened = before_the_write(memory, monkeypatch, lambda: say(rival, thread, "One thing more"))
    closed = close_thread(memory, thread)
    assert happened
    assert (closed.closed, closed.count) == (True, 1)
    assert open_thread(memory, owner="iris", id=thread.id) == closed
    assert texts(memory, thread) == ["One thing more"]


def test_a_message_that_comes_in_while_the_newest_are_read_is_among_them(
    memory: Memory, rival: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = current_thread(memory, owner="iris")
    for text in ("One", "Two", "Three"):
        say(memory, thread, text)
    happened = before(memory, monkeypatch, lambda: say(rival, thread, "Four"), ListFacts)
    assert [message.text for message in messages(memory, thread, 2)] == ["Three", "Four"]
    assert happened


def test_a_message_to_somebody_who_is_erased_meanwhile_is_not_kept(
    memory: Memory, rival: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = current_thread(memory, owner="iris")
    say(memory, thread, "Before")
    happened = before_the_write(memory, monkeypatch, lambda: rival.erase(user="iris"))
    with pytest.raises(NotFound):
        say(memory, thread, "After")
    assert happened
    assert memory.scope(user="iris").list() == memory.scope(user="iris", thread=thread.id).list() == []
