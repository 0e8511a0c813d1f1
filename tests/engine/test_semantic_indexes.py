"""Indexes in memory: bounded, never behind, and of one moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Limits, Memory
from memoranda.model.entry import MODES, Calibration
from memoranda.retrieval import rank as rank_module
from memoranda.retrieval.embed.base import Vectors
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.store.memory import MemoryStore
from memoranda.testing import FakeClock

SPACES = 24


def fill(memory: Memory) -> None:
    place = memory.scope(user="ada")
    for space in range(SPACES):
        items = [{"content": f"page {number} of book {space} tells of {number * space}"} for number in range(20)]
        place.remember_many(items, collection="books", namespace=f"book{space}")


def answers(memory: Memory, space: int) -> list[tuple[str, float]]:
    place = memory.scope(user="ada")
    return [
        (match.id, round(match.score, 6))
        for mode in MODES
        for match in place.recall(
            f"page 7 tells of {7 * space}", collection="books", namespace=f"book{space}", mode=mode
        ).results
    ]


def size(memory: Memory) -> int:
    return memory._gate._indexes.nbytes


def held(memory: Memory) -> int:
    return len(memory._gate._indexes._held)


def test_the_size_of_an_index_over_everything_follows_its_facts():
    memory = Memory(MemoryStore(), embedder="hashing:64")
    ada = memory.scope(user="ada")

    def sizes() -> tuple[int, int]:
        """Return the size of the texts in the index, as it is kept and as it is counted."""
        ada.recall("page")
        [part] = memory._gate._indexes.of_subject(ada.scope).parts.values()
        rest = part.index.nbytes + part._sequence.nbytes + part._group.nbytes
        return part.nbytes - rest, sum(len(one.searched) + len(one.text) + 1_200 for one in part.items.values())

    for number in range(20):
        ada.set(f"pages.p{number}", f"page {number} " * number)
    kept, counted = sizes()
    assert kept == counted > 0
    for number in range(10):
        ada.set(f"pages.p{number}", "a longer text about another page")
    ada.delete("pages.p19")
    changed, counted = sizes()
    assert changed == counted != kept
    for number in range(19):
        ada.delete(f"pages.p{number}")
    assert sizes() == (0, 0)


def test_many_namespaces_stay_within_the_bound_and_answer_the_same():
    store = MemoryStore()
    roomy = Memory(store, embedder="hashing:64")
    fill(roomy)
    answers(roomy, 0)
    one = size(roomy)
    expected = [answers(roomy, space) for space in range(SPACES)]
    assert held(roomy) == SPACES and size(roomy) > 20 * one  # the control: without the bound there would be many
    bound = 4 * one
    tight = Memory(store, embedder="hashing:64", limits=Limits(index_bytes=bound))
    for turn in (range(SPACES), reversed(range(SPACES)), [3, 4, 3, 5, 3]):
        for space in turn:
            assert answers(tight, space) == expected[space]
            assert size(tight) <= bound + 2 * one
            assert 1 <= held(tight) <= 6
    single = Memory(store, embedder="hashing:64", limits=Limits(index_bytes=1))
    for space in (0, 1, 0):
        assert answers(single, space) == expected[space]
        assert held(single) == 1  # the one in use stays, whatever its size


def test_what_is_used_again_and_again_is_not_what_goes():
    store = MemoryStore()
    roomy = Memory(store, embedder="hashing:64")
    fill(roomy)
    answers(roomy, 0)
    tight = Memory(store, embedder="hashing:64", limits=Limits(index_bytes=3 * size(roomy)))
    answers(tight, 0)
    favourite = index_of(tight, "book0")
    for space in range(1, SPACES):
        answers(tight, 0)
        answers(tight, space)
    assert index_of(tight, "book0") is favourite
    assert index_of(tight, "book1") is None


def index_of(memory: Memory, namespace: str) -> object:
    kept = memory._gate._indexes._held.items()
    return next((one.index for (shelf, _), one in kept if shelf.namespace == namespace), None)


def test_recalls_of_what_is_not_there_leave_nothing_in_memory():
    memory = Memory(MemoryStore(), embedder="hashing:64")
    fill(memory)
    answers(memory, 0)
    before = held(memory), size(memory)
    assert before[0] == 1
    for number in range(100):
        assert memory.scope(user="ada").recall("page", collection="books", namespace=f"none{number}").count == 0
        assert memory.scope(user=f"nobody{number}").recall("page", collection="books").count == 0
    assert (held(memory), size(memory)) == before


@pytest.mark.parametrize("elsewhere", [False, True], ids=["by itself", "by another memory"])
def test_an_erased_scope_leaves_the_index_too(elsewhere: bool):
    store = MemoryStore()
    memory, other = Memory(store, embedder="hashing:64"), Memory(store, embedder="hashing:64")
    ada = memory.scope(user="ada")
    ada.remember("a secret", collection="notes")
    assert ada.recall("secret", collection="notes").count == 1
    assert held(memory) == 1
    (other if elsewhere else memory).erase(user="ada")
    assert ada.recall("secret", collection="notes").count == 0
    assert held(memory) == 0


def test_a_deleted_collection_leaves_its_indexes_and_no_other():
    memory = Memory(MemoryStore(), embedder="hashing:64")
    for user in ("ada", "bob"):
        for collection in ("notes", "tasks"):
            memory.scope(user=user).remember("a secret", collection=collection)
            assert memory.scope(user=user).recall("secret", collection=collection).count == 1
    assert held(memory) == 4
    memory.collections.delete("notes")
    assert held(memory) == 2
    assert memory.scope(user="ada").recall("secret", collection="tasks").count == 1


def test_an_entry_whose_expiry_a_clock_takes_back_is_found_again():
    """The clock decides, in every process the same: an index that has let it go begins anew."""
    clock = FakeClock()
    memory = Memory(MemoryStore(), embedder="hashing:64", clock=clock)
    ada = memory.scope(user="ada")
    ada.remember("the tide is low", collection="notes", ttl="5s")
    ada.remember("the boat is blue", collection="notes")

    def found() -> list[str]:
        recalled = ada.recall("tide", collection="notes").results
        listed = [entry.content for entry in ada.entries(collection="notes")]
        assert sorted(match.content for match in recalled) == sorted(listed)
        return listed

    assert len(found()) == 2
    clock.advance(6)
    assert found() == ["the boat is blue"]
    clock.advance(-6)
    assert len(found()) == 2
    clock.advance(6)
    memory.sweep()
    clock.advance(-6)
    assert found() == ["the boat is blue"]  # an entry that was swept does not come back


def test_an_index_with_expired_entries_follows_and_is_not_made_anew():
    """Expired entries remain in the rows until they are swept, but do not cause a full read."""
    clock = FakeClock()
    memory = Memory(MemoryStore(), embedder="hashing:64", clock=clock)
    ada = memory.scope(user="ada")
    ada.remember("the tide is low", collection="notes", namespace="sea", ttl="5s")
    boat = ada.remember("the boat is blue", collection="notes", namespace="sea")
    ada.remember("the sail is red", collection="notes", namespace="sea")

    def found() -> list[str]:
        return sorted(match.content for match in ada.recall("boat", collection="notes", namespace="sea").results)

    assert len(found()) == 3
    index = index_of(memory, "sea")
    clock.advance(6)
    assert found() == ["the boat is blue", "the sail is red"]
    ada.forget(boat.id, collection="notes")
    assert found() == ["the sail is red"]
    assert index_of(memory, "sea") is index
    memory.sweep()
    ada.remember("the mast is tall", collection="notes", namespace="sea")
    assert found() == ["the mast is tall", "the sail is red"]
    assert index_of(memory, "sea") is index
    memory.collections.reembed("notes", "hashing:32")
    assert found() == ["the mast is tall", "the sail is red"]
    assert index_of(memory, "sea") is index and held(memory) == 2  # the old one waits to be let go


def contents(memory: Memory, **options: Any) -> list[Any]:
    found = memory.scope(user="ada").recall("which plan?", collection="notes", limit=10, **options)
    return sorted(str(match.content) for match in found.results)


@pytest.mark.parametrize("how", ["forgotten", "replaced", "erased", "deleted", "expired", "swept"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["by itself", "by another memory"])
def test_what_was_recalled_before_is_not_shown_once_it_is_gone(tmp_path: Path, how: str, elsewhere: bool):
    clock = FakeClock()
    options: dict[str, Any] = {"embedder": "hashing:64", "clock": clock, "durability": "normal"}
    with memoranda.open(tmp_path / "a.db", **options) as memory, memoranda.open(tmp_path / "a.db", **options) as other:
        ada = memory.scope(user="ada")
        ttl = "5s" if how in ("expired", "swept") else None
        plan = ada.remember("the first plan", collection="notes", key="plan", ttl=ttl)
        ada.remember("a list of birds", collection="notes", key="birds")
        for _ in range(2):
            assert contents(memory) == ["a list of birds", "the first plan"]  # read once, then cached
        who = other if elsewhere else memory
        then = ["a list of birds"]
        if how == "forgotten":
            who.scope(user="ada").forget(plan.id, collection="notes")
        elif how == "replaced":
            who.scope(user="ada").remember("the second plan", collection="notes", key="plan")
            then.append("the second plan")
        elif how == "erased":
            who.erase(user="ada")
            then = []
        elif how == "deleted":
            who.collections.delete("notes")
            then = []
        else:
            clock.advance(6)
            if how == "swept":
                who.sweep()
        assert contents(memory) == then
        assert contents(memory) == then


@pytest.mark.parametrize("content", ["the plan", {"plan": ["a", "b"]}, "a long plan " * 200])
@pytest.mark.parametrize("metadata", [{"step": 1}, {"steps": [1, 2]}])
def test_who_changes_a_match_changes_it_for_nobody_else(content: Any, metadata: dict[str, Any]):
    memory = Memory(MemoryStore(), embedder="hashing:64")
    ada = memory.scope(user="ada")
    ada.remember(content, collection="notes", metadata=metadata)
    for _ in range(3):
        (match,) = ada.recall("which plan?", collection="notes").results
        assert (match.content, match.metadata) == (content, metadata)
        match.metadata["step"] = 2
        for inner in (match.content, match.metadata.get("steps")):
            if isinstance(inner, dict):
                inner["plan"].append("c")
            if isinstance(inner, list):
                inner.append(3)


class Interrupted:
    """An embedder during whose work on a query something happens."""

    def __init__(self) -> None:
        self._hashing = Hashing(64)
        self.happens: Callable[[], object] | None = None
        self.times = 0

    @property
    def id(self) -> str:
        return "interrupted"

    @property
    def dimension(self) -> int:
        return 64

    @property
    def calibration(self) -> Calibration:
        return self._hashing.calibration

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.happens is not None and any("which" in text for text in texts):  # a query
            self.times += 1
            self.happens()
        return self._hashing.embed(texts)


@pytest.fixture
def embedder() -> Interrupted:
    return Interrupted()


@pytest.fixture
def memory(tmp_path: Path, embedder: Interrupted) -> Iterator[Memory]:
    with memoranda.open(tmp_path / "memory.db", embedder=embedder, durability="normal") as memory:
        yield memory


def test_a_recall_finds_what_takes_the_place_of_another_meanwhile(memory: Memory, embedder: Interrupted):
    """Under the key there was an entry at every moment, so there is none at which nothing could be found."""
    ada = memory.scope(user="ada")
    ada.remember("version 0 of the plan", collection="notes", key="plan")
    ada.remember("a list of birds", collection="notes")

    def replace_once() -> None:
        if embedder.times == 1:
            ada.remember("version 1 of the plan", collection="notes", key="plan")

    embedder.happens = replace_once
    found = [match.content for match in ada.recall("which plan?", collection="notes").results]
    assert embedder.times > 0  # the control: it did happen meanwhile
    assert sorted(found) == ["a list of birds", "version 1 of the plan"]


def test_a_recall_whose_matches_are_replaced_on_and_on_answers_as_of_one_moment(memory: Memory, monkeypatch: Any):
    ada = memory.scope(user="ada")
    ada.remember("version 0 of the plan", collection="notes", key="plan")
    versions = itertools.count(1)
    rank = rank_module.rank

    def rank_and_replace(*args: Any, **options: Any) -> Any:
        ranked = rank(*args, **options)
        ada.remember(f"version {next(versions)} of the plan", collection="notes", key="plan")
        return ranked

    monkeypatch.setattr(rank_module, "rank", rank_and_replace)
    (match,) = ada.recall("plan", collection="notes").results
    replaced = next(versions)
    assert replaced > 2  # the control: it was tried several times
    assert match.content == f"version {replaced - 2} of the plan"


@pytest.mark.parametrize("recalled_before", [False, True], ids=["at once", "after another recall"])
def test_what_is_forgotten_meanwhile_is_not_found(memory: Memory, embedder: Interrupted, recalled_before: bool):
    ada = memory.scope(user="ada")
    plan = ada.remember("the plan", collection="notes")
    ada.remember("a list of birds", collection="notes")
    if recalled_before:
        assert ada.recall("birds and plans", collection="notes").count == 2
    embedder.happens = lambda: ada.forget(plan.id, collection="notes")
    found = [match.content for match in ada.recall("which plan?", collection="notes", limit=1).results]
    assert embedder.times > 0
    assert found == ["a list of birds"]  # and it leaves no place empty


def test_a_collection_that_goes_meanwhile_leaves_nothing(memory: Memory, embedder: Interrupted):
    ada = memory.scope(user="ada")
    ada.remember("the plan", collection="notes")
    embedder.happens = lambda: memory.collections.list() and memory.collections.delete("notes")
    assert ada.recall("which plan?", collection="notes").results == []
    assert embedder.times > 0
    ada.remember("another plan", collection="notes")
    embedder.happens = None
    assert [match.content for match in ada.recall("which plan?", collection="notes").results] == ["another plan"]


def test_a_move_meanwhile_does_no_harm(memory: Memory, embedder: Interrupted):
    ada = memory.scope(user="ada")
    ada.remember("the plan", collection="notes")

    def move_once() -> None:
        if memory.collections.list()[0].embedder == "interrupted":
            memory.collections.reembed("notes", "hashing:32")

    embedder.happens = move_once
    assert [match.content for match in ada.recall("which plan?", collection="notes").results] == ["the plan"]
    assert memory.collections.list()[0].embedder == "hashing:32"
    assert [match.content for match in ada.recall("which plan?", collection="notes").results] == ["the plan"]
