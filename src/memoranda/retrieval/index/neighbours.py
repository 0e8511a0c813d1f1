"""Neighbours of entries in their threads, and how much they lend each other.

The entries just before and after an entry tell what it is about, but only if consecutive entries belong together. That
is measured for each namespace. In threads that entries name, neighbours that are no more similar than any two entries,
and share no more rare words, lend each other nothing. Mere order of arrival is trusted only where rare words recur from
one entry to the next (`recurrence`). And the longer entries are, the less they need from others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.analyser import Features
from memoranda.retrieval.index.columns import GrowingArray
from memoranda.retrieval.index.segment import Contents, Names, Segment

ThreadKey = tuple[str, str | int | None]
"""A namespace and the thread that an entry names; entries that name none form one chain, None."""

NO_ROW = -1
"""In place of a missing neighbour."""

# Trust in neighbours before anything is measured: full in a named thread, none by mere order of arrival.
_TRUST_DECLARED, _TRUST_ARRIVAL = 1.0, 0.0
_LINKS_BEFORE_TRUST = 20
# Neighbours in which more rare words recur than the second share are trusted fully; the first may be a mere order.
_RECURS_IN_ORDER, _RECURS_IN_COURSE = 0.025, 0.07
# Words in a text that says by itself what it is about; nothing beyond the second number makes it say more.
_SELF_CONTAINED, _LONG = 20, 64
# Neighbours that are more similar than any two entries by the second value are trusted fully; below the first it may be
# chance.
_CHANCE, _COHERENT = 0.01, 0.08
# Above this mean cosine all entries are alike, and nothing can be measured.
_ALL_ALIKE = 0.999
# From this many rows on, linking them together is faster than one by one.
_WORTH_TOGETHER = 16
# Rows compared at once: few enough that both sides stay in the processor's cache.
_PORTION = 256


class Threads:
    """The neighbours of each row within its thread, as linked lists. Rows are numbered by the owner."""

    def __init__(self, dimension: int) -> None:
        """Create an index without rows, for vectors of this dimension."""
        self._dimension = dimension
        self._previous = GrowingArray(np.int64)
        self._next = GrowingArray(np.int64)
        self._thread = GrowingArray(np.int64)
        self._number_of: dict[ThreadKey, int] = {}
        """The number of each thread; of those in a segment, the ones that were looked up."""
        self._sealed: Names | None = None
        self._last: list[int] = []
        self._group: list[int] = []
        """The group of each thread: the named or the unnamed threads of one namespace."""
        self._groups: dict[tuple[str, bool], int] = {}
        self._cohesion: list[_Cohesion] = []

    @property
    def previous(self) -> NDArray[np.int64]:
        """The row before each row in its thread, or NO_ROW."""
        return self._previous.rows

    @property
    def next(self) -> NDArray[np.int64]:
        """The row after each row in its thread, or NO_ROW."""
        return self._next.rows

    @property
    def thread(self) -> NDArray[np.int64]:
        """The number of each row's thread."""
        return self._thread.rows

    @property
    def count(self) -> int:
        """Number of threads."""
        return len(self._last)

    @property
    def declared(self) -> NDArray[np.bool_]:
        """For each thread, whether its entries name it."""
        declared = np.fromiter((declared for _, declared in self._groups), np.bool_, len(self._groups))
        return declared[self._group]

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        rows = self._previous.nbytes + self._next.nbytes + self._thread.nbytes
        sums = sum(cohesion.total is not None for cohesion in self._cohesion)
        return rows + len(self._last) * 150 + sums * 8 * self._dimension

    def save(self, contents: Contents) -> None:
        """Put the threads into a segment."""
        contents.add_rows("previous", self.previous.copy())
        contents.add_rows("next", self.next.copy())
        contents.add_rows("thread", self.thread)
        contents.arrays["threads.last"] = np.array(self._last, np.int64)
        contents.arrays["threads.group"] = np.array(self._group, np.int64)
        keys = self._keys()
        contents.later.append(lambda contents: contents.add_names("threads", [_name_of(key) for key in keys]))
        contents.values["groups"] = list(self._groups)
        contents.values["cohesion"] = [cohesion.save() for cohesion in self._cohesion]

    def load(self, segment: Segment) -> None:
        """Continue the threads of a segment."""
        self._previous.start_from(segment, "previous")
        self._next.start_from(segment, "next")
        self._thread.start_from(segment, "thread")
        self._last = segment.array("threads.last").tolist()
        self._group = segment.array("threads.group").tolist()
        self._sealed = segment.names("threads")
        self._groups = {(name, declared): number for number, (name, declared) in enumerate(segment.values["groups"])}
        self._cohesion = [_Cohesion.load(saved) for saved in segment.values["cohesion"]]

    @property
    def groups(self) -> int:
        """Number of groups: the named and the unnamed threads of each namespace."""
        return len(self._groups)

    def group_keys(self) -> list[tuple[str, bool]]:
        """Return the namespace of each group, and whether its threads are named."""
        return list(self._groups)

    @property
    def group(self) -> NDArray[np.int64]:
        """The group of each thread."""
        return np.array(self._group, np.int64)

    def trust(self, recurrence: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return for each thread the trust in its neighbours, from 0 to 1, by the recurrence in each group."""
        recurring = ((recurrence - _RECURS_IN_ORDER) / (_RECURS_IN_COURSE - _RECURS_IN_ORDER)).clip(0, 1)
        trusts = [
            cohesion.trust(_TRUST_DECLARED if declared else _TRUST_ARRIVAL, recurs)
            for (_, declared), cohesion, recurs in zip(self._groups, self._cohesion, recurring.tolist(), strict=True)
        ]
        return np.array(trusts, np.float32)[self._group]

    def add(self, keys: Sequence[ThreadKey], matrix: NDArray[np.float32]) -> None:
        """Append rows to their threads; the matrix has the vectors of these rows and all before."""
        first = len(self._thread)
        known = map(self._number_of.get, keys)
        threads = [self._number(key) if thread is None else thread for key, thread in zip(keys, known, strict=True)]
        before: list[int] = []
        last = self._last
        for row, thread in enumerate(threads, start=first):
            before.append(last[thread])
            last[thread] = row
        self._thread.extend(threads)
        self._previous.extend(before)
        self._next.extend(np.full(len(keys), NO_ROW))
        if len(keys) < _WORTH_TOGETHER:
            following = self.next
            for row, (thread, previous) in enumerate(zip(threads, before, strict=True), start=first):
                cohesion = self._cohesion[self._group[thread]]
                cohesion.add(1, matrix[row])
                if previous != NO_ROW:
                    following[previous] = row
                    cohesion.join(matrix[previous], matrix[row])
        else:
            self._link_together(first, matrix)

    def add_linked(self, keys: Sequence[ThreadKey]) -> None:
        """Append rows to their threads without comparing them: `add_cohesion` says how alike they are."""
        first = len(self._thread)
        threads = [self._number(key) for key in keys]
        before, last = list[int](), self._last
        for row, thread in enumerate(threads, start=first):
            before.append(last[thread])
            last[thread] = row
        self._thread.extend(threads)
        self._previous.extend(before)
        self._next.extend(np.full(len(keys), NO_ROW))
        previous = np.array(before, np.int64)
        linked = previous != NO_ROW
        self.next[previous[linked]] = np.arange(first, first + len(keys))[linked]

    def cohesion(self) -> list[tuple[str, bool, tuple[int, int, float, bytes | None]]]:
        """Return how alike neighbours are in each group of threads: its namespace, and whether they are named."""
        return [(*group, one.save()) for group, one in zip(self._groups, self._cohesion, strict=True)]

    def add_cohesion(self, groups: Iterable[tuple[str, bool, tuple[int, int, float, bytes | None]]]) -> None:
        """Add how alike the neighbours among other rows are."""
        for namespace, declared, saved in groups:
            number = self._groups.get((namespace, declared))
            if number is not None:
                self._cohesion[number].merge(_Cohesion.load(saved))

    def keys(self) -> list[ThreadKey]:
        """Return the keys of all threads in the order of their numbers."""
        return self._keys()

    def _link_together(self, first: int, matrix: NDArray[np.float32]) -> None:
        """Link the rows from `first` on to their predecessors, and add them to the cohesion of their groups."""
        rows = np.arange(first, len(self._thread))
        previous = self.previous[first:]
        linked = previous != NO_ROW
        self.next[previous[linked]] = rows[linked]
        of_rows: list[int] = [self._group[thread] for thread in self.thread[first:].tolist()]
        groups = np.array(of_rows)
        alike = np.where(linked, _alike(matrix, first, previous), 0)
        links = np.bincount(groups[linked], minlength=self.groups).tolist()
        for group, size in Counter(of_rows).items():
            cohesion = self._cohesion[group]
            cohesion.count += size
            cohesion.links += links[group]
            if cohesion.total is not None:
                members = groups == group
                cohesion.total += _total(matrix, rows[members])
                cohesion.alike += float(alike[members].sum(dtype=np.float64))

    def remove(self, rows: Iterable[int], matrix: NDArray[np.float32] | None) -> None:
        """Remove rows from their threads: the rows before and after become neighbours.

        Without vectors, how alike neighbours are is left as it is.
        """
        previous, following = self.previous, self.next
        for row in rows:
            thread = int(self.thread[row])
            before, after = int(previous[row]), int(following[row])
            if before != NO_ROW:
                following[before] = after
            if after == NO_ROW:
                self._last[thread] = before
            else:
                previous[after] = before
            if matrix is not None:
                cohesion = self._cohesion[self._group[thread]]
                vector = matrix[row]
                cohesion.remove(vector)
                if before != NO_ROW:
                    cohesion.cut(vector, matrix[before])
                if after != NO_ROW:
                    cohesion.cut(vector, matrix[after])
                if before != NO_ROW and after != NO_ROW:
                    cohesion.join(matrix[before], matrix[after])
            previous[row] = following[row] = NO_ROW

    def keep(self, rows: NDArray[np.intp], renumbered: NDArray[np.int64]) -> None:
        """Renumber the rows; `rows` must be all that were not removed."""
        # NO_ROW is -1, so it indexes this last place and stays NO_ROW.
        renumbered = np.append(renumbered, NO_ROW)
        for links in (self._previous, self._next):
            links.keep(rows)
            links.rows[:] = renumbered[links.rows]
        self._thread.keep(rows)
        used, threads = np.unique(self.thread, return_inverse=True)
        self._thread.rows[:] = threads
        keys = self._keys()
        self._sealed = None
        self._number_of = {keys[thread]: number for number, thread in enumerate(used.tolist())}
        self._last = [int(renumbered[self._last[thread]]) for thread in used.tolist()]
        self._group = [self._group[thread] for thread in used.tolist()]

    def around(self, row: int, reach: int) -> tuple[list[int], list[int]]:
        """Return up to `reach` rows before a row and as many after it, in thread order."""
        before = self._walk(self.previous, row, reach)
        return before[::-1], self._walk(self.next, row, reach)

    @staticmethod
    def _walk(links: NDArray[np.int64], row: int, reach: int) -> list[int]:
        met: list[int] = []
        while len(met) < reach and (row := int(links[row])) != NO_ROW:
            met.append(row)
        return met

    def _number(self, key: ThreadKey) -> int:
        number = self._number_of.get(key)
        if number is None and self._sealed is not None and (number := self._sealed.find(_name_of(key))) is not None:
            self._number_of[key] = number
        if number is None:
            number = self._number_of[key] = len(self._last)
            self._last.append(NO_ROW)
            named = (key[0], key[1] is not None)
            group = self._groups.setdefault(named, len(self._groups))
            if group == len(self._cohesion):
                self._cohesion.append(_Cohesion(np.zeros(self._dimension) if named[1] else None))
            self._group.append(group)
        return number

    def _keys(self) -> list[ThreadKey]:
        """Return the keys of all threads in the order of their numbers."""
        sealed = [] if self._sealed is None else [_key_of(name) for name in self._sealed]
        new = [key for key, number in self._number_of.items() if number >= len(sealed)]
        return sealed + sorted(new, key=self._number_of.__getitem__)


class _Cohesion:
    """How much more similar neighbours are than any two entries, updated as entries come and go."""

    __slots__ = ("alike", "count", "links", "total")

    def __init__(self, total: NDArray[np.float64] | None) -> None:
        self.count = 0
        self.total = total
        """The sum of all vectors; None for mere order of arrival, where likeness does not count."""
        self.links = 0
        self.alike = 0.0

    def save(self) -> tuple[int, int, float, bytes | None]:
        return self.count, self.links, self.alike, None if self.total is None else self.total.tobytes()

    @classmethod
    def load(cls, saved: tuple[int, int, float, bytes | None]) -> _Cohesion:
        count, links, alike, total = saved
        cohesion = cls(None if total is None else np.frombuffer(total).copy())
        cohesion.count, cohesion.links, cohesion.alike = count, links, alike
        return cohesion

    def add(self, count: int, total: NDArray[Any]) -> None:
        """Add rows by the sum of their vectors."""
        self.count += count
        if self.total is not None:
            self.total += total

    def merge(self, other: _Cohesion) -> None:
        """Add other rows."""
        if other.total is not None:
            self.total = other.total if self.total is None else self.total + other.total
        self.count += other.count
        self.links += other.links
        self.alike += other.alike

    def remove(self, vector: NDArray[np.float32]) -> None:
        self.count -= 1
        if self.total is not None:
            self.total -= vector

    def join(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> None:
        self.links += 1
        if self.total is not None:
            self.alike += float(one @ other)

    def cut(self, one: NDArray[np.float32], other: NDArray[np.float32]) -> None:
        self.links -= 1
        if self.total is not None:
            self.alike -= float(one @ other)

    def trust(self, at_first: float, recurs: float) -> float:
        """Return the trust in neighbours: the initial trust, until enough links were seen.

        It is what recurs from one to the next, from 0 to 1, or in named threads how similar they are, if that is more.
        """
        if not self.links:
            return at_first
        cohesive = recurs
        if self.total is not None:
            measured = 0.0
            # The mean cosine of all pairs follows from the length of the sum, without comparing pairs.
            by_chance = (float(self.total @ self.total) / self.count - 1) / (self.count - 1)
            if by_chance < _ALL_ALIKE:
                measured = (self.alike / self.links - by_chance) / (1 - by_chance)
            cohesive = max(cohesive, min(max((measured - _CHANCE) / (_COHERENT - _CHANCE), 0.0), 1.0))
        # Squared, so that hundreds of links leave nothing of the initial trust.
        believed, seen = _LINKS_BEFORE_TRUST**2, self.links**2
        return (believed * at_first + seen * cohesive) / (believed + seen)


def _name_of(key: ThreadKey) -> bytes:
    return msgspec.json.encode(key)


def _key_of(name: bytes) -> ThreadKey:
    namespace, thread = msgspec.json.decode(name)
    return namespace, thread


def _total(matrix: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of ascending rows, in double precision so that rows can be subtracted again."""
    total = np.zeros(matrix.shape[1])
    together = int(rows[-1] - rows[0]) + 1 == len(rows)
    for start in range(0, len(rows), _PORTION):
        some = rows[start : start + _PORTION]
        vectors = matrix[some[0] : some[-1] + 1] if together else matrix[some]
        total += vectors.sum(axis=0, dtype=np.float64)
    return total


def _alike(matrix: NDArray[np.float32], first: int, others: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the cosine of each row from `first` on with its counterpart in `others`."""
    cosines = np.empty(len(others), np.float32)
    for start in range(0, len(others), _PORTION):
        some = others[start : start + _PORTION]
        vectors = matrix[first + start : first + start + len(some)]
        np.einsum("ij,ij->i", vectors, matrix[some], out=cosines[start : start + len(some)])
    return cosines


Places = NDArray[np.intp]
Numbers = NDArray[np.floating[Any]]

# What an entry takes from the one before it, and in addition if that one is a question: the answer comes next.
_OF_PREVIOUS, _OF_A_QUESTION = 0.4, 0.4
_OF_NEXT = 0.3
_OF_SECOND_PREVIOUS = 0.2
_WORDS_OF_SECOND_NEXT, _SENSE_OF_SECOND_NEXT = 0.2, 0.1
_WORDS_OF_THREAD = 0.1

# The parameters k1 and b of BM25's term frequency.
_SATURATION, _BY_LENGTH = 1.2, 0.6

# A text with this many different words is worth half of the prior for information.
_INFORMATIVE = 6
# What an entry is says something in a conversation: where this share of the entries are questions. Until so many
# entries were seen, one of them is taken to be.
_QUESTIONS, _BEFORE_QUESTIONS = 0.05, 20


class Context(NamedTuple):
    """Arrays by row that do not depend on the query, computed on first use after a change in a few passes."""

    beside: Places
    """Five lines: the previous row in the thread, the next, the second previous, the second next, and the row itself.
    A missing one is the number of rows."""
    words: Numbers
    """How much of its words the row lends to each of the five."""
    sense: Numbers
    """How much of the meaning of the first four the row takes."""
    thread: Places
    of_thread: Numbers | None
    """By thread: how much of the words of the whole thread its rows take. None if no named thread has several rows."""
    half_saturation: Numbers
    """The count at which a word in the row's text contributes half of its maximum."""
    asks: Numbers
    """1 if the text is a question, else 0."""
    informs: Numbers
    """The number of distinct words, scaled from 0 to 1."""
    talk: Numbers
    """A single number from 0 to 1: how much the entries are like a conversation, of short texts with questions."""
    course: Numbers
    """A single number from 0 to 1: how much neighbours are trusted, on average."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(array.nbytes for array in self if array is not None)

    def save(self, contents: Contents) -> None:
        """Put the context into a segment."""
        for name, array in self._asdict().items():
            if array is not None:
                contents.arrays[f"context.{name}"] = array

    @classmethod
    def load(cls, segment: Segment) -> Context | None:
        """Return the context in a segment, None if nothing had needed one."""
        if "context.beside" not in segment:
            return None
        names = [(name, f"context.{name}") for name in cls._fields]
        fields: Any = {name: segment.array(array) if array in segment else None for name, array in names}
        return cls(**fields)


def make_context(
    threads: Threads,
    *,
    features: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    distinct: NDArray[np.int64],
    entries: int,
    terms_per_word: NDArray[np.float32] | None,
    recurrence: NDArray[np.float64],
) -> Context:
    """Compute the context of all rows; `lengths` and `distinct` are 0 for removed rows.

    `terms_per_word` has for each row how many of its terms make a word, None if it is one for all. `recurrence` is that
    of each group of threads.
    """
    words_in = lengths.astype(np.float32)
    different = distinct.astype(np.float32)
    if terms_per_word is not None:
        words_in /= terms_per_word
        different /= terms_per_word
    previous, following, thread = threads.previous, threads.next, threads.thread.astype(np.intp)
    beside = np.empty((5, len(thread)), np.intp)
    beside[0], beside[1], beside[4] = previous, following, np.arange(len(thread))
    beside[2] = np.where(previous == NO_ROW, NO_ROW, previous[previous])
    beside[3] = np.where(following == NO_ROW, NO_ROW, following[following])
    beside[beside == NO_ROW] = len(thread)
    # A thread of a single entry has no other words to lend.
    trusts, lends = (
        threads.trust(recurrence) * _need(words_in, thread, threads.count),
        np.zeros(threads.count, np.bool_),
    )
    lends[thread[previous != NO_ROW]] = True
    lends &= threads.declared
    trust = trusts[thread]
    asks = ((features & np.uint8(Features.QUESTION)) != 0).astype(np.float32)
    of_this = trust * (np.float32(_OF_PREVIOUS) + np.float32(_OF_A_QUESTION) * asks)
    words = np.empty((5, len(thread)), np.float32)
    words[0], words[1] = trust * np.float32(_OF_NEXT), of_this
    words[2], words[3] = trust * np.float32(_WORDS_OF_SECOND_NEXT), trust * np.float32(_OF_SECOND_PREVIOUS)
    words[4] = 1
    sense = np.empty((4, len(thread)), np.float32)
    # All rows of a thread have the same trust, so what the previous row lends is what this row takes.
    sense[0], sense[1] = of_this[previous], trust * np.float32(_OF_NEXT)
    sense[2], sense[3] = trust * np.float32(_OF_SECOND_PREVIOUS), trust * np.float32(_SENSE_OF_SECOND_NEXT)
    usual_length = float(words_in.sum(dtype=np.float64)) / max(entries, 1)
    relative = words_in / np.float32(max(usual_length, 1.0))
    questions = float(asks[lengths > 0].sum() + 1) / (entries + _BEFORE_QUESTIONS)
    spoken = trust[lengths > 0]
    talk = min(questions / _QUESTIONS, 1.0) * float(_need(words_in, np.zeros(len(thread), np.intp), 1)[0])
    return Context(
        beside=beside,
        words=words,
        sense=sense,
        thread=thread,
        of_thread=trusts * lends * np.float64(_WORDS_OF_THREAD) if lends.any() else None,
        half_saturation=np.float32(_SATURATION) * (np.float32(1 - _BY_LENGTH) + np.float32(_BY_LENGTH) * relative),
        asks=asks,
        informs=different / (different + np.float32(_INFORMATIVE)),
        talk=np.array([talk], np.float32),
        course=np.array([spoken.mean() if len(spoken) else 0.0], np.float32),
    )


def _need(lengths: Numbers, thread: Places, threads: int) -> Numbers:
    """Return for each thread how much its texts need from others, by how long the text is that a word of it is in."""
    counted = np.minimum(lengths, np.float32(_LONG))
    words = np.bincount(thread, counted, threads)
    squares = np.bincount(thread, counted * counted, threads)
    return np.minimum(1.0, _SELF_CONTAINED * words / np.maximum(squares, 1.0)).astype(np.float32)


def text_evidence(counts: Numbers, half_saturation: Numbers) -> Numbers:
    """Return the evidence for a word from its counts in texts: each occurrence adds less than the one before."""
    return counts * np.float32(1 + _SATURATION) / (counts + half_saturation)
