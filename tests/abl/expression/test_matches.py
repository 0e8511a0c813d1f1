from __future__ import annotations

from typing import Any

import pytest

from memoranda.abl.expression.compiler import compile_expression, evaluate
from memoranda.errors import SourceError, UsageError
from memoranda.lang.expression.dialect import ExpressionRun


@pytest.mark.parametrize(
    ("text", "scope", "value"),
    [
        ("input matches '^[0-9]+$'", {"input": "42"}, True),
        ("input matches '^[0-9]+$'", {"input": "42x"}, False),
        (r"input matches '^\d+$'", {"input": "42"}, True),
        (r"input matches '^\\d+$'", {"input": "42"}, True),
        (r"input matches /^\d+\/\d+$/", {"input": "4/2"}, True),
        (r"input matches /^[a/b]+$/", {"input": "a/b"}, True),
        ("input matches /ada/i", {"input": "ADA"}, True),
        ("input matches /ada/", {"input": "ADA"}, False),
        ("input MATCHES 'a' AND true", {"input": "cat"}, True),
        ("input.matches('^c')", {"input": "cat"}, True),
        ("input matches '^4'", {"input": 42}, True),
        ("input matches 'x'", {}, False),
        ("input matches pattern", {"input": "cat", "pattern": "^c"}, True),
        ("input matches pattern", {"input": "cat"}, False),
        ("input matches pattern", {"input": "cat", "pattern": 3}, False),
        ("input matches '^' + word", {"input": "cat", "word": "c"}, True),
        ("6 / 3 / 2", {}, 1),
    ],
)
def test_matches(text: str, scope: dict[str, Any], value: Any) -> None:
    assert evaluate(text, scope) == value


def test_the_groups_can_be_read_in_the_same_expression() -> None:
    text = r"input matches /^(?<count>\d+) (nights?)$/ AND match.count >= 2 AND match.2 == 'nights'"

    assert evaluate(text, {"input": "3 nights"}) is True
    assert evaluate(text, {"input": "1 night"}) is False


def test_the_groups_can_be_read_afterwards() -> None:
    run = ExpressionRun()

    assert compile_expression(r"input matches '(\w+)@'").test({"input": "ada@example"}, run)
    assert run.captures == {"0": "ada@", "1": "ada"}
    assert compile_expression("match.1").value({}, run) == "ada"
    assert not compile_expression("input matches 'x'").test({"input": "ada"}, run)
    assert run.captures == {"0": "ada@", "1": "ada"}


def test_without_a_match_the_variable_of_that_name_is_read() -> None:
    assert evaluate("match.1", {"match": {"1": "kept"}}) == "kept"
    assert evaluate("match.1", {}) is None


def test_a_pattern_in_quotes_is_no_template() -> None:
    scope = {"input": "{{x}}", "x": "y"}

    assert evaluate("input matches '^{{x}}$'", scope) is True
    assert evaluate("input == '{{x}}'", scope) is False


def test_a_pattern_that_cannot_be_used_is_found_before_it_runs() -> None:
    for text in ("input matches '(?=x)'", "input matches /(?=x)/", "input.matches('(?=x)')"):
        with pytest.raises(SourceError, match="cannot be used"):
            compile_expression(text)
    assert compile_expression("input matches '(?:x)'").test({"input": "x"})


def test_a_pattern_from_a_variable_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        evaluate("input matches pattern", {"input": "x", "pattern": "("})
    assert evaluate("input matches pattern", {"input": "x", "pattern": "x"}) is True
