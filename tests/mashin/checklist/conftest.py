"""The machines of the samples, each in its own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def sample() -> Callable[[str], str]:
    """Return a function that reads a sample by name."""
    return lambda name: (SAMPLES / f"{name}.mashin").read_text()
