"""A value of a workflow file in, a template out that computes what is to be computed in it, compiled once.

A text is computed when it begins with `=` in the file, wherever it stands in lists and maps. What an expression gives
is never looked at again: a message of a user that begins with `=` stays a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from memoranda.errors import EvaluationFailed, LimitExceeded
from memoranda.lang.expression.dialect import Run
from memoranda.workflow.document import Expression, Fields, Items, Scalar, Value
from memoranda.workflow.jsonata import UNDEFINED, Program, Undefined, compile
from memoranda.workflow.limits import DEFAULT_BOUNDS, Bounds

Variables: TypeAlias = Mapping[str, Any]
"""What expressions see, by names without the dollar sign: input, context, output, iteration, accumulator, result."""

_Part: TypeAlias = "Callable[[Variables, Run, Bounds], Any]"


class Template:
    """A value that is ready to be computed, as often as one likes and from any thread."""

    __slots__ = ("_part", "_program", "computed", "written")

    def __init__(self, value: Value, program: Callable[[Expression], Program | None] | None = None) -> None:
        """Compile a value once; `program` gives the programs of expressions that somebody compiled already."""
        self.written = value
        self.computed = _is_computed(value)
        """Whether there is an expression in it; without one it is the same for every run."""
        self._program = program or _program
        self._part = _compiled(value, self._program)

    @property
    def fixed(self) -> Any:
        """The value of a template without expressions."""
        return self._part({}, Run(), DEFAULT_BOUNDS)

    def adding_to(self, variable: str) -> Template | None:
        """Return the template of what is added, where all that this one does is to add that to a list; else None."""
        if not isinstance(self.written, Expression):
            return None
        program = (self._program(self.written) or _program(self.written)).adding_to(variable)
        return None if program is None else Template(self.written, lambda expression: program)

    def value(
        self, variables: Variables, run: Run | None = None, *, bounds: Bounds = DEFAULT_BOUNDS
    ) -> Any | Undefined:
        """Return the value among variables; what is `UNDEFINED` in a map or a list is not there.

        Raises an EvaluationFailed or a LimitExceeded whose `.span` and `.path` are the place in the file.
        """
        return self._part(variables, run or Run(), bounds)

    def test(self, variables: Variables, run: Run | None = None, *, bounds: Bounds = DEFAULT_BOUNDS) -> bool:
        """Return whether the value counts as true, as JSONata's `$boolean` has it."""
        return is_true(self._part(variables, run or Run(), bounds))


def is_true(value: Any) -> bool:
    """Say whether a value counts as true: a list does when one of its items does."""
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


def _compiled(value: Value, program: Callable[[Expression], Program | None]) -> _Part:
    if isinstance(value, Scalar):
        written = value.value
        return lambda variables, run, bounds: written
    if isinstance(value, Expression):
        # Of a document with faults no template is asked for its value.
        return _evaluating(value, program(value) or _program(value))
    if isinstance(value, Items):
        items = [_compiled(item, program) for item in value.items]
        return lambda variables, run, bounds: [
            made for item in items if (made := item(variables, run, bounds)) is not UNDEFINED
        ]
    fields = [(entry.key.text, _compiled(entry.value, program)) for entry in value.entries]
    return lambda variables, run, bounds: {
        key: made for key, field in fields if (made := field(variables, run, bounds)) is not UNDEFINED
    }


def _evaluating(expression: Expression, program: Program) -> _Part:
    def evaluate(variables: Variables, run: Run, bounds: Bounds) -> Any:
        try:
            return program.evaluate(variables, run=run, bounds=bounds)
        except (EvaluationFailed, LimitExceeded) as fault:
            start, end = fault.details.pop("start", 0), fault.details.pop("end", len(expression.text))
            fault.details.update(span=expression.excerpt.locate(start, end), path=expression.path)
            raise

    return evaluate
