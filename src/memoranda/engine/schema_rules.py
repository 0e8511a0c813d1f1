"""A schema as a caller gives it in, one that can be kept out: valid, self-contained, strict, and sure to end.

What is said here once, when a definition is created or changed, no write has to ask again.
"""

from __future__ import annotations

from typing import Any, cast

from memoranda.engine.schema_graph import DIALECT, Graph, Json, Node, pattern_weight
from memoranda.engine.schemas import referred
from memoranda.engine.validator import Validator, json_path
from memoranda.errors import InvalidDefinition
from memoranda.model.definition import MODE_WORD, MODES
from memoranda.model.text import quote


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
    if "$schema" in given and given["$schema"] != DIALECT:
        _refuse_endless(Graph(given))
        Validator(given)  # as its own dialect first, so that its faults are told in its own terms
        given = {**given, "$schema": DIALECT}
    _refuse_endless(Graph(given))
    graph = Validator(given).graph
    _refuse_backtracking(graph)
    prepared = cast(Json, _strict(given, given, part=False))
    Validator(prepared)
    return prepared


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
    waiting = [schema]
    while waiting:
        given = waiting.pop()
        if "properties" in given:
            return True
        if id(given) not in seen:
            seen.add(id(given))
            waiting += _parts_of_whole(given, root)
    return False


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


def _refuse_endless(graph: Graph) -> None:
    """Refuse parts that are about the same value and lead back to themselves, or to so many that none could be checked.

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
        hint="Let references lead from properties or items, and less often to the same",
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


def _parts_of_whole(schema: Json, root: Json) -> list[Json]:
    """Return the parts of a schema, and what it refers to, that a value which fits may be made of."""
    found: list[Any] = [schema.get(word) for word in ("if", "then", "else")]
    for word in ("allOf", *_ALTERNATIVES):
        listed = schema.get(word)
        found.extend(cast("list[Any]", listed) if isinstance(listed, list) else ())
    named = schema.get("dependentSchemas")
    found.extend(cast("Json", named).values() if isinstance(named, dict) else ())
    if isinstance(schema.get("$ref"), str):
        found.append(referred(schema["$ref"], root))
    return [cast("Json", one) for one in found if isinstance(one, dict)]
