"""The definitions of a document in; names that cannot be used, and settings that are not those of their kind, out."""

from __future__ import annotations

import re
from typing import Any, cast

from memoranda.errors import InvalidDefinition
from memoranda.model.text import quote
from memoranda.workflow.checker.outline import Outline
from memoranda.workflow.document import Definition, Fields, Items, Scalar, Settings, Text, Value, plain
from memoranda.workflow.keywords import MEMORY_SETTINGS, MODEL_SETTINGS, RESERVED_CONTEXT, SETTINGS, Level, is_name

_CREDENTIAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def check_definitions(whole: Outline) -> None:
    """Check the names of all definitions, and the settings of those that are no tasks."""
    for one in whole.document.defs:
        check_name(whole, one.name, "a definition")
        kind = one.kind.text if one.kind else ""
        if kind == "memory":
            _memory(whole, one)
        elif kind == "model":
            _model(whole, one)
        elif kind == "tools" and one.action is None:
            hint = "Name the action that the model may call"
            whole.notes.error("missing", "`action` is missing in a tool", one.name.span, one.path, hint=hint)
        if kind not in ("", "task", "tools") and one.action is not None:
            message = f"a definition of the kind `{kind}` has no action"
            whole.notes.warning("not_used", message, one.action.span, one.action.path, hint="Remove it")
        if kind not in ("", "task"):
            _no_policy(whole, one.settings)
    everywhere = whole.document.defaults.others if whole.document.defaults else None
    if everywhere is not None:
        _known(whole, everywhere, SETTINGS, error=False)
    _same_memories(whole)
    _schemas(whole)
    entry = whole.document.context.find(RESERVED_CONTEXT) if whole.document.context else None
    if entry is not None:
        message = "`$context.memory` is what memory holds, and cannot be set"
        whole.notes.error("reserved", message, entry.key.span, entry.path, hint="Call it something else")


def check_name(whole: Outline, name: Text, what: str) -> None:
    """Check a name that expressions write after `$output.`."""
    if is_name(name.text):
        return
    near = re.sub(r"[^a-z0-9]+", "_", name.text.lower()).strip("_")
    hint = f"Call it `{near}`" if is_name(near) and len(near) < 60 else "Such as `save_profile`"
    message = f"{quote(name.text, longest=40)} is no name for {what}: names have small letters, digits and underscores"
    whole.notes.error("wrong_name", message, name.span, name.path, hint=hint)


def _no_policy(whole: Outline, settings: Settings | None) -> None:
    if settings is not None and (settings.timeout_ms is not None or settings.retries is not None):
        message = "only tasks have a time and retries"
        whole.notes.error("wrong_setting", message, settings.span, settings.path, hint="Set them for the task")


def _memory(whole: Outline, one: Definition) -> None:
    settings = one.settings.others if one.settings else None
    if settings is None:
        return
    _known(whole, settings, MEMORY_SETTINGS, error=True)
    entry = settings.find("definition_id")
    if entry is None:
        hint = "`definition_id`: the id of the memory definition"
        whole.notes.error("missing", "`definition_id` is missing", settings.span, settings.path, hint=hint)
        return
    value = plain(entry.value)
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        message = f"{quote(value, longest=60)} is no id of a memory definition"
        hint = "An id is a UUID, such as 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48; it is read before a run"
        whole.notes.error("not_a_uuid", message, entry.value.span, entry.path, hint=hint)


def _model(whole: Outline, one: Definition) -> None:
    settings = one.settings.others if one.settings else None
    for entry in settings.entries if settings else ():
        if MODEL_SETTINGS.find(entry.key.text) and isinstance(entry.value, Scalar):
            if not isinstance(entry.value.value, str) or not entry.value.value:
                message = f"`{entry.key.text}` is a text, not {quote(entry.value.value, longest=40)}"
                whole.notes.error("wrong_type", message, entry.value.span, entry.path, hint="Put it in quotes")
    if settings is not None:
        _known(whole, settings, MODEL_SETTINGS, error=False)
        _credential(whole, one, settings)


def _credential(whole: Outline, one: Definition, settings: Fields) -> None:
    """Refuse what is no name of a credential, most likely a key itself, and do not show it."""
    entry = settings.find("api_key")
    value = plain(entry.value) if entry is not None else None
    if entry is not None and isinstance(value, str) and not _CREDENTIAL.fullmatch(value):
        message = "`api_key` is the name of a credential, and what stands there is none"
        hint = "Keep the key in the environment, or pass it when the workflow is loaded, and write its name here"
        whole.notes.error("not_a_name", message, one.name.span, entry.path, hint=hint)


def _known(whole: Outline, settings: Fields, level: Level, *, error: bool) -> None:
    for entry in settings.entries:
        word = entry.key.text
        if level.find(word) is None:
            hint = whole.hints.meant(word, level.names, otherwise=f"Its keys: {', '.join(level.names)}")
            say = whole.notes.error if error else whole.notes.warning
            say(
                "unknown_setting",
                f"{quote(word, longest=40)} is none of {level.where}",
                entry.key.span,
                entry.path,
                hint=hint,
            )


def _same_memories(whole: Outline) -> None:
    """Note memories that are the same one under two names; a run has one value for both."""
    seen: dict[str, str] = {}
    for one in whole.document.defs:
        entry = one.own_settings.find("definition_id")
        if entry is None or not one.is_a("memory"):
            continue
        first = seen.setdefault(str(plain(entry.value)).lower(), one.name.text)
        if first != one.name.text:
            message = f"this is the same memory as {quote(first, longest=40)}"
            whole.notes.note("same_memory", message, entry.value.span, entry.path, hint="One of the two is enough")


def _schemas(whole: Outline) -> None:
    if whole.document.schema is not None:
        check_schema(whole, whole.document.schema)
    for one in whole.document.defs:
        entry = one.own_settings.find("output_schema")
        if entry is not None and isinstance(entry.value, Fields):
            check_schema(whole, entry.value)


def check_schema(whole: Outline, schema: Fields) -> None:
    """Check that a map is a JSON schema of an object."""
    # The engine compiles what definitions are checked with; its import is not needed to read a file.
    from memoranda.engine.validator import Validator

    kind = schema.find("type")
    if kind is not None and plain(kind.value) != "object":
        message = f"this is the schema of an object, not of {quote(plain(kind.value), longest=40)}"
        whole.notes.error("invalid_schema", message, kind.value.span, kind.path, hint="Write `type: object`")
        return
    try:
        Validator(cast("dict[str, Any]", plain(schema)))
    except InvalidDefinition as fault:
        at = _part(schema, "$", fault.path) or schema
        whole.notes.error("invalid_schema", fault.message, at.span, at.path, hint=fault.hint)


def _part(value: Value, path: str, wanted: str) -> Value | None:
    """Return the part of a schema that a path such as `$.properties.age` leads to."""
    if path == wanted:
        return value
    below: list[tuple[str, Value]] = []
    if isinstance(value, Fields):
        below = [(f"{path}.{entry.key.text}", entry.value) for entry in value.entries]
    elif isinstance(value, Items):
        below = [(f"{path}[{at}]", item) for at, item in enumerate(value.items)]
    found = (_part(part, name, wanted) for name, part in below if wanted.startswith(name))
    return next((part for part in found if part is not None), None)
