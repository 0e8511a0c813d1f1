"""Archival lines: a text is written as one fact, and its lines are entries that live and die with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.api.memory import Memory
from recollect.api.scoped import ScopedMemory
from recollect.errors import Conflict, Denied, EmbeddingFailed, InvalidKey
from recollect.model.effect import DeleteFact, Effect, RecallLines, WriteLines
from recollect.model.fact import Fact
from recollect.model.policy import Policy
from recollect.model.recall import Recalled
from recollect.store.base import Store
from recollect.testing.conformance.base import Capability, requires, snapshot
from recollect.testing.conformance.embedders import WatchedEmbedder

KEY = "blocks.archival"
TEXT = "Ada keeps bees\n\nThe heron nests by the weir\n  \nTea at four"


def _perform(place: ScopedMemory, effect: Effect) -> Any:
    # Blocks will be the door to this; until then the promises knock at the gate itself.
    return place._gate.perform(effect, place._caller)  # pyright: ignore[reportPrivateUsage]


def _write(place: ScopedMemory, text: str, *, expect: int | None = None) -> Fact:
    return _perform(place, WriteLines(scope=place.scope, key=KEY, text=text, expect=expect))


def _find(place: ScopedMemory, query: str, **options: Any) -> list[tuple[int, str]]:
    found: Recalled = _perform(place, RecallLines(scope=place.scope, key=KEY, query=query, **options))
    assert found.count == len(found.results)
    return [(match.metadata["line"], match.content) for match in found.results]


class LinePromises:
    """Each line of a text can be recalled as long as the text stands, and not a moment longer."""

    def test_a_text_is_a_fact_and_its_lines_are_found(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        fact = _write(ada, TEXT)
        assert (fact.key, fact.value, fact.version) == (KEY, TEXT, 1)
        assert ada.get(KEY) == fact
        assert _find(ada, "where does the heron nest", limit=1) == [(3, "The heron nests by the weir")]
        assert _find(ada, "bees", limit=1) == [(1, "Ada keeps bees")]
        assert len(_find(ada, "heron")) == 3
        assert _find(ada, "heron", limit=0) == []

    def test_an_empty_query_lists_the_lines_in_their_order(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        _write(ada, TEXT)
        assert _find(ada, "") == [(1, "Ada keeps bees"), (3, "The heron nests by the weir"), (5, "Tea at four")]
        assert _find(ada, " ", limit=2) == [(1, "Ada keeps bees"), (3, "The heron nests by the weir")]

    def test_a_threshold_drops_lines_that_score_less(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        _write(ada, TEXT)
        assert _find(ada, "the heron nests by the weir", threshold=0.9) == [(3, "The heron nests by the weir")]

    def test_a_new_text_replaces_the_lines_of_the_old_one(self, memory: Memory, second: Memory) -> None:
        ada = memory.scope(user="ada")
        _write(ada, TEXT)
        assert len(_find(second.scope(user="ada"), "")) == 3
        fact = _write(ada, "Tea at four\nThe otter came back")
        assert fact.version == 2
        for handle in (memory, second):
            hers = handle.scope(user="ada")
            assert _find(hers, "") == [(1, "Tea at four"), (2, "The otter came back")]
            assert _find(hers, "otter, and the heron that nests by the weir", limit=1) == [(2, "The otter came back")]
        assert [revision.value for revision in ada.history(KEY)] == [TEXT, "Tea at four\nThe otter came back"]
        assert all(finding.ok for finding in memory.inspect())

    def test_equal_lines_are_each_a_line(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        _write(ada, "again\nagain")
        assert _find(ada, "") == _find(ada, "again") == [(1, "again"), (2, "again")]

    def test_a_failed_compare_and_set_changes_nothing(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        fact = _write(ada, TEXT, expect=0)
        before = snapshot(store)
        for expect in (0, 7):
            with pytest.raises(Conflict):
                _write(ada, "something else", expect=expect)
        assert snapshot(store) == before
        assert len(_find(ada, "")) == 3
        assert _write(ada, "something else", expect=fact.version).version == 2
        assert _find(ada, "") == [(1, "something else")]

    def test_an_empty_text_has_no_lines(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        _write(ada, TEXT)
        assert len(_find(ada, "")) == 3
        _write(ada, "\n \n")
        assert _find(ada, "") == _find(ada, "heron") == []

    def test_lines_go_with_their_fact(self, memory: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for place in (ada, bob):
            _write(place, TEXT)
        _perform(ada, DeleteFact(scope=ada.scope, key=KEY))
        assert _find(ada, "") == _find(ada, "heron") == []
        assert len(_find(bob, "heron")) == 3
        _write(ada, "back again")
        assert _find(ada, "heron") == [(1, "back again")]
        assert all(finding.ok for finding in memory.inspect())

    def test_lines_go_with_their_subject_and_their_session(self, memory: Memory, second: Memory) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        session = bob.session("s1")
        for place in (ada, bob, session):
            _write(place, TEXT)
        assert len(_find(second.scope(user="ada"), "heron")) == 3
        assert memory.erase(user="ada").removed["entries"] == 3
        assert session.end()["entries"] == 3
        for handle in (memory, second):
            assert _find(handle.scope(user="ada"), "") == _find(handle.scope(session="s1"), "") == []
            assert len(_find(handle.scope(user="bob"), "")) == 3
        assert all(finding.ok for finding in memory.inspect())

    def test_lines_are_no_collection_of_the_callers_own(self, memory: Memory) -> None:
        ada = memory.scope(user="ada")
        _write(ada, TEXT)
        assert memory.collections.list() == []
        ada.remember("The heron nests by the weir", collection="notes")
        assert [one.name for one in memory.collections.list()] == ["notes"]
        assert len(_find(ada, "heron")) == 3

    def test_lines_come_back_with_an_import(self, memory: Memory, elsewhere: Memory, tmp_path: Path) -> None:
        _write(elsewhere.scope(user="ada"), TEXT)
        assert elsewhere.export(tmp_path / "x.jsonl") == 1
        for _ in range(2):
            memory.import_file(tmp_path / "x.jsonl")
            assert _find(memory.scope(user="ada"), "") == _find(elsewhere.scope(user="ada"), "")
        assert _find(memory.scope(user="ada"), "heron", limit=1) == [(3, "The heron nests by the weir")]
        assert all(finding.ok for finding in memory.inspect())

    def test_only_texts_with_lines_are_written_so(self, memory: Memory, store: Store) -> None:
        ada = memory.scope(user="ada")
        before = snapshot(store)
        with pytest.raises(InvalidKey):
            _perform(ada, WriteLines(scope=ada.scope, key="profile", text=TEXT))
        assert snapshot(store) == before
        assert _write(ada, TEXT).version == 1

    def test_an_embedder_that_fails_leaves_text_and_lines_as_they_were(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        ada = open_beside(embedder=embedder).scope(user="ada")
        _write(ada, TEXT)
        embedder.fails_on = "two"
        before = snapshot(store)
        with pytest.raises(EmbeddingFailed):
            _write(ada, "one\ntwo\nthree")
        assert snapshot(store) == before
        assert len(_find(ada, "")) == 3

    def test_who_may_not_write_writes_no_lines(self, memory: Memory) -> None:
        _write(memory.scope(user="ada"), TEXT)
        reader = memory.acting_as("reader", policy=Policy.of(allow=("memory.read",))).scope(user="ada")
        with pytest.raises(Denied):
            _write(reader, "something else")
        assert len(_find(reader, "heron")) == 3

    @requires(Capability.RESTART)
    def test_lines_are_found_after_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        _write(memory.scope(user="ada"), "old")
        _write(memory.scope(user="ada"), TEXT)
        again = reopen()
        assert len(_find(again.scope(user="ada"), "")) == 3
        assert _find(again.scope(user="ada"), "heron nests", limit=1) == [(3, "The heron nests by the weir")]
        assert all(finding.ok for finding in again.inspect())
