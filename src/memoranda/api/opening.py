"""The composition root: an address in, a memory out. Nothing else names a concrete store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from memoranda.api.memory import DEFAULT_EMBEDDER, Memory
from memoranda.errors import Unavailable, UsageError
from memoranda.model.clock import Clock
from memoranda.model.ids import Ids
from memoranda.model.limits import Limits
from memoranda.model.scope import DEFAULT_TENANT
from memoranda.model.text import quote
from memoranda.store.base import Store
from memoranda.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from memoranda.retrieval.embed.base import Embedder

Durability = Literal["full", "normal"]
LedgerMode = Literal["writes", "all"]

_LONGEST_WAIT = 2_000_000
"""Seconds. SQLite counts them in milliseconds, in 31 bits."""


def open(
    url: str | os.PathLike[str] = "memory.db",
    *,
    tenant: str = DEFAULT_TENANT,
    clock: Clock | None = None,
    ids: Ids | None = None,
    limits: Limits | None = None,
    embedder: str | Embedder = DEFAULT_EMBEDDER,
    ledger: LedgerMode = "writes",
    ledger_text: bool = False,
    durability: Durability = "full",
    busy_timeout: float = 5.0,
) -> Memory:
    """Open the memory at an address: a file path, `postgresql://user@host/database`, or `:memory:`.

    One at `:memory:` ends with the process; `sqlite:///path` is another way to write a file path.
    `durability="full"` keeps every acknowledged write through a power cut; `"normal"` may lose the last few, never
    the consistency of the store. `ledger="all"` records plain reads too; `ledger_text` keeps contents beside
    their hashes. `embedder` is what new collections are embedded with: `"wordllama"`, which works offline,
    `"onnx:/path/to/folder"`, `"openai:text-embedding-3-small"`, or an object of your own.

    >>> memory = open(":memory:")
    >>> memory.scope(user="ada").set("language", "en").version
    1
    >>> memory.close()
    """
    if ledger not in ("writes", "all"):
        raise UsageError(f"{quote(ledger)} is not a ledger mode", hint='Use "writes" or "all"')
    store = open_store(os.fspath(url), durability=durability, busy_timeout=busy_timeout)
    return Memory(
        store,
        tenant=tenant,
        clock=clock,
        ids=ids,
        limits=limits,
        embedder=embedder,
        record_reads=ledger == "all",
        keep_text=ledger_text,
    )


def open_store(url: str, *, durability: Durability = "full", busy_timeout: float = 5.0) -> Store:
    """Return the store behind an address."""
    if durability not in ("full", "normal"):
        raise UsageError(f"{quote(durability)} is not a durability", hint='Use "full" or "normal"')
    if type(busy_timeout) not in (int, float) or not 0 <= busy_timeout <= _LONGEST_WAIT:
        raise UsageError(
            f"{quote(busy_timeout)} is not a number of seconds to wait",
            hint=f"Pass busy_timeout as a number from 0 to {_LONGEST_WAIT:,}",
            value=busy_timeout,
        )
    scheme, colons, rest = url.partition("://")
    if not colons or scheme == "sqlite":
        path = rest.removeprefix("/") if colons else url
        if not path.strip():  # not a memory that ends with the process: nobody asked for one
            raise UsageError(
                f"the address {quote(url)} names no file",
                hint="Name one, such as memory.db, or write :memory:",
                value=url,
            )
        return SqliteStore(path, durability=durability, busy_timeout=busy_timeout)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, durability=durability, busy_timeout=busy_timeout)
    raise UsageError(
        f"{quote(scheme)} is not a store this version knows",
        hint="Use a file path, sqlite:///path, postgresql://user@host/database or :memory:",
        value=scheme,
    )


def _open_postgres(url: str, *, durability: Durability, busy_timeout: float) -> Store:
    try:
        from memoranda.store.postgres import PostgresStore
    except ImportError as error:
        raise Unavailable(
            "PostgreSQL needs the package `psycopg`", hint='Install it with `pip install "memoranda[postgres]"`'
        ) from error
    return PostgresStore(url, durability=durability, busy_timeout=busy_timeout)
