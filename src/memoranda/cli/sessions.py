"""`memoranda sessions`: scopes that come to an end."""

from __future__ import annotations

from typing import Annotated

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.errors import UsageError

app = group("sessions")


@command(app, "start", scoped=True, creates=True, example="memoranda sessions start s1 --user ada")
def start(
    desk: Desk, id: Annotated[str, typer.Argument(metavar="ID", help="A new id, or that of a running one.")]
) -> None:
    """Begin a session, or go on with it. The scope options say whose it is: erasing them erases it too."""
    owner = desk.scope
    begun = desk.memory.at(owner).session(id)
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "scope": begun.scope, "owner": owner.path or None})
    desk.out.say(f"{begun.scope} runs for {owner}; write to it with --session {id}")


@command(app, "end", scoped=True, example="memoranda sessions end s1")
def end(
    desk: Desk,
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The session; a run or tree is named by the scope options.")
    ] = None,
) -> None:
    """End a session, run or tree for good: its memory goes, and nothing can be written to it again."""
    if (id is not None) == desk.names_scope:
        raise UsageError(
            "one session, run or tree has to be named",
            hint="By its id, `memoranda sessions end s1`, or by options, `--user ada --run r1`; not both",
        )
    ending = desk.memory.scope(session=id) if id is not None else desk.place
    removed = ending.end()
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "scope": ending.scope, "removed": removed})
    gone = wording.counts(removed)
    desk.out.say(f"{ending.scope} is over; removed: {gone or 'nothing'}")
