"""`memoranda check` and `format`: program files in; what is wrong with them, or their canonical layout, out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.programs import (
    AGENTS,
    MACHINES,
    SCRIPTS,
    WORKFLOWS,
    Kind,
    Tools,
    refuse_options,
    require_ending,
    showing_faults,
)
from memoranda.cli.reading import read_file
from memoranda.cli.writing import write_file
from memoranda.errors import SourceError

if TYPE_CHECKING:
    from memoranda.lang.diagnostics import Diagnostic
    from memoranda.lang.source import Source

    Said: TypeAlias = tuple[Source, tuple[Diagnostic, ...]]

app = group()


@command(app, "check", example="memoranda check hotel.abl desk.yaml --strict")
def check(
    desk: Desk,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Agents, machines and workflows, such as hotel.abl and desk.yaml."),
    ],
    tools: Tools = None,
    strict: Annotated[bool, typer.Option("--strict", help="Leave with 1 for warnings too.")] = False,
) -> None:
    """Look for everything that is wrong with a program.

    Every fault of every file is shown at once, with its place and what was probably meant. Files of tests are looked
    at too. A workflow's own actions are known when --tools names them. Leaves with 1 when there are errors.
    """
    kinds: list[Kind] = [require_ending(name, *AGENTS, *SCRIPTS, *MACHINES, *WORKFLOWS) for name in files]
    if "a workflow" not in kinds:
        refuse_options({"--tools": tools}, because=kinds[0], hint="It names the actions of workflows")
    import msgspec

    found = [
        (source, msgspec.structs.replace(one, hint=wording.hint(one.hint)))
        for name, kind in zip(files, kinds, strict=True)
        for source, said in [_DIAGNOSE[kind](read_file(name), name, tools)]
        for one in said
    ]
    severities = [diagnostic.severity for _, diagnostic in found]
    if desk.out.json:
        desk.out.document([_described(source, diagnostic) for source, diagnostic in found])
    else:
        from memoranda.lang.diagnostics import render

        for source, diagnostic in found:
            desk.out.say(render(diagnostic, source), indent="  ")
        desk.out.say(_summary(files, severities))
    if "error" in severities or (strict and "warning" in severities):
        raise typer.Exit(1)


@command(app, "format", example="memoranda format hotel.abl --check")
def format(
    desk: Desk,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Agents and machines, such as hotel.abl and desk.mashin.")
    ],
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
            write_file(name, canonical)
    if desk.out.json:
        desk.out.document({"changed": changed, "written": not check})
    else:
        for name in changed:
            desk.out.say(f"{name} would change" if check else f"{name} is formatted")
        if not changed:
            desk.out.say(f"{wording.count(len(files), 'file')} in canonical layout")
    if changed and check:
        raise typer.Exit(1)


# what there is to say about a file


def _diagnose_agent(text: str, name: str, tools: str | None) -> Said:
    from memoranda.abl.checker.check import check_source

    reading, _, said = check_source(text, name=name)
    return reading.source, said


def _diagnose_scripts(text: str, name: str, tools: str | None) -> Said:
    from memoranda.abl.scripts.file import read_scripts
    from memoranda.cli.testing import tested_by
    from memoranda.lang.source import Source
    from memoranda.workflow.scripts.file import read_scripts as read_tests

    try:
        if tested_by(Path(name), text) == "workflow":
            read_tests(text, name=name)
        else:
            read_scripts(text, name=name)
    except SourceError as error:
        return Source(name, text), error.diagnostics
    return Source(name, text), ()


def _diagnose_machine(text: str, name: str, tools: str | None) -> Said:
    from memoranda.mashin.checker.check import check_source

    reading, _, said = check_source(text, name=name)
    return reading.source, said


def _diagnose_workflow(text: str, name: str, tools: str | None) -> Said:
    from memoranda.cli.workflows import modules_of
    from memoranda.workflow.actions.base import actions_of
    from memoranda.workflow.preparing import look

    reading, _, said, _ = look(text, name, actions_of(modules_of(tools)))
    return reading.source, said


_DIAGNOSE: dict[Kind, Callable[[str, str, str | None], Said]] = {
    "an agent": _diagnose_agent,
    "a file of tests": _diagnose_scripts,
    "a machine": _diagnose_machine,
    "a workflow": _diagnose_workflow,
}


def _canonical(name: str, text: str) -> str:
    if name.endswith(MACHINES):
        from memoranda.mashin.formatter import format_text as format_machine

        return format_machine(text, name=name)
    from memoranda.abl.formatter import format_text

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
        # Only values of YAML have one, and programs that read this like to find the same fields everywhere.
        "path": getattr(diagnostic, "path", ""),
    }


def _summary(files: list[str], severities: list[str]) -> str:
    counted = [
        wording.count(severities.count(kind), kind) for kind in ("error", "warning", "note") if kind in severities
    ]
    return f"{wording.count(len(files), 'file')}: {', '.join(counted) or 'nothing to say'}"
