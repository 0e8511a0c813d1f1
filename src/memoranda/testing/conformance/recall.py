"""Recall: scope, namespace, not expired, filter, score, threshold, limit, in this order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from memoranda.api.memory import DEFAULT_EMBEDDER, Memory
from memoranda.api.scoped import ScopedMemory
from memoranda.errors import InvalidFilter, LimitExceeded, UsageError
from memoranda.model.entry import MODES, Mode, Recalled
from memoranda.store.base import Store
from memoranda.testing.conformance.base import live_contents, recall_contents
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
            with pytest.raises(InvalidFilter) as caught:
                ada.recall(query, collection=collection, filter=filter)
            assert caught.value.path == path
            assert caught.value.hint
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
    def test_scores_lie_from_0_to_1_and_never_rise(self, memory: Memory, mode: Mode) -> None:
        ada = _with_notes(memory)
        for query in (*NOTES, "the key in the cellar", "INV-2041", "?", "submarine", "日本"):
            results = ada.recall(query, collection="notes", limit=100, mode=mode).results
            scores = [match.score for match in results]
            assert scores == sorted(scores, reverse=True)
            assert all(0.0 <= score <= 1.0 for score in scores)
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
        with pytest.raises(UsageError) as caught:
            ada.recall(**given)
        assert caught.value.hint
        if options.get("limit") == 1_001:
            assert isinstance(caught.value, LimitExceeded)
            assert caught.value.limit == memory.limits.recall
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
