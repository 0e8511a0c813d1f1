"""The checkers accept what one register could have answered, and nothing else."""

from __future__ import annotations

import random
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memoranda.testing import Operation, Recorder, check, check_versions, load, merge, save
from memoranda.testing.linearizability import describe

BOTH = pytest.mark.parametrize("judge", [check, check_versions])


def op(kind: Any, called: int, returned: int | None = None, *, client: str = "ada", key: str = "k", **more: Any):
    return Operation(client=client, key=key, kind=kind, called=called, returned=returned, **more)


def write(value: Any, version: int | None, called: int, returned: int | None, **more: Any):
    return op("write", called, returned, argument=value, version=version, **more)


def cas(value: Any, expected: int, version: int | None, called: int, returned: int | None, **more: Any):
    return op("cas", called, returned, argument=value, expected=expected, version=version, **more)


def read(value: Any, version: int | None, called: int, returned: int | None, **more: Any):
    return op("read", called, returned, result=value, version=version, **more)


LEGAL = {
    "empty": [],
    "one after the other": [read(None, 0, 0, 1), write("a", 1, 2, 3), read("a", 1, 4, 5), cas("b", 1, 2, 6, 7)],
    "a read beside a write sees the old": [write("a", 1, 0, 1), write("b", 2, 2, 9), read("a", 1, 3, 4)],
    "a read beside a write sees the new": [write("a", 1, 0, 1), write("b", 2, 2, 9), read("b", 2, 3, 4)],
    "two writes at once, either order": [write("a", 2, 0, 9), write("b", 1, 0, 9), read("a", 2, 10, 11)],
    "one of two wins": [
        cas("a", 0, 1, 0, 9),
        op("cas", 1, 8, argument="b", expected=0, outcome="conflict", version=1, client="bob"),
        read("a", 1, 10, 11),
    ],
    "deleted, then written again": [
        write("a", 1, 0, 1),
        op("delete", 2, 3, result=True),
        read(None, 0, 4, 5),
        op("delete", 6, 7, result=False),
        cas("b", 0, 3, 8, 9),
        read("b", 3, 10, 11),
    ],
    "a delete that does not say": [op("delete", 0, 1), write("a", 1, 2, 3), op("delete", 4, 5), read(None, 0, 6, 7)],
    "a delete that says its version, and one that says nothing": [
        write("a", 1, 0, 1),
        op("delete", 2, 3, result=True, version=2),
        op("delete", 4, 5),
        write("b", 3, 6, 7),
    ],
    "null is a value": [write(None, 1, 0, 1), read(None, 1, 2, 3)],
    "no answer, and it happened late": [
        write("a", 1, 0, 1),
        write("b", None, 2, None, client="bob"),
        read("a", 1, 3, 4),
        read("b", 2, 5, 6),
    ],
    "no answer, and it never happened": [write("a", 1, 0, 1), cas("b", 1, None, 2, None), cas("c", 1, 2, 3, 4)],
    "no answer to a delete": [write("a", 1, 0, 1), op("delete", 2, None), read(None, 0, 3, 4), write("b", 3, 5, 6)],
    "no answer to a read": [op("read", 0, None)],
    "without versions": [write("a", None, 0, 1), read("a", None, 2, 3)],
    "keys do not meet": [write("a", 1, 0, 1, key="x"), read(None, 0, 2, 3, key="y")],
}

ILLEGAL = {
    "a read of the past": [write("a", 1, 0, 1), write("b", 2, 2, 3), read("a", 1, 4, 5)],
    "a read of nothing after a write": [write("a", 1, 0, 1), read(None, 0, 2, 3)],
    "a read of the future": [read("a", 1, 0, 1), write("a", 1, 2, 3)],
    "new, then old": [
        write("a", 1, 0, 1),
        write("b", 2, 2, 99),
        read("b", 2, 3, 4, client="bob"),
        read("a", 1, 5, 6, client="eve"),
    ],
    "both win": [cas("a", 0, 1, 0, 9), cas("b", 0, 1, 0, 9, client="bob")],
    "one version consumed twice": [write("a", 1, 0, 1), cas("b", 1, 2, 2, 9), cas("c", 1, 3, 2, 9, client="bob")],
    "consumed twice, versions not told": [
        write("a", 1, 0, 1),
        cas("b", 1, None, 2, 9),
        cas("c", 1, None, 2, 9, client="bob"),
    ],
    "a version left out": [write("a", 1, 0, 1), write("b", 3, 2, 3)],
    "a value nobody wrote": [write("a", 1, 0, 1), read("z", 1, 2, 3)],
    "a version nobody made": [write("a", 1, 0, 1), read("b", 2, 2, 3)],
    "seen before the call that was never answered": [read("a", 1, 0, 1), write("a", None, 2, None)],
    "a conflict without a reason": [
        write("a", 1, 0, 1),
        op("cas", 2, 3, argument="b", expected=1, outcome="conflict", version=1),
    ],
    "a read of what was deleted": [write("a", 1, 0, 1), op("delete", 2, 3, result=True), read("a", 1, 4, 5)],
    "an unanswered call that happened twice": [
        write("a", 1, 0, 1),
        write("b", None, 2, None),
        read("b", 2, 3, 4),
        read("b", 3, 5, 6),
    ],
    "only one of the keys": [write("a", 1, 0, 1, key="x"), read("b", 7, 2, 3)],
}

# What only the search can see: values without versions, and answers whose version is not told.
ONLY_SEARCH = {
    "stale, without versions": [write("a", None, 0, 1), write("b", None, 2, 3), read("a", None, 4, 5)],
    "a delete found what was not there": [op("delete", 0, 1, result=True)],
    "a delete did not find what was there": [
        write("a", 1, 0, 1),
        op("delete", 2, 3, result=True),
        write("b", 3, 4, 5),
        op("delete", 6, 7, result=False),
    ],
}


@BOTH
@pytest.mark.parametrize("name", LEGAL)
def test_legal(judge, name: str):
    verdict = judge(LEGAL[name])
    assert verdict.ok, verdict.explanation


@BOTH
@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal(judge, name: str):
    verdict = judge(ILLEGAL[name])
    assert not verdict.ok and verdict.decided
    assert verdict.key == "k" and verdict.explanation


@pytest.mark.parametrize("name", ONLY_SEARCH)
def test_illegal_in_ways_only_the_search_sees(name: str):
    assert not check(ONLY_SEARCH[name]).ok
    assert check_versions(ONLY_SEARCH[name]).ok  # a reminder of what the fast check is not


def test_the_explanation_names_the_culprit():
    history = ILLEGAL["a read of the past"]
    for judge in (check, check_versions):
        assert describe(history[2]) in judge(history).explanation


class Register:
    """A register as `Operation` describes it; without its lock, a race waiting to happen."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock
        self.value: Any = None
        self.present = False
        self.used = 0

    @property
    def version(self) -> int:
        return self.used if self.present else 0

    def read(self) -> tuple[Any, int]:
        with self.lock:
            return (self.value, self.used) if self.present else (None, 0)

    def put(self, value: Any, expected: int | None, pause: float = 0) -> tuple[bool, int]:
        with self.lock:
            if expected is not None and expected != self.version:
                return False, self.version
            used = self.used
            time.sleep(pause)
            self.value, self.present, self.used = value, True, used + 1
            return True, self.used

    def delete(self) -> bool:
        with self.lock:
            found, self.present = self.present, False
            self.used += found
            return found


def hammer(register: Register, *, clients: int = 4, calls: int = 8) -> list[Operation]:
    recorders = [Recorder() for _ in range(clients)]

    def work(number: int) -> None:
        name, recorder = f"client-{number}", recorders[number]
        for turn in range(calls):
            with recorder.call(name, "k", "read") as call:
                value, version = register.read()
                call.ok(value, version=version)
            mine = f"{number}.{turn}"
            with recorder.call(name, "k", "cas", argument=mine, expected=version) as call:
                won, version = register.put(mine, version, pause=0.001)
                call.ok(version=version) if won else call.conflict(version)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return merge(*(recorder.history for recorder in recorders))


@BOTH
def test_a_racy_register_is_rejected_and_a_locked_one_accepted(judge):
    assert not judge(hammer(Register(nullcontext()))).ok
    verdict = judge(hammer(Register(threading.Lock())))
    assert verdict.ok, verdict.explanation


def stretched(seed: int, calls: int, clients: int, silent: float, told: bool = True) -> list[Operation]:
    """Run calls one after the other, then let each begin earlier and end later, as long as clients do not overlap."""
    choose = random.Random(seed)
    register = Register(nullcontext())
    turns = [str(choose.randrange(clients)) for _ in range(calls)]
    free = dict.fromkeys(turns, 0)  # from when on each client may call again
    history: list[Operation] = []
    for index, client in enumerate(turns):
        moment = 100 * (index + 1)
        following = next((i for i in range(index + 1, calls) if turns[i] == client), calls)
        called = choose.randint(max(free[client], moment - 100 * clients), moment)
        returned = choose.randint(moment, min(100 * following + 99, moment + 100 * clients))
        free[client] = returned + 1
        kind = choose.choice(["read", "write", "cas", "delete"])
        lost = choose.random() < silent
        fields: dict[str, Any] = {"client": client, "key": "k", "kind": kind, "called": called}
        if kind == "read":
            value, version = register.read()
            answer: dict[str, Any] = {"result": value, "version": version}
        elif kind == "delete":
            answer = {"result": register.delete()}
        else:
            fields["argument"] = choose.randrange(4)
            if kind == "cas":
                fields["expected"] = choose.choice([register.version, register.version, choose.randrange(5)])
            if lost and choose.random() < 0.5:
                answer = {}  # it never arrived
            else:
                won, version = register.put(fields["argument"], fields.get("expected"))
                answer = {"version": version, "outcome": "ok" if won else "conflict"}
        if not told:
            answer.pop("version", None)
        history.append(Operation(**fields, **({} if lost else {**answer, "returned": returned})))
    choose.shuffle(history)
    return history


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.4]), st.booleans())
def test_a_sequential_history_stretched_in_time_is_accepted(seed, calls, clients, silent, told):
    history = stretched(seed, calls, clients, silent, told)
    for judge in (check, check_versions):
        verdict = judge(history)
        # Calls that were never answered can leave more orders than are tried. Hypothesis fails when that is common.
        assume(verdict.decided)
        assert verdict.ok, verdict.explanation


def brute(history: list[Operation]) -> bool:
    """Say by trying every order of a short history of writes and reads, without any cleverness, if one fits."""

    def fits(rest: list[Operation], value: Any, version: int) -> bool:
        if all(each.returned is None for each in rest):
            return True
        for each in rest:
            if any(other.returned is not None and other.returned < each.called for other in rest):
                continue
            others = [other for other in rest if other is not each]
            if each.kind == "read":
                right = each.result == value and each.version in (None, version)
                if right and fits(others, value, version):
                    return True
            elif each.kind == "cas" and each.expected != version:
                continue
            elif each.version in (None, version + 1) and fits(others, each.argument, version + 1):
                return True
        return False

    return fits(history, None, 0)


@st.composite
def small_histories(draw: Any) -> list[Operation]:
    history: list[Operation] = []
    for index in range(draw(st.integers(1, 6))):
        called = draw(st.integers(0, 8))
        returned = called + draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["read", "write", "cas"]))
        version = draw(st.none() | st.integers(1, 3))
        if kind == "read":
            history.append(read(draw(st.integers(0, 2)), version, called, returned, client=str(index)))
            continue
        expected = draw(st.integers(0, 2)) if kind == "cas" else None
        silent = draw(st.booleans()) and draw(st.booleans())
        answer = {} if silent else {"version": version, "returned": returned}
        history.append(
            Operation(
                client=str(index),
                key="k",
                kind=kind,
                argument=draw(st.integers(0, 2)),
                expected=expected,
                called=called,
                **answer,
            )
        )
    return history


@settings(max_examples=400, deadline=None)
@given(small_histories())
def test_the_search_agrees_with_trying_everything(history):
    right = brute([each for each in history if each.kind != "read" or each.returned is not None])
    assert check(history).ok == right
    if right:  # the fast check may miss an error, but never invents one
        assert check_versions(history).ok


def test_eight_clients_with_sixty_calls_each_take_well_under_a_second():
    for told in (True, False):
        history = stretched(7, 480, 8, 0.02, told)
        begin = time.perf_counter()
        assert check(history).ok
        assert time.perf_counter() - begin < 1
        spoiled = [*history, read("never written", None, 10**6, 10**6 + 1)]
        begin = time.perf_counter()
        verdict = check(spoiled, most=20_000)
        assert not verdict.ok
        assert time.perf_counter() - begin < 3


def test_a_search_that_is_too_large_says_so():
    history = [write(number, None, 0, 100, client=str(number)) for number in range(14)]
    verdict = check([*history, read("never written", None, 200, 201)], most=1000)
    assert not verdict.ok and not verdict.decided and "1000" in verdict.explanation
    assert check(history, most=1000).decided
    stale = [write("a", 1, 0, 1), write("b", 2, 2, 3), read("a", 1, 4, 5)]
    assert check(stale, most=1).decided  # the versions alone say no


def test_a_long_run_is_checked_in_one_pass():
    history = [write(n, n, 2 * n, 2 * n + 1) for n in range(1, 100_001)]
    begin = time.perf_counter()
    assert check_versions(history).ok
    assert time.perf_counter() - begin < 5
    assert not check_versions([*history, read(1, 1, 10**6, 10**6 + 1)]).ok


def test_the_recorder_notes_answers_conflicts_silence_and_failures():
    recorder = Recorder()
    with recorder.call("ada", "k", "write", argument=1) as call:
        call.ok(version=1)
    with recorder.call("ada", "k", "cas", argument=2, expected=0) as call:
        call.conflict(1)
    with pytest.raises(TimeoutError), recorder.call("ada", "k", "write", argument=3):
        raise TimeoutError
    with recorder.call("ada", "k", "write", argument=4) as call:
        call.failed()
    first, second, third = recorder.history
    assert (first.outcome, first.version, second.outcome, second.version) == ("ok", 1, "conflict", 1)
    assert first.returned is not None and first.called <= first.returned <= second.called
    assert (third.argument, third.returned) == (3, None)


def test_histories_are_saved_loaded_and_merged(tmp_path: Path):
    history = stretched(1, 40, 3, 0.2)
    save(history[:20], tmp_path / "one.jsonl")
    save(history[20:], tmp_path / "two.jsonl")
    merged = merge(load(tmp_path / "one.jsonl"), load(tmp_path / "two.jsonl"))
    assert merged == sorted(history, key=lambda each: each.called)
    assert len((tmp_path / "one.jsonl").read_text().splitlines()) == 20
