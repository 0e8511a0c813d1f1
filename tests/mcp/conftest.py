"""One database and two `memoranda mcp` processes on it: Ada's, with an agent, and a read-only one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_client import Talk, started

import memoranda
from memoranda.testing.conformance.base import EMBEDDER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def memory(folder: Path) -> Iterator[memoranda.Memory]:
    with memoranda.open(folder / "memory.db", embedder=EMBEDDER) as memory:
        yield memory


@pytest.fixture(scope="module")
def options(folder: Path, memory: memoranda.Memory) -> tuple[str, ...]:
    """Options that start a server on the same database."""
    return ("--db", str(folder / "memory.db"), "--embedder", EMBEDDER, "--user", "ada")


@pytest.fixture(scope="module")
def ada(folder: Path, options: tuple[str, ...]) -> Iterator[Talk]:
    complaints = folder / "ada.txt"
    with started(*options, "--agent", "desk", complaints=complaints) as talk:
        yield talk
    assert complaints.read_text() == ""


@pytest.fixture(scope="module")
def reader(folder: Path, options: tuple[str, ...]) -> Iterator[Talk]:
    complaints = folder / "reader.txt"
    with started(*options, "--read-only", complaints=complaints) as talk:
        yield talk
    assert complaints.read_text() == ""
