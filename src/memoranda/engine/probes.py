"""Leak probes: whether a text is left anywhere, place by place.

Each place is looked through by its rows, not by what a recall would rank. A place that cannot be looked through is
untested (None); it is never reported as clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, cast

import msgspec

from memoranda.engine.embedding import words_of
from memoranda.engine.omissions import omissions_for
from memoranda.engine.recall import RecallAll, recall_all
from memoranda.engine.refs import find_entry, find_target, unknown
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.errors import UsageError
from memoranda.model.block import lines_of
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval, Demand, ReadEffect
from memoranda.model.entry import CONFIRMATIONS, CONVERSATIONS, STATEMENTS, Collection, Entry, Mode
from memoranda.model.event import OVER
from memoranda.model.fact import Fact
from memoranda.model.folding import canonical_form
from memoranda.model.identifier import LONGEST, Identifier
from memoranda.model.names import (
    CHAT_RECORD,
    RUN_RECORD,
    SESSION_RECORD,
    THREAD_MESSAGES,
    find_internal,
    is_runtime_state,
)
from memoranda.model.probes import LeakProbes
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.model.value import decode, encode
from memoranda.store.base import EntryQuery, FactQuery, Reader, Replay, RevisionQuery, Session, Store

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
    places = store.read(lambda rows: _Places(rows, effect, is_in, call).find())

    def recalls(mode: Mode) -> bool:
        asked = RecallAll(scope=effect.scope, query=text[:_LONGEST_QUERY], mode=mode, limit=_MOST_RECALLED)
        return any(is_in([match.content, match.metadata]) for match in recall_all(store, asked, call).value)

    places = msgspec.structs.replace(
        places,
        words=recalls("keyword"),
        vectors=recalls("semantic"),
        prompts=places.prompts or places.blocks or recalls("hybrid"),
        # Content is kept as JSON.
        database_bytes=store.holds_bytes(encode(text)[1:-1]),
        # After the recalls, which bring indexes up to date.
        caches=any(map(is_in, call.indexes.texts(effect.scope))),
        segments=store.read(lambda rows: _is_in_segments(rows, effect, text, is_in, call)),
        portions=store.read(lambda rows: _is_in_portions(rows, effect, text, is_in)),
        exports=False,
        absent=(
            "exports",
            *(() if call.indexes.segments is not None else ("segments",)),
            *(() if store.keeps_portions else ("portions",)),
        ),
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


class _Places:
    """Looks through the rows of a scope, of what is below it, and of the sessions and runs that belong to it."""

    def __init__(self, rows: Reader, effect: ProbeLeaks, is_in: Callable[[Any], bool], call: Call) -> None:
        self._rows = rows
        self._effect = effect
        self._scope = effect.scope
        self._is_in = is_in
        self._call = call
        owned = rows.scan(Session, self._scope.tenant, below=self._scope)
        self._sessions = [one for one in owned if one.owner is not None and self._covers(one.owner)]
        if not self._scope.path:
            self._sessions += self._sessions_of_no_one()

    def find(self) -> LeakProbes:
        """Return the places, but for those that are not looked through by rows."""
        rows, is_in, tenant = self._rows, self._is_in, self._scope.tenant
        facts = list(self._facts())
        hit = {self._place_of(fact) for fact in facts if is_in(fact.value) or is_in(fact.key)}
        entries = list(_entries_with(rows, self._effect, is_in))
        live = {entry.collection for entry in entries if entry.ended_at is None}
        waiting = {one.cause for one in rows.scan(Approval, tenant) if self._is_in_approval(one)}
        replays = (one for one in rows.scan(Replay, tenant, below=self._scope) if self._covers(one.scope))
        rejections = rows.scan(StoredRejection, tenant, below=self._scope)
        return LeakProbes(
            facts="facts" in hit,
            blocks="blocks" in hit,
            conversations="conversations" in hit,
            sessions="sessions" in hit,
            runs="runs" in hit,
            steps="steps" in hit,
            programs="programs" in hit,
            jobs="jobs" in hit,
            entries=bool(live - {STATEMENTS, CONFIRMATIONS, CONVERSATIONS}),
            statements=bool(live & {STATEMENTS, CONFIRMATIONS}),
            messages=CONVERSATIONS in live or "messages" in hit,
            history=any(entry.ended_at is not None for entry in entries) or self._is_in_history(facts),
            approvals=not waiting.isdisjoint({"policy", "confirmation"}),
            conflicts="conflict" in waiting,
            quarantine="quarantine" in waiting,
            rejections=any(is_in([one.reason, one.key or ""]) for one in rejections if self._covers(one.scope)),
            definitions=self._is_in_definitions(),
            idempotency_keys=any(is_in([one.key, *(key for key, _ in one.results)]) for one in replays),
            ledger=_is_in_ledger(rows, self._effect, is_in),
            prompts=self._is_in_prompts(facts),
        )

    def _sessions_of_no_one(self) -> Iterator[Session]:
        """Yield the sessions and runs without an owner, which quote what is shared."""
        for key in (RUN_RECORD, SESSION_RECORD):
            for fact in self._rows.facts(FactQuery(self._scope, below=True, key=key)):
                session = self._rows.get(Session, fact.scope)
                if session is not None and session.owner is None:
                    yield session

    def _covers(self, scope: Scope) -> bool:
        return _is_within(self._scope, scope.path)

    def _facts(self) -> Iterator[Fact]:
        for fact in self._rows.facts(FactQuery(self._scope, below=True)):
            if self._covers(fact.scope):
                yield fact
        for session in self._sessions:
            yield from self._rows.facts(FactQuery(session.scope, below=True))

    def _place_of(self, fact: Fact) -> str:
        internal = find_internal(fact.scope, fact.key)
        if internal is not None:
            return internal.place
        return "runs" if is_runtime_state(fact.scope, fact.key) else "facts"

    def _is_in_history(self, facts: list[Fact]) -> bool:
        current = {(fact.scope.path, fact.key): fact.version for fact in facts}
        scopes = [self._scope, *(session.scope for session in self._sessions)]
        return any(
            self._is_in(revision.value)
            for scope in scopes
            for revision in self._rows.revisions(RevisionQuery(scope))
            if (scope is not self._scope or self._covers(revision.scope))
            and revision.version != current.get((revision.scope.path, revision.key))
        )

    def _is_in_approval(self, one: Approval) -> bool:
        scope = Scope(one.tenant, one.scope) if one.effect is None else one.effect.scope
        if not (self._covers(scope) or any(session.scope == scope for session in self._sessions)):
            return False
        effect = None if one.effect is None else decode(encode(one.effect))
        return self._is_in([effect, one.reason, list(one.findings)])

    def _is_in_definitions(self) -> bool | None:
        if not self._call.may(self._rows, ("definitions.read", None, None)):
            return None
        return any(
            self._is_in([one.name, one.slug, one.schema]) for one in self._rows.scan(Definition, self._scope.tenant)
        )

    # what is passed on to the next prompt

    def _is_in_prompts(self, facts: list[Fact]) -> bool:
        by_scope: dict[Scope, list[Fact]] = {}
        for fact in facts:
            if find_internal(fact.scope, fact.key) is not None or is_runtime_state(fact.scope, fact.key):
                by_scope.setdefault(fact.scope, []).append(fact)
        for scope, state in by_scope.items():
            session = self._rows.get(Session, scope)
            if self._is_in_conversation(scope, state) if session is None else self._is_in_session(session, state):
                return True
        return False

    def _is_in_conversation(self, scope: Scope, facts: list[Fact]) -> bool:
        """Return whether what a chat, or a conversation with a workflow, shows of what was said contains the text."""
        record = next((cast("dict[str, Any]", fact.value) for fact in facts if fact.key == CHAT_RECORD), None)
        covered = 0 if record is None else record.get("covered", 0)
        parts = [fact for fact in facts if fact.key.startswith(("chat.parts.", f"{THREAD_MESSAGES}."))]
        said = [cast("dict[str, Any]", fact.value) for fact in parts]
        said = [one for one in said if one.get("seq", covered + 1) > covered and self._is_in(one["text"])]
        if not said:
            return False
        moments = [datetime.fromisoformat(one["at"]) for one in said]
        omissions = omissions_for(self._rows, [scope], min(moments))
        return any(
            self._is_in(omissions.made_since(at).leave_out_of_json(one["text"]))
            for at, one in zip(moments, said, strict=True)
        )

    def _is_in_session(self, session: Session, facts: list[Fact]) -> bool:
        """Return whether what a session or a run goes on with contains the text; one that is over passes nothing on."""
        run = next((fact.value for fact in facts if fact.key == RUN_RECORD), None)
        if session.ended_at is not None or (run is not None and run.get("status") in OVER):
            return False
        owner = session.owner or session.scope
        omissions = omissions_for(self._rows, [session.scope, owner], session.started_at)
        state = [fact.value for fact in facts if not fact.key.startswith("steps.")]
        turns = self._rows.revisions(RevisionQuery(session.scope, key=SESSION_RECORD))
        state += [one.value["turn"] for one in turns if one.change == "set" and not one.forgotten]
        return any(self._is_in(omissions.leave_out_of(one)) for one in state if self._is_in(one))


def _is_in_segments(rows: Reader, effect: ProbeLeaks, text: str, is_in: Callable[[Any], bool], call: Call) -> bool:
    """Return whether a segment has metadata with the text, or its words as one entry said them.

    Other texts may have these words too: an entry that is there without the text says so.
    """
    if call.indexes.segments is None:
        return False
    found = set(call.indexes.segments.entries_with(rows, effect.scope, words_of(text), is_in))
    if 0 in found:
        return True
    there = rows.entries(EntryQuery(tenant=effect.scope.tenant, sequences=sorted(found)))
    live = [entry for entry in there if entry.ended_at is None]
    others = {entry.sequence for entry in live if not is_in([entry.content, entry.metadata])}
    return bool(found - others)


def _is_in_portions(rows: Reader, effect: ProbeLeaks, text: str, is_in: Callable[[Any], bool]) -> bool:
    """Return whether a stored index has metadata with the text, or its words as an entry said them that is gone."""
    words, tenant = words_of(text), effect.scope.tenant
    from memoranda.engine.portions import entries_with

    shelves = (
        one for one, _ in rows.shelf_states(effect.scope, below=True) if _is_within(effect.scope, one.scope.path)
    )
    found = {sequence for shelf in shelves for sequence in entries_with(rows, shelf, words, is_in)}
    there = rows.entries(EntryQuery(tenant=tenant, sequences=sorted(found - {0})))
    return bool(found - {entry.sequence for entry in there if not is_in([entry.content, entry.metadata])})


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
                if _is_within(scope, entry.scope.path) and is_in(
                    [entry.content, entry.metadata, entry.key or "", entry.namespace]
                ):
                    yield entry


def _is_within(scope: Scope, path: str) -> bool:
    return scope.covers(Scope(scope.tenant, path)) if scope.path else not path


def _is_in_ledger(rows: Reader, effect: ProbeLeaks, is_in: Callable[[Any], bool]) -> bool:
    start = 1
    while events := list(rows.events(effect.scope.tenant, start=start, limit=_PORTION)):
        own = (one for one in events if _is_within(effect.scope, one.scope))
        if any(is_in([one.text, one.key, one.resource, one.detail]) for one in own):
            return True
        start = events[-1].position + 1
    return False
