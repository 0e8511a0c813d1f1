"""Execute a workflow: the whole run, and the steps of its flow in sequence, in parallel, by conditions and in loops.

A run that waits is left by a `Suspended` exception, from the innermost step outwards. Each step on the way adds its
position, from which the run is resumed: the first element belongs to the outermost step, the rest to the steps inside.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from memoranda.errors import EvaluationFailed, Hint, InvalidValue, LimitExceeded, MemorandaError
from memoranda.model.limits import Limits
from memoranda.model.value import decode, encode_checked
from memoranda.runs.outcome import Failure, Outcome, StepFailed, execute
from memoranda.runs.provenance import OWN
from memoranda.workflow.actions.base import Stopped
from memoranda.workflow.document import Block, Conditional, Do, Item, Loop, Parallel, Value
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.jsonata_functions import Bounds
from memoranda.workflow.runtime.parallel import run_all, run_any, run_in_order
from memoranda.workflow.runtime.state import OUTPUT, Execution, Strand, Suspended
from memoranda.workflow.runtime.task import Resumed, do_task, failure_of


class _Appender:
    """Appends to the list that a loop accumulates; counts only what is added, so that a long loop stays linear."""

    def __init__(self, bounds: Bounds, limits: Limits) -> None:
        self._bounds = bounds
        self._limits = limits
        self._counted: list[Any] | None = None
        self._values = 0
        self._characters = 0
        self._bytes = 0

    def longer(self, gathered: list[Any], added: Any) -> list[Any] | None:
        """Return a new list, as `$append` does; None if it is too large, so that the expression can say why."""
        if self._counted is not gathered:
            self._values = self._characters = self._bytes = 0
            self._count(gathered)
        more = [] if added is UNDEFINED else cast("list[Any]", added) if isinstance(added, list) else [added]
        self._count(more)
        self._counted = [*gathered, *more]
        # The list itself is one more value, and one more byte: joining two lists replaces brackets by a comma.
        fits = (
            self._values < self._bounds.items
            and self._characters <= self._bounds.text
            and self._bytes < self._limits.value_bytes
        )
        return self._counted if fits else None

    def _count(self, items: list[Any]) -> None:
        self._bytes += len(encode_checked(items, self._limits)) - 1
        for value in _inside(items):
            self._values += 1
            if isinstance(value, str):
                self._characters += len(value)
            elif isinstance(value, dict):
                self._characters += sum(map(len, cast("dict[str, Any]", value)))


def _inside(items: list[Any]) -> Iterator[Any]:
    """Yield the values in a list, at any depth."""
    for item in items:
        yield item
        if isinstance(item, dict):
            yield from _inside(list(cast("dict[str, Any]", item).values()))
        elif isinstance(item, list):
            yield from _inside(cast("list[Any]", item))


Position = Sequence[Any]
"""Where a waiting run is resumed; empty for steps that start."""


def run_block(execution: Execution, strand: Strand, block: Block, at: Position = ()) -> None:
    """Run steps in order, from the first one or from a position."""
    first, inside = (at[0], at[1:]) if at else (0, at)
    for number in range(first, len(block)):
        with _at(number):
            _run_step(execution, strand, block[number], inside)
        inside = ()


def _run_step(execution: Execution, strand: Strand, step: Item, at: Position) -> None:
    _STEPS[type(step)](execution, strand, step, at)


@contextmanager
def _at(place: Any) -> Generator[None]:
    """Add the position of a step if the run is suspended in it."""
    try:
        yield
    except Suspended as suspended:
        suspended.within(place() if callable(place) else place)
        raise


@contextmanager
def failing(part: str) -> Generator[None]:
    """Turn an error in a part of a workflow into the failure of that part."""
    try:
        yield
    except MemorandaError as error:
        raise StepFailed(failure_of(error, part)) from error


def _do(execution: Execution, strand: Strand, step: Do, at: Position) -> None:
    do_task(execution, strand, execution.plan.tasks[step.task.text], msgspec.convert(at[0], Resumed) if at else None)


def _parallel(execution: Execution, strand: Strand, step: Parallel, at: Position) -> None:
    branches = [partial(_run_branch, execution, one) for one in step.steps]
    run = run_any if step.strategy == "wait_any" else run_all
    run(strand, branches, at_once=execution.behaviour.branches)


def _run_branch(execution: Execution, step: Item, strand: Strand) -> None:
    _run_step(execution, strand, step, ())


def _conditional(execution: Execution, strand: Strand, step: Conditional, at: Position) -> None:
    chosen = at[0] if at else _choose(execution, strand, step)
    if chosen is not None:
        with _at(chosen):
            run_block(execution, strand, step.branches[chosen].steps, at[1:])


def _choose(execution: Execution, strand: Strand, step: Conditional) -> int | None:
    """Return the index of the first branch with a true condition."""
    with failing(step.path):
        for number, branch in enumerate(step.branches):
            if branch.condition is None or execution.test(branch.condition, strand):
                _note(execution, strand, step.path, "conditional", branch=number + 1)
                return number
    _note(execution, strand, step.path, "conditional", branch=0)
    return None


def _note(execution: Execution, strand: Strand, step: str, type: str, **detail: int) -> None:
    # A strand that was stopped meanwhile records nothing: the run may be over.
    with strand.stop.while_running():
        execution.recorder.note("step_record", step, detail={"type": type, **detail})


# loops


def _loop(execution: Execution, strand: Strand, step: Loop, at: Position) -> None:
    before = strand.iteration, strand.accumulator
    made_of = [strand.provenances.of([path]) for path in _LOOP]
    try:
        passes = _Passes(execution, strand, step, at)
        passes.run(at[1:])
        value = strand.accumulator
    finally:
        strand.iteration, strand.accumulator = before
    accumulated = strand.provenances.of([("accumulator",)])
    for path, provenance in zip(_LOOP, made_of, strict=True):  # a loop that waits needs its own when it resumes
        strand.provenances.put(path, provenance)
    _note(execution, strand, step.path, "loop", passes=passes.done)
    if step.name is not None:
        output = {} if step.accumulate is None or value is UNDEFINED else {step.accumulate.name.text: value}
        strand.give(step.name.text, output, accumulated)


_LOOP = (("iteration",), ("accumulator",))


class _Passes:
    """The passes of one loop, and how many of them are done."""

    def __init__(self, execution: Execution, strand: Strand, step: Loop, at: Position) -> None:
        self.execution = execution
        self.strand = strand
        self.step = step
        self.at_once = min(step.max_concurrency or 1, execution.behaviour.branches)
        self.appender = _Appender(execution.behaviour.bounds, execution.memory.limits)
        merge = step.accumulate.merge if step.accumulate else None
        self.appended = execution.plan.templates[merge.path].adding_to("accumulator") if merge else None
        position: dict[str, Any] = at[0] if at else {}
        self.done: int = position.get("pass", 0)
        self.items: list[Any] | None = position.get("items") if at else self._items()
        strand.accumulator = position.get("accumulator", UNDEFINED) if at else self._initial()

    def _items(self) -> list[Any] | None:
        """Return the items of a `for_each`; a value that is not a list has none."""
        if self.step.items is None:
            return None
        with failing(self.step.path):
            found = self._check_storable(self.execution.value(self.step.items, self.strand))
        made_of = self.execution.provenance_of(self.step.items, self.strand)
        self.strand.provenances.put(("iteration",), made_of | self.strand.provenances.of([("iteration",)]))
        return cast("list[Any]", found) if isinstance(found, list) else []

    def _initial(self) -> Any:
        accumulate = self.step.accumulate
        if accumulate is None or accumulate.initial is None:
            self.strand.provenances.put(("accumulator",), OWN)
            return UNDEFINED
        with failing(self.step.path):
            made_of = self.execution.provenance_of(accumulate.initial, self.strand)
            self.strand.provenances.put(("accumulator",), made_of)
            return self._check_storable(self.execution.value(accumulate.initial, self.strand))

    def run(self, inside: Position) -> None:
        """Run the passes, from the first or from the one in which the run waited."""
        if (self.step.max_concurrency or 1) > 1 and self.items is not None:
            return self._run_together(self.items)
        while inside or self._has_next():
            self._pass(inside)
            inside = ()
            if self._is_over():
                return

    def _has_next(self) -> bool:
        """Return whether there is another pass; fail if there are too many."""
        step, number = self.step, self.done
        self.strand.stop.check()
        if self.items is not None:
            if number >= len(self.items):
                return False
        else:
            self.strand.iteration = {"index": number}
            with failing(step.path):
                if step.test is None or not self.execution.test(step.test, self.strand):
                    return False
        self._count(number)
        return True

    def _count(self, number: int) -> None:
        most = self.execution.behaviour.passes
        if number >= most:
            with failing(self.step.path):
                raise LimitExceeded(
                    f"the loop made more than {most:,} passes",
                    hint=("Find out why its condition never ends it", Hint("python", "Load with Behaviour(passes=…)")),
                    limit=most,
                    actual=number + 1,
                )

    def _pass(self, inside: Position) -> None:
        self.strand.iteration = self._iteration(self.done)
        with _at(self._position):
            run_block(self.execution, self.strand, self.step.steps, inside)
        self._merge()
        self.done += 1

    def _position(self) -> dict[str, Any]:
        position: dict[str, Any] = {"pass": self.done}
        if self.items is not None:
            position["items"] = self.items
        if self.strand.accumulator is not UNDEFINED:
            position["accumulator"] = self.strand.accumulator
        return position

    def _iteration(self, number: int) -> dict[str, Any]:
        return {"index": number} if self.items is None else {"item": self.items[number], "index": number}

    def _merge(self) -> None:
        merge = self.step.accumulate.merge if self.step.accumulate else None
        if merge is not None:
            made_of = self.strand.provenances.of([("accumulator",)]) | self.execution.provenance_of(merge, self.strand)
            self.strand.provenances.put(("accumulator",), made_of)
            with failing(self.step.path):
                longer = self._longer()
                self.strand.accumulator = (
                    self._check_storable(self.execution.value(merge, self.strand)) if longer is None else longer
                )

    def _longer(self) -> list[Any] | None:
        """Return the accumulated list with what this pass appends; None if `merge` does something else, or fails."""
        gathered = self.strand.accumulator
        if self.appended is None or not isinstance(gathered, list):
            return None
        try:
            return self.appender.longer(cast("list[Any]", gathered), self.execution.value(self.appended, self.strand))
        except (EvaluationFailed, InvalidValue, LimitExceeded):
            # Evaluating `merge` as a whole gives the proper error.
            return None

    def _check_storable(self, value: Any) -> Any:
        """Return a value, or refuse one that cannot be stored while the run waits."""
        if value is not UNDEFINED:
            encode_checked(value, self.execution.memory.limits)
        return value

    def _is_over(self) -> bool:
        if self.step.until is None:
            return False
        with failing(self.step.path):
            return self.execution.test(self.step.until, self.strand)

    def _run_together(self, items: list[Any]) -> None:
        """Run passes at the same time, and merge their results in the order of the items."""
        most = min(len(items), self.execution.behaviour.passes)
        branches = [partial(self._pass_beside, number) for number in range(most)]
        for branch in run_in_order(self.strand, branches, at_once=self.at_once):
            self.strand.join(branch)
            self.strand.iteration = self._iteration(self.done)
            self._merge()
            self.done += 1
            if self._is_over():
                return
        if most < len(items):
            self._count(most)

    def _pass_beside(self, number: int, strand: Strand) -> None:
        strand.iteration = self._iteration(number)
        run_block(self.execution, strand, self.step.steps)


_STEPS: dict[type[Item], Callable[[Execution, Strand, Any, Position], None]] = {
    Do: _do,
    Parallel: _parallel,
    Conditional: _conditional,
    Loop: _loop,
}


T = TypeVar("T")


def begin(execution: Execution, strand: Strand, *, first: Callable[[], None], keep: Callable[[Outcome], T]) -> T:
    """Run a workflow from its first step; `keep` stores the outcome, together with the last events.

    `first` is called once the run is recorded.
    """
    plan = execution.plan
    detail = {"workflow": plan.name, "digest": plan.digest, **_omissions(strand)}
    execution.recorder.note(
        "exec_start", payload=encode_checked(execution.input, execution.memory.limits), detail=detail
    )

    def prepare() -> None:
        execution.recorder.flush()
        with failing("thread"):
            first()
        context = execution.plan.document.context
        made_of = OWN if context is None else execution.provenance_of(context, strand)
        strand.set_context(_section(execution, strand, context, "context"), made_of)

    return execute(
        execution.recorder, lambda: _outcome(execution, strand, first=prepare), keep, limits=execution.memory.limits
    )


def resume(
    execution: Execution,
    strand: Strand,
    at: Position,
    *,
    step: str,
    first: Callable[[], None],
    keep: Callable[[Outcome], T],
) -> T:
    """Resume a run that waited at a step; `first` is called once this process has claimed the run."""

    def claim() -> None:
        # If two processes resume one run, the ledger lets only one write this.
        execution.recorder.note("step_record", step, detail={"type": "resumed", **_omissions(strand)})
        execution.recorder.flush()
        with failing("thread"):
            first()

    return execute(
        execution.recorder,
        lambda: _outcome(execution, strand, first=claim, at=at),
        keep,
        limits=execution.memory.limits,
    )


def _omissions(strand: Strand) -> dict[str, list[str]]:
    """Return which records were left out because they do not fit their definitions, for an event."""
    slugs = [str(one.details.get("slug")) for one in strand.memory.skipped]
    return {"skipped": slugs} if slugs else {}


def _outcome(execution: Execution, strand: Strand, *, first: Callable[[], None], at: Position = ()) -> Outcome:
    try:
        first()
        run_block(execution, strand, execution.plan.document.flow, at)
        outputs = execution.plan.document.outputs
        output = _section(execution, strand, outputs, "outputs")
        strand.provenances.put(OUTPUT, OWN if outputs is None else execution.provenance_of(outputs, strand))
    except Suspended as suspended:
        return Outcome(status="waiting", waiting=suspended.waiting, position=tuple(suspended.position))
    except StepFailed as caught:
        return Outcome(status="failed", error=caught.failure)
    except Stopped:
        # Only the task that called a workflow can stop it as a whole.
        message = "the task that called this workflow was stopped"
        return Outcome(status="cancelled", error=Failure(type="cancelled", message=message))
    return Outcome(status="completed", output=output)


def _section(execution: Execution, strand: Strand, value: Value | None, section: str) -> dict[str, object]:
    """Return the value of a section of the file, as a copy that can be stored."""
    if value is None:
        return {}
    with failing(section):
        return decode(encode_checked(execution.value(value, strand), execution.memory.limits))
