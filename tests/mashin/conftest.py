"""Fixtures for machines: a memory with a fake clock, short machines, and test doubles that count calls."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

import memoranda
from memoranda.agent.models import Ask, Reply
from memoranda.api.memory import Memory
from memoranda.mashin import Machine
from memoranda.model.entry import Calibration
from memoranda.retrieval.embed.base import Vectors
from memoranda.testing import FakeClock
from memoranda.testing.conformance.base import WatchedEmbedder

Load = Callable[..., Machine]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def memory(clock: FakeClock, embedder: WatchedEmbedder) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock, embedder=embedder) as memory:
        yield memory


def whole(text: str, name: str = "desk") -> str:
    """Return a text as a machine of this name, unless it is one already."""
    text = dedent(text).strip("\n")
    return text if re.search(r"^machine ", text, re.M) else f"machine {name}\n{indent(text, '  ')}\n"


@pytest.fixture
def write() -> Callable[..., str]:
    """Return a function that builds the source of a machine from the sections that matter to a test."""
    return whole


@pytest.fixture
def load(memory: Memory) -> Load:
    """Return a function that loads a machine from the sections that matter to a test."""

    def load(text: str, *, name: str = "desk", **options: Any) -> Machine:
        return memoranda.mashin.load(whole(text, name), **{"memory": memory, **options})

    return load


class Scripted:
    """A model that gives scripted replies in order, and records its requests."""

    name = "scripted:model"

    def __init__(self, *replies: Reply | Exception | Mapping[str, Any] | str, again: bool = False) -> None:
        """Take the replies; with `again`, the last one is repeated forever."""
        self.replies = list(replies)
        self.again = again
        self.asked: list[Ask] = []

    @property
    def tasks(self) -> list[str]:
        return [ask.messages[0].text for ask in self.asked]

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        assert self.replies, "the model was asked once more than it has replies"
        reply = self.replies[0] if self.again and len(self.replies) == 1 else self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return Reply(text=reply, tokens_in=3, tokens_out=2)
        return reply if isinstance(reply, Reply) else Reply(value=dict(reply), tokens_in=3, tokens_out=2)


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


class Table:
    """An embedder that looks up the similarity of each text to all queries, from 0 to 1, in a table."""

    id, dimension, calibration = "table", 2, Calibration(middle=0.5, steepness=10.0)

    def __init__(self, near: Mapping[str, float]) -> None:
        """Take the similarities; texts without one are queries."""
        self._near = dict(near)

    def embed(self, texts: Sequence[str]) -> Vectors:
        near = [self._near.get(text, 1.0) for text in texts]
        return np.array([[one, math.sqrt(1.0 - one * one)] for one in near], dtype=np.float32)


@pytest.fixture
def table() -> type[Table]:
    return Table


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return str(tmp_path / "memory.db")
