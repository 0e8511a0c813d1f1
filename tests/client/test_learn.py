"""Learning and contexts through the client: objects of any provider, and the same results as the engine's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

import memoranda

_numbers = count(1)


@dataclass
class Said:
    role: str
    content: str


class Dumped:
    """A message as pydantic has it."""

    def model_dump(self, *, mode: str = "python") -> dict[str, Any]:
        assert mode == "json"
        return {"type": "human", "content": "I prefer trains to planes."}


@pytest.fixture
def mara(connect: Any, served: Any) -> Any:
    return connect(served.url, served.key("mara", tenant=f"talks-{next(_numbers)}"))


def test_a_conversation_is_learned_corrected_told_and_undone(mara: Any) -> None:
    first = mara.learn([Said("user", "I live in Porto."), Dumped(), "ok"], conversation="c1", at="2024-03-01T10:00:00Z")
    assert [lesson.text for lesson in first.added] == ["Lives in Porto", "Prefers trains to planes"]
    moved = mara.learn(
        {"role": "user", "content": "I moved to Faro.", "at": datetime(2024, 6, 1, tzinfo=UTC)}, conversation="c2"
    )
    assert [lesson.text for lesson in moved.replaced] == ["Lives in Faro"]
    told = mara.context("where does she live?", budget=300)
    assert told.items[0].text == "Lives in Faro"
    assert told.tokens <= 300
    assert mara.collections.undo(moved).refs == (moved.replaced[0].replaced,)
    assert mara.context("where does she live?").items[0].text in ("Lives in Porto", "I live in Porto.")


def test_what_is_trusted_less_is_left_out_where_that_is_asked_for(mara: Any) -> None:
    said = [{"role": "user", "content": "I live in Porto."}, {"role": "assistant", "content": "Porto it is."}]
    mara.learn(said, conversation="c1")
    for options, kinds in (({}, {"user", "assistant"}), ({"min_trust": "high"}, {"user"})):
        found = mara.collections.recall("Porto", limit=9, **options)
        assert {(match.origin.kind, match.corroboration) for match in found.results} == {(kind, 1) for kind in kinds}
        found = mara.collections.recall("Porto", collection="conversations", **options)
        assert {match.origin.kind for match in found.results} == kinds
        assert {item.origin.kind for item in mara.context("Porto", **options).items} == kinds
    for call in (mara.collections.recall, mara.context):
        with pytest.raises(memoranda.UsageError):
            call("Porto", min_trust="some")


def test_errors_are_those_of_the_engine(mara: Any) -> None:
    with pytest.raises(memoranda.InvalidValue) as bad:
        mara.learn([{"role": "user", "content": "fine"}, {"words": "?"}])
    assert bad.value.details["path"] == "$[1]"
    with pytest.raises(memoranda.NotFound):
        mara.context("x", definitions=["nowhere"])
    assert mara.learn([]).messages == ()
