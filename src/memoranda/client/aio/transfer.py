"""What an administrator does with whole memories: an export to a file, and what it holds back in."""

from __future__ import annotations

import os
from pathlib import Path

from memoranda.client.aio.connection import AsyncConnection
from memoranda.client.calls import Call, parameters, path
from memoranda.wire.upkeep import Imported

_LINES = {"Content-Type": "application/x-ndjson"}
_COUNTED = (b'{"fact":', b'{"entry":')


async def export_to(connection: AsyncConnection, file: str | Path, scope: str | None) -> int:
    """Write an export to a file that appears only when it is whole; return how many facts and entries."""
    call = Call(method="GET", path=path("export"), query=parameters(scope=scope))
    target = Path(file)
    partial = target.with_name(f"{target.name}.partial")
    count = 0
    try:
        with partial.open("wb") as lines:
            async for line in connection.lines(call):
                lines.write(line + b"\n")
                count += line.startswith(_COUNTED)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return count


async def import_from(connection: AsyncConnection, content: bytes, source: str | None) -> Imported:
    """Send the lines of an export and return what became of them; sent twice, they change nothing more."""
    asked = parameters(source=source)
    call = Call(method="POST", path=path("import"), query=asked, headers=_LINES, body=content, repeatable=True)
    return await connection.fetch(call, Imported)
