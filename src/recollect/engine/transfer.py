"""Memory in and out of files: an export's parts out, an import's counts out."""

from __future__ import annotations

from datetime import datetime

import msgspec

from recollect.engine.blocks import ensure_block
from recollect.engine.call import Call, Outcome
from recollect.engine.definitions import create_definition
from recollect.engine.entries import digest_of, store_items
from recollect.engine.expiry import expire_fact
from recollect.engine.facts import last_used, write_fact
from recollect.engine.schemas import prepare_schema
from recollect.engine.sessions import ended_session, start_session
from recollect.errors import AlreadyExists
from recollect.model.block import is_block_key
from recollect.model.definition import Definition
from recollect.model.effect import (
    CreateDefinition,
    Export,
    Import,
    ImportedDefinition,
    ImportedEntry,
    ImportedFact,
    ImportedSession,
    Item,
    StartSession,
)
from recollect.model.entry import Entry, Shelf
from recollect.model.event import Note
from recollect.model.fact import Fact, Origin
from recollect.model.scope import Scope
from recollect.model.value import decode
from recollect.store.base import Reader, Session, Transaction


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Everything active at and below a scope, and the tenant's definitions."""

    tenant: str
    at: datetime
    definitions: list[Definition]
    sessions: list[Session]
    """The sessions that go on, with their owners: whoever imports them must know whom to erase them with."""
    facts: list[Fact]
    entries: list[Entry]


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did: written, and why the rest was left alone."""

    written: int = 0
    kept: int = 0
    """Facts that were changed or deleted here later than in the file."""
    erased: int = 0
    """Facts of subjects that were erased since the file was made: they stay erased."""
    ended: int = 0
    """Facts of sessions that are over."""
    expired: int = 0
    definitions: int = 0
    remembered: int = 0
    """Entries that were written. Those that stand here already, and those of the erased and ended, were not."""


def export(rows: Reader, effect: Export, call: Call) -> Outcome[Exported]:
    """Return the active facts at and below a scope, and the definitions they may be records of."""
    facts = [fact for fact in rows.facts_below(effect.scope) if fact.active_at(call.now)]
    owned = [rows.session(scope) for scope in rows.sessions_owned(effect.scope)]
    exported = Exported(
        tenant=effect.scope.tenant,
        at=call.now,
        definitions=rows.definitions(effect.scope.tenant),
        sessions=[session for session in owned if session is not None and session.ended_at is None],
        facts=facts,
        entries=[entry for entry in rows.entries_below(effect.scope) if entry.stands_at(call.now)],
    )
    return Outcome(exported, (export_note(effect, exported),))


def export_note(effect: Export, exported: Exported) -> Note:
    """Return what the ledger says of an export: how much left the house."""
    detail = {"facts": len(exported.facts), "entries": len(exported.entries)}
    return Note(effect=effect.name, scope=effect.scope.path, detail=detail)


def import_memory(rows: Transaction, effect: Import, call: Call) -> Outcome[Imported]:
    """Write definitions and facts of a file; equal definitions are reused, newer and erased facts stay as they are."""
    notes: list[Note] = []
    definitions = 0
    for definition in effect.definitions:
        created = _import_definition(rows, effect, definition, call)
        definitions += bool(created)
        notes.extend(created)
    for session in effect.sessions:
        notes.extend(_import_session(rows, effect, session, call))
    counts = {"written": 0, "kept": 0, "erased": 0, "ended": 0, "expired": 0}
    for fact in effect.facts:
        fate, written = _import_fact(rows, effect, fact, call)
        counts[fate] += 1
        notes.extend(written)
    remembered = 0
    for entry in effect.entries:
        written = _import_entry(rows, effect, entry, call)
        remembered += bool(written)
        notes.extend(written)
    imported = Imported(**counts, definitions=definitions, remembered=remembered)
    detail = {"source": effect.source, **counts, "remembered": remembered}
    done = Note(effect="import", scope=effect.scope.path, detail=detail)
    return Outcome(imported, (*notes, done))


def _import_definition(rows: Transaction, effect: Import, new: ImportedDefinition, call: Call) -> tuple[Note, ...]:
    for old in rows.definitions(effect.scope.tenant):
        if old.slug == new.slug:
            theirs = (new.name, new.scope, new.ttl, prepare_schema(new.schema))
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


def _import_session(rows: Transaction, effect: Import, new: ImportedSession, call: Call) -> tuple[Note, ...]:
    scope, owner = Scope(effect.scope.tenant, new.scope), Scope(effect.scope.tenant, new.owner)
    if rows.session(scope) is not None or rows.erasure(owner) is not None:
        return ()  # known here already, or of somebody who was erased: then its facts stay erased as well
    return start_session(rows, StartSession(scope=scope, owner=owner), call).notes


def _import_fact(rows: Transaction, effect: Import, new: ImportedFact, call: Call) -> tuple[str, tuple[Note, ...]]:
    scope, key = Scope(effect.scope.tenant, new.scope), new.key
    if is_block_key(key):
        ensure_block(scope, key, bytes(new.payload))
    _, payload = call.schemas.check(rows, scope, key, bytes(new.payload))
    if ended_session(rows, scope) is not None:
        return "ended", ()
    if new.expires_at is not None and new.expires_at <= call.now:
        return "expired", ()
    erasure = rows.erasure(scope)
    if erasure is not None and new.updated_at <= erasure.at:
        return "erased", ()
    last, stamp = last_used(rows, scope, key)
    if stamp is not None and stamp >= new.updated_at:
        return "kept", ()  # changed or deleted here after the file was made
    current, notes = rows.fact(scope, key), ()
    if current is not None and not current.active_at(call.now):
        notes = (expire_fact(rows, current, call),)
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
        origin=Origin(call.origin.actor, call.origin.door, f"import:{effect.source}"),
    )
    return "written", (*notes, write_fact(rows, fact, payload))


def _import_entry(rows: Transaction, effect: Import, new: ImportedEntry, call: Call) -> tuple[Note, ...]:
    scope = Scope(effect.scope.tenant, new.scope)
    erasure = rows.erasure(scope)
    if (
        ended_session(rows, scope) is not None
        or (new.expires_at is not None and new.expires_at <= call.now)
        or (erasure is not None and new.created_at <= erasure.at)
    ):
        return ()
    item = Item(payload=new.payload, metadata=new.metadata, key=new.key)
    shelf = Shelf(scope, new.collection, new.namespace)
    current = rows.entry_of_key(shelf, new.key) if new.key is not None else None
    if current is not None and current.stands_at(call.now) and current.created_at >= new.created_at:
        return ()  # changed here after the file was made
    if rows.ended_since(shelf, digest_of(bytes(new.payload)), new.created_at):
        return ()  # forgotten or replaced here since
    origin = Origin(call.origin.actor, call.origin.door, f"import:{effect.source}")
    at = min(new.created_at, call.now)
    done, notes = store_items(rows, shelf, (item,), call, at=at, expires_at=new.expires_at, origin=origin)
    return tuple(notes) if done[0].stored else ()
