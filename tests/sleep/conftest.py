"""Conversations without a model, on a database file and a fake clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lessons import Talk

import memoranda
from memoranda import Memory
from memoranda.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FakeClock) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "memory.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def talk(memory: Memory) -> Talk:
    return Talk(memory)


class Blocks:
    """Reads and writes the lines of blocks."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __call__(self, block: str = "core", *, user: str = "ada", **more: str) -> list[str]:
        found = self.memory.scope(user=user, **more).blocks.get(block)  # type: ignore[arg-type]
        return [line for line in found.content.split("\n") if line] if found else []

    def write(self, *lines: str, block: Any = "core", user: str = "ada", **more: str) -> None:
        """Write a block as a person does, replacing its content."""
        blocks = self.memory.scope(user=user, **more).blocks
        standing = blocks.get(block)
        blocks.update(block, "\n".join(lines), expected_updated_at=standing.updated_at if standing else None)


@pytest.fixture
def lines(memory: Memory) -> Blocks:
    return Blocks(memory)
