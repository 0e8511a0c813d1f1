"""The tables of words and the sample that has all of them agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.lang.yaml import YamlNode
from memoranda.workflow.keywords import LEVELS, VARIABLES, homes
from memoranda.workflow.parser import read_source

EVERYTHING = (Path(__file__).parent / "samples" / "everything.yaml").read_text()


def words(node: YamlNode | None) -> set[str]:
    if node is None:
        return set()
    found = {node.scalar} if node.scalar else set[str]()
    for item in node.items or ():
        found |= words(item)
    for key, value in node.entries or ():
        found |= words(key) | words(value)
    return found


@pytest.mark.parametrize("name", [name for name, level in LEVELS.items() if level is not VARIABLES])
def test_the_sample_has_every_word_of_a_place(name: str) -> None:
    # A branch that always waits for all is what a `parallel` is without a word.
    missing = set(LEVELS[name].names) - words(read_source(EVERYTHING).lines) - {"wait_all"}
    assert missing == set()


def test_the_sample_has_every_variable_but_the_rare_one() -> None:
    assert [name for name in VARIABLES.names if f"${name}" not in EVERYTHING] == ["result"]


def test_every_word_says_what_it_means_and_stands_once_at_a_place() -> None:
    for level in LEVELS.values():
        assert all(keyword.meaning for keyword in level.keywords)
        assert len(level.names) == len(level.keywords)


def test_a_word_is_found_where_it_stands() -> None:
    assert homes("max_attempts") == ["`retries`"]
    assert homes("nobody") == []
