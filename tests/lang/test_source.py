import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.lang.source import Excerpt, Position, Source, Span, excerpt

TEXT = "AGENT: Desk\n\n  GOAL: help\n"


@pytest.mark.parametrize(
    ("offset", "line", "column"),
    [(0, 1, 1), (7, 1, 8), (11, 1, 12), (12, 2, 1), (13, 3, 1), (15, 3, 3), (len(TEXT), 4, 1), (999, 4, 1), (-3, 1, 1)],
)
def test_an_offset_is_a_line_and_a_column(offset: int, line: int, column: int) -> None:
    assert Source("desk.abl", TEXT).position(offset) == Position(line, column)


def test_a_line_is_given_without_its_ending() -> None:
    source = Source("desk.abl", "one\r\ntwo\rthree\n\nfive")

    assert [source.slice(span) for span in source.lines] == ["one", "two", "three", "", "five"]
    assert source.line(3) == "three"


def test_an_empty_text_has_one_empty_line() -> None:
    assert Source("empty", "").lines == (Span(0, 0),)
    assert Source("empty", "").position(0) == Position(1, 1)


def test_a_form_feed_does_not_end_a_line() -> None:
    assert len(Source("odd", "one\ftwo\x85three\u2028four").lines) == 1
    assert len(Source("odd", "one\ftwo\nthree").lines) == 2


@given(st.text(alphabet="ab\n\r\f\u2028ä", max_size=30))
def test_lines_and_positions_agree_for_any_text(text: str) -> None:
    source = Source("any", text)

    rebuilt = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [source.slice(span) for span in source.lines] == rebuilt
    for number, span in enumerate(source.lines, 1):
        assert source.position(span.start) == Position(number, 1)


def test_a_span_reaches_to_another() -> None:
    assert Span(2, 4).to(Span(7, 9)) == Span(2, 9)
    assert Span(2, 9).to(Span(3, 4)) == Span(2, 9)


def test_an_excerpt_of_a_block_finds_its_way_back() -> None:
    source = Source("desk.abl", "GOAL: |\n    one\n    two\n")
    block = Excerpt("one\ntwo", ((0, 12), (4, 20)))

    assert source.slice(block.locate(4, 7)) == "two"
    assert source.slice(block.locate(0, 3)) == "one"
    assert block.locate(0, 4) == Span(12, 16)
    assert block.locate(7, 7) == Span(23, 23)


def test_a_plain_excerpt_is_a_slice() -> None:
    source = Source("desk.abl", TEXT)

    piece = excerpt(source, Span(21, 25))
    assert piece.text == "help"
    assert source.slice(piece.locate(1, 3)) == "el"
