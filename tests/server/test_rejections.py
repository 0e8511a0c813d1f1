"""Rejecting over HTTP: what was rejected is refused with the reason, and other users are not concerned."""

from __future__ import annotations

API = "/api/v1"


def test_what_was_rejected_is_refused_until_it_is_withdrawn(served, someone):
    other = served.client(served.key_for("bystander"))
    kept = someone.post(f"{API}/remember", json={"content": "Acme never pays"}).json()["id"]
    made = someone.post(f"{API}/rejections", json={"value": f"entry:{kept}", "reason": "it paid"})
    assert made.status_code == 201
    rejection = made.json()
    assert (rejection["ended"], rejection["reason"]) == ([f"entry:{kept}"], "it paid")
    again = someone.post(f"{API}/remember", json={"content": "ACME never pays!"}).json()
    assert (again["stored"], again["rejected"]) == (False, rejection["id"])
    refused = someone.put(f"{API}/memory/facts/acme", json={"value": "acme never pays"})
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["rejection"]) == (409, "rejected", rejection["id"])
    assert f"DELETE /rejections/{rejection['id']}" in problem["hint"]
    listed = someone.get(f"{API}/rejections").json()["rejections"]
    assert [(one["id"], one["ended"]) for one in listed] == [(rejection["id"], [])]
    assert not {"salt", "digests", "messages"} & listed[0].keys()

    assert other.get(f"{API}/rejections").json() == {"rejections": []}
    assert other.post(f"{API}/remember", json={"content": "Acme never pays"}).json()["stored"]
    assert other.delete(f"{API}/rejections/{rejection['id']}").status_code == 404

    assert someone.delete(f"{API}/rejections/{rejection['id']}").json()["id"] == rejection["id"]
    assert someone.delete(f"{API}/rejections/{rejection['id']}").status_code == 404
    assert someone.post(f"{API}/memory/undo", json={"token": rejection["undo"]}).json()["count"] == 1


def test_a_value_is_rejected_under_one_key(someone):
    assert someone.post(f"{API}/rejections", json={"value": 12, "key": "cone"}).status_code == 201
    assert someone.put(f"{API}/memory/facts/cone", json={"value": 12}).status_code == 409
    assert someone.put(f"{API}/memory/facts/other", json={"value": 12}).status_code in (200, 201)
    assert someone.post(f"{API}/rejections", json={"value": 12}).status_code == 422
