# Generated from client/aio/collections.py by memoranda.client.generate; do not edit.
"""Semantic memory: `client.collections`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memoranda.client.requests import (
    Request,
    body,
    filter_object,
    item_object,
    moment,
    parameters,
    path,
    seconds,
    without_none,
)
from memoranda.client.sync.connection import Connection, collect
from memoranda.errors import UsageError
from memoranda.model.clock import Duration
from memoranda.model.entry import Mode
from memoranda.wire.memory import (
    AllRemembered,
    Collections,
    Entries,
    Entry,
    Holding,
    Match,
    Recalled,
    Remembered,
    Removed,
)


class CollectionCalls:
    """The entries of the API key's user, found by meaning.

    `scope` is a scope below the user, such as `agent:emails`.
    """

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.collections`."""
        self._connection = connection

    def remember(
        self,
        content: Any,
        *,
        collection: str,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        key: str | None = None,
        source: str | None = None,
        scope: str | None = None,
    ) -> Remembered:
        """Store text or JSON so that `recall` finds it by meaning; the collection is created on first use.

        The same content with the same metadata is stored once in a namespace, so it can be sent again after a lost
        response: `duplicate` tells whether it existed.
        """
        asked = without_none(
            metadata=metadata,
            ttl=seconds(ttl),
            key=key,
            source=source,
        )
        request = Request(
            method="POST",
            path=path("collections", collection, "remember"),
            query=parameters(scope=scope),
            body=body(content=content, namespace=namespace, **asked),
        )
        return self._connection.fetch(request, Remembered)

    def remember_many(
        self,
        items: Iterable[Mapping[str, Any]],
        *,
        collection: str,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Remembered]:
        """Store several entries, all or none: mappings with `content`, and optionally `metadata` and `key`."""
        asked = without_none(ttl=seconds(ttl), source=source)
        sent = [item_object(item, number) for number, item in enumerate(items)]
        if not sent:
            return []
        request = Request(
            method="POST",
            path=path("collections", collection, "entries"),
            query=parameters(scope=scope),
            body=body(items=sent, namespace=namespace, **asked),
        )
        return (self._connection.fetch(request, AllRemembered)).remembered

    def remember_text(
        self,
        text: str,
        *,
        collection: str,
        chunk: int = 1_200,
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        ttl: Duration | None = None,
        source: str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Remembered]:
        """Store a long text in chunks of at most `chunk` characters, split between paragraphs or sentences."""
        asked = without_none(metadata=metadata, ttl=seconds(ttl), source=source)
        request = Request(
            method="POST",
            path=path("collections", collection, "texts"),
            query=parameters(scope=scope),
            body=body(text=text, chunk=chunk, namespace=namespace, **asked),
        )
        return (self._connection.fetch(request, AllRemembered)).remembered

    def recall(
        self,
        query: str,
        *,
        collection: str,
        namespace: str | None = None,
        limit: int = 5,
        threshold: float = 0.0,
        filter: Mapping[str, Any] | None = None,
        as_of: datetime | str | None = None,
        mode: Mode = "hybrid",
        expand: int = 0,
        scope: str | None = None,
    ) -> Recalled:
        """Return the entries that match a query, best first, each with a score from 0 to 1 and an explanation."""
        asked = without_none(namespace=namespace, filter=filter_object(filter), as_of=moment(as_of))
        asked |= {"query": query, "limit": limit, "threshold": threshold, "mode": mode, "expand": expand}
        results: builtins.list[Match] = []
        after: str | None = None
        while True:
            request = Request(
                method="POST",
                path=path("collections", collection, "recall"),
                query=parameters(scope=scope, after=after),
                body=body(**asked),
                repeatable=True,
            )
            found = self._connection.fetch(request, Recalled)
            results += found.results
            after = found.next
            if after is None:
                return Recalled(results=results, count=len(results))

    def entries(
        self, *, collection: str, namespace: str | None = None, limit: int | None = None, scope: str | None = None
    ) -> builtins.list[Entry]:
        """Return the entries of a collection, oldest first, at most `limit`."""
        place = path("collections", collection, "entries")
        asked = parameters(namespace=namespace, scope=scope)
        return collect(self._connection, place, asked, Entries, lambda page: page.entries, limit)

    def forget(
        self,
        id: str | None = None,
        *,
        collection: str,
        key: str | None = None,
        namespace: str = "",
        scope: str | None = None,
    ) -> bool:
        """Forget an entry by its id or key; return whether it existed."""
        if (id is None) == (key is None):
            raise UsageError("`forget` needs an id or a key", hint="Pass one of them")
        place = path("collections", collection, "entries")
        request = Request(
            method="DELETE",
            path=place if id is None else path("collections", collection, "entries", id),
            query=parameters(key=key, namespace=namespace or None, scope=scope),
        )
        return (self._connection.send(request, missing=True)).status_code != 404

    def list(self, *, limit: int | None = None) -> builtins.list[Holding]:
        """Return the collections with entries of the user, by name; for an administrator, those of the tenant."""
        place = path("collections")
        return collect(self._connection, place, {}, Collections, lambda page: page.collections, limit)

    def delete(self, collection: str) -> int:
        """Delete a collection with the entries of all users of the tenant; return their number."""
        request = Request(method="DELETE", path=path("collections", collection))
        return (self._connection.fetch(request, Removed)).entries
