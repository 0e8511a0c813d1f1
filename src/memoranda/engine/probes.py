"""Leak probes: whether a text is left anywhere, place by place.

Each place is looked through by its rows, not by what a recall would rank. A place that cannot be looked through is
untested (None); it is never reported as clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from memoranda.engine.recall import RecallAll, recall_all
from memoranda.engine.refs import find_entry, find_target, unknown
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import UsageError
from memoranda.model.block import BLOCKS, lines_of
from memoranda.model.effect import Approval, Demand, ReadEffect
from memoranda.model.entry import CONFIRMATIONS, CONVERSATIONS, STATEMENTS, Collection, Entry, Mode
from memoranda.model.fact import Fact
from memoranda.model.folding import canonical_form
from memoranda.model.identifier import LONGEST, Identifier
from memoranda.model.names import is_block, is_internal
from memoranda.model.probes import LeakProbes
from memoranda.model.scope import Scope
from memoranda.model.value import decode, encode
from memoranda.store.base import EntryQuery, FactQuery, Reader, RevisionQuery, Store

_PORTION = 500
_LONGEST_QUERY = 1_000
"""Characters of a text by which recall looks for it."""
_MOST_RECALLED = 20
_REFS = ("entry:", "fact:", "line:")


class ProbeLeaks(ReadEffect, frozen=True, kw_only=True, tag="probe_leaks"):
    """Look for a text, or the text of a ref, in every place of a scope and below it."""

    content: str

    def demands(self) -> Iterator[Demand]:
        """Yield the right to read the scope, what waits there, and the ledger."""
        yield self.capability, self.reach, None
        yield "approvals.read", self.reach, None
        yield "ledger.read", self.reach, None


@verb(ProbeLeaks, reads_often=True)
def probe_leaks(store: Store, effect: ProbeLeaks, call: Call) -> Outcome[LeakProbes]:
    """Return where a text is left. Nothing is noted: the ledger would keep the text that has to be gone."""
    text = store.read(lambda rows: _text_of(rows, effect, call))
    is_in = _search_for(text)
    places = store.read(lambda rows: _places(rows, effect, is_in, call))

    def recalls(mode: Mode) -> bool:
        asked = RecallAll(scope=effect.scope, query=text[:_LONGEST_QUERY], mode=mode, limit=_MOST_RECALLED)
        return any(is_in([match.content, match.metadata]) for match in recall_all(store, asked, call).value)

    places = msgspec.structs.replace(
        places,
        words=recalls("keyword"),
        vectors=recalls("semantic"),
        prompts=places.blocks or recalls("hybrid"),
        # Content is kept as JSON.
        database_bytes=store.holds_bytes(encode(text)[1:-1]),
    )
    return Outcome(places)


def _text_of(rows: Reader, effect: ProbeLeaks, call: Call) -> str:
    """Return the text itself, or that of the entry, fact or line that it names."""
    if not effect.content.startswith(_REFS):
        return effect.content
    target = find_target(rows, effect.scope, effect.content, call.now)
    if target is None and effect.content.startswith("entry:"):
        target = find_entry(rows, effect.scope, effect.content.removeprefix("entry:"))
    if isinstance(target, Entry):
        content = target.content
    elif isinstance(target, Fact):
        content = target.value
    elif target is not None:
        content = dict(lines_of(target.block.value))[target.numbers[0]]
    else:
        raise unknown(effect.content, effect.scope)
    return content if isinstance(content, str) else encode(content).decode()


def _search_for(text: str) -> Callable[[Any], bool]:
    """Return what looks for a text in JSON values: short ones as a whole, long ones letter by letter."""
    if len(text) <= LONGEST:
        return Identifier(text).is_in
    wanted = canonical_form(text)
    if not wanted:
        raise UsageError("there is nothing to look for", hint="Pass the text that has to be gone", path="text")
    return lambda value: wanted in canonical_form(value if isinstance(value, str) else encode(value).decode())


def _places(rows: Reader, effect: ProbeLeaks, is_in: Callable[[Any], bool], call: Call) -> LeakProbes:
    scope, tenant = effect.scope, effect.scope.tenant
    facts = [fact for fact in rows.facts(FactQuery(scope, below=True)) if scope.path or fact.scope == scope]
    hits = [fact for fact in facts if is_in(fact.value) or is_in(fact.key)]
    entries = list(_entries_with(rows, effect, is_in))
    live = {entry.collection for entry in entries if entry.ended_at is None}
    approvals = (
        one for one in rows.scan(Approval, tenant) if one.effect is not None and scope.covers(one.effect.scope)
    )
    return LeakProbes(
        facts=any(not is_internal(fact.scope, fact.key) for fact in hits),
        blocks=any(is_block(fact.scope, fact.key) for fact in hits),
        entries=bool(live - {STATEMENTS, CONFIRMATIONS, CONVERSATIONS}),
        statements=bool(live & {STATEMENTS, CONFIRMATIONS}),
        messages=CONVERSATIONS in live
        or any(is_internal(fact.scope, fact.key) and not fact.key.startswith(BLOCKS) for fact in hits),
        history=any(entry.ended_at is not None for entry in entries) or _is_in_history(rows, effect, is_in, facts),
        approvals=any(is_in(decode(encode(one.effect))) for one in approvals),
        ledger=_is_in_ledger(rows, effect, is_in),
    )


def _is_in_history(rows: Reader, effect: ProbeLeaks, is_in: Callable[[Any], bool], facts: list[Fact]) -> bool:
    current = {(fact.scope.path, fact.key): fact.version for fact in facts}
    return any(
        is_in(revision.value)
        for revision in rows.revisions(RevisionQuery(effect.scope))
        if revision.version != current.get((revision.scope.path, revision.key))
    )


def _entries_with(rows: Reader, effect: ProbeLeaks, is_in: Callable[[Any], bool]) -> Iterator[Entry]:
    """Yield the entries of a scope and below it that contain a text, those included that ended."""
    scope = effect.scope
    for collection in rows.scan(Collection, scope.tenant):
        after = 0
        while True:
            query = EntryQuery(tenant=scope.tenant, collection=collection.name, after=after, limit=_PORTION)
            sequences = [row.sequence for row in rows.index_rows(query, collection.space.embedder)]
            if not sequences:
                break
            after = sequences[-1]
            for entry in rows.entries(EntryQuery(tenant=scope.tenant, sequences=sequences)):
                if _is_within(scope, entry.scope.path) and (
                    is_in(entry.content) or is_in(entry.metadata) or is_in(entry.key or "")
                ):
                    yield entry


def _is_within(scope: Scope, path: str) -> bool:
    return scope.covers(Scope(scope.tenant, path)) if scope.path else not path


def _is_in_ledger(rows: Reader, effect: ProbeLeaks, is_in: Callable[[Any], bool]) -> bool:
    start = 1
    while events := list(rows.events(effect.scope.tenant, start=start, limit=_PORTION)):
        own = (one for one in events if one.text is not None and _is_within(effect.scope, one.scope))
        if any(is_in(event.text) for event in own):
            return True
        start = events[-1].position + 1
    return False
