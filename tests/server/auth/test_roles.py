"""Roles that an administrator defines, over HTTP: keys, tokens and users that have them, and hostile holders."""

from __future__ import annotations

import pytest

from memoranda import UsageError
from memoranda.server.auth.keys import create_key


def detail(answer) -> str:
    assert answer.status_code == 403, answer.text
    return answer.json()["detail"]


def test_a_key_has_the_role_that_was_defined_and_changes_count_at_once(site):
    admin = site.token("keswick", "admin", tenant="roles-a")
    site.memory.scope(tenant="roles-a", user="pippin").set("fruit", "pear")
    role = {"allow": ["definitions", "ledger.read"], "own": ["memory.read"]}
    made = site.call(admin, "PUT", "/roles/support", json=role)
    assert (made.status_code, made.json()["built_in"], len(made.json()["rules"])) == (200, False, 3)
    key = site.call(admin, "POST", "/keys", json={"user": "pippin", "role": "support"}).json()
    assert key["key"]["role"] == "support"
    support = key["token"]
    assert site.call(support, "GET", "/memory/facts/fruit").json()["value"] == "pear"
    assert site.call(support, "GET", "/ledger").status_code == 200
    body = {"name": "Crop", "slug": "crop", "schema": {"type": "object"}}
    assert site.call(support, "POST", "/memory/definitions", json=body).status_code == 201
    assert "nothing grants memory.write" in detail(
        site.call(support, "PUT", "/memory/facts/fruit", json={"value": "plum"})
    )
    # A holder does not widen the role, give it, or make a key of another one.
    for method, path, sent in (
        ("PUT", "/roles/support", {"allow": ["*"]}),
        ("DELETE", "/roles/support", None),
        ("POST", "/permissions", {"actor": "role:support", "capability": "*"}),
        ("POST", "/permissions", {"actor": "user:pippin", "capability": "roles.admin"}),
        ("POST", "/keys", {"user": "pippin", "role": "admin"}),
    ):
        assert site.call(support, method, path, json=sent).status_code == 403
    site.call(admin, "PUT", "/roles/support", json={"own": ["memory"]})
    assert site.call(support, "PUT", "/memory/facts/fruit", json={"value": "plum"}).status_code == 200
    assert site.call(support, "GET", "/ledger").status_code == 403
    assert site.call(admin, "DELETE", "/roles/support").status_code == 204
    assert "the role `support` does not exist" in detail(site.call(support, "GET", "/memory/facts/fruit"))
    assert [one["name"] for one in site.call(admin, "GET", "/roles").json()["roles"]] == ["admin", "member", "reader"]


def test_an_unknown_role_is_refused_with_the_one_that_was_meant(site):
    admin = site.token("keswick", "admin", tenant="roles-b")
    site.call(admin, "PUT", "/roles/support", json={"own": ["memory.read"]})
    wrong = site.call(admin, "POST", "/keys", json={"user": "pippin", "role": "suport"})
    assert (wrong.status_code, "`support`" in wrong.json()["hint"]) == (422, True)
    assert site.call(admin, "DELETE", "/roles/suport").status_code == 404
    with pytest.raises(UsageError, match="Did you mean `support`"):
        create_key(site.memory, tenant="roles-b", user="pippin", role="suport")
    with pytest.raises(UsageError, match="is not a role"):
        create_key(site.memory, tenant="roles-c", user="pippin", role="support")  # which another tenant has
    for name, body in (("admin", {"own": ["memory"]}), ("x", {"own": ["memory.see"]}), ("y", {}), ("Z z", {"own": []})):
        assert site.call(admin, "PUT", f"/roles/{name}", json=body).status_code == 422


def test_a_user_is_given_a_role_by_a_grant(site):
    admin = site.token("keswick", "admin", tenant="roles-d")
    member, other = site.token("pippin", tenant="roles-d"), site.token("russet", tenant="roles-d")
    site.call(admin, "PUT", "/roles/auditor", json={"allow": ["ledger.read"]})
    given = site.call(admin, "POST", "/permissions", json={"actor": "user:pippin", "capability": "roles.auditor"})
    assert given.status_code == 201
    assert site.call(member, "GET", "/ledger").status_code == 200
    assert site.call(other, "GET", "/ledger").status_code == 403
    narrow = site.token("pippin", tenant="roles-d", allow=("memory",))
    assert "restricted to memory" in detail(site.call(narrow, "GET", "/ledger"))
    site.call(admin, "DELETE", f"/permissions/{given.json()['id']}")
    assert site.call(member, "GET", "/ledger").status_code == 403
