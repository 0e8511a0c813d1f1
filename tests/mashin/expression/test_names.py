"""What a name means: parameter, let, step, input, and then the rest."""

from __future__ import annotations

import pytest
from computations import computation, computed

from memoranda.errors import EvaluationFailed
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Node, paths_read
from memoranda.lang.source import Excerpt, Source
from memoranda.mashin.expression.compiler import evaluate, parse_expression


def _node(text: str) -> Node:
    node = parse_expression(Excerpt(text), Diagnostics(Source("m", text)))
    assert node is not None
    return node


def _shape(node: object) -> object:
    """A node without its places."""
    if isinstance(node, Node):
        return type(node), [_shape(getattr(node, name)) for name in node.__struct_fields__ if name != "span"]
    return [_shape(each) for each in node] if isinstance(node, tuple) else node


def test_the_innermost_meaning_of_a_name_wins() -> None:
    everywhere = {"steps": {"x": "step"}, "input": {"x": "input"}, "x": "other"}
    assert evaluate("['parameter'].map(x => x)[0]", everywhere) == "parameter"
    assert computed("let x = 'let'\nx").value(everywhere) == "let"
    assert computed("let x = 'let'\n['parameter'].map(x => x)[0]").value(everywhere) == "parameter"
    assert evaluate("x", everywhere) == "step"
    assert evaluate("x", {**everywhere, "steps": {}}) == "input"
    assert evaluate("x", {"steps": {}, "input": {}, "x": "other"}) == "other"
    with pytest.raises(EvaluationFailed, match="the name `x` is not defined"):
        evaluate("x", {"steps": {}, "input": {}})


def test_steps_and_input_mean_themselves_whatever_steps_are_called() -> None:
    scope = {"steps": {"input": {"a": "step"}, "steps": {"a": "step"}}, "input": {"a": 1}}
    assert evaluate("input.a", scope) == 1
    assert evaluate("steps.input.a", scope) == "step"


def test_an_input_may_be_called_form_and_a_name_like_a_namespace() -> None:
    assert (
        evaluate("form.email + form.name.trim()", {"input": {"form": {"email": "a@b ", "name": " Ada "}}}) == "a@b Ada"
    )
    assert evaluate("[{abs: 1}].map(Math => Math.abs)", {}) == [1]


def test_a_field_that_is_null_is_not_a_missing_name() -> None:
    assert evaluate("x", {"input": {"x": None}}) is None


@pytest.mark.parametrize(
    ("words", "signs"),
    [
        ("a is b", "a == b"),
        ("a is not b", "a != b"),
        ("a is greater than b", "a > b"),
        ("a is less than b", "a < b"),
        ("a is at least b", "a >= b"),
        ("a is at most b", "a <= b"),
        ("a and b", "a && b"),
        ("a or b", "a || b"),
        ("not a", "!a"),
        ("not a and b or c is not d + 1", "!a && b || c != d + 1"),
        ("a |> Math.max(b)", "Math.max(a, b)"),
        ("a |> join(b)", "a.join(b)"),
    ],
)
def test_words_make_the_same_nodes_as_signs(words: str, signs: str) -> None:
    assert _shape(_node(words)) == _shape(_node(signs))


def test_different_operators_make_different_nodes() -> None:
    assert _shape(_node("a is b")) != _shape(_node("a is not b"))


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a ? b : c ?? d", "a ? b : (c ?? d)"),
        ("a ?? b || c", "a ?? (b || c)"),
        ("a || b && c", "a || (b && c)"),
        ("a && b | c", "a && (b | c)"),
        ("a | b ^ c", "a | (b ^ c)"),
        ("a ^ b & c", "a ^ (b & c)"),
        ("a & b == c", "a & (b == c)"),
        ("a == b in c", "a == (b in c)"),
        ("a in b < c", "a in (b < c)"),
        ("a < b |> join", "a < (b |> join)"),
        ("a..b |> join", "(a..b) |> join"),
        ("a .. b << c", "a .. (b << c)"),
        ("a << b + c", "a << (b + c)"),
        ("a + b * c", "a + (b * c)"),
        ("a * b ** c", "a * (b ** c)"),
        ("-a ** b", "(-a) ** b"),
        ("-a.b", "-(a.b)"),
        ("a - b - c", "(a - b) - c"),
        ("a ** b ** c", "a ** (b ** c)"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("typeof a + b", "(typeof a) + b"),
        ("x => a ? b : c", "x => (a ? b : c)"),
    ],
)
def test_operators_bind_as_the_table_says(text: str, grouped: str) -> None:
    assert _shape(_node(text)) == _shape(_node(grouped))


def test_only_names_from_outside_are_reported_as_read() -> None:
    text = "let docs = steps.find.results\nlet n = docs.length + k\ndocs.map(d => d.score + n + z)?.first().w ?? docs"
    assert [path for path, _ in paths_read(computation(text))] == [("steps", "find", "results"), ("k",), ("z",)]
