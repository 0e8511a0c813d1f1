"""Export a workflow with its memory definitions as a bundle, and import it into another memory.

A workflow refers to definitions by id, and ids differ between memories; slugs do not. So a bundle lists definitions by
slug, and an import replaces the ids in the text by those of the target memory, leaving everything else as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.schemas import prepare_schema
from memoranda.engine.transfer import Import
from memoranda.errors import AlreadyExists, Conflict, NotFound, UsageError
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.source import Source
from memoranda.lang.yaml import YamlNode, compose
from memoranda.model.definition import Definition, name_key
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.transfer import ImportedDefinition
from memoranda.model.value import canonical, decode, encode_checked

_FORMAT = 1
_ATTEMPTS = 5


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: the workflow's text with the ids of this memory, and its definitions."""

    text: str
    created: tuple[Definition, ...] = ()
    reused: tuple[Definition, ...] = ()
    """Definitions that existed already, equal in everything but their ids."""


class _BundledDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    name: str
    scope: str
    ttl: int | None = None
    schema: dict[str, Any]


class _Bundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    memoranda: int
    workflow: str
    definitions: dict[str, _BundledDefinition] = {}


def export_workflow(memory: Memory, text: str, *, name: str = "workflow") -> dict[str, Any]:
    """Return a workflow as a bundle: its text, and the definitions that it refers to, by slug.

    `name` is the file name in error messages.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as here, memoranda.open(":memory:") as there:
    ...     schema = {"type": "object", "properties": {"shelf": {"type": "string"}}}
    ...     loans = here.definitions.create(name="Loans", slug="loans", scope="thread", schema=schema)
    ...     text = f"defs: {{loans: {{kind: memory, settings: {{definition_id: {loans.id}}}}}}}"
    ...     imported = import_workflow(there, export_workflow(here, text))
    ...     made = there.definitions.get("loans")
    ...     imported.created == (made,), imported.text == text.replace(loans.id, made.id)
    (True, True)
    """
    named = {_id_of(node): str(node.value) for node in _references(text, name)}
    known = {one.id: one for one in memory.definitions.list()} if named else {}
    missing = [written for id, written in named.items() if id not in known]
    _refuse_missing(missing, "here", "Create it, or correct `definition_id`")
    kept = [known[id] for id in named]
    return {
        "memoranda": _FORMAT,
        "workflow": text,
        "definitions": {
            one.slug: {"id": one.id, "name": one.name, "scope": one.scope, "ttl": one.ttl, "schema": one.schema}
            for one in kept
        },
    }


def import_workflow(memory: Memory, bundle: Mapping[str, Any]) -> Imported:
    """Create the definitions of a bundle that its workflow refers to and that are missing here, all or nothing.

    A definition with the same slug is reused if its name, scope, ttl and schema are equal; otherwise it is a Conflict.
    The workflow itself is not stored: its text is returned, ready to be loaded here.
    """
    given = _read(bundle)
    references = _references(given.workflow)
    slugs = _slugs(given.definitions)
    named = {_id_of(node): str(node.value) for node in references}
    missing = [written for id, written in named.items() if id not in slugs]
    _refuse_missing(missing, "in the bundle", "Export the workflow again")
    wanted = [_new_definition(slugs[id], given.definitions[slugs[id]], memory) for id in named]
    found, created = _create_missing(memory, wanted)
    return Imported(
        text=_with_ids(given.workflow, [(node, found[slugs[_id_of(node)]].id) for node in references]),
        created=tuple(one for one in found.values() if one.id in created),
        reused=tuple(one for one in found.values() if one.id not in created),
    )


# the text


def _references(text: str, name: str = "workflow") -> list[YamlNode]:
    """Return the nodes of all definition ids in the text of a workflow."""
    root: YamlNode | None = None
    if isinstance(cast(object, text), str):
        source = Source(name, text)
        diagnostics = Diagnostics(source)
        root = compose(source, diagnostics)
        diagnostics.raise_if_failed()
    if root is None or root.entries is None:
        hint = "Pass the text of a workflow: a mapping with `defs` and `flow`"
        raise UsageError(f"{quote(text)} is not a workflow", hint=hint)
    return [
        id
        for defs in _values(root, "defs")
        for _, one in defs.entries or ()
        if any(kind.value == "memory" for kind in _values(one, "kind"))
        for settings in _values(one, "settings")
        for id in _values(settings, "definition_id")
        if isinstance(id.value, str) and id.value
    ]


def _values(node: YamlNode, name: str) -> Iterator[YamlNode]:
    return (value for key, value in node.entries or () if key.scalar == name)


def _id_of(node: YamlNode) -> str:
    # A UUID may be written in capitals; the ids of definitions never are.
    return str(node.value).lower()


def _with_ids(text: str, ids: Iterable[tuple[YamlNode, str]]) -> str:
    """Return a text with other ids at these places, in the same quotes."""
    parts: list[str] = []
    done = 0
    for node, id in ids:
        span, old = node.span, node.scalar or ""
        written = text[span.start : span.end]
        # From the right: a block scalar may have a comment above its content.
        at = written.rfind(old)
        before, after = ('"', '"') if at < 0 else (written[:at], written[at + len(old) :])
        parts += (text[done : span.start], before, old if old.lower() == id else id, after)
        done = span.end
    return "".join((*parts, text[done:]))


# the definitions


def _read(bundle: Any) -> _Bundle:
    try:
        read = msgspec.convert(bundle, _Bundle)
    except msgspec.ValidationError as error:
        raise _invalid_bundle(str(error)) from None
    if read.memoranda != _FORMAT:
        raise _invalid_bundle(f"its format version is {quote(read.memoranda)}, not {_FORMAT}")
    return read


def _invalid_bundle(reason: str) -> UsageError:
    return UsageError(f"this is not an exported workflow: {reason}", hint="Import a bundle as it was exported")


def _slugs(definitions: Mapping[str, _BundledDefinition]) -> dict[str, str]:
    slugs: dict[str, str] = {}
    for slug, one in definitions.items():
        other = slugs.setdefault(one.id.lower(), slug)
        if other != slug:
            raise _invalid_bundle(f"{quote(other)} and {quote(slug)} have the same id")
    return slugs


def _refuse_missing(missing: Sequence[str], where: str, hint: str) -> None:
    if missing:
        named = ", ".join(map(quote, missing))
        message = f"the workflow refers to a memory definition that is not {where}: {named}"
        raise NotFound(message, hint=hint, value=missing[0], missing=list(missing))


def _new_definition(slug: str, kept: _BundledDefinition, memory: Memory) -> ImportedDefinition:
    """Return a definition of a bundle with a new id of this memory."""
    try:
        schema = prepare_schema(decode(encode_checked(kept.schema, memory.limits)))
    except UsageError as error:
        error.message = f"definition {quote(slug)}: {error.message}"
        raise
    return ImportedDefinition(
        id=memory.ids.new("definition"),
        name=kept.name.strip(),
        slug=slug,
        scope=kept.scope,
        ttl=kept.ttl,
        schema=schema,
    )


def _create_missing(memory: Memory, wanted: Sequence[ImportedDefinition]) -> tuple[dict[str, Definition], set[str]]:
    """Create the missing definitions; return all by slug, and the ids that this import may have created.

    Another process may create one of them at the same time: then nothing of ours was stored, and we look again.
    """
    fresh = {one.id for one in wanted}
    home = Scope.of(tenant=memory.tenant)
    for attempt in range(_ATTEMPTS):
        known = memory.definitions.list() if wanted else []
        existing = {one.slug: one for one in known}
        _refuse_different(wanted, known)
        missing = tuple(one for one in wanted if one.slug not in existing)
        if not missing:
            return {one.slug: existing[one.slug] for one in wanted}, fresh
        try:
            memory.perform(Import(scope=home, source="workflow", definitions=missing))
        except AlreadyExists:
            if attempt == _ATTEMPTS - 1:
                raise
    raise Conflict("definitions were deleted while they were being imported", hint="Try again in a moment")


def _refuse_different(wanted: Iterable[ImportedDefinition], known: Sequence[Definition]) -> None:
    """Raise a Conflict that names every difference between the bundle's definitions and those of this memory."""
    by_slug = {one.slug: one for one in known}
    by_name = {name_key(one.name): one for one in known}
    expected: dict[str, dict[str, Any]] = {}
    actual: dict[str, dict[str, Any]] = {}
    reasons: list[str] = []
    for one in wanted:
        here = by_slug.get(one.slug)
        fields = _differing_fields(one, here) if here else []
        if fields:
            reasons.append(f"`{one.slug}` has another {' and another '.join(fields)}")
            expected[one.slug] = {field: getattr(one, field) for field in fields}
            actual[one.slug] = {field: getattr(here, field) for field in fields}
        elif here is None and name_key(one.name) in by_name:
            other = by_name[name_key(one.name)].slug
            reasons.append(f"the name {quote(one.name)} of `{one.slug}` is that of `{other}`")
            expected[one.slug], actual[one.slug] = {"name": one.name}, {"slug": other}
    if reasons:
        raise Conflict(
            f"the definitions here differ from those of the bundle: {'; '.join(reasons)}",
            hint="Make them equal, or give one of them another slug or name; nothing was imported",
            expected=expected,
            actual=actual,
        )


def _differing_fields(one: ImportedDefinition, here: Definition) -> list[str]:
    # Compared as JSON: in Python, 1 equals true.
    return [
        field
        for field in ("name", "scope", "ttl", "schema")
        if canonical(getattr(one, field)) != canonical(getattr(here, field))
    ]
