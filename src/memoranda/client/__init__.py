"""Clients of a Memoranda server, async and sync, with the values and errors of the engine.

`aio/` is written by hand; `sync/` is generated from it by `python -m memoranda.client.generate`.
"""

from typing import TYPE_CHECKING, Any

from memoranda.errors import UsageError

if TYPE_CHECKING:
    from memoranda.client.aio.client import AsyncClient
    from memoranda.client.sync.client import Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    """Import a client class, and httpx, on first use."""
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
