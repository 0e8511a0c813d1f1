"""The same memory for asyncio: each call runs the sync one on a worker thread.

A wrapper, not a second implementation: a method is looked up on the sync handle and wrapped. Handles such as
`definitions` and `ledger` are returned wrapped as well; values are returned as they are. The signatures are in
`aio.pyi`, which is generated from the sync handles.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Self, cast

from memoranda.api.blocks import Blocks
from memoranda.api.memory import Memory
from memoranda.api.memory import open as open_memory
from memoranda.api.scoped import Batch, ScopedBatch, ScopedMemory
from memoranda.api.tenant import (
    Approvals,
    Collections,
    Definitions,
    Guard,
    Ledger,
    Permissions,
    Quarantine,
    Roles,
    Runs,
)

# What only makes another handle, or collects a write for later, does not touch the store and is not awaited.
_IMMEDIATE = frozenset(
    {"scope", "at", "batch", "acting_as", "from_origin", "for_model", "at_epoch", "in_tenant", "narrowed", "at_once"}
    | {"through"}
)
_COLLECTING = frozenset({"set", "delete", "remember", "forget"})


_BATCHES = frozenset({Batch.__name__, ScopedBatch.__name__})


class AsyncHandle:
    """A sync handle whose calls are awaited."""

    def __init__(self, handle: Any) -> None:
        """Wrap a handle."""
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the handle: a value unchanged, a handle wrapped, a method as a coroutine function."""
        attribute = getattr(self._handle, name)
        if type(attribute) in _ASYNC:
            return _wrap(attribute)
        if not callable(attribute) or name.startswith("_"):
            return attribute
        return _immediate(attribute) if is_immediate(type(self._handle).__name__, name) else _as_coroutine(attribute)

    async def __aenter__(self) -> Self:
        """Return this handle."""
        await asyncio.to_thread(self._handle.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the memory, or send the batch."""
        await asyncio.to_thread(self._handle.__exit__, kind, error, traceback)

    def __repr__(self) -> str:
        """Return what is wrapped."""
        return f"<async {self._handle!r}>"


class AsyncMemory(AsyncHandle):
    """What `memoranda.open` returns, with every call awaited.

    >>> import asyncio
    >>> async def main():
    ...     async with await AsyncMemory.open(":memory:") as memory:
    ...         ada = memory.scope(user="ada")
    ...         await ada.set("language", "en")
    ...         return await ada.value("language")
    >>> asyncio.run(main())
    'en'
    """

    @classmethod
    async def open(cls, url: str | os.PathLike[str] = "memory.db", **options: Any) -> Self:
        """Open a memory; options are those of `memoranda.open`."""
        return cls(await asyncio.to_thread(open_memory, url, **options))


class AsyncScopedMemory(AsyncHandle):
    """One scope, with every call awaited.

    >>> import asyncio
    >>> async def main():
    ...     async with await AsyncMemory.open(":memory:") as memory:
    ...         ada: AsyncScopedMemory = memory.scope(user="ada")
    ...         return (await ada.set("kiln.cone", 6)).version
    >>> asyncio.run(main())
    1
    """


class AsyncBatch(AsyncHandle):
    """A batch of writes, all or nothing, collected in an `async with` block."""


class AsyncScopedBatch(AsyncHandle):
    """A batch of writes of one scope, all or nothing, collected in an `async with` block."""


class AsyncBlocks(AsyncHandle):
    """Memory blocks, with every call awaited."""


class AsyncApprovals(AsyncHandle):
    """What waits for approval, with every call awaited."""


class AsyncQuarantine(AsyncHandle):
    """What the guard held back, with every call awaited."""


class AsyncGuard(AsyncHandle):
    """The rules of the guard, with every call awaited."""


class AsyncCollections(AsyncHandle):
    """Collections, with every call awaited."""


class AsyncDefinitions(AsyncHandle):
    """Definitions, with every call awaited."""


class AsyncLedger(AsyncHandle):
    """The ledger, with every call awaited."""


class AsyncPermissions(AsyncHandle):
    """Grants, with every call awaited."""


class AsyncRoles(AsyncHandle):
    """Roles, with every call awaited."""


class AsyncRuns(AsyncHandle):
    """Runs of programs, with every call awaited."""


_ASYNC: dict[type[Any], type[AsyncHandle]] = {
    Memory: AsyncMemory,
    ScopedMemory: AsyncScopedMemory,
    Batch: AsyncBatch,
    ScopedBatch: AsyncScopedBatch,
    Blocks: AsyncBlocks,
    Approvals: AsyncApprovals,
    Quarantine: AsyncQuarantine,
    Guard: AsyncGuard,
    Collections: AsyncCollections,
    Definitions: AsyncDefinitions,
    Ledger: AsyncLedger,
    Permissions: AsyncPermissions,
    Roles: AsyncRoles,
    Runs: AsyncRuns,
}

KINDS = tuple(_ASYNC)
"""The classes of handles."""


def is_immediate(kind: str, name: str) -> bool:
    """Return whether a method of a kind of handle is not awaited."""
    return name in _IMMEDIATE or (kind in _BATCHES and name in _COLLECTING)


def _unwrap(argument: Any) -> Any:
    return argument._handle if isinstance(argument, AsyncHandle) else argument  # pyright: ignore[reportPrivateUsage]


def _wrap(result: Any) -> Any:
    kind = _ASYNC.get(cast("type[Any]", type(result)))
    return result if kind is None else kind(result)


def _immediate(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        return _wrap(method(*map(_unwrap, arguments), **options))

    return call


def _as_coroutine(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def call(*arguments: Any, **options: Any) -> Any:
        return _wrap(await asyncio.to_thread(method, *map(_unwrap, arguments), **options))

    return call
