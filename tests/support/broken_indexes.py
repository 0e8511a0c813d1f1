"""A monkeypatch in; indexes with a mistake out, which checks have to find."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.engine import indexes
from memoranda.model.entry import ShelfState


def follow_no_removals(patch: pytest.MonkeyPatch) -> None:
    """Let indexes follow what is added to their shelves, and nothing that is taken away."""
    follow = indexes._follow

    def follow_only_additions(held: Any, rows: Any, shelf: Any, state: ShelfState) -> None:
        follow(held, rows, shelf, ShelfState(state.newest, held.state.removed))

    patch.setattr(indexes, "_follow", follow_only_additions)
