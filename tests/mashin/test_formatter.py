"""A formatted machine says the same, looks as machines usually do, and is not changed by formatting it again."""

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
