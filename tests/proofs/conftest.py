"""Fixtures for the proofs: the depth of a run, and a database file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def deep() -> bool:
    """Whether this run goes to full depth (`make fuzz`)."""
    return os.environ.get("MEMORANDA_DEPTH") == "deep"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return str(tmp_path / "memory.db")
