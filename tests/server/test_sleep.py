"""Sleep-time memory over HTTP: seen, taken back and forgotten by whom it is about, and by an administrator."""

from __future__ import annotations

import pytest

import memoranda
from memoranda.chat.conversation import read_history
from memoranda.chat.open_turn import OpenTurn, begin_turn
from memoranda.model.conversation import Draft, Usage
from memoranda.sleep import run_sleep_time

API = "/api/v1"
JOBS = f"{API}/sleep/jobs"


@pytest.fixture
def tenant(request):
    return request.node.name[:60]


@pytest.fixture
def learn(served, tenant):
    """Let users say something in conversations that are consolidated then."""

    def learn(**said: str) -> None:
        with memoranda.open(served.db, tenant=tenant) as memory:
            for user, text in said.items():
                for number, line in enumerate(text.split(" | ")):
                    id = f"talk-{number}"
                    history = read_history(memory, user, id)
                    turn = begin_turn(
                        memory,
                        user,
                        id,
                        history=history,
                        agent_id="desk",
                        message_id=f"m{number}",
                        drafts=[Draft(kind="user", text=line)],
                        lease=60,
                    )
                    assert isinstance(turn, OpenTurn)
                    turn.answer("Noted.", Usage())
                    run_sleep_time(memory, id, user=user)

    return learn


def core_of(client):
    answer = client.get(f"{API}/memory/blocks/core")
    return answer.json()["content"].splitlines() if answer.status_code == 200 else []


def test_what_was_learned_is_listed_and_taken_back_once(served, tenant, learn):
    learn(ada="I live in Setúbal. | I prefer tea.", ben="I live in Evora.")
    ada, ben = (served.client(served.key_for(user, tenant=tenant)) for user in ("ada", "ben"))
    answer = ada.get(JOBS)
    assert answer.status_code == 200, answer.text
    jobs = answer.json()["jobs"]
    assert [(one["user"], one["conversation_id"], one["state"], one["added"]) for one in jobs] == [
        ("ada", "talk-0", "done", 1),
        ("ada", "talk-1", "done", 1),
    ]
    first = ada.get(JOBS, params={"limit": 1}).json()
    rest = ada.get(JOBS, params={"limit": 1, "after": first["next"]}).json()
    assert (first["jobs"] + rest["jobs"], rest["next"]) == (jobs, None)
    assert ada.get(JOBS, params={"state": "dead"}).json()["jobs"] == []
    before = core_of(ada)
    undone = ada.post(f"{JOBS}/talk-0/undo")
    assert undone.status_code == 200, undone.text
    [change] = undone.json()["changes"]
    assert (change["change"], change["scope"], change["block"]) == ("removed", "user", "core")
    assert [line for line in before if line not in core_of(ada)] == [change["line"]]
    assert "Setúbal" in change["line"]
    assert ada.post(f"{JOBS}/talk-0/undo").status_code == 404
    assert [one["undone"] for one in ada.get(JOBS).json()["jobs"]] == [True, False]
    assert core_of(ben) == ["- Lives in Evora"]


def test_a_conversation_is_erased_with_what_it_alone_taught(served, tenant, learn):
    learn(ada="I live in Setúbal. | I prefer tea.")
    ada = served.client(served.key_for("ada", tenant=tenant))
    place = f"{API}/conversations/talk-0"
    assert ada.get(place).status_code == 200
    gone = ada.post(f"{JOBS}/talk-0/forget")
    assert (gone.status_code, gone.json()["removed"]) == (200, ["- Lives in Setúbal"])
    assert ada.get(place).status_code == 404
    assert [one["conversation_id"] for one in ada.get(JOBS).json()["jobs"]] == ["talk-1"]
    assert core_of(ada) == ["- Prefers tea"]


def test_messages_whose_model_failed_are_listed_and_go_with_their_conversation(served, tenant):
    ada, ben = (served.client(served.key_for(user, tenant=tenant)) for user in ("ada", "ben"))
    asked = {"messages": ["I live in Setúbal."], "conversation": "letter", "model": "nobody:knows-it"}
    learned = ada.post(f"{API}/memory/learn", json=asked).json()
    assert learned["pending"] and learned["retry_at"] and len(learned["messages"]) == 1
    [job] = ada.get(JOBS).json()["jobs"]
    assert (job["kind"], job["conversation_id"], job["state"], job["due_at"]) == (
        "learn",
        "letter",
        "waiting",
        learned["retry_at"],
    )
    assert ben.get(JOBS).json()["jobs"] == []
    assert ada.post(f"{JOBS}/letter/undo").status_code == 404
    assert ada.post(f"{JOBS}/letter/forget").status_code == 200
    assert ada.get(JOBS).json()["jobs"] == []


def test_nobody_but_an_administrator_reaches_what_others_were_learned_about(served, tenant, learn):
    learn(ada="I live in Setúbal.", ben="I live in Evora.")
    ada = served.client(served.key_for("ada", tenant=tenant))
    strangers = [
        (served.client(served.key_for("ben", tenant=tenant)), 403),
        (served.client(served.key_for("ben", tenant=tenant, role="reader")), 403),
        (served.client(served.key_for("ada", tenant="elsewhere")), 404),
        (served.client("mk_nobody_at_all"), 401),
    ]
    for stranger, status in strangers:
        listed = stranger.get(JOBS, params={"user": "ada"})
        assert (listed.status_code, "talk-0" in listed.text) == (200 if status == 404 else status, False)
        assert stranger.get(JOBS, params={"everybody": True}).status_code == (401 if status == 401 else 403)
        assert stranger.post(f"{JOBS}/talk-0/undo", params={"user": "ada"}).status_code == status
        assert stranger.post(f"{JOBS}/talk-0/forget", params={"user": "ada"}).status_code in (status, 200)
    reader = served.client(served.key_for("ada", tenant=tenant, role="reader"))
    assert len(reader.get(JOBS).json()["jobs"]) == 1
    assert [reader.post(f"{JOBS}/talk-0/{verb}").status_code for verb in ("undo", "forget")] == [403, 403]
    assert core_of(ada) == ["- Lives in Setúbal"]
    assert ada.get(f"{API}/conversations/talk-0").status_code == 200
    head = served.client(served.key_for("head", tenant=tenant, role="admin"))
    assert head.get(JOBS).json()["jobs"] == []
    assert {one["user"] for one in head.get(JOBS, params={"everybody": True}).json()["jobs"]} == {"ada", "ben"}
    assert head.post(f"{JOBS}/talk-0/undo", params={"user": "ada"}).status_code == 200
    assert head.post(f"{JOBS}/talk-0/forget", params={"user": "ben"}).json() == {"removed": ["- Lives in Evora"]}
    assert core_of(ada) == []


def test_the_next_page_of_jobs_is_there_when_the_last_one_of_the_first_is_gone(served, tenant, learn):
    learn(ada="I live in Tomar. | I prefer boats. | I speak Danish.")
    ada = served.client(served.key_for("ada", tenant=tenant))
    first = ada.get(JOBS, params={"limit": 2}).json()
    assert [one["conversation_id"] for one in first["jobs"]] == ["talk-0", "talk-1"]
    assert ada.post(f"{JOBS}/talk-1/forget").status_code == 200
    rest = ada.get(JOBS, params={"limit": 2, "after": first["next"]}).json()
    assert ([one["conversation_id"] for one in rest["jobs"]], rest["next"]) == (["talk-2"], None)
    assert ada.get(JOBS, params={"after": "bm9uZQ"}).status_code == 422
