"""A formatted machine means the same, has the usual layout, and is not changed by formatting it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.errors import SourceError
from memoranda.mashin.formatter import format_text
from memoranda.mashin.parser import parse_document, parse_fragment

EVERYTHING = (Path(__file__).parent / "samples" / "everything.mashin").read_text()


def test_a_machine_with_everything_says_the_same_and_stays_as_it_is() -> None:
    formatted = format_text(EVERYTHING)
    assert parse_document(formatted) == parse_document(EVERYTHING)
    assert format_text(formatted) == formatted


def test_every_comment_is_kept() -> None:
    text = EVERYTHING.replace("  verifies", "  // between\n  verifies")
    formatted = format_text(text)
    for comment in (
        "// A desk",
        "// the nearest ones",
        "// of the same kind",
        "// and still",
        "// between",
        "// The end.",
    ):
        assert text.count(comment) == formatted.count(comment) == 1


def test_sections_come_in_their_usual_order_below_the_machine() -> None:
    text = "machine a\nimplements\n    compute b\n        1\n// what comes in\naccepts\n    c as text\n"
    assert format_text(text) == (
        "machine a\n  // what comes in\n  accepts\n    c as text\n  implements\n    compute b\n      1\n"
    )


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ('ask a using "p:m"\n', 'ask a, using: "p:m"\n'),
        ("ask a of 'm', to act\n", "ask a, of: 'm', to: act\n"),
        (
            "decide a\n if b\n  1\n else if c\n  2\n else\n  3\n",
            "decide a\n  when b\n    1\n  when c\n    2\n  otherwise\n    3\n",
        ),
        ("accepts\n\ta as text required\n", "accepts\n  a as text, is required\n"),
        ("compute a\n  f([{\n  b: 1 //c\n        }])\n", "compute a\n  f([{\n    b: 1  //c\n  }])\n"),
    ],
)
def test_one_spelling_is_usual(written: str, usual: str) -> None:
    assert format_text(written, fragment=True) == usual
    assert format_text(usual, fragment=True) == usual
    assert parse_fragment(written) == parse_fragment(usual)


def test_a_text_with_faults_is_not_formatted() -> None:
    with pytest.raises(SourceError):
        format_text("machine a\n")
    assert format_text("machine a\nimplements\n  compute b\n    1\n")


def flat(text: str) -> str:
    return "".join(f"{line.strip()}\n" for line in text.splitlines())


MACHINES = sorted((Path(__file__).parents[2] / "examples/mashin").glob("*.mashin"))
MACHINES += sorted((Path(__file__).parent / "checklist/samples").glob("*.mashin"))


@pytest.mark.parametrize("file", MACHINES, ids=lambda file: file.stem)
def test_a_machine_without_indentation_is_indented_or_a_line_is_named(file: Path) -> None:
    text = format_text(file.read_text())
    with pytest.raises(SourceError) as refused:
        parse_document(flat(text))
    [said] = refused.value.diagnostics
    assert said.code == "no_indentation"
    try:
        indented = format_text(flat(text))
    except SourceError as error:
        assert {one.code for one in error.diagnostics} == {"ambiguous_indentation"}
        assert "it is unclear whether" in said.hint
    else:
        assert indented == text
        assert "`memoranda format` on the command line" in said.hint


def test_most_machines_can_be_indented() -> None:
    def is_indented(file: Path) -> bool:
        try:
            return bool(format_text(flat(file.read_text())))
        except SourceError:
            return False

    assert sum(map(is_indented, MACHINES)) >= 15


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("decide a\n when b\n  compute c\n   1\n otherwise\n  compute d\n   2\ncompute e\n 3\n", "compute e"),
        ("retry\n max: 2\n compute a\n  1\ncompute b\n 2\n", "compute b"),
        ("decide a\n when b\n  decide c\n   when d\n    1\n   otherwise\n    2\n when e\n  3\n", "otherwise"),
        ("decide a\n when b\n  decide c\n   when d\n    1\n when e\n  3\n", "when e"),
        ("flow a\n compute b\n  1\n on failure\n  compute c\n   2\n", "on failure"),
    ],
)
def test_a_line_with_two_places_is_named(text: str, line: str) -> None:
    with pytest.raises(SourceError) as refused:
        format_text(flat(text), fragment=True)
    [said] = refused.value.diagnostics
    assert said.code == "ambiguous_indentation" and f"`{line}`" in said.message
    assert flat(text)[said.span.start : said.span.end] == line


def test_values_over_several_lines_are_indented_below_their_lines() -> None:
    text = (
        'machine a\nimplements\nremember b\ncontent: [\n1,\n2\n]\ncollection:\n"c"\n'
        'ask d, using: "p:m"\nwith role\n"Be brief"\nwith task "a" +\n"b"\nreturns\ne as text\n'
    )
    assert format_text(text) == (
        "machine a\n  implements\n    remember b\n      content: [\n        1,\n        2\n      ]\n      collection:\n"
        '        "c"\n    ask d, using: "p:m"\n      with role\n        "Be brief"\n      with task "a" +\n'
        '        "b"\n      returns\n        e as text\n'
    )


def test_errors_of_a_machine_without_indentation_are_told_when_it_is_formatted() -> None:
    with pytest.raises(SourceError, match="`as` and a type"):
        format_text("machine a\naccepts\nb as text\nc\nimplements\ncompute d\n1\n")
    # An error that only the text has is told at once.
    with pytest.raises(SourceError) as refused:
        parse_document('machine a\nimplements\ncompute b\n"open\n')
    assert sorted(one.code for one in refused.value.diagnostics) == ["no_indentation", "unclosed_quote"]


@pytest.mark.parametrize("text", ["machine a\n", "machine a\nimplements\n", "hello\nworld\n", "machine a\nfoo\nbar\n"])
def test_what_needs_no_indentation_has_its_own_errors(text: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse_document(text)
    assert "no_indentation" not in [one.code for one in refused.value.diagnostics]
