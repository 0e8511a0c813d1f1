"""`memoranda migrate`: what it prints, refuses and continues."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.api import move
from memoranda.cli import output


@pytest.fixture(autouse=True)
def memory_db(folder: Path) -> None:
    with memoranda.open("memory.db") as memory:
        for number in range(30):
            memory.scope(user="ada").set(f"k{number}", "v")


def test_it_prints_a_table_and_what_was_moved(cli):
    done = cli("migrate", "memory.db", "moved.db")
    assert re.search(r"^facts +30 +[0-9a-f]{16}$", done.out, re.MULTILINE)
    assert re.search(r"^Moved \d+ rows of 1 tenant from memory.db to moved.db in [\d.]+ s\.$", done.out, re.MULTILINE)
    assert "Not moved" not in done.err
    assert cli("facts", "get", "k7", "--user", "ada", "--db", "moved.db").out == "v\n"
    again = cli("migrate", "memory.db", "moved.db", "--json").json  # it is all there
    assert again["continued"] and {table["name"]: table["rows"] for table in again["tables"]}["facts"] == 30


def test_a_dry_run_creates_nothing(cli, folder: Path):
    done = cli("migrate", "memory.db", "moved.db", "--dry-run")
    assert done.out.endswith("from memory.db to moved.db; nothing was changed.\n")
    assert "hash" not in done.out
    assert not (folder / "moved.db").exists()


def test_it_refuses_what_cannot_be_moved(cli):
    assert cli("migrate", "missing.db", "moved.db", "--json").code == 1
    assert json.loads(cli("migrate", "memory.db", "memory.db", "--json").err)["error"]["code"] == "usage_error"
    refused = cli("migrate", "memory.db", "moved.db", "--actor", "agent:mail")
    assert (refused.code, "Leave out --actor" in refused.err) == (2, True)
    cli("facts", "set", "k", "v", "--db", "other.db")
    refused = cli("migrate", "memory.db", "other.db")
    assert (refused.code, refused.err) == (
        1, "error[already_exists]: `other.db` has memory already\nhint: Move to an empty database\n"
    )  # fmt: skip


@pytest.fixture
def interrupted(cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """Interrupt a move in the middle of `facts`; return what was said."""
    pages = move._Move._pages

    def stop(self: Any, side: Any, stage: Any) -> Iterator[Any]:
        for table, page in pages(self, side, stage):
            if table.name == "revisions":
                raise KeyboardInterrupt
            yield table, page

    with monkeypatch.context() as patch:
        patch.setattr(move._Move, "_pages", stop)
        done = cli("migrate", "memory.db", "moved.db")
    assert (done.code, done.out) == (130, "")
    return done.err


def test_an_interrupted_move_says_how_to_go_on(cli, interrupted: str):
    assert interrupted == "Interrupted. The same command goes on where it stopped.\n"
    refused = cli("facts", "list", "--db", "moved.db")
    assert (refused.code, refused.err) == (
        1,
        "error[incomplete]: `moved.db` is the target of a move that has not ended\n"
        "hint: Run `memoranda migrate SOURCE moved.db`, or with --restart to begin again\n",
    )
    assert cli("migrate", "memory.db", "moved.db", "--json").json["continued"]


def test_it_says_that_it_began_again(cli, interrupted: str):
    cli("facts", "set", "k1", "w", "--user", "ada")
    done = cli("migrate", "memory.db", "moved.db")
    assert done.err == "The source was written to since this move began, so it began again.\n"
    assert cli("facts", "get", "k1", "--user", "ada", "--db", "moved.db").out == "w\n"


@pytest.mark.parametrize("exclusive", [False, True])
def test_it_says_what_stayed_behind(cli, monkeypatch: pytest.MonkeyPatch, exclusive: bool):
    finish = move._Move.finish

    def write_before(self: Any, *given: Any, **options: Any) -> None:
        with memoranda.open("memory.db") as memory:
            memory.scope(user="ada").set("late", 1)
        finish(self, *given, **options)

    monkeypatch.setattr(move._Move, "finish", write_before)
    done = cli("migrate", "memory.db", "moved.db", *(["--exclusive"] if exclusive else []))
    if exclusive:
        assert done.code == 1 and "`memory.db` was written to during the move (events: 1)" in done.err
        assert cli("facts", "list", "--db", "moved.db").code == 1
    else:
        assert done.code == 0 and done.err.startswith("Not moved: 1 event that the source has since")


def test_progress_is_a_line_now_and_then(cli, monkeypatch: pytest.MonkeyPatch):
    seconds = count()
    monkeypatch.setattr(output, "monotonic", lambda: next(seconds))
    said = cli("migrate", "memory.db", "moved.db").err.splitlines()
    assert len(said) > 3
    assert all(
        re.fullmatch(r"(Copying|Comparing|Verifying) \w+: \d+ of \d+ \(\d+%\)(, \d+ rows/s)?", line) for line in said
    )
    assert cli("migrate", "memory.db", "again.db", "--json").err == ""
