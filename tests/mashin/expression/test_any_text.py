"""Any text evaluates to a value or raises a typed error."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from computations import computed
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import MemorandaError, SourceError
from memoranda.lang.diagnostics import render_all
from memoranda.lang.source import Source
from memoranda.mashin.expression.compiler import compile_expression, evaluate
from memoranda.mashin.expression.functions import FUNCTIONS
from memoranda.mashin.expression.methods import METHODS

pytestmark = pytest.mark.slow

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(["2026-03-01", "12", "{}", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
SCOPES = st.fixed_dictionaries({"input": st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)})
LEAVES = st.sampled_from(
    [
        "a",
        "b.c",
        "input.d",
        "1",
        "0",
        "-2.5",
        "''",
        "'x'",
        "null",
        "true",
        "[]",
        "{}",
        "now()",
        "'2026-03-01'",
        "[1, 2]",
    ]
)
OPERATORS = [
    "+", "-", "*", "/", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "||", "??", "in", "not in", "&", "|", "^",
    "<<", ">>", "..", "is", "is not", "is at least",
]  # fmt: skip
PIECES = st.sampled_from(
    [*OPERATORS, "|>", "?.", "?", ":", "=>", "(", ")", "[", "]", "{", "}", ",", ".", "let", "=", "\n", "'", '"', "${",
     "\\", "//", "not", "typeof", "by", "a", "x", "1", "map", "Math", ".abs", "'a'", " "]
)  # fmt: skip


def _combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    functions = st.sampled_from(sorted(set(FUNCTIONS) - {".."}))
    return st.one_of(
        st.builds(lambda one, sign, two: f"({one} {sign} {two})", inner, st.sampled_from(OPERATORS), inner),
        st.builds(lambda of, at: f"({of})[{at}]", inner, inner),
        st.builds(lambda of: f"({of})?.b.c", inner),
        st.builds(lambda items: f"[{', '.join(items)}]", st.lists(inner, max_size=3)),
        st.builds(lambda item: f"{{a: {item}}}", inner),
        st.builds(lambda sign, item: f"{sign} ({item})", st.sampled_from(["-", "!", "~", "typeof"]), inner),
        st.builds(lambda test, one, two: f"({test} ? {one} : {two})", inner, inner, inner),
        st.builds(lambda item: f'"<${{{item}}}>"', inner),
        st.builds(_method, inner, st.sampled_from(sorted(METHODS)), st.lists(inner, min_size=2, max_size=2)),
        st.builds(_call, functions, st.lists(inner, min_size=3, max_size=3)),
    )


def _method(of: str, name: str, arguments: list[str]) -> str:
    method = METHODS[name]
    given = arguments[: method.least]
    if given and set(method.on) == {list} and name not in ("concat", "join", "flat"):
        given[0] = f"(a, b) => {given[0]}"
    return f"({of}).{name}({', '.join(given)})"


def _call(name: str, arguments: list[str]) -> str:
    return f"{name}({', '.join(arguments[: FUNCTIONS[name].least])})"


EXPRESSIONS = st.recursive(LEAVES, _combine, max_leaves=8)


def _is_json(value: Any) -> bool:
    if type(value) in (list, dict):
        return all(map(_is_json, value if type(value) is list else value.values()))
    return value is None or type(value) in (str, bool, int) or (type(value) is float and math.isfinite(value))


@given(EXPRESSIONS, SCOPES)
def test_any_expression_has_a_value_that_json_can_hold_or_a_typed_error(text: str, scope: dict[str, Any]) -> None:
    program = compile_expression(text)
    try:
        value = program.value(scope)
    except MemorandaError as fault:
        assert fault.message
    else:
        assert _is_json(value)
        json.dumps(value)


@given(EXPRESSIONS, SCOPES)
def test_a_body_that_names_a_value_gives_that_value(text: str, scope: dict[str, Any]) -> None:
    def outcome(program: Any) -> Any:
        try:
            return program.value(scope)
        except MemorandaError as fault:
            return fault.message

    if "now" not in text and "random" not in text and "generate" not in text:
        assert outcome(computed(f"let given = {text}\ngiven")) == outcome(compile_expression(text))


@given(st.text(max_size=60) | st.lists(PIECES, max_size=25).map(" ".join) | st.lists(PIECES, max_size=25).map("".join))
def test_any_text_is_read_or_refused_with_diagnostics(text: str) -> None:
    try:
        compile_expression(text)
    except SourceError as fault:
        assert fault.diagnostics
        assert render_all(fault.diagnostics, Source("m", text))
        assert all(0 <= each.span.start <= each.span.end <= len(text) for each in fault.diagnostics)


@given(st.lists(PIECES, max_size=12).map(" ".join), SCOPES)
def test_what_can_be_read_runs_to_a_value_or_a_typed_error(text: str, scope: dict[str, Any]) -> None:
    try:
        evaluate(text, scope)
    except MemorandaError as fault:
        assert fault.message
