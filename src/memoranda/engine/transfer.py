"""Exports and imports: the parts of an export, and writing those of an import."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

import msgspec

from memoranda.engine.blocks import BOOK, Book, ensure_block
from memoranda.engine.confirmations import with_voices
from memoranda.engine.definitions import COMPILING_TAKES_TIME, CreateDefinition, compile_ahead, create_definition
from memoranda.engine.embedding import Texts, derive, text_of, texts_by_space
from memoranda.engine.entries import Item, Remember, digest_of, entry_of_key, store_items
from memoranda.engine.facts import GetFact, SetFact, expire_fact, last_used, write_fact
from memoranda.engine.rejection_book import by_digest, find_among, note_messages, without_lines
from memoranda.engine.rejections import Reject, enforce
from memoranda.engine.schemas import prepare_schema
from memoranda.engine.sessions import StartSession, ending_scopes, find_ended_session, require_ending, start_session
from memoranda.engine.verbs import Call, MayRead, Outcome, Preparation, Stream, verb
from memoranda.errors import AlreadyExists, InvalidKey, InvalidScope, SchemaViolation
from memoranda.model.clock import moment_after
from memoranda.model.conversation import ConversationState, MessageState, Part, ThreadMessage, ThreadState
from memoranda.model.definition import Definition
from memoranda.model.effect import Demand, ReadEffect, WriteEffect
from memoranda.model.entry import CONVERSATIONS, Entry, Remembered, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact, import_source
from memoranda.model.names import (
    CHAT_RECORD,
    SESSION_RECORD,
    THREAD_MESSAGES,
    THREAD_RECORD,
    collection_key,
    find_internal,
    is_block,
    is_internal,
    is_runtime_state,
)
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.transfer import (
    MAX_REFUSALS,
    Imported,
    ImportedDefinition,
    ImportedEntry,
    ImportedFact,
    ImportedRejection,
    ImportedSession,
    ImportRefusal,
)
from memoranda.model.trust import Origin, OriginKind
from memoranda.model.value import decode, encode
from memoranda.store.base import EntryQuery, Erasure, FactQuery, Reader, Session, Store, Transaction


class Export(ReadEffect, frozen=True, kw_only=True, tag="export"):
    """Read the facts and entries at and below a scope, and the tenant's definitions, for a file."""

    capability: ClassVar[str] = "memory.export"

    def demands(self) -> Iterator[Demand]:
        """Yield the right to export, and to read what is exported."""
        yield self.capability, self.reach, None
        yield GetFact.capability, self.reach, None


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Everything active at and below a scope, and the tenant's definitions."""

    tenant: str
    at: datetime
    definitions: list[Definition]
    sessions: list[Session]
    """The sessions that have not ended, with their owners: an import has to know with whom to erase them."""
    rejections: list[StoredRejection]
    facts: list[Fact]
    entries: list[Entry]


ExportedPart: TypeAlias = Definition | Session | StoredRejection | Fact | Entry


def export_parts(rows: Reader, effect: Export, call: Call, may_read: MayRead | None = None) -> Iterator[ExportedPart]:
    """Yield the parts of an export in the order of a file, one at a time. Use it up inside the work."""
    yield from rows.scan(Definition, effect.scope.tenant)
    # The owner of a session has to be exported with anything of the session, also with that session alone.
    ending = [rows.get(Session, scope) for scope in ending_scopes(effect.scope)]
    for session in dict.fromkeys((*ending, *rows.scan(Session, effect.scope.tenant, below=effect.scope))):
        if session is not None and session.ended_at is None:
            yield session
    for rejection in rows.scan(StoredRejection, effect.scope.tenant, below=effect.scope):
        if may_read is None or rejection.key is None or may_read(rejection.key):
            yield rejection
    for fact in rows.facts(FactQuery(effect.scope, below=True)):
        if fact.active_at(call.now) and (may_read is None or may_read(fact.key)):
            yield fact
    for entry in rows.entries(EntryQuery(below=effect.scope)):
        if entry.is_current_at(call.now) and (may_read is None or may_read(collection_key(entry.collection))):
            yield with_voices(rows, entry)


def _export_note(effect: Export, parts: Iterable[ExportedPart]) -> Note:
    counts = Counter(type(part) for part in parts)
    detail = {"facts": counts[Fact], "entries": counts[Entry]}
    return Note(effect=effect.name, scope=effect.scope.path, detail=detail)


def _export_readable(look: Callable[[Any], Outcome[Exported]], effect: Export, may_read: MayRead) -> Outcome[Exported]:
    every = look(effect).value
    exported = msgspec.structs.replace(
        every,
        rejections=[one for one in every.rejections if one.key is None or may_read(one.key)],
        facts=[fact for fact in every.facts if may_read(fact.key)],
        entries=[entry for entry in every.entries if may_read(collection_key(entry.collection))],
    )
    return Outcome(exported, (_export_note(effect, (*exported.facts, *exported.entries)),))


@verb(
    Export,
    read_filtered=_export_readable,
    is_recorded_first=True,
    stream=Stream(parts=export_parts, note=_export_note),
)
def export(rows: Reader, effect: Export, call: Call) -> Outcome[Exported]:
    """Return the active facts and entries at and below a scope, and the tenant's definitions."""
    parts = list(export_parts(rows, effect, call))
    exported = Exported(
        tenant=effect.scope.tenant,
        at=call.now,
        definitions=[part for part in parts if isinstance(part, Definition)],
        sessions=[part for part in parts if isinstance(part, Session)],
        rejections=[part for part in parts if isinstance(part, StoredRejection)],
        facts=[part for part in parts if isinstance(part, Fact)],
        entries=[part for part in parts if isinstance(part, Entry)],
    )
    return Outcome(exported, (_export_note(effect, parts),))


class Import(WriteEffect, frozen=True, kw_only=True, tag="import"):
    """Write the parts of an export, all or nothing; what was erased since it was made stays erased."""

    capability: ClassVar[str] = "memory.import"
    source: str
    definitions: tuple[ImportedDefinition, ...] = ()
    sessions: tuple[ImportedSession, ...] = ()
    rejections: tuple[ImportedRejection, ...] = ()
    facts: tuple[ImportedFact, ...] = ()
    entries: tuple[ImportedEntry, ...] = ()
    refused: tuple[ImportRefusal, ...] = ()
    """Lines that were refused before it began."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The lines, by what they are."""
        return "definitions", "sessions", "facts", "entries"

    def kind_passed_on(self, *, is_owner: bool) -> OriginKind | None:
        """Return that it is from a file; the owner restores what was exported, and answers for it."""
        return None if is_owner else "import"

    def keys_of(self, item: Any) -> Iterator[str]:
        """Yield the keys that a line would write."""
        for name in ("key", "collection", "slug"):
            if (key := getattr(item, name, None)) is not None:
                yield key

    def divide(self, fate: Callable[[Any], str], refused: list[tuple[Any, str]]) -> tuple[Import, Import | None]:
        """Return what is imported and what waits; the refused lines are listed in the result."""
        rest, held = super().divide(fate, refused)
        lines = tuple(
            ImportRefusal(scope=item.scope, key=getattr(item, "key", None), reason=reason) for item, reason in refused
        )
        return msgspec.structs.replace(rest, refused=lines), held

    def demands(self) -> Iterator[Demand]:
        """Yield the right to import, and to write each thing that is imported."""
        yield self.capability, self.reach, None
        if self.definitions:
            yield CreateDefinition.capability, self.reach, None
        for session in self.sessions:
            yield StartSession.capability, Scope(self.scope.tenant, session.scope), None
        for rejection in self.rejections:
            yield Reject.capability, Scope(self.scope.tenant, rejection.scope), rejection.key
        for fact in self.facts:
            yield SetFact.capability, Scope(self.scope.tenant, fact.scope), fact.key
        for entry in self.entries:
            yield Remember.capability, Scope(self.scope.tenant, entry.scope), collection_key(entry.collection)

    def weight(self) -> tuple[int, int]:
        """Return the number of facts and entries, and the bytes of their contents."""
        written = (*self.facts, *self.entries)
        return len(written), sum(len(bytes(one.payload)) for one in written)


def _texts_to_embed(rows: Reader, effect: Import, call: Call) -> Texts:
    texts: dict[str, list[str]] = {}
    for entry in effect.entries:
        texts.setdefault(entry.collection, []).append(text_of(decode(bytes(entry.payload))))
    return texts_by_space(rows, effect.scope.tenant, texts.items())


def _prepare(store: Store, effect: Import, texts: Texts, call: Call) -> Call:
    compile_ahead((one.schema for one in effect.definitions), call)
    return msgspec.structs.replace(call, derived=derive(texts, call.embedders)) if texts else call


@verb(Import, preparation=Preparation(inquire=_texts_to_embed, prepare=_prepare, busy=COMPILING_TAKES_TIME))
def import_memory(rows: Transaction, effect: Import, call: Call) -> Outcome[Imported]:
    """Write definitions, facts and entries of a file; equal definitions are reused, newer and erased facts stay.

    What a run, an agent's session or a job would resume from is refused: a file can be edited, and the ledger that
    vouches for it stays where it was exported. So is a record of a conversation that could not be read again.
    """
    effect, refusals = _without_refused(effect)
    refusals = [*effect.refused, *refusals]
    notes: list[Note] = []
    definitions = 0
    for definition in effect.definitions:
        created = _import_definition(rows, effect, definition, call)
        definitions += bool(created)
        notes.extend(created)
    file_owners = {session.scope: session.owner for session in effect.sessions}
    for path in file_owners:
        session = Scope(effect.scope.tenant, path)
        require_ending(session)
        if _erasure_time(rows, session, file_owners) is None:  # else its first fact or entry that is newer begins it
            notes.extend(_begin_sessions(rows, session, file_owners, call))
    rejections = 0
    for rejection in effect.rejections:
        written = _import_rejection(rows, effect, rejection, file_owners, call, len(notes), refusals)
        rejections += bool(written)
        notes.extend(written)
    counts = {"written": 0, "kept": 0, "erased": 0, "ended": 0, "expired": 0}
    for fact in effect.facts:
        fact = _without_rejected(rows, effect, fact, call, refusals)
        if fact is None:
            continue
        fate, written = _import_fact(rows, effect, fact, file_owners, call)
        counts[fate] += 1
        notes.extend(written)
    remembered = 0
    for entry in effect.entries:
        stored, written = _import_entry(rows, effect, entry, file_owners, call)
        if stored is not None and stored.rejected is not None:
            refusals.append(ImportRefusal(scope=entry.scope, reason=_reason_of_rejection(stored.rejected)))
        remembered += stored is not None and stored.stored
        notes.extend(written)
    refused = len(refusals)
    imported = Imported(
        written=counts["written"],
        kept=counts["kept"],
        erased=counts["erased"],
        ended=counts["ended"],
        expired=counts["expired"],
        definitions=definitions,
        rejections=rejections,
        remembered=remembered,
        refused=refused,
        refusals=tuple(refusals[:MAX_REFUSALS]),
    )
    detail = {"source": effect.source, **counts, "remembered": remembered, **({"refused": refused} if refused else {})}
    done = Note(effect="import", scope=effect.scope.path, detail=detail)
    return Outcome(imported, (*notes, done))


_NOT_IMPORTED = "Only the runtime writes this: runs, sessions of agents, jobs and texts of programs are not imported"

_RECORDS: tuple[tuple[re.Pattern[str], Any], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (re.escape(CHAT_RECORD), ConversationState),
        (r"chat\.parts\.[0-9]{12,}", Part),
        (r"chat\.messages\.[0-9a-f]{32}", MessageState),
        (re.escape(THREAD_RECORD), ThreadState),
        (re.escape(THREAD_MESSAGES) + r"\.[0-9]{12,}", ThreadMessage),
        (r"threads\.current\..+", str),
        (re.escape(BOOK), Book),
    )
)
"""The internal facts that are imported, apart from memory blocks: their keys, and what their values are."""


def _without_refused(effect: Import) -> tuple[Import, list[ImportRefusal]]:
    """Return an import without state that only the runtime may write or that it cannot read, and the refused lines."""
    tenant = effect.scope.tenant
    sessions = {fact.scope for fact in effect.facts if fact.key == SESSION_RECORD}
    refusals: list[ImportRefusal] = []

    def is_accepted(path: str, key: str | None = None, *, is_session: bool = False) -> bool:
        refused = is_runtime_state(Scope(tenant, path), key) or (is_session and path in sessions)
        if refused:
            refusals.append(ImportRefusal(scope=path, key=key, reason=_NOT_IMPORTED))
        return not refused

    def is_readable(fact: ImportedFact) -> bool:
        reason = _why_unreadable(Scope(tenant, fact.scope), fact.key, bytes(fact.payload))
        if reason is not None:
            refusals.append(ImportRefusal(scope=fact.scope, key=fact.key, reason=reason))
        return reason is None

    accepted = msgspec.structs.replace(
        effect,
        sessions=tuple(one for one in effect.sessions if is_accepted(one.scope, is_session=True)),
        facts=tuple(fact for fact in effect.facts if is_accepted(fact.scope, fact.key) and is_readable(fact)),
        entries=tuple(entry for entry in effect.entries if is_accepted(entry.scope)),
    )
    return accepted, refusals


def _why_unreadable(scope: Scope, key: str, payload: bytes) -> str | None:
    """Return why the runtime could not read an internal fact; None if it can, and for all other facts."""
    internal = find_internal(scope, key)
    if internal is None or is_block(scope, key):
        return None
    kind = next((kind for pattern, kind in _RECORDS if pattern.fullmatch(key)), None)
    if kind is None:
        return f"Only {internal.writer} can write here, and never under this key"
    try:
        value = msgspec.convert(decode(payload), kind)
        # Conversations that are named here are looked up, so their ids have to be valid.
        named = [value] if kind is str else []
        if kind is Book:
            named = [source.conversation for line in value.values() for source in line.sources]
        for id in named:
            Scope.of(tenant=scope.tenant, user=scope.parts[0][1], thread=id)
    except (msgspec.ValidationError, InvalidScope) as fault:
        return f"It cannot be read as a record of {internal.writer}: {fault}"
    return None


def _import_definition(rows: Transaction, effect: Import, new: ImportedDefinition, call: Call) -> tuple[Note, ...]:
    for old in rows.scan(Definition, effect.scope.tenant):
        if old.slug == new.slug:
            # A definition from when more was allowed still counts as equal.
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
    # Names that differ only in case are older than the rule against them, and are restored as they were.
    return create_definition(rows, create, call, exact_name=True).notes


def _begin_sessions(rows: Transaction, scope: Scope, file_owners: Mapping[str, str], call: Call) -> Iterator[Note]:
    """Begin the unknown sessions at and above a scope, with their owners, so that erasing an owner erases them."""
    for ending in ending_scopes(scope):
        owner = _owner(rows, ending, file_owners)
        if owner is not None and rows.get(Session, ending) is None:
            yield from start_session(rows, StartSession(scope=ending, owner=owner), call).notes
            yield from _begin_sessions(rows, owner, file_owners, call)


def _owner(rows: Reader, session: Scope, file_owners: Mapping[str, str]) -> Scope | None:
    """Return the owner of a session: the one known here, or else the one in the file."""
    known = rows.get(Session, session)
    if known is not None:
        return known.owner
    return Scope(session.tenant, file_owners[session.path]) if session.path in file_owners else None


def _erasure_time(rows: Reader, scope: Scope, file_owners: Mapping[str, str]) -> datetime | None:
    """Return when a scope, or an owner of it, was last erased; None if never."""
    belongs_to = [scope]
    for one in belongs_to:  # which grows meanwhile
        owners = (_owner(rows, ending, file_owners) for ending in ending_scopes(one))
        belongs_to += [owner for owner in owners if owner is not None and owner not in belongs_to]
    erasures = (rows.get(Erasure, one) for one in belongs_to)
    return max((erasure.at for erasure in erasures if erasure is not None), default=None)


def _import_fact(
    rows: Transaction, effect: Import, new: ImportedFact, file_owners: Mapping[str, str], call: Call
) -> tuple[str, tuple[Note, ...]]:
    scope, key = Scope(effect.scope.tenant, new.scope), new.key
    if find_ended_session(rows, scope) is not None:
        return "ended", ()
    if new.expires_at is not None and new.expires_at <= call.now:
        return "expired", ()
    erased_at = _erasure_time(rows, scope, file_owners)
    if erased_at is not None and new.updated_at <= erased_at:
        return "erased", ()
    last, stamp = last_used(rows, scope, key)
    if stamp is not None and stamp >= new.updated_at:
        return "kept", ()  # changed or deleted here after the file was made
    payload = _check_payload(rows, scope, key, bytes(new.payload), call)
    notes = [*_begin_sessions(rows, scope, file_owners, call)]
    current = rows.fact(scope, key)
    if current is not None and not current.active_at(call.now):
        notes.append(expire_fact(rows, current, call))
        current, (last, stamp) = None, last_used(rows, scope, key)
    # Never older than in the file, so that importing it again changes nothing.
    at = max(moment_after(stamp, call.now), new.updated_at)
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
        origin=_origin_of(effect, new, call),
    )
    return "written", (*notes, write_fact(rows, fact, payload))


def _origin_of(effect: Import, new: ImportedFact | ImportedEntry, call: Call) -> Origin:
    """Return the origin of something in a file; what it says of its trust counts only if the owner imports it."""
    origin = call.origin.with_source(import_source(effect.source))
    imported = origin.from_kind("import")
    return msgspec.structs.replace(imported, trust=new.trust) if call.tenant is None else imported


def _check_payload(rows: Transaction, scope: Scope, key: str, payload: bytes, call: Call) -> bytes:
    """Return the value to write, or raise what a write of it would raise, naming key and scope."""
    try:
        if is_block(scope, key):
            ensure_block(scope, key, payload)
        return call.schemas.check(rows, scope, key, payload, call.checks)[1]
    except (SchemaViolation, InvalidKey) as refusal:
        message = f"{quote(key)} in `{scope}` cannot be imported: {refusal.message}"
        raise type(refusal)(message, hint=refusal.advice, **refusal.details) from refusal


def _import_rejection(
    rows: Transaction,
    effect: Import,
    new: ImportedRejection,
    file_owners: Mapping[str, str],
    call: Call,
    notes_before: int,
    refusals: list[ImportRefusal],
) -> tuple[Note, ...]:
    """Store a rejection of a file with its own salt, and end what it is about here; return the notes."""
    scope = Scope(effect.scope.tenant, new.scope)
    erased_at = _erasure_time(rows, scope, file_owners)
    if find_ended_session(rows, scope) is not None or (erased_at is not None and new.at <= erased_at):
        return ()
    if call.authority != "high":
        reason = "Only a user, and programs that are trusted as much, may say what others may not write"
        refusals.append(ImportRefusal(scope=new.scope, key=new.key, reason=reason))
        return ()
    salt = bytes.fromhex(new.salt)
    known = by_digest(one for one in call.rejections.of_subject(rows, scope) if one.scope == scope).get(salt, {})
    if rows.get(StoredRejection, scope.tenant, new.id) is not None or set(new.digests) <= known.keys():
        return ()
    rejection = StoredRejection(
        id=new.id,
        scope=scope,
        key=new.key,
        at=new.at,
        actor=new.actor,
        reason=new.reason,
        salt=salt,
        digests=new.digests,
    )
    return enforce(rows, rejection, call, notes_before=notes_before).notes


def _without_rejected(
    rows: Reader, effect: Import, new: ImportedFact, call: Call, refusals: list[ImportRefusal]
) -> ImportedFact | None:
    """Return a fact of a file; None if its value was rejected here, and a block without the lines that were."""
    scope = Scope(effect.scope.tenant, new.scope)
    known = call.rejections.of_scope(rows, scope)
    if not known or (is_internal(scope, new.key) and not is_block(scope, new.key)):
        return new
    value = decode(bytes(new.payload))
    rejection = find_among(known, value, new.key)
    if rejection is None:
        return new
    refusals.append(ImportRefusal(scope=new.scope, key=new.key, reason=_reason_of_rejection(rejection.id)))
    if not is_block(scope, new.key) or not isinstance(value, str):
        return None
    left = without_lines(value, lambda line: find_among(known, line) is not None)
    return msgspec.structs.replace(new, payload=msgspec.Raw(encode(left))) if left.strip() else None


def _reason_of_rejection(rejection: str) -> str:
    return f"Its value was rejected here: withdraw `{rejection}` if it is right after all"


def _import_entry(
    rows: Transaction, effect: Import, new: ImportedEntry, file_owners: Mapping[str, str], call: Call
) -> tuple[Remembered | None, list[Note]]:
    scope = Scope(effect.scope.tenant, new.scope)
    erased_at = _erasure_time(rows, scope, file_owners)
    if (
        find_ended_session(rows, scope) is not None
        or (new.expires_at is not None and new.expires_at <= call.now)
        or (erased_at is not None and new.created_at <= erased_at)
    ):
        return None, []
    metadata = msgspec.Raw(encode(decode(bytes(new.metadata))))  # a file may use another encoding of the same JSON
    item = Item(payload=new.payload, metadata=metadata, key=new.key)
    shelf = Shelf(scope, new.collection, new.namespace)
    current = entry_of_key(rows, shelf, new.key) if new.key is not None else None
    if current is not None and current.is_current_at(call.now) and current.created_at >= new.created_at:
        return None, []  # changed here after the file was made
    digest = digest_of(bytes(new.payload))
    if any(rows.entries(EntryQuery(shelf=shelf, digest=digest, ended_since=new.created_at, limit=1))):
        return None, []  # forgotten or replaced here since
    origin = _origin_of(effect, new, call)
    begun = [*_begin_sessions(rows, scope, file_owners, call)]
    # As in the file, even if that is ahead of our clock: what happens to it here comes later than in the file.
    at = new.created_at
    is_evidence = new.collection == CONVERSATIONS
    done, notes = store_items(
        rows, shelf, (item,), call, at=at, expires_at=new.expires_at, origin=origin, is_evidence=is_evidence
    )
    if is_evidence and done[0].stored:
        rejection = call.rejections.find(rows, scope, decode(bytes(new.payload)))
        if rejection is not None:
            note_messages(rows, rejection, [done[0].id])
    return done[0], begun + notes
