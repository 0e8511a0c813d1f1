"""Candidates are chosen first in very large collections; every surface can ask for a full comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.retrieval import rank

WORDS = "piano tuner harbour crane lighthouse keeper glaze kiln ferry island".split()


@pytest.fixture(autouse=True)
def everything_is_very_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "_is_worth_choosing", lambda index, limit, stages_from: True)
    monkeypatch.setattr(rank, "_COMPARED", 4)
    monkeypatch.setattr(rank, "_PER_PLACE", 1)


@pytest.fixture
def notes(memory: Memory) -> Memory:
    items = [f"The {one} and the {other} of Tuesday" for one in WORDS for other in WORDS]
    memory.scope(user="ada").remember_many([{"content": item} for item in items], collection="notes")
    return memory


QUERY = "piano and harbour on Tuesday"


@pytest.mark.parametrize("collection", ["notes", None])
def test_python(notes: Memory, collection: str | None) -> None:
    ada = notes.scope(user="ada")
    for expected in (False, True):
        found = ada.recall(QUERY, collection=collection, limit=3, exact=expected).results
        assert [match.why.exact for match in found] == [expected] * 3
        assert found[0].content == "The piano and the harbour of Tuesday"


def test_as_of_a_moment(notes: Memory, clock: Any) -> None:
    clock.advance(60)
    for expected in (False, True):
        found = notes.scope(user="ada").recall(QUERY, collection="notes", as_of=clock.now(), exact=expected, limit=3)
        assert [match.why.exact for match in found.results] == [expected] * 3


def test_the_command_line(notes: Memory, cli: Callable[..., Any]) -> None:
    asked = ("recall", QUERY, "--user", "ada", "--limit", "3")
    assert [match["why"]["exact"] for match in cli(*asked)["results"]] == [False] * 3
    assert [match["why"]["exact"] for match in cli(*asked, "--exact")["results"]] == [True] * 3
