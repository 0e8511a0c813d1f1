"""The tasks of a document in; actions that nobody knows, and inputs and settings that an action does not take, out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from memoranda.errors import InvalidDefinition
from memoranda.lang.hints import few
from memoranda.lang.source import Span
from memoranda.model.definition import is_slug
from memoranda.model.text import quote
from memoranda.workflow.actions.base import Action
from memoranda.workflow.checker.definitions import check_name
from memoranda.workflow.checker.outline import Outline, expressions
from memoranda.workflow.document import Definition, Entry, Expression, Fields, Items, Value, plain
from memoranda.workflow.keywords import (
    LEGACY_SETTINGS,
    ONLY_HISTORY,
    RESERVED_CONTEXT,
    SETTINGS,
    UPDATE_MEMORY,
    is_name,
)

Json = Mapping[str, Any]


def check_tasks(whole: Outline) -> None:
    """Check the action of each task, and what it is given."""
    for one in whole.document.defs:
        _legacy(whole, one)
        if one.action is None or not one.is_a("task", "tools"):
            continue
        action = whole.actions.get(one.action.text)
        if action is None:
            _unknown(whole, one)
        elif one.is_a("task"):
            _given(whole, one, action)


def _unknown(whole: Outline, one: Definition) -> None:
    name = one.action
    if name is None:
        return
    if not is_name(name.text):
        check_name(whole, name, "an action")
        return
    hint = whole.hints.meant(name.text, whole.actions, otherwise="Give it to the workflow when it is loaded")
    message = f"no action {quote(name.text, longest=40)} is built in"
    whole.notes.warning("unknown_action", message, name.span, name.path, hint=hint)


def _legacy(whole: Outline, one: Definition) -> None:
    for entry in one.own_settings.entries:
        if entry.key.text in LEGACY_SETTINGS:
            message = f"`{entry.key.text}` is no longer a setting"
            hint = LEGACY_SETTINGS[entry.key.text]
            whole.notes.error("legacy_setting", message, entry.key.span, entry.path, hint=hint)


def _given(whole: Outline, one: Definition, action: Action) -> None:
    inputs = one.inputs or Fields(span=one.name.span, path=one.path)
    slots = _Slots(whole, one.name.span, action.name)
    slots.check(inputs, action.inputs, "input")
    slots.check(one.own_settings, action.settings, "setting", also=SETTINGS.names)
    _history(whole, inputs, action)
    if action.name == UPDATE_MEMORY:
        _slugs(whole, inputs)
    elif action.name == "set_context":
        _context(whole, inputs)


class _Slots:
    """Compares what a task gives with the JSON schemas of its action, as far as no expression has to be computed."""

    def __init__(self, whole: Outline, missing: Span, action: str) -> None:
        self.whole = whole
        self.missing = missing
        self.action = action

    def check(self, given: Fields, schema: Json, what: str, also: tuple[str, ...] = ()) -> None:
        known = cast("dict[str, Any]", schema.get("properties", {}))
        closed = schema.get("additionalProperties") is False
        meant: set[str | None] = set()
        for entry in given.entries:
            if entry.key.text in known:
                self._value(entry, known[entry.key.text])
            elif closed and entry.key.text not in LEGACY_SETTINGS:
                meant.add(self._surplus(entry, (*known, *also), what))
        for name in cast("list[str]", schema.get("required", [])):
            if given.find(name) is None and name not in meant:
                message = f"the {what} `{name}` of `{self.action}` is missing"
                hint = str(known.get(name, {}).get("description", ""))
                self.whole.notes.error(f"missing_{what}", message, self.missing, given.path, hint=hint)

    def _surplus(self, entry: Entry, known: tuple[str, ...], what: str) -> str | None:
        word = entry.key.text
        near = self.whole.hints.nearest(word, known)
        listed = f"It takes {few(known)}" if known else "It takes none"
        message = f"`{self.action}` has no {what} {quote(word, longest=40)}"
        hint = f"Did you mean `{near}`?" if near else listed
        self.whole.notes.error(f"unknown_{what}", message, entry.key.span, entry.path, hint=hint)
        return near

    def _value(self, entry: Entry, schema: Json) -> None:
        value = entry.value
        if isinstance(value, Expression):
            return
        choices = [str(one) for one in schema.get("enum", ())]
        if choices and plain(value) not in schema["enum"]:
            shown = str(plain(value))
            hint = self.whole.hints.meant(shown, choices, otherwise=f"One of {few(choices)}")
            message = f"{quote(shown, longest=40)} is none of the choices of `{entry.key.text}`"
            self.whole.notes.error("unknown_word", message, value.span, entry.path, hint=hint)
            return
        reason = _reason(value, schema)
        if reason:
            message = f"`{entry.key.text}` cannot be {_shown(value)}: {reason}"
            hint = str(schema.get("description", ""))
            self.whole.notes.error("wrong_value", message, value.span, entry.path, hint=hint)


def _reason(value: Value, schema: Json) -> str:
    """Return why a value does not fit a schema; of one that is partly computed, only its kind can be judged."""
    # The engine compiles what definitions are checked with; its import is not needed to read a file.
    from memoranda.engine.validator import Validator

    computed = next(expressions(value), None) is not None
    judged: Json = {"type": schema["type"]} if computed and "type" in schema else {} if computed else schema
    found: Any = plain(value) if not computed else [] if isinstance(value, Items) else {}
    try:
        fault = Validator(judged).first_fault(found)
    except InvalidDefinition:
        # A schema of somebody's own action; whoever loads it is told.
        return ""
    return "" if fault is None else fault.reason[:120]


def _shown(value: Value) -> str:
    if isinstance(value, Items):
        return "a list"
    return "a map" if isinstance(value, Fields) else quote(plain(value), longest=40)


def _history(whole: Outline, inputs: Fields, action: Action) -> None:
    known = ONLY_HISTORY & cast("dict[str, Any]", action.inputs.get("properties", {})).keys()
    mode = inputs.find("input_mode")
    if mode is not None and (isinstance(mode.value, Expression) or plain(mode.value) != "prompt"):
        return
    for entry in inputs.entries:
        if entry.key.text in known:
            message = f"`{entry.key.text}` means something only with `input_mode: history`"
            whole.notes.warning("not_used", message, entry.key.span, entry.path, hint="Set the mode, or remove it")


def _slugs(whole: Outline, inputs: Fields) -> None:
    memory = inputs.find("memory")
    if memory is None or not isinstance(memory.value, Fields) or next(expressions(memory.value), None) is None:
        return
    for entry in memory.value.entries:
        if not is_slug(entry.key.text):
            message = f"{quote(entry.key.text, longest=40)} is no slug: it has small letters, digits and underscores"
            hint = "Write the slug of the memory definition, not the name of a binding"
            whole.notes.error("wrong_slug", message, entry.key.span, entry.path, hint=hint)


def _context(whole: Outline, inputs: Fields) -> None:
    values = inputs.find("values")
    entry = values.value.find(RESERVED_CONTEXT) if values is not None and isinstance(values.value, Fields) else None
    if entry is not None:
        message = "`$context.memory` is what memory holds, and cannot be set"
        whole.notes.error("reserved", message, entry.key.span, entry.path, hint="Use the action `update_memory`")
