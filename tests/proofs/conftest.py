"""Fixtures for the proofs: the depth of a run, and databases of each store."""

from __future__ import annotations

import os
from pathlib import Path

import machines
import postgres_server
import pytest

BACKENDS = ("sqlite", "postgres")


@pytest.fixture
def deep() -> bool:
    """Whether this run goes to full depth (`make fuzz`)."""
    return os.environ.get("MEMORANDA_DEPTH") == "deep"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return str(tmp_path / "memory.db")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The store that a test runs on; it runs once on each."""
    return request.param


@pytest.fixture
def address(backend: str, request: pytest.FixtureRequest) -> str:
    """The address of an empty database of the store that the test runs on."""
    return request.getfixturevalue("database" if backend == "postgres" else "path")


@pytest.fixture(scope="session")
def machines_on_postgres(postgres: postgres_server.PostgresServer) -> None:
    """Give the state machines their server: Hypothesis makes them, and asks for no fixtures."""
    machines.OnPostgres.server = postgres
