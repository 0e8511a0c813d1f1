"""A compiled JSON schema whose checks are sure to end soon, whatever the schema and the value are.

`jsonschema_rs` checks what is sure to be quick. The rest is evaluated here, slower for one step, but never twice for
the same part of the schema and of the value: the work is at most their product, and it is limited as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from typing import Any, cast

import msgspec

from memoranda.engine.schema_graph import (
    UNBOUNDED,
    Graph,
    Json,
    Node,
    comparisons,
    looks_ahead,
    measure,
    pattern_weight,
)
from memoranda.errors import InvalidDefinition, LimitExceeded
from memoranda.model.text import closest
from memoranda.model.value import encode

QUICK = 200_000
"""Small checks that the library may make in one call: about 10 ms, in which no other thread may run."""
_COMPILED = 20_000
"""Small checks at one place up to which the library may compile a schema: it unfolds parts to find the unevaluated."""
_EXPLAINED = 500
"""Small checks after which the library may be asked what is wrong: it makes an error for each way that failed."""
_STEPS = 1_000_000
"""Steps of an evaluation: a few seconds, in which other threads run too; enough for any union tree of 1 MB."""
_BACKTRACKED = 16
"""Size of a value that the library may match with patterns that backtrack, in units of one small check."""
_BACKTRACKS = 10_000
"""Steps back in one match of such a pattern."""
_SHOWN = 200


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with a value: where, why, and where its schema says so."""

    path: str
    reason: str
    schema_path: str


class Validator:
    """A schema that is ready to check values."""

    def __init__(self, schema: Any, *, formats: bool = True) -> None:
        """Compile a schema; raise InvalidDefinition for one that is not valid."""
        try:
            # A private copy: parts are distinguished by identity.
            self.graph = Graph(msgspec.to_builtins(schema), formats=formats)
            is_light = self.graph.heaviest <= _COMPILED
        except (RecursionError, TypeError) as error:
            raise _uncompilable(str(error)) from error
        self._most: int | None = None
        self._library: Any = None
        if is_light:
            self._library = _compile(schema, self.graph, formats)
        else:
            _check_compiles(schema, self.graph)

    def cost(self, payload: bytes) -> int:
        """Return the small checks that a value takes at most, from its JSON alone; UNBOUNDED if that may be many."""
        if self.graph.backtracks or self._library is None:
            return UNBOUNDED
        if self._most is None:
            self._most = max(self.graph.levels)
        cost = len(payload) * self._most
        if cost > QUICK:
            depth = payload.count(b"{") + payload.count(b"[") + 1
            cost = len(payload) * self.graph.bound(depth)
        return cost if cost <= QUICK else UNBOUNDED

    def is_quickly_valid(self, payload: bytes, value: Any) -> bool:
        """Return whether a check is certainly quick, judged by the JSON alone, and the value fits."""
        return self.cost(payload) <= QUICK and self._library.is_valid(value)

    def is_valid(self, value: Any) -> bool:
        """Return whether a value fits; raise LimitExceeded if that takes too long."""
        if self._work(value) <= QUICK:
            return self._library.is_valid(value)
        return Evaluation(self.graph).is_valid(value)

    def first_fault(self, value: Any) -> Fault | None:
        """Return the first fault of a value; None when it fits."""
        work = self._work(value)
        if work <= QUICK and self._library.is_valid(value):
            return None
        if work <= _EXPLAINED:
            error = next(iter(self._library.iter_errors(value)))
            return _fault(error.instance_path, _message(error), error.schema_path)
        if not self.graph.exact:
            return Fault("$", "it does not fit", "$")
        return Evaluation(self.graph).first_fault(value)

    def _work(self, value: Any) -> int:
        """Return the most small checks that the library would make; UNBOUNDED where it must not be asked."""
        size, depth = measure(value)
        work = min(size * self.graph.bound(depth), UNBOUNDED)
        if self._library is None or (self.graph.backtracks and size > _BACKTRACKED):
            work = UNBOUNDED
        if work > QUICK and (not self.graph.exact or self.graph.cycle is not None):
            raise _too_much()
        return work


def _fault(path: Any, reason: str, schema_path: Any) -> Fault:
    # What it quotes, and each name on its way, may be as long as a value.
    return Fault(_cut(json_path(path)), _cut(reason), _cut(json_path(schema_path)))


def _message(error: Any) -> str:
    """Return the library's message, with the choice that was probably meant by a text that is none of them."""
    choices: list[Any] = getattr(error.kind, "options", None) or []
    words = [one for one in choices if isinstance(one, str)]
    near = closest(error.instance, words) if words and isinstance(error.instance, str) else None
    return f"{error.message}; did you mean {_show(near)}?" if near else error.message


def json_path(steps: Any) -> str:
    """Return `$.a[0].b` for the steps of a path."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _too_much() -> LimitExceeded:
    return LimitExceeded(
        f"checking the value takes more than {_STEPS:,} steps",
        hint="Make the value smaller, or the schema simpler: fewer alternatives that lead to the same parts",
        limit=_STEPS,
        actual=_STEPS + 1,
    )


def _compile(schema: Any, graph: Graph, formats: bool) -> Any:
    import jsonschema_rs  # here, because its import takes a third of ours and most programs define nothing

    try:
        return jsonschema_rs.validator_for(
            schema,
            validate_formats=formats,
            formats=_formats(),
            retriever=_never_fetch,
            pattern_options=_pattern_options(graph.looks_ahead),
        )
    except jsonschema_rs.ValidationError as error:
        raise _invalid(error.instance_path, error.message) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise _uncompilable(str(error)) from error


def _check_compiles(schema: Any, graph: Graph) -> None:
    """Refuse what the library would, for a schema that it takes too long to compile as a whole."""
    refuse_by_meta_schema(schema)
    if graph.unresolved is not None and graph.unresolved[2].startswith("#"):
        raise _uncompilable(f"a reference at {json_path(graph.unresolved[0].path)} leads nowhere")
    for node in graph.nodes:
        _native(node)


def refuse_by_meta_schema(schema: Any) -> None:
    """Raise InvalidDefinition for a schema that is not valid in its own draft."""
    import jsonschema_rs

    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        raise _invalid(error.instance_path, error.message) from error
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        raise _uncompilable(str(error)) from error


def _invalid(path: Any, message: str) -> InvalidDefinition:
    at = _cut(json_path(path))
    return InvalidDefinition(
        f"the schema is not valid at {at}: {_cut(message)}",
        hint="See json-schema.org/draft/2020-12 for what is allowed there",
        path=at,
    )


def _uncompilable(message: str) -> InvalidDefinition:
    return InvalidDefinition(
        f"the schema cannot be compiled: {_cut(message)}",
        hint="Refer only to parts of the schema itself, as #/$defs/name",
        path="$",
    )


def _pattern_options(look_ahead: bool) -> Any:
    import jsonschema_rs

    return jsonschema_rs.FancyRegexOptions(_BACKTRACKS) if look_ahead else jsonschema_rs.RegexOptions()


_TIME = re.compile(r"((?:[\d-]+[Tt])?\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_DURATION = re.compile(r"-?P(?=\d|T\d)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.ASCII)
_LONGEST_MOMENT = 64


@cache
def _formats() -> dict[str, Callable[[str], bool]]:
    """Return the formats that tools write differently from RFC 3339: without an offset or seconds, or negative."""
    import jsonschema_rs

    def complete(name: str) -> Callable[[str], bool]:
        strict = jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid

        def fits(text: str) -> bool:
            if strict(text):
                return True
            match = _TIME.fullmatch(text) if len(text) <= _LONGEST_MOMENT else None
            return match is not None and strict(f"{match[1]}{match[2] or ':00'}{match[3] or 'Z'}")

        return fits

    def is_duration(text: str) -> bool:
        return len(text) <= _LONGEST_MOMENT and _DURATION.fullmatch(text) is not None

    return {"date-time": complete("date-time"), "time": complete("time"), "duration": is_duration}


def _never_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


Evaluated = tuple[frozenset[str] | None, frozenset[int] | None]
"""The properties and items of a value that a schema said something about; None for all of them."""
_NOTHING: Evaluated = (frozenset(), frozenset())
_Result = Evaluated | None
_Steps = Generator[tuple[Node, Any], _Result, _Result]


class Evaluation:
    """One check of one value, which remembers what was found about each part."""

    def __init__(self, graph: Graph) -> None:
        """Start with nothing known."""
        self._graph = graph
        self._known: dict[tuple[int, int], _Result] = {}
        self._names: dict[str, Node] = {}
        self._steps = 0

    def is_valid(self, value: Any) -> bool:
        """Return whether a value fits."""
        return self._evaluate(self._graph.root, value) is not None

    def first_fault(self, value: Any) -> Fault | None:
        """Return what is wrong with a value, at the deepest place to which only one way leads."""
        if self.is_valid(value):
            return None
        node, path = self._graph.root, list[str | int]()
        while True:
            part = next((one for one in self._parts(node, value) if self._evaluate(one[0], one[2]) is None), None)
            if part is None:
                word, reason = self._own_fault(node, value)
                return _fault(path, reason, [*node.path, *word])
            node, value = part[0], part[2]
            path.extend(part[1])

    def _evaluate(self, node: Node, value: Any) -> _Result:
        """Return what a node says about a value; with a stack of its own, as schemas may lead arbitrarily deep."""
        start = node.index, id(value)
        if start in self._known:
            return self._known[start]
        if not self._asserts(node, value):
            return None
        if node.simple:
            return _NOTHING
        stack = [(start, self._run(node, value))]
        under_way = {start}
        result: _Result = None
        while stack:
            key, steps = stack[-1]
            try:
                part, inside = steps.send(result)
            except StopIteration as done:
                self._known[key] = result = done.value
                under_way.discard(key)
                stack.pop()
                continue
            key = part.index, id(inside)
            if key in self._known:
                result = self._known[key]
                continue
            if key in under_way:
                raise _too_much()  # parts that lead back to themselves; new schemas cannot have them
            if not self._asserts(part, inside):
                result = self._known[key] = None
                continue
            if part.simple:
                result = self._known[key] = _NOTHING
                continue
            under_way.add(key)
            stack.append((key, self._run(part, inside)))
            result = None
        return result

    def _run(self, node: Node, value: Any) -> _Steps:
        """Evaluate the parts of a node whose assertions fit, giving out each part whose result it needs."""
        self._spend(1)
        if self._graph.tracks and isinstance(value, dict | list):
            self._spend(len(cast(Any, value)) // 8)  # what is evaluated is gathered at each part
        seen = _Seen()
        for part in (*node.refs, *node.all_of):
            if not seen.add((yield part, value)):
                return None
        for steps in self._stages(node, value, seen):
            if (yield from steps) is None:
                return None
        return seen.result(self._graph.tracks)

    def _stages(self, node: Node, value: Any, seen: _Seen) -> Iterator[_Steps]:
        """Return the steps after those of references: what is unevaluated comes last, when all else has been seen."""
        if isinstance(value, dict):
            yield self._run_properties(node, cast(Json, value), seen)
            if node.patterns or node.additional is not None or node.property_names is not None:
                yield self._run_other_properties(node, cast(Json, value), seen)
        elif isinstance(value, list | tuple):
            yield self._run_items(node, cast(list[Any], value), seen)
        if node.has_choices:
            yield self._run_alternatives(node, value, seen)
            yield self._run_conditions(node, value, seen)
        if node.has_unevaluated:
            yield self._run_unevaluated(node, value, seen)

    def _run_unevaluated(self, node: Node, value: Any, seen: _Seen) -> _Steps:
        if isinstance(value, dict) and node.unevaluated_properties is not None and seen.names is not None:
            fields = cast(Json, value)
            for name in fields.keys() - seen.names:
                if (yield node.unevaluated_properties, fields[name]) is None:
                    return None
            seen.names = None
        elif isinstance(value, list | tuple) and node.unevaluated_items is not None and seen.places is not None:
            for place, item in enumerate(cast(list[Any], value)):
                if place not in seen.places and (yield node.unevaluated_items, item) is None:
                    return None
            seen.places = None
        return _NOTHING

    def _run_alternatives(self, node: Node, value: Any, seen: _Seen) -> _Steps:
        tracks = self._graph.tracks
        if node.any_of:
            fits = False
            for part in node.any_of:
                fits = seen.add((yield part, value)) or fits
                if fits and not tracks:
                    break
            if not fits:
                return None
        if node.one_of:
            count = 0
            for part in node.one_of:
                count += seen.add((yield part, value))
                if count > 1:
                    return None
            if count == 0:
                return None
        if node.negated is not None and (yield node.negated, value) is not None:
            return None
        return _NOTHING

    def _run_conditions(self, node: Node, value: Any, seen: _Seen) -> _Steps:
        if node.tests is not None:
            test, then, otherwise = node.tests
            holds = test is None or seen.add((yield test, value))
            part = then if holds else otherwise
            if part is not None and not seen.add((yield part, value)):
                return None
        if isinstance(value, dict):
            for name, parts in node.dependent.items():
                for part in parts if name in value else ():
                    if not seen.add((yield part, value)):
                        return None
        return _NOTHING

    def _run_properties(self, node: Node, fields: Json, seen: _Seen) -> _Steps:
        named = node.properties
        self._spend(min(len(named), len(fields)) // 4)
        both = [name for name in named if name in fields] if len(named) < len(fields) else [*filter(named.get, fields)]
        # The simple ones first: the field that distinguishes alternatives is one of them.
        for name in both:
            if named[name].simple and not self._asserts(named[name], fields[name]):
                return None
        for name in both:
            if not named[name].simple and (yield named[name], fields[name]) is None:
                return None
        seen.note_names(both)
        return _NOTHING

    def _run_other_properties(self, node: Node, fields: Json, seen: _Seen) -> _Steps:
        for name, item in fields.items():
            parts = self._others(node, name)
            for part in parts:
                if (yield part, item) is None:
                    return None
            if parts:
                seen.note_names((name,))
            if node.property_names is not None and (yield node.property_names, name) is None:
                return None
        return _NOTHING

    def _others(self, node: Node, name: str) -> list[Node]:
        """Return the parts about a property that do not name it."""
        self._spend(1)
        parts = [part for pattern, part in node.patterns if self._matches(pattern, name)]
        if not parts and node.additional is not None and name not in node.properties:
            parts = [node.additional]
        return parts

    def _run_items(self, node: Node, items: list[Any], seen: _Seen) -> _Steps:
        for part, item in zip(node.prefix, items, strict=False):
            if (yield part, item) is None:
                return None
        seen.note_places(range(min(len(node.prefix), len(items))))
        if node.items is not None:
            for item in items[len(node.prefix) :]:
                if node.items.simple:
                    if not self._asserts(node.items, item):
                        return None
                elif (yield node.items, item) is None:
                    return None
            seen.note_places(range(len(items)))
        if node.contains is not None:
            least = node.schema.get("minContains", 1)
            most = node.schema.get("maxContains", len(items))
            found: list[int] = []
            for place, item in enumerate(items):
                if (yield node.contains, item) is not None:
                    found.append(place)
            if not least <= len(found) <= most:
                return None
            seen.note_places(found)
        return _NOTHING

    def _asserts(self, node: Node, value: Any) -> bool:
        """Return whether a value satisfies the assertions of a node, without its parts."""
        self._spend(1)
        given = node.assertions
        if not given:
            return node.schema is not False
        if isinstance(value, dict | list | tuple):
            return self._asserts_of_container(node, cast(Any, value))
        if isinstance(value, str):
            weight = 1
            if "pattern" in given:
                weight = pattern_weight(given["pattern"]) or len(value)
            self._spend(len(value) * weight // 64)
        return _native(node).is_valid(value)

    def _asserts_of_container(self, node: Node, value: Any) -> bool:
        given, size = node.assertions, len(value)
        is_object = isinstance(value, dict)
        kinds = given.get("type")
        if kinds is not None and ("object" if is_object else "array") not in (
            (kinds,) if isinstance(kinds, str) else kinds
        ):
            return False
        least, most = ("minProperties", "maxProperties") if is_object else ("minItems", "maxItems")
        if not given.get(least, 0) <= size <= given.get(most, size):
            return False
        if is_object:
            required = given.get("required", ())
            self._spend(len(required) // 8)
            if not all(name in value for name in required):
                return False
            for word in ("dependentRequired", "dependencies"):
                for name, others in given.get(word, {}).items():
                    if name in value and not all(other in value for other in others):
                        return False
        if "enum" in given or "const" in given or given.get("uniqueItems"):
            # The library compares with one option after the other, and reads the whole value first.
            self._spend(measure(value)[0] + comparisons(node))
            return _native(node).is_valid(value)
        return True

    def _matches(self, pattern: str, name: str) -> bool:
        self._spend(1 + len(name) * (pattern_weight(pattern) or len(name)) // 64)
        node = self._names.get(pattern)
        if node is None:
            node = self._names[pattern] = Node({}, (), 0)
            node.assertions = {"pattern": pattern}
        return _native(node).is_valid(name)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _STEPS:
            raise _too_much()

    def _parts(self, node: Node, value: Any) -> Iterator[tuple[Node, tuple[str | int, ...], Any]]:
        """Return the parts that must fit so that the whole does, with the place in the value that each is about."""
        for part in (*node.refs, *node.all_of):
            yield part, (), value
        if node.tests is not None:
            test, then, otherwise = node.tests
            part = then if test is None or self._evaluate(test, value) is not None else otherwise
            if part is not None:
                yield part, (), value
        if isinstance(value, dict):
            yield from self._parts_of_object(node, cast(Json, value))
        elif isinstance(value, list | tuple):
            for place, item in enumerate(cast(list[Any], value)):
                part = node.prefix[place] if place < len(node.prefix) else node.items
                if part is not None:
                    yield part, (place,), item

    def _parts_of_object(self, node: Node, fields: Json) -> Iterator[tuple[Node, tuple[str | int, ...], Any]]:
        for name, parts in node.dependent.items():
            for part in parts if name in fields else ():
                yield part, (), fields
        for name, part in node.properties.items():
            if name in fields:
                yield part, (name,), fields[name]
        for name, item in fields.items():
            for part in self._others(node, name):
                if part is not node.additional or part.schema is not False:  # one message names all of them
                    yield part, (name,), item
            if node.property_names is not None:
                yield node.property_names, (), name

    def _own_fault(self, node: Node, value: Any) -> tuple[tuple[str, ...], str]:
        """Return the word of a node that a value does not fit, and why, where all parts that must fit do."""
        if node.schema is False:
            return (), f"False schema does not allow {_show(value)}"
        if not self._asserts(node, value):
            error = next(iter(_native(node).iter_errors(value)))
            return tuple(error.schema_path), _message(error)
        if isinstance(value, dict) and node.additional is not None and node.additional.schema is False:
            extra = [name for name in cast(Json, value) if node.additional in self._others(node, name)]
            if extra:
                return ("additionalProperties",), f"Additional properties are not allowed ({_name_unexpected(extra)})"
        for word, parts in (("anyOf", node.any_of), ("oneOf", node.one_of)):
            fits = sum(self._evaluate(part, value) is not None for part in parts)
            if parts and (fits == 0 or (fits > 1 and word == "oneOf")):
                what = "not valid under any" if fits == 0 else "valid under more than one"
                return (word,), f"{_show(value)} is {what} of the schemas listed in the '{word}' keyword"
        if node.negated is not None and self._evaluate(node.negated, value) is not None:
            return ("not",), f"{_show(node.negated.schema)} is not allowed for {_show(value)}"
        if isinstance(value, dict) and node.unevaluated_properties is not None:
            return ("unevaluatedProperties",), "Unevaluated properties are not allowed"
        if node.contains is not None:
            return ("contains",), f"None, or too many, of {_show(value)} are valid under the given schema"
        return ("unevaluatedItems",), "Unevaluated items are not allowed"


class _Seen:
    """The properties and items that were evaluated so far; None for all of them."""

    __slots__ = ("names", "places")

    def __init__(self) -> None:
        self.names: set[str] | None = set()
        self.places: set[int] | None = set()

    def add(self, found: _Result) -> bool:
        """Add what a part evaluated, and return whether it fits."""
        if found is None:
            return False
        if found is not _NOTHING:
            self.names = None if self.names is None or found[0] is None else self.names | found[0]
            self.places = None if self.places is None or found[1] is None else self.places | found[1]
        return True

    def note_names(self, names: Iterable[str]) -> None:
        if self.names is not None:
            self.names.update(names)

    def note_places(self, places: Iterable[int]) -> None:
        if self.places is not None:
            self.places.update(places)

    def result(self, tracks: bool) -> Evaluated:
        if not tracks:
            return _NOTHING
        return (
            None if self.names is None else frozenset(self.names),
            None if self.places is None else frozenset(self.places),
        )


def _native(node: Node) -> Any:
    """Return what checks the assertions of a node without its parts, compiled by the library once."""
    if node.native is None:
        import jsonschema_rs

        pattern = node.assertions.get("pattern")
        options = _pattern_options(isinstance(pattern, str) and looks_ahead(pattern))
        node.native = jsonschema_rs.validator_for(
            node.assertions, validate_formats=True, formats=_formats(), pattern_options=options
        )
    return node.native


def _show(value: Any) -> str:
    """Return a value as JSON, shortened without writing all of it first."""
    if isinstance(value, dict | list | tuple) and measure(cast(Any, value))[0] > _SHOWN:
        return "the object" if isinstance(value, dict) else "the list"
    return encode(value).decode()


def _name_unexpected(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:8]) + (" was" if len(names) == 1 else " were") + " unexpected"
