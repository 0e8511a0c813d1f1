"""What the promises stand on: capabilities, fixtures, and a picture of everything a store holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, ClassVar, TypeVar

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.model.scope import Scope
from memoranda.store.base import Reader, Store
from memoranda.store.memory import MemoryStore
from memoranda.testing.clock import FakeClock

T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., None])

EMBEDDER = "hashing:256"
"""What the promises are tested with: it loads nothing, and its vectors are the same everywhere."""


class Capability(Enum):
    """What not every store can do. A store declares what it can; nothing is guessed."""

    RESTART = "keeps its data when it is closed and opened again"


def requires(*capabilities: Capability) -> Callable[[Test], Test]:
    """Mark a promise that only stores with these capabilities can be held to."""

    def mark(test: Test) -> Test:
        test.requires = capabilities  # pyright: ignore[reportFunctionMemberAccess]: read by `_skip_what_is_not_claimed`
        return test

    return mark


class ConformanceBase:
    """The fixtures of the suite. A subclass gives `store`, and `reopen_store` where it can restart."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    @pytest.fixture(autouse=True)
    def _skip_what_is_not_claimed(self, request: pytest.FixtureRequest) -> None:
        needed: tuple[Capability, ...] = getattr(request.function, "requires", ())
        missing = [capability.name for capability in needed if capability not in self.capabilities]
        if missing:
            pytest.skip(f"this store does not claim {', '.join(missing)}")

    @pytest.fixture
    def clock(self) -> FakeClock:
        """Return a clock that stands still until the test moves it."""
        return FakeClock()

    @pytest.fixture
    def memory(self, store: Store, clock: FakeClock) -> Iterator[Memory]:
        """Return a memory on the store under test."""
        memory = Memory(store, clock=clock, embedder=EMBEDDER)
        yield memory
        memory.close()

    @pytest.fixture
    def open_beside(self, memory: Memory, store: Store, clock: FakeClock) -> Iterator[Callable[..., Memory]]:
        """Return what opens another memory on the same store, which knows nothing of the first but what is kept."""
        opened: list[Memory] = []

        def open_beside(**options: Any) -> Memory:
            given: dict[str, Any] = {"embedder": EMBEDDER, **options}
            opened.append(Memory(store, clock=clock, **given))
            return opened[-1]

        yield open_beside
        for other in opened:
            other.settle()  # and no more: closing it would close the store, which the first still stands on

    @pytest.fixture
    def second(self, open_beside: Callable[..., Memory]) -> Memory:
        """Return another memory on the same store."""
        return open_beside()

    @pytest.fixture
    def elsewhere(self, clock: FakeClock) -> Iterator[Memory]:
        """Return a memory that has nothing to do with the store under test, under the same clock."""
        with Memory(MemoryStore(), clock=clock, embedder=EMBEDDER) as memory:
            yield memory

    @pytest.fixture
    def reopen_store(self) -> Callable[[], Store]:
        """Return what opens the same data again; stores that claim RESTART override this."""
        raise NotImplementedError("a store that claims RESTART gives a `reopen_store` fixture")

    @pytest.fixture
    def reopen(
        self, memory: Memory, clock: FakeClock, reopen_store: Callable[[], Store]
    ) -> Iterator[Callable[[], Memory]]:
        """Return what closes the memory and opens the same data again, as a restarted program would."""
        opened = [memory]

        def restart() -> Memory:
            opened[-1].close()
            opened.append(Memory(reopen_store(), clock=clock, embedder=EMBEDDER))
            return opened[-1]

        yield restart
        opened[-1].close()


def present(found: T | None) -> T:
    """Return what was found; fail when nothing was."""
    assert found is not None, "nothing was found"
    return found


def recalled(place: ScopedMemory, query: str, *, collection: str = "notes", **options: Any) -> list[Any]:
    """Return the contents that a recall finds, best first."""
    found = place.recall(query, collection=collection, **options)
    assert found.count == len(found.results)
    return [match.content for match in found.results]


def standing(place: ScopedMemory, *, collection: str = "notes", **options: Any) -> list[Any]:
    """Return the contents of the entries that stand in a collection, in the order they came."""
    return [entry.content for entry in place.entries(collection=collection, **options)]


def snapshot(store: Store, *tenants: str) -> dict[str, Any]:
    """Return all that a store holds, for comparing before and after; without tenants, of every one of them."""

    def look(rows: Reader) -> dict[str, Any]:
        return {tenant: _tenant(rows, tenant) for tenant in tenants or rows.tenants()}

    return store.read(look)


def _tenant(rows: Reader, tenant: str) -> dict[str, Any]:
    events = list(rows.events(tenant))
    places = {(event.scope, event.key) for event in events if event.key and event.effect != "list_facts"}
    return {
        "facts": list(rows.facts_below(Scope(tenant))),
        "history": {
            place: rows.revisions(Scope(tenant, place[0]), str(place[1])) for place in sorted(map(_pair, places))
        },
        "collections": {
            one: (rows.shelves(tenant, one.name), rows.vector_counts(tenant, one.name))
            for one in rows.collections(tenant)
        },
        "entries": list(rows.entries_below(Scope(tenant))),
        "state": rows.tenant_state(tenant),
        "definitions": rows.definitions(tenant),
        "grants": rows.grants(tenant),
        "approvals": rows.approvals(tenant),
        "events": events,
    }


def _pair(place: tuple[str, str | None]) -> tuple[str, str]:
    return place[0], place[1] or ""
