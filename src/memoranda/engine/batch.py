"""Batches of facts and entries: sets, deletes, remembers and forgets, all or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from memoranda.engine.derivation import call_for_sources
from memoranda.engine.embedding import Texts, text_of, texts_by_space
from memoranda.engine.entries import (
    EMBEDDING_TAKES_TIME,
    Remember,
    embed_texts,
    ensure_storable,
    entry_of_key,
    remember,
)
from memoranda.engine.facts import (
    DeleteFact,
    SetFact,
    delete_fact,
    ensure_batch_fits,
    ensure_same_request,
    ensure_same_tenant,
    fact_at_version,
    payload_hash,
    request_part,
    set_fact,
)
from memoranda.engine.forget import Forget, demands_of_forget, forget_after, origins_of_forget
from memoranda.engine.reviews import confirm, contest
from memoranda.engine.verbs import VERBS, Call, Outcome, Preparation, verb
from memoranda.errors import NotFound
from memoranda.model.effect import Demand, Side, WriteEffect
from memoranda.model.entry import Forgotten, Remembered, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.model.value import canonical, decode, encode
from memoranda.store.base import EntryQuery, Reader, Replay, Transaction

Write = SetFact | DeleteFact | Remember | Forget
Result = Fact | bool | Remembered | Forgotten


class WriteBatch(WriteEffect, frozen=True, kw_only=True, tag="write_batch"):
    """Writes of facts and entries in one tenant, all or nothing. A remember of a batch has one item."""

    writes: tuple[Write, ...]
    idempotency_key: str | None = None

    def demands(self) -> Iterator[Demand]:
        """Yield what each write needs."""
        for write in self.writes:
            yield from write.demands()

    def weight(self) -> tuple[int, int]:
        """Return the number of writes and the bytes of what they write."""
        weights = [write.weight() for write in self.writes]
        return sum(writes for writes, _ in weights), sum(size for _, size in weights)

    def entry_keys(self) -> Iterator[str]:
        """Yield the keys of the entries that it would store."""
        for write in self.writes:
            yield from write.entry_keys()

    def with_source(self, source: str) -> WriteBatch:
        """Return the effect with this source on each write that names none."""
        return msgspec.structs.replace(self, writes=tuple(write.with_source(source) for write in self.writes))


def _demands(rows: Reader, effect: WriteBatch, call: Call) -> Iterator[Demand]:
    for write in effect.writes:
        found = list(demands_of_forget(rows, write, call)) if isinstance(write, Forget) else []
        yield from found or write.demands()


def _sides(rows: Reader, effect: WriteBatch, call: Call) -> Iterator[Side]:
    for write in effect.writes:
        yield from VERBS[type(write)].sides(rows, write, call)


def _texts_to_embed(rows: Reader, effect: WriteBatch, call: Call) -> Texts | None:
    ensure_batch_fits(len(effect.writes), call.limits)
    texts: list[tuple[str, list[str]]] = []
    for write in effect.writes:
        if isinstance(write, Remember):
            ensure_storable(rows, write, call.limits)
            texts.append((write.collection, [text_of(decode(bytes(item.payload))) for item in write.items]))
    return texts_by_space(rows, effect.scope.tenant, texts) if texts else None


# idempotency keys


_REJECTED = "rejected:"
"""Before the id of a rejection, where an entry that was stored has its own."""


def _find_replay(rows: Transaction, effect: WriteBatch) -> list[Result] | None:
    key = effect.idempotency_key
    replay = rows.get(Replay, effect.scope, key) if key is not None else None
    if replay is None:
        return None
    ensure_same_request(replay, _request_digest(rows, effect))
    pairs = zip(replay.results, effect.writes, strict=True)
    return [_earlier_result(rows, write, name, number) for (name, number), write in pairs]


def _keep_replay(rows: Transaction, effect: WriteBatch, results: list[Result], call: Call) -> None:
    key = effect.idempotency_key
    if key is not None:
        request = _request_digest(rows, effect)
        kept = tuple(_reference(write, done) for write, done in zip(effect.writes, results, strict=True))
        rows.put(Replay(scope=effect.scope, key=key, request=request, results=kept, at=call.now))


def _request_digest(rows: Transaction, effect: WriteBatch) -> str:
    parts: list[Any] = []
    for write in effect.writes:
        if isinstance(write, SetFact | DeleteFact):
            parts.append(request_part(rows, write))
            continue
        # By the secret of the scope, so that a guess at what it contained cannot be tested once that is erased.
        parts.append([write.name, payload_hash(rows, write.scope, encode(write))])
    return hashlib.sha256(canonical(parts)).hexdigest()


def _reference(write: Write, done: Result) -> tuple[str, int | None]:
    """Return where a result is found again."""
    if isinstance(done, Remembered) and done.rejected is not None:
        return f"{_REJECTED}{done.rejected}", None
    if isinstance(done, Remembered):
        return done.id, int(done.stored) + 2 * int(done.duplicate)
    if isinstance(done, Forgotten):
        return done.undo or "", done.count
    return getattr(write, "key", ""), done.version if isinstance(done, Fact) else 0 if done else None


def _earlier_result(rows: Transaction, write: Write, name: str, number: int | None) -> Result:
    if isinstance(write, SetFact):
        return fact_at_version(rows, write.scope, name, number or 0)
    if isinstance(write, DeleteFact):
        return number is not None
    if isinstance(write, Forget):
        return Forgotten(count=number or 0, undo=name or None)
    if name.startswith(_REJECTED):
        rejection = name.removeprefix(_REJECTED)
        return Remembered(
            id="", collection=write.collection, namespace=write.namespace, stored=False, rejected=rejection
        )
    entry = next(rows.entries(EntryQuery(tenant=write.scope.tenant, id=name)), None)
    if entry is None:
        raise NotFound(
            "what this idempotency key remembered is gone", hint="Remember it again under a new idempotency key"
        )
    flags = number or 0
    return Remembered(
        id=name,
        collection=entry.collection,
        namespace=entry.namespace,
        stored=bool(flags & 1),
        duplicate=bool(flags & 2),
        expires_at=entry.expires_at,
    )


def _within(effect: WriteBatch) -> tuple[Scope, ...]:
    return (effect.scope, *(write.scope for write in effect.writes))


@verb(
    WriteBatch,
    within=_within,
    touches=_demands,
    preparation=Preparation(inquire=_texts_to_embed, prepare=embed_texts, busy=EMBEDDING_TAKES_TIME),
    find_replay=_find_replay,
    keep_replay=_keep_replay,
    sides=_sides,
)
def write_batch(rows: Transaction, effect: WriteBatch, call: Call) -> Outcome[list[Result]]:
    """Do several writes in order; the transaction commits all of them or none."""
    ensure_batch_fits(len(effect.writes), call.limits)
    if call.decision != "approved" and any(_asks_for_confirmation(write) for write in effect.writes):
        return confirm(rows, effect, call)
    named = [ref for write in effect.writes for ref in _sources_of(write)]
    least, _ = call_for_sources(rows, effect.scope.tenant, named, call)
    if least.authority != "high":
        contested = contest(rows, effect, _origins_to_replace(rows, effect, call), least)
        if contested is not None:
            return contested  # pyright: ignore[reportReturnType]  # the gate raises it
    results: list[Result] = []
    notes: list[Note] = []
    for write in effect.writes:
        ensure_same_tenant(write.scope, effect.scope)
        outcome = _write(rows, write, call, len(notes))
        results.append(outcome.value[0] if isinstance(write, Remember) else outcome.value)
        notes += outcome.notes
    return Outcome(results, tuple(notes))


def _asks_for_confirmation(write: Write) -> bool:
    return isinstance(write, SetFact | Remember) and write.requires_confirmation


def _sources_of(write: Write) -> Iterator[str]:
    if isinstance(write, SetFact):
        yield from write.derived_from
    elif isinstance(write, Remember):
        for item in write.items:
            yield from item.derived_from


def _origins_to_replace(rows: Reader, effect: WriteBatch, call: Call) -> Iterator[Origin]:
    """Yield the origins of what a batch would replace or forget."""
    for write in effect.writes:
        if isinstance(write, SetFact | DeleteFact):
            current = rows.fact(write.scope, write.key, value=False)
            if current is not None and current.active_at(call.now):
                yield current.origin
        elif isinstance(write, Remember):
            shelf = Shelf(write.scope, write.collection, write.namespace)
            found = (entry_of_key(rows, shelf, key) for key in write.entry_keys())
            yield from (entry.origin for entry in found if entry is not None and entry.is_current_at(call.now))
        else:
            yield from origins_of_forget(rows, write, call)


def _write(rows: Transaction, write: Write, call: Call, notes_before: int) -> Outcome[Any]:
    if isinstance(write, SetFact):
        return set_fact(rows, write, call)
    if isinstance(write, DeleteFact):
        return delete_fact(rows, write, call)
    if isinstance(write, Remember):
        return remember(rows, write, call)
    return forget_after(rows, write, call, notes_before)
