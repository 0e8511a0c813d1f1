"""Requests in; those below `/admin` to the pages, all others to the application that stands behind.

The pages are made when the first of them is asked for: a server that nobody looks at starts without them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from litestar.types import ASGIApp, Receive, Scope, Send

from memoranda.api.memory import Memory
from memoranda.server.auth.limits import FailedAttempts
from memoranda.server.programs import Programs
from memoranda.server.settings import Settings

if TYPE_CHECKING:
    from litestar import Litestar

PATH = "/admin"


class WithPages:
    """An application with the pages beside it."""

    def __init__(
        self, app: ASGIApp, settings: Settings, memory: Memory, programs: Programs, attempts: FailedAttempts
    ) -> None:
        """Stand before an application."""
        self._app = app
        self._settings = settings
        self._memory = memory
        self._programs = programs
        self._attempts = attempts
        self._pages: Litestar | None = None
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not (scope["path"] == PATH or scope["path"].startswith(f"{PATH}/")):
            await self._app(scope, receive, send)
            return
        async with self._making:
            if self._pages is None:
                self._pages = await run_sync(self._make)
        await self._pages(scope, receive, send)

    def _make(self) -> Litestar:
        from memoranda.server.admin.routing import create_pages

        return create_pages(self._settings, self._memory, self._programs, self._attempts)
