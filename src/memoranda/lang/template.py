"""Templates: text with expressions, choices and loops in, closures that give text out.

The renderer of every language. What a grammar writes as `{{name}}` or `${name}` is a node here; the values that are
filled in are never read as templates themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from memoranda.errors import LimitExceeded
from memoranda.lang.expression.bounds import exceeded
from memoranda.lang.expression.compiler import CORE, Layer, compile_node
from memoranda.lang.expression.dialect import Closure, Compilation, Dialect, Names, Resolve, Run
from memoranda.lang.expression.nodes import Constant, Node

THIS, INDEX, KEY, FIRST, LAST = "this", "@index", "@key", "@first", "@last"
LOOP_NAMES = (THIS, INDEX, KEY, FIRST, LAST)
"""What the body of a loop can ask: the item, its place from 0, its name in an object, and whether it is at an end."""


class Template(Node, frozen=True):
    """Parts one after the other: texts, expressions, choices and loops."""

    parts: tuple[Node, ...]
    trimmed: bool = False
    """Whether the last line held only a tag: the line goes, and with it the end of the line before."""


class Choice(Node, frozen=True):
    """One part or another."""

    test: Node
    then: Template
    otherwise: Template


class Loop(Node, frozen=True):
    """A part for each item of a list or object, or another when there are none."""

    of: Node
    body: Template
    otherwise: Template


class CompiledTemplate:
    """A template that is ready to be rendered, as often as one likes and from any thread."""

    __slots__ = ("closure", "node")

    def __init__(self, node: Template, dialect: Dialect, *, resolve: Resolve | None = None) -> None:
        """Compile a template once; see `compile_node`."""
        self.node = node
        self.closure = compile_node(node, dialect, resolve=resolve)
        """Gives the text among variables; for those who bring their own run."""

    @property
    def is_constant(self) -> bool:
        """Whether it is only text, and the same whatever the variables are."""
        return all(isinstance(part, Constant) for part in self.node.parts)

    def render(self, names: Names, run: Run | None = None) -> str:
        """Return the text among these variables."""
        return self.closure(names, run or Run())


def _template(node: Template, to: Compilation) -> Closure:
    word, trimmed = to.dialect.word, node.trimmed
    if all(isinstance(part, Constant) for part in node.parts):
        text = "".join(word(cast("Constant", part).value) for part in node.parts)

        def repeat(names: Names, run: Run) -> str:
            run.written += len(text)
            if run.written > run.bounds.output:
                raise _too_much(run)
            return text

        return repeat
    parts = tuple((_written(part), to.compile(part), isinstance(part, (Choice, Loop))) for part in node.parts)

    def render(names: Names, run: Run) -> str:
        out: list[str] = []
        for text, part, counted in parts:
            if text is None:
                value = part(names, run)
                text = value if type(value) is str else word(value)
            if not counted:
                run.written += len(text)
                if run.written > run.bounds.output:
                    raise _too_much(run)
            out.append(text)
        whole = "".join(out)
        return whole.removesuffix("\n") if trimmed else whole

    return render


def _written(part: Node) -> str | None:
    """Return the text that a part is, None for one that has to be computed."""
    return part.value if isinstance(part, Constant) and type(part.value) is str else None


def _too_much(run: Run) -> LimitExceeded:
    return exceeded("what a template renders", run.bounds.output, run.written)


def _choice(node: Choice, to: Compilation) -> Closure:
    test, truthy = to.compile(node.test), to.dialect.truthy
    then, otherwise = to.compile(node.then), to.compile(node.otherwise)
    return lambda names, run: then(names, run) if truthy(test(names, run)) else otherwise(names, run)


def _loop(node: Loop, to: Compilation) -> Closure:
    of, otherwise = to.compile(node.of), to.compile(node.otherwise)
    body = to.inside_loop().compile(node.body)

    def render(names: Names, run: Run) -> str:
        keys, items = _entries(of(names, run))
        if not items:
            return otherwise(names, run)
        out: list[str] = []
        last = len(items) - 1
        for place, item in enumerate(items):
            run.step()
            around = Layer(cast("dict[str, Any]", item), names) if type(item) is dict else names
            own: dict[str, Any] = {THIS: item, INDEX: place, FIRST: place == 0, LAST: place == last}
            own[KEY] = keys[place] if keys else place
            out.append(body(Layer(own, around), run))
        return "".join(out)

    return render


def _entries(value: Any) -> tuple[Sequence[str], Sequence[Any]]:
    if type(value) is list:
        return (), cast("list[Any]", value)
    if type(value) is dict:
        fields = cast("dict[str, Any]", value)
        return list(fields), list(fields.values())
    return (), ()


WITH_TEMPLATES: Mapping[type[Node], Callable[[Any, Compilation], Closure]] = {
    **CORE,
    Template: _template,
    Choice: _choice,
    Loop: _loop,
}
"""How the nodes of expressions and templates are compiled."""
