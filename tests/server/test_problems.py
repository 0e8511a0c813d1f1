from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import Any

import httpx
import pytest

import memoranda
from memoranda import errors
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, Corrupt, Denied, MemorandaError, QuotaExceeded, Unavailable
from memoranda.server.app import create_app
from memoranda.server.auth.keys import create_key
from memoranda.server.problems import STATUSES, problem_of
from memoranda.server.settings import Settings
from memoranda.wire.problems import decode_problem


def tree(kind: type[MemorandaError]) -> set[type[MemorandaError]]:
    return {kind} | {below for child in kind.__subclasses__() for below in tree(child)}


def test_every_error_has_a_status_and_every_status_an_error():
    ours = {kind.code for kind in tree(MemorandaError) if kind.__module__ == errors.__name__}
    assert ours == set(STATUSES)


MISTAKES = sorted(tree(errors.UsageError), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", MISTAKES)
def test_whatever_is_wrong_with_a_call_is_the_callers_to_mend(kind):
    assert STATUSES[kind.code] == 422


def test_a_problem_has_the_errors_own_fields_flat():
    status, body, _ = problem_of(Conflict("it moved", hint="read again", expected=1, actual=4, key="a"), "req_1")
    assert status == 409
    assert json.loads(body) == {
        "type": "urn:memoranda:conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "it moved",
        "code": "conflict",
        "hint": "read again",
        "request_id": "req_1",
        "expected": 1,
        "actual": 4,
        "current_version": 4,
        "key": "a",
    }
    problem, details = decode_problem(body)
    assert (problem.code, problem.current_version) == ("conflict", 4)
    assert details == {"expected": 1, "actual": 4, "current_version": 4, "key": "a"}


def test_a_field_cannot_take_the_place_of_a_member():
    body = problem_of(Denied("no", status=200, code="fine", type="x", capability="memory.read"), "req_1")[1]
    told = json.loads(body)
    assert (told["status"], told["code"], told["type"]) == (403, "denied", "urn:memoranda:denied")
    assert told["capability"] == "memory.read"


def test_paths_addresses_and_strangers_stay_here():
    for error in (
        Corrupt("the file /srv/secret/team.db is damaged", hint="look at /srv/secret", url="/srv/secret/team.db"),
        Unavailable("cannot open /srv/secret/team.db", url="/srv/secret/team.db"),
        KeyError("/srv/secret/team.db"),
        Denied("no", actor="user:somebody", url="/srv/secret"),
    ):
        status, body, _ = problem_of(error, "req_1")
        assert b"secret" not in body
        assert b"somebody" not in body
        assert json.loads(body)["status"] == status


def test_who_may_come_again_is_told_when():
    assert problem_of(QuotaExceeded("too much", retry_after=2.3), "")[2]["Retry-After"] == "3"
    assert problem_of(errors.Busy("locked"), "")[2]["Retry-After"] == "1"
    assert "Retry-After" not in problem_of(Conflict("x"), "")[2]


def test_every_answer_has_the_id_of_its_request(served):
    client = served.client()
    made = client.get("/api/v1/memory/facts/none")
    assert made.json()["request_id"] == made.headers["x-request-id"]
    assert re.fullmatch(r"req_[0-9a-f]+", made.headers["x-request-id"])
    given = client.get("/api/v1/memory/facts/none", headers={"X-Request-Id": "trace-7.b"})
    assert given.json()["request_id"] == given.headers["x-request-id"] == "trace-7.b"
    for unfit in ("two words", "x" * 65, "a\tb", '{"a":1}', ""):
        other = client.get("/health", headers={"X-Request-Id": unfit})
        assert other.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    "method, path, unheeded",
    [
        ("GET", "/memory/facts?limit=1&limit=2", "more than once"),
        ("GET", "/memory/facts?limit=1&%6Cimit=1", "more than once"),
        ("GET", "/memory/blocks/core?scope=agent&agent_id=a&agent_id=b", "more than once"),
        ("GET", "/memory/facts?limits=1", "is not a parameter of this route"),
    ],
)
def test_a_parameter_that_would_not_be_looked_at_is_refused(served, method, path, unheeded):
    client = served.client()
    refused = client.request(method, f"/api/v1{path}")
    assert (refused.status_code, refused.json()["code"]) == (422, "usage_error")
    assert unheeded in refused.json()["detail"]
    assert client.get("/api/v1/memory/facts?limit=1&prefix=").status_code == 200


def test_a_condition_that_nothing_would_be_held_to_is_refused_and_nothing_is_written(served, someone):
    admin = served.client()
    definition = admin.post(
        "/api/v1/memory/definitions", json={"name": "Boat", "slug": "boat", "schema": {"type": "object"}}
    ).json()
    place = f"/api/v1/memory/definitions/{definition['id']}"
    for name, tag in (("If-Match", '"1"'), ("If-None-Match", "*")):
        refused = admin.patch(place, json={"name": "Ship"}, headers={name: tag})
        assert (refused.status_code, refused.json()["code"]) == (422, "usage_error"), name
        assert name in refused.json()["detail"]
        assert admin.delete(place, headers={name: tag}).status_code == 422
    assert admin.get(place, headers={"If-Match": '"1"'}).json()["name"] == "Boat"
    twice = [("If-Match", '"1"'), ("If-Match", '"2"')]
    assert someone.put("/api/v1/memory/facts/tea", json={"value": 1}).status_code == 200
    assert someone.put("/api/v1/memory/facts/tea", json={"value": 2}, headers=twice).status_code == 422
    assert someone.put("/api/v1/memory/facts/tea", json={"value": 2}, headers=twice[:1]).status_code == 200
    assert admin.patch(place, json={"name": "Ship"}).json()["name"] == "Ship"


def test_what_nobody_foresaw_is_in_the_log_with_where_it_happened_and_not_in_the_answer(monkeypatch, caplog):
    with memoranda.open(":memory:") as memory:
        key = create_key(memory, tenant="default", user="ada", role="member").token
        app: Any = create_app(Settings(db=":memory:", sleep=False), memory)
        monkeypatch.setattr(ScopedMemory, "history", lambda self, key, **options: 1 // 0)

        async def ask(path: str) -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://memory") as client:
                return await client.get(path, headers={"Authorization": f"Bearer {key}", "X-Request-ID": "req-seven"})

        with caplog.at_level(logging.ERROR, logger="memoranda"):
            assert asyncio.run(ask("/api/v1/memory/facts/tea")).status_code == 404
            assert caplog.records == []
            answer = asyncio.run(ask("/api/v1/memory/facts/tea/history"))
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "division" not in answer.text
    [told] = caplog.records
    assert told.exc_info is not None and isinstance(told.exc_info[1], ZeroDivisionError)
    assert told.__dict__["fields"] == {"request_id": "req-seven"}


def test_an_address_that_is_no_route_is_another_problem_than_a_missing_fact(served):
    client = served.client()
    nowhere, missing = client.get("/api/v1/memory/fact/x"), client.get("/api/v1/memory/facts/x")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "no_such_address")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    wrong = client.post("/api/v1/memory/facts/x", json={})
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert {"GET", "PUT", "DELETE"} <= set(wrong.headers["allow"].split(", "))


def test_an_unknown_parameter_is_refused_by_its_name(served):
    client = served.client(served.key_for("typist"))
    answer = client.put(
        "/api/v1/memory/blocks/core?agent_idd=loom", json={"content": "- x", "expected_updated_at": None}
    )
    assert (answer.status_code, answer.json()["path"]) == (422, "agent_idd")
    assert client.get("/api/v1/memory/blocks", params={"scope": "all"}).json() == []
    for name in ("tenant", "user", "role"):
        assert client.get(f"/api/v1/memory/facts?{name}=other").status_code == 422
    assert client.get("/api/v1/memory/facts?limit=3").status_code == 200


def test_a_value_that_is_none_of_its_choices_is_told_them(served):
    deck = {"name": "Deck", "slug": "deck", "schema": {"type": "object"}}
    refused = served.client().post("/api/v1/memory/definitions", json={**deck, "mode": "merg"})
    assert refused.status_code == 422
    assert "`$.mode` of the body must be one of `merge`, `replace`; did you mean `merge`?" in refused.text
    # Roles can be defined, so a tenant decides which there are.
    unknown = served.client().post("/api/v1/keys", json={"user": "bo", "role": "reders"})
    assert (unknown.status_code, unknown.json()["detail"]) == (422, "`reders` is not a role")
    assert unknown.json()["hint"] == "Did you mean `reader`?"
