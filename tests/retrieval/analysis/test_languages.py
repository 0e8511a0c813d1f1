"""Which language a text is in, and which of its words carry only grammar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis.languages import STOP_WORDS, TIME_WORDS, is_stop_word, language_of
from memoranda.retrieval.analysis.words import chunks


def detect(text: str) -> str:
    return language_of(chunks(text))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "My sister keeps bees behind the old mill."),
        ("de", "Meine Schwester hat Bienen hinter der alten Mühle."),
        ("fr", "Ma sœur élève des abeilles derrière le vieux moulin."),
        ("es", "Mi hermana tiene abejas detrás del viejo molino."),
        ("it", "Mia sorella alleva le api dietro il vecchio mulino."),
        ("pt", "A minha irmã cria abelhas atrás do velho moinho."),
        ("nl", "Mijn zus houdt bijen achter de oude molen."),
        ("sv", "Min syster har bin bakom den gamla kvarnen och det är fint."),
        ("no", "Søsteren min har bier bak den gamle mølla, og jeg vet ikke hva de heter."),
        ("da", "Min søster har bier bag den gamle mølle, og jeg ved ikke hvad de hedder."),
        ("fi", "Sisareni pitää mehiläisiä vanhan myllyn takana, mutta se ei ole helppoa."),
        ("ru", "Моя сестра держит пчёл за старой мельницей."),
        ("uk", "Моя сестра тримає бджіл за старим млином, та це її пасіка."),
        ("pl", "Moja siostra trzyma pszczoły za starym młynem."),
        ("cs", "Moje sestra chová včely za starým mlýnem."),
        ("tr", "Teyzem eski değirmende kedi besliyor ve bu çok güzel."),
        ("hu", "A nővérem méheket tart a régi malom mögött."),
        ("ro", "Sora mea crește albine în spatele morii vechi și este bine."),
        ("ca", "La meva germana té abelles darrere del molí amb els avis."),
        ("id", "Kakak saya memelihara lebah di belakang kincir yang tua itu."),
        ("vi", "Chị tôi nuôi ong ở phía sau cối xay cũ."),
        ("el", "Αδελφή μου έχει μέλισσες πίσω από τον παλιό μύλο."),
        ("ar", "أختي تربي النحل خلف الطاحونة القديمة."),
        ("fa", "خواهرم پشت آسیاب قدیمی زنبور نگه می‌دارد."),
        ("he", "אחותי מגדלת דבורים מאחורי הטחנה."),
        ("hi", "मेरी बहन पुरानी चक्की के पीछे मधुमक्खियाँ पालती है।"),
        ("th", "พี่สาวของฉันเลี้ยงผึ้ง"),
        ("ja", "姉は古い水車の裏で蜂を飼っています。"),
        ("zh", "我姐姐在旧磨坊后面养蜂。"),
        ("ko", "언니는 오래된 방앗간 뒤에서 벌을 키운다."),
    ],
)
def test_little_words_and_scripts_tell_the_language(language: str, text: str) -> None:
    assert detect(text) == language


@pytest.mark.parametrize(
    "text", ["honey harvest", "INV-2041", "La La Land", "Ada", "Take care!", "Go get them", "Die Hard", "Don't!"]
)
def test_plain_text_that_no_other_language_claims_is_english(text: str) -> None:
    assert detect(text) == "en"


def test_nothing_tells_the_language_of_numbers_and_signs() -> None:
    assert [detect(text) for text in ("", "2041", "🙂 !?", "\0", "the 2041")] == ["", "", "", "", "en"]


def test_english_words_in_another_script_do_not_change_the_language() -> None:
    assert detect("昨日 iPhone を買いました") == "ja"
    assert detect("Мы обновили Kubernetes и Postgres вчера") == "ru"


def test_a_long_text_is_told_by_its_beginning() -> None:
    assert detect("Das ist der Anfang. " * 300 + "And this is the end of it. " * 3_000) == "de"


def test_stop_words_belong_to_a_language() -> None:
    assert is_stop_word("the", "en")
    assert not is_stop_word("the", "de")
    assert is_stop_word("und", "de")
    assert not is_stop_word("the", "") and not is_stop_word("the", "xx")


def test_no_language_drops_its_words_of_time_that_are_searched_for() -> None:
    for language, words in TIME_WORDS.items():
        assert not STOP_WORDS[language] & words.months.keys(), language
    assert "january" in TIME_WORDS["en"].months


@given(st.text())
def test_any_text_has_a_language_or_none(text: str) -> None:
    assert detect(text) in {*STOP_WORDS, "", "he", "ta", "hy", "th", "ja", "zh", "ko"}
