# Made from client/aio/batch.py by memoranda.client.generate: change that one.
"""Several writes through the server, kept all together or not at all: `client.batch()`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from memoranda.client.calls import Call, body, given, once, path, seconds
from memoranda.client.sync.connection import Connection
from memoranda.model.duration import Duration
from memoranda.wire.facts import Fact, Written


class Batch:
    """Collects writes inside a `with` block and sends them as one when it ends well.

    `scope` narrows to a place below the user: `agent:emails` is what belongs to the user and that agent.
    """

    def __init__(self, connection: Connection, idempotency_key: str | None = None) -> None:
        """Begin with no writes; `client.batch()` makes these."""
        self._connection = connection
        self._idempotency_key = idempotency_key
        self._writes: list[dict[str, Any]] = []
        self.results: list[Fact | bool] = []
        """Once the block has ended: per write, the fact it made or whether it deleted one."""

    def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
        scope: str | None = None,
    ) -> None:
        """Add a write of a fact."""
        asked = given(expect=expect, ttl=seconds(ttl), domain=domain, scope=scope)
        self._writes.append({"key": key, "value": value, **asked})

    def delete(self, key: str, *, expect: int | None = None, scope: str | None = None) -> None:
        """Add a delete of a fact."""
        self._writes.append({"key": key, "delete": True, **given(expect=expect, scope=scope)})

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the writes, unless the block failed or there are none."""
        if kind is not None or not self._writes:
            return
        call = Call(
            method="POST",
            path=path("memory", "facts"),
            headers=once(self._idempotency_key),
            body=body(writes=self._writes),
            # A version that was met is never met again; that there is nothing to delete may well be.
            repeatable=self._idempotency_key is not None
            or any("expect" in write for write in self._writes if "value" in write),
        )
        self.results = (self._connection.fetch(call, Written)).results
