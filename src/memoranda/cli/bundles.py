"""`memoranda workflows`: a workflow and the definitions it names, out of one memory and into another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.programs import WORKFLOWS, require_ending, showing_faults
from memoranda.cli.reading import STDIN, read_file, read_stdin
from memoranda.cli.writing import write_file
from memoranda.errors import UsageError
from memoranda.model.text import quote

app = group("workflows")


@command(app, "export", example="memoranda workflows export desk.yaml --out desk.json")
def export(
    desk: Desk,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A workflow, such as desk.yaml.")],
    out: Annotated[
        str | None, typer.Option("--out", metavar="BUNDLE", help="Write it to this file; replaced if it exists.")
    ] = None,
) -> None:
    """Write a workflow and the definitions it names as one bundle, a JSON document.

    The workflow names definitions by their ids here. In the bundle they stand by slug, so that another memory can have
    them under other ids.
    """
    from memoranda.workflow.transfer import export_workflow

    require_ending(file, *WORKFLOWS)
    text = read_file(file)
    with showing_faults(desk):
        bundle = export_workflow(desk.memory, text, name=file)
    if out is None:
        return desk.out.document(bundle)
    write_file(out, wording.indented(bundle) + "\n")
    slugs = list(bundle["definitions"])
    if desk.out.json:
        return desk.out.document({"tenant": desk.tenant, "file": out, "definitions": slugs})
    desk.out.say(f"{file} is written to {out} {_with(slugs)}")


@command(app, "import", creates=True, example="memoranda workflows import desk.json --out desk.yaml")
def import_bundle(
    desk: Desk,
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="As `memoranda workflows export` wrote it; - is stdin.")
    ],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write the workflow to this file; replaced if it exists."),
    ] = None,
) -> None:
    """Create the definitions of a bundle that are missing here, and write its workflow with the ids they have here.

    A definition that is here already has to be the same; otherwise nothing is imported.
    """
    from memoranda.workflow.transfer import import_workflow

    given = _read(bundle)
    if out is not None:
        require_ending(out, *WORKFLOWS)
        if not Path(out).parent.is_dir():
            raise UsageError(f"there is no folder for {quote(out)}", hint="Name a file in one that exists", path=out)
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
            f"{quote(name)} is no bundle: {error}", hint="Name what `memoranda workflows export` wrote", path=name
        ) from None


def _with(slugs: list[str]) -> str:
    return f"with {wording.count(len(slugs), 'definition')}" + (f": {', '.join(slugs)}" if slugs else "")
