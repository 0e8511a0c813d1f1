"""Recall: what it finds and in which order; and what governs it and remember."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from memoranda.api.memory import DEFAULT_EMBEDDER, Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import (
    ApprovalRequired,
    Denied,
    EmbeddingFailed,
    InvalidFilter,
    LimitExceeded,
    QuotaExceeded,
    ScopeEnded,
    UsageError,
)
from memoranda.model.entry import KINDS, MODES, Kind, Mode, Recalled
from memoranda.model.limits import Limits
from memoranda.model.policy import Policy, Quota
from memoranda.retrieval.embed.base import Vectors
from memoranda.store.base import Store
from memoranda.testing.conformance.base import (
    Capability,
    WatchedEmbedder,
    assert_raises,
    live_contents,
    recall_contents,
    requires,
    unchanged,
)
from memoranda.testing.fakes import FakeClock

NOTES = (
    "The boiler in the cellar was repaired in March",
    "Marta prefers the window seat on night trains",
    "Invoice INV-2041 for the greenhouse is unpaid",
    "Choir practice moved from Tuesday to Thursday",
    "The spare key lies under the blue flowerpot",
)

PLANTS: dict[str, dict[str, Any]] = {
    "fern": {"height": 3, "name": "fern", "wet": True, "soil": {"ph": 5}, "tags": ["green", 1]},
    "moss": {"height": 0.5, "name": "moss", "wet": True, "tags": []},
    "pine": {"height": 30, "name": "pine", "wet": False, "soil": {"ph": 4}},
    "reed": {"height": 3.0, "name": "reed", "wet": 1},
    "iris": {"height": "3", "name": "iris", "wet": None},
    "herb": {},
}
FILTERS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "fern moss pine reed iris herb"),
    ({"wet": True}, "fern moss"),
    ({"wet": 1}, "reed"),
    ({"wet": None}, "iris"),
    ({"height": 3}, "fern reed"),
    ({"height": "3"}, "iris"),
    ({"soil": {"ph": 5}}, "fern"),
    ({"soil": {}}, ""),
    ({"tags": []}, "moss"),
    ({"tags": ["green", 1]}, "fern"),
    ({"tags": "green"}, ""),
    ({"soil.ph": 5}, ""),
    ({"wet": True, "height": 3}, "fern"),
    ({"height": {"$eq": 30}}, "pine"),
    ({"soil": {"$eq": {"ph": 4}}}, "pine"),
    ({"wet": {"$ne": True}}, "pine reed iris herb"),
    ({"name": {"$in": ["moss", "reed", 7]}}, "moss reed"),
    ({"name": {"$in": []}}, ""),
    ({"name": {"$nin": ["moss", "reed"]}}, "fern pine iris herb"),
    ({"height": {"$gt": 3}}, "pine"),
    ({"height": {"$gte": 3}}, "fern pine reed"),
    ({"height": {"$lt": 3}}, "moss"),
    ({"height": {"$lte": 3}}, "fern moss reed"),
    ({"height": {"$gte": 3, "$lt": 30}}, "fern reed"),
    ({"name": {"$gte": "moss"}}, "moss pine reed"),
    ({"soil": {"$exists": True}}, "fern pine"),
    ({"wet": {"$exists": False}}, "herb"),
    ({"height": {"$not": {"$gte": 3}}}, "moss iris herb"),
    ({"$not": {"wet": True}}, "pine reed iris herb"),
    ({"$or": [{"name": "moss"}, {"height": {"$gt": 3}}]}, "moss pine"),
    ({"$and": [{"wet": True}, {"$or": [{"name": "moss"}, {"name": "pine"}]}]}, "moss"),
    ({"name": {"$or": [{"$eq": "moss"}, {"$gt": "pine"}]}}, "moss reed"),
    ({"wet": True, "$not": {"name": "moss"}}, "fern"),
)
BAD_FILTERS: tuple[tuple[Any, str], ...] = (
    (["wet"], "$"),
    ({"wet": {"$near": 1}}, "$.wet.$near"),
    ({"$gt": 3}, "$.$gt"),
    ({"wet": {"$in": "fern"}}, "$.wet.$in"),
    ({"wet": {"$exists": "yes"}}, "$.wet.$exists"),
    ({"$or": []}, "$.$or"),
    ({"$or": {"wet": 1}}, "$.$or"),
    ({"$and": [{"wet": 1}, {"wet": {"$gte": [1]}}]}, "$.$and[1].wet.$gte"),
    ({"wet": {"$gt": 1, "plain": 2}}, "$.wet"),
    ({"wet": {"$eq": {1, 2}}}, "$.wet.$eq"),
    ({"wet": float("nan")}, "$.wet"),
    ({"$not": [{"wet": 1}]}, "$.$not"),
)


def _with_notes(memory: Memory) -> ScopedMemory:
    ada = memory.scope(user="ada")
    for n, note in enumerate(NOTES):
        ada.remember(note, collection="notes", metadata={"n": n})
    return ada


def _change_something(chance: random.Random, memory: Memory, words: Sequence[str]) -> None:
    ada = memory.scope(user="ada")
    match chance.randrange(8):
        case 0:
            entries = ada.entries(collection="notes")
            if len(entries) > 4:
                ada.forget(chance.choice(entries).id, collection="notes")
        case 1:
            memory.sweep()
        case _:
            ada.remember(
                " ".join(chance.choices(words, k=chance.randint(2, 5))),
                collection="notes",
                namespace=chance.choice(("", "x")),
                metadata={"thread": chance.choice("pq")},
                ttl=chance.choice((None, None, 15)),
                key=chance.choice((None, None, "k1", "k2")),
            )


def _answer(found: Recalled) -> list[tuple[Any, ...]]:
    """Return what must be equal: rounding may differ where rows were summed in another order."""
    return [
        (one.id, round(one.score, 4), [e.id for e in one.before], [e.id for e in one.after]) for one in found.results
    ]


class RecallPromises:
    """What answers best comes first, nothing hides it, and each match says why."""

    # finding

    @pytest.mark.parametrize("mode", MODES)
    def test_each_mode_finds_what_has_the_words_of_a_query(self, memory: Memory, mode: Mode) -> None:
        ada = _with_notes(memory)
        for query, note in (
            ("who repaired the boiler", 0),
            ("INV-2041", 2),
            ("choir practice", 3),
            ("the spare key", 4),
        ):
            (match,) = ada.recall(query, collection="notes", limit=1, mode=mode).results
            assert match.content == NOTES[note]
            assert (match.metadata, match.why.mode) == ({"n": note}, mode)

    def test_keyword_finds_only_what_holds_a_word_of_the_query(self, memory: Memory) -> None:
        ada = _with_notes(memory)
        assert recall_contents(ada, "boiler flowerpot", mode="keyword", limit=100) == [NOTES[0], NOTES[4]]
        assert recall_contents(ada, "submarine", mode="keyword") == []
        assert len(recall_contents(ada, "submarine", mode="semantic", limit=100)) == len(NOTES)
        assert len(recall_contents(ada, "submarine", limit=100)) == len(NOTES)

    def test_a_mistyped_word_is_looked_for_as_it_was_meant(self, memory: Memory) -> None:
        ada = _with_notes(memory)
        (match,) = ada.recall("boilr", collection="notes", limit=1, mode="keyword").results
        assert (match.content, match.why.corrected) == (NOTES[0], {"boilr": "boiler"})
        (match,) = ada.recall("boiler", collection="notes", limit=1, mode="keyword").results
        assert match.why.corrected == {}

    def test_the_default_embedder_finds_what_means_the_same_in_other_words(
        self, store: Store, clock: FakeClock
    ) -> None:
        texts = (
            "She bought a new automobile",
            "The soup needs more salt",
            "Rain is expected tomorrow",
            "Our landlord raised the rent by ten percent",
            "The vaccine must be stored in a refrigerator",
        )
        with Memory(store, clock=clock, embedder=DEFAULT_EMBEDDER) as memory:
            ada = memory.scope(user="ada")
            ada.remember_many([{"content": text} for text in texts], collection="notes")
            for query, text in (
                ("car", texts[0]),
                ("How much did the rent go up?", texts[3]),
                ("keep the vaccine cold", texts[4]),
            ):
                for mode in ("hybrid", "semantic"):
                    assert recall_contents(ada, query, mode=mode, threshold=0.7) == [text]
            assert recall_contents(ada, "quantum chromodynamics", threshold=0.7) == []
            assert recall_contents(ada, "car", mode="keyword") == []

    # filter before rank

    @pytest.mark.parametrize(("filter", "expected"), FILTERS, ids=lambda part: str(part))
    def test_a_filter_lets_through_exactly_what_fulfils_it(
        self, ada: ScopedMemory, filter: dict[str, Any], expected: str
    ) -> None:
        ada.remember_many(
            [{"content": f"plant {name}", "metadata": metadata} for name, metadata in PLANTS.items()],
            collection="notes",
        )
        for query in ("plant", ""):
            found = recall_contents(ada, query, filter=filter, limit=100)
            assert sorted(found) == sorted(f"plant {name}" for name in expected.split())

    @pytest.mark.parametrize(("filter", "path"), BAD_FILTERS, ids=lambda part: str(part))
    def test_a_filter_gone_wrong_is_refused_with_the_path_of_the_fault(
        self, memory: Memory, filter: Any, path: str
    ) -> None:
        ada = _with_notes(memory)
        for query, collection in (("boiler", "notes"), ("", "notes"), ("boiler", "unknown")):
            error = assert_raises(InvalidFilter, ada.recall, query, collection=collection, filter=filter)
            assert error.path == path
        assert recall_contents(ada, "boiler", filter={"n": 0}) == [NOTES[0]]

    @pytest.mark.parametrize("mode", MODES)
    def test_a_filter_never_costs_results(self, ada: ScopedMemory, mode: Mode) -> None:
        ada.remember("A heron was seen once, far from here, by nobody in particular", collection="notes")
        items = [{"content": f"heron heron heron {n}", "metadata": {"common": True}} for n in range(50)]
        ada.remember_many(items, collection="notes")
        assert "A heron was seen once" not in "".join(recall_contents(ada, "heron", mode=mode, limit=5))
        for condition in ({"common": {"$exists": False}}, {"$not": {"common": True}}):
            (found,) = recall_contents(ada, "heron", mode=mode, limit=5, filter=condition)
            assert found.startswith("A heron was seen once")

    @pytest.mark.parametrize("mode", MODES)
    def test_better_entries_of_other_namespaces_and_scopes_cost_no_results(self, memory: Memory, mode: Mode) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.remember("A heron was seen once", collection="notes", namespace="rare")
        items = [{"content": f"heron heron {n}"} for n in range(50)]
        ada.remember_many(items, collection="notes", namespace="common")
        bob.remember_many(items, collection="notes", namespace="rare")
        assert recall_contents(ada, "heron", mode=mode, namespace="rare", limit=1) == ["A heron was seen once"]
        assert len(recall_contents(bob, "heron", mode=mode, namespace="rare", limit=9)) == 9

    @pytest.mark.parametrize("mode", MODES)
    def test_expired_and_forgotten_entries_cost_no_results(self, memory: Memory, clock: FakeClock, mode: Mode) -> None:
        ada = memory.scope(user="ada")
        bird: dict[str, Any] = {"metadata": {"bird": True}}
        ada.remember("A heron was seen once", collection="notes", **bird)
        expiring = [{"content": f"heron heron {n}", **bird} for n in range(20)]
        ada.remember_many(expiring, collection="notes", ttl=60)
        forgotten = ada.remember_many(
            [{"content": f"heron heron heron {n}", **bird} for n in range(20)], collection="notes"
        )
        assert "A heron was seen once" not in recall_contents(ada, "heron", mode=mode, limit=5)
        for one in forgotten:
            ada.forget(one.id, collection="notes")
        clock.advance(60)
        for filter in (None, {"bird": True}):
            assert recall_contents(ada, "heron", mode=mode, limit=5, filter=filter) == ["A heron was seen once"]
            assert recall_contents(ada, "", mode=mode, limit=5, filter=filter) == ["A heron was seen once"]

    # scores

    @pytest.mark.parametrize("mode", MODES)
    def test_scores_lie_from_0_to_1_and_are_each_match_s_own(self, memory: Memory, mode: Mode) -> None:
        ada = _with_notes(memory)
        for query in (*NOTES, "the key in the cellar", "INV-2041", "?", "submarine", "日本"):
            results = ada.recall(query, collection="notes", limit=100, mode=mode).results
            assert all(0.0 <= match.score <= 1.0 for match in results)
            assert all(match.score == match.why.relevance for match in results)
            totals = [round(match.why.total, 4) for match in results]
            assert totals == sorted(totals, reverse=True)
            assert len({match.id for match in results}) == len(results)
        assert ada.recall(NOTES[0], collection="notes", limit=1, mode=mode).results[0].score > 0.9

    @pytest.mark.parametrize("mode", MODES)
    def test_a_threshold_keeps_what_scores_as_much_and_drops_what_scores_less(self, memory: Memory, mode: Mode) -> None:
        ada = _with_notes(memory)
        query = "the boiler repaired in the cellar, and the spare key"
        everything = ada.recall(query, collection="notes", limit=100, mode=mode).results
        scores = [match.score for match in everything]
        assert len(set(scores)) > 1
        for score in scores:
            kept = ada.recall(query, collection="notes", limit=100, mode=mode, threshold=score).results
            assert kept == [match for match in everything if match.score >= score]
            above = math.nextafter(score, 2.0)
            if above <= 1.0:
                fewer = ada.recall(query, collection="notes", limit=100, mode=mode, threshold=above).results
                assert fewer == [match for match in everything if match.score >= above]

    @pytest.mark.parametrize("mode", MODES)
    def test_a_limit_cuts_the_order_and_changes_no_score(self, memory: Memory, mode: Mode) -> None:
        ada = _with_notes(memory)
        everything = ada.recall("the spare key of the boiler", collection="notes", limit=100, mode=mode).results
        for limit in range(len(everything) + 1):
            found = ada.recall("the spare key of the boiler", collection="notes", limit=limit, mode=mode)
            assert found.results == everything[:limit]
            assert found.count == limit
        assert len(everything) >= 2

    def test_five_are_found_when_no_limit_is_given(self, ada: ScopedMemory) -> None:
        ada.remember_many([{"content": f"heron {n}"} for n in range(9)], collection="notes")
        assert len(recall_contents(ada, "heron")) == len(recall_contents(ada, "")) == 5

    def test_of_equal_entries_the_older_comes_first(self, ada: ScopedMemory) -> None:
        for namespace in ("z", "a", "m"):
            ada.remember("Heron by the weir", collection="notes", namespace=namespace)
        for mode in MODES:
            results = ada.recall("heron", collection="notes", mode=mode).results
            assert [match.namespace for match in results] == ["z", "a", "m"]

    def test_the_same_question_has_the_same_answer(self, memory: Memory, second: Memory) -> None:
        ada = _with_notes(memory)
        for query in ("the key", "boiler", "window"):
            first = ada.recall(query, collection="notes")
            assert first.count == 5
            assert ada.recall(query, collection="notes") == first
            assert second.scope(user="ada").recall(query, collection="notes") == first

    # why

    def test_why_shows_the_parts_that_sum_to_the_total(self, memory: Memory) -> None:
        ada = _with_notes(memory)
        ada.remember("Tom asked for the boiler", collection="notes", metadata={"actor": "Tom", "time": "2026-03-01"})
        for mode in MODES:
            results = ada.recall("When did Tom ask for the boiler?", collection="notes", mode=mode, limit=9).results
            assert results
            for match in results:
                assert match.why.mode == mode
                assert math.fsum(match.why.parts.values()) == pytest.approx(match.why.total, abs=1e-6)
                assert 0.0 <= match.why.relevance <= match.score
            totals = [match.why.total for match in results]
            assert totals == pytest.approx(sorted(totals, reverse=True), abs=1e-4)

    def test_why_tells_words_from_meaning(self, memory: Memory) -> None:
        ada = _with_notes(memory)
        why = {m: ada.recall("spare key", collection="notes", limit=1, mode=m).results[0].why for m in MODES}
        assert why["hybrid"].matched == why["keyword"].matched == ("spare", "key")
        assert why["hybrid"].lexical == why["keyword"].lexical == pytest.approx(1.0)
        assert why["keyword"].cosine is None
        assert why["semantic"].lexical is None
        for mode in ("hybrid", "semantic"):
            assert 0.0 < (why[mode].cosine or 0.0) <= 1.0

    # neighbours

    def test_expand_adds_the_neighbours_of_the_same_thread_in_order(self, ada: ScopedMemory) -> None:
        for n in range(6):
            for thread in ("a", "b"):
                text = "the heron landed" if (n, thread) == (3, "a") else f"talk {n} in {thread}"
                ada.remember(text, collection="notes", metadata={"thread": thread})
        ada.remember("talk 4 in a", collection="notes", metadata={"thread": "a"}, namespace="other")
        for expand, before, after in (
            (0, [], []),
            (1, ["talk 2 in a"], ["talk 4 in a"]),
            (9, ["talk 0 in a", "talk 1 in a", "talk 2 in a"], ["talk 4 in a", "talk 5 in a"]),
        ):
            (match,) = ada.recall("heron landed", collection="notes", limit=1, expand=expand).results
            assert match.content == "the heron landed"
            assert [entry.content for entry in match.before] == before
            assert [entry.content for entry in match.after] == after

    def test_neighbours_that_are_gone_are_not_shown(self, memory: Memory, clock: FakeClock) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        kept = ada.remember("kept before", collection="notes")
        gone = ada.remember("forgotten before", collection="notes")
        ada.remember("the heron landed", collection="notes")
        bob.remember("of bob", collection="notes")
        ada.remember("expired after", collection="notes", ttl=60)
        ada.remember("kept after", collection="notes")
        ada.forget(gone.id, collection="notes")
        clock.advance(60)
        (match,) = ada.recall("heron landed", collection="notes", limit=1, expand=2).results
        assert [entry.content for entry in match.before] == ["kept before"]
        assert [entry.content for entry in match.after] == ["kept after"]
        assert match.before[0].id == kept.id

    # what changes

    @pytest.mark.parametrize("seed", range(3))
    def test_an_index_that_followed_every_change_finds_what_a_new_one_finds(
        self, memory: Memory, second: Memory, open_beside: Callable[..., Memory], clock: FakeClock, seed: int
    ) -> None:
        chance = random.Random(seed)
        words = "heron otter kayak weir mill bridge boiler choir invoice lamp".split()
        for _ in range(12):
            for _ in range(6):
                _change_something(chance, chance.choice((memory, second)), words)
            clock.advance(chance.choice((1, 10)))
            newcomer = open_beside()
            for mode in MODES:
                query = " ".join(chance.choices(words, k=2))
                options: dict[str, Any] = {"mode": mode, "limit": 4, "expand": 1}
                options["namespace"] = chance.choice((None, "", "x"))
                answers = [
                    _answer(handle.scope(user="ada").recall(query, collection="notes", **options))
                    for handle in (memory, second, newcomer)
                ]
                assert answers[0] == answers[1] == answers[2]
            newcomer.settle()
        assert len(live_contents(memory.scope(user="ada"))) > 4
        assert all(finding.ok for finding in memory.inspect())

    # what is asked of nothing

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("query", ["", "  \n\t"], ids=repr)
    def test_an_empty_query_gives_the_newest_first(self, memory: Memory, query: str, mode: Mode) -> None:
        ada = _with_notes(memory)
        results = ada.recall(query, collection="notes", limit=3, mode=mode, threshold=1.0).results
        assert [match.content for match in results] == list(NOTES[:1:-1])
        assert {match.score for match in results} == {1.0}
        assert recall_contents(ada, query, mode=mode, filter={"n": {"$lt": 2}}) == [NOTES[1], NOTES[0]]

    def test_an_unknown_collection_and_a_limit_of_0_give_nothing(self, memory: Memory) -> None:
        ada = _with_notes(memory)
        for query in ("boiler", ""):
            nothing = ada.recall(query, collection="unknown")
            assert (nothing.results, nothing.count) == ([], 0)
            nothing = ada.recall(query, collection="notes", limit=0)
            assert (nothing.results, nothing.count) == ([], 0)
            assert recall_contents(memory.scope(user="bob"), query) == []
        assert [one.name for one in memory.collections.list()] == ["notes"]
        assert recall_contents(ada, "boiler", limit=1) == [NOTES[0]]

    @pytest.mark.parametrize(
        "options",
        [{"threshold": -0.1}, {"threshold": 1.1}, {"threshold": float("nan")}, {"threshold": "0.5"},
         {"threshold": True}, {"limit": -1}, {"limit": 1.5}, {"limit": None}, {"limit": 1_001}, {"expand": -1},
         {"expand": 1_001}, {"mode": "magic"}, {"query": None}, {"query": 5}, {"query": "x" * 70_000},
         {"query": "half a pair \ud83d"}, {"as_of": "yesterday"}, {"namespace": 5}, {"collection": ""}],
        ids=lambda options: str(options)[:40],
    )  # fmt: skip
    def test_a_recall_gone_wrong_is_refused(self, memory: Memory, options: dict[str, Any]) -> None:
        ada = _with_notes(memory)
        given: dict[str, Any] = {"query": "boiler", "collection": "notes", **options}
        error = assert_raises(UsageError, ada.recall, **given)
        if options.get("limit") == 1_001:
            assert isinstance(error, LimitExceeded)
            assert error.limit == memory.limits.recall
        assert recall_contents(ada, "boiler", limit=1_000, expand=1_000, threshold=0, as_of=None)[0] == NOTES[0]

    # earlier moments

    def test_a_recall_as_of_a_moment_finds_the_entries_of_that_moment(
        self, ada: ScopedMemory, clock: FakeClock
    ) -> None:
        before = clock.now()
        clock.advance(10)
        stored = clock.now()
        ada.remember("heron one", collection="notes", key="k")
        ada.remember("heron short", collection="notes", ttl=5)
        clock.advance(10)
        replaced = clock.now()
        ada.remember("heron two", collection="notes", key="k")
        clock.advance(10)
        forgotten = clock.now()
        assert ada.forget(collection="notes", key="k")
        tick = timedelta(microseconds=1)
        for moment, expected in (
            (before, []),
            (stored - tick, []),
            (stored, ["heron one", "heron short"]),
            (stored + timedelta(seconds=5) - tick, ["heron one", "heron short"]),
            (stored + timedelta(seconds=5), ["heron one"]),
            (replaced - tick, ["heron one"]),
            (replaced, ["heron two"]),
            (forgotten - tick, ["heron two"]),
            (forgotten, []),
        ):
            for query in ("heron", ""):
                for namespace in (None, ""):
                    assert sorted(recall_contents(ada, query, as_of=moment, namespace=namespace)) == expected, moment
            assert sorted(recall_contents(ada, "heron", as_of=moment.isoformat())) == expected
        assert recall_contents(ada, "heron") == live_contents(ada) == []

    def test_a_filter_and_a_namespace_hold_as_of_a_moment_too(self, ada: ScopedMemory, clock: FakeClock) -> None:
        for namespace in ("x", "y"):
            for n in range(3):
                content = f"heron {n} in {namespace}"
                ada.remember(content, collection="notes", namespace=namespace, metadata={"n": n})
        moment = clock.now()
        clock.advance(10)
        for entry in ada.entries(collection="notes"):
            ada.forget(entry.id, collection="notes")
        found = recall_contents(ada, "heron", as_of=moment, namespace="y", filter={"n": {"$gte": 1}})
        assert sorted(found) == ["heron 1 in y", "heron 2 in y"]
        assert recall_contents(ada, "heron") == []

    def test_entries_are_found_while_the_clock_is_set_back(self, ada: ScopedMemory, clock: FakeClock) -> None:
        ada.remember("heron", collection="notes")
        ada.remember("kayak", collection="notes", namespace="short", ttl=60)
        clock.advance(60)
        assert recall_contents(ada, "kayak", namespace="short") == []
        clock.advance(-3600)
        assert recall_contents(ada, "kayak", namespace="short") == ["kayak"]
        assert recall_contents(ada, "heron", namespace="") == live_contents(ada, namespace="") == ["heron"]
        assert ada.remember("heron", collection="notes").duplicate
        ada.remember("otter", collection="notes")
        assert sorted(recall_contents(ada, "heron otter", namespace="")) == ["heron", "otter"]

    def test_a_clock_that_others_saw_further_ahead_was_set_back_too(self, memory: Memory, clock: FakeClock) -> None:
        """Who asked for an entry last may have asked just after it expired; others have asked later since."""
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        ada.remember("kayak", collection="notes", ttl=1)
        bob.remember("heron", collection="notes")
        clock.advance(1.000001)
        assert recall_contents(ada, "kayak") == []
        clock.advance(1)
        assert recall_contents(bob, "heron") == ["heron"]
        clock.advance(-2)
        assert recall_contents(ada, "kayak") == live_contents(ada) == ["kayak"]

    def test_a_clock_was_set_back_also_if_others_found_no_collection(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")
        ada.remember("kayak", collection="notes", ttl=1)
        clock.advance(1)
        assert recall_contents(ada, "kayak") == []
        clock.advance(1)
        assert not ada.recall("kayak", collection="unknown").known
        clock.advance(-1.000001)
        assert recall_contents(ada, "kayak") == live_contents(ada) == ["kayak"]


READER = Policy.of(allow=("memory.read",))
WRITER = Policy.of(allow=("memory.write",))


def _with_nan(vectors: Vectors) -> Vectors:
    vectors[-1, 0] = float("nan")
    return vectors


SPOILED: dict[str, Callable[[Vectors], Vectors]] = {
    "NaN": _with_nan,
    "zeros": lambda vectors: vectors * 0,
    "one number more": lambda vectors: vectors.repeat(2, axis=1),
    "one row less": lambda vectors: vectors[:-1],
}


class EntryRulePromises:
    """Remembering and recalling need permission, are recorded in the ledger, and leave nothing when they fail."""

    # permissions

    def test_a_denied_remember_or_recall_runs_no_embedder(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        owner.scope(user="ada").remember("heron", collection="notes")
        asked = list(embedder.asked)
        assert asked
        reader = owner.acting_as("reader", policy=READER).scope(user="ada")
        writer = owner.acting_as("writer", policy=WRITER).scope(user="ada")
        stranger = owner.acting_as("stranger").scope(user="ada")
        for attempt, effect, actor in (
            (lambda: reader.remember("secret otter", collection="notes"), "remember", "reader"),
            (lambda: reader.forget(collection="notes", key="k"), "forget", "reader"),
            (lambda: writer.recall("secret otter", collection="notes"), "recall", "writer"),
            (lambda: writer.entries(collection="notes"), "list_entries", "writer"),
            (lambda: stranger.recall("secret otter", collection="notes"), "recall", "stranger"),
            (lambda: stranger.remember("secret otter", collection="notes"), "remember", "stranger"),
        ):
            length = owner.ledger.verify().length
            assert_raises(Denied, attempt)
            (event,) = owner.ledger.events(start=length + 1)
            assert (event.effect, event.decision, event.actor) == (effect, "deny", actor)
            assert (event.scope, event.key, event.content) == ("user:ada", "collections.notes", None)
        assert embedder.asked == asked
        assert "otter" not in repr(owner.ledger.events())
        assert recall_contents(reader, "heron") == ["heron"]
        assert writer.remember("otter", collection="notes").stored
        assert len(embedder.asked) > len(asked)

    def test_a_grant_may_be_for_one_collection(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes")
        ada.remember("otter", collection="private")
        memory.permissions.grant("agent", "memory", path="collections.notes")
        agent = memory.acting_as("agent").scope(user="ada")
        assert recall_contents(agent, "heron") == ["heron"]
        assert agent.remember("kayak", collection="notes").stored
        for attempt in (
            lambda: agent.recall("otter", collection="private"),
            lambda: agent.remember("kayak", collection="private"),
            lambda: agent.entries(collection="private"),
            lambda: agent.remember("kayak", collection="notes2"),
        ):
            assert_raises(Denied, attempt)
        assert live_contents(ada, collection="private") == ["otter"]

    def test_an_access_may_close_a_collection(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes")
        policy = Policy.of(allow=("memory",), access={"collections.notes": "read", "*": "readwrite"})
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        assert_raises(Denied, agent.remember, "otter", collection="notes")
        assert recall_contents(agent, "heron") == ["heron"]
        assert agent.remember("otter", collection="tasks").stored

    def test_collections_have_capabilities_of_their_own(self, memory: Memory) -> None:
        memory.scope(user="ada").remember("heron", collection="notes")
        target = WatchedEmbedder("target")
        user = memory.acting_as("user", policy=Policy.of(allow=("memory", "collections.read")))
        assert [one.name for one in user.collections.list()] == ["notes"]
        for attempt in (
            lambda: user.collections.delete("notes"),
            lambda: user.collections.reembed("notes", target),
            lambda: user.collections.compare("notes", target),
            lambda: user.collections.give_up_reembedding("notes"),
        ):
            error = assert_raises(Denied, attempt)
            assert error.capability == "collections.write"
        assert target.asked == []
        keeper = memory.acting_as("keeper", policy=Policy.of(allow=("collections",)))
        assert keeper.collections.reembed("notes", target).space.embedder == "target"
        assert keeper.collections.delete("notes") == 1
        assert_raises(Denied, keeper.scope(user="ada").recall, "heron", collection="notes")

    def test_a_handle_of_one_tenant_reaches_no_other(self, memory: Memory) -> None:
        memory.scope(tenant="other", user="ada").remember("heron", collection="notes")
        agent = memory.acting_as("agent", policy=Policy.of(allow=("memory",)))
        for attempt in (
            lambda: agent.scope(tenant="other", user="ada").recall("heron", collection="notes"),
            lambda: agent.scope(tenant="other", user="ada").remember("otter", collection="notes"),
        ):
            assert_raises(Denied, attempt)
        assert recall_contents(memory.scope(tenant="other", user="ada"), "heron otter") == ["heron"]
        assert agent.scope(user="ada").remember("otter", collection="notes").stored

    # approvals

    def test_a_remember_that_waits_is_found_once_it_is_approved(self, memory: Memory, clock: FakeClock) -> None:
        memory.permissions.grant("agent", "memory.write", level="approve")
        memory.permissions.grant("agent", "memory.read")
        agent = memory.acting_as("agent", door="mcp", source="thread:4").scope(user="ada")
        waiting: list[str] = []
        for content in ("heron by the weir", "otter by the mill"):
            with pytest.raises(ApprovalRequired) as caught:
                agent.remember(content, collection="notes", metadata={"n": 1}, ttl=60, key=content[:5])
            waiting.append(caught.value.approval)
        assert recall_contents(agent, "heron") == recall_contents(agent, "") == []
        assert memory.collections.list() == []
        clock.advance(100)
        decided = memory.approvals.approve(waiting[0])
        assert decided.result[0].stored
        memory.approvals.refuse(waiting[1])
        (entry,) = agent.entries(collection="notes")
        assert (entry.content, entry.metadata, entry.key) == ("heron by the weir", {"n": 1}, "heron")
        assert (entry.origin.actor, entry.origin.door, entry.origin.source) == ("agent", "mcp", "thread:4")
        assert (entry.created_at, entry.expires_at) == (clock.now(), decided.result[0].expires_at)
        assert recall_contents(agent, "heron otter") == ["heron by the weir"]
        assert all(finding.ok for finding in memory.inspect())

    def test_no_embedder_works_for_what_cannot_be_stored_anyway(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder, limits=Limits(batch=2))
        three = [{"content": f"heron {n}"} for n in range(3)]
        assert_raises(LimitExceeded, owner.scope(user="ada").remember_many, three, collection="notes")
        session = owner.scope(user="ada").session("s1")
        session.end()
        assert_raises(ScopeEnded, session.remember, "heron", collection="notes")
        frugal = Policy.of(allow=("*",), quota=Quota(writes=1))
        agent = owner.acting_as("agent", policy=frugal).scope(user="ada")
        assert_raises(QuotaExceeded, agent.remember_many, three[:2], collection="notes")
        assert embedder.asked == []
        agent.remember("heron", collection="notes")
        assert embedder.asked == ["heron"]

    def test_a_narrowed_handle_that_is_denied_runs_no_embedder(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        frugal = owner.narrowed(Policy.of(allow=("*",), quota=Quota(writes=1)))
        with pytest.raises(QuotaExceeded):
            frugal.scope(user="ada").remember_many([{"content": "heron"}, {"content": "otter"}], collection="notes")
        with pytest.raises(Denied):
            owner.narrowed(Policy.of(allow=("memory.read",))).scope(user="ada").remember("heron", collection="notes")
        session = owner.scope(user="ada").session("s1")
        session.end()
        with pytest.raises(ScopeEnded):
            owner.narrowed(Policy.of(allow=("*",))).at(session.scope).remember("heron", collection="notes")
        assert embedder.asked == []
        frugal.scope(user="ada").remember("heron", collection="notes")
        assert_raises(QuotaExceeded, frugal.scope(user="ada").remember, "otter", collection="notes")
        assert embedder.asked == ["heron"]

    def test_no_embedder_works_for_a_remember_that_waits(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        owner.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            owner.acting_as("agent").scope(user="ada").remember("heron", collection="notes")
        assert embedder.asked == []
        owner.approvals.approve(caught.value.approval)
        assert embedder.asked == ["heron"]

    def test_an_embedder_that_fails_at_the_approval_leaves_it_pending(
        self, memory: Memory, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        owner = open_beside(embedder=embedder)
        owner.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            owner.acting_as("agent").scope(user="ada").remember("heron", collection="notes")
        embedder.fails_on = "heron"
        assert_raises(EmbeddingFailed, owner.approvals.approve, caught.value.approval)
        assert owner.approvals.get(caught.value.approval).status == "pending"
        embedder.fails_on = None
        owner.approvals.approve(caught.value.approval)
        assert recall_contents(owner.scope(user="ada"), "heron") == ["heron"]

    def test_an_approved_recall_gives_its_matches_and_is_on_record(self, memory: Memory) -> None:
        done = memory.scope(user="ada").remember("heron", collection="notes", metadata={"n": 1})
        memory.permissions.grant("agent", "memory", level="approve")
        with pytest.raises(ApprovalRequired) as caught:
            memory.acting_as("agent").scope(user="ada").recall(
                "heron", collection="notes", filter={"n": {"$in": [1]}}, as_of=memory.ledger.tail(1)[0].at
            )
        result = memory.approvals.approve(caught.value.approval).result
        assert [match.content for match in result.results] == ["heron"]
        memory.settle()
        events = [event for event in memory.ledger.events() if event.effect == "recall"]
        assert [event.decision for event in events] == ["pending", "approved"]
        assert events[-1].detail["results"] == [done.id]

    def test_an_erasure_removes_a_remember_that_waits(self, memory: Memory) -> None:
        memory.permissions.grant("agent", "memory", level="approve")
        for user in ("ada", "bob"):
            with pytest.raises(ApprovalRequired):
                memory.acting_as("agent").scope(user=user).remember(f"secret of {user}", collection="notes")
        assert memory.erase(user="ada").removed["approvals"] == 1
        (waiting,) = memory.approvals.list(status="all")
        memory.approvals.approve(waiting.id)
        assert live_contents(memory.scope(user="bob")) == ["secret of bob"]
        assert live_contents(memory.scope(user="ada")) == []

    @requires(Capability.RESTART)
    def test_a_remember_that_waits_survives_a_restart(self, memory: Memory, reopen: Callable[[], Memory]) -> None:
        memory.permissions.grant("agent", "memory", level="approve")
        content = {"bird": "heron", "é": [1, 2.5, None]}
        with pytest.raises(ApprovalRequired) as caught:
            memory.acting_as("agent").scope(user="ada").remember(content, collection="notes", metadata={"n": [1.0]})
        again = reopen()
        again.approvals.approve(caught.value.approval)
        (match,) = again.scope(user="ada").recall("heron", collection="notes").results
        assert (repr(match.content), repr(match.metadata)) == (repr(content), "{'n': [1.0]}")

    # quotas

    def test_each_thing_remembered_counts_as_a_write(self, memory: Memory, clock: FakeClock) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(writes=3, per="1m"))
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        agent.remember("one", collection="notes")
        with pytest.raises(QuotaExceeded) as caught:
            agent.remember_many([{"content": n} for n in ("two", "three", "four")], collection="notes")
        assert (caught.value.limit, caught.value.actual) == (3, 4)
        assert live_contents(agent) == ["one"]
        agent.remember_many([{"content": n} for n in ("two", "three")], collection="notes")
        assert_raises(QuotaExceeded, agent.remember, "four", collection="notes")
        refused = memory.ledger.tail(1)[0]
        assert len(recall_contents(agent, "one two three")) == 3  # reading is free
        assert (refused.effect, refused.decision, refused.key) == ("remember", "deny", "collections.notes")
        clock.advance(60)
        assert agent.remember("four", collection="notes").stored
        assert all(finding.ok for finding in memory.inspect())

    def test_the_bytes_of_content_count(self, memory: Memory) -> None:
        policy = Policy.of(allow=("memory",), quota=Quota(bytes=20, per="1h"))
        agent = memory.acting_as("agent", policy=policy).scope(user="ada")
        agent.remember("x" * 8, collection="notes")
        error = assert_raises(QuotaExceeded, agent.remember, "y" * 9, collection="notes")
        assert (error.limit, error.actual) == (20, 21)
        assert agent.remember("y" * 8, collection="notes").stored

    # the ledger

    def test_each_change_of_entries_is_on_record(self, memory: Memory, ada: ScopedMemory, clock: FakeClock) -> None:
        first = ada.remember("heron", collection="notes", key="k")
        second = ada.remember("otter", collection="notes", key="k")
        batch = ada.remember_many([{"content": n} for n in ("x", "y", "z")], collection="notes")
        ada.forget(batch[1].id, collection="notes")
        memory.collections.delete("notes")
        assert [(e.effect, e.scope, e.key, e.resource) for e in memory.ledger.events()] == [
            ("create_collection", "", "collections.notes", None),
            ("remember", "user:ada", "collections.notes", first.id),
            ("forget", "user:ada", "collections.notes", first.id),
            ("remember", "user:ada", "collections.notes", second.id),
            ("remember", "user:ada", "collections.notes", batch[0].id),
            ("forget", "user:ada", "collections.notes", batch[1].id),
            ("delete_collection", "", "collections.notes", None),
        ]
        assert memory.ledger.events()[4].detail["entries"] == 3
        assert memory.ledger.verify().ok

    def test_a_call_that_changes_no_entry_appends_no_event(self, memory: Memory, ada: ScopedMemory) -> None:
        ada.remember("heron", collection="notes")
        length = memory.ledger.verify().length
        ada.remember("heron", collection="notes")
        ada.forget(collection="notes", key="missing")
        ada.remember_many([], collection="notes")
        ada.entries(collection="notes")
        memory.collections.list()
        memory.collections.compare("notes", "hashing:32")
        assert memory.ledger.verify().length == length
        ada.remember("otter", collection="notes")
        assert memory.ledger.verify().length == length + 1

    def test_a_recall_is_an_event_with_hashes_and_ids_and_without_text(self, memory: Memory, ada: ScopedMemory) -> None:
        done = ada.remember("secret heron", collection="notes", metadata={"note": "secret otter"})
        length = memory.ledger.verify().length
        for query in ("secret question", "secret question", "another"):
            ada.recall(query, collection="notes", filter={"note": "secret otter"})
        ada.recall("secret question", collection="unknown")
        memory.settle()
        events = memory.ledger.events(start=length + 1)
        assert [(e.effect, e.decision, e.scope, e.key) for e in events] == [
            *[("recall", "allow", "user:ada", "collections.notes")] * 3,
            ("recall", "allow", "user:ada", "collections.unknown"),
        ]
        assert [event.detail["results"] for event in events] == [[done.id]] * 3 + [[]]
        first, same, other, _ = (event.content for event in events)
        assert first == same != other
        assert first is not None
        assert "secret" not in repr(memory.ledger.events())
        assert memory.ledger.verify().ok
        assert all(finding.ok for finding in memory.inspect())

    def test_an_inspection_of_a_busy_life_of_entries_finds_all_well(self, memory: Memory, clock: FakeClock) -> None:
        ada, bob = memory.scope(user="ada"), memory.scope(user="bob")
        for place in (ada, bob, ada.session("s1"), memory.scope(tenant="other", user="ada")):
            place.remember_many([{"content": f"note {n}", "key": f"k{n % 3}"} for n in range(5)], collection="notes")
            place.remember("short", collection="notes", ttl=60)
            place.remember({"task": 1}, collection="tasks", namespace="x")
            place.recall("note", collection="notes")
        ada.forget(collection="notes", key="k1")
        memory.collections.reembed("notes", "hashing:32", batch=2)
        clock.advance(60)
        memory.sweep()
        ada.remember("short", collection="notes", ttl=60)
        ada.session("s1").end()
        memory.erase(user="bob")
        bob.remember("again", collection="notes")
        memory.collections.delete("tasks")
        memory.settle()
        findings = memory.inspect()
        assert [finding for finding in findings if not finding.ok] == []
        assert {"entries of default agree with the ledger", "entries of other agree with the ledger"} <= {
            finding.what for finding in findings
        }

    # embedders that fail

    def test_an_embedder_that_fails_halfway_through_a_batch_stores_nothing(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        ada = open_beside(embedder=embedder).scope(user="ada")
        ada.remember("standing", collection="notes", key="k3")
        items = [{"content": f"note {n}", "key": f"k{n}"} for n in range(600)]
        embedder.fails_on = "note 300"
        with unchanged(store):
            assert_raises(EmbeddingFailed, ada.remember_many, items, collection="notes")
            assert "note 0" in embedder.asked
        assert recall_contents(ada, "note", limit=9) == ["standing"]
        embedder.fails_on = None
        assert all(one.stored for one in ada.remember_many(items, collection="notes"))
        assert len(live_contents(ada)) == 600

    def test_an_embedder_that_fails_makes_no_collection(
        self, memory: Memory, store: Store, open_beside: Callable[..., Memory]
    ) -> None:
        embedder = WatchedEmbedder()
        embedder.fails_on = "heron"
        ada = open_beside(embedder=embedder).scope(user="ada")
        with unchanged(store):
            assert_raises(EmbeddingFailed, ada.remember, "heron", collection="notes")
        assert ada.remember("otter", collection="notes").stored

    @pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
    def test_vectors_that_cannot_be_compared_are_refused_and_nothing_is_stored(
        self,
        memory: Memory,
        store: Store,
        open_beside: Callable[..., Memory],
        spoil: Callable[[Vectors], Vectors],
    ) -> None:
        embedder = WatchedEmbedder()
        ada = open_beside(embedder=embedder).scope(user="ada")
        ada.remember("heron", collection="notes")
        with unchanged(store):
            embedder.spoil = spoil
            with pytest.raises(EmbeddingFailed):
                ada.remember_many([{"content": "otter"}, {"content": "kayak"}], collection="notes")
            assert_raises(EmbeddingFailed, ada.recall, "weir", collection="notes")
        embedder.spoil = None
        assert recall_contents(ada, "weir") == ["heron"]
        assert ada.remember("otter", collection="notes").stored

    # everything that a scope sees

    def test_a_recall_without_a_collection_finds_every_kind(self, memory: Memory) -> None:
        ada = _with_everything(memory)
        for query, kind, content in EVERYTHING:
            match = ada.recall(query, limit=1)[0]
            assert (match.kind, match.content) == (kind, content), query
            assert match.score >= 0.5
            assert match.scope.subject == "user:ada"
            assert match.valid_to is None
            assert [one.content for one in ada.recall(query, kinds=[kind], limit=1)] == [content]
            others: list[Kind] = [one for one in KINDS if one != kind]
            assert content not in [one.content for one in ada.recall(query, kinds=others, limit=50)]

    def test_kinds_collections_scopes_and_filters_narrow_a_recall(self, memory: Memory) -> None:
        ada = _with_everything(memory)
        agent = memory.scope(user="ada", agent="emails")
        agent.remember("The tuner of the organ is called Vasco", collection="notes")

        def contents(**narrowing: Any) -> list[Any]:
            return sorted(match.content for match in ada.recall("tuner", limit=50, threshold=0.5, **narrowing))

        piano, organ = "The piano tuner comes on Thursday", "The tuner of the organ is called Vasco"
        assert contents() == [piano, organ]
        assert contents(collections=["notes"]) == [piano, organ]
        assert contents(collections=["glazes"]) == []
        assert contents(scopes=["user:ada"]) == contents(scopes=[ada]) == [piano]
        assert contents(scopes=[agent]) == [organ]
        assert contents(filter={"room": "hall"}) == [piano]
        assert contents(filter={"room": "cellar"}) == []
        assert contents(kinds="fact") == []
        wrong_options: tuple[dict[str, Any], ...] = ({"kinds": ["dream"]}, {"scopes": ["nobody"]}, {"expand": 1})
        for wrong in wrong_options:
            assert_raises(UsageError, ada.recall, "tuner", **wrong)
        assert_raises(UsageError, ada.recall, "tuner", collection="notes", kinds=["entry"])

    def test_a_scope_sees_what_is_above_it_in_its_subject_and_nobody_else(self, memory: Memory) -> None:
        places = {
            "shared": memory.scope(),
            "project": memory.scope(project="atlas"),
            "user": memory.scope(user="ada"),
            "agent": memory.scope(user="ada", agent="emails"),
            "other": memory.scope(user="ada", agent="travel"),
            "bob": memory.scope(user="bob"),
            "similar": memory.scope(user="adam"),
        }
        for name, place in places.items():
            place.set("heron", f"heron of {name}")
            place.remember(f"heron noted by {name}", collection="notes")
        seen = {
            name: {str(match.content).rsplit(" ", 1)[1] for match in place.recall("heron", limit=50)}
            for name, place in places.items()
        }
        assert seen == {
            "shared": {"shared"},
            "project": {"project"},
            "user": {"user", "agent", "other"},
            "agent": {"user", "agent"},
            "other": {"user", "other"},
            "bob": {"bob"},
            "similar": {"similar"},
        }
        both = places["user"].recall("heron", scopes=["project:atlas", ""], limit=50)
        assert {str(match.content).rsplit(" ", 1)[1] for match in both} == {"project", "shared"}

    def test_a_recall_of_everything_follows_every_change(self, memory: Memory, clock: FakeClock) -> None:
        ada = memory.scope(user="ada")

        def contents(query: str = "heron") -> list[Any]:
            return [match.content for match in ada.recall(query, threshold=0.5, limit=50)]

        assert contents() == []
        ada.set("bird", "heron")
        assert contents() == ["bird: heron"]
        before = clock.now()
        clock.advance(60)
        ada.set("bird", "otter")
        assert contents() == []
        assert contents("otter") == ["bird: otter"]
        assert [match.content for match in ada.recall("heron", as_of=before, threshold=0.5)] == ["bird: heron"]
        ada.delete("bird")
        assert contents("otter") == []
        kept = ada.remember("A heron at the weir", collection="notes")
        assert contents() == ["A heron at the weir"]
        ada.forget(kept.id, collection="notes")
        assert contents() == []
        core = ada.blocks.update("core", "- Feeds a heron\n- Owns a kayak", expected_updated_at=None)
        assert contents() == ["- Feeds a heron"]
        ada.blocks.update("core", "- Owns a kayak", expected_updated_at=core.updated_at)
        assert contents() == []
        ada.set("bird", "heron", ttl=60)
        assert contents() == ["bird: heron"]
        clock.advance(61)
        assert contents() == []
        ada.set("bird", "heron")
        ada.remember("A heron again", collection="notes")
        assert len(contents()) == 2
        memory.erase(user="ada")
        assert contents() == []

    def test_a_recall_of_everything_leaves_out_what_the_caller_may_not_read(self, memory: Memory) -> None:
        ada = _with_everything(memory)
        ada.set("diary.tuner", "The tuner is late")
        closed = Policy.of(allow=("memory",), access={"diary": "none", "collections.notes": "none"})
        limited = memory.acting_as("clerk", policy=closed).scope(user="ada")
        seen = [match.content for match in limited.recall("tuner", limit=50)]
        assert "The piano tuner comes on Thursday" not in seen
        assert not any("late" in str(content) for content in seen)
        assert "home city: Faro" in seen
        assert "diary tuner: The tuner is late" in [match.content for match in ada.recall("tuner", limit=50)]
        stranger = memory.acting_as("stranger", policy=Policy.of(allow=("definitions",))).scope(user="ada")
        assert_raises(Denied, stranger.recall, "tuner")

    def test_a_collection_that_does_not_exist_is_reported(self, memory: Memory) -> None:
        ada = _with_notes(memory)
        missing = ada.recall("boiler", collection="note")
        assert (missing.known, len(missing), list(missing)) == (False, 0, [])
        assert "note" in missing.hint
        there = ada.recall("boiler", collection="notes")
        assert there.known
        assert len(there) == there.count == len(list(there)) > 0
        assert ada.recall("boiler", collection="notes", namespace="none").known, "it exists, if nothing is found"

    def test_whether_others_have_a_collection_is_not_said(self, memory: Memory) -> None:
        _with_notes(memory)
        bob = memory.scope(user="bob")
        assert bob.recall("boiler", collection="notes") == bob.recall("boiler", collection="notes", limit=0)
        other = bob.recall("boiler", collection="never")
        asked = bob.recall("boiler", collection="notes")
        assert (asked.known, asked.hint) == (False, other.hint.replace("never", "notes"))
        assert (bob.collections(), [one.name for one in memory.scope(user="ada").collections()]) == ([], ["notes"])


EVERYTHING: tuple[tuple[str, Kind, str], ...] = (
    ("when does the piano tuner come?", "entry", "The piano tuner comes on Thursday"),
    ("which city is home?", "fact", "home city: Faro"),
    ("how is the customer addressed?", "record", "Customer Profile: Preferred name: Addie"),
    ("does she own a kayak?", "line", "- Owns a kayak"),
    ("is there a dog?", "line", "- Has a dog called Rex"),
)


def _with_everything(memory: Memory) -> ScopedMemory:
    """Return the memory of a user with something of each kind but messages."""
    ada = memory.scope(user="ada")
    ada.remember("The piano tuner comes on Thursday", collection="notes", metadata={"room": "hall"})
    ada.remember("Celadon turns green at cone six", collection="glazes")
    ada.set("home.city", "Faro")
    schema = {
        "type": "object",
        "properties": {
            "preferred_name": {
                "type": "string",
                "title": "Preferred name",
                "description": "How the customer wants to be addressed",
            }
        },
    }
    memory.definitions.create(name="Customer Profile", slug="customer_profile", scope="global", schema=schema)
    ada.set("customer_profile", {"preferred_name": "Addie"})
    ada.blocks.update("core", "- Owns a kayak", expected_updated_at=None)
    ada.blocks.update("archival", "- Has a dog called Rex\n- Pays by card", expected_updated_at=None)
    return ada
