"""Compare declared persistent paths with the memory definitions whose records they are, or are fields of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from memoranda.abl.document import Document, MemoryScope, PersistentVariable
from memoranda.abl.variables import key_of
from memoranda.lang.diagnostics import Diagnostics, did_you_mean
from memoranda.model.definition import Definition, parts_of
from memoranda.model.text import quote

_SCOPES: dict[MemoryScope, str] = {"user": "global", "project": "project", "execution_tree": "tree"}
"""The scope of the definitions that apply to the facts of each scope of an agent."""
_TYPES: dict[str, frozenset[str]] = {
    "string": frozenset({"string"}),
    "date": frozenset({"string"}),
    "datetime": frozenset({"string"}),
    "number": frozenset({"number", "integer"}),
    "boolean": frozenset({"boolean"}),
    "array": frozenset({"array"}),
    "object": frozenset({"object"}),
}
"""The types of JSON schemas that a value of each type of the language can have."""

Json = dict[str, Any]


def check_records(document: Document, definitions: Iterable[Definition], diagnostics: Diagnostics) -> None:
    """Warn about paths for which no value fits both their declaration and the schema of the record."""
    known = {(one.scope, one.slug): one for one in definitions}
    for variable in document.memory.persistent if document.memory else ():
        slug, *fields = key_of(variable.path.text).split(".")
        definition = known.get((_SCOPES[variable.scope], slug))
        if definition is not None:
            _check_path(variable, definition, fields, diagnostics)


def _check_path(
    variable: PersistentVariable, definition: Definition, fields: list[str], diagnostics: Diagnostics
) -> None:
    parts, place = parts_of(definition.schema, definition.schema), definition.slug
    for name in fields:
        if not _allows(parts, "object"):
            message = f"{quote(variable.path.text)} never has a value: `{place}` is not an object in its definition"
            hint = f"Declare `{place}` instead, or change the schema"
            diagnostics.warning("record_field", message, variable.path.span, hint=hint)
            return
        names = [one for part in parts for one in cast("Json", part.get("properties", {}))]
        below = [cast("Json", part["properties"])[name] for part in parts if name in part.get("properties", {})]
        if not below:
            if any(part.get("additionalProperties") is False for part in parts) and len(parts) == 1:
                message = f"{quote(variable.path.text)} can never be written: `{place}` has no field {quote(name)}"
                hint = did_you_mean(name, names, otherwise="Add it to the schema of the definition")
                diagnostics.warning("record_field", message, variable.path.span, hint=hint)
            return
        parts = [part for schema in below for part in parts_of(schema, definition.schema)]
        place = f"{place}.{name}"
    if variable.type in _TYPES and not any(_allows(parts, kind) for kind in _TYPES[variable.type]):
        message = f"{quote(variable.path.text)} is declared {variable.type}, which the schema of `{place}` refuses"
        hint = "Give both the same type"
        diagnostics.warning("record_field", message, variable.path.span, hint=hint)


def _allows(parts: Iterable[Json], kind: str) -> bool:
    """Return whether no part of a schema excludes a type; what only a value can tell is allowed."""
    types = (part["type"] for part in parts if "type" in part)
    return all(kind in (given if isinstance(given, list) else [given]) for given in types)
