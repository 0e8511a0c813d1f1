"""Peers of Memoranda as systems that are measured: mem0, LangGraph's store and Chroma, each at its best.

Each adapter uses what its system has for the purpose (users, filters, ids, history, deletion) and nothing that it does
not have: what is left out is not supported. All embed with the same small model, offline, without keys.

    python bench/governance/peers.py

prints the scorecards as JSON. `make governance` calls it in an environment of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from memoranda.retrieval.embed.wordllama import DIMENSION, WordLlama
from memoranda.testing.governance import MemorySystem, Refused, Unsupported, scorecard
from memoranda.testing.governance.system import Found, Writer

_EVERYTHING = 10_000


class _Embeddings:
    """WordLlama under the names that LangChain and mem0 call."""

    def __init__(self) -> None:
        self._model = WordLlama()

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return self._model.embed(list(texts)).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_query(text)

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return self.embed_documents(texts)


_EMBEDDINGS = _Embeddings()


class _Peer(MemorySystem):
    """What the peers have in common: no scope but a user, and no upkeep."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ids = count(1)
        self._keys: dict[tuple[str, str], str] = {}
        self._users: dict[str, str] = {}
        self._open()

    def _open(self) -> None:
        raise NotImplementedError

    def _store(self, user: str, ref: str, text: str, about: Mapping[str, str], ttl: int | None) -> str:
        raise NotImplementedError

    def _text(self, user: str, ref: str) -> str | None:
        raise NotImplementedError

    def write(
        self,
        user: str,
        text: str,
        *,
        key: str = "",
        writer: Writer = "user",
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        request: str = "",
        sources: Sequence[str] = (),
        confirm: bool = False,
    ) -> str:
        """Store a text. Who wrote it and what it is derived from can only be noted, so they are."""
        if request:
            raise Unsupported("idempotency")
        if confirm:
            raise Unsupported("confirmation")
        about = {**(metadata or {}), "written_by": writer}
        if sources:
            about["sources"] = ",".join(sources)
        known = self._keys.get((user, key)) if key else None
        if known is not None:
            return self.supersede(user, known, text)
        ref = self._store(user, f"m{next(self._ids):06}", text, about, ttl)
        self._users[ref] = user
        if key:
            self._keys[user, key] = ref
        return ref

    def read(self, user: str, key: str) -> str | None:
        """Return the text under a key."""
        ref = self._keys.get((user, key))
        return None if ref is None else self._text(user, ref)

    def share(self, user: str, ref: str, to: str) -> str:
        """Copy the text."""
        text = self._text(user, ref)
        if text is None:
            raise Refused("nothing to share")
        return self.write(to, text)

    def reindex(self) -> None:
        """Write every text again, which makes its vector again."""
        for ref, user in self._users.items():
            text = self._text(user, ref)
            if text is not None:
                self.supersede(user, ref, text)

    def restart(self) -> None:
        """Close it and open the same files."""
        self.close()
        self._open()


@contextmanager
def _refusals() -> Iterator[None]:
    """Take an error about an argument for a refusal."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise Refused(str(error)) from error


class Mem0System(_Peer):
    """mem0 that infers nothing, on Qdrant in local mode, with its history."""

    name = "mem0"
    version = version("mem0ai")

    def _open(self) -> None:
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ.setdefault("MEM0_DIR", str(self.folder / "home"))
        from mem0 import Memory

        place = {
            "path": str(self.folder / "qdrant"),
            "on_disk": True,
            "collection_name": "mem0",
            "embedding_model_dims": DIMENSION,
        }
        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "embedder": unused,
                "llm": unused,
                "history_db_path": str(self.folder / "history.db"),
            }
        )
        self._memory.embedding_model = _EMBEDDINGS

    def close(self) -> None:
        """Close it."""
        self._memory.close()
        self._memory.vector_store.client.close()

    def _store(self, user: str, ref: str, text: str, about: Mapping[str, str], ttl: int | None) -> str:
        if ttl is not None:
            raise Unsupported("a TTL in seconds")
        with _refusals():
            done = self._memory.add(text, user_id=user, metadata=dict(about), infer=False)
        return done["results"][0]["id"]

    def _text(self, user: str, ref: str) -> str | None:
        found = self._memory.get(ref)
        return None if found is None else found["memory"]

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Search by meaning among the memories of a user."""
        with _refusals():
            found = self._memory.search(query, filters={"user_id": user}, top_k=limit, threshold=0.0)
        return [Found(one["id"], one["memory"], one.get("created_at") or "") for one in found["results"]]

    def listing(self, user: str) -> list[str]:
        """Return every memory of a user."""
        return [one["memory"] for one in self._memory.get_all(filters={"user_id": user}, top_k=_EVERYTHING)["results"]]

    def history(self, user: str, ref: str) -> list[str]:
        """Return what its history says."""
        told = sorted(self._memory.history(ref), key=lambda one: one["created_at"] or "")
        return [one["new_memory"] for one in told if one["new_memory"]]

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Update in place."""
        with _refusals():
            self._memory.update(ref, text=text)
        return ref

    def forget(self, user: str, ref: str) -> None:
        """Delete by id, which is all that this call takes, as it is the caller's who knows the id."""
        with _refusals():
            self._memory.delete(ref)

    def erase(self, user: str) -> None:
        """Delete every memory of a user."""
        self._memory.delete_all(user_id=user)


class LangGraphSystem(_Peer):
    """LangGraph's SqliteStore with an index, a namespace for each user."""

    name = "LangGraph SqliteStore"
    version = version("langgraph-checkpoint-sqlite")

    def _open(self) -> None:
        import pysqlite3.dbapi2 as sqlite3
        from langchain_core.embeddings import Embeddings
        from langgraph.store.sqlite import SqliteStore

        kind = type("WordLlamaEmbeddings", (_Embeddings, Embeddings), {})
        self._connection = sqlite3.connect(
            str(self.folder / "langgraph.db"), check_same_thread=False, isolation_level=None
        )
        self._langgraph = SqliteStore(
            self._connection,
            index={"dims": DIMENSION, "embed": kind(), "text_fields": ["text"]},
            ttl={"refresh_on_read": False},
        )
        self._langgraph.setup()

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def _store(self, user: str, ref: str, text: str, about: Mapping[str, str], ttl: int | None) -> str:
        with _refusals():
            self._langgraph.put(("memories", user), ref, {"text": text, **about}, ttl=None if ttl is None else ttl / 60)
        return ref

    def _text(self, user: str, ref: str) -> str | None:
        found = self._langgraph.get(("memories", user), ref)
        return None if found is None else found.value["text"]

    def read(self, user: str, key: str) -> str | None:
        """Read by key, which this store has by itself."""
        found = self._langgraph.get(("memories", user), self._keys.get((user, key), key))
        return None if found is None else found.value["text"]

    def _own(self, user: str, **options: Any) -> list[Any]:
        """Return what a search of exactly this namespace finds: a shorter one would also match longer ones."""
        with _refusals():
            found = self._langgraph.search(("memories", user), **options)
        return [one for one in found if one.namespace == ("memories", user)]

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Search by meaning among the memories of a user."""
        return [
            Found(one.key, one.value["text"], one.created_at.isoformat())
            for one in self._own(user, query=query, limit=limit)
        ]

    def listing(self, user: str) -> list[str]:
        """Return every memory of a user."""
        return [one.value["text"] for one in self._own(user, limit=_EVERYTHING)]

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Update in place."""
        self._langgraph.put(("memories", user), ref, {"text": text})
        return ref

    def forget(self, user: str, ref: str) -> None:
        """Delete by key."""
        with _refusals():
            self._langgraph.delete(("memories", user), ref)

    def erase(self, user: str) -> None:
        """Delete every memory of a user."""
        for one in self._own(user, limit=_EVERYTHING):
            self._langgraph.delete(("memories", user), one.key)
        self._connection.execute("VACUUM")

    def maintain(self) -> None:
        """Remove what has expired."""
        self._langgraph.sweep_ttl()


class ChromaSystem(_Peer):
    """Chroma on disk, users told apart by a filter."""

    name = "Chroma"
    version = version("chromadb")

    def _open(self) -> None:
        import chromadb
        from chromadb.config import Settings

        self._client = chromadb.PersistentClient(
            str(self.folder / "chroma"), settings=Settings(anonymized_telemetry=False)
        )
        self._collection = self._client.get_or_create_collection(
            "memories", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def close(self) -> None:
        """Close it."""
        self._client.close()

    def _store(self, user: str, ref: str, text: str, about: Mapping[str, str], ttl: int | None) -> str:
        if ttl is not None:
            raise Unsupported("a TTL")
        with _refusals():
            self._collection.add(
                ids=[ref],
                embeddings=[_EMBEDDINGS.embed_query(text)],
                documents=[text],
                metadatas=[{**about, "user": user}],
            )
        return ref

    def _text(self, user: str, ref: str) -> str | None:
        found = self._collection.get(ids=[ref], where={"user": user})["documents"]
        return found[0] if found else None

    def search(self, user: str, query: str, limit: int = 5) -> list[Found]:
        """Search by meaning among the memories of a user."""
        with _refusals():
            found = self._collection.query(
                query_embeddings=[_EMBEDDINGS.embed_query(query)], n_results=limit, where={"user": user}
            )
        return [Found(ref, text) for ref, text in zip(found["ids"][0], found["documents"][0], strict=True)]

    def listing(self, user: str) -> list[str]:
        """Return every memory of a user."""
        return self._collection.get(where={"user": user})["documents"]

    def supersede(self, user: str, ref: str, text: str) -> str:
        """Update in place."""
        self._collection.update(ids=[ref], documents=[text], embeddings=[_EMBEDDINGS.embed_query(text)])
        return ref

    def forget(self, user: str, ref: str) -> None:
        """Delete by key."""
        with _refusals():
            self._collection.delete(ids=[ref], where={"user": user})

    def forget_identifier(self, user: str, identifier: str) -> None:
        """Delete what contains it, by the filter on documents, which knows no spelling but this one."""
        self._collection.delete(where={"user": user}, where_document={"$contains": identifier})

    def erase(self, user: str) -> None:
        """Delete every memory of a user."""
        self._collection.delete(where={"user": user})


PEERS = (Mem0System, LangGraphSystem, ChromaSystem)


def main() -> None:
    """Print the scorecards as JSON."""
    sys.stdout.buffer.write(msgspec.json.encode([scorecard(peer) for peer in PEERS]))


if __name__ == "__main__":
    main()
