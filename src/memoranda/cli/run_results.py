"""Start or find a run, and print its output, what it waits for, or why it failed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import typer

import memoranda
from memoranda.cli import formats
from memoranda.cli.arguments import read_file, read_object, read_text
from memoranda.cli.command import Desk
from memoranda.cli.programs import Kit, refuse_options, showing_faults
from memoranda.errors import RunFailed, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda import RunEvent, RunVerification, mashin, workflow
    from memoranda.model.event import Language
    from memoranda.runs.outcome import Waiting

    Run: TypeAlias = mashin.Run | workflow.Run


_REPLY = "reply"
"""The event of a user's reply."""


# earlier runs


def find(desk: Desk, id: str, kit: Kit) -> Run:
    """Find an earlier run, with the stored source of its program."""
    machines = _language_of(desk, id) == "mashin"
    given = {"--workflows": kit.workflows, "--tools": kit.tools} if machines else {"--machines": kit.machines}
    word, others = ("machine", "--machines") if machines else ("workflow", "--workflows")
    refuse_options(given, because=f"a run of a {word}", hint=f"It can call {others}")
    with showing_faults(desk):
        if machines:
            behaviour = memoranda.mashin.Behaviour(recording=_recording())
            return memoranda.mashin.find(
                desk.memory, id, machines=_paths(kit.machines), model=kit.model, behaviour=behaviour
            )
        behaviour = memoranda.workflow.Behaviour(recording=_recording())
        actions, others = modules_of(kit.tools), _paths(kit.workflows)
        return memoranda.workflow.find(
            desk.memory, id, actions=actions, workflows=others, model=kit.model, behaviour=behaviour
        )


def _recording() -> memoranda.Recording:
    """Return what is recorded of steps: everything, because a run of the command line is there to be looked into."""
    return memoranda.Recording(values="full")


def find_machine(desk: Desk, id: str, kit: Kit, *, otherwise: str, hint: str) -> mashin.Run:
    """Find a run of a machine; raise `UsageError` for one of a workflow."""
    if _language_of(desk, id) != "mashin":
        raise UsageError(f"the run {quote(id)} is of a workflow, {otherwise}", hint=hint, run=id)
    return cast("mashin.Run", find(desk, id, kit))


def _language_of(desk: Desk, id: str) -> Language:
    from memoranda.runs.storage import read_run

    return read_run(desk.memory, id).summary.language


def _paths(names: list[str]) -> list[Path]:
    return [Path(name) for name in names]


# the outcome of a run


def show_result(desk: Desk, run: Run, kit: Kit, *, trace: bool = False, may_fail: bool = False, heard: int = 0) -> None:
    """Print a run's messages, and its output or what it waits for; exit with 1 if it failed, unless `may_fail`.

    `heard` is the number of messages that were already printed.
    """
    if trace:
        _trace(desk, run)
    if desk.out.json:
        desk.out.document(_describe(run))
    else:
        for message in run.messages[heard:]:
            desk.out.say(message)
        _show_outcome(desk, run, kit, may_fail=may_fail)
    if run.status == "failed" and not may_fail:
        raise typer.Exit(1)


def _show_outcome(desk: Desk, run: Run, kit: Kit, *, may_fail: bool) -> None:
    if run.waiting is not None:
        _show_waiting(desk, run, run.waiting, kit)
    elif run.error is None:
        # An empty output is only shown if there were no messages either.
        if run.output != {} or not run.messages:
            desk.out.raw(formats.pretty_json(run.output))
        desk.out.aside(f"{run.id} is {run.status}")
    elif may_fail:
        desk.out.remark(f"{run.id} is {run.status}: {run.error.message}")
    else:
        desk.out.aside(f"{run.id} is {run.status}")
        raise _failure(run)


def _failure(run: Run) -> RunFailed:
    error = run.error
    assert error is not None, "only a failed run has an error"
    where = f" at {quote(error.step)}" if error.step else ""
    return RunFailed(
        f"the {program_name(run)} failed{where} ({error.type}): {error.message}",
        hint=str(error.details.get("hint", "")),
        run=run.id,
        type=error.type,
        step=error.step,
    )


def program_name(run: Run) -> str:
    """Return the machine or workflow of a run, by name."""
    from memoranda.runs.program import describe_program

    return describe_program(run.summary)


def _describe(run: Run) -> dict[str, Any]:
    """Return the JSON document of a run."""
    from memoranda.runs.program import PROGRAM_WORDS

    summary = run.summary
    flow = None if summary.language == "mashin" else cast("workflow.Run", run)
    return {
        "run": run.id,
        PROGRAM_WORDS[summary.language]: summary.program,
        "parent": summary.parent,
        **({"thread": flow.thread} if flow else {}),
        "status": run.status,
        "output": run.output,
        **({"outputs": flow.outputs, "messages": flow.messages} if flow else {}),
        "error": run.error,
        "waiting": run.waiting,
        **({} if flow else {"steps": run.results}),
    }


def _trace(desk: Desk, run: Run) -> None:
    """Print a line for each step, and for each decision other than `allow`."""
    rows: list[tuple[str, str, str, str]] = []
    for event in run.events:
        if event.step is not None and (event.kind == "step_record" or event.decision != "allow"):
            what = event.detail.get("type", "") if event.kind == "step_record" else event.decision
            told = {name: value for name, value in event.detail.items() if name not in ("type", "mode")}
            rows.append((str(event.index), event.step, what, formats.labels(told)))
    widest = [max((len(row[column]) for row in rows), default=0) for column in (1, 2)]
    for index, step, what, about in rows:
        head = f"{index:>4}  {step:{widest[0]}}  {what:{widest[1]}}  "
        desk.out.remark(f"{head}{about}".rstrip(), indent=" " * len(head.lstrip()))


# its events


def show_events(desk: Desk, run: str) -> None:
    """Print and verify the events of one run; exit with 1 if they are not intact."""
    events, verified = desk.memory.runs.events(run), desk.memory.runs.verify(run)
    if desk.out.json:
        desk.out.document({"run": run, "events": events, "verified": verified})
    else:
        columns = ("index", "position", "kind", "step", "decision", "what")
        rows = [
            (str(one.index), str(one.position), one.kind, one.step or "", one.decision, _what(one)) for one in events
        ]
        desk.out.table(columns, rows, whole=(*columns[:3], "decision"), folded=("step", "what"))
        desk.out.say(verification_line(verified))
    if not verified.ok:
        raise typer.Exit(1)


def verification_line(verified: RunVerification) -> str:
    """Return the result of a verification on one line."""
    count = formats.count(verified.length, "event")
    if verified.ok:
        return f"ok, {count}, head {verified.head}"
    place = "broken" if verified.index is None else f"broken at event {verified.index}"
    return f"{place}: {verified.reason}; whole before it: {count}"


def _what(event: RunEvent) -> str:
    """Return the details of an event, without those of the whole run, which `runs show` has."""
    said_of_all = ("digest", "machine", "workflow", "mode")
    return formats.labels({name: value for name, value in event.detail.items() if name not in said_of_all})


# what a run waits for


def _show_waiting(desk: Desk, run: Run, waiting: Waiting, kit: Kit) -> None:
    say = desk.out.remark
    if waiting.kind == "run":
        called = find(desk, waiting.run or "", kit)
        say(f"{run.id} waits at {quote(waiting.step)} for {called.id}, a run of the {program_name(called)}.")
        if called.waiting is not None:
            return _show_waiting(desk, called, called.waiting, kit)
        return say(f"Continue: {command_for(desk, kit, 'resume', run.id)}")
    if waiting.kind == "approval":
        say(f"{run.id} waits for approval: the step {quote(waiting.step)} needs {waiting.capability}.")
        for name, told in waiting.about.items():
            say(f"  {name}: {formats.line(told)}")
        say(f"Approve: {command_for(desk, kit, 'approve', run.id, waiting.step)}")
        return say(f"Refuse:  {command_for(desk, kit, 'approve', run.id, waiting.step, '--refuse')}")
    event = f" {quote(waiting.event)}" if waiting.event else ""
    until = f", until {formats.exact(waiting.deadline)}" if waiting.deadline else ""
    say(f"{run.id} waits at {quote(waiting.step)} for the event{event}{until}.")
    if waiting.event == _REPLY:
        return say(f"Reply: {command_for(desk, kit, 'resume', run.id, '--message', 'TEXT')}")
    say(f"Deliver: {command_for(desk, kit, 'resume', run.id, '--payload', 'JSON')}")


def command_for(desk: Desk, kit: Kit, *words: str) -> str:
    """Return the command that continues this one, with the same database and kit."""
    flags = [
        word
        for setting in desk.settings.all
        if setting.origin == "flag"
        for word in (f"--{setting.name}", str(setting.value))
    ]
    if desk.actor is not None:
        flags += ["--actor", desk.actor]
    return shlex.join(["memoranda", *words, *flags, *kit.words])


def run_machine(
    desk: Desk,
    file: str,
    kit: Kit,
    *,
    input: str | None,
    mode: Literal["live", "test"],
    user: str | None,
    limits: Mapping[str, int | None],
) -> mashin.Run:
    """Run the machine in a file; `limits` change its budget."""
    from msgspec.structs import replace

    given = read_object("--input", read_text(input)) if input is not None else {}
    read_file(file)  # a missing file is reported before a database is created
    behaviour, others = memoranda.mashin.Behaviour(recording=_recording()), _paths(kit.machines)
    machine = memoranda.mashin.load(
        Path(file), memory=desk.memory, machines=others, model=kit.model, behaviour=behaviour
    )
    changed = {name: most for name, most in limits.items() if most is not None}
    budget = replace(machine.behaviour.budget, **changed)
    with desk.out.working(f"Running {machine.name}"):
        return machine.run(given, mode=mode, user=user, budget=budget)


def run_workflow(
    desk: Desk,
    file: str,
    kit: Kit,
    *,
    input: str | None,
    message: list[str] | None,
    user: str | None,
    thread: str | None,
) -> workflow.Run:
    """Run the workflow in a file, for an owner."""
    if not user:
        raise UsageError("a workflow needs a user", hint="Name the user whose memory it uses, with --user ID")
    given = _workflow_input(input, message or [])
    read_file(file)  # a missing file is reported before a database is created
    actions = modules_of(kit.tools)
    flow = memoranda.workflow.load(
        Path(file),
        memory=desk.memory,
        actions=actions,
        workflows=_paths(kit.workflows),
        model=kit.model,
        behaviour=memoranda.workflow.Behaviour(recording=_recording()),
    )
    with desk.out.working(f"Running {flow.name}"):
        return flow.run(given, owner=user, thread=thread)


def modules_of(tools: str | None) -> list[ModuleType]:
    """Load the module of the actions, if one was given."""
    from memoranda.lang.python_functions import load_module

    return [] if tools is None else [load_module(tools, what="actions")]


def _workflow_input(input: str | None, said: list[str]) -> dict[str, Any]:
    """Return the input of a run; a message is its `text`."""
    given = read_object("--input", read_text(input)) if input is not None else {}
    if len(said) > 1:
        raise UsageError("a workflow takes one --message", hint="Each message is a run: use --thread to connect them")
    if said and "text" in given:
        raise UsageError("--message and --input both have `text`", hint="Use one of them")
    return {**given, "text": said[0]} if said else given
