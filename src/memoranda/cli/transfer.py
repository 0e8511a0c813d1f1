"""`memoranda export` and `memoranda import`: memory in and out of JSON Lines files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.reading import STDIN, unreadable
from memoranda.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from memoranda import Imported


app = group()


@command(app, "export", scoped=True, example="memoranda export ada.jsonl --user ada")
def export(
    desk: Desk, file: Annotated[Path, typer.Argument(metavar="FILE", help="It is replaced if it exists.")]
) -> None:
    """Write facts, entries and definitions to a file.

    It holds what is active at and below the scope that is named, or all of the tenant, and every definition, as JSON
    Lines.
    """
    if str(file) == "-":
        raise UsageError("an export is written to a file, not to stdout", hint="Name a file, such as export.jsonl")
    scope = desk.scope
    try:
        with desk.out.working("Exporting"):
            written = desk.memory.export(file, scope=scope)
    except OSError as error:
        raise Unavailable(
            f"`{file}` cannot be written: {error.strerror or error}",
            hint="Name a file in a folder that exists and has space",
            path=str(file),
        ) from None
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "scope": scope, "file": str(file), "written": written})
    whose = scope if scope.path else f"tenant {desk.tenant}"
    desk.out.say(f"{wording.count(written, 'item')} of {whose} written to {file}")


@command(app, "import", creates=True, embeds=True, example="memoranda import ada.jsonl")
def import_file(
    desk: Desk, file: Annotated[str, typer.Argument(metavar="FILE", help="As `memoranda export` wrote it; - is stdin.")]
) -> None:
    """Read what an export holds, all or nothing.

    What changed here after the export was made is left alone, and what was erased since stays erased.
    """
    done = _import(desk, file)
    if desk.out.json:
        return desk.out.document(done)
    written = {"fact": done.written, "entry": done.remembered, "definition": done.definitions}
    desk.out.say("Written: " + ", ".join(wording.count(number, noun) for noun, number in written.items()))
    left = {
        "unchanged or newer here": done.kept,
        "erased since": done.erased,
        "ended since": done.ended,
        "expired": done.expired,
    }
    if any(left.values()):
        desk.out.say(f"Left alone: {wording.counts(left)}")
    if done.refused:
        desk.out.say(f"Refused: {wording.count(done.refused, 'line')} of runs, sessions of agents and programs")
        for one in done.refusals:
            desk.out.say(f"  {one.scope}{f' {one.key}' if one.key else ''}")


def _import(desk: Desk, file: str) -> Imported:
    if file == STDIN:
        return desk.memory.import_lines(sys.stdin.buffer, source="stdin")
    path = Path(file)
    try:
        total = path.stat().st_size
        with path.open("rb") as lines:
            watched = desk.out.reading(lines, total=total, what="Importing")
            return desk.memory.import_lines(watched, source=path.name)
    except OSError as error:
        raise unreadable(file, error) from None
