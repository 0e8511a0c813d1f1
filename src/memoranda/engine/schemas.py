"""JSON schemas: preparing them for a definition, and checking values by them.

Schemas are compiled once for each change of a tenant's definitions, not once for each write. Nothing is ever fetched:
a schema that refers outside itself is refused when its definition is created.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from memoranda.engine.dialects import MEANINGFUL, modernize, pointer_to
from memoranda.engine.schema_graph import UNBOUNDED, Graph, Json, Node, measure, pattern_weight
from memoranda.engine.strictness import close_objects
from memoranda.engine.validator import Validator, json_path, refuse_by_meta_schema
from memoranda.errors import Hint, InvalidDefinition, InvalidKey, LimitExceeded, MemorandaError, SchemaViolation
from memoranda.model.definition import MODE_WORD, MODES, Definition, parts_of
from memoranda.model.names import is_internal
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode
from memoranda.store.base import Reader

T = TypeVar("T")


class Contract(msgspec.Struct, frozen=True):
    """A definition that is ready to check values."""

    definition: Definition
    text: bytes
    """Its schema as JSON."""
    validator: Validator
    has_defaults: bool

    def cost(self, payload: bytes) -> int:
        """Return the most work that a value can cause, in small checks; filling in defaults is slower than these."""
        cost = self.validator.cost(payload)
        return 8 * cost if self.has_defaults else cost

    def record(self, payload: bytes) -> bytes:
        """Return the value with the schema's defaults filled in, as JSON, or raise SchemaViolation."""
        value = decode(payload)
        if not self.has_defaults:
            if not self.validator.is_quickly_valid(payload, value):
                self.accept(value)
            return payload
        return encode(self.accept(value))

    def accept(self, value: Any) -> Any:
        """Return the value with the schema's defaults filled in, or raise SchemaViolation."""
        slug = self.definition.slug
        try:
            if self.has_defaults:
                value = fill_defaults(self.definition.schema, value)
            fault = self.validator.first_fault(value)
        except LimitExceeded as error:
            raise LimitExceeded(f"`{slug}`: {error.message}", hint=error.advice, **error.details) from error
        if fault is not None:
            raise SchemaViolation(
                f"`{slug}` refuses the value at {fault.path}: {fault.reason}",
                hint=f"Its schema at {fault.schema_path} says what fits",
                path=fault.path,
                expected=fault.reason,
                slug=slug,
            )
        return value


def contract_of(definition: Definition) -> Contract:
    """Return a definition ready to check values; a schema that was compiled before is not compiled again."""
    text = encode(definition.schema)
    return Contract(definition, text, validator_of(definition.schema, text), b'"default"' in text)


def validator_of(schema: Json, text: bytes | None = None, *, formats: bool = True) -> Validator:
    """Return a compiled schema, cached by its text."""
    text = encode(schema) if text is None else text
    validator = _validators.get((text, formats))
    if validator is None:
        validator = Validator(schema, formats=formats)
        if len(_validators) >= _MOST_VALIDATORS:
            _validators.clear()
        _validators[text, formats] = validator
    return validator


# By the text of the schema, which means the same in every definition and database.
_validators: dict[tuple[bytes, bool], Validator] = {}
_MOST_VALIDATORS = 4_096
_MOST_TENANTS = 1_024
"""Tenants whose contracts are cached."""
_COMPILED_AT_ONCE = 4_096
"""Bytes of a schema that is compiled inside a transaction: that takes a few milliseconds."""


class Unchecked(Exception):
    """Checks that may take long are left to do before the transaction is tried again."""


class Checks:
    """The checks of one write: short ones are done in its transaction, long ones before it.

    A transaction that meets a long check for the first time continues as if it had passed, to find the others, and is
    then undone. `settle` does them while nothing is locked, and the next transaction looks up what they gave. It does
    so by schema and value, so a definition that changes meanwhile leads to another check and never to a stale one.
    """

    __slots__ = ("_allowance", "_pending", "_settled")

    def __init__(self, allowance: int = 0) -> None:
        """Start with none done; `allowance` is the number of small checks that a transaction may take."""
        self._allowance = allowance
        self._pending: dict[Hashable, Callable[[], Any]] = {}
        self._settled: dict[Hashable, Any] = {}

    def result(self, key: Hashable, cost: int, check: Callable[[], T], otherwise: T) -> T:
        """Return the result of a check, or raise its error; `otherwise` if it has yet to be done."""
        if self._settled and key in self._settled:
            settled = self._settled[key]
            if isinstance(settled, MemorandaError):
                raise settled
            return settled
        if cost <= self._allowance:
            self._allowance -= cost
            return check()
        self._pending[key] = check
        return otherwise

    def ensure_settled(self) -> None:
        """Raise Unchecked if a check was deferred."""
        if self._pending:
            raise Unchecked

    def settle(self) -> None:
        """Do the deferred checks."""
        for key, check in self._pending.items():
            try:
                self._settled[key] = check()
            except MemorandaError as error:  # raised again in the transaction, where the verb adds context
                self._settled[key] = error
        self._pending.clear()


class SchemaBook:
    """The definitions of each tenant, as of their newest revision, each compiled when it is first needed."""

    def __init__(self) -> None:
        """Start with none compiled."""
        self._known: dict[str, tuple[int, dict[str, Definition], dict[str, Contract]]] = {}

    def check(
        self, rows: Reader, scope: Scope, key: str, payload: bytes, checks: Checks
    ) -> tuple[Definition | None, bytes]:
        """Return the definition this fact is a record of, and its value with the schema's defaults filled in."""
        definition = self.definition(rows, scope, key)
        if definition is None:
            return None, payload
        contracts = self._known[scope.tenant][2]
        contract = contracts.get(key)
        if contract is None:
            text = encode(definition.schema)
            if len(text) > _COMPILED_AT_ONCE and (text, True) not in _validators:

                def compile_and_check() -> bytes:
                    return contract_of(definition).record(payload)

                return definition, checks.result((key, text, payload), UNBOUNDED, compile_and_check, payload)
            contract = contracts[key] = contract_of(definition)
        check = partial(contract.record, payload)
        return definition, checks.result((key, contract.text, payload), contract.cost(payload), check, payload)

    def definition(self, rows: Reader, scope: Scope, key: str) -> Definition | None:
        """Return the definition that a fact at this key would be a record of."""
        revision = rows.tenant_state(scope.tenant).revision
        if revision == 0:
            return None
        known = self._known.get(scope.tenant)
        if known is None or known[0] != revision:
            definitions = {one.slug: one for one in rows.scan(Definition, scope.tenant)}
            if len(self._known) >= _MOST_TENANTS:
                self._known.clear()
            known = self._known[scope.tenant] = (revision, definitions, {})
        slug, dot, _ = key.partition(".")
        definition = known[1].get(slug)
        if definition is None or not definition.applies_to(scope) or is_internal(scope, key):
            return None
        if dot:
            raise InvalidKey(
                f"{quote(key)} lies inside the record `{slug}`, which is written whole",
                hint=(
                    f"Read `{slug}`, change it and set it again",
                    Hint("python", f"Call scope.update({slug!r}, change)"),
                ),
                value=key,
            )
        return definition


def fill_defaults(schema: Json, value: Any) -> Any:
    """Return the value with the `default` of each missing property put in, at every level."""
    return _Defaults(schema).fill(parts_of(schema, schema), value)


_MOST_STEPS = 1_000_000
"""Places and properties that defaults are looked for at: about a second."""
_MOST_ADDED = 1_048_576
"""Parts of a value that defaults may add: a default is as long as its author likes, and may be put in many times."""


class _Defaults:
    """Fills the defaults of one schema into one value."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._steps = 0
        self._added = 0
        self._parts: dict[int, tuple[Any, list[Json]]] = {}
        self._properties: dict[tuple[int, ...], Json] = {}

    def fill(self, parts: list[Json], value: Any) -> Any:
        """Return the value with the defaults of all schemas that apply to it; each place is visited once."""
        if isinstance(value, list):
            listed = cast(list[Any], value)
            self._spend(len(listed))
            places = max([len(part["prefixItems"]) for part in parts if "prefixItems" in part], default=0)
            inside = self._parts_of_item(parts, places)
            return [
                self.fill(inside if at >= places else self._parts_of_item(parts, at), item)
                if isinstance(item, dict | list)
                else item
                for at, item in enumerate(listed)
            ]
        if not isinstance(value, dict):
            return value
        filled = dict(cast(Json, value))
        properties = self._together(parts)
        self._spend(1 + len(properties))
        for name, below in properties.items():
            if name in filled:
                if isinstance(filled[name], dict | list):
                    filled[name] = self.fill(self._parts_of(below), filled[name])
                continue
            for part in self._parts_of(below):
                if "default" in part:
                    self._added += measure(part["default"])[0]
                    self._spend(0)
                    filled[name] = deepcopy(part["default"])  # the schema is shared by all its values
                    break
        return filled

    def _parts_of(self, schema: Any) -> list[Json]:
        known = self._parts.get(id(schema))
        if known is None:
            known = self._parts[id(schema)] = schema, parts_of(schema, self._root)
            self._spend(len(known[1]))
        return known[1]

    def _parts_of_item(self, parts: list[Json], at: int) -> list[Json]:
        """Return what is said about the item at a place of a list."""
        self._spend(len(parts))
        said: list[Any] = []
        for part in parts:
            if "prefixItems" in part and at < len(part["prefixItems"]):
                said.append(part["prefixItems"][at])
            elif "items" in part:
                said.append(part["items"])
        return [one for schema in said for one in self._parts_of(schema)]

    def _together(self, parts: list[Json]) -> Json:
        """Return the properties that any of these parts lists."""
        if len(parts) == 1:
            return parts[0].get("properties", {})
        key = tuple(map(id, parts))
        together = self._properties.get(key)
        if together is None:
            together = self._properties[key] = {}
            for part in parts:
                for name, below in cast(Json, part.get("properties", {})).items():
                    together[name] = {"allOf": [together[name], below]} if name in together else below
            self._spend(len(together))
        return together

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS or self._added > _MOST_ADDED:
            most, actual = (_MOST_ADDED, self._added) if self._added > _MOST_ADDED else (_MOST_STEPS, self._steps)
            raise LimitExceeded(
                f"putting the schema's defaults into the value takes more than {most:,} steps",
                hint="Make the value smaller, or its schema's defaults fewer and shorter",
                limit=most,
                actual=actual,
            )


def prepare_schema(schema: Any, *, defaults: bool = True) -> Json:
    """Return a schema ready to be stored: of an object, valid, self-contained, strict unless it says otherwise.

    It is of the present draft, whatever draft it was written in. Without `defaults`, these are not checked.
    """
    if not isinstance(schema, dict) or cast(Json, schema).get("type", "object") != "object":
        raise _no_object(schema)
    given = cast(Json, schema)
    if given.get(MODE_WORD, "replace") not in MODES:
        raise InvalidDefinition(
            f"{quote(given[MODE_WORD])} is not a mode", hint=f"Modes are {', '.join(MODES)}", path=f"$.{MODE_WORD}"
        )
    if not given.keys() & MEANINGFUL:
        raise _no_object(schema)
    prepared = compilable_schema(given)
    prepared.setdefault("type", "object")
    graph = Graph(prepared)
    if _excludes_objects(graph):
        raise _no_object(schema)
    close_objects(graph)
    Validator(prepared)
    if defaults:
        _refuse_defaults(graph)
    return prepared


def compilable_schema(schema: Json) -> Json:
    """Return a schema in the present draft that is valid, self-contained and quick to check."""
    modern = modernize(schema)
    refuse_by_meta_schema(modern)
    graph = Graph(modern)
    _refuse_outside_references(graph)
    _refuse_endless(graph)
    Validator(modern)
    _refuse_backtracking(graph)
    return modern


def _no_object(schema: Any) -> InvalidDefinition:
    return InvalidDefinition(
        f"the schema is {quote(schema, longest=40)}, not a JSON object schema",
        hint='Describe an object: {"type": "object", "properties": {…}}, or a reference to one, or a union of them',
        path="$",
    )


def _excludes_objects(graph: Graph) -> bool:
    """Return whether no object fits a schema, whatever its properties are."""
    excluded: set[Node] = set()
    for node in graph.order:
        given = node.assertions
        kinds = given.get("type", "object")
        options = [given["const"]] if "const" in given else given.get("enum")
        if (
            node.schema is False
            or "object" not in ([kinds] if isinstance(kinds, str) else kinds)
            or (options is not None and not any(isinstance(one, dict) for one in options))
            or not excluded.isdisjoint((*node.refs, *node.all_of))
            or any(parts and excluded.issuperset(parts) for parts in (node.any_of, node.one_of))
        ):
            excluded.add(node)
    return graph.root in excluded


def _refuse_defaults(graph: Graph) -> None:
    """Refuse a default that its own schema would refuse: it would be put into values, and then refused there."""
    nodes = [node for node in graph.nodes if not isinstance(node.schema, bool) and "default" in node.schema]
    if not nodes:
        return
    # One schema for all of them: the library compiles it once.
    schema: Json = graph.root.schema
    home = schema.get("$id", "urn:memoranda:schema")
    parts = {str(at): {"$ref": f"{home}{pointer_to(node.path)}"} for at, node in enumerate(nodes)}
    defaults = {str(at): node.schema["default"] for at, node in enumerate(nodes)}
    validator = Validator({"properties": parts, "$defs": {"whole": {**schema, "$id": home}}})
    if validator.is_valid(defaults):
        return
    for at, default in defaults.items():
        fault = validator.first_fault({at: default})
        if fault is not None:
            path = json_path((*nodes[int(at)].path, "default"))
            raise InvalidDefinition(
                f"the default {quote(default, longest=40)} at {path} does not fit: {fault.reason}",
                hint="Change the default, or what is said beside it",
                path=path,
            )


def _refuse_outside_references(graph: Graph) -> None:
    if graph.unresolved is not None:
        node, word, reference = graph.unresolved
        path = json_path((*node.path, word))
        leads = "leads nowhere in it" if reference.startswith("#") else "leads outside itself"
        raise InvalidDefinition(
            f"a reference of the schema {leads} at {path}: {quote(reference)}",
            hint="Copy the part into $defs and refer to it as #/$defs/name; nothing is ever fetched",
            path=path,
        )


_MOST_PARTS = 10_000
"""Parts that say something about one and the same value, counted as often as references lead to them."""


def _refuse_endless(graph: Graph) -> None:
    """Refuse parts about the same value that lead back to themselves, or to too many parts to check.

    A reference from a property to a schema around it is fine: each round goes one step deeper into a value, which ends.
    """
    if graph.cycle is not None:
        raise _endless(graph.cycle, "leads back to itself without going deeper into the value")
    for node, count in graph.counts().items():
        if count > _MOST_PARTS:
            raise _endless(node, f"has more than {_MOST_PARTS:,} parts about one value")


def _endless(node: Node, what: str) -> InvalidDefinition:
    path = json_path(node.path)
    return InvalidDefinition(
        f"the schema {what} at {path}" if node.path else f"the schema {what}",
        hint="Refer from properties or items, and less often to the same part",
        path=path,
    )


def _refuse_backtracking(graph: Graph) -> None:
    """Refuse patterns whose time is not in proportion to the text that they are matched with."""
    for node in graph.nodes:
        own = node.assertions.get("pattern")
        found = [("pattern", own)] if isinstance(own, str) else []
        found += [("patternProperties", pattern) for pattern, _ in node.patterns]
        for word, pattern in found:
            if pattern_weight(pattern) is None:
                path = json_path([*node.path, word])
                raise InvalidDefinition(
                    f"the pattern {quote(pattern)} at {path} could take too long to match",
                    hint="Write it without look-around, back-references and large repetitions; "
                    "several patterns go into allOf, or one that must not match into not",
                    path=path,
                )
