"""What an earlier release wrote is read, proved, gone on with and migrated by this one; so is what this one writes.

`tests/fixtures/databases/` holds one database of each release, and the program that writes one.
"""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

import memoranda
from memoranda import sleep
from memoranda.api.memory import Memory
from memoranda.chat import list_conversations, read_conversation
from memoranda.server.auth.keys import find_key
from memoranda.sleep import sleep_jobs, sources_of
from memoranda.store.sqlite.connection import SCHEMA, VERSION
from memoranda.testing import FakeClock

DATABASES = Path(__file__).parents[1] / "fixtures" / "databases"
RELEASES = sorted(file.stem for file in DATABASES.glob("*.db"))
HERE = "this version"
WRITING = runpy.run_path(str(DATABASES / "writing.py"))
LARGEST = 200_000
"""Bytes of a database that is kept."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this version writes."""
    path = tmp_path_factory.mktemp("written") / "new.db"
    WRITING["write"](path)
    return path


@pytest.fixture(params=[*RELEASES, HERE])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a database that may be written to."""
    source = request.getfixturevalue("written") if request.param == HERE else DATABASES / f"{request.param}.db"
    return Path(shutil.copyfile(source, tmp_path / "memory.db"))


@pytest.fixture
def clock() -> FakeClock:
    """A clock on the day after the databases were written."""
    return FakeClock(datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def memory(file: Path, clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(file, clock=clock) as memory:
        yield memory


def test_the_databases_are_there_and_small() -> None:
    assert RELEASES
    assert [release for release in RELEASES if (DATABASES / f"{release}.db").stat().st_size > LARGEST] == []


def test_what_was_kept_is_never_written_again() -> None:
    before = (DATABASES / f"{RELEASES[0]}.db").read_bytes()
    with pytest.raises(SystemExit, match="never made again"):
        WRITING["write"](DATABASES / f"{RELEASES[0]}.db")
    assert (DATABASES / f"{RELEASES[0]}.db").read_bytes() == before


def test_opening_one_brings_it_to_the_schema_of_today(file: Path, clock: FakeClock) -> None:
    def shape(connection: apsw.Connection) -> set[Any]:
        return set(connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))

    memoranda.open(file, clock=clock).close()
    fresh, old = apsw.Connection(":memory:"), apsw.Connection(str(file))
    fresh.execute(SCHEMA)
    assert old.pragma("user_version") == VERSION
    assert shape(old) == shape(fresh) != set()
    old.close()


def test_the_ledger_of_every_tenant_holds_and_everything_agrees_with_it(memory: Memory) -> None:
    assert sorted(memory.tenants()) == ["default", "recollect.system", "vineyard"]
    for tenant in memory.tenants():
        verified = memory.in_tenant(tenant).ledger.verify()
        assert (verified.ok, verified.reason) == (True, "") and verified.length > 0
    assert [finding for finding in memory.inspect() if not finding.ok] == []


def test_a_changed_database_is_found_out(file: Path, clock: FakeClock) -> None:
    connection = apsw.Connection(str(file))
    changed = "UPDATE events SET body = CAST(replace(body, 'ida', 'eve') AS BLOB) WHERE position = 1"
    connection.execute(changed)
    connection.close()
    with memoranda.open(file, clock=clock) as memory:
        assert not memory.ledger.verify().ok


def test_facts_are_read_with_versions_history_origin_and_end(memory: Memory, clock: FakeClock) -> None:
    ida = memory.scope(user="ida")
    language = ida.get("profile.language")
    assert language is not None and (language.value, language.version) == ("de", 2)
    assert [(one.change, one.value) for one in ida.history("profile.language")] == [("set", "cs"), ("set", "de")]
    assert ida.history("profile.language")[0].origin.source == "form:1"
    assert [one.change for one in ida.history("profile.nickname")] == ["set", "deleted"]
    assert memory.scope(project="orchard").value("ladder") == {"rungs": [12, 9.5, None], "where": "barn – 2"}
    assert memory.scope().value("season") == "autumn"
    assert ida.session("visit").value("basket") == ["plum"]
    assert memory.in_tenant("vineyard").scope(user="ida").value("profile.language") == "fr"
    visitor = ida.get("profile.visitor")
    assert visitor is not None and (visitor.value, visitor.domain) == (True, "visits")
    clock.advance(60 * 86_400)
    assert ida.get("profile.visitor") is None
    assert ida.value("profile.language") == "de"


def test_a_request_that_was_made_is_not_made_again(memory: Memory) -> None:
    seen = memory.scope(user="ida", agent="desk")
    assert seen.set("seen", 3, idempotency_key="once").version == 1
    with pytest.raises(memoranda.IdempotencyMismatch):
        seen.set("seen", 4, idempotency_key="once")
    assert seen.set("seen", 4).version == 2


def test_a_definition_still_refuses_and_lists_its_records(memory: Memory) -> None:
    assert [one.slug for one in memory.definitions.list()] == ["variety"]
    assert [one.value for one in memory.definitions.records("variety")] == [{"name": "Winter Banana", "trees": 4}]
    ida = memory.scope(user="ida")
    with pytest.raises(memoranda.SchemaViolation):
        ida.set("variety", {"name": "Boskoop", "trees": -1})
    assert ida.set("variety", {"name": "Boskoop", "trees": 1}).version == 2


def test_entries_are_recalled_on_the_vectors_that_were_kept(memory: Memory) -> None:
    ida = memory.scope(user="ida")
    pears, press = "The pears by the wall ripen in September", "The cider press is back in the barn"
    assert [one.content for one in ida.entries(collection="notes")] == [pears, press]
    assert (
        ida.recall("When are the pears ripe?", collection="notes", filter={"about": "pears"}).results[0].content
        == pears
    )
    assert ida.recall("Where is the cider press?", collection="notes").results[0].content == press
    assert ida.remember("The barn has a new lock", collection="notes").stored
    assert ida.remember(pears, collection="notes", metadata={"about": "pears"}).duplicate
    assert ida.recall("lock of the barn", collection="notes").results[0].content == "The barn has a new lock"


def test_blocks_are_read_and_replaced_by_who_has_seen_them(memory: Memory) -> None:
    blocks = memory.scope(user="ida").blocks
    core = blocks.get("core")
    assert core is not None and core.content == "- Lives in Brno\n- Rents row seven"
    assert blocks.undo("core", expected_updated_at=core.updated_at).content == "- Lives in Brno"
    assert blocks.recall("gate code")[0].content == "- The gate code was changed in May"
    assert {(one.scope, one.block_type) for one in blocks.list(scope="all")} == {
        ("user", "core"),
        ("user", "archival"),
        ("agent", "core"),
    }


def test_a_conversation_is_read_and_what_was_learned_leads_back_to_it(memory: Memory) -> None:
    assert [one.id for one in list_conversations(memory, "wren")] == ["apples"]
    parts = read_conversation(memory, "wren", "apples").parts
    assert [part.text for part in parts if not part.hidden] == [
        "My favourite apple is the Boskoop",
        "Then we keep the early ones for you.",
    ]
    block = memory.scope(user="wren").blocks.get("archival")
    assert block is not None
    assert [one.conversation for one in sources_of(memory, block.content, user="wren")] == ["apples"]
    assert [job.state for job in sleep_jobs(memory, user="wren")] == ["done"]


def test_what_a_chat_taught_is_undone(memory: Memory) -> None:
    [line] = memory.scope(user="wren").blocks.get("archival").content.splitlines()  # type: ignore[union-attr]
    assert [(one.change, one.line) for one in sleep.undo(memory, "apples", user="wren")] == [("removed", line)]
    assert "".join(block.content for block in memory.scope(user="wren").blocks.list()) == ""
    assert [entry.content for entry in memory.scope(user="wren").entries(collection="statements")] == []
    with pytest.raises(memoranda.NotFound):
        sleep.undo(memory, "apples", user="wren")


def test_a_run_is_proved_and_one_that_waits_goes_on(memory: Memory) -> None:
    runs = {run.program: run for run in memory.runs.list()}
    assert {name: run.status for name, run in runs.items()} == {"grafting": "completed", "harvest": "waiting"}
    assert memory.runs.verify(runs["grafting"].id).ok
    assert memoranda.mashin.find(memory, runs["grafting"].id).output == {"said": "the quince is grafted."}
    harvest = memoranda.workflow.find(memory, runs["harvest"].id).deliver({"text": "The fourth"})
    assert (harvest.status, harvest.output) == ("completed", {"row": "The fourth"})
    assert memory.runs.verify(harvest.id).ok


def test_a_session_of_an_agent_is_taken_up(memory: Memory) -> None:
    assert memory.scope(user="ida").value("crates") == 6
    session = memoranda.abl.load(WRITING["DESK"], memory=memory).resume("order")
    assert [turn.input for turn in session.turns()] == [None, "six"]


def test_grants_approvals_and_keys_say_who_may(memory: Memory) -> None:
    picker = memory.acting_as("picker").scope(project="orchard")
    assert picker.value("ladder") is not None
    with pytest.raises(memoranda.Denied):
        memory.acting_as("thief").scope(project="orchard").value("ladder")
    [waiting] = memory.approvals.list()
    memory.approvals.approve(waiting.id)
    assert picker.value("ladder") == "lent out"
    assert find_key(memory, WRITING["ADMIN_KEY"]).role == "admin"
    with pytest.raises(memoranda.Unauthenticated):
        find_key(memory, WRITING["ADMIN_KEY"] + "x")


def test_of_somebody_who_was_erased_nothing_is_in_the_file(file: Path, memory: Memory) -> None:
    assert memory.scope(user="otis").list() == []
    assert memory.scope(user="otis").recall("walnuts", collection="notes").count == 0
    kept = file.read_bytes()
    assert b"Winter Banana" in kept
    assert b"walnuts" not in kept


def test_it_is_exported_and_imported_whole_but_for_runs_sessions_and_jobs(
    memory: Memory, tmp_path: Path, clock: FakeClock
) -> None:
    memory.export(tmp_path / "all.jsonl")
    with memoranda.open(":memory:", clock=clock) as other:
        imported = other.import_file(tmp_path / "all.jsonl")
        assert other.scope(user="ida").value("profile.language") == "de"
        assert list_conversations(other) == list_conversations(memory) != []
        other.export(tmp_path / "again.jsonl")
    before, after = (
        [line["fact"] for line in map(json.loads, (tmp_path / name).read_text().splitlines()) if "fact" in line]
        for name in ("all.jsonl", "again.jsonl")
    )
    kept = [fact for fact in before if fact["key"].partition(".")[0] not in ("abl", "jobs", "runs")]
    assert len(after) == len(kept) > 10
    refused = {(one.scope, one.key) for one in imported.refusals if one.key is not None}
    assert refused == {(fact["scope"], fact["key"]) for fact in before if fact not in kept}
