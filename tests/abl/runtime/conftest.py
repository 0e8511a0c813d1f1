"""Load agents of a few lines, and talk to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda import Memory
from memoranda.abl import Agent, Session, Turn
from memoranda.testing import FakeClock

Load = Callable[..., Agent]
Talk = Callable[..., list[list[str]]]
Told = Callable[[Turn, str], list[str]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


def source(*parts: str, name: str = "Desk", kind: str = "AGENT") -> str:
    """Return the source of an agent: its name and goal, and the parts that a test adds."""
    return "\n".join([f"{kind}: {name}", 'GOAL: "Serve whoever comes"', *map(dedent, parts)])


@pytest.fixture
def load(memory: Memory) -> Load:
    """Return a function that loads an agent from the lines after its name and goal."""

    def load(*parts: str, name: str = "Desk", kind: str = "AGENT", on: Memory = memory, **options: Any) -> Agent:
        return memoranda.abl.load(source(*parts, name=name, kind=kind), memory=on, **options)

    return load


@pytest.fixture
def write() -> Callable[..., str]:
    """Return a function that builds the source of an agent, for tests that load it themselves."""
    return source


@pytest.fixture
def talk() -> Talk:
    """Return a function that says several things in a row and returns the answer to each."""

    def talk(session: Session, *said: str) -> list[list[str]]:
        return [session.say(text).messages for text in said]

    return talk


@pytest.fixture
def told() -> Told:
    """Return a function that renders the trace entries of one kind in a turn."""

    def told(turn: Turn, kind: str) -> list[str]:
        return [str(entry) for entry in turn.trace if entry.kind == kind]

    return told
