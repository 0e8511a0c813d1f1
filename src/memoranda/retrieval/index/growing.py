"""Numbers by row, to which more are added: one array that grows by half of itself when it is full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_FEWEST = 16


class Growing:
    """A column of numbers. `rows` is a view of it, good until the next change."""

    __slots__ = ("_filled", "_room")

    def __init__(self, dtype: DTypeLike) -> None:
        """Start without rows."""
        self._room: NDArray[Any] = np.empty(_FEWEST, dtype)
        self._filled = 0

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self._filled

    @property
    def rows(self) -> NDArray[Any]:
        """The numbers, which may be changed in place."""
        return self._room[: self._filled]

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self._room.nbytes

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Add rows with these values."""
        end = self._filled + len(values)
        if end > len(self._room):
            room = np.empty(max(end, len(self._room) * 3 // 2), self._room.dtype)
            room[: self._filled] = self.rows
            self._room = room
        if len(values) == 1:
            self._room[self._filled] = values[0]
        else:
            self._room[self._filled : end] = values
        self._filled = end

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Let only these rows stay, numbered anew in the order given."""
        self._room = self._room[rows]
        self._filled = len(rows)
        if not self._filled:
            self._room = np.empty(_FEWEST, self._room.dtype)
