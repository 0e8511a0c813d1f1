"""The tables of words agree with the parser."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.mashin.keywords import CAPABILITIES, LEVELS, SECTIONS, capability, homes

EVERYTHING = (Path(__file__).parent / "samples" / "everything.mashin").read_text()
UNUSED = {"provides", "of", "if", "else", "else if"}


VALUES = ("capability", "type", "field", "guards", "on_violation")


@pytest.mark.parametrize("level", [name for name in LEVELS if name not in VALUES])
def test_the_sample_with_everything_uses_every_word(level: str) -> None:
    words = " ".join(EVERYTHING.split())
    assert [one.name for one in LEVELS[level].keywords if one.name not in words and one.name not in UNUSED] in (
        [],
        ["callback"],
    )


def test_words_of_one_level_are_different_and_explained() -> None:
    for level in LEVELS.values():
        assert len(set(level.names)) == sum(1 + len(one.aliases) for one in level.keywords)
        assert all(one.meaning for one in level.keywords)


def test_a_capability_has_one_name() -> None:
    assert capability("reason") == capability("compute.llm.reason") == capability("llm_call") == "llm_call"
    assert capability("net.http") == capability("http_request") == "http"
    assert capability("memory.read") != capability("memory")
    assert capability("memry") is None
    assert CAPABILITIES.find("memory") is not None


def test_a_word_knows_where_it_stands() -> None:
    assert homes("permissions") == ["in `ensures`"]
    assert homes("nothing_of_it") == []
    assert SECTIONS.find("responds with") is not None
