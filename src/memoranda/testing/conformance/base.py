"""What the conformance tests share: capabilities, fixtures, an embedder, and a snapshot of a store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar, ParamSpec, TypeVar

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import EmbeddingFailed, MemorandaError
from memoranda.model.definition import Definition
from memoranda.model.effect import Approval
from memoranda.model.entry import Calibration, Collection
from memoranda.model.policy import Grant
from memoranda.model.rejection import StoredRejection
from memoranda.model.scope import Scope
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.store.base import EntryQuery, FactQuery, Reader, RevisionQuery, Store
from memoranda.store.memory import MemoryStore
from memoranda.testing.fakes import FakeClock

T = TypeVar("T")
P = ParamSpec("P")
E = TypeVar("E", bound=MemorandaError)
Test = TypeVar("Test", bound=Callable[..., None])

EMBEDDER = "hashing:256"
"""The embedder of the tests: it loads nothing, and its vectors are the same everywhere."""


class Capability(Enum):
    """What not every store can do; a store declares what it can."""

    RESTART = "keeps its data when it is closed and opened again"


def requires(*capabilities: Capability) -> Callable[[Test], Test]:
    """Mark a test as one for stores with these capabilities only."""

    def mark(test: Test) -> Test:
        test.requires = capabilities  # pyright: ignore[reportFunctionMemberAccess]: read by `_skip_without_capabilities`
        return test

    return mark


class ConformanceBase:
    """The fixtures of the suite. A subclass adds `store`, and `reopen_store` if it can restart."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    @pytest.fixture(autouse=True)
    def _skip_without_capabilities(self, request: pytest.FixtureRequest) -> None:
        needed: tuple[Capability, ...] = getattr(request.function, "requires", ())
        missing = [capability.name for capability in needed if capability not in self.capabilities]
        if missing:
            pytest.skip(f"this store does not claim {', '.join(missing)}")

    @pytest.fixture
    def clock(self) -> FakeClock:
        """Return a clock that only the test moves."""
        return FakeClock()

    @pytest.fixture
    def memory(self, store: Store, clock: FakeClock) -> Iterator[Memory]:
        """Return a memory on the store under test."""
        memory = Memory(store, clock=clock, embedder=EMBEDDER)
        yield memory
        memory.close()

    @pytest.fixture
    def ada(self, memory: Memory) -> ScopedMemory:
        """Return the scope of a user."""
        return memory.scope(user="ada")

    @pytest.fixture
    def bob(self, memory: Memory) -> ScopedMemory:
        """Return the scope of another user."""
        return memory.scope(user="bob")

    @pytest.fixture
    def open_beside(self, memory: Memory, store: Store, clock: FakeClock) -> Iterator[Callable[..., Memory]]:
        """Return a function that opens another memory on the same store."""
        opened: list[Memory] = []

        def open_beside(**options: Any) -> Memory:
            given: dict[str, Any] = {"embedder": EMBEDDER, **options}
            opened.append(Memory(store, clock=clock, **given))
            return opened[-1]

        yield open_beside
        for other in opened:
            other.settle()  # not closed: that would close the store, which the first memory still uses

    @pytest.fixture
    def second(self, open_beside: Callable[..., Memory]) -> Memory:
        """Return another memory on the same store."""
        return open_beside()

    @pytest.fixture
    def elsewhere(self, clock: FakeClock) -> Iterator[Memory]:
        """Return a memory on another store, with the same clock."""
        with Memory(MemoryStore(), clock=clock, embedder=EMBEDDER) as memory:
            yield memory

    @pytest.fixture
    def reopen_store(self) -> Callable[[], Store]:
        """Return a function that opens the same data again; stores that claim RESTART override this."""
        raise NotImplementedError("a store that claims RESTART gives a `reopen_store` fixture")

    @pytest.fixture
    def reopen(
        self, memory: Memory, clock: FakeClock, reopen_store: Callable[[], Store]
    ) -> Iterator[Callable[[], Memory]]:
        """Return a function that closes the memory and opens the same data again, as a restart does."""
        opened = [memory]

        def restart() -> Memory:
            opened[-1].close()
            opened.append(Memory(reopen_store(), clock=clock, embedder=EMBEDDER))
            return opened[-1]

        yield restart
        opened[-1].close()


def present(found: T | None) -> T:
    """Return what was found; fail if it is None."""
    assert found is not None, "nothing was found"
    return found


def assert_raises(kind: type[E], call: Callable[P, object], *arguments: P.args, **options: P.kwargs) -> E:
    """Return the error of a call; fail if it raises none of this kind, or one that does not say what to do."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert caught.value.hint
    return caught.value


def recall_contents(place: ScopedMemory, query: str, *, collection: str = "notes", **options: Any) -> list[Any]:
    """Return the contents that a recall finds, best first."""
    found = place.recall(query, collection=collection, **options)
    assert found.count == len(found.results)
    return [match.content for match in found.results]


def live_contents(place: ScopedMemory, *, collection: str = "notes", **options: Any) -> list[Any]:
    """Return the contents of the live entries of a collection, oldest first."""
    return [entry.content for entry in place.entries(collection=collection, **options)]


def snapshot(store: Store, *tenants: str) -> dict[str, Any]:
    """Return everything in a store, or in these tenants, for comparing before and after."""

    def look(rows: Reader) -> dict[str, Any]:
        return {tenant: _tenant(rows, tenant) for tenant in tenants or rows.tenants()}

    return store.read(look)


@contextmanager
def unchanged(store: Store) -> Generator[None]:
    """Fail if the block changes anything in a store."""
    before = snapshot(store)
    yield
    assert snapshot(store) == before


def _tenant(rows: Reader, tenant: str) -> dict[str, Any]:
    events = list(rows.events(tenant))
    places = {(event.scope, event.key) for event in events if event.key and event.effect != "list_facts"}
    return {
        "facts": list(rows.facts(FactQuery(Scope(tenant), below=True))),
        "history": {
            place: list(rows.revisions(RevisionQuery(Scope(tenant, place[0]), str(place[1]))))
            for place in sorted(map(_pair, places))
        },
        "collections": {
            one: (rows.shelves(tenant, one.name), rows.vector_counts(tenant, one.name))
            for one in rows.scan(Collection, tenant)
        },
        "entries": list(rows.entries(EntryQuery(below=Scope(tenant)))),
        "state": rows.tenant_state(tenant),
        "definitions": rows.scan(Definition, tenant),
        "grants": rows.scan(Grant, tenant),
        "approvals": rows.scan(Approval, tenant),
        "rejections": rows.scan(StoredRejection, tenant),
        "events": events,
    }


def _pair(place: tuple[str, str | None]) -> tuple[str, str]:
    return place[0], place[1] or ""


class WatchedEmbedder:
    """An embedder of hashed words that records what it was asked for, and fails on demand."""

    def __init__(self, id: str = "watched", dimension: int = 64) -> None:
        """Use this id and dimension."""
        self._hashing = Hashing(dimension)
        self.id = id
        self.dimension = dimension
        self.asked: list[str] = []
        self.fails_on: str | None = None
        self.spoil: Callable[[Vectors], Vectors] | None = None

    @property
    def calibration(self) -> Calibration:
        """Return the calibration of hashed words."""
        return self._hashing.calibration

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of hashed words; use `spoil` and `fails_on` if they are set."""
        self.asked.extend(texts)
        if self.fails_on in texts:
            raise EmbeddingFailed("the embedder was told to fail", hint="Tell it not to", retryable=True)
        vectors = self._hashing.embed(texts)
        return self.spoil(vectors) if self.spoil is not None else vectors
