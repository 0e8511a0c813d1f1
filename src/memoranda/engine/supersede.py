"""Superseding: what was true until now ends, and what is true from now on takes its place.

What was true is named by its ref or described in words. If nothing fits a description, the new text is only stored.

The entries of one subject are a chain. They share a key; where the first one has none, the later ones have its id as
their key. Each names the one that it replaces in its metadata `replaces`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import msgspec

from memoranda.engine.derivation import editing
from memoranda.engine.embedding import Texts, text_of, texts_by_space
from memoranda.engine.entries import (
    EMBEDDING_TAKES_TIME,
    Item,
    embed_texts,
    end_entry,
    entry_of_key,
    shelf_of,
    store_items,
)
from memoranda.engine.facts import SetFact, set_fact
from memoranda.engine.forget import REPLACES, Description, Memories, keep_text, texts_that_stay, undo_token
from memoranda.engine.learned_lines import follow_statement
from memoranda.engine.refs import Lines, Target, demand_of, find_entry, find_target, sides_of, unknown
from memoranda.engine.rejection_book import rejection_error
from memoranda.engine.reviews import contest
from memoranda.engine.sessions import ensure_open
from memoranda.engine.verbs import Call, Outcome, Preparation, verb
from memoranda.errors import Conflict, InvalidValue, NotFound, UsageError
from memoranda.model.effect import Demand, Side, WriteEffect
from memoranda.model.entry import Entry, Shelf, Superseded
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.folding import fold
from memoranda.model.names import collection_key
from memoranda.model.ref import Ref, as_ref, line_digest
from memoranda.model.value import decode, encode, encode_checked
from memoranda.store.base import Reader, Transaction

_OWN = frozenset({REPLACES, "time", "valid_from", "value", "said_in"})
"""Metadata about one entry of a chain, which the next one does not take over."""
_MARKER = re.compile(r"\s*(?:[-*•]\s+)?")


SAME_METADATA = msgspec.Raw(b"null")
"""JSON that waits is read back by type, and msgspec reads no object for `Raw | None`."""


class Supersede(WriteEffect, frozen=True, kw_only=True, tag="supersede"):
    """Put something else in the place of an entry, of the value of a fact, or of a line of a block."""

    in_one_scope: ClassVar[bool] = True
    ref: str = ""
    """What it names; empty with `about`."""
    about: str | None = None
    """A description of an entry or a line."""
    ranking: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    """The scores of what recall found for the description, by ref."""
    collection: str = ""
    """Where to store what replaces nothing, if a description fits nothing."""
    payload: msgspec.Raw
    metadata: msgspec.Raw = SAME_METADATA
    """Of an entry; null for those of the entry before it."""
    ttl: int | None = None
    source: str | None = None
    only_entries: bool = False

    def weight(self) -> tuple[int, int]:
        """Return one write and the bytes of its content."""
        return 1, len(bytes(self.payload))


def _description(rows: Reader, effect: Supersede, call: Call) -> Description:
    """Return the one thing that a description means, if any."""
    from memoranda.retrieval.description import Description as Request  # it reads tables, and few calls need it

    memories = Memories(rows, effect.scope, call, replaceable=True)
    request, ranking = Request(effect.about or ""), memories.ranks(effect.ranking)
    # What says the new text already is what takes the place of another one.
    new = fold(text_of(decode(bytes(effect.payload)))).strip()
    others = [one for one in memories.texts if fold(one.text).strip() != new]
    return memories.chosen(request.to_supersede(others, ranking))


def _demands(rows: Reader, effect: Supersede, call: Call) -> Iterator[Demand]:
    if effect.about is not None:
        targets = _description(rows, effect, call).targets
        yield from (demand_of(target, effect.capability) for target in targets)
        if not targets:
            yield effect.capability, effect.scope, collection_key(effect.collection)
        return
    ref = as_ref(effect.ref, tenant=effect.scope.tenant)
    # Of an entry also one that has ended: whether it may be written decides whether its successor is named.
    entry = find_entry(rows, effect.scope, ref.name) if ref.scope is None else None
    target = entry or find_target(rows, effect.scope, effect.ref, call.now)
    if target is not None:
        yield demand_of(target, effect.capability)


def _texts_to_embed(rows: Reader, effect: Supersede, call: Call) -> Texts | None:
    ensure_open(rows, effect.scope)
    if effect.about is not None:
        meant = _description(rows, effect, call)
        target = meant.targets[0] if meant.targets else None
        wanted = (texts_that_stay(rows, effect.scope.tenant, meant) if target is not None else None) or {}
        collection = target.collection if isinstance(target, Entry) else effect.collection
        if not isinstance(target, Lines):
            text = text_of(decode(bytes(effect.payload)))
            for space, texts in texts_by_space(rows, effect.scope.tenant, [(collection, [text])]).items():
                wanted.setdefault(space, []).extend(texts)
        return wanted or None
    target = _current_target(rows, effect, call)
    if not isinstance(target, Entry):
        return None
    texts = [text_of(decode(bytes(effect.payload)))]
    return texts_by_space(rows, effect.scope.tenant, [(target.collection, texts)])


def _sides(rows: Reader, effect: Supersede, call: Call) -> Iterator[Side]:
    if effect.about is not None:
        targets = _description(rows, effect, call).targets
    else:
        targets = (find_target(rows, effect.scope, effect.ref, call.now),)
    for target in targets:
        if target is not None:
            yield from sides_of(target, "supersede", decode(bytes(effect.payload)))


@verb(
    Supersede,
    touches=_demands,
    sides=_sides,
    preparation=Preparation(inquire=_texts_to_embed, prepare=embed_texts, busy=EMBEDDING_TAKES_TIME),
)
def supersede(rows: Transaction, effect: Supersede, call: Call) -> Outcome[Superseded]:
    """End what a ref names, and begin what takes its place."""
    ensure_open(rows, effect.scope)
    kept: str | None = None
    if effect.about is None:
        target = _current_target(rows, effect, call)
    else:
        meant = _description(rows, effect, call)
        if not meant.targets:
            return _store(rows, effect, call)
        target, kept = meant.targets[0], next(iter(meant.kept.values()), None)
    origin = target.block.origin if isinstance(target, Lines) else target.origin
    contested = contest(rows, effect, (origin,), call)
    if contested is not None:
        return contested  # pyright: ignore[reportReturnType]  # the gate raises it
    if isinstance(target, Entry):
        done, notes = _supersede_entry(rows, effect, target, call)
    elif isinstance(target, Fact):
        done, notes = _supersede_fact(rows, effect, target, call)
    else:
        done, notes = _supersede_line(rows, effect, target, kept, call)
    if kept is not None and isinstance(target, Entry):
        notes = [*notes, *keep_text(rows, target, kept, call, key=None)]
    undo = undo_token(rows, effect.scope.tenant, len(notes))
    return Outcome(msgspec.structs.replace(done, undo=undo, kept=() if kept is None else (kept,)), tuple(notes))


def _store(rows: Transaction, effect: Supersede, call: Call) -> Outcome[Superseded]:
    """Store what replaces nothing."""
    metadata = effect.metadata if bytes(effect.metadata) != bytes(SAME_METADATA) else msgspec.Raw(b"{}")
    expires_at = call.now + timedelta(seconds=effect.ttl) if effect.ttl is not None else None
    (new,), notes = store_items(
        rows,
        Shelf(effect.scope, effect.collection, ""),
        [Item(payload=effect.payload, metadata=metadata)],
        call,
        at=call.now,
        expires_at=expires_at,
        origin=call.origin.with_source(effect.source),
    )
    if new.rejected is not None:
        raise rejection_error(rows, effect.scope, new.rejected, effect.collection)
    undo = undo_token(rows, effect.scope.tenant, len(notes)) if notes else ""
    done = Superseded(ref=new.ref, replaced=None, collection=effect.collection, expires_at=new.expires_at, undo=undo)
    return Outcome(done, tuple(notes))


def _current_target(rows: Reader, effect: Supersede, call: Call) -> Target:
    """Return what a ref names now, or raise why it is not true now."""
    target = find_target(rows, effect.scope, effect.ref, call.now)
    if effect.only_entries and target is not None and not isinstance(target, Entry):
        raise UsageError(
            f"`{effect.ref}` is not an entry, and `replaces` names one", hint="Use supersede", value=effect.ref
        )
    if target is not None:
        return target
    ref = as_ref(effect.ref, tenant=effect.scope.tenant)
    ended = find_entry(rows, effect.scope, ref.name) if ref.scope is None else None
    if ended is None:
        raise unknown(effect.ref, effect.scope)
    current = entry_of_key(rows, shelf_of(ended), ended.chain)
    if current is not None and current.is_current_at(call.now):
        raise Conflict(
            f"`{ended.ref}` was superseded already: `{current.ref}` is current",
            hint="Read the current one, and supersede that",
            expected=ended.ref,
            actual=current.ref,
        )
    raise NotFound(
        f"`{ended.ref}` is no longer current, and nothing took its place",
        hint="Undo that it was forgotten, or remember anew",
        value=effect.ref,
    )


def _supersede_entry(rows: Transaction, effect: Supersede, old: Entry, call: Call) -> tuple[Superseded, Sequence[Note]]:
    metadata: dict[str, Any] = {name: value for name, value in old.metadata.items() if name not in _OWN}
    if bytes(effect.metadata) != bytes(SAME_METADATA):
        metadata = decode(bytes(effect.metadata))
    metadata[REPLACES] = old.id
    item = Item(payload=effect.payload, metadata=msgspec.Raw(encode(metadata)), key=old.chain)
    expires_at = call.now + timedelta(seconds=effect.ttl) if effect.ttl is not None else None
    ended = end_entry(rows, old, call.now, replaced=True)
    (new,), notes = store_items(
        rows,
        shelf_of(old),
        [item],
        call,
        at=max(call.now, old.created_at),
        expires_at=expires_at,
        origin=call.origin.with_source(effect.source),
    )
    if new.rejected is not None:
        raise rejection_error(rows, old.scope, new.rejected, old.ref)
    done = Superseded(
        ref=new.ref,
        replaced=old.ref,
        collection=old.collection,
        namespace=old.namespace,
        expires_at=expires_at,
        undo="",
    )
    text = text_of(decode(bytes(effect.payload)))
    return done, [ended, *notes, *follow_statement(rows, old, text, call)]


def _supersede_fact(rows: Transaction, effect: Supersede, fact: Fact, call: Call) -> tuple[Superseded, Sequence[Note]]:
    ref = str(Ref("fact", fact.scope, fact.key))
    write = SetFact(
        scope=fact.scope,
        key=fact.key,
        payload=effect.payload,
        ttl=effect.ttl,
        source=effect.source,
        domain=fact.domain,
    )
    done = set_fact(rows, write, call)
    return Superseded(ref=ref, replaced=ref, expires_at=done.value.expires_at, undo=""), done.notes


def _supersede_line(
    rows: Transaction, effect: Supersede, target: Lines, kept: str | None, call: Call
) -> tuple[Superseded, Sequence[Note]]:
    block, number = target.block, target.numbers[0]
    lines = block.value.split("\n")
    line = _as_line(decode(bytes(effect.payload)), lines[number - 1])
    lines[number - 1 : number] = [line] if kept is None else [kept, line]
    payload = msgspec.Raw(encode_checked("\n".join(lines), call.limits))
    write = SetFact(scope=block.scope, key=block.key, payload=payload, source=effect.source, domain=block.domain)
    name = block.key.partition(".")[2]
    ref = str(Ref("line", block.scope, f"{name}:{line_digest(line)}"))
    return Superseded(ref=ref, replaced=target.refs[0], undo=""), set_fact(rows, write, editing(call, block)).notes


def _as_line(content: Any, old: str) -> str:
    """Return the text of a new line, with the indent and the bullet of the old one where it has none."""
    if not isinstance(content, str) or not content.strip() or "\n" in content.strip():
        raise InvalidValue("a line of a block is superseded by one line of text", hint="Pass one line", path="$")
    text = content.strip()
    bullet = _MARKER.match(old)
    own = _MARKER.match(text)
    return text if bullet is None or (own is not None and own.group()) else bullet.group() + text
