"""The events of a run: their kinds, that they form one chain, and that edits are detected."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import memoranda
from memoranda import SchemaViolation
from memoranda.api.memory import Memory
from memoranda.errors import NotFound, Unavailable
from memoranda.governance.runs import RecordRun
from memoranda.mashin import Machine
from memoranda.model.event import GENESIS

Load = Callable[..., Machine]

SEAL = """
accepts
  jar as text, is required
ensures
  allowed to memory
implements
  compute label
    { text: "Jar of " + input.jar }
  remember keep
    content: label.text
    collection: "cellar"
    metadata: { sealed_at: now() }
  recall find
    query: input.jar
    collection: "cellar"
  compute done
    { jars: find.count }
"""
EVENTS = [
    ("exec_start", None),
    ("step_record", "label"),
    ("policy_decision", "keep"),
    ("step_record", "keep"),
    ("policy_decision", "find"),
    ("step_record", "find"),
    ("step_record", "done"),
    ("exec_end", None),
]


def test_events_are_contiguous_and_one_chain(load: Load, memory: Memory) -> None:
    run = load(SEAL).run({"jar": "plums"}).check()
    events = run.events
    assert [(event.kind, event.step) for event in events] == EVENTS
    assert [event.index for event in events] == list(range(1, 9))
    assert events[0].prev_hash == GENESIS
    assert [event.prev_hash for event in events[1:]] == [event.hash for event in events[:-1]]
    assert len({event.hash for event in events}) == 8
    assert {event.run for event in events} == {run.id}
    seen = run.verify()
    assert (seen.ok, seen.length, seen.head, seen.index) == (True, 8, events[-1].hash, None)
    assert memory.ledger.verify().ok


def test_each_event_of_a_run_is_an_event_of_the_tenants_ledger(load: Load, memory: Memory) -> None:
    run = load(SEAL).run({"jar": "plums"}).check()
    ledger = {event.position: event for event in memory.ledger.events()}
    for event in run.events:
        assert ledger[event.position].hash == event.hash
        assert ledger[event.position].effect == event.kind
        assert ledger[event.position].resource == run.id
    # The effect of a step lies between its permission and its record.
    [written] = [one.position for one in ledger.values() if one.effect == "remember"]
    permitted, recorded = run.events[2].position, run.events[3].position
    assert permitted < written < recorded


def test_events_name_the_mode_the_type_and_the_capability(load: Load) -> None:
    for mode in ("live", "test"):
        run = load(SEAL).run({"jar": "plums"}, mode=mode).check()
        assert {event.detail["mode"] for event in run.events} == {mode}
        types = {event.step: event.detail["type"] for event in run.events if event.kind == "step_record"}
        assert types == {"label": "compute", "keep": "memory", "find": "memory", "done": "compute"}
        needs = {event.step: event.detail["capability"] for event in run.events if event.kind == "policy_decision"}
        assert needs == {"keep": "memory.write", "find": "memory.read"}


def test_events_hold_no_content_but_its_hash(path: str, write: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(write(SEAL), memory=memory)
        one, two = machine.run({"jar": "quinces"}).check(), machine.run({"jar": "medlars"}).check()
        hashes = [{event.step: event.content for event in run.events} for run in (one, two)]
    with closing(apsw.Connection(path)) as connection:
        bodies = [bytes(body) for (body,) in connection.execute("SELECT body FROM events")]
        entries = [bytes(row[0]) for row in connection.execute("SELECT payload FROM facts") if row[0]]
    assert any(one.id.encode() in body for body in bodies)
    assert not [body for body in bodies if b"quinces" in body or b"medlars" in body]
    assert [row for row in entries if b"quinces" in row]
    assert hashes[0]["label"] is not None
    assert hashes[0]["label"] != hashes[1]["label"]


def test_refused_input_leaves_no_event(load: Load, memory: Memory) -> None:
    machine = load(SEAL)
    before = len(memory.ledger.events())
    with pytest.raises(SchemaViolation, match="jar"):
        machine.run({})
    with pytest.raises(SchemaViolation):
        machine.run({"jar": "plums", "lid": "red"})
    assert len(memory.ledger.events()) == before
    assert memory.runs.list() == []
    machine.run({"jar": "plums"}).check()
    assert len(memory.ledger.events()) > before
    assert len(memory.runs.list()) == 1


def test_a_run_that_nobody_began_is_not_found(load: Load, memory: Memory) -> None:
    machine = load(SEAL)
    run = machine.run({"jar": "plums"})
    for look in (memory.runs.get, memory.runs.events, memory.runs.verify, machine.find):
        for nothing in ("run_none", "", "a/b", "run:x", "x" * 1000):
            with pytest.raises(NotFound):
                look(nothing)
        assert look(run.id) is not None


def test_runs_are_listed_newest_first_by_machine_and_status(load: Load, memory: Memory, clock: Any) -> None:
    sealing, other = load(SEAL), load("implements\n  compute x\n    null.y\n", name="other")
    first = sealing.run({"jar": "plums"})
    clock.advance(60)
    second = other.run()
    clock.advance(60)
    third = sealing.run({"jar": "figs"})
    assert [one.id for one in memory.runs.list()] == [third.id, second.id, first.id]
    assert [one.id for one in memory.runs.list(program="desk")] == [third.id, first.id]
    assert [one.id for one in memory.runs.list(status="failed")] == [second.id]
    assert [one.id for one in memory.runs.list(limit=1)] == [third.id]
    assert memory.runs.get(second.id).error is not None


# tampering


@pytest.fixture
def sealed(path: str, write: Any) -> tuple[str, str]:
    """A file with a run between two others, closed and in one piece; the file and the run's id."""
    with memoranda.open(path, embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(write(SEAL), memory=memory)
        ids = [machine.run({"jar": jar}).check().id for jar in ("plums", "figs", "pears")]
        assert all(memory.runs.verify(id).ok for id in ids)
    with closing(apsw.Connection(path)) as connection:
        connection.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return path, ids[1]


Row = tuple[int, str, bytes]


def rows_of(path: str, run: str) -> list[Row]:
    with closing(apsw.Connection(path)) as connection:
        found = connection.execute("SELECT position, hash, body FROM events WHERE run = ? ORDER BY position", (run,))
        return [(position, hash, bytes(body)) for position, hash, body in found]


def put(path: str, position: int, hash: str, body: bytes) -> None:
    with closing(apsw.Connection(path)) as connection:
        connection.execute("UPDATE events SET hash = ?, body = ? WHERE position = ?", (hash, body, position))


def drop(path: str, position: int) -> None:
    with closing(apsw.Connection(path)) as connection:
        connection.execute("DELETE FROM events WHERE position = ?", (position,))


def verify(path: str, run: str) -> Any:
    with memoranda.open(path, embedder="hashing:64") as memory:
        return memory.runs.verify(run)


def rehashed(body: bytes, **changes: Any) -> tuple[str, bytes]:
    """A row that says something else and whose hash fits what it says."""
    said = {**msgspec.json.decode(body), **changes}
    written = msgspec.json.encode(said, order="sorted")
    return "sha256:" + hashlib.sha256(written).hexdigest(), written


every_event = pytest.mark.parametrize("index", range(1, len(EVENTS) + 1))


@every_event
def test_an_edited_event_is_found_and_named(sealed: tuple[str, str], index: int) -> None:
    path, run = sealed
    assert verify(path, run).ok
    position, hash, body = rows_of(path, run)[index - 1]
    put(path, position, hash, body.replace(b'"machine:desk"', b'"machine:mallo"'))
    seen = verify(path, run)
    assert (seen.ok, seen.index) == (False, index)
    assert "hash" in seen.reason


@every_event
def test_an_edited_event_with_a_hash_of_its_own_is_found_and_named(sealed: tuple[str, str], index: int) -> None:
    path, run = sealed
    assert verify(path, run).ok
    position, _, body = rows_of(path, run)[index - 1]
    put(path, position, *rehashed(body, actor="machine:mallo"))
    seen = verify(path, run)
    assert not seen.ok
    # The event itself fits its hash now, so the next one no longer fits; of the last, the run's record.
    assert seen.index == min(index + 1, len(EVENTS))


@every_event
def test_a_dropped_event_is_found_and_named(sealed: tuple[str, str], index: int) -> None:
    path, run = sealed
    assert verify(path, run).ok
    drop(path, rows_of(path, run)[index - 1][0])
    seen = verify(path, run)
    assert (seen.ok, seen.index) == (False, index)


@pytest.mark.parametrize("index", range(1, len(EVENTS)))
def test_events_that_change_places_are_found_and_named(sealed: tuple[str, str], index: int) -> None:
    path, run = sealed
    assert verify(path, run).ok
    (one, hash, body), (two, other_hash, other_body) = rows_of(path, run)[index - 1 : index + 1]
    put(path, one, other_hash, other_body)
    put(path, two, hash, body)
    seen = verify(path, run)
    assert (seen.ok, seen.index) == (False, index)


@pytest.mark.parametrize("index", range(1, len(EVENTS)))
def test_a_swap_that_also_forges_positions_is_found_and_named(sealed: tuple[str, str], index: int) -> None:
    path, run = sealed
    assert verify(path, run).ok
    (one, _, first), (two, _, second) = rows_of(path, run)[index - 1 : index + 1]
    put(path, one, *rehashed(second, position=one))
    put(path, two, *rehashed(first, position=two))
    seen = verify(path, run)
    assert (seen.ok, seen.index) == (False, index)


def test_an_event_of_another_run_does_not_fit_in(sealed: tuple[str, str]) -> None:
    path, run = sealed
    with memoranda.open(path, embedder="hashing:64") as memory:
        [other] = [one.id for one in memory.runs.list() if one.id != run][:1]
    position, _, _ = rows_of(path, run)[3]
    _, hash, body = rows_of(path, other)[3]
    put(path, position, hash, body)
    assert (verify(path, run).ok, verify(path, run).index) == (False, 4)
    assert verify(path, other).ok


def test_an_event_that_was_added_is_found(sealed: tuple[str, str]) -> None:
    path, run = sealed
    rows = rows_of(path, run)
    _, hash, body = rows[-1]
    detail = {**msgspec.json.decode(body)["detail"], "previous": hash}
    with closing(apsw.Connection(path)) as connection:
        [(last,)] = connection.execute("SELECT MAX(position) FROM events")
        forged, written = rehashed(body, position=last + 1, version=len(rows) + 1, detail=detail)
        connection.execute(
            "INSERT INTO events (tenant, position, hash, body, run) VALUES ('default', ?, ?, ?, ?)",
            (last + 1, forged, written, run),
        )
    seen = verify(path, run)
    assert (seen.ok, seen.index) == (False, len(rows) + 1)


def test_a_whole_chain_written_anew_is_found_by_the_tenants_ledger(sealed: tuple[str, str]) -> None:
    path, run = sealed
    head = GENESIS
    for position, _, body in rows_of(path, run):
        detail = {**msgspec.json.decode(body)["detail"], "previous": head}
        head, written = rehashed(body, actor="machine:mallo", detail=detail)
        put(path, position, head, written)
    with memoranda.open(path, embedder="hashing:64") as memory:
        assert not memory.runs.verify(run).ok  # the run's record still names the head
        assert not memory.ledger.verify().ok
        assert memory.runs.verify(memory.runs.list()[0].id).ok


# many at once


def test_runs_in_threads_have_chains_of_their_own(path: str, write: Any) -> None:
    with memoranda.open(path, embedder="hashing:64", durability="normal") as memory:
        machine = memoranda.mashin.load(write(SEAL), memory=memory)
        runs: list[Any] = []
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                runs.extend(machine.run({"jar": f"plums {number} {round}"}).check() for round in range(5))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len({run.id for run in runs}) == 20
        for run in runs:
            assert run.verify().ok
            assert [(event.kind, event.step) for event in run.events] == EVENTS
        assert memory.ledger.verify().ok
        assert len(memory.scope().entries(collection="cellar")) == 20


# erasing


def test_erasing_a_user_takes_the_records_of_their_runs(path: str, write: Any) -> None:
    with memoranda.open(path, embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(write(SEAL), memory=memory)
        ada, bob = machine.run({"jar": "quinces"}, user="ada"), machine.run({"jar": "medlars"}, user="bob")
        assert memory.runs.get(ada.id).status == "completed"
        memory.erase(user="ada")
        with pytest.raises(NotFound):
            memory.runs.get(ada.id)
        with pytest.raises(NotFound):
            machine.find(ada.id)
        assert [one.id for one in memory.runs.list()] == [bob.id]
        assert machine.find(bob.id).replay().same
        # That something happened stays on record; what it was about does not.
        assert memory.runs.verify(ada.id).ok
        assert memory.ledger.verify().ok
        memory.scrub()
    file = Path(path)
    written = b"".join(one.read_bytes() for one in file.parent.glob(file.name + "*"))
    assert b"quinces" not in written
    assert b"medlars" in written


def test_erasing_a_user_ends_what_still_waits_for_them(path: str, write: Any) -> None:
    text = SEAL.replace("allowed to memory", "allowed to memory.read\n  requires approval for memory.write")
    with memoranda.open(path, embedder="hashing:64") as memory:
        machine = memoranda.mashin.load(write(text), memory=memory)
        run, other = machine.run({"jar": "quinces"}, user="ada"), machine.run({"jar": "medlars"}, user="bob")
        assert len(memory.approvals.list()) == 2
        memory.erase(user="ada")
        assert [one.scope for one in memory.approvals.list()] == [f"run:{other.id}"]
        with pytest.raises(memoranda.MemorandaError):
            run.approve()
        assert other.approve().check().status == "completed"
        memory.scrub()
    file = Path(path)
    written = b"".join(one.read_bytes() for one in file.parent.glob(file.name + "*"))
    assert b"quinces" not in written
    assert b"medlars" in written


def test_what_a_run_began_with_is_kept_for_a_time_and_its_events_for_ever(
    load: Load, memory: Memory, clock: Any
) -> None:
    machine = load(SEAL)
    run = machine.run({"jar": "plums"}).check()
    clock.advance(29 * 86400)
    assert machine.find(run.id).replay().same
    clock.advance(2 * 86400)
    memory.sweep()
    with pytest.raises(NotFound):
        machine.find(run.id)
    assert len(memory.runs.events(run.id)) == len(EVENTS)
    assert memory.runs.verify(run.id).ok


# a ledger that cannot be written


@pytest.mark.parametrize("fails_at", range(1, 6))
def test_what_cannot_be_recorded_does_not_happen(
    memory: Memory, load: Load, scripted: Any, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    text = """
    ensures
      allowed to memory, llm_call
    implements
      remember first
        content: "one"
        collection: "cellar"
      ask second, using: "openai:gpt"
        with task "two"
      remember third
        content: "three"
        collection: "cellar"
      on failure
        compute hidden
          { ok: true }
    """
    gate: Any = memory.root
    perform = gate.perform
    recorded: list[int] = []
    model = scripted("said", again=True)

    def failing(effect: Any, caller: Any) -> Any:
        if isinstance(effect, RecordRun):
            recorded.append(len(recorded) + 1)
            if recorded[-1] == fails_at:
                raise Unavailable("the disk is gone", hint="Find it")
        return perform(effect, caller)

    with monkeypatch.context() as patched:
        patched.setattr(gate, "perform", failing)
        if fails_at <= 4:
            with pytest.raises(Unavailable, match="disk"):
                load(text, model=model).run()
        else:
            load(text, model=model).run().check()
    held = {one.name for one in memory.collections.list()}
    kept = [one.content for one in memory.scope().entries(collection="cellar")] if held else []
    # Each effect is written down first: one that was not written down did not happen.
    assert (len(kept), len(model.asked)) == {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (2, 1), 5: (2, 1)}[fails_at]
    for run in memory.runs.list():
        assert memory.runs.verify(run.id).ok
    assert memory.ledger.verify().ok
