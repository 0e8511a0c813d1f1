"""Metadata in, what ranking understands of them out: the thread, the actor and the date of each entry.

`thread` or `session` says what an entry belongs to, `actor` or `speaker` whose it is, `time` (ISO 8601) when it was.
Anything else under these keys is as good as nothing there.
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
from memoranda.retrieval.index.growing import Growing

K = TypeVar("K")
V = TypeVar("V")

NOBODY = -1
"""In place of the actor of a row that has none."""

_LONGEST_NAME = 256
_MOST_REMEMBERED = 65_536
_NOTHING: frozenset[str] = frozenset()
# A word that so many actors have in their names says nothing about who is meant.
_MOST_BEARERS = 64


class _Told(msgspec.Struct, gc=False):
    """The metadata that ranking reads."""

    thread: Any = None
    session: Any = None
    actor: Any = None
    speaker: Any = None
    time: Any = None


_decode = msgspec.json.Decoder(_Told).decode


class Labels:
    """The actor and the date of each row, and the words by which a query may name them."""

    def __init__(self) -> None:
        """Start without rows."""
        self._actor = Growing(np.int32)
        self._year = Growing(np.int16)
        self._month = Growing(np.int8)
        self._actors: dict[frozenset[str], int] = {}
        """The number of each actor. Two names of the same words are one actor's."""
        self._words: list[frozenset[str]] = []
        self._held: list[int] = []
        """How many rows each actor has."""
        self._bearers: dict[str, list[int]] = {}
        """The actors that have a word in their name."""
        self._names = _Known[str, int](self._read_name)
        """The actor of each name as it is written."""
        self._days = _Known[tuple[str, str], _Day](_read_day)
        """What each day is called in a language."""

    @property
    def actor(self) -> NDArray[np.int32]:
        """The number of each row's actor, or NOBODY."""
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
        """About how many bytes it takes."""
        rows = self._actor.nbytes + self._year.nbytes + self._month.nbytes
        return rows + (len(self._names) + len(self._days) + len(self._bearers)) * 500

    def add(
        self, metadata: Sequence[bytes], languages: Sequence[str]
    ) -> tuple[list[str | int | None], list[frozenset[str]], list[frozenset[str]]]:
        """Add rows, whose texts are in these languages; refuse all if one is no JSON object.

        Return the thread that each says it belongs to, and the terms its actor and its date are found by.
        """
        told = list(map(_decode, metadata))
        actors = list(map(self._names.__getitem__, map(_name, told)))
        days = list(map(self._days.__getitem__, zip(map(_day, told), languages, strict=True)))
        self._actor.extend(actors)
        self._year.extend([day.year for day in days])
        self._month.extend([day.month for day in days])
        for actor, rows in Counter(actors).items():
            if actor != NOBODY:
                self._held[actor] += rows
        return (
            list(map(_thread, told)),
            [_NOTHING if actor == NOBODY else self._words[actor] for actor in actors],
            [day.words for day in days],
        )

    def remove(self, rows: NDArray[np.intp]) -> None:
        """Forget that these rows are their actors'."""
        for actor in self.actor[rows].tolist():
            if actor != NOBODY:
                self._held[actor] -= 1

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Let only these rows stay, numbered anew in the order given, and the actors they need."""
        for column in (self._actor, self._year, self._month):
            column.keep(rows)
        kept = [actor for actor, held in enumerate(self._held) if held]
        renumbered = np.full(len(self._held) + 1, NOBODY, np.int32)
        renumbered[kept] = np.arange(len(kept))
        self._actor.rows[:] = renumbered[self.actor]
        names = [self._words[actor] for actor in kept]
        held = [self._held[actor] for actor in kept]
        self._actors, self._bearers = {}, {}
        self._names.clear()
        self._days.clear()
        self._words, self._held = [], []
        for words in names:
            self._bear(words)
        self._held = held

    def named(self, words: Iterable[str]) -> int:
        """Return the one actor that the words of a query name, NOBODY where they name none or several.

        They name an actor by all words of a name, or by one that nobody else has.
        """
        asked = frozenset(words)
        named: set[int] = set()
        for word in asked:
            bearers = [actor for actor in self._bearers.get(word, ())[:_MOST_BEARERS] if self._held[actor]]
            if len(bearers) == 1:
                named.add(bearers[0])
            elif bearers:
                named.update(actor for actor in bearers if self._words[actor] <= asked)
        return named.pop() if len(named) == 1 else NOBODY

    def _read_name(self, name: str) -> int:
        """Return the actor of a name, NOBODY where it has no words."""
        # A name is the same in every language, so its words are not stemmed.
        forms = (form for word in split(name[:_LONGEST_NAME]) for form in (word.whole, *word.parts) if form)
        words = frozenset(term(form, "") for form in forms)
        return self._bear(words) if words else NOBODY

    def _bear(self, words: frozenset[str]) -> int:
        """Return the number of the actor whose name is of these words."""
        number = self._actors.get(words)
        if number is None:
            number = self._actors[words] = len(self._words)
            self._words.append(words)
            self._held.append(0)
            for word in words:
                self._bearers.setdefault(word, []).append(number)
        return number


class _Known(dict[K, V]):
    """What was read before, by how it was written; what is looked up for the first time is read."""

    def __init__(self, read: Callable[[K], V]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, written: K) -> V:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        found = self[written] = self._read(written)
        return found


class _Day(msgspec.Struct, frozen=True, gc=False):
    year: int
    month: int
    words: frozenset[str]


def _read_day(written: tuple[str, str]) -> _Day:
    """Return the day that is written in a text of a language."""
    day, language = written
    date = read_day(day)
    return _NO_DAY if date is None else _Day(date.year, date.month, frozenset(date_terms(date, language)))


def _name(told: _Told) -> str:
    if type(told.actor) is str:
        return told.actor
    return told.speaker if type(told.speaker) is str else ""


def _day(told: _Told) -> str:
    time = told.time
    if type(time) is not str:
        return ""
    return time[:10] if len(time) > 10 and time[10] in _AFTER_A_DAY else time


def _thread(told: _Told) -> str | int | None:
    """Return the first of the metadata that can name a thread: text, or a whole number."""
    if type(told.thread) in _NAMES_A_THREAD:
        return told.thread
    return told.session if type(told.session) in _NAMES_A_THREAD else None


_NO_DAY = _Day(0, 0, _NOTHING)
_AFTER_A_DAY = frozenset("T ")
_NAMES_A_THREAD = frozenset({str, int})
