"""`memoranda sleep`: jobs are listed, what is due is done, and it can be taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.chat.conversation import read_history
from memoranda.chat.open_turn import OpenTurn, begin_turn
from memoranda.model.clock import SystemClock
from memoranda.model.conversation import Draft, Usage
from memoranda.testing import FakeClock


def say(text: str, *, user: str = "ada", conversation: str = "c1") -> None:
    with memoranda.open("memory.db") as memory:
        history = read_history(memory, user, conversation)
        draft = Draft(kind="user", text=text)
        turn = begin_turn(
            memory,
            user,
            conversation,
            history=history,
            agent_id="desk",
            message_id=f"m{history.version}",
            drafts=[draft],
            lease=60,
        )
        assert isinstance(turn, OpenTurn)
        turn.answer("Noted.", Usage())


@pytest.fixture
def learned(cli: Any) -> None:
    say("I live in Porto. My favourite tea is rooibos.")
    assert cli("sleep", "run", "--delay", "0").code == 0


def test_what_is_due_is_done_and_shown(cli: Any) -> None:
    say("I live in Porto. My favourite tea is rooibos.")
    done = cli("sleep", "run", "--delay", "0")
    assert done.out.splitlines() == ["ada c1", "  + Lives in Porto  (core)", "  + Favourite tea: rooibos  (archival)"]
    assert cli("blocks", "show", "core", "--user", "ada").out == "- Lives in Porto\n"
    assert "Nothing is due" in cli("sleep", "run", "--delay", "0").err


def test_a_conversation_that_has_not_settled_is_left_alone(cli: Any) -> None:
    say("I live in Porto.")
    assert "Nothing is due" in cli("sleep", "run").err
    assert cli("sleep", "run", "--json").json == []
    assert cli("sleep", "run", "--delay", "0", "--json").json[0]["added"] == 1


def test_one_conversation_is_done_now(cli: Any) -> None:
    say("I live in Porto.")
    say("I prefer tea.", conversation="c2")
    done = cli("sleep", "run", "--user", "ada", "--conversation", "c2", "--json").json
    assert [(one["change"], one["line"]) for one in done["changes"]] == [("added", "- Prefers tea")]
    assert cli("sleep", "run", "--user", "ada", "--conversation", "c2").out == "ada c2: nothing new\n"
    assert cli("sleep", "run", "--user", "ada", "--conversation", "none").code == 1
    assert cli("sleep", "run", "--user", "ada").code == 2
    assert cli("sleep", "run", "--conversation", "c1").code == 2


def test_jobs_are_listed(cli: Any, learned: None) -> None:
    say("I prefer tea.", user="bob")
    cli("sleep", "run", "--delay", "0")
    jobs = cli("sleep", "list", "--json").json
    assert [(one["user"], one["conversation"], one["state"], one["added"]) for one in jobs] == [
        ("ada", "c1", "done", 2),
        ("bob", "c1", "done", 1),
    ]
    assert [one["user"] for one in cli("sleep", "list", "--user", "bob", "--json").json] == ["bob"]
    assert cli("sleep", "--state", "dead", "--json").json == []
    assert "2 added, 0 removed" in cli("sleep", "list").out
    assert "Porto" not in cli("sleep", "list").out


def test_a_conversation_that_is_not_there_is_not_called_gone(cli: Any, learned: None) -> None:
    done = cli("sleep", "forget", "c2", "--user", "ada", "--yes")
    assert (done.code, done.out) == (1, "")
    assert "`ada` has no conversation `c2`" in done.err
    done = cli("sleep", "undo", "c2", "--user", "ada", "--json")
    assert done.code == 1
    assert done.error["message"] == "nothing was learned from a conversation `c2` of `ada`"
    assert "memoranda sleep list" in done.error["hint"]


def test_no_jobs_says_so(cli: Any) -> None:
    cli("facts", "set", "k", "v")
    assert "No jobs." in cli("sleep").err


def test_what_was_learned_is_taken_back(cli: Any, learned: None) -> None:
    undone = cli("sleep", "undo", "c1", "--user", "ada")
    assert undone.out.splitlines() == ["ada c1", "  - Lives in Porto  (core)", "  - Favourite tea: rooibos  (archival)"]
    assert "Porto" not in cli("blocks", "show", "core", "--user", "ada").out
    assert "undone" in cli("sleep", "list").out
    again = cli("sleep", "undo", "c1", "--user", "ada", "--json")
    assert (again.code, again.error["code"]) == (1, "not_found")


def test_a_conversation_is_forgotten_with_what_it_taught(cli: Any, learned: None) -> None:
    assert cli("sleep", "forget", "c1", "--user", "ada").code == 2
    assert cli("blocks", "show", "core", "--user", "ada").out == "- Lives in Porto\n"
    gone = cli("sleep", "forget", "c1", "--user", "ada", "--yes", "--json").json
    assert sorted(gone["removed"]) == ["- Favourite tea: rooibos", "- Lives in Porto"]
    assert cli("sleep", "list", "--json").json == []


def test_a_failure_leaves_with_one_and_is_shown(cli: Any) -> None:
    say("I live in Porto.")
    failed = cli("sleep", "run", "--delay", "0", "--model", "nobody:knows-it")
    assert failed.code == 1
    assert "model_unavailable" in failed.out
    [job] = cli("sleep", "list", "--json").json
    assert (job["state"], job["attempts"]) == ("waiting", 1)
    assert job["error"].startswith("model_unavailable")
    assert cli("sleep", "run", "--user", "ada", "--conversation", "c1").code == 0


def test_messages_whose_model_failed_are_listed_and_read_later(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(SystemClock().now())
    monkeypatch.setattr(SystemClock, "now", lambda _: clock.now())
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"role": "user", "content": "I live in Porto."}')
    done = cli("learn", str(talk), "--user", "ada", "--conversation", "c9", "--model", "nobody:knows-it")
    assert done.code == 0 and "read again after" in done.err
    [job] = cli("sleep", "list", "--json").json
    assert (job["kind"], job["conversation"], job["state"]) == ("learn", "c9", "waiting")
    assert "learn" in cli("sleep", "list").out
    assert "Nothing is due" in cli("sleep", "run").err
    clock.advance(60)
    failed = cli("sleep", "run")  # the model that was named is asked again
    assert failed.code == 1 and "model_unavailable" in failed.out
    again = cli("learn", str(talk), "--user", "ada", "--conversation", "c9", "--json").json["learned"][0]
    assert [lesson["text"] for lesson in again["lessons"]] == ["Lives in Porto"]
    assert [one["state"] for one in cli("sleep", "list", "--json").json] == ["done"]


def test_an_actor_does_only_what_was_granted(cli: Any, learned: None) -> None:
    cli("permissions", "grant", "clerk", "memory.read")
    assert cli("sleep", "list", "--actor", "clerk").code == 0
    assert cli("sleep", "undo", "c1", "--user", "ada", "--actor", "clerk").code == 1
    assert cli("blocks", "show", "core", "--user", "ada").out == "- Lives in Porto\n"


@pytest.mark.parametrize("delay", ["soon", "-1", "5"])
def test_a_wrong_delay_is_usage(cli: Any, delay: str) -> None:
    say("I live in Porto.")
    assert cli("sleep", "run", "--delay", delay).code == 2
