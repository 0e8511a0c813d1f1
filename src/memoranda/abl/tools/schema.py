"""The type of a parameter as ABL or Python writes it in, the JSON schema that a model is shown out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from memoranda.abl.type_names import type_name
from memoranda.abl.values import outside
from memoranda.lang.signatures import schemas_of

_NULL = {"type": "null"}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "email": {"type": "string", "format": "email"},
    "phone": {"type": "string"},
    "array": {"type": "array"},
    "object": {"type": "object"},
    "null": _NULL,
}
_AROUND = re.compile(r"(?P<name>\w+)\s*[<\[(](?P<inner>.*)[>\])]", re.DOTALL)


def type_schema(written: str) -> dict[str, Any]:
    """Return the JSON schema of a declared type; a type that nobody knows allows anything.

    >>> type_schema("string[]")
    {'type': 'array', 'items': {'type': 'string'}}
    >>> type_schema("'single' | 'double'")
    {'enum': ['single', 'double']}
    """
    text = written.strip()
    parts = _split(text, "|")
    if len(parts) > 1:
        return _any_of(parts)
    if text.endswith("?"):
        return _any_of([text[:-1], "null"])
    if text.endswith("[]"):
        return {"type": "array", "items": type_schema(text[:-2])}
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return {"enum": [text[1:-1]]}
    if text.startswith("{") and text.endswith("}"):
        return _object(text[1:-1])
    around = _AROUND.fullmatch(text)
    if around:
        return _generic(around["name"].casefold(), around["inner"])
    return _named(text)


def _named(name: str) -> dict[str, Any]:
    return dict(_SCHEMAS.get(type_name(name) or "", {}))


def _any_of(parts: Sequence[str]) -> dict[str, Any]:
    schemas = [type_schema(part) for part in parts]
    if len(parts) > 1 and not any(schemas):
        # `economy | business`: what is no type is a value.
        return {"enum": list(parts)}
    if all(schema.keys() == {"enum"} for schema in schemas):
        return {"enum": [value for schema in schemas for value in schema["enum"]]}
    return {"anyOf": schemas}


def _object(inner: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in _split(inner, ","):
        name, _, kind = part.partition(":")
        bare = name.strip().strip("'\"").removesuffix("?")
        properties[bare] = type_schema(kind)
        if not name.strip().endswith("?"):
            required.append(bare)
    return {"type": "object", "properties": properties, "required": required}


def _generic(name: str, inner: str) -> dict[str, Any]:
    if name == "enum":
        return {"enum": [part.strip("'\"") for part in _split(inner, ",")]}
    if name in ("array", "list"):
        return {"type": "array", "items": type_schema(inner)}
    return _named(name)


def _split(text: str, separator: str) -> list[str]:
    cuts = [offset for offset, character in outside(text) if character == separator]
    bounds = [-1, *cuts, len(text)]
    parts = [text[left + 1 : right].strip() for left, right in pairwise(bounds)]
    return [part for part in parts if part]


def is_nullable(schema: dict[str, Any]) -> bool:
    """Say whether null is a value of its own."""
    return _NULL in schema.get("anyOf", ())


def plain_type(schema: dict[str, Any]) -> str | None:
    """Return the type that a value is turned into, in the words of `understanding`; None to leave it as it is.

    >>> plain_type(type_schema("date[]")), plain_type(type_schema("Booking")), plain_type(type_schema("int | null"))
    ('date[]', None, 'integer')
    """
    if "enum" in schema:
        values = [str(value) for value in schema["enum"]]
        return None if any(set(value) & set("[](){}<>,|") for value in values) else f"enum({', '.join(values)})"
    if "anyOf" in schema:
        kinds = [plain_type(part) for part in schema["anyOf"] if part != _NULL]
        known = [kind for kind in kinds if kind in _SCHEMAS]
        return "|".join(known) if len(known) == len(kinds) else kinds[0] if len(kinds) == 1 else None
    if schema.get("type") == "array":
        inner = plain_type(schema.get("items", {}))
        return f"{inner}[]" if inner in _SCHEMAS else "array"
    name = {"date-time": "datetime"}.get(schema.get("format", ""), schema.get("format")) or schema.get("type")
    return name if name in _SCHEMAS else None


def annotation_schema(annotation: Any) -> dict[str, Any]:
    """Return the JSON schema of a Python annotation; one that has none allows anything."""
    if annotation is inspect.Parameter.empty:
        return {}
    if isinstance(annotation, str):
        return type_schema(annotation)
    try:
        (schema,), parts = schemas_of([annotation])
    except (TypeError, RuntimeError):
        return {}
    # References lead to the root of a schema, and this one becomes a part of another.
    return {} if parts else schema


def object_schema(
    properties: dict[str, dict[str, Any]], required: Iterable[str], *, description: str = "", more: bool = False
) -> dict[str, Any]:
    """Return the schema of a tool's arguments; its description is the tool's."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    if description:
        schema["description"] = description
    if not more:
        schema["additionalProperties"] = False
    return schema
