"""Templates: text with expressions, choices and loops, compiled to closures that render it.

A grammar decides whether to write `{{name}}` or `${name}`; here both are nodes. Values that are filled in are never
read as templates themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from memoranda.errors import LimitExceeded
from memoranda.lang.expression.compiler import CORE, Compilation, Layer, compile_node
from memoranda.lang.expression.dialect import Closure, Dialect, ExpressionRun, Names, Resolve, exceeded
from memoranda.lang.expression.nodes import Constant, Node, Path, paths_read

THIS, INDEX, KEY, FIRST, LAST = "this", "@index", "@key", "@first", "@last"
LOOP_NAMES = (THIS, INDEX, KEY, FIRST, LAST)
"""Names in the body of a loop: the item, its index, its key in an object, and whether it is first or last."""


class Template(Node, frozen=True):
    """A sequence of texts, expressions, choices and loops."""

    parts: tuple[Node, ...]
    trimmed: bool = False
    """Whether the last line was only a tag, so that the line break before it is removed."""


class Choice(Node, frozen=True):
    """One part or another, by a condition."""

    test: Node
    then: Template
    otherwise: Template


class Loop(Node, frozen=True):
    """A part repeated for each item of a list or object, or another part for an empty one."""

    of: Node
    body: Template
    otherwise: Template


class CompiledTemplate:
    """A compiled template, which can be rendered many times and from any thread."""

    __slots__ = ("_paths", "closure", "node")

    def __init__(self, node: Template, dialect: Dialect, *, resolve: Resolve | None = None) -> None:
        """Compile a template once; see `compile_node`."""
        self.node = node
        self._paths: tuple[Path, ...] | None = None
        self.closure = compile_node(node, dialect, resolve=resolve)
        """Renders the text, for callers with an `ExpressionRun` of their own."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that it mentions."""
        if self._paths is None:
            self._paths = tuple(dict.fromkeys(path for path, _ in paths_read(self.node)))
        return self._paths

    @property
    def is_constant(self) -> bool:
        """Whether it contains no expressions."""
        return all(isinstance(part, Constant) for part in self.node.parts)

    def render(self, names: Names, run: ExpressionRun | None = None) -> str:
        """Render the text with variables."""
        return self.closure(names, run or ExpressionRun())


_CURRENCY_SIGNS = ("$", "€", "£", "¥")


def _template(node: Template, to: Compilation) -> Closure:
    word, trimmed = to.dialect.word, node.trimmed
    if all(isinstance(part, Constant) for part in node.parts):
        text = "".join(word(cast("Constant", part).value) for part in node.parts)

        def repeat(names: Names, run: ExpressionRun) -> str:
            run.written += len(text)
            if run.written > run.bounds.output:
                raise _too_much(run)
            return text

        return repeat
    amount = to.dialect.amount or word
    before = ("", *(_constant_text(part) or "" for part in node.parts))
    parts = tuple(
        (
            _constant_text(part),
            to.compile(part),
            isinstance(part, (Choice, Loop)),
            amount if text.endswith(_CURRENCY_SIGNS) else word,
        )
        for part, text in zip(node.parts, before, strict=False)
    )

    def render(names: Names, run: ExpressionRun) -> str:
        out: list[str] = []
        for text, part, counted, show in parts:
            if text is None:
                value = part(names, run)
                text = value if type(value) is str else show(value)
            if not counted:
                run.written += len(text)
                if run.written > run.bounds.output:
                    raise _too_much(run)
            out.append(text)
        whole = "".join(out)
        return whole.removesuffix("\n") if trimmed else whole

    return render


def _constant_text(part: Node) -> str | None:
    """Return the text of a constant part, None for one that has to be computed."""
    return part.value if isinstance(part, Constant) and type(part.value) is str else None


def _too_much(run: ExpressionRun) -> LimitExceeded:
    return exceeded("what a template renders", run.bounds.output, run.written)


def _choice(node: Choice, to: Compilation) -> Closure:
    test, truthy = to.compile(node.test), to.dialect.truthy
    then, otherwise = to.compile(node.then), to.compile(node.otherwise)
    return lambda names, run: then(names, run) if truthy(test(names, run)) else otherwise(names, run)


def _loop(node: Loop, to: Compilation) -> Closure:
    of, otherwise = to.compile(node.of), to.compile(node.otherwise)
    body = to.inside_loop().compile(node.body)

    def render(names: Names, run: ExpressionRun) -> str:
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
