"""G60: editing the ledger is detected at the first event that no longer fits.

The tampering is done with plain SQL on the file, as an attacker would who has the file but not the program.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memoranda
from memoranda import Policy, Verification
from memoranda.testing import FakeClock

EVENTS = 60

Row = tuple[int, str, bytes]
Rows = dict[int, tuple[str, bytes]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose default tenant has 60 events of many kinds, closed and in one piece."""
    path = tmp_path_factory.mktemp("ledger") / "memory.db"
    clock = FakeClock()
    with memoranda.open(str(path), clock=clock) as memory:
        ada = memory.scope(user="ada")
        memory.definitions.create(name="Profile", slug="profile", schema={"type": "object"})
        memory.permissions.grant("agent:a", "memory.read")
        ada.set("profile", {"name": "Ada"})
        ada.set("short", "lived", ttl="1s")
        ada.delete("profile")
        with pytest.raises(memoranda.Denied):
            memory.acting_as("agent:a").scope(user="ada").set("no", 1)
        clock.advance(2)
        memory.sweep()
        while len(events := memory.ledger.events()) < EVENTS:
            ada.set(f"fact.{len(events)}", {"number": len(events), "text": "Zürich"})
        assert len(events) == EVENTS
    with closing(apsw.Connection(str(path))) as connection:
        connection.wal_checkpoint(None, apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return path


@pytest.fixture
def file(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "memory.db"))


def read_rows(path: Path) -> Rows:
    with closing(apsw.Connection(str(path))) as connection:
        rows = connection.execute("SELECT position, hash, body FROM events WHERE tenant = 'default'")
        return {position: (hash, bytes(body)) for position, hash, body in rows}


def write_rows(path: Path, rows: Rows) -> None:
    """Put other rows in the place of the ledger."""
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.execute("DELETE FROM events WHERE tenant = 'default'")
        connection.executemany(
            "INSERT INTO events (tenant, position, hash, body) VALUES ('default', ?, ?, ?)",
            [(position, hash, body) for position, (hash, body) in rows.items()],
        )


def verify(path: Path, **options: Any) -> Verification:
    with memoranda.open(str(path)) as memory:
        return memory.ledger.verify(**options)


def anchor_of(path: Path) -> memoranda.Anchor:
    with memoranda.open(str(path)) as memory:
        return memory.ledger.anchor()


def rehashed(body: bytes, **changes: Any) -> tuple[str, bytes]:
    """A row that says something else and whose hash fits what it says."""
    said = {**msgspec.json.decode(body), **changes}
    body = msgspec.json.encode(said, order="sorted")
    return "sha256:" + hashlib.sha256(body).hexdigest(), body


def flip_a_byte_of_the_body(rows: Rows) -> int:
    hash, body = rows[20]
    place = body.index(b"Z", body.index(b'"at"')) - 2  # a digit of the second
    rows[20] = hash, body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
    return 20


def make_the_body_unreadable(rows: Rows) -> int:
    hash, body = rows[20]
    rows[20] = hash, body[:-1]
    return 20


def change_the_actor(rows: Rows) -> int:
    hash, body = rows[33]
    rows[33] = hash, body.replace(b'"actor":"owner"', b'"actor":"mallo"')
    return 33


def change_the_hash(rows: Rows) -> int:
    hash, body = rows[41]
    rows[41] = hash[:-1] + ("0" if hash[-1] != "0" else "1"), body
    return 41


def change_the_last_hash(rows: Rows) -> int:
    rows[EVENTS] = "sha256:" + "0" * 64, rows[EVENTS][1]
    return EVENTS


def change_body_and_hash(rows: Rows) -> int:
    rows[25] = rehashed(rows[25][1], actor="mallory")
    return 26  # the event itself fits now; the one after it does not follow it any more


def delete_one(rows: Rows) -> int:
    del rows[30]
    return 30


def delete_the_first(rows: Rows) -> int:
    del rows[1]
    return 1


def delete_one_and_close_the_gap(rows: Rows) -> int:
    later = {position: rows.pop(position) for position in range(30, EVENTS + 1)}
    rows.update({position - 1: row for position, row in later.items() if position > 30})
    return 30


def swap_two(rows: Rows) -> int:
    rows[12], rows[47] = rows[47], rows[12]
    return 12


def renumber_one(rows: Rows) -> int:
    rows[EVENTS + 40] = rows.pop(15)
    return 15


def renumber_the_last(rows: Rows) -> int:
    rows[EVENTS + 40] = rows.pop(EVENTS)
    return EVENTS


def renumber_all(rows: Rows) -> int:
    moved = {position + 5: row for position, row in rows.items()}
    rows.clear()
    rows.update(moved)
    return 1


def insert_a_forged_one(rows: Rows) -> int:
    later = {position: rows.pop(position) for position in range(18, EVENTS + 1)}
    rows[18] = rehashed(rows[17][1], position=18, prev_hash=rows[17][0], actor="mallory")
    rows.update({position + 1: row for position, row in later.items()})
    return 19  # the forged one is made to fit; what comes after it cannot be


def copy_one(rows: Rows) -> int:
    rows[EVENTS + 1] = rows[EVENTS]
    return EVENTS + 1


def move_to_another_tenant(rows: Rows) -> int:
    rows[22] = rehashed(rows[22][1], tenant="other")
    return 22


@pytest.mark.parametrize(
    "tamper",
    [
        flip_a_byte_of_the_body,
        make_the_body_unreadable,
        change_the_actor,
        change_the_hash,
        change_the_last_hash,
        change_body_and_hash,
        delete_one,
        delete_the_first,
        delete_one_and_close_the_gap,
        swap_two,
        renumber_one,
        renumber_the_last,
        renumber_all,
        insert_a_forged_one,
        copy_one,
        move_to_another_tenant,
    ],
)
def test_g60_tampering_is_found_at_the_first_bad_position(tamper: Callable[[Rows], int], file: Path):
    assert verify(file).ok  # so what is found below is the tampering and nothing else
    rows = read_rows(file)
    bad = tamper(rows)
    write_rows(file, rows)
    found = verify(file)
    assert not found.ok
    assert (found.position, found.length) == (bad, bad - 1)
    assert found.reason


def test_g60_the_rows_themselves_can_be_put_back(file: Path):
    """The control of the control: writing the same rows again, as the tests above do, is not what is found."""
    rows = read_rows(file)
    write_rows(file, dict(reversed(rows.items())))
    assert verify(file) == Verification(ok=True, length=EVENTS, head=rows[EVENTS][0])


@pytest.mark.parametrize("left", [0, 1, 30, EVENTS - 1])
def test_g60_a_cut_off_tail_is_found_with_an_anchor(left: int, file: Path):
    anchor = anchor_of(file)
    assert verify(file, anchor=anchor).ok
    write_rows(file, {position: row for position, row in read_rows(file).items() if position <= left})
    # Without an anchor it may or may not be found: the file also says how long the chain is, but not out of reach.
    found = verify(file, anchor=anchor)
    assert not found.ok and found.position == left + 1


def test_g60_a_tail_written_anew_is_found_with_an_anchor(file: Path):
    """An attacker who knows the format can forge events with matching hashes. Only an external anchor shows it."""
    anchor = anchor_of(file)
    rows = read_rows(file)
    for position in range(40, EVENTS + 1):
        rows[position] = rehashed(rows[position][1], prev_hash=rows[position - 1][0], actor="mallory")
    write_rows(file, rows)
    found = verify(file, anchor=anchor)
    assert not found.ok and found.position == EVENTS


def test_g60_an_anchor_still_fits_when_the_chain_has_grown(file: Path):
    anchor = anchor_of(file)
    with memoranda.open(str(file)) as memory:
        memory.scope(user="ada").set("one", "more")
    assert verify(file, anchor=anchor).ok


def test_g60_the_chain_of_one_tenant_cannot_stand_in_for_another(file: Path):
    with memoranda.open(str(file)) as memory:
        memory.scope(tenant="other", user="ada").set("fact", 1)
        assert memory.ledger.verify().ok
    with closing(apsw.Connection(str(file))) as connection, connection:
        connection.execute("DELETE FROM events WHERE tenant = 'default'")
        connection.execute("UPDATE events SET tenant = 'default' WHERE tenant = 'other'")
    found = verify(file)
    assert not found.ok and found.position == 1


def test_g60_every_single_bit_of_a_body_counts(file: Path):
    """What is hashed is what is stored: no other bytes pass for the same event."""
    body = read_rows(file)[EVENTS][1]
    missed: list[bytes] = []
    with memoranda.open(str(file)) as memory, closing(apsw.Connection(str(file))) as connection:

        def write(row: bytes) -> None:
            connection.execute(
                "UPDATE events SET body = ? WHERE tenant = 'default' AND position = ?",
                (row, EVENTS),
            )

        connection.pragma("synchronous", "off")
        for place in range(len(body)):
            for bit in range(8):
                changed = body[:place] + bytes([body[place] ^ 1 << bit]) + body[place + 1 :]
                write(changed)
                if memory.ledger.verify().ok:
                    missed.append(changed)
        write(body)
        assert memory.ledger.verify().ok
    assert missed == [], f"{len(missed)} of {len(body) * 8} flipped bits went unnoticed"


def spaced(body: bytes) -> bytes:
    return b" " + body


def with_an_unknown_name(body: bytes) -> bytes:
    return b'{"amount":"1000000",' + body[1:]


def with_a_name_twice(body: bytes) -> bytes:
    return b'{"actor":"mallory",' + body[1:]


def reordered(body: bytes) -> bytes:
    return msgspec.json.encode(dict(reversed(msgspec.json.decode(body).items())))


def escaped(body: bytes) -> bytes:
    return body.replace(b'"owner"', b'"\\u006fwner"')


@pytest.mark.parametrize("disguise", [spaced, with_an_unknown_name, with_a_name_twice, reordered, escaped])
def test_g60_a_body_written_another_way_is_not_the_same_body(disguise: Callable[[bytes], bytes], file: Path):
    assert verify(file).ok
    rows = read_rows(file)
    hash, body = rows[35]
    rows[35] = hash, disguise(body)
    assert rows[35][1] != body
    write_rows(file, rows)
    found = verify(file)
    assert not found.ok and found.position == 35


@pytest.fixture(scope="module")
def scratch(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(original, tmp_path_factory.mktemp("scratch") / "memory.db"))


@pytest.mark.slow
@given(data=st.data())
def test_g60_any_single_edit_of_any_row_is_found(data: st.DataObject, original: Path, scratch: Path):
    """Change, drop, move or insert one row, at random: found, but for a cut-off tail, which needs an anchor."""
    rows = read_rows(original)
    anchor = memoranda.Anchor(EVENTS, rows[EVENTS][0])
    position = data.draw(st.integers(1, EVENTS), "position")
    hash, body = rows[position]
    edit = data.draw(st.sampled_from(["body", "hash", "delete", "insert", "move"]), "edit")
    if edit == "body":
        place = data.draw(st.integers(0, len(body) - 1), "place")
        new = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from([b" ", b"0", b'"'])), "new")
        changed = body[:place] + new + body[place + data.draw(st.integers(0, 3), "over") :]
        assume(changed != body)
        rows[position] = hash, changed
    elif edit == "hash":
        new_hash = data.draw(st.one_of(st.text(max_size=10), st.sampled_from([row[0] for row in rows.values()])), "new")
        assume(new_hash != hash)
        rows[position] = new_hash, body
    elif edit == "delete":
        del rows[position]
    elif edit == "insert":
        donor = rows[data.draw(st.integers(1, EVENTS), "donor")]
        rows[data.draw(st.sampled_from([EVENTS + 1, EVENTS + 2, 1000]), "where")] = donor
    else:
        target = data.draw(st.integers(-10, EVENTS + 10), "target")
        assume(target != position)
        rows[target] = rows.pop(position)
    write_rows(scratch, rows)
    try:
        found = verify(scratch)
        if edit == "delete" and position == EVENTS:
            found = verify(scratch, anchor=anchor)
        assert not found.ok and found.position is not None
    finally:
        write_rows(scratch, read_rows(original))
        assert verify(scratch).ok


APPENDER = """
import sys, memoranda
with memoranda.open(sys.argv[1], busy_timeout=60) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[3])):
        memory.scope(user=sys.argv[2]).set("count", number)
"""


def assert_one_chain(path: str, users: list[str], each: int) -> None:
    with memoranda.open(path) as memory:
        events = memory.ledger.events()
        assert memory.ledger.verify().ok
        assert [finding for finding in memory.inspect() if not finding.ok] == []
    assert [event.position for event in events] == list(range(1, len(users) * each + 1))
    assert len({event.prev_hash for event in events}) == len(events)  # no event has two successors: no fork
    for user in users:
        own = [event.version for event in events if event.scope == f"user:{user}"]
        assert own == list(range(1, each + 1))


def test_g60_eight_threads_append_one_chain(path: str):
    users, each = [f"thread{number}" for number in range(8)], 25
    with memoranda.open(path) as memory:

        def write(user: str) -> None:
            for number in range(each):
                memory.scope(user=user).set("count", number)

        threads = [threading.Thread(target=write, args=(user,)) for user in users]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert_one_chain(path, users, each)


def test_g60_three_processes_append_one_chain(path: str, run_child: Callable[..., Any]):
    users, each = [f"process{number}" for number in range(3)], 40
    children = [run_child(APPENDER, path, user, each) for user in users]
    children[0].run_together(children)
    assert_one_chain(path, users, each)


def test_g60_expiry_erasure_and_denial_are_events(path: str):
    clock = FakeClock()
    with memoranda.open(path, clock=clock) as memory:
        ada = memory.scope(user="ada")
        ada.set("kept", 1)
        short = ada.set("short", 1, ttl="1s")
        noticed = ada.set("noticed", 1, ttl="1s")
        with pytest.raises(memoranda.Denied):
            memory.acting_as("agent:a", policy=Policy()).scope(user="ada").set("kept", 2)
        clock.advance(1)
        ada.set("noticed", 2)  # an expiry that a write comes upon is an event as well
        memory.sweep()
        receipt = memory.erase(user="ada")
        seen = [(event.effect, event.decision, event.key, event.resource) for event in memory.ledger.events()]
    assert seen[:3] == [("set_fact", "allow", key, seen[at][3]) for at, key in enumerate(("kept", "short", "noticed"))]
    assert ("set_fact", "deny", "kept", None) in seen
    assert ("expire_fact", "allow", "noticed", noticed.id) in seen
    assert ("expire_fact", "allow", "short", short.id) in seen
    assert ("expire_fact", "allow", "kept") not in {each[:3] for each in seen}
    assert seen[-1] == ("erase", "allow", None, receipt.id)
    assert receipt.position == len(seen)
