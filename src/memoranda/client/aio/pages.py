"""Pages of an answer in, all that they hold out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.calls import Call, parameters
from memoranda.model.limits import check_count

_LARGEST_PAGE = 100


class Page(Protocol):
    """What is sent of something long: `next` is where the next page begins, None after the last."""

    @property
    def next(self) -> str | None:
        """Where to go on."""
        ...


Sent = TypeVar("Sent", bound=Page)
T = TypeVar("T")


async def collect(
    connection: AsyncConnection,
    path: str,
    asked: dict[str, str],
    kind: type[Sent],
    items: Callable[[Sent], list[T]],
    limit: int | None,
    *,
    missing: bool = False,
) -> list[T]:
    """Read pages until there is none left, or `limit` items; `missing` takes what is not there for an empty list."""
    check_count("limit", limit)
    found: list[T] = []
    after: str | None = None
    while limit is None or len(found) < limit:
        size = _LARGEST_PAGE if limit is None else min(_LARGEST_PAGE, limit - len(found))
        call = Call(method="GET", path=path, query=asked | parameters(limit=size, after=after), repeatable=True)
        page = await (connection.find(call, kind) if missing else connection.fetch(call, kind))
        if page is None:
            break
        found += items(page)
        after = page.next
        if after is None:
            break
    return found


async def collect_linked(connection: AsyncConnection, path: str, asked: dict[str, str], kind: type[T]) -> list[T]:
    """Read plain lists, each of which names the next one in its header `Link`, until there is none left."""
    found: list[T] = []
    query: dict[str, str] | None = asked
    while query is not None:
        items, onwards = await connection.fetch_linked(
            Call(method="GET", path=path, query=query, repeatable=True), kind
        )
        found += items
        query = None if onwards is None else asked | parameters(after=onwards)
    return found
