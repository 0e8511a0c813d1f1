"""Break indexes on purpose, so that tests can show that checks notice it."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.engine import indexes
from memoranda.model.entry import ShelfState


def follow_no_removals(patch: pytest.MonkeyPatch) -> None:
    """Make indexes follow additions to their shelves, but not removals."""
    follow = indexes._follow

    def follow_only_additions(held: Any, rows: Any, shelf: Any, state: ShelfState) -> None:
        follow(held, rows, shelf, ShelfState(state.newest, held.state.removed))

    patch.setattr(indexes, "_follow", follow_only_additions)
