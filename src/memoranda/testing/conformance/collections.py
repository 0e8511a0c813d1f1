"""Collections: made on first use with one embedder, deleted, compared, and moved to another embedder while in use."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memoranda.api.memory import Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import Conflict, Denied, EmbedderMismatch, EmbeddingFailed, NotFound, UsageError
from memoranda.model.policy import Policy, Rule
from memoranda.model.scope import Scope
from memoranda.store.base import Store
from memoranda.testing.conformance.base import (
    EMBEDDER,
    Capability,
    WatchedEmbedder,
    assert_raises,
    live_contents,
    recall_contents,
    requires,
    unchanged,
)
from memoranda.testing.fakes import FakeClock

HERONS = [f"heron number {n} by the {place}" for n, place in enumerate(("weir", "bridge", "mill", "lock", "ford"))]


class _Interrupted(Exception):
    pass


def _remember_herons(memory: Memory) -> None:
    for n, text in enumerate(HERONS):
        memory.scope(user="ada").remember(text, collection="notes", namespace=str(n % 2))


def _interrupt_at(steps: int) -> Callable[[int, int], None]:
    """Return a progress that interrupts once it was told so often."""
    told: list[int] = []

    def progress(done: int, total: int) -> None:
        told.append(done)
        if len(told) == steps:
            raise _Interrupted

    return progress


class CollectionPromises:
    """A collection has one embedder at a time, and recall works at every step from one to the next."""

    # making and deleting

    def test_a_collection_is_made_by_the_first_entry_and_fixes_its_embedder(self, memory: Memory) -> None:
        assert memory.collections.list() == []
        ada = memory.scope(user="ada")
        for collection, namespace in (("tasks", ""), ("notes", ""), ("notes", "x")):
            ada.remember("text", collection=collection, namespace=namespace)
        memory.scope(user="bob").remember("text", collection="notes")
        notes, tasks = memory.collections.list()
        assert (notes.name, notes.embedder, notes.dimension) == ("notes", EMBEDDER, 256)
        assert (notes.entries, notes.namespaces, notes.moving_to, notes.moved) == (3, 3, None, 0)
        assert (tasks.name, tasks.entries) == ("tasks", 1)
        made = [event for event in memory.ledger.events() if event.effect == "create_collection"]
        assert [event.key for event in made] == ["collections.tasks", "collections.notes"]
        assert made[0].detail == {"embedder": EMBEDDER, "dimension": 256}

    def test_a_scope_has_the_collections_with_something_of_its_own(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.remember("heron", collection="notes")
        memory.scope(user="ada", agent="x").remember("otter", collection="tasks")
        for text in ("egret", "stork"):
            bob.remember(text, collection="notes")
        bob.remember("crane", collection="plans")
        assert [(one.name, one.entries) for one in memory.collections.list(below=ada.scope)] == [
            ("notes", 1),
            ("tasks", 1),
        ]
        assert memory.collections.list(below=Scope.of(user="ad")) == []
        assert [one.entries for one in memory.collections.list()] == [3, 1, 1]
        guest = memory.acting_as("user:ada", policy=Policy(rules=(Rule("allow", "collections.read", ada.scope),)))
        assert guest.collections.list(below=ada.scope) == memory.collections.list(below=ada.scope)
        for others in (None, bob.scope):
            assert_raises(Denied, guest.collections.list, below=others)

    def test_each_tenant_has_its_own_collections(self, memory: Memory, open_beside: Callable[..., Memory]) -> None:
        other = open_beside(tenant="other", embedder="hashing:32")
        memory.scope(user="ada").remember("heron", collection="notes")
        other.scope(user="ada").remember("otter", collection="notes")
        assert [one.dimension for one in memory.collections.list()] == [256]
        assert [one.dimension for one in other.collections.list()] == [32]
        assert other.collections.delete("notes") == 1
        assert recall_contents(memory.scope(user="ada"), "heron otter") == ["heron"]

    def test_a_collection_is_used_with_its_own_embedder_whatever_the_default_is(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        memory.scope(user="ada").remember("heron", collection="notes")
        other = open_beside(embedder="hashing:32")
        ada = other.scope(user="ada")
        assert recall_contents(ada, "heron") == ["heron"]
        ada.remember("heron again", collection="notes")
        ada.remember("otter", collection="tasks")
        assert [(one.name, one.embedder) for one in other.collections.list()] == [
            ("notes", EMBEDDER),
            ("tasks", "hashing:32"),
        ]
        assert recall_contents(memory.scope(user="ada"), "otter", collection="tasks") == ["otter"]
        assert len(recall_contents(memory.scope(user="ada"), "heron")) == 2

    def test_a_collection_without_its_embedder_says_how_to_get_it(
        self, ada: ScopedMemory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        made_with = open_beside(embedder=WatchedEmbedder("made/by hand")).scope(user="ada")
        made_with.remember("heron", collection="notes")
        with unchanged(store):
            for attempt in (
                lambda: ada.remember("otter", collection="notes"),
                lambda: ada.recall("heron", collection="notes"),
                lambda: ada.recall("heron", collection="notes", mode="semantic"),
            ):
                error = assert_raises(EmbedderMismatch, attempt)
                assert (error.expected, error.actual) == ("made/by hand", EMBEDDER)
                assert "made/by hand" in error.message
                assert "reembed" in error.hint
        assert (
            recall_contents(ada, "heron", mode="keyword") == recall_contents(ada, "") == live_contents(ada) == ["heron"]
        )
        assert recall_contents(made_with, "heron") == ["heron"]

    def test_an_embedder_of_the_same_name_and_another_dimension_is_a_mismatch(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        first = open_beside(embedder=WatchedEmbedder("same", 64)).scope(user="ada")
        first.remember("heron", collection="notes")
        other = open_beside(embedder=WatchedEmbedder("same", 32)).scope(user="ada")
        with unchanged(store):
            assert_raises(EmbedderMismatch, other.remember, "otter", collection="notes")
            assert_raises(EmbedderMismatch, other.recall, "heron", collection="notes")
        assert recall_contents(first, "heron") == ["heron"]

    def test_deleting_a_collection_removes_its_entries_in_every_scope(self, memory: Memory, second: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.forget(ada.remember("forgotten heron", collection="notes").id, collection="notes")
        for place in (ada, bob):
            place.remember("heron", collection="notes", key="k")
            place.remember("heron of tasks", collection="tasks")
        assert len(recall_contents(second.scope(user="bob"), "heron")) == 1
        assert memory.collections.delete("notes") == 3
        for handle in (memory, second):
            for user in ("ada", "bob"):
                assert recall_contents(handle.scope(user=user), "heron") == live_contents(handle.scope(user=user)) == []
                assert recall_contents(handle.scope(user=user), "heron", collection="tasks") == ["heron of tasks"]
        assert [one.name for one in memory.collections.list()] == ["tasks"]
        assert_raises(NotFound, memory.collections.delete, "notes")
        done = ada.remember("heron", collection="notes", key="k")
        assert (done.stored, done.replaced) == (True, None)
        for handle in (memory, second):
            assert recall_contents(handle.scope(user="ada"), "heron") == ["heron"]
            assert recall_contents(handle.scope(user="bob"), "heron") == []
        assert all(finding.ok for finding in memory.inspect())

    def test_a_deleted_collection_may_be_made_again_with_another_embedder(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        memory.scope(user="ada").remember("heron", collection="notes")
        assert recall_contents(memory.scope(user="ada"), "heron") == ["heron"]
        memory.collections.delete("notes")
        open_beside(embedder="hashing:32").scope(user="ada").remember("otter", collection="notes")
        assert memory.collections.list()[0].dimension == 32
        assert recall_contents(memory.scope(user="ada"), "heron otter") == ["otter"]

    # moving to another embedder

    def test_a_collection_moves_to_another_embedder_and_is_found_there(self, memory: Memory, second: Memory) -> None:
        _remember_herons(memory)
        ada = memory.scope(user="ada")
        assert recall_contents(second.scope(user="ada"), "heron mill", limit=1) == [HERONS[2]]
        told: list[tuple[int, int]] = []
        moved = memory.collections.reembed(
            "notes", "hashing:32", progress=lambda done, total: told.append((done, total)), batch=2
        )
        assert (moved.space.embedder, moved.space.dimension, moved.successor) == ("hashing:32", 32, None)
        assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]
        (holding,) = memory.collections.list()
        assert (holding.embedder, holding.dimension, holding.entries) == ("hashing:32", 32, 5)
        for handle in (memory, second):
            for mode in ("hybrid", "semantic"):
                assert recall_contents(handle.scope(user="ada"), "heron mill", limit=1, mode=mode) == [HERONS[2]]
                assert len(recall_contents(handle.scope(user="ada"), "heron", limit=9, mode=mode)) == 5
        assert ada.remember("otter", collection="notes").stored
        assert recall_contents(ada, "otter", limit=1) == ["otter"]
        effects = [event.effect for event in memory.ledger.events() if "reembedding" in event.effect]
        assert effects == ["begin_reembedding", "end_reembedding"]
        assert all(finding.ok for finding in memory.inspect())

    def test_an_interrupted_move_goes_on_where_it_stopped(self, memory: Memory) -> None:
        _remember_herons(memory)
        target = WatchedEmbedder("target")
        with pytest.raises(_Interrupted):
            memory.collections.reembed("notes", target, progress=_interrupt_at(2), batch=2)
        (holding,) = memory.collections.list()
        assert (holding.embedder, holding.moving_to, holding.moved) == (EMBEDDER, "target", 2)
        told: list[tuple[int, int]] = []
        memory.collections.reembed("notes", target, progress=lambda done, total: told.append((done, total)), batch=2)
        assert told == [(2, 5), (4, 5), (5, 5)]
        assert sorted(target.asked) == HERONS  # none of them twice
        assert recall_contents(memory.scope(user="ada"), "heron ford", limit=1, mode="semantic") == [HERONS[4]]

    def test_recall_works_at_every_step_of_a_move(self, memory: Memory, second: Memory) -> None:
        _remember_herons(memory)
        steps: list[int] = []

        def look(done: int, total: int) -> None:
            steps.append(done)
            for handle in (memory, second):
                for mode in ("hybrid", "semantic", "keyword"):
                    ada = handle.scope(user="ada")
                    assert recall_contents(ada, "heron mill", limit=1, mode=mode) == [HERONS[2]]
                    assert len(recall_contents(ada, "heron", limit=9, mode=mode)) == 5

        memory.collections.reembed("notes", "hashing:32", progress=look, batch=1)
        assert steps == [0, 1, 2, 3, 4, 5]
        look(0, 0)

    def test_what_happens_during_a_move_holds_after_it(self, memory: Memory, second: Memory, clock: FakeClock) -> None:
        _remember_herons(memory)
        ada, hers = memory.scope(user="ada"), second.scope(user="ada")

        def meanwhile(done: int, total: int) -> None:
            if done == 2 and not [text for text in live_contents(hers) if "otter" in text]:
                hers.remember("otter by the weir", collection="notes")
                hers.remember("otter in passing", collection="notes", ttl=60)
                hers.forget(hers.entries(collection="notes")[4].id, collection="notes")
            if done == total:
                hers.remember("kayak at the last moment", collection="notes")

        memory.collections.reembed("notes", "hashing:32", progress=meanwhile, batch=2)
        assert memory.collections.list()[0].moving_to is None
        clock.advance(60)
        for place in (ada, hers):
            assert recall_contents(place, "otter", limit=1, mode="semantic") == ["otter by the weir"]
            assert recall_contents(place, "kayak", limit=1, mode="semantic") == ["kayak at the last moment"]
            assert len(recall_contents(place, "heron otter", limit=9)) == len(live_contents(place)) == 6
        assert all(finding.ok for finding in memory.inspect())

    def test_a_move_may_be_given_up(self, memory: Memory, store: Store) -> None:
        _remember_herons(memory)
        with pytest.raises(_Interrupted):
            memory.collections.reembed("notes", "hashing:32", progress=_interrupt_at(2), batch=2)
        assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {EMBEDDER: 5, "hashing:32": 2}
        stays = memory.collections.give_up_reembedding("notes")
        assert (stays.space.embedder, stays.successor) == (EMBEDDER, None)
        assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {EMBEDDER: 5}
        assert recall_contents(memory.scope(user="ada"), "heron mill", limit=1, mode="semantic") == [HERONS[2]]
        assert_raises(EmbedderMismatch, memory.collections.give_up_reembedding, "notes")
        assert memory.collections.reembed("notes", "hashing:16").space.dimension == 16

    def test_the_old_vectors_are_gone_after_a_move(self, memory: Memory, store: Store) -> None:
        _remember_herons(memory)
        memory.collections.reembed("notes", "hashing:32")
        assert store.read(lambda rows: rows.vector_counts("default", "notes")) == {"hashing:32": 5}

    def test_what_ended_before_a_move_is_found_as_of_then_after_it(self, memory: Memory, clock: FakeClock) -> None:
        _remember_herons(memory)
        ada = memory.scope(user="ada")
        then = clock.now()
        clock.advance(10)
        ada.forget(ada.entries(collection="notes")[2].id, collection="notes")
        memory.collections.reembed("notes", "hashing:32", batch=2)
        for mode in ("hybrid", "semantic"):
            assert recall_contents(ada, "heron mill", limit=1, as_of=then, mode=mode) == [HERONS[2]]
            assert len(recall_contents(ada, "heron", limit=9, as_of=then, mode=mode)) == 5
            assert len(recall_contents(ada, "heron mill", limit=9, mode=mode)) == 4

    def test_one_move_at_a_time(self, memory: Memory) -> None:
        _remember_herons(memory)
        assert_raises(Conflict, memory.collections.reembed, "notes", EMBEDDER)
        with pytest.raises(_Interrupted):
            memory.collections.reembed("notes", "hashing:32", progress=_interrupt_at(2), batch=2)
        error = assert_raises(Conflict, memory.collections.reembed, "notes", "hashing:16")
        assert (error.expected, error.actual) == ("hashing:32", "hashing:16")
        assert memory.collections.reembed("notes", "hashing:32").space.dimension == 32

    def test_moving_to_an_unknown_embedder_or_from_an_unknown_collection_fails(
        self, memory: Memory, store: Store
    ) -> None:
        _remember_herons(memory)
        with unchanged(store):
            for attempt in (
                lambda: memory.collections.reembed("unknown", "hashing:32"),
                lambda: memory.collections.compare("unknown", "hashing:32"),
                lambda: memory.collections.give_up_reembedding("unknown"),
            ):
                assert_raises(NotFound, attempt)
            for attempt in (
                lambda: memory.collections.reembed("notes", "no such embedder"),
                lambda: memory.collections.reembed("notes", "hashing:32", batch=0),
                lambda: memory.collections.compare("notes", "hashing:32", sample=0),
            ):
                assert_raises(UsageError, attempt)

    def test_an_embedder_that_fails_during_a_move_loses_nothing(self, memory: Memory) -> None:
        _remember_herons(memory)
        target = WatchedEmbedder("target")
        target.fails_on = HERONS[3]
        assert_raises(EmbeddingFailed, memory.collections.reembed, "notes", target, batch=2)
        assert memory.collections.list()[0].moved == 2
        assert recall_contents(memory.scope(user="ada"), "heron lock", limit=1, mode="semantic") == [HERONS[3]]
        target.fails_on = None
        assert memory.collections.reembed("notes", target, batch=2).space.embedder == "target"
        assert recall_contents(memory.scope(user="ada"), "heron lock", limit=1, mode="semantic") == [HERONS[3]]

    def test_a_collection_without_entries_moves_at_once(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes", ttl=60)
        memory.erase(user="ada")
        assert memory.collections.list()[0].entries == 0
        assert memory.collections.reembed("notes", "hashing:32").space.dimension == 32
        ada.remember("otter", collection="notes")
        assert recall_contents(ada, "otter") == ["otter"]

    # comparing

    def test_a_comparison_says_what_a_move_would_change_and_writes_nothing(self, memory: Memory, store: Store) -> None:
        _remember_herons(memory)
        with unchanged(store):
            same = memory.collections.compare("notes", "hashing:512")
            assert (same.collection, same.embedder, same.other) == ("notes", EMBEDDER, "hashing:512")
            assert (same.found, same.other_found) == (1.0, 1.0)
            assert 0 < same.queries <= same.entries
            worse = memory.collections.compare("notes", "hashing:1", queries=["heron mill", "heron ford"])
            assert (worse.queries, worse.found, worse.other_found) == (2, None, None)
            assert 0.0 <= worse.agreement <= 1.0
            assert memory.collections.compare("notes", "hashing:32", sample=1).entries == 1

    @requires(Capability.RESTART)
    def test_a_move_goes_on_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        _remember_herons(memory)
        with pytest.raises(_Interrupted):
            memory.collections.reembed("notes", "hashing:32", progress=_interrupt_at(3), batch=1)
        again = reopen()
        (holding,) = again.collections.list()
        assert (holding.moving_to, holding.moved) == ("hashing:32", 2)
        again.scope(user="ada").remember("otter", collection="notes")
        told: list[tuple[int, int]] = []
        again.collections.reembed("notes", "hashing:32", progress=lambda done, total: told.append((done, total)))
        assert told[0] == (3, 6)
        once_more = reopen()
        assert once_more.collections.list()[0].embedder == "hashing:32"
        assert recall_contents(once_more.scope(user="ada"), "otter", limit=1, mode="semantic") == ["otter"]
        assert len(recall_contents(once_more.scope(user="ada"), "heron otter", limit=9)) == 6
