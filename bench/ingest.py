"""Bulk adds at equal work: stores that keep vectors and a full-text index, and have synced both when an add returns.

All get the same ready vectors, and notes that no round had before. How the data are synced is said of each, and the
files of one that never syncs are synced inside its time. After every add each store answers a search by vector and one
by words for every user, and the answers are compared with what is known to be right: so equal work is proved.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import stores
from corpus import COLLECTION, LIMIT, USERS, Note, make_notes
from measuring import Times
from numpy.typing import NDArray
from settings import settings_of
from stores import BULK, Vectors, by_user

from memoranda.retrieval.embed.wordllama import WordLlama
from memoranda.store.sqlite.connection import LONGEST_LOG

NOTES = sum(USERS.values())

OURS = stores.OURS
OURS_EMBEDDING = f"{stores.OURS}, embedding too"
SQLITE = "SQLite FTS5 + sqlite-vec"
LANCE = f"{stores.LANCE} with FTS"
CHROMA = stores.CHROMA
QDRANT = f"{stores.QDRANT}, sparse too"

SYNCED = "synced by"
_LEAST_FOUND = 0.9
"""The share of the exactly nearest that a search by vector has to find: Chroma's is approximate."""


@dataclass(frozen=True)
class Contender:
    """How one store adds and searches, and how it keeps its data."""

    add_many: Callable[[Sequence[Note]], object]
    """Add notes; when it returns, they can be searched both ways and are on the disk."""
    by_vector: Callable[[str, str], list[str]]
    """Return the texts that are nearest to a user's question."""
    by_words: Callable[[str, str], list[str]]
    """Return the texts of a user that contain a word."""
    settings: Mapping[str, Any]
    asked_with: Callable[[], NDArray[np.float32]] | None = None
    """The vector of the last question, where it is not the question's own."""


Opening = Callable[[Path, Vectors], AbstractContextManager[Contender]]


@contextmanager
def open_ours(folder: Path, vectors: Vectors) -> Iterator[Contender]:
    """Open a new Memoranda database at full durability, which looks vectors up."""
    with stores.open_ours(folder, vectors) as store:
        by_words = _keyword_search(store)
        settings = store.settings | {SYNCED: "each call (WAL, FULL)"}
        yield Contender(store.add_many, store.search, by_words, settings, store.asked_with)


@contextmanager
def open_ours_embedding(folder: Path, vectors: Vectors) -> Iterator[Contender]:
    """Open the same with WordLlama, which embeds every text inside the add."""
    embedder = _Asked()
    with stores.open_ours(folder, vectors, embedder=embedder) as store:
        by_words = _keyword_search(store)
        settings = store.settings | {SYNCED: "each call (WAL, FULL)"}
        yield Contender(store.add_many, store.search, by_words, settings, lambda: embedder.last)


class _Asked(WordLlama):
    """WordLlama that keeps the vector of the last question."""

    last: NDArray[np.float32]

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> NDArray[np.float32]:
        vectors = super().embed_weighted(words, weights)
        self.last = vectors[0]
        return vectors


def _keyword_search(store: stores.Store) -> Callable[[str, str], list[str]]:
    search = store.search_by_words
    if search is None:
        raise ValueError("ours has no search by words")
    return search


@contextmanager
def open_sqlite(folder: Path, vectors: Vectors) -> Iterator[Contender]:
    """Open a database with three tables at their best: rows, FTS5 over their texts, and sqlite-vec's vectors.

    It writes ahead and syncs at the commit. One transaction and `executemany` add everything; nothing else is done:
    neither ids, duplicates nor a history.
    """
    import pysqlite3.dbapi2 as sqlite3
    import sqlite_vec

    connection = sqlite3.connect(str(folder / "sqlite.db"), isolation_level=None)
    try:
        connection.enable_load_extension(True)
        sqlite_vec.load(connection)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -16000"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LONGEST_LOG}")
        connection.execute(
            "CREATE TABLE notes (number INTEGER PRIMARY KEY, user TEXT NOT NULL, metadata TEXT NOT NULL, text TEXT)"
        )
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, content=notes, content_rowid=number)")
        connection.execute(
            "CREATE VIRTUAL TABLE vectors USING "
            "vec0(user TEXT PARTITION KEY, embedding float[256] distance_metric=cosine)"
        )

        def add_many(notes: Sequence[Note]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO notes VALUES (?, ?, ?, ?)",
                [(note.number, note.user, json.dumps(note.metadata), note.text) for note in notes],
            )
            connection.executemany(
                "INSERT INTO words (rowid, text) VALUES (?, ?)", [(note.number, note.text) for note in notes]
            )
            connection.executemany(
                "INSERT INTO vectors (rowid, user, embedding) VALUES (?, ?, ?)",
                [(note.number, note.user, vectors.array(note.text).tobytes()) for note in notes],
            )
            connection.execute("COMMIT")

        def by_vector(user: str, question: str) -> list[str]:
            nearest = connection.execute(
                "SELECT text FROM (SELECT rowid, distance FROM vectors WHERE embedding MATCH ? AND user = ? AND k = ?) "
                "AS found JOIN notes ON number = found.rowid ORDER BY distance",
                (vectors.array(question).tobytes(), user, LIMIT),
            )
            return [text for (text,) in nearest]

        def by_words(user: str, word: str) -> list[str]:
            found = connection.execute(
                "SELECT notes.text FROM words JOIN notes ON number = words.rowid "
                "WHERE words MATCH ? AND user = ? ORDER BY rank LIMIT ?",
                (f'"{word}"', user, LIMIT),
            )
            return [text for (text,) in found]

        settings = settings_of(connection) | {SYNCED: "the commit (WAL, FULL)", BULK: "one transaction, executemany"}
        yield Contender(add_many, by_vector, by_words, settings)
    finally:
        connection.close()


@contextmanager
def open_lance(folder: Path, vectors: Vectors) -> Iterator[Contender]:
    """Open a new LanceDB table, whose full-text index is made after the add; its files are synced explicitly."""
    import lancedb
    import pyarrow

    place = folder / "lance"
    names = ("text", "user", "metadata")
    schema = pyarrow.schema(
        [
            pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), 256)),
            *(pyarrow.field(name, pyarrow.string()) for name in names),
        ]
    )
    table = lancedb.connect(str(place)).create_table(COLLECTION, schema=schema)

    def add_many(notes: Sequence[Note]) -> None:
        flat = np.concatenate([vectors.array(note.text) for note in notes])
        columns = {
            "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), 256),
            "text": [note.text for note in notes],
            "user": [note.user for note in notes],
            "metadata": [json.dumps(note.metadata) for note in notes],
        }
        table.add(pyarrow.table(columns, schema=schema))
        table.create_fts_index("text")
        sync_files(place)

    def by_vector(user: str, question: str) -> list[str]:
        nearest = (
            table.search(vectors.array(question)).distance_type("cosine").where(f"user = '{user}'", prefilter=True)
        )
        return nearest.limit(LIMIT).select(["text", "_distance"]).to_arrow()["text"].to_pylist()

    def by_words(user: str, word: str) -> list[str]:
        found = table.search(word, query_type="fts").where(f"user = '{user}'", prefilter=True)
        return found.limit(LIMIT).select(["text", "_score"]).to_arrow()["text"].to_pylist()

    settings = {SYNCED: "an fsync of its files, added here", BULK: "one add of an Arrow table, then the index"}
    yield Contender(add_many, by_vector, by_words, settings)


@contextmanager
def open_chroma(folder: Path, vectors: Vectors) -> Iterator[Contender]:
    """Open a new persistent Chroma collection, which keeps documents in a trigram index of SQLite's FTS5."""
    with stores.open_chroma(folder, vectors) as store:
        search = store.search_by_words
        if search is None:
            raise ValueError("Chroma has no search by words")
        settings = dict(store.settings) | {SYNCED: "its own commits"}
        yield Contender(store.add_many, store.search, search, settings)


@contextmanager
def open_qdrant(folder: Path, vectors: Vectors) -> Iterator[Contender]:
    """Open a new Qdrant in local mode with dense and sparse vectors, the sparse ones from a plain BM25 tokenizer.

    fastembed's own would need a model of its own from the network.
    """
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    numbers: dict[str, int] = {}
    try:
        client.create_collection(
            COLLECTION,
            vectors_config={"dense": models.VectorParams(size=256, distance=models.Distance.COSINE)},
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )

        def add_many(notes: Sequence[Note]) -> None:
            counts = [Counter(_WORD.findall(note.text.lower())) for note in notes]
            mean = sum(count.total() for count in counts) / len(counts)
            points = [
                models.PointStruct(
                    id=note.number,
                    vector={"dense": vectors.list(note.text), "words": _sparse(count, mean, numbers)},
                    payload={"text": note.text, "user": note.user, **note.metadata},
                )
                for note, count in zip(notes, counts, strict=True)
            ]
            client.upsert(COLLECTION, points=points)

        def texts(user: str, query: Any, using: str) -> list[str]:
            own = models.Filter(must=[models.FieldCondition(key="user", match=models.MatchValue(value=user))])
            found = client.query_points(COLLECTION, query=query, using=using, query_filter=own, limit=LIMIT)
            return [point.payload["text"] for point in found.points]

        def by_vector(user: str, question: str) -> list[str]:
            return texts(user, vectors.list(question), "dense")

        def by_words(user: str, word: str) -> list[str]:
            return texts(user, models.SparseVector(indices=[numbers[word.lower()]], values=[1.0]), "words")

        settings = settings_of(client._client.collections[COLLECTION].storage.storage)
        settings |= {SYNCED: "a commit for each point", BULK: "one upsert"}
        yield Contender(add_many, by_vector, by_words, settings)
    finally:
        client.close()


_WORD = re.compile(r"\w+")


def _sparse(count: Counter[str], mean: float, numbers: dict[str, int]) -> Any:
    """Return the BM25 weights of a text's words; the database multiplies them by the inverse document frequency."""
    from qdrant_client import models

    length = 1.2 * (1 - 0.75 + 0.75 * count.total() / mean)
    indices = [numbers.setdefault(word, len(numbers)) for word in count]
    return models.SparseVector(indices=indices, values=[n * 2.2 / (n + length) for n in count.values()])


CONTENDERS: dict[str, Opening] = {
    OURS: open_ours,
    OURS_EMBEDDING: open_ours_embedding,
    SQLITE: open_sqlite,
    LANCE: open_lance,
    CHROMA: open_chroma,
    QDRANT: open_qdrant,
}


def sync_files(folder: Path) -> None:
    """Sync every file of a folder and the folders themselves, as a store would have to that loses nothing."""
    for place, _, names in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in names)):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@dataclass(frozen=True)
class Ingested:
    """What each contender took in every round: for the add, and with the first answers after it."""

    adds: dict[str, Times]
    answered: dict[str, Times]
    settings: dict[str, Mapping[str, Any]]


@dataclass(frozen=True)
class _Work:
    """The notes of one number, and what is asked about them."""

    notes: list[Note]
    vectors: Vectors
    asked: list[Note]
    """A note of each user whose question is asked."""
    words: list[tuple[str, str]]
    """A word of each user that a single note contains, with that note's text."""

    @classmethod
    def of_number(cls, number: int) -> _Work:
        """Make the notes of a number; two contenders of ours have their own, as words that were read are cached."""
        notes = make_notes(range(number * NOTES, (number + 1) * NOTES))
        asked = [next(note for note in notes if note.user == user) for user in USERS]
        vectors = Vectors([text for note in notes for text in (note.text, note.question)])
        return cls(notes, vectors, asked, [_own_word(user, notes) for user in USERS])


def ingest(openings: Mapping[str, Opening], folder: Callable[[str], Path], rounds: int) -> Ingested:
    """Fill a new store of each contender in every round, in turns; check what each of them finds."""
    names = list(openings)
    adds: dict[str, list[int]] = {name: [] for name in names}
    answered: dict[str, list[int]] = {name: [] for name in names}
    settings: dict[str, Mapping[str, Any]] = {}
    for number in range(rounds + 1):  # the first round is not counted: it compiles, imports and loads
        work_of_all, work_of_embedding = _Work.of_number(2 * number), _Work.of_number(2 * number + 1)
        first = number % len(names)
        for name in names[first:] + names[:first]:
            work = work_of_embedding if name == OURS_EMBEDDING else work_of_all
            with openings[name](folder(f"{names.index(name)}-{number}"), work.vectors) as contender:
                start = time.perf_counter_ns()
                contender.add_many(work.notes)
                added = time.perf_counter_ns()
                by_vector = [contender.by_vector(note.user, note.question) for note in work.asked]
                by_words = [contender.by_words(user, word) for user, (word, _) in zip(USERS, work.words, strict=True)]
                end = time.perf_counter_ns()
                settings[name] = contender.settings
                _check_words(name, by_words, work)
                _check_vectors(name, contender, by_vector, work)
            if number:
                adds[name].append(added - start)
                answered[name].append(end - start)
    return Ingested(
        *({name: Times(tuple(one), 1) for name, one in taken.items()} for taken in (adds, answered)), settings
    )


def _own_word(user: str, notes: Sequence[Note]) -> tuple[str, str]:
    """Return a word that a single note contains, anywhere, and the text of that note, which is the user's."""
    everything = "\n".join(note.text for note in notes).lower()
    for note in notes:
        if note.user == user:
            for word in re.findall(r"[A-Z][a-z]{5,}", note.text):
                if everything.count(word.lower()) == 1:
                    return word, note.text
    raise ValueError(f"no word of {user} is in one note only")


def _check_words(name: str, found: Sequence[Sequence[str]], work: _Work) -> None:
    """Raise ValueError unless each search by words found the one text that contains the word."""
    for texts, (_, text) in zip(found, work.words, strict=True):
        if list(texts) != [text]:
            raise ValueError(f"{name} found {list(texts)} by words, not {text!r} alone")


def _check_vectors(name: str, contender: Contender, found: Sequence[Sequence[str]], work: _Work) -> None:
    """Raise ValueError unless searches by vector found what is nearest, of equally near ones any."""
    shares: list[float] = []
    own = dict(by_user(work.notes))
    vectors = work.vectors
    for note, texts in zip(work.asked, found, strict=True):
        vector = vectors.array(note.question)
        if contender.asked_with is not None:  # asked again, because only the last question's vector is kept
            texts = contender.by_vector(note.user, note.question)
            vector = contender.asked_with()
        cosines = {one.text: float(vectors.array(one.text) @ vector) for one in own[note.user]}
        tenth = heapq.nlargest(LIMIT, cosines.values())[-1]
        shares.append(sum(cosines.get(text, -1.0) >= tenth - 1e-5 for text in texts) / LIMIT)
    if statistics.mean(shares) < _LEAST_FOUND:
        raise ValueError(f"{name} found {statistics.mean(shares):.0%} of the nearest notes")
