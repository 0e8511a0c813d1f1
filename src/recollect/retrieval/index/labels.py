"""Metadata in, what ranking understands of them out: the thread, the actor and the date of each entry.

`thread` or `session` says what an entry belongs to, `actor` or `speaker` whose it is, `time` (ISO 8601) when it was.
Anything else under these keys is as good as nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from recollect.retrieval.analysis.dates import date_terms, read_day
from recollect.retrieval.analysis.stemming import term
from recollect.retrieval.analysis.words import split
from recollect.retrieval.index.growing import Growing

NOBODY = -1
"""In place of the actor of a row that has none."""

_LONGEST_NAME = 256
_MOST_REMEMBERED = 65_536
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
        self._labels: dict[tuple[str, str, str], _Label] = {}

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
        return rows + (len(self._labels) + len(self._bearers)) * 500

    def add(
        self, metadata: Sequence[bytes], languages: Sequence[str]
    ) -> tuple[list[str | int | None], list[frozenset[str]]]:
        """Add rows, whose texts are in these languages.

        Return the thread that each says it belongs to, and the terms its labels are found by.
        """
        told = [_decode(raw) for raw in metadata]
        labels = [
            self._read(entry.actor, entry.speaker, entry.time, language)
            for entry, language in zip(told, languages, strict=True)
        ]
        actors = [label.actor for label in labels]
        self._actor.extend(actors)
        self._year.extend([label.year for label in labels])
        self._month.extend([label.month for label in labels])
        for actor in actors:
            if actor != NOBODY:
                self._held[actor] += 1
        return [_thread(entry.thread, entry.session) for entry in told], [label.words for label in labels]

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
        self._actors, self._bearers, self._labels = {}, {}, {}
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

    def _read(self, actor: Any, speaker: Any, time: Any, language: str) -> _Label:
        """Return what metadata say; those of the same actor and day say the same in one language."""
        name = actor if type(actor) is str else speaker if type(speaker) is str else ""
        day = time if type(time) is str else ""
        if len(day) > 10 and day[10] in "T ":
            day = day[:10]
        label = self._labels.get((name, day, language))
        if label is None:
            if len(self._labels) >= _MOST_REMEMBERED:
                self._labels.clear()
            label = self._labels[name, day, language] = self._label(name[:_LONGEST_NAME], day, language)
        return label

    def _label(self, name: str, day: str, language: str) -> _Label:
        # A name is the same in every language, so its words are not stemmed.
        words = frozenset(term(form, "") for word in split(name) for form in (word.whole, *word.parts) if form)
        actor = self._bear(words) if words else NOBODY
        date = read_day(day)
        if date is None:
            return _Label(actor, 0, 0, words)
        return _Label(actor, date.year, date.month, words.union(date_terms(date, language)))

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


class _Label(msgspec.Struct, frozen=True, gc=False):
    actor: int
    year: int
    month: int
    words: frozenset[str]


def _thread(*tellings: Any) -> str | int | None:
    """Return the first of the metadata that can name a thread: text, or a whole number."""
    for name in tellings:
        if type(name) is str or type(name) is int:
            return name
    return None
