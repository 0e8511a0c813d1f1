"""Routes `/`, `/health`, `/ready` and `/metrics`, which need no token."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from litestar import MediaType, Response, get
from litestar.datastructures import State

from memoranda import __version__
from memoranda.api.memory import Memory
from memoranda.server.metrics import MEDIA_TYPE, Metrics
from memoranda.server.requests import StrictRequest
from memoranda.server.responses import problem_specs
from memoranda.wire.admin import Health

_LINKS = {"admin": "/admin", "docs": "/docs", "openapi": "/openapi.json", "health": "/health"}


@get("/", sync_to_thread=False, security=[{}], include_in_schema=False)
def index(request: StrictRequest) -> Response[Any]:
    """Redirect a browser to the admin pages; return links to a program."""
    headers = {"Vary": "Accept", "Cache-Control": "no-store"}
    if _wants_html(request.headers.get("accept", "")):
        return Response(b"", status_code=303, headers={**headers, "Location": _LINKS["admin"]})
    return Response({"name": "memoranda", "version": __version__, "links": _LINKS}, headers=headers)


@get("/health", sync_to_thread=False, security=[{}], summary="Check that the process is up")
def health() -> Health:
    """Report that the process answers."""
    return Health(status="ok", version=__version__)


@get("/ready", security=[{}], responses=problem_specs(), summary="Check that the store is ready")
async def ready(state: State) -> Health:
    """Report that the store answers, too."""
    memory: Memory = state.memory
    # Not in the pool, whose threads may all be waiting for models.
    await run_sync(memory.scope(user="nobody").get, "ready")
    return Health(status="ok", version=__version__)


@get(
    "/metrics",
    sync_to_thread=False,
    security=[{}],
    media_type=MediaType.TEXT,
    summary="Get metrics",
)
def metrics(state: State) -> Response[str]:
    """Return the metrics of this process in the Prometheus text format."""
    counted: Metrics = state.metrics
    return Response(counted.render(), media_type=MEDIA_TYPE)


def _wants_html(accept: str) -> bool:
    """Return whether HTML is accepted explicitly, as browsers do; `*/*` alone is a program."""
    for part in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if kind in ("text/html", "application/xhtml+xml"):
            return not any(parameter.replace(" ", "").rstrip("0") in ("q=", "q=0.") for parameter in parameters)
    return False
