"""Syntax errors are shown at their location; evaluation errors say where and why."""

from __future__ import annotations

from typing import Any

import pytest

import memoranda
from memoranda.errors import EvaluationFailed, LimitExceeded, SourceError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Excerpt, Source, Span
from memoranda.mashin.expression.compiler import compile_expression, evaluate, parse_expression


def _codes(text: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        compile_expression(text)
    return [found.code for found in caught.value.diagnostics if found.severity == "error"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "unexpected_token"),
        ("1 +", "unexpected_token"),
        ("(1", "unexpected_token"),
        ("1)", "unexpected_token"),
        ("a = 1", "unexpected_token"),
        ("[1, 2", "unexpected_token"),
        ("{a 1}", "unexpected_token"),
        ("{a: 1, a: 2}", "duplicate"),
        ("{'${x}': 1}", "computed_name"),
        ("a ? 1", "unexpected_token"),
        ("a b", "unexpected_token"),
        ("and", "unexpected_token"),
        ("let", "unexpected_token"),
        ("[...a]", "unexpected_token"),
        ("'open", "unclosed_quote"),
        ("'a\nb", "unclosed_quote"),
        ("'${a'", "unclosed_quote"),
        ("'${}'", "empty_code"),
        ("'${1 +}'", "unexpected_token"),
        ("a @ b", "unexpected_character"),
        ("`a`", "unexpected_character"),
        ("a.nope()", "unknown_method"),
        ("nope(1)", "unknown_function"),
        ("map(x => x)", "unknown_function"),
        ("Math.nope(1)", "unknown_function"),
        ("Math.abs", "unknown_function"),
        ("Math.PI()", "unknown_function"),
        ("Math.abs()", "wrong_arguments"),
        ("a.trim(1)", "wrong_arguments"),
        ("now(1)", "wrong_arguments"),
        ("a.trim()(1)", "not_a_function"),
        ("1 |> 2", "unexpected_token"),
        ("1 |> nope", "unknown_function"),
        ("(1) => 2", "unexpected_token"),
        ("'${\n" * 4000, "unclosed_quote"),
        ("9e999", "too_large"),
        ("(" * 40 + "1" + ")" * 40, "too_deep"),
        ("+".join(["1"] * 300), "too_large"),
        ("1" * 20_001, "too_long"),
    ],
)
def test_what_cannot_be_read_has_a_code(text: str, code: str) -> None:
    assert _codes(text)[0] == code


def test_every_fault_of_an_expression_comes_in_one_run() -> None:
    text = "[nope(1), a.mop(x => x), 'x${1 +}', 3 4, {b: }, Math.abs()]"
    assert _codes(text) == [
        "unknown_function",
        "unknown_method",
        "unexpected_token",
        "unexpected_token",
        "unexpected_token",
        "wrong_arguments",
    ]


def test_a_fault_is_shown_with_a_caret_and_what_was_meant() -> None:
    with pytest.raises(SourceError) as caught:
        compile_expression("items.fliter(x => x)", name="sum.mashin")
    assert caught.value.report == (
        "sum.mashin:1:7: error[unknown_method]: unknown method `fliter`\n"
        "  1 | items.fliter(x => x)\n"
        "    |       ^^^^^^\n"
        "    = Did you mean `filter`?"
    )


def test_a_fault_inside_a_text_stands_where_it_is_written_in_the_file() -> None:
    whole = "compute x\n  'a\\n${b.nope()}'"
    start = whole.index("'")
    said = Diagnostics(Source("m", whole))
    assert parse_expression(Excerpt(whole[start:], ((0, start),)), said) is None
    (fault,) = said.sorted()
    assert whole[fault.span.start : fault.span.end] == "nope"


def test_texts_and_code_stand_inside_one_another_up_to_a_depth() -> None:
    def nested(levels: int) -> str:
        return "'${" * levels + "1" + "}'" * levels

    assert evaluate(nested(10), {}) == "1"
    assert _codes(nested(25)) == ["too_deep"]
    assert _codes(nested(200))[0] == "unclosed_quote"


def test_an_escape_that_means_nothing_is_kept_and_warned_of() -> None:
    said = Diagnostics(Source("m", r'"\d"'))
    node = parse_expression(Excerpt(r'"\d"'), said)
    assert node is not None
    assert [(each.severity, each.code) for each in said.sorted()] == [("warning", "unknown_escape")]
    assert evaluate(r'"\d"', {}) == "\\d"


def test_not_before_a_comparison_is_warned_of_unless_brackets_show_what_is_meant() -> None:
    for text, codes in (("not a == b", ["not_before_comparison"]), ("not (a == b)", []), ("(not a) == b", [])):
        said = Diagnostics(Source("m", text))
        assert parse_expression(Excerpt(text), said) is not None
        assert [each.code for each in said.sorted()] == codes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input.gone.field", "`input.gone` is null, so it has no field `field`"),
        ("input.gone.map(x => x)", "`input.gone` is null, so it has no `map`"),
        ("input.gone[0]", "null has no item 0"),
        ("input.gone?.a.b + missing", "the name `missing` is not defined"),
        ("1 - 'a'", "`-` needs a number, not text"),
        ("null + 1", "`+` cannot add null and a number"),
        ("1 / 0", "`/` divides by zero"),
        ("1 % 0", "`%` divides by zero"),
        ("0 ** -1", "`**` divides by zero"),
        ("(-8) ** 0.5", "`**` has no result"),
        ("10 ** 400", "`**` has no result"),
        ("1 < 'a'", "`<` cannot compare a number with text"),
        ("null > 1", "`>` cannot compare null with a number"),
        ("4 & 6 == 6", "`&` needs a number, not a boolean"),
        ("1.5 | 1", "`|` needs a whole number, not 1.5"),
        ("1 << 64", "`<<` shifts by 0 to 63 places"),
        ("1 in 5", "`in` cannot look for a number in a number"),
        ("'a'.map(x => x)", "`map` is a method of lists, and the value before it is text"),
        ("[1].map(2)", "`map` needs a function, not a number"),
        ("[1, 'a'].sort()", "`sort` can only order numbers or texts"),
        ("[].reduce((a, b) => a)", "`reduce` has nothing to begin with"),
        ("[1].map(([a]) => a)", "a function that destructures a list"),
        ("JSON.parse('{')", "JSON.parse cannot read the text"),
        ("DateTime.parse('soon')", "DateTime.parse needs a moment, not `soon`"),
        ("DateTime.add('2026-01-01', 1, 'eons')", "`eons` is not a unit of time"),
        ("Result.unwrap(Result.error('late'))", "Result.unwrap found no value: late"),
        ("1..5 by 0", "`by` cannot be 0"),
        ("Math.sqrt(-1)", "Math.sqrt has no result"),
        ("(x => x)", "a function cannot be kept as a value"),
        ("[[x => x]]", "a function cannot be kept as a value"),
        ("'' + (x => x)", "a function has no text"),
    ],
)
def test_what_cannot_be_computed_says_why_and_where(text: str, message: str) -> None:
    with pytest.raises(EvaluationFailed) as caught:
        evaluate(text, {"input": {"gone": None}})
    assert caught.value.message.startswith(message)


def test_a_failure_knows_its_place_in_the_source() -> None:
    text = "1 + [2].map(x => x - 'a').length"
    with pytest.raises(EvaluationFailed) as caught:
        evaluate(text, {})
    span: Span = caught.value.span
    assert text[span.start : span.end] == "x - 'a'"


def test_a_name_that_is_not_defined_names_what_was_meant() -> None:
    scope = {"input": {"question": "?"}, "steps": {"find_docs": {}}}
    with pytest.raises(EvaluationFailed, match="Did you mean `question`"):
        evaluate("qestion", scope)
    with pytest.raises(EvaluationFailed, match="Did you mean `find_docs`"):
        evaluate("fnd_docs.results", scope)
    with pytest.raises(EvaluationFailed, match="Did you mean `document`"):
        evaluate("[1].map(document => documnt)", scope)
    with pytest.raises(EvaluationFailed, match="Known here: `find_docs`, `question`"):
        evaluate("zzz", scope)


@pytest.mark.parametrize(
    "text",
    [
        "'x'.repeat(1000000)",
        "'x'.padStart(1000000)",
        "1..1000000",
        "-1e308..1e308 by 1e-300",
        "(1..1000).map(x => (1..1000).map(y => y))",
        "(1..90000).map(x => x).map(y => y)",
        "(1..400).reduce((a, x) => a + a, 'xx')",
        "(1..400).reduce((a, x) => a.concat(a), [1])",
        "(1..100).reduce((a, x) => [a], [])",
        "(1..60).reduce((a, x) => [a, a], [])",
        "(1..60000).map(x => (1..60000).includes(x))",
        "[1, 2, 3].map(x => 'y'.repeat(90000)).join('')",
        "'${'y'.repeat(90000)}${'y'.repeat(90000)}'",
        "(f => f(f))(f => f(f))",
    ],
)
def test_work_beyond_a_limit_is_stopped(text: str) -> None:
    with pytest.raises(LimitExceeded):
        evaluate(text, {})


def test_what_stands_below_the_limits_is_computed() -> None:
    assert len(evaluate("'x'.repeat(100000)", {})) == 100_000
    assert len(evaluate("(1..1000).map(x => (1..50).length)", {})) == 1000
    assert evaluate("(" * 15 + "1" + ")" * 15, {}) == 1
    assert evaluate("+".join(["1"] * 140), {}) == 140
    nested: Any = evaluate("(1..50).reduce((a, x) => [a], [])", {})
    for _ in range(50):
        (nested,) = nested
    assert nested == []


def test_values_with_shared_parts_are_compared_in_reasonable_time() -> None:
    grown = "(1..50).reduce((a, x) => [a, a], [])"
    assert evaluate(f"{grown} == {grown}", {}) is True
    assert evaluate(f"{grown} == [{grown}]", {}) is False


def test_a_text_that_stands_in_no_file_may_hold_the_end_of_a_line() -> None:
    docs = {"docs": [{"content": "rye"}, {"content": "oat"}]}
    assert evaluate("docs.map(d => d.content).join('\n')", docs) == "rye\noat"
    assert evaluate("'${docs[0].content}\r\n' + \"a\nb\"", docs) == "rye\r\na\nb"
    # In a file a quote still ends with its line, whatever follows.
    text = "machine loaf\n  implements\n    compute it\n      ['rye,\n       'oat']\n"
    assert [one.code for one in memoranda.mashin.check(text)][:1] == ["unclosed_quote"]
