"""`/ledger`: what happened in the tenant, in order, provably."""

from __future__ import annotations

from litestar import Router, get

from recollect.server.answers import problems
from recollect.server.paging import decode_number, page
from recollect.server.parameters import PAGE, After, Handle, PageLimit
from recollect.wire.ledger import Events, Verification


@get("/", sync_to_thread=True, responses=problems(), summary="Read the ledger")
def read_ledger(memory: Handle, after: After = None, limit: PageLimit = PAGE) -> Events:
    """Return events, oldest first."""
    found = memory.ledger.events(start=decode_number(after) + 1, limit=limit + 1)
    kept, go_on = page(found, limit, lambda event: event.position)
    return Events(events=kept, next=go_on)


@get("/verify", sync_to_thread=True, responses=problems(), summary="Verify the ledger")
def verify_ledger(memory: Handle) -> Verification:
    """Walk the whole chain and say whether it is whole."""
    return memory.ledger.verify()


router = Router("/ledger", route_handlers=[read_ledger, verify_ledger])
