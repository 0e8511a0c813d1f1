"""The stores that are compared: Memoranda, LangGraph's SqliteStore and a bare commit, all equally durable."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
from langgraph.store.sqlite import SqliteStore
from settings import read_settings, settings_of, settings_of_ours

import memoranda
from memoranda.store.sqlite.connection import LONGEST_LOG

USERS = 100

OURS = "Memoranda"
PEER = "SqliteStore"
AS_SHIPPED = "SqliteStore as shipped (*)"
BARE = "bare commit"

# What a set writes: the fact, its revision, its line in the ledger.
_ROWS_OF_A_SET = ("facts", "revisions", "events")


@dataclass(frozen=True)
class Write:
    """One write of the workload, the same for every contender."""

    user: int
    key: str
    value: dict[str, Any]


@dataclass(frozen=True)
class Contender:
    """How one store writes and reads, and the settings that it said it has when asked."""

    write: Callable[[Write], object]
    read: Callable[[Write], object]
    settings: dict[str, Any]


def make_workload(count: int, seed: int = 1) -> list[Write]:
    """Return writes of small facts of a hundred users: every second one is new, the others change an old one."""
    source = random.Random(seed)
    known: list[tuple[int, str]] = []
    writes: list[Write] = []
    for number in range(count):
        if number % 2 == 0:
            known.append((len(known) % USERS, f"profile.trait_{len(known):06}"))
            user, key = known[-1]
        else:
            user, key = source.choice(known)
        writes.append(Write(user, key, make_value(number)))
    return writes


def make_value(number: int) -> dict[str, Any]:
    """Return a value of about 120 bytes of JSON."""
    note = f"prefers short answers, writes from the office, asked {number} times"
    return {"language": "en", "plan": "pro", "seats": 12, "note": note, "number": number}


@contextmanager
def open_ours(folder: Path) -> Iterator[Contender]:
    """Open a new Memoranda database at full durability."""
    with memoranda.open(str(folder / "memoranda.db")) as memory:
        scopes = [memory.scope(user=f"user-{user:03}") for user in range(USERS)]

        def write(one: Write) -> object:
            return scopes[one.user].set(one.key, one.value)

        def read(one: Write) -> object:
            return scopes[one.user].get(one.key)

        yield Contender(write, read, settings_of_ours(memory))


@contextmanager
def open_peer(folder: Path, *, as_shipped: bool = False) -> Iterator[Contender]:
    """Open a new SqliteStore without an index, with a write-ahead log unless it is to be as it ships."""
    name = "shipped.db" if as_shipped else "peer.db"
    with SqliteStore.from_conn_string(str(folder / name)) as store:
        if not as_shipped:
            store.conn.execute("PRAGMA journal_mode = WAL")
            store.conn.execute("PRAGMA cache_size = -16000")
            store.conn.execute(f"PRAGMA wal_autocheckpoint = {LONGEST_LOG}")
        store.conn.execute("PRAGMA synchronous = FULL")
        store.setup()
        namespaces = [("users", f"user-{user:03}") for user in range(USERS)]

        def write(one: Write) -> object:
            return store.put(namespaces[one.user], one.key, one.value, index=False)

        def read(one: Write) -> object:
            return store.get(namespaces[one.user], one.key)

        yield Contender(write, read, settings_of(store.conn))


@contextmanager
def open_bare(folder: Path) -> Iterator[Contender]:
    """Open a database with the three tables that a set of ours fills, and rows of the sizes it fills them with.

    The tables have their primary keys and nothing else; tables and rows are copied from a database of ours.
    """
    connection = apsw.Connection(str(folder / "bare.db"))
    try:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("cache_size", -16_000)
        connection.pragma("wal_autocheckpoint", LONGEST_LOG)
        samples = _copy_tables(_make_sample(folder), connection)
        yield Contender(_bare_write(connection, samples), _no_read, read_settings(connection.pragma))
    finally:
        connection.close()


def unequal(contenders: dict[str, Contender]) -> list[str]:
    """Return, in words, which contenders do not write ahead with a sync at every commit."""
    return [
        f"{name} has {one.settings}"
        for name, one in contenders.items()
        if name != AS_SHIPPED and (one.settings["journal_mode"], one.settings["synchronous"]) != ("wal", 2)
    ]


def _make_sample(folder: Path) -> Path:
    """Write one fact with Memoranda and return the file."""
    path = folder / "sample.db"
    with memoranda.open(str(path)) as memory:
        one = make_workload(1)[0]
        memory.scope(user=f"user-{one.user:03}").set(one.key, one.value)
    return path


def _copy_tables(path: Path, target: apsw.Connection) -> dict[str, dict[str, Any]]:
    """Make the three tables of a database of ours in another one; return one row of each, by column."""
    sample = apsw.Connection(str(path))
    rows: dict[str, dict[str, Any]] = {}
    for table in _ROWS_OF_A_SET:
        (sql,) = sample.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        target.execute(sql)
        cursor = sample.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.get_description()]
        rows[table] = dict(zip(names, cursor.fetchone(), strict=True))
    sample.close()
    return rows


def _bare_write(connection: apsw.Connection, samples: dict[str, dict[str, Any]]) -> Callable[[Write], object]:
    """Return a write of three rows in one transaction: no gate, no reads, no hashing, no JSON."""
    statements = {table: _insert_statement(table, list(row)) for table, row in samples.items()}
    facts, revisions, events = (dict(samples[table]) for table in _ROWS_OF_A_SET)
    versions: defaultdict[tuple[int, str], int] = defaultdict(int)
    execute = connection.cursor().execute

    def write(one: Write) -> None:
        versions[one.user, one.key] += 1
        version = versions[one.user, one.key]
        scope = f"user:user-{one.user:03}"
        facts.update(scope=scope, key=one.key, version=version)
        revisions.update(scope=scope, key=one.key, version=version)
        events["position"] += 1
        execute("BEGIN IMMEDIATE")
        execute(statements["facts"], facts)
        execute(statements["revisions"], revisions)
        execute(statements["events"], events)
        execute("COMMIT")

    return write


def _insert_statement(table: str, columns: list[str]) -> str:
    verb = "INSERT OR REPLACE" if table == "facts" else "INSERT"
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join(':' + name for name in columns)})"


def _no_read(one: Write) -> None:
    raise NotImplementedError("the bare commit is there to be written to")
