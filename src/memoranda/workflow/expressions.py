"""Values of a workflow file with expressions in them, compiled once to templates.

A text is an expression if it begins with `=` in the file, at any depth of lists and maps. The result of an expression
is never evaluated again: a user's message that begins with `=` stays a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from memoranda.errors import EvaluationFailed, LimitExceeded, SourceError
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.workflow.document import Expression, Fields, Items, Scalar, Value
from memoranda.workflow.jsonata import UNDEFINED, Program, Undefined, compile
from memoranda.workflow.jsonata_functions import DEFAULT_BOUNDS, Bounds
from memoranda.workflow.parser import PathDiagnostics

_AS_TEXT = "A text that begins with `=` is an expression; as text, write it `='…'`"


def migration(text: str) -> Callable[[Any], Any]:
    """Return the function of an expression that makes the new value of a `$record` from its present one.

    >>> migration('$merge([$record, {"cone": $number($record.cone)}])')({"cone": "6", "gas": True})
    {'cone': 6, 'gas': True}
    """
    program = compile(text.strip().removeprefix("="))

    def migrate(value: Any) -> Any:
        changed = program.evaluate({"record": value})
        if changed is UNDEFINED:
            raise EvaluationFailed("the expression has no value for this record", hint="Return the whole new record")
        return changed

    return migrate


class Programs:
    """Compiles the expressions of a document on first use, and caches them by their position."""

    def __init__(self, diagnostics: PathDiagnostics) -> None:
        """Add the faults of expressions to `diagnostics`."""
        self.diagnostics = diagnostics
        self._programs: dict[int, Program | None] = {}

    def program(self, expression: Expression) -> Program | None:
        """Return the program of an expression, or None if it has faults."""
        at = expression.span.start
        if at not in self._programs:
            self._programs[at] = self._compile(expression)
        return self._programs[at]

    def _compile(self, expression: Expression) -> Program | None:
        try:
            return compile(expression.text)
        except SourceError as fault:
            # Of an empty expression, the `=` is marked.
            empty = not expression.text.strip()
            span = expression.span if empty else expression.excerpt.locate(fault.start, fault.end)
            message = "an expression is missing after `=`" if empty else fault.message
            if fault.unclosed:
                self.diagnostics.error("unclosed_quote", message, span, expression.path, hint=fault.hint)
            else:
                self.diagnostics.error(
                    "invalid_expression", message, span, expression.path, hint=fault.hint or _AS_TEXT
                )
            return None


Variables: TypeAlias = Mapping[str, Any]
"""The variables of expressions, named without `$`: input, context, output, iteration, accumulator, result."""

_Part: TypeAlias = "Callable[[Variables, ExpressionRun, Bounds], Any]"


class Template:
    """A compiled value that can be computed any number of times, from any thread."""

    __slots__ = ("_part", "_program", "computed", "paths", "written")

    def __init__(self, value: Value, program: Callable[[Expression], Program | None] | None = None) -> None:
        """Compile a value; `program` may supply programs of expressions that are compiled already."""
        self.written = value
        self.computed = _is_computed(value)
        """Whether it contains an expression; otherwise it is the same in every run."""
        self._program = program or _program
        paths: list[tuple[str, ...]] = []
        self._part = _compile_value(value, self._program, paths)
        self.paths = tuple(dict.fromkeys(paths))
        """The variables that it mentions, with the fields of each as far as they are written out."""

    @property
    def fixed(self) -> Any:
        """The value of a template without expressions."""
        return self._part({}, ExpressionRun(), DEFAULT_BOUNDS)

    def adding_to(self, variable: str) -> Template | None:
        """Return the template of the added part if all this one does is append to a list variable; else None."""
        if not isinstance(self.written, Expression):
            return None
        program = (self._program(self.written) or _program(self.written)).adding_to(variable)
        return None if program is None else Template(self.written, lambda expression: program)

    def value(
        self, variables: Variables, run: ExpressionRun | None = None, *, bounds: Bounds = DEFAULT_BOUNDS
    ) -> Any | Undefined:
        """Return the value for these variables; `UNDEFINED` is left out of maps and lists.

        Raises an EvaluationFailed or a LimitExceeded whose `.span` and `.path` are the place in the file.
        """
        return self._part(variables, run or ExpressionRun(), bounds)

    def test(self, variables: Variables, run: ExpressionRun | None = None, *, bounds: Bounds = DEFAULT_BOUNDS) -> bool:
        """Return whether the value is true in the sense of JSONata's `$boolean`."""
        return is_true(self._part(variables, run or ExpressionRun(), bounds))


def is_true(value: Any) -> bool:
    """Return whether a value is true; a list is if any of its items is."""
    if isinstance(value, list):
        return any(is_true(item) for item in value)  # pyright: ignore[reportUnknownVariableType] - JSON
    return bool(value)


def _is_computed(value: Value) -> bool:
    if isinstance(value, Items):
        return any(_is_computed(item) for item in value.items)
    if isinstance(value, Fields):
        return any(_is_computed(entry.value) for entry in value.entries)
    return isinstance(value, Expression)


def _program(expression: Expression) -> Program:
    return compile(expression.text)


def _compile_value(
    value: Value, program: Callable[[Expression], Program | None], paths: list[tuple[str, ...]]
) -> _Part:
    """Compile a value, and add the paths that it mentions."""
    if isinstance(value, Scalar):
        written = value.value
        return lambda variables, run, bounds: written
    if isinstance(value, Expression):
        # A document with faults is never run, so a missing program does not matter.
        compiled = program(value) or _program(value)
        paths += [one.path for one in compiled.reads if one.kind == "variable"]
        return _expression_part(value, compiled)
    if isinstance(value, Items):
        items = [_compile_value(item, program, paths) for item in value.items]
        return lambda variables, run, bounds: [
            made for item in items if (made := item(variables, run, bounds)) is not UNDEFINED
        ]
    fields = [(entry.key.text, _compile_value(entry.value, program, paths)) for entry in value.entries]
    return lambda variables, run, bounds: {
        key: made for key, field in fields if (made := field(variables, run, bounds)) is not UNDEFINED
    }


def _expression_part(expression: Expression, program: Program) -> _Part:
    def evaluate(variables: Variables, run: ExpressionRun, bounds: Bounds) -> Any:
        try:
            return program.evaluate(variables, run=run, bounds=bounds)
        except (EvaluationFailed, LimitExceeded) as fault:
            start, end = fault.details.pop("start", 0), fault.details.pop("end", len(expression.text))
            fault.details.update(span=expression.excerpt.locate(start, end), path=expression.path)
            raise

    return evaluate
