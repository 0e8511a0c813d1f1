"""Several writes, kept all together or not at all."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from memoranda.api.scoped import ScopedMemory, delete_effect, set_effect
from memoranda.governance.gate import Caller, Gate
from memoranda.model.duration import Duration
from memoranda.model.effect import DeleteFact, SetFact, WriteFacts
from memoranda.model.fact import Fact
from memoranda.model.text import check_label


class Batch:
    """Collects writes inside a `with` block and sends them as one when it ends well.

    >>> import memoranda
    >>> with memoranda.open(":memory:") as memory:
    ...     ada = memory.scope(user="ada")
    ...     with memory.batch() as batch:
    ...         batch.set(ada, "name", "Ada")
    ...         batch.set(ada, "language", "en")
    ...         batch.delete(ada, "nickname")
    ...     [fact.key for fact in ada.list()], batch.results[2]
    (['language', 'name'], False)
    """

    def __init__(self, gate: Gate, caller: Caller, idempotency_key: str | None = None) -> None:
        """Begin with no writes; `memory.batch()` makes these."""
        check_label("idempotency key", idempotency_key)
        self._gate = gate
        self._caller = caller
        self._idempotency_key = idempotency_key
        self._writes: list[SetFact | DeleteFact] = []
        self.results: list[Fact | bool] = []
        """Once the block has ended: per write, the fact it made or whether it deleted one."""

    def set(
        self,
        place: ScopedMemory,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
    ) -> None:
        """Add a write of a fact."""
        effect = set_effect(place.scope, key, value, self._gate.limits, expect=expect, ttl=ttl, domain=domain)
        self._writes.append(effect)

    def delete(self, place: ScopedMemory, key: str, *, expect: int | None = None) -> None:
        """Add a delete of a fact."""
        self._writes.append(delete_effect(place.scope, key, expect=expect))

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the writes, unless the block failed or there are none."""
        if kind is None and self._writes:
            effect = WriteFacts(
                scope=self._writes[0].scope,
                writes=tuple(self._writes),
                idempotency_key=self._idempotency_key,
            )
            self.results = self._gate.perform(effect, self._caller)
