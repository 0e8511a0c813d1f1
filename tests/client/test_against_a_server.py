"""The client and a real server: every call, and what two of them see of each other."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import memoranda

_numbers = count(1)


@pytest.fixture
def tenant() -> str:
    """Return the name of a tenant that no other test uses."""
    return f"garden-{next(_numbers)}"


@pytest.fixture
def mara(connect: Any, served: Any, tenant: str) -> Any:
    return connect(served.url, served.key("mara", tenant=tenant))


@pytest.fixture
def noor(connect: Any, served: Any, tenant: str) -> Any:
    return connect(served.url, served.key("noor", tenant=tenant))


def test_blocks_are_created_read_listed_replaced_and_deleted(mara: Any) -> None:
    assert mara.memory.list() == []
    assert mara.memory.get("core") is None
    core = mara.memory.update("core", "- Grows tomatoes\n- Speaks Dutch", expected_updated_at=None)
    beds = mara.memory.update("core", "- Waters at six", expected_updated_at=None, agent_id="agent_beds")
    assert isinstance(core, memoranda.Block)
    assert (core.scope, core.agent_id, core.block_type) == ("user", None, "core")
    assert (beds.scope, beds.agent_id) == ("agent", "agent_beds")
    assert core.created_at == core.updated_at and core.updated_at.tzinfo is not None
    assert mara.memory.list() == [core]
    assert mara.memory.list(scope="all") == [core, beds]
    assert mara.memory.list(scope="agent") == [beds]
    assert mara.memory.get("core", scope="agent", agent_id="agent_beds") == beds
    assert mara.memory.get("core", agent_id="agent_beds") == beds
    changed = mara.memory.update("core", "- Grows peppers", expected_updated_at=core.updated_at.isoformat())
    assert (changed.id, changed.created_at) == (core.id, core.created_at)
    assert changed.updated_at > core.updated_at
    assert mara.memory.get("core") == changed
    assert mara.memory.delete("core", expected_updated_at=changed.updated_at) is True
    assert mara.memory.delete("core") is False
    assert mara.memory.list(scope="all") == [beds]


def test_archival_lines_are_recalled_with_where_they_stand(mara: Any) -> None:
    mara.memory.update("archival", "- Slug fence: order copper tape\n\n- Compost turned", expected_updated_at=None)
    mara.memory.update(
        "archival", "- Copper tape comes from the mill shop", expected_updated_at=None, agent_id="agent_shop"
    )
    alone = mara.memory.recall("copper tape")
    assert [(match.scope, match.line_number, match.content) for match in alone] == [
        ("user", 1, "- Slug fence: order copper tape")
    ]
    assert alone[0].score > 0
    both = mara.memory.recall("copper tape", agent_id="agent_shop", limit=10)
    assert {(match.scope, match.agent_id) for match in both} == {("user", None), ("agent", "agent_shop")}
    assert [match.score for match in both] == sorted((match.score for match in both), reverse=True)
    assert [match.line_number for match in mara.memory.recall("")] == [1, 3]
    assert mara.memory.recall("submarine") == []
    assert len(mara.memory.recall("copper tape", agent_id="agent_shop", limit=1)) == 1


def test_whoever_was_slower_meets_a_conflict_and_can_recover(mara: Any, connect: Any, served: Any, tenant: str) -> None:
    other = connect(served.url, served.key("mara", tenant=tenant))
    core = mara.memory.update("core", "- One", expected_updated_at=None)
    theirs = other.memory.update("core", "- One\n- Two", expected_updated_at=core.updated_at)
    with pytest.raises(memoranda.Conflict) as raised:
        mara.memory.update("core", "- One\n- Three", expected_updated_at=core.updated_at)
    assert raised.value.current_updated_at == theirs.updated_at
    assert mara.memory.get("core") == theirs
    with pytest.raises(memoranda.Conflict):
        mara.memory.update("core", "- Anew", expected_updated_at=None)
    seen = mara.memory.get("core")
    mended = mara.memory.update("core", seen.content + "\n- Three", expected_updated_at=seen.updated_at)
    assert mended.content == "- One\n- Two\n- Three"


def test_of_many_writers_with_one_stamp_exactly_one_wins(served: Any, tenant: str) -> None:
    with memoranda.Client(served.url, served.key("mara", tenant=tenant), timeout=60) as client:
        core = client.memory.update("core", "- start", expected_updated_at=None)

        def write(number: int) -> str | None:
            try:
                return client.memory.update("core", f"- {number}", expected_updated_at=core.updated_at).content
            except memoranda.Conflict as conflict:
                assert "repeated" not in conflict.details
                return None

        with ThreadPoolExecutor(32) as threads:
            won = [content for content in threads.map(write, range(200)) if content]
        assert len(won) == 1
        found = client.memory.get("core")
        assert found is not None and found.content == won[0]


def test_what_is_too_long_is_refused_with_both_numbers_and_changes_nothing(mara: Any) -> None:
    core = mara.memory.update("core", "x" * 4_000, expected_updated_at=None)
    for text, limit, actual, what in (("x" * 4_001, 4_000, 4_001, "characters"), ("- a\n" * 21, 20, 21, "entries")):
        with pytest.raises(memoranda.LimitExceeded) as raised:
            mara.memory.update("core", text, expected_updated_at=core.updated_at)
        assert (raised.value.limit, raised.value.actual, raised.value.what) == (limit, actual, what)
    assert mara.memory.get("core") == core


def test_a_user_sees_nothing_of_another(mara: Any, noor: Any, connect: Any, served: Any) -> None:
    mara.memory.update("archival", "- The cellar key hangs behind the clock", expected_updated_at=None)
    mara.facts.set("garden.soil", "clay")
    mara.collections.remember("The cellar key hangs behind the clock", collection="notes")
    namesake = connect(served.url, served.key("mara", tenant="elsewhere"))
    for other in (noor, namesake):
        assert other.memory.list(scope="all") == []
        assert other.memory.recall("cellar key") == []
        assert other.facts.get("garden.soil") is None
        assert other.facts.list() == []
        assert other.collections.recall("cellar key", collection="notes").results == []
    assert len(mara.memory.list()) == 1
    assert len(mara.memory.recall("cellar key")) == 1
    assert mara.facts.value("garden.soil") == "clay"
    assert mara.collections.recall("cellar key", collection="notes").count == 1


def test_facts_have_versions_a_history_and_an_end(mara: Any) -> None:
    fact = mara.facts.set("garden.soil", {"ph": 6.5}, ttl="1h", domain="garden", source="probe:1")
    assert (fact.version, fact.domain, fact.origin.source, fact.origin.door) == (1, "garden", "probe:1", "rest")
    assert fact.expires_at == fact.updated_at + timedelta(hours=1)
    assert mara.facts.get("garden.soil") == fact
    with pytest.raises(memoranda.Conflict) as raised:
        mara.facts.set("garden.soil", 7, expect=4)
    assert (raised.value.expected, raised.value.actual) == (4, 1)
    with pytest.raises(memoranda.Conflict):
        mara.facts.create("garden.soil", 7)
    assert mara.facts.update("garden.soil", lambda soil: {**soil, "lime": True}).value == {"ph": 6.5, "lime": True}
    assert mara.facts.update("count", lambda n: n + 1, default=0).value == 1
    with pytest.raises(memoranda.NotFound):
        mara.facts.update("nothing", lambda n: n)
    assert [one.key for one in mara.facts.list("garden")] == ["garden.soil"]
    assert [one.version for one in mara.facts.history("garden.soil")] == [1, 2]
    assert mara.facts.history("never") == []
    assert mara.facts.delete("garden.soil", expect=2) is True
    assert mara.facts.delete("garden.soil") is False
    assert mara.facts.history("garden.soil")[-1].change == "deleted"


def test_a_key_with_a_slash_or_any_script_is_one_key(mara: Any) -> None:
    keys = sorted(["a/b", "a", "b/history", "50%", "été", "庭 東", "q?x=1&y#z", "a/b.c"])
    for number, key in enumerate(keys):
        mara.facts.set(key, number)
    assert [fact.key for fact in mara.facts.list()] == keys
    assert [mara.facts.value(key) for key in keys] == list(range(len(keys)))
    assert len(mara.facts.history("b/history")) == 1


def test_the_past_can_be_asked_for(mara: Any, served: Any) -> None:
    served.show(datetime(2026, 5, 1, 8, tzinfo=UTC))
    mara.facts.set("bed", "leek")
    served.show(datetime(2026, 5, 2, 8, tzinfo=UTC))
    mara.facts.set("bed", "kale")
    assert mara.facts.value("bed", as_of=datetime(2026, 5, 1, 9, tzinfo=UTC)) == "leek"
    assert mara.facts.value("bed", as_of="2026-05-01T10:00:00+02:00") == "leek"
    assert mara.facts.value("bed", as_of="2026-04-30T00:00:00") is None
    assert mara.facts.value("bed") == "kale"


def test_a_write_with_an_idempotency_key_happens_once(mara: Any) -> None:
    first = mara.facts.set("visits", 1, idempotency_key="visit-1")
    assert mara.facts.set("visits", 1, idempotency_key="visit-1") == first
    with pytest.raises(memoranda.IdempotencyMismatch):
        mara.facts.set("visits", 2, idempotency_key="visit-1")
    assert mara.facts.set("visits", 2).version == 2
    core = mara.memory.update("core", "- One", expected_updated_at=None, idempotency_key="block-1")
    assert mara.memory.update("core", "- One", expected_updated_at=None, idempotency_key="block-1") == core


def test_an_idempotency_key_may_be_in_any_script(mara: Any) -> None:
    first = mara.facts.set("visits", 1, idempotency_key="visita-à-倉庫-🧵")
    assert mara.facts.set("visits", 1, idempotency_key="visita-à-倉庫-🧵") == first
    assert mara.facts.delete("visits", idempotency_key="ç") and mara.facts.delete("visits", idempotency_key="ç")
    for wrong in ("two\nlines", " blank", 7):
        with pytest.raises(memoranda.UsageError, match="the idempotency key cannot be used"):
            mara.facts.set("visits", 1, idempotency_key=wrong)


def test_a_place_below_the_user_is_a_place_of_its_own(mara: Any) -> None:
    mara.facts.set("tone", "dry")
    mara.facts.set("tone", "warm", scope="agent:letters")
    assert mara.facts.value("tone") == "dry"
    assert mara.facts.value("tone", scope="agent:letters") == "warm"
    assert mara.facts.get("tone", scope="agent:letters").scope == "user:mara/agent:letters"
    assert mara.facts.delete("tone", scope="agent:letters") is True
    assert mara.facts.value("tone") == "dry"


def test_what_a_project_shares_is_named_and_granted(connect: Any, served: Any) -> None:
    boss, mara, noor = (
        connect(served.url, served.key(user, tenant="works", role=role))
        for user, role in (("boss", "admin"), ("mara", "member"), ("noor", "reader"))
    )
    where = {"collection": "handbook", "scope": "project:atlas"}
    kept = boss.collections.remember("The cellar key hangs behind the clock", **where)
    boss.facts.set("cellar.key", "clock", scope="project:atlas")
    for refused in (
        lambda: mara.collections.recall("cellar key", **where),
        lambda: mara.facts.get("cellar.key", scope="project:atlas"),
        lambda: mara.facts.list(scope="shared"),
    ):
        with pytest.raises(memoranda.Denied) as raised:
            refused()
        assert raised.value.capability == "memory.read" and "in `" in str(raised.value)
    grant = boss.permissions.grant("*", "memory.read", scope="project:atlas")
    for member in (mara, noor):
        assert member.collections.recall("cellar key", **where).results[0].id == kept.id
        assert member.collections.recall("cellar key", collection="handbook").results == []
        assert [one.scope for one in member.collections.entries(**where)] == ["project:atlas"]
        assert member.facts.value("cellar.key", scope="project:atlas") == "clock"
        assert [one.value for one in member.facts.list(scope="project:atlas")] == ["clock"]
        with pytest.raises(memoranda.Denied):
            member.collections.forget(kept.id, **where)
        with pytest.raises(memoranda.Denied):
            member.facts.set("cellar.key", "lost", scope="project:atlas")
    for wrong in ("user:noor", "Project:atlas", "project:a/../b", "", "everything"):
        with pytest.raises(memoranda.InvalidScope):
            mara.facts.list(scope=wrong)
    boss.permissions.revoke(grant.id)
    with pytest.raises(memoranda.Denied):
        mara.collections.recall("cellar key", **where)
    assert boss.collections.forget(kept.id, **where)


def test_more_than_a_page_is_read_to_its_end(mara: Any) -> None:
    for number in range(205):
        mara.facts.set(f"row.{number:03}", number)
    assert [fact.value for fact in mara.facts.list("row")] == list(range(205))
    assert len(mara.facts.list("row", limit=150)) == 150


def test_what_is_remembered_is_recalled_listed_and_forgotten(mara: Any) -> None:
    kept = mara.collections.remember(
        "The plum tree was pruned in August", collection="log", metadata={"by": "mara"}, namespace="trees"
    )
    assert kept.stored and not kept.duplicate
    again = mara.collections.remember(
        "The plum tree was pruned in August", collection="log", metadata={"by": "mara"}, namespace="trees"
    )
    assert (again.id, again.stored, again.duplicate) == (kept.id, False, True)
    mara.collections.remember("Gutters cleaned", collection="log")
    found = mara.collections.recall("pruned plum", collection="log", filter={"by": "mara"}, limit=3)
    assert [match.content for match in found.results] == ["The plum tree was pruned in August"]
    assert (found.count, found.results[0].metadata, found.results[0].why.mode) == (1, {"by": "mara"}, "hybrid")
    assert [entry.content for entry in mara.collections.entries(collection="log")] == [
        "The plum tree was pruned in August",
        "Gutters cleaned",
    ]
    assert [(one.name, one.entries) for one in mara.collections.list()] == [("log", 2)]
    assert mara.collections.forget(kept.id, collection="log", namespace="trees")
    assert not mara.collections.forget(kept.id, collection="log", namespace="trees")
    assert mara.collections.recall("pruned plum", collection="log", namespace="trees").results == []


def test_definitions_hold_values_to_their_schema(mara: Any) -> None:
    made = mara.definitions.create(
        name="Bed", slug="bed", schema={"type": "object", "properties": {"crop": {"type": "string"}}}, ttl="1d"
    )
    assert (made.slug, made.ttl) == ("bed", 86_400)
    mara.facts.set("bed", {"crop": "kale"})
    with pytest.raises(memoranda.SchemaViolation) as raised:
        mara.facts.set("bed", {"crop": 7})
    assert "crop" in raised.value.path
    with pytest.raises(memoranda.AlreadyExists):
        mara.definitions.create(name="Bed", slug="bed", schema={"type": "object"})
    assert [record.value for record in mara.definitions.records("bed")] == [{"crop": "kale"}]
    assert mara.definitions.update("bed", name="Raised bed", clear_ttl=True).ttl is None
    assert mara.definitions.get(made.id).name == "Raised bed"
    assert [one.slug for one in mara.definitions.list()] == ["bed"]
    mara.definitions.delete("bed")
    with pytest.raises(memoranda.NotFound):
        mara.definitions.get("bed")
    assert mara.facts.get("bed") is None


def test_an_administrator_reads_the_ledger_erases_and_exports(
    mara: Any, noor: Any, served: Any, tmp_path: Path
) -> None:
    mara.facts.set("garden.soil", "clay")
    noor.facts.set("garden.soil", "sand")
    served.settle()
    events = mara.ledger.list()
    assert [event.actor for event in events if event.effect == "set_fact"] == ["user:mara", "user:noor"]
    assert mara.ledger.list(limit=1) == events[:1]
    checked = mara.ledger.verify()
    assert checked.ok and checked.length >= len(events)
    lines = mara.export(tmp_path / "all.jsonl")
    said = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert len([one for one in said if "fact" in one]) == lines
    assert [one["fact"]["key"] for one in said if "fact" in one] == ["garden.soil", "garden.soil"]
    mara.export(tmp_path / "noor.jsonl", scope="user:noor")
    assert "clay" not in (tmp_path / "noor.jsonl").read_text() and "sand" in (tmp_path / "noor.jsonl").read_text()
    receipt = mara.erase(user="noor")
    assert receipt.removed["facts"] == 1
    assert noor.facts.get("garden.soil") is None and noor.facts.history("garden.soil") == []
    assert mara.facts.value("garden.soil") == "clay"


def batched(client: Any, fill: Any, **options: Any) -> Any:
    """Fill a batch of either client, and return what came of its writes."""
    batch = client.batch(**options)
    if isinstance(client, memoranda.Client):
        with batch:
            fill(batch)
    else:

        async def send() -> None:
            async with batch:
                fill(batch)

        client._runner.run(send())
    return batch.results


def test_a_batch_is_written_whole_or_not_at_all(mara: Any) -> None:
    mara.facts.set("tap", "open")

    def fill(batch: Any) -> None:
        batch.set("bed", "dug", ttl="1h", domain="spring")
        batch.set("bed", "raked", scope="agent:hoe", expect=0)
        batch.delete("tap", expect=1)

    bed, agents, gone = batched(mara, fill, idempotency_key="march")
    assert (bed.value, bed.domain, agents.scope, gone) == ("dug", "spring", "user:mara/agent:hoe", True)
    assert batched(mara, fill, idempotency_key="march") == [bed, agents, True]

    def clash(batch: Any) -> None:
        batch.set("path", "gravel")
        batch.set("bed", "flooded", expect=0)

    with pytest.raises(memoranda.Conflict) as met:
        batched(mara, clash)
    assert (met.value.current_version, mara.facts.get("path"), mara.facts.value("bed")) == (1, None, "dug")
    assert batched(mara, lambda batch: None) == []
    with pytest.raises(ZeroDivisionError):
        batched(mara, lambda batch: batch.set("path", "x") or 1 / 0)
    assert mara.facts.get("path") is None
    assert mara.facts.delete("path", expect=0) is False
    with pytest.raises(memoranda.Conflict):
        mara.facts.delete("bed", expect=0)


def test_the_texts_of_a_block_are_told_and_taken_back(mara: Any) -> None:
    core = mara.memory.update("core", "- Grows kale", expected_updated_at=None, source="almanac")
    core = mara.memory.update("core", "- Grows leek", expected_updated_at=core.updated_at)
    assert [(one.value, one.origin.source) for one in mara.memory.history("core")] == [
        ("- Grows kale", "almanac"),
        ("- Grows leek", None),
    ]
    assert mara.memory.history("core", agent_id="agent_beds") == []
    back = mara.memory.undo("core", expected_updated_at=core.updated_at)
    assert back.content == "- Grows kale"
    with pytest.raises(memoranda.Conflict) as met:
        mara.memory.undo("core", expected_updated_at=core.updated_at)
    assert met.value.current_updated_at == back.updated_at


def test_many_things_and_long_texts_are_remembered_and_forgotten_by_key(mara: Any, noor: Any) -> None:
    items = [{"content": "Frost on Monday", "key": "frost"}, {"content": {"mm": 4}, "metadata": {"about": "rain"}}]
    assert [one.stored for one in mara.collections.remember_many(items, collection="weather")] == [True, True]
    for bad in ({"metadata": {}}, "text", {"content": ""}, {"content": "x", "colour": "red"}):
        with pytest.raises(memoranda.UsageError):
            mara.collections.remember_many([{"content": "Hail"}, bad], collection="weather")
    assert mara.collections.remember_many([], collection="weather") == []
    parts = mara.collections.remember_text("Sow in rows.\n\nWater at dusk.", collection="weather", chunk=15)
    assert len(parts) == 2
    assert not noor.collections.forget(key="frost", collection="weather")
    assert mara.collections.forget(key="frost", collection="weather")
    for neither in ({}, {"id": "e1", "key": "frost"}):
        with pytest.raises(memoranda.UsageError):
            mara.collections.forget(collection="weather", **neither)
    contents = [one.content for one in mara.collections.entries(collection="weather")]
    assert contents == [{"mm": 4}, "Sow in rows.", "Water at dusk."]
    assert mara.collections.delete("weather") == 4, "what was forgotten is kept for earlier moments until then"
    with pytest.raises(memoranda.NotFound):
        mara.collections.delete("weather")


def test_an_administrator_makes_keys_grants_and_decides(
    mara: Any, connect: Any, served: Any, tenant: str, tmp_path: Path
) -> None:
    made = mara.keys.create("noor", role="reader", expires="1d", label="shed")
    assert made.token not in repr(made)
    noor = connect(served.url, made.token)
    assert noor.facts.list() == []
    turned = mara.keys.rotate(made.key.id)
    with pytest.raises(memoranda.Unauthenticated):
        noor.facts.list()
    assert mara.keys.revoke(turned.key.id).revoked_at is not None
    assert {one.label for one in mara.keys.list()} == {"", "shed"}
    grant = mara.permissions.grant("agent:hoe", "memory.read", scope="user:noor", path="beds")
    assert (grant.level, grant.scope) == ("allow", "user:noor")
    assert mara.permissions.list() == [grant]
    mara.permissions.revoke(grant.id)
    assert (mara.permissions.list(), mara.approvals.list(status="all")) == ([], [])
    for call in (mara.approvals.get, mara.approvals.approve, mara.approvals.refuse, mara.permissions.revoke):
        with pytest.raises(memoranda.NotFound):
            call("nothing-of-that-id")
    [rule] = mara.guard.set("user:noor", origins=["tool_external"], secrets="refuse")
    assert (rule.scope, rule.secrets, mara.guard.list()) == ("user:noor", "refuse", [rule])
    assert [one.rule for one in mara.guard.check("The key is AKIAIOSFODNN7EXAMPLE.")] == ["aws"]
    mara.guard.reset("user:noor")
    assert (mara.guard.list(), mara.quarantine.list()) == ([], [])
    for call in (mara.quarantine.release, mara.quarantine.discard):
        with pytest.raises(memoranda.NotFound):
            call("nothing-of-that-id")
    member = connect(served.url, served.key("noor", tenant=tenant, role="member"))
    for call in (
        member.keys.list,
        member.guard.list,
        member.quarantine.list,
        member.permissions.list,
        member.approvals.list,
        member.sweep,
    ):
        with pytest.raises(memoranda.Denied):
            call()


def test_an_administrator_anchors_the_ledger_sweeps_and_imports(
    mara: Any, connect: Any, served: Any, tenant: str, tmp_path: Path
) -> None:
    mara.facts.set("garden.soil", "clay")
    served.settle()
    anchor = mara.ledger.anchor()
    mara.facts.set("garden.soil", "loam")
    assert mara.ledger.verify(anchor=anchor).ok
    assert not mara.ledger.verify(anchor=type(anchor)(anchor.length + 100, anchor.head)).ok
    newest = mara.ledger.tail(1)
    assert mara.ledger.list(start=newest[0].position) == newest
    assert mara.export(tmp_path / "all.jsonl") == 1
    other = connect(served.url, served.key("mara", tenant=f"{tenant}-moved"))
    assert other.import_file(tmp_path / "all.jsonl").written == 1
    assert other.import_lines((tmp_path / "all.jsonl").read_bytes().splitlines(), source="again").written == 0
    assert other.facts.get("garden.soil").origin.source == "import:all.jsonl"
    assert other.sweep().facts == 0
    other.facts.set("guest", "Ola", scope="session:tea")
    assert other.end("session:tea")["facts"] == 1
    with pytest.raises(memoranda.ScopeEnded):
        other.facts.set("guest", "Ola", scope="session:tea")
    assert other.sleep.list() == []
    with pytest.raises(memoranda.NotFound):
        other.sleep.undo("talk-1")
    assert other.sleep.forget("talk-1") == []


def test_a_key_that_is_restricted_is_told_so(mara: Any, connect: Any, served: Any, tenant: str) -> None:
    mara.facts.set("garden.soil", "clay")
    key = {"tenant": tenant, "user": "mara", "role": "member", "allow": ["memory.read"]}
    restricted = connect(served.url, served.ask(key=key))
    assert restricted.facts.value("garden.soil") == "clay"
    with pytest.raises(
        memoranda.Denied, match=r"restricted to memory\.read, which does not include memory\.write"
    ) as raised:
        restricted.facts.set("garden.soil", "sand")
    assert raised.value.capability == "memory.write"
    assert raised.value.hint == "Use a key or token whose role and allowed capabilities include this"


def test_what_a_role_may_not_do_is_denied_with_the_capability(
    mara: Any, connect: Any, served: Any, tenant: str
) -> None:
    mara.facts.set("garden.soil", "clay")
    reader = connect(served.url, served.key("mara", tenant=tenant, role="reader"))
    member = connect(served.url, served.key("mara", tenant=tenant, role="member"))
    assert reader.facts.value("garden.soil") == "clay"
    with pytest.raises(memoranda.Denied) as raised:
        reader.facts.set("garden.soil", "sand")
    assert raised.value.capability == "memory.write"
    assert raised.value.hint == "Use a key or token whose role and allowed capabilities include this"
    assert member.facts.set("garden.soil", "sand").version == 2
    for call in (member.ledger.list, lambda: member.erase(user="mara"), lambda: member.export("/dev/null/no")):
        with pytest.raises((memoranda.Denied, NotADirectoryError)):
            call()
    assert mara.ledger.verify().ok


def test_a_wrong_key_is_told_apart_from_a_missing_right(connect: Any, served: Any) -> None:
    for key in (None, "mk_nobody_knows", "Bearer"):
        with pytest.raises(memoranda.Unauthenticated) as raised:
            connect(served.url, key).facts.get("garden.soil")
        assert raised.value.status == 401
    assert connect(served.url, None).health().status == "ok"


def test_an_address_that_is_no_route_is_an_error_and_not_an_empty_memory(
    connect: Any, served: Any, tenant: str
) -> None:
    wrong = connect(f"{served.url}/elsewhere", served.key("mara", tenant=tenant))
    with pytest.raises(memoranda.MemorandaError):
        wrong.facts.get("garden.soil")
    assert connect(served.url, served.key("mara", tenant=tenant)).facts.get("garden.soil") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.memory.get("middle"),
        lambda client: client.memory.get("core", scope="agent"),
        lambda client: client.memory.get("core", scope="user", agent_id="agent_beds"),
        lambda client: client.memory.update("core", "x", expected_updated_at="yesterday"),
        lambda client: client.memory.recall("x", limit=0),
        lambda client: client.memory.recall("x", limit=101),
        lambda client: client.facts.set("blocks.core", "x"),
        lambda client: client.facts.get("a..b"),
        lambda client: client.facts.set("k", 1, expect=-1),
        lambda client: client.facts.get("k", as_of="whenever"),
        lambda client: client.collections.recall("x", collection="c", mode="psychic"),
        lambda client: client.facts.list(scope="user:noor"),
    ],
)
def test_what_the_server_refuses_is_a_usage_error(mara: Any, call: Any) -> None:
    with pytest.raises(memoranda.UsageError):
        call(mara)
    assert mara.facts.set("k", 1).version == 1


def test_g34_what_was_decided_under_an_old_epoch_is_refused(connect: Any, served: Any, tenant: str) -> None:
    mara = connect(served.url, served.key("mara", tenant=tenant, role="member"))
    admin = connect(served.url, served.key("abe", tenant=tenant, role="admin"))
    epoch = mara.permissions.epoch()
    assert epoch == mara.permissions.epoch("user:mara") == admin.permissions.epoch("user:mara")
    decided = mara.at_epoch(epoch)
    assert decided.from_origin("assistant").facts.set("tone", "warm").version == 1
    admin.permissions.grant("agent:mail", "memory.read", scope="user:mara")
    calls: list[Any] = []

    def louder(tone: str) -> str:
        calls.append(tone)
        return f"{tone}!"

    def batch() -> None:
        with decided.batch() as batch:
            batch.set("tone", "cold")

    writes: list[Any] = [batch] if isinstance(decided, memoranda.Client) else []
    for refused in (
        *writes,
        lambda: decided.facts.update("tone", louder),
        lambda: decided.from_origin("assistant").facts.set("tone", "cold"),
        lambda: decided.collections.remember_many([{"content": "Mara sings"}]),
        lambda: decided.memory.update("core", "- Sings", expected_updated_at=None),
        lambda: decided.learn([{"role": "user", "content": "I live in Porto."}]),
    ):
        with pytest.raises(memoranda.StaleEpoch) as stale:
            refused()
        assert (stale.value.expected, stale.value.actual) == (epoch, epoch + 1)
    assert calls == ["warm"]  # what permissions refuse is not tried again
    assert [fact.value for fact in mara.facts.list()] == ["warm"] and mara.collections.list() == []
    assert mara.at_epoch(mara.permissions.epoch()).facts.update("tone", louder).value == "warm!"
    assert admin.permissions.epoch() == epoch + 1
    with pytest.raises(memoranda.InvalidScope):
        mara.permissions.epoch("user:noor")


def test_g46_what_several_writes_are_derived_from_is_said_once(mara: Any) -> None:
    page = mara.from_origin("tool_external").collections.remember("Cone 6 is 1222 degrees")
    own = mara.collections.remember("Mara fires on Friday")
    first, second = mara.collections.remember_many(
        [{"content": "Fire at 1222"}, {"content": "Fire on Friday at 1222", "derived_from": [own.ref]}],
        derived_from=[page.ref],
    )
    lineage = mara.collections.lineage(second.ref)
    assert {one.ref for one in lineage.sources} == {page.ref, own.ref}
    assert mara.collections.lineage(first.ref).trust == lineage.trust == "low"
    (free,) = mara.collections.remember_many([{"content": "Nothing to do with it"}])
    assert mara.collections.lineage(free.ref).trust == "high"
    mara.facts.set("cone", 5)
    changed = mara.facts.update("cone", lambda cone: cone + 1, derived_from=[own.ref])
    assert mara.collections.lineage(f"fact:user:mara#{changed.key}").sources[0].ref == own.ref
    with pytest.raises(memoranda.UsageError, match="not several refs"):
        mara.collections.remember_many([{"content": "Fire"}], derived_from=page.ref)
