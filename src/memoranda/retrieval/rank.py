"""Prepare a query for an index, and rank its entries by the query and its vector, with the reasons for each place.

Preparing finds the terms of the query, their weights by inverse document frequency, and what to embed. Only the vector
of the query is weighted, so that names which every entry contains count little. Stored vectors are not, so nothing has
to be embedded again when other entries are added.

Entries are ordered by a sum of parts. A part is zero if its data is missing, so entries without threads, actors or
times are ranked by words and vectors alone.

- **coverage**: the query's terms that the entry contains, weighted by inverse document frequency, with a limit to how
  much one term contributes.
- **context**: the same with the terms of its neighbours in the thread. The evidence is added up term by term before it
  is limited, so neighbours with *other* terms of the query contribute more than those that repeat one.
- **dense**: the similarity of the vectors, of the entry and a little of its neighbours, relative to the whole index.
- **actor**, **date**: the query names an actor, a year or a month, and the entry has it.
- **answer**: the query asks for a time, a number or a name, and the text contains one.
- **question**: the text itself is a question, so it says little. **information**: it has many different words.
- **outdated**: it states what is no longer true.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.model.entry import Calibration, Mode, Why
from memoranda.retrieval.analysis.query import Expects, Query, idf, read_query
from memoranda.retrieval.embed.base import Embedder, Vectors
from memoranda.retrieval.filter import Filter
from memoranda.retrieval.index.columns import NO_ACTOR
from memoranda.retrieval.index.neighbours import text_evidence
from memoranda.retrieval.index.postings import Evidence, TermPostings, unpack_postings
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.index.vectors import kth_bound
from memoranda.retrieval.influence import NEAR, Crowd, Origins, bound_places, crowd_of

# For the vector, a stop word has the weight of a word in this share of the entries: "when" means something.
_STOP_WORD_SHARE = 0.2
# A corrected word weighs less than one that was found as written.
_CORRECTION_WEIGHT = 0.7
_SHORTEST_CORRECTED = 4
_LONGEST_CORRECTED = 32
# Scripts with more letters than this are not typed letter by letter.
_MOST_LETTERS = 80
# Words in more than this share of the entries are removed for an embedder that reads whole texts.
_TOO_FREQUENT = 0.3


class Term(msgspec.Struct, frozen=True, gc=False):
    """A word of a query, or several with the same stems, and the stems to search for."""

    word: str
    stems: tuple[str, ...]
    trust: float = 1.0


class PreparedQuery(msgspec.Struct, frozen=True):
    """A query, prepared for one index."""

    query: Query
    terms: tuple[Term, ...]
    """Its distinct words without stop words."""
    corrected: dict[str, str]
    """Words that no entry contains, and the correction that is searched instead."""
    words: tuple[str, ...]
    """All words, for an embedder that takes weights, with `weights`."""
    weights: tuple[float, ...]
    text: str
    """The text without very frequent words, for an embedder that reads whole texts."""
    copies_once: bool = False
    """Whether texts with the same words are counted once."""
    crowd: Crowd | None = None
    """Whose texts do not count for how telling a word is."""


def prepare(
    index: ShelfIndex,
    text: str,
    *,
    now: int,
    mode: Mode = "hybrid",
    copies_once: bool = False,
    crowd: Crowd | None = None,
) -> PreparedQuery:
    """Prepare a query for an index at a time in microseconds, as far as ranking in this mode needs it.

    With `copies_once`, a thousand entries with the same words make these words no more frequent than one of them does;
    with a `crowd`, what it says makes none more frequent.
    """
    with index.lock:
        index.expire(now)
        # "" matches words as written: actors are searched by their unstemmed names.
        query = read_query(text, (*index.languages, ""), words_only=mode != "hybrid")
        terms: dict[tuple[str, ...], Term] = {}
        corrected: dict[str, str] = {}
        for word in query.words:
            if word.stop or word.stems in terms:
                continue
            term = Term(word.text, word.stems)
            if not index.find(term.stems).size and (found := index.correction(word.stems[0], _correct)) is not None:
                corrected[word.text] = found
                term = Term(word.text, (found,), _CORRECTION_WEIGHT)
            terms[word.stems] = term
        distinct = tuple(terms.values())
        postings = [index.find(term.stems) for term in distinct]
        frequencies, entries = _frequencies(index, postings, copies_once, crowd)
        counted = list(zip(distinct, frequencies, strict=True))
        weight_of = {
            stems: idf(frequency, entries) * term.trust for stems, (term, frequency) in zip(terms, counted, strict=True)
        }
        stop_weight = idf(_STOP_WORD_SHARE * entries, entries)
        weights = [stop_weight if word.stop else weight_of[word.stems] for word in query.words]
        frequent = [term.word for term, frequency in counted if frequency > _TOO_FREQUENT * entries]
        # A query of frequent words only is left as it is: better than an empty one.
        shortened = _without(text, frequent) if len(frequent) < len(distinct) else text
        words = tuple([word.text for word in query.words])
        return PreparedQuery(query, distinct, corrected, words, tuple(weights), shortened, copies_once, crowd)


def _frequencies(
    index: ShelfIndex, found: Sequence[TermPostings], copies_once: bool, crowd: Crowd | None
) -> tuple[list[int], int]:
    """Return how many entries contain each of some terms, and how many entries there are."""
    if crowd is not None:
        others = crowd.others(_origins(index))
        entries = int(np.count_nonzero(others if index.present is None else others & index.present))
        rows = [unpack_postings(one.postings)[0] if one.evidence is None else one.evidence.rows for one in found]
        counts = [int(np.count_nonzero(others.take(of_term))) for of_term in rows]
        return [max(count, min(one.size, 1)) for count, one in zip(counts, found, strict=True)], max(entries, 1)
    sizes = [one.size for one in found]
    if not copies_once:
        return sizes, len(index)
    frequencies = [index.frequency(one) for one in found]
    # Only copies with a word of the query change its weights.
    copies = max([size - one for size, one in zip(sizes, frequencies, strict=True)], default=0)
    return frequencies, len(index) - copies


def embed_query(embedder: Embedder, prepared: PreparedQuery) -> Vectors:
    """Return the vector of a prepared query."""
    weighting: Any = getattr(embedder, "embed_weighted", None)
    if weighting is not None:
        return weighting(prepared.words, prepared.weights)[0]
    return embedder.embed([prepared.text])[0]


def _without(text: str, words: list[str]) -> str:
    if not words:
        return text
    taken = re.sub(rf"\b(?:{'|'.join(map(re.escape, words))})\b", "", text)
    return " ".join(taken.split())


def _correct(index: ShelfIndex, stem: str) -> str | None:
    """Return the indexed word that was probably meant by one that no entry contains, or None.

    It is one edit away: a letter inserted, deleted or replaced, or two letters swapped. A word with the same first
    letter is preferred, as people rarely mistype it, and then the more frequent word.
    """
    if not (_SHORTEST_CORRECTED <= len(stem) <= _LONGEST_CORRECTED and stem.isalpha()):
        return None
    blocks = {ord(letter) >> 8 for letter in stem}
    letters = [letter for letter in index.postings.letters if ord(letter) >> 8 in blocks and letter.isalpha()]
    if len(letters) > _MOST_LETTERS:
        return None
    near = index.postings.vocabulary(_one_edit_away(stem, letters))
    meant = [(word[0] == stem[0], index.find((word,)).size, word) for word in near]
    return max((one for one in meant if one[1]), default=(False, 0, None))[2]


def _one_edit_away(word: str, letters: list[str]) -> set[str]:
    cuts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    less = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    other = {left + letter + right[1:] for left, right in cuts if right for letter in letters}
    more = {left + letter + right for left, right in cuts for letter in letters}
    return (less | swapped | other | more) - {word, ""}


Numbers = NDArray[np.floating[Any]]
Places = NDArray[np.intp]

# Weights are relative to coverage, which runs from 0 to 2. Any of them can be halved or doubled without much harm, as
# long as neighbours together keep a large weight.
_COVERAGE = 2.0
_DENSE = 0.10
_ACTOR = 0.15
_DATE = 0.40
_ANSWER = 0.35
_QUESTION = -0.15
_OUTDATED = -0.60
_INFORMATION = 0.30

# The usual standard deviation of cosines, and the number of entries from which the measured one counts more.
_USUAL_SPREAD, _ENTRIES_BEFORE_SPREAD = 0.12, 20

# Decimals of the amounts in `Why`.
_SHOWN = 6
# Totals that agree to this many decimals are equal, and then the older entry comes first: matrix products of equal rows
# differ beyond.
_DIGITS = 5
_WITHIN_ROUNDING = 1.1 * 10**-_DIGITS
Mask = NDArray[np.bool_]
Allowed = Callable[[NDArray[np.int64]], Mask]
"""Says which of these entries, by their sequence numbers, may be returned."""

# Plain integers: combining flags takes longer than comparing the features of all rows.
_SEEN, _NAME = int(Expects.TEMPORAL | Expects.NUMERAL), int(Expects.NAME)


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A ranked entry, by its sequence number; `before` and `after` are its neighbours in the thread."""

    sequence: int
    score: float
    why: Why
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


def rank(
    index: ShelfIndex,
    prepared: PreparedQuery,
    vector: Numbers | None,
    *,
    mode: Mode,
    now: int,
    limit: int,
    calibration: Calibration,
    where: Filter | None = None,
    allowed: Allowed | None = None,
    outdated: Allowed | None = None,
    threshold: float = 0.0,
    expand: int = 0,
    most_alike: int | None = None,
    min_trust: int = 0,
) -> list[Ranked]:
    """Return the best entries for a query, at most `limit`, without those that score below the threshold.

    Only entries that match the filter and are allowed are returned, but others lend them context. Those that are
    outdated come after what is true now. Without a vector, meaning is not compared. The mode `semantic` compares
    nothing else; `keyword` returns only entries that contain a word of the query.

    At most `most_alike` come from one source, and as many of one source say the same in the same words. What is
    trusted less than `min_trust`, as `RANK_OF` numbers it, is left out. If the query was prepared with a crowd, no
    origin has more than its share (`influence`).
    """
    with index.lock:
        index.expire(now)
        eligible = _eligible(index, where, allowed, min_trust)
        bound = prepared.crowd is not None
        if limit <= 0 or not len(index):
            return []
        if mode == "semantic":
            order = _by_vector(index, vector, eligible, limit, calibration, bound)
        else:
            old = None if outdated is None else outdated(index.sequence)
            order = _by_parts(
                index, prepared, vector, eligible, old, limit, calibration, mode, threshold, most_alike, bound
            )
        sequence: NDArray[np.int64] = index.sequence
        ranked: list[Ranked] = []
        for row, why in order:
            if why.relevance < threshold:
                continue
            if index.has_several_origins and (restated := index.restatements(row)):
                why = msgspec.structs.replace(why, restated=restated)
            number = int(sequence[row])
            if not expand:
                ranked.append(Ranked(sequence=number, score=why.relevance, why=why))
                continue
            before, after = (tuple(sequence[rows].tolist()) for rows in index.threads.around(row, expand))
            ranked.append(Ranked(sequence=number, score=why.relevance, why=why, before=before, after=after))
        return ranked


def crowd_in(index: ShelfIndex, ranked: Sequence[Ranked], limit: int) -> Crowd | None:
    """Return the origins that have more than their share of an answer; None if no origin has."""
    if not index.has_several_origins:
        return None
    with index.lock:
        return crowd_of(index.origins_in_index([one.sequence for one in ranked]), limit)


_Order = list[tuple[int, Why]]


def _eligible(index: ShelfIndex, where: Filter | None, allowed: Allowed | None, min_trust: int) -> Mask | None:
    """Return which rows may be returned, None for all."""
    eligible = index.present
    if min_trust:
        mask = index.trust >= min_trust
        eligible = mask if eligible is None else mask & eligible
    if where is not None:
        mask = index.columns.mask(where)
        eligible = mask if eligible is None else mask & eligible
    if allowed is not None:
        mask = allowed(index.sequence)
        eligible = mask if eligible is None else mask & eligible
    return eligible


def _by_vector(
    index: ShelfIndex,
    vector: Numbers | None,
    eligible: Mask | None,
    limit: int,
    calibration: Calibration,
    bound: bool,
) -> _Order:
    if vector is None:
        return []
    rows, cosines = index.vectors.top(vector, limit, eligible)
    if bound:
        every = index.vectors.product(vector)
        totals = every if eligible is None else np.where(eligible, every, np.float32(-np.inf))
        rows = bound_places(totals, _origins(index), lambda: every >= _cosine_of(NEAR, calibration), _best, limit)
        cosines = every.take(rows)
    relevances = relevance(cosines.astype(np.float64), calibration)
    return [
        (row, Why(mode="semantic", relevance=near, total=cosine, parts={"dense": cosine}, cosine=cosine))
        for row, near, cosine in zip(rows.tolist(), relevances.tolist(), cosines.tolist(), strict=True)
    ]


def _by_parts(
    index: ShelfIndex,
    prepared: PreparedQuery,
    vector: Numbers | None,
    eligible: Mask | None,
    outdated: Mask | None,
    limit: int,
    calibration: Calibration,
    mode: Mode,
    threshold: float,
    most_alike: int | None,
    bound: bool,
) -> _Order:
    coverage = cover(index, prepared.terms, copies_once=prepared.copies_once, crowd=prepared.crowd)
    lexical = coverage.lexical
    parts, cosines = ([], None) if mode == "keyword" else _other_parts(index, prepared, vector)
    if outdated is not None:
        parts.append(_Part("outdated", outdated, _OUTDATED))
    if mode == "keyword":
        matches = lexical > 0
        eligible = matches if eligible is None else eligible & matches
    # Neighbours count whether they are eligible or not; from here on only eligible rows do. If they are most of all
    # rows, it is quicker to leave the others out at the end: what is known of terms is cached for all rows.
    few = eligible is not None and 2 * np.count_nonzero(eligible) < len(eligible)
    found = eligible.nonzero()[0] if eligible is not None and few else None
    whole = coverage.whole(index, found)
    if found is not None:
        lexical = lexical.take(found)
        parts = [part._replace(amounts=part.amounts.take(found)) for part in parts]
        cosines = None if cosines is None else cosines.take(found)
    amounts = _amounts(parts, len(whole))
    totals = _COVERAGE * whole
    totals += np.add.reduce(amounts, axis=0)
    if threshold > 0:
        # Those below it leave their places to others.
        relevances = lexical if cosines is None else combine(relevance(cosines, calibration), lexical)
        totals[relevances < threshold] = -np.inf
    if eligible is not None and not few:
        totals[~eligible] = -np.inf

    def is_match() -> Mask:
        shares_word: Mask = lexical > 0
        return shares_word if cosines is None else shares_word | (cosines >= _cosine_of(NEAR, calibration))

    if most_alike is not None:
        best_of = functools.partial(_best_of_many, index, found, most_alike)
    else:
        best_of = _best
    if bound:
        origins = _origins(index) if found is None else _origins(index).take(found)
        best = bound_places(totals, origins, is_match, best_of, limit)
    else:
        best = best_of(totals, limit)
    best = best[totals.take(best) > -np.inf]
    if not len(best):
        return []
    near, lexical = None, lexical.take(best)
    relevances = lexical
    if cosines is not None:
        near = cosines.take(best)
        relevances = combine(relevance(near, calibration), lexical)
    rows = best if found is None else found.take(best)
    own, matched = coverage.own(rows)
    names = ["coverage", "context", *(part.name for part in parts)]
    details = zip(
        _explanations(whole.take(best), own, amounts.take(best, axis=1)),
        relevances.tolist(),
        repeat(None) if near is None else near.tolist(),
        lexical.tolist(),
        matched,
        strict=False,
    )
    reasons = [
        Why(
            mode=mode,
            relevance=relevant,
            total=math.fsum(explanation),
            parts={name: amount for name, amount in zip(names, explanation, strict=True) if amount},
            cosine=cosine,
            lexical=shared,
            matched=words,
            corrected=prepared.corrected,
        )
        for explanation, relevant, cosine, shared, words in details
    ]
    return list(zip(rows.tolist(), reasons, strict=True))


class _Part(NamedTuple):
    """A part of the totals."""

    name: str
    amounts: Numbers | Mask
    """By row."""
    weight: float


def _other_parts(
    index: ShelfIndex, prepared: PreparedQuery, vector: Numbers | None
) -> tuple[list[_Part], Numbers | None]:
    """Return the parts besides coverage, and the cosine of each row if vectors are compared."""
    parts = _priors(index, prepared)
    if vector is None:
        return parts, None
    cosines = index.vectors.product(vector)
    return [*parts, _dense(index, cosines)], cosines


def _amounts(parts: list[_Part], rows: int) -> Numbers:
    """Return the amount of each part (a line) for each row."""
    amounts = np.empty((len(parts), rows), np.float32)
    for line, part in zip(amounts, parts, strict=True):
        np.multiply(part.amounts, np.float32(part.weight), out=line)
    return amounts


def _best(totals: Numbers, limit: int) -> Places:
    """Return the places of the highest totals, ties in age order."""
    if limit >= len(totals):
        return (-totals.round(_DIGITS)).argsort(kind="stable")
    leading = (totals >= kth_bound(totals, limit) - _WITHIN_ROUNDING).nonzero()[0]
    return leading.take((-totals.take(leading).round(_DIGITS)).argsort(kind="stable")[:limit])


def _origins(index: ShelfIndex) -> Origins:
    return Origins(index.trust, index.origin)


def _best_of_many(index: ShelfIndex, rows: Places | None, most: int, totals: Numbers, limit: int) -> Places:
    """Return the places of the highest totals, at most `most` of one source and `most` copies of one text.

    What says the same has the same words and source. A text with other words between ("is not") has the same here, so
    several of them are returned; but a text of another source is never left out for it.
    """
    source, likeness = index.source, index.likeness
    if rows is not None:
        source, likeness = source.take(rows), likeness.take(rows)
    left, chosen = totals, list[int]()
    of_source, of_text = Counter[int](), Counter[tuple[int, int]]()
    while True:
        best = _best(left, 2 * limit)
        best = best[left.take(best) > -np.inf]
        for place, origin, words in zip(
            best.tolist(), source.take(best).tolist(), likeness.take(best).tolist(), strict=True
        ):
            if (origin and of_source[origin] == most) or (words & 1 and of_text[origin, words] == most):
                continue
            chosen.append(place)
            of_source[origin] += 1
            of_text[origin, words] += 1
            if len(chosen) == limit:
                return np.array(chosen, np.intp)
        if not len(best):
            return np.array(chosen, np.intp)
        # Others are hidden behind those of which there are enough.
        left = left.copy() if left is totals else left
        left[best] = -np.inf
        enough = [origin for origin, count in of_source.items() if origin > 0 and count == most]
        left[np.isin(source, enough)] = -np.inf
        for (origin, words), count in of_text.items():
            if words & 1 and count == most:
                left[(likeness == words) & (source == origin)] = -np.inf


def _explanations(whole: Numbers, own: list[float], others: Numbers) -> list[list[float]]:
    """Return for each row the rounded amount of each part: coverage, context and the others."""
    amounts = np.empty((2 + len(others), len(own)))
    amounts[0] = own
    np.subtract(whole, amounts[0], out=amounts[1])
    amounts[:2] *= _COVERAGE
    amounts[2:] = others
    return amounts.round(_SHOWN).T.tolist()


def _dense(index: ShelfIndex, cosines: Numbers) -> _Part:
    """Return the similarity of each row and its neighbours, in standard deviations from the mean of the index."""
    context, entries = index.context, len(index)
    # The last place is for missing neighbours: they count as average.
    near = np.empty(index.rows + 1, np.float32)
    own = near[:-1]
    np.subtract(cosines, np.add.reduce(_of_present(index, cosines)) / np.float32(entries), out=own)
    near[-1] = 0
    of_neighbours = near.take(context.beside[:4])
    of_neighbours *= context.sense
    together = np.add.reduce(of_neighbours, axis=0)
    together += own
    seen = _of_present(index, together)
    mean = float(np.add.reduce(seen)) / entries
    variance = max(float(np.add.reduce(seen * seen)) / entries - mean * mean, 0.0)
    spread = (entries * variance + _ENTRIES_BEFORE_SPREAD * _USUAL_SPREAD**2) / (entries + _ENTRIES_BEFORE_SPREAD)
    together -= np.float32(mean)
    return _Part("dense", together, _DENSE / math.sqrt(spread))


def _of_present(index: ShelfIndex, numbers: Numbers) -> Numbers:
    return numbers if index.present is None else numbers[index.present]


def _priors(index: ShelfIndex, prepared: PreparedQuery) -> list[_Part]:
    """Return the parts that depend on what an entry is and not on what it says."""
    query, context = prepared.query, index.context
    parts = [_Part("question", context.asks, _QUESTION), _Part("information", context.informs, _INFORMATION)]
    actor = index.fields.actor_named([stem for term in prepared.terms for stem in term.stems])
    if actor != NO_ACTOR:
        parts.append(_Part("actor", index.fields.actor == actor, _ACTOR))
    if query.years or query.months:
        parts.append(_Part("date", _date_matches(index, query.years, query.months), _DATE))
    if query.expects:
        parts.append(_Part("answer", _answer_matches(index, query.expects), _ANSWER))
    return parts


def _date_matches(index: ShelfIndex, years: frozenset[int], months: frozenset[int]) -> Mask:
    """Return which rows are of one of the years and one of the months; an empty set allows any."""
    mask = index.fields.year != 0
    for column, wanted in ((index.fields.year, years), (index.fields.month, months)):
        if wanted:
            mask &= np.logical_or.reduce([column == one for one in wanted])
    return mask


def _answer_matches(index: ShelfIndex, expects: int) -> Numbers | Mask:
    """Return to what degree each text contains the expected kind of answer, from 0 to 1."""
    # `Expects` and `Features` share these bits.
    answering = (index.features & np.uint8(expects & _SEEN)) != 0
    if expects & _NAME:
        return np.maximum(_WITH_NAMES.take(index.names, mode="clip"), answering)
    return answering


# The degree for no name, one name, and two or more.
_WITH_NAMES = np.minimum(np.log1p(np.arange(3, dtype=np.float32)), 1)


# Beyond this exponent a relevance is practically zero, and the power of e would overflow single precision.
_LARGEST_EXPONENT = 60.0

# An entry that contains every word of a query has the odds of its meaning multiplied by e^5, so that the number of an
# invoice finds the invoice although its digits mean nothing.
_LEXICAL_WEIGHT = 5.0


def relevance(cosine: Numbers, calibration: Calibration) -> Numbers:
    """Return the relevance of texts at these cosines, from 0 to 1."""
    far = calibration.steepness * (calibration.middle - cosine)
    return 1.0 / (1.0 + np.exp(np.minimum(far, _LARGEST_EXPONENT)))


def _cosine_of(relevance: float, calibration: Calibration) -> float:
    """Return the cosine that has a relevance."""
    return calibration.middle - math.log(1 / relevance - 1) / calibration.steepness


def combine(semantic: Numbers, lexical: Numbers) -> Numbers:
    """Combine the semantic relevance of entries with their share of the query's words, both from 0 to 1.

    Without shared words the semantic relevance is returned; each shared word can only raise it.
    """
    odds = semantic * np.exp(_LEXICAL_WEIGHT * lexical)
    return odds / (odds + (1.0 - semantic))


# Of longer queries only the rarest terms count.
_MOST_TERMS = 64
# Maximum size of a table of terms by rows: it has to stay in the processor's cache.
_LARGEST_TABLE = 262_144


class Coverage(NamedTuple):
    """How much of a query's terms each entry covers, weighted by inverse document frequency."""

    lexical: Numbers
    """By row: the share of the query that the entry itself contains, from 0 to 1. Terms without postings count too."""
    terms: list[Term]
    """The terms with postings."""
    postings: list[TermPostings]
    """The postings of each."""
    share: list[float]
    """The weight of each; they add up to 1."""

    def whole(self, index: ShelfIndex, rows: Places | None = None) -> Numbers:
        """Return for some rows, or all, the share of the terms that the entry and its neighbours cover, from 0 to 1.

        Each term is limited by itself.
        """
        count, at_once = index.rows if rows is None else len(rows), _at_once(index)
        if not self.terms:
            return np.zeros(count)
        if len(self.terms) <= at_once:
            return 1 - _missing_share(index, self.postings, self.share, rows)
        whole = np.ones(count)
        for first in range(0, len(self.terms), at_once):
            some = slice(first, first + at_once)
            whole -= _missing_share(index, self.postings[some], self.share[some], rows)
        return whole

    def own(self, rows: Places) -> tuple[list[float], list[tuple[str, ...]]]:
        """Return how much of `whole` some rows cover by themselves, and the words of the query that each contains."""
        asked: list[int] = rows.tolist()
        own = [0.0] * len(asked)
        words: list[tuple[str, ...]] = [()] * len(asked)
        for term, postings, share in zip(self.terms, self.postings, self.share, strict=True):
            evidence_of_row = postings.evidence_by_row(rows)
            for place, row in enumerate(asked):
                evidence = evidence_of_row.get(row)
                if evidence is not None:
                    own[place] += share * evidence / (evidence + 1)
                    words[place] += (term.word,)
        return own, words


def cover(
    index: ShelfIndex, terms: Sequence[Term], *, copies_once: bool = False, crowd: Crowd | None = None
) -> Coverage:
    """Return how much of these terms the rows of an index cover."""
    found = [index.find(term.stems) for term in terms]
    sizes = [one.size for one in found]
    frequencies, entries = _frequencies(index, found, copies_once, crowd)
    weights = [idf(frequency, entries) * term.trust for frequency, term in zip(frequencies, terms, strict=True)]
    missing = sum([weight for weight, size in zip(weights, sizes, strict=True) if not size])
    used = [place for place, size in enumerate(sizes) if size]
    if len(used) > _MOST_TERMS:
        used = sorted(sorted(used, key=weights.__getitem__, reverse=True)[:_MOST_TERMS])
    if not used:
        return Coverage(np.zeros(index.rows), [], [], [])
    postings = [found[place] for place in used]
    weight = np.array([weights[place] for place in used])
    total = float(weight.sum())
    rows = np.concatenate([one.rows for one in _evidence(index, postings)])
    by_posting = (weight / (total + missing)).repeat([sizes[place] for place in used])
    lexical = np.bincount(rows, by_posting, index.rows).astype(np.float32)  # single precision removes sums above 1
    return Coverage(lexical, [terms[place] for place in used], postings, (weight / total).tolist())


def _evidence(index: ShelfIndex, postings: Sequence[TermPostings]) -> list[Evidence]:
    """Return the evidence for each term, computing what is not cached yet."""
    unread = [one for one in postings if one.evidence is None]
    if unread:
        # All at once: with few rows a pass costs as much for one term as for all of them.
        rows, counts, field = unpack_postings(np.concatenate([one.postings for one in unread]))
        text = text_evidence(counts, index.context.half_saturation.take(rows))
        index.count_cached(3 * len(rows))
        start = 0
        for one in unread:
            end = start + one.size
            one.evidence = Evidence(rows[start:end], text[start:end], field[start:end])
            start = end
    return [one.evidence for one in postings if one.evidence is not None]


def _at_once(index: ShelfIndex) -> int:
    """Return how many terms fit into one table."""
    return max(1, _LARGEST_TABLE // (index.rows + 1))


def _missing_share(
    index: ShelfIndex, postings: list[TermPostings], share: list[float], wanted: Places | None
) -> Numbers:
    """Return by wanted row the share of all terms that the row and its neighbours do not cover.

    The evidence x for a term counts as x / (x + 1), so 1 / (x + 1) is missing.
    """
    first, *others = _lines(index, postings, wanted)
    missing = share[0] / first
    for part, line in zip(share[1:], others, strict=True):
        missing += part / line
    return missing


def _lines(index: ShelfIndex, postings: list[TermPostings], wanted: Places | None) -> list[Numbers]:
    """Return for each term, by wanted row, 1 + the evidence for it in the row and its neighbours."""
    unread = [one for one in postings if one.line is None]
    lines = iter(_table(index, _evidence(index, unread), wanted)) if unread else iter(())
    if wanted is not None:  # lines of some rows only are not cached
        return [next(lines) if one.line is None else one.line.take(wanted) for one in postings]
    index.count_cached(len(unread) * index.rows)
    for one in unread:
        one.line = next(lines)
    return [one.line for one in postings if one.line is not None]


def _table(index: ShelfIndex, found: list[Evidence], wanted: Places | None) -> Numbers:
    """Return the lines of some terms as a table."""
    context, lines, width = index.context, len(found), index.rows + 1
    sizes = [len(one.rows) for one in found]
    rows, text, field = (np.concatenate(parts) for parts in zip(*found, strict=True))
    # Each line of the table has a place for every row, and a last one for missing neighbours.
    places = context.beside.take(rows, axis=1)
    places += np.arange(0, lines * width, width).repeat(sizes)
    lent = context.words.take(rows, axis=1)
    lent *= text
    # Terms of metadata fields count for the row itself only.
    lent[4] += field
    table = np.bincount(places.ravel(), lent.ravel(), lines * width).astype(np.float64, copy=False)
    table = table.reshape(lines, width)
    # Every row lends to its neighbours, but only rows that pass the filter are added up.
    table = table[:, :-1] if wanted is None else table.take(wanted, axis=1)
    if context.of_thread is None:
        table += 1
    else:
        threads = len(context.of_thread)
        most = np.zeros(lines * threads, np.float32)
        owners = context.thread.take(rows)
        owners += np.arange(0, lines * threads, threads).repeat(sizes)
        np.maximum.at(most, owners, text)
        of_thread = most.reshape(lines, threads) * context.of_thread
        of_thread += 1
        table += of_thread.take(context.thread if wanted is None else context.thread.take(wanted), axis=1)
    return table
