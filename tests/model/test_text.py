"""Names that people and programs give, and values in error messages."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.names import why_not_a_name
from memoranda.model.text import escape_hidden, quote


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


ORDERS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")
"""A sentence in tags, which no screen shows and some models read."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"tea{ORDERS[0]}", "tea\\U000e006f"),
        ("\u202etxt\u202c", "\\u202etxt\\u202c"),
        ("\u2066a\u2069\u200e\u200f\u061c", "\\u2066a\\u2069\\u200e\\u200f\\u061c"),
        ("a\u200bb\u200cc\u200dd\ufeff\u2060\xad", "a\\u200bb\\u200cc\\u200dd\\ufeff\\u2060\\xad"),
        ("x\ufe0f\ufe01y\U000e01ef", "x\\ufe0f\\ufe01y\\U000e01ef"),
        ("🙂\ufe0f\ufe0f\U000e0100", "🙂\ufe0f\\ufe0f\\U000e0100"),
        ("🙂\u200d\u200d🙂", "🙂\\u200d\\u200d🙂"),
        ("🏴" + ORDERS[:3] + "\U000e007f", "🏴\\U000e006f\\U000e0062\\U000e0065\\U000e007f"),
        ("\x1b[2J\x00\x7f\x85\x9b", "\\x1b[2J\\x00\\x7f\\x85\\x9b"),
        ("a\rb", "a\\rb"),
        ("\u115f\u3164\uffa0\u034f\u17b4\u2065\ufff9", "\\u115f\\u3164\\uffa0\\u034f\\u17b4\\u2065\\ufff9"),
        ("\u0645\u06cc\u200c\u200c\u062e\u0648\u0627", "\u0645\u06cc\\u200c\\u200c\u062e\u0648\u0627"),
    ],
)
def test_what_nobody_sees_is_written_out(text: str, shown: str) -> None:
    assert escape_hidden(text) == shown
    assert escape_hidden(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain text,\n\twith lines\r\n",
        "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 🧔🏻\u200d♂\ufe0f",
        "1\ufe0f\u20e3 #\ufe0f\u20e3 ☎\ufe0e 🇵🇹",
        "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627",
        "क्\u200dष र्\u200dय ശ്രീ ന്\u200d क्\u200cष",
        "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628 12",
        "\u0600\u0661 \u06dd",
        "ᠠ\u180b ᠭ\u180d",
        "e\u0301 日本 \xa0",
    ],
)
def test_what_belongs_to_the_writing_stays(text: str) -> None:
    assert escape_hidden(text) == text


@given(st.text())
def test_the_hidden_comes_back_from_how_it_is_written(text: str) -> None:
    written = escape_hidden(text.replace("\ue000", ""), lambda sign: f"\ue000{ord(sign):x}\ue000")
    back = re.sub("\ue000([0-9a-f]+)\ue000", lambda found: chr(int(found[1], 16)), written)
    assert back == text.replace("\ue000", "")
