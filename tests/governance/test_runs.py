"""Tampering with the events of a run is detected, at the right event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import memoranda
from memoranda.engine.facts import SetFact
from memoranda.engine.sessions import StartSession
from memoranda.governance.runs import RecordRun
from memoranda.model.event import GENESIS, Recorded, RunNote
from memoranda.model.names import RUN_RECORD
from memoranda.model.scope import Scope
from memoranda.model.value import canonical, decode, encode, hash_body

NOTES = (
    RunNote(kind="exec_start", payload=b'{"tea":"green"}'),
    RunNote(kind="policy_decision", step="boil", detail={"capability": "http"}),
    RunNote(kind="step_record", step="boil", payload=b'{"degrees":80}'),
    RunNote(kind="step_record", step="pour"),
    RunNote(kind="exec_end"),
)


def record(
    memory: memoranda.Memory, run: str, *, status: str = "completed", notes: tuple[RunNote, ...] = NOTES
) -> None:
    """Record a run, one note at a time, with other events between them."""
    scope = Scope.of(run=run)
    memory.perform(StartSession(scope=scope, owner=Scope.of(user="ada")))
    stands = Recorded(index=0, head=GENESIS, position=0)
    for number, note in enumerate(notes, start=1):
        memory.scope(user="ada").set("between", number)
        stated = {
            "language": "mashin",
            "program": "samovar",
            "digest": "d",
            "status": status,
            "started_at": memory.clock.now(),
        }
        last = SetFact(scope=scope, key=RUN_RECORD, payload=msgspec.Raw(encode(stated)))
        effect = RecordRun(
            scope=scope,
            run=run,
            index=stands.index,
            previous=stands.head,
            notes=(note,),
            writes=(last,) if number == len(notes) else (),
        )
        stands = memory.perform(effect)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with two runs."""
    path = tmp_path / "m.db"
    with memoranda.open(path) as memory:
        record(memory, "r1")
        record(memory, "r2")
        assert memory.runs.verify("r1").ok and memory.runs.verify("r2").ok
    return path


@pytest.fixture
def edit(file: Path) -> Iterator[Callable[..., None]]:
    """Return a function that runs a statement directly on the database file."""
    connection = apsw.Connection(str(file))

    def run(sql: str, *values: Any) -> None:
        connection.execute(sql, values)
        assert connection.changes() > 0

    yield run
    connection.close()


def verify(file: Path, run: str = "r1") -> memoranda.RunVerification:
    with memoranda.open(file) as memory:
        return memory.runs.verify(run)


def position(file: Path, index: int) -> int:
    with memoranda.open(file) as memory:
        return memory.runs.events("r1")[index - 1].position


def body(file: Path, index: int) -> dict[str, Any]:
    connection = apsw.Connection(str(file))
    text = connection.execute("SELECT body FROM events WHERE position = ?", (position(file, index),)).get
    connection.close()
    return decode(text)


def rewrite(file: Path, edit: Callable[..., None], index: int, **changes: Any) -> None:
    """Let an event say something else, and give it the hash of that."""
    text = canonical({**body(file, index), **changes})
    where = position(file, index)
    edit("UPDATE events SET body = ?, hash = ? WHERE position = ?", text, hash_body(text), where)


@pytest.mark.parametrize("index", [1, 3, 5])
def test_an_edited_event_is_found_at_its_index(file: Path, edit: Callable[..., None], index: int) -> None:
    text = canonical({**body(file, index), "actor": "nobody"})
    edit("UPDATE events SET body = ? WHERE position = ?", text, position(file, index))
    found = verify(file)
    assert (found.ok, found.index, found.length) == (False, index, index - 1)
    assert "hash" in found.reason
    assert verify(file, "r2").ok


@pytest.mark.parametrize(("index", "caught"), [(1, 2), (3, 4), (5, 5)])
def test_an_event_that_was_edited_and_hashed_again_is_found_by_the_next_one(
    file: Path, edit: Callable[..., None], index: int, caught: int
) -> None:
    rewrite(file, edit, index, actor="nobody")
    found = verify(file)
    assert (found.ok, found.index) == (False, caught)
    with memoranda.open(file) as memory:
        assert not memory.ledger.verify().ok


@pytest.mark.parametrize("index", [1, 2, 4])
@pytest.mark.parametrize(
    "sql", ["DELETE FROM events WHERE position = ?", "UPDATE events SET run = NULL WHERE position = ?"]
)
def test_an_event_that_is_missing_is_named(file: Path, edit: Callable[..., None], sql: str, index: int) -> None:
    edit(sql, position(file, index))
    found = verify(file)
    assert (found.ok, found.index) == (False, index)
    assert f"event {index + 1}" in found.reason


@pytest.mark.parametrize(
    "sql", ["DELETE FROM events WHERE position = ?", "UPDATE events SET run = NULL WHERE position = ?"]
)
def test_a_tail_that_was_cut_off_is_missed_by_the_record(file: Path, edit: Callable[..., None], sql: str) -> None:
    edit(sql, position(file, 5))
    found = verify(file)
    assert (found.ok, found.index, found.length) == (False, 5, 4)
    assert "5 events" in found.reason


def test_events_that_changed_places_are_found(file: Path, edit: Callable[..., None]) -> None:
    second, third = position(file, 2), position(file, 3)
    edit("UPDATE events SET position = -1 WHERE position = ?", second)
    edit("UPDATE events SET position = ? WHERE position = ?", second, third)
    edit("UPDATE events SET position = ? WHERE position = -1", third)
    found = verify(file)
    assert (found.ok, found.index) == (False, 2)


def test_an_event_of_another_run_does_not_pass(file: Path, edit: Callable[..., None]) -> None:
    with memoranda.open(file) as memory:
        stranger = memory.runs.events("r2")[1].position
    edit("UPDATE events SET run = 'r1' WHERE position = ?", stranger)
    found = verify(file)
    assert (found.ok, found.index) == (False, 6)
    assert "not an event of this run" in found.reason


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[]", b'{"tenant":1}'])
def test_an_event_that_cannot_be_read_is_found(file: Path, edit: Callable[..., None], text: bytes) -> None:
    edit("UPDATE events SET body = ?, hash = ? WHERE position = ?", text, hash_body(text), position(file, 3))
    found = verify(file)
    assert (found.ok, found.index) == (False, 3)
    assert "cannot be read" in found.reason


@pytest.mark.parametrize("value", ["[]", '{"machine":"samovar"}', '{"machine":"m","digest":"","status":"odd"}'])
def test_a_record_that_cannot_be_read_is_said_to_be_damaged(file: Path, edit: Callable[..., None], value: str) -> None:
    edit("UPDATE facts SET payload = ? WHERE key = 'runs.run' AND scope = 'run:r1'", value.encode())
    found = verify(file)
    assert (found.ok, found.index) == (False, None)
    assert "record of run `r1`" in found.reason
    with memoranda.open(file) as memory:
        assert memory.runs.get("r2").status == "completed"
        for ask in (lambda: memory.runs.get("r1"), memory.runs.list):
            with pytest.raises(memoranda.Corrupt, match="record of run `r1`"):
                ask()
        assert {finding.what for finding in memory.inspect() if not finding.ok} == {
            "facts of default agree with the ledger",
            "runs of default agree with the ledger",
        }


def test_a_record_that_says_more_than_the_chain_holds_is_found(file: Path, edit: Callable[..., None]) -> None:
    with memoranda.open(file) as memory:
        head = memory.runs.get("r1").head
    edit(
        "UPDATE facts SET payload = CAST(replace(CAST(payload AS TEXT), ?, ?) AS BLOB) WHERE scope = 'run:r1'",
        head,
        GENESIS,
    )
    found = verify(file)
    assert (found.ok, found.index) == (False, 5)
    assert "names" in found.reason


def test_a_run_that_still_runs_is_whole_without_its_end(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "m.db") as memory:
        record(memory, "r1", status="running", notes=NOTES[:3])
        assert memory.runs.verify("r1").ok
        record(memory, "r2", status="completed", notes=NOTES[:3])
        assert not memory.runs.verify("r2").ok


def test_a_long_run_is_read_page_by_page(tmp_path: Path) -> None:
    with memoranda.open(tmp_path / "m.db", durability="normal") as memory:
        steps = tuple(RunNote(kind="step_record", step=f"s{number}") for number in range(700))
        scope = Scope.of(run="long")
        effect = RecordRun(scope=scope, run="long", index=0, previous=GENESIS, notes=(NOTES[0], *steps))
        recorded: Recorded = memory.perform(effect)
        assert recorded.index == 701
        events = memory.runs.events("long")
        assert [event.index for event in events] == list(range(1, 702))
        assert [event.step for event in events[1:]] == [note.step for note in steps]
        found = memory.runs.verify("long")
        assert (found.ok, found.length, found.head) == (True, 701, recorded.head)
