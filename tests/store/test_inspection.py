"""`inspect` finds rows that were changed with plain SQL, on both stores: authors, history, vectors and words."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

import memoranda
from memoranda.retrieval.analysis.analyser import analyse, pack
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import EMBEDDER

Edit = Callable[..., None]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Edit]:
    """Return the address of an empty database, and how to edit it behind our back."""
    if request.param == "sqlite":
        file = str(tmp_path / "memory.db")

        def edit(statement: str, *values: bytes) -> None:
            with closing(apsw.Connection(file)) as connection:
                connection.execute(statement, values)
                assert connection.changes() == 1

        return file, edit
    url: str = request.getfixturevalue("database")

    def edit_there(statement: str, *values: bytes) -> None:
        for verb in ("UPDATE", "DELETE FROM"):
            statement = statement.replace(f"{verb} ", f"{verb} memoranda.")
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute(statement.replace("?", "%s").encode(), values).rowcount == 1

    return url, edit_there


def problems(url: str, embedder: str = EMBEDDER) -> list[str]:
    with memoranda.open(url, embedder=embedder) as memory:
        return [finding.detail for finding in memory.inspect() if not finding.ok]


def write(url: str) -> None:
    """Write through several surfaces and as several actors, so that all of them are known not to be mistaken."""
    with memoranda.open(url, embedder=EMBEDDER) as memory:
        memory.permissions.grant("agent:scribe", "memory")
        memory.permissions.grant("agent:asker", "memory.write", level="approve")
        memory.permissions.grant("agent:asker", "memory.read")
        scribe = memory.acting_as("agent:scribe").through("mcp").scope(user="ada")
        scribe.set("tea", "rooibos")
        scribe.remember("Keeps bees", collection="notes")
        memory.scope(user="ada").remember_many([{"content": "One"}, {"content": "Two"}], collection="notes")
        with pytest.raises(memoranda.ApprovalRequired):
            memory.acting_as("agent:asker").scope(user="ada").set("cup", "blue")
        memory.approvals.approve(memory.approvals.list()[0].id)
        memory.scope(user="bo").set("gone", 1, ttl="1s")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE facts SET actor = 'agent:other' WHERE key = 'tea'",
            "`tea` in `user:ada` is said to be by `agent:other`",
        ),
        (
            "UPDATE facts SET door = 'rest' WHERE key = 'tea'",
            "through `rest`, the ledger says by `agent:scribe` through `mcp`",
        ),
        ("UPDATE facts SET actor = 'owner' WHERE key = 'cup'", "the ledger says by `agent:asker`"),
        ("UPDATE entries SET actor = 'owner' WHERE actor = 'agent:scribe'", "the ledger says by `agent:scribe`"),
        (
            "UPDATE entries SET actor = 'agent:scribe' WHERE sequence = (SELECT max(sequence) FROM SCHEMAentries)",
            "the ledger says by `owner`",
        ),
    ],
)
def test_a_changed_author_is_found(place: tuple[str, Edit], statement: str, said: str) -> None:
    url, edit = place
    write(url)
    assert problems(url) == []
    edit(statement.replace("SCHEMA", "memoranda." if url.startswith("postgresql") else ""))
    [problem] = problems(url)
    assert said in problem


# history


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE revisions SET actor = 'owner' WHERE actor = 'agent:scribe'", "the ledger says by `agent:scribe`"),
        (
            "UPDATE revisions SET door = 'rest' WHERE version = 2 AND key = 'tea'",
            "version 2 of `tea` in `user:ada` is said to be by",
        ),
        ("UPDATE revisions SET payload = '\"green\"' WHERE version = 1 AND key = 'tea'", "does not have the value"),
        ("UPDATE revisions SET payload = NULL, forgotten = 1 WHERE version = 1 AND key = 'tea'", "lost its value"),
        ("UPDATE revisions SET change = 'expired' WHERE change = 'deleted'", "is `expired`, the ledger says `deleted`"),
        (
            "UPDATE revisions SET version = 9 WHERE version = 2 AND key = 'tea'",
            "version 9 of `tea` in `user:ada` is not in the ledger",
        ),
        ("DELETE FROM revisions WHERE version = 1 AND key = 'tea'", "in the ledger but not in the history"),
    ],
)
def test_changed_history_is_found(place: tuple[str, Edit], statement: str, said: str) -> None:
    url, edit = place
    with memoranda.open(url) as memory:
        memory.permissions.grant("agent:scribe", "memory")
        memory.acting_as("agent:scribe").through("mcp").scope(user="ada").set("tea", "black")
        ada = memory.scope(user="ada")
        ada.set("tea", "white")
        ada.set("cup", "blue")
        ada.set("old", 1)
        memory.scope(user="ada").delete("old")
    assert problems(url) == []
    edit(statement.replace("'\"green\"'", "CAST('\"green\"' AS BLOB)") if "://" not in url else statement)
    assert said in problems(url)[0]


def test_history_that_was_swept_erased_ended_or_imported_is_no_problem(place: tuple[str, Edit], tmp_path: Path) -> None:
    url, _ = place
    clock = FakeClock()
    with memoranda.open(url, embedder=EMBEDDER, clock=clock) as memory:
        ada, bo = memory.scope(user="ada"), memory.scope(user="bo")
        for user in (ada, bo):
            user.set("code", 1, ttl=60)
            user.set("code", 2)
            user.set("brief", 1, ttl=60)
            user.session(f"visit of {user.scope}").set("step", 1)
        memory.export(tmp_path / "all.jsonl")
        clock.advance(120)
        memory.sweep()
        ada.session("visit of user:ada").set("step", 2)
        ada.session("visit of user:ada").end()
        memory.erase(user="bo")
        memory.scope(user="bo").set("code", 3)
        memory.import_file(tmp_path / "all.jsonl")
        memory.in_tenant("other").import_file(tmp_path / "all.jsonl")
        assert [one.forgotten for one in ada.history("code")] == [True, False]  # the control: a value was blanked
        assert [one.change for one in ada.history("brief")] == ["set", "expired"]
        assert [one.value for one in memory.scope(user="bo").history("code")] == [3]
        assert [finding for finding in memory.inspect() if not finding.ok] == []


# vectors and words

TEXTS = ["the roof is new", "the door was painted green", "the cellar floods in March", "nobody has the attic key"]


def vector_of(text: str) -> bytes:
    return Hashing(64).embed([text]).tobytes()


def scaled(vector: bytes, factor: float) -> bytes:
    return struct.pack("<64f", *[factor * number for number in struct.unpack("<64f", vector)])


def turned(vector: bytes) -> bytes:
    """Return a vector with its largest number taken away and its length restored."""
    numbers = list(struct.unpack("<64f", vector))
    numbers[max(range(64), key=lambda place: abs(numbers[place]))] = 0.0
    length = sum(number * number for number in numbers) ** 0.5
    return struct.pack("<64f", *[number / length for number in numbers])


def entry_of(url: str, content: str) -> int:
    with memoranda.open(url, embedder="hashing:64") as memory:
        [entry] = [one for one in memory.scope(user="ada").entries(collection="house") if one.content == content]
    return entry.sequence


def remember_house(url: str) -> None:
    with memoranda.open(url, embedder="hashing:64") as memory:
        items = [{"content": text, "metadata": {"n": number}} for number, text in enumerate(TEXTS)]
        memory.scope(user="ada").remember_many(items, collection="house")
        memory.scope(user="bo").remember({"roof": ["old", 1.0]}, collection="house", namespace="shed", ttl="1h")


def vector_statement(url: str, sequence: int) -> str:
    return f"UPDATE vectors SET vector = ? WHERE {'sequence' if '://' in url else 'place / 256'} = {sequence}"


CHANGED_VECTORS = [
    (vector_of(TEXTS[0]), "is not that of its text"),
    (scaled(vector_of(TEXTS[2]), -1.0), "is not that of its text"),
    (turned(vector_of(TEXTS[2])), "is not that of its text"),
    (scaled(vector_of(TEXTS[2]), 2.0), "is not a vector of unit length"),
    (struct.pack("<64f", *[float("nan")] * 64), "is not a vector of unit length"),
    (struct.pack("<64f", float("inf"), *[0.0] * 63), "is not a vector of unit length"),
    (b"\0" * 256, "is not a vector of unit length"),
    (b"\0" * 255, "has 255 bytes instead of 256"),
    (vector_of(TEXTS[2]) * 2, "has 512 bytes instead of 256"),
    (b"", "has 0 bytes instead of 256"),
]


def test_changed_vectors_are_found(place: tuple[str, Edit]) -> None:
    url, edit = place
    remember_house(url)
    statement = vector_statement(url, entry_of(url, TEXTS[2]))
    for changed, said in CHANGED_VECTORS:
        edit(statement, vector_of(TEXTS[2]))
        assert problems(url) == []
        edit(statement, changed)
        [problem] = problems(url)
        assert said in problem and "in `user:ada`" in problem and "collection `house`" in problem


def test_a_vector_that_differs_by_rounding_is_no_problem(place: tuple[str, Edit]) -> None:
    url, edit = place
    remember_house(url)
    edit(vector_statement(url, entry_of(url, TEXTS[2])), scaled(vector_of(TEXTS[2]), 1.0001))
    assert problems(url) == []


@pytest.mark.parametrize("words", [pack(analyse("the door was painted green")), b"\xc1", b""])
def test_changed_words_are_found(place: tuple[str, Edit], words: bytes) -> None:
    url, edit = place
    remember_house(url)
    assert problems(url) == []
    sequence = entry_of(url, TEXTS[2])
    table, column = ("entries", "sequence") if "://" in url else ("vectors", "place / 256")
    edit(f"UPDATE {table} SET analysis = ? WHERE {column} = {sequence}", words)
    [problem] = problems(url)
    assert "the stored words of entry" in problem


@pytest.mark.parametrize(
    ("column", "said"), [("metadata = CAST('{}' AS BLOB)", "metadata"), ("expires_at = 1", "expiry")]
)
def test_a_changed_copy_that_recall_filters_by_is_found(tmp_path: Path, column: str, said: str) -> None:
    """SQLite keeps it a second time, beside the vector."""
    file = str(tmp_path / "memory.db")
    remember_house(file)
    with closing(apsw.Connection(file)) as connection:
        connection.execute(f"UPDATE vectors SET {column} WHERE place / 256 = 2")
    [problem] = problems(file)
    assert f"the stored recall {said} of entry" in problem


def test_vectors_of_ended_entries_and_of_later_portions_are_compared(place: tuple[str, Edit]) -> None:
    url, edit = place
    with memoranda.open(url, embedder="hashing:64") as memory:
        ada = memory.scope(user="ada")
        ada.remember_many([{"content": f"note {number}"} for number in range(300)], collection="house")
        ada.forget(ada.entries(collection="house")[0].id, collection="house")
    assert problems(url) == []
    last = entry_of(url, "note 299")
    edit(vector_statement(url, last), vector_of("note 1"))
    assert "is not that of its text" in problems(url)[0]
    edit(vector_statement(url, last), vector_of("note 299"))
    assert problems(url) == []
    edit(vector_statement(url, last - 299), vector_of("note 1"))  # `recall(as_of=…)` still reads it
    assert "is not that of its text" in problems(url)[0]


def test_vectors_of_the_default_embedder_are_compared(place: tuple[str, Edit]) -> None:
    url, edit = place
    with memoranda.open(url) as memory:
        memory.scope(user="ada").remember_many([{"content": text} for text in TEXTS], collection="house")
        memory.scope(user="ada").remember("…", collection="house", key="wordless")
        dimension = memory.collections.list()[0].dimension
    assert problems(url, "wordllama") == []
    vector = struct.pack(f"<{dimension}f", 1.0, *[0.0] * (dimension - 1))
    edit(vector_statement(url, entry_of(url, TEXTS[1])), vector)
    assert "is not that of its text" in problems(url, "wordllama")[0]
    assert "is not that of its text" in problems(url, "onnx:/nowhere")[0]  # it is built in, whatever the default is


class Remote(Hashing):
    """An embedder that promises nothing, under the name of one on a server."""

    reproducible = False

    @property
    def id(self) -> str:
        return "openai:far:64"


def test_an_embedder_on_a_server_is_never_asked(place: tuple[str, Edit], monkeypatch: pytest.MonkeyPatch) -> None:
    url, edit = place
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # no server answers there
    with memoranda.open(url, embedder=Remote(64)) as memory:
        memory.scope(user="ada").remember_many([{"content": text} for text in TEXTS], collection="house")
    for embedder in ("openai:far:64", "hashing:64", Remote(64)):
        with memoranda.open(url, embedder=embedder) as memory:
            findings = memory.inspect()
            assert [finding for finding in findings if not finding.ok] == []
            assert "vectors not checked of `house` (`openai:far:64`" in findings[-1].detail
    with memoranda.open(url, embedder=Remote(64)) as memory:
        sequence = memory.scope(user="ada").entries(collection="house")[0].sequence
    edit(vector_statement(url, sequence), b"\0" * 12)  # what needs no embedder is still found
    assert "has 12 bytes" in problems(url, "openai:far:64")[0]


def test_an_inspection_without_entries_loads_no_numpy(tmp_path: Path) -> None:
    program = """
import sys, memoranda
with memoranda.open(sys.argv[1]) as memory:
    memory.scope(user="ada").set("tea", "black")
    assert all(finding.ok for finding in memory.inspect())
    print("numpy" in sys.modules)
    memory.scope(user="ada").remember("Keeps bees", collection="notes")
    assert all(finding.ok for finding in memory.inspect())
    print("numpy" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "memory.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]
