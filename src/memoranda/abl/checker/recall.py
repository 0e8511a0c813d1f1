"""The recall instructions of `MEMORY` in; events that do not exist or never fire, and what an action lacks, out."""

from __future__ import annotations

import re
from collections.abc import Collection

from memoranda.abl.checker.outline import Outline
from memoranda.abl.document import Recall
from memoranda.abl.keywords import RETIRED_EVENTS
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.model.text import quote

_NAME = r"[^\W\d][\w.\-]*"
_EVENT = re.compile(
    rf"session:(?:start|end)|search:before|tool:(?P<tool>{_NAME}|\*):after|agent:(?:{_NAME}|\*):(?:before|after)"
    rf"|entity:(?P<entity>{_NAME}):extracted|step:(?:enter|exit):(?P<step>{_NAME})"
)
_BEFORE_TOOL = re.compile(r"tool:(.+):before")
_FORMS = (
    "session:start",
    "session:end",
    "search:before",
    "tool:NAME:after",
    "agent:NAME:before",
    "agent:NAME:after",
    "entity:FIELD:extracted",
    "step:enter:NAME",
    "step:exit:NAME",
)


def check_recall(whole: Outline, said: Diagnostics) -> None:
    """Check each recall instruction: its event, and what its action needs."""
    memory = whole.document.memory
    for recall in memory.recall if memory else ():
        _event(whole, recall, said)
        _needs(recall, said)


def _event(whole: Outline, recall: Recall, said: Diagnostics) -> None:
    event, span = recall.on.text, recall.on.span
    retired = RETIRED_EVENTS.get(event.upper())
    before = _BEFORE_TOOL.fullmatch(event)
    found = _EVENT.fullmatch(event)
    if retired is not None:
        message = f"{quote(event)} is the name of an event in an earlier version of the language"
        said.error("retired", message, span, hint=f"Write `ON: {retired}`")
    elif before is not None:
        message = f"there is no event {quote(event)}: nothing is recalled before a tool is called"
        hint = f"Use `tool:{before[1]}:after`, or a rule with `BEFORE calling {before[1]}`"
        said.error("unknown_event", message, span, hint=hint)
    elif found is None:
        said.error("unknown_event", f"there is no event {quote(event)}", span, hint=_right_form(event))
    elif event == "search:before":
        message = "`search:before` is deprecated in the language; it still works"
        said.warning("deprecated", message, span, hint="Prefer `session:start`, or `tool:NAME:after`")
    elif whole.closed:
        _fires(whole, recall, found, said)


def _right_form(event: str) -> str:
    """Return a hint with the events that begin like this one, or the nearest, or all."""
    alike = [form for form in _FORMS if form.partition(":")[0] == event.partition(":")[0].casefold()]
    if alike:
        return f"Write {' or '.join(f'`{form}`' for form in alike)}"
    return did_you_mean(event, _FORMS, otherwise=f"One of {', '.join(_FORMS)}")


def _fires(whole: Outline, recall: Recall, found: re.Match[str], said: Diagnostics) -> None:
    fields = {field.name.text for field, _ in whole.fields} | {w.name for w in whole.writes if w.by == "COLLECT"}
    known: tuple[tuple[str, Collection[str], str], ...] = (
        ("step", whole.steps, "step"),
        ("entity", fields, "field"),
        ("tool", {*whole.tools, *(call.tool.text for call in whole.calls)} if whole.tools else (), "tool"),
    )
    for group, names, what in known:
        name = found[group]
        if name is None or name == "*" or name in names or (group == "tool" and not whole.tools):
            continue
        message = f"{quote(recall.on.text)} never happens: there is no {what} {quote(name)}"
        said.warning("never_happens", message, recall.on.span, hint=whole.hints.meant(name, names))


def _needs(recall: Recall, said: Diagnostics) -> None:
    action = recall.does
    if action is None:
        message = "this recall says neither what to load nor what to tell the model"
        said.error("recall_needs", message, recall.on.span, hint="Add `PATHS`, `DOMAIN` or `INSTRUCTION`")
        return
    lacking = {
        "prompt_llm": "" if recall.instruction is not None else "`INSTRUCTION`",
        "inject_context": "" if recall.paths else "`PATHS`",
        "load_memory": "" if recall.paths or recall.domain is not None else "`DOMAIN` or `PATHS`",
    }[action]
    if lacking:
        said.error("recall_needs", f"`{action}` needs {lacking}", recall.on.span, hint=f"Add {lacking} below `ON`")
