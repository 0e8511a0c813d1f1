from __future__ import annotations

COLLECTIONS = "/api/v1/collections"


def remember(client, content, collection="logbook", **more):
    return client.post(f"{COLLECTIONS}/{collection}/remember", json={"content": content, **more})


def recall(client, query, collection="logbook", **more):
    return client.post(f"{COLLECTIONS}/{collection}/recall", json={"query": query, **more})


def test_what_is_remembered_is_recalled(served, someone):
    first = remember(someone, "The lighthouse keeper asked for new lenses", metadata={"place": "north"})
    assert (first.status_code, first.json()["stored"]) == (201, True)
    remember(someone, "The ferry to the island leaves at six", metadata={"place": "south"})
    again = remember(someone, "The lighthouse keeper asked for new lenses", metadata={"place": "north"})
    assert (again.json()["stored"], again.json()["duplicate"], again.json()["id"]) == (False, True, first.json()["id"])
    found = recall(someone, "what does the lighthouse need", limit=1).json()
    assert found["results"][0]["content"] == "The lighthouse keeper asked for new lenses"
    assert 0 < found["results"][0]["score"] <= 1
    assert found["results"][0]["why"]["matched"]
    narrowed = recall(someone, "lighthouse", filter={"place": "south"}).json()
    assert [one["metadata"]["place"] for one in narrowed["results"]] in ([], ["south"])
    assert recall(someone, "lighthouse", expand=1).json()["results"][0]["before"] == []
    assert recall(someone, "lighthouse", exact=True).json()["results"][0]["why"]["exact"] is True
    assert recall(someone, "lighthouse", exact="yes").status_code == 422


def test_nothing_has_to_be_named_to_remember_and_recall(served, someone, newcomer):
    done = someone.post("/api/v1/remember", json={"content": "The lighthouse keeper asked for new lenses"})
    assert (done.status_code, done.json()["collection"]) == (201, "notes")
    someone.put("/api/v1/memory/facts/lighthouse.lenses", json={"value": 3})

    def found(**narrowing):
        answer = someone.post("/api/v1/recall", json={"query": "lenses of the lighthouse", **narrowing})
        return (
            [match["kind"] for match in answer.json()["results"]] if answer.status_code == 200 else answer.status_code
        )

    assert sorted(found()) == ["entry", "fact"]
    assert found(kinds=["fact"]) == ["fact"] and found(collections=["notes"], kinds=["entry"]) == ["entry"]
    assert found(collection="notes") == ["entry"] and found(scopes=[f"user:{newcomer}"], limit=1) != []
    assert found(kinds=["dream"]) == found(collection="notes", kinds=["fact"]) == found(scopes=["nobody"]) == 422
    assert found(scopes=["user:eve"]) == found(scopes=[""]) == found(scopes=["project:p"]) == 403
    with served.client(served.key_for(f"{newcomer}-other")) as other:
        assert other.post("/api/v1/recall", json={"query": "lighthouse"}).json()["results"] == []


def test_entries_are_listed_in_pages_and_forgotten(someone):
    for number in range(5):
        remember(someone, f"Entry about subject {number}", collection="pages")
    seen, after = [], None
    while True:
        page = someone.get(
            f"{COLLECTIONS}/pages/entries", params={"limit": 2} | ({"after": after} if after else {})
        ).json()
        seen += page["entries"]
        after = page["next"]
        if after is None:
            break
    assert [one["content"][-1] for one in seen] == list("01234")
    gone = f"{COLLECTIONS}/pages/entries/{seen[2]['id']}"
    assert someone.delete(gone).status_code == 204
    assert someone.delete(gone).status_code == 404
    assert len(someone.get(f"{COLLECTIONS}/pages/entries").json()["entries"]) == 4


def test_collections_are_listed_with_their_embedder(served, someone):
    remember(someone, "Something", collection="listed")
    found = served.client().get(COLLECTIONS).json()["collections"]
    listed = next(one for one in found if one["name"] == "listed")
    assert listed["embedder"].startswith("wordllama")
    assert listed["entries"] == 1
    page = served.client().get(COLLECTIONS, params={"limit": 1}).json()
    assert len(page["collections"]) == 1


def test_nobody_recalls_what_another_user_remembers(served, someone):
    other = served.client(served.key_for("stranger"))
    remember(someone, "The vault opens at noon", collection="private")
    assert recall(someone, "vault", collection="private").json()["count"] == 1
    found = recall(other, "vault", collection="private").json()
    assert (found["results"], found["count"], found["known"]) == ([], 0, False)
    # It is the answer for a collection that no user has.
    missing = recall(other, "vault", collection="missing").json()
    assert found == {**missing, "hint": missing["hint"].replace("missing", "private")}
    assert other.get(f"{COLLECTIONS}/private/entries").json()["entries"] == []


def test_what_cannot_be_remembered_or_asked_is_refused(someone):
    for body in ({"content": ""}, {"content": None}, {"content": "x", "metadata": []}, {"content": "x", "user": "eve"}):
        answer = someone.post(f"{COLLECTIONS}/refused/remember", json=body)
        assert answer.status_code == 422, body
    for body in (
        {"query": "x", "limit": -1},
        {"query": "x", "limit": 1_001},
        {"query": "x", "expand": 1_001},
        {"query": "x", "threshold": 2},
        {"query": "x", "mode": "psychic"},
        {"query": "x", "filter": {"a": {"$near": 1}}},
        {},
    ):
        answer = someone.post(f"{COLLECTIONS}/refused/recall", json=body)
        assert answer.status_code == 422, body
    assert someone.post(f"{COLLECTIONS}/refused/recall", json={"query": "x"}).json()["results"] == []
    bounds = {"query": "x", "limit": 0, "expand": 1_000}
    assert someone.post(f"{COLLECTIONS}/refused/recall", json=bounds).json()["results"] == []


def test_several_things_are_remembered_all_or_none(someone):
    entries = f"{COLLECTIONS}/log/entries"
    done = someone.post(
        entries, json={"items": [{"content": "fog"}, {"content": {"knots": 9}, "metadata": {"at": "sea"}, "key": "k"}]}
    )
    assert done.status_code == 201, done.text
    assert [one["stored"] for one in done.json()["remembered"]] == [True, True]
    for bad in ({"content": ""}, {"metadata": {}}, {"content": "x", "user": "eve"}, {"content": "x", "key": ""}):
        refused = someone.post(entries, json={"items": [{"content": "calm"}, bad]})
        assert refused.status_code == 422, bad
    assert [one["content"] for one in someone.get(entries).json()["entries"]] == ["fog", {"knots": 9}]
    assert someone.post(entries, json={"items": []}).json() == {"remembered": []}


def test_a_long_text_is_remembered_in_parts(someone):
    text = "The mast is new.\n\nThe sail is old.\n\nThe hull is green."
    done = someone.post(f"{COLLECTIONS}/hull/texts", json={"text": text, "chunk": 20, "metadata": {"of": "boat"}})
    assert (done.status_code, len(done.json()["remembered"])) == (201, 3)
    found = recall(someone, "What colour is the hull?", collection="hull", limit=1, expand=1).json()["results"][0]
    assert (found["content"], found["metadata"]["part"]) == ("The hull is green.", 3)
    assert [one["content"] for one in found["before"]] == ["The sail is old."]
    assert someone.post(f"{COLLECTIONS}/hull/texts", json={"text": " "}).status_code == 422


def test_a_long_text_is_remembered_as_one_thing_in_parts(someone):
    text = "The mast is new.\n\nThe sail is old.\n\nThe hull is green."
    done = remember(someone, text, collection="rigging", key="boat", chunk=20)
    assert (done.status_code, done.json()["parts"]) == (201, 3)
    found = recall(someone, "hull", collection="rigging", limit=1).json()["results"][0]["metadata"]
    assert (found["part"], found["parts"]) == (3, 3)
    assert remember(someone, "The boat is sold.", collection="rigging", key="boat", chunk=True).json()["parts"] == 1
    listed = someone.get(f"{COLLECTIONS}/rigging/entries").json()["entries"]
    assert [one["content"] for one in listed] == ["The boat is sold."]
    refused = remember(someone, "word " * 20_000, collection="rigging")
    assert refused.status_code == 422 and "`chunk`" in refused.json()["hint"]


def test_an_entry_is_forgotten_by_its_key(served, someone):
    remember(someone, "anchor up", key="state")
    remember(someone, "anchor down", key="state", namespace="night")
    stranger = served.client(served.key_for("stranger-to-keys"))
    place = f"{COLLECTIONS}/logbook/entries"
    assert stranger.delete(place, params={"key": "state"}).status_code == 404
    without = someone.delete(place)
    assert (without.status_code, without.json()["path"]) == (422, "key")
    assert without.json()["detail"] == "the parameter `key` is missing"
    assert someone.delete(place, params={"key": "state"}).status_code == 204
    assert someone.delete(place, params={"key": "state"}).status_code == 404
    assert [one["content"] for one in someone.get(place).json()["entries"]] == ["anchor down"]


def test_a_member_sees_collections_with_something_of_theirs_and_an_admin_all(served, someone):
    remember(someone, "mine", collection="shared-shelf")
    someone.post(f"{COLLECTIONS}/agents-shelf/remember?scope=agent:mate", json={"content": "an agent's"})
    other = served.client(served.key_for("shelf-owner"))
    for number in range(3):
        remember(other, f"theirs {number}", collection="shared-shelf")
    remember(other, "secret plans", collection="secret-shelf")
    counts = {one["name"]: one["entries"] for one in someone.get(COLLECTIONS).json()["collections"]}
    assert counts == {"shared-shelf": 1, "agents-shelf": 1}
    reader = served.client(served.key_for("shelf-owner", role="reader"))
    assert {one["name"] for one in reader.get(COLLECTIONS).json()["collections"]} == {"shared-shelf", "secret-shelf"}
    every = {one["name"]: one["entries"] for one in served.client().get(COLLECTIONS).json()["collections"]}
    assert (every["shared-shelf"], every["secret-shelf"]) == (4, 1)
    elsewhere = served.client(served.key_for("shelf-owner", tenant="other-shelves", role="admin"))
    assert elsewhere.get(COLLECTIONS).json()["collections"] == []


def test_a_collection_is_deleted_by_an_administrator_with_what_everybody_has_in_it(served, someone):
    remember(someone, "mine", collection="doomed")
    remember(served.client(served.key_for("another-doomed")), "theirs", collection="doomed")
    refused = someone.delete(f"{COLLECTIONS}/doomed")
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    elsewhere = served.client(served.key_for("boss", tenant="other-doomed", role="admin"))
    assert elsewhere.delete(f"{COLLECTIONS}/doomed").status_code == 404
    assert recall(someone, "mine", collection="doomed").json()["count"] == 1
    assert served.client().delete(f"{COLLECTIONS}/doomed").json() == {"entries": 2}
    assert recall(someone, "mine", collection="doomed").json()["count"] == 0
