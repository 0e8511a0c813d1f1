"""Forgetting: by ref, by key, by a filter on metadata, by an identifier or by a description, in one transaction.

What is forgotten ends: recalls as of earlier moments still find it, and `engine.undo` brings it back. A description
may mean one of several things that a sentence says; the rest is written anew, with the origin of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from memoranda.engine.derivation import Source, editing, link, message_refs, messages_for
from memoranda.engine.embedding import Texts, text_of, texts_by_space
from memoranda.engine.entries import (
    Item,
    document_of,
    embed_texts,
    end_entry,
    entry_of_key,
    live_entries,
    shelf_of,
    store_items,
    text_parts,
)
from memoranda.engine.facts import DeleteFact, SetFact, delete_fact, set_fact
from memoranda.engine.learned_lines import follow_statement
from memoranda.engine.lineage import Node, current_target, descendants, nodes_of
from memoranda.engine.omissions import Forgetting
from memoranda.engine.refs import Lines, Target, demand_of, find_entry, find_target, sides_of
from memoranda.engine.reviews import contest
from memoranda.engine.sessions import ensure_open
from memoranda.engine.undo import store_again
from memoranda.engine.verbs import Call, Outcome, Preparation, verb, within_scope
from memoranda.model.block import lines_of
from memoranda.model.effect import Demand, Side, WriteEffect
from memoranda.model.entry import CONVERSATIONS, RETRACTED, STATEMENTS, Entry, Forgotten, Shelf
from memoranda.model.event import Note
from memoranda.model.fact import Fact
from memoranda.model.identifier import Identifier
from memoranda.model.names import FORGOTTEN_MESSAGES, collection_key, is_block, is_internal
from memoranda.model.ref import Ref
from memoranda.model.scope import Scope
from memoranda.model.trust import Origin
from memoranda.model.value import encode
from memoranda.store.base import FactQuery, Reader, Transaction

if TYPE_CHECKING:
    from memoranda.retrieval.description import Meant


REPLACES = "replaces"
"""The metadata with the id of the entry that an entry replaces."""


class Forget(WriteEffect, frozen=True, kw_only=True, tag="forget"):
    """End what `id`, `key`, `filter`, `identifier` or `about` names; as of earlier moments it can still be recalled."""

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
    inside: bool = False
    """Whether the identifier is also looked for inside longer ones."""
    about: str | None = None
    """A description of entries, facts and lines."""
    ranking: dict[str, float] = msgspec.field(default_factory=dict[str, float])
    """The scores of what recall found for the description, by ref."""
    dry_run: bool = False

    @property
    def place(self) -> str | None:
        """The collection, spelled as a key, where one is named."""
        return None if self.collection is None else collection_key(self.collection)

    def weight(self) -> tuple[int, int]:
        """Return one write; none if nothing will be changed."""
        return (0, 0) if self.dry_run else (1, 0)


class Description(msgspec.Struct, frozen=True):
    """What a description means in the rows: targets, the text that stays of some, and what else it may mean."""

    targets: tuple[Target, ...] = ()
    kept: dict[str, str] = {}
    """By the refs of entries and lines."""
    candidates: tuple[str, ...] = ()


def demands_of_forget(rows: Reader, effect: Forget, call: Call) -> Iterator[Demand]:
    """Return what it takes to forget what an effect names in the rows."""
    return (demand_of(target, effect.capability) for target in _description(rows, effect, call).targets)


def sides_of_forget(rows: Reader, effect: Forget, call: Call) -> Iterator[Side]:
    """Yield what an effect would forget."""
    for target in _description(rows, effect, call).targets:
        yield from sides_of(target, "forget")


def _texts_to_embed(rows: Reader, effect: Forget, call: Call) -> Texts | None:
    """Return the texts that stay of entries; only a description leaves any."""
    if effect.about is None or effect.dry_run:
        return None
    return texts_that_stay(rows, effect.scope.tenant, _description(rows, effect, call))


def texts_that_stay(rows: Reader, tenant: str, meant: Description) -> Texts | None:
    """Return what has to be embedded before the entries of a description end."""
    kept = [
        (target.collection, [meant.kept[target.ref]])
        for target in meant.targets
        if isinstance(target, Entry) and target.ref in meant.kept
    ]
    return texts_by_space(rows, tenant, kept) if kept else None


@verb(
    Forget,
    within=within_scope,
    touches=demands_of_forget,
    sides=sides_of_forget,
    preparation=Preparation(inquire=_texts_to_embed, prepare=embed_texts),
)
def forget(rows: Transaction, effect: Forget, call: Call) -> Outcome[Forgotten]:
    """End what an effect names, all of it or nothing, and return what that was."""
    return forget_after(rows, effect, call, 0)


def forget_after(rows: Transaction, effect: Forget, call: Call, notes_before: int) -> Outcome[Forgotten]:
    """Forget in a transaction that has made this number of notes already."""
    ensure_open(rows, effect.scope)
    meant = _description(rows, effect, call)
    # What was derived from a text of which a part stays may come from that part: only what is meant itself goes. So do
    # statements, each of which says one thing of a message, unless the message was named by its ref or its metadata.
    whole = [target for target in meant.targets if not (isinstance(target, Entry) and target.ref in meant.kept)]
    by_content = effect.identifier is not None or effect.about is not None
    followers = _derivatives(rows, effect.scope.tenant, whole, call, but_statements=by_content)
    targets = (*meant.targets, *followers.values())
    contested = None if effect.dry_run else contest(rows, effect, map(_origin_of, targets), call)
    if contested is not None:
        return contested  # pyright: ignore[reportReturnType]  # the gate raises it
    counted = _count(targets, meant, dry_run=effect.dry_run)
    if effect.dry_run or not targets:
        return Outcome(counted)
    forgetting = Forgetting(rows, call)
    forgetting.add(targets, meant.kept)
    if effect.identifier is not None:
        forgetting.add_identifier(effect.scope, effect.identifier)
    # What it ends was compared with it above, and is left out of prompts as a whole.
    call = msgspec.structs.replace(call, authority="high", omits=False)
    notes = [note for target in meant.targets for note in end_target(rows, target, call, meant.kept)]
    notes += _follow(rows, effect.scope.tenant, followers, call)
    notes += _retract_messages(rows, [target for target in meant.targets if isinstance(target, Entry)], call)
    undo = undo_token(rows, effect.scope.tenant, len(notes), notes_before)
    forgetting.store(undo)
    return Outcome(msgspec.structs.replace(counted, undo=undo), tuple(notes))


def _retract_messages(rows: Transaction, ended: Sequence[Entry], call: Call) -> list[Note]:
    """Mark the messages that state what was forgotten, so that they come after what is true; return the notes."""
    notes: list[Note] = []
    marked: set[str] = set()
    for statement in ended:
        if statement.collection != STATEMENTS:
            continue
        whole = find_entry(rows, statement.scope, statement.id)  # of many, the contents were not kept
        if whole is None:
            continue
        for ref, message in messages_for(rows, whole.scope.tenant, message_refs(whole), whole.origin.trust):
            if not isinstance(message, Entry) or not _is_current_message(message, statement, call):
                continue
            if ref in marked or RETRACTED in message.metadata:
                continue
            marked.add(ref)
            ended_at = max(call.now, message.created_at)
            metadata = {**message.metadata, RETRACTED: ended_at.isoformat()}
            again = msgspec.structs.replace(message, metadata=metadata, ended_at=ended_at)
            notes += [end_entry(rows, message, call.now, replaced=True), store_again(rows, again, call)]
    return notes


def _is_current_message(message: Entry, statement: Entry, call: Call) -> bool:
    here = message.scope == statement.scope and message.collection == CONVERSATIONS
    return here and message.is_current_at(call.now)


def end_derived(rows: Transaction, tenant: str, targets: Sequence[Target], call: Call) -> list[Note]:
    """End what was derived from something that is forgotten; return the notes."""
    followers = _derivatives(rows, tenant, targets, call)
    if call.omits:
        forgetting = Forgetting(rows, call)
        forgetting.add(followers.values())
        forgetting.store()
    return _follow(rows, tenant, followers, call)


def _derivatives(
    rows: Reader, tenant: str, targets: Sequence[Target], call: Call, *, but_statements: bool = False
) -> dict[str, Target]:
    """Return what was derived from these and is current, by refs: it goes with them, wherever it is."""
    roots = [node for target in targets for node in nodes_of(target)]
    found: dict[str, Target] = {}
    for node in descendants(rows, tenant, roots, every_version=True, but_statements=but_statements):
        target = current_target(rows, tenant, node, call)
        if target is not None:
            found[node.ref] = target
    return found


def _follow(rows: Transaction, tenant: str, followers: dict[str, Target], call: Call) -> list[Note]:
    """End what was derived from something else; return the notes, which say so."""
    notes: list[Note] = []
    call = msgspec.structs.replace(call, authority="high", omits=False)
    for ref, target in followers.items():
        if current_target(rows, tenant, Node(ref), call) is None:
            continue  # it went with another one
        for note in end_target(rows, target, call):
            notes.append(msgspec.structs.replace(note, detail={**note.detail, "follows": True}))
    return notes


def origins_of_forget(rows: Reader, effect: Forget, call: Call) -> Iterator[Origin]:
    """Return the origins of what an effect would forget."""
    return (_origin_of(target) for target in _description(rows, effect, call).targets)


def _origin_of(target: Target) -> Origin:
    return target.block.origin if isinstance(target, Lines) else target.origin


def undo_token(rows: Transaction, tenant: str, notes: int, notes_before: int = 0) -> str:
    """Return what names the next events of a ledger, for `undo`: they say what a call changed."""
    positions = rows.reserve(tenant, notes_before + notes, together=True).positions
    return f"undo:{positions[notes_before]}-{positions[-1]}"


def _description(rows: Reader, effect: Forget, call: Call) -> Description:
    if effect.about is None:
        return Description(tuple(_targets(rows, effect, call)))
    from memoranda.retrieval.description import Description as Request  # it reads tables, and few calls need it

    memories = Memories(rows, effect.scope, call, collection=effect.collection, namespace=effect.namespace)
    return memories.chosen(Request(effect.about).to_forget(memories.texts, memories.ranks(effect.ranking)))


class Memories:
    """What a description may mean: the entries, facts and lines of a scope, by ref."""

    def __init__(
        self,
        rows: Reader,
        scope: Scope,
        call: Call,
        *,
        collection: str | None = None,
        namespace: str | None = None,
        replaceable: bool = False,
    ) -> None:
        """Read what is current; with a collection or a namespace only entries.

        What can be replaced by a sentence is neither a message, which stays as it was said, nor a fact.
        """
        from memoranda.retrieval.description import Memory

        self._targets: dict[str, Entry | Fact | tuple[Fact, int]] = {}
        self.texts: list[Memory] = []
        for entry in live_entries(rows, scope, call.now, collection=collection, namespace=namespace):
            is_message = entry.collection == CONVERSATIONS
            if not (replaceable and is_message):
                self._targets[entry.ref] = entry
                self.texts.append(
                    Memory(
                        name=entry.ref,
                        text=text_of(entry.content),
                        key=entry.key,
                        values=entry.metadata,
                        splits=isinstance(entry.content, str) and document_of(entry) is None,
                        sources=tuple(message_refs(entry)),
                    )
                )
        if collection is not None or namespace is not None:
            return
        for fact in rows.facts(FactQuery(scope, active_at=call.now)):
            if is_block(fact.scope, fact.key):
                for number, line in lines_of(fact.value):
                    ref = Lines(fact, (number,)).refs[0]
                    self._targets[ref] = (fact, number)
                    self.texts.append(Memory(ref, line))
            elif not replaceable and not is_internal(fact.scope, fact.key):
                ref = str(Ref("fact", fact.scope, fact.key))
                self._targets[ref] = fact
                words = fact.key.replace(".", " ").replace("_", " ")
                self.texts.append(Memory(ref, f"{words}: {text_of(fact.value)}", fact.key, splits=False))

    def ranks(self, ranking: Mapping[str, float]) -> dict[str, float]:
        """Return the ranks of what is here."""
        return {ref: score for ref, score in ranking.items() if ref in self._targets}

    def chosen(self, meant: Meant) -> Description:
        """Return what is meant as targets; the lines of a block go together."""
        targets: list[Target] = []
        lines: dict[str, tuple[Fact, list[int]]] = {}
        for ref in meant.kept:
            target = self._targets[ref]
            if isinstance(target, tuple):
                lines.setdefault(target[0].key, (target[0], []))[1].append(target[1])
            else:
                targets.append(target)
        targets += [Lines(fact, tuple(numbers)) for fact, numbers in lines.values()]
        kept = {ref: text for ref, text in meant.kept.items() if text is not None}
        return Description(tuple(targets), kept, meant.candidates)


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
        yield from _mentions(rows, effect, Identifier(effect.identifier, inside=effect.inside), call)


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


def end_target(rows: Transaction, target: Target, call: Call, kept: Mapping[str, str] | None = None) -> Sequence[Note]:
    """End what a ref names, and write anew what stays of it; return the notes for the ledger."""
    kept = kept or {}
    if isinstance(target, Entry):
        text = kept.get(target.ref)
        ended = end_entry(rows, target, call.now)
        if text is None:
            new = _mark_message(rows, target, call)
        else:
            new = keep_text(rows, target, text, call, key=target.chain)
        return (ended, *new, *follow_statement(rows, target, text, call))
    if isinstance(target, Fact):
        return delete_fact(rows, DeleteFact(scope=target.scope, key=target.key), call).notes
    block = rows.fact(target.block.scope, target.block.key)
    if block is None:
        return ()  # its last line went with a statement
    # By their texts: the end of a statement may have removed a line since they were numbered.
    numbered = dict(lines_of(target.block.value))
    gone = {numbered[number]: kept.get(ref) for number, ref in zip(target.numbers, target.refs, strict=True)}
    lines = (gone.get(line, line) for line in block.value.split("\n"))
    text = "\n".join(line for line in lines if line is not None)
    if text == block.value:
        return ()
    if not text.strip():
        return delete_fact(rows, DeleteFact(scope=block.scope, key=block.key), call).notes
    write = SetFact(scope=block.scope, key=block.key, payload=msgspec.Raw(encode(text)), domain=block.domain)
    return set_fact(rows, write, editing(call, block)).notes


def _mark_message(rows: Transaction, entry: Entry, call: Call) -> Sequence[Note]:
    """Note that a message was forgotten, so that the same message is not read again; return the notes."""
    key = forgotten_key(entry.key or "")
    if entry.collection != CONVERSATIONS or entry.key is None or not is_internal(entry.scope, key):
        return ()
    return set_fact(rows, SetFact(scope=entry.scope, key=key, payload=msgspec.Raw(b"true")), call).notes


def forgotten_key(key: str) -> str:
    """Return the key of the internal fact that says that the message of a key was forgotten."""
    return f"{FORGOTTEN_MESSAGES}.{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def keep_text(rows: Transaction, old: Entry, text: str, call: Call, *, key: str | None) -> list[Note]:
    """Store what stays of an entry that ended, as old and as trusted as that; return the notes."""
    metadata = {**old.metadata, REPLACES: old.id}
    item = Item(payload=msgspec.Raw(encode(text)), metadata=msgspec.Raw(encode(metadata)), key=key)
    at = max(call.now, old.created_at)
    (new,), notes = store_items(rows, shelf_of(old), [item], call, at=at, expires_at=old.expires_at, origin=old.origin)
    if new.id:
        link(rows, old.scope, new.ref, 0, [Source(old.ref, 0, old.origin.trust)])
    return notes


def _count(targets: Sequence[Target], meant: Description, *, dry_run: bool) -> Forgotten:
    entries = [target.ref for target in targets if isinstance(target, Entry)]
    facts = [str(Ref("fact", target.scope, target.key)) for target in targets if isinstance(target, Fact)]
    lines = [ref for target in targets if isinstance(target, Lines) for ref in target.refs]
    refs = (*entries, *facts, *lines)
    return Forgotten(
        refs=refs,
        count=len(refs),
        entries=len(entries),
        facts=len(facts),
        lines=len(lines),
        dry_run=dry_run,
        kept=tuple(meant.kept[ref] for ref in refs if ref in meant.kept),
        candidates=meant.candidates,
    )
