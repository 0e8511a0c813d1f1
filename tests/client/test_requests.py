"""Requests of the client: methods, URLs, parameters, bodies and headers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scripted_server import Answer, LoopbackServer, answers

import memoranda
from memoranda.client.requests import path

BLOCK = {
    "id": "mem_1",
    "block_type": "core",
    "content": "- Brews oolong",
    "scope": "user",
    "agent_id": None,
    "created_at": "2026-03-01T08:00:00Z",
    "updated_at": "2026-03-01T08:00:00.000001Z",
}
FACT = {
    "id": "fact_1",
    "tenant": "default",
    "scope": "user:mara",
    "key": "garden.soil",
    "value": {"ph": 6.5},
    "version": 3,
    "created_at": "2026-03-01T08:00:00Z",
    "updated_at": "2026-03-02T08:00:00Z",
}


def test_every_call_carries_the_key_in_one_header_and_nowhere_else(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers(BLOCK)
    client.memory.get("core")
    client.memory.update("core", "- x", expected_updated_at=None)
    assert len(loopback.asked) == 2
    for asked in loopback.asked:
        assert asked.headers["authorization"] == "Bearer mk_loopback_5ecret"
        others = {name: value for name, value in asked.headers.items() if name != "authorization"}
        assert "5ecret" not in f"{asked.target}{others}{asked.content!r}"
    assert "5ecret" not in repr(client) and loopback.url in repr(client)


def test_the_key_comes_from_the_environment_unless_it_is_given(
    connect: Any, loopback: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEMORANDA_API_KEY", raising=False)
    connect(loopback.url, None).memory.list()
    monkeypatch.setenv("MEMORANDA_API_KEY", "mk_from_environment")
    connect(loopback.url, None).memory.list()
    connect(loopback.url, "mk_given").memory.list()
    assert [asked.headers.get("authorization") for asked in loopback.asked] == [
        None,
        "Bearer mk_from_environment",
        "Bearer mk_given",
    ]


def test_whoever_names_an_agent_means_its_block(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers(BLOCK)
    client.memory.get("core")
    client.memory.get("core", scope="agent", agent_id="agent_mail")
    client.memory.get("core", agent_id="agent_mail")
    client.memory.get("core", scope="user", agent_id="agent_mail")  # which the server refuses, not we
    assert [asked.target.removeprefix("/api/v1/memory/blocks") for asked in loopback.asked] == [
        "/core",
        "/core?scope=agent&agent_id=agent_mail",
        "/core?scope=agent&agent_id=agent_mail",
        "/core?scope=user&agent_id=agent_mail",
    ]


def test_a_stamp_goes_as_it_was_read_and_none_goes_as_null(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers(BLOCK)
    stamp = client.memory.get("core").updated_at
    assert stamp == datetime(2026, 3, 1, 8, 0, 0, 1, tzinfo=UTC)
    for expected in (stamp, stamp.isoformat(), "2026-03-01T08:00:00", None):
        client.memory.update("core", "- Brews sencha", expected_updated_at=expected)
    assert [asked.body for asked in loopback.asked[1:]] == [
        {"content": "- Brews sencha", "expected_updated_at": "2026-03-01T08:00:00.000001+00:00"},
        {"content": "- Brews sencha", "expected_updated_at": "2026-03-01T08:00:00.000001+00:00"},
        {"content": "- Brews sencha", "expected_updated_at": "2026-03-01T08:00:00"},
        {"content": "- Brews sencha", "expected_updated_at": None},
    ]
    with pytest.raises(TypeError):
        client.memory.update("core", "- Brews sencha")
    assert len(loopback.asked) == 5


def test_what_was_not_given_is_not_sent(client: Any, loopback: LoopbackServer) -> None:
    client.memory.recall("greenhouse")
    client.memory.recall("greenhouse", agent_id="agent_plants", limit=3, min_score=0.5)
    assert [asked.body for asked in loopback.asked] == [
        {"query": "greenhouse", "limit": 10},
        {"query": "greenhouse", "agent_id": "agent_plants", "limit": 3, "min_score": 0.5},
    ]
    assert all((asked.method, asked.target) == ("POST", "/api/v1/memory/recall") for asked in loopback.asked)
    assert all(asked.headers["content-type"] == "application/json" for asked in loopback.asked)


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("garden.soil", "garden.soil"),
        ("a/b", "a%2Fb"),
        ("a/../../ledger", "a%2F..%2F..%2Fledger"),
        ("x?scope=all#top", "x%3Fscope%3Dall%23top"),
        ("50%25", "50%2525"),
        ("été 日本", "%C3%A9t%C3%A9%20%E6%97%A5%E6%9C%AC"),
        ("line\r\nX-Evil: 1", "line%0D%0AX-Evil%3A%201"),
    ],
)
def test_no_name_leads_to_another_address(client: Any, loopback: LoopbackServer, key: str, sent: str) -> None:
    loopback.default = answers(FACT)
    client.facts.get(key)
    assert loopback.asked[0].target == f"/api/v1/memory/facts/{sent}"
    assert path("memory", "facts", key) == f"/api/v1/memory/facts/{sent}"


@pytest.mark.parametrize("key", ["", ".", "..", None, 7, "half \ud800"])
def test_what_cannot_be_part_of_an_address_is_not_sent(client: Any, loopback: LoopbackServer, key: Any) -> None:
    loopback.default = answers(FACT)
    with pytest.raises(memoranda.UsageError, match="cannot be part of a URL"):
        client.facts.get(key)
    client.facts.get("garden")
    assert len(loopback.asked) == 1


@pytest.mark.parametrize(
    ("value", "path"),
    [({"a": [1, math.nan]}, "$.a[1]"), ({"a": {2}}, "$.a"), (b"raw", "$"), ({1: "x"}, "$"), ("nul\0", "$")],
)
def test_what_json_cannot_say_is_refused_as_the_engine_does_it(
    client: Any, loopback: LoopbackServer, value: Any, path: str
) -> None:
    loopback.default = answers(FACT)
    with pytest.raises(memoranda.InvalidValue) as raised:
        client.facts.set("k", value)
    with memoranda.open(":memory:") as memory, pytest.raises(memoranda.InvalidValue) as same:
        memory.scope(user="mara").set("k", value)
    assert raised.value.path == same.value.path == path
    assert str(raised.value) == str(same.value)
    assert loopback.asked == []
    client.facts.set("k", {"a": [1, 2.5]})
    assert loopback.asked[0].body == {"value": {"a": [1, 2.5]}}


def test_a_write_of_a_fact_says_version_and_time_to_live_in_its_body(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers(FACT)
    fact = client.facts.set("garden.soil", {"ph": 6.5}, expect=2, ttl="2w", domain="garden", source="probe:4")
    assert (fact.value, fact.version, fact.scope) == ({"ph": 6.5}, 3, "user:mara")
    client.facts.set("garden.soil", None, ttl=timedelta(hours=1), idempotency_key="once-1", scope="agent:beds")
    first, second = loopback.asked
    assert (first.method, first.target) == ("PUT", "/api/v1/memory/facts/garden.soil")
    assert first.body == {"value": {"ph": 6.5}, "expect": 2, "ttl": 1209600, "domain": "garden", "source": "probe:4"}
    assert "idempotency-key" not in first.headers
    assert second.target.endswith("?scope=agent%3Abeds")
    assert second.body == {"value": None, "ttl": 3600}
    assert second.headers["idempotency-key"] == "once-1"
    with pytest.raises(memoranda.InvalidDuration):
        client.facts.set("garden.soil", 1, ttl="soon")


def test_a_delete_says_whether_there_was_anything(client: Any, loopback: LoopbackServer) -> None:
    missing = {"type": "x", "title": "x", "status": 404, "detail": "nothing there", "code": "not_found"}
    loopback.waiting = [Answer(204), answers(missing, 404), Answer(204), answers(missing, 404)]
    assert client.facts.delete("garden.soil", expect=3) is True
    assert client.facts.delete("garden.soil") is False
    assert client.memory.delete("core", expected_updated_at="2026-03-01T08:00:00") is True
    assert client.memory.delete("core", agent_id="beds") is False
    assert loopback.asked[0].headers["if-match"] == '"3"'
    assert "if-match" not in loopback.asked[1].headers
    assert loopback.asked[2].target.endswith("/core?expected_updated_at=2026-03-01T08%3A00%3A00")


def test_a_list_reads_page_after_page_and_no_more_than_asked_for(client: Any, loopback: LoopbackServer) -> None:
    def page(names: str, next: str | None) -> Answer:
        return answers({"facts": [{**FACT, "key": name} for name in names], "next": next})

    loopback.waiting = [page("ab", "cur/1"), page("cd", "cur=2"), page("e", None)]
    assert [fact.key for fact in client.facts.list("garden")] == ["a", "b", "c", "d", "e"]
    assert [asked.target.partition("?")[2] for asked in loopback.asked] == [
        "prefix=garden&limit=100",
        "prefix=garden&limit=100&after=cur%2F1",
        "prefix=garden&limit=100&after=cur%3D2",
    ]
    loopback.waiting = [page("ab", "x"), page("c", "y")]
    assert [fact.key for fact in client.facts.list(limit=3)] == ["a", "b", "c"]
    assert loopback.asked[-1].target.endswith("?limit=1&after=x")
    asked = len(loopback.asked)
    assert client.facts.list(limit=0) == []
    assert len(loopback.asked) == asked


def test_definitions_are_changed_only_where_something_is_given(client: Any, loopback: LoopbackServer) -> None:
    loopback.default = answers(
        {
            "id": "d1",
            "tenant": "default",
            "name": "Bed",
            "slug": "bed",
            "scope": "global",
            "schema": {},
            "created_at": "2026-03-01T08:00:00Z",
            "updated_at": "2026-03-01T08:00:00Z",
        }
    )
    made = client.definitions.create(name="Bed", slug="bed", schema={"type": "object"}, ttl="1d")
    assert (made.slug, made.mode) == ("bed", "replace")
    client.definitions.update("bed", name="Raised bed")
    client.definitions.update("bed", ttl="1h")
    client.definitions.update("bed", clear_ttl=True)
    assert [asked.body for asked in loopback.asked] == [
        {"name": "Bed", "slug": "bed", "schema": {"type": "object"}, "scope": "global", "ttl": 86400},
        {"name": "Raised bed"},
        {"ttl": 3600},
        {"ttl": None},
    ]


def test_an_export_is_a_file_only_once_it_is_whole(client: Any, loopback: LoopbackServer, tmp_path: Any) -> None:
    lines = b'{"memoranda":1}\n{"fact":{"key":"caf\xc3\xa9 \xe2\x80\xa8"}}\n'
    loopback.waiting = [Answer(200, lines, {}, cut=20), Answer(200, lines)]
    with pytest.raises(memoranda.Unavailable):
        client.export(tmp_path / "all.jsonl", scope="user:mara")
    assert list(tmp_path.iterdir()) == []
    assert client.export(tmp_path / "all.jsonl") == 1
    assert (tmp_path / "all.jsonl").read_bytes() == lines
    assert [one.name for one in tmp_path.iterdir()] == ["all.jsonl"]
    assert loopback.asked[0].target == "/api/v1/export?scope=user%3Amara"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "127.0.0.1:8765"}, "not the URL"),
        ({"url": "ftp://memory.example"}, "not the URL"),
        ({"url": "http://"}, "not the URL"),
        ({"url": "http://host:99999"}, "not the URL"),
        ({"url": None}, "not the URL"),
        ({"url": "http://memory.example/api/v1/"}, "includes the path of the API"),
        ({"url": "http://ada:hunter2@memory.example"}, "must not contain a user, password"),
        ({"key": "mk_a b"}, "invalid characters"),
        ({"key": "mk_\r\nX-Evil: 1"}, "invalid characters"),
        ({"key": "mk_ключ"}, "invalid characters"),
        ({"timeout": 0}, "not a timeout"),
        ({"timeout": None}, "not a timeout"),
        ({"timeout": math.inf}, "not a timeout"),
        ({"retries": -1}, "not a number of retries"),
        ({"retries": True}, "not a number of retries"),
    ],
)
def test_a_client_is_not_made_with_what_cannot_work(connect: Any, options: dict[str, Any], said: str) -> None:
    given = {"url": "http://memory.example/", "key": "mk_fine", **options}
    with pytest.raises(memoranda.UsageError, match=said) as raised:
        connect(given.pop("url"), given.pop("key"), **given)
    assert "hunter2" not in str(raised.value) and "Evil" not in str(raised.value)
    assert connect("http://memory.example/", "mk_fine").url == "http://memory.example"
