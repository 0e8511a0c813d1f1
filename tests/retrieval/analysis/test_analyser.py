"""Analyse stored texts: their terms, counts and features."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis import analyser as module
from memoranda.retrieval.analysis.analyser import Features, analyse, count_quotations, pack, unpack
from memoranda.retrieval.analysis.languages import language_of
from memoranda.retrieval.analysis.words import chunks

ANY_TEXT = st.one_of(st.text(), st.text(alphabet="aAéß\u0131İ1 2-.'@#+_:/,?!\u0301\u200d\u202e\0猫がก\u0e31ाक한"))


def test_terms_are_stems_without_stop_words_in_their_order_with_counts() -> None:
    found = analyse("The boats and the boat of Ada; Ada's boats were sailing.")
    assert found.language == "en"
    assert found.terms == "boat ada sail"
    assert list(found.counts) == [3, 2, 1]
    assert found.length == 6


def test_an_identifier_is_found_whole_and_by_its_parts() -> None:
    assert analyse("Pay INV-2041 by e-mail").terms == "pay inv-2041 inv 2041 email mail"


def test_a_name_in_camel_case_meets_the_same_name_in_small_letters() -> None:
    assert set(analyse("youtube").terms.split()) <= set(analyse("YouTube").terms.split())
    assert set(analyse("vimeo").terms.split()).isdisjoint(analyse("YouTube").terms.split())


def test_counts_stop_at_a_byte_and_the_length_goes_on() -> None:
    found = analyse("boat " * 1_000)
    assert (found.terms, list(found.counts), found.length) == ("boat", [255], 1_000)


@pytest.mark.parametrize("text", ["", "   ", "🙂", "?!", "\0", "the and of"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    found = analyse(text)
    assert (found.terms, found.counts, found.length, found.names) == ("", b"", 0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Are you coming?", True),
        ("Are you coming? [photo: a boat]", True),
        ("Are you coming? (asking for Ada)", True),
        ("Are you coming?! 🙂", True),
        ('Who said "why?"', True),
        ("你来吗\uff1f", True),
        ("هل أنت قادم؟", True),
        ("I asked why? No answer.", False),
        ("I am coming.", False),
        ("I am coming [really?]", False),
        ("[really?]", True),
        ("", False),
    ],
)
def test_a_text_that_ends_in_a_question_asks(text: str, expected: bool) -> None:
    assert bool(analyse(text).features & Features.QUESTION) is expected


@pytest.mark.parametrize(
    "text",
    [
        "We met on 2031-04-09.",
        "We met on 4/9/2031.",
        "The boat sank in 1987.",
        "It was built in the 1990s.",
        "See you at 10:30.",
        "See you at 5pm, or at 5 pm.",
        "We met on Tuesday.",
        "We met yesterday.",
        "We met two weeks ago.",
        "We met last summer.",
        "I have been sailing for ten years.",
        "She called during the night.",
        "They left in May.",
        "They left on May 9th.",
        "A two-week trip.",
        "Wir haben uns gestern getroffen und das war schön.",
        "Ich segle seit zehn Jahren und das ist gut.",
        "Nous sommes partis la semaine dernière, en juin.",
        "Llegamos hace tres años a la casa que está aquí.",
        "Siamo arrivati il 9 aprile, e poi siamo andati via.",
        "Chegamos ontem à noite, mas ela não veio.",
        "We zijn gisteren aangekomen en het was laat.",
        "Vi kom i tisdags, och det var på måndag hon åkte.",
        "Мы приехали вчера вечером.",
        "Они живут здесь уже десять лет.",
        "昨日会いました。",
        "我们去年见过。",
        "2019年に買った。",
        "어제 만났어요.",
    ],
)
def test_a_text_that_says_when_is_temporal(text: str) -> None:
    assert analyse(text).features & Features.TEMPORAL


@pytest.mark.parametrize(
    "text",
    [
        "The boat is green.",
        "You may leave.",
        "They march on.",
        "Have a nice day!",
        "The boat has 12 seats.",
        "Das Boot ist grün und das ist gut.",
        "船は緑です。",
        "我喜欢茶。",
    ],
)
def test_a_text_that_does_not_say_when_is_not_temporal(text: str) -> None:
    assert not analyse(text).features & Features.TEMPORAL
    assert analyse(f"{text} 2031-04-09").features & Features.TEMPORAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We have 3 boats.", True),
        ("We have three boats.", True),
        ("Ticket INV-2041.", True),
        ("We went twice.", True),
        ("Wir haben drei Boote, und das ist gut.", True),
        ("Nous avons trois bateaux.", True),
        ("Есть три лодки.", True),
        ("三人で行った。", True),
        ("We have a boat.", False),
        ("An elf and six.", True),
        ("An elf.", False),  # eleven in German
    ],
)
def test_a_number_in_digits_or_in_words_is_a_numeral(text: str, expected: bool) -> None:
    assert bool(analyse(text).features & Features.NUMERAL) is expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Yesterday I met Ada Lovelace in Turin.", 3),
        ("We went home. Then we slept.", 0),
        ('She was reading "Emma" again.', 1),
        ("Sie las „Emma“, immer wieder.", 1),
        ("彼女は「エマ」を読んだ。", 1),
        ("CALL ME NOW", 0),
        ("We met Émile and Óscar.", 2),
        ("élan is not a name, l'été neither", 0),
    ],
)
def test_capitals_inside_a_sentence_and_quotations_are_names(text: str, names: int) -> None:
    assert analyse(text).names == names


@given(ANY_TEXT)
def test_any_text_is_analysed_and_kept(text: str) -> None:
    found = analyse(text)
    terms = found.terms.split(" ") if found.terms else []
    assert len(terms) == len(set(terms)) == len(found.counts)
    assert all(terms)
    assert found.length >= len(terms) and found.length >= sum(found.counts) - len(terms)
    assert all(0 < count for count in found.counts)
    assert unpack(pack(found)) == found
    assert analyse(text) == found


@given(ANY_TEXT)
def test_the_terms_of_terms_do_not_multiply(text: str) -> None:
    terms = analyse(text).terms
    again = analyse(terms).terms
    assert len(again.split()) <= 2 * len(terms.split())


@given(ANY_TEXT)
def test_what_stands_between_two_spaces_is_read_as_it_is_in_the_whole_text(text: str) -> None:
    assert [chunk for piece in text.split(" ") for chunk in chunks(piece)] == chunks(text)


WORDS_OF_MANY = (
    "the a in was la de en no der und the Ada's café für ru нет猫 мир x/y/z we're l'homme 42 - Ελλάδα is of".split()
)


@given(st.lists(st.sampled_from(WORDS_OF_MANY), max_size=300))
def test_the_language_is_the_one_for_which_all_votes_together_are(words: list[str]) -> None:
    text = " ".join(words)
    assert analyse(text).language == language_of(chunks(text))


def test_only_so_many_chunks_have_a_vote() -> None:
    english, german = " ".join(["the", "x"] * 63), "der und nicht/das " * 100
    for text in (f"{english} {german}", f"{german}{english}", "of/the/at " * 120 + german):
        assert analyse(text).language == language_of(chunks(text))
    assert {analyse(text).language for text in (english, german)} == {"en", "de"}


# A capital after a letter, a comma or the like, and a single space: not the beginning of a sentence.
INSIDE = re.compile(r"[\w,;)%'’] (?=([^\W\d_a-z]\w*))")


@given(st.text(alphabet="aAéÉI ,.;)%'’_1-\n\u0130\u01c5") | ANY_TEXT)
def test_names_are_capitals_inside_a_sentence(text: str) -> None:
    names = [word for word in INSIDE.findall(text) if word[0].isupper() and word != "I"]
    assert analyse(text).names == (0 if text.isupper() else len(names) + count_quotations(text))


def test_a_text_with_a_lone_surrogate_can_be_kept() -> None:
    found = analyse("a boat \udcff here")
    assert unpack(pack(found)).terms == "boat"


def test_a_turkish_capital_meets_its_small_letter() -> None:
    assert analyse("\u0130ZM\u0130R").terms == analyse("izmir").terms == "izmir"


def test_a_piece_reads_the_same_whichever_language_had_it_first() -> None:
    texts = (
        "The boats of the harbour are in Gift-2041",
        "Die Boote der Stadt sind nicht in Gift-2041 harbour boats",
        "Les harbour boats sont dans la ville avec Gift-2041 Boote",
        "Boote sont harbour Stadt",
    )
    alone: list[bytes] = []
    for text in texts:
        module._PIECES.clear()
        module._READINGS.clear()
        alone.append(pack(analyse(text)))
    for order in itertools.permutations(range(len(texts))):
        module._PIECES.clear()
        module._READINGS.clear()
        for _ in range(2):
            assert all(pack(analyse(texts[number])) == alone[number] for number in order)
    assert [unpack(one).language for one in alone] == ["en", "de", "fr", "fr"]


def test_what_is_known_of_pieces_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The boat is in the harbour and Ada's boat is not"
    expected = analyse(text)
    monkeypatch.setattr(module, "_CACHE_SIZE", 4)
    module._PIECES.clear()
    module._READINGS.clear()
    for _ in range(3):
        assert analyse(text) == expected
        assert len(module._PIECES) <= 4 and all(len(one) <= 4 for one in module._READINGS.values())


def test_many_threads_find_the_same() -> None:
    texts = [f"Ada sailed boat{number} to harbour-{number} für {number} Tage" for number in range(200)]
    expected = [analyse(text) for text in texts]
    wrong: list[str] = []

    def look() -> None:
        for text, found in zip(texts, expected, strict=True):
            module._READINGS.clear()
            if "0" in text:
                module._PIECES.clear()
            if analyse(text) != found:
                wrong.append(text)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(set(expected)) == len(texts)


@pytest.mark.parametrize(
    "piece", ["Ada sailed home. ", '"', "“", "[", "(", "A ", "?", " ", "a?", "1 ", "in May ", "猫が", "é", "\u0301"]
)
def test_a_text_of_any_length_takes_time_in_proportion(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        best = float("inf")
        for _ in range(3):
            begun = time.process_time()
            analyse(text)
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(100_000) < 40 * max(seconds(10_000), 0.001)


def test_a_megabyte_is_analysed() -> None:
    text = "Ada sailed INV-2041 home in May. " * 32_000
    found = analyse(text)
    assert len(text) > 1_000_000
    assert found.terms == "ada sail inv-2041 inv 2041 home may"
    assert found.length == 7 * 32_000


def test_an_analysis_is_the_same_in_every_process() -> None:
    text = "Ada's boats, INV-2041, für Häuser и книги 猫が好き"
    code = f"from memoranda.retrieval.analysis.analyser import analyse; print(ascii(analyse({text!r})))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert runs == {ascii(analyse(text))}
