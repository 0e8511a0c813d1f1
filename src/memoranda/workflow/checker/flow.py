"""The flow of a document in; steps that lead nowhere, loops that cannot run, and definitions that nothing uses, out."""

from __future__ import annotations

from memoranda.lang.hints import few
from memoranda.lang.source import Span
from memoranda.model.text import quote
from memoranda.workflow.checker.definitions import check_name
from memoranda.workflow.checker.outline import Outline
from memoranda.workflow.document import Conditional, Do, Expression, Items, Loop, Scalar, Value


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
            whole.notes.error("duplicate", message, loop.name.span, loop.name.path, hint=hint)
        names.add(loop.name.text)
    _unused(whole)


def _task(whole: Outline, step: Do) -> None:
    name = step.task
    found = whole.defs.get(name.text)
    if found is None:
        known = whole.kinds.get("task", [])
        listed = f"The tasks are {few(known)}" if known else f"Define `{name.text[:40]}` under `defs`"
        hint = whole.hints.meant(name.text, known, otherwise=listed)
        whole.notes.error(
            "unknown_task", f"there is no task {quote(name.text, longest=40)}", name.span, name.path, hint=hint
        )
    elif found.kind is not None and found.kind.text != "task":
        message = f"{quote(name.text, longest=40)} is of the kind `{found.kind.text}`, and only tasks are done"
        whole.notes.error("not_a_task", message, name.span, name.path, hint="Bind it to a task, and do that")


def _branches(whole: Outline, branching: Conditional) -> None:
    always: int | None = None
    for at, branch in enumerate(branching.branches):
        if always is not None:
            message = "this branch is never asked: the one before it is always taken"
            whole.notes.warning("unreachable_branch", message, branch.span, branch.path, hint="Put it before that one")
            return
        if branch.condition is None:
            always = at
        else:
            _condition(whole, branch.condition)


def _condition(whole: Outline, value: Value) -> None:
    """Check something that is asked whether it holds."""
    if isinstance(value, Expression) or (isinstance(value, Scalar) and isinstance(value.value, bool)):
        return
    if isinstance(value, Scalar) and isinstance(value.value, str) and value.value:
        message = f"{quote(value.value, longest=40)} is a text, which always holds"
        whole.notes.warning("constant_condition", message, value.span, value.path, hint="Begin an expression with `=`")
        return
    message = "a condition is an expression, or true or false"
    whole.notes.error("wrong_type", message, value.span, value.path, hint="Write it as `=…`")


def _loop(whole: Outline, loop: Loop) -> None:
    if loop.type == "for_each":
        _surplus(whole, loop, loop.test, "while")
        if loop.items is None:
            _missing(whole, loop, "for_each", "`for_each`: what is gone through, as `in: =…`")
        elif not isinstance(loop.items, Expression | Items):
            message = "what a loop goes through is a list, or an expression that gives one"
            whole.notes.error("wrong_type", message, loop.items.span, loop.items.path, hint="Begin it with `=`")
    elif loop.type == "while":
        _surplus(whole, loop, loop.items, "for_each")
        if loop.test is None:
            _missing(whole, loop, "while", "`while`: an expression that is asked before each pass")
    for value in (loop.test, loop.until):
        if value is not None:
            _condition(whole, value)
    if loop.accumulate is None:
        return
    merge = loop.accumulate.merge
    if merge is not None and not isinstance(merge, Expression):
        message = "what is written here is the same after every pass"
        whole.notes.warning("constant_merge", message, merge.span, merge.path, hint="Begin an expression with `=`")
    if loop.name is None:
        message = "a loop without a name gives its value to nobody"
        hint = "Give the loop a `name`; then it is `$output.<name>." + f"{loop.accumulate.name.text[:40]}`"
        whole.notes.note("unnamed_loop", message, loop.accumulate.name.span, loop.accumulate.path, hint=hint)


def _missing(whole: Outline, loop: Loop, word: str, hint: str) -> None:
    message = f"`{word}` is missing in a loop of the type `{loop.type}`"
    # A step begins with its word.
    span = Span(loop.span.start, loop.span.start + len("loop"))
    whole.notes.error("missing", message, span, loop.path, hint=hint)


def _surplus(whole: Outline, loop: Loop, value: Value | None, word: str) -> None:
    if value is not None:
        message = f"a loop of the type `{loop.type}` has no `{word}`"
        whole.notes.error("wrong_setting", message, value.span, value.path, hint=f"Remove it, or write `type: {word}`")


def _unused(whole: Outline) -> None:
    """Note tasks that never run, and models and tools that none of the others uses; a memory is loaded in any case."""
    if not whole.document.flow:
        return
    reached = _reached(whole)
    for name, one in whole.defs.items():
        kind = one.kind.text if one.kind else "memory"
        if name in reached or kind == "memory":
            continue
        code, what = ("never_runs", "nothing does this task") if kind == "task" else ("never_used", "nothing uses it")
        hint = f"Add `- do: {name[:40]}` to the flow, or remove it" if kind == "task" else "Bind it, or remove it"
        whole.notes.note(code, what, one.name.span, one.path, hint=hint)


def _reached(whole: Outline) -> set[str]:
    waiting = [step.task.text for step in whole.steps if step.task.text in whole.defs]
    reached = set(waiting)
    while waiting:
        for binding in whole.defs[waiting.pop()].bindings:
            for name in binding.names:
                if name.text in whole.defs and name.text not in reached:
                    reached.add(name.text)
                    waiting.append(name.text)
    return reached
