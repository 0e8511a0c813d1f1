"""Errors in an expression are explained, and shown at their position."""

from __future__ import annotations

from pathlib import Path

import pytest

from memoranda.errors import EvaluationFailed, LimitExceeded, SourceError
from memoranda.workflow.document import Fields
from memoranda.workflow.expressions import Template
from memoranda.workflow.jsonata import compile, evaluate
from memoranda.workflow.parser import parse_document

UNREADABLE = {
    "1 +": "+",
    "$input.name & & 'x'": "&",
    "$sum(1": "1",
    "{'a' 1}": "1",
    "'abc": "'",
    "[1, 2": "2",
    "a b": "b",
    ")": ")",
    "x := 1": "x",
    "$replace(a, /(?=b)/, '')": "$replace(a, /(?=b)/, '')",
    "a !": "a !",
    "/* no end": "/* no end",
    "1e999": "1",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_no_expression_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(SourceError) as raised:
        compile(text)
    assert text[raised.value.start : raised.value.end] == UNREADABLE[text]
    assert raised.value.message


WITHOUT_VALUE = {
    "1/0": ("division by zero", "/"),
    "5 % 0": ("division by zero", "%"),
    "true and 1/0": ("division by zero", "/"),
    "$number('nan')": ("to a number: nan", "$number"),
    "1 < $pad('x', 5000, 'x')": ("xxx…", "<"),
    "$number('x')": ("to a number: x", "$number"),
    "2 * $length(5)": ("argument 1 of function", "$length"),
    "1 + 'a'": ("right side", "+"),
    "($x := 5; $x(1))": ("non-function", "$x"),
    "$error('too late')": ("too late", "$error"),
    "$assert(false, 'not so')": ("not so", "$assert"),
    "$eval('1+1')": ("non-function", "$eval"),
    "$single([1, 2])": ("", "$single"),
    "{1: 2}": ("string", "{"),
    "function($x) { $x }": ("a function, which is not a JSON value", "f"),
    "$replace('a', /b*/, 'x')": ("zero length", "$replace"),
    "$replace('a', '', 'x')": ("", "$replace"),
    "$replace('a', 'a', 'x', -1)": ("", "$replace"),
    "$replace('a', /a/, function($m) { 1 })": ("", "$replace"),
    "1e308 * 10": ("out of range", "*"),
}


@pytest.mark.parametrize("text", WITHOUT_VALUE)
def test_an_expression_without_a_value_says_why_and_where(text: str) -> None:
    says, at = WITHOUT_VALUE[text]
    with pytest.raises(EvaluationFailed) as raised:
        evaluate(text)
    assert says in raised.value.message
    assert text[raised.value.start : raised.value.end] == at


def test_a_function_that_runs_values_says_why_it_is_not_there() -> None:
    with pytest.raises(EvaluationFailed, match="never the contents of a value"):
        evaluate("$eval($input.text)", {"input": {"text": "1 + 1"}})
    assert evaluate("$string($input.text)", {"input": {"text": "1 + 1"}}) == "1 + 1"


FILE = """
defs:
  tell:
    kind: task
    action: send_text_message
    inputs:
      text: "=VALUE"
      more:
        - |
          =$input.name &
            $number('x')
flow:
  - do: tell
"""


def template(text: str, key: str) -> Template:
    inputs = parse_document(text).defs[0].inputs
    assert isinstance(inputs, Fields)
    entry = inputs.find(key)
    assert entry is not None
    return Template(entry.value)


def test_a_failing_expression_of_a_file_is_shown_in_the_file() -> None:
    text = FILE.replace("VALUE", "'it is ' & $length(5)")
    with pytest.raises(EvaluationFailed) as raised:
        template(text, "text").value({})
    span = raised.value.span
    assert text[span.start : span.end] == "$length"
    assert raised.value.path == "defs.tell.inputs.text"
    assert template(text.replace("(5)", "('5')"), "text").value({}) == "it is 1"


def test_an_expression_in_a_block_is_shown_on_its_own_line() -> None:
    with pytest.raises(EvaluationFailed) as raised:
        template(FILE, "more").value({"input": {"name": "Ines"}})
    span = raised.value.span
    assert FILE[span.start : span.end] == "$number"
    assert raised.value.path == "defs.tell.inputs.more[0]"


def test_a_limit_is_shown_in_the_file_too() -> None:
    with pytest.raises(LimitExceeded) as raised:
        template(FILE.replace("VALUE", "[1..10000000]"), "text").value({})
    assert raised.value.path == "defs.tell.inputs.text"
    assert FILE[raised.value.span.start - 1] == "="


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("$input.name()", "'a'()", "$map([1], 5)", "5 ~> 6"):
        with pytest.raises(EvaluationFailed):
            evaluate(text, {"input": {"name": "Ines"}})
    assert capsys.readouterr().out == ""
    print("seen")
    assert capsys.readouterr().out == "seen\n"


def test_a_variable_that_is_no_json_is_refused() -> None:
    with pytest.raises(EvaluationFailed, match="not a JSON value"):
        evaluate("$input", {"input": {"path": Path("x")}})
    assert evaluate("$input.path", {"input": {"path": "x"}}) == "x"
