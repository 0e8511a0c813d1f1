"""Effects on facts in, facts and notes out: what get, set, delete, list and history mean."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

from memoranda.engine.blocks import ensure_block
from memoranda.engine.call import Call, Outcome
from memoranda.engine.expiry import end_fact, expire_fact
from memoranda.engine.portions import content_bytes, is_over, read_portions, take_within
from memoranda.engine.sessions import ensure_open, is_session, variable_of, variables_of
from memoranda.errors import Conflict, LimitExceeded, NotFound, UsageError
from memoranda.model.block import is_block_key
from memoranda.model.clock import from_micros, to_micros
from memoranda.model.effect import DeleteFact, FindFacts, GetFact, GetFacts, ListFacts, ReadHistory, SetFact, WriteFacts
from memoranda.model.event import Note
from memoranda.model.fact import Fact, Origin, Revision
from memoranda.model.key import SESSION_RECORD
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked
from memoranda.store.base import Reader, Store, Transaction


def get_fact(rows: Reader, effect: GetFact, call: Call) -> Outcome[Fact | None]:
    """Return the fact if it is active, or as it stood at a moment."""
    return Outcome(_found(lambda key: _read(rows, effect.scope, key, effect.as_of, call), effect))


def get_fact_from(store: Store, effect: GetFact, call: Call) -> Fact | None:
    """Return the fact if it is active now, without opening a snapshot for a single row."""
    return _found(lambda key: _active(store.fact(effect.scope, key), call.now), effect)


def _found(read: Callable[[str], Fact | None], effect: GetFact) -> Fact | None:
    """Return the fact of a key, or the variable of that name that a session's record holds."""
    fact = read(effect.key)
    if fact is None and is_session(effect.scope):
        return variable_of(read(SESSION_RECORD), effect.key)
    return fact


def get_facts(rows: Reader, effect: GetFacts, call: Call) -> Outcome[list[Fact | None]]:
    """Return several facts as they stood in one moment, in the order asked for."""
    for get in effect.gets:
        _ensure_same_tenant(get.scope, effect.scope)
    return Outcome([get_fact(rows, get, call).value for get in effect.gets])


def _read(rows: Reader, scope: Scope, key: str, as_of: int | None, call: Call) -> Fact | None:
    if as_of is None:
        return _active(rows.fact(scope, key), call.now)
    moment = from_micros(as_of)
    revision = rows.revision_at(scope, key, moment)
    if revision is None or revision.change != "set" or revision.forgotten:
        return None
    return _active(revision.as_fact(), moment)


def _active(fact: Fact | None, moment: datetime) -> Fact | None:
    return fact if fact is not None and fact.active_at(moment) else None


def find_facts(rows: Reader, effect: FindFacts, call: Call) -> Outcome[list[Fact]]:
    """Return the facts of one key that stand at and below a scope."""
    scope = effect.scope
    own = rows.fact(scope, effect.key) if scope.path else None
    named = ([] if own is None else [own]) + rows.facts_named(scope.tenant, effect.key, below=scope.path)
    return Outcome([fact for fact in named if fact.active_at(call.now)][: effect.limit])


def list_facts(rows: Reader, effect: ListFacts, call: Call) -> Outcome[list[Fact]]:
    """Return the active facts at and below a key, or those that stood at a moment."""
    found = _stored_facts(rows, effect, call)
    if effect.domain is None and is_session(effect.scope):
        record = _read(rows, effect.scope, SESSION_RECORD, effect.as_of, call)
        known = {fact.key for fact in found}
        held = [fact for fact in variables_of(record, effect.prefix) if fact.key > effect.after]
        if effect.max_bytes is not None and is_over(
            found, sum(content_bytes(fact.value) for fact in found), effect.max_bytes
        ):
            # Facts between the last one read and these variables were not read: the next page has them all.
            held = [fact for fact in held if fact.key < found[-1].key]
        found = sorted((*found, *(fact for fact in held if fact.key not in known)), key=lambda fact: fact.key)
        found = take_within(found, _value, effect.max_bytes)
    return Outcome(found[: effect.limit])


def _stored_facts(rows: Reader, effect: ListFacts, call: Call) -> list[Fact]:
    def read(last: Fact | None, limit: int | None) -> list[Fact]:
        after = effect.after if last is None else last.key
        if effect.as_of is not None:
            moment = from_micros(effect.as_of)
            return rows.facts_as_of(effect.scope, moment, prefix=effect.prefix, after=after, limit=limit)
        return rows.facts(
            effect.scope, now=call.now, prefix=effect.prefix, domain=effect.domain, after=after, limit=limit
        )

    # How a fact was tagged at a moment is not asked for by any statement.
    tagged = effect.as_of is not None and effect.domain is not None
    return read_portions(
        read,
        _value,
        limit=effect.limit,
        max_bytes=effect.max_bytes,
        wanted=(lambda fact: fact.domain == effect.domain) if tagged else None,
    )


def _value(kept: Fact | Revision) -> Any:
    return kept.value


def read_history(rows: Reader, effect: ReadHistory, call: Call) -> Outcome[list[Revision]]:
    """Return revisions of a key: oldest first, or the newest, newest first."""

    def read(last: Revision | None, limit: int | None) -> list[Revision]:
        if effect.newest:
            before = effect.before if last is None else last.version
            return rows.newest_revisions(effect.scope, effect.key, before=before, limit=limit)
        after = effect.after if last is None else last.version
        return rows.revisions(effect.scope, effect.key, after=after, limit=limit)

    return Outcome(read_portions(read, _value, limit=effect.limit, max_bytes=effect.max_bytes))


def set_fact(rows: Transaction, effect: SetFact, call: Call) -> Outcome[Fact]:
    """Write a fact and its revision, if it is at the version the caller expects.

    The version goes up by one for each write, delete and expiry of a key, and is never used twice, not even
    after an erasure: a caller who holds an old version can only lose the race, never win it by accident.
    """
    ensure_open(rows, effect.scope)
    return _set_in_open(rows, effect, call)


def _set_in_open(rows: Transaction, effect: SetFact, call: Call) -> Outcome[Fact]:
    """Write a fact to a scope that is known to go on."""
    scope, key = effect.scope, effect.key
    payload = bytes(effect.payload) if effect.record is None else _updated(rows, effect, effect.record, call)
    if is_block_key(key):
        ensure_block(scope, key, payload)
    definition, payload = call.schemas.check(rows, scope, key, payload, call.checks)
    current, version, at, notes = _current(rows, effect, call)
    ttl = effect.ttl if effect.ttl is not None else definition.ttl if definition else None
    fact = Fact(
        id=current.id if current else call.ids.new("fact"),
        scope=scope,
        key=key,
        value=decode(payload) if effect.echo else None,
        version=version,
        created_at=current.created_at if current else at,
        updated_at=at,
        # From the clock, not from the stamp: a stamp runs ahead of a clock that was set back.
        expires_at=call.now + timedelta(seconds=ttl) if ttl is not None else None,
        domain=effect.domain,
        origin=call.origin_from(effect.source),
    )
    return Outcome(fact, (*notes, write_fact(rows, fact, payload)))


def _updated(rows: Reader, effect: SetFact, record: str, call: Call) -> bytes:
    """Return what the record will hold: the new value, or where its definition says so, merged into what stands.

    What stands is read here, inside the transaction: of two merges at once, neither loses what the other wrote.
    """
    definition = call.schemas.definition(rows, effect.scope, effect.key)
    if definition is None or definition.id != record:
        raise NotFound(
            f"{quote(effect.key)} in `{effect.scope}` is no longer a record of the definition {quote(record)}",
            hint="The definition was deleted, renamed or moved to another scope meanwhile: load it again",
            value=record,
            slug=effect.key,
        )
    standing = rows.fact(effect.scope, effect.key) if definition.mode == "merge" else None
    if standing is None or not standing.active_at(call.now):
        return bytes(effect.payload)
    return encode_checked(_merged(standing.value, decode(bytes(effect.payload))), call.limits)


def _merged(old: Any, new: Any) -> Any:
    """Return the new value over the old: objects field by field at every level, all else takes the old one's place."""
    if type(old) is not dict or type(new) is not dict:
        return new
    kept, given = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
    return {**kept, **{name: _merged(kept[name], part) if name in kept else part for name, part in given.items()}}


def write_fact(rows: Transaction, fact: Fact, payload: bytes) -> Note:
    """Keep a fact and the revision that says so; return the note for the ledger."""
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


def delete_fact(rows: Transaction, effect: DeleteFact, call: Call) -> Outcome[bool]:
    """Delete a fact and say whether there was one; its history stays until it is erased."""
    ensure_open(rows, effect.scope)
    return _delete_in_open(rows, effect, call)


def _delete_in_open(rows: Transaction, effect: DeleteFact, call: Call) -> Outcome[bool]:
    """Delete a fact of a scope that is known to go on."""
    current, version, at, notes = _current(rows, effect, call)
    if current is None:
        return Outcome(False, notes)
    return Outcome(True, (*notes, remove_fact(rows, current, version, at, call.origin_from(effect.source))))


def remove_fact(rows: Transaction, fact: Fact, version: int, at: datetime, origin: Origin) -> Note:
    """Delete a fact; return the note for the ledger."""
    return end_fact(rows, fact, "deleted", version, at, origin)


def write_facts(rows: Transaction, effect: WriteFacts, call: Call) -> Outcome[list[Fact | bool]]:
    """Do several writes in order; the transaction keeps all of them or none."""
    if len(effect.writes) > call.limits.batch:
        raise LimitExceeded(
            f"the batch holds {len(effect.writes)} writes, the limit is {call.limits.batch}",
            hint="Split it, or open with a larger Limits(batch=…)",
            limit=call.limits.batch,
            actual=len(effect.writes),
        )
    values: list[Fact | bool] = []
    notes: list[Note] = []
    known_open: set[str] = set()
    for write in effect.writes:
        _ensure_same_tenant(write.scope, effect.scope)
        if write.scope.path not in known_open:
            # Once is enough: nothing in a batch ends a scope.
            ensure_open(rows, write.scope)
            known_open.add(write.scope.path)
        done = _set_in_open(rows, write, call) if isinstance(write, SetFact) else _delete_in_open(rows, write, call)
        values.append(done.value)
        notes.extend(done.notes)
    return Outcome(values, tuple(notes))


def replayed_fact(rows: Reader, scope: Scope, key: str, version: int) -> Fact:
    """Return a fact as it stood right after an earlier write."""
    revision = rows.revision(scope, key, version)
    if revision is None or revision.forgotten:
        raise NotFound(
            f"what this idempotency key wrote at `{key}` has been forgotten since",
            hint="Its time to live has passed; write again under a new idempotency key",
        )
    return revision.as_fact()


def _current(
    rows: Transaction, effect: SetFact | DeleteFact, call: Call
) -> tuple[Fact | None, int, datetime, tuple[Note, ...]]:
    """Return the active fact, without its value, the next version, its stamp, and the note of an expiry found."""
    scope, key = effect.scope, effect.key
    current = rows.bare_fact(scope, key)
    notes: tuple[Note, ...] = ()
    if current is None:
        version, previous = last_used(rows, scope, key)
    elif current.active_at(call.now):
        version, previous = current.version, current.updated_at
    else:
        notes = (expire_fact(rows, current, call),)
        version, previous = current.version + 1, call.after(current.updated_at)
        current = None
    if effect.expect is not None:
        _ensure_version(key, current, effect.expect)
    if effect.stamp is not None:
        _ensure_stamp(key, current, effect.stamp)
    return current, version + 1, call.after(previous), notes


def _ensure_version(key: str, current: Fact | None, expect: int) -> None:
    actual = current.version if current else 0
    if expect == actual:
        return
    again = "Read it again, apply your change to what you find, and retry with its version"
    if current is None:
        message, hint = f"`{key}` does not exist, so it cannot be at version {expect}", again
    elif expect == 0:
        message, hint = f"`{key}` exists already, at version {actual}", "Read it, and say that you know what it holds"
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
    last = rows.last_version(scope, key)
    if last:
        revision = rows.revision(scope, key, last)
        return last, revision.at if revision else None
    erasure = rows.erasure(scope)
    return (erasure.version_floor, erasure.at) if erasure else (0, None)


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


def _ensure_same_tenant(scope: Scope, home: Scope) -> None:
    if scope.tenant != home.tenant:
        raise UsageError("a batch stays inside one tenant", hint="Ask for each tenant on its own")
