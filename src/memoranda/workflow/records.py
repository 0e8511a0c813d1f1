"""The working memory of a run: records that a workflow reads and writes, validated by memory definitions.

A record is a fact, stored under its definition's slug in the scope that the definition names, so every other door
reads what a workflow writes. The second half is what a model sees of the records, and how it changes them: remembered
values come from anywhere, so neither a value nor the name of a field can begin a line of its own in a prompt.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.agent.conversation import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.api.memory import Memory
from memoranda.engine.facts import GetFact, GetFacts, SetFact, WriteFacts
from memoranda.engine.schemas import contract_of, parts_of
from memoranda.errors import (
    Hint,
    InvalidKey,
    InvalidScope,
    InvalidValue,
    NotFound,
    Refused,
    SchemaViolation,
    ScopeEnded,
    UsageError,
)
from memoranda.lang.diagnostics import Suggestions
from memoranda.lang.expression.values import to_text
from memoranda.model.definition import MODE_WORD, SHAPES, Definition, is_slug
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.model.text import escape_hidden, quote
from memoranda.model.value import decode, encode_checked
from memoranda.workflow.keywords import UPDATE_MEMORY

_Read: TypeAlias = tuple[list[Fact], tuple[SchemaViolation, ...]]
"""Valid records, and why others were left out."""
Guard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""A context that surrounds each write."""
_SHOWN = 5
"""Maximum number of names in a message."""

OnInvalid = Literal["raise", "skip"]
"""What to do with a stored record that its definition rejects: raise an error, or leave it out."""


class WorkingMemory:
    """The memory records of one run: their values, and the one way to write them. `load_memory` creates these."""

    def __init__(
        self,
        memory: Memory,
        home: Scope,
        definitions: Mapping[str, Definition],
        places: Mapping[str, Scope],
        read: Callable[[], _Read],
    ) -> None:
        """Take the owner's scope, the definitions by slug, the scope of each that has one in this run, and a reader."""
        self._memory = memory
        self._home = home
        self._places = places
        self._around: WorkingMemory | None = None
        self._guard: Guard = nullcontext
        self._read = read
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self.definitions = definitions
        """The definitions that this run knows, by slug."""
        self.skipped: tuple[SchemaViolation, ...] = ()
        """Why stored records were left out, with `on_invalid="skip"`."""

    @property
    def values(self) -> dict[str, Any]:
        """The value of each record by slug: `$context.memory`.

        Do not modify it. A write replaces the dictionary, so that a reader can keep the one it has.
        """
        return self._values

    def branch(self, guard: Guard = nullcontext) -> WorkingMemory:
        """Return a view for one of several concurrent branches: it shows the present values, and its own writes.

        Its writes are stored at once and shown here too, inside `guard`, which may refuse them by raising.
        """
        view = WorkingMemory(self._memory, self._home, self.definitions, self._places, self._read)
        with self._lock:
            view._values, view._versions = self._values, dict(self._versions)
        view._around, view._guard, view.skipped = self, guard, self.skipped
        return view

    def reload(self) -> None:
        """Read what others have written since."""
        found, self.skipped = self._read()
        self._refresh(found)

    def mounted(self, definition_ids: Iterable[str]) -> list[Definition]:
        """Return the definitions of these ids, each once, in the order named."""
        known = {definition.id: definition for definition in self.definitions.values()}
        return list(_select(known, definition_ids).values())

    def write(self, updates: Mapping[str, Any]) -> dict[str, Any]:
        """Update records by slug, all or nothing; return the new value of each.

        A record is replaced, or merged if its definition says so; its time to live starts again. A caller that may
        write a record but not read it gets back what it sent.
        """
        with self._guard():
            return self._write(updates)

    def _write(self, updates: Mapping[str, Any]) -> dict[str, Any]:
        _check_slugs(updates)
        if not updates:
            return {}
        self._check_known(updates)
        places = {slug: self._place(self.definitions[slug]) for slug in updates}
        writes = tuple(
            SetFact(
                scope=places[slug],
                key=slug,
                payload=msgspec.Raw(encode_checked(value, self._memory.limits)),
                record=self.definitions[slug].id,
            )
            for slug, value in updates.items()
        )
        try:
            written: list[Fact] = self._memory.perform(WriteFacts(scope=self._home, writes=writes))
        except SchemaViolation as error:
            raise self._discreet(error, places) from None
        shown = self._readable(written, writes)
        self._refresh(shown)
        return {fact.key: deepcopy(fact.value) for fact in shown}

    def _readable(self, written: list[Fact], writes: Sequence[SetFact]) -> list[Fact]:
        """Return the records as the caller may see them: one that it may not read shows only what was sent."""
        gets = [GetFact(scope=fact.scope, key=fact.key) for fact in written]
        if self._memory.may(GetFacts(scope=self._home, gets=tuple(gets))):
            return written
        # The stored value may contain what others wrote, by a merge.
        return [
            fact if self._memory.may(get) else msgspec.structs.replace(fact, value=decode(bytes(write.payload)))
            for fact, get, write in zip(written, gets, writes, strict=True)
        ]

    def _discreet(self, error: SchemaViolation, places: Mapping[str, Scope]) -> SchemaViolation:
        """Return the error of a rejected record, without its values if the caller may not read the record."""
        slug = str(error.details.get("slug"))
        if slug not in places or self._memory.may(GetFact(scope=places[slug], key=slug)):
            return error
        message = f"{quote(slug)} refuses the value at {error.path}"
        return SchemaViolation(message, hint=error.advice, path=error.path, expected="what its schema says", slug=slug)

    def _check_known(self, updates: Mapping[str, Any]) -> None:
        unknown = [slug for slug in updates if slug not in self.definitions]
        if unknown:
            elsewhere = "Global definitions are available in every workflow; list others in `defs`, with `kind: memory`"
            raise NotFound(
                f"this workflow has no memory definition {_few(unknown)}",
                hint=Suggestions().did_you_mean(unknown[0], self.definitions.keys(), otherwise=elsewhere),
                value=unknown[0],
                missing=unknown[:_SHOWN],
            )

    def _place(self, definition: Definition) -> Scope:
        place = self._places.get(definition.slug)
        if place is None:
            kind = SHAPES[definition.scope][-1]
            raise UsageError(
                f"{quote(definition.slug)} is stored per {kind}, but this run has no {kind}",
                hint=f"Run the workflow in a {kind}, or give the definition another scope",
                slug=definition.slug,
                kind=kind,
            )
        return place

    def _refresh(self, facts: Iterable[Fact]) -> None:
        """Show the newest version of each record, whatever the order of concurrent writes."""
        with self._lock:
            newer = [fact for fact in facts if fact.version > self._versions.get(fact.key, 0)]
            self._versions.update({fact.key: fact.version for fact in newer})
            self._values = {**self._values, **{fact.key: fact.value for fact in newer}}
        if self._around is not None:
            self._around._refresh(newer)


def load_memory(
    memory: Memory,
    *,
    owner: str,
    definition_ids: Iterable[str] = (),
    workflow: str | None = None,
    thread: str | None = None,
    run: str | None = None,
    on_invalid: OnInvalid = "raise",
) -> WorkingMemory:
    """Return the working memory of a run: the records of all global definitions and of those named.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    ...     shoes = memory.definitions.create(name="Shoes", slug="shoes", schema=schema)
    ...     working = load_memory(memory, owner="ada", workflow="fitting")
    ...     working.write({"shoes": {"size": 38}})
    ...     working.values, memory.scope(user="ada").value("shoes")
    {'shoes': {'size': 38}}
    ({'shoes': {'size': 38}}, {'size': 38})
    """
    if not owner or not isinstance(cast(object, owner), str):
        raise InvalidScope(
            "working memory belongs to a user, but no owner is given", hint=Hint("python", "Pass owner=…")
        )
    if on_invalid not in ("raise", "skip"):
        raise UsageError(
            f"{quote(on_invalid)} is not a valid `on_invalid`", hint=Hint("python", 'Use on_invalid="raise" or "skip"')
        )
    ids = {"user": owner, "workflow": workflow, "thread": thread, "run": run}
    present = {kind: id for kind, id in ids.items() if id is not None}
    home = Scope.of(tenant=memory.tenant, user=owner)
    named = list(definition_ids)
    chosen = _choose(memory.definitions.list(), named)
    # One scope for each kind, not for each definition: creating a scope validates it.
    scopes = {kind: _scope_of(shape, present, memory.tenant) for kind, shape in SHAPES.items()}
    places = {slug: place for slug, one in chosen.items() if (place := scopes[one.scope]) is not None}

    # A closure without a reference to the WorkingMemory: collecting a cycle with two hundred records is a long pause.
    def read() -> _Read:
        return _validate(chosen, _read_records(memory, home, chosen, places, named), on_invalid)

    working = WorkingMemory(memory, home, chosen, places, read)
    working.reload()
    return working


def sweep_expired(memory: Memory) -> dict[str, int]:
    """Remove expired records, and return how many were removed, by the slug of their definition."""
    return memory.sweep().records


def _choose(known: Sequence[Definition], named: Sequence[str]) -> dict[str, Definition]:
    """Return all global definitions and those named, by slug, oldest first."""
    declared = _select({one.id: one for one in known}, named)
    return {one.slug: one for one in known if one.scope == "global" or one.id in declared}


def _select(known: Mapping[str, Definition], ids: Iterable[str]) -> dict[str, Definition]:
    """Return the definitions with these ids, by id, in the order named; raise NotFound if one is missing."""
    # A UUID may be written in capitals; the ids of definitions never are.
    wanted = {id.lower(): id for id in ids}
    missing = [id for small, id in wanted.items() if small not in known]
    if missing:
        raise NotFound(
            f"unknown definition {', '.join(map(quote, missing))}",
            hint=("Create it, or correct `definition_id`", Hint("list", "definitions")),
            value=missing[0],
            missing=missing,
        )
    return {small: known[small] for small in wanted}


def _scope_of(shape: tuple[str, ...], ids: Mapping[str, str], tenant: str) -> Scope | None:
    """Return the scope of these kinds; None if the run has no id for one of them."""
    return Scope.of(tenant=tenant, **{kind: ids[kind] for kind in shape}) if ids.keys() >= set(shape) else None


def _read_records(
    memory: Memory, home: Scope, chosen: Mapping[str, Definition], places: Mapping[str, Scope], named: Sequence[str]
) -> list[Fact]:
    """Return the stored records, read in one snapshot.

    Global definitions that the caller may not read are left out unless the workflow names them.
    """
    gets = [GetFact(scope=place, key=slug) for slug, place in places.items()]
    effect = GetFacts(scope=home, gets=tuple(gets))
    if not memory.may(effect):
        declared = {id.lower() for id in named}
        wanted = [get for get in gets if chosen[get.key].id in declared or memory.may(get)]
        effect = GetFacts(scope=home, gets=tuple(wanted))
    found: list[Fact | None] = memory.perform(effect) if effect.gets else []
    return [fact for fact in found if fact is not None]


def _validate(definitions: Mapping[str, Definition], facts: Iterable[Fact], on_invalid: OnInvalid) -> _Read:
    """Return the records that fit their definitions, and why others are left out."""
    accepted: list[Fact] = []
    skipped: list[SchemaViolation] = []
    for fact in facts:
        definition = definitions[fact.key]
        try:
            value = contract_of(definition).accept(fact.value)
        except SchemaViolation as error:
            refusal = _invalid(definition, fact, error)
            if on_invalid == "raise":
                raise refusal from None
            skipped.append(refusal)
        else:
            accepted.append(fact if value is fact.value else msgspec.structs.replace(fact, value=value))
    return accepted, tuple(skipped)


def _invalid(definition: Definition, fact: Fact, error: SchemaViolation) -> SchemaViolation:
    return SchemaViolation(
        f"the stored record {quote(fact.id)} in `{fact.scope}` does not fit its definition: {error.message}",
        hint=("Write it again", "Change the schema", Hint("python", 'Load with on_invalid="skip" to go on without it')),
        slug=definition.slug,
        id=fact.id,
        definition=definition.id,
        path=error.path,
        expected=error.expected,
    )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(quote, names[:_SHOWN])) + more


def _check_slugs(updates: Any) -> None:
    if not isinstance(updates, Mapping):
        raise InvalidValue(
            f"{quote(updates)} is {type(updates).__name__}, not an object",
            hint='Give a value for each slug: {"customer_profile": {…}}',
            path="$",
        )
    for slug in cast("Mapping[Any, Any]", updates):
        if not is_slug(slug):
            raise InvalidKey(
                f"{quote(slug)} is not the slug of a definition",
                hint="A slug is lower-case letters a-z, digits and underscores, such as customer_profile",
                value=slug,
            )


# what a model sees

HEADING = "# Working Memory"

_BREAKS = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_JOINTS = re.compile(r"[_\-\s]+")
_WHOLE = 2**31
"""More characters than any stored value has: values are not shortened."""


def working_memory(definitions: Iterable[Definition], values: Mapping[str, Any]) -> str:
    """Return the memory records as text for a prompt, with a heading for each definition; empty if there are none.

    >>> from memoranda.model.clock import EPOCH
    >>> shoes = Definition(
    ...     id="", tenant="", name="Shoes", slug="shoes", scope="global", created_at=EPOCH, updated_at=EPOCH,
    ...     schema={"type": "object", "properties": {"shoe_size": {"type": "integer"}}},
    ... )
    >>> print(working_memory([shoes], {"shoes": {"shoe_size": 38}}))
    # Working Memory
    ## Shoes
    - Shoe size: 38
    """
    once = {definition.slug: definition for definition in definitions}
    sections = [
        "\n".join((f"## {_one_line(definition.name)}", *lines))
        for slug, definition in once.items()
        if (lines := list(_lines(definition.schema, values.get(slug))))
    ]
    return "\n".join((HEADING, "\n\n".join(sections))) if sections else ""


def append_memory(system: str | None, memory: str) -> str:
    """Return the instructions with the memory text below them, after one blank line."""
    if not memory:
        return system or ""
    above = (system or "").rstrip()
    return f"{above}\n\n{memory}" if above else memory


def _lines(schema: dict[str, Any], value: Any) -> Iterator[str]:
    """Yield a line for each field: those of the schema in its order, then the others."""
    if not isinstance(value, dict):
        return
    fields = cast("dict[str, Any]", value)
    properties = _properties(schema)
    listed = [name for name in properties if name in fields]
    for name in (*listed, *(name for name in fields if name not in properties)):
        yield f"- {_label(name, properties.get(name), schema)}: {_field_text(fields[name])}"


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts_of(schema, schema):
        for name, below in cast("dict[str, Any]", part.get("properties", {})).items():
            found.setdefault(name, below)
    return found


def _label(name: str, schema: Any, root: dict[str, Any]) -> str:
    """Return the label of a field: its title, or its name in words."""
    for part in parts_of(schema, root):
        title = part.get("title")
        if isinstance(title, str) and title.strip():
            return _one_line(title.strip())
    spaced = _JOINTS.sub(" ", name).strip() or name
    return _one_line(spaced[:1].upper() + spaced[1:])


def _field_text(value: Any) -> str:
    return "null" if value is None else _one_line(to_text(value, most=_WHOLE))


def _one_line(text: str) -> str:
    return escape_hidden(_BREAKS.sub(" ", text))


# what a model may change

_REPLACES = "is replaced by what you send: repeat every field that should stay"
_MERGES = "keeps the fields that you leave out"


def update_tool(definitions: Iterable[Definition]) -> ToolSpec | None:
    """Return the `update_memory` tool for the mounted definitions; None if there are none."""
    mounted = {definition.slug: definition for definition in definitions}
    if not mounted:
        return None
    rules = [f"`{slug}` {_MERGES if one.mode == 'merge' else _REPLACES}" for slug, one in mounted.items()]
    description = f"Save what should be remembered beyond this conversation. {'; '.join(rules)}."
    closed: dict[str, Any] = {"type": "object", "additionalProperties": False}
    records = {**closed, "properties": {slug: _record_schema(one) for slug, one in mounted.items()}}
    parameters = {**closed, "properties": {"memory": records}, "required": ["memory"]}
    return ToolSpec(UPDATE_MEMORY, description, parameters)


def update_records(working: WorkingMemory, mounted: Collection[str], arguments: Any) -> dict[str, Any]:
    """Store a model's values for the mounted slugs, all or nothing; raise ToolFailed with a message for the model."""
    try:
        return working.write(_updates_for(arguments, mounted))
    except (UsageError, NotFound, Refused, ScopeEnded) as error:
        raise ToolFailed(error) from error


def _updates_for(arguments: Any, mounted: Collection[str]) -> dict[str, Any]:
    if not isinstance(arguments, dict) or set(cast("dict[Any, Any]", arguments)) != {"memory"}:
        raise UsageError("the arguments are an object with the one property `memory`", hint=_form(mounted))
    updates = cast("dict[str, Any]", arguments)["memory"]
    if not isinstance(updates, dict):
        raise UsageError("`memory` is an object with a value for each name", hint=_form(mounted))
    given = cast("dict[str, Any]", updates)
    outside = [slug for slug in given if slug not in mounted]
    if outside:
        raise NotFound(f"{', '.join(map(quote, outside[:5]))} cannot be updated here", hint=_form(mounted))
    return given


def _form(mounted: Collection[str]) -> str:
    return f"Names are {', '.join(mounted)}"


def _record_schema(definition: Definition) -> dict[str, Any]:
    """Return a definition's schema as a part of the tool's, with its references adjusted."""
    own = {word: part for word, part in definition.schema.items() if word not in (MODE_WORD, "$schema")}
    moved = own if "$id" in own else _rebase(own, f"#/properties/memory/properties/{definition.slug}")
    return _without_required(moved) if definition.mode == "merge" else moved


def _rebase(node: Any, place: str) -> Any:
    if isinstance(node, list):
        return [_rebase(item, place) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    return {
        word: f"{place}{part[1:]}" if word == "$ref" and _is_pointer(part) else _rebase(part, place)
        for word, part in cast("dict[str, Any]", node).items()
    }


def _is_pointer(reference: Any) -> bool:
    return isinstance(reference, str) and (reference == "#" or reference.startswith("#/"))


def _without_required(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a merge: fields that are left out stay, so none is required, at any level."""
    optional = {word: part for word, part in schema.items() if word != "required"}
    if isinstance(optional.get("properties"), dict):
        properties = cast("dict[str, Any]", optional["properties"])
        optional["properties"] = {
            name: _without_required(cast("dict[str, Any]", part)) if isinstance(part, dict) else part
            for name, part in properties.items()
        }
    return optional
