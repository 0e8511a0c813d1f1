"""Run the tests of a machine, each on a memory of its own, and report the differences.

An expectation is partial: of a map only the keys that it names are compared, of a list every item. A test that expects
`{ error: { type: "…" } }` of a machine without such an output expects that its run fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from memoranda.api.memory import open as open_memory
from memoranda.errors import MemorandaError, SchemaViolation
from memoranda.lang import scripts
from memoranda.lang.expression.dialect import ExpressionRun as Drawing
from memoranda.lang.scripts import differences
from memoranda.lang.source import Source
from memoranda.mashin.document import FAILS, Mapping, Test
from memoranda.mashin.runtime.execution import failure_of
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked
from memoranda.runs.outcome import Failure

if TYPE_CHECKING:
    from memoranda.mashin.machine import Machine


class Difference(msgspec.Struct, frozen=True):
    """One place where a test expected something else; a missing value is None."""

    path: str
    expected: Any
    got: Any


class TestFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a test failed: in words, the differences of the output, and the failure of the run."""

    __test__ = False

    reason: str
    diff: tuple[Difference, ...] = ()
    error: Failure | None = None


Case = scripts.Case[TestFailure]


class Report(scripts.Report[TestFailure], frozen=True):
    """All tests of one machine, in order."""

    machine: str

    @property
    def file(self) -> str:
        """The file of the machine."""
        return self.path


def run_tests(machine: Machine) -> Report:
    """Run the tests of a machine; its own memory is not used, no model is asked, and nothing is stored."""
    source = Source(machine.file, machine.plan.source)
    cases = [(test, source.position(test.span.start).line) for test in machine.document.tests]
    told = tuple(Case(test.name.text, line, _run_test(machine, test)) for test, line in cases)
    return Report(machine.file, told, machine.name)


def _run_test(machine: Machine, test: Test) -> TestFailure | None:
    memory, programs = machine.memory, machine.plan.programs
    drawing = Drawing(clock=memory.clock, ids=memory.ids)

    def value(mapping: Mapping | None) -> Any:
        return {} if mapping is None else programs[mapping.span].value({}, drawing)

    try:
        given = value(test.given)
        assuming = {one.step.text: value(one.gives) for one in test.assuming}
        expect = decode(encode_checked(value(test.expect), memory.limits))
        result = _run(machine, given, assuming)
    except MemorandaError as error:
        # The values of a test are expressions, and may fail.
        return TestFailure(reason=f"the test cannot be run: {error.message}", error=failure_of(error, ""))
    if result.failure is None:
        return _compare(machine, expect, result.output)
    if not _expects_failure(machine, expect):
        return TestFailure(reason=result.reason, error=result.failure)
    diff = _differences(FAILS, expect[FAILS], msgspec.to_builtins(result.failure))
    reason = "it failed in another way than expected"
    return TestFailure(reason=reason, diff=diff, error=result.failure) if diff else None


class _Result(NamedTuple):
    """The output of the machine in a test, or why it has none."""

    output: Any = None
    failure: Failure | None = None
    reason: str = ""


def _run(machine: Machine, given: Any, assuming: dict[str, Any]) -> _Result:
    memory = machine.memory
    with open_memory(":memory:", tenant=memory.tenant, clock=memory.clock, ids=memory.ids, limits=memory.limits) as own:
        try:
            run = machine.on(own).run(given, mode="test", assuming=assuming)
        except SchemaViolation as error:
            return _Result(failure=failure_of(error, ""), reason=error.message)
        if run.waiting is not None:
            step = run.waiting.step
            failure = Failure(type="runtime", message=f"the run waits at {quote(step)}", step=step)
            return _Result(failure=failure, reason=failure.message)
        error = run.error
        where = f" at {quote(error.step)}" if error and error.step else ""
        return _Result(run.output, error, f"the run failed{where} ({error.type}): {error.message}" if error else "")


def _compare(machine: Machine, expect: Any, output: Any) -> TestFailure | None:
    if machine.plan.responds is not None and _expects_failure(machine, expect):
        diff = (Difference(FAILS, expect[FAILS], None),)
        return TestFailure(reason="it was expected to fail, and has completed", diff=diff)
    diff = _differences("", expect, output)
    return TestFailure(reason="the output is another one", diff=diff) if diff else None


def _expects_failure(machine: Machine, expect: Any) -> bool:
    """Return whether the only key is `error`, which is not an output of the machine."""
    outputs = {field.name.text for field in machine.document.responds or ()}
    return isinstance(expect, dict) and cast("dict[str, Any]", expect).keys() == {FAILS} and FAILS not in outputs


def _differences(name: str, expected: Any, got: Any) -> tuple[Difference, ...]:
    path = (name,) if name else ()
    return tuple(Difference(one.where or "output", one.expected, one.got) for one in differences(expected, got, path))
