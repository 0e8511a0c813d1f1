"""Many processes share one file: each sees at once what the others did, and no write is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import apsw
import pytest

import memoranda
from memoranda import Memory

RunChild = Callable[..., Any]

WRITER = """
import sys, memoranda
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with memoranda.open(path, busy_timeout=60) as memory:
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

LOCK = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
connection.close()
"""


@pytest.fixture
def memory(path: str) -> Iterator[Memory]:
    with memoranda.open(path) as memory:
        yield memory


class Agent:
    """Another process that has the same file open."""

    def __init__(self, run_child: RunChild, path: str, *, patience: float = 30) -> None:
        self._child = run_child(AGENT, path, patience)
        assert self._child.hear() == "ready"

    def __call__(self, expression: str) -> str:
        self._child.say(expression)
        return self._child.hear()


def test_all_writes_of_four_processes_are_there(path: str, run_child: RunChild):
    names, count = [f"process{number}" for number in range(4)], 100
    children = [run_child(WRITER, path, name, count) for name in names]
    children[0].run_together(children)
    with memoranda.open(path) as memory:
        for name in names:
            facts = memory.scope(user=name).list("key")
            assert [fact.value for fact in facts] == [{"from": name, "number": number} for number in range(count)]
        history = memory.scope(project="shared").history("last")
        assert [revision.version for revision in history] == list(range(1, 4 * count + 1))
        assert {revision.value for revision in history} == set(names)
        assert [finding for finding in memory.inspect() if not finding.ok] == []


def test_a_write_is_seen_elsewhere_right_after_it_was_acknowledged(path: str, memory: Memory, run_child: RunChild):
    reader = Agent(run_child, path)
    assert reader('memory.scope(user="ada").value("name")') == "None"
    for number in range(50):
        memory.scope(user="ada").set("name", number)
        assert reader('memory.scope(user="ada").value("name")') == str(number)
        assert reader('[fact.value for fact in memory.scope(user="ada").list("name")]') == f"[{number}]"
        assert reader('memory.scope(user="ada").set("theirs", ' + str(number) + ").version") == str(number + 1)
        assert memory.scope(user="ada").value("theirs") == number


def test_busy_means_that_nothing_was_changed(path: str, memory: Memory, run_child: RunChild):
    memory.scope(user="ada").set("name", "before")
    anchor = memory.ledger.anchor()
    writer = Agent(run_child, path, patience=0.05)
    lock = run_child(LOCK, path)
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


def test_a_lock_that_is_let_go_in_time_is_waited_for(path: str, memory: Memory, run_child: RunChild):
    """The control of the one above: with patience, the same write succeeds."""
    writer = Agent(run_child, path, patience=60)
    lock = run_child(LOCK, path)
    assert lock.hear() == "locked"
    writer._child.say('memory.scope(user="ada").set("name", "patient").version')
    lock.say("enough")
    lock.finish()
    assert writer._child.hear() == "1"


def test_a_definition_holds_in_other_processes_at_once(path: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, path)
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


def test_a_revoked_grant_is_refused_in_other_processes_at_once(path: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, path)
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


def test_an_ended_session_is_over_in_other_processes_at_once(path: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, path)
    session = memory.scope(user="ada").session("s")
    assert other('memory.scope(session="s").set("step", 1).version') == "1"
    session.end()
    assert other('memory.scope(session="s").set("step", 2).version').startswith("ScopeEnded:")
    assert other('memory.scope(session="s").list()') == "[]"


def test_an_erasure_elsewhere_is_seen_and_scrubbed(path: str, memory: Memory, run_child: RunChild):
    """An idle process that has the file open does not keep the bytes from being rewritten."""
    other = Agent(run_child, path)
    memory.scope(user="ada").set("name", "Ada")
    assert other('memory.scope(user="ada").value("name")') == "'Ada'"
    assert memory.erase(user="ada").scrubbed
    assert other('memory.scope(user="ada").value("name")') == "None"
    assert other('memory.scope(user="ada").set("name", "back").version') == "2"


def raise_version(path: str) -> int:
    with closing(apsw.Connection(path)) as connection:
        version: int = connection.pragma("user_version")
        connection.pragma("user_version", version + 1)
    return version


def test_a_newer_database_is_refused_when_opened(path: str, memory: Memory):
    memory.scope(user="ada").set("name", "Ada")
    version = raise_version(path)
    with pytest.raises(memoranda.MigrationNeeded) as refusal:
        memoranda.open(path)
    assert (refusal.value.found, refusal.value.wanted) == (version + 1, version)


def test_a_database_that_became_newer_is_refused_by_who_had_it_open(path: str, memory: Memory, run_child: RunChild):
    other = Agent(run_child, path)
    assert other('memory.scope(user="ada").set("name", "Ada").version') == "1"
    length = memory.ledger.anchor().length
    version = raise_version(path)
    wanted = f"'found': {version + 1}, 'wanted': {version}"
    for write in ('set("name", "late")', 'delete("name")', 'session("s")'):
        answer = other(f'memory.scope(user="ada").{write}')
        assert answer.startswith("MigrationNeeded:") and wanted in answer
    with pytest.raises(memoranda.MigrationNeeded):
        memory.scope(user="ada").set("name", "late")
    with closing(apsw.Connection(path)) as connection:
        assert connection.execute("SELECT count(*) FROM events").get == length
        connection.pragma("user_version", version)
    assert other('memory.scope(user="ada").set("name", "again").version') == "2"  # the control: it was only that
