from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

import memoranda

FACTS = "/api/v1/memory/facts"


def test_a_fact_is_set_read_listed_and_deleted(someone):
    made = someone.put(f"{FACTS}/garden.tool", json={"value": {"name": "spade"}, "domain": "shed", "ttl": "90d"})
    assert (made.status_code, made.headers["etag"]) == (200, '"1"')
    got = someone.get(f"{FACTS}/garden.tool")
    assert got.json() == made.json()
    assert got.json()["value"] == {"name": "spade"}
    assert got.json()["scope"].startswith("user:")
    assert got.json()["origin"]["door"] == "rest"
    assert got.json()["expires_at"] is not None
    assert [fact["key"] for fact in someone.get(FACTS).json()["facts"]] == ["garden.tool"]
    assert someone.get(FACTS, params={"domain": "attic"}).json() == {"facts": [], "next": None}
    assert someone.delete(f"{FACTS}/garden.tool").status_code == 204
    assert someone.get(f"{FACTS}/garden.tool").status_code == 404
    assert someone.delete(f"{FACTS}/garden.tool").status_code == 404


def test_if_match_is_compare_and_set_and_a_conflict_carries_the_current_version(someone):
    first = someone.put(f"{FACTS}/seat", json={"value": 1}, headers={"If-None-Match": "*"})
    assert first.status_code == 200
    again = someone.put(f"{FACTS}/seat", json={"value": 2}, headers={"If-None-Match": "*"})
    assert again.status_code == 409
    second = someone.put(f"{FACTS}/seat", json={"value": 2}, headers={"If-Match": first.headers["etag"]})
    assert second.headers["etag"] == '"2"'
    stale = someone.put(f"{FACTS}/seat", json={"value": 3}, headers={"If-Match": first.headers["etag"]})
    problem = stale.json()
    assert (stale.status_code, problem["code"], problem["current_version"]) == (409, "conflict", 2)
    assert stale.headers["content-type"] == "application/problem+json"
    assert someone.get(f"{FACTS}/seat").json()["value"] == 2
    assert someone.put(f"{FACTS}/seat", json={"value": 3, "expect": 1}).status_code == 409
    assert someone.put(f"{FACTS}/seat", json={"value": 3, "expect": 2}).json()["version"] == 3
    assert someone.delete(f"{FACTS}/seat", headers={"If-Match": '"2"'}).status_code == 409
    assert someone.delete(f"{FACTS}/seat", headers={"If-Match": '"3"'}).status_code == 204


@pytest.mark.parametrize(
    "headers",
    [
        {"If-Match": "1"},
        {"If-Match": 'W/"1"'},
        {"If-Match": '"1", "2"'},
        {"If-Match": '"0"'},
        {"If-Match": '"99999999999999999999"'},
        {"If-None-Match": '"1"'},
        {"If-Match": '"1"', "If-None-Match": "*"},
    ],
)
def test_headers_that_expect_nothing_we_could_find_are_refused_and_nothing_changes(someone, headers):
    assert someone.put(f"{FACTS}/seat", json={"value": 1}).status_code == 200
    refused = someone.put(f"{FACTS}/seat", json={"value": 2}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "usage_error")
    assert someone.get(f"{FACTS}/seat").json()["value"] == 1


def test_headers_and_body_must_agree(someone):
    someone.put(f"{FACTS}/seat", json={"value": 1})
    split = someone.put(f"{FACTS}/seat", json={"value": 2, "expect": 1}, headers={"If-Match": '"2"'})
    assert (split.status_code, split.json()["path"]) == (422, "$.expect")
    assert someone.put(f"{FACTS}/seat", json={"value": 2, "expect": 1}, headers={"If-Match": '"1"'}).status_code == 200


def test_a_reader_that_has_the_newest_is_told_so_without_it(someone):
    tag = someone.put(f"{FACTS}/seat", json={"value": "window"}).headers["etag"]
    for known in (tag, f"W/{tag}", f'"77", {tag}', "*"):
        answer = someone.get(f"{FACTS}/seat", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    assert someone.get(f"{FACTS}/seat", headers={"If-None-Match": '"77"'}).status_code == 200


def test_a_repeated_request_under_an_idempotency_key_is_done_once(someone):
    once = {"Idempotency-Key": "order-41"}
    first = someone.put(f"{FACTS}/count", json={"value": 1}, headers=once)
    someone.put(f"{FACTS}/count", json={"value": 2})
    again = someone.put(f"{FACTS}/count", json={"value": 1}, headers=once)
    assert again.json() == first.json()
    assert someone.get(f"{FACTS}/count").json()["value"] == 2
    other = someone.put(f"{FACTS}/count", json={"value": 3}, headers=once)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


def test_an_idempotency_key_in_any_script_is_the_one_that_python_knows(served, newcomer):
    client = served.client(served.key_for(newcomer))
    once = {"Idempotency-Key": "commande-nº-41-倉".encode()}
    made = client.put(f"{FACTS}/count", json={"value": 1}, headers=once).json()
    with memoranda.open(served.db) as memory:
        again = memory.scope(user=newcomer).set("count", 1, idempotency_key="commande-nº-41-倉")
    assert (again.id, again.version) == (made["id"], 1)
    assert client.put(f"{FACTS}/count", json={"value": 1}, headers={"Idempotency-Key": b"\xe9"}).json()["version"] == 2


def test_pages_go_on_where_the_last_one_ended(someone):
    names = [f"shelf.n{number:02}" for number in range(7)]
    for name in names:
        someone.put(f"{FACTS}/{name}", json={"value": name})
    seen, after = [], None
    for _ in range(10):
        page = someone.get(FACTS, params={"prefix": "shelf", "limit": 3} | ({"after": after} if after else {})).json()
        assert len(page["facts"]) <= 3
        seen += [fact["key"] for fact in page["facts"]]
        after = page["next"]
        if after is None:
            break
    assert seen == names
    for wrong in ("***", "AA", "Li4"):
        assert someone.get(FACTS, params={"after": wrong}).status_code == 422
    for limit in (0, 1_001, "many"):
        refused = someone.get(FACTS, params={"limit": limit})
        assert (refused.status_code, refused.json()["path"]) == (422, "limit")


def test_history_and_time_travel(someone):
    first = someone.put(f"{FACTS}/mood", json={"value": "calm"}).json()
    someone.put(f"{FACTS}/mood", json={"value": "merry"})
    someone.delete(f"{FACTS}/mood")
    told = someone.get(f"{FACTS}/mood/history").json()["revisions"]
    assert [(one["change"], one["value"]) for one in told] == [("set", "calm"), ("set", "merry"), ("deleted", None)]
    then = someone.get(f"{FACTS}/mood", params={"as_of": first["updated_at"]})
    assert then.json()["value"] == "calm"
    assert someone.get(f"{FACTS}/never/history").status_code == 404
    assert someone.get(f"{FACTS}/mood", params={"as_of": "soon"}).status_code == 422


@pytest.mark.parametrize("key", ["a/b", "näme.größe", "with space", "per%2Fcent", "100%", "q?x=1#y", "日本.語"])
def test_any_key_travels_in_a_path(someone, key):
    path = f"{FACTS}/{quote(key, safe='')}"
    assert someone.put(path, json={"value": key}).status_code == 200
    assert someone.get(path).json()["key"] == key
    assert someone.get(f"{path}/history").json()["revisions"][0]["key"] == key
    assert someone.delete(path).status_code == 204


@pytest.mark.parametrize("key", ["a..b", ".a", "%00", "a%0Ab", "%E2%80%8Bx", "x" * 513, "%20a", "%EF%BF%BF"])
def test_a_key_that_cannot_be_is_refused(someone, key):
    answer = someone.put(f"{FACTS}/{key}", json={"value": 1})
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert someone.get(FACTS).json()["facts"] == []


def test_internal_facts_are_written_by_their_own_doors_alone(someone):
    for scope, key in (
        ({}, "blocks.core"),
        ({}, "sleep.learned"),
        ({}, "threads.current.default"),
        ({"scope": "agent:mail"}, "blocks.archival"),
        ({"scope": "thread:c1"}, "chat.conversation"),
        ({"scope": "thread:c1"}, "chat.parts.000000000001"),
        ({"scope": "thread:c1"}, "threads.thread"),
        ({"scope": "thread:c1"}, "jobs.sleep"),
    ):
        refused = someone.put(f"{FACTS}/{key}", params=scope, json={"value": "x"})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_key"), key
        assert "can write it" in refused.json()["detail"]
        batched = someone.post(FACTS, json={"writes": [{"key": key, "value": "x", **scope}]})
        assert (batched.status_code, batched.json()["code"]) == (422, "invalid_key"), key
        assert someone.delete(f"{FACTS}/{key}", params=scope).json()["code"] == "invalid_key"
    for key in ("blocks.mine", "chat.theme", "jobs.sleep", "runs.run", "abl.session", "sleep.hours"):
        assert someone.put(f"{FACTS}/{key}", json={"value": "x"}).status_code == 200, key


def test_only_an_administrator_lists_internal_facts(served, someone, newcomer):
    admin = served.client(served.key_for(f"{newcomer}-admin", role="admin"))
    block = {"content": "- Keeps bees", "expected_updated_at": None}
    for caller in (someone, admin):
        assert caller.put("/api/v1/memory/blocks/core", json=block).status_code == 200
        assert caller.get(FACTS).json()["facts"] == []
    shown = admin.get(FACTS, params={"internal": "true"}).json()["facts"]
    assert [fact["key"] for fact in shown] == ["blocks.core"]
    assert someone.get(FACTS, params={"internal": "true"}).status_code == 403


def test_a_scope_narrows_and_never_leads_out(served, someone):
    assert someone.put(f"{FACTS}/tone", params={"scope": "agent:letters"}, json={"value": "formal"}).status_code == 200
    assert someone.get(f"{FACTS}/tone", params={"scope": "agent:letters"}).json()["scope"].endswith("/agent:letters")
    assert someone.get(f"{FACTS}/tone").status_code == 404
    for outside in (
        "user:eve",
        "../user:eve",
        "",
        "/",
        "agent:letters/user:eve",
        "agent:",
        "tenant:x",
        "agent:a//agent:b",
    ):
        answer = someone.get(f"{FACTS}/tone", params={"scope": outside})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_scope"), outside


def test_of_many_writers_with_one_tag_one_wins(served, someone):
    tag = someone.put(f"{FACTS}/crown", json={"value": 0}).headers["etag"]

    def claim(number: int) -> int:
        return someone.put(f"{FACTS}/crown", json={"value": number}, headers={"If-Match": tag}).status_code

    with ThreadPoolExecutor(16) as pool:
        got = sorted(pool.map(claim, range(1, 65)))
    assert got == [200] + [409] * 63
    assert someone.get(f"{FACTS}/crown").json()["version"] == 2


def test_a_value_of_any_kind_of_json_comes_back_as_it_was(someone):
    for value in (None, True, 0, -1.5, "", "\u2028 \U0001f600", [], {}, [[[]]], {"a": {"b": [1, None]}}, 2**60):
        assert someone.put(f"{FACTS}/any", json={"value": value}).json()["value"] == value
        assert someone.get(f"{FACTS}/any").json()["value"] == value


def test_a_body_says_which_field_is_wrong(someone):
    for body, path in (
        ({}, "$"),
        ({"value": 1, "expect": "1"}, "$.expect"),
        ({"value": 1, "tenant": "other"}, "$"),
        ({"value": 1, "ttl": [1]}, "$.ttl"),
        ([], "$"),
    ):
        answer = someone.put(f"{FACTS}/seat", json=body)
        assert (answer.status_code, answer.json()["path"]) == (422, path), body
    assert someone.put(f"{FACTS}/seat", json={"value": 1, "ttl": "soon"}).json()["code"] == "invalid_duration"
    assert someone.get(f"{FACTS}/seat").status_code == 404


def test_several_writes_are_kept_all_together_or_not_at_all(someone):
    someone.put(f"{FACTS}/seat", json={"value": "4B"})
    done = someone.post(
        FACTS,
        json={
            "writes": [
                {"key": "meal", "value": None, "ttl": "1h", "domain": "trip"},
                {"key": "seat", "delete": True, "expect": 1},
                {"key": "meal", "value": "soup", "expect": 0, "scope": "agent:kitchen"},
                {"key": "never", "delete": True},
            ]
        },
    )
    assert done.status_code == 200, done.text
    meal, seat, kitchen, never = done.json()["results"]
    assert (meal["version"], meal["value"], meal["domain"], seat, never) == (1, None, "trip", True, False)
    assert (kitchen["scope"].partition("/")[2], kitchen["value"]) == ("agent:kitchen", "soup")
    for last, status in (
        ({"key": "meal", "value": 1, "expect": 7}, 409),
        ({"key": "meal"}, 422),
        ({"key": "meal", "delete": True, "value": 1}, 422),
        ({"key": "a..b", "value": 1}, 422),
        ({"key": "meal", "value": 1, "scope": "user:eve"}, 422),
        ({"key": "meal", "value": 1, "tenant": "other"}, 422),
    ):
        refused = someone.post(FACTS, json={"writes": [{"key": "first", "value": 1}, last]})
        assert (refused.status_code, someone.get(f"{FACTS}/first").status_code) == (status, 404), last
        told = refused.json()
        assert told["current_version"] == 1 if status == 409 else told["path"].startswith("$"), told
    assert someone.post(FACTS, json={"writes": []}).json() == {"results": []}


def test_a_batch_under_an_idempotency_key_is_written_once(someone):
    batch, once = {"writes": [{"key": "visits", "value": 1}]}, {"Idempotency-Key": "monday"}
    first = someone.post(FACTS, json=batch, headers=once).json()
    assert someone.post(FACTS, json=batch, headers=once).json() == first
    assert someone.get(f"{FACTS}/visits").json()["version"] == 1
    assert someone.post(FACTS, json=batch).json()["results"][0]["version"] == 2


def test_a_delete_can_expect_that_there_is_nothing(someone):
    someone.put(f"{FACTS}/lamp", json={"value": "on"})
    absent = {"If-None-Match": "*"}
    met = someone.delete(f"{FACTS}/lamp", headers=absent)
    assert (met.status_code, met.json()["current_version"]) == (409, 1)
    assert someone.get(f"{FACTS}/lamp").status_code == 200
    assert someone.delete(f"{FACTS}/shade", headers=absent).status_code == 404
    assert someone.delete(f"{FACTS}/lamp", params={"source": "dusk"}).status_code == 204
    last = someone.get(f"{FACTS}/lamp/history").json()["revisions"][-1]
    assert (last["change"], last["origin"]["source"]) == ("deleted", "dusk")
