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
