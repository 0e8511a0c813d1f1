"""Indexes follow the database: what another process or thread was told is done, the next recall knows.

What ended is left out when the rows are read, so that a stale index does not easily show it; it would give it a place.
So the recalls here ask for as few matches as there are entries, and something that is gone would take one of them.
"""

from __future__ import annotations

import ast
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from broken_indexes import follow_no_removals

import memoranda
from memoranda import Memory, ScopedMemory

RunChild = Callable[..., Any]

# Does what it is told, line by line, in one long life with one open memory, and answers in one line.
AGENT = """
import sys, memoranda
with memoranda.open(sys.argv[1], embedder="hashing:64", busy_timeout=30) as memory:
    ada = memory.scope(user="ada")

    def found(query, **options):
        return [match.content for match in ada.recall(query, collection="notes", **options).results]

    print("ready", flush=True)
    for line in sys.stdin:
        try:
            print(repr(eval(line)), flush=True)
        except memoranda.MemorandaError as error:
            print(repr(f"{type(error).__name__}: {error}"), flush=True)
"""


@pytest.fixture
def memory(address: str) -> Iterator[Memory]:
    with memoranda.open(address, embedder="hashing:64") as memory:
        yield memory


class Agent:
    """Another process that has the same database open."""

    def __init__(self, run_child: RunChild, address: str) -> None:
        self._child = run_child(AGENT, address)
        assert self._child.hear() == "ready"

    def __call__(self, expression: str) -> Any:
        self._child.say(expression)
        return ast.literal_eval(self._child.hear())


@pytest.mark.capability("processes")
def test_each_step_of_another_process_is_seen_at_once(address: str, memory: Memory, run_child: RunChild):
    other, ada = Agent(run_child, address), memory.scope(user="ada")
    where: dict[str, Any] = {"collection": "notes"}

    def sees(*contents: str) -> None:
        """It finds these, and nothing that is gone takes a place of theirs."""
        for mode in ("hybrid", "semantic"):
            options = f"limit={max(len(contents), 1)}, mode={mode!r}"
            assert sorted(other(f'found("a lamp, a rope and a map", {options})')) == sorted(contents)
        assert [match.content for match in ada.recall("a lamp", limit=9, **where).results] == other(
            'found("a lamp", limit=9)'
        )

    sees()
    lamp = ada.remember("a lamp", **where)
    sees("a lamp")
    ada.remember_many([{"content": "a rope"}, {"content": "a map", "key": "m"}], **where)
    sees("a lamp", "a rope", "a map")
    assert ada.forget(lamp.id, **where)
    sees("a rope", "a map")
    ada.remember("a map of the cave", key="m", **where)
    sees("a rope", "a map of the cave")
    assert memory.scrub()
    sees("a rope", "a map of the cave")
    ada.remember("a lamp", namespace="cellar", **where)
    sees("a rope", "a map of the cave", "a lamp")
    memory.collections.reembed("notes", "hashing:96", batch=2)
    sees("a rope", "a map of the cave", "a lamp")
    assert other("memory.collections.list()[0].embedder") == "hashing:96"
    ada.remember("two lamps", **where)
    sees("a rope", "a map of the cave", "a lamp", "two lamps")
    memory.collections.reembed("notes", "hashing:64")
    sees("a rope", "a map of the cave", "a lamp", "two lamps")
    assert memory.erase(user="ada").removed["entries"] == 6
    sees()
    ada.remember("a lamp", **where)  # the same text as once: another entry
    sees("a lamp")
    assert memory.collections.delete("notes") == 1
    sees()
    ada.remember("a map", **where)
    sees("a map")
    # And the other way round.
    assert other('ada.remember("a rope", collection="notes").stored')
    sees("a map", "a rope")
    assert other('bool(ada.forget(ada.entries(collection="notes")[0].id, collection="notes"))')
    sees("a rope")


@pytest.mark.capability("processes")
def test_what_one_process_is_told_the_other_finds_fifty_times(address: str, memory: Memory, run_child: RunChild):
    other, ada = Agent(run_child, address), memory.scope(user="ada")
    choose, standing = random.Random(5), dict[str, str]()
    for number in range(50):
        if standing and choose.random() < 0.4:
            gone = choose.choice(sorted(standing))
            assert ada.forget(standing.pop(gone), collection="notes")
        else:
            gone = f"word{number} and more"
            standing[gone] = ada.remember(gone, collection="notes").id
        found = other(f"found({gone!r}, limit={max(len(standing), 1)})")
        assert sorted(found) == sorted(standing)


def test_an_index_that_misses_a_removal_is_found_out(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    """The control: the way in which the tests above ask does see a stale index."""
    ada = memory.scope(user="ada")
    lamp = ada.remember("a lamp", collection="notes")
    ada.remember("a rope", collection="notes")

    def found() -> list[Any]:
        return [match.content for match in ada.recall("a lamp", collection="notes", limit=1).results]

    assert found() == ["a lamp"]
    follow_no_removals(monkeypatch)
    assert ada.forget(lamp.id, collection="notes")
    assert found() != ["a rope"]
    monkeypatch.undo()
    memory._gate._indexes.drop(ada.scope)
    assert found() == ["a rope"]


# many threads on one shelf


class Told(NamedTuple):
    """When a thread asked for something and when it was answered, by one clock."""

    called: int
    returned: int


class Life(NamedTuple):
    """One entry: when it was remembered, and when forgotten if it was."""

    stored: Told
    forgotten: Told | None


class Look(NamedTuple):
    """One recall without limit: when, and the contents it found."""

    when: Told
    found: frozenset[str]
    doubled: bool


class History:
    """What threads wrote down of entries, each of which has a text of its own."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.looks: list[Look] = []

    def problems(self) -> list[str]:
        """What no order of the calls could explain: each entry is a thing that appears once and goes once."""
        wrong: list[str] = []
        for look in self.looks:
            if look.doubled:
                wrong.append("a recall found an entry twice")
            for text, life in self.lives.items():
                if text in look.found:
                    if life.forgotten is not None and life.forgotten.returned < look.when.called:
                        wrong.append(f"`{text}` was forgotten before a recall that found it")
                    if look.when.returned < life.stored.called:
                        wrong.append(f"`{text}` was found before it was remembered")
                elif life.stored.returned < look.when.called and (
                    life.forgotten is None or life.forgotten.called > look.when.returned
                ):
                    wrong.append(f"`{text}` was remembered before a recall that missed it")
            wrong += [f"`{text}` was never remembered" for text in look.found - set(self.lives)]
        return wrong


def timed(act: Callable[[], Any]) -> tuple[Any, Told]:
    called = time.monotonic_ns()
    answer = act()
    return answer, Told(called, time.monotonic_ns())


Recall = Callable[[ScopedMemory], list[str]]
MOST = 10_000
"""More entries than there ever are."""


def open_beside(address: str) -> Memory:
    return memoranda.open(address, embedder="hashing:64", busy_timeout=60, limits=memoranda.Limits(recall=MOST))


def recall_all(place: ScopedMemory) -> list[str]:
    return [match.content for match in place.recall("something to find", collection="notes", limit=MOST).results]


def live(place: ScopedMemory, name: str, steps: int, history: History, recall: Recall) -> None:
    """Remember, forget and recall in turn, as one of many."""
    choose, standing = random.Random(name), dict[str, str]()
    for number in range(steps):
        kind = choose.choice(["remember", "many", "forget", "recall", "recall"])
        if kind in ("remember", "many"):
            texts = [f"{name} has {part}{number} to find" for part in ("xyz" if kind == "many" else "x")]
            made, told = timed(
                lambda texts=texts: place.remember_many([{"content": t} for t in texts], collection="notes")
            )
            for text, one in zip(texts, made, strict=True):
                history.lives[text] = Life(told, None)
                standing[text] = one.id
        elif kind == "forget" and standing:
            text = choose.choice(sorted(standing))
            id = standing.pop(text)
            forgotten, told = timed(lambda id=id: place.forget(id, collection="notes"))
            assert forgotten
            history.lives[text] = Life(history.lives[text].stored, told)
        else:
            found, told = timed(lambda: recall(place))
            history.looks.append(Look(told, frozenset(found), len(found) != len(set(found))))


def run_threads(count: int, work: Callable[[int], object]) -> None:
    together, failures = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        try:
            together.wait()
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def record(memories: list[Memory], *, steps: int, recall: Recall = recall_all) -> History:
    history = History()
    places = [memory.scope(user="ada") for memory in memories]
    run_threads(6, lambda number: live(places[number % len(places)], f"thread{number}", steps, history, recall))
    return history


def assert_telling(history: History) -> None:
    """Make sure that a history is worth checking: recalls ran beside writes, and saw entries come and go."""
    assert len(history.looks) > 20 and sum(life.forgotten is not None for life in history.lives.values()) > 5
    assert len({look.found for look in history.looks}) > 10
    told = [life.stored for life in history.lives.values()]
    beside = [
        look
        for look in history.looks
        if any(t.called < look.when.returned and look.when.called < t.returned for t in told)
    ]
    assert len(beside) > 3


@pytest.mark.slow
@pytest.mark.parametrize("memories", [1, 2], ids=["one memory", "two memories"])
@pytest.mark.capability("processes")
def test_a_recall_sees_what_was_acknowledged_before_it_began(address: str, deep: bool, memories: int):
    with open_beside(address) as one, open_beside(address) as two:
        history = record([one, two][:memories], steps=400 if deep else 60)
        assert_telling(history)
        assert history.problems() == []
        # When all is quiet, every remaining entry is found once, by the memories that took part and by a fresh one.
        standing = sorted(text for text, life in history.lives.items() if life.forgotten is None)
        with open_beside(address) as fresh:
            for memory in (one, two, fresh):
                place = memory.scope(user="ada")
                assert sorted(recall_all(place)) == standing
                assert len(place.recall("thread0", collection="notes", limit=len(standing)).results) == len(standing)
                assert sorted(entry.content for entry in place.entries(collection="notes")) == standing
            fresh.settle()
            assert [finding for finding in fresh.inspect() if not finding.ok] == []


@pytest.mark.slow
def test_what_is_replaced_under_its_key_is_found_once_at_every_moment(address: str, deep: bool, eager_threads: None):
    times = 2_000 if deep else 150
    over = threading.Event()
    seen: list[int] = []
    with memoranda.open(address, embedder="hashing:64", durability="normal") as memory:
        ada = memory.scope(user="ada")
        ada.remember_many([{"content": f"filler {number}"} for number in range(50)], collection="notes")
        ada.remember("version 0 of the plan", collection="notes", key="plan")

        def replace() -> None:
            try:
                for number in range(1, times):
                    ada.remember(f"version {number} of the plan", collection="notes", key="plan")
            finally:
                over.set()

        def look() -> None:
            while not over.is_set():
                results = ada.recall("plan", collection="notes", limit=100).results
                seen.append(sum("of the plan" in match.content for match in results))

        run_threads(4, lambda number: look() if number else replace())
    assert len(seen) > 10  # the control: recalls took place
    assert set(seen) == {1}


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Switch threads so often that they interleave in the middle of operations."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual)


def test_a_recall_that_lags_behind_is_found_out(address: str):
    """The control: slightly outdated results are detected as wrong."""
    last: list[list[str]] = [[]]

    def recall_late(place: ScopedMemory) -> list[str]:
        last.append(recall_all(place))
        return last[-2]

    with open_beside(address) as memory:
        problems = record([memory], steps=40, recall=recall_late).problems()
    assert any("that missed it" in each for each in problems) and any("that found it" in each for each in problems)
