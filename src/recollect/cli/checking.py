"""`recollect check` and `format`: program files in; what is wrong with them, or their canonical layout, out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.cli import wording
from recollect.cli.command import Desk, command, group
from recollect.cli.programs import AGENTS, MACHINES, SCRIPTS, require_ending, showing_faults
from recollect.cli.reading import read_file
from recollect.errors import SourceError, UsageError

if TYPE_CHECKING:
    from recollect.lang.diagnostics import Diagnostic
    from recollect.lang.source import Source

app = group()

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Agents and machines, such as hotel.abl and desk.mashin.")
]


@command(app, "check", example="recollect check hotel.abl concierge.abl --strict")
def check(
    desk: Desk,
    files: Files,
    strict: Annotated[bool, typer.Option("--strict", help="Leave with 1 for warnings too.")] = False,
) -> None:
    """Look for everything that is wrong with a program.

    Every fault of every file is shown at once, with its place and what was probably meant. Files of conversation
    scripts are looked at too. Leaves with 1 when there are errors.
    """
    for name in files:
        require_ending(name, *AGENTS, *SCRIPTS, *MACHINES)
    found = [(source, one) for name in files for source, said in [_diagnose(name)] for one in said]
    severities = [diagnostic.severity for _, diagnostic in found]
    if desk.out.json:
        desk.out.document([_described(source, diagnostic) for source, diagnostic in found])
    else:
        from recollect.lang.diagnostics import render

        for source, diagnostic in found:
            desk.out.say(render(diagnostic, source))
        desk.out.say(_summary(files, severities))
    if "error" in severities or (strict and "warning" in severities):
        raise typer.Exit(1)


@command(app, "format", example="recollect format hotel.abl --check")
def format(
    desk: Desk,
    files: Files,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; leave with 1 when a file would change.")
    ] = False,
) -> None:
    """Write a program in its canonical layout.

    Two spaces a level, keywords as they are usually written; what is said and comments stay, in their order, but that
    the sections of a machine get their usual one. A file with errors is left as it is.
    """
    for name in files:
        require_ending(name, ".abl", *MACHINES)
    changed: list[str] = []
    with showing_faults(desk):
        # Nothing is written before all of them could be formatted.
        formatted = [(name, text, _canonical(name, text)) for name in files for text in [read_file(name)]]
    for name, text, canonical in formatted:
        if canonical == text:
            continue
        changed.append(name)
        if not check:
            _write(name, canonical)
    if desk.out.json:
        desk.out.document({"changed": changed, "written": not check})
    else:
        for name in changed:
            desk.out.say(f"{name} would change" if check else f"{name} is formatted")
        if not changed:
            desk.out.say(f"{wording.count(len(files), 'file')} in canonical layout")
    if changed and check:
        raise typer.Exit(1)


def _diagnose(name: str) -> tuple[Source, tuple[Diagnostic, ...]]:
    """Return a file and everything there is to say about it."""
    from recollect.lang.source import Source

    text = read_file(name)
    if name.endswith(SCRIPTS):
        from recollect.abl.scripts.file import read_scripts

        try:
            read_scripts(text, name=name)
        except SourceError as error:
            return Source(name, text), error.diagnostics
        return Source(name, text), ()
    if name.endswith(MACHINES):
        from recollect.mashin.checker.check import check_source as check_machine

        reading, _, said = check_machine(text, name=name)
        return reading.source, said
    from recollect.abl.checker.check import check_source

    reading, _, said = check_source(text, name=name)
    return reading.source, said


def _canonical(name: str, text: str) -> str:
    if name.endswith(MACHINES):
        from recollect.mashin.formatter import format_text as format_machine

        return format_machine(text, name=name)
    from recollect.abl.formatter import format_text

    return format_text(text, name=name)


def _described(source: Source, diagnostic: Diagnostic) -> dict[str, Any]:
    place, end = source.position(diagnostic.span.start), source.position(diagnostic.span.end)
    return {
        "file": source.name,
        "line": place.line,
        "column": place.column,
        "end_line": end.line,
        "end_column": end.column,
        "severity": diagnostic.severity,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
    }


def _summary(files: list[str], severities: list[str]) -> str:
    counted = [
        wording.count(severities.count(kind), kind) for kind in ("error", "warning", "note") if kind in severities
    ]
    return f"{wording.count(len(files), 'file')}: {', '.join(counted) or 'nothing to say'}"


def _write(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        message = f"`{name}` cannot be written: {error.strerror or error}"
        raise UsageError(message, hint="Make it writable, or name another file", path=name) from None
