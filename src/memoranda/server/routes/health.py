"""`/`, `/health`, `/ready` and `/metrics`: where things are, and whether all is well. Nothing of what is remembered."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from litestar import MediaType, Response, get
from litestar.datastructures import State

from memoranda import __version__
from memoranda.api.memory import Memory
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.metrics import MEDIA_TYPE, Metrics
from memoranda.wire.health import Health

_LINKS = {"admin": "/admin", "docs": "/docs", "openapi": "/openapi.json", "health": "/health"}


@get("/", sync_to_thread=False, security=[{}], include_in_schema=False)
def index(request: StrictRequest) -> Response[Any]:
    """Redirect a browser to the admin pages; tell programs where things are."""
    headers = {"Vary": "Accept", "Cache-Control": "no-store"}
    if _wants_html(request.headers.get("accept", "")):
        return Response(b"", status_code=303, headers={**headers, "Location": _LINKS["admin"]})
    return Response({"name": "memoranda", "version": __version__, "links": _LINKS}, headers=headers)


@get("/health", sync_to_thread=False, security=[{}], summary="Is the process up?")
def health() -> Health:
    """Say that the process answers."""
    return Health(status="ok", version=__version__)


@get("/ready", security=[{}], responses=problems(), summary="Can it work?")
async def ready(state: State) -> Health:
    """Say that the store answers too."""
    memory: Memory = state.memory
    # Not in one of the threads that turns hold until their model has answered: who chats much is ready all the same.
    await run_sync(memory.scope(user="nobody").get, "ready")
    return Health(status="ok", version=__version__)


@get(
    "/metrics",
    sync_to_thread=False,
    security=[{}],
    media_type=MediaType.TEXT,
    summary="What was counted",
)
def metrics(state: State) -> Response[str]:
    """Return how many requests there were, and how long they took, as Prometheus reads it."""
    counted: Metrics = state.metrics
    return Response(counted.render(), media_type=MEDIA_TYPE)


def _wants_html(accept: str) -> bool:
    """Say whether HTML is asked for by name, as browsers do; `*/*` alone is a program."""
    for part in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if kind in ("text/html", "application/xhtml+xml"):
            return not any(parameter.replace(" ", "").rstrip("0") in ("q=", "q=0.") for parameter in parameters)
    return False
