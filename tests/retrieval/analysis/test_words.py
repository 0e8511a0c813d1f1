"""Split text into words, and list the forms under which each is found."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis.words import LONGEST_WORD, chunks, split


def forms(text: str) -> list[str]:
    """Return every form under which the words of a text are found."""
    return [form for word in split(text) for form in (word.whole, *word.parts) if form]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The harbour, at night!", ["the", "harbour", "at", "night"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9", "caf\u00e9"]),
        ("\uff46\uff55\uff4c\uff4c \ufb01ne", ["full", "fine"]),
        ("well-known state-of-the-art", ["well", "known", "state", "of", "the", "art"]),
        ("end.Start of it", ["end", "start", "of", "it"]),
        ("and/or — yes…no", ["and", "or", "yes", "no"]),
        ("_very_ **bold** `code`", ["very", "bold", "code"]),
        ("@ada #sailing", ["ada", "sailing"]),
        ("", []),
        (" \t\n", []),
        ("… — !? 🙂 👩‍👩‍👧 ___ -.- '", []),
    ],
)
def test_words_are_folded_and_separated(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada's", ["ada"]),
        ("Ada’s", ["ada"]),
        ("the sailors' boats", ["the", "sailors", "boats"]),
        ("we've they'll I'm", ["we", "they", "i"]),
        ("don't", ["dont"]),
        ("O'Brien", ["obrien"]),
        ("l'homme", ["homme"]),
        ("qu’il", ["il"]),
        ("dell'arte", ["arte"]),
        ("'quoted'", ["quoted"]),
        ("_'s l'_", ["s", "l"]),
    ],
)
def test_an_apostrophe_leaves_the_word_that_is_meant(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("INV-2041", "inv-2041", ("inv", "2041")),
        ("inv\u20102041", "inv-2041", ("inv", "2041")),
        ("v2.3.1", "v2.3.1", ("2.3.1",)),
        ("foo_bar", "foo_bar", ("foo", "bar")),
        ("ada@example.org", "ada@example.org", ("ada", "example", "org")),
        ("GPT-4", "gpt-4", ("gpt",)),
        ("3.14", "3.14", ()),
        ("3,14", "3.14", ()),
        ("1,250,000", "1250000", ()),
        ("1,250.75", "1250.75", ()),
        ("C++", "c++", ()),
        ("C#", "c#", ()),
        ("#1234", "#1234", ("1234",)),
        ("node.js", "node.js", ("node", "js")),
        ("R&D", "r&d", ()),
        ("parseConfig", "parseconfig", ("parse", "config")),
        ("getHTTPServer", "gethttpserver", ("get", "http", "server")),
        ("iPhone", "iphone", ()),
        ("10km", "10km", ("10", "km")),
        ("1990s", "1990s", ("1990",)),
        ("3rd", "3rd", ()),
        ("mp3", "mp3", ()),
        ("10:30", "10:30", ()),
        ("10:30am", "10:30am", ()),
        ("2031-04-09", "2031-04-09", ("2031",)),
        ("2031-04-09T07:15:00Z", "2031-04-09", ("2031",)),
        ("4/9/2031", "4/9/2031", ("2031",)),
        ("192.168.0.1", "192.168.0.1", ()),
        ("555-0199", "555-0199", ("555", "0199")),
        ("INV-2041's", "inv-2041", ("inv", "2041")),
        ("\u0663\u0664", "34", ()),  # Arabic-Indic digits
    ],
)
def test_an_identifier_is_kept_whole_with_the_parts_that_find_it(text: str, whole: str, parts: tuple[str, ...]) -> None:
    (word,) = split(f"({text}),")
    assert (word.whole, word.parts) == (whole, parts)


@pytest.mark.parametrize(("text", "parts"), [("e-mail", ("email", "mail")), ("T-shirt", ("tshirt", "shirt"))])
def test_a_letter_with_a_hyphen_is_found_in_both_spellings(text: str, parts: tuple[str, ...]) -> None:
    (word,) = split(text)
    assert (word.whole, word.parts) == ("", parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("東京都", ["東京", "京都"]),
        ("茶", ["茶"]),
        ("猫が好き", ["猫が", "が好", "好き", "猫", "好"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("ｶﾅ", ["カナ"]),
        ("학교에서 집", ["학교", "교에", "에서", "집"]),
        ("iPad2を買う", ["ipad2", "を買", "買う", "買"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("ที่นี่", ["ที่นี่"]),  # two letters with their marks
    ],
)
def test_scripts_without_spaces_become_overlapping_pairs(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी में लिखा।", ["हिन्दी", "में", "लिखा"]),
        ("வணக்கம் உலகம்", ["வணக்கம்", "உலகம்"]),
        ("مرحبا، بالعالم؟", ["مرحبا", "بالعالم"]),
        ("שלום, עולם", ["שלום", "עולם"]),
        ("نیم\u200cرخ", ["نیمرخ"]),
        ("in\u00advisible \u202eword\u202c \u2066INV\u200e-7\u2069", ["invisible", "word", "inv-7", "inv"]),
        ("Brand™ a\0b", ["brand", "a", "b"]),
    ],
)
def test_marks_and_invisible_characters_do_not_tear_a_word(text: str, expected: list[str]) -> None:
    assert forms(text) == expected


@given(st.text())
def test_any_text_gives_words_with_a_form_and_no_space(text: str) -> None:
    for word in split(text):
        found = [form for form in (word.whole, *word.parts) if form]
        assert found and word.text
        assert all(not any(map(str.isspace, form)) for form in found)
        assert all(len(form) <= LONGEST_WORD + 8 for form in found)


def test_a_lone_surrogate_is_no_word() -> None:
    assert forms("before \ud800 after") == ["before", "after"]


@given(st.text(alphabet="aB1é猫-.'@&,:/_#+ \u0301’"))
def test_what_joins_words_may_stand_anywhere(text: str) -> None:
    assert all(word.whole or all(word.parts) for word in split(text))


def test_a_word_that_never_ends_is_cut() -> None:
    (word,) = split("x" * 10_000)
    assert word.parts == ("x" * LONGEST_WORD,)
    assert forms("ab." * 50 + "cd") == ["ab"] * 50 + ["cd"]


@pytest.mark.parametrize(
    "piece",
    ["a", "a.", "a-", "a-1", "#", "1,", "1/", "猫", "e\u0301", "aB", "a'", "a@", "a_", "_", "'", "++", "C#", "ก\u0e31"],
)
def test_the_time_grows_with_the_length_of_the_text_only(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        best = float("inf")
        for _ in range(3):
            begun = time.process_time()
            split(text)
            best = min(best, time.process_time() - begun)
        return best

    # Ten times the text: ten times the work, a hundred times if anything were looked at again and again.
    assert seconds(100_000) < 40 * max(seconds(10_000), 0.001)


def test_chunks_are_the_same_for_plain_text_and_beside_other_scripts() -> None:
    plain = "Ada's v2.3.1 and INV-2041, foo_bar: C++ 1,250 at 10:30"
    assert chunks(f"{plain} é") == [*chunks(plain), "é"]
