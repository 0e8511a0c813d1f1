"""Learning and contexts over REST: whose memory it is comes from the key, and bad requests change nothing."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx
import pytest

API = "/api/v1/memory"
_users = count(1)


@pytest.fixture
def ada(served) -> httpx.Client:
    """A user that no other test has."""
    return served.client(served.key_for(f"learner-{next(_users)}"))


def learn(client: httpx.Client, *messages: Any, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/learn", json={"messages": list(messages), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def say(text: str, at: str = "2024-03-01T10:00:00Z") -> dict[str, Any]:
    return {"role": "user", "content": text, "at": at}


def tell(client: httpx.Client, query: str, **more: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/context", json={"query": query, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_is_learned_is_told_and_corrected(ada: httpx.Client) -> None:
    first = learn(ada, say("I live in Porto."), {"role": "assistant", "content": "Nice!"}, conversation="c1")
    assert [lesson["verdict"] for lesson in first["lessons"]] == ["added"]
    again = learn(ada, say("I live in Porto."), {"role": "assistant", "content": "Nice!"}, conversation="c1")
    assert (again["messages"], again["known_messages"]) == ([], 2)
    moved = learn(ada, say("I moved to Faro.", "2024-06-01T10:00:00Z"), conversation="c2")
    assert [lesson["verdict"] for lesson in moved["lessons"]] == ["replaced"]
    told = tell(ada, "where does she live?", budget=400)
    assert told["items"][0]["text"] == "Lives in Faro"
    assert told["tokens"] <= 400
    assert "Lives in Faro" in told["text"]
    undone = ada.post(f"{API}/undo", json={"token": moved["undo"][0]})
    assert undone.status_code == 200, undone.text
    assert tell(ada, "where does she live?")["items"][0]["text"] in ("Lives in Porto", "I live in Porto.")


def test_nobody_learns_for_another(served, ada: httpx.Client) -> None:
    learn(ada, say("I live in Porto."))
    bob = served.client(served.key_for(f"learner-{next(_users)}"))
    assert tell(bob, "where does she live?")["items"] == []
    assert tell(ada, "where does she live?")["items"]
    stolen = bob.post(f"{API}/learn", params={"scope": "user:ada"}, json={"messages": ["I live in Rome."]})
    assert stolen.status_code == 422
    reader = served.client(served.key_for(f"learner-{next(_users)}", role="reader"))
    assert reader.post(f"{API}/learn", json={"messages": ["I live in Rome."]}).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"messages": [{"speaker": "x"}]}, 422),
        ({"messages": [{"role": "user", "content": 7}]}, 422),
        ({"messages": [{"role": "user", "content": "x", "at": "soon"}]}, 422),
        ({"messages": ["fine"], "conversation": ""}, 422),
        ({"messages": "fine"}, 422),
        ({"messages": ["fine"], "user": "bob"}, 422),
        ({}, 422),
    ],
)
def test_bad_messages_are_refused_as_a_whole(ada: httpx.Client, body: dict[str, Any], status: int) -> None:
    learn(ada, say("I live in Porto."))
    bad = body | (
        {"messages": [say("I live in Rome."), *body["messages"]]} if isinstance(body.get("messages"), list) else {}
    )
    answer = ada.post(f"{API}/learn", json=bad)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"]
    assert tell(ada, "where does she live?")["items"][0]["text"] in ("Lives in Porto", "I live in Porto.")


@pytest.mark.parametrize(
    "body", [{"budget": -1}, {"kinds": ["thing"]}, {"threshold": 2}, {"limit": -1}, {"agent": "x"}]
)
def test_bad_questions_for_a_context_are_refused(ada: httpx.Client, body: dict[str, Any]) -> None:
    assert ada.post(f"{API}/context", json={"query": "x", **body}).status_code == 422
    assert ada.post(f"{API}/context", json={"query": "x"}).status_code == 200
    missing = ada.post(f"{API}/context", json={"query": "x", "definitions": ["nowhere"]})
    assert missing.status_code == 404
