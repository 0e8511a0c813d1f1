"""Memory that is found beforehand: the array keeps what it holds, and what is not worth it or not known is left."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading

import numpy as np
import pytest

from memoranda.retrieval.index import populating
from memoranda.retrieval.index.populating import WORTH_POPULATING, populate
from memoranda.retrieval.index.vectors import VectorTable

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="how it is asked for is known of Linux only")


def knows() -> bool:
    """Say whether this system is one that can be asked: Linux since 5.14, and not everything that looks like it."""
    if sys.platform != "linux":
        return False
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        held = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)
        place = ctypes.c_void_p(ctypes.addressof(held))
        known = ctypes.CDLL(None).madvise(place, ctypes.c_size_t(mmap.PAGESIZE), populating._POPULATE_WRITE) == 0
        del held
    return known


def resident() -> int:
    """Return how many bytes of memory this process has been given."""
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmRSS:")]
    return int(line.split()[1]) << 10


@pytest.mark.skipif(not knows(), reason="this system does not know how to be asked")
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


@LINUX
def test_where_there_are_no_more_threads_the_array_is_filled_without(monkeypatch: pytest.MonkeyPatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    assert populate(np.empty(WORTH_POPULATING, np.uint8)) is not None
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert populate(np.empty(WORTH_POPULATING, np.uint8)) is None
    table = VectorTable(1_024)
    table.reserve(WORTH_POPULATING // 1_024)
    table.append_matrix(np.full((1, 1_024), 1 / 32, np.float32))
    assert len(table) == 1


@LINUX
def test_a_python_without_ctypes_fills_the_array_without(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ctypes", None)
    array = np.full(WORTH_POPULATING, 7, np.uint8)
    thread = populate(array)
    assert thread is not None
    thread.join(60)
    assert (array == 7).all()


def test_little_is_not_worth_a_thread():
    assert populate(np.empty(WORTH_POPULATING - 1, np.uint8)) is None


def test_a_table_asks_for_what_is_about_to_come_and_for_no_room_beyond(monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    monkeypatch.setattr("memoranda.retrieval.index.vectors.populate", lambda array: asked.append(len(array)))
    table = VectorTable(4)
    table.reserve(1_000)
    table.append_matrix(np.full((1_000, 4), 0.5, np.float32))
    table.append_matrix(np.full((1, 4), 0.5, np.float32))
    assert asked == [1_000, 1]
    assert len(table._matrix) > 1_001
