"""Copies of memory between scopes: trusted no more than the original, and forgotten with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar

import msgspec

from memoranda.engine.derivation import find_source
from memoranda.engine.embedding import Texts, text_of, texts_by_space
from memoranda.engine.entries import EMBEDDING_TAKES_TIME, Item, Remember, embed_texts, remember
from memoranda.engine.facts import SetFact, set_fact
from memoranda.engine.refs import Lines, demand_of, is_within
from memoranda.engine.verbs import Call, Outcome, Preparation, verb
from memoranda.errors import NotFound, UsageError
from memoranda.model.effect import Demand, WriteEffect
from memoranda.model.entry import Entry, Remembered
from memoranda.model.fact import Fact
from memoranda.model.ref import as_ref
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import encode
from memoranda.store.base import Reader, Transaction


class Copy(WriteEffect, frozen=True, kw_only=True, tag="copy"):
    """Copy an entry or a fact into this scope: the copy is trusted no more than it, and is forgotten with it."""

    in_one_scope: ClassVar[bool] = True
    ref: str
    """Of an entry or fact at or below `within`."""
    within: Scope


def _find_original(rows: Reader, effect: Copy, call: Call) -> Entry | Fact:
    target = find_source(rows, effect.scope.tenant, effect.ref, call)
    is_there = target is not None and is_within(effect.within, demand_of(target, "")[1] or effect.scope)
    if target is None or not is_there or not call.may(rows, demand_of(target, "memory.read")):
        raise NotFound(
            f"{quote(effect.ref)} is not something to copy: it is not there, or you may not read it",
            hint="Pass the `ref` of an entry or a fact that a recall finds now",
            value=effect.ref,
        )
    if isinstance(target, Lines) or effect.ref.startswith("message:"):
        raise UsageError(
            f"{quote(effect.ref)} is neither an entry nor a fact", hint="Write the line into the other block"
        )
    return target


def _demands_of_copy(rows: Reader, effect: Copy, call: Call) -> Iterator[Demand]:
    target = find_source(rows, effect.scope.tenant, effect.ref, call)
    if target is not None:
        capability, _, key = demand_of(target, effect.capability)
        yield capability, effect.scope, key


def _texts_of_copy(rows: Reader, effect: Copy, call: Call) -> Texts | None:
    original = _find_original(rows, effect, call)
    if not isinstance(original, Entry):
        return None
    return texts_by_space(rows, effect.scope.tenant, [(original.collection, [text_of(original.content)])])


@verb(
    Copy,
    touches=_demands_of_copy,
    preparation=Preparation(inquire=_texts_of_copy, prepare=embed_texts, busy=EMBEDDING_TAKES_TIME),
)
def copy(rows: Transaction, effect: Copy, call: Call) -> Outcome[Remembered | Fact]:
    """Write a copy of an entry or a fact, with the original as its source."""
    original = _find_original(rows, effect, call)
    if original.scope == effect.scope:
        raise UsageError(f"`{effect.ref}` is in `{effect.scope}` already", hint="Name another scope", path="to")
    left = None if original.expires_at is None else max(1, int((original.expires_at - call.now) / timedelta(seconds=1)))
    sources = (str(as_ref(effect.ref, tenant=effect.scope.tenant)),)
    if isinstance(original, Fact):
        write = SetFact(
            scope=effect.scope,
            key=original.key,
            payload=msgspec.Raw(encode(original.value)),
            ttl=left,
            domain=original.domain,
            derived_from=sources,
        )
        written = set_fact(rows, write, call)
        return Outcome(written.value, written.notes)
    item = Item(
        payload=msgspec.Raw(encode(original.content)),
        metadata=msgspec.Raw(encode(original.metadata)),
        key=original.key,
        derived_from=sources,
    )
    done = remember(
        rows,
        Remember(
            scope=effect.scope,
            collection=original.collection,
            namespace=original.namespace,
            items=(item,),
            ttl=left,
        ),
        call,
    )
    return Outcome(done.value[0], done.notes)
