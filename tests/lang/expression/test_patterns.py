from __future__ import annotations

import pytest

from memoranda.errors import UsageError
from memoranda.lang.expression.patterns import compile_pattern, search


def test_groups_are_given_by_number_and_by_name() -> None:
    pattern = compile_pattern(r"(?<year>\d{4})-(\d\d)?")

    assert search(pattern, "in 2026-") == {"0": "2026-", "1": "2026", "2": None, "year": "2026"}
    assert search(pattern, "in March") is None


@pytest.mark.parametrize("flags", ["i", "gi", "iu", "ii"])
def test_flags_of_javascript_are_known(flags: str) -> None:
    assert search(compile_pattern("ada", flags), "ADA")
    assert search(compile_pattern("ada", ""), "ADA") is None


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        ("(", ""),
        ("[a", ""),
        ("(?=a)", ""),
        ("(?<!a)b", ""),
        (r"(a)\1", ""),
        ("a{2000}", ""),
        ("((a{500}){500}){500}", ""),
        ("x" * 1001, ""),
        ("a", "q"),
        ("\ud800", ""),
    ],
)
def test_what_cannot_be_searched_in_linear_time_is_refused(pattern: str, flags: str) -> None:
    with pytest.raises(UsageError, match="cannot be used") as caught:
        compile_pattern(pattern, flags)
    assert caught.value.hint
    assert caught.value.pattern == pattern


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*(.*)*(.*)*x"])
def test_a_catastrophic_pattern_ends(pattern: str) -> None:
    # A backtracking engine would still be busy when the sun goes out.
    assert search(compile_pattern(pattern), "a" * 20_000 + "!") is None
    assert search(compile_pattern("(a+)+$"), "a" * 20_000) is not None


def test_text_that_is_no_unicode_is_searched_all_the_same() -> None:
    assert search(compile_pattern("b"), "a\ud800b") == {"0": "b"}
    assert search(compile_pattern("c"), "a\ud800b") is None
