"""Read queries: the words to look for, and their forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis.analyser import Features, analyse
from memoranda.retrieval.analysis.query import Expects, Query, read_query


def stems(query: Query) -> list[tuple[str, ...]]:
    return [word.stems for word in query.words if not word.stop]


def finds(query: str, text: str) -> bool:
    """Return whether a text, as the only entry, contains every word of a query that is not a stop word."""
    held = analyse(text)
    terms = set(held.terms.split())
    looked_for = stems(read_query(query, [held.language]))
    return bool(looked_for) and all(terms.intersection(word) for word in looked_for)


def test_words_keep_their_order_their_writing_and_whether_they_are_stop_words() -> None:
    query = read_query("Where are Ada's boats?", ["en"])
    assert [(word.text, word.stems, word.stop) for word in query.words] == [
        ("Where", ("where",), True),
        ("are", ("are",), True),
        ("Ada's", ("ada",), False),
        ("boats", ("boat",), False),
    ]
    assert query.language == "en"


def test_a_word_is_looked_for_under_the_query_s_language_first_then_the_shelf_s() -> None:
    assert stems(read_query("sailing", ["", "de", "en"])) == [("sail", "sailing")]
    assert stems(read_query("the houses", ["en"])) == [("hous",)]
    assert stems(read_query("wo sind die Häuser", ["en", ""])) == [("haus", "hauser")]
    assert stems(read_query("the houses", [])) == [("hous",)]
    assert stems(read_query("the houses", ["xx"])) == [("hous", "houses")]


def test_the_order_of_the_shelf_s_languages_does_not_matter() -> None:
    expected = [("generat", "generation", "gener")]
    assert stems(read_query("the generations", ["de", "fr"])) == stems(read_query("the generations", ["fr", "de"]))
    assert stems(read_query("the generations", {"fr", "de"})) == expected


def test_a_query_whose_language_nothing_tells_has_the_stop_words_of_the_shelf() -> None:
    query = read_query("über", ["de"])
    assert [word.stop for word in query.words] == [True]
    assert [word.stop for word in read_query("über", ["en"]).words] == [True]  # the letter speaks for German
    assert [word.stop for word in read_query("café", ["de"]).words] == [False]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("INV-2041", "Invoice INV-2041 is paid."),
        ("inv2041", "Invoice INV2041 is paid."),
        ("INV-2041", "Invoice inv2041 is paid."),
        ("inv2041", "Invoice INV-2041 is paid."),
        ("2041", "Invoice INV-2041 is paid."),
        ("2.3.1", "Fixed in v2.3.1."),
        ("#88", "See issue 88."),
        ("issue 88", "See issue #88."),
        ("config", "Call parseConfig() first."),
        ("parse config", "Call parse_config first."),
        ("email", "Send an e-mail."),
        ("e-mails", "Send an email."),
        ("t-shirt", "A green shirt."),
        ("ada", "Write to ada@example.org."),
        ("1250", "It costs 1,250 crowns."),
        ("cafe", "At the café."),
        ("café", "At the cafe."),
        ("buy a boat", "She bought boats."),
        ("Haus kaufen", "Wir haben die Häuser gestern gekauft, um sie zu kaufen."),
        ("книга", "Мне нужны книги."),
        ("ISPARTA", "\u0131sparta ve yağmur"),
        ("水車", "古い水車の裏で。"),
        ("猫", "猫が好き。"),
        ("deployment", "新しい deployments を確認した。"),
        ("القديمة", "خلف الطاحونة القديمة."),
        ("key value", "key=value"),
    ],
)
def test_a_query_finds_the_text(query: str, text: str) -> None:
    assert finds(query, text)
    assert not finds(query, "Nothing of the kind 7.")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("INV-2041", "Invoice INV-2042 is paid."),
        ("GPT-4", "GPT-3 has 4 parts"),
        ("C++", "The letter C."),
        ("3.14", "Numbers 3 and 14."),
        ("2031-04-09", "In 2031."),
        ("ada@example.org", "Ada wrote to example.org."),
    ],
)
def test_an_identifier_is_not_found_by_its_parts_alone(query: str, text: str) -> None:
    assert not finds(query, text)
    assert finds(query, f"{text} {query}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did Ada sail?", Expects.TEMPORAL),
        ("Do you know when Ada will sail?", Expects(0)),
        ("Since when does Ada sail?", Expects.TEMPORAL),
        ("What did Ada say when Bo left?", Expects(0)),
        ("What day did they leave?", Expects.TEMPORAL),
        ("Which year was it?", Expects.TEMPORAL),
        ("How long did it take?", Expects.TEMPORAL | Expects.NUMERAL),
        ("How many boats?", Expects.NUMERAL),
        ("How old is the boat?", Expects.NUMERAL),
        ("Who sails?", Expects.NAME),
        ("Where is the boat?", Expects.NAME),
        ("What is the boat called?", Expects.NAME),
        ("Which boat?", Expects.NAME),
        ("Tell me about the boat", Expects(0)),
        ("Wann ist das Boot gekommen?", Expects.TEMPORAL),
        ("Wie viele Boote hat sie?", Expects.NUMERAL),
        ("Wo ist das Boot?", Expects.NAME),
        ("Quand est-ce que le bateau est parti ?", Expects.TEMPORAL),
        ("Combien de bateaux avez-vous ?", Expects.NUMERAL),
        ("¿Cuándo llegó el barco?", Expects.TEMPORAL),
        ("¿Cuántos barcos tiene ella?", Expects.NUMERAL),
        ("¿Quién llegó con el barco?", Expects.NAME),
        ("Quando è arrivata la barca?", Expects.TEMPORAL),
        ("Quantos barcos você tem?", Expects.NUMERAL),
        ("Wanneer is de boot aangekomen?", Expects.TEMPORAL),
        ("När kom båten?", Expects.TEMPORAL),
        ("Hvor mange båter har du, og hva er det?", Expects.NUMERAL),
        ("Hvornår kom båden, og hvad er det?", Expects.TEMPORAL),
        ("Milloin vene tuli ja mistä se oli?", Expects.TEMPORAL | Expects.NAME),
        ("Когда пришла лодка?", Expects.TEMPORAL),
        ("Сколько лодок?", Expects.NUMERAL),
        ("船はいつ来ましたか", Expects.TEMPORAL),
        ("船什么时候来", Expects.TEMPORAL),
        ("谁来了", Expects.NAME),
        ("배가 언제 왔어요?", Expects.TEMPORAL),
    ],
)
def test_a_question_word_tells_what_kind_of_answer_is_expected(text: str, expected: Expects) -> None:
    assert Expects(read_query(text, ["en"]).expects) == expected


def test_what_is_expected_and_what_is_seen_are_the_same_bits() -> None:
    assert (Expects.TEMPORAL, Expects.NUMERAL) == (Features.TEMPORAL, Features.NUMERAL)
    assert not Expects.NAME & (Features.QUESTION | Features.TEMPORAL | Features.NUMERAL)


def test_dates_of_a_query_are_read() -> None:
    query = read_query("What happened on 9 May 2031?", ["en"])
    assert (query.years, query.months) == ({2031}, {5})
    query = read_query("Was ist im März 2031 gewesen?", ["de"])
    assert (query.years, query.months) == ({2031}, {3})
    query = read_query("What may it be?", ["en"])
    assert (query.years, query.months) == (frozenset(), frozenset())


def test_where_only_words_count_nothing_else_is_read() -> None:
    whole = read_query("When did Ada sail in May 2031?", ["en"])
    query = read_query("When did Ada sail in May 2031?", ["en"], words_only=True)
    assert (query.words, query.language) == (whole.words, whole.language)
    assert (query.expects, query.years, query.months) == (0, frozenset(), frozenset())
    assert (whole.expects, whole.years, whole.months) == (Expects.TEMPORAL, {2031}, {5})


@pytest.mark.parametrize("text", ["", "  ", "?", "🙂", "\0"])
def test_a_query_without_words_is_empty(text: str) -> None:
    assert read_query(text, ["en"]).words == ()


@given(st.text(), st.lists(st.sampled_from(["en", "de", "ru", "ja", "", "xx"])))
def test_any_text_is_read_the_same_each_time(text: str, languages: list[str]) -> None:
    query = read_query(text, languages)
    assert query == read_query(text, list(reversed(languages)))
    assert all(word.stems and all(word.stems) and len(set(word.stems)) == len(word.stems) for word in query.words)


@given(st.text())
def test_a_text_finds_itself(text: str) -> None:
    held = analyse(text)
    terms = set(held.terms.split(" "))
    for word in stems(read_query(text, [held.language])):
        assert terms.intersection(word)
