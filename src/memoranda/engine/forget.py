"""Forgetting: by ref, by key, by a filter on metadata, or by an identifier, in one transaction.

What is forgotten ends: recalls as of earlier moments still find it, and `engine.undo` brings it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from memoranda.engine.derivation import editing
from memoranda.engine.entries import document_of, end_entry, entry_of_key, live_entries, shelf_of, text_parts
from memoranda.engine.facts import DeleteFact, SetFact, delete_fact, set_fact
from memoranda.engine.learned_lines import follow_statement
from memoranda.engine.lineage import Node, current_target, descendants, nodes_of
from memoranda.engine.refs import Lines, Target, demand_of, find_target, sides_of
from memoranda.engine.reviews import contest
from memoranda.engine.sessions import ensure_open
from memoranda.engine.verbs import Call, Outcome, verb
from memoranda.model.block import lines_of
from memoranda.model.effect import Demand, Side, WriteEffect
from memoranda.model.entry import Entry, Forgotten, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.identifier import Identifier
from memoranda.model.names import collection_key, is_block, is_internal
from memoranda.model.ref import Ref
from memoranda.model.trust import Origin
from memoranda.model.value import encode
from memoranda.store.base import FactQuery, Reader, Transaction


class Forget(WriteEffect, frozen=True, kw_only=True, tag="forget"):
    """End what one of `id`, `key`, `filter` and `identifier` names; as of earlier moments it can still be recalled."""

    in_one_scope: ClassVar[bool] = True
    collection: str | None = None
    namespace: str | None = ""
    id: str | None = None
    """The ref of an entry, fact or line at or below the scope, or the id of an entry."""
    key: str | None = None
    """The key of an entry of the collection and namespace."""
    filter: dict[str, Any] | None = None
    """Entries with these metadata."""
    identifier: str | None = None
    """Entries, facts and lines that contain it."""
    dry_run: bool = False

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key, where one is named."""
        return None if self.collection is None else collection_key(self.collection)

    def weight(self) -> tuple[int, int]:
        """Return one write; none if nothing will be changed."""
        return (0, 0) if self.dry_run else (1, 0)


def demands_of_forget(rows: Reader, effect: Forget, call: Call) -> Iterator[Demand]:
    """Return what it takes to forget what an effect names in the rows."""
    return (demand_of(target, effect.capability) for target in _targets(rows, effect, call))


def sides_of_forget(rows: Reader, effect: Forget, call: Call) -> Iterator[Side]:
    """Yield what an effect would forget."""
    for target in _targets(rows, effect, call):
        yield from sides_of(target, "forget")


@verb(Forget, touches=demands_of_forget, sides=sides_of_forget)
def forget(rows: Transaction, effect: Forget, call: Call) -> Outcome[Forgotten]:
    """End what an effect names, all of it or nothing, and return what that was."""
    return forget_after(rows, effect, call, 0)


def forget_after(rows: Transaction, effect: Forget, call: Call, notes_before: int) -> Outcome[Forgotten]:
    """Forget in a transaction that has made this number of notes already."""
    ensure_open(rows, effect.scope)
    targets = list(_targets(rows, effect, call))
    followers = _derived_targets(rows, effect.scope.tenant, targets, call)
    targets += followers.values()
    contested = None if effect.dry_run else contest(rows, effect, map(_origin_of, targets), call)
    if contested is not None:
        return contested  # pyright: ignore[reportReturnType]  # the gate raises it
    counted = _count(targets, dry_run=effect.dry_run)
    if effect.dry_run or not targets:
        return Outcome(counted)
    call = msgspec.structs.replace(call, authority="high")  # what it ends was compared with it above
    notes = [note for target in targets[: len(targets) - len(followers)] for note in end_target(rows, target, call)]
    notes += _follow(rows, effect.scope.tenant, followers, call)
    undo = undo_token(rows, effect.scope.tenant, len(notes), notes_before)
    return Outcome(msgspec.structs.replace(counted, undo=undo), tuple(notes))


def end_derived(rows: Transaction, tenant: str, targets: Sequence[Target], call: Call) -> list[Note]:
    """End what was derived from something that is forgotten; return the notes."""
    return _follow(rows, tenant, _derived_targets(rows, tenant, targets, call), call)


def _derived_targets(rows: Reader, tenant: str, targets: Sequence[Target], call: Call) -> dict[str, Target]:
    """Return what was derived from these and is current, by refs: it goes with them, wherever it is."""
    roots = [node for target in targets for node in nodes_of(target)]
    found: dict[str, Target] = {}
    for node in descendants(rows, tenant, roots, every_version=True):
        target = current_target(rows, tenant, node, call)
        if target is not None:
            found[node.ref] = target
    return found


def _follow(rows: Transaction, tenant: str, followers: dict[str, Target], call: Call) -> list[Note]:
    """End what was derived from something else; return the notes, which say so."""
    notes: list[Note] = []
    call = msgspec.structs.replace(call, authority="high")
    for ref, target in followers.items():
        if current_target(rows, tenant, Node(ref), call) is None:
            continue  # it went with another one
        for note in end_target(rows, target, call):
            notes.append(msgspec.structs.replace(note, detail={**note.detail, "follows": True}))
    return notes


def origins_of_forget(rows: Reader, effect: Forget, call: Call) -> Iterator[Origin]:
    """Return the origins of what an effect would forget."""
    return (_origin_of(target) for target in _targets(rows, effect, call))


def _origin_of(target: Target) -> Origin:
    return target.block.origin if isinstance(target, Lines) else target.origin


def undo_token(rows: Transaction, tenant: str, notes: int, notes_before: int = 0) -> str:
    """Return what names the next events of a ledger, for `undo`: they say what a call changed."""
    position, _ = rows.head(tenant) or (0, "")
    first = position + notes_before + 1
    return f"undo:{first}-{first + notes - 1}"


def _targets(rows: Reader, effect: Forget, call: Call) -> Iterator[Target]:
    scope, now = effect.scope, call.now
    if effect.id is not None:
        target = find_target(rows, scope, effect.id, now)
        if target is not None and (
            effect.collection is None or (isinstance(target, Entry) and target.collection == effect.collection)
        ):
            yield from _with_other_parts(rows, target, call) if isinstance(target, Entry) else (target,)
    elif effect.key is not None:
        shelf = Shelf(scope, effect.collection or "", effect.namespace)
        entry = entry_of_key(rows, shelf, effect.key)
        found = text_parts(rows, shelf, effect.key) if entry is None else [entry]
        yield from (one for one in found if one.is_current_at(now))
    elif effect.filter is not None:
        collection, namespace = effect.collection, effect.namespace
        found = live_entries(rows, scope, now, collection=collection, namespace=namespace, filter=effect.filter)
        yield from (_bare(one) for one in found)
    elif effect.identifier is not None:
        yield from _mentions(rows, effect, Identifier(effect.identifier), call)


def _with_other_parts(rows: Reader, entry: Entry, call: Call) -> list[Entry]:
    """Return an entry; if it is a part of a text, all parts of it."""
    document = document_of(entry)
    parts = [] if document is None else text_parts(rows, shelf_of(entry), document)
    return [part for part in parts if part.is_current_at(call.now)] or [entry]


def _mentions(rows: Reader, effect: Forget, identifier: Identifier, call: Call) -> Iterator[Target]:
    """Yield what contains an identifier: entries, and unless a collection is named also facts and lines."""
    collection, namespace = effect.collection, effect.namespace
    for entry in live_entries(rows, effect.scope, call.now, collection=collection, namespace=namespace):
        if identifier.is_in_key(entry.key) or identifier.is_in([entry.content, entry.metadata]):
            yield _bare(entry)
    if effect.collection is not None or effect.namespace is not None:
        return
    for fact in rows.facts(FactQuery(effect.scope, active_at=call.now)):
        if is_block(fact.scope, fact.key):
            numbers = tuple(number for number, line in lines_of(fact.value) if identifier.is_in(line))
            if numbers:
                yield Lines(fact, numbers)
        elif not is_internal(fact.scope, fact.key) and (identifier.is_in_key(fact.key) or identifier.is_in(fact.value)):
            yield msgspec.structs.replace(fact, value=None)


def _bare(entry: Entry) -> Entry:
    """Return an entry without its content, of which there may be thousands."""
    return msgspec.structs.replace(entry, content=None, metadata={})


def end_target(rows: Transaction, target: Target, call: Call) -> Sequence[Note]:
    """End what a ref names; return the notes for the ledger."""
    if isinstance(target, Entry):
        return (end_entry(rows, target, call.now), *follow_statement(rows, target, None, call))
    if isinstance(target, Fact):
        return delete_fact(rows, DeleteFact(scope=target.scope, key=target.key), call).notes
    block = rows.fact(target.block.scope, target.block.key)
    if block is None:
        return ()  # its last line went with a statement
    # By their texts: the end of a statement may have removed a line since they were numbered.
    gone = {line for number, line in lines_of(target.block.value) if number in target.numbers}
    text = "\n".join(line for line in block.value.split("\n") if line not in gone)
    if text == block.value:
        return ()
    if not text.strip():
        return delete_fact(rows, DeleteFact(scope=block.scope, key=block.key), call).notes
    write = SetFact(scope=block.scope, key=block.key, payload=msgspec.Raw(encode(text)), domain=block.domain)
    return set_fact(rows, write, editing(call, block)).notes


def _count(targets: Sequence[Target], *, dry_run: bool) -> Forgotten:
    entries = [target.ref for target in targets if isinstance(target, Entry)]
    facts = [str(Ref("fact", target.scope, target.key)) for target in targets if isinstance(target, Fact)]
    lines = [ref for target in targets if isinstance(target, Lines) for ref in target.refs]
    refs = (*entries, *facts, *lines)
    return Forgotten(
        refs=refs, count=len(refs), entries=len(entries), facts=len(facts), lines=len(lines), dry_run=dry_run
    )
