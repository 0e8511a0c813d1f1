"""What was learned in, memory without it out: a consolidation undone, a conversation forgotten with what it taught."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversations import ConversationSummary, conversation_scope
from memoranda.chat.keeping import read_state
from memoranda.errors import Conflict, NotFound
from memoranda.model.block import BLOCK_TYPES, BlockScope, key_of, lines_of, owner_of
from memoranda.model.effect import FindFacts, GetFact, ReadHistory, WriteFacts
from memoranda.model.fact import Fact, Revision
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.sleep.consolidating import SLEEP, Book, Change, Place, Source, pruned, undone, without
from memoranda.sleep.interrupt import check_interrupt
from memoranda.sleep.jobs import KIND, Job, amended, get_job
from memoranda.sleep.lines import digest
from memoranda.sleep.shelves import BOOK, RACES, Shelves, only_for, places_of, read_book, read_shelves

T = TypeVar("T")

_UNINTERRUPTED = 100
"""Books that are read before somebody may ask to stop."""


def undo(memory: Memory, conversation_id: str, *, user: str) -> tuple[Change, ...]:
    """Take back what the newest consolidation of a conversation changed in the blocks; return what that changes.

    A block that nobody wrote since gets exactly its text from before. In another one the lines that were added go, and
    those that were taken away come back. What was taken back is not learned again.
    """
    scope = conversation_scope(memory, user, conversation_id)

    def attempt() -> tuple[Change, ...]:
        job = get_job(memory, scope, KIND)
        if not job.result.get("written"):
            raise NotFound(
                f"there is nothing to take back from {quote(conversation_id)}",
                hint="It taught nothing, or was taken back before",
                value=conversation_id,
            )
        return _undo(memory, job, user)

    return _until_first(attempt)


def forget_conversation(memory: Memory, conversation_id: str, *, user: str) -> list[str]:
    """Erase a conversation, and take back the lines that were learned from it alone; return these lines."""
    # Erased first: where that is refused nothing has changed, and what is left undone after it a later look does.
    memory.erase(user=user, thread=conversation_id)
    return _take_back(memory, user, {conversation_id})


def sources_of(memory: Memory, line: str, *, user: str, agent: str | None = None) -> list[Source]:
    """Return where a line of a block was learned; nothing for a line that somebody wrote."""
    scope = places_of(memory, user, agent)["user" if agent is None else "agent"]
    known = read_book(memory.perform(GetFact(scope=scope, key=BOOK))).get(digest(line))
    return [] if known is None else list(known.sources)


def take_back_orphans(memory: Memory, known: Iterable[ConversationSummary]) -> list[str]:
    """Take back what was learned from conversations that are gone, of every user; return the lines that went.

    One that is not among those `known` is looked for once more: it may have been begun, and learned from, since.
    """
    standing = {(one.user, one.id) for one in known}
    books: list[Fact] = memory.perform(FindFacts(scope=Scope.of(tenant=memory.tenant), key=BOOK))
    orphans: dict[str, set[str]] = {}
    for number, book in enumerate(books, 1):
        if not number % _UNINTERRUPTED:
            check_interrupt()
        user = book.scope.parts[0][1]
        named = {source.conversation for line in read_book(book).values() for source in line.sources}
        gone = {id for id in named if (user, id) not in standing and not _is_there(memory, user, id)}
        if gone:
            orphans.setdefault(user, set()).update(gone)
    return [line for user, gone in orphans.items() for line in _take_back(memory, user, gone)]


def _is_there(memory: Memory, user: str, conversation_id: str) -> bool:
    return read_state(memory, conversation_scope(memory, user, conversation_id)) is not None


def _until_first(attempt: Callable[[], T]) -> T:
    """Return what an attempt gives, begun again as often as somebody was faster."""
    for _ in range(RACES - 1):
        try:
            return attempt()
        except Conflict:
            continue
    return attempt()


def _undo(memory: Memory, job: Job, user: str) -> tuple[Change, ...]:
    # Through the caller's own door, so that the lines count as taken out by somebody.
    own = only_for(memory, user)
    shelves = read_shelves(own, places_of(own, user, job.result["agent"]))
    texts: dict[Place, str] = {}
    changes: list[Change] = []
    source = job.result["source"]
    for name in job.result["written"]:
        place = cast("Place", tuple(name.split(".")))
        now = shelves.by_scope[place[0]].texts.get(place[1], "")
        before, after = _around(own, shelves.places[place[0]], key_of(place[1]), source)
        text = undone(before or "", after, now)
        if text != now:
            texts[place] = text
            changes += _differences(place, now, text)
    result: dict[str, Any] = {**job.result, "written": [], "undone": True}
    writes = [
        *shelves.writes(own, texts, _books_after(own, shelves, texts, source), source=None),
        amended(job, result),
    ]
    own.perform(WriteFacts(scope=shelves.places["user"], writes=tuple(writes)))
    return tuple(changes)


def _around(memory: Memory, place: Scope, key: str, source: str) -> tuple[Any, Any]:
    """Return the value of a fact before a consolidation, None where there was none, and after it."""
    history: list[Revision] = memory.perform(ReadHistory(scope=place, key=key))
    for number in range(len(history) - 1, -1, -1):
        origin = history[number].origin
        if (origin.door, origin.source) == (SLEEP, source):
            return history[number - 1].value if number else None, history[number].value
    raise NotFound(f"the history of `{key}` in `{place}` is gone", hint="Edit the block instead")


def _differences(place: Place, old: str, new: str) -> list[Change]:
    scope, block = place
    before, after = [line for _, line in lines_of(old)], [line for _, line in lines_of(new)]
    old_lines, new_lines = set(before), set(after)
    return [
        *(Change(change="removed", scope=scope, block=block, line=line) for line in before if line not in new_lines),
        *(Change(change="added", scope=scope, block=block, line=line) for line in after if line not in old_lines),
    ]


def _take_back(memory: Memory, user: str, conversations: set[str]) -> list[str]:
    """Take away the lines that were learned from these conversations alone, in every scope of a user."""
    own = only_for(memory, user).through(SLEEP)
    home = Scope.of(tenant=memory.tenant, user=user)

    def attempt() -> list[str]:
        gone: list[str] = []
        books: list[Fact] = own.perform(FindFacts(scope=home, key=BOOK))
        for agent in [owner_of(book.scope)[1] for book in books]:
            gone += _take_back_from(own, user, agent, conversations)
        return gone

    return _until_first(attempt)


def _take_back_from(memory: Memory, user: str, agent: str | None, conversations: set[str]) -> list[str]:
    scope: BlockScope = "user" if agent is None else "agent"
    shelves = read_shelves(memory, places_of(memory, user, agent))
    texts, book, gone = without(shelves.by_scope[scope], conversations)
    if book != shelves.by_scope[scope].book:
        changed: dict[Place, str] = {(scope, block): text for block, text in texts.items()}
        writes = shelves.writes(memory, changed, {scope: book}, source=None)
        memory.perform(WriteFacts(scope=shelves.places[scope], writes=tuple(writes)))
    return gone


def _books_after(memory: Memory, shelves: Shelves, texts: dict[Place, str], source: str) -> dict[BlockScope, Book]:
    """Return the books that change with these texts: what came back comes from where it came from before."""
    changed: set[BlockScope] = {scope for scope, _ in texts}
    books: dict[BlockScope, Book] = {}
    for scope in changed:
        shelf = shelves.by_scope[scope]
        lines = [
            line for block in BLOCK_TYPES for _, line in lines_of(texts.get((scope, block), shelf.texts.get(block, "")))
        ]
        before, _ = _around(memory, shelves.places[scope], BOOK, source)
        earlier: Book = msgspec.convert(before or {}, Book)
        back = {name: earlier[name] for name in map(digest, lines) if name in earlier}
        book = pruned(
            {**shelf.book, **{name: line for name, line in back.items() if _is_gone(shelf.book, name)}}, lines
        )
        if book != shelf.book:
            books[scope] = book
    return books


def _is_gone(book: Book, name: str) -> bool:
    return name not in book or book[name].ended
