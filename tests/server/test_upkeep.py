from __future__ import annotations

import json

import pytest

FACTS = "/api/v1/memory/facts"


def test_the_ledger_is_read_in_pages_and_verified(served, someone):
    for number in range(5):
        someone.put(f"{FACTS}/n{number}", json={"value": number})
    admin = served.client()
    seen, after = [], None
    while True:
        page = admin.get("/api/v1/ledger", params={"limit": 3} | ({"after": after} if after else {})).json()
        seen += page["events"]
        after = page["next"]
        if after is None:
            break
    assert [event["position"] for event in seen] == list(range(1, len(seen) + 1))
    assert {event["door"] for event in seen if event["key"] == "n1"} == {"rest"}
    told = admin.get("/api/v1/ledger/verify").json()
    assert (told["ok"], told["length"]) == (True, len(seen))


def test_an_erasure_removes_everything_of_a_user_and_of_nobody_else(served):
    admin, gone, stays = served.client(), served.client(served.key_for("gone")), served.client(served.key_for("stays"))
    for client in (gone, stays):
        client.put(f"{FACTS}/name", json={"value": "x"})
    receipt = admin.post("/api/v1/erase", json={"user": "gone"})
    assert receipt.status_code == 200
    assert (receipt.json()["scope"], receipt.json()["removed"]["facts"]) == ("user:gone", 1)
    assert gone.get(f"{FACTS}/name").status_code == 404
    assert gone.get(f"{FACTS}/name/history").status_code == 404
    assert stays.get(f"{FACTS}/name").status_code == 200
    for nobody in ({}, {"user": ""}, {"tenant": "default"}, {"user": None}):
        assert admin.post("/api/v1/erase", json=nobody).status_code == 422


def test_an_export_is_json_lines_that_can_be_imported(served, tmp_path):
    import recollect

    client = served.client(served.key_for("mover"))
    client.put(f"{FACTS}/chair", json={"value": {"legs": 4}})
    answer = served.client().get("/api/v1/export", params={"scope": "user:mover"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0]["recollect"] == 1
    assert [line["fact"]["key"] for line in lines if "fact" in line] == ["chair"]
    with recollect.open(tmp_path / "elsewhere.db") as memory:
        assert memory.import_lines(answer.content.splitlines(), source="export").written == 1
        assert memory.scope(user="mover").value("chair") == {"legs": 4}
    assert served.client().get("/api/v1/export", params={"scope": "user"}).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/ledger", None),
        ("GET", "/api/v1/ledger/verify", None),
        ("GET", "/api/v1/export", None),
        ("POST", "/api/v1/erase", {"user": "anybody"}),
    ],
)
def test_what_is_the_administrators_is_nobody_elses(served, someone, method, path, body):
    refused = someone.request(method, path, json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    assert served.client().request(method, path, json=body).status_code == 200
