"""The text of expressions in, programs that are compiled once and run many times out.

`compile_expression` takes text and raises a `SourceError`; `evaluate` runs it at once. A file that is parsed as a whole
uses `parse_expression`, which notes its diagnostics with those of the file, and then `expression`.

Among the variables, `steps` and `input` are maps whose fields can also be read by their bare names: a parameter comes
first, then `let`, then a step, then an input, then any other variable, such as `context` and `error`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from memoranda.lang.diagnostics import Diagnostics, source_error
from memoranda.lang.expression.bounds import DEFAULT_BOUNDS, Bounds
from memoranda.lang.expression.dialect import Names, Run
from memoranda.lang.expression.nodes import Node
from memoranda.lang.expression.program import Expression
from memoranda.lang.source import Excerpt, Source
from memoranda.mashin.expression.compiling import MASHIN, Outcome
from memoranda.mashin.expression.parser import Place, parse_stretch
from memoranda.model.clock import Clock
from memoranda.model.ids import Ids


def parse_expression(
    text: Excerpt, said: Diagnostics, *, names: Collection[str] = (), bounds: Bounds = DEFAULT_BOUNDS
) -> Node | None:
    """Return the node of an expression that stands in a file; None after noting every fault that was found.

    `names` are those that the program gave before, so that functions among them can be called.
    """
    return parse_stretch(text, 0, len(text.text), Place(said, bounds, frozenset(names)))


def expression(node: Node) -> Expression:
    """Compile a parsed expression, or the names and the result of a `compute` step."""
    return Expression(Outcome(node.span, node), MASHIN)


def compile_expression(text: str, *, name: str = "expression") -> Expression:
    """Return an expression ready to run, or raise a SourceError that shows everything wrong with it."""
    said = Diagnostics(Source(name, text))
    node = parse_expression(Excerpt(text), said)
    if node is None:
        raise source_error(said.source, said.sorted())
    return expression(node)


_expression_once = lru_cache(maxsize=256)(compile_expression)


def evaluate(text: str, scope: Names, *, clock: Clock | None = None, ids: Ids | None = None) -> Any:
    """Return the value of an expression among some variables.

    >>> evaluate("'Hello ${input.name ?? 'guest'}'", {"input": {"name": "Ada"}})
    'Hello Ada'
    """
    return _expression_once(text).value(scope, Run(clock=clock, ids=ids))
