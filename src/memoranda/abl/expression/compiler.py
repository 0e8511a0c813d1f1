"""Compile ABL expressions and templates, once, to run them many times.

`compile_expression` and `compile_template` take text and raise a `SourceError`; `evaluate` and `render` run it at once.
For a file that is parsed as a whole, `parse_expression` and `parse_template` add to the diagnostics of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from memoranda.abl.expression.functions import FUNCTIONS, now
from memoranda.abl.expression.parser import Place, parse_stretch
from memoranda.abl.expression.semantics import BINARY, UNARY, amount_text, display_text, index, member, truthy
from memoranda.abl.expression.template import parse_template as _parse_template
from memoranda.lang.diagnostics import Diagnostics, source_error
from memoranda.lang.expression.compiler import MISSING, Compilation, Expression
from memoranda.lang.expression.dialect import DEFAULT_BOUNDS, Bounds, Closure, Dialect, ExpressionRun, Names, Resolve
from memoranda.lang.expression.nodes import Node
from memoranda.lang.source import Excerpt, Source
from memoranda.lang.template import WITH_TEMPLATES, CompiledTemplate, Template
from memoranda.model.clock import Clock, Ids


def _now(names: Names, run: ExpressionRun) -> Any:
    value = names.get("now", MISSING)
    return now(run) if value is MISSING else value


def _match(names: Names, run: ExpressionRun) -> Any:
    return names.get("match") if run.captures is None else run.captures


class Masked(Node, frozen=True):
    """An expression in a template of whose value only a part is shown."""

    of: Node
    show: Callable[[Any], Any]


def _compile_mask(node: Masked, to: Compilation) -> Closure:
    read, show = to.compile(node.of), node.show
    return lambda names, run: show(read(names, run))


ABL = Dialect(
    truthy=truthy,
    word=display_text,
    amount=amount_text,
    unary=UNARY,
    binary=BINARY,
    member=member,
    index=index,
    functions=FUNCTIONS,
    names={"now": _now, "match": _match, "always": lambda names, run: True},
    compilers={**WITH_TEMPLATES, Masked: _compile_mask},
)
"""The dialect of ABL."""


def parse_expression(text: Excerpt, diagnostics: Diagnostics, *, bounds: Bounds = DEFAULT_BOUNDS) -> Node | None:
    """Parse an expression of a file; None, with diagnostics, if it has errors."""
    return parse_stretch(text, 0, len(text.text), Place(diagnostics, _parse_template, bounds=bounds))


def parse_template(text: Excerpt, diagnostics: Diagnostics, *, bounds: Bounds = DEFAULT_BOUNDS) -> Template | None:
    """Parse a template of a file; None, with diagnostics, if it has errors."""
    return _parse_template(text, Place(diagnostics, _parse_template, bounds=bounds))


def expression(node: Node, *, resolve: Resolve | None = None) -> Expression:
    """Compile a parsed expression; `resolve` reads some paths in its own way, such as persistent ones."""
    return Expression(node, ABL, resolve=resolve)


def template(node: Template, *, resolve: Resolve | None = None) -> CompiledTemplate:
    """Compile a parsed template; see `expression`."""
    return CompiledTemplate(node, ABL, resolve=resolve)


def compile_expression(text: str, *, name: str = "expression", resolve: Resolve | None = None) -> Expression:
    """Compile an expression, or raise a SourceError with all its errors."""
    diagnostics = Diagnostics(Source(name, text))
    node = parse_expression(Excerpt(text), diagnostics)
    if node is None:
        raise source_error(diagnostics.source, diagnostics.sorted())
    return expression(node, resolve=resolve)


def compile_template(text: str, *, name: str = "template", resolve: Resolve | None = None) -> CompiledTemplate:
    """Compile a template, or raise a SourceError with all its errors."""
    diagnostics = Diagnostics(Source(name, text))
    node = parse_template(Excerpt(text), diagnostics)
    if node is None:
        raise source_error(diagnostics.source, diagnostics.sorted())
    return template(node, resolve=resolve)


_expression_once = lru_cache(maxsize=256)(compile_expression)
_template_once = lru_cache(maxsize=256)(compile_template)


def evaluate(text: str, scope: Names, *, clock: Clock | None = None, ids: Ids | None = None) -> Any:
    """Return the value of an expression with variables.

    >>> evaluate("price <= budget AND name IS SET", {"price": 80, "budget": 100, "name": "Seaside"})
    True
    """
    return _expression_once(text).value(scope, ExpressionRun(clock=clock, ids=ids))


def render(text: str, scope: Names, *, clock: Clock | None = None, ids: Ids | None = None) -> str:
    """Render a template with variables.

    >>> render("Good evening, {{COALESCE(user.name, 'guest')}}.", {"user": {"name": "Ada"}})
    'Good evening, Ada.'
    """
    return _template_once(text).render(scope, ExpressionRun(clock=clock, ids=ids))
