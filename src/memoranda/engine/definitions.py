"""Definitions: the contracts of keys, and what changing them does to their records."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec

from memoranda.engine.facts import last_used, remove_fact, write_fact
from memoranda.engine.pages import read_portions
from memoranda.engine.schema_graph import UNBOUNDED
from memoranda.engine.schemas import prepare_schema
from memoranda.engine.verbs import Call, Outcome, Preparation, filter_by_key, verb
from memoranda.errors import AlreadyExists, Hint, InvalidDefinition, LimitExceeded, NotFound, UsageError
from memoranda.model.clock import LONGEST_DURATION, moment_after
from memoranda.model.definition import MODE_WORD, MODES, SHAPES, Definition, is_slug, name_key
from memoranda.model.effect import ReadEffect, WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.names import why_not_a_name
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import canonical, decode, encode, encode_checked
from memoranda.store.base import FactQuery, Reader, Store, TenantState, Transaction

_LONGEST_NAME = 255


class ReadDefinitions(ReadEffect, frozen=True, kw_only=True, tag="read_definitions"):
    """Read the definitions of a tenant."""

    capability: ClassVar[str] = "definitions.read"


@verb(ReadDefinitions)
def read_definitions(rows: Reader, effect: ReadDefinitions, call: Call) -> Outcome[list[Definition]]:
    """Return the tenant's definitions, oldest first."""
    return Outcome(rows.scan(Definition, effect.scope.tenant))


class ReadContract(ReadEffect, frozen=True, kw_only=True, tag="read_contract"):
    """Read the definition that applies to a key of a scope, which needs only the right to read the key."""

    key: str


@verb(ReadContract)
def read_contract(rows: Reader, effect: ReadContract, call: Call) -> Outcome[Definition | None]:
    """Return the definition of which a fact at this key would be a record, if there is one."""
    return Outcome(call.schemas.definition(rows, effect.scope, effect.key))


class ReadRecords(ReadEffect, frozen=True, kw_only=True, tag="read_records"):
    """Read every active record of one definition, in any scope."""

    definition: str
    after: str = ""
    """The path of the scope of the last record seen."""
    limit: int | None = None
    max_bytes: int | None = None


@verb(ReadRecords, read_filtered=filter_by_key)
def read_records(rows: Reader, effect: ReadRecords, call: Call) -> Outcome[list[Fact]]:
    """Return the active records of a definition, in any scope."""
    definition = find_definition(rows, effect.scope.tenant, effect.definition)

    def read(last: Fact | None, limit: int | None) -> list[Fact]:
        after = (effect.after or None) if last is None else last.scope.path
        query = FactQuery(Scope(definition.tenant), below=True, key=definition.slug, after=after, limit=limit)
        return list(rows.facts(query))

    def is_wanted(fact: Fact) -> bool:
        return definition.applies_to(fact.scope) and fact.active_at(call.now)

    return Outcome(
        read_portions(read, lambda fact: fact.value, limit=effect.limit, max_bytes=effect.max_bytes, wanted=is_wanted)
    )


class CreateDefinition(WriteEffect, frozen=True, kw_only=True, tag="create_definition"):
    """Create a definition, under a new id or under the one that files already refer to."""

    capability: ClassVar[str] = "definitions.write"
    title: str
    slug: str
    scope_kind: str
    ttl: int | None = None
    schema: dict[str, Any]
    id: str | None = None
    mode: str | None = None
    """`replace` or `merge`; None leaves it to the schema."""


class UpdateDefinition(WriteEffect, frozen=True, kw_only=True, tag="update_definition"):
    """Change the given parts of a definition; records follow a changed slug."""

    capability: ClassVar[str] = "definitions.write"
    definition: str
    title: str | None = None
    slug: str | None = None
    scope_kind: str | None = None
    ttl: int | None = None
    clear_ttl: bool = False
    schema: dict[str, Any] | None = None
    mode: str | None = None


def _compile_schema(store: Store, effect: CreateDefinition | UpdateDefinition, found: Any, call: Call) -> Call:
    compile_ahead((effect.schema,), call)
    return call


COMPILING_TAKES_TIME = "compiling a schema takes its time"
_PREPARATION = Preparation(prepare=_compile_schema, busy=COMPILING_TAKES_TIME)


@verb(CreateDefinition, preparation=_PREPARATION)
def create_definition(
    rows: Transaction, effect: CreateDefinition, call: Call, *, exact_name: bool = False
) -> Outcome[Definition]:
    """Check a definition and store it. Facts that exist at its key become its records."""
    definition = Definition(
        id=call.ids.new("definition") if effect.id is None else _check_id(effect.id),
        tenant=effect.scope.tenant,
        name=_check_name(effect.title),
        slug=_check_slug(effect.slug),
        scope=_check_scope(effect.scope_kind),
        ttl=_check_ttl(effect.ttl),
        schema=_with_mode(_check_schema(effect.schema, call), effect.mode),
        created_at=call.now,
        updated_at=call.now,
    )
    _check_unique(rows, definition, old=None, exact_name=exact_name)
    return Outcome(definition, (_keep(rows, definition, "create_definition"),))


@verb(UpdateDefinition, preparation=_PREPARATION)
def update_definition(rows: Transaction, effect: UpdateDefinition, call: Call) -> Outcome[Definition]:
    """Change the given parts. Records follow a changed slug; a changed scope leaves them where they are."""
    old = find_definition(rows, effect.scope.tenant, effect.definition)
    new = msgspec.structs.replace(
        old,
        name=old.name if effect.title is None else _check_name(effect.title),
        slug=old.slug if effect.slug is None else _check_slug(effect.slug),
        scope=old.scope if effect.scope_kind is None else _check_scope(effect.scope_kind),
        ttl=None if effect.clear_ttl else old.ttl if effect.ttl is None else _check_ttl(effect.ttl),
        schema=_schema_after(old, effect, call),
        updated_at=moment_after(old.updated_at, call.now),
    )
    _check_unique(rows, new, old=old)
    notes: list[Note] = []
    if new.slug != old.slug:
        for record in records_of(rows, old):
            notes.extend(_move_record(rows, record, new.slug, call))
    return Outcome(new, (*notes, _keep(rows, new, "update_definition")))


class DeleteDefinition(WriteEffect, frozen=True, kw_only=True, tag="delete_definition"):
    """Delete a definition, `others` with it, and all their records, all or nothing."""

    capability: ClassVar[str] = "definitions.write"
    definition: str
    others: tuple[str, ...] = ()


@verb(DeleteDefinition)
def delete_definition(rows: Transaction, effect: DeleteDefinition, call: Call) -> Outcome[int]:
    """Delete definitions and their records; return the number of records."""
    total, notes = 0, list[Note]()
    for definition in find_definitions(rows, effect.scope.tenant, (effect.definition, *effect.others)):
        records = records_of(rows, definition)
        for record in records:
            at = moment_after(record.updated_at, call.now)
            notes.append(remove_fact(rows, record, record.version + 1, at, call.origin))
        rows.remove(Definition, definition.tenant, definition.id)
        notes.append(Note(effect="delete_definition", resource=definition.id, detail={"records": len(records)}))
        total += len(records)
    bump_revision(rows, effect.scope.tenant)
    return Outcome(total, tuple(notes))


def find_definition(rows: Reader, tenant: str, name: str) -> Definition:
    """Return the definition of this id or slug."""
    return find_definitions(rows, tenant, (name,))[0]


def find_definitions(rows: Reader, tenant: str, names: Sequence[str]) -> list[Definition]:
    """Return the definitions of these ids or slugs, each once, or raise NotFound with the missing ones."""
    return select_definitions(rows.scan(Definition, tenant), names)


def select_definitions(known: Sequence[Definition], names: Sequence[str]) -> list[Definition]:
    """Return the definitions of these ids or slugs, each once, in this order, or raise NotFound."""
    found: dict[str, Definition] = {}
    missing: list[str] = []
    for name in names:
        # A UUID may be written in capitals; the ids of definitions never are, and slugs have none.
        one = next((one for one in known if name == one.slug or str(name).lower() == one.id), None)
        if one is None:
            missing.append(name)
        else:
            found[one.id] = one
    if missing:
        raise NotFound(
            f"unknown definition {', '.join(map(quote, missing))}",
            hint=Hint("list", "definitions"),
            value=missing[0],
            missing=missing,
        )
    return list(found.values())


def records_of(rows: Reader, definition: Definition) -> list[Fact]:
    """Return every record of a definition, expired or not."""
    named = rows.facts(FactQuery(Scope(definition.tenant), below=True, key=definition.slug))
    return [fact for fact in named if definition.applies_to(fact.scope)]


def bump_revision(rows: Transaction, tenant: str, *, epoch: bool = False) -> None:
    """Mark the tenant's rules as changed, so that every process reads and compiles them again.

    The revision is random: a counter would reach the same number again after a change is rolled back, and what was
    compiled for the undone change would be taken for the next one.
    """
    state = rows.tenant_state(tenant)
    rows.set_tenant_state(tenant, TenantState(secrets.randbits(62) + 1, state.epoch + epoch))


def _keep(rows: Transaction, definition: Definition, effect: str) -> Note:
    rows.put(definition)
    bump_revision(rows, definition.tenant)
    detail = {"slug": definition.slug, "scope": definition.scope, "ttl": definition.ttl}
    return Note(effect=effect, resource=definition.id, payload=canonical(definition.schema), detail=detail)


def _move_record(rows: Transaction, record: Fact, slug: str, call: Call) -> tuple[Note, Note]:
    there = rows.fact(record.scope, slug)
    if there is not None and there.active_at(call.now):
        raise AlreadyExists(
            f"`{record.scope}` already has a fact at {quote(slug)}, so its record cannot be moved there",
            hint="Delete that fact first, or choose another slug",
        )
    last, stamp = last_used(rows, record.scope, slug)
    at = max(moment_after(record.updated_at, call.now), moment_after(stamp, call.now))
    moved = msgspec.structs.replace(
        record,
        id=call.ids.new("fact"),
        key=slug,
        version=last + 1,
        created_at=at,
        updated_at=at,
        origin=call.origin,
    )
    gone = remove_fact(rows, record, record.version + 1, at, call.origin)
    return gone, write_fact(rows, moved, encode(record.value))


def _check_unique(rows: Reader, definition: Definition, *, old: Definition | None, exact_name: bool = False) -> None:
    same = str if exact_name else name_key
    for other in rows.scan(Definition, definition.tenant):
        if old is not None and other.id == old.id:
            continue
        for field in ("id", "slug"):
            if getattr(other, field) == getattr(definition, field):
                raise _taken(other, field)
        # Two names that differ only in case may be older than this rule; both may stay.
        kept = old is not None and name_key(old.name) == name_key(definition.name)
        if same(other.name) == same(definition.name) and not kept:
            raise _taken(other, "name")


def _taken(other: Definition, field: str) -> AlreadyExists:
    return AlreadyExists(
        f"there is already a definition with the {field} {quote(getattr(other, field))}",
        hint=f"Choose another {field}, or update definition `{other.slug}` ({other.id})",
        field=field,
        slug=other.slug,
    )


def _check_id(id: Any) -> str:
    try:
        written = str(uuid.UUID(id)) if isinstance(id, str) else None
    except ValueError:
        written = None
    # Python reads a UUID without its dashes or in braces too; a workflow that names it could not write it so.
    if written is None or written != id.lower():
        raise InvalidDefinition(
            f"{quote(id)} is not a UUID",
            hint="Leave the id out to get one, or pass one such as 5c2e7f0a-9d41-4b7e-8a36-1f0c9b6d2e48",
            path="id",
        )
    return written


def _check_name(name: Any) -> str:
    trimmed = name.strip() if isinstance(name, str) else name
    reason = why_not_a_name(trimmed, longest=_LONGEST_NAME)
    if reason:
        raise InvalidDefinition(f"the name cannot be used: {reason}", hint="Give it a short visible name", path="name")
    return trimmed


def _check_slug(slug: Any) -> str:
    if not is_slug(slug):
        raise InvalidDefinition(
            f"the slug {quote(slug)} cannot be used",
            hint="Use lower-case letters a-z, digits and underscores only, such as customer_profile",
            path="slug",
        )
    return slug


def _check_scope(scope: Any) -> str:
    if not isinstance(scope, str) or scope not in SHAPES:
        raise InvalidDefinition(
            f"{quote(scope)} is not a scope of definitions", hint=f"Scopes are {', '.join(SHAPES)}", path="scope"
        )
    return scope


def _check_ttl(ttl: Any) -> int | None:
    if ttl is None or (type(ttl) is int and 1 <= ttl <= LONGEST_DURATION):
        return ttl
    raise InvalidDefinition(
        f"the ttl {quote(ttl)} is not a whole number of seconds from 1 to a century",
        hint="Leave it out for permanent memory",
        path="ttl",
    )


def _schema_after(old: Definition, effect: UpdateDefinition, call: Call) -> dict[str, Any]:
    """Return the schema after an update; the mode stays unless the update names one."""
    schema = old.schema if effect.schema is None else _check_schema(effect.schema, call)
    return _with_mode(schema, effect.mode or schema.get(MODE_WORD, old.mode))


def _with_mode(schema: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Return a schema with its mode; `replace` is left out."""
    if mode is None:
        return schema
    if mode not in MODES:
        raise InvalidDefinition(f"{quote(mode)} is not a mode", hint=f"Modes are {', '.join(MODES)}", path="mode")
    plain = {word: part for word, part in schema.items() if word != MODE_WORD}
    return plain if mode == "replace" else {**plain, MODE_WORD: mode}


def _check_schema(schema: Any, call: Call) -> dict[str, Any]:
    payload = encode_checked(schema, call.limits)
    if len(payload) > call.limits.schema_bytes:
        raise LimitExceeded(
            f"the schema takes {len(payload):,} bytes as JSON, the limit is {call.limits.schema_bytes:,}",
            hint="Split it into several definitions",
            limit=call.limits.schema_bytes,
            actual=len(payload),
        )
    return call.checks.result(("schema", payload), 0, partial(_prepare, payload), {})


def _prepare(payload: bytes) -> dict[str, Any]:
    return prepare_schema(decode(payload))  # a copy: later changes of the caller's dict do not affect it


def compile_ahead(schemas: Iterable[Any], call: Call) -> None:
    """Compile schemas while nothing is locked; what is wrong with them is raised by the verb."""
    for schema in schemas:
        try:
            payload = encode_checked(schema, call.limits)
        except UsageError:
            continue
        if schema is not None and len(payload) <= call.limits.schema_bytes:
            call.checks.result(("schema", payload), UNBOUNDED, partial(_prepare, payload), {})
    call.checks.settle()
