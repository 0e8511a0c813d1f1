"""Routes `/erase`, `/sweep`, `/export`, `/import` and `/memory/end`."""

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
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from memoranda.errors import UsageError
from memoranda.model.scope import Scope
from memoranda.server.auth.principals import DOOR
from memoranda.server.exports import LINES
from memoranda.server.requests import StrictRequest, caller_memory
from memoranda.server.responses import problem_specs
from memoranda.wire.admin import Ended, EndScope, Erase, Imported, Receipt, Swept

ExportScope = Annotated[
    str, QueryParameter(name="scope", description="Export only this scope and those below, such as `user:ada`.")
]
Source = Annotated[str, QueryParameter(description="The origin of the lines, such as a file name.")]


@post("/erase", sync_to_thread=True, status_code=200, responses=problem_specs(507), summary="Erase a subject")
def erase(request: StrictRequest, data: JSONBody[Erase]) -> Receipt:
    """Remove all data of a user or another subject of the tenant, including history."""
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


@get("/export", responses=problem_specs(507), media_type=LINES, summary="Export")
async def export(request: StrictRequest, state: State, whose: ExportScope = "") -> Stream:
    """Return the active facts and entries at and below a scope, and all definitions, as JSON Lines.

    The lines are one snapshot, read while they are sent. An export that is not received in time is aborted.
    """
    memory = request.auth.memory
    lines = partial(memory.export_lines, scope=Scope.parse(whose, tenant=memory.tenant))
    return await state.exports.begin(lines, ahead=memory.url == ":memory:")


@dataclass
class _TakesLines(Operation):
    """An OpenAPI operation with JSON Lines as its body."""

    def __post_init__(self) -> None:
        schema = Schema(
            type=OpenAPIType.STRING, description="The lines of an export: a header, then one item per line."
        )
        self.request_body = RequestBody(content={LINES: OpenAPIMediaType(schema=schema)}, required=True)


@post("/import", status_code=200, operation_class=_TakesLines, responses=problem_specs(409, 502, 507), summary="Import")
async def import_lines(request: StrictRequest, source: Source = DOOR) -> Imported:
    """Import the lines of an export, all or none. Data that was erased since the export stays erased."""
    body = await request.body()
    if not body:
        raise UsageError("this request needs a body", hint="Send the lines of an export", path="$")
    # Read line by line: a list of lines would take as much memory again.
    return await run_sync(partial(request.auth.memory.import_lines, BytesIO(body), source=source))


@post("/sweep", sync_to_thread=True, status_code=200, responses=problem_specs(507), summary="Sweep")
def sweep(request: StrictRequest) -> Swept:
    """Remove expired data of the tenant."""
    return msgspec.convert(request.auth.memory.sweep(), Swept, from_attributes=True)


@post(
    "/memory/end",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(409, 507),
    summary="End a scope",
)
def end_scope(request: StrictRequest, data: JSONBody[EndScope]) -> Ended:
    """End a session, run or tree below the caller: its memory is removed and cannot be written to again."""
    return Ended(removed=caller_memory(request.auth, data.scope).end())


router = Router("/", route_handlers=[erase, sweep, export, import_lines, end_scope])
