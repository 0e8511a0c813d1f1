"""`memoranda test`: programs and files of their tests in; which tests passed, and how the others ended, out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk, command, group
from memoranda.cli.junit import Outcome, Suite, write_junit
from memoranda.cli.programs import (
    AGENTS,
    MACHINES,
    SCRIPTS,
    WORKFLOWS,
    Kind,
    Machines,
    Model,
    Tools,
    refuse_options,
    require_ending,
    require_files,
    showing_faults,
)
from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.abl.scripts import run as agents
    from memoranda.mashin import verifying
    from memoranda.workflow.scripts import run as workflows

app = group()

Tested = Literal["agent", "workflow"]
_KEYS: dict[str, Tested] = {
    **dict.fromkeys(("agent", "agents", "tools"), "agent"),
    **dict.fromkeys(("workflow", "workflows", "actions", "servers", "definitions"), "workflow"),
}
"""What a file of tests says only of an agent, or only of a workflow."""
_NAMES = ("expected  ", "got  ", "hint  ", "trace  ")
"""What lines begin with that tell why a test failed; each goes on below what it tells."""


class _Case(NamedTuple):
    """One test of any language: what `--json` says of its failure, and what a person reads."""

    name: str
    line: int
    failure: Any
    told: str | None


class _Report(NamedTuple):
    """The tests of one file."""

    file: str
    cases: Sequence[_Case]


@command(app, "test", example="memoranda test hotel.abl")
def test(
    desk: Desk,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Agents and workflows, whose tests are beside them, files of tests, or machines."
        ),
    ],
    tools: Tools = None,
    model: Model = None,
    machines: Machines = None,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="PATH", help="Write the results to this file as JUnit XML too.")
    ] = None,
) -> None:
    """Run the tests of agents, machines and workflows.

    The tests of hotel.abl are in hotel.tests.yaml beside it, and so are those of hotel.yaml; the tests of a machine are
    in its own section `verifies`. Each test has a memory of its own, so no database is touched, and machines and
    workflows ask no model and no server. Leaves with 1 when a test fails.
    """
    kinds: list[Kind] = [require_ending(name, *AGENTS, *SCRIPTS, *MACHINES, *WORKFLOWS) for name in files]
    _check_options(kinds, tools=tools, model=model, machines=machines)
    with showing_faults(desk), desk.out.working("Testing"):
        # A program and the file of its tests are the same tests.
        found = dict.fromkeys(_find(name, kind) for name, kind in zip(files, kinds, strict=True))
        reports = [_run(one, tools=tools, model=model, machines=machines or []) for one in found]
    if junit is not None:
        write_junit(junit, [_suite(report) for report in reports])
    _show(desk, reports)
    if any(case.told is not None for report in reports for case in report.cases):
        raise typer.Exit(1)


def _check_options(kinds: list[Kind], *, tools: str | None, model: str | None, machines: list[str] | None) -> None:
    """Refuse options that would be for nothing."""
    if all(kind == "a machine" for kind in kinds):
        given = {"--tools": tools, "--model": model}
        refuse_options(given, because="tests of machines", hint="They ask no model; `assuming` says what steps give")
    if "a machine" not in kinds:
        hint = "Agents and workflows are named in their file of tests"
        refuse_options({"--machines": machines}, because="agents and workflows", hint=hint)
    require_files(machines or [], *MACHINES)


# whose tests they are


class _Tests(NamedTuple):
    """A file with tests, and what is tested."""

    file: str
    tested: Tested | None
    """None for a machine, which has its tests in itself."""


def tested_by(file: Path, text: str) -> Tested | None:
    """Return whose tests a file holds: it names an agent or a workflow, or stands beside one; None where neither is."""
    from memoranda.lang.diagnostics import Diagnostics
    from memoranda.lang.scripts.files import programs_beside
    from memoranda.lang.source import Source
    from memoranda.lang.yaml import compose

    source = Source(str(file), text)
    root = compose(source, Diagnostics(source), partial=True)
    keys = [key.scalar or "" for key, _ in (root.entries or () if root is not None else ())]
    named: dict[Tested, str] = {tested: key for key in keys if (tested := _KEYS.get(key))}
    if len(named) > 1:
        raise UsageError(
            f"{quote(str(file))} says {quote(named['agent'])} as for an agent and {quote(named['workflow'])} as for a "
            "workflow",
            hint="Make a file of tests for each of them",
            path=str(file),
        )
    if named:
        return next(iter(named))
    agents = programs_beside(file, (".agent.abl", *AGENTS))
    workflows = programs_beside(file, WORKFLOWS)
    if agents and workflows:
        agent, workflow = agents[0].name, workflows[0].name
        raise UsageError(
            f"{quote(str(file))} may be the tests of {quote(agent)} or of {quote(workflow)}",
            hint=f"Say which in the file: `agent: {agent}` or `workflow: {workflow}`",
            path=str(file),
        )
    return "agent" if agents else "workflow" if workflows else None


def _find(name: str, kind: Kind) -> _Tests:
    """Return the tests that belong to what was named."""
    if kind == "a machine":
        return _Tests(name, None)
    if kind == "a file of tests":
        file, wanted = Path(name), None
    elif kind == "an agent":
        from memoranda.abl.scripts.run import scripts_beside

        file, wanted = scripts_beside(Path(name)), "agent"
    else:
        from memoranda.workflow.scripts.run import scripts_beside

        file, wanted = scripts_beside(Path(name)), "workflow"
    if not file.is_file():
        return _Tests(str(file), wanted or "agent")  # whoever reads it says where it belongs
    from memoranda.cli.reading import read_file

    found = tested_by(file, read_file(str(file)))
    if wanted is not None and found not in (wanted, None):
        message = f"the tests in {quote(str(file))} are those of the {found} that it names, not of {quote(name)}"
        raise UsageError(message, hint=f"Test that {found}, or make a file of tests for each of them", path=name)
    if found is None and wanted is None:
        hint = "Name it in the file: `agent: hotel.abl` or `workflow: hotel.yaml`"
        raise NotFound(f"there is no agent and no workflow for {quote(name)}", hint=hint, path=name)
    return _Tests(str(file), found or wanted)


# running them


def _run(tests: _Tests, *, tools: str | None, model: str | None, machines: list[str]) -> _Report:
    if tests.tested is None:
        return _verified(tests.file, machines)
    if tests.tested == "agent":
        from memoranda.abl.scripts.run import run_scripts

        talked = run_scripts(Path(tests.file), tools=tools, model=model)
        told = [
            _Case(*_about(case), case.failure and _told_of_agent(talked.path, case.failure)) for case in talked.cases
        ]
        return _Report(talked.path, told)
    from memoranda.workflow.scripts.run import run_scripts as run_workflow_scripts

    done = run_workflow_scripts(Path(tests.file), actions=tools, model=model)
    told = [_Case(*_about(case), case.failure and _told_of_workflow(done.path, case.failure)) for case in done.cases]
    return _Report(done.path, told)


def _verified(name: str, machines: list[str]) -> _Report:
    from memoranda.api.opening import open as open_memory
    from memoranda.mashin.loading import load

    require_files([name], *MACHINES)
    with open_memory(":memory:") as memory:
        report = load(Path(name), memory=memory, machines=[Path(one) for one in machines]).test()
    cases = [
        _Case(*_about(case), case.failure and _told_of_machine(name, case.line, case.failure)) for case in report.cases
    ]
    return _Report(name, cases)


def _about(case: Any) -> tuple[str, int, Any]:
    return case.name, case.line, case.failure


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
            desk.out.say(f"  {'ok    ' if case.told is None else 'FAILED'}  {case.name}", indent=" " * 8)
            if case.told is not None:
                for line in _indented(case.told, " " * 10).splitlines():
                    desk.out.say(line, indent=" " * 10 if line.lstrip().startswith(_NAMES) else "")
        if not report.cases:
            desk.out.say("  (no tests)")
    desk.out.say(f"{wording.count(passed, 'test')} passed" + (f", {failed:,} failed" if failed else ""))


def _described(report: _Report, case: _Case) -> dict[str, Any]:
    passed = case.told is None
    return {"file": report.file, "name": case.name, "line": case.line, "passed": passed, "failure": case.failure}


def _suite(report: _Report) -> Suite:
    return Suite(report.file, [Outcome(case.name, case.line, case.told) for case in report.cases])


def _told_of_agent(path: str, failure: agents.Failure) -> str:
    said = "before anything was said" if failure.said is None else f"after `{failure.said}`"
    parts = [f"{path}:{failure.line}: {said}", _named("expected", failure.expected), _named("got", failure.got)]
    return "\n".join([*parts, *_background(failure.hint, failure.trace)])


def _told_of_workflow(path: str, failure: workflows.Failure) -> str:
    after = "before anything was run" if failure.after is None else f"after `{failure.after}`"
    parts: list[str] = []
    for one in failure.mismatches:
        parts += [f"{path}:{one.line}: {after}: {one.path}", _named("expected", one.expected), _named("got", one.got)]
    return "\n".join([*parts, *_background(failure.hint, failure.trace)])


def _background(hint: str, trace: str) -> list[str]:
    return [_named(name, text) for name, text in (("hint", hint), ("trace", trace)) if text]


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
