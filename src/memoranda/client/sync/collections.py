# Made from client/aio/collections.py by memoranda.client.generate: change that one.
"""Semantic memory through the server: `client.collections`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memoranda.client.calls import Call, body, checked_filter, checked_item, given, moment, parameters, path, seconds
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.errors import UsageError
from memoranda.model.duration import Duration
from memoranda.model.recall import Mode
from memoranda.wire.collections import (
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
    """What the user that the API key belongs to has remembered, found by meaning.

    `scope` narrows to a place below the user: `agent:emails` is what belongs to the user and that agent.
    """

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.collections` makes these."""
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
        """Store text or JSON so that `recall` finds it by meaning; the collection is made on first use.

        The same content with the same metadata is stored once in a namespace, so after a lost answer it may be said
        again: `duplicate` then says that it was there.
        """
        asked = given(
            metadata=metadata,
            ttl=seconds(ttl),
            key=key,
            source=source,
        )
        call = Call(
            method="POST",
            path=path("collections", collection, "remember"),
            query=parameters(scope=scope),
            body=body(content=content, namespace=namespace, **asked),
        )
        return self._connection.fetch(call, Remembered)

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
        """Store many things, all or nothing: maps with `content`, and `metadata` and `key` where there are any."""
        asked = given(ttl=seconds(ttl), source=source)
        sent = [checked_item(item, number) for number, item in enumerate(items)]
        if not sent:
            return []
        call = Call(
            method="POST",
            path=path("collections", collection, "entries"),
            query=parameters(scope=scope),
            body=body(items=sent, namespace=namespace, **asked),
        )
        return (self._connection.fetch(call, AllRemembered)).remembered

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
        """Store a long text in parts of at most `chunk` characters, cut between paragraphs or sentences."""
        asked = given(metadata=metadata, ttl=seconds(ttl), source=source)
        call = Call(
            method="POST",
            path=path("collections", collection, "texts"),
            query=parameters(scope=scope),
            body=body(text=text, chunk=chunk, namespace=namespace, **asked),
        )
        return (self._connection.fetch(call, AllRemembered)).remembered

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
        """Return what was remembered that answers a query, best first, each with a score from 0 to 1 and why."""
        asked = given(namespace=namespace, filter=checked_filter(filter), as_of=moment(as_of))
        asked |= {"query": query, "limit": limit, "threshold": threshold, "mode": mode, "expand": expand}
        results: builtins.list[Match] = []
        after: str | None = None
        while True:
            call = Call(
                method="POST",
                path=path("collections", collection, "recall"),
                query=parameters(scope=scope, after=after),
                body=body(**asked),
                repeatable=True,
            )
            found = self._connection.fetch(call, Recalled)
            results += found.results
            after = found.next
            if after is None:
                return Recalled(results=results, count=len(results))

    def entries(
        self, *, collection: str, namespace: str | None = None, limit: int | None = None, scope: str | None = None
    ) -> builtins.list[Entry]:
        """Return the entries of a collection in the order they came, page by page until all or `limit` are there."""
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
        """Forget one entry, by its id or by its key; say whether it was there."""
        if (id is None) == (key is None):
            raise UsageError("an entry is forgotten by its id or by its key", hint="Pass one of them")
        place = path("collections", collection, "entries")
        call = Call(
            method="DELETE",
            path=place if id is None else path("collections", collection, "entries", id),
            query=parameters(key=key, namespace=namespace or None, scope=scope),
        )
        return (self._connection.send(call, missing=True)).status_code != 404

    def list(self, *, limit: int | None = None) -> builtins.list[Holding]:
        """Return the collections with something of the user, by name; for an administrator, those of the tenant."""
        place = path("collections")
        return collect(self._connection, place, {}, Collections, lambda page: page.collections, limit)

    def delete(self, collection: str) -> int:
        """Delete a collection with the entries of everybody in the tenant; return how many there were."""
        call = Call(method="DELETE", path=path("collections", collection))
        return (self._connection.fetch(call, Removed)).entries
