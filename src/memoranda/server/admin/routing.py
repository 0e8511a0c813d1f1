"""The pages, put together: every one of them behind the same door."""

from __future__ import annotations

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide

from memoranda.api.memory import Memory
from memoranda.server.admin.desk import desk_of
from memoranda.server.admin.failures import respond_with_page
from memoranda.server.admin.pages import (
    approvals,
    blocks,
    collections,
    conversations,
    definitions,
    entrance,
    erasing,
    facts,
    ledger,
    overview,
    runs,
    sleeping,
)
from memoranda.server.admin.protection import Protection
from memoranda.server.auth.limits import FailedAttempts, RateLimit
from memoranda.server.bodies import StrictRequest
from memoranda.server.compression import compress
from memoranda.server.programs import Programs
from memoranda.server.settings import Settings

_PAGES = (
    entrance,
    overview,
    definitions,
    facts,
    blocks,
    collections,
    ledger,
    runs,
    approvals,
    conversations,
    sleeping,
    erasing,
)


def create_pages(settings: Settings, memory: Memory, programs: Programs, attempts: FailedAttempts) -> Litestar:
    """Return the application of the pages, on the memory of the whole server."""
    pages = Router("/admin", route_handlers=[handler for one in _PAGES for handler in one.handlers])
    return Litestar(
        [pages],
        state=State({"memory": memory, "attempts": attempts}, deep_copy=False),
        dependencies={"desk": Provide(desk_of, sync_to_thread=False)},
        middleware=[compress, Protection(memory, programs, limit=RateLimit(settings.rate, settings.burst))],
        exception_handlers={Exception: respond_with_page},
        openapi_config=None,
        request_class=StrictRequest,
        request_max_body_size=settings.body_bytes,
        logging_config=None,
    )
