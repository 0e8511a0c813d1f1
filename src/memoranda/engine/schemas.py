"""JSON schemas in, checks of values out.

Compiled once for each change of a tenant's definitions, not once for each write. Nothing is ever fetched: a
schema that refers outside itself is refused when its definition is created.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import msgspec

from memoranda.engine.schema_graph import UNBOUNDED, Json, measure
from memoranda.engine.validator import Validator
from memoranda.errors import InvalidKey, LimitExceeded, MemorandaError, SchemaViolation
from memoranda.model.definition import Definition
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
        """Return the most work that a value can make, in small checks; looking for defaults is slower than these."""
        cost = self.validator.cost(payload)
        return 8 * cost if self.has_defaults else cost

    def record(self, payload: bytes) -> bytes:
        """Return what is kept of a value: itself, with the schema's defaults filled in; or refuse it."""
        value = decode(payload)
        if not self.has_defaults:
            if not self.validator.is_quickly_valid(payload, value):
                self.accept(value)
            return payload
        return encode(self.accept(value))

    def accept(self, value: Any) -> Any:
        """Return the value with the schema's defaults filled in, or refuse it."""
        slug = self.definition.slug
        try:
            if self.has_defaults:
                value = fill_defaults(self.definition.schema, value)
            fault = self.validator.first_fault(value)
        except LimitExceeded as error:
            raise LimitExceeded(f"`{slug}`: {error.message}", hint=error.hint, **error.details) from error
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
    """Return a compiled schema, which is kept by its text."""
    text = encode(schema) if text is None else text
    validator = _validators.get((text, formats))
    if validator is None:
        validator = Validator(schema, formats=formats)
        if len(_validators) >= _MOST_VALIDATORS:
            _validators.clear()
        _validators[text, formats] = validator
    return validator


# By the text of the schema: whoever defines it, in whichever database, it means the same.
_validators: dict[tuple[bytes, bool], Validator] = {}
_MOST_VALIDATORS = 4_096
_MOST_TENANTS = 1_024
"""Tenants whose contracts are kept in mind."""
_COMPILED_AT_ONCE = 4_096
"""Bytes of a schema that is compiled inside a transaction: that takes a few milliseconds."""


class Unchecked(Exception):
    """Checks that may take long are left to do before the transaction is tried again."""


class Checks:
    """The checks of one write: short ones are done in its transaction, long ones before it.

    A transaction that meets a long check for the first time goes on as if it had passed, to find the others, and is
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
        """Return what a check gives, or raise what it raises; `otherwise` where it has yet to be done."""
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
        """Raise Unchecked if a check was put off."""
        if self._pending:
            raise Unchecked

    def settle(self) -> None:
        """Do the checks that were put off."""
        for key, check in self._pending.items():
            try:
                self._settled[key] = check()
            except MemorandaError as error:  # raised again inside the transaction, where the verb adds what it is about
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
            definitions = {one.slug: one for one in rows.definitions(scope.tenant)}
            if len(self._known) >= _MOST_TENANTS:
                self._known.clear()
            known = self._known[scope.tenant] = (revision, definitions, {})
        slug, dot, _ = key.partition(".")
        definition = known[1].get(slug)
        if definition is None or not definition.applies_to(scope):
            return None
        if dot:
            raise InvalidKey(
                f"{quote(key)} lies inside the record `{slug}`, which is written whole",
                hint=f"Read `{slug}`, change it and set it again: scope.update({slug!r}, change)",
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
    """The defaults of one schema, on their way into one value."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self._steps = 0
        self._added = 0
        self._parts: dict[int, tuple[Any, list[Json]]] = {}
        self._properties: dict[tuple[int, ...], Json] = {}

    def fill(self, parts: list[Json], value: Any) -> Any:
        """Return the value with defaults by all schemas that speak about it together: each place is visited once."""
        if isinstance(value, list):
            inside = parts_of({"allOf": [part["items"] for part in parts if "items" in part]}, self._root)
            listed = cast(list[Any], value)
            self._spend(len(listed))
            if not inside[1:]:
                return listed  # nothing is said about items, so nothing is missing in them
            return [self.fill(inside, item) for item in listed]
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
