"""Undo a consolidation, or forget a conversation with what it taught."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversation import ConversationSummary, conversation_scope, read_state
from memoranda.engine.facts import FindFacts, GetFact, ReadHistory, WriteFacts
from memoranda.errors import Conflict, NotFound
from memoranda.model.block import BLOCK_TYPES, BlockScope, key_of, lines_of, owner_of
from memoranda.model.fact import Fact, Revision
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.sleep.consolidation import (
    BOOK,
    RACES,
    SLEEP,
    BlockSnapshot,
    Book,
    Change,
    Place,
    Source,
    limit_to_user,
    places_of,
    prune,
    read_blocks,
    read_book,
    revert,
    without,
)
from memoranda.sleep.extraction import digest
from memoranda.sleep.jobs import KIND, Job, amend_effect, check_interrupt, get_job

T = TypeVar("T")

_CHECK_EVERY = 100
"""Number of books between two checks for an interrupt."""


def undo(memory: Memory, conversation_id: str, *, user: str) -> tuple[Change, ...]:
    """Undo what the latest consolidation of a conversation changed in the blocks; return the changes.

    A block that was not written since gets exactly its previous text. In others the added lines are removed, and the
    removed ones come back. What was undone is not learned again.
    """
    scope = conversation_scope(memory, user, conversation_id)

    def attempt() -> tuple[Change, ...]:
        job = get_job(memory, scope, KIND)
        if not job.result.get("written"):
            raise NotFound(
                f"there is nothing to undo for {quote(conversation_id)}",
                hint="It taught nothing, or was already undone",
                value=conversation_id,
            )
        return _undo(memory, job, user)

    return _retry_conflicts(attempt)


def forget_conversation(memory: Memory, conversation_id: str, *, user: str) -> list[str]:
    """Erase a conversation, and remove the lines that were learned only from it; return these lines."""
    # Erase first: if that is denied nothing has changed, and a later `settle` removes lines that are left over.
    memory.erase(user=user, thread=conversation_id)
    return _take_back(memory, user, {conversation_id})


def sources_of(memory: Memory, line: str, *, user: str, agent: str | None = None) -> list[Source]:
    """Return where a line of a block was learned; empty for a line that was written directly."""
    scope = places_of(memory, user, agent)["user" if agent is None else "agent"]
    known = read_book(memory.perform(GetFact(scope=scope, key=BOOK))).get(digest(line))
    return [] if known is None else list(known.sources)


def take_back_orphans(memory: Memory, known: Iterable[ConversationSummary]) -> list[str]:
    """Remove what was learned from erased conversations, of all users; return the removed lines.

    A conversation that is not among those `known` is read once more, because it may be new.
    """
    existing = {(one.user, one.id) for one in known}
    books: list[Fact] = memory.perform(FindFacts(scope=Scope.of(tenant=memory.tenant), key=BOOK, internal=True))
    orphans: dict[str, set[str]] = {}
    for number, book in enumerate(books, 1):
        if not number % _CHECK_EVERY:
            check_interrupt()
        user = book.scope.parts[0][1]
        named = {source.conversation for line in read_book(book).values() for source in line.sources}
        gone = {id for id in named if (user, id) not in existing and not _exists(memory, user, id)}
        if gone:
            orphans.setdefault(user, set()).update(gone)
    return [line for user, gone in orphans.items() for line in _take_back(memory, user, gone)]


def _exists(memory: Memory, user: str, conversation_id: str) -> bool:
    return read_state(memory, conversation_scope(memory, user, conversation_id)) is not None


def _retry_conflicts(attempt: Callable[[], T]) -> T:
    for _ in range(RACES - 1):
        try:
            return attempt()
        except Conflict:
            continue
    return attempt()


def _undo(memory: Memory, job: Job, user: str) -> tuple[Change, ...]:
    # Through the caller's own door, so that the lines count as removed by a person.
    own = limit_to_user(memory, user)
    snapshot = read_blocks(own, places_of(own, user, job.result["agent"]))
    texts: dict[Place, str] = {}
    changes: list[Change] = []
    source = job.result["source"]
    for name in job.result["written"]:
        place = cast("Place", tuple(name.split(".")))
        now = snapshot.by_scope[place[0]].texts.get(place[1], "")
        before, after = _around(own, snapshot.places[place[0]], key_of(place[1]), source)
        text = revert(before or "", after, now)
        if text != now:
            texts[place] = text
            changes += _differences(place, now, text)
    result: dict[str, Any] = {**job.result, "written": [], "undone": True}
    writes = [
        *snapshot.writes(own, texts, _books_after(own, snapshot, texts, source), source=None),
        amend_effect(job, result),
    ]
    own.perform(WriteFacts(scope=snapshot.places["user"], writes=tuple(writes)))
    return tuple(changes)


def _around(memory: Memory, place: Scope, key: str, source: str) -> tuple[Any, Any]:
    """Return the value of a fact before a consolidation (None if there was none) and after it."""
    history: list[Revision] = memory.perform(ReadHistory(scope=place, key=key))
    for number in range(len(history) - 1, -1, -1):
        origin = history[number].origin
        if (origin.door, origin.source) == (SLEEP, source):
            return history[number - 1].value if number else None, history[number].value
    raise NotFound(f"the history of `{key}` in `{place}` was erased", hint="Edit the block instead")


def _differences(place: Place, old: str, new: str) -> list[Change]:
    scope, block = place
    before, after = [line for _, line in lines_of(old)], [line for _, line in lines_of(new)]
    old_lines, new_lines = set(before), set(after)
    return [
        *(Change(change="removed", scope=scope, block=block, line=line) for line in before if line not in new_lines),
        *(Change(change="added", scope=scope, block=block, line=line) for line in after if line not in old_lines),
    ]


def _take_back(memory: Memory, user: str, conversations: set[str]) -> list[str]:
    """Remove the lines that were learned only from these conversations, in all scopes of a user."""
    own = limit_to_user(memory, user).through(SLEEP)
    home = Scope.of(tenant=memory.tenant, user=user)

    def attempt() -> list[str]:
        gone: list[str] = []
        books: list[Fact] = own.perform(FindFacts(scope=home, key=BOOK, internal=True))
        for agent in [owner_of(book.scope)[1] for book in books]:
            gone += _take_back_from(own, user, agent, conversations)
        return gone

    return _retry_conflicts(attempt)


def _take_back_from(memory: Memory, user: str, agent: str | None, conversations: set[str]) -> list[str]:
    scope: BlockScope = "user" if agent is None else "agent"
    snapshot = read_blocks(memory, places_of(memory, user, agent))
    texts, book, gone = without(snapshot.by_scope[scope], conversations)
    if book != snapshot.by_scope[scope].book:
        changed: dict[Place, str] = {(scope, block): text for block, text in texts.items()}
        writes = snapshot.writes(memory, changed, {scope: book}, source=None)
        memory.perform(WriteFacts(scope=snapshot.places[scope], writes=tuple(writes)))
    return gone


def _books_after(
    memory: Memory, snapshot: BlockSnapshot, texts: dict[Place, str], source: str
) -> dict[BlockScope, Book]:
    """Return the books that change with these texts; lines that come back get their earlier sources."""
    changed: set[BlockScope] = {scope for scope, _ in texts}
    books: dict[BlockScope, Book] = {}
    for scope in changed:
        current = snapshot.by_scope[scope]
        new = {**current.texts, **{block: text for (owner, block), text in texts.items() if owner == scope}}
        lines = [line for block in BLOCK_TYPES for _, line in lines_of(new.get(block, ""))]
        before, _ = _around(memory, snapshot.places[scope], BOOK, source)
        earlier: Book = msgspec.convert(before or {}, Book)
        back = {name: earlier[name] for name in map(digest, lines) if name in earlier and _is_gone(current.book, name)}
        book = prune({**current.book, **back}, lines)
        if book != current.book:
            books[scope] = book
    return books


def _is_gone(book: Book, name: str) -> bool:
    return name not in book or book[name].ended
