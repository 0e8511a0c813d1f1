"""The server application: routes, authentication, middleware, and the admin pages beside them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from litestar import Litestar, MediaType, Response, Router, get
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin
from litestar.types import ASGIApp, Receive, Scope, Send

import memoranda
from memoranda.api.memory import Memory
from memoranda.server.auth.principals import attempt_counter, authenticate
from memoranda.server.event_streams import ActiveStreams
from memoranda.server.exports import Exports
from memoranda.server.housekeeping import Housekeeper
from memoranda.server.metrics import MEDIA_TYPE, Metrics
from memoranda.server.middleware import RequestMiddleware, compress
from memoranda.server.openapi import openapi, openapi_config
from memoranda.server.problems import problem_response
from memoranda.server.programs import Programs, ReloadCounter, load_programs
from memoranda.server.requests import StrictRequest, check_parameters
from memoranda.server.responses import handlers_in, problem_specs
from memoranda.server.routes import admin, chat, collections, memory, runs
from memoranda.server.settings import Settings
from memoranda.server.sleep_worker import start_sleep_worker
from memoranda.server.thread_pool import ThreadPool
from memoranda.wire.admin import Health

PREFIX = "/api/v1"
_LINKS = {"admin": "/admin", "docs": "/docs", "openapi": "/openapi.json", "health": "/health"}
_ROUTES = (memory, collections, chat, runs, admin)
"""Modules whose routes are those of the API."""
_SWITCH_INTERVAL = 0.0005
"""Thread switch interval of a server process, in seconds."""


def open_memory(settings: Settings) -> Memory:
    """Open the memory of a server."""
    return memoranda.open(
        settings.db,
        embedder=settings.embedder,
        durability=settings.durability,
        ledger=settings.ledger,
        busy_timeout=settings.busy_timeout,
        pool=settings.pool or settings.threads,
        statement_timeout=settings.statement_timeout or None,
        read_from=settings.read_from,
    )


class _Application(Litestar):
    """Litestar without its plugins for pydantic and attrs, which we do not use."""

    # Not part of Litestar's interface, hence the upper bound in pyproject.toml. Where pydantic is installed, importing
    # it here would make the start half as long again (0.5 s for 0.3) and cost each worker 11 MB.
    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def create_app(settings: Settings, memory: Memory | None = None, *, counter: ReloadCounter | None = None) -> Litestar:
    """Return the application. It opens its own memory, and closes it, unless one is passed.

    `counter` is shared with the other processes of the server, so that all of them reload their programs.
    """
    opened = memory is None
    shared = memory if memory is not None else open_memory(settings)
    counted = Metrics(memoranda.__version__)
    attempts = attempt_counter(settings)
    programs = load_programs(settings, shared, counter=counter)
    api = Router(PREFIX, route_handlers=handlers_in(*_ROUTES))
    app = _Application(
        [api, index, health, ready, metrics, openapi],
        state=State(
            {
                "memory": shared,
                "metrics": counted,
                "programs": programs,
                "turns": ActiveStreams(),
                "page_bytes": settings.page_bytes,
                "exports": Exports(settings.export_timeout),
            },
            deep_copy=False,
        ),
        middleware=[compress, authenticate(settings, shared, attempts), check_parameters],
        lifespan=[partial(_lifespan, settings, shared, counted, programs, closes=opened)],
        exception_handlers={Exception: problem_response},
        cors_config=CORSConfig(allow_origins=list(settings.cors), expose_headers=["ETag", "Link", "X-Request-Id"])
        if settings.cors
        else None,
        openapi_config=openapi_config(memoranda.__version__),
        request_class=StrictRequest,
        request_max_body_size=settings.body_bytes,
        logging_config=None,
    )

    def create_pages() -> Litestar:
        from memoranda.server.admin.app import create_pages

        return create_pages(settings, shared, programs, attempts)

    mounted = AdminMount(app.asgi_handler, create_pages)
    app.asgi_handler = RequestMiddleware(mounted, metrics=counted, ids=shared.ids)
    return app


@get("/", sync_to_thread=False, security=[{}], include_in_schema=False)
def index(request: StrictRequest) -> Response[Any]:
    """Redirect a browser to the admin pages; return links to a program."""
    headers = {"Vary": "Accept", "Cache-Control": "no-store"}
    if _wants_html(request.headers.get("accept", "")):
        return Response(b"", status_code=303, headers={**headers, "Location": _LINKS["admin"]})
    return Response({"name": "memoranda", "version": memoranda.__version__, "links": _LINKS}, headers=headers)


@get("/health", sync_to_thread=False, security=[{}], summary="Check that the process is up")
def health() -> Health:
    """Report that the process answers."""
    return Health(status="ok", version=memoranda.__version__)


@get("/ready", security=[{}], responses=problem_specs(), summary="Check that the store is ready")
async def ready(state: State) -> Health:
    """Report that the store answers, too."""
    memory: Memory = state.memory
    # Not in the pool, whose threads may all be waiting for models.
    await run_sync(memory.scope(user="nobody").get, "ready")
    return Health(status="ok", version=memoranda.__version__)


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


@asynccontextmanager
async def _lifespan(
    settings: Settings, memory: Memory, metrics: Metrics, programs: Programs, app: Litestar, *, closes: bool
) -> AsyncGenerator[None]:
    """Run the thread pool, the housekeeper and the sleep-time worker while the application serves."""
    previous = sys.getswitchinterval()
    # The event loop releases the GIL at each store access and must get it back from threads that compute. With the
    # default of 5 ms, reads beside writes take 1.5 times as long.
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        with ThreadPool(settings.threads) as threads:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(threads)
            # In a thread, because its imports would delay the start.
            worker = (
                loop.run_in_executor(None, start_sleep_worker, settings, memory, metrics) if settings.sleep else None
            )
            housekeeper = Housekeeper(settings, memory, metrics, programs)
            housekeeper.start()
            yield
            if worker is not None:
                (await worker).stop(timeout=settings.shutdown_timeout)
            await run_sync(partial(housekeeper.stop, timeout=settings.shutdown_timeout))
    finally:
        sys.setswitchinterval(previous)
        if closes:
            memory.close()


PATH = "/admin"


class AdminMount:
    """An application with the admin pages mounted at `/admin`.

    The pages are created with their first request: a server starts without them.
    """

    def __init__(self, app: ASGIApp, create_pages: Callable[[], Litestar]) -> None:
        """Wrap an application."""
        self._app = app
        self._create_pages = create_pages
        self._pages: Litestar | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send requests below `/admin` to the pages, and others to the application."""
        if scope["type"] != "http" or not (scope["path"] == PATH or scope["path"].startswith(f"{PATH}/")):
            await self._app(scope, receive, send)
            return
        async with self._lock:
            if self._pages is None:
                self._pages = await run_sync(self._create_pages)
        await self._pages(scope, receive, send)
