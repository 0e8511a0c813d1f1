"""The collections of a tenant: list them, delete one, or move one to another embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memoranda.api.desk import Desk
from memoranda.api.remembering import check_collection
from memoranda.engine.collections import Progress, Step
from memoranda.engine.comparison import Comparison
from memoranda.model.collection import Collection, Holding, Space
from memoranda.model.effect import (
    BeginReembedding,
    CompareEmbedders,
    DeleteCollection,
    EndReembedding,
    ReadCollections,
    ReembedEntries,
)
from memoranda.model.limits import check_count
from memoranda.model.scope import Scope

if TYPE_CHECKING:
    from memoranda.retrieval.embed.base import Embedder


class Collections(Desk):
    """Where entries are kept."""

    def list(self, *, below: Scope | None = None) -> list[Holding]:
        """Return every collection with its embedder and how much is in it, by name.

        With a scope, only those that hold something of it or of a scope below, and how much that is.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     [(one.name, one.entries) for one in memory.collections.list()]
        [('glazes', 1)]
        """
        return self._perform(ReadCollections(scope=below or self._shared))

    def delete(self, collection: str) -> int:
        """Delete a collection with its entries in every scope; return how many there were.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     memory.collections.delete("glazes"), memory.collections.list()
        (1, [])
        """
        effect = DeleteCollection(scope=self._shared, collection=check_collection(collection))
        return self._perform(effect)

    def compare(
        self, collection: str, embedder: str | Embedder, *, queries: Sequence[str] = (), sample: int = 500
    ) -> Comparison:
        """Return what recall would gain or lose if a collection moved to another embedder; nothing is written.

        Up to `sample` of its entries are embedded for that. Without `queries` it makes its own.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     memory.collections.compare("glazes", "hashing:64", queries=["green"]).entries
        1
        """
        check_count("sample", sample, least=1)
        effect = CompareEmbedders(
            scope=self._shared,
            collection=check_collection(collection),
            space=self._space_of(embedder),
            queries=tuple(queries),
            sample=sample,
        )
        return self._perform(effect)

    def reembed(
        self,
        collection: str,
        embedder: str | Embedder,
        *,
        progress: Callable[[int, int], None] | None = None,
        batch: int = 256,
    ) -> Collection:
        """Move a collection to another embedder while it is in use, and return it when it has moved.

        Entries are found with their old vectors until every one has a new one; then the collection switches at
        once. When this is interrupted, calling it again goes on where it stopped. After each `batch` of entries
        `progress` is told (done, total).

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     ada = memory.scope(user="ada")
        ...     done = ada.remember("Celadon turns green", collection="glazes")
        ...     memory.collections.reembed("glazes", "hashing:64").space.embedder
        ...     ada.recall("green", collection="glazes").count
        'hashing:64'
        1
        """
        check_collection(collection)
        check_count("batch", batch, least=1)
        begin = BeginReembedding(scope=self._shared, collection=collection, space=self._space_of(embedder))
        state: Progress = self._perform(begin)
        tell = progress or _tell_nobody
        tell(state.done, state.total)
        done, last = state.done, 0
        while True:
            step: Step = self._perform(
                ReembedEntries(scope=self._shared, collection=collection, limit=batch, after=last)
            )
            if not step.made:
                break
            done, last = done + step.made, step.last
            tell(min(done, state.total), state.total)
        return self._perform(EndReembedding(scope=self._shared, collection=collection))

    def give_up_reembedding(self, collection: str) -> Collection:
        """Give up a move that was begun: the new vectors go, and the collection stays as it was.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     done = memory.scope(user="ada").remember("Celadon turns green", collection="glazes")
        ...     def stop(done, total):
        ...         raise InterruptedError
        ...     try:
        ...         memory.collections.reembed("glazes", "hashing:64", progress=stop)
        ...     except InterruptedError:
        ...         memory.collections.give_up_reembedding("glazes").space.embedder
        'wordllama:256'
        """
        effect = EndReembedding(scope=self._shared, collection=check_collection(collection), give_up=True)
        return self._perform(effect)

    def _space_of(self, embedder: str | Embedder) -> Space:
        return self._gate.embedders.space_of(self._gate.embedders.load(embedder))


def _tell_nobody(done: int, total: int) -> None: ...
