from __future__ import annotations

DEFINITIONS = "/api/v1/memory/definitions"
SCHEMA = {"type": "object", "properties": {"colour": {"type": "string"}, "size": {"type": "integer"}}}


def made(client, slug, **more):
    return client.post(DEFINITIONS, json={"name": slug.title(), "slug": slug, "schema": SCHEMA, **more})


def test_a_definition_is_created_read_changed_and_deleted(served):
    admin = served.client()
    created = made(admin, "boat_profile", ttl="30d")
    assert created.status_code == 201
    definition = created.json()
    assert (definition["slug"], definition["scope"], definition["ttl"]) == ("boat_profile", "global", 2_592_000)
    for name in (definition["id"], "boat_profile"):
        assert admin.get(f"{DEFINITIONS}/{name}").json() == definition
    changed = admin.patch(f"{DEFINITIONS}/boat_profile", json={"name": "Boats"}).json()
    assert (changed["name"], changed["ttl"]) == ("Boats", 2_592_000)
    assert admin.patch(f"{DEFINITIONS}/boat_profile", json={"ttl": None}).json()["ttl"] is None
    assert admin.patch(f"{DEFINITIONS}/boat_profile", json={"ttl": "7d"}).json()["ttl"] == 604_800
    assert admin.patch(f"{DEFINITIONS}/boat_profile", json={"tenant": "x"}).status_code == 422
    assert admin.delete(f"{DEFINITIONS}/boat_profile").status_code == 204
    assert admin.get(f"{DEFINITIONS}/boat_profile").status_code == 404


def test_values_are_held_against_the_definition_of_their_key(served, someone):
    made(served.client(), "lamp")
    facts = "/api/v1/memory/facts"
    assert someone.put(f"{facts}/lamp", json={"value": {"colour": "red", "size": 3}}).status_code == 200
    wrong = someone.put(f"{facts}/lamp", json={"value": {"colour": "red", "size": "big"}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "schema_violation")
    assert wrong.json()["path"]
    records = served.client().get(f"{DEFINITIONS}/lamp/records").json()
    assert [one["value"]["size"] for one in records["records"]] == [3]


def test_records_and_definitions_come_in_pages(served):
    admin = served.client()
    for number in range(5):
        made(admin, f"paged_{number}")
    seen, after = [], None
    while True:
        page = admin.get(DEFINITIONS, params={"limit": 2} | ({"after": after} if after else {})).json()
        seen += [one["slug"] for one in page["definitions"]]
        after = page["next"]
        if after is None:
            break
    assert [slug for slug in seen if slug.startswith("paged_")] == [f"paged_{number}" for number in range(5)]
    for number in range(5):
        served.client(served.key_for(f"owner{number}")).put(
            "/api/v1/memory/facts/paged_0", json={"value": {"size": number}}
        )
    sizes, after = [], None
    while True:
        address = f"{DEFINITIONS}/paged_0/records"
        page = admin.get(address, params={"limit": 2} | ({"after": after} if after else {})).json()
        sizes += [one["value"]["size"] for one in page["records"]]
        after = page["next"]
        if after is None:
            break
    assert sorted(sizes) == list(range(5))


def test_no_record_is_left_out_because_others_went_between_two_pages(served):
    admin = served.client()
    made(admin, "passing")
    owners = {user: served.client(served.key_for(user)) for user in ("pa", "pb", "pc", "pd")}
    for owner in owners.values():
        owner.put("/api/v1/memory/facts/passing", json={"value": {"size": 1}})
    address = f"{DEFINITIONS}/passing/records"
    first = admin.get(address, params={"limit": 2}).json()
    assert [one["scope"] for one in first["records"]] == ["user:pa", "user:pb"]
    for user in ("pa", "pb"):
        assert owners[user].delete("/api/v1/memory/facts/passing").status_code == 204
    rest = admin.get(address, params={"limit": 2, "after": first["next"]}).json()
    assert ([one["scope"] for one in rest["records"]], rest["next"]) == (["user:pc", "user:pd"], None)


def test_a_definition_that_exists_or_cannot_be_is_refused(served):
    admin = served.client()
    assert made(admin, "taken").status_code == 201
    again = made(admin, "taken")
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")
    for slug, more in (("Not A Slug", {}), ("fine", {"schema": {"type": "nothing"}}), ("fine", {"scope": "galaxy"})):
        assert made(admin, slug, **more).json()["code"] == "invalid_definition", slug


def test_who_is_no_administrator_reads_definitions_and_changes_none(served, someone):
    made(served.client(), "guarded")
    assert someone.get(f"{DEFINITIONS}/guarded").status_code == 200
    for answer in (
        made(someone, "mine"),
        someone.patch(f"{DEFINITIONS}/guarded", json={"name": "x"}),
        someone.delete(f"{DEFINITIONS}/guarded"),
        someone.get(f"{DEFINITIONS}/guarded/records"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    assert served.client().get(f"{DEFINITIONS}/guarded").json()["name"] == "Guarded"


# a schema that records do not fit


SMALL = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}}


def stale_record(served, slug, size):
    """Make a definition with a record of a new user, and return the administrator's and the user's client."""
    admin, user = served.client(), served.client(served.key_for(f"owner-of-{slug}"))
    made(admin, slug, schema={"type": "object", "properties": {"size": {"type": "integer"}}})
    assert user.put(f"/api/v1/memory/facts/{slug}", json={"value": {"size": size}}).status_code == 200
    return admin, user


def test_a_check_says_which_records_would_not_fit(served):
    admin, _ = stale_record(served, "crate", 7)
    checked = admin.patch(f"{DEFINITIONS}/crate", params={"check": "true"}, json={"schema": SMALL})
    assert checked.status_code == 200
    assert (checked.json()["checked"], checked.json()["count"]) == (1, 1)
    [record] = checked.json()["records"]
    assert (record["scope"], record["key"], record["path"]) == ("user:owner-of-crate", "crate", "$.size")
    assert admin.get(f"{DEFINITIONS}/crate").json()["schema"]["properties"]["size"] == {"type": "integer"}
    assert admin.get(f"{DEFINITIONS}/crate/stale").json()["count"] == 0


def test_a_change_is_refused_kept_or_migrated(served):
    admin, user = stale_record(served, "barrel", 7)
    refused = admin.patch(f"{DEFINITIONS}/barrel", json={"schema": SMALL})
    assert (refused.status_code, refused.json()["code"], refused.json()["count"]) == (409, "stale_records", 1)
    assert refused.json()["options"] == ["migrate", "keep", "check"]
    assert refused.json()["records"][0]["scope"] == "user:owner-of-barrel"
    expression = '{"size": $record.size - 5}'
    dry = admin.patch(
        f"{DEFINITIONS}/barrel", params={"check": "true"}, json={"schema": SMALL, "migrate": expression}
    ).json()
    assert [(one["before"], one["after"]) for one in dry["migrations"]] == [({"size": 7}, {"size": 2})]
    assert admin.patch(f"{DEFINITIONS}/barrel", json={"schema": SMALL, "stale": "keep"}).status_code == 200
    (record,) = admin.get(f"{DEFINITIONS}/barrel/records").json()["records"]
    assert record["value"] == {"size": 7} and "$.size" in record["misfit"]
    assert [one["scope"] for one in admin.get(f"{DEFINITIONS}/barrel/stale").json()["records"]] == [
        "user:owner-of-barrel"
    ]
    assert admin.patch(f"{DEFINITIONS}/barrel", json={"migrate": expression}).status_code == 200
    fact = user.get("/api/v1/memory/facts/barrel").json()
    (record,) = admin.get(f"{DEFINITIONS}/barrel/records").json()["records"]
    assert fact["value"] == record["value"] == {"size": 2} and "misfit" not in record
    broken = admin.patch(f"{DEFINITIONS}/barrel", json={"migrate": "{{"})
    assert broken.status_code == 422


def test_a_member_is_granted_changes_of_one_definition_and_learns_nothing_of_its_records(served):
    admin, _ = stale_record(served, "cask", 7)
    stale_record(served, "keg", 7)
    member = served.client(served.key_for("grantee"))
    change = {"schema": SMALL}
    assert member.patch(f"{DEFINITIONS}/cask", json=change).status_code == 403
    grant = {"actor": "user:grantee", "capability": "definitions.write.update", "path": "cask"}
    id = admin.post("/api/v1/permissions", json=grant).json()["id"]
    hidden = member.patch(f"{DEFINITIONS}/cask", json=change)
    assert (hidden.status_code, hidden.json()["count"], hidden.json()["records"]) == (409, 1, [])
    assert "owner-of-cask" not in hidden.text
    for body in ({**change, "migrate": "$record"}, {"migrate": "$record"}):
        stolen = member.patch(f"{DEFINITIONS}/cask", json=body)
        assert (stolen.status_code, "owner-of-cask" in stolen.text) == (403, False)
    assert member.get(f"{DEFINITIONS}/cask/stale").status_code == 403
    assert member.get(f"{DEFINITIONS}/cask/records").status_code == 403
    other = member.patch(f"{DEFINITIONS}/keg", json={"name": "Mine"})
    assert other.status_code == 403
    assert "for `keg` in the whole tenant is not granted, only for `cask`" in other.json()["detail"]
    assert member.delete(f"{DEFINITIONS}/cask").status_code == 403
    assert member.patch(f"{DEFINITIONS}/cask", json={**change, "stale": "keep"}).status_code == 200
    reader = served.client(served.key_for("grantee", role="reader"))
    refused = reader.patch(f"{DEFINITIONS}/cask", json={"name": "Mine"})
    assert refused.status_code == 403
    assert f"`{id}` grants definitions.write.update, but the role `reader`" in refused.json()["detail"]
    admin.delete(f"/api/v1/permissions/{id}")
    assert member.patch(f"{DEFINITIONS}/cask", json={"name": "Mine"}).status_code == 403
