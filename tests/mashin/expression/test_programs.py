"""The expressions of a document are parsed once, and computations as a whole can be run."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Node
from memoranda.mashin.document import Compute
from memoranda.mashin.expression.compiler import Programs, expression
from memoranda.mashin.parser import read


def body(text: str) -> tuple[Node | None, Programs]:
    reading = read(f"compute a\n{text}", fragment=True)
    assert reading.document.implements is not None
    step = reading.document.implements.body[0]
    assert isinstance(step, Compute)
    programs = Programs(Diagnostics(reading.source))
    return programs.body(step), programs


def value(text: str, scope: dict[str, object]) -> object:
    node, programs = body(text)
    assert node is not None, programs.diagnostics.sorted()
    return expression(node).value(scope)


def test_a_computation_gives_the_value_of_its_last_line() -> None:
    text = "  let double = n => n * 2\n  let all = input.sizes\n    .map(n => double(n))\n"
    text += "  {\n    all: all, // doubled\n  }\n"
    assert value(text, {"input": {"sizes": [1, 2]}}) == {"all": [2, 4]}
    assert value("  1 + 2\n", {}) == 3


def test_a_computation_with_a_fault_has_no_node_and_says_why() -> None:
    node, programs = body("  let b = 1 +\n  b\n")
    assert node is None
    assert programs.diagnostics.failed


def test_an_expression_is_parsed_once() -> None:
    reading = read("compute a\n  1 + 2\n", fragment=True)
    assert reading.document.implements is not None
    step = reading.document.implements.body[0]
    assert isinstance(step, Compute) and step.result is not None
    programs = Programs(Diagnostics(reading.source))
    assert programs.node(step.result) is programs.node(step.result)
