"""The collections of a tenant: list them, delete one, or move one to another embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from recollect.api.remembering import check_collection
from recollect.engine.collections import Holding, Progress, Step
from recollect.engine.comparison import Comparison
from recollect.governance.gate import Caller, Gate
from recollect.model.collection import Collection, Space
from recollect.model.effect import (
    BeginReembedding,
    CompareEmbedders,
    DeleteCollection,
    EndReembedding,
    ReadCollections,
    ReembedEntries,
)
from recollect.model.limits import check_count
from recollect.model.scope import Scope

if TYPE_CHECKING:
    from recollect.retrieval.embed.base import Embedder


class Collections:
    """Where entries are kept."""

    def __init__(self, gate: Gate, caller: Caller, shared: Scope) -> None:
        """Stand in a tenant; `memory.collections` makes these."""
        self._gate = gate
        self._caller = caller
        self._shared = shared

    def list(self, *, below: Scope | None = None) -> list[Holding]:
        """Return every collection with its embedder and how much is in it, by name.

        With a scope, only those that hold something of it or of a scope below, and how much that is.
        """
        return self._gate.perform(ReadCollections(scope=below or self._shared), self._caller)

    def delete(self, name: str) -> int:
        """Delete a collection with its entries in every scope; return how many there were."""
        effect = DeleteCollection(scope=self._shared, collection=check_collection(name))
        return self._gate.perform(effect, self._caller)

    def compare(
        self, name: str, embedder: str | Embedder, *, queries: Sequence[str] = (), sample: int = 500
    ) -> Comparison:
        """Return what recall would gain or lose if a collection moved to another embedder; nothing is written.

        Up to `sample` of its entries are embedded for that. Without `queries` it makes its own.
        """
        check_count("sample", sample, least=1)
        effect = CompareEmbedders(
            scope=self._shared,
            collection=check_collection(name),
            space=self._space_of(embedder),
            queries=tuple(queries),
            sample=sample,
        )
        return self._gate.perform(effect, self._caller)

    def reembed(
        self,
        name: str,
        embedder: str | Embedder,
        *,
        progress: Callable[[int, int], None] | None = None,
        chunk: int = 256,
    ) -> Collection:
        """Move a collection to another embedder while it is in use, and return it when it has moved.

        Entries are found with their old vectors until every one has a new one; then the collection switches at
        once. When this is interrupted, calling it again goes on where it stopped. `progress` is told (done, total).
        """
        check_collection(name)
        check_count("chunk", chunk, least=1)
        begin = BeginReembedding(scope=self._shared, collection=name, space=self._space_of(embedder))
        state: Progress = self._gate.perform(begin, self._caller)
        tell = progress or _tell_nobody
        tell(state.done, state.total)
        done, last = state.done, 0
        while True:
            step: Step = self._gate.perform(
                ReembedEntries(scope=self._shared, collection=name, limit=chunk, after=last), self._caller
            )
            if not step.made:
                break
            done, last = done + step.made, step.last
            tell(min(done, state.total), state.total)
        return self._gate.perform(EndReembedding(scope=self._shared, collection=name), self._caller)

    def give_up_reembedding(self, name: str) -> Collection:
        """Give up a move that was begun: the new vectors go, and the collection stays as it was."""
        effect = EndReembedding(scope=self._shared, collection=check_collection(name), give_up=True)
        return self._gate.perform(effect, self._caller)

    def _space_of(self, embedder: str | Embedder) -> Space:
        return self._gate.embedders.space_of(self._gate.embedders.load(embedder))


def _tell_nobody(done: int, total: int) -> None: ...
