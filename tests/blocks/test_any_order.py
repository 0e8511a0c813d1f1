"""Blocks under any order of calls, on SQLite and in memory, compared with a plain dictionary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import memoranda
from memoranda import Block, Conflict, LimitExceeded, Memory, NotFound
from memoranda.model.block import BlockType
from memoranda.store.memory import MemoryStore
from memoranda.testing import FakeClock

Place = tuple[tuple[tuple[str, str], ...], BlockType]

owners = st.sampled_from(
    [
        (("user", "ada"),),
        (("user", "ada"), ("agent", "mail")),
        (("user", "ada"), ("agent", "maps")),
        (("user", "bob"),),
    ]
)
types = st.sampled_from(["core", "archival"])
texts = st.lists(st.sampled_from(["heron", "otter weir", "", " ", "- lantern", "x" * 500]), max_size=25).map("\n".join)


class BlocksBesideADictionary(RuleBasedStateMachine):
    """Whatever is called, a block holds what was written last, and its stamps only grow."""

    make: ClassVar[Callable[[FakeClock], Memory]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.memory = type(self).make(self.clock)
        self.texts: dict[Place, list[str]] = {}
        self.standing: dict[Place, Block] = {}
        self.newest: dict[Place, datetime] = {}

    def teardown(self) -> None:
        self.memory.close()

    def _blocks(self, owner: tuple[tuple[str, str], ...]) -> Any:
        return self.memory.scope(**dict(owner)).blocks

    def _keep(self, place: Place, block: Block, text: str) -> None:
        assert block.content == text
        before = self.standing.get(place)
        assert block.updated_at > self.newest.get(place, datetime.min.replace(tzinfo=block.updated_at.tzinfo))
        if before is not None:
            assert (block.id, block.created_at) == (before.id, before.created_at)
        self.standing[place], self.newest[place] = block, block.updated_at
        self.texts.setdefault(place, []).append(text)

    @rule(owner=owners, block=types, text=texts)
    def update(self, owner: Any, block: BlockType, text: str) -> None:
        place: Place = (owner, block)
        current = self.standing.get(place)
        stamp = current.updated_at if current else None
        entries = sum(bool(line.strip()) for line in text.split("\n"))
        if len(text) > (4_000 if block == "core" else 8_000) or (block == "core" and entries > 20):
            with pytest.raises(LimitExceeded):
                self._blocks(owner).update(block, text, expected_updated_at=stamp)
        else:
            self._keep(place, self._blocks(owner).update(block, text, expected_updated_at=stamp), text)

    @rule(owner=owners, block=types, late=st.booleans())
    def update_without_having_read(self, owner: Any, block: BlockType, late: bool) -> None:
        newest = self.newest.get((owner, block))
        current = self.standing.get((owner, block))
        stamp = None if current is not None and not late else (newest or self.clock.now()).replace(year=2020)
        with pytest.raises(Conflict) as caught:
            self._blocks(owner).update(block, "never", expected_updated_at=stamp)
        assert caught.value.current_updated_at == (current.updated_at if current else None)

    @rule(owner=owners, block=types)
    def delete(self, owner: Any, block: BlockType) -> None:
        there = self.standing.pop((owner, block), None)
        assert self._blocks(owner).delete(block) is (there is not None)

    @rule(owner=owners, block=types)
    def undo(self, owner: Any, block: BlockType) -> None:
        place: Place = (owner, block)
        current = self.standing.get(place)
        earlier = self.texts.get(place, [])[: -1 if current else None]
        stamp = current.updated_at if current else None
        if earlier:
            self._keep(place, self._blocks(owner).undo(block, expected_updated_at=stamp), earlier[-1])
        else:
            with pytest.raises(NotFound):
                self._blocks(owner).undo(block, expected_updated_at=stamp)

    @rule(user=st.sampled_from(["ada", "bob"]))
    def erase(self, user: str) -> None:
        self.memory.erase(user=user)
        for place in [place for place in self.texts if place[0][0] == ("user", user)]:
            del self.texts[place]
            self.standing.pop(place, None)

    @rule(seconds=st.sampled_from([0.000_001, 1, -30]))
    def move_the_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(agent=st.sampled_from([None, "mail", "maps", "nobody"]), limit=st.integers(1, 30))
    def recall(self, agent: str | None, limit: int) -> None:
        ada: Any = (("user", "ada"),)
        archives = [ada, (*ada, ("agent", agent))] if agent else [ada]
        lines = [
            (dict(owner).get("agent"), number, line)
            for owner in archives
            if (owner, "archival") in self.standing
            for number, line in enumerate(self.standing[owner, "archival"].content.split("\n"), start=1)
            if line.strip()
        ]
        listed = self._blocks(ada).recall("", agent=agent, limit=limit)
        assert [(one.agent_id, one.line_number, one.content) for one in listed] == lines[:limit]
        found = self._blocks(ada).recall("heron lantern", agent=agent, limit=100)
        assert sorted((one.agent_id or "", one.line_number) for one in found) == sorted(
            (owner or "", number) for owner, number, line in lines if "heron" in line or "lantern" in line
        )

    @invariant()
    def lists_hold_what_stands_and_nothing_else(self) -> None:
        for user in ("ada", "bob"):
            mine = {place: block for place, block in self.standing.items() if place[0][0] == ("user", user)}
            listed = self.memory.scope(user=user).blocks.list(scope="all")
            assert sorted(listed, key=lambda one: one.id) == sorted(mine.values(), key=lambda one: one.id)

    @invariant()
    def nothing_is_damaged(self) -> None:
        assert self.memory.ledger.verify().ok


def _in_sqlite(clock: FakeClock) -> Memory:
    return memoranda.open(":memory:", clock=clock, embedder="hashing:64")


def _in_dictionaries(clock: FakeClock) -> Memory:
    return Memory(MemoryStore(), clock=clock, embedder="hashing:64")


class InSqlite(BlocksBesideADictionary):
    make = staticmethod(_in_sqlite)


class InDictionaries(BlocksBesideADictionary):
    make = staticmethod(_in_dictionaries)


TestInSqlite = InSqlite.TestCase
TestInSqlite.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
TestInDictionaries = InDictionaries.TestCase
TestInDictionaries.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
