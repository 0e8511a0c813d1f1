"""The expressions of a document in; variables, functions and outputs that are not there, or not yet, out."""

from __future__ import annotations

from memoranda.lang.hints import few
from memoranda.lang.source import Span
from memoranda.model.text import quote
from memoranda.workflow.checker.outline import Outline, Use
from memoranda.workflow.document import Fields, Scalar
from memoranda.workflow.functions import NAMES, REFUSED
from memoranda.workflow.keywords import VARIABLES
from memoranda.workflow.reads import Read


def check_names(whole: Outline) -> None:
    """Check everything that an expression reads."""
    inputs = _Inputs(whole)
    for use in whole.uses:
        for read in use.program.reads:
            span = use.expression.excerpt.locate(read.start, read.end)
            if read.kind == "function":
                _function(whole, use, read, span)
            elif read.kind == "field":
                _field(whole, use, read, span)
            elif read.path[0] in VARIABLES.names:
                _variable(whole, use, read, span)
                inputs.check(use, read, span)
            else:
                _unknown(whole, use, read, span)


def _function(whole: Outline, use: Use, read: Read, span: Span) -> None:
    name = read.path[0]
    if name in NAMES:
        return
    hint = whole.hints.meant(name, NAMES, otherwise="JSONata's functions are there, and `$uuid`").replace("`", "`$", 1)
    if name in REFUSED:
        hint = "Expressions are evaluated where a workflow writes them, never what a value holds"
    message = f"there is no function {quote(f'${name}', longest=40)}"
    whole.notes.error("unknown_function", message, span, use.expression.path, hint=hint)


def _field(whole: Outline, use: Use, read: Read, span: Span) -> None:
    name = read.path[0]
    hint = f"Did you mean `${name}`?" if name in (*NAMES, *VARIABLES.names) else f"Did you mean `$input.{name[:40]}`?"
    message = f"{quote(name, longest=40)} is read from nothing: everything stands in a variable"
    whole.notes.warning("reads_nothing", message, span, use.expression.path, hint=hint)


def _unknown(whole: Outline, use: Use, read: Read, span: Span) -> None:
    name = read.path[0]
    # A function that is not called is a value, as in `$map(list, $string)`.
    if name in NAMES:
        return
    listed = f"The variables are {', '.join(f'${one}' for one in VARIABLES.names)}"
    near = whole.hints.nearest(name, VARIABLES.names)
    message = f"there is no variable {quote(f'${name}', longest=40)}"
    whole.notes.error(
        "unknown_variable", message, span, use.expression.path, hint=f"Did you mean `${near}`?" if near else listed
    )


def _variable(whole: Outline, use: Use, read: Read, span: Span) -> None:
    first, *rest = read.path
    places = use.places
    if first == "output" and rest:
        _output(whole, use, rest[0], span)
    elif first == "iteration" and places and not any(place.loop for place in places):
        message = "`$iteration` is there only in a loop"
        whole.notes.warning("outside_loop", message, span, use.expression.path, hint="Put the step into a loop")
    elif first == "accumulator" and places and not any(place.accumulating for place in places):
        message = "`$accumulator` is there only in a loop that accumulates"
        hint = "Give the loop `accumulate: {as: …, initial: …, merge: …}`"
        whole.notes.warning("outside_loop", message, span, use.expression.path, hint=hint)


def _output(whole: Outline, use: Use, name: str, span: Span) -> None:
    path = use.expression.path
    shown = quote(name, longest=40)
    if name not in whole.outputs:
        listed = f"In `$output` are {few(whole.outputs)}" if whole.outputs else ""
        hint = whole.hints.meant(name, whole.outputs, otherwise=listed)
        whole.notes.error("unknown_output", f"no task and no loop is called {shown}", span, path, hint=hint)
    elif name not in whole.run:
        message = f"{shown} never runs, so there is nothing to read"
        whole.notes.warning("reads_never", message, span, path, hint=f"Add `- do: {name[:40]}` to the flow")
    else:
        found = {whole.when(name, place) for place in use.places}
        if found == {"beside"}:
            message = f"{shown} runs at the same time, so nothing of it is there yet"
            whole.notes.warning("reads_beside", message, span, path, hint="Read it after the `parallel`")
        elif found and "before" not in found:
            whole.notes.warning("reads_later", f"{shown} has not run by then", span, path, hint="Do it before")


class _Inputs:
    """Compares fields of the input with those that its schema names."""

    def __init__(self, whole: Outline) -> None:
        self.whole = whole
        schema = whole.document.schema
        found = schema.find("properties") if schema else None
        self.known = (
            [entry.key.text for entry in found.value.entries] if found and isinstance(found.value, Fields) else []
        )
        more = schema.find("additionalProperties") if schema else None
        self.closed = more is not None and isinstance(more.value, Scalar) and more.value.value is False

    def check(self, use: Use, read: Read, span: Span) -> None:
        if not self.known or len(read.path) < 2 or read.path[0] != "input" or read.path[1] in self.known:
            return
        near = self.whole.hints.nearest(read.path[1], self.known)
        # An open schema lets other fields through; then only what looks like a slip is worth a word.
        if near is None and not self.closed:
            return
        message = f"the input has no field {quote(read.path[1], longest=40)}"
        hint = f"Did you mean `{near}`?" if near else f"Its fields are {few(self.known)}"
        self.whole.notes.warning("unknown_field", message, span, use.expression.path, hint=hint)
