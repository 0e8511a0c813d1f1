"""`recollect test`: agents and their conversation scripts in; which tests passed, and where the others ended, out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.cli import wording
from recollect.cli.command import Desk, command, group
from recollect.cli.programs import AGENTS, SCRIPTS, Model, Tools, require_ending, showing_faults

if TYPE_CHECKING:
    from recollect.abl.scripts.run import Case, Failure, Report

app = group()


@command(app, "test", example="recollect test hotel.abl")
def test(
    desk: Desk,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Agents, whose scripts are beside them, or files of scripts."),
    ],
    tools: Tools = None,
    model: Model = None,
) -> None:
    """Run the conversation scripts of an agent.

    The scripts of hotel.abl are in hotel.tests.yaml beside it. Each test talks to the agent on a memory and a clock
    of its own, so no database is touched. Leaves with 1 when a test fails.
    """
    from recollect.abl.scripts.run import run_scripts

    for name in files:
        require_ending(name, *AGENTS, *SCRIPTS)
    with showing_faults(desk), desk.out.working("Testing"):
        reports = [run_scripts(Path(name), tools=tools, model=model) for name in files]
    failed = sum(report.failed for report in reports)
    if desk.out.json:
        cases = [_described(report, case) for report in reports for case in report.cases]
        desk.out.document({"passed": sum(report.passed for report in reports), "failed": failed, "cases": cases})
    else:
        for report in reports:
            _show(desk, report)
        passed = wording.count(sum(report.passed for report in reports), "test")
        desk.out.say(f"{passed} passed" + (f", {failed:,} failed" if failed else ""))
    if failed:
        raise typer.Exit(1)


def _show(desk: Desk, report: Report) -> None:
    desk.out.say(report.path)
    for case in report.cases:
        desk.out.say(f"  {'ok    ' if case.passed else 'FAILED'}  {case.name}")
        if case.failure is not None:
            desk.out.say(_told(report.path, case.failure))


def _told(path: str, failure: Failure) -> str:
    said = "before anything was said" if failure.said is None else f"after `{failure.said}`"
    parts = [f"{path}:{failure.line}: {said}", _named("expected", failure.expected), _named("got", failure.got)]
    if failure.hint:
        parts.append(_named("hint", failure.hint))
    if failure.trace:
        parts.append(_named("trace", failure.trace))
    return _indented("\n".join(parts), " " * 10)


def _named(name: str, text: str) -> str:
    return f"{name:9} " + _indented(text, " " * 10).lstrip()


def _indented(text: str, margin: str) -> str:
    return "\n".join(f"{margin}{line}".rstrip() for line in text.splitlines())


def _described(report: Report, case: Case) -> dict[str, Any]:
    return {"file": report.path, "name": case.name, "line": case.line, "passed": case.passed, "failure": case.failure}
