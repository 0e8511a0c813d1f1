"""Read `FLOW` with its steps and digressions, error handlers, lifecycle handlers and named templates."""

from __future__ import annotations

import msgspec

from memoranda.abl.document import ActionHandler, ErrorHandler, Flow, Handler, Interruption, NamedTemplate, Step, Target
from memoranda.abl.keywords import LEVELS
from memoranda.abl.lines import Line, Value, split
from memoranda.abl.reader import Properties, Reader, item_text, text_of
from memoranda.abl.sections.actions import read_actions, read_branches, read_outcome, read_target
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.document import Raw
from memoranda.lang.source import Span
from memoranda.model.text import quote


def read_flow(reader: Reader, lines: tuple[Line, ...], span: Span, *, fragment: bool = False) -> Flow:
    """Read the whole section: entry point, order, digressions and steps; a fragment may lack parts of it."""
    table = LEVELS["flow"]
    own = [line for line in lines if line.key is not None and not line.dash and table.find(line.key)]
    found = reader.properties(own, "flow", owner=span)
    order, blocks = _order(reader, found.line("steps"))
    steps: list[Step] = []
    for line in (*lines, *blocks):
        if line.key is not None and table.find(line.key) and not line.dash:
            continue
        if line.key is None and "->" in line.text:
            order.extend(name for name in split(line.raw, "->") if name.text)
        else:
            step = _read_step_line(reader, line, fragment=fragment)
            if step is not None:
                steps.append(step)
    reader.note_duplicates(step.name for step in steps)
    if not steps and not fragment:
        message = "`FLOW` has no steps"
        reader.error("missing", message, span, hint="Add a step: a name with a colon, and its lines below it")
    return Flow(
        tuple(steps),
        entry_point=found.text("entry_point"),
        order=tuple(reader.name(name, "a step") for name in order),
        global_digressions=_interruptions(reader, found, "global_digressions", "digression", resume=False),
        kept=found.kept,
        span=span,
    )


def _order(reader: Reader, line: Line | None) -> tuple[list[Raw], list[Line]]:
    """Return the names that `steps` lists, and the steps written below it."""
    if line is None:
        return [], []
    if line.value is not None:
        inner = line.value.unquoted
        arrows = split(inner, "->")
        if len(arrows) > 1:
            return [name for name in arrows if name.text], []
        message = f"`steps` needs its items below it, not {quote(inner.text, longest=40)}"
        reader.error("wrong_value", message, inner.span, hint="Write one `- name` per line")
        return [], []
    names = [item_text(child) for child in line.children if child.key is None and "->" not in child.text]
    return names, [child for child in line.children if child.key is not None or "->" in child.text]


def _read_step_line(reader: Reader, line: Line, *, fragment: bool) -> Step | None:
    if line.key is None:
        message = f"{quote(line.text, longest=40)} is not a step"
        reader.error(
            "wrong_nesting", message, line.span, hint="Write a name with a colon, and the lines of the step below it"
        )
        return None
    if line.dash and line.key.casefold() == "name" and line.value is not None:
        return read_step(reader, line.value.unquoted, line.body, line.span, fragment=fragment)
    if line.value is not None:
        near = did_you_mean(line.key, LEVELS["flow"].names)
        message = f"{quote(line.key)} is neither a keyword of `FLOW` nor a step"
        reader.error("unknown_keyword", message, line.key_span, hint=near or "A step has its lines below it")
        return None
    return read_step(reader, line.name, line.body, line.span, fragment=fragment)


def read_step(reader: Reader, name: Raw, lines: tuple[Line, ...], span: Span, *, fragment: bool = False) -> Step:
    """Read one step; in a fragment it may lack `REASONING`, and loose lines have no name."""
    if name.text:
        name = reader.name(name, "a step")
    found = reader.properties(lines, "step", owner=span, required=False)
    if name.text and found.line("REASONING") is None and not _has_key(lines, "reasoning"):
        report = reader.warning if fragment else reader.error
        message = f"Step '{name.text}' must declare REASONING: true or REASONING: false."
        report("missing", message, name.span, hint="REASONING says whether the model drives the step")
    then = found.line("THEN")
    keyword = LEVELS["step"].find("THEN")
    if then is not None and keyword is not None and then.value is None and not then.children:
        reader.note_wrong_value(then, keyword, "a target, or a list of IF and ELSE below it")
    exhausted = found.text("ON_EXHAUSTED")
    return Step(
        name=name,
        reasoning=found.flag("REASONING") if found.line("REASONING") else None,
        when=found.text("WHEN"),
        body=read_actions(reader, found),
        complete_when=found.text("COMPLETE_WHEN"),
        corrections=found.flag("CORRECTIONS"),
        on_input=read_branches(reader, found.below("ON_INPUT"), "ON_INPUT"),
        on_action=_action_handlers(reader, found),
        sub_intents=_interruptions(reader, found, "SUB_INTENTS", "sub-intent", resume=True),
        digressions=_interruptions(reader, found, "DIGRESSIONS", "digression", resume=False),
        on_error=read_error_handlers(reader, found.line("ON_ERROR")),
        then=read_outcome(reader, then) if then else (),
        max_attempts=found.integer("MAX_ATTEMPTS"),
        on_exhausted=read_target(exhausted) if exhausted else None,
        goal=found.text("GOAL"),
        available_tools=found.names("AVAILABLE_TOOLS"),
        exit_when=found.text("EXIT_WHEN"),
        max_turns=found.integer("MAX_TURNS"),
        step_constraints=found.texts("STEP_CONSTRAINTS"),
        instructions=found.text("INSTRUCTIONS"),
        kept=found.kept,
        span=span,
    )


def _has_key(lines: tuple[Line, ...], word: str) -> bool:
    """Return whether a keyword is present, even with an invalid value."""
    return any(line.key is not None and line.key.casefold() == word for line in lines)


def _interruptions(
    reader: Reader, found: Properties, name: str, level: str, *, resume: bool
) -> tuple[Interruption, ...]:
    interruptions: list[Interruption] = []
    for line in reader.items(found.below(name), name):
        given = reader.properties(line.entries, level, owner=line.span)
        intent = given.text("INTENT")
        if intent is None:
            continue
        ordered = _action_list(reader, given, "digression")
        goto = _leads_to(given) or _leads_to(ordered)
        interruptions.append(
            Interruption(
                intent=intent,
                keywords=given.names("KEYWORDS"),
                condition=given.text("CONDITION"),
                body=(*read_actions(reader, given), *read_actions(reader, ordered)),
                resume=given.flag("RESUME", default=ordered.flag("RESUME", default=resume)),
                goto=goto,
                span=line.span,
            )
        )
    return tuple(interruptions)


def _leads_to(given: Properties) -> Target | None:
    goto, agent = given.text("GOTO"), given.text("HANDOFF")
    if goto is not None:
        return read_target(goto)
    return Target("handoff", agent, span=agent.span) if agent else None


def _action_list(reader: Reader, given: Properties, level: str) -> Properties:
    """Return the entries of a `DO` list as properties of one level, in order."""
    lines: list[Line] = []
    for item in reader.items(given.below("DO"), "DO"):
        lines.extend(_as_entries(item))
    if not lines:
        return Properties((), ())
    return reader.properties(lines, level, owner=lines[0].span, required=False)


def _as_entries(item: Line) -> tuple[Line, ...]:
    """Return the entries of an item; `- RESUME` alone means `RESUME: true`."""
    if item.key is None and item.text.upper() == "RESUME":
        value = Value("true", span=item.span)
        item = msgspec.structs.replace(item, key=item.text, value=value)
    return item.entries


def _action_handlers(reader: Reader, found: Properties) -> tuple[ActionHandler, ...]:
    """Return what follows each choice: items with `ACTION`, or blocks by id."""
    handlers: list[ActionHandler] = []
    for line in found.below("ON_ACTION"):
        by_id = not line.dash and line.key is not None
        if not by_id:
            line = next(iter(reader.items([line], "ON_ACTION")), None)
        if line is None:
            continue
        entries = line.children if by_id else line.entries
        given = reader.properties(entries, "action handler", owner=line.span, required=not by_id)
        ordered = _action_list(reader, given, "action handler")
        action = line.name if by_id else given.text("ACTION")
        if action is not None:
            body = (*read_actions(reader, given), *read_actions(reader, ordered))
            target = _way_out(given) or _way_out(ordered)
            handlers.append(ActionHandler(action, given.text("CONDITION"), body, target, span=line.span))
    return tuple(handlers)


def _way_out(given: Properties) -> Target | None:
    then, agent, end = given.text("THEN"), given.text("HANDOFF"), given.text("COMPLETE")
    if agent is not None:
        return Target("handoff", agent, span=agent.span)
    if end is not None and given.flag("COMPLETE"):
        return Target("complete", end, span=end.span)
    return read_target(then) if then else None


def read_error_handlers(reader: Reader, line: Line | None) -> tuple[ErrorHandler, ...]:
    """Read `ON_ERROR`: a block per error, `error: ACTION` lines, or a list with TYPE."""
    handlers: list[ErrorHandler] = []
    if line is None:
        return ()
    if line.value is not None:
        message = f"`ON_ERROR` needs errors below it, not {quote(line.value.text, longest=40)}"
        reader.error("wrong_value", message, line.value.span, hint="Write `tool_error:` and what follows below it")
    for child in line.children:
        handler = _error_handler(reader, child)
        if handler is not None:
            handlers.append(handler)
    reader.note_duplicates(handler.type for handler in handlers if not handler.subtypes)
    return tuple(handlers)


def _error_handler(reader: Reader, line: Line) -> ErrorHandler | None:
    if line.dash:
        found = reader.properties(line.entries, "error handler", owner=line.span)
        kind = found.text("TYPE")
        if kind is None:
            message = "`TYPE` is missing in an item of `ON_ERROR`"
            reader.error("missing", message, line.span, hint="Name the error: `- TYPE: tool_error`")
            return None
        return _handler(reader, found, kind, line.span)
    if line.key is None:
        reader.note_misplaced(line, LEVELS["error handler"])
        return None
    kind = line.name
    handler = _handler(reader, reader.properties(line.children, "error handler", owner=line.span), kind, line.span)
    if line.value is not None:
        return msgspec.structs.replace(handler, then=read_target(line.value.unquoted))
    return handler


def _handler(reader: Reader, found: Properties, kind: Raw, span: Span) -> ErrorHandler:
    then, agent = found.text("THEN"), found.text("HANDOFF_TARGET")
    target = read_target(then) if then else None
    reason = found.text("ESCALATE")
    if reason is not None and target is None:
        target = Target("escalate", reason, reason, span=reason.span)
    if target is not None and agent is not None and target.kind == "handoff":
        target = msgspec.structs.replace(target, name=agent)
    return ErrorHandler(
        type=kind,
        subtypes=found.names("SUBTYPES"),
        body=read_actions(reader, found),
        retry=found.integer("RETRY") or 0,
        retry_delay=found.integer("RETRY_DELAY"),
        retry_backoff=found.choice("RETRY_BACKOFF"),
        retry_max_delay=found.integer("RETRY_MAX_DELAY"),
        then=target,
        backtrack_to=found.text("BACKTRACK_TO"),
        kept=found.kept,
        span=span,
    )


HOOKS = ("before_agent", "after_agent", "before_turn", "after_turn")


def read_handler(reader: Reader, name: Raw, lines: tuple[Line, ...], span: Span) -> Handler:
    """Read the actions of one handler."""
    # Actions may also be written as a list.
    entries = [entry for line in lines for entry in (line.entries if line.dash else (line,))]
    found = reader.properties(entries, "handler", owner=span)
    then = found.text("THEN")
    return Handler(
        name,
        read_actions(reader, found),
        branches=read_branches(reader, found.below("BRANCHES"), "BRANCHES"),
        then=read_target(then) if then else None,
        critical=found.flag("critical"),
        resume_intent=found.flag("RESUME_INTENT"),
        kept=found.kept,
        span=span,
    )


def read_handlers(reader: Reader, lines: tuple[Line, ...], section: str) -> tuple[Handler, ...]:
    """Read handlers by name; hooks have fixed names."""
    handlers: list[Handler] = []
    for line in lines:
        if line.key is None or line.value is not None:
            message = f"{quote(line.text, longest=40)} is not a handler of `{section}`"
            reader.error(
                "wrong_nesting", message, line.span, hint="Write a name with a colon, and its actions below it"
            )
            continue
        name = line.name
        if section == "HOOKS" and line.key.casefold() not in HOOKS:
            hint = did_you_mean(line.key, HOOKS, otherwise=f"One of {', '.join(HOOKS)}")
            reader.error("unknown_keyword", f"{quote(line.key)} is not a hook", line.key_span, hint=hint)
            continue
        handlers.append(read_handler(reader, name, line.body, line.span))
    reader.note_duplicates(handler.name for handler in handlers)
    return tuple(handlers)


def read_templates(reader: Reader, lines: tuple[Line, ...]) -> tuple[NamedTemplate, ...]:
    """Read templates by name: a text, or a block with a default text and other formats."""
    templates: list[NamedTemplate] = []
    for line in lines:
        if line.key is None:
            message = f"{quote(line.text, longest=40)} is not a template"
            reader.error("wrong_nesting", message, line.span, hint="Write it as `name: text`")
            continue
        name = line.name
        text = text_of(line)
        if text is not None:
            templates.append(NamedTemplate(name, text, span=line.span))
        else:
            found = reader.properties(line.body, "template", owner=line.span)
            templates.append(NamedTemplate(name, found.text("DEFAULT"), found.kept, span=line.span))
    reader.note_duplicates(template.name for template in templates)
    return tuple(templates)
