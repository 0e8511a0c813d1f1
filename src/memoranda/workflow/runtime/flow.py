"""The steps of a flow in, what they do out: one after the other, at the same time, by conditions, and in loops.

A run that waits is left from its innermost step outwards. Each step on the way says where it stood, and that is where
it goes on: the first word of a position is for the outermost step, the rest for those inside.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import msgspec

from memoranda.errors import EvaluationFailed, InvalidValue, LimitExceeded, MemorandaError
from memoranda.model.value import encode_checked
from memoranda.runs.failures import Failed
from memoranda.workflow.expressions import Template
from memoranda.workflow.jsonata import UNDEFINED
from memoranda.workflow.runtime.doing import do_task, failure_of
from memoranda.workflow.runtime.gathering import Gathering
from memoranda.workflow.runtime.parallel import run_all, run_any, run_in_order
from memoranda.workflow.runtime.place import Resumed
from memoranda.workflow.runtime.plan import Block, Conditional, Do, Loop, Parallel, Step
from memoranda.workflow.runtime.strand import Strand
from memoranda.workflow.runtime.work import Suspended, Work

Position = Sequence[Any]
"""Where a run that waited stood; empty for steps that begin."""


def run_block(work: Work, strand: Strand, block: Block, at: Position = ()) -> None:
    """Run steps in their order, from the first one or from where the run stood."""
    first, inside = (at[0], at[1:]) if at else (0, at)
    for number in range(first, len(block)):
        with _standing(number):
            _run_step(work, strand, block[number], inside)
        inside = ()


def _run_step(work: Work, strand: Strand, step: Step, at: Position) -> None:
    _STEPS[type(step)](work, strand, step, at)


@contextmanager
def _standing(place: Any) -> Generator[None]:
    """Say where a step stood to whoever suspends the run in it."""
    try:
        yield
    except Suspended as suspended:
        suspended.within(place() if callable(place) else place)
        raise


@contextmanager
def failing(part: str) -> Generator[None]:
    """Turn what goes wrong in a part of a workflow into the failure of that part."""
    try:
        yield
    except MemorandaError as error:
        raise Failed(failure_of(error, part)) from error


def _do(work: Work, strand: Strand, step: Do, at: Position) -> None:
    do_task(work, strand, step.task, msgspec.convert(at[0], Resumed) if at else None)


def _parallel(work: Work, strand: Strand, step: Parallel, at: Position) -> None:
    branches = [partial(_run_branch, work, one) for one in step.branches]
    run = run_any if step.first_wins else run_all
    run(strand, branches, at_once=work.behaviour.branches)


def _run_branch(work: Work, step: Step, strand: Strand) -> None:
    _run_step(work, strand, step, ())


def _conditional(work: Work, strand: Strand, step: Conditional, at: Position) -> None:
    chosen = at[0] if at else _choose(work, strand, step)
    if chosen is not None:
        with _standing(chosen):
            run_block(work, strand, step.branches[chosen].steps, at[1:])


def _choose(work: Work, strand: Strand, step: Conditional) -> int | None:
    """Return the number of the first branch whose condition holds."""
    with failing(step.path):
        for number, branch in enumerate(step.branches):
            if branch.condition is None or work.test(branch.condition, strand):
                _note(work, strand, step.path, "conditional", branch=number + 1)
                return number
    _note(work, strand, step.path, "conditional", branch=0)
    return None


def _note(work: Work, strand: Strand, step: str, type: str, **detail: int) -> None:
    # What was cut off meanwhile is not on record: the run may be over.
    with strand.stop.going_on():
        work.recorder.note("step_record", step, detail={"type": type, **detail})


# loops


def _loop(work: Work, strand: Strand, step: Loop, at: Position) -> None:
    before = strand.iteration, strand.accumulator
    try:
        passes = _Passes(work, strand, step, at)
        passes.run(at[1:])
        value = strand.accumulator
    finally:
        strand.iteration, strand.accumulator = before
    _note(work, strand, step.path, "loop", passes=passes.done)
    if step.name is not None:
        kept = step.accumulate is not None and value is not UNDEFINED
        strand.give(step.name, {step.accumulate.name: value} if kept and step.accumulate is not None else {})


class _Passes:
    """The passes of one loop, and how many of them are done."""

    def __init__(self, work: Work, strand: Strand, step: Loop, at: Position) -> None:
        self.work = work
        self.strand = strand
        self.step = step
        self.gathering = Gathering(work.behaviour.bounds, work.memory.limits)
        stood: dict[str, Any] = at[0] if at else {}
        self.done: int = stood.get("pass", 0)
        self.items: list[Any] | None = stood.get("items") if at else self._items()
        strand.accumulator = stood.get("accumulator", UNDEFINED) if at else self._initial()

    def _items(self) -> list[Any] | None:
        """Return what the loop goes through; what is no list has no items."""
        if self.step.items is None:
            return None
        with failing(self.step.path):
            found = self._kept(self.work.value(self.step.items, self.strand))
        return cast("list[Any]", found) if isinstance(found, list) else []

    def _initial(self) -> Any:
        accumulate = self.step.accumulate
        if accumulate is None or accumulate.initial is None:
            return UNDEFINED
        with failing(self.step.path):
            return self._kept(self.work.value(accumulate.initial, self.strand))

    def run(self, inside: Position) -> None:
        """Take the passes, from the first or from the one in which the run waited."""
        if self.step.at_once > 1 and self.items is not None:
            return self._run_together(self.items)
        while inside or self._another():
            self._pass(inside)
            inside = ()
            if self._is_over():
                return

    def _another(self) -> bool:
        """Say whether there is another pass, and refuse one too many."""
        step, number = self.step, self.done
        self.strand.stop.check()
        if self.items is not None:
            if number >= len(self.items):
                return False
        else:
            self.strand.iteration = {"index": number}
            with failing(step.path):
                if step.test is None or not self.work.test(step.test, self.strand):
                    return False
        self._count(number)
        return True

    def _count(self, number: int) -> None:
        most = self.work.behaviour.passes
        if number >= most:
            with failing(self.step.path):
                raise LimitExceeded(
                    f"the loop went through more than {most:,} passes",
                    hint="See why its condition never ends it, or load with Behaviour(passes=…)",
                    limit=most,
                    actual=number + 1,
                )

    def _pass(self, inside: Position) -> None:
        self.strand.iteration = self._iteration(self.done)
        with _standing(self._stands):
            run_block(self.work, self.strand, self.step.steps, inside)
        self._merge()
        self.done += 1

    def _stands(self) -> dict[str, Any]:
        """Return where the loop stands, for when the run goes on."""
        stands: dict[str, Any] = {"pass": self.done}
        if self.items is not None:
            stands["items"] = self.items
        if self.strand.accumulator is not UNDEFINED:
            stands["accumulator"] = self.strand.accumulator
        return stands

    def _iteration(self, number: int) -> dict[str, Any]:
        return {"index": number} if self.items is None else {"item": self.items[number], "index": number}

    def _merge(self) -> None:
        accumulate = self.step.accumulate
        if accumulate is not None:
            with failing(self.step.path):
                longer = None if accumulate.added is None else self._longer(accumulate.added)
                self.strand.accumulator = (
                    self._kept(self.work.value(accumulate.merge, self.strand)) if longer is None else longer
                )

    def _longer(self, added: Template) -> list[Any] | None:
        """Return the list of a loop that gathers with what this pass adds; None where there is no such list."""
        gathered = self.strand.accumulator
        if not isinstance(gathered, list):
            return None
        try:
            return self.gathering.longer(cast("list[Any]", gathered), self.work.value(added, self.strand))
        except (EvaluationFailed, InvalidValue, LimitExceeded):
            # What is wrong is said of the expression as it is written.
            return None

    def _kept(self, value: Any) -> Any:
        """Return a value that can be kept while the run waits, or refuse it."""
        if value is not UNDEFINED:
            encode_checked(value, self.work.memory.limits)
        return value

    def _is_over(self) -> bool:
        if self.step.until is None:
            return False
        with failing(self.step.path):
            return self.work.test(self.step.until, self.strand)

    def _run_together(self, items: list[Any]) -> None:
        """Take passes at the same time, so many at once; what they gave is put together in the order of the items."""
        most = min(len(items), self.work.behaviour.passes)
        branches = [partial(self._pass_beside, number) for number in range(most)]
        at_once = min(self.step.at_once, self.work.behaviour.branches)
        for branch in run_in_order(self.strand, branches, at_once=at_once):
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
        run_block(self.work, strand, self.step.steps)


_STEPS: dict[type[Step], Callable[[Work, Strand, Any, Position], None]] = {
    Do: _do,
    Parallel: _parallel,
    Conditional: _conditional,
    Loop: _loop,
}
