"""Many texts are analysed as each of them would be alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.retrieval.analysis import analyser
from memoranda.retrieval.analysis.analyser import UNREAD, analyse, pack
from memoranda.retrieval.analysis.batch import pack_all
from memoranda.retrieval.analysis.languages import STOP_WORDS

TEXTS = (
    "",
    " ",
    "  two  spaces ",
    "Ada lent me the red kettle until the end of May. Should I ask Bo?",
    "The boats and the boat of Ada; Ada's boats were sailing on 2026-05-01.",
    'She said "why?" and left, in two weeks.',
    "WE SAW ADA AND BO",
    "Pay INV-2041 and INV-2041 by e-mail to ada@example.org (1,200 of them).",
    "Die Boote der Stadt sind nicht im Hafen, und die Kinder auch nicht.",
    "猫が好きです。昨日、港へ行きました。",
    "Where is the café? Überall.",
    "word " * 200,
    "boat " * 120 + "the",
    '{"a":[1,2],"b":"parseConfig"}',
)

_WORDS = st.sampled_from(
    [*"the Ada boat boats May march 1999 42 INV-7 für nicht猫".split(), "(in", "two", "weeks,", "week.", "parseConfig",
     "LA", "la", "la", "", "?", '"so', 'so"', "it’s", "it's", "last", "don't", "C++", "#12", "12:30", "x" * 70]
)  # fmt: skip
ANY_TEXT = st.one_of(st.text(max_size=40), st.lists(_WORDS, max_size=30).map(" ".join))


def test_many_texts_are_analysed_as_each_alone() -> None:
    for texts in (TEXTS, TEXTS[:3], TEXTS * 90):
        assert pack_all(texts) == [pack(analyse(text)) for text in texts]
    assert pack_all([]) == []


@given(st.lists(ANY_TEXT, min_size=8, max_size=30))
def test_any_texts_are_analysed_as_each_alone(texts: list[str]) -> None:
    together = pack_all(texts)
    analyser._PIECES.clear()
    assert together == [pack(analyse(text)) for text in texts]


def test_more_pieces_than_are_cached_are_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Ada sailed boat{number} to harbour {number} in {number} days" for number in range(40)]
    expected = [pack(analyse(text)) for text in texts]
    monkeypatch.setattr(analyser, "_CACHE_SIZE", 8)
    analyser._PIECES.clear()
    assert pack_all(texts) == expected
    assert len(analyser._PIECES) <= 8


_PLAIN = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "(", '"', "'", "((", "-", "#"]),
    st.one_of(
        st.text("aAbBtThHeE", min_size=1, max_size=6),
        st.text("0129", min_size=1, max_size=20),
        st.sampled_from(sorted({word for words in STOP_WORDS.values() for word in words})),
        st.sampled_from(["May", "MAY", "weeks", "twelve", "Yesterday", "iPhone", "bought", "x" * 65]),
    ),
    st.sampled_from(["", ".", ",", "?!", '."', ")", "'", "'s", "-", "’"]),
)


@given(_PLAIN)
def test_an_ordinary_word_reads_as_by_the_rules_for_everything(piece: str) -> None:
    analyser._PIECES.clear()
    lean, edges, reading = analyser._PIECES[piece]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analyser, "_plain_word", lambda piece: None)
        analyser._PIECES.clear()
        by_rules = analyser._PIECES[piece]
    analyser._PIECES.clear()
    assert (lean, edges) == by_rules[:2]
    assert reading in (UNREAD, analyser._read(piece, "en"))
