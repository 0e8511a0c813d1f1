"""`memoranda export`, `import`, `migrate` and `workflows`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.cli import formats
from memoranda.cli.arguments import STDIN, read_file, read_stdin, unreadable, write_file
from memoranda.cli.command import Desk, argument, command, flag, group, option
from memoranda.cli.programs import WORKFLOWS, require_ending, showing_faults
from memoranda.errors import Unavailable, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda import Imported


app = group()


@command(app, "export", scoped=True, example="memoranda export ada.jsonl --user ada")
def export(desk: Desk, file: Annotated[Path, argument("FILE", "The file; replaced if it exists.")]) -> None:
    """Export facts, entries and definitions to a file.

    The file has one JSON object per line: everything active at and below the scope, by default the whole tenant, and
    all definitions.
    """
    if str(file) == "-":
        raise UsageError("an export is written to a file, not to stdout", hint="Name a file, such as export.jsonl")
    scope = desk.scope
    if desk.names_scope and not scope.path:
        raise UsageError(
            "the shared scope cannot be exported alone: everything is below it",
            hint="Leave out --scope to export the whole tenant",
        )
    try:
        with desk.out.working("Exporting"):
            written = desk.memory.export(file, scope=scope)
    except OSError as error:
        raise Unavailable(
            f"`{file}` cannot be written: {error.strerror or error}",
            hint="Name a file in a folder that exists and has space",
            path=str(file),
        ) from None
    whose = scope if scope.path else f"tenant {desk.tenant}"
    desk.out.result(
        {"tenant": desk.tenant, "scope": scope, "file": str(file), "written": written},
        f"{formats.count(written, 'item')} of {whose} written to {file}",
    )


@command(app, "import", changes=True, creates=True, embeds=True, example="memoranda import ada.jsonl")
def import_file(
    desk: Desk, file: Annotated[str, argument("FILE", "A file of `memoranda export`; - is stdin.")]
) -> None:
    """Import an export, all or nothing.

    What changed here after the export stays as it is, and what was erased since stays erased.
    """
    done = _import(desk, file)
    if desk.out.json:
        return desk.out.document(done)
    written = {"fact": done.written, "entry": done.remembered, "definition": done.definitions}
    desk.out.say("Written: " + ", ".join(formats.count(number, noun) for noun, number in written.items()))
    left = {
        "unchanged or newer here": done.kept,
        "erased since": done.erased,
        "ended since": done.ended,
        "expired": done.expired,
    }
    if any(left.values()):
        desk.out.say(f"Left alone: {formats.counts(left)}")
    if done.rejections:
        desk.out.say(f"Rejections added: {done.rejections}")
    if done.refused:
        desk.out.say(
            f"Refused: {formats.count(done.refused, 'line')} of runs, sessions of agents and programs, or rejected"
        )
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


@command(app, "migrate", creates=True, example="memoranda migrate memory.db postgresql://ada@db.example/team")
def migrate(
    desk: Desk,
    source: Annotated[str, argument("SOURCE", "The database to move: a file, or postgresql://…")],
    target: Annotated[str, argument("TARGET", "The empty database to move it to; a file is created.")],
    dry_run: Annotated[bool, flag("Only say what would be moved.", "--dry-run")] = False,
    restart: Annotated[bool, flag("Begin an unfinished move again.", "--restart")] = False,
    exclusive: Annotated[bool, flag("Fail if the source is written to meanwhile.", "--exclusive")] = False,
) -> None:
    """Move all memory to another database, such as PostgreSQL.

    Every tenant is moved with its history, ledger, grants and runs, and compared with the source. No program can open
    the target before the end. Run an interrupted move again: it goes on where it stopped. Stop the programs that write
    to the source first: what is written after the move has begun is not moved. It needs the owner of the tables.
    """
    from memoranda.api.move import migrate

    if desk.actor not in (None, "owner"):
        raise UsageError(f"a move needs every row, so {quote(desk.actor)} cannot do it", hint="Leave out --actor")
    try:
        with desk.out.following() as tell:
            moved = migrate(
                source,
                target,
                dry_run=dry_run,
                restart=restart,
                exclusive=exclusive,
                busy_timeout=desk.settings["busy_timeout"],
                progress=lambda at: tell(f"{_STAGES[at.stage]} {at.table}", at.done, at.total),
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. The same command goes on where it stopped.") from None
    if desk.out.json:
        return desk.out.document(moved)
    rows = [(table.name, f"{table.rows:,}", table.digest[:16]) for table in moved.tables if table.rows]
    desk.out.table(("table", "rows", "" if dry_run else "the same hash on both sides"), rows)
    what = f"{formats.count(moved.rows, 'row')} of {formats.count(moved.tenants, 'tenant')}"
    if dry_run:
        return desk.out.say(f"Would move {what} from {moved.source} to {moved.target}; nothing was changed.")
    speed = f", {moved.rows / moved.seconds:,.0f} rows per second" if moved.seconds >= 1 and not moved.continued else ""
    desk.out.say(f"Moved {what} from {moved.source} to {moved.target} in {moved.seconds:.1f} s{speed}.")
    desk.out.say("The ledgers were verified there, and end where those of the source do.")
    if moved.restarted and not restart:
        desk.out.remark("The source was written to since this move began, so it began again.")
    if moved.written_since:
        desk.out.remark(
            f"Not moved: {formats.count(moved.written_since, 'event')} that the source has since, and what they did. "
            "Stop what writes there, remove the target, and move again."
        )


_STAGES = {"copying": "Copying", "comparing": "Comparing", "verifying": "Verifying"}


workflows_app = group("workflows")


@command(workflows_app, "export", example="memoranda workflows export desk.yaml --out desk.json")
def export_bundle(
    desk: Desk,
    file: Annotated[str, argument("FILE", "A workflow, such as desk.yaml.")],
    out: Annotated[str | None, option("BUNDLE", "The file to write; an existing one is replaced.")] = None,
) -> None:
    """Write a workflow and its definitions as one bundle, a JSON document.

    A workflow refers to definitions by their ids. In the bundle they have slugs instead, so that their ids may differ
    in another memory.
    """
    from memoranda.workflow.transfer import export_workflow

    require_ending(file, *WORKFLOWS)
    text = read_file(file)
    with showing_faults(desk):
        bundle = export_workflow(desk.memory, text, name=file)
    if out is None:
        return desk.out.document(bundle)
    write_file(out, formats.pretty_json(bundle) + "\n")
    slugs = list(bundle["definitions"])
    desk.out.result(
        {"tenant": desk.tenant, "file": out, "definitions": slugs}, f"{file} is written to {out} {_with(slugs)}"
    )


@command(
    workflows_app, "import", changes=True, creates=True, example="memoranda workflows import desk.json --out desk.yaml"
)
def import_bundle(
    desk: Desk,
    bundle: Annotated[str, argument("BUNDLE", "A file of `memoranda workflows export`; - is stdin.")],
    out: Annotated[str | None, option("FILE", "The file to write; an existing one is replaced.")] = None,
) -> None:
    """Create the missing definitions of a bundle, and write its workflow with the ids of this memory.

    A definition that already exists has to be the same; otherwise nothing is imported.
    """
    from memoranda.workflow.transfer import import_workflow

    given = _read(bundle)
    if out is not None:
        require_ending(out, *WORKFLOWS)
        if not Path(out).parent.is_dir():
            raise UsageError(f"the folder of {quote(out)} does not exist", hint="Name an existing folder", path=out)
    with showing_faults(desk):
        done = import_workflow(desk.memory, given)
    if out is not None:
        write_file(out, done.text)
    if desk.out.json:
        text = {"text": done.text} if out is None else {"file": out}
        return desk.out.document({"tenant": desk.tenant, **text, "created": done.created, "reused": done.reused})
    if out is None:
        desk.out.raw(done.text.removesuffix("\n"))
    elif not done.created and not done.reused:
        desk.out.aside(f"{bundle} names no definitions; its workflow is written to {out}")
    for word, those in (("Created", done.created), ("Reused", done.reused)):
        if those:
            desk.out.aside(f"{word}: {', '.join(f'{one.slug} ({one.id})' for one in those)}")


def _read(name: str) -> Mapping[str, Any]:
    import msgspec

    text = read_stdin() if name == STDIN else read_file(name)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{quote(name)} is not a bundle: {error}", hint="Name a file of `memoranda workflows export`", path=name
        ) from None


def _with(slugs: list[str]) -> str:
    return f"with {formats.count(len(slugs), 'definition')}" + (f": {', '.join(slugs)}" if slugs else "")
