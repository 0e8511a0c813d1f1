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
    assert recall(other, "vault", collection="private").json() == {"results": [], "count": 0}
    assert other.get(f"{COLLECTIONS}/private/entries").json()["entries"] == []


def test_what_cannot_be_remembered_or_asked_is_refused(someone):
    for body in ({"content": ""}, {"content": None}, {"content": "x", "metadata": []}, {"content": "x", "user": "eve"}):
        answer = someone.post(f"{COLLECTIONS}/refused/remember", json=body)
        assert answer.status_code == 422, body
    for body in (
        {"query": "x", "limit": 0},
        {"query": "x", "threshold": 2},
        {"query": "x", "mode": "psychic"},
        {"query": "x", "filter": {"a": {"$near": 1}}},
        {},
    ):
        answer = someone.post(f"{COLLECTIONS}/refused/recall", json=body)
        assert answer.status_code == 422, body
    assert someone.post(f"{COLLECTIONS}/refused/recall", json={"query": "x"}).json() == {"results": [], "count": 0}
