"""`memoranda check`, `format` and `test`: the commands for authors of agents, machines and workflows.

All three take files of any language; the ending of a file says which (`cli/programs.py`). A command collects what each
language reports in one form, the diagnostics of a file or a `Report` of its tests, and prints that. The modules of a
language are imported where they are used, so that a command loads only the languages it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias
from xml.etree import ElementTree

import typer

from memoranda.cli import formats
from memoranda.cli.arguments import read_file, write_file
from memoranda.cli.command import Desk, argument, command, flag, group, option
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
from memoranda.errors import NotFound, SourceError, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.abl import scripts
    from memoranda.lang.diagnostics import Diagnostic
    from memoranda.lang.source import Source
    from memoranda.mashin.machine_tests import TestFailure
    from memoranda.workflow.scripts import run

    Finding: TypeAlias = tuple[Source, Diagnostic]

app = group()

# --- check ----------------------------------------------------------------------------------------------------------


@command(app, "check", example="memoranda check hotel.abl desk.yaml --strict")
def check(
    desk: Desk,
    files: Annotated[
        list[str], argument("FILE...", "Agents, machines and workflows, such as hotel.abl and desk.yaml.")
    ],
    tools: Tools = None,
    strict: Annotated[bool, flag("Also exit with 1 for warnings.", "--strict")] = False,
) -> None:
    """Check programs for errors.

    All errors of all files are shown, with their places and suggestions. Test files are checked too. Use --tools to
    name the actions of workflows. Exits with 1 if there are errors.
    """
    kinds: list[Kind] = [require_ending(name, *AGENTS, *SCRIPTS, *MACHINES, *WORKFLOWS) for name in files]
    if "a workflow" not in kinds:
        refuse_options({"--tools": tools}, because=kinds[0], hint="It names the actions of workflows")
    findings = [one for name, kind in zip(files, kinds, strict=True) for one in _findings(name, kind, tools)]
    severities = [diagnostic.severity for _, diagnostic in findings]
    if desk.out.json:
        desk.out.document([_diagnostic_document(source, diagnostic) for source, diagnostic in findings])
    else:
        from memoranda.lang.diagnostics import render

        for source, diagnostic in findings:
            desk.out.say(render(diagnostic, source), indent="  ")
        desk.out.say(_summary(files, severities))
    if "error" in severities or (strict and "warning" in severities):
        raise typer.Exit(1)


def _findings(name: str, kind: Kind, tools: str | None) -> list[Finding]:
    """Return the diagnostics of one file, each with the source that it is about."""
    text = read_file(name)
    if kind == "a file of tests":
        return _findings_in_tests(text, name)
    if kind == "a workflow":
        from memoranda.cli.run_results import modules_of
        from memoranda.workflow.actions.base import actions_of
        from memoranda.workflow.compiler import look

        reading, _, diagnostics, _ = look(text, name, actions_of(modules_of(tools)))
    elif kind == "a machine":
        from memoranda.mashin.checker import check_source as check_machine

        reading, _, diagnostics = check_machine(text, name=name)
    else:
        from memoranda.abl.checker.check import check_source as check_agent

        reading, _, diagnostics = check_agent(text, name=name)
    return [(reading.source, diagnostic) for diagnostic in diagnostics]


def _findings_in_tests(text: str, name: str) -> list[Finding]:
    from memoranda.abl.scripts import read_scripts as read_agent_tests
    from memoranda.lang.source import Source
    from memoranda.workflow.scripts.file import read_scripts as read_workflow_tests

    read = read_workflow_tests if language_under_test(Path(name), text) == "workflow" else read_agent_tests
    try:
        read(text, name=name)
    except SourceError as error:
        return [(Source(name, text), diagnostic) for diagnostic in error.diagnostics]
    return []


def _diagnostic_document(source: Source, diagnostic: Diagnostic) -> dict[str, Any]:
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
        formats.count(severities.count(kind), kind) for kind in ("error", "warning", "note") if kind in severities
    ]
    return f"{formats.count(len(files), 'file')}: {', '.join(counted) or 'no problems'}"


# --- format ---------------------------------------------------------------------------------------------------------


@command(app, "format", example="memoranda format hotel.abl --check")
def format(
    desk: Desk,
    files: Annotated[list[str], argument("FILE...", "Agents and machines, such as hotel.abl and desk.mashin.")],
    check: Annotated[bool, flag("Write nothing; exit with 1 if a file would change.", "--check")] = False,
) -> None:
    """Format programs in their canonical layout.

    Indentation is two spaces, keywords get their usual spelling, and the sections of a machine their usual order. Texts
    and comments stay. A file with errors is not changed.
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
            desk.out.say(f"{formats.count(len(files), 'file')} in canonical layout")
    if changed and check:
        raise typer.Exit(1)


def _canonical(name: str, text: str) -> str:
    if name.endswith(MACHINES):
        from memoranda.mashin.formatter import format_text as format_machine

        return format_machine(text, name=name)
    from memoranda.abl.formatter import format_text as format_agent

    return format_agent(text, name=name)


# --- test -----------------------------------------------------------------------------------------------------------

Language = Literal["agent", "workflow"]
"""The languages whose tests are in files of their own; a machine contains its tests."""
_LANGUAGE_OF_KEY: dict[str, Language] = {
    **dict.fromkeys(("agent", "agents", "tools"), "agent"),
    **dict.fromkeys(("workflow", "workflows", "actions", "servers", "definitions"), "workflow"),
}
"""Keys that only tests of agents, or only tests of workflows have."""
_LABELS = ("expected  ", "got  ", "hint  ", "trace  ")
"""Starts of the lines that explain a failure; continuation lines align with their text."""


class Case(NamedTuple):
    """One test of any language."""

    name: str
    line: int
    failure: Any
    """Why it failed, as `--json` prints it."""
    explanation: str | None
    """The same as text; None for a test that passed."""


class Report(NamedTuple):
    """The tests of one file."""

    file: str
    cases: Sequence[Case]


@command(app, "test", example="memoranda test hotel.abl")
def test(
    desk: Desk,
    files: Annotated[
        list[str],
        argument("FILE...", "Agents and workflows, whose tests are beside them, files of tests, or machines."),
    ],
    tools: Tools = None,
    model: Model = None,
    machines: Machines = None,
    junit: Annotated[str | None, option("PATH", "Write the results to this file as JUnit XML too.")] = None,
) -> None:
    """Run the tests of agents, machines and workflows.

    The tests of hotel.abl and of hotel.yaml are in hotel.tests.yaml next to them; the tests of a machine are in its
    section `verifies`. Each test has a memory of its own, so no database is changed, and machines and workflows call
    neither models nor servers. Exits with 1 if a test fails.
    """
    kinds: list[Kind] = [require_ending(name, *AGENTS, *SCRIPTS, *MACHINES, *WORKFLOWS) for name in files]
    _check_options(kinds, tools=tools, model=model, machines=machines)
    with showing_faults(desk), desk.out.working("Testing"):
        # A program and the file of its tests are the same tests.
        found = dict.fromkeys(_find(name, kind) for name, kind in zip(files, kinds, strict=True))
        reports = [_run(one, tools=tools, model=model, machines=machines or []) for one in found]
    if junit is not None:
        write_junit(junit, reports)
    _show(desk, reports)
    if any(case.explanation is not None for report in reports for case in report.cases):
        raise typer.Exit(1)


def _check_options(kinds: list[Kind], *, tools: str | None, model: str | None, machines: list[str] | None) -> None:
    if all(kind == "a machine" for kind in kinds):
        given = {"--tools": tools, "--model": model}
        refuse_options(given, because="tests of machines", hint="They call no model; `assuming` gives results")
    if "a machine" not in kinds:
        hint = "Agents and workflows are named in their file of tests"
        refuse_options({"--machines": machines}, because="agents and workflows", hint=hint)
    require_files(machines or [], *MACHINES)


# finding tests


class _Tests(NamedTuple):
    """A file with tests, and the kind of program that is tested."""

    file: str
    language: Language | None
    """None for a machine, which contains its tests."""


def language_under_test(file: Path, text: str) -> Language | None:
    """Return what a file tests: the agent or workflow that it names or that is next to it; None if there is neither."""
    from memoranda.lang.diagnostics import Diagnostics
    from memoranda.lang.scripts import programs_beside
    from memoranda.lang.source import Source
    from memoranda.lang.yaml import compose

    source = Source(str(file), text)
    root = compose(source, Diagnostics(source), partial=True)
    keys = [key.scalar or "" for key, _ in (root.entries or () if root is not None else ())]
    named: dict[Language, str] = {language: key for key in keys if (language := _LANGUAGE_OF_KEY.get(key))}
    if len(named) > 1:
        raise UsageError(
            f"{quote(str(file))} says {quote(named['agent'])} as for an agent and {quote(named['workflow'])} as for a "
            "workflow",
            hint="Use a test file for each of them",
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
    """Return the tests of a program, or of a test file."""
    if kind == "a machine":
        return _Tests(name, None)
    if kind == "a file of tests":
        file, wanted = Path(name), None
    elif kind == "an agent":
        from memoranda.abl.scripts import scripts_beside

        file, wanted = scripts_beside(Path(name)), "agent"
    else:
        from memoranda.workflow.scripts.run import scripts_beside

        file, wanted = scripts_beside(Path(name)), "workflow"
    if not file.is_file():
        return _Tests(str(file), wanted or "agent")  # reading it raises the error
    found = language_under_test(file, read_file(str(file)))
    if wanted is not None and found not in (wanted, None):
        message = f"the tests in {quote(str(file))} are those of the {found} that it names, not of {quote(name)}"
        raise UsageError(message, hint=f"Test that {found}, or use a test file for each of them", path=name)
    if found is None and wanted is None:
        hint = "Name it in the file: `agent: hotel.abl` or `workflow: hotel.yaml`"
        raise NotFound(f"{quote(name)} belongs to no agent or workflow", hint=hint, path=name)
    return _Tests(str(file), found or wanted)


# running them


def _run(tests: _Tests, *, tools: str | None, model: str | None, machines: list[str]) -> Report:
    if tests.language is None:
        return _run_machine_tests(tests.file, machines)
    if tests.language == "agent":
        from memoranda.abl.scripts import run_scripts as run_agent_tests

        agent = run_agent_tests(Path(tests.file), tools=tools, model=model)
        return _report(agent.path, agent.cases, lambda case: _agent_failure(agent.path, case.failure))
    from memoranda.workflow.scripts.run import run_scripts as run_workflow_tests

    workflow = run_workflow_tests(Path(tests.file), actions=tools, model=model)
    return _report(workflow.path, workflow.cases, lambda case: _workflow_failure(workflow.path, case.failure))


def _run_machine_tests(name: str, machines: list[str]) -> Report:
    from memoranda.api.memory import open as open_memory
    from memoranda.mashin.loader import load

    require_files([name], *MACHINES)
    with open_memory(":memory:") as memory:
        report = load(Path(name), memory=memory, machines=[Path(one) for one in machines]).test()
    return _report(name, report.cases, lambda case: _machine_failure(name, case.line, case.failure))


def _report(file: str, cases: Iterable[Any], explain: Callable[[Any], str]) -> Report:
    """Return the tests of a file, whose cases have a form of their own in each language, in one form."""
    return Report(
        file,
        [Case(case.name, case.line, case.failure, explain(case) if case.failure else None) for case in cases],
    )


# what is printed


def _show(desk: Desk, reports: Sequence[Report]) -> None:
    cases = [(report, case) for report in reports for case in report.cases]
    failed = sum(case.explanation is not None for _, case in cases)
    passed = len(cases) - failed
    if desk.out.json:
        documents = [_case_document(report, case) for report, case in cases]
        return desk.out.document({"passed": passed, "failed": failed, "cases": documents})
    for report in reports:
        desk.out.say(report.file)
        for case in report.cases:
            desk.out.say(f"  {'ok    ' if case.explanation is None else 'FAILED'}  {case.name}", indent=" " * 8)
            if case.explanation is not None:
                for line in _indent(case.explanation, " " * 10).splitlines():
                    desk.out.say(line, indent=" " * 10 if line.lstrip().startswith(_LABELS) else "")
        if not report.cases:
            desk.out.say("  (no tests)")
    desk.out.say(f"{formats.count(passed, 'test')} passed" + (f", {failed:,} failed" if failed else ""))


def _case_document(report: Report, case: Case) -> dict[str, Any]:
    passed = case.explanation is None
    return {"file": report.file, "name": case.name, "line": case.line, "passed": passed, "failure": case.failure}


def _agent_failure(path: str, failure: scripts.Failure) -> str:
    said = "before anything was said" if failure.said is None else f"after `{failure.said}`"
    parts = [f"{path}:{failure.line}: {said}", _label("expected", failure.expected), _label("got", failure.got)]
    return "\n".join([*parts, *_background(failure.hint, failure.trace)])


def _workflow_failure(path: str, failure: run.Failure) -> str:
    after = "before anything was run" if failure.after is None else f"after `{failure.after}`"
    parts: list[str] = []
    for one in failure.mismatches:
        parts += [
            f"{path}:{one.line}: {after}: {one.path}",
            _label("expected", one.expected),
            _label("got", one.got),
        ]
    return "\n".join([*parts, *_background(failure.hint, failure.trace)])


def _background(hint: str, trace: str) -> list[str]:
    return [_label(name, text) for name, text in (("hint", hint), ("trace", trace)) if text]


def _machine_failure(path: str, line: int, failure: TestFailure) -> str:
    parts = [f"{path}:{line}: {failure.reason}"]
    for one in failure.diff:
        both = [_label("expected", _json(one.expected)), _label("got", _json(one.got))]
        parts += [one.path, _indent("\n".join(both), "  ")]
    hint = failure.error.details.get("hint") if failure.error else None
    if hint:
        parts.append(_label("hint", str(hint)))
    return "\n".join(parts)


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def _label(name: str, text: str) -> str:
    """Return a text behind its label; further lines are aligned with the first."""
    return f"{name:9} " + _indent(text, " " * 10).lstrip()


def _indent(text: str, margin: str) -> str:
    return "\n".join(f"{margin}{line}".rstrip() for line in text.splitlines())


_NOT_IN_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot represent, not even as an escape."""


def write_junit(path: str, reports: Sequence[Report]) -> None:
    """Write JUnit XML with one suite for each test file."""
    root = ElementTree.Element("testsuites", _counts([case for report in reports for case in report.cases]))
    for report in reports:
        file = _xml_text(report.file)
        suite = ElementTree.SubElement(root, "testsuite", {"name": file, **_counts(report.cases)})
        for case in report.cases:
            about = {"classname": file, "name": _xml_text(case.name), "file": file, "line": str(case.line)}
            element = ElementTree.SubElement(suite, "testcase", about)
            if case.explanation is not None:
                explanation = _xml_text(case.explanation)
                failure = ElementTree.SubElement(element, "failure", {"message": explanation.partition("\n")[0]})
                failure.text = explanation
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=False)
    write_file(path, f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n')


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    failures = sum(case.explanation is not None for case in cases)
    return {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": "0"}


def _xml_text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
