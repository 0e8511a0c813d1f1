"""A memory with a clock that tests move, agents of a few lines, and a model that follows a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda import Memory
from memoranda.abl import Agent, Turn
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.errors import SourceError
from memoranda.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


@pytest.fixture
def load(memory: Memory) -> Callable[..., Agent]:
    """Return a function that loads an agent from the sections after its name and goal."""

    def load(text: str, *, name: str = "Porter", **options: Any) -> Agent:
        return memoranda.abl.load(f'AGENT: {name}\nGOAL: "Serve"\n{dedent(text)}', memory=memory, **options)

    return load


@pytest.fixture
def faults(load: Callable[..., Agent]) -> Callable[[str], list[str]]:
    """Return a function that tells with which errors an agent is refused; none if it can be loaded."""

    def faults(text: str) -> list[str]:
        try:
            load(text)
        except SourceError as error:
            return [one.code for one in error.diagnostics if one.severity == "error"]
        return []

    return faults


@pytest.fixture
def told() -> Callable[[Turn, str], list[str]]:
    """Return a function that lists what entries of one kind in the trace of a turn are about."""
    return lambda turn, kind: [one.about for one in turn.trace if one.kind == kind]


class Script:
    """A model that gives the replies it was made with, a tool's arguments as `{tool: {…}}`, and keeps its requests."""

    name = "script"

    def __init__(self, *replies: str | dict[str, Any]) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float | None = None) -> Reply:
        if ask.schema is not None:
            return Reply(value={})
        self.asked.append(ask)
        reply = self.replies.pop(0) if self.replies else "Fine."
        if isinstance(reply, str):
            return Reply(reply)
        [(tool, arguments)] = reply.items()
        return Reply("", (ToolCall("1", tool, arguments),))


@pytest.fixture
def script() -> type[Script]:
    return Script
