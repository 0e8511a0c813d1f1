"""After an erasure and a scrub, what was removed is in no byte of the files."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memoranda.model.effect import Approval
from memoranda.model.event import GENESIS, Event, event_body
from memoranda.model.fact import Fact, Revision
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.store.base import ContentKey, Replay, Session
from memoranda.store.sqlite import SqliteStore
from memoranda.testing.conformance.base import present

ADA = Scope.of(user="ada-7f3d")
BOB = Scope.of(user="bob")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOKEN = "tok-5b1e9c-en"

# Closing a file drops this process's locks on it, and with them SQLite's: the bytes are read by another process.
SEARCH = """
import pathlib, sys
folder, *tokens = sys.argv[1:]
files = [file for file in pathlib.Path(folder).iterdir() if not file.name.endswith("-shm")]
assert any(file.name == "m.db" for file in files)
print(sorted({token for token in tokens for file in files if token.encode() in file.read_bytes()}))
"""


def found(folder: Path, *tokens: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SEARCH, str(folder), *tokens], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def remember(rows, scope: Scope, key: str, text: str) -> None:
    fact = Fact(id="f", scope=scope, key=key, value=None, version=1, created_at=NOON, updated_at=NOON)
    revision = Revision(fact_id="f", scope=scope, key=key, version=1, change="set", at=NOON, created_at=NOON)
    rows.put_fact(fact, f'"{text}"'.encode())
    rows.add_revision(revision, f'"{text}"'.encode())


def fill(rows) -> None:
    for number in range(50):
        remember(rows, ADA, f"k{number}", TOKEN + "x" * 300)
        remember(rows, BOB, f"k{number}", "bobs-own" + "y" * 300)
    remember(rows, ADA, "long", TOKEN + "x" * 20_000)
    session = Scope.of(session="s1")
    rows.put(Session(scope=session, owner=ADA, started_at=NOON))
    remember(rows, session, "in-session", TOKEN)
    rows.put(Replay(scope=ADA, key=TOKEN, request="r", results=(), at=NOON))
    rows.put(ContentKey("default", ADA.path, b"secret-9e77"))
    rows.put(
        Approval(
            id="a",
            tenant="default",
            scope=ADA.path,
            actor=TOKEN,
            door="d",
            capability="c",
            effect=None,
            requested_at=NOON,
        )
    )
    rejection = StoredRejection(id="r", scope=ADA, at=NOON, actor=TOKEN, salt=b"salt-5d01", digests=("d",))
    rows.put(rejection)
    event = Event(
        tenant="default",
        position=1,
        at=NOON,
        actor="owner",
        door="python",
        effect="set_fact",
        decision="allow",
        scope=ADA.path,
        key="k",
        resource=None,
        version=1,
        content=None,
        epoch=0,
        detail={},
        prev_hash=GENESIS,
        hash="h",
        text=TOKEN,
    )
    rows.append_events([(event, event_body(event))])


@pytest.mark.parametrize("checkpoint_first", [False, True])
def test_erased_text_leaves_the_bytes(tmp_path: Path, checkpoint_first: bool):
    with SqliteStore(str(tmp_path / "m.db")) as store:
        store.transact(fill)
        for _ in range(5):
            # readers have been in use, and are idle now
            assert store.read(lambda rows: rows.fact(ADA, "k1"), snapshot=False) is not None
        if checkpoint_first:
            assert store.scrub()
        assert found(tmp_path, TOKEN, "bobs-own", "secret-9e77") == str(["bobs-own", "secret-9e77", TOKEN])
        owned = [session.scope for session in store.read(lambda rows: rows.scan(Session, "default", below=ADA))]
        counts = store.transact(lambda rows: [rows.remove_below(scope) for scope in [ADA, *owned]])
        of_ada = {"idempotency_keys": 1, "approvals": 1, "rejections": 1, "ledger_texts": 1, "content_keys": 1}
        assert counts == [
            {"facts": 51, "revisions": 51, "entries": 0, **of_ada, "sessions": 0},
            {"facts": 1, "revisions": 1, "entries": 0, **dict.fromkeys(of_ada, 0), "sessions": 1},
        ]
        assert store.scrub()
        assert found(tmp_path, TOKEN, "bobs-own", "secret-9e77") == str(["bobs-own"])
        assert store.check() == []
        assert store.read(lambda rows: rows.fact(BOB, "k1"), snapshot=False) is not None
    assert found(tmp_path, TOKEN, "bobs-own") == str(["bobs-own"])


def test_forgotten_values_leave_the_bytes(tmp_path: Path):
    revision = Revision(
        fact_id="f",
        scope=ADA,
        key="k",
        version=1,
        change="set",
        at=NOON,
        created_at=NOON,
        expires_at=NOON + timedelta(hours=1),
    )
    with SqliteStore(str(tmp_path / "m.db")) as store:
        store.transact(lambda rows: rows.add_revision(revision, f'"{TOKEN}"'.encode()))
        assert store.transact(lambda rows: rows.expire("default", NOON, replays_before=NOON))["revisions"] == 0
        assert found(tmp_path, TOKEN) == str([TOKEN])
        later = NOON + timedelta(hours=1)
        assert store.transact(lambda rows: rows.expire("default", later, replays_before=NOON))["revisions"] == 1
        assert store.scrub()
        assert found(tmp_path, TOKEN) == "[]"
        assert store.read(lambda rows: present(rows.revision(ADA, "k", version=1)).forgotten)


def test_a_reader_in_another_store_delays_the_scrub(tmp_path: Path):
    path = str(tmp_path / "m.db")
    with SqliteStore(path, busy_timeout=0.1) as store, SqliteStore(path) as other:
        store.transact(fill)

        def reading(rows) -> bool:
            assert rows.fact(ADA, "k1") is not None
            store.transact(lambda rows: rows.remove_below(Scope()))
            return store.scrub()

        assert other.read(reading) is False
        assert store.scrub() is True
        assert found(tmp_path, TOKEN) == "[]"
