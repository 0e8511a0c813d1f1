"""Read `HANDOFF`, `DELEGATE`, `ESCALATE` and `COMPLETE`."""

from __future__ import annotations

import re
from typing import Any, cast

from memoranda.abl.document import (
    Access,
    Complete,
    Context,
    Delegate,
    Escalate,
    Grant,
    Handoff,
    OnReturn,
    Trigger,
)
from memoranda.abl.keywords import RETURN_ACTIONS
from memoranda.abl.lines import Line, object_fields, split_arrow, unquote
from memoranda.abl.reader import Properties, Reader, elements, item_text, mapping
from memoranda.abl.sections.actions import read_reply
from memoranda.lang.document import Raw
from memoranda.lang.source import Span
from memoranda.model.text import quote


def read_handoffs(reader: Reader, lines: tuple[Line, ...]) -> tuple[Handoff, ...]:
    """Read the list of agents that take over."""
    handoffs: list[Handoff] = []
    for line in reader.items(lines, "HANDOFF"):
        found = reader.properties(line.entries, "handoff", owner=line.span)
        to = found.text("TO")
        if to is None:
            continue
        context, back = found.line("CONTEXT"), found.line("ON_RETURN")
        handoffs.append(
            Handoff(
                to=to,
                when=found.text("WHEN"),
                priority=found.integer("PRIORITY"),
                context=_context(reader, context) if context else _context_beside(found, line),
                returns=found.flag("RETURN"),
                on_return=_on_return(reader, found, back),
                on_failure=found.text("ON_FAILURE"),
                kept=found.kept,
                span=line.span,
            )
        )
    return tuple(handoffs)


def _context(reader: Reader, line: Line) -> Context:
    found = reader.properties(line.children, "context", owner=line.span)
    history = found.line("history")
    mode, count = _history(history) if history else (None, None)
    return Context(
        values=found.names("pass"),
        summary=found.text("summary"),
        history=mode,
        history_count=count,
        memory_grants=tuple(
            _grant(reader, item) for item in reader.items(found.below("memory_grants"), "memory_grants")
        ),
        set=found.mapping("set"),
        kept=found.kept,
        span=line.span,
    )


def _context_beside(found: Properties, line: Line) -> Context | None:
    """Return the context that is written directly in a handoff instead of below `CONTEXT`."""
    history = found.line("history")
    mode, count = _history(history) if history else (None, None)
    given = Context(found.names("pass"), found.text("summary"), mode, count, span=line.span)
    return given if given.values or given.summary or given.history else None


def _history(line: Line) -> tuple[Raw | None, int | None]:
    """Return how much of the conversation goes along: a mode, and a count for `last_n`."""
    if line.value is not None and object_fields(line.value.raw) is None:
        last = _LAST.fullmatch(line.value.text)
        return (Raw("last_n", span=line.value.span), int(last[1])) if last else (line.value.unquoted, None)
    given = {argument.name.text.casefold(): unquote(argument.value) for argument in mapping(line)}
    if "last_n" in given:
        given |= {"count": given["last_n"], "mode": Raw("last_n", span=line.key_span)}
    count = given.get("count")
    return given.get("mode"), int(count.text) if count and count.text.isdecimal() else None


_LAST = re.compile(r"last_(?:n\s*:\s*)?(\d{1,6})")


def _grant(reader: Reader, line: Line) -> Grant:
    if line.key is None and not line.text.startswith("{"):
        return Grant(reader.path(line.raw, "a persistent variable"), span=line.span)
    fields = object_fields(line.raw) if line.key is None else None
    if fields is not None:
        given = {name.text.casefold(): unquote(value) for name, value in fields}
        path, access = given.get("path"), given.get("access")
        word = access.text.casefold() if access else "read"
    else:
        found = reader.properties(line.entries, "grant", owner=line.span)
        path, word = found.text("path"), found.choice("access") or "read"
    if path is None:
        reader.error("missing", "a grant without a path", line.span, hint="path: user.name")
        path = Raw("", span=line.span)
    return Grant(path, cast("Access", word), span=line.span)


def _on_return(reader: Reader, handoff: Properties, line: Line | None) -> OnReturn | None:
    beside = handoff.mapping("MAP")
    if line is None:
        owner = handoff.line("MAP")
        return OnReturn(map=beside, span=owner.span) if owner else None
    if line.value is not None:
        return OnReturn(**_way_on(line.value.unquoted), map=beside, span=line.span)
    found = reader.properties(line.children, "on return", owner=line.span)
    words, action, handler = found.text("resume_with"), found.text("action"), found.text("handler")
    way_on = _way_on(action) if action else {}
    if handler is not None:
        way_on["handler"] = handler
    return OnReturn(
        **way_on,
        map=(*found.mapping("map"), *beside),
        set=found.mapping("set"),
        resume_with=words.text if words else None,
        span=line.span,
    )


def _way_on(word: Raw) -> dict[str, Any]:
    """Return how the agent goes on: by an action, or by a handler of this name."""
    action = word.text.casefold()
    return {"action": action} if action in RETURN_ACTIONS else {"handler": word}


def read_delegates(reader: Reader, lines: tuple[Line, ...]) -> tuple[Delegate, ...]:
    """Read the list of agents that do a part of the work."""
    delegates: list[Delegate] = []
    for line in reader.items(lines, "DELEGATE"):
        found = reader.properties(line.entries, "delegate", owner=line.span)
        agent = found.text("AGENT")
        if agent is None:
            continue
        failure, retries = _failure(found.line("ON_FAILURE"))
        delegates.append(
            Delegate(
                agent=agent,
                when=found.text("WHEN"),
                purpose=found.text("PURPOSE"),
                input=found.mapping("INPUT"),
                returns=found.mapping("RETURNS"),
                use_result=found.text("USE_RESULT"),
                timeout=found.text("TIMEOUT"),
                on_failure=failure,
                failure_message=found.text("FAILURE_MESSAGE"),
                retries=retries,
                kept=found.kept,
                span=line.span,
            )
        )
    return tuple(delegates)


def _failure(line: Line | None) -> tuple[Raw | None, int]:
    """Return what follows a failure, and how often to try again: one word, or `type` and `count` below."""
    if line is None or line.value is not None:
        return (line.value.unquoted if line and line.value else None), 1
    given = {argument.name.text.casefold(): unquote(argument.value) for argument in mapping(line)}
    count = given.get("count")
    kind = given.get("type") or given.get("respond")
    return kind, int(count.text) if count and count.text.isdecimal() else 1


def read_escalate(reader: Reader, lines: tuple[Line, ...], span: Span) -> Escalate:
    """Read when a person is called; triggers may be below `triggers` or directly below the section."""
    loose = tuple(line for line in lines if line.dash)
    found = reader.properties((line for line in lines if not line.dash), "escalate", owner=span)
    triggers = [
        trigger
        for line in (*loose, *reader.items(found.below("triggers"), "triggers"))
        if (trigger := _trigger(reader, line)) is not None
    ]
    return Escalate(tuple(triggers), _names_for_people(reader, found), found.kept, span=span)


def _names_for_people(reader: Reader, found: Properties) -> tuple[Raw, ...]:
    """Return the variables that a person is shown; anything but a name has no effect."""
    line = found.line("context_for_human")
    if line is None:
        return ()
    if line.value is not None:
        return tuple(elements(line))
    names: list[Raw] = []
    for child in line.children:
        if child.key is None:
            names.append(reader.path(item_text(child), "a variable"))
        else:
            reader.warning("not_acted_on", f"{quote(child.key)} has no effect: text for people", child.key_span)
    return tuple(names)


def _trigger(reader: Reader, line: Line) -> Trigger | None:
    found = reader.properties(line.entries, "trigger", owner=line.span)
    when = found.text("WHEN")
    if when is None:
        return None
    return Trigger(when, found.text("REASON"), found.choice("PRIORITY"), found.names("TAGS"), span=line.span)


def read_completes(reader: Reader, lines: tuple[Line, ...]) -> tuple[Complete, ...]:
    """Read the conditions under which the agent is done."""
    completes: list[Complete] = []
    for line in reader.items(lines, "COMPLETE"):
        found = reader.properties(line.entries, "complete", owner=line.span)
        when = found.text("WHEN")
        if when is not None:
            value, target = _store(found)
            reply = found.line("RESPOND")
            if reply is not None:
                read_reply(reader, reply)
            completes.append(Complete(when, found.text("RESPOND"), value, target, found.kept, span=line.span))
    return tuple(completes)


def _store(found: Properties) -> tuple[Raw | None, Raw | None]:
    """Return the value to store and its target; without an arrow, the name is both."""
    line = found.line("STORE")
    if line is None or line.value is None:
        return None, None
    return split_arrow(line.value.raw) or (line.value.unquoted, None)
