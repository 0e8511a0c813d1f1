"""SQLite without a file keeps every promise but to outlive its process."""

from __future__ import annotations

from typing import ClassVar

import pytest

from memoranda.store.sqlite import SqliteStore
from memoranda.testing.conformance import Capability, StoreConformance


class TestSqliteMemory(StoreConformance):
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.RESTART}

    @pytest.fixture
    def store(self) -> SqliteStore:
        return SqliteStore(":memory:")
