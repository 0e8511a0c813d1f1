"""The text of expressions and templates in, programs that are compiled once and run many times out.

`compile_expression` and `compile_template` take text and raise a `SourceError`; `evaluate` and `render` run it at once.
A file that is parsed as a whole uses `parse_expression` and `parse_template`, which note their diagnostics with those
of the file, and then `expression` and `template`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from memoranda.abl.expression.parser import Place, parse_stretch
from memoranda.abl.expression.semantics import BINARY, UNARY, index, member, truthy
from memoranda.abl.expression.template import parse_template as _parse_template
from memoranda.abl.functions import FUNCTIONS, now
from memoranda.lang.diagnostics import Diagnostics, source_error
from memoranda.lang.expression.bounds import DEFAULT_BOUNDS, Bounds
from memoranda.lang.expression.compiler import MISSING
from memoranda.lang.expression.dialect import Dialect, Names, Resolve, Run
from memoranda.lang.expression.nodes import Node
from memoranda.lang.expression.program import Expression
from memoranda.lang.expression.wording import word
from memoranda.lang.source import Excerpt, Source
from memoranda.lang.template import WITH_TEMPLATES, CompiledTemplate, Template
from memoranda.model.clock import Clock
from memoranda.model.ids import Ids


def _now(names: Names, run: Run) -> Any:
    value = names.get("now", MISSING)
    return now(run) if value is MISSING else value


def _match(names: Names, run: Run) -> Any:
    return names.get("match") if run.captures is None else run.captures


ABL = Dialect(
    truthy=truthy,
    word=word,
    unary=UNARY,
    binary=BINARY,
    member=member,
    index=index,
    functions=FUNCTIONS,
    names={"now": _now, "match": _match, "always": lambda names, run: True},
    compilers=WITH_TEMPLATES,
)
"""What ABL's expressions mean."""


def parse_expression(text: Excerpt, said: Diagnostics, *, bounds: Bounds = DEFAULT_BOUNDS) -> Node | None:
    """Return the node of an expression that stands in a file; None after noting every fault that was found."""
    return parse_stretch(text, 0, len(text.text), Place(said, _parse_template, bounds=bounds))


def parse_template(text: Excerpt, said: Diagnostics, *, bounds: Bounds = DEFAULT_BOUNDS) -> Template | None:
    """Return the nodes of a template that stands in a file; None after noting every fault that was found."""
    return _parse_template(text, Place(said, _parse_template, bounds=bounds))


def expression(node: Node, *, resolve: Resolve | None = None) -> Expression:
    """Compile a parsed expression; `resolve` reads some paths in its own way, such as those that are remembered."""
    return Expression(node, ABL, resolve=resolve)


def template(node: Template, *, resolve: Resolve | None = None) -> CompiledTemplate:
    """Compile a parsed template; see `expression`."""
    return CompiledTemplate(node, ABL, resolve=resolve)


def compile_expression(text: str, *, name: str = "expression", resolve: Resolve | None = None) -> Expression:
    """Return an expression ready to run, or raise a SourceError that shows everything wrong with it."""
    said = Diagnostics(Source(name, text))
    node = parse_expression(Excerpt(text), said)
    if node is None:
        raise source_error(said.source, said.sorted())
    return expression(node, resolve=resolve)


def compile_template(text: str, *, name: str = "template", resolve: Resolve | None = None) -> CompiledTemplate:
    """Return a template ready to be rendered, or raise a SourceError that shows everything wrong with it."""
    said = Diagnostics(Source(name, text))
    node = parse_template(Excerpt(text), said)
    if node is None:
        raise source_error(said.source, said.sorted())
    return template(node, resolve=resolve)


_expression_once = lru_cache(maxsize=256)(compile_expression)
_template_once = lru_cache(maxsize=256)(compile_template)


def evaluate(text: str, scope: Names, *, clock: Clock | None = None, ids: Ids | None = None) -> Any:
    """Return the value of an expression among some variables.

    >>> evaluate("price <= budget AND name IS SET", {"price": 80, "budget": 100, "name": "Seaside"})
    True
    """
    return _expression_once(text).value(scope, Run(clock=clock, ids=ids))


def render(text: str, scope: Names, *, clock: Clock | None = None, ids: Ids | None = None) -> str:
    """Return a template's text among some variables.

    >>> render("Good evening, {{COALESCE(user.name, 'guest')}}.", {"user": {"name": "Ada"}})
    'Good evening, Ada.'
    """
    return _template_once(text).render(scope, Run(clock=clock, ids=ids))
