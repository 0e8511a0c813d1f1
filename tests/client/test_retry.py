"""When a call is retried: only if it cannot take effect twice, and not before the server allows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

import pytest
from scripted_server import Answer, LoopbackServer, Waiting, answers, hangs_up, problem

import memoranda
from memoranda.client import retry
from memoranda.client.retry import LONGEST_ASKED, retry_after, wait_before
from memoranda.testing import FakeClock

FACT = {
    "id": "fact_1",
    "tenant": "default",
    "scope": "user:mara",
    "key": "k",
    "value": 1,
    "version": 1,
    "created_at": "2026-03-01T08:00:00Z",
    "updated_at": "2026-03-02T08:00:00Z",
}
BLOCK = {
    "id": "mem_1",
    "block_type": "core",
    "content": "",
    "scope": "user",
    "agent_id": None,
    "created_at": "2026-03-01T08:00:00Z",
    "updated_at": "2026-03-01T08:00:00Z",
}
STAMP = "2026-03-01T08:00:00Z"

SAFE: dict[str, tuple[Callable[[Any], object], Any]] = {
    "a get": (lambda client: client.facts.get("k"), FACT),
    "a list": (lambda client: client.memory.list(), []),
    "a recall of lines": (lambda client: client.memory.recall("tea"), []),
    "a recall": (lambda client: client.collections.recall("tea", collection="c"), {"results": [], "count": 0}),
    "a set that expects": (lambda client: client.facts.set("k", 1, expect=0), FACT),
    "a set with a key": (lambda client: client.facts.set("k", 1, idempotency_key="i"), FACT),
    "a delete that expects": (lambda client: client.facts.delete("k", expect=1), {}),
    "an update of a block": (lambda client: client.memory.update("core", "", expected_updated_at=STAMP), BLOCK),
    "a delete with a stamp": (lambda client: client.memory.delete("core", expected_updated_at=STAMP), {}),
}
UNSAFE: dict[str, tuple[Callable[[Any], object], Any]] = {
    "a blind set": (lambda client: client.facts.set("k", 1), FACT),
    "a blind delete": (lambda client: client.facts.delete("k"), {}),
    "a delete without a stamp": (lambda client: client.memory.delete("core"), {}),
    "a remember": (
        lambda client: client.collections.remember("x", collection="c"),
        {"id": "e", "collection": "c", "namespace": "", "stored": True},
    ),
    "a forget": (lambda client: client.collections.forget("e", collection="c"), {}),
    "an erasure": (
        lambda client: client.erase(user="mara"),
        {"id": "r", "tenant": "t", "scope": "s", "at": STAMP, "removed": {}, "position": 1, "scrubbed": True},
    ),
    "the end of a definition": (lambda client: client.definitions.delete("d"), {}),
}
DOUBTFUL: dict[str, Waiting] = {
    "hung up": hangs_up,
    "502": Answer(502, b"<html>"),
    "503": problem(503, "unavailable"),
    "504": Answer(504, b""),
}
HARMLESS: dict[str, Waiting] = {
    "429": problem(429, "quota_exceeded", headers={"retry-after": "0"}),
    "busy": problem(503, "busy"),
}
FINAL: dict[str, Waiting] = {
    "400": problem(400, "usage_error"),
    "401": problem(401, "unauthenticated"),
    "read-only": problem(503, "read_only"),
    "a model": problem(502, "model_failed"),
    "409": problem(409, "conflict"),
    "500": problem(500, "internal_error"),
}


@pytest.mark.parametrize("failure", DOUBTFUL.values(), ids=DOUBTFUL)
@pytest.mark.parametrize(("call", "good"), SAFE.values(), ids=SAFE)
def test_what_cannot_happen_twice_is_sent_again_after_a_doubtful_end(
    client: Any, loopback: LoopbackServer, call: Callable[[Any], object], good: Any, failure: Waiting
) -> None:
    loopback.waiting = [failure, failure]
    loopback.default = answers(good)
    call(client)
    assert len(loopback.asked) == 3
    assert len({(asked.method, asked.target, asked.content) for asked in loopback.asked}) == 1


@pytest.mark.parametrize("failure", DOUBTFUL.values(), ids=DOUBTFUL)
@pytest.mark.parametrize(("call", "good"), UNSAFE.values(), ids=UNSAFE)
def test_what_could_happen_twice_is_not_sent_again_after_a_doubtful_end(
    client: Any, loopback: LoopbackServer, call: Callable[[Any], object], good: Any, failure: Waiting
) -> None:
    loopback.waiting = [failure]
    loopback.default = answers(good)
    with pytest.raises(memoranda.Unavailable):
        call(client)
    assert len(loopback.asked) == 1
    call(client)
    assert len(loopback.asked) == 2


@pytest.mark.parametrize("failure", HARMLESS.values(), ids=HARMLESS)
@pytest.mark.parametrize(("call", "good"), [*SAFE.values(), *UNSAFE.values()], ids=[*SAFE, *UNSAFE])
def test_what_was_certainly_not_carried_out_is_sent_again_whatever_it_is(
    client: Any, loopback: LoopbackServer, call: Callable[[Any], object], good: Any, failure: Waiting
) -> None:
    loopback.waiting = [failure, failure]
    loopback.default = answers(good)
    call(client)
    assert len(loopback.asked) == 3


@pytest.mark.parametrize("failure", FINAL.values(), ids=FINAL)
def test_what_another_attempt_cannot_mend_is_told_at_once(
    client: Any, loopback: LoopbackServer, failure: Waiting
) -> None:
    loopback.waiting = [failure]
    loopback.default = answers(FACT)
    with pytest.raises(memoranda.MemorandaError):
        client.facts.get("k")
    assert len(loopback.asked) == 1
    assert client.facts.get("k").value == 1


def test_it_ends_with_the_last_error_when_attempts_are_used_up(
    connect: Any, loopback: LoopbackServer, hurried: None
) -> None:
    loopback.waiting = [hangs_up, problem(503, "busy"), problem(503, "busy", "still locked")]
    loopback.default = answers(FACT)
    with pytest.raises(memoranda.Busy, match="still locked"):
        connect(loopback.url).facts.get("k")
    assert len(loopback.asked) == 3
    loopback.waiting = [problem(503, "busy")]
    with pytest.raises(memoranda.Busy):
        connect(loopback.url, retries=0).facts.get("k")
    assert len(loopback.asked) == 4
    loopback.waiting = [problem(503, "busy")] * 5
    assert connect(loopback.url, retries=5).facts.get("k").value == 1


def test_an_address_without_a_server_is_tried_again_even_for_blind_writes(
    connect: Any, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_FIRST_WAIT", 0.2)
    begun = time.perf_counter()
    with pytest.raises(memoranda.Unavailable):
        connect(nobody, retries=1).facts.set("k", 1)
    assert time.perf_counter() - begun >= 0.1  # the least that a first wait takes


def test_what_ran_out_of_time_is_not_sent_again(connect: Any, loopback: LoopbackServer, hurried: None) -> None:
    loopback.waiting = [loopback.stays_silent]
    loopback.default = answers(FACT)
    client = connect(loopback.url, timeout=0.2)
    with pytest.raises(memoranda.Unavailable, match="did not answer within") as raised:
        client.facts.get("k")
    assert raised.value.sent is True
    assert len(loopback.asked) == 1
    assert client.facts.get("k").value == 1


def test_a_conflict_after_a_lost_answer_says_that_the_change_may_be_ours(client: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [hangs_up, problem(409, "conflict", hint="Read it again", current_updated_at=STAMP)]
    with pytest.raises(memoranda.Conflict) as raised:
        client.memory.update("core", "- x", expected_updated_at=None)
    assert raised.value.repeated is True
    assert str(raised.value).endswith("Read it again. " + raised.value.hint.partition(". ")[2])
    assert "may be your own" in raised.value.hint
    # No doubt where nothing can have happened before.
    loopback.waiting = [problem(503, "busy"), problem(409, "conflict", hint="Read it again")]
    with pytest.raises(memoranda.Conflict) as raised:
        client.memory.update("core", "- x", expected_updated_at=None)
    assert raised.value.hint == "Read it again"


def test_an_update_of_a_fact_does_not_make_its_own_change_twice(client: Any, loopback: LoopbackServer) -> None:
    """The first write was carried out, its answer lost: the conflict that follows is met by no further attempt."""
    loopback.waiting = [answers(FACT), hangs_up, problem(409, "conflict")]
    with pytest.raises(memoranda.Conflict) as raised:
        client.facts.update("k", lambda count: count + 1)
    assert raised.value.repeated is True
    loopback.waiting = [
        answers(FACT),
        problem(409, "conflict"),
        answers({**FACT, "value": 7, "version": 2}),
        answers({**FACT, "value": 8, "version": 3}),
    ]
    assert client.facts.update("k", lambda count: count + 1).value == 8
    assert [asked.body for asked in loopback.asked if asked.method == "PUT"][-2:] == [
        {"value": 2, "expect": 1},
        {"value": 8, "expect": 2},
    ]


def test_the_server_says_how_long_to_wait(client: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [problem(429, "quota_exceeded", headers={"retry-after": "1"})]
    loopback.default = answers(FACT)
    begun = time.perf_counter()
    assert client.facts.get("k").value == 1
    assert time.perf_counter() - begun >= 1.0


def test_a_wait_that_is_too_long_is_left_to_the_caller(client: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [problem(429, "quota_exceeded", headers={"retry-after": "3600"})]
    loopback.default = answers(FACT)
    with pytest.raises(memoranda.QuotaExceeded) as raised:
        client.facts.get("k")
    assert raised.value.retry_after == 3600
    assert len(loopback.asked) == 1
    assert client.facts.get("k").value == 1


def test_waits_grow_and_differ_and_stay_below_their_bounds() -> None:
    for attempt in range(1, 12):
        waits = {wait_before(attempt) for _ in range(200)}
        longest = min(5.0, 0.2 * 2 ** (attempt - 1))
        assert len(waits) > 100
        assert all(wait is not None and longest / 2 <= wait <= longest for wait in waits)
    asked = wait_before(1, asked=2.0)
    assert asked is not None and 2.0 < asked < 2.2
    assert wait_before(1, asked=LONGEST_ASKED) is not None
    assert wait_before(1, asked=LONGEST_ASKED + 0.1) is None


def test_retry_after_is_seconds_or_a_date() -> None:
    clock = FakeClock()
    assert retry_after("0") == 0
    assert retry_after(" 12 ") == 12
    date = format_datetime(clock.now(), usegmt=True)
    clock.advance(-5)
    assert retry_after(date, clock=clock) == 5
    clock.advance(60)
    assert retry_after(date, clock=clock) == 0
    for nonsense in (None, "", "soon", "-3", "1.5", "१", "Fri, 99 Foo 2026 00:00:00 GMT", "9" * 400):
        assert retry_after(nonsense, clock=clock) in (None, float("inf")), nonsense
