"""Settings and a memory in, the application out: routes, who may call them, and what surrounds every request."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from litestar import Litestar, Router
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.plugins import PluginProtocol
from litestar.plugins.core import MsgspecDIPlugin

import memoranda
from memoranda.api.memory import Memory
from memoranda.server.admin.door import WithPages
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import authenticate, failed_attempts
from memoranda.server.compression import compress
from memoranda.server.envelope import Envelope
from memoranda.server.exports import Exports
from memoranda.server.metrics import Metrics
from memoranda.server.openapi import describe, openapi
from memoranda.server.parameters import refuse_unheeded
from memoranda.server.problems import respond_with_problem
from memoranda.server.programs import load_programs
from memoranda.server.routes import (
    approvals,
    blocks,
    chat,
    collections,
    conversations,
    definitions,
    facts,
    health,
    keys,
    ledger,
    permissions,
    programs,
    runs,
    sessions,
    sleep,
    upkeep,
)
from memoranda.server.settings import Settings
from memoranda.server.sleeping import start_sleeping
from memoranda.server.streams import UnderWay
from memoranda.server.threads import Threads

PREFIX = "/api/v1"
_TURN = 0.0005
"""Seconds that a thread may compute while others wait for their turn."""


def open_memory(settings: Settings) -> Memory:
    """Return the memory that a server stands on."""
    return memoranda.open(
        settings.db,
        embedder=settings.embedder,
        durability=settings.durability,
        ledger=settings.ledger,
        busy_timeout=settings.busy_timeout,
    )


class _Application(Litestar):
    """Litestar without its plugins for pydantic and attrs, none of whose values we have."""

    # Not part of Litestar's interface, hence the upper bound in pyproject.toml. Where pydantic is installed, importing
    # it here would make the start half as long again (0.5 s for 0.3) and cost each worker 11 MB.
    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        return [*plugins, MsgspecDIPlugin()]


def create_app(settings: Settings, memory: Memory | None = None) -> Litestar:
    """Return the application; the memory it opens itself, because none is given, it also closes."""
    opened = memory is None
    standing = memory if memory is not None else open_memory(settings)
    counted = Metrics(memoranda.__version__)
    attempts = failed_attempts(settings)
    app = _Application(
        [_routes(), health.index, health.health, health.ready, health.metrics, openapi],
        state=State(
            {
                "memory": standing,
                "metrics": counted,
                "programs": load_programs(settings, standing),
                "turns": UnderWay(),
                "page_bytes": settings.page_bytes,
                "exports": Exports(settings.export_timeout),
            },
            deep_copy=False,
        ),
        middleware=[compress, authenticate(settings, standing, attempts), refuse_unheeded],
        lifespan=[partial(_working, settings, standing, counted, closes=opened)],
        exception_handlers={Exception: respond_with_problem},
        cors_config=CORSConfig(allow_origins=list(settings.cors), expose_headers=["ETag", "Link", "X-Request-Id"])
        if settings.cors
        else None,
        openapi_config=describe(memoranda.__version__),
        request_class=StrictRequest,
        request_max_body_size=settings.body_bytes,
        logging_config=None,
    )
    surrounded = WithPages(app.asgi_handler, settings, standing, app.state.programs, attempts)
    app.asgi_handler = Envelope(surrounded, metrics=counted, ids=standing.ids)
    return app


def _routes() -> Router:
    """Return everything below the prefix."""
    return Router(
        PREFIX,
        route_handlers=[
            blocks.router,
            facts.router,
            definitions.router,
            collections.router,
            ledger.router,
            upkeep.router,
            programs.router,
            runs.router,
            sessions.router,
            approvals.router,
            permissions.router,
            keys.router,
            sleep.router,
            chat.router,
            conversations.router,
        ],
    )


@asynccontextmanager
async def _working(
    settings: Settings, memory: Memory, metrics: Metrics, app: Litestar, *, closes: bool
) -> AsyncGenerator[None]:
    """Have what works beside the requests: threads, and sleep-time memory; at the end, leave nothing of it."""
    usual = sys.getswitchinterval()
    # The loop lets go of the interpreter at each look into the store, and gets it back only when a thread that
    # computes is made to let go: ten times sooner than is usual, or writers would hold up everybody.
    sys.setswitchinterval(_TURN)
    try:
        with Threads(settings.threads) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            # Nobody waits for it: what it imports is not needed to be ready.
            sleeping = threads.submit(start_sleeping, settings, memory, metrics) if settings.sleep else None
            yield
            if sleeping is not None:
                (await sleeping).stop(timeout=settings.shutdown_timeout)
    finally:
        sys.setswitchinterval(usual)
        if closes:
            memory.close()
