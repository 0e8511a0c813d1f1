"""Diagnostics of expressions and templates with syntax errors: code, location and hint."""

from __future__ import annotations

import pytest

from memoranda.abl.expression.compiler import (
    compile_expression,
    compile_template,
    evaluate,
    parse_expression,
    parse_template,
    render,
)
from memoranda.errors import SourceError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.dialect import Bounds
from memoranda.lang.source import Excerpt, Source

CURLY = "\N{LEFT DOUBLE QUOTATION MARK}"
NO_TERNARY = "`? :` is not part of the language; use IF and ELSE branches, or COALESCE for a fallback"
BAD_PATTERN = "Correct the pattern; back-references are not supported, because they can take forever"


def faults(text: str, *, template: bool = False) -> list[tuple[str, str, str]]:
    """Return the code, the text above the carets, and the hint of each diagnostic."""
    source = Source("x", text)
    said = Diagnostics(source)
    (parse_template if template else parse_expression)(Excerpt(text), said)
    return [(fault.code, source.slice(fault.span), fault.hint) for fault in said.sorted()]


@pytest.mark.parametrize(
    ("text", "code", "at", "hint"),
    [
        ("", "unexpected_token", "", ""),
        ("a AND", "unexpected_token", "", ""),
        ("AND a", "unexpected_token", "AND", ""),
        ("a +", "unexpected_token", "", ""),
        ("(a", "unexpected_token", "", ""),
        ("a)", "unexpected_token", ")", ""),
        ("[1, 2", "unexpected_token", "", ""),
        ("[1 2]", "unexpected_token", "2", ""),
        ("{a: 1", "unexpected_token", "", ""),
        ("{[]: 1}", "unexpected_token", "[", ""),
        ("{'a'}", "unexpected_token", "}", ""),
        ("a.", "unexpected_token", "", ""),
        ("a.[0]", "unexpected_token", "[", ""),
        ("a[0", "unexpected_token", "", ""),
        ("a b", "unexpected_token", "b", ""),
        ("a adn b", "unexpected_token", "adn", "Did you mean `AND`?"),
        ("a contians 'x'", "unexpected_token", "contians", "Did you mean `contains`?"),
        ("a = 1", "unexpected_character", "=", "To compare write `==`"),
        ("a === 1", "unexpected_character", "===", "To compare write `==`"),
        ("a !== 1", "unexpected_character", "!==", "To compare write `!=`"),
        ("a ? b : c", "unexpected_character", "?", NO_TERNARY),
        ("a & b", "unexpected_character", "&", "Write `AND`"),
        ("a ; b", "unexpected_character", ";", ""),
        (f"name == {CURLY}Ada", "unexpected_character", CURLY, 'Use straight quotes: `"`'),
        ("'abc", "unclosed_quote", "'", "End the text with ' on the same line"),
        ("a < b < c", "unexpected_token", "<", "Comparisons cannot be chained; join two with AND"),
        ("a IS EMPTY", "unexpected_token", "EMPTY", "Write IS SET or IS NOT SET"),
        ("a IS NOT", "unexpected_token", "", "Write IS SET or IS NOT SET"),
        ("/a/", "unexpected_token", "/", "A /pattern/ may only follow `matches`"),
        ("UPER(a)", "unknown_function", "UPER", "Did you mean `UPPER`?"),
        ("abl.coalesc(a)", "unknown_function", "coalesc", "Did you mean `COALESCE`?"),
        ("a.containz('x')", "unknown_function", "containz", "Did you mean `contains`?"),
        ("zzz(a)", "unknown_function", "zzz", "See the list of functions"),
        ("ROUND()", "wrong_arguments", "ROUND", ""),
        ("UPPER(a, b)", "wrong_arguments", "UPPER", ""),
        ("a.contains()", "wrong_arguments", "a.contains()", ""),
        ("a[0](1)", "not_a_function", "(", "Only functions and methods can"),
        ("1e999", "too_large", "1e999", ""),
        ("a matches '('", "bad_pattern", "'('", BAD_PATTERN),
        ("'{{a'", "unclosed_tag", "{{", "Write `}}`, or `\\{{` for two braces"),
        ("'x {{UPER(a)}}'", "unknown_function", "UPER", "Did you mean `UPPER`?"),
        ("@indx", "unknown_name", "@indx", "Did you mean `@index`?"),
    ],
)  # fmt: skip
def test_a_fault_in_an_expression(text: str, code: str, at: str, hint: str) -> None:
    assert faults(text) == [(code, at, hint)]


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("{{a", "unclosed_tag", "{{"),
        ("{{}}", "empty_tag", "{{}}"),
        ("{{a b}}", "unexpected_token", "b"),
        ("{{add 1}}", "wrong_arguments", "add 1"),
        ("{{UPER(a)}}", "unknown_function", "UPER"),
        ("{{#if a}}b", "unclosed_block", "{{#if a}}"),
        ("{{#if}}b{{/if}}", "unexpected_token", ""),
        ("{{#ech a}}{{x}}", "unknown_block", "#ech a"),
        ("a{{/if}}", "stray_close", "/if"),
        ("a{{else}}b", "stray_else", "{{else}}"),
        ("{{#if a}}{{else}}{{else}}{{/if}}", "stray_else", "{{else}}"),
        ("{{#if a}}{{else unless}}{{/if}}", "unexpected_token", "else unless"),
        ("{{#each a}}{{/if}}", "wrong_close", "/if"),
        ("{{#if a}}{{#each b}}{{/if}}", "unclosed_block", "{{#each b}}"),
    ],
)
def test_a_fault_in_a_template(text: str, code: str, at: str) -> None:
    assert [(found, where) for found, where, _ in faults(text, template=True)] == [(code, at)]


def test_every_fault_is_found_in_one_run() -> None:
    assert [code for code, _, _ in faults("UPER(a) + ROUND() + FOO(b)")] == [
        "unknown_function",
        "wrong_arguments",
        "unknown_function",
    ]
    found = faults("{{UPER(a)}} {{#if }}x{{/if}} {{#each b}}", template=True)
    assert [code for code, _, _ in found] == ["unknown_function", "unexpected_token", "unclosed_block"]


def test_not_over_a_comparison_is_worth_a_warning() -> None:
    assert [code for code, _, _ in faults("NOT a == b")] == ["not_over_comparison"]
    assert faults("NOT (a == b)") == faults("NOT a") == faults("NOT a IS SET") == faults("a AND b == c") == []
    assert evaluate("NOT a == b", {"a": 1, "b": 2}) is True


def test_a_place_of_a_loop_outside_a_loop_is_worth_a_warning() -> None:
    assert [code for code, _, _ in faults("{{@index}}", template=True)] == ["outside_loop"]
    assert faults("{{#each a}}{{@index}}{{'{{@last}}'}}{{/each}}", template=True) == []


def test_a_fault_stands_where_it_is_in_the_file() -> None:
    source = Source("desk.abl", "RESPOND: |\n    Hello\n    {{UPER(name)}}\n")
    said = Diagnostics(source)

    assert parse_template(Excerpt("Hello\n{{UPER(name)}}", ((0, 15), (6, 25))), said) is None
    assert said.sorted()[0].source == "desk.abl"
    with pytest.raises(SourceError) as caught:
        said.raise_if_failed()
    assert caught.value.report == (
        "desk.abl:3:7: error[unknown_function]: unknown function `UPER`\n"
        "  3 |     {{UPER(name)}}\n"
        "    |       ^^^^\n"
        "    = Did you mean `UPPER`?"
    )


def test_a_fault_in_a_text_with_escapes_stands_where_it_is() -> None:
    text = r"'a\n\"b {{UPER(c)}}'"

    assert faults(text) == [("unknown_function", "UPER", "Did you mean `UPPER`?")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("(" * 9_000, "too_deep"),
        ("[" * 9_000 + "]" * 9_000, "too_deep"),
        ("{a:" * 6_000, "too_deep"),
        ("UPPER(" * 3_000, "too_deep"),
        ("a IMPLIES " * 1_900 + "a", "too_deep"),
        ("-" * 9_000 + "1", "too_large"),
        ("NOT " * 4_000 + "a", "too_large"),
        ("EMPTY " * 3_000 + "a", "too_large"),
        ("a" + ".b" * 9_000, "too_large"),
        ("1" + "+1" * 9_000, "too_large"),
        ("a OR " * 3_000 + "a", "too_large"),
        ("x" * 30_000, "too_long"),
    ],
)
def test_a_bomb_is_a_diagnostic(text: str, code: str) -> None:
    assert [found for found, _, _ in faults(text)] == [code]


def test_what_stands_below_the_limits_is_run() -> None:
    assert evaluate("(" * 31 + "1" + ")" * 31, {}) == 1
    assert evaluate("a OR " * 900 + "a", {"a": True}) is True
    assert evaluate("1" + "+1" * 140, {}) == 141
    assert render("{{#if a}}" * 32 + "x" + "{{/if}}" * 32, {"a": 1}) == "x"


def test_the_deepest_of_all_is_run_without_running_out_of_stack() -> None:
    deepest = "'{{" + "(" * 15 + '"{{' + "(" * 14 + "x" + ")" * 14 + '}}"' + ")" * 15 + "}}'"
    assert evaluate(deepest, {"x": "found"}) == "found"
    assert [code for code, _, _ in faults(deepest.replace("x", "(((x)))"))] == ["too_deep"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{#each a}}" * 5_000, "too_deep"),
        ("{{#if a}}" + "{{else if b}}" * 5_000 + "{{/if}}", "too_deep"),
        ("{{" * 40_000, "unclosed_tag"),
        ("{{'" * 30_000, "unclosed_tag"),
        ("x" * 100_001, "too_long"),
    ],
)
def test_a_bomb_of_a_template_is_a_diagnostic(text: str, code: str) -> None:
    assert [found for found, _, _ in faults(text, template=True)] == [code]


def test_the_limits_can_be_set() -> None:
    said = Diagnostics(Source("x", "((a))"))

    assert parse_expression(Excerpt("((a))"), said, bounds=Bounds(depth=2)) is None
    assert parse_expression(Excerpt("(a)"), said, bounds=Bounds(depth=2)) is not None
    assert parse_expression(Excerpt("a + b"), said, bounds=Bounds(nodes=2)) is None
    assert parse_template(Excerpt("abc"), said, bounds=Bounds(template=2)) is None


def test_the_name_of_the_source_is_in_the_message() -> None:
    with pytest.raises(SourceError, match=r"^condition:1:1: "):
        compile_expression("AND", name="condition")
    with pytest.raises(SourceError, match=r"^greeting:1:1: "):
        compile_template("{{", name="greeting")
