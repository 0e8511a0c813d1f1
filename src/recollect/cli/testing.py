"""`recollect test`: agents, their scripts and machines in; which tests passed, and how the others ended, out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from recollect.cli import wording
from recollect.cli.command import Desk, command, group
from recollect.cli.junit import Outcome, Suite, write_junit
from recollect.cli.machines import check_files
from recollect.cli.programs import (
    AGENTS,
    MACHINES,
    SCRIPTS,
    Machines,
    Model,
    Tools,
    refuse_options,
    require_ending,
    showing_faults,
)

if TYPE_CHECKING:
    from recollect.abl.scripts import run as scripts
    from recollect.mashin import verifying

app = group()


class _Case(NamedTuple):
    """One test of either language: what `--json` says of its failure, and what a person reads."""

    name: str
    line: int
    failure: Any
    told: str | None


class _Report(NamedTuple):
    """The tests of one file."""

    file: str
    cases: Sequence[_Case]


@command(app, "test", example="recollect test hotel.abl")
def test(
    desk: Desk,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Agents, whose scripts are beside them, files of scripts, or machines."),
    ],
    tools: Tools = None,
    model: Model = None,
    machines: Machines = None,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="PATH", help="Write the results to this file as JUnit XML too.")
    ] = None,
) -> None:
    """Run the tests of agents and machines.

    The scripts of hotel.abl are in hotel.tests.yaml beside it; the tests of a machine are in its own section
    `verifies`. Each test has a memory of its own, so no database is touched, and machines ask no model. Leaves with 1
    when a test fails.
    """
    for name in files:
        require_ending(name, *AGENTS, *SCRIPTS, *MACHINES)
    _check_options(files, tools=tools, model=model, machines=machines)
    with showing_faults(desk), desk.out.working("Testing"):
        reports = [
            _verified(name, machines or []) if name.endswith(MACHINES) else _scripted(name, tools=tools, model=model)
            for name in files
        ]
    if junit is not None:
        write_junit(junit, [_suite(report) for report in reports])
    _show(desk, reports)
    if any(case.told is not None for report in reports for case in report.cases):
        raise typer.Exit(1)


def _check_options(files: list[str], *, tools: str | None, model: str | None, machines: list[str] | None) -> None:
    """Refuse options that would be for nothing."""
    if all(name.endswith(MACHINES) for name in files):
        given = {"--tools": tools, "--model": model}
        refuse_options(given, because="tests of machines", hint="They ask no model; `assuming` says what steps give")
    if not any(name.endswith(MACHINES) for name in files):
        refuse_options({"--machines": machines}, because="agents", hint="Agents are named in their file of scripts")
    check_files(machines or [])


def _scripted(name: str, *, tools: str | None, model: str | None) -> _Report:
    from recollect.abl.scripts.run import run_scripts

    report = run_scripts(Path(name), tools=tools, model=model)
    cases = [
        _Case(case.name, case.line, case.failure, case.failure and _told_of_script(report.path, case.failure))
        for case in report.cases
    ]
    return _Report(report.path, cases)


def _verified(name: str, machines: list[str]) -> _Report:
    from recollect.api.opening import open as open_memory
    from recollect.mashin.loading import load

    check_files([name])
    with open_memory(":memory:") as memory:
        report = load(Path(name), memory=memory, machines=[Path(one) for one in machines]).test()
    cases = [
        _Case(case.name, case.line, case.failure, case.failure and _told_of_machine(name, case.line, case.failure))
        for case in report.cases
    ]
    return _Report(name, cases)


# what is printed


def _show(desk: Desk, reports: Sequence[_Report]) -> None:
    cases = [(report, case) for report in reports for case in report.cases]
    failed = sum(case.told is not None for _, case in cases)
    passed = len(cases) - failed
    if desk.out.json:
        told = [_described(report, case) for report, case in cases]
        return desk.out.document({"passed": passed, "failed": failed, "cases": told})
    for report in reports:
        desk.out.say(report.file)
        for case in report.cases:
            desk.out.say(f"  {'ok    ' if case.told is None else 'FAILED'}  {case.name}")
            if case.told is not None:
                desk.out.say(_indented(case.told, " " * 10))
        if not report.cases:
            desk.out.say("  (no tests)")
    desk.out.say(f"{wording.count(passed, 'test')} passed" + (f", {failed:,} failed" if failed else ""))


def _described(report: _Report, case: _Case) -> dict[str, Any]:
    passed = case.told is None
    return {"file": report.file, "name": case.name, "line": case.line, "passed": passed, "failure": case.failure}


def _suite(report: _Report) -> Suite:
    return Suite(report.file, [Outcome(case.name, case.line, case.told) for case in report.cases])


def _told_of_script(path: str, failure: scripts.Failure) -> str:
    said = "before anything was said" if failure.said is None else f"after `{failure.said}`"
    parts = [f"{path}:{failure.line}: {said}", _named("expected", failure.expected), _named("got", failure.got)]
    if failure.hint:
        parts.append(_named("hint", failure.hint))
    if failure.trace:
        parts.append(_named("trace", failure.trace))
    return "\n".join(parts)


def _told_of_machine(path: str, line: int, failure: verifying.Failure) -> str:
    parts = [f"{path}:{line}: {failure.reason}"]
    for one in failure.diff:
        both = [_named("expected", _json(one.expected)), _named("got", _json(one.got))]
        parts += [one.path, _indented("\n".join(both), "  ")]
    hint = failure.error.details.get("hint") if failure.error else None
    if hint:
        parts.append(_named("hint", str(hint)))
    return "\n".join(parts)


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def _named(name: str, text: str) -> str:
    return f"{name:9} " + _indented(text, " " * 10).lstrip()


def _indented(text: str, margin: str) -> str:
    return "\n".join(f"{margin}{line}".rstrip() for line in text.splitlines())
