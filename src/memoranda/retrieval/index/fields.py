"""The metadata fields that ranking understands: thread, actor and date.

`thread` or `session` names the thread of an entry, `actor` or `speaker` its actor, `time` (ISO 8601) its date. Values
of other types under these keys are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from memoranda.retrieval.analysis.dates import date_terms, read_day
from memoranda.retrieval.analysis.stemming import term
from memoranda.retrieval.analysis.words import split
from memoranda.retrieval.index.columns import GrowingArray

K = TypeVar("K")
V = TypeVar("V")

NO_ACTOR = -1
"""The actor of a row without one."""

_LONGEST_NAME = 256
_CACHE_SIZE = 65_536
_NO_TERMS: frozenset[str] = frozenset()
# Only this many actors with the same word in their names are considered when a query contains it.
_MOST_BEARERS = 64


class _Metadata(msgspec.Struct, gc=False):
    thread: Any = None
    session: Any = None
    actor: Any = None
    speaker: Any = None
    time: Any = None


_decode = msgspec.json.Decoder(_Metadata).decode


class Fields:
    """The actor and the date of each row, and the terms by which a query may name them."""

    def __init__(self) -> None:
        """Create an index without rows."""
        self._actor = GrowingArray(np.int32)
        self._year = GrowingArray(np.int16)
        self._month = GrowingArray(np.int8)
        self._actors: dict[frozenset[str], int] = {}
        """The number of each actor. Names with the same words belong to the same actor."""
        self._terms: list[frozenset[str]] = []
        """The words of each actor's name."""
        self._row_counts: list[int] = []
        """The number of rows of each actor."""
        self._bearers: dict[str, list[int]] = {}
        """The actors with a word in their name."""
        self._names = _Cache[str, int](self._read_name)
        """The actor of each name, as written."""
        self._days = _Cache[tuple[str, str], _DatedTerms](_read_day)
        """The terms of each day in a language."""

    @property
    def actor(self) -> NDArray[np.int32]:
        """The number of each row's actor, or NO_ACTOR."""
        return self._actor.rows

    @property
    def year(self) -> NDArray[np.int16]:
        """The year of each row, or 0."""
        return self._year.rows

    @property
    def month(self) -> NDArray[np.int8]:
        """The month of each row, or 0."""
        return self._month.rows

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        rows = self._actor.nbytes + self._year.nbytes + self._month.nbytes
        return rows + (len(self._names) + len(self._days) + len(self._bearers)) * 500

    def add(
        self, metadata: Sequence[bytes], languages: Sequence[str]
    ) -> tuple[list[str | int | None], list[frozenset[str]], list[frozenset[str]]]:
        """Add rows whose texts are in these languages; raise and add none if one is not a JSON object.

        Return the thread that each row names, and the terms of its actor and of its date.
        """
        decoded = list(map(_decode, metadata))
        actors = list(map(self._names.__getitem__, map(_name, decoded)))
        days = list(map(self._days.__getitem__, zip(map(_day, decoded), languages, strict=True)))
        self._actor.extend(actors)
        self._year.extend([day.year for day in days])
        self._month.extend([day.month for day in days])
        for actor, rows in Counter(actors).items():
            if actor != NO_ACTOR:
                self._row_counts[actor] += rows
        return (
            list(map(_thread, decoded)),
            [_NO_TERMS if actor == NO_ACTOR else self._terms[actor] for actor in actors],
            [day.terms for day in days],
        )

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Subtract these rows from their actors' counts."""
        for actor in self.actor[rows].tolist():
            if actor != NO_ACTOR:
                self._row_counts[actor] -= 1

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Keep only these rows, renumbered in this order, and their actors."""
        for column in (self._actor, self._year, self._month):
            column.keep(rows)
        kept = [actor for actor, count in enumerate(self._row_counts) if count]
        renumbered = np.full(len(self._row_counts) + 1, NO_ACTOR, np.int32)
        renumbered[kept] = np.arange(len(kept))
        self._actor.rows[:] = renumbered[self.actor]
        names = [self._terms[actor] for actor in kept]
        counts = [self._row_counts[actor] for actor in kept]
        self._actors, self._bearers = {}, {}
        self._names.clear()
        self._days.clear()
        self._terms, self._row_counts = [], []
        for words in names:
            self._number(words)
        self._row_counts = counts

    def actor_named(self, words: Iterable[str]) -> int:
        """Return the one actor that the words of a query name, NO_ACTOR if they name none or several.

        They name an actor by all words of the name, or by one that no other actor has.
        """
        asked = frozenset(words)
        named: set[int] = set()
        for word in asked:
            bearers = [actor for actor in self._bearers.get(word, ())[:_MOST_BEARERS] if self._row_counts[actor]]
            if len(bearers) == 1:
                named.add(bearers[0])
            elif bearers:
                named.update(actor for actor in bearers if self._terms[actor] <= asked)
        return named.pop() if len(named) == 1 else NO_ACTOR

    def _read_name(self, name: str) -> int:
        """Return the actor of a name, NO_ACTOR if it has no words."""
        # Names are the same in every language, so they are not stemmed.
        forms = (form for word in split(name[:_LONGEST_NAME]) for form in (word.whole, *word.parts) if form)
        words = frozenset(term(form, "") for form in forms)
        return self._number(words) if words else NO_ACTOR

    def _number(self, words: frozenset[str]) -> int:
        """Return the number of the actor whose name has these words; a new actor gets the next number."""
        number = self._actors.get(words)
        if number is None:
            number = self._actors[words] = len(self._terms)
            self._terms.append(words)
            self._row_counts.append(0)
            for word in words:
                self._bearers.setdefault(word, []).append(number)
        return number


class _Cache(dict[K, V]):
    """A cache of parsed values, cleared when it is full."""

    def __init__(self, read: Callable[[K], V]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, written: K) -> V:
        if len(self) >= _CACHE_SIZE:
            self.clear()
        found = self[written] = self._read(written)
        return found


class _DatedTerms(msgspec.Struct, frozen=True, gc=False):
    year: int
    month: int
    terms: frozenset[str]


def _read_day(day_and_language: tuple[str, str]) -> _DatedTerms:
    day, language = day_and_language
    date = read_day(day)
    return _NO_DAY if date is None else _DatedTerms(date.year, date.month, frozenset(date_terms(date, language)))


def _name(metadata: _Metadata) -> str:
    if type(metadata.actor) is str:
        return metadata.actor
    return metadata.speaker if type(metadata.speaker) is str else ""


def _day(metadata: _Metadata) -> str:
    time = metadata.time
    if type(time) is not str:
        return ""
    return time[:10] if len(time) > 10 and time[10] in _AFTER_A_DAY else time


def _thread(metadata: _Metadata) -> str | int | None:
    """Return the first value that can name a thread: text or an integer."""
    if type(metadata.thread) in _NAMES_A_THREAD:
        return metadata.thread
    return metadata.session if type(metadata.session) in _NAMES_A_THREAD else None


_NO_DAY = _DatedTerms(0, 0, _NO_TERMS)
_AFTER_A_DAY = frozenset("T ")
_NAMES_A_THREAD = frozenset({str, int})
