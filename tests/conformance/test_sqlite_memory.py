"""SQLite without a file keeps every promise but to outlive its process."""

from __future__ import annotations

from typing import ClassVar

import pytest

from memoranda.store.sqlite import SqliteStore
from memoranda.testing.conformance import Capability, StoreConformance
from memoranda.testing.conformance.base import ConformanceBase
from memoranda.testing.conformance.facts import ErasurePromises
from memoranda.testing.conformance.requests import AtOncePromises, BatchPromises


class _InMemory(ConformanceBase):
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.RESTART}

    @pytest.fixture
    def store(self) -> SqliteStore:
        return SqliteStore(":memory:")


class TestSqliteMemory(_InMemory, AtOncePromises, BatchPromises, ErasurePromises):
    """What differs from a file: readers and writers share one connection, and there is no file to rewrite."""


@pytest.mark.deep
class TestWholeSqliteMemory(_InMemory, StoreConformance):
    pass
