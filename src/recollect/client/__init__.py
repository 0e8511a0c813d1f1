"""The client of a Recollect server, for asyncio and without: same calls, same values, same errors as the engine's.

`aio/` is written by hand; `sync/` is made from it by `python -m recollect.client.generate`.
"""

from typing import TYPE_CHECKING, Any

from recollect.errors import UsageError

if TYPE_CHECKING:
    from recollect.client.aio.client import AsyncClient
    from recollect.client.sync.client import Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """Return a client class; what it needs from httpx is imported only then."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import httpx as httpx
    except ModuleNotFoundError as missing:
        raise UsageError(
            "the client needs the package `httpx`", hint='Install it with `pip install "recollect[client]"`'
        ) from missing
    if name == "Client":
        from recollect.client.sync.client import Client

        return Client
    from recollect.client.aio.client import AsyncClient

    return AsyncClient
