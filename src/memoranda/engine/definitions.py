"""Definitions: the contracts of keys, and what changing them does to their records."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import msgspec

from memoranda.engine.embedding import Stale
from memoranda.engine.facts import last_used, remove_fact, write_fact
from memoranda.engine.pages import content_bytes, read_portions
from memoranda.engine.schema_graph import UNBOUNDED
from memoranda.engine.schemas import Contract, contract_of, prepare_schema
from memoranda.engine.verbs import Call, Outcome, Preparation, filter_by_key, verb
from memoranda.errors import (
    AlreadyExists,
    Conflict,
    Hint,
    InvalidDefinition,
    LimitExceeded,
    NotFound,
    SchemaViolation,
    StaleRecords,
    UsageError,
)
from memoranda.model.clock import LONGEST_DURATION, moment_after
from memoranda.model.definition import (
    MODE_WORD,
    MODES,
    ON_STALE,
    SHAPES,
    Definition,
    OnStale,
    SchemaCheck,
    StaleRecord,
    is_slug,
    name_key,
)
from memoranda.model.effect import Demand, Effect, ReadEffect, WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.limits import Limits
from memoranda.model.names import is_internal, why_not_a_name
from memoranda.model.policy import EACH
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import canonical, decode, encode, encode_checked
from memoranda.store.base import FactQuery, Reader, Store, TenantState, Transaction

_LONGEST_NAME = 255


class TenantEffect(Effect, frozen=True, kw_only=True):
    """An effect on definitions, or on records in any scope: whatever scope it names, it needs the whole tenant."""

    @property
    def reach(self) -> None:
        """The whole tenant."""
        return None


class ReadDefinitions(TenantEffect, ReadEffect, frozen=True, kw_only=True, tag="read_definitions"):
    """Read the definitions of a tenant that the caller may read."""

    capability: ClassVar[str] = "definitions.read"

    def demands(self) -> Iterator[Demand]:
        """Yield the capability for each definition: those that the caller may not read are left out."""
        yield self.capability, self.reach, EACH


@verb(ReadDefinitions)
def read_definitions(rows: Reader, effect: ReadDefinitions, call: Call) -> Outcome[list[Definition]]:
    """Return the definitions that the caller may read, oldest first."""
    every = rows.scan(Definition, effect.scope.tenant)
    return Outcome([one for one in every if call.may(rows, (effect.capability, effect.reach, one.slug))])


class ReadContract(ReadEffect, frozen=True, kw_only=True, tag="read_contract"):
    """Ask which definition applies to a key of a scope, which needs only the right to read the key."""

    key: str


@verb(ReadContract)
def read_contract(rows: Reader, effect: ReadContract, call: Call) -> Outcome[str | None]:
    """Return the id of the definition of which a fact at this key would be a record, if there is one."""
    definition = call.schemas.definition(rows, effect.scope, effect.key)
    return Outcome(None if definition is None else definition.id)


class ReadRecords(TenantEffect, ReadEffect, frozen=True, kw_only=True, tag="read_records"):
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
        return _is_record(fact, definition, call.now)

    found = read_portions(
        read, lambda fact: fact.value, limit=effect.limit, max_bytes=effect.max_bytes, wanted=is_wanted
    )
    return Outcome([mark_misfit(fact, definition) for fact in found])


_COMPARED = 20_000
"""Small checks that reading a record may take, to say whether it fits its definition: about a millisecond."""


def mark_misfit(record: Fact, definition: Definition) -> Fact:
    """Return a record, marked if it does not fit its definition; one that takes long to compare is not compared."""
    contract = contract_of(definition)
    misfit = misfit_of(record.value, contract) if contract.cost(encode(record.value)) <= _COMPARED else None
    return record if misfit is None else msgspec.structs.replace(record, misfit=": ".join(misfit))


def misfit_of(value: Any, contract: Contract) -> tuple[str, str] | None:
    """Return the place and the reason of the first error of a value; None for one that fits its definition."""
    try:
        contract.accept(value)
    except SchemaViolation as error:
        return str(error.path), str(error.expected)
    except LimitExceeded as error:
        return "$", error.message
    return None


class CreateDefinition(TenantEffect, WriteEffect, frozen=True, kw_only=True, tag="create_definition"):
    """Create a definition, under a new id or under the one that files already refer to."""

    capability: ClassVar[str] = "definitions.write.create"
    title: str
    slug: str
    scope_kind: str
    ttl: int | None = None
    schema: dict[str, Any]
    id: str | None = None
    mode: str | None = None
    """`replace` or `merge`; None leaves it to the schema."""

    @property
    def place(self) -> str | None:
        """The slug."""
        return self.slug if is_slug(self.slug) else None


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """The new value of a record that does not fit a changed schema, for the version that it was made from."""

    path: str
    """The path of its scope."""
    expect: int
    payload: msgspec.Raw


class UpdateDefinition(TenantEffect, WriteEffect, frozen=True, kw_only=True, tag="update_definition"):
    """Change the given parts of a definition; records follow a changed slug."""

    capability: ClassVar[str] = "definitions.write.update"
    definition: str
    title: str | None = None
    slug: str | None = None
    scope_kind: str | None = None
    ttl: int | None = None
    clear_ttl: bool = False
    schema: dict[str, Any] | None = None
    mode: str | None = None
    stale: OnStale = "refuse"
    """What to do if records fit now and would not fit the changed schema."""
    migrated: tuple[Migrated, ...] = ()
    names_records: bool = False
    """Whether a refusal lists the records, which takes the right to read them."""

    def demands(self) -> Iterator[Demand]:
        """Yield the right to change definitions, to write what is migrated, and to read what a refusal lists."""
        yield from self._demands_at((None,))

    def _demands_at(self, keys: Iterable[str | None]) -> Iterator[Demand]:
        for key in keys:
            yield self.capability, self.reach, key
            if self.names_records or self.migrated:
                yield "memory.read", self.reach, key
            if self.migrated:
                yield "memory.write", self.reach, key

    def weight(self) -> tuple[int, int]:
        """Return one write for the definition and one for each record, with their bytes."""
        return 1 + len(self.migrated), sum(len(bytes(one.payload)) for one in self.migrated)

    def demands_on(self, slug: str) -> Iterator[Demand]:
        """Yield what the change needs for the definition of this slug, and for the slug that it gives."""
        return self._demands_at(dict.fromkeys((slug, self.slug if is_slug(self.slug) else slug)))


def _touch_slug(rows: Reader, effect: UpdateDefinition, call: Call) -> list[Demand]:
    """Return what a change needs, by the slug that rules name a definition by."""
    return _touch_named(rows, effect, call, (effect.definition,), effect.demands_on)


def _touch_named(
    rows: Reader,
    effect: UpdateDefinition | DeleteDefinition,
    call: Call,
    names: Iterable[str],
    demands_on: Callable[[str], Iterable[Demand]],
) -> list[Demand]:
    """Return what an effect needs for definitions, named by slug or id.

    A definition that the caller may neither read nor change gets the answer of an unknown one: its slug is not said.
    """
    known = rows.scan(Definition, effect.scope.tenant)
    found: list[Demand] = []
    for name in map(str, names):
        slug = next((one.slug for one in known if _is_called(one, name)), name)
        needed = list(demands_on(slug))
        is_secret = slug != name and not _may_read(rows, effect, slug, call)
        if is_secret and not all(call.may(rows, demand) for demand in needed):
            asked = list(demands_on(name))
            if all(call.may(rows, demand) for demand in asked):
                raise _unknown_error([name])
            found += asked
        found += needed
    return found


def _may_read(rows: Reader, effect: Effect, slug: str, call: Call) -> bool:
    return call.may(rows, (ReadDefinitions.capability, effect.reach, slug))


def _compile_schema(store: Store, effect: CreateDefinition, found: Any, call: Call) -> Call:
    compile_ahead((effect.schema,), call)
    return call


def _compare_ahead(store: Store, effect: UpdateDefinition, found: Any, call: Call) -> Call:
    """Compare the records with the changed schema while nothing is locked."""
    compile_ahead((effect.schema,), call)
    tenant = effect.scope.tenant
    old, position = store.read(lambda rows: (find_definition(rows, tenant, effect.definition), _end(rows, tenant)))
    new = _change(old, effect, call)
    if not effect.migrated and (effect.stale == "keep" or not _may_break(old, new)):
        return call
    comparison = Comparison(old, new)
    comparison.add_migrated(effect.migrated, call.limits)
    if effect.stale == "refuse" and _may_break(old, new):
        comparison.read_all(store, call.now)
    # What was written meanwhile is compared too; the transaction then has few records left to look at.
    for _ in range(_CATCH_UPS):
        end = store.read(lambda rows: _end(rows, tenant))
        if end - position <= _FEW_EVENTS:
            break
        paths = store.read(lambda rows, first=position: comparison.paths_written_after(rows, first, None))
        position = end
        for path in paths:
            comparison.add(path, store.read(lambda rows, path=path: comparison.record(rows, path, call.now)))
    comparison.position = position
    return msgspec.structs.replace(call, found=comparison)


def _end(rows: Reader, tenant: str) -> int:
    return rows.progress(tenant).position


COMPILING_TAKES_TIME = "compiling a schema takes its time"


@verb(CreateDefinition, preparation=Preparation(prepare=_compile_schema, busy=COMPILING_TAKES_TIME))
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
    _check_unique(rows, definition, effect, call, exact_name=exact_name)
    return Outcome(definition, (_keep(rows, definition, "create_definition"),))


@verb(UpdateDefinition, preparation=Preparation(prepare=_compare_ahead, busy=COMPILING_TAKES_TIME), touches=_touch_slug)
def update_definition(rows: Transaction, effect: UpdateDefinition, call: Call) -> Outcome[Definition]:
    """Change the given parts. Records follow a changed slug; a changed scope leaves them where they are.

    Records that would no longer fit are migrated, kept or a reason to refuse. They were compared before the transaction
    began; here only those are looked at that the ledger says were written since.
    """
    old = find_definition(rows, effect.scope.tenant, effect.definition)
    new = _change(old, effect, call)
    _check_unique(rows, new, effect, call, old=old)
    notes: list[Note] = []
    if effect.migrated or (effect.stale == "refuse" and _may_break(old, new)):
        comparison: Comparison | None = call.found
        if comparison is None or not comparison.is_about(old, new):
            raise Stale("a comparison with another schema")
        notes += comparison.migrate(rows, effect.migrated, call)
        if effect.stale == "refuse" and _may_break(old, new):
            comparison.ensure_none_breaks(rows, effect, call)
        if effect.migrated and msgspec.structs.replace(new, updated_at=old.updated_at) == old:
            return Outcome(old, tuple(notes))
    if new.slug != old.slug:
        for record in records_of(rows, old):
            notes.extend(_move_record(rows, record, new.slug, call))
    return Outcome(new, (*notes, _keep(rows, new, "update_definition")))


def _change(old: Definition, effect: UpdateDefinition, call: Call) -> Definition:
    """Return a definition with the given parts changed."""
    if effect.stale not in ON_STALE:
        raise UsageError(
            f"{quote(effect.stale)} is not what can be done with stale records",
            hint=f"Write one of {', '.join(ON_STALE)}, or migrate them",
            value=effect.stale,
        )
    return msgspec.structs.replace(
        old,
        name=old.name if effect.title is None else _check_name(effect.title),
        slug=old.slug if effect.slug is None else _check_slug(effect.slug),
        scope=old.scope if effect.scope_kind is None else _check_scope(effect.scope_kind),
        ttl=None if effect.clear_ttl else old.ttl if effect.ttl is None else _check_ttl(effect.ttl),
        schema=_schema_after(old, effect, call),
        updated_at=moment_after(old.updated_at, call.now),
    )


def _may_break(old: Definition, new: Definition) -> bool:
    """Return whether a change may leave records that do not fit: of its schema, or of what its records are."""
    return _without_mode(old.schema) != _without_mode(new.schema) or old.scope != new.scope


# records that do not fit


_PORTION = 64
"""Records that are read at once: each may have a megabyte."""
_CATCH_UPS = 20
_FEW_EVENTS = 1_000
"""Events of the ledger that a transaction may look through for records that were written meanwhile."""
SHOWN_RECORDS = 20
"""Records that an error or a check lists, unless another number is asked for."""


def _is_record(fact: Fact, definition: Definition, now: datetime) -> bool:
    return definition.applies_to(fact.scope) and fact.active_at(now) and not is_internal(fact.scope, fact.key)


class Comparison:
    """The records of a definition, compared with the schema that it has or is to get."""

    def __init__(
        self,
        old: Definition,
        new: Definition,
        *,
        shown: int = SHOWN_RECORDS,
        values: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        """Compare nothing yet; list as many records as `shown`, with their values if asked for."""
        self.old, self.new = old, new
        # Records follow a changed slug; where the scope changes, others become records.
        self.key = old.slug if old.scope == new.scope else new.slug
        self.position = 0
        self.checked = 0
        self.stale: dict[str, bool] = {}
        """By the path of the scope: whether the record does not fit the old schema either."""
        self.shown: dict[str, StaleRecord] = {}
        self.facts: list[Fact] = []
        self.bytes = 0
        """Of the values of `facts`."""
        self._max_bytes = max_bytes
        self._most, self._values = shown, values
        self._contract, self._before = contract_of(new), contract_of(old)
        self._payloads: dict[bytes, bytes] = {}

    def is_about(self, old: Definition, new: Definition) -> bool:
        """Return whether this compares the same change."""
        return (old.id, old.slug, old.updated_at) == (self.old.id, self.old.slug, self.old.updated_at) and (
            new.slug,
            new.scope,
            encode(new.schema),
        ) == (self.new.slug, self.new.scope, self._contract.text)

    def read_all(self, store: Store, now: datetime, *, after: str = "", stops: bool = False) -> None:
        """Compare every record, a few at a time; with `stops`, up to the last one that is listed."""
        last: str | None = after or None
        while True:
            query = FactQuery(Scope(self.new.tenant), below=True, key=self.key, after=last, limit=_PORTION)
            facts = store.read(lambda rows, query=query: list(rows.facts(query)))
            for fact in facts:
                if _is_record(fact, self.new, now):
                    self.checked += 1
                    self.add(fact.scope.path, fact)
                    if stops and (len(self.shown) == self._most or self._has_enough_bytes):
                        return
            if len(facts) < _PORTION:
                return
            last = facts[-1].scope.path

    @property
    def _has_enough_bytes(self) -> bool:
        return self._max_bytes is not None and self.bytes > self._max_bytes

    def add(self, path: str, fact: Fact | None) -> None:
        """Compare one record; None for one that is gone."""
        self.stale.pop(path, None)
        self.shown.pop(path, None)
        misfit = None if fact is None else misfit_of(fact.value, self._contract)
        if fact is None or misfit is None:
            return
        already = misfit_of(fact.value, self._before) is not None
        self.stale[path] = already
        if len(self.shown) < self._most:
            where, why = misfit
            self.shown[path] = StaleRecord(
                scope=path, key=fact.key, version=fact.version, path=where, message=why, already=already
            )
            if self._values:
                self.facts.append(fact)
                self.bytes += content_bytes(fact.value)

    def paths_written_after(self, rows: Reader, position: int, limit: int | None) -> set[str]:
        """Return the scopes whose record was written after a position of the ledger."""
        events = list(rows.events(self.new.tenant, start=position + 1, limit=limit))
        if limit is not None and len(events) == limit:
            raise Stale("more was written meanwhile than a transaction looks through")
        return {event.scope for event in events if event.key == self.key}

    def record(self, rows: Reader, path: str, now: datetime) -> Fact | None:
        """Return the record of a scope, if there is one."""
        fact = rows.fact(Scope(self.new.tenant, path), self.key)
        return fact if fact is not None and _is_record(fact, self.new, now) else None

    # migrating

    def add_migrated(self, migrated: Sequence[Migrated], limits: Limits) -> None:
        """Validate new values of records, and fill in the defaults of the schema."""
        ensure_few_migrated(len(migrated), limits)
        for one in migrated:
            payload = encode_checked(decode(bytes(one.payload)), limits)
            self._payloads[bytes(one.payload)] = self._contract.record(payload)

    def migrate(self, rows: Transaction, migrated: Sequence[Migrated], call: Call) -> Iterator[Note]:
        """Write the new values of records, each with its revision, if they are at the version they were made from."""
        for one in migrated:
            fact = self.record(rows, one.path, call.now)
            if fact is None or fact.version != one.expect:
                raise _race_error(one.path, self.key)
            payload = self._payloads[bytes(one.payload)]
            call.rejections.ensure_none(rows, fact.scope, fact.key, payload)
            changed = msgspec.structs.replace(
                fact,
                value=decode(payload),
                version=fact.version + 1,
                updated_at=moment_after(fact.updated_at, call.now),
                origin=call.origin,
            )
            yield write_fact(rows, changed, payload)

    def ensure_none_breaks(self, rows: Reader, effect: UpdateDefinition, call: Call) -> None:
        """Raise StaleRecords if records fit now and would not fit the changed schema."""
        migrated = {one.path for one in effect.migrated}
        stale = {path: already for path, already in self.stale.items() if path not in migrated}
        for path in self.paths_written_after(rows, self.position, _FEW_EVENTS + 1) - migrated:
            fact = self.record(rows, path, call.now)
            stale.pop(path, None)
            if fact is not None:
                payload = encode(fact.value)
                otherwise: tuple[str, str] | None = None
                check = partial(misfit_of, fact.value, self._contract)
                key = ("misfit", self._contract.text, payload)
                if call.checks.result(key, self._contract.cost(payload), check, otherwise) is not None:
                    stale[path] = False
        broken = [path for path, already in stale.items() if not already]
        if not broken:
            return
        if not any(self.record(rows, path, call.now) for path in broken[:_PORTION]):
            raise Stale("records that were erased meanwhile")
        if effect.migrated:
            raise _race_error(broken[0], self.key)
        shown = [one for path, one in self.shown.items() if path in stale and not one.already]
        raise stale_error(self.old.slug, len(broken), shown if effect.names_records else ())


_IN_PORTIONS = "Change the schema with stale=keep, then migrate its records without a schema, in portions"


def ensure_few_migrated(records: int, limits: Limits) -> None:
    """Refuse to migrate too many records in one transaction."""
    if records > limits.migration:
        raise LimitExceeded(
            f"{records:,} records would be migrated at once, the limit is {limits.migration:,}",
            hint=_IN_PORTIONS,
            limit=limits.migration,
            actual=records,
        )


def ensure_small_migration(size: int, limits: Limits) -> None:
    """Refuse to migrate values that are too large together."""
    if size > limits.migration_bytes:
        raise LimitExceeded(
            f"{size:,} bytes of records would be migrated at once, the limit is {limits.migration_bytes:,}",
            hint=_IN_PORTIONS,
            limit=limits.migration_bytes,
            actual=size,
        )


def slow_migration_error(done: int, limits: Limits, *, keeps: bool) -> LimitExceeded:
    """Return the error of a migration that takes too long, after this many records; `keeps` if they are written."""
    again = "Migrate the others with another call; what is migrated is kept"
    apart = "Change the schema with stale=keep, then migrate its records without a schema, which keeps what is done"
    return LimitExceeded(
        f"migrating takes longer than {limits.migration_seconds:g} seconds; {done:,} records were done by then",
        hint=f"{again if keeps else apart}; or make the migration do less",
        limit=limits.migration_seconds,
        done=done,
    )


def stale_error(slug: str, count: int, records: Sequence[StaleRecord]) -> StaleRecords:
    """Return the error of a change that records do not fit."""
    few = "; ".join(f"`{one.scope}` at {one.path}: {one.message}" for one in records[:3])
    more = f" and {count - 3:,} more" if records and count > 3 else ""
    one = count == 1
    return StaleRecords(
        f"{count:,} record{'' if one else 's'} of {quote(slug)} would no longer fit{': ' if few else ''}{few}{more}",
        hint="Migrate them with an expression, or keep them as they are with stale=keep; a check lists them",
        slug=slug,
        count=count,
        records=[msgspec.to_builtins(one) for one in records],
        options=["migrate", "keep", "check"],
    )


def _race_error(path: str, key: str) -> Conflict:
    return Conflict(
        f"the record {quote(key)} in `{path}` was changed while it was being migrated",
        hint="Migrate it again",
        key=key,
        migration=True,
    )


class FindStale(TenantEffect, ReadEffect, frozen=True, kw_only=True, tag="find_stale"):
    """Compare the records of a definition with its schema, or with the one that a change would give it."""

    key: str
    """The slug of the definition."""
    change: UpdateDefinition | None = None
    names_records: bool = True
    """Whether to list the records, which takes the right to read them."""
    values: bool = False
    """Whether to return the records themselves."""
    after: str = ""
    """The path of the scope of the last record seen."""
    limit: int = SHOWN_RECORDS
    stops: bool = False
    """Whether to stop at the last record that is listed, rather than count the others."""
    max_bytes: int | None = None
    """Bytes of the returned records at which to stop too; the one that exceeds them is returned."""

    def demands(self) -> Iterator[Demand]:
        """Yield what the change needs, or the right to read the definition, and to read what is listed."""
        reads = self.names_records or self.values
        if self.change is not None:
            yield from msgspec.structs.replace(self.change, names_records=reads).demands_on(self.key)
            return
        yield "definitions.read", self.reach, self.key
        if reads:
            yield "memory.read", self.reach, self.key


class FoundStale(msgspec.Struct, frozen=True):
    """What a comparison found: its summary, and the records that were asked for."""

    check: SchemaCheck
    facts: list[Fact]
    bytes: int
    """Of the values of these records."""
    contract: Contract
    """Validates what a migration makes of a record."""


@verb(FindStale, reads_often=True)
def find_stale(store: Store, effect: FindStale, call: Call) -> Outcome[FoundStale]:
    """Read the records in portions, and compare them while nothing is held."""
    tenant = effect.scope.tenant
    old = store.read(lambda rows: find_definition(rows, tenant, effect.key))
    if old.slug != effect.key:
        raise _unknown_error([effect.key])  # by its id: the rights were asked for at another place
    new = old
    if effect.change is not None:
        new = _change(old, effect.change, call)
        store.read(lambda rows: _check_unique(rows, new, effect, call, old=old))
    comparison = Comparison(old, new, shown=effect.limit, values=effect.values, max_bytes=effect.max_bytes)
    comparison.read_all(store, call.now, after=effect.after, stops=effect.stops)
    check = SchemaCheck(
        definition=old.id,
        slug=old.slug,
        checked=comparison.checked,
        count=len(comparison.stale),
        already=sum(comparison.stale.values()),
        records=tuple(comparison.shown.values()) if effect.names_records else (),
    )
    return Outcome(FoundStale(check, comparison.facts, comparison.bytes, contract_of(new)))


class DeleteDefinition(TenantEffect, WriteEffect, frozen=True, kw_only=True, tag="delete_definition"):
    """Delete a definition, `others` with it, and all their records, all or nothing."""

    capability: ClassVar[str] = "definitions.write.delete"
    definition: str
    others: tuple[str, ...] = ()


def _touch_slugs(rows: Reader, effect: DeleteDefinition, call: Call) -> list[Demand]:
    """Return what a deletion needs, by the slugs that rules name definitions by."""
    names = (effect.definition, *effect.others)
    return _touch_named(rows, effect, call, names, lambda slug: ((effect.capability, effect.reach, slug),))


@verb(DeleteDefinition, touches=_touch_slugs)
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
        one = next((one for one in known if _is_called(one, name)), None)
        if one is None:
            missing.append(name)
        else:
            found[one.id] = one
    if missing:
        raise _unknown_error(missing)
    return list(found.values())


def _unknown_error(missing: list[str]) -> NotFound:
    return NotFound(
        f"unknown definition {', '.join(map(quote, missing))}",
        hint=Hint("list", "definitions"),
        value=missing[0],
        missing=missing,
    )


def _is_called(definition: Definition, name: str) -> bool:
    """Return whether this is the id or the slug of a definition."""
    # A UUID may be written in capitals; the ids of definitions never are, and slugs have none.
    return name == definition.slug or str(name).lower() == definition.id


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
        is_known = all(call.may(rows, ("memory.read", record.scope, key)) for key in (record.key, slug))
        where = f"`{record.scope}`" if is_known else "a scope with a record"
        raise AlreadyExists(
            f"{where} already has a fact at {quote(slug)}, so its record cannot be moved there",
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


def _check_unique(
    rows: Reader,
    definition: Definition,
    effect: Effect,
    call: Call,
    *,
    old: Definition | None = None,
    exact_name: bool = False,
) -> None:
    same = str if exact_name else name_key
    for other in rows.scan(Definition, definition.tenant):
        if old is not None and other.id == old.id:
            continue
        # Two names that differ only in case may be older than this rule; both may stay.
        kept = old is not None and name_key(old.name) == name_key(definition.name)
        equal = [field for field in ("id", "slug") if getattr(other, field) == getattr(definition, field)]
        if same(other.name) == same(definition.name) and not kept:
            equal.append("name")
        if equal:
            shown = other if _may_read(rows, effect, other.slug, call) else None
            raise _duplicate_error(equal[0], getattr(definition, equal[0]), shown)


def _duplicate_error(field: str, asked: str, other: Definition | None) -> AlreadyExists:
    """Return the error of a definition like another one, which is named if the caller may read it."""
    if other is None:
        message = f"there is already a definition with the {field} {quote(asked)}"
        return AlreadyExists(message, hint=f"Choose another {field}", field=field)
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
    plain = _without_mode(schema)
    return plain if mode == "replace" else {**plain, MODE_WORD: mode}


def _without_mode(schema: dict[str, Any]) -> dict[str, Any]:
    return {word: part for word, part in schema.items() if word != MODE_WORD}


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
