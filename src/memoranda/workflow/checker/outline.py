"""The outline of a document that all checks share: its definitions, its steps, and where expressions are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from memoranda.lang.diagnostics import Suggestions
from memoranda.workflow.actions.base import Action
from memoranda.workflow.document import (
    Block,
    Conditional,
    Definition,
    Do,
    Document,
    Expression,
    Fields,
    Item,
    Items,
    Loop,
    Parallel,
    Value,
)
from memoranda.workflow.expressions import Programs
from memoranda.workflow.jsonata import Program
from memoranda.workflow.parser import PathDiagnostics

_OFTEN = 50
"""How many steps of one task are examined."""


class Stretch(msgspec.Struct):
    """A range of consecutive steps, numbered in the order of the file; `end` is set when it is known."""

    start: int
    end: int = 0

    def holds(self, number: int) -> bool:
        """Return whether the step of this number is in the range."""
        return self.start <= number < self.end


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a run an expression is computed."""

    number: int = 0
    """How many steps come before it in the file."""
    loop: Stretch | None = None
    """The outermost loop around it; in its second pass, everything in it has run."""
    branches: tuple[tuple[Stretch, Stretch], ...] = ()
    """Each enclosing `parallel`, with the branch that contains it."""
    accumulating: bool = False


When = Literal["before", "beside", "later"]


class Use(msgspec.Struct, frozen=True):
    """An expression, its program, and every place where it is computed; empty if it is unreachable."""

    expression: Expression
    program: Program
    places: tuple[Place, ...]


class Outline(msgspec.Struct):
    """Everything that the checks need to know of a document."""

    document: Document
    programs: Programs
    actions: Mapping[str, Action]
    diagnostics: PathDiagnostics
    hints: Suggestions
    defs: dict[str, Definition]
    loops: list[Loop]
    steps: list[Do]
    branchings: list[Conditional]
    uses: list[Use]
    run: dict[str, list[int]]
    """The tasks that run and the loops with a name, each with the numbers of its steps."""
    kinds: dict[str, list[str]]
    """The names of all definitions by kind, in the order of the file."""
    outputs: dict[str, None]
    """The valid names after `$output.`."""

    def when(self, name: str, place: Place) -> When:
        """Return whether a task or loop runs before a place, beside it, or only later."""
        beside = False
        for number in self.run[name]:
            if place.loop is not None and place.loop.holds(number):
                return "before"
            other = any(block.holds(number) and not branch.holds(number) for block, branch in place.branches)
            if number < place.number and not other:
                return "before"
            beside = beside or other
        return "beside" if beside else "later"


def outline(document: Document, programs: Programs, actions: Mapping[str, Action]) -> Outline:
    """Return the outline of a document."""
    walk = _Walk(document)
    walk.whole()
    uses: list[Use] = []
    for expression in walk.found:
        program = programs.program(expression)
        if program is not None:
            uses.append(Use(expression, program, tuple(walk.places[expression.span.start])))
    kinds: dict[str, list[str]] = {}
    for name, one in walk.defs.items():
        kinds.setdefault(one.kind.text if one.kind else "", []).append(name)
    loops = [loop.name.text for loop in walk.loops if loop.name is not None]
    return Outline(
        document=document,
        programs=programs,
        actions=actions,
        diagnostics=programs.diagnostics,
        hints=Suggestions(),
        defs=walk.defs,
        loops=walk.loops,
        steps=walk.steps,
        branchings=walk.branchings,
        uses=uses,
        run=walk.run,
        kinds=kinds,
        outputs=dict.fromkeys((*kinds.get("task", ()), *loops)),
    )


class _Walk:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.defs = {one.name.text: one for one in document.defs}
        self.loops: list[Loop] = []
        self.steps: list[Do] = []
        self.branchings: list[Conditional] = []
        self.found: list[Expression] = []
        self.places: dict[int, list[Place]] = {}
        self.run: dict[str, list[int]] = {}
        self.number = 0

    def whole(self) -> None:
        document = self.document
        self._use(document.context, Place())
        if document.defaults is not None:
            self._use(document.defaults.others, Place())
        self._block(document.flow, Place())
        self._use(document.outputs, Place(number=self.number))
        for one in document.defs:
            self._definition(one, None)

    def _block(self, steps: Block, place: Place) -> None:
        for step in steps:
            self._step(step, msgspec.structs.replace(place, number=self.number))

    def _step(self, step: Item, place: Place) -> None:
        if isinstance(step, Do):
            self._do(step, place)
        elif isinstance(step, Parallel):
            self._parallel(step, place)
        elif isinstance(step, Conditional):
            self.branchings.append(step)
            for branch in step.branches:
                self._use(branch.condition, place)
                self._block(branch.steps, place)
        else:
            self._loop(step, place)

    def _do(self, step: Do, place: Place) -> None:
        self.steps.append(step)
        numbers = self.run.setdefault(step.task.text, [])
        # A task with a thousand steps is checked at the first few.
        if len(numbers) < _OFTEN:
            numbers.append(self.number)
            task = self.defs.get(step.task.text)
            if task is not None:
                self._definition(task, place)
        self.number += 1

    def _parallel(self, step: Parallel, place: Place) -> None:
        block = Stretch(self.number)
        for one in step.steps:
            branch = Stretch(self.number)
            inside = msgspec.structs.replace(place, branches=(*place.branches, (block, branch)))
            self._block((one,), inside)
            branch.end = self.number
        block.end = self.number

    def _loop(self, loop: Loop, place: Place) -> None:
        self.loops.append(loop)
        self._use(loop.items, place)
        here = Stretch(self.number)
        inside = msgspec.structs.replace(
            place,
            loop=place.loop or here,
            accumulating=place.accumulating or loop.accumulate is not None,
        )
        self._use(loop.test, inside)
        self._block(loop.steps, inside)
        self._use(loop.until, inside)
        if loop.accumulate is not None:
            self._use(loop.accumulate.initial, place)
            self._use(loop.accumulate.merge, inside)
        here.end = self.number
        if loop.name is not None:
            # The output of a loop is available once it is over.
            self.run.setdefault(loop.name.text, []).append(self.number)
            self.number += 1

    def _definition(self, one: Definition, place: Place | None) -> None:
        self._use(one.inputs, place)
        self._use(one.own_settings, place)

    def _use(self, value: Value | None, place: Place | None) -> None:
        for expression in expressions(value):
            at = expression.span.start
            if at not in self.places:
                self.places[at] = []
                self.found.append(expression)
            if place is not None:
                self.places[at].append(place)


def expressions(value: Value | None) -> Iterator[Expression]:
    """Yield the expressions of a value, at any depth."""
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, Items):
        for item in value.items:
            yield from expressions(item)
    elif isinstance(value, Fields):
        for entry in value.entries:
            yield from expressions(entry.value)
