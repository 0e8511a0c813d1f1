"""The expressions of a document in; names that nothing gives, or that nothing gives yet, out."""

from __future__ import annotations

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Path, paths_read
from memoranda.lang.hints import few
from memoranda.lang.source import Source, Span
from memoranda.mashin.checker.outline import FREE, Outline, Use
from memoranda.mashin.expression.namespaces import GLOBALS, NAMESPACES
from memoranda.model.text import quote

_GIVEN = frozenset({"input", "steps", "context", "error", "state", *GLOBALS, *NAMESPACES})
"""Names that every expression can read."""


def check_names(whole: Outline, said: Diagnostics) -> None:
    """Check every name that an expression reads, and that no two steps have the same."""
    for name in whole.doubles:
        message = f"{quote(name.text)} is declared a second time"
        said.error("duplicate", message, name.span, hint="Give each step a name of its own")
    for use in whole.uses:
        for path, span in paths_read(use.node):
            _path(whole, said, use, path, _beginning(said.source, path, span))
    for field in whole.document.responds or ():
        if field.source is not None:
            _source(whole, said, tuple(field.source.text.split(".")), field.source.span)


def _beginning(source: Source, path: Path, span: Span) -> Span:
    """Return where the part of a path stands that is checked: `steps.name.field`, `name.field` or `input.name`."""
    checked = path[: 3 if path[0] == "steps" else 2]
    written = ".".join(checked)
    return Span(span.start, span.start + len(written)) if source.text.startswith(written, span.start) else span


def _path(whole: Outline, said: Diagnostics, use: Use, path: Path, span: Span) -> None:
    first = path[0]
    if first in use.lets:
        return
    if first == "steps":
        if len(path) > 1:
            _step(whole, said, use, path[1:], span)
    elif first == "input":
        if len(path) > 1 and whole.whole and path[1] not in whole.inputs:
            _unknown_input(whole, said, path[1], span)
    elif first in whole.steps:
        if first not in whole.inputs or _is_before(whole, use, first):
            _step(whole, said, use, path, span)
    elif first not in _GIVEN and first not in whole.inputs and whole.whole:
        known = (*use.lets, *whole.steps, *whole.inputs, *_GIVEN)
        hint = whole.hints.meant(first, known, otherwise="A name is a step, a field of `accepts`, or given by `let`")
        own = Span(span.start, min(span.end, span.start + len(first)))
        said.error("unknown_name", f"nothing is called {quote(first)}", own, hint=hint)


def _is_before(whole: Outline, use: Use, name: str) -> bool:
    step = whole.steps[name]
    return use.region == FREE or step.region != use.region or step.after <= use.after


def _step(whole: Outline, said: Diagnostics, use: Use | None, path: Path, span: Span) -> None:
    """Check a step that is read, and the field of it; an output reads it when all steps have run."""
    name = path[0]
    if name not in whole.steps:
        if whole.whole:
            _unknown_step(whole, said, name, span)
        return
    if use is not None and not _is_before(whole, use, name):
        # A flow can be gone through again, and then a later step has run before.
        note = said.error if use.region == "" else said.warning
        message = f"the step {quote(name)} has not run yet where this reads it"
        note("later_step", message, span, hint="A step sees those before it only; move it up")
    fields = whole.steps[name].fields
    if fields is not None and len(path) > 1 and path[1] not in fields:
        hint = whole.hints.meant(path[1], fields, otherwise=f"It gives {', '.join(sorted(fields))}")
        message = f"the step {quote(name)} gives no {quote(path[1])}; reading it gives null"
        said.warning("unknown_field", message, span, hint=hint)


def _unknown_step(whole: Outline, said: Diagnostics, name: str, span: Span) -> None:
    listed = f"The steps are {few(whole.steps)}" if whole.steps else "There are no steps"
    hint = whole.hints.meant(name, whole.steps, otherwise=listed)
    said.error("unknown_step", f"there is no step {quote(name)}", span, hint=hint)


def _unknown_input(whole: Outline, said: Diagnostics, name: str, span: Span) -> None:
    listed = f"It accepts {few(whole.inputs)}" if whole.inputs else f"Add `{name} as …` to `accepts`"
    hint = whole.hints.meant(name, whole.inputs, otherwise=listed)
    said.error("unknown_input", f"the machine accepts no {quote(name)}", span, hint=hint)


def _source(whole: Outline, said: Diagnostics, path: Path, span: Span) -> None:
    if path[0] == "steps":
        path = path[1:]
    if path and path[0] not in ("state", "input", "context"):
        _step(whole, said, None, path, span)
