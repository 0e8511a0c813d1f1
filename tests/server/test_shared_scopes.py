"""One knowledge base for many users: `scope` names what a tenant shares, and grants decide who uses it."""

from __future__ import annotations

from itertools import count

import httpx
import pytest

API = "/api/v1"
FACTS = f"{API}/memory/facts"
KB = f"{API}/collections/handbook"
TEXT = "The boiler is serviced in March by Mr Okafor"
_projects = count(1)


@pytest.fixture
def admin(served) -> httpx.Client:
    return served.client()


@pytest.fixture
def project() -> str:
    """A project that no other test has."""
    return f"project:atlas-{next(_projects)}"


def allow(admin: httpx.Client, actor: str, capability: str, scope: str | None, **more: str) -> str:
    """Grant a capability, and return the id of the grant."""
    body = {"actor": actor, "capability": capability, **more} | ({} if scope is None else {"scope": scope})
    made = admin.post(f"{API}/permissions", json=body)
    assert made.status_code == 201, made.text
    return made.json()["id"]


def ingest(client: httpx.Client, scope: str, text: str = TEXT) -> httpx.Response:
    return client.post(f"{KB}/remember", params={"scope": scope}, json={"content": text})


def ask(client: httpx.Client, scope: str | None, query: str = "When is the boiler serviced?") -> httpx.Response:
    return client.post(f"{KB}/recall", params={} if scope is None else {"scope": scope}, json={"query": query})


def contents(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["content"] for one in answer.json()["results"]]


def reads(client: httpx.Client, scope: str) -> list[httpx.Response]:
    """Return the answers of every route that reads a scope by name."""
    where = {"scope": scope}
    return [
        ask(client, scope),
        client.get(f"{KB}/entries", params=where),
        client.get(f"{API}/collections", params=where),
        client.get(FACTS, params=where),
        client.get(f"{FACTS}/opening", params=where),
        client.get(f"{FACTS}/opening/history", params=where),
    ]


def writes(client: httpx.Client, scope: str) -> list[httpx.Response]:
    """Return the answers of every route that writes to a scope by name."""
    where = {"scope": scope}
    return [
        ingest(client, scope, "Forged"),
        client.post(f"{KB}/entries", params=where, json={"items": [{"content": "Forged"}]}),
        client.post(f"{KB}/texts", params=where, json={"text": "Forged"}),
        client.delete(f"{KB}/entries/none", params=where),
        client.delete(f"{KB}/entries", params={**where, "key": "none"}),
        client.put(f"{FACTS}/forged", params=where, json={"value": 1}),
        client.delete(f"{FACTS}/opening", params=where),
        client.post(FACTS, json={"writes": [{"key": "forged", "value": 1, "scope": scope}]}),
    ]


@pytest.mark.parametrize("kind", ["project", "shared"])
def test_an_admin_ingests_members_ask_and_nobody_else_writes(served, start, project, kind):
    if kind == "shared":  # one grant speaks for every member, so other tests must not see it
        served = start()
    admin = served.client()
    scope = project if kind == "project" else "shared"
    assert ingest(admin, scope).status_code == 201
    assert admin.put(f"{FACTS}/opening", params={"scope": scope}, json={"value": "nine"}).status_code == 200
    member, reader = served.client(served.key_for("mo")), served.client(served.key_for("rea", role="reader"))
    for client in (member, reader):
        assert [answer.status_code for answer in reads(client, scope)] == [403] * 6
        assert ask(client, None).json()["count"] == 0
    allow(admin, "*", "memory.read", scope)
    for client in (member, reader):
        assert [answer.status_code for answer in reads(client, scope)] == [200] * 6
        assert contents(ask(client, scope)) == [TEXT]
        assert client.get(f"{FACTS}/opening", params={"scope": scope}).json()["value"] == "nine"
        assert [answer.status_code for answer in writes(client, scope)] == [403] * 8
        assert ask(client, None).json()["count"] == 0, "what is shared is not the caller's own"
    assert contents(ask(admin, scope)) == [TEXT]
    assert ingest(admin, scope, "The roof is checked in May").status_code == 201


def test_a_refusal_names_the_grant_that_is_missing_and_is_on_record(served, admin, project, newcomer):
    someone = served.client(served.key_for(newcomer))
    refused = ask(someone, project).json()
    assert refused["code"] == "denied" and refused["capability"] == "memory.read"
    assert (
        refused["hint"]
        == f"Ask an administrator of the tenant to grant `memory.read` to `user:{newcomer}` in `{project}`"
    )
    shared = someone.put(f"{FACTS}/tone", params={"scope": "shared"}, json={"value": 1}).json()
    assert shared["hint"].endswith(f"grant `memory.write` to `user:{newcomer}` in `shared`")
    events = admin.get(f"{API}/ledger", params={"limit": 1000}).json()["events"]
    assert any(one["decision"] == "deny" and one["scope"] == project for one in events)
    assert someone.put(f"{FACTS}/tone", json={"value": 1}).status_code == 200


def test_a_member_writes_where_it_is_granted_and_a_reader_never_does(served, admin, project, newcomer):
    member = served.client(served.key_for(newcomer))
    reader = served.client(served.key_for(f"{newcomer}-reads", role="reader"))
    allow(admin, "*", "memory", project)
    assert ingest(member, project).status_code == 201
    assert contents(ask(reader, project)) == [TEXT]
    refused = ingest(reader, project, "Forged")
    assert refused.status_code == 403 and "role" in refused.json()["hint"]
    assert contents(ask(member, project)) == [TEXT]


def test_a_key_that_only_reads_does_not_write_what_its_user_may(served, admin, project, newcomer):
    narrow = served.client(served.key_for(newcomer, allow=("memory.read",)))
    allow(admin, f"user:{newcomer}", "memory", project)
    assert ingest(narrow, project).status_code == 403
    assert ingest(served.client(served.key_for(newcomer)), project).status_code == 201
    assert contents(ask(narrow, project)) == [TEXT]


def test_a_revoked_grant_and_a_denial_take_effect_at_once(served, admin, project, newcomer):
    someone = served.client(served.key_for(newcomer))
    ingest(admin, project)
    grant = allow(admin, f"user:{newcomer}", "memory", project)
    assert contents(ask(someone, project)) == [TEXT]
    admin.delete(f"{API}/permissions/{grant}")
    assert ask(someone, project).status_code == 403 and ingest(someone, project).status_code == 403
    allow(admin, "*", "memory.read", project)
    assert contents(ask(someone, project)) == [TEXT]
    denial = allow(admin, f"user:{newcomer}", "memory", None, level="deny")
    assert ask(someone, project).status_code == 403
    assert someone.put(f"{FACTS}/tone", json={"value": 1}).status_code == 403, "a denial beats the role, too"
    admin.delete(f"{API}/permissions/{denial}")
    assert someone.put(f"{FACTS}/tone", json={"value": 1}).status_code == 200
    assert contents(ask(someone, project)) == [TEXT]


def test_a_write_that_needs_approval_waits_for_an_administrator(served, admin, project, newcomer):
    someone = served.client(served.key_for(newcomer))
    allow(admin, f"user:{newcomer}", "memory.read", project)
    allow(admin, f"user:{newcomer}", "memory.write", project, level="approve")
    waiting = ingest(someone, project)
    assert waiting.json()["code"] == "approval_required" and ask(someone, project).json()["count"] == 0
    assert admin.post(f"{API}/approvals/{waiting.json()['approval']}/approve", json={}).status_code == 200
    assert contents(ask(someone, project)) == [TEXT]


def test_grants_for_other_places_open_nothing(served, start):
    served = start()
    admin, someone = served.client(), served.client(served.key_for("eve"))
    other = served.client(served.key_for("other"))
    other.put(f"{FACTS}/diary", json={"value": {"text": "private"}})
    for scope in ("shared", "project:atlas", "project:atlas2"):
        ingest(admin, scope)
    body = {"name": "Diary", "slug": "diary", "scope": "global", "schema": {"type": "object"}}
    assert admin.post(f"{API}/memory/definitions", json=body).status_code == 201
    records = f"{API}/memory/definitions/diary/records"
    # Everywhere, to another user's memory, to the shared scope alone, with more than reading.
    allow(admin, "user:eve", "*", None)
    allow(admin, "*", "memory", None)
    allow(admin, "user:eve", "memory.read", "user:other")
    for scope in ("shared", "project:atlas"):
        assert ask(someone, scope).status_code == 403
    allow(admin, "*", "*", "shared")
    assert contents(ask(someone, "shared")) == [TEXT]
    assert ask(someone, "project:atlas").status_code == 403
    for path in (records, f"{API}/ledger", f"{API}/permissions", f"{API}/export", f"{API}/keys", f"{API}/approvals"):
        assert someone.get(path).status_code == 403, path
    assert admin.get(records).json()["records"][0]["value"] == {"text": "private"}
    allow(admin, "user:eve", "memory.read", "project:atlas")
    assert contents(ask(someone, "project:atlas")) == [TEXT]
    assert ask(someone, "project:atlas2").status_code == 403
    assert contents(ask(someone, "project:atlas/agent:guide")) == [], "a grant covers what is below its scope"


NOT_A_SCOPE = [
    "",
    "Shared",
    "SHARED",
    "shared/",
    "shared/project:atlas",
    "project:",
    "project",
    "Project:atlas",
    "PROJECT:atlas",
    "project:atlas/",
    "/project:atlas",
    " project:atlas",
    "project:atlas/..",
    "project:a/../b",
    "project:a%2fb",
    "project%3Aatlas",
    "project:a%41",
    "project:atlas/user:other",
    "project:atlas/project:other",
    "projеct:atlas",  # noqa: RUF001
    "team:atlas",
    "user:other",
    "user:other/agent:x",
    "user:../project:atlas",
    "user:",
    "tenant:other/project:atlas",
    "*",
    "project:*/agent:*/user:*",
    "all",
    "user",
    "agent",
]


def test_what_is_not_a_scope_is_refused_and_never_replaced_by_another(served, admin, newcomer):
    someone = served.client(served.key_for(newcomer))
    someone.put(f"{FACTS}/opening", json={"value": "mine"})
    ingest(someone, f"user:{newcomer}", "mine")
    for scope in NOT_A_SCOPE:
        for client in (someone, admin):
            for answer in (*reads(client, scope), *writes(client, scope)):
                assert answer.status_code == 422, (scope, answer.request.url, answer.text)
                assert answer.json()["code"] == "invalid_scope" and answer.json()["hint"]
    assert "shared" in ask(someone, "user:other").json()["hint"] and "project" in ask(someone, "team:x").json()["hint"]
    assert contents(ask(someone, None)) == ["mine"]
    assert [one["key"] for one in someone.get(FACTS).json()["facts"]] == ["opening"]


def test_an_id_is_compared_as_it_is_written(served, admin, newcomer):
    someone = served.client(served.key_for(newcomer))
    named = ["project:Straße", "project:straße", "project:a%2Fb", "project:a", "project:atlas", "project:аtlas"]  # noqa: RUF001
    for scope in named:
        assert ingest(admin, scope, f"only in {scope}").status_code == 201
    allow(admin, f"user:{newcomer}", "memory.read", "project:a%2Fb")
    allow(admin, f"user:{newcomer}", "memory.read", "project:atlas")
    assert contents(ask(someone, "project:a%2Fb")) == ["only in project:a%2Fb"]
    assert contents(ask(someone, "project:atlas")) == ["only in project:atlas"]
    for scope in ("project:Straße", "project:straße", "project:a", "project:аtlas"):  # noqa: RUF001
        assert ask(someone, scope).status_code == 403, scope
        assert contents(ask(admin, scope)) == [f"only in {scope}"]


def test_a_part_of_the_callers_own_memory_has_two_spellings(served, newcomer):
    someone = served.client(served.key_for(newcomer))
    assert someone.put(f"{FACTS}/tone", params={"scope": "agent:x"}, json={"value": "warm"}).status_code == 200
    for scope in ("agent:x", f"user:{newcomer}/agent:x"):
        found = someone.get(f"{FACTS}/tone", params={"scope": scope}).json()
        assert (found["value"], found["scope"]) == ("warm", f"user:{newcomer}/agent:x")
    assert someone.get(f"{FACTS}/tone", params={"scope": f"user:{newcomer}"}).status_code == 404
    own = f"user:{newcomer}/project:atlas"
    assert someone.put(f"{FACTS}/tone", params={"scope": own}, json={"value": "mine"}).json()["scope"] == own
    assert someone.get(f"{FACTS}/tone", params={"scope": "project:atlas"}).status_code in (403, 404)


def test_two_tenants_with_the_same_project_share_nothing(served, project):
    here, there = (served.client(served.key_for("boss", role="admin", tenant=one)) for one in ("north", "south"))
    member = served.client(served.key_for("mo", tenant="south"))
    for scope in (project, "shared"):
        ingest(here, scope, "north only")
        allow(here, "*", "memory", scope)
        assert ask(member, scope).status_code == 403, "a grant of another tenant"
        assert ask(there, scope).json()["count"] == 0
        ingest(there, scope, "south only")
        allow(there, "*", "memory.read", scope)
        assert contents(ask(member, scope)) == contents(ask(there, scope)) == ["south only"]
        assert contents(ask(here, scope)) == ["north only"]


def test_several_facts_in_several_scopes_are_written_all_or_none(served, admin, project, newcomer):
    someone = served.client(served.key_for(newcomer))
    both = {"writes": [{"key": "a", "value": 1}, {"key": "b", "value": 2, "scope": project}]}
    assert someone.post(FACTS, json=both).status_code == 403
    assert someone.get(f"{FACTS}/a").status_code == 404
    allow(admin, f"user:{newcomer}", "memory.write", project)
    done = someone.post(FACTS, json=both)
    assert [one["scope"] for one in done.json()["results"]] == [f"user:{newcomer}", project]


def test_the_collections_of_a_scope_are_listed_for_those_who_may_read_it(served, admin, project):
    member, stranger = served.client(served.key_for("mia")), served.client(served.key_for("sol"))
    assert ingest(admin, project).status_code == 201
    allow(admin, "user:mia", "memory.read", project)
    listed = member.get(f"{API}/collections", params={"scope": project}).json()["collections"]
    assert [(one["name"], one["entries"]) for one in listed] == [("handbook", 1)]
    assert member.get(f"{API}/collections").json()["collections"] == [], "their own"
    assert stranger.get(f"{API}/collections", params={"scope": project}).status_code == 403


def test_a_recall_does_not_say_whether_others_have_a_collection(served, admin, project):
    stranger = served.client(served.key_for("eve"))
    assert ingest(admin, project).status_code == 201
    asked = [
        stranger.post(f"{API}/collections/{name}/recall", json={"query": "boiler"}).json()
        for name in ("handbook", "none")
    ]
    assert [one["known"] for one in asked] == [False, False]
    assert asked[0]["hint"] == asked[1]["hint"].replace("none", "handbook")
    assert ask(admin, project).json().get("known", True)
