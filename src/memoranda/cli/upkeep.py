"""`memoranda erase` and `memoranda sweep`: what has to go."""

from __future__ import annotations

from typing import Annotated

import typer

from memoranda.cli import wording
from memoranda.cli.asking import confirm
from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Yes
from memoranda.errors import Busy, UsageError

app = group()


@command(app, "erase", scoped=True, example="memoranda erase --user ada --yes")
def erase(desk: Desk, yes: Yes = False) -> None:
    """Remove everything of a user or another subject.

    History goes too, and nothing brings it back, so this asks first. The receipt says what was removed, and where
    the ledger says so.
    """
    scope = desk.scope
    if not scope.path:
        raise UsageError("an erasure needs a subject", hint="Name one with --user, --project, --scope…")
    desk.require_database()
    confirm(f"Erase everything of {scope} in tenant {desk.tenant}? This cannot be undone.", yes=yes)
    receipt = desk.memory.erase(**dict(scope.parts))
    if desk.out.json:
        return desk.out.document(receipt)
    desk.out.pairs(
        [
            ("erased", str(receipt.scope)),
            ("receipt", receipt.id),
            ("at", wording.exact(receipt.at)),
            ("removed", wording.counts(receipt.removed) or "nothing was there"),
            ("ledger", f"position {receipt.position}"),
            ("scrubbed", "yes" if receipt.scrubbed else "no"),
        ]
    )
    if not receipt.scrubbed:
        desk.out.remark(
            "Others use the database, so its free space may still hold removed text; "
            "run `memoranda sweep --scrub` once they are done."
        )


@command(app, "sweep", example="memoranda sweep --scrub")
def sweep(
    desk: Desk,
    scrub: Annotated[
        bool, typer.Option("--scrub", help="Also rewrite the file, so that removed text is gone from its bytes.")
    ] = False,
) -> None:
    """Remove what has expired.

    Nobody sees expired memory meanwhile; a sweep frees its space and forgets its history.
    """
    with desk.out.working("Sweeping"):
        swept = desk.memory.sweep()
        scrubbed = desk.memory.scrub() if scrub else None
    removed = {
        "facts": swept.facts,
        "revisions": swept.revisions,
        "entries": swept.entries,
        "idempotency_keys": swept.idempotency_keys,
    }
    if scrubbed is False:
        raise Busy(
            "expired memory was removed, but others use the database, so its file could not be rewritten",
            hint="Run `memoranda sweep --scrub` again once they are done",
            removed=removed,
        )
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "removed": removed, "scrubbed": bool(scrubbed)})
    desk.out.say(f"Removed: {wording.counts(removed) or 'nothing'}" + ("; the file is scrubbed" if scrubbed else ""))
