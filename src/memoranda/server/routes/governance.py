"""Routes `/ledger`, `/approvals` and `/permissions`."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response, Router, delete, get, post
from litestar.params import JSONBody, QueryParameter

from memoranda.errors import UsageError
from memoranda.model.event import Anchor
from memoranda.model.scope import Scope
from memoranda.server.pagination import decode_cursor, decode_number, page, page_of_list
from memoranda.server.requests import PAGE, After, Name, PageLimit, StrictRequest, decode_name
from memoranda.server.responses import JsonResponse, problem_specs
from memoranda.wire.admin import Events, Grant, Grants, NewGrant, Verification, grant_json
from memoranda.wire.codec import fit_bytes
from memoranda.wire.runs import Approval, Approvals, Decide, Decided, approval_json, decision_json

Start = Annotated[int, QueryParameter(ge=1, description="The position of the first event.")]
Length = Annotated[int | None, QueryParameter(ge=0, description="The `length` of an earlier anchor.")]
Head = Annotated[str | None, QueryParameter(description="The `head` of an earlier anchor.")]


@get("/", sync_to_thread=True, responses=problem_specs(), summary="Read the ledger")
def read_ledger(
    request: StrictRequest, start: Start = 1, after: After = None, limit: PageLimit = PAGE
) -> Response[Events]:
    """Return events from a position on, oldest first."""
    most, begin = request.page_bytes, max(start, decode_number(after) + 1)
    found = request.auth.memory.ledger.events(start=begin, limit=limit + 1, max_bytes=most)
    kept, go_on = page(found, limit, lambda event: event.position, max_bytes=most)
    return JsonResponse(Events(events=kept, next=go_on))


@get("/tail", sync_to_thread=True, responses=problem_specs(), summary="Read the newest events")
def read_newest(request: StrictRequest, limit: PageLimit = 20) -> Response[Events]:
    """Return the newest events, oldest first; fewer than `limit` if they are large."""
    newest = request.auth.memory.ledger.tail(limit, max_bytes=request.page_bytes)
    return JsonResponse(Events(events=fit_bytes(newest[::-1], request.page_bytes)[::-1]))


@get("/verify", sync_to_thread=True, responses=problem_specs(), summary="Verify the ledger")
def verify_ledger(request: StrictRequest, length: Length = None, head: Head = None) -> Verification:
    """Verify the hash chain; an earlier anchor also detects a truncated ledger."""
    if (length is None) != (head is None):
        raise UsageError("an anchor needs both `length` and `head`", hint="Send both, or neither", path="head")
    anchor = None if length is None or head is None else Anchor(length, head)
    return request.auth.memory.ledger.verify(anchor=anchor)


ledger_router = Router("/ledger", route_handlers=[read_ledger, read_newest, verify_ledger])


StatusFilter = Annotated[
    Literal["pending", "approved", "refused", "all"],
    QueryParameter(name="status", description="Pending or decided approvals."),
]


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List approvals")
def list_approvals(
    request: StrictRequest, asked: StatusFilter = "pending", after: After = None, limit: PageLimit = PAGE
) -> Response[Approvals]:
    """Return the pending approvals of the tenant, oldest first, or those with another `status`."""
    most = request.page_bytes
    # By id, because the last approval of the previous page may have been decided since.
    found = request.auth.memory.approvals.list(
        status=asked, after=decode_cursor(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda one: one.id, max_bytes=most, out=approval_json)
    return JsonResponse(Approvals(approvals=kept, next=go_on))


@get("/{approval:str}", sync_to_thread=True, responses=problem_specs(404), summary="Get an approval")
def get_approval(request: StrictRequest, approval: Name) -> Approval:
    """Return an approval with its pending effect."""
    return approval_json(request.auth.memory.approvals.get(decode_name(approval)))


@post(
    "/{approval:str}/approve",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409, 502, 507),
    summary="Approve a pending effect",
)
def approve_waiting(request: StrictRequest, approval: Name, data: JSONBody[Decide]) -> Decided:
    """Carry out a pending effect for the actor who requested it, and return its result."""
    decided = request.auth.memory.approvals.approve(decode_name(approval), reason=data.reason)
    return decision_json(decided.approval, decided.result)


@post(
    "/{approval:str}/refuse",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409, 507),
    summary="Refuse a pending effect",
)
def refuse_waiting(request: StrictRequest, approval: Name, data: JSONBody[Decide]) -> Decided:
    """Refuse a pending effect; it is not carried out."""
    decided = request.auth.memory.approvals.refuse(decode_name(approval), reason=data.reason)
    return decision_json(decided.approval, decided.result)


approvals_router = Router("/approvals", route_handlers=[list_approvals, get_approval, approve_waiting, refuse_waiting])


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List grants")
def list_grants(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Grants]:
    """Return every grant of the tenant, oldest first."""
    every = request.auth.memory.permissions.list()
    kept, go_on = page_of_list(every, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=grant_json)
    return JsonResponse(Grants(grants=kept, next=go_on))


@post("/", sync_to_thread=True, responses=problem_specs(507), summary="Grant a capability")
def grant_capability(request: StrictRequest, data: JSONBody[NewGrant]) -> Grant:
    """Store a rule for an actor: allow, approve (each use needs an approval) or deny."""
    scope = None if data.scope is None else Scope.parse(data.scope, tenant=request.auth.memory.tenant)
    return grant_json(
        request.auth.memory.permissions.grant(
            data.actor, data.capability, level=data.level, scope=scope, path=data.path
        )
    )


@delete("/{grant:str}", sync_to_thread=True, responses=problem_specs(404, 507), summary="Revoke a grant")
def revoke_grant(request: StrictRequest, grant: Name) -> None:
    """Revoke a grant by its id."""
    request.auth.memory.permissions.revoke(decode_name(grant))


permissions_router = Router("/permissions", route_handlers=[list_grants, grant_capability, revoke_grant])
