"""`inspect` finds a fact or an entry whose author somebody changed with plain SQL, on both stores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

import recollect
from recollect.testing.conformance.base import EMBEDDER

Edit = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Edit]:
    """Return the address of an empty database, and how to edit it behind our back."""
    if request.param == "sqlite":
        file = str(tmp_path / "memory.db")

        def edit(statement: str) -> None:
            with closing(apsw.Connection(file)) as connection:
                connection.execute(statement)

        return file, edit
    url: str = request.getfixturevalue("database")

    def edit_there(statement: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute(statement.replace("UPDATE ", "UPDATE recollect.").encode()).rowcount == 1

    return url, edit_there


def problems(url: str) -> list[str]:
    with recollect.open(url, embedder=EMBEDDER) as memory:
        return [finding.detail for finding in memory.inspect() if not finding.ok]


def write(url: str) -> None:
    """Write through several surfaces and as several actors, so that all of them are known not to be mistaken."""
    with recollect.open(url, embedder=EMBEDDER) as memory:
        memory.permissions.grant("agent:scribe", "memory")
        memory.permissions.grant("agent:asker", "memory.write", level="approve")
        memory.permissions.grant("agent:asker", "memory.read")
        scribe = memory.acting_as("agent:scribe").through("mcp").scope(user="ada")
        scribe.set("tea", "rooibos")
        scribe.remember("Keeps bees", collection="notes")
        memory.scope(user="ada").remember_many([{"content": "One"}, {"content": "Two"}], collection="notes")
        with pytest.raises(recollect.ApprovalRequired):
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
    edit(statement.replace("SCHEMA", "recollect." if url.startswith("postgresql") else ""))
    [problem] = problems(url)
    assert said in problem
