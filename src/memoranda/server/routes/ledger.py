"""`/ledger`: what happened in the tenant, in order, provably."""

from __future__ import annotations

from typing import Annotated

from litestar import Response, Router, get
from litestar.params import QueryParameter

from memoranda.errors import UsageError
from memoranda.model.event import Anchor
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import decode_number, page
from memoranda.server.parameters import PAGE, After, PageLimit
from memoranda.server.tags import Encoded
from memoranda.wire.bounds import fitting
from memoranda.wire.ledger import Events, Verification

Start = Annotated[int, QueryParameter(ge=1, description="The position of the first event.")]
Length = Annotated[int | None, QueryParameter(ge=0, description="How long the chain was, of an anchor taken earlier.")]
Head = Annotated[str | None, QueryParameter(description="The hash of its last event then.")]


@get("/", sync_to_thread=True, responses=problems(), summary="Read the ledger")
def read_ledger(
    request: StrictRequest, start: Start = 1, after: After = None, limit: PageLimit = PAGE
) -> Response[Events]:
    """Return events from a position on, oldest first."""
    most, begin = request.page_bytes, max(start, decode_number(after) + 1)
    found = request.auth.memory.ledger.events(start=begin, limit=limit + 1, max_bytes=most)
    kept, go_on = page(found, limit, lambda event: event.position, max_bytes=most)
    return Encoded(Events(events=kept, next=go_on))


@get("/tail", sync_to_thread=True, responses=problems(), summary="Read the newest events")
def read_newest(request: StrictRequest, limit: PageLimit = 20) -> Response[Events]:
    """Return the newest events, oldest first; fewer than asked for where they are large."""
    newest = request.auth.memory.ledger.tail(limit, max_bytes=request.page_bytes)
    return Encoded(Events(events=fitting(newest[::-1], request.page_bytes)[::-1]))


@get("/verify", sync_to_thread=True, responses=problems(), summary="Verify the ledger")
def verify_ledger(request: StrictRequest, length: Length = None, head: Head = None) -> Verification:
    """Walk the chain and say whether it is whole; an anchor taken earlier also catches a tail that was cut off."""
    if (length is None) != (head is None):
        raise UsageError("an anchor has a length and a head", hint="Send both, or neither", path="head")
    anchor = None if length is None or head is None else Anchor(length, head)
    return request.auth.memory.ledger.verify(anchor=anchor)


router = Router("/ledger", route_handlers=[read_ledger, read_newest, verify_ledger])
