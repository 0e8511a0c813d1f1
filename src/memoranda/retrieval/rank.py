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
- **linked**: one of the best results leads to it, by a rare word that the query lacks (`links`).
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
from memoranda.retrieval.coverage import Coverage, Subset, Term, cover, frequencies_of, origins_in
from memoranda.retrieval.embed.base import Embedder, Vectors
from memoranda.retrieval.filter import Filter
from memoranda.retrieval.index.columns import NO_ACTOR
from memoranda.retrieval.index.shelf import ShelfIndex
from memoranda.retrieval.index.spread import Seen
from memoranda.retrieval.index.vectors import VectorTable, kth_bound
from memoranda.retrieval.influence import NEAR, Crowd, bound_places, crowd_of
from memoranda.retrieval.links import FIRST, find_links, has_links

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
        index.expect(word.stems for word in query.words if not word.stop)
        terms: dict[tuple[str, ...], Term] = {}
        corrected: dict[str, str] = {}
        often = Counter([word.stems for word in query.words if not word.stop])
        for word in query.words:
            if word.stop or word.stems in terms:
                continue
            term = Term(word.text, word.stems, count=often[word.stems])
            if not index.find(term.stems).size and (found := index.correction(word.stems[0], _correct)) is not None:
                corrected[word.text] = found
                term = Term(word.text, (found,), _CORRECTION_WEIGHT, often[word.stems])
            terms[word.stems] = term
        distinct = tuple(terms.values())
        postings = [index.find(term.stems) for term in distinct]
        frequencies, entries = frequencies_of(index, postings, copies_once, crowd)
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


def embed_query(embedder: Embedder, prepared: PreparedQuery) -> Vectors:
    """Return the vector of a prepared query."""
    weighting: Any = getattr(embedder, "embed_weighted", None)
    if weighting is not None:
        return weighting(prepared.words, prepared.weights)[0]
    return embedder.embed([prepared.text])[0]


def knowledge(embedder: Embedder, prepared: PreparedQuery) -> float:
    """Return from 0 to 1 how much of the words of a query an embedder knows; 1 if it does not say."""
    asked: Any = getattr(embedder, "knows", None)
    return 1.0 if asked is None else asked(prepared.words, prepared.weights)


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
# Where less than this part of what an entry is would count, it is left out.
_HARDLY_TALK = 0.05
_INFORMATION = 0.30

# The usual standard deviation of cosines, and the number of entries from which the measured one counts more.
_USUAL_SPREAD, _ENTRIES_BEFORE_SPREAD = 0.12, 20

STAGES_FROM = 50_000
"""Number of entries from which candidates are chosen first."""

# Candidates whose neighbours' vectors are compared too: this number, or as many for each place of the answer if that is
# more; and so many times that if few of them may be of the origins that have most. They are chosen among the neighbours
# of this many times as many.
_COMPARED, _PER_PLACE, _IF_BOUND, _SEEDS_PER_COMPARED = 300, 6, 3, 5
# Candidates below a threshold that are compared all the same, because the first results lead to others.
_MAY_LEAD = 64
# Up to this many times the candidates, choosing takes longer than ranking all.
_WORTH_CHOOSING = 16

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
    exact: bool = False,
    stages_from: int | None = None,
    knows: float = 1.0,
) -> list[Ranked]:
    """Return the best entries for a query, at most `limit`, without those that score below the threshold.

    Only entries that match the filter and are allowed are returned, but others lend them context. Those that are
    outdated come after what is true now. Without a vector, meaning is not compared. The mode `semantic` compares
    nothing else; `keyword` returns only entries that contain a word of the query.

    At most `most_alike` come from one source, and as many of one source say the same in the same words. What is
    trusted less than `min_trust`, as `RANK_OF` numbers it, is left out. If the query was prepared with a crowd, no
    origin has more than its share (`influence`).

    From `stages_from` entries on (None: `STAGES_FROM`), candidates are chosen first, by estimates, and these alone are
    ranked; unless the answer has to be `exact`.

    The vector counts as much as the embedder `knows` of the query (`knowledge`); one that knows nothing is not asked,
    unless nothing else is.
    """
    with index.lock:
        index.expire(now)
        eligible = _eligible(index, where, allowed, min_trust)
        if limit <= 0 or not len(index):
            return []
        selection = _Selection(index, _cosine_of(NEAR, calibration), prepared.crowd is not None, most_alike)
        in_stages = not exact and _is_worth_choosing(index, limit, stages_from)
        if mode == "semantic":
            order = _by_vector(index, vector, eligible, limit, calibration, selection, in_stages)
        else:
            old = None if outdated is None else outdated(index.sequence)
            meaning = _Meaning(vector, knows) if vector is not None and knows > 0 else None
            leading = eligible if where is None else _eligible(index, None, allowed, min_trust)
            order = _by_parts(
                index, prepared, meaning, eligible, leading, old, limit, calibration, mode, threshold, selection,
                in_stages,
            )  # fmt: skip
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


def _is_worth_choosing(index: ShelfIndex, limit: int, stages_from: int | None) -> bool:
    """Return whether candidates are chosen first."""
    if index.is_stored:
        return True
    # The first ranking does not wait for what choosing needs, and a long answer needs most rows anyway.
    was_ranked, index.was_ranked = index.was_ranked, True
    least = max(STAGES_FROM if stages_from is None else stages_from, _WORTH_CHOOSING * _PER_PLACE * limit)
    return was_ranked and len(index) >= least


def _by_vector(
    index: ShelfIndex,
    vector: Numbers | None,
    eligible: Mask | None,
    limit: int,
    calibration: Calibration,
    selection: _Selection,
    in_stages: bool,
) -> _Order:
    if vector is None:
        return []
    table = index.vectors
    top = table.top if in_stages else functools.partial(VectorTable.top, table)
    if not selection.bound:
        rows, cosines = top(vector, limit, eligible)
    else:
        selection = selection._replace(most_alike=None)
        cosines = table.estimate(vector)[0] if in_stages else table.product(vector)
        totals = cosines if eligible is None else np.where(eligible, cosines, np.float32(-np.inf))
        if in_stages:
            most = _SEEDS_PER_COMPARED * _most_compared(limit, selection)
            found = np.sort(selection.best(totals, None, totals, most))
            cosines = table.cosines(vector, found)
            best = selection.best(cosines, None, cosines, limit, found)
            rows, cosines = found.take(best), cosines.take(best)
        else:
            rows = selection.best(totals, None, totals, limit)
            cosines = cosines.take(rows)
    relevances = relevance(cosines.astype(np.float64), calibration)
    exact = not (in_stages and table.is_pruned)
    return [
        (
            row,
            Why(mode="semantic", relevance=relevant, total=near, parts={"dense": near}, cosine=near, exact=exact),
        )
        for row, relevant, near in zip(rows.tolist(), relevances.tolist(), cosines.tolist(), strict=True)
    ]


def _by_parts(
    index: ShelfIndex,
    prepared: PreparedQuery,
    meaning: _Meaning | None,
    eligible: Mask | None,
    leading: Mask | None,
    outdated: Mask | None,
    limit: int,
    calibration: Calibration,
    mode: Mode,
    threshold: float,
    selection: _Selection,
    in_stages: bool,
) -> _Order:
    coverage = cover(index, prepared.terms, copies_once=prepared.copies_once, crowd=prepared.crowd)
    priors = [] if mode == "keyword" else _priors(index, prepared)
    if outdated is not None:
        priors.append(_Part("outdated", outdated, _OUTDATED))
    if mode == "keyword":
        meaning = None
        matches = coverage.contains(index)
        eligible = matches if eligible is None else eligible & matches
    exact, some, scale = True, None, None
    if in_stages:
        least = (threshold, calibration) if threshold > 0 else None
        rows, scale, exact = _candidates(index, coverage, priors, meaning, eligible, selection, limit, least)
        exact = exact and not index.is_stored
        if scale is not None and scale.likely is not None:
            rows = _worth_comparing(index, coverage, priors, scale, rows, selection, limit, least)
        some = Subset(index, rows)
    # Neighbours count whether they are eligible or not; from here on only eligible rows do. If they are most of all
    # rows, it is quicker to leave the others out at the end: what is known of terms is cached for all rows. Those that
    # are not eligible may also lead on to others.
    elif mode == "keyword" and eligible is not None and 2 * np.count_nonzero(eligible) < len(eligible):
        some = Subset(index, eligible.nonzero()[0])
    compared = _compare(index, coverage, priors, meaning, scale, some)
    if mode == "hybrid" and has_links(index):
        rows, gains = _links(index, coverage, compared, leading, selection)
        if compared.found is not None and len(missing := np.setdiff1d(rows, compared.found)):
            missing = missing if eligible is None else missing[eligible.take(missing)]
            some = Subset(index, np.union1d(compared.found, missing))
            compared = _compare(index, coverage, priors, meaning, scale, some)
        compared = compared.with_gains(rows, gains, index.rows)
    found, lexical, whole, parts, cosines = compared
    totals, amounts = compared.totals()
    _leave_out(totals, lexical, cosines, threshold, calibration)
    if eligible is not None and found is None:
        totals[~eligible] = -np.inf
    best = selection.best(totals, lexical, cosines, limit, found)
    if not len(best):
        return []
    lexical = lexical.take(best)
    near = None if cosines is None else cosines.take(best)
    relevances = _relevance(lexical, near, calibration)
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
            exact=exact,
        )
        for explanation, relevant, cosine, shared, words in details
    ]
    return list(zip(rows.tolist(), reasons, strict=True))


class _Compared(NamedTuple):
    """What was compared of some rows."""

    found: Places | None
    """The rows; None for all."""
    lexical: Numbers
    whole: Numbers
    parts: list[_Part]
    cosines: Numbers | None

    def totals(self) -> tuple[Numbers, Numbers]:
        """Return the total of each row, and the amount of each part (a line) in it."""
        return _totals(self.whole, self.parts)

    def with_gains(self, rows: Places, gains: Numbers, count: int) -> _Compared:
        """Return the same with what rows gain because others lead to them; `count` is the number of all rows."""
        if not len(rows):
            return self
        linked = np.zeros(count, np.float32)
        linked[rows] = gains
        part = _Part("linked", linked, 1.0)
        return self._replace(parts=[*self.parts, part if self.found is None else part.of(self.found)])


def _compare(
    index: ShelfIndex,
    coverage: Coverage,
    priors: Sequence[_Part],
    meaning: _Meaning | None,
    scale: _Scale | None,
    some: Subset | None,
) -> _Compared:
    """Compare some rows, or all, with a query; with a scale, the vectors of these rows alone are read."""
    found = None if some is None else some.rows
    parts = list(priors) if found is None else [part.of(found) for part in priors]
    cosines = None
    if meaning is not None:
        if found is not None and scale is not None:
            dense, cosines = _dense_among(index, scale, found)
        else:
            dense, cosines = _dense(index, meaning, found)
        parts.insert(len(parts) - bool(parts and parts[-1].name == "outdated"), dense)
    return _Compared(found, coverage.lexical(index, some), coverage.whole(index, some), parts, cosines)


def _worth_comparing(
    index: ShelfIndex,
    coverage: Coverage,
    priors: Sequence[_Part],
    scale: _Scale,
    rows: Places,
    selection: _Selection,
    limit: int,
    least: tuple[float, Calibration] | None,
) -> Places:
    """Return the candidates that are best by all but the vectors of their neighbours."""
    assert scale.likely is not None
    some = Subset(index, rows)
    index.vectors.refine(scale.likely, scale.vector, rows)
    dense, cosines = _dense_among(index, scale, rows, scale.likely)
    lexical = coverage.lexical(index, some)
    totals = _totals(coverage.whole(index, some), [*(part.of(rows) for part in priors), dense])[0]
    first = np.empty(0, np.intp)
    if least is not None:
        first = _best(totals, _MAY_LEAD)
        _leave_out(totals, lexical, cosines, *least)
    kept = selection.spare().best(totals, lexical, cosines, _most_compared(limit, selection), rows)
    return rows.take(np.union1d(kept, first))


def _links(
    index: ShelfIndex, coverage: Coverage, compared: _Compared, leading: Mask | None, selection: _Selection
) -> tuple[Places, Numbers]:
    """Return the rows that the best results lead to, and what each gains; `leading` rows may be among the best."""
    totals, found = compared.totals()[0], compared.found
    if leading is not None:
        totals = np.where(leading if found is None else leading.take(found), totals, np.float32(-np.inf))
    best = selection.best(totals, compared.lexical, compared.cosines, FIRST, found)
    return find_links(index, coverage, best if found is None else found.take(best), totals.take(best))


class _Part(NamedTuple):
    """A part of the totals."""

    name: str
    amounts: Numbers | Mask
    """By row."""
    weight: float

    def of(self, rows: Places) -> _Part:
        """Return the part for some rows."""
        return self._replace(amounts=self.amounts.take(rows))


def _amounts(parts: list[_Part], rows: int) -> Numbers:
    """Return the amount of each part (a line) for each row."""
    amounts = np.empty((len(parts), rows), np.float32)
    for line, part in zip(amounts, parts, strict=True):
        np.multiply(part.amounts, np.float32(part.weight), out=line)
    return amounts


class _Selection(NamedTuple):
    """How the best rows are taken: by their totals, with the shares of origins and sources kept."""

    shelf: ShelfIndex
    near: float
    """The cosine from which a row without a word of the query matches it."""
    bound: bool
    """Whether no origin may have more than its share."""
    most_alike: int | None

    def best(
        self,
        totals: Numbers,
        lexical: Numbers | None,
        cosines: Numbers | None,
        limit: int,
        rows: Places | None = None,
    ) -> Places:
        """Return the places of the best of some rows (None: all), in order; minus infinity is not among them."""

        def is_match() -> Mask:
            matches = np.zeros(len(totals), np.bool_) if lexical is None else lexical > 0
            return matches if cosines is None else matches | (cosines >= self.near)

        best_of = _best
        if self.most_alike is not None:
            best_of = functools.partial(_best_of_many, self.shelf, rows, self.most_alike)
        if self.bound:
            origins = origins_in(self.shelf)
            return bound_places(totals, origins if rows is None else origins.take(rows), is_match, best_of, limit)
        best = best_of(totals, limit)
        return best[totals.take(best) > -np.inf]

    def spare(self) -> _Selection:
        """Return how candidates are taken: more of each source, as estimates put them in another order."""
        return self._replace(most_alike=None if self.most_alike is None else _PER_PLACE * self.most_alike)


def _most_compared(limit: int, selection: _Selection) -> int:
    """Return of how many candidates everything is compared."""
    return max(_COMPARED, _PER_PLACE * limit) * (_IF_BOUND if selection.bound else 1)


def _candidates(
    index: ShelfIndex,
    coverage: Coverage,
    priors: Sequence[_Part],
    meaning: _Meaning | None,
    eligible: Mask | None,
    selection: _Selection,
    limit: int,
    least: tuple[float, Calibration] | None,
) -> tuple[Places, _Scale | None, bool]:
    """Return the rows whose words are worth comparing, the scale of cosines, and whether all eligible rows are there.

    They are the best by their own words, their likely cosines and the priors, and the neighbours of those: an entry may
    have most of its words from there.
    """
    most = _SEEDS_PER_COMPARED * _most_compared(limit, selection)
    count = len(index) if eligible is None else int(np.count_nonzero(eligible))
    if count <= most:
        scale = None if meaning is None else _Scale.of(index, meaning)
        return np.arange(index.rows) if eligible is None else eligible.nonzero()[0], scale, True
    alone, scale, likely, highest = coverage.alone(index), None, None, None
    totals = alone * np.float32(_COVERAGE)
    if meaning is not None:
        likely, like = index.vectors.estimate(meaning.vector)
        scale = _Scale.of(index, meaning, likely, like)
        totals += likely * np.float32(scale.weight)
        if least is not None:
            highest = likely + index.vectors.beyond_estimate(meaning.vector)
    for part in priors:
        totals += part.amounts * np.float32(part.weight)
    if index.present is not None:
        totals[~index.present] = -np.inf
    leading = None
    if least is not None:
        # What is below the threshold may still lead to what is not.
        leading = _with_beside(index, _best(totals, _MAY_LEAD))
        leading = leading if eligible is None else leading & eligible
        may = _may_reach(*least, coverage.lexical(index), highest)
        eligible = may if eligible is None else eligible & may
    is_candidate = _with_beside(index, _best(totals, most))
    if eligible is not None:
        totals[~eligible] = -np.inf
    if eligible is not None or selection.bound or selection.most_alike is not None:
        is_candidate[selection.spare().best(totals, alone, likely, most)] = True
        if eligible is not None:
            is_candidate &= eligible
    if leading is not None:
        is_candidate |= leading
    return is_candidate.nonzero()[0], scale, False


def _with_beside(index: ShelfIndex, rows: Places) -> Mask:
    """Return which rows are among these or their neighbours."""
    mask = np.zeros(index.rows + 1, np.bool_)  # the last place is for missing neighbours
    mask[index.context.beside.take(rows, axis=1)] = True
    return mask[:-1]


class _Meaning(NamedTuple):
    """The vector of a query."""

    vector: Numbers
    known: float
    """How much of the query the embedder knows, from 0 to 1."""


class _Scale(NamedTuple):
    """What the cosines of a vector are measured by, as the spread of the index says."""

    vector: Numbers
    usual: float
    """The mean cosine."""
    middle: float
    """The mean of cosines with those of neighbours."""
    weight: float
    likely: Numbers | None
    """An estimate of the cosine of each row."""

    @classmethod
    def of(
        cls, index: ShelfIndex, meaning: _Meaning, likely: Numbers | None = None, like: Numbers | None = None
    ) -> _Scale:
        """Measure the vector of a query; `likely` may be the cosines of all rows with a vector that is `like` it."""
        seen = None
        if likely is not None and like is not None:
            every = _of_present(index, likely)
            seen = Seen(like, float(every.dot(every)) / len(every) - float(every.mean()) ** 2)
        usual, middle, variance = index.spread.of(meaning.vector, seen)
        weight = _weight_of_dense(variance, len(index)) * meaning.known
        return cls(meaning.vector, usual, middle, weight, likely)


def _may_reach(threshold: float, calibration: Calibration, lexical: Numbers, highest: Numbers | None) -> Mask:
    """Return which rows may have a relevance of at least a threshold, by their highest possible cosines."""
    if highest is None:
        return lexical >= threshold
    # The logarithm of the odds of what `combine` returns.
    odds = lexical * np.float32(_LEXICAL_WEIGHT)
    odds += (highest - np.float32(calibration.middle)) * np.float32(calibration.steepness)
    return odds >= (math.log(threshold / (1 - threshold)) if threshold < 1 else math.inf)


def _relevance(lexical: Numbers, cosines: Numbers | None, calibration: Calibration) -> Numbers:
    return lexical if cosines is None else combine(relevance(cosines, calibration), lexical)


def _totals(whole: Numbers, parts: list[_Part]) -> tuple[Numbers, Numbers]:
    """Return the total of each row, and the amount of each part (a line) in it."""
    amounts = _amounts(parts, len(whole))
    totals = _COVERAGE * whole
    totals += np.add.reduce(amounts, axis=0)
    return totals, amounts


def _leave_out(
    totals: Numbers, lexical: Numbers, cosines: Numbers | None, threshold: float, calibration: Calibration
) -> None:
    """Leave out the rows whose relevance is below a threshold, so that others take their places."""
    if threshold > 0:
        totals[_relevance(lexical, cosines, calibration) < threshold] = -np.inf


def _best(totals: Numbers, limit: int) -> Places:
    """Return the places of the highest totals, ties in age order."""
    if limit >= len(totals):
        return (-totals.round(_DIGITS)).argsort(kind="stable")
    leading = (totals >= kth_bound(totals, limit) - _WITHIN_ROUNDING).nonzero()[0]
    return leading.take((-totals.take(leading).round(_DIGITS)).argsort(kind="stable")[:limit])


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


def _dense(index: ShelfIndex, meaning: _Meaning, rows: Places | None) -> tuple[_Part, Numbers]:
    """Return the similarity of rows and their neighbours, in standard deviations from the mean; and their cosines."""
    entries = len(index)
    cosines = index.vectors.product(meaning.vector)
    # The last place is for missing neighbours: they count as average.
    near = np.empty(index.rows + 1, np.float32)
    np.subtract(cosines, np.add.reduce(_of_present(index, cosines)) / np.float32(entries), out=near[:-1])
    near[-1] = 0
    together = _with_neighbours(near[:-1], near.take(index.context.beside[:4]), index.context.sense)
    seen = _of_present(index, together)
    mean = float(np.add.reduce(seen)) / entries
    variance = max(float(np.add.reduce(seen * seen)) / entries - mean * mean, 0.0)
    together -= np.float32(mean)
    part = _Part("dense", together, _weight_of_dense(variance, entries) * meaning.known)
    return (part, cosines) if rows is None else (part.of(rows), cosines.take(rows))


def _dense_among(
    index: ShelfIndex, scale: _Scale, rows: Places, likely: Numbers | None = None
) -> tuple[_Part, Numbers]:
    """Return the same for some rows, by the scale of the whole index.

    With the likely cosines of all rows, these are taken; otherwise the vectors of the rows and of their neighbours are
    read.
    """
    context = index.context
    places = np.vstack((context.beside[:4].take(rows, axis=1), rows))
    is_missing = places[:4] == index.rows
    if likely is None:
        read = np.unique(places)
        likely = index.vectors.cosines(scale.vector, read[: read.searchsorted(index.rows)])
        places = read.searchsorted(places)
    near = likely.take(places, mode="clip")
    cosines = near[4].copy()
    near -= np.float32(scale.usual)
    near[:4][is_missing] = 0  # they count as average
    together = _with_neighbours(near[4], near[:4], context.sense.take(rows, axis=1))
    together -= np.float32(scale.middle)
    return _Part("dense", together, scale.weight), cosines


def _with_neighbours(own: Numbers, of_neighbours: Numbers, sense: Numbers) -> Numbers:
    """Return the similarity of rows with what they take from that of their neighbours, which is overwritten."""
    of_neighbours *= sense
    together = np.add.reduce(of_neighbours, axis=0)
    together += own
    return together


def _weight_of_dense(variance: float, entries: int) -> float:
    spread = (entries * variance + _ENTRIES_BEFORE_SPREAD * _USUAL_SPREAD**2) / (entries + _ENTRIES_BEFORE_SPREAD)
    return _DENSE / math.sqrt(spread)


def _of_present(index: ShelfIndex, numbers: Numbers) -> Numbers:
    return numbers if index.present is None else numbers[index.present]


def _priors(index: ShelfIndex, prepared: PreparedQuery) -> list[_Part]:
    """Return the parts that depend on what an entry is and not on what it says."""
    query, context = prepared.query, index.context
    talk = float(context.talk[0])
    if talk < _HARDLY_TALK:
        talk = 0.0
    parts: list[_Part] = []
    if talk:
        parts.append(_Part("question", context.asks, talk * _QUESTION))
        parts.append(_Part("information", context.informs, talk * _INFORMATION))
    actor = index.fields.actor_named([stem for term in prepared.terms for stem in term.stems])
    if actor != NO_ACTOR:
        parts.append(_Part("actor", index.fields.actor == actor, _ACTOR))
    if query.years or query.months:
        parts.append(_Part("date", _date_matches(index, query.years, query.months), _DATE))
    if query.expects and talk:
        parts.append(_Part("answer", _answer_matches(index, query.expects), talk * _ANSWER))
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
