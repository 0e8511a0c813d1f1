"""Many processes share one database: each sees at once what the others did, and no write is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import apsw
import psycopg
import pytest

import memoranda
from memoranda import Memory

RunChild = Callable[..., Any]
pytestmark = pytest.mark.capability("processes")

WRITER = """
import sys, memoranda
address, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memoranda.open(address, busy_timeout=60) as memory:
    own, shared = memory.scope(user=name), memory.scope(project="shared")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        own.set(f"key.{number:03}", {"from": name, "number": number})
        shared.set("last", name)
"""

# Does what it is told, line by line, in one long life with one open memory, and answers in one line.
AGENT = """
import sys, memoranda
with memoranda.open(sys.argv[1], busy_timeout=float(sys.argv[2])) as memory:
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            print(repr(eval(line)), flush=True)
        except memoranda.MemorandaError as error:
            print(f"{type(error).__name__}: {error.details}", flush=True)
"""

# Keeps all writers out, and no reader.
LOCK = """
import sys, apsw, psycopg

def lock_file():
    connection = apsw.Connection(sys.argv[1])
    connection.execute("BEGIN IMMEDIATE")
    return connection

def lock_tables():
    connection = psycopg.connect(sys.argv[1])
    tables = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'memoranda'::regnamespace AND relkind = 'r'"
    names = ", ".join(name for (name,) in connection.execute(tables).fetchall())
    connection.execute(f"LOCK TABLE {names} IN EXCLUSIVE MODE")
    return connection

connection = lock_tables() if "://" in sys.argv[1] else lock_file()
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


@pytest.fixture
def memory(address: str) -> Iterator[Memory]:
    with memoranda.open(address) as memory:
        yield memory


class Agent:
    """Another process that has the same database open."""

    def __init__(self, run_child: RunChild, address: str, *, patience: float = 30) -> None:
        self._child = run_child(AGENT, address, patience)
        assert self._child.hear() == "ready"

    def __call__(self, expression: str) -> str:
        self._child.say(expression)
        return self._child.hear()


def test_all_writes_of_four_processes_are_there(address: str, run_child: RunChild):
    names, count = [f"process{number}" for number in range(4)], 100
    children = [run_child(WRITER, address, name, count) for name in names]
    children[0].run_together(children)
    with memoranda.open(address) as memory:
        for name in names:
            facts = memory.scope(user=name).list("key")
            assert [fact.value for fact in facts] == [{"from": name, "number": number} for number in range(count)]
        history = memory.scope(project="shared").history("last")
        assert [revision.version for revision in history] == list(range(1, 4 * count + 1))
        assert {revision.value for revision in history} == set(names)
        assert [finding for finding in memory.inspect() if not finding.ok] == []


def test_a_write_is_seen_elsewhere_right_after_it_was_acknowledged(address: str, memory: Memory, run_child: RunChild):
    reader = Agent(run_child, address)
    assert reader('memory.scope(user="ada").value("name")') == "None"
    for number in range(50):
        memory.scope(user="ada").set("name", number)
        assert reader('memory.scope(user="ada").value("name")') == str(number)
        assert reader('[fact.value for fact in memory.scope(user="ada").list("name")]') == f"[{number}]"
        assert reader('memory.scope(user="ada").set("theirs", ' + str(number) + ").version") == str(number + 1)
        assert memory.scope(user="ada").value("theirs") == number


def test_busy_means_that_nothing_was_changed(address: str, memory: Memory, run_child: RunChild):
    memory.scope(user="ada").set("name", "before")
    anchor = memory.ledger.anchor()
    writer = Agent(run_child, address, patience=0.05)
    lock = run_child(LOCK, address)
    assert lock.hear() == "locked"
    for write in ('set("name", "during")', 'delete("name")', 'session("s").scope'):
        assert writer(f'memory.scope(user="ada").{write}').startswith("Busy:")
    assert writer('memory.erase(user="ada")').startswith("Busy:")
    assert writer('memory.scope(user="ada").value("name")') == "'before'"  # readers do not wait
    lock.say("enough")
    lock.finish()
    assert memory.ledger.anchor() == anchor
    assert memory.scope(user="ada").value("name") == "before"
    assert writer('memory.scope(user="ada").set("name", "after").version') == "2"
    assert memory.scope(user="ada").value("name") == "after"


def test_a_lock_that_is_let_go_in_time_is_waited_for(address: str, memory: Memory, run_child: RunChild):
    """The control of the one above: with patience, the same write succeeds."""
    writer = Agent(run_child, address, patience=60)
    lock = run_child(LOCK, address)
    assert lock.hear() == "locked"
    writer._child.say('memory.scope(user="ada").set("name", "patient").version')
    lock.say("enough")
    lock.finish()
    assert writer._child.hear() == "1"


def test_a_definition_holds_in_other_processes_at_once(address: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, address)
    text = 'memory.scope(user="ada").set("profile", {"age": "old"}).version'
    assert other(text) == "1"
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    memory.definitions.create(name="Profile", slug="profile", schema=schema)
    assert other(text).startswith("SchemaViolation:")
    assert other('memory.scope(user="ada").set("profile", {"age": 36}).version') == "2"
    schema["properties"] = {"age": {"type": "string"}}
    memory.definitions.update("profile", schema=schema, stale="keep")
    assert other(text) == "3"
    assert other('memory.scope(user="ada").set("profile", {"age": 36}).version').startswith("SchemaViolation:")
    memory.definitions.delete("profile")
    assert other('memory.scope(user="ada").set("profile", "anything").version') == "5"


def test_a_revoked_grant_is_refused_in_other_processes_at_once(address: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, address)
    write = 'memory.acting_as("agent:a").scope(user="ada").set("name", 1).version'
    read = 'memory.acting_as("agent:a").scope(user="ada").value("name")'
    assert other(write).startswith("Denied:") and other(read).startswith("Denied:")
    grant = memory.permissions.grant("agent:a", "memory")
    assert other(write) == "1" and other(read) == "1"
    memory.permissions.revoke(grant.id)
    assert other(write).startswith("Denied:") and other(read).startswith("Denied:")
    asked = memory.permissions.grant("agent:a", "memory.write", level="approve")
    assert other(write).startswith("ApprovalRequired:")
    (waiting,) = memory.approvals.list()
    assert other(f'memory.approvals.approve("{waiting.id}").result.version') == "2"
    assert memory.approvals.list() == []
    memory.permissions.revoke(asked.id)
    assert other(write).startswith("Denied:")


def test_an_ended_session_is_over_in_other_processes_at_once(address: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, address)
    session = memory.scope(user="ada").session("s")
    assert other('memory.scope(session="s").set("step", 1).version') == "1"
    session.end()
    assert other('memory.scope(session="s").set("step", 2).version').startswith("ScopeEnded:")
    assert other('memory.scope(session="s").list()') == "[]"


def test_an_erasure_elsewhere_is_seen_and_scrubbed(address: str, memory: Memory, run_child: RunChild):
    """An idle process that has the file open does not keep the bytes from being rewritten."""
    other = Agent(run_child, address)
    memory.scope(user="ada").set("name", "Ada")
    assert other('memory.scope(user="ada").value("name")') == "'Ada'"
    assert memory.erase(user="ada").scrubbed == ("://" not in address)
    assert memory.scrub()
    assert other('memory.scope(user="ada").value("name")') == "None"
    assert other('memory.scope(user="ada").set("name", "back").version') == "2"


class Versions:
    """The schema's version in a database, and the length of the ledger, without a program of ours."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.on_postgres = "://" in address

    def move(self, by: int) -> int:
        """Move the version; return what it was."""
        if self.on_postgres:
            ((moved,),) = self._query(f"UPDATE memoranda.migrated SET version = version + {by} RETURNING version")
            return moved - by
        with closing(apsw.Connection(self._address)) as connection:
            version: int = connection.pragma("user_version")
            connection.pragma("user_version", version + by)
            return version

    def count_events(self) -> int:
        ((count,),) = self._query(f"SELECT count(*) FROM {'memoranda.' * self.on_postgres}events")
        return count

    def _query(self, statement: str) -> list[Any]:
        if self.on_postgres:
            with psycopg.connect(self._address, autocommit=True) as connection:
                return connection.execute(statement.encode()).fetchall()
        with closing(apsw.Connection(self._address)) as connection:
            return list(connection.execute(statement))


@pytest.fixture
def versions(address: str) -> Iterator[Versions]:
    """Versions that are as they were when the test is over: on PostgreSQL all tests share the tables."""
    versions = Versions(address)
    before = versions.move(0) if versions.on_postgres else None
    yield versions
    if before is not None:
        versions.move(before - versions.move(0))


def test_a_newer_database_is_refused_when_opened(address: str, memory: Memory, versions: Versions):
    memory.scope(user="ada").set("name", "Ada")
    version = versions.move(1)
    with pytest.raises(memoranda.MigrationNeeded) as refusal:
        memoranda.open(address)
    assert (refusal.value.found, refusal.value.wanted) == (version + 1, version)


def test_a_database_that_became_newer_is_refused_by_who_had_it_open(
    address: str, memory: Memory, versions: Versions, run_child: RunChild
):
    other = Agent(run_child, address)
    assert other('memory.scope(user="ada").set("name", "Ada").version') == "1"
    length = memory.ledger.anchor().length
    version = versions.move(1)
    wanted = f"'found': {version + 1}, 'wanted': {version}"
    for write in ('set("name", "late")', 'delete("name")', 'session("s")'):
        answer = other(f'memory.scope(user="ada").{write}')
        assert answer.startswith("MigrationNeeded:") and wanted in answer
    with pytest.raises(memoranda.MigrationNeeded):
        memory.scope(user="ada").set("name", "late")
    assert versions.count_events() == length
    versions.move(-1)
    assert other('memory.scope(user="ada").set("name", "again").version') == "2"  # the control: it was only that
