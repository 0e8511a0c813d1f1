# Generated from client/aio/admin.py by memoranda.client.generate; do not edit.
"""Administration: `client.approvals`, `.permissions`, `.keys`, `.ledger`, export and import."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from memoranda.client.requests import Request, body, parameters, path, seconds, without_none
from memoranda.client.sync.connection import Connection, collect
from memoranda.errors import Corrupt
from memoranda.model.clock import Duration
from memoranda.model.event import Anchor
from memoranda.model.limits import check_count
from memoranda.model.policy import Level
from memoranda.wire.admin import Event, Events, Grant, Grants, Imported, Key, Keys, NewKey, Role, Verification
from memoranda.wire.runs import Approval, Approvals, Decided


class ApprovalCalls:
    """Pending effects of the tenant; needs a key that may decide."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.approvals`."""
        self._connection = connection

    def list(
        self, *, status: Literal["pending", "approved", "refused", "all"] = "pending", limit: int | None = None
    ) -> builtins.list[Approval]:
        """Return the pending approvals, or those with another status, oldest first."""
        asked = parameters(status=status)
        return collect(self._connection, path("approvals"), asked, Approvals, lambda page: page.approvals, limit)

    def get(self, approval: str) -> Approval:
        """Return an approval by its id; raise NotFound if there is none."""
        request = Request(method="GET", path=path("approvals", approval), repeatable=True)
        return self._connection.fetch(request, Approval)

    def approve(self, approval: str, *, reason: str = "") -> Decided:
        """Carry out a pending effect; return the decision and its result."""
        request = Request(method="POST", path=path("approvals", approval, "approve"), body=body(reason=reason))
        return self._connection.fetch(request, Decided)

    def refuse(self, approval: str, *, reason: str = "") -> Decided:
        """Refuse a pending effect."""
        request = Request(method="POST", path=path("approvals", approval, "refuse"), body=body(reason=reason))
        return self._connection.fetch(request, Decided)


class PermissionCalls:
    """Grants of the tenant, for programs that open the memory and act for a user."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.permissions`."""
        self._connection = connection

    def grant(
        self, actor: str, capability: str, *, level: Level = "allow", scope: str | None = None, path: str = ""
    ) -> Grant:
        """Store a rule for an actor (`*` for all): allow, approve (each use needs an approval) or deny."""
        asked = body(actor=actor, capability=capability, level=level, path=path, **without_none(scope=scope))
        return self._connection.fetch(Request(method="POST", path=_PERMISSIONS, body=asked), Grant)

    def revoke(self, grant: str) -> None:
        """Revoke a grant by its id; raise NotFound if there is none."""
        self._connection.send(Request(method="DELETE", path=path("permissions", grant)))

    def list(self, *, limit: int | None = None) -> builtins.list[Grant]:
        """Return every grant, oldest first."""
        return collect(self._connection, _PERMISSIONS, {}, Grants, lambda page: page.grants, limit)


_PERMISSIONS = path("permissions")


class KeyCalls:
    """The keys of the tenant; needs an administrator's key."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.keys`."""
        self._connection = connection

    def list(self, *, limit: int | None = None) -> builtins.list[Key]:
        """Return the keys, oldest first, without their tokens."""
        return collect(self._connection, path("keys"), {}, Keys, lambda page: page.keys, limit)

    def create(
        self,
        user: str,
        *,
        role: Role = "member",
        allow: Sequence[str] = (),
        expires: Duration | None = None,
        label: str = "",
    ) -> NewKey:
        """Create a key for a user of the tenant. Its `token` is stored as a hash, so it is returned only this once."""
        asked = without_none(expires=seconds(expires))
        sent = body(user=user, role=role, allow=builtins.list(allow), label=label, **asked)
        return self._connection.fetch(Request(method="POST", path=path("keys"), body=sent), NewKey)

    def rotate(self, key: str, *, grace: Duration | None = None) -> NewKey:
        """Create a key with the same user and permissions; the old one ends now, or after `grace`."""
        sent = body(**without_none(grace=seconds(grace)))
        return self._connection.fetch(Request(method="POST", path=path("keys", key, "rotate"), body=sent), NewKey)

    def revoke(self, key: str) -> Key:
        """Revoke a key and return it; revoking twice is allowed."""
        request = Request(method="DELETE", path=path("keys", key), repeatable=True)
        return self._connection.fetch(request, Key)


class LedgerCalls:
    """The ledger of the tenant; needs an administrator's key."""

    def __init__(self, connection: Connection) -> None:
        """Use a connection; created as `client.ledger`."""
        self._connection = connection

    def list(self, *, start: int = 1, limit: int | None = None) -> builtins.list[Event]:
        """Return the events from a position on, oldest first, at most `limit`."""
        asked = parameters(start=start)
        return collect(self._connection, path("ledger"), asked, Events, lambda page: page.events, limit)

    def tail(self, limit: int = 20) -> builtins.list[Event]:
        """Return the newest events, oldest first; at most 1,000."""
        check_count("limit", limit)
        if limit == 0:
            return []
        request = Request(method="GET", path=path("ledger", "tail"), query=parameters(limit=limit), repeatable=True)
        return (self._connection.fetch(request, Events)).events

    def verify(self, *, anchor: Anchor | None = None) -> Verification:
        """Verify the hash chain; an earlier anchor also detects a truncated ledger."""
        asked = {} if anchor is None else parameters(length=anchor.length, head=anchor.head)
        request = Request(method="GET", path=path("ledger", "verify"), query=asked, repeatable=True)
        return self._connection.fetch(request, Verification)

    def anchor(self) -> Anchor:
        """Return the length and head of the chain, to be stored out of reach of those who can write to the database."""
        found = self.verify()
        if not found.ok:
            raise Corrupt(
                f"the ledger is broken at position {found.position}: {found.reason}",
                hint="Find out what happened before you trust this ledger",
                position=found.position,
            )
        return Anchor(found.length, found.head)


_LINES = {"Content-Type": "application/x-ndjson"}
_COUNTED = (b'{"fact":', b'{"entry":')


def export_to(connection: Connection, file: str | Path, scope: str | None) -> int:
    """Write an export to a file that appears only when complete; return the number of facts and entries."""
    request = Request(method="GET", path=path("export"), query=parameters(scope=scope))
    target = Path(file)
    partial = target.with_name(f"{target.name}.partial")
    count = 0
    try:
        with partial.open("wb") as lines:
            for line in connection.lines(request):
                lines.write(line + b"\n")
                count += line.startswith(_COUNTED)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def import_from(connection: Connection, content: bytes, source: str | None) -> Imported:
    """Import the lines of an export; importing them twice changes nothing."""
    asked = parameters(source=source)
    request = Request(method="POST", path=path("import"), query=asked, headers=_LINES, body=content, repeatable=True)
    return connection.fetch(request, Imported)
