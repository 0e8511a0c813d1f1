"""The client of a Memoranda server, for asyncio and without: same calls, same values, same errors as the engine's.

`aio/` is written by hand; `sync/` is made from it by `python -m memoranda.client.generate`.
"""

from typing import TYPE_CHECKING, Any

from memoranda.errors import UsageError

if TYPE_CHECKING:
    from memoranda.client.aio.client import AsyncClient
    from memoranda.client.sync.client import Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """Return a client class; what it needs from httpx is imported only then."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import httpx as httpx
    except ModuleNotFoundError as missing:
        raise UsageError(
            "the client needs the package `httpx`", hint='Install it with `pip install "memoranda[client]"`'
        ) from missing
    if name == "Client":
        from memoranda.client.sync.client import Client

        return Client
    from memoranda.client.aio.client import AsyncClient

    return AsyncClient
