"""What an administrator does with whole memories: an export to a file."""

from __future__ import annotations

import os
from pathlib import Path

from recollect.client.aio.connection import AsyncConnection
from recollect.client.calls import Call, parameters, path


async def export_to(connection: AsyncConnection, file: str | Path, scope: str | None) -> int:
    """Write an export to a file that appears only when it is whole; return how many lines it has."""
    call = Call(method="GET", path=path("export"), query=parameters(scope=scope))
    target = Path(file)
    partial = target.with_name(f"{target.name}.partial")
    count = 0
    try:
        with partial.open("wb") as lines:
            async for line in connection.lines(call):
                lines.write(line + b"\n")
                count += 1
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return count
