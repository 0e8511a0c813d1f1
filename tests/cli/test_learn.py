"""Learn and context."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TALK = (
    {"role": "user", "content": "I live in Porto.", "at": "2024-03-01T10:00:00Z"},
    {"role": "assistant", "content": "A fine city!"},
    {"role": "user", "content": "We moved to Faro in May.", "at": "2024-06-01T10:00:00Z"},
)


@pytest.fixture
def talk(folder: Path) -> str:
    path = folder / "talk.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in TALK))
    return str(path)


def test_a_file_is_learned_once_and_its_statements_are_told(cli, talk: str) -> None:
    done = cli("learn", talk, "--user", "ada")
    assert done.code == 0, done.err
    assert "replaced" in done.out
    assert "Lives in Faro" in done.out
    assert "3 messages kept of 1 conversation, 0 known already" in done.out
    again = cli("learn", talk, "--user", "ada", "--json").json
    assert (again["scope"], again["learned"][0]["known_messages"]) == ("user:ada", 3)
    told = cli("context", "where does she live?", "--user", "ada", "--budget", "400")
    assert "<memories>" in told.out
    assert told.out.index("Lives in Faro") < told.out.index("I live in Porto")
    seen = cli("context", "where does she live?", "--user", "ada", "--json").json
    assert seen["items"][0]["text"] == "Lives in Faro"
    assert seen["tokens"] <= seen["budget"]


def test_what_is_trusted_less_is_left_out_where_that_is_asked_for(cli, talk: str) -> None:
    assert cli("learn", talk, "--user", "ada").code == 0
    for verb, listed in (("recall", "results"), ("context", "items")):
        asked = verb, "a fine city", "--user", "ada", "--limit", "9", "--json"
        kinds = {one["origin"]["kind"] for one in cli(*asked).json[listed]}
        assert "assistant" in kinds
        trusted = cli(*asked, "--min-trust", "high").json[listed]
        assert {one["origin"]["kind"] for one in trusted} <= {"user"}
        assert cli(*asked, "--min-trust", "some").code == 2
    assert "trust medium" in cli("recall", "a fine city", "--user", "ada", "--why").out


def test_stdin_is_read_and_undo_takes_it_back(cli, talk: str) -> None:
    done = cli("learn", "-", "--user", "ada", "--json", input=Path(talk).read_text()).json
    [token] = done["learned"][0]["undo"]
    assert cli("undo", token, "--user", "ada").code == 0
    assert cli("entries", "--user", "ada", "--json").json == []


def test_bad_files_are_refused_before_anything_is_stored(cli, talk: str, folder: Path) -> None:
    (folder / "bad.json").write_text('[{"role": "user", "content": "fine"}, {"words": 1}]')
    failed = cli("learn", talk, str(folder / "bad.json"), "--user", "ada")
    assert failed.code == 2
    assert "message 1" in failed.err
    assert cli("learn", str(folder / "missing.json"), "--user", "ada").code == 2
    assert cli("learn", talk, "--user", "ada", "--json").json["learned"][0]["known_messages"] == 0


def test_nothing_to_tell_is_said(cli, talk: str) -> None:
    cli("learn", talk, "--user", "ada")
    empty = cli("context", "where does he live?", "--user", "bob")
    assert (empty.code, empty.out) == (0, "")
    assert "nothing to tell about user:bob" in empty.err
