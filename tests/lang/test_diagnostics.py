import pickle

import pytest

from memoranda.errors import SourceError, UsageError
from memoranda.lang.diagnostics import Diagnostic, Diagnostics, closest, did_you_mean, render
from memoranda.lang.source import Source, Span

SOURCE = Source("desk.abl", "AGENT: Desk\n\tGAOL: help\n")


def shown(text: str, start: int, end: int) -> list[str]:
    source = Source("x", text)
    return render(Diagnostic("odd", "error", "it is odd", Span(start, end)), source).splitlines()


def test_a_diagnostic_shows_place_line_caret_and_hint() -> None:
    fault = Diagnostic("unknown_keyword", "error", "`GAOL` is not a section", Span(13, 17), "Did you mean `GOAL`?")

    assert render(fault, SOURCE) == (
        "desk.abl:2:2: error[unknown_keyword]: `GAOL` is not a section\n"
        "  2 |     GAOL: help\n"
        "    |     ^^^^\n"
        "    = Did you mean `GOAL`?"
    )


@pytest.mark.parametrize(
    ("text", "start", "end", "line", "caret"),
    [
        ("a + ", 4, 4, "  1 | a +", "    |     ^"),
        ("one\ntwo", 1, 6, "  1 | one", "    |  ^^"),
        ("数 = 1", 4, 5, "  1 | 数 = 1", "    |      ^"),
        ("数 = 1", 0, 1, "  1 | 数 = 1", "    | ^^"),
        ("e\u0301 = 1", 3, 4, "  1 | e\u0301 = 1", "    |   ^"),
        ("a\0b", 2, 3, "  1 | a\ufffdb", "    |   ^"),
        ("", 0, 0, "  1 |", "    | ^"),
    ],
)
def test_the_caret_stands_below_the_fault(text: str, start: int, end: int, line: str, caret: str) -> None:
    assert shown(text, start, end)[1:] == [line, caret]


def test_a_long_line_is_cut_around_the_fault() -> None:
    _, line, caret = shown("x" * 5000 + "?" + "y" * 5000, 5000, 5001)

    assert len(line) < 120
    assert line.index("?") == caret.index("^")


def test_diagnostics_stand_in_the_order_of_the_source() -> None:
    said = Diagnostics(SOURCE)
    said.note("late", "later", Span(9, 10))
    said.warning("doubtful", "hm", Span(3, 4))
    said.error("wrong", "no", Span(3, 4))
    said.error("early", "first", Span(0, 1))

    assert [fault.code for fault in said.sorted()] == ["early", "wrong", "doubtful", "late"]
    assert {fault.source for fault in said.sorted()} == {"desk.abl"}


def test_the_same_fault_counts_once() -> None:
    said = Diagnostics(SOURCE)
    said.error("wrong", "no", Span(3, 4))
    said.error("wrong", "no", Span(3, 4))
    said.error("wrong", "no", Span(5, 6))

    assert len(said.sorted()) == 2


def test_only_errors_make_it_fail() -> None:
    said = Diagnostics(SOURCE)
    said.warning("doubtful", "hm", Span(3, 4))
    said.raise_if_failed()
    assert not said.failed

    said.error("wrong", "`x` is wrong", Span(13, 14), hint="Write `y`")
    said.error("wrong", "so is this", Span(15, 16))
    with pytest.raises(SourceError) as caught:
        said.raise_if_failed()
    assert str(caught.value) == "desk.abl:2:2: `x` is wrong (and 1 more). Write `y`"
    assert caught.value.diagnostics == said.sorted()
    assert caught.value.report.count("desk.abl:") == 3
    assert isinstance(caught.value, UsageError)
    assert caught.value.code == "source_error"
    assert pickle.loads(pickle.dumps(caught.value)).diagnostics == said.sorted()


@pytest.mark.parametrize(
    ("word", "meant"), [("RESPNOD", "RESPOND"), ("respond", "RESPOND"), ("Gether", "GATHER"), ("zzz", None), ("", None)]
)
def test_the_word_that_was_meant_is_found(word: str, meant: str | None) -> None:
    assert closest(word, ["GATHER", "RESPOND", "THEN"]) == meant


def test_a_hint_says_what_was_meant() -> None:
    assert did_you_mean("THNE", ["THEN"]) == "Did you mean `THEN`?"
    assert did_you_mean("zzz", ["THEN"], otherwise="Use THEN") == "Use THEN"
    assert did_you_mean("x" * 1_000_000, ["THEN"]) == ""
