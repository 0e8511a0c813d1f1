"""Any text evaluates to a value or raises a typed error."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.abl.expression.compiler import compile_template, evaluate, render
from memoranda.abl.expression.functions import FUNCTIONS
from memoranda.errors import MemorandaError, SourceError

pytestmark = pytest.mark.slow

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12) | st.sampled_from(["2026-03-01", "2026-03-01T10:00:00Z", "12", "-1.5", "false", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
SCOPES = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)

OPERATORS = [
    "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "AND", "OR", "IMPLIES", "IN", "NOT IN", "contains",
    "startsWith", "endsWith", "matches",
]  # fmt: skip
LEAVES = st.sampled_from(
    ["a", "b.c", "d", "1", "0", "-2.5", "''", "'x'", "'12'", "null", "true", "[]", "now", "'2026-03-01'"]
)


def _combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(sorted(FUNCTIONS))
    return st.one_of(
        st.builds(
            lambda left, operator, right: f"({left} {operator} {right})", inner, st.sampled_from(OPERATORS), inner
        ),
        st.builds(lambda of, at: f"{of}[{at}]", st.sampled_from(["a", "b", "'xyz'"]), inner),
        st.builds(lambda items: f"[{', '.join(items)}]", st.lists(inner, max_size=3)),
        st.builds(lambda item: f"{{a: {item}}}", inner),
        st.builds(lambda item: f"NOT ({item})", inner),
        st.builds(lambda item: f"({item}) IS NOT SET", inner),
        st.builds(lambda item: f"'<{{{{{item.replace(chr(39), chr(34))}}}}}>'", inner),
        st.builds(_call, names, st.lists(inner, min_size=3, max_size=3)),
    )


def _call(name: str, arguments: list[str]) -> str:
    function = FUNCTIONS[name]
    return (
        f"{name}({', '.join(arguments[: max(function.least, min(3, 3 if function.most is None else function.most))])})"
    )


EXPRESSIONS = st.recursive(LEAVES, _combine, max_leaves=8)


def is_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(is_json(item) for item in value)
    if isinstance(value, dict):
        return all(type(name) is str and is_json(item) for name, item in value.items())
    return value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


@given(EXPRESSIONS, SCOPES)
def test_any_expression_gives_a_value_or_a_typed_error(text: str, scope: dict[str, Any]) -> None:
    try:
        value = evaluate(text, scope)
    except MemorandaError:
        return
    assert is_json(value)


@given(st.text(alphabet=st.sampled_from("ab.0 1'\"\\[](){}:,+-*/%<>=!&|@#\nNOTINSEeo{{}}\u2028é"), max_size=40))
def test_any_text_is_an_expression_or_a_source_error(text: str) -> None:
    try:
        evaluate(text, {"a": "1", "b": [1]})
    except SourceError as error:
        assert error.diagnostics
        for fault in error.diagnostics:
            assert 0 <= fault.span.start <= fault.span.end <= len(text)
        assert error.report
    except MemorandaError:
        pass


PIECES = st.sampled_from(
    ["{{", "}}", "{{a}}", "{{#if a}}", "{{else}}", "{{else if b}}", "{{/if}}", "{{#each b}}", "{{/each}}", "{{this}}",
     "\n", " ", "x", "{", "}", "\\", "'", '"', "{{!", "{{{", "}}}", "{{add @index 1}}", "\r\n", "\t"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=30), SCOPES)
def test_any_text_is_a_template_or_a_source_error(text: str, scope: dict[str, Any]) -> None:
    try:
        assert isinstance(render(text, scope), str)
    except SourceError as error:
        assert error.diagnostics
        assert error.report
    except MemorandaError:
        pass


@given(st.text(max_size=60))
def test_what_a_user_typed_is_shown_as_it_is(typed: str) -> None:
    shown = compile_template("[{{said}}{{#each list}}{{this}}{{/each}}]").render({"said": typed, "list": [typed]})

    assert shown == f"[{typed}{typed}]"


@given(st.text(alphabet=st.characters(exclude_characters="{"), max_size=60))
def test_text_without_braces_is_shown_as_it_is(text: str) -> None:
    assert render(text, {}) == text
