"""Before embedding, a store is asked for no more than the answer needs."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import Memory, Policy, Quota
from memoranda.store.memory import MemoryStore


class Watched(MemoryStore):
    """A store that writes down how it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def read(self, work: Any, *, snapshot: bool = True) -> Any:
        self.asked.append("read" if snapshot else "query")
        return super().read(work)

    def transact(self, work: Any, *, wait: bool = True, within: Any = None) -> Any:
        self.asked.append("transact")
        return super().transact(work)


@pytest.mark.parametrize("policy", [None, Policy.of(allow=("*",)), Policy.of(allow=("memory.write",))])
def test_whoever_is_surely_allowed_asks_only_for_the_collection(policy: Policy | None) -> None:
    store = Watched()
    with Memory(store, embedder="hashing") as memory:
        handle = memory if policy is None else memory.narrowed(policy)
        for _ in range(2):
            store.asked.clear()
            handle.scope(user="ada").remember("heron by the weir", collection="notes")
            assert store.asked == ["query", "transact"]


def test_whatever_rows_decide_is_decided_on_one_moment_of_them() -> None:
    store = Watched()
    with Memory(store, embedder="hashing") as memory:
        memory.permissions.grant("agent", "memory.write")
        session = memory.scope(user="ada").session("s1")
        for place in (
            memory.acting_as("agent").scope(user="ada"),
            memory.narrowed(Policy.of(allow=("*",), quota=Quota(writes=9))).scope(user="ada"),
            session,
            memory.scope(user="ada", run="r1"),
            memory.scope(run="r1", user="ada", session="s2"),
        ):
            store.asked.clear()
            place.remember("heron by the weir", collection="notes")
            assert store.asked == ["read", "transact"]
