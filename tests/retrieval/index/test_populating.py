"""Memory that is found beforehand: the array keeps what it holds, and what is not worth it or not known is left."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from recollect.retrieval.index import populating
from recollect.retrieval.index.populating import WORTH_POPULATING, populate
from recollect.retrieval.index.vectors import VectorTable

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="how it is asked for is known of Linux only")


def resident() -> int:
    """Return how many bytes of memory this process has been given."""
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10


@LINUX
def test_memory_is_there_before_anybody_writes():
    size = 8 * WORTH_POPULATING
    array = np.empty(size, np.uint8)
    before = resident()
    thread = populate(array)
    assert thread is not None
    thread.join(60)
    assert resident() - before > size // 2


@LINUX
def test_what_is_written_before_and_meanwhile_stays():
    array = np.empty(WORTH_POPULATING, np.float32)
    array[: len(array) // 2] = 7
    thread = populate(array)
    array[len(array) // 2 :] = 8
    assert thread is not None
    thread.join(60)
    assert (array[: len(array) // 2] == 7).all() and (array[len(array) // 2 :] == 8).all()


@LINUX
def test_a_system_that_does_not_know_it_is_asked_once_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(populating, "_POPULATE_WRITE", 9_999)
    array = np.full(WORTH_POPULATING, 7, np.uint8)
    thread = populate(array)
    assert thread is not None
    thread.join(60)
    assert (array == 7).all()


def test_little_is_not_worth_a_thread():
    assert populate(np.empty(WORTH_POPULATING - 1, np.uint8)) is None


def test_a_table_asks_for_what_is_about_to_come_and_for_no_room_beyond(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    monkeypatch.setattr("recollect.retrieval.index.vectors.populate", lambda array: asked.append(len(array)))
    table = VectorTable(4)
    table.reserve(1_000)
    table.append_matrix(np.full((1_000, 4), 0.5, np.float32))
    table.append_matrix(np.full((1, 4), 0.5, np.float32))
    assert asked == [1_000, 1]
    assert len(table._matrix) > 1_001
