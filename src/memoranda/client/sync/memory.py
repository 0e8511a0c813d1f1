# Generated from client/aio/memory.py by memoranda.client.generate; do not edit.
"""`client.facts`, `client.batch()`, `client.memory` (blocks) and `client.definitions`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

from memoranda.client.requests import (
    Request,
    body,
    idempotency_header,
    moment,
    parameters,
    path,
    seconds,
    version_header,
    without_none,
)
from memoranda.client.sync.connection import Connection, collect, collect_linked
from memoranda.errors import Conflict, NotFound, UsageError
from memoranda.model.clock import Duration
from memoranda.model.definition import Mode
from memoranda.model.text import quote
from memoranda.wire.memory import (
    Block,
    BlockMatch,
    BlockScope,
    BlockType,
    Definition,
    Definitions,
    Fact,
    Facts,
    History,
    Records,
    Revision,
    Written,
)

_MISSING: Any = object()


class FactCalls:
    """The facts of the API key's user.

    `scope` is a scope below the user, such as `agent:emails`.
    """

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.facts`."""
        self._connection = connection

    def get(self, key: str, *, as_of: datetime | str | None = None, scope: str | None = None) -> Fact | None:
        """Return the active fact, or its value at `as_of`; None if there is none."""
        request = Request(
            method="GET", path=_fact_path(key), query=parameters(as_of=moment(as_of), scope=scope), repeatable=True
        )
        return self._connection.find(request, Fact)

    def value(
        self, key: str, default: Any = None, *, as_of: datetime | str | None = None, scope: str | None = None
    ) -> Any:
        """Return the value at a key, or the default."""
        fact = self.get(key, as_of=as_of, scope=scope)
        return default if fact is None else fact.value

    def set(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl: Duration | None = None,
        domain: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
        scope: str | None = None,
    ) -> Fact:
        """Write a fact and return it. `expect` is the version it must have; 0 means it must not exist.

        Only with `expect` or an `idempotency_key` is the write retried after a lost response.
        """
        request = Request(
            method="PUT",
            path=_fact_path(key),
            query=parameters(scope=scope),
            headers=idempotency_header(idempotency_key),
            body=body(
                value=value,
                **without_none(
                    expect=expect,
                    ttl=seconds(ttl),
                    domain=domain,
                    source=source,
                ),
            ),
            repeatable=expect is not None or idempotency_key is not None,
        )
        return self._connection.fetch(request, Fact)

    def create(
        self,
        key: str,
        value: Any,
        *,
        ttl: Duration | None = None,
        domain: str | None = None,
        scope: str | None = None,
    ) -> Fact:
        """Write a fact that must not exist yet; raise Conflict if it does."""
        return self.set(key, value, expect=0, ttl=ttl, domain=domain, scope=scope)

    def update(
        self,
        key: str,
        change: Callable[[Any], Any],
        *,
        default: Any = _MISSING,
        ttl: Duration | None = None,
        domain: str | None = None,
        attempts: int = 1_000,
        scope: str | None = None,
    ) -> Fact:
        """Replace a value by `change(value)`, and retry if it was changed in the meantime.

        `change` gets the default if the fact does not exist. It may be called several times, so it should only compute.
        """
        for attempt in range(attempts):
            fact = self.get(key, scope=scope)
            if fact is None and default is _MISSING:
                raise NotFound(f"unknown fact {quote(key)}", hint="Pass default=… to create it")
            changed = change(default if fact is None else fact.value)
            tag = domain if domain is not None else fact.domain if fact else None
            try:
                expect = fact.version if fact else 0
                return self.set(key, changed, expect=expect, ttl=ttl, domain=tag, scope=scope)
            except Conflict as conflict:
                # After a retry the conflicting change may be our own, and must not be made twice.
                if attempt == attempts - 1 or conflict.details.get("repeated"):
                    raise
        raise UsageError("`attempts` must be at least 1", hint="Leave it out")

    def delete(
        self,
        key: str,
        *,
        expect: int | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
        scope: str | None = None,
    ) -> bool:
        """Delete a fact and return whether there was one; its history is kept. `expect=0` means there must be none."""
        request = Request(
            method="DELETE",
            path=_fact_path(key),
            query=parameters(scope=scope, source=source),
            headers=idempotency_header(idempotency_key) | version_header(expect),
            repeatable=expect is not None or idempotency_key is not None,
        )
        return (self._connection.send(request, missing=True)).status_code != 404

    def list(
        self,
        prefix: str = "",
        *,
        domain: str | None = None,
        limit: int | None = None,
        as_of: datetime | str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Fact]:
        """Return the facts at and below a key, ordered by key, at most `limit`."""
        asked = parameters(prefix=prefix or None, domain=domain, as_of=moment(as_of), scope=scope)
        return collect(self._connection, path("memory", "facts"), asked, Facts, lambda page: page.facts, limit)

    def history(self, key: str, *, limit: int | None = None, scope: str | None = None) -> builtins.list[Revision]:
        """Return the revisions of a key, oldest first, at most `limit`."""
        asked, place = parameters(scope=scope), f"{_fact_path(key)}/history"
        return collect(self._connection, place, asked, History, lambda page: page.revisions, limit, missing=True)


def _fact_path(key: str) -> str:
    return path("memory", "facts", key)


class Batch:
    """Collects writes in a `with` block and sends them together when it ends without an error.

    `scope` is a scope below the user, such as `agent:emails`.
    """

    def __init__(self, connection: Connection, idempotency_key: str | None = None) -> None:
        """Start with no writes; created by `client.batch()`."""
        self._connection = connection
        self._idempotency_key = idempotency_key
        self._writes: list[dict[str, Any]] = []
        self.results: list[Fact | bool] = []
        """After the block: for each write the new fact, or whether a fact was deleted."""

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
        asked = without_none(expect=expect, ttl=seconds(ttl), domain=domain, scope=scope)
        self._writes.append({"key": key, "value": value, **asked})

    def delete(self, key: str, *, expect: int | None = None, scope: str | None = None) -> None:
        """Add a delete of a fact."""
        self._writes.append({"key": key, "delete": True, **without_none(expect=expect, scope=scope)})

    def __enter__(self) -> Self:
        """Return this batch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the writes, unless the block raised or there are none."""
        if kind is not None or not self._writes:
            return
        request = Request(
            method="POST",
            path=path("memory", "facts"),
            headers=idempotency_header(self._idempotency_key),
            body=body(writes=self._writes),
            # An expected version matches only once; the absence of a fact to delete may match again.
            repeatable=self._idempotency_key is not None
            or any("expect" in write for write in self._writes if "value" in write),
        )
        self.results = (self._connection.fetch(request, Written)).results


class BlockCalls:
    """The blocks of the API key's user, or with an `agent_id` those of that agent."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.memory`."""
        self._connection = connection

    def list(
        self, *, scope: Literal["user", "agent", "all"] | None = None, agent_id: str | None = None
    ) -> builtins.list[Block]:
        """Return the user's blocks; with `scope="agent"` those of all agents or one, with `"all"` both."""
        asked, place = _owner(scope, agent_id), path("memory", "blocks")
        return collect_linked(self._connection, place, asked, Block)

    def get(self, block: BlockType, *, scope: BlockScope | None = None, agent_id: str | None = None) -> Block | None:
        """Return a block, None if there is none."""
        request = Request(method="GET", path=_block_path(block), query=_owner(scope, agent_id), repeatable=True)
        return self._connection.find(request, Block)

    def update(
        self,
        block: BlockType,
        content: str,
        *,
        expected_updated_at: datetime | str | None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
    ) -> Block:
        """Replace the text of a block and return it. Pass the last `updated_at`; None creates the block.

        Raise Conflict if it was changed in the meantime; `.current_updated_at` is its time of change.
        """
        request = Request(
            method="PUT",
            path=_block_path(block),
            query=_owner(scope, agent_id),
            headers=idempotency_header(idempotency_key),
            body=body(content=content, expected_updated_at=moment(expected_updated_at), **without_none(source=source)),
            repeatable=True,
        )
        return self._connection.fetch(request, Block)

    def delete(
        self,
        block: BlockType,
        *,
        expected_updated_at: datetime | str | None = None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
        source: str | None = None,
    ) -> bool:
        """Delete a block and return whether there was one; with `expected_updated_at`, only if it has not changed."""
        stamp = moment(expected_updated_at)
        request = Request(
            method="DELETE",
            path=_block_path(block),
            query=_owner(scope, agent_id) | parameters(expected_updated_at=stamp, source=source),
            repeatable=stamp is not None,
        )
        return (self._connection.send(request, missing=True)).status_code != 404

    def history(
        self,
        block: BlockType,
        *,
        limit: int | None = None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
    ) -> builtins.list[Revision]:
        """Return the revisions of a block, oldest first, at most `limit`."""
        asked, place = _owner(scope, agent_id), f"{_block_path(block)}/history"
        return collect(self._connection, place, asked, History, lambda page: page.revisions, limit, missing=True)

    def undo(
        self,
        block: BlockType,
        *,
        expected_updated_at: datetime | str | None,
        scope: BlockScope | None = None,
        agent_id: str | None = None,
    ) -> Block:
        """Restore the previous text of a block, or a deleted block; undoing twice redoes the change.

        Pass the last `updated_at`, None for a deleted block.
        """
        request = Request(
            method="POST",
            path=f"{_block_path(block)}/undo",
            query=_owner(scope, agent_id),
            body=body(expected_updated_at=moment(expected_updated_at)),
            repeatable=True,
        )
        return self._connection.fetch(request, Block)

    def recall(
        self, query: str, *, agent_id: str | None = None, limit: int = 10, min_score: float | None = None
    ) -> builtins.list[BlockMatch]:
        """Return the archival lines that match a query, best first; with an `agent_id` also that agent's."""
        asked = body(query=query, limit=limit, **without_none(agent_id=agent_id, min_score=min_score))
        request = Request(method="POST", path=path("memory", "recall"), body=asked, repeatable=True)
        return self._connection.fetch(request, builtins.list[BlockMatch])


def _block_path(block: str) -> str:
    return path("memory", "blocks", block)


def _owner(scope: str | None, agent_id: str | None) -> dict[str, str]:
    """Return the parameters for the owner of a block; an `agent_id` implies the scope `agent`."""
    return parameters(scope="agent" if scope is None and agent_id is not None else scope, agent_id=agent_id)


class DefinitionCalls:
    """The definitions of the tenant, by id or slug."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.definitions`."""
        self._connection = connection

    def create(
        self,
        *,
        name: str,
        slug: str,
        schema: dict[str, Any],
        scope: str = "global",
        ttl: Duration | None = None,
        mode: Mode | None = None,
        id: str | None = None,
    ) -> Definition:
        """Create a definition and return it."""
        asked = without_none(ttl=seconds(ttl), mode=mode, id=id)
        request = Request(
            method="POST",
            path=path("memory", "definitions"),
            body=body(name=name, slug=slug, schema=schema, scope=scope, **asked),
        )
        return self._connection.fetch(request, Definition)

    def list(self, *, limit: int | None = None) -> builtins.list[Definition]:
        """Return all definitions, oldest first."""
        place = path("memory", "definitions")
        return collect(self._connection, place, {}, Definitions, lambda page: page.definitions, limit)

    def get(self, definition: str) -> Definition:
        """Return a definition by its id or slug; raise NotFound if there is none."""
        return self._connection.fetch(
            Request(method="GET", path=_definition_path(definition), repeatable=True), Definition
        )

    def update(
        self,
        definition: str,
        *,
        name: str | None = None,
        slug: str | None = None,
        schema: dict[str, Any] | None = None,
        scope: str | None = None,
        ttl: Duration | None = None,
        clear_ttl: bool = False,
        mode: Mode | None = None,
    ) -> Definition:
        """Change the given fields; `clear_ttl` makes future records permanent. A new slug renames the records."""
        asked = without_none(name=name, slug=slug, schema=schema, scope=scope, mode=mode)
        if ttl is not None or clear_ttl:
            asked["ttl"] = seconds(ttl)
        request = Request(method="PATCH", path=_definition_path(definition), body=body(**asked))
        return self._connection.fetch(request, Definition)

    def delete(self, definition: str) -> None:
        """Delete a definition and its records; raise NotFound if there is none."""
        self._connection.send(Request(method="DELETE", path=_definition_path(definition)))

    def records(self, definition: str, *, limit: int | None = None) -> builtins.list[Fact]:
        """Return the active records of a definition, of all owners."""
        place = f"{_definition_path(definition)}/records"
        return collect(self._connection, place, {}, Records, lambda page: page.records, limit)


def _definition_path(definition: str) -> str:
    return path("memory", "definitions", definition)
