"""Responses become values, and every problem becomes the error that the engine would have raised."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from scripted_server import Answer, LoopbackServer, answers, hangs_up, problem

import memoranda
from memoranda import errors

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MemorandaError)),
    key=lambda kind: kind.code,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_code_becomes_the_class_it_is_made_from(
    client: Any, loopback: LoopbackServer, kind: type[memoranda.MemorandaError]
) -> None:
    loopback.default = problem(422, kind.code, "the `x` is wrong", hint="Use a `y`", path="$.x", limit=4, actual=[5])
    with pytest.raises(memoranda.MemorandaError) as raised:
        client.facts.set("k", 1)
    error = raised.value
    assert type(error) is kind
    assert (error.message, error.hint) == ("the `x` is wrong", "Use a `y`")
    assert (error.path, error.limit, error.actual, error.status) == ("$.x", 4, [5], 422)


def test_a_conflict_of_blocks_carries_the_stamp_as_a_moment(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = problem(409, "conflict", current_updated_at="2026-03-01T08:00:00.000001Z", expected=None)
    with pytest.raises(memoranda.Conflict) as raised:
        client.memory.update("core", "- x", expected_updated_at=None)
    assert raised.value.current_updated_at == datetime(2026, 3, 1, 8, 0, 0, 1, tzinfo=UTC)
    assert raised.value.expected is None
    assert "repeated" not in raised.value.details


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, memoranda.UsageError),
        (401, memoranda.Unauthenticated),
        (403, memoranda.Denied),
        (404, memoranda.NotFound),
        (409, memoranda.Conflict),
        (413, memoranda.LimitExceeded),
        (418, memoranda.Unavailable),
        (500, memoranda.StorageError),
    ],
)
def test_a_code_of_a_newer_server_counts_by_its_status(
    client: Any, loopback: LoopbackServer, status: int, kind: type[memoranda.MemorandaError]
) -> None:
    loopback.default = problem(status, "made_up_later", "news", headers={"x-request-id": "req-9"})
    with pytest.raises(kind) as raised:
        client.facts.set("k", 1)
    assert (raised.value.remote_code, raised.value.status) == ("made_up_later", status)
    assert raised.value.request_id == "req-9"


def test_only_what_is_not_there_is_none(client: Any, loopback: LoopbackServer) -> None:
    loopback.waiting = [problem(404, "not_found"), problem(404, "not_found"), problem(404, "not_found")]
    assert client.memory.get("core") is None
    assert client.facts.get("k") is None
    assert client.facts.value("k", "default") == "default"
    for answer in (problem(403, "denied"), Answer(404, b"<h1>Not Found</h1>"), problem(404, "no_such_address")):
        loopback.waiting = [answer]
        with pytest.raises(memoranda.MemorandaError):
            client.facts.get("k")
    loopback.waiting = [problem(404, "not_found")]
    with pytest.raises(memoranda.NotFound):
        client.definitions.get("bed")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(502, b"<html>Bad gateway</html>", {"content-type": "text/html"}),
        Answer(500, b""),
        Answer(500, b"[1, 2]"),
        Answer(500, b'{"message": "oops"}'),
        Answer(500, b"[" * 100_000),
        Answer(500, b"\xff\xfe\0"),
        Answer(301, b"", {"location": "http://127.0.0.1:1/elsewhere"}),
        Answer(200, b"<html>Welcome</html>", {"content-type": "text/html"}),
        Answer(200, b'{"id": "only"}'),
        Answer(200, b'{"facts": 7}'),
        Answer(200, b""),
    ],
    ids=lambda answer: f"{answer.status}-{answer.content[:12]!r}",
)
def test_what_no_such_server_says_is_unavailable_with_its_status(
    connect: Any, loopback: LoopbackServer, answer: Answer
) -> None:
    loopback.default = answer
    with pytest.raises(memoranda.Unavailable) as raised:
        connect(loopback.url, retries=0).facts.get("k")
    assert raised.value.status == answer.status
    assert raised.value.url == loopback.url
    assert len(str(raised.value)) < 700
    assert len(loopback.asked) == 1


def test_fields_of_a_problem_cannot_break_the_error(client: Any, loopback: LoopbackServer) -> None:
    said = {"code": "denied", "detail": 7, "hint": None, "title": "no", "message": "m", "self": 1, "details": {"a": 1}}
    loopback.default = answers({**said, "args": 5, "current_updated_at": "yesterday", "status": "four"}, 403)
    with pytest.raises(memoranda.Denied) as raised:
        client.facts.get("k")
    assert raised.value.message == "no"
    assert raised.value.details["current_updated_at"] == "yesterday"
    assert raised.value.details["details"] == {"a": 1}


def test_fields_that_a_newer_server_adds_are_left_aside(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers([{
        "content": "- Frost by May", "score": 1.5, "block_type": "archival", "scope": "user", "agent_id": None,
        "line_number": 2, "updated_at": "2026-03-01T08:00:00Z", "mood": "new",
    }])  # fmt: skip
    (match,) = client.memory.recall("frost")
    assert (match.scope, match.score, match.content, match.line_number) == ("user", 1.5, "- Frost by May", 2)


def test_a_server_that_is_not_there_is_unavailable_and_nothing_was_sent(
    connect: Any, nobody: str, hurried: None
) -> None:
    with pytest.raises(memoranda.Unavailable, match="cannot be reached") as raised:
        connect(nobody).facts.set("k", 1)
    assert (raised.value.sent, raised.value.url) == (False, nobody)
    assert "memoranda serve" in raised.value.hint


def test_a_server_that_hangs_up_may_have_done_it(connect: Any, loopback: LoopbackServer) -> None:
    loopback.default = hangs_up
    with pytest.raises(memoranda.Unavailable) as raised:
        connect(loopback.url, retries=0).facts.set("k", 1)
    assert raised.value.sent is True


def test_a_closed_client_says_so(client: Any, loopback: LoopbackServer) -> None:
    assert client.memory.list() == []
    client.close()
    client.close()
    with pytest.raises(memoranda.Unavailable, match="this client is closed"):
        client.memory.list()
    with pytest.raises(memoranda.Unavailable, match="this client is closed"):
        list(client.stream("porter", "Hello"))
    assert len(loopback.asked) == 1


def test_errors_travel_to_other_processes_whole(client: Any, loopback: LoopbackServer) -> None:
    import pickle

    loopback.default = problem(409, "conflict", expected=2, actual=5, current_version=5)
    with pytest.raises(memoranda.Conflict) as raised:
        client.facts.set("k", 1, expect=2)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.expected, copy.actual, copy.current_version) == (2, 5, 5)
    assert json.dumps(copy.details)
