"""The tests of a machine in; inputs, steps and outputs that it does not have out."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.hints import few
from memoranda.mashin.checker.outline import Outline
from memoranda.mashin.document import FAILS, Assumption, Compute, Decide, Mapping, Test
from memoranda.model.text import quote


def check_tests(whole: Outline, said: Diagnostics) -> None:
    """Check each test against the contract and the steps of its machine."""
    if not whole.whole:
        return
    for test in whole.document.tests:
        if test.given is not None:
            _given(whole, said, test, test.given)
        for assumption in test.assuming:
            _assumed(whole, said, assumption)
        if test.expect is not None:
            _expected(whole, said, test.expect)


def _given(whole: Outline, said: Diagnostics, test: Test, given: Mapping) -> None:
    keys = whole.keys(given)
    if keys is None:
        return
    inputs = whole.inputs
    for name, place in keys:
        if name not in inputs:
            listed = f"It accepts {few(inputs)}" if inputs else "It has no `accepts`"
            hint = whole.hints.meant(name, inputs, otherwise=listed)
            said.error("unknown_input", f"the machine accepts no {quote(name)}", place.span, hint=hint)
    names = {name for name, _ in keys}
    for name, field in inputs.items():
        if field.required and field.default is None and name not in names and not _fails(whole, test.expect):
            message = f"the test gives no {quote(name)}, which is required: the run is rejected"
            said.warning("missing_input", message, test.name.span, hint=f"Add `{name}: …` to `given`")


def _assumed(whole: Outline, said: Diagnostics, assumption: Assumption) -> None:
    name = assumption.step.text
    step = whole.steps.get(name)
    if step is None:
        listed = f"The steps are {few(whole.steps)}" if whole.steps else "There are no steps"
        hint = whole.hints.meant(name, whole.steps, otherwise=listed)
        said.error("unknown_step", f"there is no step {quote(name)}", assumption.step.span, hint=hint)
        return
    if isinstance(step.part, Compute | Decide):
        message = f"the step {quote(name)} reaches nothing outside, so that nothing can be assumed of it"
        hint = "Assume what `ask`, `remember`, `recall` or `wait for` gives"
        said.error("not_assumable", message, assumption.step.span, hint=hint)
        return
    for key, place in whole.keys(assumption.gives) or ():
        if step.fields is not None and key not in step.fields:
            hint = whole.hints.meant(key, step.fields, otherwise=f"It gives {', '.join(sorted(step.fields))}")
            said.warning("unknown_output", f"the step {quote(name)} gives no {quote(key)}", place.span, hint=hint)


def _expected(whole: Outline, said: Diagnostics, expect: Mapping) -> None:
    responds = whole.document.responds
    if responds is None or _fails(whole, expect):
        return
    outputs = [field.name.text for field in responds]
    for name, place in whole.keys(expect) or ():
        if name not in outputs:
            hint = whole.hints.meant(name, outputs, otherwise=f"It responds with {few(outputs)}")
            said.error("unknown_output", f"the machine responds with no {quote(name)}", place.span, hint=hint)


def _fails(whole: Outline, expect: Mapping | None) -> bool:
    """Say whether a test expects that the run fails."""
    keys = (whole.keys(expect) or ()) if expect is not None else ()
    outputs = {field.name.text for field in whole.document.responds or ()}
    return [name for name, _ in keys] == [FAILS] and FAILS not in outputs
