"""`/erase`, `/sweep`, `/export` and `/import`: what an administrator does with the memory of the tenant.

And `/memory/end`: what everybody does with a scope of their own that is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Annotated

import msgspec
from anyio.to_thread import run_sync
from litestar import Router, get, post
from litestar.datastructures import State
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from memoranda.errors import UsageError
from memoranda.model.scope import Scope
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import DOOR
from memoranda.server.exports import LINES
from memoranda.server.places import own
from memoranda.wire.upkeep import Ended, EndScope, Erase, Imported, Receipt, Swept

Whose = Annotated[
    str, QueryParameter(name="scope", description="Only this scope and what lies below, such as `user:ada`.")
]
Source = Annotated[str, QueryParameter(description="What the lines come from, such as the name of a file.")]


@post("/erase", sync_to_thread=True, status_code=200, responses=problems(507), summary="Erase a subject")
def erase(request: StrictRequest, data: JSONBody[Erase]) -> Receipt:
    """Remove everything of a user or another subject of the tenant, history included."""
    ids = {kind: id for kind, id in msgspec.structs.asdict(data).items() if id is not None}
    receipt = request.auth.memory.erase(**ids)
    return Receipt(
        id=receipt.id,
        tenant=receipt.scope.tenant,
        scope=receipt.scope.path,
        at=receipt.at,
        removed=receipt.removed,
        position=receipt.position,
        scrubbed=receipt.scrubbed,
    )


@get("/export", responses=problems(507), media_type=LINES, summary="Export")
async def export(request: StrictRequest, state: State, whose: Whose = "") -> Stream:
    """Return the active facts and entries at and below a scope, and all definitions, as JSON Lines.

    They are read while they are sent, as of one moment. An export that is not received in time breaks off.
    """
    memory = request.auth.memory
    lines = partial(memory.export_lines, scope=Scope.parse(whose, tenant=memory.tenant))
    return await state.exports.begin(lines, ahead=memory.url == ":memory:")


@dataclass
class _TakesLines(Operation):
    """An operation whose body is JSON Lines."""

    def __post_init__(self) -> None:
        schema = Schema(type="string", description="What an export gave: a header, then one thing a line.")  # pyright: ignore[reportArgumentType]  # the name of a type will do
        self.request_body = RequestBody(content={LINES: OpenAPIMediaType(schema=schema)}, required=True)


@post("/import", status_code=200, operation_class=_TakesLines, responses=problems(409, 502, 507), summary="Import")
async def import_lines(request: StrictRequest, source: Source = DOOR) -> Imported:
    """Write what an export holds, all or nothing. What was erased since it was made stays erased."""
    body = await request.body()
    if not body:
        raise UsageError("this request needs a body", hint="Send the lines of an export", path="$")
    # Lines are found one by one: a list of them would take as much memory again.
    return await run_sync(partial(request.auth.memory.import_lines, BytesIO(body), source=source))


@post("/sweep", sync_to_thread=True, status_code=200, responses=problems(507), summary="Sweep")
def sweep(request: StrictRequest) -> Swept:
    """Remove what has expired in the tenant."""
    return msgspec.convert(request.auth.memory.sweep(), Swept, from_attributes=True)


@post(
    "/memory/end",
    sync_to_thread=True,
    status_code=200,
    responses=problems(409, 507),
    summary="End a session of one's own",
)
def end_scope(request: StrictRequest, data: JSONBody[EndScope]) -> Ended:
    """End a session, run or tree below the caller: its memory goes, and nothing can be written to it again."""
    return Ended(removed=own(request.auth, data.scope).end())


router = Router("/", route_handlers=[erase, sweep, export, import_lines, end_scope])
