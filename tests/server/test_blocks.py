from __future__ import annotations

import asyncio
import json
import resource
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

BLOCKS = "/api/v1/memory/blocks"
RECALL = "/api/v1/memory/recall"


def put(client, block, content, expected, **params):
    return client.put(f"{BLOCKS}/{block}", params=params, json={"content": content, "expected_updated_at": expected})


def test_b1_a_block_is_created_with_null(someone):
    made = put(someone, "core", "- Plays the cello", None)
    block = made.json()
    assert made.status_code == 200
    assert block["id"].startswith("mem_")
    assert (block["block_type"], block["scope"], block["agent_id"]) == ("core", "user", None)
    assert block["created_at"] == block["updated_at"]
    assert someone.get(f"{BLOCKS}/core").json() == block


def test_b2_creating_twice_conflicts_and_leaves_the_first(someone):
    first = put(someone, "core", "- First", None).json()
    second = put(someone, "core", "- Second", None)
    problem = second.json()
    assert (second.status_code, problem["code"]) == (409, "conflict")
    assert datetime.fromisoformat(problem["current_updated_at"]) == datetime.fromisoformat(first["updated_at"])
    assert someone.get(f"{BLOCKS}/core").json() == first


def test_b3_b4_the_last_stamp_writes_and_an_older_one_conflicts(someone):
    first = put(someone, "core", "- One", None).json()
    second = put(someone, "core", "- Two", first["updated_at"]).json()
    assert (second["id"], second["created_at"]) == (first["id"], first["created_at"])
    assert second["updated_at"] > first["updated_at"]
    assert put(someone, "core", "- Three", first["updated_at"]).status_code == 409
    assert someone.get(f"{BLOCKS}/core").json()["content"] == "- Two"
    again = someone.get(f"{BLOCKS}/core").json()["updated_at"]
    assert put(someone, "core", "- Three", again).json()["content"] == "- Three"


def test_b5_of_many_writers_with_one_stamp_exactly_one_wins(someone):
    stamp = put(someone, "core", "- Start", None).json()["updated_at"]
    with ThreadPoolExecutor(16) as pool:
        got = sorted(pool.map(lambda n: put(someone, "core", f"- {n}", stamp).status_code, range(100)))
    assert got == [200] + [409] * 99


def test_b7_a_stamp_may_be_written_in_any_iso_form(someone):
    block = put(someone, "core", "- 0", None).json()
    for form in (
        lambda moment: moment.isoformat(),
        lambda moment: moment.isoformat().replace("+00:00", "Z"),
        lambda moment: moment.replace(tzinfo=None).isoformat(),
        lambda moment: moment.astimezone(tz=datetime.fromisoformat("2026-01-01T00:00:00+05:30").tzinfo).isoformat(),
    ):
        moment = datetime.fromisoformat(block["updated_at"])
        assert moment.tzinfo == UTC
        answer = put(someone, "core", "- 1", form(moment))
        assert answer.status_code == 200, form(moment)
        block = answer.json()


def test_b8_the_stamp_has_to_be_there_and_to_be_one(someone):
    missing = someone.put(f"{BLOCKS}/core", json={"content": "- x"})
    assert (missing.status_code, missing.json()["path"]) == (422, "$.expected_updated_at")
    for wrong in ("yesterday", "", 17, "null", True, ["2026-01-01T00:00:00"]):
        answer = put(someone, "core", "- x", wrong)
        assert (answer.status_code, answer.json()["path"]) == (422, "$.expected_updated_at"), wrong
    assert put(someone, "core", "- x", "yesterday").json()["detail"] == "`yesterday` is not a moment"
    day = put(someone, "core", "- x", "2026-01-01")
    assert (day.status_code, day.json()["code"]) == (409, "conflict")  # a day is a moment, though not one of this block
    assert someone.get(f"{BLOCKS}/core").status_code == 404


def test_b10_b11_b12_limits_are_told_and_nothing_is_cut(someone):
    kept = put(someone, "core", "x" * 4_000, None).json()
    long = put(someone, "core", "x" * 4_001, kept["updated_at"])
    assert long.status_code == 422
    assert {
        "code": "limit_exceeded",
        "limit": 4_000,
        "actual": 4_001,
        "what": "characters",
    }.items() <= long.json().items()
    many = put(someone, "core", "\n\n".join("-" for _ in range(21)), kept["updated_at"])
    assert {"limit": 20, "actual": 21, "what": "entries"}.items() <= many.json().items()
    assert someone.get(f"{BLOCKS}/core").json() == kept
    assert put(someone, "core", "\n\n".join("-" for _ in range(20)), kept["updated_at"]).status_code == 200
    assert put(someone, "archival", "x" * 8_000, None).status_code == 200
    assert put(someone, "archival", "x" * 8_000, None, scope="agent", agent_id="loom").status_code == 200
    assert put(someone, "archival", "x" * 8_001, None, scope="agent", agent_id="other").status_code == 422


@pytest.mark.parametrize(
    ("path", "params", "named"),
    [
        ("episodic", {}, "block_type"),
        ("core", {"scope": "team"}, "scope"),
        ("core", {"scope": "all"}, "scope"),
        ("core", {"scope": "agent"}, "agent_id"),
        ("core", {"scope": "user", "agent_id": "loom"}, "agent_id"),
    ],
)
def test_b13_a_block_that_cannot_be_is_refused(someone, path, params, named):
    for answer in (
        someone.get(f"{BLOCKS}/{path}", params=params),
        put(someone, path, "- x", None, **params),
        someone.delete(f"{BLOCKS}/{path}", params=params),
    ):
        assert (answer.status_code, answer.json()["path"]) == (422, named)


def test_b14_a_list_is_the_users_own_and_with_all_every_agents(someone):
    put(someone, "core", "- mine", None)
    put(someone, "core", "- of loom", None, scope="agent", agent_id="loom")
    put(someone, "archival", "- of kiln", None, agent_id="kiln")

    def listed(**params):
        return sorted((one["scope"], one["agent_id"] or "") for one in someone.get(BLOCKS, params=params).json())

    assert listed() == listed(scope="user") == [("user", "")]
    assert listed(scope="agent") == [("agent", "kiln"), ("agent", "loom")]
    assert listed(scope="all") == [("agent", "kiln"), ("agent", "loom"), ("user", "")]
    assert listed(scope="agent", agent_id="loom") == listed(agent_id="loom") == [("agent", "loom")]
    assert listed(scope="all", agent_id="loom") == [("agent", "loom"), ("user", "")]
    assert someone.get(BLOCKS, params={"scope": "team"}).json()["path"] == "scope"


def test_b15_a_missing_block_is_not_found_and_a_deleted_one_can_be_made_again(someone):
    assert someone.get(f"{BLOCKS}/core").status_code == 404
    assert someone.delete(f"{BLOCKS}/core").status_code == 404
    first = put(someone, "core", "- One", None).json()
    stale = "2020-01-01T00:00:00"
    assert someone.delete(f"{BLOCKS}/core", params={"expected_updated_at": stale}).status_code == 409
    for no_stamp in ("null", "", "1700000000"):
        assert someone.delete(f"{BLOCKS}/core", params={"expected_updated_at": no_stamp}).status_code == 422
    assert someone.delete(f"{BLOCKS}/core", params={"expected_updated_at": first["updated_at"]}).status_code == 204
    assert put(someone, "core", "- x", first["updated_at"]).status_code == 409
    second = put(someone, "core", "- Two", None).json()
    assert second["id"] != first["id"]
    assert second["updated_at"] > first["updated_at"]
    assert someone.delete(f"{BLOCKS}/core").status_code == 204


def test_tags_do_what_stamps_do(someone):
    made = someone.put(f"{BLOCKS}/core", json={"content": "- One"}, headers={"If-None-Match": "*"})
    assert made.status_code == 200
    tag = made.headers["etag"]
    got = someone.get(f"{BLOCKS}/core", headers={"If-None-Match": tag})
    assert (got.status_code, got.headers["etag"]) == (304, tag)
    newer = someone.put(f"{BLOCKS}/core", json={"content": "- Two"}, headers={"If-Match": tag})
    assert newer.headers["etag"] != tag
    assert someone.put(f"{BLOCKS}/core", json={"content": "- Three"}, headers={"If-Match": tag}).status_code == 409
    split = someone.put(
        f"{BLOCKS}/core",
        json={"content": "- Three", "expected_updated_at": made.json()["updated_at"]},
        headers={"If-Match": newer.headers["etag"]},
    )
    assert split.status_code == 422
    assert someone.delete(f"{BLOCKS}/core", headers={"If-Match": tag}).status_code == 409
    met = someone.delete(f"{BLOCKS}/core", headers={"If-None-Match": "*"})
    assert (met.status_code, met.json()["current_updated_at"]) == (409, newer.json()["updated_at"])
    assert someone.delete(f"{BLOCKS}/archival", headers={"If-None-Match": "*"}).status_code == 404
    both = someone.delete(f"{BLOCKS}/core", headers={"If-Match": newer.headers["etag"], "If-None-Match": "*"})
    assert (both.status_code, someone.get(f"{BLOCKS}/core").status_code) == (422, 200)
    assert someone.delete(f"{BLOCKS}/core", headers={"If-Match": newer.headers["etag"]}).status_code == 204


def test_i1_nobody_sees_the_blocks_of_another_user_tenant_or_agent(served):
    ada, bob = served.client(served.key_for("i1-ada")), served.client(served.key_for("i1-bob"))
    abroad = served.client(served.key_for("i1-ada", tenant="elsewhere"))
    put(ada, "core", "- of Ada", None)
    put(ada, "archival", "- the harbour is deep", None)
    put(ada, "archival", "- the harbour is cold", None, agent_id="loom")
    for other in (bob, abroad):
        assert other.get(BLOCKS, params={"scope": "all"}).json() == []
        assert other.get(f"{BLOCKS}/core").status_code == 404
        assert other.post(RECALL, json={"query": "harbour", "agent_id": "loom"}).json() == []
        assert put(other, "core", "- of another", None).status_code == 200
    assert ada.get(f"{BLOCKS}/core").json()["content"] == "- of Ada"
    assert [one["content"] for one in ada.post(RECALL, json={"query": "harbour", "agent_id": "kiln"}).json()] == [
        "- the harbour is deep"
    ]


def test_r1_r2_r7_recall_ranks_lines_and_says_where_they_stand(someone):
    put(someone, "archival", "- Orchard lease: signed until 2031\n\n- Windmill repair: blades arrive in June", None)
    stamp = put(someone, "archival", "- Windmill noise: neighbours complained", None, agent_id="loom").json()[
        "updated_at"
    ]
    found = someone.post(RECALL, json={"query": "windmill repair", "agent_id": "loom", "limit": 10}).json()
    assert [(one["scope"], one["agent_id"], one["line_number"]) for one in found] == [
        ("user", None, 3),
        ("agent", "loom", 1),
    ]
    assert found[0]["content"] == "- Windmill repair: blades arrive in June"
    assert found[0]["block_type"] == "archival"
    assert found[0]["score"] > found[1]["score"] > 0
    assert found[1]["updated_at"] == stamp
    assert len(someone.post(RECALL, json={"query": "windmill", "agent_id": "loom", "limit": 1}).json()) == 1
    assert {one["scope"] for one in someone.post(RECALL, json={"query": "windmill"}).json()} == {"user"}


def test_r4_r5_an_empty_query_lists_and_an_unknown_word_finds_nothing(someone):
    put(someone, "core", "- Secret word xylophone", None)
    put(someone, "archival", "- one\n- two\n- three", None)
    for query in ("", "  "):
        found = someone.post(RECALL, json={"query": query, "limit": 2}).json()
        assert [one["line_number"] for one in found] == [1, 2]
    assert someone.post(RECALL, json={"query": "xylophone"}).json() == []


def test_a12_limits_of_a_recall(someone):
    for limit in (0, 101, -1, "10", 1.5, None):
        answer = someone.post(RECALL, json={"query": "x", "limit": limit})
        assert (answer.status_code, answer.json()["path"]) == (422, "$.limit"), limit
    assert someone.post(RECALL, json={"query": "x", "limit": 100}).status_code == 200
    assert someone.post(RECALL, json={"query": "x", "user": "eve"}).status_code == 422


def test_of_a_thousand_clients_with_one_stamp_one_wins_and_the_others_are_told(served):
    key = served.key_for("crowded")
    stamp = put(served.client(key), "core", "- Start", None).json()["updated_at"]

    async def claim(number: int, together: asyncio.Barrier) -> int:
        body = json.dumps({"content": f"- {number}", "expected_updated_at": stamp}).encode()
        head = f"PUT {BLOCKS}/core HTTP/1.1\r\nHost: memory\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        await together.wait()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return int(answer.split(maxsplit=2)[1])

    async def everybody() -> list[int]:
        together = asyncio.Barrier(1_000)
        return await asyncio.gather(*(claim(number, together) for number in range(1_000)))

    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(usual, min(2_048, most)), most))
    assert sorted(asyncio.run(everybody())) == [200] + [409] * 999
    history = served.client(key).get("/api/v1/memory/facts/blocks.core/history").json()["revisions"]
    assert len(history) == 2


def test_every_text_of_a_block_is_told_and_the_last_one_taken_back(someone):
    place = f"{BLOCKS}/core"
    assert someone.get(f"{place}/history").status_code == 404
    assert someone.post(f"{place}/undo", json={"expected_updated_at": None}).status_code == 404
    first = someone.put(place, json={"content": "- Rows", "expected_updated_at": None, "source": "harbour"}).json()
    second = someone.put(place, json={"content": "- Sails", "expected_updated_at": first["updated_at"]}).json()
    told = someone.get(f"{place}/history").json()["revisions"]
    assert [(one["value"], one["version"], one["origin"]["source"]) for one in told] == [
        ("- Rows", 1, "harbour"),
        ("- Sails", 2, None),
    ]
    late = someone.post(f"{place}/undo", json={"expected_updated_at": first["updated_at"]})
    assert (late.status_code, late.json()["current_updated_at"][:26]) == (409, second["updated_at"][:26])
    assert someone.post(f"{place}/undo", json={}).status_code == 422
    undone = someone.post(f"{place}/undo", json={"expected_updated_at": second["updated_at"]})
    assert (undone.status_code, undone.json()["content"]) == (200, "- Rows")
    redone = someone.post(f"{place}/undo", json={}, headers={"If-Match": undone.headers["ETag"]})
    assert redone.json()["content"] == "- Sails"
    assert someone.delete(place, params={"source": "storm"}).status_code == 204
    assert someone.get(f"{place}/history").json()["revisions"][-1]["origin"]["source"] == "storm"
    back = someone.post(f"{place}/undo", json={"expected_updated_at": None})
    assert back.json()["content"] == "- Sails"
    assert someone.get(f"{place}/history", params={"agent_id": "mail"}).status_code == 404


def test_who_only_reads_sees_the_history_of_a_block_and_takes_nothing_back(served):
    writer, reader = (served.client(served.key_for("b-history", role=role)) for role in ("member", "reader"))
    stamp = None
    for text in ("- Rows", "- Sails"):
        stamp = writer.put(f"{BLOCKS}/core", json={"content": text, "expected_updated_at": stamp}).json()["updated_at"]
    assert len(reader.get(f"{BLOCKS}/core/history").json()["revisions"]) == 2
    refused = reader.post(f"{BLOCKS}/core/undo", json={"expected_updated_at": stamp})
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    for stranger in ("b-history2", "b-stranger"):
        assert served.client(served.key_for(stranger)).get(f"{BLOCKS}/core/history").status_code == 404
    elsewhere = served.client(served.key_for("b-history", tenant="other"))
    assert elsewhere.get(f"{BLOCKS}/core/history").status_code == 404
