"""Rejections: end a value, and keep it from coming back.

To supersede something is to say that it was true; to reject it is to say that it must not be said again. A rejection
outlives what it ended, every TTL and every sweep. It ends with its withdrawal, or with the erasure of its subject.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

import msgspec

from memoranda.engine.derivation import message_refs, messages_for
from memoranda.engine.entries import end_entry, value_of_statement
from memoranda.engine.facts import DeleteFact, SetFact, delete_fact, set_fact
from memoranda.engine.forget import undo_token
from memoranda.engine.learned_lines import follow_statement
from memoranda.engine.omissions import Forgetting
from memoranda.engine.refs import Lines, Target, demand_of, find_entry, find_target, is_within, unknown
from memoranda.engine.rejection_book import Known, by_digest, find_among, note_change, without_lines
from memoranda.engine.reviews import ensure_authority
from memoranda.engine.sessions import ensure_open
from memoranda.engine.verbs import Call, MayRead, Outcome, verb
from memoranda.errors import InvalidKey, NotFound, SchemaViolation, UsageError
from memoranda.model.block import lines_of
from memoranda.model.effect import Demand, ReadEffect, WriteEffect
from memoranda.model.entry import CONVERSATIONS, Entry
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.names import LONGEST_LABEL, is_block, is_internal, why_not_a_name
from memoranda.model.ref import Ref, as_ref
from memoranda.model.rejection import (
    SALT_BYTES,
    Rejection,
    StoredRejection,
    digest_of_form,
    statement_form,
    text_form,
    value_form,
)
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.model.value import decode, encode
from memoranda.store.base import EntryQuery, FactQuery, Reader, Transaction


class Reject(WriteEffect, frozen=True, kw_only=True, tag="reject"):
    """End what a ref names, or a value wherever it is, and refuse it from now on."""

    in_one_scope: ClassVar[bool] = True
    ref: str | None = None
    """The ref of a fact, an entry or a line at or below the scope."""
    payload: msgspec.Raw | None = None
    """Or the value itself: a text, or with a key any value."""
    key: str | None = None
    """The only key that the value is refused under."""
    reason: str = ""


def _ensure_trusted(rows: Reader, effect: Reject | Withdraw, call: Call) -> None:
    """Refuse callers of little trust: what is rejected cannot be written by anyone."""
    ensure_authority(effect, call, "to say what others may write")


def _demands(rows: Reader, effect: Reject, call: Call) -> Iterator[Demand]:
    """Yield what an effect demands, and the right to write each place where it ends something."""
    yield from effect.demands()
    for target in _targets(rows, _draft(rows, effect, call), call):
        if not _is_message(target):
            yield demand_of(target, effect.capability)


@verb(Reject, admit=_ensure_trusted, touches=_demands)
def reject(rows: Transaction, effect: Reject, call: Call) -> Outcome[Rejection]:
    """End a value everywhere at and below a scope, and keep hashes of it that every write consults."""
    ensure_open(rows, effect.scope)
    draft = _draft(rows, effect, call)
    for one in _rejections_in(rows, effect.scope, call):
        if one.salt == draft.salt and set(draft.digests) <= set(one.digests):
            return Outcome(one.public())
    forgetting = Forgetting(rows, call)
    if effect.payload is not None:
        forgetting.add_value(effect.scope, decode(bytes(effect.payload)), effect.key)
    return enforce(rows, msgspec.structs.replace(draft, id=call.ids.new("rejection")), call, forgetting)


def enforce(
    rows: Transaction,
    rejection: StoredRejection,
    call: Call,
    forgetting: Forgetting | None = None,
    *,
    notes_before: int = 0,
) -> Outcome[Rejection]:
    """End what a rejection is about, and store it, in a transaction that has made this number of notes already."""
    known = by_digest([rejection])
    messages = list(rejection.messages)
    ended: list[str] = []
    notes: list[Note] = []
    targets = list(_targets(rows, rejection, call))
    forgetting = forgetting or Forgetting(rows, call)
    forgetting.add(target for target in targets if not _is_message(target))
    call = msgspec.structs.replace(call, omits=False)
    for target in targets:
        if isinstance(target, Entry):
            messages += [target.id] if _is_message(target) else _messages_behind(rows, target)
        about = () if _is_message(target) else _end(rows, target, known, call)
        ended += _refs_of(target) if about else []
        notes += about
    stored = msgspec.structs.replace(
        rejection,
        undo=undo_token(rows, rejection.scope.tenant, len(notes), notes_before) if notes else None,
        messages=tuple(dict.fromkeys(messages)),
    )
    rows.put(stored)
    forgetting.store(stored.undo)
    note_change(rows, stored.scope.tenant)
    # Not its reason, which may tell the value: events outlive an erasure.
    detail = {"ended": len(ended)}
    notes.append(Note(effect="reject", scope=stored.scope.path, key=stored.key, resource=stored.id, detail=detail))
    return Outcome(stored.public(tuple(ended)), tuple(notes))


def _rejections_in(rows: Reader, scope: Scope, call: Call) -> list[StoredRejection]:
    return [one for one in call.rejections.of_subject(rows, scope) if one.scope == scope]


# what is rejected


def _draft(rows: Reader, effect: Reject, call: Call) -> StoredRejection:
    """Return the rejection that an effect asks for, without an id, or raise what is wrong with it."""
    messages: list[str] = []
    if effect.payload is not None:
        forms = _forms_of_value(decode(bytes(effect.payload)), effect.key)
    else:
        target = _target(rows, effect, call)
        forms = _forms_of_target(target)
        messages = _messages_behind(rows, target) if isinstance(target, Entry) else []
    found = [form for form in dict.fromkeys(forms) if form is not None]
    if not found:
        raise UsageError(
            "there is nothing to compare in this value: it has neither letters nor digits",
            hint="Reject it with the key that it is under",
            path="value",
        )
    here = _rejections_in(rows, effect.scope, call)
    salt = here[-1].salt if here else os.urandom(SALT_BYTES)
    return StoredRejection(
        id="",
        scope=effect.scope,
        key=effect.key,
        at=call.now,
        actor=call.origin.actor,
        reason=effect.reason,
        salt=salt,
        digests=tuple(digest_of_form(form, salt) for form in found),
        messages=tuple(messages),
    )


def _forms_of_value(value: Any, key: str | None) -> list[bytes | None]:
    if key is not None:
        return [value_form(value, key), statement_form(key, value) if isinstance(value, str) and value else None]
    if not isinstance(value, str):
        raise UsageError(
            f"{quote(value)} is not a text, so it is rejected under a key",
            hint="Pass `key`, or the ref of what has this value",
            path="value",
        )
    return [text_form(value)]


def _forms_of_target(target: Target) -> list[bytes | None]:
    if isinstance(target, Lines):
        lines = dict(lines_of(target.block.value))
        return [text_form(lines[number]) for number in target.numbers]
    if isinstance(target, Fact):
        text = text_form(target.value) if isinstance(target.value, str) else None
        return [text, value_form(target.value, target.key)]
    stated = value_of_statement(target.collection, target.key, target.metadata)
    return [
        text_form(target.content) if isinstance(target.content, str) else value_form(target.content),
        None if stated is None else statement_form(target.key or "", stated),
    ]


def _target(rows: Reader, effect: Reject, call: Call) -> Target:
    """Return what a ref names, also an entry that has ended."""
    named = effect.ref or ""
    target = find_target(rows, effect.scope, named, call.now)
    ref = as_ref(named, tenant=effect.scope.tenant)
    if target is None and ref.kind == "entry":
        target = find_entry(rows, effect.scope, ref.name)
    if target is None:
        raise unknown(named, effect.scope)
    return target


# what ends


def _targets(rows: Reader, rejection: StoredRejection, call: Call) -> Iterator[Target]:
    """Yield what is there now and would be refused: entries, facts and lines of blocks; messages too."""
    known, home = by_digest([rejection]), rejection.scope
    for entry in rows.entries(EntryQuery(below=home)):
        stated = value_of_statement(entry.collection, entry.key, entry.metadata)
        if is_within(home, entry.scope) and entry.is_current_at(call.now):
            if find_among(known, entry.content, entry.key, stated) is not None:
                yield entry
    for fact in rows.facts(FactQuery(home, below=True)):
        if not is_within(home, fact.scope) or not fact.active_at(call.now):
            continue
        if is_block(fact.scope, fact.key):
            numbers = tuple(number for number, line in lines_of(fact.value) if find_among(known, line) is not None)
            if numbers:
                yield Lines(fact, numbers)
        elif not is_internal(fact.scope, fact.key) and find_among(known, fact.value, fact.key) is not None:
            yield fact


def _is_message(target: Target) -> bool:
    """Return whether a target is what was said: it stays, and recalls over everything leave it out."""
    return isinstance(target, Entry) and target.collection == CONVERSATIONS


def _messages_behind(rows: Reader, entry: Entry) -> list[str]:
    """Return the messages that a statement was read in, by the ids of their entries or by their refs."""
    behind = messages_for(rows, entry.scope.tenant, message_refs(entry), entry.origin.trust)
    return [ref.removeprefix("entry:") for ref, _ in behind]


def _refs_of(target: Target) -> list[str]:
    if isinstance(target, Lines):
        return target.refs
    return [target.ref if isinstance(target, Entry) else str(Ref("fact", target.scope, target.key))]


def _end(rows: Transaction, target: Target, known: Known, call: Call) -> Sequence[Note]:
    """End what was rejected: an entry or a fact, a line of a block, or the part of a value that says it."""
    if isinstance(target, Entry):
        return (end_entry(rows, target, call.now), *follow_statement(rows, target, None, call))
    place = target.block if isinstance(target, Lines) else target
    # Read again: a line may have gone with its statement.
    fact = rows.fact(place.scope, place.key)
    if fact is None:
        return ()
    if isinstance(target, Lines):
        left: Any = without_lines(fact.value, lambda line: find_among(known, line) is not None)
        is_gone = not left.strip()
    else:
        left = _prune(fact.value, known) if find_among(known, fact.value, fact.key) is not None else fact.value
        is_gone = left in (_GONE, {}, []) or left == fact.value
    if not is_gone and left != fact.value:
        payload = msgspec.Raw(encode(left))
        write = SetFact(scope=fact.scope, key=fact.key, payload=payload, keep_end=True, domain=fact.domain)
        try:
            return set_fact(rows, write, call).notes
        except (SchemaViolation, InvalidKey):
            pass  # its definition requires the part: the record goes as a whole
    elif not is_gone:
        return ()
    return delete_fact(rows, DeleteFact(scope=fact.scope, key=fact.key), call).notes


_GONE = object()


def _prune(value: Any, known: Known) -> Any:
    """Return a JSON value without the texts inside it that were rejected; `_GONE` for such a text."""
    if isinstance(value, str):
        return value if find_among(known, value) is None else _GONE
    if isinstance(value, dict):
        parts = {name: _prune(part, known) for name, part in cast("dict[str, Any]", value).items()}
        return {name: part for name, part in parts.items() if part is not _GONE}
    if isinstance(value, list):
        return [part for one in cast("list[Any]", value) if (part := _prune(one, known)) is not _GONE]
    return value


class ListRejections(ReadEffect, frozen=True, kw_only=True, tag="list_rejections"):
    """Read what was rejected at and below a scope: who did it, when and why, and never the value."""

    in_one_scope: ClassVar[bool] = True


def _list_readable(
    look: Callable[[Any], Outcome[list[Rejection]]], effect: ListRejections, may_read: MayRead
) -> Outcome[list[Rejection]]:
    """Leave out those of keys that the caller may not read."""
    return Outcome([one for one in look(effect).value if one.key is None or may_read(one.key)])


@verb(ListRejections, read_filtered=_list_readable)
def list_rejections(rows: Reader, effect: ListRejections, call: Call) -> Outcome[list[Rejection]]:
    """Return the rejections at and below a scope, oldest first."""
    every = call.rejections.of_subject(rows, effect.scope)
    return Outcome([one.public() for one in every if is_within(effect.scope, one.scope)])


class Withdraw(WriteEffect, frozen=True, kw_only=True, tag="withdraw"):
    """Take a rejection back, so that its value may be written again."""

    in_one_scope: ClassVar[bool] = True
    rejection: str


@verb(Withdraw, admit=_ensure_trusted)
def withdraw(rows: Transaction, effect: Withdraw, call: Call) -> Outcome[Rejection]:
    """Remove a rejection; what it ended stays ended until that is undone."""
    ensure_open(rows, effect.scope)
    tenant = effect.scope.tenant
    found = None
    if why_not_a_name(effect.rejection, longest=LONGEST_LABEL) is None:
        found = rows.get(StoredRejection, tenant, effect.rejection)
    if found is None or not is_within(effect.scope, found.scope):
        raise NotFound(
            f"unknown rejection {quote(effect.rejection)} in `{effect.scope}`",
            hint="See `rejections` of the scope that it was made in",
            value=effect.rejection,
        )
    rows.remove(StoredRejection, tenant, found.id)
    note_change(rows, tenant)
    note = Note(effect=effect.name, scope=found.scope.path, key=found.key, resource=found.id)
    return Outcome(found.public(), (note,))
