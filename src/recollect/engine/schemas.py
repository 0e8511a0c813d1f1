"""JSON schemas in, checks of values out.

Compiled once for each change of a tenant's definitions, not once for each write. Nothing is ever fetched: a
schema that refers outside itself is refused when its definition is created.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from recollect.errors import InvalidDefinition, InvalidKey, SchemaViolation
from recollect.model.definition import SHAPES, Definition
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.model.value import decode, encode
from recollect.store.base import Reader

Json = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Contract(msgspec.Struct, frozen=True):
    definition: Definition
    validator: Any
    has_defaults: bool


class SchemaBook:
    """The compiled definitions of each tenant, as of their newest revision."""

    def __init__(self) -> None:
        """Start with none compiled."""
        self._compiled: dict[str, tuple[int, dict[str, _Contract]]] = {}

    def check(self, rows: Reader, scope: Scope, key: str, payload: bytes) -> tuple[Definition | None, bytes]:
        """Return the definition this fact is a record of, and its value with the schema's defaults filled in."""
        contract = self._contract(rows, scope, key)
        if contract is None:
            return None, payload
        value = decode(payload)
        if contract.has_defaults:
            value = fill_defaults(contract.definition.schema, value)
            payload = encode(value)
        explain_violation(contract.definition, contract.validator, value)
        return contract.definition, payload

    def _contract(self, rows: Reader, scope: Scope, key: str) -> _Contract | None:
        revision = rows.tenant_state(scope.tenant).revision
        if revision == 0:
            return None
        known = self._compiled.get(scope.tenant)
        if known is None or known[0] != revision:
            contracts = {
                definition.slug: _Contract(
                    definition, compile_schema(definition.schema), _has(definition.schema, "default")
                )
                for definition in rows.definitions(scope.tenant)
            }
            known = self._compiled[scope.tenant] = (revision, contracts)
        slug, dot, _ = key.partition(".")
        contract = known[1].get(slug)
        if contract is None or not contract.definition.applies_to(scope):
            return None
        if dot:
            raise InvalidKey(
                f"{quote(key)} lies inside the record `{slug}`, which is written whole",
                hint=f"Read `{slug}`, change it and set it again: scope.update({slug!r}, change)",
                value=key,
            )
        return contract


def explain_violation(definition: Definition, validator: Any, value: Any) -> None:
    """Raise the first fault of a value as a path and what was expected; return when there is none."""
    error = next(iter(validator.iter_errors(value)), None)
    if error is None:
        return
    path = json_path(error.instance_path)
    raise SchemaViolation(
        f"`{definition.slug}` refuses the value at {path}: {_cut(error.message)}",
        hint=f"Its schema at {json_path(error.schema_path)} says what fits",
        path=path,
        expected=_cut(error.message),
        slug=definition.slug,
    )


def prepare_schema(schema: Any) -> Json:
    """Return a schema ready to be kept: an object, valid, self-contained, strict where it does not say otherwise.

    A schema of an older draft is read as the present one, which alone can close an object made of parts.
    """
    if not isinstance(schema, dict) or cast(Json, schema).get("type") != "object":
        raise InvalidDefinition(
            f"the schema is {quote(cast(object, schema), longest=40)}, not a JSON object schema",
            hint='Begin it with {"type": "object", "properties": {…}}',
            path="$",
        )
    given = cast(Json, schema)
    _refuse_outside_references(given, "$")
    if "$schema" in given and given["$schema"] != _DIALECT:
        compile_schema(given)  # as its own dialect first, so that its faults are told in its own terms
        given = {**given, "$schema": _DIALECT}
    compile_schema(given)
    prepared = cast(Json, _strict(given, given, part=False))
    compile_schema(prepared)
    return prepared


def compile_schema(schema: Json) -> Any:
    """Return a validator, or refuse a schema that is itself invalid with the path of its fault."""
    import jsonschema_rs  # here, because its import takes a third of ours and most programs define nothing

    try:
        return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_never_fetch)
    except jsonschema_rs.ValidationError as error:
        path = json_path(error.instance_path)
        raise InvalidDefinition(
            f"the schema is not valid at {path}: {_cut(error.message)}",
            hint="See json-schema.org/draft/2020-12 for what may stand there",
            path=path,
        ) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidDefinition(
            f"the schema cannot be compiled: {_cut(str(error))}",
            hint="Refer only to parts of the schema itself, as #/$defs/name",
            path="$",
        ) from error


def fill_defaults(schema: Json, value: Any) -> Any:
    """Return the value with the `default` of each missing property put in, at every level."""
    if not isinstance(value, dict):
        return value
    filled = dict(cast(Json, value))
    properties = cast(dict[str, Any], schema.get("properties", {}))
    for name, part in properties.items():
        if not isinstance(part, dict):
            continue
        if name in filled:
            filled[name] = fill_defaults(cast(Json, part), filled[name])
        elif "default" in part:
            filled[name] = part["default"]
    return filled


def json_path(steps: Any) -> str:
    """Return `$.a[0].b` for the steps of a path."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def scope_kinds() -> str:
    """Return the scopes a definition may have, as a list for messages."""
    return ", ".join(SHAPES)


def _strict(node: Any, root: Json, *, part: bool) -> Any:
    """Close every object that lists its properties and does not say whether others may stand beside them.

    What is put together from parts (`allOf`, `$ref`…) is closed as a whole, by `unevaluatedProperties`: closing
    each part alone would make the parts refuse each other's properties. So a `part` is left to its whole.
    """
    if isinstance(node, list):
        return [_strict(item, root, part=part) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    given = cast(Json, node)
    together = part or any(word in given for word in ("properties", *_WHOLES))
    strict = dict(given)
    for word, below in given.items():
        if word in _NAMED:
            parts = word in _NAMED_PARTS
            strict[word] = {name: _strict(item, root, part=parts) for name, item in below.items()}
        elif word in _INSIDE:
            strict[word] = _strict(below, root, part=False)
        elif word in _WHOLES:
            strict[word] = _strict(below, root, part=True)
        elif word in _ALTERNATIVES:
            # Alternatives that stand alone close themselves; beside other properties they are parts of a whole.
            strict[word] = _strict(below, root, part=together)
    if part or "additionalProperties" in given or "unevaluatedProperties" in given:
        return strict
    whole = any(word in given for word in _WHOLES) or ("properties" in given and _ALTERNATIVES & set(given))
    if whole and _lists_properties(given, root, depth=16):
        strict["unevaluatedProperties"] = False
    elif "properties" in given:
        strict["additionalProperties"] = False
    return strict


# Where schemas stand inside a schema: below names, as places inside the value, or as more about the same value.
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_NAMED_PARTS = {"$defs", "definitions", "dependentSchemas"}
_INSIDE = {"items", "prefixItems", "additionalItems", "unevaluatedItems", "additionalProperties", "contains"}
_WHOLES = {"allOf", "if", "then", "else", "$ref", "dependentSchemas"}
_ALTERNATIVES = {"anyOf", "oneOf"}


def _lists_properties(node: Any, root: Json, *, depth: int) -> bool:
    """Say whether a schema, its parts or what it refers to lists properties of an object."""
    if not isinstance(node, dict) or not depth:
        return False
    given = cast(Json, node)
    if "properties" in given:
        return True
    parts: list[Any] = [given.get("if"), given.get("then"), given.get("else")]
    for word in ("allOf", *_ALTERNATIVES):
        parts.extend(cast(list[Any], given.get(word, [])))
    parts.extend(cast(Json, given.get("dependentSchemas", {})).values())
    if isinstance(given.get("$ref"), str):
        parts.append(_referred(given["$ref"], root))
    return any(_lists_properties(part, root, depth=depth - 1) for part in parts)


def _referred(pointer: str, root: Json) -> Any:
    """Return the part of the schema that `#/$defs/name` points to, None where there is none."""
    node: Any = root
    for step in pointer.lstrip("#").split("/")[1:]:
        node = cast(Json, node).get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _refuse_outside_references(node: Any, path: str) -> None:
    if isinstance(node, dict):
        for name, part in cast(Json, node).items():
            if name in ("$ref", "$dynamicRef") and isinstance(part, str) and not part.startswith("#"):
                raise InvalidDefinition(
                    f"the schema refers outside itself at {path}.{name}: {quote(part)}",
                    hint="Copy the part into $defs and refer to it as #/$defs/name; nothing is ever fetched",
                    path=f"{path}.{name}",
                )
            _refuse_outside_references(part, f"{path}.{name}")
    elif isinstance(node, list):
        for place, part in enumerate(cast(list[Any], node)):
            _refuse_outside_references(part, f"{path}[{place}]")


def _never_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


def _has(node: Any, word: str) -> bool:
    if isinstance(node, dict):
        return word in node or any(_has(part, word) for part in cast(Json, node).values())
    return isinstance(node, list) and any(_has(part, word) for part in cast(list[Any], node))


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
