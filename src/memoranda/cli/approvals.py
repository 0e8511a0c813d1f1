"""`memoranda approvals`: what waits for a person's decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Reason

if TYPE_CHECKING:
    from memoranda import Approval
    from memoranda.governance.gate import Decided

app = group("approvals", lists=True)

Which = Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")]


@command(app, "list", example="memoranda approvals list --status all")
def list_approvals(
    desk: Desk,
    status: Annotated[
        Literal["pending", "approved", "refused", "all"],
        typer.Option("--status", metavar="STATUS", help="Those that are pending, approved or refused, or all."),
    ] = "pending",
) -> None:
    """List what waits, or what was decided, oldest first."""
    found = desk.memory.approvals.list(status=status)
    if desk.out.json:
        return desk.out.document(found)
    if not found:
        return desk.out.remark("Nothing waits." if status == "pending" else "No approvals.")
    rows = [(one.id, one.status, one.actor, _target(one), desk.out.ago(one.requested_at)) for one in found]
    columns = ("id", "status", "actor", "what", "asked")
    desk.out.table(columns, rows, whole=("id", "status", "asked"), folded=("actor", "what"))


@command(app, "show", example="memoranda approvals show approval_01a1…")
def show(desk: Desk, approval: Which) -> None:
    """Show one approval with the effect that waits."""
    found = desk.memory.approvals.get(approval)
    if desk.out.json:
        return desk.out.document(found)
    from memoranda.wire.shapes import plain

    effect = "(gone: it was decided or erased)" if found.effect is None else wording.value(plain(found.effect))
    desk.out.pairs(
        [
            ("id", found.id),
            ("status", found.status),
            ("actor", f"{found.actor} through {found.door}"),
            ("capability", found.capability),
            ("scope", found.scope or "(shared)"),
            ("asked", wording.exact(found.requested_at)),
            ("effect", effect),
            ("decided", f"{wording.exact(found.decided_at)} by {found.decided_by}" if found.decided_at else ""),
            ("reason", found.reason),
        ]
    )


@command(app, "approve", example="memoranda approvals approve approval_01a1… --reason 'as agreed'")
def approve(desk: Desk, approval: Which, reason: Reason = "") -> None:
    """Let what waits happen now, in the name of who asked."""
    _report(desk, desk.memory.approvals.approve(approval, reason=reason))


@command(app, "refuse", example="memoranda approvals refuse approval_01a1… --reason 'not on a Friday'")
def refuse(desk: Desk, approval: Which, reason: Reason = "") -> None:
    """Drop what waits."""
    _report(desk, desk.memory.approvals.refuse(approval, reason=reason))


def _report(desk: Desk, decided: Decided) -> None:
    if desk.out.json:
        return desk.out.document(decided)
    asked = decided.approval
    desk.out.say(f"{asked.id} is {asked.status}: {asked.capability} for {asked.actor}")


def _target(approval: Approval) -> str:
    key = approval.effect.place if approval.effect is not None else None
    return f"{approval.capability} {approval.scope or '(shared)'} {key or ''}".strip()
