"""Superseding, forgetting, undoing and listing over HTTP, and requests that try to reach what is not theirs."""

from __future__ import annotations

import json

import pytest

API = "/api/v1"
FORGET, UNDO = f"{API}/memory/forget", f"{API}/memory/undo"


def remember(client, content, collection="terms", **more):
    return client.post(f"{API}/collections/{collection}/remember", json={"content": content, **more}).json()["id"]


def contents(client, **params):
    return [one["content"] for one in client.get(f"{API}/entries", params=params).json()["entries"]]


def test_an_entry_is_superseded_read_and_brought_back(someone):
    old = remember(someone, "Acme pays within 30 days", metadata={"account": "acme"})
    done = someone.post(f"{API}/entries/{old}/supersede", json={"content": "Acme pays within 14 days"})
    assert done.status_code == 200
    new = done.json()
    assert (new["replaced"], new["collection"]) == (f"entry:{old}", "terms")
    assert contents(someone) == ["Acme pays within 14 days"]
    again = someone.post(f"{API}/entries/{old}/supersede", json={"content": "Acme never pays"})
    assert (again.status_code, again.json()["actual"]) == (409, new["ref"])
    assert someone.get(f"{API}/entries/{old}").status_code == 404
    assert someone.get(f"{API}/entries/{new['ref']}").json()["metadata"] == {"account": "acme", "replaces": old}
    chain = someone.get(f"{API}/entries/{old}/history").json()["entries"]
    assert [(one["id"], one["valid_to"] is None) for one in chain] == [
        (old, False),
        (new["ref"].removeprefix("entry:"), True),
    ]
    assert someone.post(UNDO, json={"token": new["undo"]}).json()["refs"] == [f"entry:{old}"]
    assert contents(someone) == ["Acme pays within 30 days"]


def test_what_is_forgotten_is_first_shown_then_gone_then_back(someone):
    for year in (2023, 2024, 2025):
        remember(someone, f"Invoice of {year}", "invoices", metadata={"year": year})
    old = {"where": {"year": {"$lt": 2025}}}
    tried = someone.post(FORGET, json={**old, "dry_run": True}).json()
    assert (tried["count"], tried["dry_run"], tried["undo"]) == (2, True, None)
    assert len(contents(someone)) == 3
    gone = someone.post(FORGET, json=old).json()
    assert gone["refs"] == tried["refs"]
    assert contents(someone, newest="true") == ["Invoice of 2025"]
    assert someone.post(FORGET, json=old).json()["count"] == 0
    assert someone.post(UNDO, json={"token": gone["undo"]}).json()["count"] == 2
    assert contents(someone, filter=json.dumps({"year": 2024})) == ["Invoice of 2024"]
    assert someone.post(UNDO, json={"token": gone["undo"]}).status_code == 409


def test_entries_are_listed_in_stable_pages_newest_first(someone):
    for n in range(7):
        remember(someone, f"note {n}", ("a", "b")[n % 2])
    seen, after = [], None
    while True:
        params = {"limit": 3, "newest": "true"} | ({"after": after} if after else {})
        page = someone.get(f"{API}/entries", params=params).json()
        seen += [one["content"] for one in page["entries"]]
        remember(someone, f"written meanwhile after {len(seen)}", "a")
        after = page["next"]
        if after is None:
            break
    assert seen == [f"note {n}" for n in reversed(range(7))]


def test_nobody_reaches_what_another_user_has(served, someone):
    other = served.client(served.key_for("stranger"))
    mine = remember(someone, "Acme pays within 30 days", key="acme")
    someone.put(f"{API}/memory/facts/phone", json={"value": "+49 151 2345678"})
    whose = someone.get(f"{API}/entries/{mine}").json()["scope"]
    gone = someone.post(FORGET, json={"id": remember(someone, "Acme is in Lyon")}).json()
    for ref in (mine, f"entry:{mine}", f"fact:{whose}#phone", f"line:{whose}#core:0123456789abcdef"):
        path = f"{API}/entries/{ref.replace('#', '%23').replace('/', '%2F')}"
        assert other.post(f"{path}/supersede", json={"content": "Something else"}).status_code == 404
        assert other.post(FORGET, json={"id": ref}).json()["count"] == 0
    assert other.get(f"{API}/entries/{mine}").status_code == 404
    assert other.get(f"{API}/entries/{mine}/history").status_code == 404
    assert other.post(UNDO, json={"token": gone["undo"]}).status_code == 404
    assert other.post(FORGET, json={"identifier": "+49 151 2345678"}).json()["count"] == 0
    assert other.post(FORGET, json={"key": "acme", "collection": "terms"}).json()["count"] == 0
    assert contents(other) == []
    assert contents(someone) == ["Acme pays within 30 days"]
    assert someone.get(f"{API}/memory/facts/phone").json()["value"] == "+49 151 2345678"
    assert someone.post(UNDO, json={"token": gone["undo"]}).json()["count"] == 1


def test_scopes_are_for_administrators(served, someone):
    someone.put(f"{API}/memory/facts/k", json={"value": 1})
    assert someone.get(f"{API}/scopes").status_code == 403
    admin = served.client(served.key_for("root", role="admin"))
    admin.put(f"{API}/memory/facts/k", json={"value": 1})
    assert "user:root" in admin.get(f"{API}/scopes", params={"prefix": "user:root"}).json()["scopes"]
    page = admin.get(f"{API}/scopes", params={"limit": 1}).json()
    assert len(page["scopes"]) == 1
    after = admin.get(f"{API}/scopes", params={"limit": 1, "after": page["next"]}).json()
    assert after["scopes"] > page["scopes"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (FORGET, {}, 422),
        (FORGET, {"id": "x", "key": "k", "collection": "c"}, 422),
        (FORGET, {"where": {}}, 422),
        (FORGET, {"where": {"$and": [{"a": 1}] * 20_000}}, 422),
        (FORGET, {"where": {"a": {"$in": list(range(20_000))}}}, 422),
        (FORGET, {"where": [1]}, 422),
        (FORGET, {"identifier": ""}, 422),
        (FORGET, {"identifier": "x" * 10_000}, 422),
        (FORGET, {"id": "fact:nowhere"}, 422),
        (FORGET, {"id": "entry_" + "x" * 2_000}, 422),
        (FORGET, {"everything": True}, 422),
        (UNDO, {"token": "undo:1-999999999999999999"}, 404),
        (UNDO, {"token": "1"}, 422),
        (UNDO, {}, 422),
        (f"{API}/entries/unknown/supersede", {"content": "x"}, 404),
        (f"{API}/entries/unknown/supersede", {}, 422),
    ],
)
def test_what_cannot_be_asked_is_refused_and_changes_nothing(someone, path, body, status):
    remember(someone, "Acme pays within 30 days")
    refused = someone.post(path, json=body)
    assert refused.status_code == status
    assert refused.json()["hint"]
    assert contents(someone) == ["Acme pays within 30 days"]


def test_a_filter_that_is_none_is_refused(someone):
    deep = "{" + '"$not":{' * 200 + '"a":1' + "}" * 201
    for filter in ("", "x", "[]", "{", '{"a": {"$near": 1}}', deep):
        assert someone.get(f"{API}/entries", params={"filter": filter}).status_code == 422, filter
    assert someone.get(f"{API}/entries", params={"filter": '{"a": 1}'}).status_code == 200


def test_ten_thousand_entries_are_forgotten_and_brought_back_in_one_call(someone):
    for part in range(10):
        items = [{"content": f"Invoice {part}-{n}", "metadata": {"old": True}} for n in range(1_000)]
        assert someone.post(f"{API}/collections/invoices/entries", json={"items": items}).status_code == 201
    kept = remember(someone, "Acme pays within 30 days")
    gone = someone.post(FORGET, json={"where": {"old": True}}).json()
    assert (gone["count"], len(gone["refs"])) == (10_000, 10_000)
    assert [one["id"] for one in someone.get(f"{API}/entries").json()["entries"]] == [kept]
    assert someone.post(UNDO, json={"token": gone["undo"]}).json()["count"] == 10_000
    assert len(someone.get(f"{API}/entries", params={"limit": 1_000}).json()["entries"]) == 1_000


def test_facts_and_entries_are_written_all_or_none(someone):
    old = remember(someone, "Acme pays within 30 days")
    writes = [
        {"key": "terms.acme", "value": 14},
        {"remember": {"content": "Acme pays within 14 days", "collection": "terms"}},
        {"forget": {"id": old}},
        {"key": "terms.none", "delete": True},
    ]
    done = someone.post(f"{API}/memory/facts", json={"writes": writes}).json()
    assert [one if one is None else one is False or one["value"] for one in done["results"]] == [14, None, None, True]
    assert (done["remembered"][0]["stored"], done["forgotten"][0]["refs"]) == (True, [f"entry:{old}"])
    for wrong in (
        {"remember": {"content": "x", "collection": "terms"}, "key": "k"},
        {"remember": {"content": "x"}},
        {"forget": {}},
        {"forget": {"id": old}, "delete": True},
        {"value": 1},
        {"key": "terms.acme", "value": 7, "expect": 9},
    ):
        writes = [{"remember": {"content": "Acme is in Lyon", "collection": "terms"}}, wrong]
        assert someone.post(f"{API}/memory/facts", json={"writes": writes}).status_code in (409, 422)
    assert contents(someone) == ["Acme pays within 14 days"]


def test_g46_lineage_travels_and_a_copy_goes_with_its_original(someone):
    page = remember(someone, "Cone 6 is 1222 degrees")
    sent = {"value": 1222, "derived_from": [f"entry:{page}"]}
    fact = someone.put(f"{API}/memory/facts/kiln.degrees", json=sent)
    assert fact.status_code == 200
    lineage = someone.get(f"{API}/memory/lineage", params={"ref": f"entry:{page}"}).json()
    assert [one["ref"].rpartition("#")[2] for one in lineage["descendants"]] == ["kiln.degrees"]
    refused = someone.put(f"{API}/memory/facts/kiln.degrees", json={"value": 1, "derived_from": ["entry:none"]})
    assert refused.status_code == 404
    assert someone.post(f"{API}/memory/validate", json={"ref": f"entry:{page}"}).status_code == 403  # who wrote it
    assert someone.post(FORGET, json={"id": f"entry:{page}"}).json()["count"] == 2
    assert someone.get(f"{API}/memory/facts/kiln.degrees").status_code == 404
