"""What a document reads and writes in; reserved names, counters that never count and variables nobody sets, out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memoranda.abl.checker.memory import reserved
from memoranda.abl.checker.outline import Outline, paths_of
from memoranda.abl.document import PREFIXES, Action, Call, Check, Clear, Gather, Interruption, Set, Step, Transform
from memoranda.abl.tree import Raw
from memoranda.abl.variables import SYSTEM
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Span
from memoranda.model.text import quote


def check_variables(whole: Outline, said: Diagnostics) -> None:
    """Check the names that are written, and whether what is waited for can ever happen."""
    for write in whole.writes:
        if reserved(write.name):
            message = f"`{write.by}` cannot change {quote(write.name)}: the name is reserved"
            said.error("reserved_name", message, write.path.span, hint="Use a variable of your own")
    _counters(whole, said)
    _circles(whole, said)
    if whole.closed and whole.sound:
        _never_set(whole, said)


# --- counters ---------------------------------------------------------------------------------------------------


def _counters(whole: Outline, said: Diagnostics) -> None:
    """Warn of variables that begin anew with each step and are compared before the step has changed them."""
    fresh = {name for name, variable in whole.session.items() if variable.reset == "per_step"}
    for step in whole.steps.values() if fresh else ():
        if step.when is not None:
            _compared(whole, step.when, fresh, said)
        waiting = fresh - _changed_while_waiting(whole, step)
        for action in step.body:
            if isinstance(action, Check):
                _compared(whole, action.condition, waiting, said)
            # The fields of a tool's result may be variables.
            waiting = set[str]() if isinstance(action, Call) else waiting - _changed([action])


def _compared(whole: Outline, condition: Raw, names: set[str], said: Diagnostics) -> None:
    node = whole.programs.node(condition)
    for path, span, _ in paths_of(node) if node is not None else ():
        if path[0] in names:
            _note_counter(path[0], span, said)


def _note_counter(name: str, span: Span, said: Diagnostics) -> None:
    message = f"{quote(name)} always has its initial value here: `RESET: per_step` sets it back as the step begins"
    said.warning("never_counts", message, span, hint="Declare it with `RESET: per_session`, or use MAX_ATTEMPTS")


def _changed_while_waiting(whole: Outline, step: Step) -> set[str]:
    flow = whole.document.flow
    asides: list[Interruption] = [*step.sub_intents, *step.digressions, *(flow.global_digressions if flow else ())]
    hooks = [hook for hook in whole.document.hooks if hook.name.text.casefold().endswith("_turn")]
    return _changed([action for aside in (*asides, *hooks) for action in aside.body])


def _changed(actions: Iterable[Action]) -> set[str]:
    names: set[str] = set()
    for action in actions:
        match action:
            case Set():
                names |= {one.target.text.partition(".")[0] for one in action.assignments}
            case Clear():
                names |= {name.text.partition(".")[0] for name in action.names}
            case Gather():
                names |= {field.name.text for field in action.fields}
            case Transform():
                names.add(action.into.text.partition(".")[0])
            case _:
                pass
    return names


# --- fields that wait for each other ------------------------------------------------------------------------------


def _circles(whole: Outline, said: Diagnostics) -> None:
    """Note fields that are never asked for, because each waits for the other."""
    for part, _ in whole.parts:
        if not isinstance(part, Gather):
            continue
        waits = {field.name.text: [other.text for other in field.depends_on] for field in part.fields}
        noted: set[str] = set()
        for field in part.fields:
            for other in field.depends_on:
                awaited = _awaited(other.text, waits)
                if field.name.text in awaited - noted:
                    noted |= awaited
                    message = f"{quote(field.name.text)} waits for {quote(other.text)}, which waits for it in turn"
                    said.error("wrong_value", message, other.span, hint="One of them has to be asked for first")


def _awaited(name: str, waits: Mapping[str, list[str]]) -> set[str]:
    """Return a field and all that have to be there before it."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting.extend(waits.get(here, ()))
    return found


# --- variables nobody sets --------------------------------------------------------------------------------------


def _never_set(whole: Outline, said: Diagnostics) -> None:
    """Warn of triggers and fields that wait for a variable which nothing in the document sets."""
    if not _is_scripted(whole):
        return
    named = whole.written | set(whole.session)
    known = {*named, *SYSTEM, *PREFIXES, *(path.partition(".")[0] for path in whole.facts)}
    for field, _ in whole.fields:
        for other in field.depends_on:
            if other.text.partition(".")[0] not in known:
                message = (
                    f"nothing in this agent sets {quote(other.text)}, so {quote(field.name.text)} is never asked for"
                )
                said.warning("never_set", message, other.span, hint=whole.hints.meant(other.text, named))
    for read in whole.reads:
        if read.use.place != "remember WHEN" or read.path[0] in known or len(read.path) > 1:
            continue
        message = f"nothing in this agent sets {quote(read.text)}, so this trigger never stores anything"
        said.warning("never_set", message, read.span, hint=whole.hints.meant(read.text, named))


def _is_scripted(whole: Outline) -> bool:
    """Say whether every variable of the agent is set by its own words: no tool, no model, no other agent."""
    document = whole.document
    others = whole.calls or document.handoffs or document.delegates
    loads = any(recall.domain is not None for recall in document.memory.recall) if document.memory else False
    return bool(whole.steps) and not others and not loads and not any(step.reasoning for step in whole.steps.values())
