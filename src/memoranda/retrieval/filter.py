"""Parse metadata filters into trees of conditions.

    {"topic": "billing"}                            equal, as JSON: 1 is 1.0, but neither True nor "1"
    {"topic": "billing", "actor": "ada"}            all of them
    {"urgency": {"$gte": 3, "$lt": 9}}              $eq $ne $gt $gte $lt $lte $in $nin $exists, $and $or $not
    {"$or": [{"topic": "billing"}, {"vip": True}]}  $and $or $not over whole filters

A map without operators and a list are compared as a whole. A key is a top-level name of the metadata: `a.b` is the key
with a dot in its name, not a path into `a`. Keys that begin with `$` cannot be filtered.

A missing key equals nothing, is not in any list and is neither greater nor less, so `$ne`, `$nin` and `$not`, which
only negate a condition, do match it; `$exists` tests for the key itself. `$gt`, `$gte`, `$lt` and `$lte` compare
numbers with numbers and text with text (which orders ISO 8601 times of one form); other types never match.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NoReturn, TypeAlias, cast

import msgspec

from memoranda.errors import InvalidFilter
from memoranda.model.text import quote

DEEPEST = 64
"""Maximum nesting of filters, lists and maps."""
LARGEST = 10_000
"""Maximum number of conditions and values in one filter."""

Comparison = Literal["$gt", "$gte", "$lt", "$lte"]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_JOINING = ("$and", "$or", "$not")
_OPERATORS = ("$eq", "$ne", "$in", "$nin", *_COMPARISONS, "$exists", *_JOINING)


class Equals(msgspec.Struct, frozen=True):
    """The key exists and its value is the same JSON."""

    key: str
    identity: Hashable

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return self.key in metadata and identity(metadata[self.key]) == self.identity


class OneOf(msgspec.Struct, frozen=True):
    """The key exists and its value is the same JSON as one of these."""

    key: str
    identities: frozenset[Hashable]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return self.key in metadata and identity(metadata[self.key]) in self.identities


class Compares(msgspec.Struct, frozen=True):
    """The key's value has the type of the bound, and is greater or less than it."""

    key: str
    comparison: Comparison
    bound: float | str

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return self.key in metadata and self.admits(metadata[self.key])

    def admits(self, value: Any) -> bool:
        """Return whether one value of the key matches."""
        kind = comparable(value)
        return kind is not None and kind is comparable(self.bound) and _COMPARISONS[self.comparison](value, self.bound)


class Exists(msgspec.Struct, frozen=True):
    """The key exists, with any value."""

    key: str

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return self.key in metadata


class Every(msgspec.Struct, frozen=True):
    """All parts match; true without parts."""

    parts: tuple[Filter, ...]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return all(part.matches(metadata) for part in self.parts)


class Either(msgspec.Struct, frozen=True):
    """At least one part matches."""

    parts: tuple[Filter, ...]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return any(part.matches(metadata) for part in self.parts)


class Negated(msgspec.Struct, frozen=True):
    """The part does not match."""

    part: Filter

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether these metadata match."""
        return not self.part.matches(metadata)


Filter: TypeAlias = Equals | OneOf | Compares | Exists | Every | Either | Negated


def parse_filter(filter: Mapping[str, Any] | None) -> Filter | None:
    """Parse a filter; return None for None and `{}`. Raise `InvalidFilter` with the path of the mistake."""
    if filter is None:
        return None
    parsed = _Parser().filter(filter, "$", DEEPEST)
    return None if parsed == Every(()) else parsed


def identity(value: Any) -> Hashable:
    """Return a hashable that is the same for two JSON values exactly when they are equal.

    In Python True equals 1, at any depth; in JSON it does not. Numbers are kept, so 1 equals 1.0.
    """
    if value is True or value is False:
        return ("truth", value)
    if isinstance(value, list):
        return ("list", tuple(identity(item) for item in cast(list[Any], value)))
    if isinstance(value, dict):
        return ("map", frozenset((name, identity(item)) for name, item in cast(dict[str, Any], value).items()))
    return value


def comparable(value: Any) -> type[float] | type[str] | None:
    """Return the type within which a value can be ordered, or None if it cannot."""
    if isinstance(value, str):
        return str
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return None


class _Parser:
    """Parser of one filter, which counts its conditions and values."""

    def __init__(self) -> None:
        self._seen = 0

    def filter(self, filter: Any, path: str, depth: int) -> Filter:
        """Parse `{key: condition, …}` and the operators over whole filters."""
        if not isinstance(filter, Mapping):
            _refuse(f"the filter at {path} is {type(filter).__name__}, not a map", "Write {key: value}", path)
        self._count(path, depth)
        parts: list[Filter] = []
        for key, condition in cast(Mapping[Any, Any], filter).items():
            if not isinstance(key, str):
                _refuse(f"the key {quote(key)} at {path} is not text", "Keys of metadata are text", path)
            if key in _JOINING:
                parts.append(self._join(key, condition, f"{path}.{key}", depth - 1, self.filter))
            elif key.startswith("$"):
                if key in _OPERATORS:
                    _refuse(
                        f"the operator `{key}` at {path} has no key",
                        f'Write {{"key": {{"{key}": …}}}}',
                        f"{path}.{key}",
                    )
                _refuse_operator(key, path, _JOINING)
            else:
                parts.append(self._condition(key, condition, f"{path}.{key}", depth - 1))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _condition(self, key: str, condition: Any, path: str, depth: int) -> Filter:
        """Parse the condition of a key: operators, or a value to equal."""
        if isinstance(condition, Mapping):
            names = list(cast(Mapping[Any, Any], condition))
            operators = [name for name in names if isinstance(name, str) and name.startswith("$")]
            if operators and len(operators) < len(names):
                _refuse(
                    f"the condition at {path} mixes the operator {quote(operators[0])} with plain keys",
                    'Use operators alone, or compare a whole map with {"$eq": {…}}',
                    path,
                )
            if operators:
                return self._operators(key, condition, path, depth)
        return Equals(key, self._value(condition, path, depth))

    def _operators(self, key: str, condition: Any, path: str, depth: int) -> Filter:
        """Parse `{"$gte": 3, "$lt": 9}` for one key: all have to match."""
        if not isinstance(condition, Mapping) or not condition:
            _refuse(f"{quote(cast(Any, condition))} at {path} is not a map of operators", 'Write {"$gt": 3}', path)
        self._count(path, depth)
        parts = tuple(
            self._operator(key, name, operand, path, depth - 1)
            for name, operand in cast(Mapping[Any, Any], condition).items()
        )
        return parts[0] if len(parts) == 1 else Every(parts)

    def _operator(self, key: str, name: Any, operand: Any, above: str, depth: int) -> Filter:
        path = f"{above}.{name}"
        match name:
            case "$eq":
                return Equals(key, self._value(operand, path, depth))
            case "$ne":
                return Negated(Equals(key, self._value(operand, path, depth)))
            case "$in":
                return OneOf(key, self._values(operand, path, depth))
            case "$nin":
                return Negated(OneOf(key, self._values(operand, path, depth)))
            case "$gt" | "$gte" | "$lt" | "$lte":
                return Compares(key, name, self._bound(operand, path, depth))
            case "$exists":
                if not isinstance(operand, bool):
                    _refuse(f"{quote(operand)} at {path} is neither True nor False", "Write True or False", path)
                return Exists(key) if operand else Negated(Exists(key))
            case "$and" | "$or" | "$not":
                return self._join(
                    name, operand, path, depth, lambda inner, where, left: self._operators(key, inner, where, left)
                )
            case _:
                _refuse_operator(name, above, _OPERATORS)

    def _join(self, name: str, operand: Any, path: str, depth: int, read: Callable[[Any, str, int], Filter]) -> Filter:
        """Parse `$and`, `$or` or `$not`, whose parts are parsed by `read`."""
        if name == "$not":
            return Negated(read(operand, path, depth))
        if not isinstance(operand, list) or not operand:
            _refuse(f"`{name}` at {path} needs a list with at least one part", f'Write {{"{name}": [{{…}}, …]}}', path)
        parts = tuple(read(part, f"{path}[{place}]", depth - 1) for place, part in enumerate(cast(list[Any], operand)))
        return Every(parts) if name == "$and" else Either(parts)

    def _values(self, operand: Any, path: str, depth: int) -> frozenset[Hashable]:
        if not isinstance(operand, list):
            _refuse(f"{quote(operand)} at {path} is not a list", 'Write {"$in": [1, 2]}', path)
        values = cast(list[Any], operand)
        return frozenset(self._value(value, f"{path}[{place}]", depth - 1) for place, value in enumerate(values))

    def _bound(self, operand: Any, path: str, depth: int) -> float | str:
        self._value(operand, path, depth)
        if comparable(operand) is None:
            _refuse(f"{quote(operand)} at {path} has no order", "Compare with a number or text", path)
        return operand

    def _value(self, value: Any, path: str, depth: int) -> Hashable:
        self._check(value, path, depth)
        return identity(value)

    def _check(self, value: Any, path: str, depth: int) -> None:
        self._count(path, depth)
        if value is None or isinstance(value, str | int):
            return
        if isinstance(value, float):
            if not math.isfinite(value):
                _refuse(f"{value} at {path} is not a JSON number", "No metadata can equal it; remove it", path)
        elif isinstance(value, list):
            for place, item in enumerate(cast(list[Any], value)):
                self._check(item, f"{path}[{place}]", depth - 1)
        elif isinstance(value, dict):
            for name, item in cast(dict[Any, Any], value).items():
                if not isinstance(name, str):
                    _refuse(f"the name {quote(name)} at {path} is not text", "JSON objects are keyed by text", path)
                self._check(item, f"{path}.{name}", depth - 1)
        else:
            _refuse(
                f"{quote(value)} at {path} is {type(value).__name__}, which metadata cannot contain",
                "Use text, numbers, booleans, None, lists and dicts; convert a tuple to a list and a date to ISO text",
                path,
            )

    def _count(self, path: str, depth: int) -> None:
        self._seen += 1
        if depth <= 0:
            _refuse(f"the filter is nested more than {DEEPEST} deep", "Flatten it", path)
        if self._seen > LARGEST:
            _refuse(f"the filter has more than {LARGEST:,} conditions and values", "Split it up", path)


def _refuse_operator(name: Any, path: str, known: tuple[str, ...]) -> NoReturn:
    near = get_close_matches(str(name), _OPERATORS, n=1, cutoff=0.7)
    hint = f"Did you mean `{near[0]}`?" if near else f"The operators are {', '.join(known)}"
    _refuse(f"{quote(name)} at {path} is not an operator", hint, f"{path}.{name}")


def _refuse(message: str, hint: str, path: str) -> NoReturn:
    raise InvalidFilter(message, hint=hint, path=path)
