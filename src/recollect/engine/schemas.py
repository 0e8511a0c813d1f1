"""JSON schemas in, checks of values out.

Compiled once for each change of a tenant's definitions, not once for each write. Nothing is ever fetched: a
schema that refers outside itself is refused when its definition is created.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

import msgspec

from recollect.errors import InvalidDefinition, InvalidKey, SchemaViolation
from recollect.model.definition import MODE_WORD, MODES, SHAPES, Definition
from recollect.model.scope import Scope
from recollect.model.text import quote
from recollect.model.value import decode, encode
from recollect.store.base import Reader

Json = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


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
    if given.get(MODE_WORD, "replace") not in MODES:
        raise InvalidDefinition(
            f"{quote(given[MODE_WORD])} is not a mode", hint=f"Modes are {', '.join(MODES)}", path=f"$.{MODE_WORD}"
        )
    _refuse_outside_references(given, "$")
    _refuse_endless(given)
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
            waiting.append(_referred(given["$ref"], root))
    return list(parts.values())


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
    if whole and _lists_properties(given, root):
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


def _lists_properties(schema: Json, root: Json) -> bool:
    """Say whether a schema, its parts or what it refers to lists properties of an object."""
    seen: set[int] = set()  # by identity: references may lead round in circles
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(cast(Json, node)) in seen:
            continue
        given = cast(Json, node)
        if "properties" in given:
            return True
        seen.add(id(given))
        waiting += [given.get("if"), given.get("then"), given.get("else")]
        for word in ("allOf", *_ALTERNATIVES):
            waiting.extend(cast(list[Any], given.get(word, [])))
        waiting.extend(cast(Json, given.get("dependentSchemas", {})).values())
        if isinstance(given.get("$ref"), str):
            waiting.append(_referred(given["$ref"], root))
    return False


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


_MOST_PARTS = 10_000
"""Parts that say something about one and the same value, counted as often as references lead to them."""


def _refuse_endless(schema: Json) -> None:
    """Refuse parts that are about the same value and lead back to themselves, or to so many that none could be checked.

    A reference from a property to a schema around it is fine: each round goes one step deeper into a value, which ends.
    """
    counts: dict[int, int] = {}  # by identity; 0 while its parts are being counted
    for start in _objects_in(schema):
        waiting: list[tuple[Json, bool]] = [(start, False)]
        while waiting:
            node, entered = waiting.pop()
            about = _about_the_same(node, schema)
            if entered:
                counts[id(node)] = 1 + sum(counts[id(one)] for one in about)
                if counts[id(node)] > _MOST_PARTS:
                    raise _endless(f"has more than {_MOST_PARTS:,} parts about one value")
            elif id(node) not in counts:
                counts[id(node)] = 0
                waiting.append((node, True))
                for one in about:
                    if counts.get(id(one)) == 0:
                        raise _endless("leads back to itself without going deeper into the value")
                    waiting.append((one, False))


def _objects_in(node: Any) -> list[Json]:
    """Return every object of a schema, itself and those inside it."""
    found: list[Json] = []
    waiting: list[Any] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found.append(cast("Json", one))
            waiting.extend(cast("Json", one).values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return found


def _about_the_same(schema: Json, root: Json) -> list[Json]:
    """Return the parts of a schema, and what it refers to, that say something about the same value as it does."""
    found: list[Any] = [schema.get(word) for word in ("not", "if", "then", "else")]
    for word in ("allOf", *_ALTERNATIVES):
        listed = schema.get(word)
        found.extend(cast("list[Any]", listed) if isinstance(listed, list) else ())
    named = schema.get("dependentSchemas")
    found.extend(cast("Json", named).values() if isinstance(named, dict) else ())
    if isinstance(schema.get("$ref"), str):
        found.append(_referred(schema["$ref"], root))
    return [cast("Json", one) for one in found if isinstance(one, dict)]


def _endless(what: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"the schema {what}", hint="Let references lead from properties or items, and less often to the same", path="$"
    )


def _never_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
