"""`/erase` and `/export`: what an administrator does with the memory of the tenant."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from litestar import Router, get, post
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from recollect.model.scope import Scope
from recollect.server.answers import problems
from recollect.server.parameters import Handle
from recollect.wire.upkeep import Erase, Receipt

_CHUNK = 65_536

Whose = Annotated[
    str, QueryParameter(name="scope", description="Only this scope and what lies below, such as `user:ada`.")
]


@post("/erase", sync_to_thread=True, status_code=200, responses=problems(507), summary="Erase a subject")
def erase(memory: Handle, data: JSONBody[Erase]) -> Receipt:
    """Remove everything of a user or another subject of the tenant, history included."""
    ids = {kind: id for kind, id in msgspec.structs.asdict(data).items() if id is not None}
    receipt = memory.erase(**ids)
    return Receipt(
        id=receipt.id,
        tenant=receipt.scope.tenant,
        scope=receipt.scope.path,
        at=receipt.at,
        removed=receipt.removed,
        position=receipt.position,
        scrubbed=receipt.scrubbed,
    )


@get("/export", sync_to_thread=True, responses=problems(507), media_type="application/x-ndjson", summary="Export")
def export(memory: Handle, whose: Whose = "") -> Stream:
    """Return the active facts and entries at and below a scope, and all definitions, as JSON Lines."""
    folder = tempfile.TemporaryDirectory(prefix="recollect-export-")
    try:
        file = Path(folder.name, "export.jsonl")
        memory.export(file, scope=Scope.parse(whose, tenant=memory.tenant))
    except BaseException:
        folder.cleanup()
        raise
    return Stream(lambda: _read_out(file, folder), media_type="application/x-ndjson")


def _read_out(file: Path, folder: tempfile.TemporaryDirectory[str]) -> Iterator[bytes]:
    """Yield a file in parts, and remove it once it is out or nobody wants it any more."""
    with folder, file.open("rb") as lines:
        while part := lines.read(_CHUNK):
            yield part


router = Router("/", route_handlers=[erase, export])
