"""A server with agents to chat with: one that repeats, and two whose model is on the loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai_server
import pytest

AGENTS = """
[agents.keeper]
model = "openai-chat:made-up"
instructions = "You keep the keys of a boathouse."

[agents.clerk]
model = "openai-chat:made-up"

[agents.parrot]
model = "demo:parrot"

[agents.eager]
model = "demo:parrot"
memory_policy = {archival_mode = "auto", archival_limit = 1}
"""
TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def provider() -> Iterator[Any]:
    """The provider of the model."""
    with openai_server.OpenAIServer() as one:
        yield one


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, provider: Any, serving: Any) -> Iterator[Any]:
    """One server with agents for all tests of a file."""
    folder = tmp_path_factory.mktemp("chat")
    (folder / "chat.toml").write_text(AGENTS)
    with serving(
        folder / "memory.db",
        MEMORANDA_AGENTS=str(folder),
        OPENAI_BASE_URL=provider.url,
        OPENAI_API_KEY="sk-made-up-for-tests",
    ) as one:
        yield one


class Talk:
    """One user's side of one conversation."""

    def __init__(self, client: httpx.Client, id: str) -> None:
        self.client = client
        self.id = id
        self.said = 0

    def send(self, message: str, agent: str = "keeper", **more: Any) -> httpx.Response:
        """Send a message; the response is one JSON object unless `stream` says otherwise."""
        self.said += 1
        body = {"message": message, "conversation_id": self.id, "message_id": f"m{self.said}", "stream": False}
        return self.client.post(f"/api/v1/agent/{agent}/chat", json=body | more)

    def say(self, message: str, agent: str = "keeper", **more: Any) -> dict[str, Any]:
        """Send a message and return the answer."""
        answer = self.send(message, agent, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def preview(self, message: str, agent: str = "keeper", **more: Any) -> dict[str, Any]:
        """Return the prompt of a message."""
        answer = self.client.post(f"/api/v1/agent/{agent}/prompts/preview", json={"message": message} | more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def write(self, block: str, content: str, agent: str | None = None) -> None:
        """Write a block, replacing its content."""
        where = {"scope": "agent", "agent_id": agent} if agent else {}
        path = f"/api/v1/memory/blocks/{block}"
        found = self.client.get(path, params=where)
        stamp = found.json()["updated_at"] if found.status_code == 200 else None
        answer = self.client.put(path, params=where, json={"content": content, "expected_updated_at": stamp})
        assert answer.status_code == 200, answer.text


@pytest.fixture
def talk(someone: httpx.Client) -> Talk:
    """A conversation of a user that no other test uses."""
    return Talk(someone, "c1")


def events_of(body: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the events of a stream as id, name and data."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    for block in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


@pytest.fixture
def events() -> Any:
    """Return the function that reads a stream."""
    return events_of
