"""Stores that search by meaning: Memoranda and its peers, each through its own API.

All of them get the same vectors, made before anything is timed, and one notion of scope: the user. Each returns the
texts of the ten nearest notes of a user, best first, so that what they find can be compared as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from corpus import COLLECTION, LIMIT, Note
from numpy.typing import NDArray
from settings import settings_of, settings_of_ours

import memoranda
from memoranda.retrieval.embed.wordllama import WordLlama
from memoranda.store.sqlite.connection import LONGEST_LOG

OURS = "Memoranda"
SQLITE = "SqliteStore (WAL)"
SQLITE_AS_SHIPPED = "SqliteStore"
QDRANT = "Qdrant local"
MEM0 = "mem0"
LANCE = "LanceDB"
CHROMA = "Chroma"
NUMPY = "numpy alone"

SYNCS = "syncs in an add"
"""How often a single add syncs the disk, counted with strace (bench/README.md says how); 0 is not durable."""
BULK = "bulk path"


class Vectors:
    """The vector of every text that will be stored or asked for, made once, in the forms that stores take."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Embed the texts with WordLlama."""
        distinct = list(dict.fromkeys(texts))
        self.matrix: NDArray[np.float32] = WordLlama().embed(distinct)
        self._rows = {text: row for row, text in enumerate(distinct)}
        self._lists: list[list[float]] = self.matrix.tolist()

    def array(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a text as a numpy array."""
        return self.matrix[self._rows[text]]

    def arrays(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, one row for each."""
        return self.matrix[[self._rows[text] for text in texts]]

    def list(self, text: str) -> list[float]:
        """Return the vector of a text as a list, which many stores are quickest with."""
        return self._lists[self._rows[text]]


@dataclass(frozen=True)
class Store:
    """How one store adds and searches, and the settings that it said it has when asked."""

    add: Callable[[Note], object]
    add_many: Callable[[Sequence[Note]], object]
    search: Callable[[str, str], list[str]]
    """The texts for a user's question."""
    settings: dict[str, Any]
    search_hybrid: Callable[[str, str], list[str]] | None = None
    search_by_words: Callable[[str, str], list[str]] | None = None
    """The texts of a user that contain a word, where that can be asked."""
    asked_with: Callable[[], NDArray[np.float32]] | None = None
    """The vector of the last search, where it is not the question's own."""
    nearest_to: Callable[[str, NDArray[np.float32]], list[str]] | None = None
    """The exact answer for a user's vector."""


Opening = Callable[[Path, Vectors], AbstractContextManager[Store]]


class _KnownVectors:
    """An embedder for Memoranda that looks vectors up, as the peers' do.

    Memoranda weighs the words of a question by how rare they are, so the vector it asks with is its own. It is made
    when a question is first asked, which is before anything is timed, and looked up from then on.
    """

    id = "bench:wordllama"
    dimension = 256

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._model = WordLlama()
        self._asked: dict[tuple[Sequence[str], Sequence[float]], NDArray[np.float32]] = {}
        self.calibration = self._model.calibration
        self.last: NDArray[np.float32] | None = None
        """The vector of the last question."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._vectors.arrays(texts)

    def embed_weighted(self, words: Sequence[str], weights: Sequence[float]) -> NDArray[np.float32]:
        key = (tuple(words), tuple(weights))
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = self._model.embed_weighted(words, weights)
        self.last = found[0]
        return found


@contextmanager
def open_ours(folder: Path, vectors: Vectors, *, embedder: Any = None) -> Iterator[Store]:
    """Open a new Memoranda database at full durability; its bulk path is `remember_many`, once for each user.

    It looks vectors up unless it is given an embedder.
    """
    known = _KnownVectors(vectors)
    with memoranda.open(folder / "memoranda.db", embedder=embedder or known) as memory:

        def add(note: Note) -> object:
            return memory.scope(user=note.user).remember(note.text, collection=COLLECTION, metadata=note.metadata)

        def add_many(notes: Sequence[Note]) -> None:
            for user, own in by_user(notes):
                entries = [{"content": note.text, "metadata": note.metadata} for note in own]
                memory.scope(user=user).remember_many(entries, collection=COLLECTION)

        def search(user: str, question: str, mode: str = "semantic") -> list[str]:
            found = memory.scope(user=user).recall(question, collection=COLLECTION, limit=LIMIT, mode=mode)
            return [match.content for match in found.results]

        settings = settings_of_ours(memory) | {SYNCS: 1, BULK: "remember_many, once a user"}
        yield Store(
            add,
            add_many,
            search,
            settings,
            search_hybrid=partial(search, mode="hybrid"),
            search_by_words=partial(search, mode="keyword"),
            asked_with=lambda: known.last,
        )


@contextmanager
def open_sqlite_store(folder: Path, vectors: Vectors, *, wal: bool = False) -> Iterator[Store]:
    """Open a new LangGraph SqliteStore with an index, as it ships or writing ahead; its bulk path is `batch`.

    The connection is pysqlite3's: the index needs an extension, which not every Python's own sqlite3 can load.
    """
    import pysqlite3.dbapi2 as sqlite3
    from langgraph.store.base import PutOp, SearchOp
    from langgraph.store.sqlite import SqliteStore

    class Embeddings(_langchain_embeddings()):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [vectors.list(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return vectors.list(text)

    connection = sqlite3.connect(str(folder / "langgraph.db"), check_same_thread=False, isolation_level=None)
    try:
        if wal:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA cache_size = -16000")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LONGEST_LOG}")
        # The documented name of `text_fields` is `fields`, which this version does not read.
        store = SqliteStore(connection, index={"dims": 256, "embed": Embeddings(), "text_fields": ["text"]})
        store.setup()

        def put_of(note: Note) -> PutOp:
            return PutOp((COLLECTION, note.user), f"{note.number:08}", {"text": note.text, **note.metadata})

        def add_many(notes: Sequence[Note]) -> None:
            store.batch([put_of(note) for note in notes])

        def search(user: str, question: str) -> list[str]:
            (items,) = store.batch([SearchOp((COLLECTION, user), limit=LIMIT, query=question)])
            return [item.value["text"] for item in items]

        settings = settings_of(connection) | {SYNCS: 1 if wal else 4, BULK: "one batch"}
        yield Store(lambda note: store.batch([put_of(note)]), add_many, search, settings)
    finally:
        connection.close()


@contextmanager
def open_sqlite_store_writing_ahead(folder: Path, vectors: Vectors) -> Iterator[Store]:
    """Open a new LangGraph SqliteStore at its best: writing ahead, with as large a cache and log as ours."""
    with open_sqlite_store(folder, vectors, wal=True) as store:
        yield store


@contextmanager
def open_qdrant(folder: Path, vectors: Vectors) -> Iterator[Store]:
    """Open a new Qdrant in local mode, on disk; users are told apart by a filter, its bulk path is one `upsert`."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(path=str(folder / "qdrant"))
    try:
        params = models.VectorParams(size=256, distance=models.Distance.COSINE)
        client.create_collection(COLLECTION, vectors_config=params)

        def point_of(note: Note) -> models.PointStruct:
            payload = {"text": note.text, "user": note.user, **note.metadata}
            return models.PointStruct(id=note.number, vector=vectors.list(note.text), payload=payload)

        def add_many(notes: Sequence[Note]) -> None:
            client.upsert(COLLECTION, points=[point_of(note) for note in notes])

        def search(user: str, question: str) -> list[str]:
            own = models.Filter(must=[models.FieldCondition(key="user", match=models.MatchValue(value=user))])
            found = client.query_points(COLLECTION, query=vectors.list(question), query_filter=own, limit=LIMIT)
            return [point.payload["text"] for point in found.points]

        settings = settings_of(client._client.collections[COLLECTION].storage.storage)
        settings |= {SYNCS: 4, BULK: "one upsert, which commits each point"}
        yield Store(lambda note: add_many([note]), add_many, search, settings)
    finally:
        client.close()


@contextmanager
def open_mem0(folder: Path, vectors: Vectors) -> Iterator[Store]:
    """Open a new mem0 that infers nothing, on its default vector store (Qdrant local) and its SQLite history.

    Its bulk path is `add` with a list of messages, once for each user, which has no metadata for each of them.
    No telemetry, and nothing asks a network.
    """
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ.setdefault("MEM0_DIR", str(folder / "mem0-home"))
    from mem0 import Memory

    class Embeddings:
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return vectors.list(text)

    place = {"path": str(folder / "mem0"), "on_disk": True, "collection_name": "mem0", "embedding_model_dims": 256}
    unused = {"provider": "openai", "config": {"api_key": "unused"}}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": place},
            "embedder": unused,
            "llm": unused,
            "history_db_path": str(folder / "history.db"),
        }
    )
    try:
        memory.embedding_model = Embeddings()

        def add(note: Note) -> object:
            return memory.add(note.text, user_id=note.user, metadata=note.metadata, infer=False)

        def add_many(notes: Sequence[Note]) -> None:
            for user, own in by_user(notes):
                messages = [{"role": "user", "content": note.text} for note in own]
                memory.add(messages, user_id=user, infer=False)

        def search(user: str, question: str) -> list[str]:
            found = memory.search(question, filters={"user_id": user}, top_k=LIMIT, threshold=0.0)
            return [one["memory"] for one in found["results"]]

        settings = settings_of(memory.vector_store.client._client.collections["mem0"].storage.storage)
        settings |= {SYNCS: 8, BULK: "one add a user, two commits an entry"}
        yield Store(add, add_many, search, settings)
    finally:
        memory.close()
        memory.vector_store.client.close()


@contextmanager
def open_lance(folder: Path, vectors: Vectors) -> Iterator[Store]:
    """Open a new LanceDB table; users are told apart by a filter before the search, its bulk path is one `add`."""
    import lancedb
    import pyarrow

    schema = pyarrow.schema(
        [
            pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), 256)),
            *(pyarrow.field(name, pyarrow.string()) for name in ("text", "user", *_METADATA)),
        ]
    )
    table = lancedb.connect(str(folder / "lance")).create_table(COLLECTION, schema=schema)

    def add_many(notes: Sequence[Note]) -> None:
        flat = np.concatenate([vectors.array(note.text) for note in notes])
        columns = {
            "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), 256),
            "text": [note.text for note in notes],
            "user": [note.user for note in notes],
            **{name: [note.metadata[name] for note in notes] for name in _METADATA},
        }
        table.add(pyarrow.table(columns, schema=schema))

    def search(user: str, question: str) -> list[str]:
        nearest = (
            table.search(vectors.array(question)).distance_type("cosine").where(f"user = '{user}'", prefilter=True)
        )
        return nearest.limit(LIMIT).select(["text", "_distance", *_METADATA]).to_arrow()["text"].to_pylist()

    settings = {SYNCS: 0, BULK: "one add of an Arrow table"}
    yield Store(lambda note: add_many([note]), add_many, search, settings)


@contextmanager
def open_chroma(folder: Path, vectors: Vectors) -> Iterator[Store]:
    """Open a new persistent Chroma collection; users are told apart by a filter, its bulk path is one `add`."""
    import chromadb
    from chromadb.config import Settings

    place = folder / "chroma"
    client = chromadb.PersistentClient(str(place), settings=Settings(anonymized_telemetry=False))
    collection = client.create_collection(
        COLLECTION, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )

    def add_many(notes: Sequence[Note]) -> None:
        collection.add(
            ids=[f"{note.number:08}" for note in notes],
            embeddings=[vectors.array(note.text) for note in notes],
            documents=[note.text for note in notes],
            metadatas=[{"user": note.user, **note.metadata} for note in notes],
        )

    def search(user: str, question: str) -> list[str]:
        found = collection.query(
            query_embeddings=[vectors.array(question)],
            n_results=LIMIT,
            where={"user": user},
            include=["documents", "metadatas", "distances"],
        )
        return found["documents"][0]

    def search_by_words(user: str, word: str) -> list[str]:
        found = collection.get(where={"user": user}, where_document={"$contains": word}, limit=LIMIT)
        return found["documents"]

    settings = {SYNCS: 8, BULK: "one add"} | _journal_of(place / "chroma.sqlite3")
    yield Store(lambda note: add_many([note]), add_many, search, settings, search_by_words=search_by_words)


@contextmanager
def open_numpy(folder: Path, vectors: Vectors) -> Iterator[Store]:
    """Open arrays in memory that nothing keeps: what a search by meaning costs at least, and the exact answer."""
    kept: dict[str, list[str]] = {}
    matrices: dict[str, NDArray[np.float32]] = {}

    def add_many(notes: Sequence[Note]) -> None:
        for user, own in by_user(notes):
            kept.setdefault(user, []).extend(note.text for note in own)
            matrices[user] = np.stack([vectors.array(text) for text in kept[user]])

    def search(user: str, question: str) -> list[str]:
        return nearest_to(user, vectors.array(question))

    def nearest_to(user: str, vector: NDArray[np.float32]) -> list[str]:
        cosines = matrices[user] @ vector
        nearest = np.argpartition(cosines, -LIMIT)[-LIMIT:]
        return [kept[user][row] for row in nearest[np.argsort(-cosines[nearest])]]

    settings = {SYNCS: "keeps nothing"}
    yield Store(lambda note: add_many([note]), add_many, search, settings, nearest_to=nearest_to)


PEERS: dict[str, Opening] = {
    SQLITE_AS_SHIPPED: open_sqlite_store,
    SQLITE: open_sqlite_store_writing_ahead,
    QDRANT: open_qdrant,
    MEM0: open_mem0,
    LANCE: open_lance,
    CHROMA: open_chroma,
}

_METADATA = ("speaker", "session", "time", "priority")


def by_user(notes: Sequence[Note]) -> Iterator[tuple[str, list[Note]]]:
    """Yield each user with their notes, in their order."""
    for user, own in groupby(sorted(notes, key=lambda note: note.user), key=lambda note: note.user):
        yield user, list(own)


def _journal_of(path: Path) -> dict[str, Any]:
    """Return the journal mode of a file whose connection is out of reach; its synchronous cannot be asked for."""
    import sqlite3

    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return {"journal_mode": connection.execute("PRAGMA journal_mode").fetchone()[0], "synchronous": "?"}
    finally:
        connection.close()


def _langchain_embeddings() -> type:
    from langchain_core.embeddings import Embeddings

    return Embeddings
