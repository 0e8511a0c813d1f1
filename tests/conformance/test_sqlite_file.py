"""A SQLite file keeps every promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from memoranda.store.base import Store
from memoranda.store.sqlite import SqliteStore
from memoranda.testing.conformance import StoreConformance


class TestSqliteFile(StoreConformance):
    backend: ClassVar = "sqlite"

    @pytest.fixture
    def store(self, reopen_store: Callable[[], Store]) -> Store:
        return reopen_store()

    @pytest.fixture
    def reopen_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: SqliteStore(str(tmp_path / "memory.db"))
