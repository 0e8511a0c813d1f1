"""The working memory of a run: records that a workflow reads and writes, and memory blocks that it binds.

A record is a fact, stored under its definition's slug in the scope that the definition names, so every other door
reads what a workflow writes. A block is a text that its owner edits too: it is written only where the workflow says
so, and only if it has not changed since it was read. The second half is what a model sees of both, and how it changes
them: remembered values come from anywhere, so neither a value nor the name of a field can begin a line of its own in a
prompt.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, Literal, TypeAlias, cast

import msgspec

from memoranda.agent.conversation import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.api.blocks import update_effect
from memoranda.api.context import in_words, one_line, record_lines, remembered_context, told_text
from memoranda.api.memory import Memory
from memoranda.engine.dialects import map_parts
from memoranda.engine.facts import GetFact, GetFacts, SetFact, WriteFacts
from memoranda.engine.schemas import contract_of
from memoranda.errors import (
    Conflict,
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
from memoranda.model.block import BlockType, agent_scope, key_of, size_limits
from memoranda.model.definition import MODE_WORD, SHAPES, Definition, is_slug, resolve_reference
from memoranda.model.fact import Fact
from memoranda.model.names import is_block
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import OriginKind
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs.provenance import Provenance, provenance_of_context, provenance_of_fact, together

_Read: TypeAlias = tuple[list[Fact], tuple[SchemaViolation, ...]]
"""Valid records, and why others were left out."""
Guard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""A context that surrounds each write."""
_SHOWN = 5
"""Maximum number of names in a message."""

OnInvalid = Literal["raise", "skip"]
"""What to do with a record that a program names and its definition rejects: raise an error, or leave it out."""

_log = logging.getLogger(__name__)


class BlockBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A memory block of the owner, or of the owner and one agent, under a name of the workflow."""

    slug: str
    """Its name in `$context.memory`, beside the slugs of definitions."""
    block: BlockType
    agent: str | None = None
    writable: bool = False

    def place(self, home: Scope) -> tuple[Scope, str]:
        """Return the scope and the key of the block of an owner."""
        return (home if self.agent is None else agent_scope(home, self.agent)), key_of(self.block)


Mounted: TypeAlias = Definition | BlockBinding
"""What a task that asks a model binds: the contract of a record, or a block."""


class WorkingMemory:
    """The memory records and blocks of one run: their values, and the one way to write them.

    `load_memory` creates these.
    """

    def __init__(
        self,
        memory: Memory,
        home: Scope,
        definitions: Mapping[str, Definition],
        places: Mapping[str, Scope],
        blocks: Mapping[str, BlockBinding],
        read: Callable[[], _Read],
        thread: str | None = None,
    ) -> None:
        """Take the owner's scope, definitions by slug and their scopes in this run, blocks by name, and a reader."""
        self._memory = memory
        self._thread = thread
        self._home = home
        self._places = places
        self._around: WorkingMemory | None = None
        self._guard: Guard = nullcontext
        self._read = read
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._versions: dict[str, int] = {}
        self._made_of: dict[str, Provenance] = {}
        self._kind: Callable[[], OriginKind | None] = lambda: None
        self._block_names = {block.place(home): name for name, block in blocks.items()}
        self.blocks = blocks
        """The blocks that the workflow binds, by name."""
        self.definitions = definitions
        """The definitions that this run knows, by slug."""
        self.skipped: tuple[SchemaViolation, ...] = ()
        """Why stored records were left out: those that the program does not name, and with `on_invalid="skip"` all."""

    @property
    def values(self) -> dict[str, Any]:
        """The value of each record by slug, and the text of each block by name: `$context.memory`.

        Do not modify it. A write replaces the dictionary, so that a reader can keep the one it has.
        """
        return self._values

    def branch(self, guard: Guard = nullcontext, kind: Callable[[], OriginKind | None] = lambda: None) -> WorkingMemory:
        """Return a view for one of several concurrent branches: it shows the present values, and its own writes.

        Its writes are stored at once and shown here too, inside `guard`, which may refuse them by raising. `kind` says
        as what kind of origin they are passed on; None makes them the program's own.
        """
        view = WorkingMemory(
            self._memory, self._home, self.definitions, self._places, self.blocks, self._read, self._thread
        )
        with self._lock:
            view._values, view._versions, view._made_of = self._values, dict(self._versions), self._made_of
        view._kind = kind
        view._around, view._guard, view.skipped = self, guard, self.skipped
        return view

    def provenance_of(self, names: Iterable[str] | None = None) -> Provenance:
        """Return where the records of these slugs and the blocks of these names come from; of all without names."""
        known = self._made_of
        return together(known.values() if names is None else (known[name] for name in names if name in known))

    def remembered(self, query: str) -> tuple[str, Provenance]:
        """Return what else is remembered of the owner that answers a query, as text for a prompt, and its provenance.

        The text may be empty.
        """
        bound = any(one.block == "core" and one.agent is None for one in self.blocks.values())
        context = remembered_context(self._memory, self._home, query, core=not bound, conversation=self._thread)
        return told_text(context), provenance_of_context(context)

    def reload(self) -> None:
        """Read what others have written since."""
        found, self.skipped = self._read()
        self._refresh(found)

    def mounted(self, bound: Iterable[str | BlockBinding]) -> list[Mounted]:
        """Return the definitions of these ids, each once, and the blocks, in the order named."""
        wanted = list(bound)
        known = {definition.id: definition for definition in self.definitions.values()}
        definitions = _select(known, (id for id in wanted if isinstance(id, str)))
        found = [definitions[one.lower()] if isinstance(one, str) else one for one in wanted]
        return list({one.slug: one for one in found}.values())

    def contract(self, slug: str) -> Mounted:
        """Return the definition of this slug, or the block of this name."""
        return self.blocks.get(slug) or self.definitions[slug]

    def refs(self, slugs: Iterable[str]) -> list[str]:
        """Return the refs of the records of these slugs and the blocks of these names, as far as they exist."""
        found = [slug for slug in slugs if slug in self._values]
        places = [
            self.blocks[slug].place(self._home) if slug in self.blocks else (self._places[slug], slug) for slug in found
        ]
        return [str(Ref("fact", scope, key)) for scope, key in places]

    def block_versions(self) -> dict[str, int]:
        """Return the version of each block as its text is shown here; 0 for a block that does not exist."""
        return {name: self._versions.get(name, 0) for name in self.blocks}

    def write(self, updates: Mapping[str, Any], *, versions: dict[str, int] | None = None) -> dict[str, Any]:
        """Update records by slug and blocks by name, all or nothing; return the new value of each.

        A record is replaced, or merged if its definition says so; its time to live starts again. A block is replaced
        if it is at the version that was read: the one shown here, or the one in `versions`, which is brought up to
        date. A caller that may write a record but not read it gets back what it sent.
        """
        with self._guard():
            return self._write(updates, self.block_versions() if versions is None else versions)

    def _write(self, updates: Mapping[str, Any], versions: dict[str, int]) -> dict[str, Any]:
        _check_slugs(updates)
        if not updates:
            return {}
        self._check_known(updates)
        writes = tuple(self._effect(slug, value, versions) for slug, value in updates.items())
        places = {write.key: write.scope for write in writes}
        try:
            memory = self._memory.passing_on(self._kind())
            written: list[Fact] = memory.perform(WriteFacts(scope=self._home, writes=writes))
        except SchemaViolation as error:
            raise self._discreet(error, places) from None
        shown = self._readable(written, writes)
        self._refresh(shown)
        versions.update({name: fact.version for fact in written if (name := self._name(fact)) in self.blocks})
        return {self._name(fact): deepcopy(fact.value) for fact in shown}

    def _effect(self, slug: str, value: Any, versions: Mapping[str, int]) -> SetFact:
        block = self.blocks.get(slug)
        if block is None:
            definition = self.definitions[slug]
            payload = msgspec.Raw(encode_checked(value, self._memory.limits))
            return SetFact(scope=self._place(definition), key=slug, payload=payload, record=definition.id)
        if not block.writable:
            raise UsageError(
                f"the block {quote(slug)} can be read here, not written",
                hint="Add `writable: true` to its settings in `defs`",
                slug=slug,
            )
        scope, _ = block.place(self._home)
        effect = update_effect(scope, block.block, value, self._memory.limits, expected_updated_at=None)
        return msgspec.structs.replace(effect, expect=versions[slug])

    def read_block(self, name: str, versions: dict[str, int]) -> str | None:
        """Return the present text of a block, and bring its version up to date."""
        scope, key = self.blocks[name].place(self._home)
        fact: Fact | None = self._memory.perform(GetFact(scope=scope, key=key))
        versions[name] = fact.version if fact else 0
        return fact.value if fact else None

    def _name(self, fact: Fact) -> str:
        """Return the name of a record or block in `$context.memory`."""
        return self._block_names.get((fact.scope, fact.key), fact.key)

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
        unknown = [slug for slug in updates if slug not in self.definitions and slug not in self.blocks]
        if unknown:
            elsewhere = "Global definitions are available in every workflow; list others in `defs`, with `kind: memory`"
            raise NotFound(
                f"this workflow has no memory definition {_few(unknown)}",
                hint=Suggestions().did_you_mean(unknown[0], (*self.definitions, *self.blocks), otherwise=elsewhere),
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
            newer = [fact for fact in facts if fact.version > self._versions.get(self._name(fact), 0)]
            self._versions.update({self._name(fact): fact.version for fact in newer})
            self._values = {**self._values, **{self._name(fact): fact.value for fact in newer}}
            self._made_of = {**self._made_of, **{self._name(fact): provenance_of_fact(fact) for fact in newer}}
        if self._around is not None:
            self._around._refresh(newer)


def load_memory(
    memory: Memory,
    *,
    owner: str,
    definition_ids: Iterable[str] = (),
    blocks: Iterable[BlockBinding] = (),
    workflow: str | None = None,
    thread: str | None = None,
    run: str | None = None,
    agent: str | None = None,
    on_invalid: OnInvalid = "raise",
) -> WorkingMemory:
    """Return the working memory of a run: the records of all global definitions and of those named, and its blocks.

    A record that does not fit its definition is left out with a warning. With `on_invalid="raise"`, one of a definition
    that is named is an error.

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
    ids = {"user": owner, "workflow": workflow, "thread": thread, "run": run, "agent": agent}
    present = {kind: id for kind, id in ids.items() if id is not None}
    home = Scope.of(tenant=memory.tenant, user=owner)
    named = list(definition_ids)
    chosen = _choose(memory.definitions.list(), named)
    # One scope for each kind, not for each definition: creating a scope validates it.
    scopes = {kind: _scope_of(shape, present, memory.tenant) for kind, shape in SHAPES.items()}
    places = {slug: place for slug, one in chosen.items() if (place := scopes[one.scope]) is not None}

    texts = {one.slug: one for one in blocks}
    _refuse_ambiguous(texts, chosen)

    # A closure without a reference to the WorkingMemory: collecting a cycle with two hundred records is a long pause.
    def read() -> _Read:
        facts = _read_facts(memory, home, chosen, places, named, [one.place(home) for one in texts.values()])
        strict = {id.lower() for id in named} if on_invalid == "raise" else set[str]()
        records, skipped = _validate(chosen, (fact for fact in facts if not is_block(fact.scope, fact.key)), strict)
        return [*records, *(fact for fact in facts if is_block(fact.scope, fact.key))], skipped

    working = WorkingMemory(memory, home, chosen, places, texts, read, thread)
    working.reload()
    return working


def sweep_expired(memory: Memory) -> dict[str, int]:
    """Remove expired records, and return how many were removed, by the slug of their definition."""
    return memory.sweep().records


def _refuse_ambiguous(blocks: Iterable[str], definitions: Collection[str]) -> None:
    name = next((name for name in blocks if name in definitions), None)
    if name is not None:
        raise UsageError(
            f"{quote(name)} is the name of a block in this workflow, and the slug of a memory definition",
            hint="Give the block another name in `defs`",
            value=name,
        )


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


def _read_facts(
    memory: Memory,
    home: Scope,
    chosen: Mapping[str, Definition],
    places: Mapping[str, Scope],
    named: Sequence[str],
    blocks: Iterable[tuple[Scope, str]],
) -> list[Fact]:
    """Return the stored records and blocks, read in one snapshot.

    Global definitions that the caller may not read are left out unless the workflow names them.
    """
    gets = [GetFact(scope=place, key=slug) for slug, place in places.items()]
    texts = [GetFact(scope=place, key=key) for place, key in blocks]
    effect = GetFacts(scope=home, gets=(*gets, *texts))
    if not memory.may(effect):
        declared = {id.lower() for id in named}
        wanted = [get for get in gets if chosen[get.key].id in declared or memory.may(get)]
        effect = GetFacts(scope=home, gets=(*wanted, *texts))
    found: list[Fact | None] = memory.perform(effect) if effect.gets else []
    return [fact for fact in found if fact is not None]


def _validate(definitions: Mapping[str, Definition], facts: Iterable[Fact], strict: Collection[str]) -> _Read:
    """Return the records that fit their definitions, and why others are left out; raise for those of `strict` ids."""
    accepted: list[Fact] = []
    skipped: list[SchemaViolation] = []
    for fact in facts:
        definition = definitions[fact.key]
        try:
            value = contract_of(definition).accept(fact.value)
        except SchemaViolation as error:
            refusal = _invalid(definition, fact, error)
            if definition.id in strict:
                raise refusal from None
            # Not the message, which quotes the value.
            _log.warning("the record %s in %s does not fit its definition and is left out", fact.key, fact.scope)
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
UPDATE_MEMORY = "update_memory"
"""The tool with which a model changes what it is shown."""


def working_memory(mounted: Iterable[Mounted], values: Mapping[str, Any]) -> str:
    """Return memory as text for a prompt, with a heading for each definition and block; empty if there is none.

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
    once = {one.slug: one for one in mounted}
    sections = [
        "\n".join((f"## {one_line(one.name)}" if isinstance(one, Definition) else f"## {in_words(slug)}", *lines))
        for slug, one in once.items()
        if (lines := list(_section_lines(one, values.get(slug))))
    ]
    return "\n".join((HEADING, "\n\n".join(sections))) if sections else ""


def append_memory(system: str | None, memory: str) -> str:
    """Return the instructions with the memory text below them, after one blank line."""
    if not memory:
        return system or ""
    above = (system or "").rstrip()
    return f"{above}\n\n{memory}" if above else memory


def _section_lines(mounted: Mounted, value: Any) -> Iterator[str]:
    return record_lines(mounted.schema, value) if isinstance(mounted, Definition) else _block_lines(value)


def _block_lines(text: Any) -> Iterator[str]:
    """Yield the lines of a block that say something, each as an item of a list: none of them can be a heading."""
    for line in text.split("\n") if isinstance(text, str) else ():
        if line.strip():
            shown = one_line(line.rstrip())
            yield shown if shown.lstrip().startswith("- ") else f"- {shown}"


# what a model may change

_REPLACES = "is replaced by what you send: repeat every field that should stay"
_MERGES = "keeps the fields that you leave out"
_REPLACES_TEXT = "is a text that is replaced by what you send: repeat every line that should stay"


def may_update(mounted: Mounted) -> bool:
    """Return whether a model may change what is mounted: a record always, a block if it is writable."""
    return isinstance(mounted, Definition) or mounted.writable


def update_tool(mounted: Iterable[Mounted]) -> ToolSpec | None:
    """Return the `update_memory` tool for what is mounted and may be changed; None if that is nothing."""
    changed = {one.slug: one for one in mounted if may_update(one)}
    if not changed:
        return None
    rules = [f"`{slug}` {_rule(one)}" for slug, one in changed.items()]
    description = f"Save what should be remembered beyond this conversation. {'; '.join(rules)}."
    closed: dict[str, Any] = {"type": "object", "additionalProperties": False}
    shared: dict[str, Any] = {}
    records = {**closed, "properties": {slug: _value_schema(one, shared) for slug, one in changed.items()}}
    parameters = {**closed, "properties": {"memory": records}, "required": ["memory"]}
    if shared:
        parameters["$defs"] = shared
    return ToolSpec(UPDATE_MEMORY, description, parameters)


def _rule(mounted: Mounted) -> str:
    if isinstance(mounted, BlockBinding):
        return _REPLACES_TEXT
    return _MERGES if mounted.mode == "merge" else _REPLACES


def update_records(
    working: WorkingMemory, mounted: Collection[str], arguments: Any, versions: dict[str, int] | None = None
) -> dict[str, Any]:
    """Store a model's values for the mounted slugs, all or nothing; raise ToolFailed with a message for the model.

    `versions` are those of the blocks that the model has read; a block that has changed since is shown to it.
    """
    versions = working.block_versions() if versions is None else versions
    try:
        updates = _updates_for(arguments, mounted)
        try:
            return working.write(updates, versions=versions)
        except Conflict as error:
            raise ToolFailed(_conflict_text(working, updates, versions)) from error
    except (UsageError, NotFound, Refused, ScopeEnded) as error:
        raise ToolFailed(error) from error


def _conflict_text(working: WorkingMemory, updates: Collection[str], versions: dict[str, int]) -> str:
    """Return what a model is told about blocks that were changed since it read them."""
    seen = dict(versions)
    texts = {name: working.read_block(name, versions) for name in working.blocks if name in updates}
    changed = {name: text for name, text in texts.items() if versions[name] != seen[name]}
    shown = [f"`{name}` is now {encode(text or '').decode()}" for name, text in changed.items()]
    return f"nothing was written, because it was changed meanwhile: {'; '.join(shown)}. Send it again with your change."


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


def _value_schema(mounted: Mounted, shared: dict[str, Any]) -> dict[str, Any]:
    if isinstance(mounted, Definition):
        return _ToolSchema(mounted, shared).root()
    limits = ", ".join(f"{most:,} {what}" for what, most in size_limits(mounted.block).items())
    return {"type": "string", "description": f"The whole text, one item per line; at most {limits}."}


class _ToolSchema:
    """The schema of a definition as a part of the tool's; what it refers to goes to the `shared` parts of the tool.

    Providers resolve references to `#/$defs/name` of the whole, and few others.
    """

    def __init__(self, definition: Definition, shared: dict[str, Any]) -> None:
        self._definition = definition
        self._shared = shared
        self._names: dict[tuple[int, bool], str] = {}
        self._waiting: list[tuple[str, Any, bool]] = []

    def root(self) -> dict[str, Any]:
        """Return the schema; fields that are left out of a merge stay, so none of its fields is required."""
        root = self._move(self._definition.schema, self._definition.mode == "merge")
        while self._waiting:
            name, target, optional = self._waiting.pop()
            self._shared[name] = self._move(target, optional)
        return root

    def _move(self, node: Any, optional: bool) -> Any:
        if not isinstance(node, dict):
            return node
        given = cast("dict[str, Any]", node)
        own = {
            word: part
            for word, part in given.items()
            if word not in _LEFT_OUT and not (optional and word == "required")
        }
        moved: dict[str, Any] = {}
        for word, part in own.items():
            inside = optional and word in ("properties", "allOf", "anyOf")
            moved |= map_parts({word: part}, lambda one, inside=inside: self._move(one, inside))
        reference = own.pop("$dynamicRef", own.get("$ref"))
        if isinstance(reference, str):
            moved.pop("$dynamicRef", None)
            moved["$ref"] = self._reference(reference, optional)
        return moved

    def _reference(self, reference: str, optional: bool) -> str:
        found = resolve_reference(reference, self._definition.schema)
        if not isinstance(found, dict):
            return reference
        target = cast("dict[str, Any]", found)
        name = self._names.get((id(target), optional))
        if name is None:
            last = _NO_NAME.sub("_", reference.rpartition("/")[2].removeprefix("#"))
            name = first = "_".join(filter(None, (self._definition.slug, last, "changes" if optional else "")))
            number = 1
            while name in self._shared:
                number += 1
                name = f"{first}_{number}"
            self._names[id(target), optional] = name
            self._shared[name] = {}
            self._waiting.append((name, target, optional))
        return f"#/$defs/{name}"


_LEFT_OUT = frozenset((MODE_WORD, "$schema", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"))
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")
