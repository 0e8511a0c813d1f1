"""The ranking compared with a slow, literal implementation of its formula, without caches."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.model.entry import Indexed
from memoranda.retrieval.analysis.analyser import Features, unpack
from memoranda.retrieval.analysis.dates import date_terms, read_day
from memoranda.retrieval.analysis.query import Expects
from memoranda.retrieval.embed.hashing import Hashing
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.rank import PreparedQuery, embed_query, prepare, rank

EMBEDDER = Hashing(64)


class Entry:
    """One entry of the slow version."""

    def __init__(self, row: Indexed) -> None:
        text = unpack(row.analysis)
        metadata = msgspec.json.decode(row.metadata)
        self.sequence = row.sequence
        self.counts = dict(zip(text.terms.split(), text.counts, strict=True))
        self.length = text.length
        self.asks = bool(text.features & Features.QUESTION)
        self.features, self.names = text.features, text.names
        self.vector = np.frombuffer(row.vector, "<f4").astype(np.float64)
        self.actor = str(metadata["actor"]).casefold() if "actor" in metadata else None
        self.day = read_day(metadata.get("time"))
        self.fields = {self.actor} if self.actor else set()
        if self.day:
            self.fields |= set(date_terms(self.day, text.language))
        self.thread = (row.namespace, metadata.get("thread", metadata.get("session")))
        self.previous: Entry | None = None
        self.next: Entry | None = None
        self.trust = 0.0


def recurring(group: list[Entry], links: int) -> float:
    """Return how much more often a rare word recurs in the next entry than by chance."""
    count = len(group)
    holders = {word: [entry for entry in group if word in entry.counts] for entry in group for word in entry.counts}
    rare = {word: found for word, found in holders.items() if 2 <= len(found) <= max(4, count // 50)}
    occurrences = sum(map(len, rare.values()))
    chance = sum(links * len(found) * (len(found) - 1) / (count * (count - 1)) for found in rare.values())
    recurs = sum(
        1 for word, found in rare.items() for entry in found if entry.previous and word in entry.previous.counts
    )
    return max(recurs - chance - 2 * math.sqrt(recurs), 0) / max(occurrences, 1)


def need(entries: list[Entry]) -> float:
    """Return how much texts need from others, by their lengths."""
    lengths = [min(entry.length, 64) for entry in entries]
    return min(1, 20 * sum(lengths) / max(sum(length**2 for length in lengths), 1))


def link(entries: list[Entry]) -> None:
    """Chain the entries of each thread and measure how far neighbours can be trusted."""
    last: dict[Any, Entry] = {}
    for entry in entries:
        before = last.get(entry.thread)
        if before:
            before.next, entry.previous = entry, before
        last[entry.thread] = entry
    for kind in {(entry.thread[0], entry.thread[1] is not None) for entry in entries}:
        group = [entry for entry in entries if (entry.thread[0], entry.thread[1] is not None) == kind]
        linked = [entry for entry in group if entry.previous]
        cohesive = min(max((recurring(group, len(linked)) - 0.025) / 0.045, 0), 1)
        if linked and kind[1]:
            beside = [float(entry.vector @ entry.previous.vector) for entry in linked if entry.previous]
            others = [float(a.vector @ b.vector) for a in group for b in group if a is not b]
            chance = sum(others) / len(others)
            if chance < 0.999:
                measured = (sum(beside) / len(beside) - chance) / (1 - chance)
                cohesive = max(cohesive, min(max((measured - 0.01) / 0.07, 0), 1))
        at_first = 1.0 if kind[1] else 0.0
        for entry in group:
            entry.trust = (20**2 * at_first + len(linked) ** 2 * cohesive) / (20**2 + len(linked) ** 2)
            entry.trust *= need([other for other in group if other.thread == entry.thread])


def totals(entries: list[Entry], prepared: PreparedQuery, vector: Any) -> dict[int, dict[str, float]]:
    """Return the parts of every entry, by sequence."""
    count = len(entries)
    mean_length = max(sum(entry.length for entry in entries) / count, 1)
    questions = (sum(entry.asks for entry in entries if entry.length) + 1) / (count + 20)
    talk = min(questions / 0.05, 1) * need(entries)
    talk = 0 if talk < 0.05 else talk

    def text(entry: Entry | None, stems: tuple[str, ...]) -> float:
        often = sum(entry.counts.get(stem, 0) for stem in stems) if entry else 0
        if not entry or not often:
            return 0.0
        return often * 2.2 / (often + 1.2 * (0.4 + 0.6 * entry.length / mean_length))

    def own(entry: Entry, stems: tuple[str, ...]) -> float:
        return text(entry, stems) + (1 if entry.fields & set(stems) else 0)

    def around(entry: Entry) -> list[tuple[Entry | None, float, float]]:
        previous, following = entry.previous, entry.next
        of_previous = 0.8 if previous and previous.asks else 0.4
        return [
            (previous, of_previous, of_previous),
            (following, 0.3, 0.3),
            (previous.previous if previous else None, 0.2, 0.2),
            (following.next if following else None, 0.2, 0.1),
        ]

    terms: list[tuple[tuple[str, ...], float]] = []
    for term in prepared.terms:
        holders = sum(1 for entry in entries if own(entry, term.stems))
        if holders:
            terms.append(
                (term.stems, math.log(1 + (count - holders + 0.5) / (holders + 0.5)) * term.trust * term.count)
            )
    asked = sum(rarity for _, rarity in terms)

    cosines = {id(entry): float(entry.vector @ vector) for entry in entries}
    middle = sum(cosines.values()) / count
    near = {place: cosine - middle for place, cosine in cosines.items()}
    dense = {
        id(entry): near[id(entry)]
        + entry.trust * sum(weight * near[id(other)] for other, _, weight in around(entry) if other)
        for entry in entries
    }
    middle = sum(dense.values()) / count
    variance = sum((one - middle) ** 2 for one in dense.values()) / count
    spread = math.sqrt((count * variance + 20 * 0.12**2) / (count + 20))

    words = {stem for term in prepared.terms for stem in term.stems}
    named = {entry.actor for entry in entries if entry.actor in words}
    query = prepared.query
    parts: dict[int, dict[str, float]] = {}
    for entry in entries:
        alone = whole = 0.0
        for stems, rarity in terms:
            speaks = own(entry, stems)
            alone += rarity * speaks / (speaks + 1)
            lent = sum(weight * text(other, stems) for other, weight, _ in around(entry))
            if entry.thread[1] is not None and (entry.previous or entry.next):
                lent += 0.1 * max(text(other, stems) for other in entries if other.thread == entry.thread)
            speaks += entry.trust * lent
            whole += rarity * speaks / (speaks + 1)
        answers = 0.0
        if entry.features & query.expects & (Expects.TEMPORAL | Expects.NUMERAL):
            answers = 1.0
        if query.expects & Expects.NAME:
            answers = max(answers, min(1.0, math.log1p(entry.names)))
        dated = entry.day is not None and (
            (not query.years or entry.day.year in query.years) and (not query.months or entry.day.month in query.months)
        )
        different = len(entry.counts)
        parts[entry.sequence] = {
            "coverage": 2 * alone / asked if asked else 0,
            "context": 2 * (whole - alone) / asked if asked else 0,
            "dense": 0.10 * (dense[id(entry)] - middle) / spread,
            "actor": 0.15 if len(named) == 1 and entry.actor in named else 0,
            "date": 0.40 if (query.years or query.months) and dated else 0,
            "answer": 0.35 * talk * answers,
            "question": -0.15 * talk if entry.asks else 0,
            "information": 0.30 * talk * different / (different + 6),
        }
    return parts


def linked(entries: list[Entry], prepared: PreparedQuery, base: dict[int, float]) -> dict[int, float] | None:
    """Return what each entry gains from the five first results; None if it is not clear which these are."""
    count = len(entries)
    mean_length = max(sum(entry.length for entry in entries) / count, 1)
    first = sorted(entries, key=lambda entry: (-round(base[entry.sequence], 5), entry.sequence))
    amounts = [base[entry.sequence] for entry in first]
    if any(abs(one - other) < 3e-5 for one, other in pairwise(amounts)) or abs(amounts[0]) < 1e-4:
        return None

    def text(entry: Entry, stems: tuple[str, ...]) -> float:
        often = sum(entry.counts.get(stem, 0) for stem in stems)
        return often * 2.2 / (often + 1.2 * (0.4 + 0.6 * entry.length / mean_length)) if often else 0.0

    def covered(entry: Entry, stems: tuple[str, ...]) -> float:
        own = text(entry, stems) + (1 if entry.fields & set(stems) else 0)
        return min(2 * own / (own + 1), 1)

    terms: list[tuple[tuple[str, ...], float]] = []
    for term in prepared.terms:
        holders = sum(1 for entry in entries if covered(entry, term.stems))
        if holders:
            weight = math.log(1 + (count - holders + 0.5) / (holders + 0.5)) * term.trust * term.count
            terms.append((term.stems, weight))
    asked = sum(weight for _, weight in terms)
    stems_asked = {stem for stems, _ in terms for stem in stems}
    gains = {entry.sequence: 0.0 for entry in entries}
    for result in first[:5] if terms and amounts[0] > 0 else []:
        trust = 1 - (amounts[0] - base[result.sequence]) / (amounts[0] * 0.5)
        for entry in entries:
            if entry is result or trust <= 0:
                continue
            strength = 0.0
            for word in (result.counts.keys() & entry.counts.keys()) - stems_asked:
                holders = sum(1 for other in entries if word in other.counts)
                if holders <= 3:
                    rarity = math.log(1 + (count - holders + 0.5) / (holders + 0.5)) / math.log(1 + count)
                    strength = max(strength, rarity * text(entry, (word,)) ** 3)
            of_both = [(weight / asked, covered(result, stems), covered(entry, stems)) for stems, weight in terms]
            added = sum(share * (1 - min(2 * one, 1)) * other for share, one, other in of_both)
            floor = 0.06 * (1 - sum(share * other for share, _, other in of_both))
            together = sum(share * one for share, one, _ in of_both) + added
            gain = 3 * trust * strength / (strength + 2) * (added + floor) * together
            gains[entry.sequence] = max(gains[entry.sequence], gain)
    return {sequence: gain if gain > 1e-3 else 0.0 for sequence, gain in gains.items()}


def is_a_conversation(entries: list[Entry]) -> bool | None:
    """Return whether entries are a conversation in its course, which has no second step; None if that is not clear."""
    spoken = [entry for entry in entries if entry.length]
    questions = (sum(entry.asks for entry in spoken) + 1) / (len(entries) + 20)
    course = sum(entry.trust for entry in spoken) / len(spoken) if spoken else 0
    talk = min(questions / 0.05, 1) * need(entries)
    return None if min(abs(course - 0.5), abs(talk - 0.5)) < 1e-3 else talk > 0.5 and course > 0.5


_WORDS = "boat harbour rope anchor storm seven Tuesday captain lighthouse Brest map engine the was in is".split()
_TEXTS = st.builds(
    lambda words, end: " ".join(words) + end, st.lists(st.sampled_from(_WORDS), max_size=9), st.sampled_from([".", "?"])
)
_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "thread": st.sampled_from(["north", "south", 7]),
        "actor": st.sampled_from(["Ada", "Grace", "Linus"]),
        "time": st.sampled_from(["2023-05-08T10:00:00Z", "2023-11-30", "2024-05-01"]),
    },
)
_QUERIES = st.builds(
    " ".join,
    st.lists(
        st.sampled_from([*_WORDS, "Ada", "Grace", "when", "who", "how many", "in May 2023", "of 2024", "anchr"]),
        min_size=1,
        max_size=7,
    ),
)


@given(
    entries=st.lists(st.tuples(_TEXTS, _METADATA, st.sampled_from(["", "other"])), min_size=1, max_size=25),
    gone=st.sets(st.integers(1, 25), max_size=8),
    query=_QUERIES,
)
def test_every_total_is_the_sum_that_the_formula_says(
    make_rows: Any, entries: list[tuple[str, dict[str, Any], str]], gone: set[int], query: str
) -> None:
    rows = [
        row
        for place, (text, metadata, namespace) in enumerate(entries)
        for row in make_rows([(text, metadata)], first=place + 1, namespace=namespace)
    ]
    index = ShelfIndex(EMBEDDER.dimension)
    index.add(rows)
    index.remove(gone)
    standing = [Entry(row) for row in rows if row.sequence not in gone]
    prepared = prepare(index, query, now=0)
    vector = embed_query(EMBEDDER, prepared)

    ranked = rank(index, prepared, vector, mode="hybrid", now=0, limit=100, calibration=EMBEDDER.calibration)

    assert len(ranked) == len(standing)
    if not standing:
        return
    link(standing)
    expected = totals(standing, prepared, vector)
    gains = linked(standing, prepared, {sequence: sum(parts.values()) for sequence, parts in expected.items()})
    without = is_a_conversation(standing)
    if gains is None or without is None:
        return
    gains = dict.fromkeys(gains, 0.0) if without else gains
    for one in ranked:
        parts = expected[one.sequence]
        parts["linked"] = gains[one.sequence]
        for name, amount in parts.items():
            assert one.why.parts.get(name, 0) == pytest.approx(amount, abs=1e-3 if name == "linked" else 2e-5), name
        assert one.why.total == pytest.approx(sum(parts.values()), abs=1.1e-3)
    order = [sum(expected[one.sequence].values()) for one in ranked]
    assert all(before >= after - 2.2e-3 for before, after in pairwise(order))
