"""A memory in a real file, a fake clock, and a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.chat.agent import Agent
from memoranda.chat.turn import Turn, chat
from memoranda.testing import FakeClock


class Scripted:
    """A model that gives scripted replies, one per request, and records its requests.

    A reply that is callable is called first, with the request, to simulate what happens while the model thinks.
    """

    name = "made:up"

    def __init__(self, *replies: Reply | Exception | str | Callable[[Ask], Any]) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        reply: Any = self.replies.pop(0)
        if callable(reply):
            reply = reply(ask)
        if isinstance(reply, BaseException):
            raise reply
        return Reply(reply, tokens_in=10, tokens_out=2) if isinstance(reply, str) else reply

    @property
    def shown(self) -> str:
        """Everything that the model was sent with the last request."""
        ask = self.asked[-1]
        return "\n".join([ask.instructions, *(said.text for said in ask.messages)])


def wants(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """Return a reply that calls tools."""
    made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(calls))
    return Reply(text, made, tokens_in=10, tokens_out=2)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[memoranda.Memory]:
    with memoranda.open(tmp_path / "chat.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def call() -> Callable[..., Reply]:
    return wants


@pytest.fixture
def gardener() -> Agent:
    """Return the agent that most of these tests chat with."""
    return Agent(id="gardener", instructions="You look after an allotment.")


Say = Callable[..., Turn]


@pytest.fixture
def say(memory: memoranda.Memory, gardener: Agent) -> Say:
    """Return a function that sends a message in one conversation, with increasing message ids."""
    numbers = iter(range(1, 1_000_000))

    def spoken(message: str, *replies: Any, **options: Any) -> Turn:
        agent = options.pop("agent", gardener)
        model = options.pop("model", None) or Scripted(*replies)
        options.setdefault("message_id", f"m{next(numbers)}")
        options.setdefault("conversation_id", "c1")
        options.setdefault("user", "ada")
        return chat(memory, agent, message, model=model, **options)

    return spoken


@pytest.fixture
def write(memory: memoranda.Memory) -> Callable[..., memoranda.Block]:
    """Return a function that writes a block of Ada's, replacing its content."""

    def written(block: Any, content: str, *, agent: str | None = None, user: str = "ada") -> memoranda.Block:
        place = memory.scope(user=user) if agent is None else memory.scope(user=user, agent=agent)
        standing = place.blocks.get(block)
        return place.blocks.update(block, content, expected_updated_at=standing.updated_at if standing else None)

    return written
