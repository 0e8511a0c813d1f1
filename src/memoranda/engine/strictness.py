"""Strict objects: a schema that lists properties refuses the others, unless it says otherwise.

JSON schemas are open by default. What is said about one place of a value may be spread over several parts of a schema
(`allOf`, `anyOf`, `if`, `$ref`…). Closing each part alone would make the parts refuse each other's properties, so a
place is closed as a whole, by `unevaluatedProperties`, and by the simpler `additionalProperties` wherever that means
the same. Closing only ever refuses properties that no part names; what is merely tested (`if`, `not`, `contains`) is
left as it is, because closing it would turn the test around.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, cast

from memoranda.engine.schema_graph import Graph, Json, Node
from memoranda.engine.validator import json_path
from memoranda.errors import InvalidDefinition
from memoranda.model.value import encode

_MOST_STEPS = 200_000
"""Parts of places that are looked at: far more than any schema that was not made to be long."""
_EXPLICIT = ("additionalProperties", "unevaluatedProperties")

_Branch = tuple[tuple[int, int], ...]
"""Which alternative was taken of which part, on the way to a part."""


def close_objects(graph: Graph) -> None:
    """Close every object of a schema that lists its properties and does not say whether others are allowed."""
    _Closing(graph).run()


class _Place:
    """What a schema says about one place of a value: the parts that are put together there."""

    def __init__(self, node: Node, parts: list[tuple[Node, _Branch]], tests: list[Node]) -> None:
        self.node = node
        self.parts = parts
        self.listers = list({part.index: part for part, _ in parts if "properties" in part.schema}.values())
        self.names = {name for part in self.listers for name in part.properties}
        self.others = [
            part for part, _ in parts if any(word in part.schema for word in (*_EXPLICIT, "patternProperties"))
        ]
        """The parts that speak about properties without naming them."""
        wanted = {name for part, _ in parts for name in _names_required(part)}
        wanted.update(name for part in tests for name in part.properties)
        self.unlisted = sorted(wanted - self.names)
        """Names that a part needs or tests, and none lists."""
        self.rivals: list[_Place] = []
        """Other places of the schema that speak about the same place of the value."""

    def is_explicit(self) -> bool:
        """Return whether the schema itself says what else is allowed."""
        return any(word in self.node.schema for word in _EXPLICIT)

    def is_covered(self) -> bool:
        """Return whether it names all that its rivals speak about."""
        return all(rival.names <= self.names and set(rival.others) <= set(self.others) for rival in self.rivals)

    def is_closed_by_parts(self) -> bool:
        """Return whether closing each part that lists properties closes the whole, and refuses nothing else."""
        by_itself = len(self.listers) == 1 or _are_told_apart(self.listers)
        return by_itself and set(self.others) <= set(self.listers)


class _Closing:
    def __init__(self, graph: Graph) -> None:
        self._steps = 0
        self._tested = {node.index for node in _reachable(chain.from_iterable(_tests(node) for node in graph.nodes))}
        nodes = [node for node in graph.nodes if node.index not in self._tested]
        inside = chain.from_iterable(_places_inside(node) for node in nodes)
        wholes = {node.index: node for node in (graph.root, *inside) if isinstance(node.schema, dict)}
        self._places = {index: self._place(node) for index, node in wholes.items() if index not in self._tested}

    def run(self) -> None:
        self._find_rivals()
        closed = [
            place for place in self._places.values() if place.listers and not place.is_explicit() and place.is_covered()
        ]
        alone = self._parts_to_close(closed)
        for place in closed:
            if all(part.index in alone or any(word in part.schema for word in _EXPLICIT) for part in place.listers):
                continue
            _close(place.node, "unevaluatedProperties", place.unlisted)
        for part, unlisted in alone.values():
            _close(part, "additionalProperties", sorted(unlisted))

    def _place(self, node: Node) -> _Place:
        parts: list[tuple[Node, _Branch]] = []
        tests: list[Node] = []
        waiting: list[tuple[Node, _Branch]] = [(node, ())]
        while waiting:
            part, branch = waiting.pop()
            self._spend(part)
            if not isinstance(part.schema, dict):
                continue
            parts.append((part, branch))
            waiting.extend((one, branch) for one in (*part.refs, *part.all_of))
            waiting.extend((one, branch) for some in part.dependent.values() for one in some)
            for at, one in enumerate((*part.any_of, *part.one_of)):
                of_any = at < len(part.any_of)
                waiting.append((one, (*branch, (2 * part.index + of_any, at))))
            if part.tests is not None:
                test, *outcomes = part.tests
                tests.extend(_reachable_parts(test) if test is not None else ())
                waiting.extend((one, (*branch, (-part.index, at))) for at, one in enumerate(outcomes) if one)
        return _Place(node, parts, tests)

    def _find_rivals(self) -> None:
        """Find the places that speak about the same place of a value, because their wholes do, or refer to them."""
        for place in self._places.values():
            for part, _ in place.parts:
                if part is not place.node and part.index in self._places:
                    self._places[part.index].rivals.append(place)
        waiting = [(place, place) for place in self._places.values() if len(place.parts) > 1]
        known: set[tuple[int, int]] = set()
        while waiting:
            one, other = waiting.pop()
            for a, b in self._common(one, other):
                key = (min(a.index, b.index), max(a.index, b.index))
                if a is b or key in known or not {a.index, b.index} <= self._places.keys():
                    continue
                known.add(key)
                self._spend(a)
                first, second = self._places[a.index], self._places[b.index]
                first.rivals.append(second)
                second.rivals.append(first)
                waiting.append((first, second))

    def _common(self, one: _Place, other: _Place) -> Iterator[tuple[Node, Node]]:
        """Return the parts of two wholes that are about the same property or item, and may apply together."""
        theirs: defaultdict[str | None, list[tuple[Node, _Branch]]] = defaultdict(list)
        for part, branch in other.parts:
            for name, inside in _inside(part):
                theirs[name].append((inside, branch))
        for part, branch in one.parts:
            for name, inside in _inside(part):
                for rival, branch_of_rival in theirs.get(name, ()):
                    self._spend(inside)
                    if one is not other or not _are_exclusive(branch, branch_of_rival):
                        yield inside, rival

    def _parts_to_close(self, closed: list[_Place]) -> dict[int, tuple[Node, set[str]]]:
        """Return the parts that can be closed by themselves, wherever they are used, with names to list as well."""
        refused = set(self._tested)
        uses: dict[int, tuple[Node, set[str]]] = {}
        to_close = {place.node.index for place in closed}
        for place in self._places.values():
            by_itself = place.node.index in to_close and place.is_closed_by_parts()
            for part in place.listers:
                if not by_itself or any(word in part.schema for word in _EXPLICIT):
                    refused.add(part.index)
                uses.setdefault(part.index, (part, set()))[1].update(place.unlisted)
        return {index: use for index, use in uses.items() if index not in refused}

    def _spend(self, node: Node) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise InvalidDefinition(
                f"the schema has too many parts about the same values, such as the one at {json_path(node.path)}",
                hint="Say `additionalProperties` where they are put together, or refer less often to the same part",
                path=json_path(node.path),
            )


def _close(node: Node, word: str, unlisted: list[str]) -> None:
    schema: Json = node.schema
    if unlisted:
        schema["properties"] = {**schema.get("properties", {}), **{name: {} for name in unlisted}}
    schema[word] = False


def _tests(node: Node) -> Iterator[Node]:
    """Return the parts that a value need not fit."""
    found = (node.negated, node.contains, node.property_names, node.tests[0] if node.tests else None)
    return (part for part in found if part is not None)


def _reachable(nodes: Iterable[Node]) -> list[Node]:
    found: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.index not in found:
            found[node.index] = node
            waiting.extend((*node.about_the_same(), *node.inside()))
    return list(found.values())


def _reachable_parts(node: Node) -> list[Node]:
    """Return a part, and those about the same value."""
    found: dict[int, Node] = {}
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part.index not in found:
            found[part.index] = part
            waiting.extend(part.about_the_same())
    return list(found.values())


def _places_inside(node: Node) -> Iterator[Node]:
    tested = {part.index for part in _tests(node)}
    return (part for part in node.inside() if part.index not in tested)


def _inside(part: Node) -> Iterator[tuple[str | None, Node]]:
    """Return what a part says about its properties by name, and about its items, which have none."""
    yield from part.properties.items()
    yield from ((None, one) for one in (*part.prefix, part.items) if one is not None)


def _names_required(part: Node) -> Iterator[str]:
    given = part.assertions
    yield from cast("list[str]", given.get("required", ()))
    for name, others in cast(Json, given.get("dependentRequired", {})).items():
        yield from (name, *others)


def _are_exclusive(one: _Branch, other: _Branch) -> bool:
    """Return whether two parts are in different alternatives, so that no value has to fit both."""
    taken = dict(one)
    return any(taken.get(part, alternative) != alternative for part, alternative in other)


def _are_told_apart(parts: list[Node]) -> bool:
    """Return whether no value can fit two of these parts, because each requires another constant in one property."""
    tags = [_constants(part) for part in parts]
    shared = set(tags[0]).intersection(*tags[1:])
    for name in shared:
        each = [tag[name] for tag in tags]
        if sum(map(len, each)) == len(set[bytes]().union(*each)):
            return True
    return False


def _constants(part: Node) -> dict[str, set[bytes]]:
    """Return the constants that required properties are limited to."""
    found: dict[str, set[bytes]] = {}
    for name in cast("list[str]", part.assertions.get("required", ())):
        given = part.properties[name].assertions if name in part.properties else {}
        options: Any = [given["const"]] if "const" in given else given.get("enum", ())
        if options and all(isinstance(one, str) for one in options):
            found[name] = {encode(one) for one in options}
    return found
