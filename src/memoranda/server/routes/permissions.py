"""`/permissions`: what is granted in the tenant, for administrators.

Grants are for programs that open the memory and act for somebody; whoever calls here may do what their role may.
"""

from __future__ import annotations

from litestar import Response, Router, delete, get, post
from litestar.params import JSONBody

from memoranda.model.scope import Scope
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import page_of_list
from memoranda.server.parameters import PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.tags import Encoded
from memoranda.wire.permissions import Grant, Grants, NewGrant, grant_out


@get("/", sync_to_thread=True, responses=problems(), summary="List grants")
def list_grants(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Grants]:
    """Return every grant of the tenant, oldest first."""
    every = request.auth.memory.permissions.list()
    kept, go_on = page_of_list(every, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=grant_out)
    return Encoded(Grants(grants=kept, next=go_on))


@post("/", sync_to_thread=True, responses=problems(507), summary="Grant something")
def grant_capability(request: StrictRequest, data: JSONBody[NewGrant]) -> Grant:
    """Keep a rule for an actor: allow, approve (somebody must agree each time) or deny."""
    scope = None if data.scope is None else Scope.parse(data.scope, tenant=request.auth.memory.tenant)
    return grant_out(
        request.auth.memory.permissions.grant(
            data.actor, data.capability, level=data.level, scope=scope, path=data.path
        )
    )


@delete("/{grant:str}", sync_to_thread=True, responses=problems(404, 507), summary="Take a grant back")
def revoke_grant(request: StrictRequest, grant: Name) -> None:
    """Take a grant back by its id."""
    request.auth.memory.permissions.revoke(name_of(grant))


router = Router("/permissions", route_handlers=[list_grants, grant_capability, revoke_grant])
