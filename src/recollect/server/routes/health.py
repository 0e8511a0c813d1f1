"""`/health`, `/ready` and `/metrics`: what those who run the server ask. They tell nothing of what is remembered."""

from __future__ import annotations

from anyio.to_thread import run_sync
from litestar import MediaType, Response, get
from litestar.datastructures import State

from recollect import __version__
from recollect.api.memory import Memory
from recollect.server.answers import problems
from recollect.server.metrics import MEDIA_TYPE, Metrics
from recollect.wire.health import Health


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
