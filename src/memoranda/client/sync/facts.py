# Made from client/aio/facts.py by memoranda.client.generate: change that one.
"""Facts through the server: `client.facts`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import datetime
from typing import Any

from memoranda.client.calls import Call, body, expecting, given, moment, once, parameters, path, seconds
from memoranda.client.sync.connection import Connection
from memoranda.client.sync.pages import collect
from memoranda.errors import Conflict, NotFound, UsageError
from memoranda.model.duration import Duration
from memoranda.model.text import quote
from memoranda.wire.facts import Fact, Facts, History, Revision

_MISSING: Any = object()


class FactCalls:
    """The facts of the user that the API key belongs to.

    `scope` narrows to a place below the user: `agent:emails` is what belongs to the user and that agent.
    """

    def __init__(self, connection: Connection) -> None:
        """Stand on a connection; `client.facts` makes these."""
        self._connection = connection

    def get(self, key: str, *, as_of: datetime | str | None = None, scope: str | None = None) -> Fact | None:
        """Return the fact at a key, now or as it stood at a moment; None when there is none."""
        call = Call(method="GET", path=_path(key), query=parameters(as_of=moment(as_of), scope=scope), repeatable=True)
        return self._connection.find(call, Fact)

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
        """Write a fact and return it. `expect` is the version it must be at; 0 means it must not exist.

        With `expect` or an `idempotency_key` the write is sent again when its answer is lost; else you decide.
        """
        call = Call(
            method="PUT",
            path=_path(key),
            query=parameters(scope=scope),
            headers=once(idempotency_key),
            body=body(
                value=value,
                **given(
                    expect=expect,
                    ttl=seconds(ttl),
                    domain=domain,
                    source=source,
                ),
            ),
            repeatable=expect is not None or idempotency_key is not None,
        )
        return self._connection.fetch(call, Fact)

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
        """Read a value, let `change` make a new one, and write it; again from the start if somebody was faster.

        `change` gets the default when there is no fact, and may run several times: it should only compute.
        """
        for attempt in range(attempts):
            fact = self.get(key, scope=scope)
            if fact is None and default is _MISSING:
                raise NotFound(f"there is no fact {quote(key)}", hint="Pass default=… to begin one")
            changed = change(default if fact is None else fact.value)
            tag = domain if domain is not None else fact.domain if fact else None
            try:
                expect = fact.version if fact else 0
                return self.set(key, changed, expect=expect, ttl=ttl, domain=tag, scope=scope)
            except Conflict as conflict:
                # After a lost answer the change that we met may be ours, and must not be made twice.
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
        """Delete a fact and say whether there was one; 0 expects that there is none. Its history stays."""
        call = Call(
            method="DELETE",
            path=_path(key),
            query=parameters(scope=scope, source=source),
            headers=once(idempotency_key) | expecting(expect),
            repeatable=expect is not None or idempotency_key is not None,
        )
        return (self._connection.send(call, missing=True)).status_code != 404

    def list(
        self,
        prefix: str = "",
        *,
        domain: str | None = None,
        limit: int | None = None,
        as_of: datetime | str | None = None,
        scope: str | None = None,
    ) -> builtins.list[Fact]:
        """Return the facts at and below a key, ordered by key, page by page until all or `limit` are there."""
        asked = parameters(prefix=prefix or None, domain=domain, as_of=moment(as_of), scope=scope)
        return collect(self._connection, path("memory", "facts"), asked, Facts, lambda page: page.facts, limit)

    def history(self, key: str, *, limit: int | None = None, scope: str | None = None) -> builtins.list[Revision]:
        """Return the revisions of a key, oldest first: what it was, since when, by whom; none where it never was.

        They are read page by page until all or `limit` are there.
        """
        asked, place = parameters(scope=scope), f"{_path(key)}/history"
        return collect(self._connection, place, asked, History, lambda page: page.revisions, limit, missing=True)


def _path(key: str) -> str:
    return path("memory", "facts", key)
