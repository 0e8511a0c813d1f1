"""JSON schemas in, checks of values out.

Compiled once for each change of a tenant's definitions, not once for each write. Nothing is ever fetched: a
schema that refers outside itself is refused when its definition is created.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast
from urllib.parse import unquote

import msgspec

from recollect.errors import InvalidDefinition, InvalidKey, SchemaViolation
from recollect.model.definition import Definition
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.model.value import decode, encode
from recollect.store.base import Reader

Json = dict[str, Any]


class Contract(msgspec.Struct, frozen=True):
    """A definition that is ready to check values."""

    definition: Definition
    validator: Any
    has_defaults: bool

    def accept(self, value: Any) -> Any:
        """Return the value with the schema's defaults filled in, or refuse it."""
        if self.has_defaults:
            value = fill_defaults(self.definition.schema, value)
        if not self.validator.is_valid(value):
            explain_violation(self.definition, self.validator, value)
        return value


def contract_of(definition: Definition) -> Contract:
    """Return a definition ready to check values; a schema that was compiled before is not compiled again."""
    text = encode(definition.schema)
    validator = _validators.get(text)
    if validator is None:
        validator = compile_schema(definition.schema)
        if len(_validators) >= _MOST_VALIDATORS:
            _validators.clear()
        _validators[text] = validator
    return Contract(definition, validator, b'"default"' in text)


# By the text of the schema: whoever defines it, in whichever database, it means the same.
_validators: dict[bytes, Any] = {}
_MOST_VALIDATORS = 4_096
_MOST_TENANTS = 1_024
"""Tenants whose contracts are kept in mind."""


class SchemaBook:
    """The compiled definitions of each tenant, as of their newest revision."""

    def __init__(self) -> None:
        """Start with none compiled."""
        self._compiled: dict[str, tuple[int, dict[str, Contract]]] = {}

    def check(self, rows: Reader, scope: Scope, key: str, payload: bytes) -> tuple[Definition | None, bytes]:
        """Return the definition this fact is a record of, and its value with the schema's defaults filled in."""
        contract = self._contract(rows, scope, key)
        if contract is None:
            return None, payload
        value = contract.accept(decode(payload))
        return contract.definition, encode(value) if contract.has_defaults else payload

    def definition(self, rows: Reader, scope: Scope, key: str) -> Definition | None:
        """Return the definition that a fact at this key would be a record of."""
        contract = self._contract(rows, scope, key)
        return contract.definition if contract else None

    def _contract(self, rows: Reader, scope: Scope, key: str) -> Contract | None:
        revision = rows.tenant_state(scope.tenant).revision
        if revision == 0:
            return None
        known = self._compiled.get(scope.tenant)
        if known is None or known[0] != revision:
            contracts = {one.slug: contract_of(one) for one in rows.definitions(scope.tenant)}
            if len(self._compiled) >= _MOST_TENANTS:
                self._compiled.clear()
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


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a value: where, why, and where its schema says so."""

    path: str
    reason: str
    schema_path: str


def first_fault(validator: Any, value: Any) -> Fault | None:
    """Return the first fault of a value by a compiled schema; None when it fits."""
    error = None if validator.is_valid(value) else next(iter(validator.iter_errors(value)), None)
    if error is None:
        return None
    return Fault(json_path(error.instance_path), _cut(error.message), json_path(error.schema_path))


def explain_violation(definition: Definition, validator: Any, value: Any) -> None:
    """Raise the first fault of a value as a path and what was expected; return when there is none."""
    fault = first_fault(validator, value)
    if fault is None:
        return
    raise SchemaViolation(
        f"`{definition.slug}` refuses the value at {fault.path}: {fault.reason}",
        hint=f"Its schema at {fault.schema_path} says what fits",
        path=fault.path,
        expected=fault.reason,
        slug=definition.slug,
    )


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
    return _filled(parts_of(schema, schema), value, schema)


def _filled(parts: list[Json], value: Any, root: Json) -> Any:
    """Return the value with defaults by all schemas that speak about it together: each place is visited once."""
    if isinstance(value, list):
        inside = parts_of({"allOf": [part["items"] for part in parts if "items" in part]}, root)
        return [_filled(inside, item, root) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    filled = dict(cast(Json, value))
    for name, below in _properties(parts).items():
        if name in filled:
            if isinstance(filled[name], dict | list):
                filled[name] = _filled(parts_of(below, root), filled[name], root)
            continue
        for part in parts_of(below, root):
            if "default" in part:
                filled[name] = deepcopy(part["default"])  # the schema is shared by all its values
                break
    return filled


def _properties(parts: list[Json]) -> Json:
    if len(parts) == 1:
        return parts[0].get("properties", {})
    together: Json = {}
    for part in parts:
        for name, below in cast(Json, part.get("properties", {})).items():
            together[name] = {"allOf": [together[name], below]} if name in together else below
    return together


def parts_of(schema: Any, root: Json) -> list[Json]:
    """Return a schema, what it refers to inside the root, and what it is put together from by `allOf`, each once."""
    if isinstance(schema, dict) and "$ref" not in schema and "allOf" not in schema:
        return [cast(Json, schema)]
    parts: dict[int, Json] = {}  # by identity: references may lead round in circles
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(cast(Json, node)) in parts:
            continue
        given = cast(Json, node)
        parts[id(given)] = given
        waiting.extend(reversed(cast(list[Any], given.get("allOf", []))))
        if isinstance(given.get("$ref"), str):
            waiting.append(referred(given["$ref"], root))
    return list(parts.values())


def json_path(steps: Any) -> str:
    """Return `$.a[0].b` for the steps of a path."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def referred(pointer: str, root: Json) -> Any:
    """Return the part of the schema that `#/$defs/name`, or `#name` with an anchor, points to; None where none is."""
    fragment = unquote(pointer.removeprefix("#"))
    if fragment and not fragment.startswith("/"):
        return _anchored(fragment, root)
    node: Any = root
    for step in fragment.split("/")[1:]:
        node = _inside(node, step.replace("~1", "/").replace("~0", "~"))
    return node


def _inside(node: Any, step: str) -> Any:
    """Return what one step of a JSON pointer leads to; None where it leads nowhere."""
    if isinstance(node, dict):
        return cast(Json, node).get(step)
    listed = cast(list[Any], node) if isinstance(node, list) else []
    return listed[int(step)] if step.isdecimal() and int(step) < len(listed) else None


def _anchored(name: str, root: Json) -> Any:
    """Return the part of the schema whose `$anchor` is this name."""
    waiting: list[Any] = [root]
    for node in waiting:  # which grows meanwhile
        if isinstance(node, dict):
            given = cast(Json, node)
            if name in (given.get("$anchor"), given.get("$dynamicAnchor")):
                return given
            waiting.extend(given.values())
        elif isinstance(node, list):
            waiting.extend(cast(list[Any], node))
    return None


def _never_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
