"""Containment: find what came from an origin that proved bad, who was given it, and take all of it away at once.

What is tainted ends like something that was forgotten, so that it is in no recall, list or export, and `undo` brings it
back as it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from memoranda.engine.derivation import MESSAGES, fact_ref
from memoranda.engine.forget import end_target
from memoranda.engine.lineage import Node, current_target, descendants, newest_entry
from memoranda.engine.omissions import Forgetting
from memoranda.engine.verbs import Call, Outcome, Preparation, verb
from memoranda.errors import NotFound
from memoranda.model.block import lines_of
from memoranda.model.clock import EPOCH
from memoranda.model.effect import Demand, WriteEffect
from memoranda.model.event import Event, Note
from memoranda.model.fact import Revision
from memoranda.model.lineage import Served, Tainted
from memoranda.model.names import RUN_RECORD, STEPS, is_block, is_internal
from memoranda.model.ref import Ref, as_ref, line_digest
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.trust import Origin, OriginKind
from memoranda.model.value import encode
from memoranda.store.base import EntryQuery, FactQuery, Reader, RevisionQuery, Store, Transaction

_PORTION = 500
"""Entries that are read at once."""
SERVING = frozenset({"recall", "recall_blocks", "context"})
"""The effects of events that say what was given to whom: `context` is a prompt, or a context for one."""


class Taint(WriteEffect, frozen=True, kw_only=True, tag="taint"):
    """Quarantine what one of these fields names, and all that was derived from it."""

    ref: str | None = None
    actor: str | None = None
    source: str | None = None
    origin: OriginKind | None = None
    event: int | None = None
    """The position of an event of the ledger."""
    run: str | None = None
    below: Scope | None = None
    """Only what is at or below this scope; what was derived from it goes wherever it is."""
    reason: str = ""
    dry_run: bool = False

    def demands(self) -> Iterator[Demand]:
        """Yield the right to write where the tainted memory may be, and to read the ledger."""
        yield self.capability, self.below, None
        yield "ledger.read", None, None

    def weight(self) -> tuple[int, int]:
        """Return one write; none if nothing will be changed."""
        return (0, 0) if self.dry_run else (1, 0)

    @property
    def selector(self) -> dict[str, Any]:
        """The field that says what is tainted."""
        named = ("ref", "actor", "source", "origin", "event", "run")
        return {name: value for name in named if (value := getattr(self, name)) is not None}


class _Trace(msgspec.Struct, frozen=True):
    """What was found up to a position of the ledger."""

    position: int
    roots: dict[Node, None]
    served: list[Served]


def _trace(rows: Reader, effect: Taint, call: Call, before: _Trace | None = None) -> _Trace:
    """Return what is tainted and who was given it, going on from an earlier trace."""
    tenant = effect.scope.tenant
    end, start = rows.progress(tenant).position, 1 if before is None else before.position + 1
    roots: dict[Node, None] = {} if before is None else dict(before.roots)
    for node in _roots(rows, effect, start):
        roots[node] = None
    served = [] if before is None else [one for one in before.served if one.position < start]
    if roots:
        served += serving_events(rows, tenant, [*roots, *descendants(rows, tenant, roots)], start)
    return _Trace(end, roots, served)


def _prepare(store: Store, effect: Taint, found: _Trace, call: Call) -> Call:
    return msgspec.structs.replace(call, found=found)


@verb(Taint, preparation=Preparation(inquire=_trace, prepare=_prepare))
def taint(rows: Transaction, effect: Taint, call: Call) -> Outcome[Tainted]:
    """End what is tainted and all that was derived from it, in every scope."""
    tenant = effect.scope.tenant
    trace = _trace(rows, effect, call, call.found)
    if not trace.roots and (effect.ref is not None or effect.event is not None):
        value = effect.ref if effect.ref is not None else effect.event
        raise NotFound(f"{quote(value)} names no memory", hint="Pass the `ref` of a match, or the position of a write")
    below = descendants(rows, tenant, trace.roots)
    every = [*trace.roots, *below]
    found = [node for node in every if current_target(rows, tenant, node, call) is not None]
    refs, derived = _refs(trace.roots), _refs(below)
    tainted = Tainted(
        refs=refs, descendants=derived, served=tuple(trace.served), ended=_refs(found), dry_run=effect.dry_run
    )
    if effect.dry_run or not every:
        return Outcome(tainted)
    note = Note(
        effect=effect.name,
        scope="" if effect.below is None else effect.below.path,
        payload=encode(effect.reason) if effect.reason else None,
        detail={
            **effect.selector,
            "refs": list(refs),
            "descendants": list(derived),
            "served": [one.position for one in trace.served],
        },
    )
    forgetting = Forgetting(rows, call)
    forgetting.add(target for node in found if (target := current_target(rows, tenant, node, call)) is not None)
    trusted = msgspec.structs.replace(call, authority="high", omits=False)
    ends: list[Note] = []
    for node in found:
        target = current_target(rows, tenant, node, call)  # it may have gone with another one
        ends += () if target is None else end_target(rows, target, trusted)
    positions = rows.reserve(tenant, 1 + len(ends), together=True).positions
    undo = f"undo:{positions[0]}-{positions[-1]}" if ends else None
    forgetting.store(undo)
    marked = (msgspec.structs.replace(one, detail={**one.detail, "follows": True}) for one in ends)
    return Outcome(msgspec.structs.replace(tainted, undo=undo), (note, *marked))


def _refs(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node.ref for node in nodes))


# what is tainted


def _roots(rows: Reader, effect: Taint, start: int) -> Iterator[Node]:
    """Yield what an effect names, as far as it was written from a position of the ledger on."""
    tenant = effect.scope.tenant
    if effect.ref is not None:
        found = [_node_of(rows, tenant, effect.ref)]
    elif effect.event is not None:
        events = rows.events(tenant, start=effect.event, limit=1)
        found = [node for node, _ in nodes_of_events(rows, events)]
    elif effect.run is not None:
        found = _nodes_of_run(rows, tenant, effect.run)
    else:
        written = nodes_of_events(rows, rows.events(tenant, start=start))
        found = [node for node, origin in written if _is_from(origin, effect)]
    for node in found:
        if node is not None and (effect.below is None or effect.below.covers(_scope_of(rows, tenant, node))):
            yield node


def _is_from(origin: Origin, effect: Taint) -> bool:
    return (
        effect.actor in (None, origin.actor)
        and effect.source in (None, origin.source)
        and effect.origin in (None, origin.kind)
    )


def _scope_of(rows: Reader, tenant: str, node: Node) -> Scope:
    ref = as_ref(node.ref, tenant=tenant)
    if ref.scope is not None:
        return ref.scope
    entry = newest_entry(rows, tenant, node.ref)
    return Scope(tenant) if entry is None else entry.scope


def _node_of(rows: Reader, tenant: str, named: str) -> Node | None:
    """Return what a ref names now, or named last."""
    ref = as_ref(named, tenant=tenant)
    if ref.scope is None:
        return Node(str(ref)) if newest_entry(rows, tenant, str(ref)) is not None else None
    if ref.kind == "line":
        return Node(str(ref)) if any(_line_times(rows, ref)) else None
    if ref.kind == "message":
        keys = [f"{prefix}.{ref.name:0>12}" for prefix in MESSAGES]
        fact = next((fact for key in keys if (fact := rows.fact(ref.scope, key)) is not None), None)
        return None if fact is None else Node(str(ref), fact.version)
    history = rows.revisions(RevisionQuery(ref.scope, ref.name, newest_first=True))
    return next((Node(str(ref), one.version) for one in history if one.change == "set"), None)


def nodes_of_events(rows: Reader, events: Iterable[Event]) -> Iterator[tuple[Node, Origin]]:
    """Yield what events wrote, with the origin of each."""
    waiting: list[int] = []
    tenant = ""
    for event in events:
        if event.decision not in ("allow", "approved") or event.version is None:
            continue
        if event.effect == "remember":
            tenant = event.tenant
            waiting += range(event.version, int(event.detail.get("last", event.version)) + 1)
            if len(waiting) >= _PORTION:
                yield from _entries(rows, tenant, waiting)
                waiting = []
        elif event.effect == "set_fact":
            revision = rows.revision(Scope(event.tenant, event.scope), event.key or "", version=event.version)
            node = None if revision is None else node_of_revision(revision)
            if node is not None and revision is not None:
                yield node, revision.origin
    yield from _entries(rows, tenant, waiting)


def _entries(rows: Reader, tenant: str, sequences: list[int]) -> Iterator[tuple[Node, Origin]]:
    for start in range(0, len(sequences), _PORTION):
        query = EntryQuery(tenant=tenant, sequences=sequences[start : start + _PORTION])
        for entry in sorted(rows.entries(query), key=lambda one: one.sequence):
            yield Node(entry.ref), entry.origin


def node_of_revision(revision: Revision) -> Node | None:
    """Return the node of a fact as it was; None for what the runtime keeps, except messages and blocks."""
    scope, key = revision.scope, revision.key
    prefix, _, number = key.rpartition(".")
    if prefix in MESSAGES and is_internal(scope, key):
        return Node(str(Ref("message", scope, number.lstrip("0") or "0")), revision.version)
    if is_internal(scope, key) and not is_block(scope, key):
        return None
    return Node(fact_ref(scope, key), revision.version)


def _nodes_of_run(rows: Reader, tenant: str, run: str) -> Iterator[Node]:
    """Yield what the steps of a run wrote, as they say."""
    scope = Scope.of(tenant=tenant, run=run)
    record = rows.fact(scope, RUN_RECORD)
    begun = EPOCH if record is None else record.created_at
    for fact in rows.facts(FactQuery(scope, below=True)):
        if fact.key.startswith(f"{STEPS}."):
            for step in fact.value:
                for named in step.get("writes", ()):
                    ref = as_ref(named, tenant=tenant)
                    if ref.kind != "fact" or ref.scope is None:
                        node = _node_of(rows, tenant, named)
                        yield from () if node is None else (node,)
                        continue
                    for one in rows.revisions(RevisionQuery(ref.scope, ref.name)):
                        if one.change == "set" and one.at >= begun:
                            yield Node(str(ref), one.version)


# who was given it


def serving_events(rows: Reader, tenant: str, nodes: Iterable[Node], start: int = 1) -> list[Served]:
    """Return the recalls and prompts that gave someone one of these, from a position of the ledger on."""
    ids: set[str] = set()
    times: dict[str, list[_Span]] = defaultdict(list)
    for node in nodes:
        ref = as_ref(node.ref, tenant=tenant)
        if ref.kind == "fact" and ref.scope is not None:
            times[node.ref] += _times(rows, ref, node.version)
        else:
            ids.add(node.ref)
        if ref.kind == "line" and ref.scope is not None:
            block = fact_ref(ref.scope, f"blocks.{ref.name.partition(':')[0]}")
            times[block] += _line_times(rows, ref)
    found: list[Served] = []
    for event in rows.events(tenant, start=start):
        if event.effect not in SERVING or event.decision not in ("allow", "approved"):
            continue
        given = map(_as_ref_text, (*event.detail.get("results", ()), *event.detail.get("lines", ())))
        versions = event.detail.get("versions", {})
        refs = [
            one
            for one in dict.fromkeys(given)
            if one in ids or any(span.covers(event.at, versions.get(one)) for span in times.get(one, ()))
        ]
        if refs:
            found.append(as_served(event, refs))
    return found


def as_served(event: Event, refs: Iterable[str] = ()) -> Served:
    """Return what an event gave, of these refs."""
    return Served(
        position=event.position,
        at=event.at,
        actor=event.actor,
        effect=event.effect,
        scope=event.scope,
        refs=tuple(refs),
        to=event.detail.get("to", ""),
    )


def _as_ref_text(result: str) -> str:
    """Return the ref of something that an event names: entries are named by their ids."""
    return result if result.partition(":")[0] in ("fact", "line", "message", "entry") else f"entry:{result}"


class _Span(NamedTuple):
    """The versions of a fact from one up to, and without, another; and when they were current."""

    first: int
    begin: datetime
    last: int | None = None
    end: datetime | None = None

    def covers(self, at: datetime, version: int | None) -> bool:
        """Return whether one of them was shown: the one that an event names, or else what was current then."""
        if version is not None:
            return self.first <= version and (self.last is None or version < self.last)
        return self.begin <= at and (self.end is None or at < self.end)


def _times(rows: Reader, ref: Ref, version: int) -> Iterator[_Span]:
    """Yield when a fact had a version."""
    if ref.scope is not None:
        found = list(rows.revisions(RevisionQuery(ref.scope, ref.name, after=version - 1, limit=2)))
        if found and found[0].version == version:
            end = found[1].at if len(found) > 1 else None
            yield _Span(version, found[0].at, version + 1, end)


def _line_times(rows: Reader, ref: Ref) -> Iterator[_Span]:
    """Yield when a block had a line."""
    block, _, digest = ref.name.partition(":")
    if ref.scope is None:
        return
    begin: Revision | None = None
    for one in rows.revisions(RevisionQuery(ref.scope, f"blocks.{block}")):
        text = one.value if one.change == "set" and isinstance(one.value, str) else ""
        has_it = any(line_digest(line) == digest for _, line in lines_of(text))
        if has_it and begin is None:
            begin = one
        elif not has_it and begin is not None:
            yield _Span(begin.version, begin.at, one.version, one.at)
            begin = None
    if begin is not None:
        yield _Span(begin.version, begin.at)
