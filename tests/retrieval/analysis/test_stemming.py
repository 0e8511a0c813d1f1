"""Stem folded words by language."""

from __future__ import annotations

import threading

import pytest

from memoranda.retrieval.analysis import languages as module
from memoranda.retrieval.analysis.languages import term


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "boats", "boat"),
        ("en", "sailing", "sailed"),
        ("en", "bought", "buying"),
        ("en", "children", "child"),
        ("de", "häuser", "haus"),
        ("fr", "maisons", "maison"),
        ("es", "caminos", "camino"),
        ("it", "libri", "libro"),
        ("pt", "livros", "livro"),
        ("nl", "boeken", "boek"),
        ("sv", "bilarna", "bilar"),
        ("no", "båtene", "båter"),
        ("da", "bådene", "både"),
        ("fi", "taloissa", "talossa"),
        ("ru", "книги", "книга"),
        ("tr", "evler", "ev"),
        ("hu", "házak", "ház"),
        ("el", "σπίτια", "σπίτι"),
        ("ar", "كِتَاب", "كتاب"),
        ("hi", "किताबें", "किताब"),
    ],
)
def test_forms_of_a_word_share_a_term(language: str, one: str, other: str) -> None:
    assert term(one, language) == term(other, language) != ""
    assert term(one, language) != term("other", language)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "cafe"),
        ("zoë", "zoe"),
        ("łódź", "lodz"),
        ("smørrebrød", "smorrebrod"),
        ("ёж", "еж"),
        ("שָׁלוֹם", "שלום"),
        ("i\u0307zmir", "izmir"),  # what folding makes of a capital dotted i
        ("\u0131sparta", "isparta"),  # dotless
    ],
)
def test_accents_and_points_do_not_part_words(one: str, other: str) -> None:
    assert term(one, "") == term(other, "") == term(one, "xx")


def test_vowel_signs_that_carry_the_word_stay() -> None:
    assert term("कि", "") != term("कु", "")
    assert term("が", "") != term("か", "")


def test_without_a_language_a_word_stays_as_it_is() -> None:
    assert term("houses", "") == "houses"
    assert term("houses", "en") == "hous"


def test_a_word_in_another_script_follows_the_usual_language_of_that_script() -> None:
    assert term("deployments", "ja") == term("deployment", "ru") == term("deployment", "en")
    assert term("книги", "en") == term("книга", "ru")


def test_long_and_short_words_are_not_stemmed() -> None:
    assert term("is", "en") == "is"
    assert term("s" * 5_000, "en") == "s" * 5_000


def test_many_threads_find_the_same_terms() -> None:
    words = [f"{beginning}{middle}ings" for beginning in "bcdfghklmnprst" for middle in ("and", "ock", "est", "ill")]
    languages = ["en", "de", "fr", "ru", "fi", ""]
    expected = {(word, language): term(word, language) for word in words for language in languages}
    module._CACHE.clear()
    wrong: list[tuple[str, str]] = []

    def look() -> None:
        for _ in range(5):
            wrong.extend(pair for pair, found in expected.items() if term(*pair) != found)
            module._CACHE.clear()

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and term("bandings", "en") == "band"


def test_what_is_remembered_of_stems_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_SIZE", 10)
    for number in range(50):
        assert term(f"word{number}", "en") == f"word{number}"
    assert 0 < len(module._CACHE["en"]) <= 10
