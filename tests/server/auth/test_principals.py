"""Over HTTP: every request needs a token, roles reach what they may, and nothing in a request widens that."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

import memoranda
from memoranda import Scope, Unauthenticated, UsageError
from memoranda.governance.permissions import Membership, policies_of_role
from memoranda.model.policy import CAPABILITIES, Policy
from memoranda.server.app import create_app
from memoranda.server.auth.keys import SYSTEM_TENANT, create_key, list_keys, revoke_key, rotate_key
from memoranda.server.auth.principals import OPEN_PATHS, Principal, attempt_counter, authenticate
from memoranda.server.settings import Settings

SECRET = "a-secret-of-the-orchard-that-is-long-enough"


def problem(answer: Any) -> dict[str, Any]:
    assert answer.headers["content-type"].startswith("application/problem+json"), answer.text
    return answer.json()


# no token


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic cGlwcGluOnBpcHBpbg=="},
        {"Authorization": "Token {token}"},
        {"Authorization": "{token}"},
        {"Authorization": "Bearer {token} {token}"},
        {"Authorization": "Bearer {token},"},
        {"Authorization": "Bearer\t{token}"},
        {"Authorization": "Bearer " + "x" * 9_000},
        {"X-Api-Key": "{token}"},
        {"Cookie": "token={token}"},
        {"Proxy-Authorization": "Bearer {token}"},
    ],
)
def test_without_a_bearer_token_nobody_passes(site, headers):
    token = site.token("pippin")
    given = {name: value.replace("{token}", token) for name, value in headers.items()}
    answer = site.http.get("/api/v1/memory/facts", headers=given)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert problem(answer)["code"] == "unauthenticated"
    assert token not in answer.text
    assert site.call(token, "GET", "/memory/facts").status_code == 200


def test_the_scheme_is_read_whatever_its_case(site):
    token = site.token("pippin")
    for scheme in ("bearer", "BEARER"):
        answer = site.http.get("/api/v1/memory/facts", headers={"Authorization": f"{scheme} {token}"})
        assert answer.status_code == 200


def test_of_two_tokens_none_is_taken(site):
    one, two = site.token("pippin"), site.token("russet")
    headers = [("Authorization", f"Bearer {one}"), ("Authorization", f"Bearer {two}")]
    assert site.http.get("/api/v1/memory/facts", headers=headers).status_code == 401
    assert site.call(one, "GET", "/memory/facts").status_code == 200


def test_a_token_in_the_address_opens_nothing(site):
    token = site.token("pippin")
    for name in ("token", "access_token", "api_key", "key"):
        assert site.call(None, "GET", "/memory/facts", params={name: token}).status_code == 401
    assert site.call(token, "GET", "/memory/facts").status_code == 200


def test_every_route_but_the_open_ones_asks_for_a_token(site):
    closed = 0
    for route in create_app(Settings(db=":memory:")).routes:
        path = route.path_format
        address = path.replace("{", "").replace("}", "")
        for method in sorted(route.methods - {"OPTIONS", "HEAD"}):
            answer = site.http.request(method, address, json={})
            if path in OPEN_PATHS or path.startswith("/docs/"):
                assert answer.status_code != 401, path
            else:
                assert answer.status_code == 401, f"{method} {path}: {answer.status_code}"
                closed += 1
    assert closed > 20


# keys


def test_a_key_writes_as_its_user_and_the_ledger_says_so(site):
    token = site.token("pippin", tenant="press")
    answer = site.call(token, "PUT", "/memory/facts/cider.dry", json={"value": True})
    assert answer.status_code == 200
    fact = site.memory.scope(tenant="press", user="pippin").get("cider.dry")
    assert (fact.value, fact.origin.actor, fact.origin.door) == (True, "user:pippin", "rest")
    event = site.memory.in_tenant("press").ledger.tail(1)[0]
    assert (event.actor, event.door, event.effect) == ("user:pippin", "rest", "set_fact")


def test_a_revoked_key_is_refused_by_the_next_request(site):
    token = site.token("pippin")
    assert site.call(token, "GET", "/memory/facts").status_code == 200
    revoke_key(site.memory, token.split("_")[1])
    answer = site.call(token, "GET", "/memory/facts")
    assert (answer.status_code, "revoked" in problem(answer)["detail"]) == (401, True)


def test_requests_of_one_loop_iteration_share_a_check_of_the_keys_and_later_ones_do_not(tmp_path, monkeypatch):
    with memoranda.open(tmp_path / "keys.db") as memory, memoranda.open(tmp_path / "keys.db") as elsewhere:
        made = create_key(memory, tenant="orchard", user="pippin", role="member")
        passed, looks = [], []
        mark = memory.mark
        monkeypatch.setattr(memory, "mark", lambda **of: looks.append(len(passed)) or mark(**of))

        async def pass_by(scope: Any, receive: Any, send: Any) -> None:
            passed.append(scope["user"].user)

        async def ask(*times: int) -> None:
            headers = [(b"authorization", f"Bearer {made.token}".encode())]
            asked = [{"path_template": "/api/v1/memory/facts", "headers": headers} for _ in times]
            await asyncio.gather(*(app(one, None, None) for one in asked))

        async def visit() -> None:
            await ask(1)  # the use of the key is recorded, which takes an iteration of its own
            looks.clear()
            await ask(1, 2, 3)
            assert (passed, len(looks)) == (["pippin"] * 4, 1)
            revoke_key(elsewhere, made.key.id)
            with pytest.raises(Unauthenticated, match="revoked"):
                await ask(1)
            assert len(looks) == 2

        app: Any = authenticate(Settings(), memory, attempt_counter(Settings()))(pass_by)
        asyncio.run(visit())


def test_a_key_that_has_expired_is_refused(site):
    token = site.token("pippin", expires="1s")
    while site.call(token, "GET", "/memory/facts").status_code == 200:
        time.sleep(0.05)
    assert "expired" in problem(site.call(token, "GET", "/memory/facts"))["detail"]


def test_both_keys_work_while_grace_lasts(site):
    old = site.token("pippin")
    new = rotate_key(site.memory, old.split("_")[1], grace="1h").token
    assert {site.call(token, "GET", "/memory/facts").status_code for token in (old, new)} == {200}


def test_the_use_of_a_key_is_kept(site):
    token = site.token("keswick")
    before = next(key for key in list_keys(site.memory) if key.user == "keswick")
    site.call(token, "GET", "/memory/facts")
    after = next(key for key in list_keys(site.memory) if key.user == "keswick")
    assert before.last_used_at is None and after.last_used_at is not None


def test_no_log_and_no_answer_and_no_ledger_holds_a_token(site):
    token = site.token("bramley")
    secret = token.split("_", 2)[2]
    wrong = f"{token[:-6]}AAAAAA"
    answers = [
        site.call(token, "PUT", "/memory/facts/tree", json={"value": "old"}),
        site.call(token, "GET", "/memory/facts/nothing"),
        site.call(token, "GET", "/ledger"),
        site.call(token, "PUT", "/memory/facts/tree", content=b"{not json"),
        site.call(wrong, "GET", "/memory/facts"),
        site.call(None, "GET", "/memory/facts", params={"token": token}),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 403, answers[3].status_code, 401, 401]
    assert "/api/v1/memory/facts" in site.log
    site.memory.settle()
    ledgers = repr([site.memory.in_tenant(one).ledger.tail(1_000) for one in (SYSTEM_TENANT, "orchard")])
    assert "user:bramley" in ledgers
    shown = "".join(f"{answer.text}{answer.headers}" for answer in answers)
    for place in (shown, site.log, ledgers):
        assert secret not in place and wrong.split("_", 2)[2] not in place


# roles

MINE, TENANT = Scope.of(tenant="orchard", user="pippin"), Scope(tenant="orchard")


def policy_of(role: str, *also: Scope) -> Policy:
    scope = Principal(tenant="orchard", user="pippin", role=role, key_id="k").scope
    return policies_of_role(Membership(role, (scope, *also)))[0]


def allowed(role: Any, scope: Scope) -> set[str]:
    policy = policy_of(role)
    return {name for name in CAPABILITIES if policy.levels(name, scope, None) == {"allow"}}


def test_roles_reach_what_they_may():
    wide, reads = {"definitions.read"}, {"memory.read", "collections.read", "runs.read"}
    assert allowed("reader", MINE) == reads | wide
    assert allowed("member", MINE) == reads | {"memory.write", "runs.write"} | wide
    assert allowed("admin", MINE) == allowed("admin", TENANT) == set(CAPABILITIES)
    below = Scope.of(tenant="orchard", user="pippin", agent="press")
    assert allowed("member", below) == allowed("member", MINE)
    for elsewhere in (
        TENANT,
        Scope.of(tenant="orchard", user="pippin2"),
        Scope.of(tenant="orchard", user="russet", agent="press"),
        Scope.of(tenant="orchard", project="pippin"),
        Scope.of(tenant="orchard", session="s"),
        Scope.of(tenant="orchard", run="r"),
        Scope.of(tenant="mill", user="pippin"),
    ):
        assert allowed("reader", elsewhere) == allowed("member", elsewhere) == wide


def test_a_scope_that_was_shown_to_be_the_callers_is_reached_as_far_as_the_role_goes():
    shown, other = Scope.of(tenant="orchard", session="s1"), Scope.of(tenant="orchard", session="s2")
    for role, writes in (("reader", False), ("member", True)):
        policy = policy_of(role, shown)
        assert policy.levels("memory.read", shown, None) == {"allow"}
        assert bool(policy.levels("memory.write", shown, None)) is writes
        assert not policy.levels("memory.read", other, None)


# method, path, body, and which roles may
ROUTES = [
    ("GET", "/memory/facts/fruit", None, "reader member admin"),
    ("GET", "/memory/facts", None, "reader member admin"),
    ("PUT", "/memory/facts/fruit", {"value": 1}, "member admin"),
    ("DELETE", "/memory/facts/fruit", None, "member admin"),
    ("PUT", "/memory/blocks/core", {"content": "- ripe", "expected_updated_at": None}, "member admin"),
    ("GET", "/memory/blocks", None, "reader member admin"),
    ("POST", "/memory/recall", {"query": "ripe"}, "reader member admin"),
    ("POST", "/collections/notes/remember", {"content": "ripe in May"}, "member admin"),
    ("POST", "/collections/notes/recall", {"query": "ripe"}, "reader member admin"),
    ("GET", "/collections", None, "reader member admin"),
    ("GET", "/memory/definitions", None, "reader member admin"),
    (
        "POST",
        "/memory/definitions",
        {"name": "N", "slug": "n", "scope": "global", "schema": {"type": "object"}},
        "admin",
    ),
    ("POST", "/memory/facts", {"writes": [{"key": "fruit", "value": 1}]}, "member admin"),
    ("POST", "/memory/end", {"scope": "session:picking"}, "member admin"),
    ("POST", "/collections/notes/entries", {"items": [{"content": "ripe in June"}]}, "member admin"),
    ("POST", "/collections/notes/texts", {"text": "ripe in July"}, "member admin"),
    ("GET", "/runs", None, "reader member admin"),
    ("GET", "/sleep/jobs", None, "reader member admin"),
    ("GET", "/sleep/jobs?everybody=true", None, "admin"),
    ("GET", "/sleep/jobs?user=nobody", None, "admin"),
    ("POST", "/sleep/jobs/c1/forget", None, "member admin"),
    ("POST", "/sleep/jobs/c1/forget?user=nobody", None, "admin"),
    ("GET", "/approvals", None, "admin"),
    ("GET", "/permissions", None, "admin"),
    ("POST", "/permissions", {"actor": "agent:press", "capability": "memory.read"}, "admin"),
    ("GET", "/roles", None, "admin"),
    ("PUT", "/roles/forged", {"allow": ["*"]}, "admin"),
    ("DELETE", "/roles/forged", None, "admin"),
    ("GET", "/keys", None, "admin"),
    ("POST", "/keys", {"user": "idared"}, "admin"),
    ("POST", "/sweep", None, "admin"),
    ("POST", "/import", {"memoranda": 1}, "admin"),
    ("GET", "/ledger/tail", None, "admin"),
    ("GET", "/ledger", None, "admin"),
    ("GET", "/ledger/verify", None, "admin"),
    ("POST", "/erase", {"user": "nobody"}, "admin"),
    ("GET", "/export", None, "admin"),
]


@pytest.mark.parametrize(("method", "path", "body", "roles"), ROUTES)
def test_a_route_lets_those_roles_pass_that_may(site, method, path, body, roles):
    for role in ("reader", "member", "admin"):
        user = f"cox-{role}"
        site.memory.scope(tenant="roles", user=user).set("fruit", 0)
        answer = site.call(site.token(user, role, tenant="roles"), method, path, json=body)
        if role in roles.split():
            assert answer.status_code < 300 or answer.status_code == 409, answer.text
        else:
            assert (answer.status_code, problem(answer)["code"]) == (403, "denied")


def test_a_key_narrowed_to_reading_does_not_write_whatever_its_role(site):
    for role in ("member", "admin"):
        token = site.token("cox", role, tenant="narrow", allow=("memory.read",))
        assert site.call(token, "GET", "/memory/facts").status_code == 200
        assert site.call(token, "PUT", "/memory/facts/fruit", json={"value": 1}).status_code == 403
        assert site.call(token, "GET", "/ledger").status_code == 403
    wide = site.token("cox", "reader", tenant="narrow", allow=("*",))
    assert site.call(wide, "GET", "/memory/facts").status_code == 200
    assert site.call(wide, "PUT", "/memory/facts/fruit", json={"value": 1}).status_code == 403


# how often


def test_more_requests_than_the_rate_allows_are_told_when_to_come_back(start_site):
    site = start_site(rate=0.01, burst=5)
    one, other = site.token("pippin"), site.token("russet")
    answers = [site.call(one, "GET", "/memory/facts") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
    refused = problem(answers[-1])
    assert refused["code"] == "quota_exceeded"
    assert 0 < int(answers[-1].headers["retry-after"]) <= 100
    assert site.call(other, "GET", "/memory/facts").status_code == 200
    assert site.http.get("/health").status_code == 200
    assert json.loads(answers[0].text)["facts"] == []


# settings that stop the start


def test_a_server_without_the_secret_it_needs_does_not_start():
    with pytest.raises(UsageError, match="no secret"):
        create_app(Settings(db=":memory:", jwt=True))
    create_app(Settings(db=":memory:", jwt=True, jwt_secret=SECRET))
