"""Names in a request in, the memory they mean out: always the caller's own, or below it."""

from __future__ import annotations

from memoranda.api.scoped import ScopedMemory
from memoranda.model.scope import Scope
from memoranda.server.callers import Access
from memoranda.server.envelope import SLASH


def own(access: Access, below: str | None = None) -> ScopedMemory:
    """Return the caller's memory, or a part of it. The user comes from the token: no text leads out of it."""
    if below is None:
        return access.own
    return access.memory.at(Scope.parse(f"{access.caller.scope.path}/{below}", tenant=access.caller.tenant))


def name_of(part: str) -> str:
    """Return the name that a part of a path stands for."""
    return part.replace(SLASH, "/")
