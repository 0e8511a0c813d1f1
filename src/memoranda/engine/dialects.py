"""JSON schemas as people have them, rewritten as one document of the present draft.

Tools write schemas of several drafts. Everything after this module (checks, defaults, labels, tools for models) reads
one: older drafts are rewritten word by word, and references by `$id` become pointers from the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import quote as escape_uri
from urllib.parse import unquote

from memoranda.engine.schema_graph import DIALECT, WORDS_BY_NAME, WORDS_OF_LISTS, WORDS_OF_ONE, Json, Resources
from memoranda.engine.validator import refuse_by_meta_schema
from memoranda.errors import InvalidDefinition
from memoranda.model.text import quote

_PRESENT = 2020
_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": _PRESENT,
}

_PLACES = frozenset(("$defs", "definitions"))
"""Words that only give parts a place to be referred to."""
MEANINGFUL = (WORDS_OF_ONE | WORDS_OF_LISTS | WORDS_BY_NAME) - _PLACES | frozenset(
    "$ref $dynamicRef $recursiveRef const dependentRequired enum exclusiveMaximum exclusiveMinimum format maxContains "
    "maximum maxItems maxLength maxProperties minContains minimum minItems minLength minProperties multipleOf pattern "
    "required type uniqueItems".split()
)
"""Words that say something about a value."""
_OVERRIDDEN = (MEANINGFUL | {"$id", "id"}) - {"$ref"}
"""Words that drafts up to 7 ignore beside a `$ref`."""


def modernize(schema: Json) -> Json:
    """Return a schema in the present draft, with every reference that leads inside it as a pointer or an anchor.

    A list below `items` is a tuple in any schema that does not claim to be of the present draft.
    """
    draft = _draft_of(schema, None)
    if draft not in (None, _PRESENT):
        refuse_by_meta_schema(schema)  # before it is rewritten, so that messages use its own terms
    modern = cast(Json, _rewrite(schema, draft, schema))
    if "$schema" in schema:
        modern["$schema"] = DIALECT
    return _with_local_references(modern)


def _draft_of(schema: Json, otherwise: int | None) -> int | None:
    uri = schema.get("$schema")
    if not isinstance(uri, str):
        return otherwise
    known = _DRAFTS.get(uri.removesuffix("#").removeprefix("https://").removeprefix("http://"))
    if known is None:
        raise InvalidDefinition(
            f"the schema is of the dialect {quote(uri, longest=80)}, which is unknown here",
            hint=f"Leave out $schema, or use {DIALECT}; drafts 4, 6, 7 and 2019-09 are read too",
            path="$.$schema",
        )
    return known


def _rewrite(node: Any, draft: int | None, resource: Json) -> Any:
    """Return a copy of a schema in the present draft; `resource` is the schema that its pointers start from."""
    if not isinstance(node, dict):
        return node
    given = cast(Json, node)
    if isinstance(given.get("$id"), str):
        resource, draft = given, _draft_of(given, draft)
    given = {word: part for word, part in given.items() if word != "$schema"}
    if draft is not None and draft <= 7 and isinstance(given.get("$ref"), str):
        given = {word: part for word, part in given.items() if word not in _OVERRIDDEN}
    if draft == 4:
        _rewrite_draft_4(given)
    if given.get("$recursiveAnchor") is False:
        del given["$recursiveAnchor"]
    if draft != _PRESENT:
        given = dict(_present_words(given, draft))
    reference = given.get("$ref")
    if draft != _PRESENT and isinstance(reference, str) and reference.startswith("#/"):
        given["$ref"] = _present_pointer(reference, resource)
    return map_parts(given, lambda part: _rewrite(part, draft, resource))


def _rewrite_draft_4(given: Json) -> None:
    if isinstance(given.get("id"), str):
        given["$id"] = given.pop("id")
    for word, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if given.pop(word, None) is True and limit in given:
            given[word] = given.pop(limit)


def _present_words(given: Json, draft: int | None) -> Iterator[tuple[str, Any]]:
    is_tuple = isinstance(given.get("items"), list)
    for word, part in given.items():
        if word == "items" and is_tuple:
            if part:  # an empty list says nothing, and is not allowed now
                yield "prefixItems", part
        elif word == "additionalItems" and (is_tuple or draft is not None):
            if is_tuple:
                yield "items", part
        elif word == "$id" and isinstance(part, str) and part.startswith("#"):
            yield "$anchor", part[1:]
        elif word == "dependencies" and isinstance(part, dict) and draft is not None:
            yield from _dependencies(cast(Json, part))
        elif word == "$recursiveRef":
            yield "$dynamicRef", "#recursive"
        elif word == "$recursiveAnchor":
            yield "$dynamicAnchor", "recursive"
        else:
            yield word, part


def _dependencies(named: Json) -> Iterator[tuple[str, Json]]:
    names: Json = {name: one for name, one in named.items() if isinstance(one, list)}
    if names:
        yield "dependentRequired", names
    if len(names) < len(named):
        yield "dependentSchemas", {name: one for name, one in named.items() if name not in names}


def _present_pointer(reference: str, resource: Json) -> str:
    """Return a pointer through parts whose words have changed."""
    node: Any = resource
    steps: list[str] = []
    for step in reference[2:].split("/"):
        named = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            inside = cast(Json, node)
            if isinstance(inside.get("items"), list):
                step = {"items": "prefixItems", "additionalItems": "items"}.get(step, step)
            node = inside.get(named)
        elif isinstance(node, list):
            listed = cast(list[Any], node)
            node = listed[int(named)] if named.isdecimal() and int(named) < len(listed) else None
        steps.append(step)
    return "#/" + "/".join(steps)


def map_parts(given: Json, change: Callable[[Any], Any]) -> Json:
    """Return a copy of a schema with each schema directly inside it changed."""
    changed: Json = {}
    for word, part in given.items():
        if word in WORDS_BY_NAME and isinstance(part, dict):
            named = cast(Json, part)
            part = {name: change(one) if isinstance(one, dict) else one for name, one in named.items()}
        elif word in WORDS_OF_LISTS and isinstance(part, list):
            part = [change(one) for one in cast(list[Any], part)]
        elif word in WORDS_OF_ONE and isinstance(part, dict):
            part = change(part)
        changed[word] = part
    return changed


def _with_local_references(schema: Json) -> Json:
    """Return a schema whose references start with `#`, and mean the root, wherever they are written.

    A dynamic reference depends on the `$id`s that lead to it: a schema with both is left as it is.
    """
    resources = Resources(schema)
    if resources.is_dynamic or not (resources.are_several or resources.refers_by_name):
        return schema

    def localize(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        given = cast(Json, node)
        local = map_parts(given, localize)
        if given is not schema and isinstance(given.get("$id"), str):
            del local["$id"]
        reference = given.get("$ref")
        if isinstance(reference, str):
            target, path = resources.locate(given, reference)
            if target is not None:
                local["$ref"] = pointer_to(path)
        return local

    return cast(Json, localize(schema))


def pointer_to(path: tuple[str | int, ...]) -> str:
    """Return the reference to a place in a schema."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return "#" + "".join(f"/{escape_uri(step, safe='$')}" for step in steps)
