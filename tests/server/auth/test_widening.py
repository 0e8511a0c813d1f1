"""Over HTTP: nothing that a request says beside its token widens what it reaches (G2)."""

from __future__ import annotations

from typing import Any

import pytest

THEIRS = "quince-marrow-9f2c"


@pytest.fixture(scope="module")
def neighbours(site):
    """Memory of others, full of one word, and the token of a user who must never see it."""
    others = [
        site.memory.scope(tenant="village", user="russet"),
        site.memory.scope(tenant="village"),
        site.memory.scope(tenant="village", user="pippin2"),
        site.memory.scope(tenant="village", user="russet", agent="press"),
        site.memory.scope(tenant="town", user="pippin"),
    ]
    for place in others:
        place.set("letter", THEIRS)
        place.remember(f"{THEIRS} is in the cellar", collection="notes")
    for place in (others[0], others[4]):
        place.blocks.update("core", f"- {THEIRS}", expected_updated_at=None)
        place.blocks.update("archival", f"- {THEIRS} is in the cellar", expected_updated_at=None)
    village = site.memory.in_tenant("village")
    village.definitions.create(name="Pledge", slug="pledge", scope="global", schema={"type": "object"})
    others[0].set("pledge", {"text": THEIRS})
    return others, site.token("pippin", tenant="village")


WIDER = [
    ("tenant", "town"),
    ("tenant_id", "town"),
    ("user", "russet"),
    ("user_id", "russet"),
    ("owner", "russet"),
    ("sub", "russet"),
    ("as", "russet"),
    ("role", "admin"),
    ("actor", "owner"),
    ("scope", ""),
    ("scope", "*"),
    ("scope", "/"),
    ("scope", "user:russet"),
    ("scope", "../user:russet"),
    ("scope", "agent:x/../../user:russet"),
    ("scope", "agent:press/user:russet"),
    ("scope", "%2e%2e%2fuser:russet"),
    ("scope", "tenant:town/user:pippin"),
    ("scope", "all"),
    ("agent_id", "../russet"),
    ("agent_id", "press/../../user:russet"),
    ("agent_id", "*"),
]
READS = [
    ("GET", "/memory/facts", None),
    ("GET", "/memory/facts/letter", None),
    ("GET", "/memory/facts/letter/history", None),
    ("GET", "/memory/blocks", None),
    ("GET", "/memory/blocks/core", None),
    ("POST", "/memory/recall", {"query": "cellar"}),
    ("POST", "/collections/notes/recall", {"query": "cellar"}),
    ("GET", "/collections/notes/entries", None),
    ("GET", "/memory/blocks/core/history", None),
    ("GET", "/collections", None),
    ("GET", "/runs", None),
    ("GET", "/sleep/jobs", None),
    ("GET", "/approvals", None),
    ("GET", "/permissions", None),
    ("GET", "/keys", None),
    ("GET", "/export", None),
    ("GET", "/ledger", None),
    ("GET", "/ledger/tail", None),
    ("GET", "/memory/definitions", None),
    ("GET", "/memory/definitions/pledge/records", None),
]
WRITES = [
    ("PUT", "/memory/facts/letter", {"value": "stolen"}),
    ("POST", "/memory/facts", {"writes": [{"key": "letter", "value": "stolen"}]}),
    ("POST", "/memory/end", {"scope": "session:s1"}),
    ("PUT", "/memory/blocks/core", {"content": "- stolen", "expected_updated_at": None}),
    ("POST", "/memory/blocks/core/undo", {"expected_updated_at": None}),
    ("POST", "/collections/notes/entries", {"items": [{"content": "stolen"}]}),
    ("POST", "/collections/notes/texts", {"text": "stolen"}),
    ("POST", "/sleep/jobs/c1/undo", {}),
    ("POST", "/sleep/jobs/c1/forget", {}),
    ("POST", "/permissions", {"actor": "user:pippin", "capability": "*"}),
    ("POST", "/keys", {"user": "russet", "role": "admin"}),
    ("POST", "/memory/recall", {"query": "cellar"}),
    ("POST", "/collections/notes/remember", {"content": "stolen"}),
    ("POST", "/collections/notes/recall", {"query": "cellar"}),
    ("POST", "/memory/definitions", {"name": "N", "slug": "n", "scope": "global", "schema": {"type": "object"}}),
    ("POST", "/erase", {}),
]


def unchanged(others: Any) -> None:
    for place in others:
        fact = place.get("letter")
        assert (fact.value, fact.version) == (THEIRS, 1)
        assert place.recall("cellar", collection="notes").count == 1


def works(site: Any, token: str) -> None:
    """The control: what is one's own can be written and read."""
    assert site.call(token, "PUT", "/memory/facts/letter", json={"value": "mine"}).status_code == 200
    assert site.call(token, "GET", "/memory/facts/letter").json()["value"] == "mine"
    assert site.call(token, "DELETE", "/memory/facts/letter").status_code < 300


@pytest.mark.parametrize(("method", "path", "body"), READS)
def test_g2_no_query_widens_what_is_read(site, neighbours, method, path, body):
    others, token = neighbours
    for name, value in WIDER:
        answer = site.call(token, method, path, params={name: value}, json=body)
        assert answer.status_code < 500
        assert THEIRS not in answer.text, f"{name}={value}"
    unchanged(others)
    works(site, token)


@pytest.mark.parametrize(
    ("name", "value"), [("tenant", "town"), ("user", "russet"), ("role", "admin"), ("scope", "user:russet")]
)
def test_g2_no_header_widens_what_is_read(site, neighbours, name, value):
    others, token = neighbours
    headers = {
        f"X-{name}": value,
        f"X-{name}-Id": value,
        f"X-Forwarded-{name}": value,
        f"X-Remote-{name}": value,
        f"Memoranda-{name}": value,
        name: value,
        "Cookie": f"{name}={value}",
        "Forwarded": f"for=127.0.0.1;{name}={value}",
        "X-Original-Url": "/api/v1/export",
        "X-Http-Method-Override": "DELETE",
    }
    for method, path, body in READS:
        answer = site.call(token, method, path, headers=headers, json=body)
        assert answer.status_code < 500
        assert THEIRS not in answer.text
    unchanged(others)
    works(site, token)


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_g2_no_body_widens_what_is_written_or_read(site, neighbours, method, path, body):
    others, token = neighbours
    for name, value in WIDER:
        answer = site.call(token, method, path, json={**body, name: value}, params={name: value})
        assert answer.status_code < 500
        assert THEIRS not in answer.text
    unchanged(others)
    works(site, token)


@pytest.mark.parametrize(
    "path",
    [
        "/memory/facts/..%2F..%2Fuser:russet%2Fletter",
        "/memory/facts/%2e%2e/%2e%2e/export",
        "/memory/facts/../../export",
        "/memory/facts//letter",
        "/memory/facts/letter%00",
        "/memory/facts/user:russet%2Fletter",
        "/memory/blocks/..%2F..%2Frusset%2Fcore",
        "/memory/blocks/core?scope=agent&agent_id=..%2F..%2Fuser:russet",
        "/memory/blocks/core?scope=agent&agent_id=press&user=russet",
        "/memory/blocks?scope=all&user=russet",
        "/memory/blocks?scope=all&agent_id=press",
        "/collections/..%2Fnotes/entries",
        "/collections/notes/entries?scope=agent:press&user=russet",
        "/export?scope=user:russet",
        "/export?scope=user:pippin",
        "/memory/facts/letter?as_of=2030-01-01&scope=user%3Arusset",
    ],
)
def test_g2_no_address_leads_out_of_ones_own_memory(site, neighbours, path):
    others, token = neighbours
    answer = site.call(token, "GET", path)
    assert 300 <= answer.status_code < 500 or THEIRS not in answer.text
    assert THEIRS not in answer.text
    unchanged(others)
    works(site, token)


def test_g2_an_idempotency_key_of_somebody_else_gives_nothing_of_theirs(site):
    one, two = site.token("idared", tenant="village"), site.token("jonagold", tenant="village")
    headers = {"Idempotency-Key": "monday"}
    mine = site.call(one, "PUT", "/memory/facts/plan", json={"value": THEIRS}, headers=headers)
    assert mine.status_code == 200
    for value in (THEIRS, "other"):
        theirs = site.call(
            two, "PUT", "/memory/facts/plan", json={"value": value}, headers={"Idempotency-Key": f"{value}"}
        )
        assert theirs.status_code == 200 and theirs.json()["scope"] == "user:jonagold"
    same = site.call(two, "PUT", "/memory/facts/plan", json={"value": THEIRS}, headers=headers)
    assert same.json().get("scope", "user:jonagold") == "user:jonagold"
    again = site.call(one, "PUT", "/memory/facts/plan", json={"value": THEIRS}, headers=headers)
    assert (again.json()["scope"], again.json()["version"]) == ("user:idared", 1)


def test_an_admin_sees_in_the_tenant_what_members_do_not(site, neighbours):
    admin = site.token("mayor", "admin", tenant="village")
    for path in ("/memory/definitions/pledge/records", "/export", "/export?scope=user:russet"):
        assert THEIRS in site.call(admin, "GET", path).text
    for path in ("/memory/facts", "/memory/facts/letter", "/collections/notes/entries"):
        assert THEIRS not in site.call(admin, "GET", path).text


def test_an_admin_of_one_tenant_has_nothing_to_say_in_another(site, neighbours):
    others, _ = neighbours
    admin = site.token("boss", "admin", tenant="hamlet")
    site.memory.scope(tenant="hamlet", user="cox").set("letter", "in the hamlet")
    own = site.call(admin, "GET", "/export")
    assert "in the hamlet" in own.text and THEIRS not in own.text
    for name, value in WIDER:
        answer = site.call(admin, "GET", "/export", params={name: value})
        assert THEIRS not in answer.text
    erased = site.call(admin, "POST", "/erase", json={"user": "russet"})
    assert erased.status_code == 200 and erased.json()["tenant"] == "hamlet"
    unchanged(others)


def test_a_user_named_like_the_owner_is_not_the_owner(site):
    for user in ("owner", "*", "agent:press", "admin"):
        token = site.token(user, "reader", tenant="masks")
        assert site.call(token, "GET", "/memory/facts").status_code == 200
        assert site.call(token, "PUT", "/memory/facts/x", json={"value": 1}).status_code == 403
        assert site.call(token, "GET", "/ledger").status_code == 403
    member = site.token("owner", tenant="masks")
    assert site.call(member, "PUT", "/memory/facts/x", json={"value": 1}).status_code == 200
    assert site.memory.in_tenant("masks").ledger.tail(1)[0].actor == "user:owner"
