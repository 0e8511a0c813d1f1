"""An array that is about to be filled in; the same array, its memory found by another core meanwhile, out.

The system gives memory when it is first written to, a page at a time, cleared. Of a first load of many vectors that is
up to a fifth, more where a virtual machine has to ask its host; and it can be done beside reading them.
"""

from __future__ import annotations

import mmap
import sys
import threading
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

WORTH_POPULATING = 8 << 20
"""Bytes below which a thread of its own is not worth it."""

_POPULATE_WRITE = 23  # as Linux 5.14 and later know it; others refuse it, and nothing is lost
# Bytes that are asked for at once: whoever fills the array gets its first pages soon.
_AT_ONCE = 8 << 20


def populate(array: NDArray[Any]) -> threading.Thread | None:
    """Begin to have the memory of an array found; return who does it, None where it is not worth it or cannot be done.

    What the array holds, and whoever writes to it meanwhile, are left alone.
    """
    if array.nbytes < WORTH_POPULATING or sys.platform != "linux":
        return None
    thread = threading.Thread(target=_populate, args=(array,), daemon=True, name="memoranda-populating")
    with suppress(RuntimeError):  # there may be no more threads: then whoever fills the array finds its memory
        thread.start()
        return thread
    return None


def _populate(array: NDArray[Any]) -> None:
    try:
        import ctypes  # which some builds of Python do not have
    except ImportError:
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # Whole pages only: those at the ends may be shared with others.
    start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    for place in range(start, end, _AT_ONCE):
        if advise(place, min(_AT_ONCE, end - place), _POPULATE_WRITE) != 0:
            return
