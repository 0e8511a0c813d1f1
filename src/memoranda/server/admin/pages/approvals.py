"""Approvals: what waits for somebody's decision, and what was decided."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.model.effect import Decide
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.admin.rendering import address, redirect
from memoranda.server.paging import decode_cursor, page

MOST = 200
"""Approvals of one page: those that wait, and the newest decisions."""


@get("/approvals", sync_to_thread=True)
def list_approvals(
    desk: NamedDependency[Desk], after: FromQuery[str | None] = None, done: FromQuery[str] = ""
) -> Response[bytes]:
    """Return a page of what waits for a decision, oldest first, and what was decided."""
    approvals = desk.memory.approvals
    # What was decided has no effect any more, so all of it is small.
    decided = [*approvals.list(status="approved"), *approvals.list(status="refused")]
    found = approvals.list(after=decode_cursor(after), limit=MOST + 1, max_bytes=PAGE_BYTES)
    waiting, onwards = page(found, MOST, lambda one: one.id, max_bytes=PAGE_BYTES)
    return desk.show(
        "approvals.html",
        section="approvals",
        done=done,
        waiting=waiting,
        onwards=onwards,
        decided=sorted(decided, key=lambda one: one.requested_at, reverse=True)[:MOST],
        may_decide=desk.may(Decide(scope=desk.shared, approval="", verdict="approved")),
    )


@post("/approvals", sync_to_thread=True, status_code=200)
def decide(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Approve a waiting effect, which then happens, or refuse it."""
    approval, reason = desk.field("approval"), desk.field("reason").strip()
    if desk.field("verdict") == "approved":
        desk.memory.approvals.approve(approval, reason=reason)
        return redirect(address("/approvals", done="approved"))
    desk.memory.approvals.refuse(approval, reason=reason)
    return redirect(address("/approvals", done="refused"))


handlers = [list_approvals, decide]
