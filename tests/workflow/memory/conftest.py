"""Fixtures for the memory of runs: a choir's memory with a fake clock, and a definition for each scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memoranda
from memoranda.api.memory import Memory
from memoranda.model.definition import Definition
from memoranda.runs.records import WorkingMemory, load_memory
from memoranda.testing import FakeClock

COUNT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

Define = Callable[..., Definition]
Load = Callable[..., WorkingMemory]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(":memory:", clock=clock) as memory:
        yield memory


@pytest.fixture
def define(memory: Memory) -> Define:
    """Return a function that makes a definition from a slug and what matters to a test."""

    def define(slug: str, **options: Any) -> Definition:
        name = slug.replace("_", " ").title()
        return memory.definitions.create(**{"name": name, "slug": slug, "schema": COUNT, **options})

    return define


@pytest.fixture
def load(memory: Memory) -> Load:
    """Return a function that loads the working memory of a run, by default Ada's."""

    def load(*definitions: Definition, **options: Any) -> WorkingMemory:
        ids = [definition.id for definition in definitions]
        usual: dict[str, Any] = {"owner": "ada", "workflow": "w1", "thread": "t1", "run": "r1"}
        return load_memory(memory, **{"definition_ids": ids, **usual, **options})

    return load


@pytest.fixture
def scoped(define: Define) -> list[Definition]:
    """One definition for each scope of a run: `everywhere`, `course`, `talk` and `scratch`."""
    return [
        define("everywhere"),
        define("course", scope="workflow"),
        define("talk", scope="thread"),
        define("scratch", scope="run"),
    ]
