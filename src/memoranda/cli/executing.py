"""A run in, what came of it out, whatever its language: its output, what it waits for, or why it failed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import typer

from memoranda.cli import wording
from memoranda.cli.command import Desk
from memoranda.cli.machines import describe_machine_run, find_machine_run
from memoranda.cli.programs import Kit, refuse_options, showing_faults
from memoranda.cli.workflows import describe_workflow_run, find_workflow_run, messages_of
from memoranda.errors import RunFailed, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.mashin.run import Run as MachineRun
    from memoranda.model.run import Language
    from memoranda.runs.waiting import Waiting
    from memoranda.workflow.run import Run as WorkflowRun

    Run: TypeAlias = MachineRun | WorkflowRun


class _Language(NamedTuple):
    """What differs between runs of programs in two languages."""

    find: Callable[[Desk, str, Kit], Run]
    describe: Callable[[Any], dict[str, Any]]
    said_by: Callable[[Any], Sequence[str]]


def _says_nothing(run: MachineRun) -> list[str]:
    return []


_LANGUAGES: dict[Language, _Language] = {
    "mashin": _Language(find_machine_run, describe_machine_run, _says_nothing),
    "workflow": _Language(find_workflow_run, describe_workflow_run, messages_of),
}
_REPLY = "reply"
"""The event that is a person's words."""


# runs that were begun earlier


def find(desk: Desk, id: str, kit: Kit) -> Run:
    """Return a run that was begun earlier, on the text that was kept of its program."""
    language = _language_of_kept(desk, id)
    if language == "workflow":
        refuse_options({"--machines": kit.machines}, because="a run of a workflow", hint="It can call --workflows")
    else:
        given = {"--workflows": kit.workflows, "--tools": kit.tools}
        refuse_options(given, because="a run of a machine", hint="It can call --machines")
    with showing_faults(desk):
        return _LANGUAGES[language].find(desk, id, kit)


def find_machine(desk: Desk, id: str, kit: Kit, *, otherwise: str, hint: str) -> MachineRun:
    """Return a run of a machine; of a workflow's, say why it cannot be, and what can."""
    from memoranda.runs.sources import WORDS

    language = _language_of_kept(desk, id)
    if language != "mashin":
        message = f"the run {quote(id)} is of a {WORDS[language]}, {otherwise}"
        raise UsageError(message, hint=hint, run=id)
    return cast("MachineRun", find(desk, id, kit))


def _language_of_kept(desk: Desk, id: str) -> Language:
    from memoranda.runs.keeping import read_run

    return read_run(desk.memory, id).summary.language


# what came of a run


def show(desk: Desk, run: Run, kit: Kit, *, trace: bool = False, may_fail: bool = False, heard: int = 0) -> None:
    """Print what a run said, and its output or what it waits for; leave with 1 where it failed, unless it may.

    `heard` is the number of its messages that were printed before.
    """
    if trace:
        _trace(desk, run)
    if desk.out.json:
        desk.out.document(_language(run).describe(run))
    else:
        for message in said_by(run)[heard:]:
            desk.out.say(message)
        _show_outcome(desk, run, kit, may_fail=may_fail)
    if run.status == "failed" and not may_fail:
        raise typer.Exit(1)


def said_by(run: Run) -> Sequence[str]:
    """Return what a run said to its owner."""
    return _language(run).said_by(run)


def _show_outcome(desk: Desk, run: Run, kit: Kit, *, may_fail: bool) -> None:
    if run.waiting is not None:
        _show_waiting(desk, run, run.waiting, kit)
    elif run.error is None:
        # Who was talked to has what they came for; only what says nothing has to show that there is nothing.
        if run.output != {} or not said_by(run):
            desk.out.raw(wording.indented(run.output))
        desk.out.aside(f"{run.id} is {run.status}")
    elif may_fail:
        desk.out.remark(f"{run.id} is {run.status}: {run.error.message}")
    else:
        desk.out.aside(f"{run.id} is {run.status}")
        raise _failed(run)


def _failed(run: Run) -> RunFailed:
    error = run.error
    assert error is not None, "only a run that failed has a failure to tell"
    where = f" at {quote(error.step)}" if error.step else ""
    return RunFailed(
        f"the {named(run)} failed{where} ({error.type}): {error.message}",
        hint=str(error.details.get("hint", "")),
        run=run.id,
        type=error.type,
        step=error.step,
    )


def _language(run: Run) -> _Language:
    return _LANGUAGES[run.summary.language]


def named(run: Run) -> str:
    """Return what a run is a run of: the machine or the workflow, by its name."""
    from memoranda.runs.sources import program_of

    return program_of(run.summary)


def _trace(desk: Desk, run: Run) -> None:
    """Print a line for each step, and for each decision that was not simply to go on."""
    rows: list[tuple[str, str, str, str]] = []
    for event in run.events:
        if event.step is not None and (event.kind == "step_record" or event.decision != "allow"):
            what = event.detail.get("type", "") if event.kind == "step_record" else event.decision
            told = {name: value for name, value in event.detail.items() if name not in ("type", "mode")}
            rows.append((str(event.index), event.step, what, wording.labels(told)))
    widest = [max((len(row[column]) for row in rows), default=0) for column in (1, 2)]
    for index, step, what, about in rows:
        head = f"{index:>4}  {step:{widest[0]}}  {what:{widest[1]}}  "
        desk.out.remark(f"{head}{about}".rstrip(), indent=" " * len(head.lstrip()))


# what a run waits for


def _show_waiting(desk: Desk, run: Run, waiting: Waiting, kit: Kit) -> None:
    say = desk.out.remark
    if waiting.kind == "run":
        called = find(desk, waiting.run or "", kit)
        say(f"{run.id} waits at {quote(waiting.step)} for {called.id}, a run of the {named(called)}.")
        if called.waiting is not None:
            return _show_waiting(desk, called, called.waiting, kit)
        return say(f"Go on: {command_for(desk, kit, 'resume', run.id)}")
    if waiting.kind == "approval":
        say(f"{run.id} waits for approval: the step {quote(waiting.step)} needs {waiting.capability}.")
        for name, told in waiting.about.items():
            say(f"  {name}: {wording.line(told)}")
        say(f"Approve: {command_for(desk, kit, 'approve', run.id, waiting.step)}")
        return say(f"Refuse:  {command_for(desk, kit, 'approve', run.id, waiting.step, '--refuse')}")
    event = f" {quote(waiting.event)}" if waiting.event else ""
    until = f", until {wording.exact(waiting.deadline)}" if waiting.deadline else ""
    say(f"{run.id} waits at {quote(waiting.step)} for the event{event}{until}.")
    if waiting.event == _REPLY:
        return say(f"Reply: {command_for(desk, kit, 'resume', run.id, '--message', 'TEXT')}")
    say(f"Deliver: {command_for(desk, kit, 'resume', run.id, '--payload', 'JSON')}")


def command_for(desk: Desk, kit: Kit, *words: str) -> str:
    """Return the command that goes on with what this one began: on the same database, equipped in the same way."""
    flags = [
        word
        for setting in desk.settings.all
        if setting.origin == "flag"
        for word in (f"--{setting.name}", str(setting.value))
    ]
    if desk.actor is not None:
        flags += ["--actor", desk.actor]
    return shlex.join(["memoranda", *words, *flags, *kit.words])
