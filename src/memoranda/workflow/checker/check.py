"""Check the text of a workflow: what expressions read, the flow, and everything else a document can get wrong.

`check_source` is the entry point. It parses the text, builds the outline that all checks share, and runs them.
"""

from __future__ import annotations

from collections.abc import Mapping

from memoranda.lang.diagnostics import Diagnostic, short_list
from memoranda.lang.source import Span
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Action
from memoranda.workflow.actions.builtin import BUILTIN
from memoranda.workflow.checker.definitions import check_bindings, check_definitions, check_name, check_tasks
from memoranda.workflow.checker.outline import Outline, Use, outline
from memoranda.workflow.document import Conditional, Do, Document, Expression, Fields, Items, Loop, Scalar, Value
from memoranda.workflow.expressions import Programs
from memoranda.workflow.jsonata_functions import NAMES, REFUSED
from memoranda.workflow.jsonata_syntax import Read
from memoranda.workflow.keywords import VARIABLES
from memoranda.workflow.parser import PathDiagnostics, Reading, read_source


def check_names(whole: Outline) -> None:
    """Check the names that expressions read."""
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
                _unknown_variable(whole, use, read, span)


def _function(whole: Outline, use: Use, read: Read, span: Span) -> None:
    name = read.path[0]
    if name in NAMES:
        return
    hint = whole.hints.did_you_mean(name, NAMES, otherwise="Available are JSONata's functions and `$uuid`").replace(
        "`", "`$", 1
    )
    if name in REFUSED:
        hint = "Only expressions in the file are evaluated, never the contents of a value"
    message = f"unknown function {quote(f'${name}', longest=40)}"
    whole.diagnostics.error("unknown_function", message, span, use.expression.path, hint=hint)


def _field(whole: Outline, use: Use, read: Read, span: Span) -> None:
    name = read.path[0]
    hint = f"Did you mean `${name}`?" if name in (*NAMES, *VARIABLES.names) else f"Did you mean `$input.{name[:40]}`?"
    message = f"{quote(name, longest=40)} is not read from a variable, so it is always undefined"
    whole.diagnostics.warning("reads_nothing", message, span, use.expression.path, hint=hint)


def _unknown_variable(whole: Outline, use: Use, read: Read, span: Span) -> None:
    name = read.path[0]
    # A function that is not called is a value, as in `$map(list, $string)`.
    if name in NAMES:
        return
    listed = f"The variables are {', '.join(f'${one}' for one in VARIABLES.names)}"
    near = whole.hints.closest(name, VARIABLES.names)
    message = f"unknown variable {quote(f'${name}', longest=40)}"
    whole.diagnostics.error(
        "unknown_variable", message, span, use.expression.path, hint=f"Did you mean `${near}`?" if near else listed
    )


def _variable(whole: Outline, use: Use, read: Read, span: Span) -> None:
    first, *rest = read.path
    places = use.places
    if first == "output" and rest:
        _output(whole, use, rest[0], span)
    elif first == "iteration" and places and not any(place.loop for place in places):
        message = "`$iteration` exists only in a loop"
        whole.diagnostics.warning("outside_loop", message, span, use.expression.path, hint="Put the step into a loop")
    elif first == "accumulator" and places and not any(place.accumulating for place in places):
        message = "`$accumulator` exists only in a loop that accumulates"
        hint = "Give the loop `accumulate: {as: …, initial: …, merge: …}`"
        whole.diagnostics.warning("outside_loop", message, span, use.expression.path, hint=hint)


def _output(whole: Outline, use: Use, name: str, span: Span) -> None:
    path = use.expression.path
    shown = quote(name, longest=40)
    if name not in whole.outputs:
        listed = f"`$output` has {short_list(whole.outputs)}" if whole.outputs else ""
        hint = whole.hints.did_you_mean(name, whole.outputs, otherwise=listed)
        whole.diagnostics.error("unknown_output", f"no task and no loop is called {shown}", span, path, hint=hint)
    elif name not in whole.run:
        message = f"{shown} never runs, so there is nothing to read"
        whole.diagnostics.warning("reads_never", message, span, path, hint=f"Add `- do: {name[:40]}` to the flow")
    else:
        found = {whole.when(name, place) for place in use.places}
        if found == {"beside"}:
            message = f"{shown} runs at the same time, so its output is not available yet"
            whole.diagnostics.warning("reads_beside", message, span, path, hint="Read it after the `parallel`")
        elif found and "before" not in found:
            whole.diagnostics.warning("reads_later", f"{shown} has not run by then", span, path, hint="Do it before")


class _Inputs:
    """Compares the fields that are read from the input with those of its schema."""

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
        near = self.whole.hints.closest(read.path[1], self.known)
        # An open schema allows other fields; then only a likely typo is reported.
        if near is None and not self.closed:
            return
        message = f"the input has no field {quote(read.path[1], longest=40)}"
        hint = f"Did you mean `{near}`?" if near else f"Its fields are {short_list(self.known)}"
        self.whole.diagnostics.warning("unknown_field", message, span, use.expression.path, hint=hint)


def check_flow(whole: Outline) -> None:
    """Check the steps, branches and loops, and that every definition is used."""
    for step in whole.steps:
        _task(whole, step)
    for branching in whole.branchings:
        _branches(whole, branching)
    names = set(whole.defs)
    for loop in whole.loops:
        _loop(whole, loop)
        if loop.name is None:
            continue
        check_name(whole, loop.name, "a loop")
        if loop.name.text in names:
            message = f"{quote(loop.name.text, longest=40)} is declared a second time"
            hint = "A definition or another loop would write to the same place in `$output`; choose another name"
            whole.diagnostics.error("duplicate", message, loop.name.span, loop.name.path, hint=hint)
        names.add(loop.name.text)
    _check_unused(whole)


def _task(whole: Outline, step: Do) -> None:
    name = step.task
    found = whole.defs.get(name.text)
    if found is None:
        known = whole.kinds.get("task", [])
        listed = f"The tasks are {short_list(known)}" if known else f"Define `{name.text[:40]}` under `defs`"
        hint = whole.hints.did_you_mean(name.text, known, otherwise=listed)
        whole.diagnostics.error(
            "unknown_task", f"unknown task {quote(name.text, longest=40)}", name.span, name.path, hint=hint
        )
    elif found.kind is not None and found.kind.text != "task":
        message = f"{quote(name.text, longest=40)} is of the kind `{found.kind.text}`; only a task can be a step"
        whole.diagnostics.error("not_a_task", message, name.span, name.path, hint="Bind it to a task, and do that task")


def _branches(whole: Outline, branching: Conditional) -> None:
    always: int | None = None
    for at, branch in enumerate(branching.branches):
        if always is not None:
            message = "this branch is never reached: the one before it is always taken"
            whole.diagnostics.warning(
                "unreachable_branch", message, branch.span, branch.path, hint="Put it before that one"
            )
            return
        if branch.condition is None:
            always = at
        else:
            _condition(whole, branch.condition)


def _condition(whole: Outline, value: Value) -> None:
    if isinstance(value, Expression) or (isinstance(value, Scalar) and isinstance(value.value, bool)):
        return
    if isinstance(value, Scalar) and isinstance(value.value, str) and value.value:
        message = f"{quote(value.value, longest=40)} is a text, which is always true"
        whole.diagnostics.warning(
            "constant_condition", message, value.span, value.path, hint="Begin an expression with `=`"
        )
        return
    message = "a condition is an expression, or true or false"
    whole.diagnostics.error("wrong_type", message, value.span, value.path, hint="Write it as `=…`")


def _loop(whole: Outline, loop: Loop) -> None:
    if loop.type == "for_each":
        _surplus(whole, loop, loop.test, "while")
        if loop.items is None:
            _missing(whole, loop, "for_each", "`for_each`: the items to iterate over, as `in: =…`")
        elif not isinstance(loop.items, Expression | Items):
            message = "a loop iterates over a list, or an expression that gives one"
            whole.diagnostics.error("wrong_type", message, loop.items.span, loop.items.path, hint="Begin it with `=`")
    elif loop.type == "while":
        _surplus(whole, loop, loop.items, "for_each")
        if loop.test is None:
            _missing(whole, loop, "while", "`while`: an expression that is evaluated before each pass")
    for value in (loop.test, loop.until):
        if value is not None:
            _condition(whole, value)
    if loop.accumulate is None:
        return
    merge = loop.accumulate.merge
    if merge is not None and not isinstance(merge, Expression):
        message = "this is not an expression, so it gives the same value after every pass"
        whole.diagnostics.warning(
            "constant_merge", message, merge.span, merge.path, hint="Begin an expression with `=`"
        )
    if loop.name is None:
        message = "the accumulated value of a loop without a name cannot be read"
        hint = "Give the loop a `name`; then it is `$output.<name>." + f"{loop.accumulate.name.text[:40]}`"
        whole.diagnostics.note("unnamed_loop", message, loop.accumulate.name.span, loop.accumulate.path, hint=hint)


def _missing(whole: Outline, loop: Loop, word: str, hint: str) -> None:
    message = f"`{word}` is missing in a loop of the type `{loop.type}`"
    # A step begins with its word.
    span = Span(loop.span.start, loop.span.start + len("loop"))
    whole.diagnostics.error("missing", message, span, loop.path, hint=hint)


def _surplus(whole: Outline, loop: Loop, value: Value | None, word: str) -> None:
    if value is not None:
        message = f"a loop of the type `{loop.type}` has no `{word}`"
        whole.diagnostics.error(
            "wrong_setting", message, value.span, value.path, hint=f"Remove it, or write `type: {word}`"
        )


def _check_unused(whole: Outline) -> None:
    """Note tasks that never run, and models and tools that nothing uses; a memory is always loaded."""
    if not whole.document.flow:
        return
    reached = _reachable_definitions(whole)
    for name, one in whole.defs.items():
        kind = one.kind.text if one.kind else "memory"
        if name in reached or kind == "memory":
            continue
        code, what = ("never_runs", "this task never runs") if kind == "task" else ("never_used", "nothing uses it")
        hint = f"Add `- do: {name[:40]}` to the flow, or remove it" if kind == "task" else "Bind it, or remove it"
        whole.diagnostics.note(code, what, one.name.span, one.path, hint=hint)


def _reachable_definitions(whole: Outline) -> set[str]:
    waiting = [step.task.text for step in whole.steps if step.task.text in whole.defs]
    reached = set(waiting)
    while waiting:
        for binding in whole.defs[waiting.pop()].bindings:
            for name in binding.names:
                if name.text in whole.defs and name.text not in reached:
                    reached.add(name.text)
                    waiting.append(name.text)
    return reached


_CHECKS = (check_definitions, check_bindings, check_tasks, check_flow, check_names)


def check_document(document: Document, programs: Programs, actions: Mapping[str, Action]) -> None:
    """Add the errors, warnings and notes of a parsed document to its diagnostics."""
    whole = outline(document, programs, actions)
    for check in _CHECKS:
        check(whole)


def check_source(
    text: str, *, name: str = "workflow.yaml", actions: Mapping[str, Action] | None = None
) -> tuple[Reading, Programs, tuple[Diagnostic, ...]]:
    """Parse and check a source; return what was read, its programs, and all diagnostics, sorted.

    `actions` are those of the application; they may replace built-in ones.
    """
    reading = read_source(text, name=name)
    diagnostics = reading.going_on()
    programs = Programs(PathDiagnostics(diagnostics))
    check_document(reading.document, programs, {**BUILTIN, **(actions or {})})
    return reading, programs, diagnostics.sorted()
