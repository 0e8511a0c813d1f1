"""The machines of the samples, each in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def sample() -> Callable[[str], str]:
    """Return how to read a sample by its name."""
    return lambda name: (SAMPLES / f"{name}.mashin").read_text()
