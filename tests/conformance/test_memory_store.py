"""The reference store keeps every promise but to outlive its process."""

from __future__ import annotations

from typing import ClassVar

import pytest

from memoranda.store.memory import MemoryStore
from memoranda.testing.conformance import Capability, StoreConformance


class TestMemoryStore(StoreConformance):
    backend: ClassVar = "memory"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.RESTART}

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
