"""Fixtures for the checklist: a memory with a fake clock, agents of a few lines, and a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any

import pytest

import memoranda
from memoranda.abl import Agent
from memoranda.abl.checker.check import check_source
from memoranda.agent.models import Ask, Reply
from memoranda.api.memory import Memory
from memoranda.testing import FakeClock

Load = Callable[..., Agent]
HEAD = 'AGENT: Clerk\nGOAL: "Help visitors"\n'


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


def whole(text: str) -> str:
    """Return the source of an agent, with a header added unless it has one."""
    text = dedent(text)
    return text if text.lstrip().startswith(("AGENT:", "SUPERVISOR:")) else HEAD + text


@pytest.fixture
def load(memory: Memory) -> Load:
    """Return a function that loads an agent from the sections that matter to a test."""

    def load(text: str, **options: Any) -> Agent:
        return memoranda.abl.load(whole(text), **{"memory": memory, **options})

    return load


@pytest.fixture
def load_unchecked(load: Load, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that loads an agent despite its `ACCESS` errors, so that they occur at run time."""

    def check(text: str, **options: Any) -> Any:
        reading, programs, diagnostics = check_source(text, **options)
        assert any(one.code == "access" for one in diagnostics), "the checker has nothing against it: use `load`"
        return reading, programs, tuple(one for one in diagnostics if one.code != "access")

    def load_it(text: str, **options: Any) -> Agent:
        with monkeypatch.context() as patched:
            patched.setattr("memoranda.abl.agent.check_source", check)
            return load(text, **options)

    return load_it


class Puppet:
    """A model that gives scripted replies and records its requests."""

    name = "puppet"

    def __init__(self, *replies: Reply | str) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        if ask.schema is not None:
            return Reply(value={})
        self.asked.append(ask)
        reply = self.replies.pop(0) if self.replies else "Fine."
        return Reply(text=reply) if isinstance(reply, str) else reply


@pytest.fixture
def puppet() -> type[Puppet]:
    return Puppet
