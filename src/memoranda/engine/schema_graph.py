"""The parts of a JSON schema with their references resolved, and how much work they can make.

The library that checks values may look at the same part of a value once for every way through the schema that leads
there. With references those ways multiply: by depth, if the schema is recursive. `Graph.bound` is an upper limit of
that work, so that only schemas and values that are sure to be quick are given to the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, cast
from urllib.parse import unquote, urldefrag, urljoin

from memoranda.model.definition import at_pointer, steps_of

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNBOUNDED = 10**9
"""Counts stop growing here."""
_LEVELS = 64
_FORMAT_WEIGHT = 4
_BYTES_PER_UNIT = 64
"""Characters of a text that take as long to look at as one small check."""

_ASSERTIONS = frozenset(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern format "
    "maxItems minItems uniqueItems maxProperties minProperties required dependentRequired".split()
)

# Where schemas occur inside a schema.
WORDS_OF_ONE = frozenset(
    "additionalItems additionalProperties contains contentSchema else if items not propertyNames then "
    "unevaluatedItems unevaluatedProperties".split()
)
WORDS_OF_LISTS = frozenset("allOf anyOf items oneOf prefixItems".split())
WORDS_BY_NAME = frozenset("$defs definitions dependencies dependentSchemas patternProperties properties".split())


class Node:
    """One schema inside a schema, with the others that it applies."""

    __slots__ = (
        "additional", "all_of", "any_of", "assertions", "contains", "dependent", "has_choices", "has_unevaluated",
        "index", "items", "native", "negated", "one_of", "opaque", "path", "patterns", "prefix", "properties",
        "property_names", "refs", "schema", "simple", "tests", "unevaluated_items", "unevaluated_properties",
    )  # fmt: skip

    def __init__(self, schema: Any, path: tuple[str | int, ...], index: int) -> None:
        """Start with no parts; `Graph` adds them."""
        self.schema = schema
        self.path = path
        self.index = index
        self.assertions: Json = {}
        self.opaque = False
        """Refers to what is not in the schema, such as a schema of schemas that the library has built in."""
        self.refs: list[Node] = []
        self.all_of: list[Node] = []
        self.any_of: list[Node] = []
        self.one_of: list[Node] = []
        self.negated: Node | None = None
        self.tests: tuple[Node | None, Node | None, Node | None] | None = None
        """`if`, `then` and `else`."""
        self.dependent: dict[str, list[Node]] = {}
        self.properties: dict[str, Node] = {}
        self.patterns: list[tuple[str, Node]] = []
        self.additional: Node | None = None
        self.property_names: Node | None = None
        self.prefix: list[Node] = []
        self.items: Node | None = None
        self.contains: Node | None = None
        self.unevaluated_properties: Node | None = None
        self.unevaluated_items: Node | None = None
        self.has_choices = False
        """Whether it has parts about the same value that may or may not apply."""
        self.has_unevaluated = False
        self.simple = False
        """Whether it has no parts, only assertions."""
        self.native: Any = None
        """What the library compiled of its assertions, once that was needed."""

    def conditional(self) -> Iterator[Node]:
        """Return the parts about the same value that may or may not apply."""
        yield from self.any_of
        yield from self.one_of
        if self.tests is not None and self.tests[0] is not None:
            yield self.tests[0]

    def about_the_same(self) -> Iterator[Node]:
        """Return all parts about the same value."""
        yield from self.refs
        yield from self.all_of
        yield from self.conditional()
        if self.negated is not None:
            yield self.negated
        for parts in self.dependent.values():
            yield from parts
        for part in self.tests[1:] if self.tests is not None else ():
            if part is not None:
                yield part

    def inside(self) -> Iterator[Node]:
        """Return the parts about what is inside the value."""
        yield from self.properties.values()
        yield from (part for _, part in self.patterns)
        yield from self.prefix
        for part in (
            self.additional,
            self.property_names,
            self.items,
            self.contains,
            self.unevaluated_properties,
            self.unevaluated_items,
        ):
            if part is not None:
                yield part


class Graph:
    """All parts of a schema that a check can reach."""

    def __init__(self, schema: Any, *, formats: bool = True) -> None:
        """Resolve a schema that must not change later; without `formats`, formats are ignored."""
        self._words = _ASSERTIONS if formats else _ASSERTIONS - {"format"}
        self.nodes: list[Node] = []
        self.unresolved: tuple[Node, str, str] | None = None
        """A part, its word and its reference that leads nowhere inside the schema."""
        self.exact = isinstance(schema, bool) or cast(Json, schema).get("$schema", DIALECT) == DIALECT
        """Whether `Evaluation` understands every word of it; it knows the present dialect only."""
        self.backtracks = False
        """Whether a pattern needs an engine that backtracks, for which no limit in proportion to a text exists."""
        self.looks_ahead = False
        """Whether a pattern needs an engine that understands look-ahead."""
        self._known: dict[int, Node] = {}
        self.resources = Resources(schema)
        self.root = self._node(schema, ())
        done = 0
        while done < len(self.nodes):  # which grows meanwhile
            self._fill(self.nodes[done])
            done += 1
        for node in self.nodes:
            parts = (*node.about_the_same(), *node.inside())
            node.simple = not parts and not node.opaque
            node.has_choices = len([*node.about_the_same()]) > len(node.refs) + len(node.all_of)
        self.tracks = any(node.has_unevaluated for node in self.nodes)
        self.order, self.cycle = self._in_order()
        """Parts before wholes; and a part that leads back to itself without going deeper into the value, or None."""

    def bound(self, depth: int) -> int:
        """Return a limit of the checks of any one place in a value of this depth, in units of one small check."""
        if self.cycle is not None:
            return UNBOUNDED
        return self.levels[min(depth, len(self.levels) - 1)]

    def counts(self) -> dict[Node, int]:
        """Return how many parts say something about one value, counted as often as references lead to them."""
        counts: dict[Node, int] = {}
        for node in self.order:
            counts[node] = min(1 + sum(counts[part] for part in node.about_the_same()), UNBOUNDED)
        return counts

    def _node(self, schema: Any, path: tuple[str | int, ...]) -> Node:
        known = self._known.get(id(schema))
        if known is None:
            known = Node(schema, path, len(self.nodes))
            self.nodes.append(known)
            if not isinstance(schema, bool):  # each `true` is the same object, wherever it is written
                self._known[id(schema)] = known
        return known

    def _fill(self, node: Node) -> None:
        if isinstance(node.schema, bool):
            return
        given: Json = node.schema
        if node.path and "$schema" in given:
            self.exact = False  # an inner schema may be of another dialect

        def one(word: str) -> Node | None:
            return self._node(given[word], (*node.path, word)) if _is_schema(given.get(word)) else None

        def several(word: str) -> list[Node]:
            listed = given.get(word)
            if not isinstance(listed, list):
                return []
            return [self._node(part, (*node.path, word, at)) for at, part in enumerate(cast(list[Any], listed))]

        def by_name(word: str) -> dict[str, Node]:
            listed = given.get(word)
            if not isinstance(listed, dict):
                return {}
            return {
                name: self._node(part, (*node.path, word, name))
                for name, part in cast(Json, listed).items()
                if _is_schema(part)
            }

        self._refer(node, given)
        node.all_of, node.any_of, node.one_of = several("allOf"), several("anyOf"), several("oneOf")
        node.negated = one("not")
        if "if" in given:
            node.tests = one("if"), one("then"), one("else")
        for word in ("dependentSchemas", "dependencies"):
            for name, part in by_name(word).items():
                node.dependent.setdefault(name, []).append(part)
        node.properties = by_name("properties")
        node.patterns = list(by_name("patternProperties").items())
        self._assert(node, given)
        node.additional, node.property_names = one("additionalProperties"), one("propertyNames")
        node.prefix, node.items, node.contains = several("prefixItems"), one("items"), one("contains")
        if not node.prefix and isinstance(given.get("items"), list):  # as drafts before this one write it
            node.prefix, node.items = several("items"), one("additionalItems")
        node.unevaluated_properties = one("unevaluatedProperties")
        node.unevaluated_items = one("unevaluatedItems")
        node.has_unevaluated = node.unevaluated_properties is not None or node.unevaluated_items is not None

    def _assert(self, node: Node, given: Json) -> None:
        node.assertions = {word: part for word, part in given.items() if word in self._words}
        if isinstance(given.get("dependencies"), dict):
            listed = cast(Json, given["dependencies"])
            node.assertions["dependencies"] = {name: part for name, part in listed.items() if isinstance(part, list)}
        own = given.get("pattern")
        patterns = [own] if isinstance(own, str) else []
        patterns += [pattern for pattern, _ in node.patterns]
        self.backtracks = self.backtracks or any(pattern_weight(pattern) is None for pattern in patterns)
        self.looks_ahead = self.looks_ahead or any(map(looks_ahead, patterns))

    def _refer(self, node: Node, given: Json) -> None:
        words = ("$ref", "$dynamicRef") if self.exact else ("$ref", "$dynamicRef", "$recursiveRef")
        for word in words:
            reference = given.get(word)
            if not isinstance(reference, str):
                continue
            if word == "$dynamicRef" and self.resources.are_several:
                self.exact = False  # where it leads depends on the way that led here: count every place that it may
                targets = self.resources.dynamic(reference)
            else:
                targets = [self.resources.find(given, reference)]
            for target in targets:
                if _is_schema(target):
                    node.refs.append(self._node(target, self.resources.path(target)))
                    continue
                self.unresolved = self.unresolved or (node, word, reference)
                if not reference.startswith("#"):
                    node.opaque, self.exact = True, False

    def _in_order(self) -> tuple[list[Node], Node | None]:
        order: list[Node] = []
        entered: dict[Node, bool] = {}  # False once all its parts are in order
        for start in self.nodes:
            waiting = [(start, False)]
            while waiting:
                node, parts_done = waiting.pop()
                if parts_done:
                    entered[node] = False
                    order.append(node)
                elif node not in entered:
                    entered[node] = True
                    waiting.append((node, True))
                    for part in node.about_the_same():
                        if entered.get(part):
                            return order, part
                        waiting.append((part, False))
        return order, None

    @cached_property
    def heaviest(self) -> int:
        """The most work of any part at one place."""
        return UNBOUNDED if self.cycle is not None else max(self._first_level[0])

    @cached_property
    def _first_level(self) -> tuple[list[int], list[int]]:
        return self._work(_weight, lambda node: 0)

    @cached_property
    def levels(self) -> list[int]:
        """The most work at one place of a value, by how deep the place is, each at least as the one before.

        Exact for a checker without memory: what is done at a place is what each part that is about it does itself.
        """
        if self.cycle is not None:
            return [UNBOUNDED]
        whole, extra = self._first_level
        levels = [whole[self.root.index]]
        for _ in range(_LEVELS):
            before = whole, extra
            whole, extra = self._work(lambda node: 1000 if node.opaque else 0, _deeper(whole))
            levels.append(max(levels[-1], whole[self.root.index]))
            if (whole, extra) == before or levels[-1] >= UNBOUNDED:
                return levels
        return [*levels, UNBOUNDED]

    def _work(self, own: Callable[[Node], int], deeper: Callable[[Node], int]) -> tuple[list[int], list[int]]:
        """Return what each part does at one place, and what finding its evaluated properties there does once more.

        The library finds them by checking again whatever may or may not apply, and each whole that has
        `unevaluatedProperties` or `unevaluatedItems` asks anew.
        """
        whole, extra = [0] * len(self.nodes), [0] * len(self.nodes)
        for node in self.order:
            again = sum(2 * whole[part.index] for part in node.conditional())
            again += sum(extra[part.index] for part in node.about_the_same())
            work = own(node) + deeper(node) + sum(whole[part.index] for part in node.about_the_same())
            extra[node.index] = min(again, UNBOUNDED)
            whole[node.index] = min(work + (again if node.has_unevaluated else 0), UNBOUNDED)
        return whole, extra


def _deeper(whole: list[int]) -> Callable[[Node], int]:
    """Return what a part does one step deeper into the value than where each part does as much as `whole` says."""

    def work(part: Node | None) -> int:
        return 0 if part is None else whole[part.index]

    def deeper(node: Node) -> int:
        fields = max((whole[part.index] for part in node.properties.values()), default=0)
        fields = max(fields, work(node.additional)) + work(node.property_names) + work(node.unevaluated_properties)
        fields += sum(whole[part.index] for _, part in node.patterns)
        items = max(max((whole[part.index] for part in node.prefix), default=0), work(node.items))
        # What is contained is looked for once more to say what is evaluated.
        items += 2 * work(node.contains) + work(node.unevaluated_items)
        return max(fields, items)

    return deeper


def _weight(node: Node) -> int:
    """Return what a part does itself with a small value, in units of one small check."""
    if not isinstance(node.schema, dict):
        return 1
    given = node.assertions
    weight = 1000 if node.opaque else 1
    names = len(node.properties) + len(given.get("required", ())) + len(given.get("dependentRequired", ()))
    weight += (names + len(node.dependent)) // 8
    for pattern in (given.get("pattern"), *(pattern for pattern, _ in node.patterns)):
        if isinstance(pattern, str):
            weight += pattern_weight(pattern) or 1000
    if "format" in given:
        weight += _FORMAT_WEIGHT
    return weight + comparisons(node)


def comparisons(node: Node) -> int:
    """Return the work of comparing a value with each option that is an object or a list; others are looked up."""
    options = node.assertions.get("enum", ())
    return 2 * sum(measure(one)[0] for one in cast(list[Any], options) if isinstance(one, dict | list))


_SMALL_PROGRAM, _LARGE_PROGRAM = 100_000, 2_000_000


def pattern_weight(pattern: str) -> int | None:
    """Return how much work a pattern makes, at most, for each piece of a text; None for one that may backtrack.

    Look-ahead at the beginning of a text is as much work as its pieces, one after the other.
    """
    if not looks_ahead(pattern):
        return _linear_weight(pattern)
    if pattern in _KNOWN_TO_BE_LINEAR:
        return _LARGE_WEIGHT
    weights = [_linear_weight(piece) for piece in _pieces(pattern)]
    return sum(weight or 0 for weight in weights) if weights and None not in weights else None


def looks_ahead(pattern: str) -> bool:
    """Return whether a pattern is not for the engine that never backtracks."""
    return _linear_weight(pattern) is None


_KNOWN_TO_BE_LINEAR = frozenset(
    (
        # `z.iso.duration()` of Zod: its look-ahead is short, or done once.
        r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$",
    )
)
_MOST_LOOK_AHEADS = 16
_SMALL_WEIGHT, _LARGE_WEIGHT = 4, 40


@lru_cache(maxsize=4_096)
def _linear_weight(pattern: str) -> int | None:
    """Return the weight of a pattern for the engine that never backtracks; None where it does not understand it.

    What that engine does for a character is in proportion to the size of the pattern, as compiled. It understands
    neither look-around nor references to what was matched before.
    """
    import jsonschema_rs  # here, because its import takes a third of ours and most programs define nothing

    for size, weight in ((_SMALL_PROGRAM, _SMALL_WEIGHT), (_LARGE_PROGRAM, _LARGE_WEIGHT)):
        try:
            jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(size))
        except (jsonschema_rs.ValidationError, ValueError):
            continue
        return weight
    return None


def _pieces(pattern: str) -> list[str]:
    """Return what `^(?!a)(?=b)c` is made of, as `^(?:a)`, `^(?:b)` and `^c`; nothing for any other form.

    Each piece is matched once, from the beginning of the text. After a `|`, the rest would not be.
    """
    pieces: list[str] = []
    at = 1
    while pattern.startswith("^") and pattern.startswith(("(?=", "(?!"), at) and len(pieces) < _MOST_LOOK_AHEADS:
        end = _end_of_group(pattern, at)
        pieces.append(f"^(?:{pattern[at + 3 : end]})")
        at = end + 1
    rest = pattern[at:]
    return [*pieces, f"^{rest}"] if pieces and rest[:1] not in "*+?{" and not _has_choice(rest) else []


def _end_of_group(pattern: str, start: int) -> int:
    """Return where the group that begins here is closed; the end of the pattern if it is not."""
    depth = 0
    for at, sign in _signs(pattern, start):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at
    return len(pattern)


def _has_choice(pattern: str) -> bool:
    """Return whether a pattern has a `|` outside its groups."""
    depth = 0
    for _, sign in _signs(pattern, 0):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            return True
    return False


def _signs(pattern: str, start: int) -> Iterator[tuple[int, str]]:
    """Return the characters of a pattern that are neither escaped nor in brackets."""
    at, in_brackets = start, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif in_brackets:
            in_brackets = sign != "]"
        elif sign == "[":
            in_brackets = True
        else:
            yield at, sign
        at += 1


def measure(value: Any) -> tuple[int, int]:
    """Return the size of a value, in units of one small check of each place, and its depth."""
    size, depth = 0, 0
    level: list[Any] = [value]
    while level:
        size += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                fields = cast(Json, one)
                size += sum(map(len, fields)) // _BYTES_PER_UNIT
                below.extend(fields.values())
            elif isinstance(one, list | tuple):
                below.extend(cast(list[Any], one))
            elif isinstance(one, str):
                size += len(one) // _BYTES_PER_UNIT
        depth += 1
        level = below
    return size, depth


class Resources:
    """Where references lead: each schema with an `$id` of its own is a place that they start from."""

    def __init__(self, schema: Any) -> None:
        """Look through a schema that must not change later."""
        self._home: dict[int, tuple[str, Any]] = {}
        self._paths: dict[int, tuple[str | int, ...]] = {}
        self._roots: dict[str, Any] = {"": schema}
        self._anchors: dict[tuple[str, str], Any] = {}
        self.is_dynamic = False
        """Whether a reference depends on the way that led to it."""
        self.refers_by_name = False
        """Whether a reference names a resource."""
        self._enter(schema, "", schema, ())
        self.are_several = len({id(root) for root in self._roots.values()}) > 1

    def _enter(self, schema: Any, base: str, root: Any, path: tuple[str | int, ...]) -> None:
        waiting: list[tuple[Any, str, Any, tuple[str | int, ...]]] = [(schema, base, root, path)]
        while waiting:
            node, base, root, path = waiting.pop()
            if not isinstance(node, dict):
                continue
            given = cast(Json, node)
            identity = given.get("$id")
            if isinstance(identity, str) and not identity.startswith("#"):
                base, root = _absolute(base, identity), given
                self._roots[base] = given
            self._home[id(given)] = base, root
            self._paths[id(given)] = path
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(given.get(word), str):
                    self._anchors.setdefault((base, given[word]), given)
            self.is_dynamic = self.is_dynamic or "$dynamicRef" in given or "$recursiveRef" in given
            reference = given.get("$ref")
            self.refers_by_name = self.refers_by_name or (isinstance(reference, str) and not reference.startswith("#"))
            waiting.extend((part, base, root, (*path, *steps)) for steps, part in schemas_inside(given))

    def path(self, schema: Any) -> tuple[str | int, ...]:
        """Return where a schema is written."""
        return self._paths.get(id(schema), ())

    def find(self, node: Json, reference: str) -> Any:
        """Return what a reference inside a node leads to; None where it leads nowhere inside the schema."""
        return self.locate(node, reference)[0]

    def locate(self, node: Json, reference: str) -> tuple[Any, tuple[str | int, ...]]:
        """Return what a reference inside a node leads to, and where that is written."""
        base, root = self._home[id(node)]
        start, fragment = urldefrag(reference)
        if start:
            base = _absolute(base, start)
            root = self._roots.get(base)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            marked = self._anchors.get((base, fragment))
            return marked, self.path(marked)
        found: Any = at_pointer(root, fragment)
        path = (*self.path(root), *steps_of(fragment))
        if isinstance(found, dict) and id(cast(Json, found)) not in self._home:
            self._enter(found, base, root, path)  # below a word of the author, such as `components`
        return cast(Any, found), path

    def dynamic(self, reference: str) -> list[Any]:
        """Return everything that a dynamic reference may lead to."""
        name = unquote(urldefrag(reference)[1])
        found = [part for (_, anchor), part in self._anchors.items() if anchor == name]
        return found or list(self._roots.values())


def _absolute(base: str, uri: str) -> str:
    try:
        return urldefrag(urljoin(base, uri))[0]
    except ValueError:  # no address at all, such as `http://[`
        return uri


def schemas_inside(given: Json) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Return each schema directly inside a schema, and how it is reached; what is only a value is not one."""
    for word, part in given.items():
        if word in WORDS_BY_NAME and isinstance(part, dict):
            yield from (((word, name), one) for name, one in cast(Json, part).items())
        elif word in WORDS_OF_LISTS and isinstance(part, list):
            yield from (((word, at), one) for at, one in enumerate(cast(list[Any], part)))
        elif word in WORDS_OF_ONE:
            yield (word,), part


def _is_schema(part: Any) -> bool:
    return isinstance(part, dict | bool)
