"""Approvals: what waits for somebody's decision, and what was decided."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from recollect.model.effect import Decide
from recollect.server.admin.desk import Desk
from recollect.server.admin.rendering import address, redirect

MOST = 200
"""Decisions of one page, the newest."""


@get("/approvals", sync_to_thread=True)
def list_approvals(desk: NamedDependency[Desk], done: FromQuery[str] = "") -> Response[bytes]:
    """Return what waits for a decision, and what was decided."""
    every = sorted(desk.memory.approvals.list(status="all"), key=lambda one: one.requested_at, reverse=True)
    return desk.show(
        "approvals.html",
        section="approvals",
        done=done,
        waiting=[one for one in every if one.status == "pending"],
        decided=[one for one in every if one.status != "pending"][:MOST],
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
