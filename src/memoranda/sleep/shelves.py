"""The blocks of a user and of one agent, with what is known of their lines: read in one moment, written as one.

Where a line was learned is kept beside the blocks of its scope, at `sleep.learned`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from memoranda.api.blocks import update_effect
from memoranda.api.memory import Memory
from memoranda.model.block import BLOCK_TYPES, BlockScope, BlockType, key_of, lines_of
from memoranda.model.effect import GetFact, GetFacts, ReadHistory, SetFact
from memoranda.model.fact import Fact, Revision
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.sleep.consolidating import Book, Place, Shelf, taken_out
from memoranda.sleep.extracting import Standing

BOOK = "sleep.learned"
"""The key of what is known of the lines that were learned."""
RACES = 50
"""How often blocks are read again because somebody else was faster."""

Places = dict[BlockScope, Scope]
"""Whose blocks are meant: the user's, and the agent's where there is one."""


class Shelves(msgspec.Struct, frozen=True):
    """Blocks as they stood in one moment, and what their next writer has to know."""

    places: Places
    by_scope: dict[BlockScope, Shelf]
    stamps: dict[Place, datetime]
    """When each block was last written."""
    versions: dict[BlockScope, int]
    """The version of each book."""

    def standing(self) -> Standing:
        """Return the lines of all blocks."""
        return Standing(
            lines={
                (scope, block): tuple(line for _, line in lines_of(text))
                for scope, shelf in self.by_scope.items()
                for block, text in shelf.texts.items()
            }
        )

    def writes(
        self, memory: Memory, texts: Mapping[Place, str], books: Mapping[BlockScope, Book], *, source: str | None
    ) -> list[SetFact]:
        """Return the writes of new texts and books, each of them a conflict where somebody was faster."""
        return [
            *(
                update_effect(
                    self.places[scope],
                    block,
                    text,
                    memory.limits,
                    expected_updated_at=self.stamps.get((scope, block)),
                    source=source,
                )
                for (scope, block), text in texts.items()
            ),
            *(
                SetFact(
                    scope=self.places[scope],
                    key=BOOK,
                    payload=msgspec.Raw(encode(msgspec.to_builtins(book))),
                    expect=self.versions[scope],
                    source=source,
                )
                for scope, book in books.items()
            ),
        ]


def places_of(memory: Memory, user: str, agent: str | None) -> Places:
    """Return the scopes that the blocks of a user are in, with those of one agent."""
    places: Places = {"user": Scope.of(tenant=memory.tenant, user=user)}
    if agent is not None:
        places["agent"] = Scope.of(tenant=memory.tenant, user=user, agent=agent)
    return places


def only_for(memory: Memory, user: str) -> Memory:
    """Return a handle that reaches nothing but the memory of one user, so that no fault can mix two of them."""
    own = Scope.of(tenant=memory.tenant, user=user)
    return memory.narrowed(Policy(rules=(Rule("allow", "memory", own),)))


def read_shelves(memory: Memory, places: Places) -> Shelves:
    """Return the blocks of these places as they stand."""
    keys = [*(key_of(block) for block in BLOCK_TYPES), BOOK]
    gets = tuple(GetFact(scope=place, key=key) for place in places.values() for key in keys)
    found: list[Fact | None] = memory.perform(GetFacts(scope=places["user"], gets=gets))
    shelves = Shelves(places, {}, {}, {})
    for number, (scope, place) in enumerate(places.items()):
        *blocks, book = found[number * len(keys) : (number + 1) * len(keys)]
        standing: dict[BlockType, Fact] = {
            block: fact for block, fact in zip(BLOCK_TYPES, blocks, strict=True) if fact is not None
        }
        shelves.stamps.update({(scope, block): fact.updated_at for block, fact in standing.items()})
        shelves.versions[scope] = 0 if book is None else book.version
        shelves.by_scope[scope] = Shelf(
            texts={block: fact.value for block, fact in standing.items()},
            book=read_book(book),
            taken_out=frozenset(
                line for block in BLOCK_TYPES for line in taken_out(_history(memory, place, key_of(block)))
            ),
        )
    return shelves


def read_book(fact: Fact | None) -> Book:
    """Return what a fact says of lines that were learned."""
    return {} if fact is None else msgspec.convert(fact.value, Book)


def _history(memory: Memory, place: Scope, key: str) -> list[Revision]:
    return memory.perform(ReadHistory(scope=place, key=key))
