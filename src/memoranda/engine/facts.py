"""Facts: reading, writing, deleting and listing values by key, with versions, history and idempotency keys."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, cast

import msgspec

from memoranda.engine.blocks import LEARNED, end_removed_statements, ensure_block
from memoranda.engine.derivation import call_for_sources, editing, fact_ref, link
from memoranda.engine.pages import content_bytes, is_over, read_portions, take_within
from memoranda.engine.reviews import confirm, contest
from memoranda.engine.sessions import ensure_open, is_session, variable_of, variables_of
from memoranda.engine.verbs import Call, MayRead, Outcome, verb, within_scope
from memoranda.errors import Conflict, Held, Hint, IdempotencyMismatch, LimitExceeded, NotFound, UsageError
from memoranda.model.block import lines_of
from memoranda.model.clock import from_micros, moment_after, to_micros
from memoranda.model.effect import Demand, ReadEffect, Side, WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact, Revision
from memoranda.model.limits import Limits, larger_limit
from memoranda.model.names import SESSION_RECORD, is_block, is_internal, is_runtime_state, may_have_internals
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Origin, OriginKind, is_at_least, lowest
from memoranda.model.value import canonical, decode, encode_checked, hash_content
from memoranda.store.base import ContentKey, Erasure, FactQuery, Reader, Replay, RevisionQuery, Transaction


class GetFact(ReadEffect, frozen=True, kw_only=True, tag="get_fact"):
    """Read one fact, now or as it was at a moment (microseconds)."""

    in_one_scope: ClassVar[bool] = True
    key: str
    as_of: int | None = None


def _is_about_the_past(effect: GetFact) -> bool:
    return effect.as_of is not None


@verb(GetFact, needs_snapshot=_is_about_the_past)
def get_fact(rows: Reader, effect: GetFact, call: Call) -> Outcome[Fact | None]:
    """Return the active fact, or the one at `as_of`; in a session also a variable of its record."""
    fact = _fact_at(rows, effect, effect.key, call)
    if fact is None and is_session(effect.scope):
        fact = variable_of(_fact_at(rows, effect, SESSION_RECORD, call), effect.key)
    return Outcome(fact)


def _fact_at(rows: Reader, effect: GetFact | ListFacts, key: str, call: Call) -> Fact | None:
    if effect.as_of is None:
        fact = rows.fact(effect.scope, key)
        return fact if fact is not None and fact.active_at(call.now) else None
    moment = from_micros(effect.as_of)
    revision = rows.revision(effect.scope, key, at=moment)
    if revision is None or revision.change != "set" or revision.forgotten:
        return None
    fact = revision.as_fact()
    return fact if fact.active_at(moment) else None


class GetFacts(ReadEffect, frozen=True, kw_only=True, tag="get_facts"):
    """Read several facts of one tenant at one moment."""

    gets: tuple[GetFact, ...]

    def demands(self) -> Iterator[Demand]:
        """Yield what each read needs."""
        for get in self.gets:
            yield from get.demands()


@verb(GetFacts)
def get_facts(rows: Reader, effect: GetFacts, call: Call) -> Outcome[list[Fact | None]]:
    """Return several facts at one moment, in the order asked for."""
    for get in effect.gets:
        ensure_same_tenant(get.scope, effect.scope)
    return Outcome([get_fact(rows, get, call).value for get in effect.gets])


class ListFacts(ReadEffect, frozen=True, kw_only=True, tag="list_facts"):
    """Read the facts at and below a key, in the order of their keys."""

    in_one_scope: ClassVar[bool] = True
    prefix: str = ""
    domain: str | None = None
    after: str = ""
    limit: int | None = None
    max_bytes: int | None = None
    """Stop after the fact with which the values exceed this; the same field of other effects means the same."""
    as_of: int | None = None
    internal: bool = False
    """Whether to include what the runtime keeps among the facts."""

    @property
    def place(self) -> str | None:
        """The prefix, where there is one."""
        return self.prefix or None


class FindFacts(ReadEffect, frozen=True, kw_only=True, tag="find_facts"):
    """Read the facts of one key in a scope and in every scope below it, in the order of their scopes."""

    key: str
    limit: int | None = None
    internal: bool = False
    """Whether to find what the runtime keeps under this key, instead of what users do."""


Look = Callable[[Any], Outcome[list[Fact]]]


def _list_readable(look: Look, effect: ListFacts | FindFacts, may_read: MayRead) -> Outcome[list[Fact]]:
    """Leave out the facts that the caller may not read, before a limit counts them."""
    max_bytes = effect.max_bytes if isinstance(effect, ListFacts) else None
    if max_bytes is None:
        every = look(msgspec.structs.replace(effect, limit=None)).value
        return Outcome([fact for fact in every if may_read(fact.key)][: effect.limit])
    found: list[Fact] = []
    size, page = 0, effect
    while portion := look(page).value:
        for fact in portion:
            if may_read(fact.key):
                found.append(fact)
                size += content_bytes(fact.value)
                if is_over(found, size, max_bytes) or len(found) == effect.limit:
                    return Outcome(found)
        page = msgspec.structs.replace(effect, after=portion[-1].key)
    return Outcome(found)


@verb(FindFacts, read_filtered=_list_readable)
def find_facts(rows: Reader, effect: FindFacts, call: Call) -> Outcome[list[Fact]]:
    """Return the active facts of one key at and below a scope."""
    named = rows.facts(FactQuery(effect.scope, below=True, key=effect.key))
    wanted = (fact for fact in named if is_internal(fact.scope, fact.key) == effect.internal)
    return Outcome([fact for fact in wanted if fact.active_at(call.now)][: effect.limit])


@verb(ListFacts, read_filtered=_list_readable)
def list_facts(rows: Reader, effect: ListFacts, call: Call) -> Outcome[list[Fact]]:
    """Return the active facts at and below a key, or those that were active at `as_of`."""
    found = _facts_under(rows, effect, call)
    if effect.domain is None and is_session(effect.scope):
        record = _fact_at(rows, effect, SESSION_RECORD, call)
        known = {fact.key for fact in found}
        held = [fact for fact in variables_of(record, effect.prefix) if fact.key > effect.after]
        if effect.max_bytes is not None and is_over(
            found, sum(content_bytes(fact.value) for fact in found), effect.max_bytes
        ):
            # Facts between the last one read and these variables were not read; the next page has them.
            held = [fact for fact in held if fact.key < found[-1].key]
        found = sorted((*found, *(fact for fact in held if fact.key not in known)), key=lambda fact: fact.key)
        found = take_within(found, _value, effect.max_bytes)
    return Outcome(found[: effect.limit])


def _facts_under(rows: Reader, effect: ListFacts, call: Call) -> list[Fact]:
    def read(last: Fact | None, limit: int | None) -> list[Fact]:
        after = effect.after if last is None else last.key
        scope, prefix = effect.scope, effect.prefix
        if effect.as_of is None:
            query = FactQuery(scope, active_at=call.now, prefix=prefix, domain=effect.domain, after=after, limit=limit)
        else:
            query = FactQuery(scope, as_of=from_micros(effect.as_of), prefix=prefix, after=after, limit=limit)
        return list(rows.facts(query))

    # No statement filters history by domain.
    tagged = effect.as_of is not None and effect.domain is not None
    hides = not effect.internal and may_have_internals(effect.scope)

    def is_wanted(fact: Fact) -> bool:
        return not (tagged and fact.domain != effect.domain) and not (hides and is_internal(fact.scope, fact.key))

    return read_portions(
        read,
        _value,
        limit=effect.limit,
        max_bytes=effect.max_bytes,
        wanted=is_wanted if tagged or hides else None,
    )


def _value(kept: Fact | Revision) -> Any:
    return kept.value


class ReadHistory(ReadEffect, frozen=True, kw_only=True, tag="read_history"):
    """Read the revisions of one fact: oldest first after a version, or newest first before one."""

    in_one_scope: ClassVar[bool] = True
    key: str
    after: int = 0
    before: int | None = None
    newest: bool = False
    limit: int | None = None
    max_bytes: int | None = None


@verb(ReadHistory)
def read_history(rows: Reader, effect: ReadHistory, call: Call) -> Outcome[list[Revision]]:
    """Return revisions of a key: oldest first, or the newest, newest first."""

    def read(last: Revision | None, limit: int | None) -> list[Revision]:
        if effect.newest:
            before = effect.before if last is None else last.version
            query = RevisionQuery(effect.scope, effect.key, before=before, newest_first=True, limit=limit)
        else:
            after = effect.after if last is None else last.version
            query = RevisionQuery(effect.scope, effect.key, after=after, limit=limit)
        return list(rows.revisions(query))

    return Outcome(read_portions(read, _value, limit=effect.limit, max_bytes=effect.max_bytes))


class SetFact(WriteEffect, frozen=True, kw_only=True, tag="set_fact"):
    """Write one fact.

    `expect` is the version it must be at: 0 means it must not exist, None means any. `stamp` is the same for callers
    who know when it was last written (microseconds) but not its version. `record` is the id of the definition that
    must apply to the key; its mode says whether the value replaces the current one or is merged into it. With
    `keep_end` a fact that exists keeps the moment at which it ends, unless `ttl` or its definition gives another.
    """

    in_one_scope: ClassVar[bool] = True
    key: str
    payload: msgspec.Raw
    expect: int | None = None
    stamp: int | None = None
    ttl: int | None = None
    keep_end: bool = False
    domain: str | None = None
    source: str | None = None
    idempotency_key: str | None = None
    record: str | None = None
    derived_from: tuple[str, ...] = ()
    """The refs of what it was made of: it is trusted no more than they are."""
    requires_confirmation: bool = False
    """Whether it waits until someone else confirms it."""
    kind: OriginKind | None = None
    """What kind of origin it is from, if the caller only passes it on."""
    echo: bool = True
    """Whether the fact that comes back has its value; leaving it out saves decoding what the caller wrote."""

    def kind_passed_on(self, *, is_owner: bool) -> OriginKind | None:
        """Return what kind of origin the value is from, if it is only passed on."""
        return self.kind

    def weight(self) -> tuple[int, int]:
        """Return one write and the bytes of its value."""
        return 1, len(bytes(self.payload))

    def sides(self) -> Iterator[Side]:
        """Yield what it would write."""
        yield Side(scope=self.scope, key=self.key, proposed=decode(bytes(self.payload)))


class DeleteFact(WriteEffect, frozen=True, kw_only=True, tag="delete_fact"):
    """Delete one fact, if it is at the expected version and stamp; its history stays."""

    in_one_scope: ClassVar[bool] = True
    key: str
    expect: int | None = None
    stamp: int | None = None
    source: str | None = None
    idempotency_key: str | None = None
    kind: OriginKind | None = None
    """What kind of origin decided it, if the caller only passes it on."""

    def kind_passed_on(self, *, is_owner: bool) -> OriginKind | None:
        """Return what kind of origin decided it, if it is only passed on."""
        return self.kind

    def sides(self) -> Iterator[Side]:
        """Yield what it would delete."""
        yield Side(scope=self.scope, key=self.key, change="delete")


class WriteFacts(WriteEffect, frozen=True, kw_only=True, tag="write_facts"):
    """Several sets and deletes in one tenant, all or nothing.

    Those that only pass on what another origin says may be held or left out one by one: what a tool says must not keep
    a program from saving what it did.
    """

    writes: tuple[SetFact | DeleteFact, ...]
    idempotency_key: str | None = None

    def demands(self) -> Iterator[Demand]:
        """Yield what each write needs."""
        for write in self.writes:
            yield from write.demands()

    @property
    def parts(self) -> tuple[str, ...]:
        """The writes, if one of them passes something on."""
        return ("writes",) if any([write.kind is not None for write in self.writes]) else ()

    def is_separate(self, item: SetFact | DeleteFact) -> bool:
        """Return whether a write passes something on."""
        return item.kind is not None

    def keys_of(self, item: SetFact | DeleteFact) -> Iterator[str]:
        """Yield the key of a write."""
        yield item.key

    def passes_on(self, *, is_owner: bool) -> bool:
        """Return whether one of the writes passes something on."""
        return bool(self.parts)

    def weight(self) -> tuple[int, int]:
        """Return the number of writes and the bytes of their values."""
        return len(self.writes), sum(write.weight()[1] for write in self.writes)

    def sides(self) -> Iterator[Side]:
        """Yield what it would write."""
        for write in self.writes:
            yield from write.sides()

    def with_source(self, source: str) -> WriteFacts:
        """Return the effect with this source on each write that names none."""
        return msgspec.structs.replace(self, writes=tuple(write.with_source(source) for write in self.writes))


# idempotency keys


Repeatable = SetFact | DeleteFact | WriteFacts


def find_replay(rows: Transaction, effect: Repeatable) -> Any:
    """Return the result of the first request under this idempotency key; None for the first, and without a key."""
    key = effect.idempotency_key
    replay = rows.get(Replay, effect.scope, key) if key is not None else None
    if replay is None:
        return None
    request = _request_digest(rows, effect)
    ensure_same_request(replay, request)
    results: list[Fact | bool] = []
    for (name, version), write in zip(replay.results, _writes(effect), strict=True):
        if isinstance(write, DeleteFact):
            results.append(version is not None)
        else:
            results.append(fact_at_version(rows, write.scope, name, version or 0))
    return results if isinstance(effect, WriteFacts) else results[0]


def ensure_same_request(replay: Replay, request: str) -> None:
    """Raise IdempotencyMismatch if an idempotency key was used for another request."""
    if replay.request != request:
        raise IdempotencyMismatch(
            f"the idempotency key {quote(replay.key)} was used for another request",
            hint="Use a fresh key for each different write",
            expected=replay.request,
            actual=request,
        )


def keep_replay(rows: Transaction, effect: Repeatable, value: Any, call: Call) -> None:
    """Keep the result of a request by reference: the history has the values."""
    key = effect.idempotency_key
    if key is None:
        return
    values = value if isinstance(effect, WriteFacts) else [value]
    results = tuple(
        (write.key, done.version if isinstance(done, Fact) else 0 if done else None)
        for write, done in zip(_writes(effect), values, strict=True)
    )
    request = _request_digest(rows, effect)
    rows.put(Replay(scope=effect.scope, key=key, request=request, results=results, at=call.now))


def _writes(effect: Repeatable) -> tuple[SetFact | DeleteFact, ...]:
    return effect.writes if isinstance(effect, WriteFacts) else (effect,)


def fact_at_version(rows: Reader, scope: Scope, key: str, version: int) -> Fact:
    """Return a fact as a request under an idempotency key wrote it, or raise NotFound."""
    revision = rows.revision(scope, key, version=version)
    if revision is None or revision.forgotten:
        raise NotFound(
            f"what this idempotency key wrote at `{key}` has been forgotten since",
            hint="Its time to live has passed; write again under a new idempotency key",
        )
    return revision.as_fact()


def _request_digest(rows: Transaction, effect: Repeatable) -> str:
    """Return what distinguishes requests: each value hashed with the key of the scope it is written to.

    Once a scope is erased its key is gone, so a guess at what a request contained cannot be tested. Two requests are
    the same when their values are, whatever the order of the names in an object.
    """
    return hashlib.sha256(canonical([request_part(rows, write) for write in _writes(effect)])).hexdigest()


def request_part(rows: Transaction, write: SetFact | DeleteFact) -> list[Any]:
    """Return what distinguishes one write of a request."""
    about: list[Any] = [write.name, write.scope.path, write.key, write.expect, write.source]
    if write.stamp is not None:
        about.append({"stamp": write.stamp})
    if isinstance(write, SetFact):
        about += [write.ttl, write.domain, payload_hash(rows, write.scope, bytes(write.payload))]
        if write.record is not None:  # a different request from a plain set of the same value
            about.append(write.record)
        if write.keep_end:
            about.append({"keep_end": True})
        if write.derived_from:
            about.append({"derived_from": list(write.derived_from)})
        if write.requires_confirmation:
            about.append({"requires_confirmation": True})
    if write.kind is not None:
        about.append({"kind": write.kind})
    return about


def payload_hash(rows: Transaction, scope: Scope, payload: bytes) -> str:
    """Return the hash of a value by the secret of its scope, the same for all encodings of the value."""
    return hash_content(content_key(rows, scope.tenant, scope.path), canonical(decode(payload)))


def content_key(rows: Transaction, tenant: str, scope: str) -> bytes:
    """Return the secret that a scope's content is hashed with, making it the first time. An erasure destroys it."""
    key = rows.get(ContentKey, tenant, scope)
    if key is None:
        made = ContentKey(tenant, scope, os.urandom(32))
        rows.put(made)
        key = rows.get(ContentKey, tenant, scope) or made  # another writer may have been first
    return key.secret


# writes


@verb(SetFact, within=within_scope, find_replay=find_replay, keep_replay=keep_replay)
def set_fact(rows: Transaction, effect: SetFact, call: Call) -> Outcome[Fact]:
    """Write a fact and its revision, if it is at the version the caller expects.

    The version goes up by one for each write, delete and expiry of a key, and is never used twice, not even after an
    erasure: a caller with an old version can only lose the race, never win it by accident.
    """
    ensure_open(rows, effect.scope)
    call = passing_on(effect, call)
    return contest_facts(rows, effect, (effect,), call) or _set_in_open(rows, effect, call)


def passing_on(write: SetFact | DeleteFact, call: Call) -> Call:
    """Return the call as it may make a write that passes on what another origin says: that is trusted no more.

    What is trusted less than a program replaces nothing that is trusted more; see `Memory.passing_on`.
    """
    if write.kind is None:
        return call
    origin = call.origin.from_kind(write.kind)
    if origin is call.origin:
        return call
    if call.decision == "approved" or is_at_least(origin.trust, "medium"):
        return msgspec.structs.replace(call, origin=origin)
    return msgspec.structs.replace(call, origin=origin, authority=lowest(call.authority, origin.trust))


def _set_in_open(rows: Transaction, effect: SetFact, call: Call) -> Outcome[Fact]:
    scope, key = effect.scope, effect.key
    call, sources = call_for_sources(rows, scope.tenant, effect.derived_from, call)
    payload = bytes(effect.payload)
    if effect.record is not None:
        call, payload = _merge_into_record(rows, effect, effect.record, call)
    is_of_block = is_block(scope, key)
    if is_of_block:
        ensure_block(scope, key, payload)
    definition, payload = call.schemas.check(rows, scope, key, payload, call.checks)
    call.rejections.ensure_none(rows, scope, key, payload)
    current, version, at, notes = _current(rows, effect, call)
    if is_of_block:
        notes = (*notes, *end_removed_statements(rows, scope, key, decode(payload), call))
        if current is not None and call.omits and call.origin.door != LEARNED:
            _omit_removed_lines(rows, scope, key, decode(payload), call)
    ttl = effect.ttl if effect.ttl is not None else definition.ttl if definition else None
    end = current.expires_at if current and effect.keep_end else None
    fact = Fact(
        id=current.id if current else call.ids.new("fact"),
        scope=scope,
        key=key,
        value=decode(payload) if effect.echo else None,
        version=version,
        created_at=current.created_at if current else at,
        updated_at=at,
        # From the clock, not from the stamp: a stamp runs ahead of a clock that was set back.
        expires_at=call.now + timedelta(seconds=ttl) if ttl is not None else end,
        domain=effect.domain,
        origin=call.origin.with_source(effect.source),
    )
    if sources:
        link(rows, scope, fact_ref(scope, key), version, sources)
    return Outcome(fact, (*notes, write_fact(rows, fact, payload)))


def _omit_removed_lines(rows: Transaction, scope: Scope, key: str, text: str, call: Call) -> None:
    """Leave lines out of prompts if all that an edit of a block does is to remove them; others it corrects."""
    before = rows.fact(scope, key)
    left = {line for _, line in lines_of(text)}
    lines = [] if before is None else [line for _, line in lines_of(before.value)]
    removed = [line for line in lines if line not in left]
    if before is not None and removed and left <= {*lines}:
        from memoranda.engine.omissions import Forgetting  # which reads facts

        forgetting = Forgetting(rows, call)
        forgetting.add_lines(before, removed)
        forgetting.store()


def _merge_into_record(rows: Reader, effect: SetFact, record: str, call: Call) -> tuple[Call, bytes]:
    """Return the new value of a record, merged into the current one where its definition says so, and who wrote it.

    The current value is read inside the transaction, so concurrent merges do not lose each other's fields. A merged
    record is trusted no more than what stays in it.
    """
    definition = call.schemas.definition(rows, effect.scope, effect.key)
    if definition is None or definition.id != record:
        raise NotFound(
            f"{quote(effect.key)} in `{effect.scope}` has stopped being a record of the definition {quote(record)}",
            hint="The definition was deleted, renamed or moved to another scope meanwhile: load it again",
            value=record,
            slug=effect.key,
        )
    current = rows.fact(effect.scope, effect.key) if definition.mode == "merge" else None
    if current is None or not current.active_at(call.now):
        return call, bytes(effect.payload)
    merged = encode_checked(_merge(current.value, decode(bytes(effect.payload))), call.limits)
    return editing(call, current), merged


def _merge(old: Any, new: Any) -> Any:
    """Merge objects field by field at every level; any other value replaces the old one."""
    if type(old) is not dict or type(new) is not dict:
        return new
    fields, changes = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
    return fields | {name: _merge(fields[name], part) if name in fields else part for name, part in changes.items()}


def write_fact(rows: Transaction, fact: Fact, payload: bytes) -> Note:
    """Store a fact and its revision; return the note for the ledger."""
    rows.put_fact(fact, payload)
    rows.add_revision(_revision(fact), payload)
    return Note(
        effect="set_fact",
        scope=fact.scope.path,
        key=fact.key,
        resource=fact.id,
        version=fact.version,
        payload=payload,
    )


@verb(DeleteFact, within=within_scope, find_replay=find_replay, keep_replay=keep_replay)
def delete_fact(rows: Transaction, effect: DeleteFact, call: Call) -> Outcome[bool]:
    """Delete a fact and return whether there was one; its history stays until it is erased."""
    ensure_open(rows, effect.scope)
    call = passing_on(effect, call)
    return contest_facts(rows, effect, (effect,), call) or _delete_in_open(rows, effect, call)


def _delete_in_open(rows: Transaction, effect: DeleteFact, call: Call) -> Outcome[bool]:
    current, version, at, notes = _current(rows, effect, call)
    if current is None:
        return Outcome(False, notes)
    if is_block(effect.scope, effect.key):
        notes = (*notes, *end_removed_statements(rows, effect.scope, effect.key, "", call))
    if call.omits and not is_runtime_state(effect.scope, effect.key):
        from memoranda.engine.omissions import Forgetting  # which reads facts

        forgetting = Forgetting(rows, call)
        forgetting.add([current])
        forgetting.store()
    removed = remove_fact(rows, current, version, at, call.origin.with_source(effect.source))
    if not rows.links(effect.scope.tenant, parent=fact_ref(effect.scope, effect.key)):
        return Outcome(True, (*notes, removed))
    from memoranda.engine.forget import end_derived  # which deletes facts

    return Outcome(True, (*notes, removed, *end_derived(rows, effect.scope.tenant, [current], call)))


def remove_fact(rows: Transaction, fact: Fact, version: int, at: datetime, origin: Origin) -> Note:
    """Delete a fact; return the note for the ledger."""
    return end_fact(rows, fact, "deleted", version, at, origin)


def contest_facts(
    rows: Transaction, effect: WriteEffect, writes: Sequence[SetFact | DeleteFact], call: Call
) -> Outcome[Any] | None:
    """Hold an effect whose writes would replace a fact of someone who is trusted more; None if none of them would.

    One that asks for confirmation is held, too, until it is confirmed.
    """
    for write in writes:
        if isinstance(write, SetFact) and (write.derived_from or write.requires_confirmation):
            call, _ = call_for_sources(rows, write.scope.tenant, write.derived_from, call)
            if write.requires_confirmation and call.decision != "approved":
                return confirm(rows, effect, call)
    if call.authority == "high":
        return None
    current: dict[tuple[str, str], Fact] = {}
    for write in writes:
        if write.kind is not None and write is not effect:
            continue  # it is held by itself
        fact = rows.fact(write.scope, write.key, value=False)
        if fact is None or not fact.active_at(call.now) or (write.scope.path, write.key) in current:
            continue
        current[write.scope.path, write.key] = fact
        if not is_at_least(call.authority, fact.origin.trust):
            # A caller who has not seen what is current is told so: a decision could not carry out such a write either.
            _ensure_expected(write, fact)
    return contest(rows, effect, (fact.origin for fact in current.values()), call)


def _within(effect: WriteFacts) -> tuple[Scope, ...]:
    return tuple(dict.fromkeys((effect.scope, *(write.scope for write in effect.writes))))


@verb(WriteFacts, within=_within, find_replay=find_replay, keep_replay=keep_replay)
def write_facts(rows: Transaction, effect: WriteFacts, call: Call) -> Outcome[list[Fact | bool | Held]]:
    """Do several writes in order; the transaction commits all of them or none.

    One that passes something on and would replace what is trusted more is held by itself: its result is the error.
    """
    ensure_batch_fits(len(effect.writes), call.limits)
    contested = contest_facts(rows, effect, effect.writes, call)
    if contested is not None:
        return contested
    values: list[Fact | bool | Held] = []
    notes: list[Note] = []
    known_open: set[str] = set()
    for write in effect.writes:
        ensure_same_tenant(write.scope, effect.scope)
        if write.scope.path not in known_open:
            # Once is enough: nothing in a batch ends a scope.
            ensure_open(rows, write.scope)
            known_open.add(write.scope.path)
        by = call
        if write.kind is not None:
            by = passing_on(write, call)
            held = contest_facts(rows, write, (write,), by)
            if held is not None:
                values.append(held.value)
                notes.extend(held.notes)
                continue
        done = _set_in_open(rows, write, by) if isinstance(write, SetFact) else _delete_in_open(rows, write, by)
        values.append(done.value)
        notes.extend(done.notes)
    return Outcome(values, tuple(notes))


def _current(
    rows: Transaction, effect: SetFact | DeleteFact, call: Call
) -> tuple[Fact | None, int, datetime, tuple[Note, ...]]:
    """Return the active fact without its value, the next version and its stamp, and the note if it has expired."""
    scope, key = effect.scope, effect.key
    current = rows.fact(scope, key, value=False)
    notes: tuple[Note, ...] = ()
    if current is None:
        version, previous = last_used(rows, scope, key)
    elif current.active_at(call.now):
        version, previous = current.version, current.updated_at
    else:
        notes = (expire_fact(rows, current, call),)
        version, previous = current.version + 1, moment_after(current.updated_at, call.now)
        current = None
    _ensure_expected(effect, current)
    return current, version + 1, moment_after(previous, call.now), notes


def _ensure_expected(effect: SetFact | DeleteFact, current: Fact | None) -> None:
    """Raise Conflict if a fact is not the one that the caller has seen."""
    if effect.expect is not None:
        _ensure_version(effect.key, current, effect.expect)
    if effect.stamp is not None:
        _ensure_stamp(effect.key, current, effect.stamp)


def _ensure_version(key: str, current: Fact | None, expect: int) -> None:
    actual = current.version if current else 0
    if expect == actual:
        return
    again = "Read it again, apply your change to what you find, and retry with its version"
    if current is None:
        message, hint = f"`{key}` does not exist, so it cannot be at version {expect}", again
    elif expect == 0:
        message, hint = f"`{key}` exists already, at version {actual}", Hint("read")
    else:
        message, hint = f"`{key}` is at version {actual}, not {expect}", again
    raise Conflict(
        message,
        hint=hint,
        expected=expect,
        actual=actual,
        key=key,
        current_updated_at=current.updated_at if current else None,
    )


def _ensure_stamp(key: str, current: Fact | None, stamp: int) -> None:
    """Refuse a fact that was not last written at this moment."""
    actual = current.updated_at if current else None
    if actual is not None and stamp == to_micros(actual):
        return
    expected = from_micros(stamp)
    raise Conflict(
        f"`{key}` does not exist, so it cannot have been written {expected.isoformat()}"
        if actual is None
        else f"`{key}` was written {actual.isoformat()}, not {expected.isoformat()}",
        hint="Read it again, apply your change to what you find, and retry with its updated_at",
        expected=expected,
        actual=actual,
        key=key,
        current_updated_at=actual,
    )


def last_used(rows: Reader, scope: Scope, key: str) -> tuple[int, datetime | None]:
    """Return the highest version a key ever had, erased ones included, and the stamp of it."""
    last = rows.revision(scope, key)
    if last is not None:
        return last.version, last.at
    erasure = rows.get(Erasure, scope)
    return (erasure.version_floor, erasure.at) if erasure else (0, None)


def expire_fact(rows: Transaction, fact: Fact, call: Call) -> Note:
    """Remove an expired fact and add the revision that says so; return the note for the ledger."""
    return end_fact(rows, fact, "expired", fact.version + 1, moment_after(fact.updated_at, call.now), call.origin)


def end_fact(
    rows: Transaction, fact: Fact, change: Literal["deleted", "expired"], version: int, at: datetime, origin: Origin
) -> Note:
    """Remove a fact and add the revision that says why; return the note for the ledger."""
    rows.remove_fact(fact.scope, fact.key)
    rows.add_revision(
        Revision(
            fact_id=fact.id,
            scope=fact.scope,
            key=fact.key,
            version=version,
            change=change,
            at=at,
            created_at=fact.created_at,
            domain=fact.domain,
            origin=origin,
        ),
        None,
    )
    effect = {"deleted": "delete_fact", "expired": "expire_fact"}[change]
    return Note(effect=effect, scope=fact.scope.path, key=fact.key, resource=fact.id, version=version)


def _revision(fact: Fact) -> Revision:
    return Revision(
        fact_id=fact.id,
        scope=fact.scope,
        key=fact.key,
        version=fact.version,
        change="set",
        value=fact.value,
        at=fact.updated_at,
        created_at=fact.created_at,
        expires_at=fact.expires_at,
        domain=fact.domain,
        origin=fact.origin,
    )


def ensure_batch_fits(writes: int, limits: Limits) -> None:
    """Refuse a batch of too many writes."""
    if writes > limits.batch:
        raise LimitExceeded(
            f"the batch has {writes} writes, the limit is {limits.batch}",
            hint=("Split it", larger_limit("batch")),
            limit=limits.batch,
            actual=writes,
        )


def ensure_same_tenant(scope: Scope, home: Scope) -> None:
    """Refuse a batch that reaches into another tenant."""
    if scope.tenant != home.tenant:
        raise UsageError("a batch stays inside one tenant", hint="Ask for each tenant on its own")
