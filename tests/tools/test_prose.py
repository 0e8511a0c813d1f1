"""The tool that finds odd phrases in prose."""

from __future__ import annotations

import pytest

from prose import findings, main


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("`profile.x` is no key", "is no key"),
        ("Nobody waits", "Nobody"),
        ("what stands in a file", "stands"),
        ("A text in, a number out.", "in, a number out."),
        ("Keep it for good", "for good"),
    ],
)
def test_an_odd_phrase_is_found_with_its_line_and_what_to_write(text: str, phrase: str) -> None:
    (found,) = findings(f"# Title\n\n{text}\n", ".md")
    assert (found.line, found.phrase, found.text) == (3, phrase, text) and found.advice


@pytest.mark.parametrize(
    "text", ["There is no key", "It is no longer there", "She signs in", "understand, notwithstanding"]
)
def test_a_plain_phrase_is_left_alone(text: str) -> None:
    assert list(findings(text, ".md")) == []


def test_of_python_only_strings_and_comments_count_and_of_markdown_no_samples() -> None:
    python = 'nobody = stands\n"""Say it.\n\nNobody does."""\nx = 1  # it stands\n'
    assert [(found.line, found.phrase) for found in findings(python, ".py")] == [(4, "Nobody"), (5, "stands")]
    assert list(findings("```\nnobody stands\n```\n", ".md")) == []


def test_of_tests_only_docstrings_and_comments_count() -> None:
    python = 'x = """\n# nobody\n"""\ny = "it stands"  # for good\n"""Nobody."""\n\ndef z():\n    """At hand."""\n'
    found = sorted((one.line, one.phrase) for one in findings(python, ".py", test=True))
    assert found == [(4, "for good"), (5, "Nobody"), (8, "At hand")]


def test_the_repository_has_none() -> None:
    assert main([]) == 0
