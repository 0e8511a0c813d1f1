from __future__ import annotations

from typing import Any

import msgspec

from memoranda.abl.expression.compiler import ABL, compile_expression, compile_template
from memoranda.lang.expression.compiler import CORE, Compilation, Layer, compile_node
from memoranda.lang.expression.dialect import Closure, ExpressionRun, Names
from memoranda.lang.expression.nodes import Binary, Constant, Name, Node, Path, measure, paths_read
from memoranda.lang.source import Span

HERE = Span(0, 0)


def remembered(path: Path) -> tuple[int, Closure] | None:
    """Read `user.address…` from elsewhere, as a runtime reads what is kept in a memory."""
    if path[:2] != ("user", "address"):
        return None
    return 2, lambda names, run: {"city": "Lund", "lines": ["a", "b"]}


def test_a_caller_may_read_paths_in_its_own_way() -> None:
    scope = {"user": {"address": {"city": "hidden"}, "name": "Ada"}}

    for text, value in (
        ("user.address.city", "Lund"),
        ("user.address.lines[1]", "b"),
        ("user.address.lines.length", 2),
        ("user.name", "Ada"),
        ("user.addressed", None),
    ):
        assert compile_expression(text, resolve=remembered).value(scope) == value
    assert compile_expression("user.address.city").value(scope) == "hidden"


def test_in_a_loop_the_fields_of_an_item_come_first() -> None:
    template = compile_template("{{#each people}}{{user.address.city}} {{/each}}", resolve=remembered)

    assert template.render({"people": [{"user": {"address": {"city": "Oslo"}}}, {"other": 1}]}) == "Oslo Lund "


def test_the_inner_layer_comes_first() -> None:
    names = Layer({"a": 1, "b": None}, Layer({"a": 2, "c": 3}, {"c": 4, "d": 5}))

    assert [names.get(name, "none") for name in "abcde"] == [1, None, 3, 5, "none"]


class Arrow(Node, frozen=True):
    """A node that ABL does not have, as another language would bring it."""

    parameter: str
    body: Node


def test_a_language_can_bring_nodes_of_its_own() -> None:
    def arrow(node: Arrow, to: Compilation) -> Closure:
        body = to.compile(node.body)

        def make(names: Names, run: ExpressionRun) -> Any:
            return lambda value: body(Layer({node.parameter: value}, names), run)

        return make

    other = msgspec.structs.replace(ABL, compilers={**CORE, Arrow: arrow})
    double = Arrow(HERE, "n", Binary(HERE, "*", Name(HERE, "n"), Name(HERE, "by")))

    assert compile_node(double, other)({"by": 2}, ExpressionRun())(21) == 42


def test_the_paths_that_an_expression_reads_are_known() -> None:
    node = compile_expression("a.b > c[d.e] AND UPPER(f) == '{{g.h}}' AND {i: j}.i IS SET").node

    assert [".".join(path) for path, _ in paths_read(node)] == ["a.b", "c", "d.e", "f", "g.h", "j"]
    assert [span for path, span in paths_read(node)][:2] == [Span(0, 3), Span(6, 7)]


def test_nodes_are_counted_and_stacked() -> None:
    assert measure(Constant(HERE, 1)) == (1, 1)
    assert measure(compile_expression("a + b * c").node) == (5, 3)
