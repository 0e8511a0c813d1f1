"""Scopes that end: a session, run or tree begins, has an owner, and takes its memory with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from memoranda.engine.verbs import Call, Outcome, verb, within_scope
from memoranda.errors import ScopeEnded, UsageError
from memoranda.model.clock import moment_after
from memoranda.model.effect import WriteEffect
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.names import lies_under
from memoranda.model.scope import ENDING_KINDS, Scope
from memoranda.store.base import Erasure, Reader, Session, Transaction

_MARKS = tuple(f"{kind}:" for kind in ENDING_KINDS)
# Searching the path saves most writes a look-up; an id that contains a mark by chance only costs one.
_find_mark = re.compile("|".join(_MARKS)).search


class StartSession(WriteEffect, frozen=True, kw_only=True, tag="start_session"):
    """Begin a scope that will end, and name its owner; erasing the owner erases it too."""

    owner: Scope | None = None


@verb(StartSession, within=within_scope)
def start_session(rows: Transaction, effect: StartSession, call: Call) -> Outcome[Session]:
    """Begin a scope that will end, or return the one that is running."""
    require_ending(effect.scope)
    ensure_open(rows, effect.scope)
    running = rows.get(Session, effect.scope)
    if running is not None:
        if effect.owner is not None and running.owner != effect.owner:
            raise UsageError(
                f"`{effect.scope}` belongs to `{running.owner}`",
                hint="Start a session of another id for this owner",
            )
        return Outcome(running)
    if effect.owner is not None and effect.owner.tenant != effect.scope.tenant:
        raise UsageError("a session and its owner stay inside one tenant", hint="Name an owner of the same tenant")
    session = Session(scope=effect.scope, owner=effect.owner, started_at=call.now)
    rows.put(session)
    owner = effect.owner.path if effect.owner else None
    return Outcome(session, (Note(effect="start_session", scope=effect.scope.path, detail={"owner": owner}),))


class EndScope(WriteEffect, frozen=True, kw_only=True, tag="end_scope"):
    """End a session, run or tree: its facts and their history go, and nothing more can be written there."""


@verb(EndScope)
def end_scope(rows: Transaction, effect: EndScope, call: Call) -> Outcome[dict[str, int]]:
    """End a scope: remove its memory, history included, and refuse later writes. Ending twice changes nothing."""
    require_ending(effect.scope)
    running = rows.get(Session, effect.scope)
    if running is not None and running.ended_at is not None:
        return Outcome({})
    version, newest = rows.newest_below(effect.scope)
    removed = rows.remove_below(effect.scope, keep_records=True)
    call.indexes.drop(effect.scope)
    if version:
        # Its history is removed as by an erasure, so the versions used there are recorded in the same way.
        ended = Erasure(
            id=call.ids.new("erasure"), scope=effect.scope, at=moment_after(newest, call.now), version_floor=version
        )
        rows.put(ended)
    rows.put(
        Session(
            scope=effect.scope,
            owner=running.owner if running else None,
            started_at=running.started_at if running else call.now,
            ended_at=call.now,
        )
    )
    return Outcome(removed, (Note(effect="end_scope", scope=effect.scope.path, detail=dict(removed)),))


def ensure_open(rows: Reader, scope: Scope) -> None:
    """Refuse a write to a scope that has ended, or that lies below one that has."""
    ended = find_ended_session(rows, scope)
    if ended is not None:
        raise ScopeEnded(
            f"`{ended.scope}` has ended",
            hint="Start a new one: ids of ended sessions are not used again",
            ended_at=ended.ended_at,
        )


def find_ended_session(rows: Reader, scope: Scope) -> Session | None:
    """Return the ended session at or above a scope, None if there is none."""
    if not may_end(scope):
        return None
    for ending in ending_scopes(scope):
        session = rows.get(Session, ending)
        if session is not None and session.ended_at is not None:
            return session
    return None


def may_end(scope: Scope) -> bool:
    """Return whether a scope, or one above it, may be of a kind that ends."""
    return _find_mark(scope.path) is not None


def ending_scopes(scope: Scope) -> Iterator[Scope]:
    """Yield the scopes at and above a scope that end, outermost first."""
    path = ""
    for part in scope.path.split("/"):
        path = f"{path}/{part}" if path else part
        if part.startswith(_MARKS):
            yield scope if path == scope.path else Scope(scope.tenant, path)


def is_session(scope: Scope) -> bool:
    """Return whether a scope is a session itself, whose record may have variables."""
    return scope.path.startswith("session:")  # nothing nests below a session


def variables_of(record: Fact | None, prefix: str = "") -> list[Fact]:
    """Return the variables of a session's record at and below a key, as facts, ordered by key.

    They are kept in the record, so that a turn of a conversation is one write however many variables it changes.
    """
    value: Any = None if record is None else record.value
    if record is None or type(value) is not dict:
        return []
    variables: Any = cast("dict[str, Any]", value).get("vars")
    if type(variables) is not dict:
        return []
    variables = cast("dict[str, Any]", variables)
    return [
        msgspec.structs.replace(record, key=key, value=variables[key])
        for key in sorted(variables)
        if lies_under(key, prefix)
    ]


def variable_of(record: Fact | None, key: str) -> Fact | None:
    """Return one variable of a session's record as a fact, or None."""
    return next((fact for fact in variables_of(record, key) if fact.key == key), None)


def require_ending(scope: Scope) -> None:
    """Refuse a scope that never ends, such as a user's."""
    if not scope.ends:
        raise UsageError(
            f"`{scope}` is not a scope that ends",
            hint=f"Sessions end in one of {', '.join(sorted(ENDING_KINDS))}",
        )
