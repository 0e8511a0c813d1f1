"""Check the definitions of a workflow: names, settings, bindings, and the inputs of tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from memoranda.errors import InvalidDefinition, InvalidScope
from memoranda.lang.diagnostics import short_list
from memoranda.lang.source import Span
from memoranda.model.block import BLOCK_TYPES
from memoranda.model.definition import is_slug
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.runs.records import UPDATE_MEMORY
from memoranda.workflow import keywords
from memoranda.workflow.actions.base import Action
from memoranda.workflow.checker.outline import Outline, expressions
from memoranda.workflow.document import (
    Binding,
    Definition,
    Entry,
    Expression,
    Fields,
    Items,
    Scalar,
    Settings,
    Text,
    Value,
    plain,
)
from memoranda.workflow.keywords import Level

_CREDENTIAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def check_definitions(whole: Outline) -> None:
    """Check the names of all definitions, and the settings of those that are not tasks."""
    for one in whole.document.defs:
        check_name(whole, one.name, "a definition")
        kind = one.kind.text if one.kind else ""
        if kind == "memory":
            _memory(whole, one)
        elif kind == "model":
            _model(whole, one)
        elif kind == "tools" and one.action is None:
            hint = "Name the action that the model may call"
            whole.diagnostics.error("missing", "`action` is missing in a tool", one.name.span, one.path, hint=hint)
        if kind not in ("", "task", "tools") and one.action is not None:
            message = f"a definition of the kind `{kind}` has no action"
            whole.diagnostics.warning("not_used", message, one.action.span, one.action.path, hint="Remove it")
        if kind not in ("", "task"):
            _no_policy(whole, one.settings)
    everywhere = whole.document.defaults.others if whole.document.defaults else None
    if everywhere is not None:
        _check_settings(whole, everywhere, keywords.SETTINGS, error=False)
    _same_memories(whole)
    _schemas(whole)
    entry = whole.document.context.find(keywords.RESERVED_CONTEXT) if whole.document.context else None
    if entry is not None:
        message = "`$context.memory` holds the memory records, and cannot be set"
        whole.diagnostics.error("reserved", message, entry.key.span, entry.path, hint="Call it something else")


def check_name(whole: Outline, name: Text, what: str) -> None:
    """Check a name that expressions write after `$output.`."""
    if keywords.is_name(name.text):
        return
    near = re.sub(r"[^a-z0-9]+", "_", name.text.lower()).strip("_")
    hint = (
        f"Call it `{near}`"
        if keywords.is_name(near) and len(near) < 60
        else "Use lower-case letters, digits and underscores"
    )
    message = f"{quote(name.text, longest=40)} is not a valid name for {what}"
    whole.diagnostics.error("wrong_name", message, name.span, name.path, hint=hint)


def _no_policy(whole: Outline, settings: Settings | None) -> None:
    if settings is not None and (settings.timeout_ms is not None or settings.retries is not None):
        message = "only tasks have a timeout and retries"
        whole.diagnostics.error("wrong_setting", message, settings.span, settings.path, hint="Set them for the task")


def _memory(whole: Outline, one: Definition) -> None:
    settings = one.settings.others if one.settings else None
    if settings is None:
        return
    _check_settings(whole, settings, keywords.MEMORY_SETTINGS, error=True)
    entry, block = settings.find("definition_id"), settings.find("block")
    if block is not None:
        _block(whole, settings, block)
        return
    if entry is None:
        hint = "`definition_id`: the id of the memory definition; or `block`: core or archival"
        whole.diagnostics.error("missing", "`definition_id` is missing", settings.span, settings.path, hint=hint)
        return
    for other in (settings.find("agent"), settings.find("writable")):
        if other is not None:
            message = f"`{other.key.text}` is a setting of a block, and this is a memory definition"
            whole.diagnostics.error("wrong_setting", message, other.key.span, other.path, hint="Remove it")
    value = plain(entry.value)
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        message = f"{quote(value, longest=60)} is not the id of a memory definition"
        hint = "An id is a UUID, such as 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48; it is read before a run"
        whole.diagnostics.error("not_a_uuid", message, entry.value.span, entry.path, hint=hint)


def _block(whole: Outline, settings: Fields, block: Entry) -> None:
    """Check the settings of a memory block; they are read before a run."""
    other = settings.find("definition_id")
    if other is not None:
        message = "a memory is a definition or a block, not both"
        whole.diagnostics.error("wrong_setting", message, other.key.span, other.path, hint="Keep one of them")
    value = plain(block.value)
    if value not in BLOCK_TYPES:
        shown = str(value)
        message = f"{quote(shown, longest=40)} is not a memory block"
        hint = whole.hints.did_you_mean(shown, BLOCK_TYPES, otherwise=f"One of {short_list(BLOCK_TYPES)}")
        whole.diagnostics.error("unknown_word", message, block.value.span, block.path, hint=hint)
    agent, writable = settings.find("agent"), settings.find("writable")
    if agent is not None and not _is_id(agent.value):
        message = f"{quote(plain(agent.value), longest=40)} is not the id of an agent"
        hint = "Write the id itself, in quotes; it is read before a run"
        whole.diagnostics.error("wrong_value", message, agent.value.span, agent.path, hint=hint)
    if writable is not None and not isinstance(plain(writable.value), bool):
        message = f"`writable` is true or false, not {_brief(writable.value)}"
        whole.diagnostics.error("wrong_type", message, writable.value.span, writable.path, hint="Write `true`")


def _is_id(value: Value) -> bool:
    try:
        Scope.of(agent=cast("str", plain(value)))
    except InvalidScope:
        return False
    return not isinstance(value, Expression)


def _model(whole: Outline, one: Definition) -> None:
    settings = one.settings.others if one.settings else None
    for entry in settings.entries if settings else ():
        if keywords.MODEL_SETTINGS.find(entry.key.text) and isinstance(entry.value, Scalar):
            if not isinstance(entry.value.value, str) or not entry.value.value:
                message = f"`{entry.key.text}` is a text, not {quote(entry.value.value, longest=40)}"
                whole.diagnostics.error("wrong_type", message, entry.value.span, entry.path, hint="Put it in quotes")
    if settings is not None:
        _check_settings(whole, settings, keywords.MODEL_SETTINGS, error=False)
        _credential(whole, one, settings)


def _credential(whole: Outline, one: Definition, settings: Fields) -> None:
    """Refuse anything but the name of a credential without showing it: it is probably the key itself."""
    entry = settings.find("api_key")
    value = plain(entry.value) if entry is not None else None
    if entry is not None and isinstance(value, str) and not _CREDENTIAL.fullmatch(value):
        message = "`api_key` is the name of a credential, and this is not a valid name"
        hint = "Keep the key in the environment, or pass it when the workflow is loaded, and write its name here"
        whole.diagnostics.error("not_a_name", message, one.name.span, entry.path, hint=hint)


def _check_settings(whole: Outline, settings: Fields, level: Level, *, error: bool) -> None:
    for entry in settings.entries:
        word = entry.key.text
        if level.find(word) is None:
            hint = whole.hints.did_you_mean(word, level.names, otherwise=f"Its keys: {', '.join(level.names)}")
            say = whole.diagnostics.error if error else whole.diagnostics.warning
            say(
                "unknown_setting",
                f"{quote(word, longest=40)} is not one of {level.where}",
                entry.key.span,
                entry.path,
                hint=hint,
            )


def _same_memories(whole: Outline) -> None:
    """Note two names for one memory definition; a run has one value for both. Two for one block are an error."""
    seen: dict[str, str] = {}
    blocks: dict[tuple[object, object], str] = {}
    for one in whole.document.defs:
        block, agent = one.own_settings.find("block"), one.own_settings.find("agent")
        if block is not None and one.is_a("memory"):
            first = blocks.setdefault((plain(block.value), plain(agent.value) if agent else None), one.name.text)
            if first != one.name.text:
                message = f"this is the same block as {quote(first, longest=40)}"
                whole.diagnostics.error(
                    "same_memory", message, block.value.span, block.path, hint="Bind it under one name"
                )
            continue
        entry = one.own_settings.find("definition_id")
        if entry is None or not one.is_a("memory"):
            continue
        first = seen.setdefault(str(plain(entry.value)).lower(), one.name.text)
        if first != one.name.text:
            message = f"this is the same memory as {quote(first, longest=40)}"
            whole.diagnostics.note(
                "same_memory", message, entry.value.span, entry.path, hint="One of the two is enough"
            )


def _schemas(whole: Outline) -> None:
    if whole.document.schema is not None:
        check_schema(whole, whole.document.schema)
    for one in whole.document.defs:
        entry = one.own_settings.find("output_schema")
        if entry is not None and isinstance(entry.value, Fields):
            check_schema(whole, entry.value)


def check_schema(whole: Outline, schema: Fields) -> None:
    """Check that a map is a JSON schema of an object."""
    # Imported late: parsing a file does not need the engine.
    from memoranda.engine.validator import Validator

    kind = schema.find("type")
    if kind is not None and plain(kind.value) != "object":
        message = f"this is the schema of an object, not of {quote(plain(kind.value), longest=40)}"
        whole.diagnostics.error("invalid_schema", message, kind.value.span, kind.path, hint="Write `type: object`")
        return
    try:
        Validator(cast("dict[str, Any]", plain(schema)))
    except InvalidDefinition as fault:
        at = _part_at(schema, "$", fault.path) or schema
        whole.diagnostics.error("invalid_schema", fault.message, at.span, at.path, hint=fault.hint)


def _part_at(value: Value, path: str, wanted: str) -> Value | None:
    """Return the part of a schema that a path such as `$.properties.age` leads to."""
    if path == wanted:
        return value
    below: list[tuple[str, Value]] = []
    if isinstance(value, Fields):
        below = [(f"{path}.{entry.key.text}", entry.value) for entry in value.entries]
    elif isinstance(value, Items):
        below = [(f"{path}[{at}]", item) for at, item in enumerate(value.items)]
    found = (_part_at(part, name, wanted) for name, part in below if wanted.startswith(name))
    return next((part for part in found if part is not None), None)


def check_bindings(whole: Outline) -> None:
    """Check the models, memories and tools that each definition binds."""
    for one in whole.document.defs:
        for binding in one.bindings:
            _shape(whole, binding)
            _names(whole, binding)
        _check_support(whole, one)
        _check_tool_names(whole, one)
    _check_cycles(whole)


def _shape(whole: Outline, binding: Binding) -> None:
    kind = binding.kind.text
    keyword = keywords.BINDINGS.find(kind)
    if keyword is None or not binding.names or keyword.many == binding.listed:
        return
    first = binding.names[0].text
    written = f"{kind}: [{first}]" if keyword.many else f"{kind}: {first}"
    what = "a list of names" if keyword.many else "one name, not a list"
    span = binding.names[0].span
    whole.diagnostics.error("binding_shape", f"`{kind}` is {what}", span, binding.path, hint=f"Write `{written[:60]}`")


def _names(whole: Outline, binding: Binding) -> None:
    kind = binding.kind.text
    seen: set[str] = set()
    for name in binding.names:
        found = whole.defs.get(name.text)
        if name.text in seen:
            message = f"{quote(name.text, longest=40)} is declared a second time"
            whole.diagnostics.error("duplicate", message, name.span, name.path, hint="Keep one of them")
        elif found is None:
            _unknown(whole, name, kind)
        elif found.kind is not None and found.kind.text != kind:
            message = f"{quote(name.text, longest=40)} is of the kind `{found.kind.text}`, not `{kind}`"
            hint = whole.hints.did_you_mean(name.text, whole.kinds.get(kind, []), otherwise=_names_of_kind(whole, kind))
            whole.diagnostics.error("wrong_kind", message, name.span, name.path, hint=hint)
        seen.add(name.text)


def _unknown(whole: Outline, name: Text, kind: str) -> None:
    hint = whole.hints.did_you_mean(name.text, whole.kinds.get(kind, []), otherwise=_names_of_kind(whole, kind))
    message = f"unknown definition {quote(name.text, longest=40)}"
    whole.diagnostics.error("unknown_definition", message, name.span, name.path, hint=hint)


def _names_of_kind(whole: Outline, kind: str) -> str:
    known = short_list(whole.kinds.get(kind, []))
    return f"Of this kind: {known}" if known else f"Define it with `kind: {kind}`"


def _check_support(whole: Outline, one: Definition) -> None:
    action = whole.actions.get(one.action.text) if one.action is not None else None
    if action is None:
        return
    for binding in one.bindings:
        if binding.kind.text not in action.bindings:
            message = f"`{action.name}` does not use `{binding.kind.text}`"
            known = short_list(word for word in keywords.BINDINGS.names if word in action.bindings)
            hint = f"It uses {known}" if known else "Remove it; the action takes what it needs from its inputs"
            whole.diagnostics.error("unsupported_binding", message, binding.kind.span, binding.path, hint=hint)


def _check_tool_names(whole: Outline, one: Definition) -> None:
    named = {binding.kind.text: binding.names for binding in one.bindings}
    if not named.get("memory"):
        return
    name = next((name for name in named.get("tools", ()) if name.text == UPDATE_MEMORY), None)
    if name is not None:
        message = f"with a memory bound, `{UPDATE_MEMORY}` is the tool that changes it"
        whole.diagnostics.error("reserved_tool", message, name.span, name.path, hint="Give your tool another name")


def _check_cycles(whole: Outline) -> None:
    """Note each cycle of definitions that use one another, once, where it closes."""
    done: set[str] = set()
    for start in whole.defs:
        # Each definition with an iterator over what it binds: an explicit stack, so that cycles may be deep.
        stack = [(start, iter(_bound_names(whole, start)))] if start not in done else []
        trail = [start]
        while stack:
            name, left = stack[-1]
            reference = next(left, None)
            if reference is None:
                stack.pop()
                trail.pop()
                done.add(name)
            elif reference.text in trail:
                circle = [*trail[trail.index(reference.text) :], reference.text]
                message = f"these definitions use one another in a cycle: {short_list(circle)}"
                hint = "Remove one of the bindings"
                whole.diagnostics.error("circular_binding", message, reference.span, reference.path, hint=hint)
            elif reference.text not in done and reference.text in whole.defs:
                stack.append((reference.text, iter(_bound_names(whole, reference.text))))
                trail.append(reference.text)


def _bound_names(whole: Outline, name: str) -> list[Text]:
    return [reference for binding in whole.defs[name].bindings for reference in binding.names]


Json = Mapping[str, Any]


def check_tasks(whole: Outline) -> None:
    """Check the action of each task, its inputs and its settings."""
    for one in whole.document.defs:
        _legacy(whole, one)
        if one.action is None or not one.is_a("task", "tools"):
            continue
        action = whole.actions.get(one.action.text)
        if action is None:
            _unknown_action(whole, one)
        elif one.is_a("task"):
            _check_task(whole, one, action)


def _unknown_action(whole: Outline, one: Definition) -> None:
    name = one.action
    if name is None:
        return
    if not keywords.is_name(name.text):
        check_name(whole, name, "an action")
        return
    given = "Give it to the workflow when it is loaded (`--tools` on the command line)"
    hint = whole.hints.did_you_mean(name.text, whole.actions, otherwise=given)
    message = f"no action {quote(name.text, longest=40)} is built in"
    whole.diagnostics.warning("unknown_action", message, name.span, name.path, hint=hint)


def _legacy(whole: Outline, one: Definition) -> None:
    for entry in one.own_settings.entries:
        if entry.key.text in keywords.LEGACY_SETTINGS:
            message = f"`{entry.key.text}` was removed from the settings"
            hint = keywords.LEGACY_SETTINGS[entry.key.text]
            whole.diagnostics.error("legacy_setting", message, entry.key.span, entry.path, hint=hint)


def _check_task(whole: Outline, one: Definition, action: Action) -> None:
    inputs = one.inputs or Fields(span=one.name.span, path=one.path)
    slots = _Slots(whole, one.name.span, action.name)
    slots.check(inputs, action.inputs, "input")
    slots.check(one.own_settings, action.settings, "setting", also=keywords.SETTINGS.names)
    _history(whole, inputs, action)
    if action.name == UPDATE_MEMORY:
        _slugs(whole, inputs)
    elif action.name == "set_context":
        _context(whole, inputs)


class _Slots:
    """Compares the inputs and settings of a task with the JSON schemas of its action, except computed values."""

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
            elif closed and entry.key.text not in keywords.LEGACY_SETTINGS:
                meant.add(self._surplus(entry, (*known, *also), what))
        for name in cast("list[str]", schema.get("required", [])):
            if given.find(name) is None and name not in meant:
                message = f"the {what} `{name}` of `{self.action}` is missing"
                hint = str(known.get(name, {}).get("description", ""))
                self.whole.diagnostics.error(f"missing_{what}", message, self.missing, given.path, hint=hint)

    def _surplus(self, entry: Entry, known: tuple[str, ...], what: str) -> str | None:
        word = entry.key.text
        near = self.whole.hints.closest(word, known)
        listed = f"It takes {short_list(known)}" if known else "It takes none"
        message = f"`{self.action}` has no {what} {quote(word, longest=40)}"
        hint = f"Did you mean `{near}`?" if near else listed
        self.whole.diagnostics.error(f"unknown_{what}", message, entry.key.span, entry.path, hint=hint)
        return near

    def _value(self, entry: Entry, schema: Json) -> None:
        value = entry.value
        if isinstance(value, Expression):
            return
        choices = [str(one) for one in schema.get("enum", ())]
        if choices and plain(value) not in schema["enum"]:
            shown = str(plain(value))
            hint = self.whole.hints.did_you_mean(shown, choices, otherwise=f"One of {short_list(choices)}")
            message = f"{quote(shown, longest=40)} is not one of the choices of `{entry.key.text}`"
            self.whole.diagnostics.error("unknown_word", message, value.span, entry.path, hint=hint)
            return
        reason = _reason(value, schema)
        if reason:
            message = f"`{entry.key.text}` cannot be {_brief(value)}: {reason}"
            hint = str(schema.get("description", ""))
            self.whole.diagnostics.error("wrong_value", message, value.span, entry.path, hint=hint)


def _reason(value: Value, schema: Json) -> str:
    """Return why a value does not fit a schema; for one with expressions in it, only the type is checked."""
    # Imported late: parsing a file does not need the engine.
    from memoranda.engine.validator import Validator

    computed = next(expressions(value), None) is not None
    judged: Json = {"type": schema["type"]} if computed and "type" in schema else {} if computed else schema
    found: Any = plain(value) if not computed else [] if isinstance(value, Items) else {}
    try:
        fault = Validator(judged).first_fault(found)
    except InvalidDefinition:
        # The schema of a custom action is invalid; loading that action reports it.
        return ""
    return "" if fault is None else fault.reason[:120]


def _brief(value: Value) -> str:
    if isinstance(value, Items):
        return "a list"
    return "a map" if isinstance(value, Fields) else quote(plain(value), longest=40)


def _history(whole: Outline, inputs: Fields, action: Action) -> None:
    known = keywords.ONLY_HISTORY & cast("dict[str, Any]", action.inputs.get("properties", {})).keys()
    mode = inputs.find("input_mode")
    if mode is not None and (isinstance(mode.value, Expression) or plain(mode.value) != "prompt"):
        return
    for entry in inputs.entries:
        if entry.key.text in known:
            message = f"`{entry.key.text}` has an effect only with `input_mode: history`"
            whole.diagnostics.warning(
                "not_used", message, entry.key.span, entry.path, hint="Set the mode, or remove it"
            )


def _slugs(whole: Outline, inputs: Fields) -> None:
    memory = inputs.find("memory")
    if memory is None or not isinstance(memory.value, Fields) or next(expressions(memory.value), None) is None:
        return
    for entry in memory.value.entries:
        if not is_slug(entry.key.text):
            message = f"{quote(entry.key.text, longest=40)} is not a valid slug"
            hint = "Write the slug of the memory definition, not the name of a binding"
            whole.diagnostics.error("wrong_slug", message, entry.key.span, entry.path, hint=hint)


def _context(whole: Outline, inputs: Fields) -> None:
    values = inputs.find("values")
    entry = (
        values.value.find(keywords.RESERVED_CONTEXT)
        if values is not None and isinstance(values.value, Fields)
        else None
    )
    if entry is not None:
        message = "`$context.memory` holds the memory records, and cannot be set"
        whole.diagnostics.error("reserved", message, entry.key.span, entry.path, hint="Use the action `update_memory`")
