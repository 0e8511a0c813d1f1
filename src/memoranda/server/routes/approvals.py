"""`/approvals`: what waits for somebody's decision, for those who may decide."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response, Router, get, post
from litestar.params import JSONBody, QueryParameter

from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import decode_cursor, page
from memoranda.server.parameters import PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.tags import Encoded
from memoranda.wire.approvals import Approval, Approvals, Decide, Decided, approval_out, decided_out

Asked = Annotated[
    Literal["pending", "approved", "refused", "all"],
    QueryParameter(name="status", description="What waits, or what was decided."),
]


@get("/", sync_to_thread=True, responses=problems(), summary="List approvals")
def list_approvals(
    request: StrictRequest, asked: Asked = "pending", after: After = None, limit: PageLimit = PAGE
) -> Response[Approvals]:
    """Return what waits for a decision in the tenant, oldest first; with a `status` what was decided."""
    most = request.page_bytes
    # The last one seen may be decided since: it counts as a place all the same.
    found = request.auth.memory.approvals.list(
        status=asked, after=decode_cursor(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda one: one.id, max_bytes=most, out=approval_out)
    return Encoded(Approvals(approvals=kept, next=go_on))


@get("/{approval:str}", sync_to_thread=True, responses=problems(404), summary="Get an approval")
def get_approval(request: StrictRequest, approval: Name) -> Approval:
    """Return one approval with the effect that waits."""
    return approval_out(request.auth.memory.approvals.get(name_of(approval)))


@post(
    "/{approval:str}/approve",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 502, 507),
    summary="Approve what waits",
)
def approve_waiting(request: StrictRequest, approval: Name, data: JSONBody[Decide]) -> Decided:
    """Let a waiting effect happen now, in the name of who asked; return what it gave."""
    decided = request.auth.memory.approvals.approve(name_of(approval), reason=data.reason)
    return decided_out(decided.approval, decided.result)


@post(
    "/{approval:str}/refuse",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="Refuse what waits",
)
def refuse_waiting(request: StrictRequest, approval: Name, data: JSONBody[Decide]) -> Decided:
    """Drop a waiting effect."""
    decided = request.auth.memory.approvals.refuse(name_of(approval), reason=data.reason)
    return decided_out(decided.approval, decided.result)


router = Router("/approvals", route_handlers=[list_approvals, get_approval, approve_waiting, refuse_waiting])
