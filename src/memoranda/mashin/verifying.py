"""The tests of a machine in, a report out: each runs on a memory of its own, and reaches nothing else.

What a test expects is compared by what it names: of a map the keys that are written down, of a list every item. A test
that expects `{ error: { type: "…" } }` of a machine without such an output expects that its run fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from memoranda.api.opening import open as open_memory
from memoranda.errors import MemorandaError, SchemaViolation
from memoranda.lang.expression.dialect import Run as Drawing
from memoranda.lang.scripts import report
from memoranda.lang.scripts.comparing import differences
from memoranda.mashin.document import FAILS
from memoranda.mashin.runtime.failures import Failure as Cause
from memoranda.mashin.runtime.failures import failure_of
from memoranda.mashin.runtime.plan import Test
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked

if TYPE_CHECKING:
    from memoranda.mashin.machine import Machine


class Difference(msgspec.Struct, frozen=True):
    """One place where a test expected something else; what is not there is None."""

    path: str
    expected: Any
    got: Any


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a test failed: in words, where the output is another one, and why the run failed if it did."""

    reason: str
    diff: tuple[Difference, ...] = ()
    error: Cause | None = None


Case = report.Case[Failure]


class Report(msgspec.Struct, frozen=True):
    """All tests of one machine, in their order."""

    machine: str
    file: str
    cases: tuple[Case, ...]

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(case.passed for case in self.cases)

    @property
    def failed(self) -> int:
        """How many did not."""
        return len(self.cases) - self.passed


def verify_machine(machine: Machine) -> Report:
    """Run the tests of a machine; its own memory is not touched, no model is asked, and nothing is kept."""
    return Report(machine.name, machine.file, tuple(_case(machine, test) for test in machine.plan.tests))


def _case(machine: Machine, test: Test) -> Case:
    try:
        failure = _verify(machine, test)
    except MemorandaError as error:
        # What a test gives, assumes or expects is an expression, and may have no value.
        failure = Failure(reason=f"the test cannot be run: {error.message}", error=failure_of(error, ""))
    return Case(test.name, test.line, failure)


def _verify(machine: Machine, test: Test) -> Failure | None:
    memory = machine.memory
    drawing = Drawing(clock=memory.clock, ids=memory.ids)
    given: Any = {} if test.given is None else test.given.value({}, drawing)
    assuming = {step: program.value({}, drawing) for step, program in test.assuming}
    expect: Any = {} if test.expect is None else test.expect.value({}, drawing)
    expect = decode(encode_checked(expect, memory.limits))
    ended = _run(machine, given, assuming)
    if ended.cause is None:
        return _compared(machine, expect, ended.output)
    if not _may_fail(machine, expect):
        return Failure(reason=ended.told, error=ended.cause)
    diff = _differences(FAILS, expect[FAILS], msgspec.to_builtins(ended.cause))
    return Failure(reason="it failed in another way than expected", diff=diff, error=ended.cause) if diff else None


class _Ended(NamedTuple):
    """What the machine gave in a test; or why it gave nothing, also in words."""

    output: Any = None
    cause: Cause | None = None
    told: str = ""


def _run(machine: Machine, given: Any, assuming: dict[str, Any]) -> _Ended:
    memory = machine.memory
    with open_memory(":memory:", tenant=memory.tenant, clock=memory.clock, ids=memory.ids, limits=memory.limits) as own:
        try:
            run = machine.on(own).run(given, mode="test", assuming=assuming)
        except SchemaViolation as error:
            return _Ended(cause=failure_of(error, ""), told=error.message)
        if run.waiting is not None:
            step = run.waiting.step
            cause = Cause(type="runtime", message=f"the run waits at {quote(step)}", step=step)
            return _Ended(cause=cause, told=cause.message)
        error = run.error
        where = f" at {quote(error.step)}" if error and error.step else ""
        return _Ended(run.output, error, f"the run failed{where} ({error.type}): {error.message}" if error else "")


def _compared(machine: Machine, expect: Any, output: Any) -> Failure | None:
    if machine.plan.responds is not None and _may_fail(machine, expect):
        diff = (Difference(FAILS, expect[FAILS], None),)
        return Failure(reason="it was expected to fail, and has completed", diff=diff)
    diff = _differences("", expect, output)
    return Failure(reason="the output is another one", diff=diff) if diff else None


def _may_fail(machine: Machine, expect: Any) -> bool:
    """Say whether an expectation is about a failure: a key `error` alone, which the machine does not respond with."""
    outputs = {field.name.text for field in machine.document.responds or ()}
    return isinstance(expect, dict) and cast("dict[str, Any]", expect).keys() == {FAILS} and FAILS not in outputs


def _differences(name: str, expected: Any, got: Any) -> tuple[Difference, ...]:
    """Return every place where a value of this name is not as expected; the output as a whole has none."""
    path = (name,) if name else ()
    return tuple(Difference(one.where or "output", one.expected, one.got) for one in differences(expected, got, path))
