"""The words for types: the checker knows those that signatures and fields know, and no others."""

from __future__ import annotations

from memoranda.abl import check
from memoranda.abl.keywords import TYPE_NAMES
from memoranda.abl.tools.parameters import type_schema
from memoranda.abl.understanding.fields import read_shape


def _codes(word: str) -> list[str]:
    return [one.code for one in check(f"TOOLS:\n  weigh(parcel: {word})\n", fragment=True)]


def test_a_word_that_a_signature_understands_is_a_known_type() -> None:
    assert {word: codes for word in TYPE_NAMES if (codes := _codes(word))} == {}
    assert _codes("hullabaloo") == ["unknown_type"]


def test_a_signature_and_a_field_mean_the_same_by_a_word() -> None:
    numbers = [word for word, name in TYPE_NAMES.items() if name == "number"]
    assert {type_schema(word)["type"] for word in numbers} == {"number"}
    assert {read_shape(word).kind for word in numbers} == {"number"}
    assert "money" in numbers and type_schema("hullabaloo") == {}
