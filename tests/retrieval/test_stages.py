"""Large indexes: candidates are chosen first, and the answers are those of comparing everything."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from memoranda.model.entry import MODES, Calibration, Indexed
from memoranda.model.trust import Origin
from memoranda.retrieval import coverage
from memoranda.retrieval import rank as ranking
from memoranda.retrieval.analysis.analyser import analyse, pack
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.embed.registry import resolve
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.index.spread import measure_spread
from memoranda.retrieval.index.vectors import PrunedTable
from memoranda.retrieval.rank import Ranked, crowd_in, embed_query, prepare, rank

EMBEDDER = Hashing(64)
ENTRIES = 4_000
_SOUNDS = "ka ro mi te lu sa no ve pi du go ha".split()
_WORDS = [one + other + third for one in _SOUNDS for other in _SOUNDS for third in ("n", "s", "r", "l")]
_SMALL = "the a was with and to in of at we".split()


def _word(source: random.Random) -> str:
    return _WORDS[int(len(_WORDS) * source.random() ** 3)]


def _talk(count: int, seed: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """Return texts of conversations: neighbours share words, and some texts are questions."""
    source = random.Random(seed)
    texts: list[tuple[str, dict[str, Any]]] = []
    while len(texts) < count:
        thread, about = f"thread {len(texts)}", [_word(source) for _ in range(12)]
        for _ in range(source.randrange(3, 30)):
            words = [source.choice((source.choice(_SMALL), source.choice(about), _word(source))) for _ in range(14)]
            text = " ".join(words[: source.randrange(4, 14)]).capitalize()
            about[source.randrange(12)] = _word(source)
            when = f"20{source.randrange(10, 26)}-0{source.randrange(1, 10)}-11T09:00:00Z"
            about_it = {"thread": thread, "actor": source.choice(("Ada", "Grace")), "time": when}
            texts.append((text + source.choice("...?"), about_it))
    return texts[:count]


def _questions(count: int) -> list[str]:
    source = random.Random(7)
    starts = ("When was the", "Who went to the", "How many", "What did Ada say of the", "")
    return [f"{source.choice(starts)} {' '.join(_word(source) for _ in range(4))}".strip() for _ in range(count)]


def _rows(texts: list[tuple[str, dict[str, Any]]], first: int = 1, origin: Origin | None = None) -> list[Indexed]:
    vectors = EMBEDDER.embed([text for text, _ in texts])
    return [
        Indexed(
            number,
            "",
            msgspec.json.encode(metadata),
            None,
            pack(analyse(text)),
            vector.astype("<f4").tobytes(),
            origin or Origin(),
        )
        for number, ((text, metadata), vector) in enumerate(zip(texts, vectors, strict=True), first)
    ]


def _index(rows: list[Indexed]) -> ShelfIndex:
    index = ShelfIndex(EMBEDDER.dimension)
    index.add(rows)
    index.was_ranked = True
    return index


@pytest.fixture(scope="module")
def talk() -> ShelfIndex:
    return _index(_rows(_talk(ENTRIES)))


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vectors of a twentieth of the entries are compared."""
    monkeypatch.setattr(ranking, "_COMPARED", ENTRIES // 20)
    monkeypatch.setattr(ranking, "_WORTH_CHOOSING", 1)
    monkeypatch.setattr(coverage, "_WORTH_NARROWING", 0)


def _ask(
    index: ShelfIndex,
    text: str,
    *,
    exact: bool,
    mode: Any = "hybrid",
    limit: int = 10,
    bound: bool = True,
    embedder: Any = EMBEDDER,
    **options: Any,
) -> Any:
    """Return an answer as recall does, ranked again if an origin has more than its share."""
    ranked: list[Ranked] = []
    for turn in range(2 if bound else 1):
        crowd = crowd_in(index, ranked, limit) if turn else None
        if turn and crowd is None:
            break
        once = index.has_several_origins
        prepared = prepare(index, text, now=0, mode=mode, copies_once=once, crowd=crowd)
        vector = None if mode == "keyword" else embed_query(embedder, prepared)
        stages_from = None if exact else 0
        ranked = rank(
            index,
            prepared,
            vector,
            mode=mode,
            now=0,
            limit=limit,
            calibration=Calibration(0.5, 10.0),
            exact=exact,
            stages_from=stages_from,
            **options,
        )
    return ranked


def _agreement(index: ShelfIndex, queries: list[str], **options: Any) -> tuple[float, float]:
    """Return the share of places on which both ways agree, and of matches that were ranked among candidates."""
    places = same = chosen = 0
    for query in queries:
        every = _ask(index, query, exact=True, **options)
        some = _ask(index, query, exact=False, **options)
        assert all(one.why.exact for one in every)
        places += max(len(every), len(some))
        same += sum(one.sequence == other.sequence for one, other in zip(every, some, strict=False))
        chosen += sum(not one.why.exact for one in some)
    return same / places, chosen / places


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_places_are_those_of_comparing_everything(talk: ShelfIndex, mode: str) -> None:
    same, chosen = _agreement(talk, _questions(60), mode=mode)
    assert same >= 0.99
    assert chosen >= 0.5, "candidates were chosen; few entries have a word of some questions, and those are ranked"


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_places_are_those_of_comparing_everything_where_cosines_are_estimated(mode: str) -> None:
    embedder = resolve("wordllama")
    index = ShelfIndex(embedder.dimension)
    index.vectors = PrunedTable(embedder.dimension, prune_from=1_000)
    texts = _talk(2_000)
    vectors = embedder.embed([text for text, _ in texts])
    rows = _rows(texts)
    index.add(
        msgspec.structs.replace(row, vector=vector.astype("<f4").tobytes())
        for row, vector in zip(rows, vectors, strict=True)
    )
    index.was_ranked = True
    same, chosen = _agreement(index, _questions(40), mode=mode, embedder=embedder)
    assert same >= 0.97, "hashed syllables are harder to compare than words"
    assert chosen == 1


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize(
    "options",
    [
        {"allowed": lambda numbers: numbers % 3 == 0},
        {"outdated": lambda numbers: numbers % 5 == 0},
        {"threshold": 0.3},
        {"most_alike": 2},
        {"min_trust": 1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_option_holds_among_candidates(talk: ShelfIndex, options: dict[str, Any]) -> None:
    same, chosen = _agreement(talk, _questions(40), **options)
    assert same >= 0.99
    assert chosen > 0.9


@pytest.mark.usefixtures("few_candidates")
def test_parts_and_scores_of_candidates_are_measured_in_the_whole_index(talk: ShelfIndex) -> None:
    for query in _questions(10):
        every = {one.sequence: one for one in _ask(talk, query, exact=True)}
        for one in _ask(talk, query, exact=False):
            if (same := every.get(one.sequence)) is not None:
                assert one.score == pytest.approx(same.score, abs=1e-6)
                assert one.why.parts == pytest.approx(same.why.parts, abs=2e-5)
                assert (one.why.matched, one.why.lexical) == (same.why.matched, same.why.lexical)


def test_adding_up_only_what_lends_to_some_rows_changes_no_bit(
    talk: ShelfIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(query: str, mode: str) -> Any:
        return _ask(talk, query, exact=True, mode=mode, allowed=lambda numbers: numbers % 9 == 4)

    for mode in ("hybrid", "keyword"):
        whole = [ask(query, mode) for query in _questions(20)]
        talk.count_cached(1 << 40)  # forget what is cached of terms
        with monkeypatch.context() as patched:
            patched.setattr(coverage, "_WORTH_NARROWING", 0)
            assert [ask(query, mode) for query in _questions(20)] == whole


@pytest.mark.usefixtures("few_candidates")
def test_what_a_filter_leaves_is_ranked_completely_if_it_is_little(talk: ShelfIndex) -> None:
    def allowed(numbers: Any) -> Any:
        return numbers % 40 == 7

    for query in _questions(20):
        every = _ask(talk, query, exact=True, allowed=allowed)
        some = _ask(talk, query, exact=False, allowed=allowed)
        assert [one.sequence for one in some] == [one.sequence for one in every]
        assert all(one.why.exact for one in some), "nothing that is allowed was left out"
        assert len(some) == 10
        assert _ask(talk, query, exact=False, allowed=lambda numbers: numbers < 0) == []


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("mode", MODES)
def test_g54_a_flood_of_near_duplicates_leaves_the_trusted_entry_in_the_answer(mode: Any) -> None:
    flood = [(f"The harbour fees go to account REEF-{number} at the Reef Bank {number}", {}) for number in range(3_000)]
    fact = ("The harbour fees go to account GULL-7 at the Tide Bank", {})
    others = [(f"The fees of the harbour pay for {number} cranes", {}) for number in range(12)]
    index = _index(_rows([*_talk(1_000), fact, *others]))
    index.add(_rows(flood, 2_000, Origin(actor="tool:web", kind="tool_external", trust="low")))
    question = "to which account do the harbour fees go"
    for limit in (3, 6, 10):
        found = _ask(index, question, exact=False, mode=mode, limit=limit)
        assert 1_001 in [one.sequence for one in found]
        assert len(found) == limit
        assert mode == "semantic" or not any(one.why.exact for one in found), "candidates were chosen"
        assert 1 <= sum(one.sequence >= 2_000 for one in found) <= -(-limit // 3)
    unbound = _ask(index, question, exact=False, mode=mode, limit=10, bound=False)
    assert sum(one.sequence >= 2_000 for one in unbound) >= 9, "without bounds the flood has the places"


@pytest.mark.usefixtures("few_candidates")
def test_a_misspelt_word_and_removed_entries(talk: ShelfIndex) -> None:
    index = _index(_rows([*_talk(ENTRIES - 1), ("The lighthouse keeper paints boats", {})]))
    (first, *_) = _ask(index, "lighthuose keeper", exact=False)
    assert (first.sequence, first.why.exact) == (ENTRIES, False)
    assert first.why.corrected
    index.remove([ENTRIES, *range(1, ENTRIES, 4)])
    same, chosen = _agreement(index, [*_questions(20), "lighthouse keeper"])
    assert same >= 0.99
    assert chosen > 0.9
    gone = {ENTRIES, *range(1, ENTRIES, 4)}
    assert not gone & {one.sequence for one in _ask(index, "lighthouse keeper", exact=False, limit=50)}


def test_small_indexes_first_recalls_and_long_answers_compare_everything(
    talk: ShelfIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_exact(index: ShelfIndex, limit: int = 1, stages_from: int | None = None) -> bool:
        prepared = prepare(index, "the boat", now=0)
        ranked = rank(
            index,
            prepared,
            embed_query(EMBEDDER, prepared),
            mode="hybrid",
            now=0,
            limit=limit,
            calibration=Calibration(0.5, 10.0),
            stages_from=stages_from,
        )
        return ranked[0].why.exact

    monkeypatch.setattr(ranking, "_COMPARED", 100)
    assert is_exact(talk), "it has fewer entries than are worth it"
    assert not is_exact(talk, stages_from=ENTRIES)
    assert is_exact(talk, stages_from=ENTRIES + 1)
    assert is_exact(talk, limit=100, stages_from=0)
    fresh = _index(_rows(_talk(ENTRIES)))
    fresh.was_ranked = False
    assert is_exact(fresh, stages_from=0)
    assert not is_exact(fresh, stages_from=0)


def test_the_spread_follows_the_index() -> None:
    rows = _rows(_talk(1_200))
    index = _index(rows[:1_000])
    query = EMBEDDER.embed(["the kan of ron"])[0]

    def measured(index: ShelfIndex) -> tuple[float, float, float]:
        present = np.arange(index.rows) if index.present is None else index.present.nonzero()[0]
        return measure_spread(index.vectors.matrix, index.context, present).of(query)

    assert index.spread.of(query) == measured(index)
    cosines = index.vectors.product(query)
    assert index.spread.of(query)[0] == pytest.approx(float(cosines.mean()), abs=1e-6)
    first = index.spread
    index.add(rows[1_000:1_005])
    assert index.spread is first, "little has changed"
    index.add(rows[1_005:])
    assert index.spread is not first
    assert index.spread.of(query) == measured(index)
    index.remove(range(1, 400))
    assert index.spread.of(query) == measured(index)
