"""Memory in and out of files: an export's parts out, an import's counts out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from memoranda.engine.blocks import ensure_block
from memoranda.engine.call import Call, Outcome
from memoranda.engine.definitions import create_definition
from memoranda.engine.entries import digest_of, store_items
from memoranda.engine.expiry import expire_fact
from memoranda.engine.facts import last_used, write_fact
from memoranda.engine.schema_rules import prepare_schema
from memoranda.engine.sessions import ended_session, ending_scopes, require_ending, start_session
from memoranda.errors import AlreadyExists, InvalidKey, SchemaViolation
from memoranda.model.block import is_block_key
from memoranda.model.definition import Definition
from memoranda.model.effect import (
    CreateDefinition,
    Export,
    Import,
    Item,
    StartSession,
)
from memoranda.model.entry import Entry, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact, imported_from
from memoranda.model.key import SESSION_RECORD, is_runtime_state
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.transfer import (
    MAX_REFUSALS,
    Imported,
    ImportedDefinition,
    ImportedEntry,
    ImportedFact,
    ImportRefusal,
)
from memoranda.model.value import decode, encode
from memoranda.store.base import Reader, Session, Transaction


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Everything active at and below a scope, and the tenant's definitions."""

    tenant: str
    at: datetime
    definitions: list[Definition]
    sessions: list[Session]
    """The sessions that go on, with their owners: whoever imports them must know whom to erase them with."""
    facts: list[Fact]
    entries: list[Entry]


ExportedPart: TypeAlias = Definition | Session | Fact | Entry


def export(rows: Reader, effect: Export, call: Call) -> Outcome[Exported]:
    """Return the active facts at and below a scope, and the definitions they may be records of."""
    parts = list(exported_parts(rows, effect, call))
    exported = Exported(
        tenant=effect.scope.tenant,
        at=call.now,
        definitions=[part for part in parts if isinstance(part, Definition)],
        sessions=[part for part in parts if isinstance(part, Session)],
        facts=[part for part in parts if isinstance(part, Fact)],
        entries=[part for part in parts if isinstance(part, Entry)],
    )
    return Outcome(exported, (export_note(effect, len(exported.facts), len(exported.entries)),))


def exported_parts(rows: Reader, effect: Export, call: Call) -> Iterator[ExportedPart]:
    """Yield what an export holds, in the order of a file, without having all of it at once. Use it inside the work."""
    yield from rows.definitions(effect.scope.tenant)
    # Who belongs to whom has to travel with whatever is exported of a session, also of that session alone.
    for scope in dict.fromkeys((*ending_scopes(effect.scope), *rows.sessions_owned(effect.scope))):
        session = rows.session(scope)
        if session is not None and session.ended_at is None:
            yield session
    yield from (fact for fact in rows.facts_below(effect.scope) if fact.active_at(call.now))
    yield from (entry for entry in rows.entries_below(effect.scope) if entry.stands_at(call.now))


def export_note(effect: Export, facts: int, entries: int) -> Note:
    """Return what the ledger says of an export: how much left the house."""
    return Note(effect=effect.name, scope=effect.scope.path, detail={"facts": facts, "entries": entries})


def import_memory(rows: Transaction, effect: Import, call: Call) -> Outcome[Imported]:
    """Write definitions and facts of a file; equal definitions are reused, newer and erased facts stay as they are.

    What a run or an agent's session would go on from is refused: a file can be edited, and the ledger that vouches for
    it stays where it was exported.
    """
    effect, refusals = _without_runtime_state(effect)
    notes: list[Note] = []
    definitions = 0
    for definition in effect.definitions:
        created = _import_definition(rows, effect, definition, call)
        definitions += bool(created)
        notes.extend(created)
    told = {session.scope: session.owner for session in effect.sessions}
    for path in told:
        session = Scope(effect.scope.tenant, path)
        require_ending(session)
        if _erased_at(rows, session, told) is None:  # else it begins with the first that is newer than the erasure
            notes.extend(_begin_sessions(rows, session, told, call))
    counts = {"written": 0, "kept": 0, "erased": 0, "ended": 0, "expired": 0}
    for fact in effect.facts:
        fate, written = _import_fact(rows, effect, fact, told, call)
        counts[fate] += 1
        notes.extend(written)
    remembered = 0
    for entry in effect.entries:
        stored, written = _import_entry(rows, effect, entry, told, call)
        remembered += stored
        notes.extend(written)
    refused = len(refusals)
    imported = Imported(
        **counts,
        definitions=definitions,
        remembered=remembered,
        refused=refused,
        refusals=tuple(refusals[:MAX_REFUSALS]),
    )
    detail = {"source": effect.source, **counts, "remembered": remembered, **({"refused": refused} if refused else {})}
    done = Note(effect="import", scope=effect.scope.path, detail=detail)
    return Outcome(imported, (*notes, done))


_NOT_IMPORTED = "Only the runtime writes this: runs, sessions of agents and the texts of programs are not imported"


def _without_runtime_state(effect: Import) -> tuple[Import, list[ImportRefusal]]:
    """Return an import without what only the runtime may write, and which lines that were."""
    tenant = effect.scope.tenant
    sessions = {fact.scope for fact in effect.facts if fact.key == SESSION_RECORD}
    refusals: list[ImportRefusal] = []

    def is_accepted(path: str, key: str | None = None, *, is_session: bool = False) -> bool:
        refused = is_runtime_state(Scope(tenant, path), key) or (is_session and path in sessions)
        if refused:
            refusals.append(ImportRefusal(scope=path, key=key, reason=_NOT_IMPORTED))
        return not refused

    accepted = msgspec.structs.replace(
        effect,
        sessions=tuple(one for one in effect.sessions if is_accepted(one.scope, is_session=True)),
        facts=tuple(fact for fact in effect.facts if is_accepted(fact.scope, fact.key)),
        entries=tuple(entry for entry in effect.entries if is_accepted(entry.scope)),
    )
    return accepted, refusals


def _import_definition(rows: Transaction, effect: Import, new: ImportedDefinition, call: Call) -> tuple[Note, ...]:
    for old in rows.definitions(effect.scope.tenant):
        if old.slug == new.slug:
            # One that was made when more was allowed is still the same.
            schema = new.schema if new.schema == old.schema else prepare_schema(new.schema)
            theirs = (new.name, new.scope, new.ttl, schema)
            if (old.name, old.scope, old.ttl, old.schema) == theirs:
                return ()
            raise AlreadyExists(
                f"definition `{new.slug}` exists and differs from the one in the file",
                hint="Make them equal, or rename one of them",
            )
    create = CreateDefinition(
        scope=effect.scope,
        title=new.name,
        slug=new.slug,
        scope_kind=new.scope,
        ttl=new.ttl,
        schema=new.schema,
        id=new.id,
    )
    return create_definition(rows, create, call).notes


def _begin_sessions(rows: Transaction, scope: Scope, told: Mapping[str, str], call: Call) -> Iterator[Note]:
    """Begin the sessions at and above a scope that are not known here, as their owners': erasing one takes both."""
    for ending in ending_scopes(scope):
        owner = _owner(rows, ending, told)
        if owner is not None and rows.session(ending) is None:
            yield from start_session(rows, StartSession(scope=ending, owner=owner), call).notes
            yield from _begin_sessions(rows, owner, told, call)


def _owner(rows: Reader, session: Scope, told: Mapping[str, str]) -> Scope | None:
    """Return whose a session is: as it is known here, or else as the file tells."""
    known = rows.session(session)
    if known is not None:
        return known.owner
    return Scope(session.tenant, told[session.path]) if session.path in told else None


def _erased_at(rows: Reader, scope: Scope, told: Mapping[str, str]) -> datetime | None:
    """Return when a scope was last erased, or somebody to whom it belongs; None if that never happened."""
    belongs_to = [scope]
    for one in belongs_to:  # which grows meanwhile
        owners = (_owner(rows, ending, told) for ending in ending_scopes(one))
        belongs_to += [owner for owner in owners if owner is not None and owner not in belongs_to]
    erasures = (rows.erasure(one) for one in belongs_to)
    return max((erasure.at for erasure in erasures if erasure is not None), default=None)


def _import_fact(
    rows: Transaction, effect: Import, new: ImportedFact, told: Mapping[str, str], call: Call
) -> tuple[str, tuple[Note, ...]]:
    scope, key = Scope(effect.scope.tenant, new.scope), new.key
    if ended_session(rows, scope) is not None:
        return "ended", ()
    if new.expires_at is not None and new.expires_at <= call.now:
        return "expired", ()
    erased_at = _erased_at(rows, scope, told)
    if erased_at is not None and new.updated_at <= erased_at:
        return "erased", ()
    last, stamp = last_used(rows, scope, key)
    if stamp is not None and stamp >= new.updated_at:
        return "kept", ()  # changed or deleted here after the file was made
    payload = _checked(rows, scope, key, bytes(new.payload), call)
    notes = [*_begin_sessions(rows, scope, told, call)]
    current = rows.fact(scope, key)
    if current is not None and not current.active_at(call.now):
        notes.append(expire_fact(rows, current, call))
        current, (last, stamp) = None, last_used(rows, scope, key)
    at = max(call.after(stamp), new.updated_at)  # never older than in the file: importing it again changes nothing
    fact = Fact(
        id=current.id if current else call.ids.new("fact"),
        scope=scope,
        key=key,
        value=decode(payload),
        version=last + 1,
        created_at=current.created_at if current else at,
        updated_at=at,
        expires_at=new.expires_at,
        domain=new.domain,
        origin=call.origin_from(imported_from(effect.source)),
    )
    return "written", (*notes, write_fact(rows, fact, payload))


def _checked(rows: Transaction, scope: Scope, key: str, payload: bytes, call: Call) -> bytes:
    """Return what will be written of a fact, or refuse it as any write of it would be, naming whose it is."""
    try:
        if is_block_key(key):
            ensure_block(scope, key, payload)
        return call.schemas.check(rows, scope, key, payload, call.checks)[1]
    except (SchemaViolation, InvalidKey) as refusal:
        message = f"{quote(key)} in `{scope}` cannot be imported: {refusal.message}"
        raise type(refusal)(message, hint=refusal.hint, **refusal.details) from refusal


def _import_entry(
    rows: Transaction, effect: Import, new: ImportedEntry, told: Mapping[str, str], call: Call
) -> tuple[bool, list[Note]]:
    scope = Scope(effect.scope.tenant, new.scope)
    erased_at = _erased_at(rows, scope, told)
    if (
        ended_session(rows, scope) is not None
        or (new.expires_at is not None and new.expires_at <= call.now)
        or (erased_at is not None and new.created_at <= erased_at)
    ):
        return False, []
    metadata = msgspec.Raw(encode(decode(bytes(new.metadata))))  # a file may write them in another way than we do
    item = Item(payload=new.payload, metadata=metadata, key=new.key)
    shelf = Shelf(scope, new.collection, new.namespace)
    current = rows.entry_of_key(shelf, new.key) if new.key is not None else None
    if current is not None and current.stands_at(call.now) and current.created_at >= new.created_at:
        return False, []  # changed here after the file was made
    if rows.ended_since(shelf, digest_of(bytes(new.payload)), new.created_at):
        return False, []  # forgotten or replaced here since
    origin = call.origin_from(imported_from(effect.source))
    begun = [*_begin_sessions(rows, scope, told, call)]
    # As it says, also where that is ahead of our clock: whatever happens to it here comes later than in the file.
    at = new.created_at
    done, notes = store_items(rows, shelf, (item,), call, at=at, expires_at=new.expires_at, origin=origin)
    return done[0].stored, begun + notes
