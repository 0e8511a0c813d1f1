"""Learning and contexts through the client: objects of any provider, and the same results as the engine's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

import memoranda


@dataclass
class Said:
    role: str
    content: str


class Dumped:
    """A message as pydantic has it."""

    def model_dump(self, *, mode: str = "python") -> dict[str, Any]:
        assert mode == "json"
        return {"type": "human", "content": "I prefer trains to planes."}


def test_a_conversation_is_learned_corrected_told_and_undone(client: memoranda.Client) -> None:
    first = client.learn(
        [Said("user", "I live in Porto."), Dumped(), "ok"], conversation="c1", at="2024-03-01T10:00:00Z"
    )
    assert [lesson.text for lesson in first.added] == ["Lives in Porto", "Prefers trains to planes"]
    moved = client.learn(
        {"role": "user", "content": "I moved to Faro.", "at": datetime(2024, 6, 1, tzinfo=UTC)}, conversation="c2"
    )
    assert [lesson.text for lesson in moved.replaced] == ["Lives in Faro"]
    told = client.context("where does she live?", budget=300)
    assert told.items[0].text == "Lives in Faro"
    assert told.tokens <= 300
    assert client.collections.undo(moved).refs == (moved.replaced[0].replaced,)
    assert client.context("where does she live?").items[0].text == "Lives in Porto"


def test_errors_are_those_of_the_engine(client: memoranda.Client) -> None:
    with pytest.raises(memoranda.InvalidValue) as bad:
        client.learn([{"role": "user", "content": "fine"}, {"words": "?"}])
    assert bad.value.details["path"] == "$[1]"
    with pytest.raises(memoranda.NotFound):
        client.context("x", definitions=["nowhere"])
    assert client.learn([]).messages == ()
