"""What a ref names in the rows: an entry, a fact, or lines of a block."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from memoranda.errors import NotFound, UsageError
from memoranda.model.block import BLOCK_TYPES, BLOCKS, lines_of
from memoranda.model.effect import Change, Demand, Side
from memoranda.model.entry import Entry
from memoranda.model.fact import Fact
from memoranda.model.names import collection_key, is_internal
from memoranda.model.ref import Ref, as_ref, line_digest
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.store.base import EntryQuery, Reader


class Lines(msgspec.Struct, frozen=True):
    """Lines of a block, by their numbers from 1 on."""

    block: Fact
    numbers: tuple[int, ...]

    @property
    def refs(self) -> list[str]:
        """The refs of the lines."""
        lines = dict(lines_of(self.block.value))
        name = self.block.key.partition(".")[2]
        return [str(Ref("line", self.block.scope, f"{name}:{line_digest(lines[one])}")) for one in self.numbers]


Target = Entry | Fact | Lines


def find_target(rows: Reader, scope: Scope, named: str, now: datetime) -> Target | None:
    """Return what a ref or an id names at or below a scope, and what is current; None if there is no such thing."""
    ref = as_ref(named, tenant=scope.tenant)
    if ref.kind == "message":
        raise UsageError(
            f"{quote(named)} is a message, which is neither superseded nor forgotten",
            hint="What was said stays as it was said; erase the conversation instead",
            value=named,
        )
    if ref.scope is None:
        entry = find_entry(rows, scope, ref.name)
        return entry if entry is not None and entry.is_current_at(now) else None
    if not is_within(scope, ref.scope):
        return None
    block, _, digest = ref.name.partition(":")
    is_line = ref.kind == "line"
    key = f"{BLOCKS}.{block}" if is_line else ref.name
    if is_line and block not in BLOCK_TYPES:
        return None
    if not is_line and is_internal(ref.scope, key):
        return None
    fact = rows.fact(ref.scope, key)
    if fact is None or not fact.active_at(now):
        return None
    if not is_line:
        return fact
    numbers = tuple(number for number, line in lines_of(fact.value) if line_digest(line) == digest)
    return Lines(fact, numbers) if numbers else None


def find_entry(rows: Reader, scope: Scope, id: str) -> Entry | None:
    """Return the newest entry of an id at or below a scope, live or ended."""
    entry = next(rows.entries(EntryQuery(tenant=scope.tenant, id=id)), None)
    return entry if entry is not None and is_within(scope, entry.scope) else None


def is_within(scope: Scope, other: Scope) -> bool:
    """Return whether a scope is this one or lies below it; the shared scope has nothing below it."""
    return scope.covers(other) if scope.path else scope == other


def demand_of(target: Target, capability: str) -> Demand:
    """Return what it takes to do something about a target."""
    if isinstance(target, Entry):
        return capability, target.scope, collection_key(target.collection)
    fact = target.block if isinstance(target, Lines) else target
    return capability, fact.scope, fact.key


def sides_of(target: Target, change: Change, proposed: Any = None) -> Iterator[Side]:
    """Yield what a write would do to a target."""
    if isinstance(target, Fact):
        yield Side(scope=target.scope, key=target.key, change=change, proposed=proposed)
    elif isinstance(target, Lines):
        for ref in target.refs:
            yield Side(scope=target.block.scope, key=ref, ref=ref, change=change, proposed=proposed)
    else:
        yield Side(
            scope=target.scope,
            key=target.key or target.ref,
            collection=target.collection,
            namespace=target.namespace,
            ref=target.ref,
            change=change,
            proposed=proposed,
        )


def unknown(named: str, scope: Scope) -> NotFound:
    """Return the error about a ref that names nothing at or below a scope."""
    return NotFound(
        f"{quote(named)} names nothing that is current in `{scope}`",
        hint="Pass the `ref` of something that this scope recalls now",
        value=named,
    )
