"""Names that people and programs give, and values in error messages."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.text import quote, why_not_a_name


@pytest.mark.parametrize("name", ["a", "A b", "ada@example.org", "é", "日本", "🧠", "a'b", "x" * 256, "%", "1+1=2"])
def test_visible_text_is_a_name(name: str) -> None:
    assert why_not_a_name(name, longest=256) is None


def test_what_is_no_text_is_shown_cut() -> None:
    assert why_not_a_name([1, 2], longest=256) == "`[1, 2]` is list, not text"
    assert len(why_not_a_name(list(range(10_000)), longest=256) or "") < 120


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("x" * 257, "257 characters"),
        (" a", "white space"),
        ("a\n", "white space"),
        ("a\u2003", "white space"),
        ("a\0b", "U+0000"),
        ("a\nb", "U+000A"),
        ("a\u202eb", "U+202E"),
        ("a\u200bb", "U+200B"),
        ("a\u00adb", "U+00AD"),
        ("a\U000e0041b", "U+E0041"),
        ("\ud800", "U+D800"),
        ("e\u0301", "normal form"),
        ("\u212b", "normal form"),
        (5, "int"),
        (None, "NoneType"),
        (b"a", "bytes"),
    ],
)
def test_other_text_is_refused_with_a_reason(name: object, why: str) -> None:
    assert why in str(why_not_a_name(name, longest=256))


@given(st.text(max_size=10))
def test_a_name_has_one_form_only(name: str) -> None:
    if why_not_a_name(name, longest=256) is None:
        assert unicodedata.normalize("NFC", name) == name
        assert name == name.strip()
        assert name.isprintable() or any(unicodedata.category(c) in ("Co", "Zs") for c in name)


def test_quote_shows_a_value_in_backticks() -> None:
    assert quote("a") == "`a`"
    assert quote(5) == "`5`"
    assert quote("a\0b") == "`'a\\x00b'`"
    assert quote("\u202e") == "`'\\u202e'`"


@given(st.text() | st.integers() | st.binary())
def test_a_quoted_value_is_short_and_printable(value: object) -> None:
    shown = quote(value, longest=20)
    assert len(shown) <= 23
    assert shown.isprintable()


def test_a_long_value_is_cut() -> None:
    assert quote("x" * 100) == f"`{'x' * 80}…`"
