"""The lines of `ON_START`, `HOOKS`, `RETURN_HANDLERS` and `TEMPLATES` in; handlers and named templates out."""

from __future__ import annotations

from memoranda.abl.document import Handler, NamedTemplate
from memoranda.abl.forms import text_of
from memoranda.abl.reader import Reader
from memoranda.abl.sections.actions import read_actions, read_branches, read_target
from memoranda.abl.tree import Line, Raw
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.source import Span
from memoranda.model.text import quote

HOOKS = ("before_agent", "after_agent", "before_turn", "after_turn")


def read_handler(reader: Reader, name: Raw, lines: tuple[Line, ...], span: Span) -> Handler:
    """Read the actions of one handler."""
    found = reader.properties(lines, "handler", owner=span)
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
    """Read handlers by name; the names of hooks are known."""
    handlers: list[Handler] = []
    for line in lines:
        if line.key is None or line.value is not None:
            message = f"{quote(line.text, longest=40)} is no handler of `{section}`"
            reader.said.error("wrong_nesting", message, line.span, hint="A name with a colon, its actions below it")
            continue
        name = line.name
        if section == "HOOKS" and line.key.casefold() not in HOOKS:
            hint = did_you_mean(line.key, HOOKS, otherwise=f"One of {', '.join(HOOKS)}")
            reader.said.error("unknown_keyword", f"{quote(line.key)} is no hook", line.key_span, hint=hint)
            continue
        handlers.append(read_handler(reader, name, line.body, line.span))
    reader.refuse_doubles(handler.name for handler in handlers)
    return tuple(handlers)


def read_templates(reader: Reader, lines: tuple[Line, ...]) -> tuple[NamedTemplate, ...]:
    """Read templates by name: a text, or a block with a default text and other forms."""
    templates: list[NamedTemplate] = []
    for line in lines:
        if line.key is None:
            message = f"{quote(line.text, longest=40)} is no template"
            reader.said.error("wrong_nesting", message, line.span, hint="Write it as `name: text`")
            continue
        name = line.name
        text = text_of(line)
        if text is not None:
            templates.append(NamedTemplate(name, text, span=line.span))
        else:
            found = reader.properties(line.body, "template", owner=line.span)
            templates.append(NamedTemplate(name, found.text("DEFAULT"), found.kept, span=line.span))
    reader.refuse_doubles(template.name for template in templates)
    return tuple(templates)
