"""Undo what a conversation taught, or forget a conversation with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, cast

import msgspec

from memoranda.api.memory import Memory
from memoranda.chat.conversation import (
    ConversationSummary,
    conversation_scope,
    log_unreadable,
    read_each,
)
from memoranda.engine.blocks import BOOK, LEARNED, Book
from memoranda.engine.facts import FindFacts, GetFact
from memoranda.engine.learned_lines import revert_text
from memoranda.engine.learning import Unlearn
from memoranda.engine.undo import Undo
from memoranda.errors import NotFound
from memoranda.model.block import Block, BlockType, canonical_digest, lines_of
from memoranda.model.fact import Fact
from memoranda.model.job import SLEEP, Job
from memoranda.model.lesson import LineChange, Source
from memoranda.model.names import CHAT_RECORD
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.sleep.jobs import amend_effect, check_interrupt, get_job

_CHECK_EVERY = 100
"""Number of books between two checks for an interrupt."""


def undo(memory: Memory, conversation_id: str, *, user: str) -> tuple[LineChange, ...]:
    """Undo what was last learned from a conversation; return the changes in the blocks.

    A block that was not written since gets exactly its previous text. In others the added lines are removed, and the
    removed ones come back; statements that were replaced since stay. What was undone is not learned again.
    """
    job = get_job(memory, conversation_scope(memory, user, conversation_id), SLEEP)
    if not job.result.get("written") and not job.result.get("undo"):
        raise NotFound(
            f"there is nothing to undo for {quote(conversation_id)}",
            hint="It taught nothing, or was already undone",
            value=conversation_id,
        )
    # Through the caller's own door, so that the lines count as removed by a person.
    home = Scope.of(tenant=memory.tenant, user=user)
    own = limit_to(memory, home)
    before = _blocks(own, user, job)
    for token in job.result.get("undo", ()):
        own.perform(Undo(scope=home, token=token, partial=True))
    if "undo" not in job.result:
        _undo_by_source(own, user, job)
    own.perform(amend_effect(job, {**job.result, "written": [], "undo": [], "undone": True}))
    return tuple(_changes(before, _blocks(own, user, job)))


def forget_conversation(memory: Memory, conversation_id: str, *, user: str) -> list[str]:
    """Erase a conversation, and end what was learned only from it; return the lines that were removed."""
    # Erase first: if that is denied nothing has changed, and a later `settle` removes lines that are left over.
    memory.erase(user=user, thread=conversation_id)
    return _unlearn(memory, user, {conversation_id})


def sources_of(memory: Memory, line: str, *, user: str, agent: str | None = None) -> list[Source]:
    """Return where a line of a block was learned; empty for a line that was written directly."""
    scope = Scope.of(tenant=memory.tenant, user=user, **({} if agent is None else {"agent": agent}))
    fact: Fact | None = memory.perform(GetFact(scope=scope, key=BOOK))
    known = None if fact is None else msgspec.convert(fact.value, Book).get(canonical_digest(line))
    return [] if known is None else list(known.sources)


def take_back_orphans(memory: Memory, known: Iterable[ConversationSummary]) -> list[str]:
    """Remove what was learned from erased conversations, of all users; return the removed lines.

    A conversation that is not among those `known` is read once more, because it may be new. A book that cannot be read
    is logged, and those of other users are still tidied.
    """
    existing = {(one.user, one.id) for one in known}
    books: list[Fact] = memory.perform(FindFacts(scope=Scope.of(tenant=memory.tenant), key=BOOK, internal=True))
    orphans: dict[str, set[str]] = {}

    def read_gone(book: Fact) -> tuple[str, set[str]]:
        user = book.scope.parts[0][1]
        lines = msgspec.convert(book.value, Book).values()
        named = {source.conversation for line in lines for source in line.sources}
        return user, {id for id in named if (user, id) not in existing and not _exists(memory, user, id)}

    for number, (user, gone) in enumerate(read_each(books, read_gone), 1):
        if not number % _CHECK_EVERY:
            check_interrupt()
        if gone:
            orphans.setdefault(user, set()).update(gone)
    removed: list[str] = []
    for user, gone in orphans.items():
        try:
            removed += _unlearn(memory, user, gone)
        except msgspec.ValidationError as fault:  # another book of this user
            log_unreadable(Scope.of(tenant=memory.tenant, user=user), BOOK, fault)
    return removed


def limit_to(memory: Memory, scope: Scope) -> Memory:
    """Return a handle that is limited to one scope and what is below it, so that no bug can mix users."""
    return memory.narrowed(Policy(rules=(Rule("allow", "memory", scope),)))


def _exists(memory: Memory, user: str, conversation_id: str) -> bool:
    """Return whether there is a conversation, even if its record cannot be read."""
    return memory.perform(GetFact(scope=conversation_scope(memory, user, conversation_id), key=CHAT_RECORD)) is not None


def _unlearn(memory: Memory, user: str, conversations: set[str]) -> list[str]:
    home = Scope.of(tenant=memory.tenant, user=user)
    own = limit_to(memory, home).through(LEARNED)
    return own.perform(Unlearn(scope=home, conversations=tuple(sorted(conversations))))


def _blocks(memory: Memory, user: str, job: Job) -> list[Block]:
    """Return the blocks that a job may have written."""
    return memory.scope(user=user, agent=job.result["agent"]).blocks.list(scope="all")


def _changes(old: list[Block], new: list[Block]) -> Iterator[LineChange]:
    sides: tuple[tuple[Literal["removed", "added"], list[Block], list[Block]], ...] = (
        ("removed", old, new),
        ("added", new, old),
    )
    for change, some, others in sides:
        present = {(block.scope, block.block_type, line) for block in others for _, line in lines_of(block.content)}
        for block in some:
            for _, line in lines_of(block.content):
                if (block.scope, block.block_type, line) not in present:
                    yield LineChange(change=change, scope=block.scope, block=block.block_type, line=line)


def _undo_by_source(memory: Memory, user: str, job: Job) -> None:
    """Revert what a job of an earlier version wrote, which is found by its source in the history of the blocks."""
    for name in job.result["written"]:
        scope, _, block = name.partition(".")
        ids = {"user": user, **({"agent": job.result["agent"]} if scope == "agent" else {})}
        blocks, kind = memory.scope(**ids).blocks, cast("BlockType", block)
        history = blocks.history(kind)
        texts = ["", *(one.value or "" for one in history)]
        origins = [(one.origin.door, one.origin.source) for one in history]
        wanted = (LEARNED, job.result["source"])
        if wanted not in origins:
            raise NotFound(f"the history of the {block} block was erased", hint="Edit the block instead")
        written = len(origins) - 1 - origins[::-1].index(wanted)
        current = blocks.get(kind)
        text = revert_text(texts[written], texts[written + 1], current.content if current else "")
        blocks.update(kind, text, expected_updated_at=current.updated_at if current else None)
