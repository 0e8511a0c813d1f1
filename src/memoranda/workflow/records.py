"""Whose run it is in, its working memory out: the records that a workflow reads and writes, checked by definitions.

A record is a fact, kept under its definition's slug in the scope that the definition names. What a workflow writes is
what every other door reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.engine.schemas import contract_of
from memoranda.errors import InvalidKey, InvalidScope, InvalidValue, NotFound, SchemaViolation, UsageError
from memoranda.lang.hints import Hints
from memoranda.model.definition import SHAPES, Definition, is_slug
from memoranda.model.effect import GetFact, GetFacts, SetFact, WriteFacts
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked

_Read: TypeAlias = tuple[list[Fact], tuple[SchemaViolation, ...]]
"""Records that stand, and why others were left out."""
Guard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""What a write happens in."""
_SHOWN = 5
"""Names that a message shows."""

OnInvalid = Literal["raise", "skip"]
"""What happens to a stored record that its definition refuses: nothing is loaded, or all but that record."""


class WorkingMemory:
    """What one run remembers: the values it can read, and the one way to write them. `load_memory` makes these."""

    def __init__(
        self,
        memory: Memory,
        home: Scope,
        definitions: Mapping[str, Definition],
        places: Mapping[str, Scope],
        read: Callable[[], _Read],
    ) -> None:
        """Stand in the owner's scope, with definitions by slug, the scope of each that has one here, and its reader."""
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
        """Why stored records were left out, where that was asked for."""

    @property
    def values(self) -> dict[str, Any]:
        """The value of each record that stands, by slug: `$context.memory`.

        A write gives a new one and leaves this one as it is, so that it can be held on to. It is not for changing.
        """
        return self._values

    def branch(self, guard: Guard = nullcontext) -> WorkingMemory:
        """Return a view for one of several that work at the same time: it shows what stands now, and its own writes.

        What it writes is stored at once and shown here, too, within the `guard`, which may refuse by raising.
        """
        view = WorkingMemory(self._memory, self._home, self.definitions, self._places, self._read)
        with self._lock:
            view._values, view._versions = self._values, dict(self._versions)
        view._around, view._guard, view.skipped = self, guard, self.skipped
        return view

    def reload(self) -> None:
        """Show what others have written since."""
        found, self.skipped = self._read()
        self._refresh(found)

    def mounted(self, definition_ids: Iterable[str]) -> list[Definition]:
        """Return the definitions of these ids, each once, in the order named."""
        known = {definition.id: definition for definition in self.definitions.values()}
        return list(_select(known, definition_ids).values())

    def write(self, updates: Mapping[str, Any]) -> dict[str, Any]:
        """Update records by slug, all or nothing; return what each of them holds now.

        A record is replaced, or changed where its definition says `merge`; its time to live begins anew. Who may write
        one and not read it gets back what was sent.
        """
        with self._guard():
            return self._written(updates)

    def _written(self, updates: Mapping[str, Any]) -> dict[str, Any]:
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
        """Return records as the caller may see them: of one that may not be read, what was sent and nothing else."""
        gets = [GetFact(scope=fact.scope, key=fact.key) for fact in written]
        if self._memory.may(GetFacts(scope=self._home, gets=tuple(gets))):
            return written
        # It may have been merged into what others wrote.
        return [
            fact if self._memory.may(get) else msgspec.structs.replace(fact, value=decode(bytes(write.payload)))
            for fact, get, write in zip(written, gets, writes, strict=True)
        ]

    def _discreet(self, error: SchemaViolation, places: Mapping[str, Scope]) -> SchemaViolation:
        """Return why a record was refused: to who may not read it, without the values that it would have held."""
        slug = str(error.details.get("slug"))
        if slug not in places or self._memory.may(GetFact(scope=places[slug], key=slug)):
            return error
        message = f"{quote(slug)} refuses the value at {error.path}"
        return SchemaViolation(message, hint=error.hint, path=error.path, expected="what its schema says", slug=slug)

    def _check_known(self, updates: Mapping[str, Any]) -> None:
        unknown = [slug for slug in updates if slug not in self.definitions]
        if unknown:
            elsewhere = "Global definitions are known to every workflow; name others in `defs`, with `kind: memory`"
            raise NotFound(
                f"this workflow knows no memory definition {_few(unknown)}",
                hint=Hints().meant(unknown[0], self.definitions.keys(), otherwise=elsewhere),
                value=unknown[0],
                missing=unknown[:_SHOWN],
            )

    def _place(self, definition: Definition) -> Scope:
        place = self._places.get(definition.slug)
        if place is None:
            kind = SHAPES[definition.scope][-1]
            raise UsageError(
                f"{quote(definition.slug)} is kept for each {kind}, and this run has no {kind}",
                hint=f"Run the workflow in a {kind}, or give the definition another scope",
                slug=definition.slug,
                kind=kind,
            )
        return place

    def _refresh(self, facts: Iterable[Fact]) -> None:
        """Show what was written; of two writes at once, what the later one left."""
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
    """Return the working memory of a run: all global definitions and those named, with the records that stand.

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
        raise InvalidScope("working memory belongs to somebody, and no owner is named", hint="Pass owner=…")
    if on_invalid not in ("raise", "skip"):
        raise UsageError(f"{quote(on_invalid)} is no way to load", hint='Use on_invalid="raise" or "skip"')
    ids = {"user": owner, "workflow": workflow, "thread": thread, "run": run}
    present = {kind: id for kind, id in ids.items() if id is not None}
    home = Scope.of(tenant=memory.tenant, user=owner)
    named = list(definition_ids)
    chosen = _choose(memory.definitions.list(), named)
    # A scope for each kind, not one for each definition: a scope is checked whenever it is made.
    scopes = {kind: _scope_of(shape, present, memory.tenant) for kind, shape in SHAPES.items()}
    places = {slug: place for slug, one in chosen.items() if (place := scopes[one.scope]) is not None}

    # It must not know what it is read for: a circle of two hundred records is a long pause when it is collected.
    def read() -> _Read:
        return _accepted(chosen, _standing(memory, home, chosen, places, named), on_invalid)

    working = WorkingMemory(memory, home, chosen, places, read)
    working.reload()
    return working


def sweep_expired(memory: Memory) -> dict[str, int]:
    """Remove what has expired, and return how many records went, by the slug of their definition."""
    return memory.sweep().records


def _choose(known: Sequence[Definition], named: Sequence[str]) -> dict[str, Definition]:
    """Return all global definitions and those named, by slug, oldest first."""
    declared = _select({one.id: one for one in known}, named)
    return {one.slug: one for one in known if one.scope == "global" or one.id in declared}


def _select(known: Mapping[str, Definition], ids: Iterable[str]) -> dict[str, Definition]:
    """Return the definitions of these ids, by id, in the order named; or say which of them there are not."""
    # A UUID may be written in capitals; the ids of definitions never are.
    wanted = {id.lower(): id for id in ids}
    missing = [id for small, id in wanted.items() if small not in known]
    if missing:
        raise NotFound(
            f"there is no definition {', '.join(map(quote, missing))}",
            hint="Create it, or correct `definition_id`: `memoranda definitions list` shows what there is",
            value=missing[0],
            missing=missing,
        )
    return {small: known[small] for small in wanted}


def _scope_of(shape: tuple[str, ...], ids: Mapping[str, str], tenant: str) -> Scope | None:
    """Return the scope of these kinds; None where the run has no id for one of them."""
    return Scope.of(tenant=tenant, **{kind: ids[kind] for kind in shape}) if ids.keys() >= set(shape) else None


def _standing(
    memory: Memory, home: Scope, chosen: Mapping[str, Definition], places: Mapping[str, Scope], named: Sequence[str]
) -> list[Fact]:
    """Return the records that stand, read in one moment: a batch that is written meanwhile is seen whole or not at all.

    Global definitions that the caller may not read are left out unless the workflow names them: they were made for
    somebody else.
    """
    gets = [GetFact(scope=place, key=slug) for slug, place in places.items()]
    effect = GetFacts(scope=home, gets=tuple(gets))
    if not memory.may(effect):
        declared = {id.lower() for id in named}
        wanted = [get for get in gets if chosen[get.key].id in declared or memory.may(get)]
        effect = GetFacts(scope=home, gets=tuple(wanted))
    found: list[Fact | None] = memory.perform(effect) if effect.gets else []
    return [fact for fact in found if fact is not None]


def _accepted(definitions: Mapping[str, Definition], facts: Iterable[Fact], on_invalid: OnInvalid) -> _Read:
    """Return records as their definitions accept them, and why others are left out."""
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
        hint='Write it anew, change the schema, or load with on_invalid="skip" to go on without it',
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
    """Refuse what is no map of slugs, before anything else is looked at."""
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
