"""A machine's file and its input in, its output out; and how a run that waits, has failed or goes on is shown."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from recollect.cli import wording
from recollect.cli.command import Desk
from recollect.cli.programs import MACHINES, require_ending, showing_faults
from recollect.cli.reading import STDIN, read_file, read_object
from recollect.errors import RunFailed, UsageError
from recollect.model.text import quote

if TYPE_CHECKING:
    from recollect.mashin.run import Run
    from recollect.mashin.runtime.failures import Failure
    from recollect.runs.waiting import Waiting


class Kit(NamedTuple):
    """What a machine is equipped with on the command line: the files of those it can call, and a model."""

    machines: list[str]
    model: str | None


def run_machine(
    desk: Desk,
    file: str,
    kit: Kit,
    *,
    input: str | None,
    mode: Literal["live", "test"],
    user: str | None,
    max_tokens: int | None,
    max_model_calls: int | None,
    trace: bool,
) -> None:
    """Run the machine in a file and print what comes of it."""
    from recollect.mashin.behaviour import DEFAULT_BEHAVIOUR
    from recollect.mashin.loading import load

    given = read_object("--input", read_text("--input", input)) if input is not None else {}
    paths = [Path(name) for name in (file, *kit.machines)]
    check_files(kit.machines)
    read_file(file)  # a path that leads nowhere is refused before a database is made
    with showing_faults(desk):
        machine = load(paths[0], memory=desk.memory, machines=paths[1:], model=kit.model)
    import msgspec

    limits = {"tokens": max_tokens, "model_calls": max_model_calls}
    changed = {name: most for name, most in limits.items() if most is not None}
    budget = msgspec.structs.replace(DEFAULT_BEHAVIOUR.budget, **changed)
    with desk.out.working(f"Running {machine.name}"):
        run = machine.run(given, mode=mode, user=user, budget=budget)
    show(desk, run, kit, trace=trace)


def check_files(names: list[str]) -> None:
    """Refuse files that are no machines, or cannot be read, before anything else happens."""
    for name in names:
        require_ending(name, *MACHINES)
        read_file(name)


def read_text(option: str, given: str) -> str:
    """Return what an option was given: the text itself, that of `@file`, or for `-` that of stdin."""
    if given == STDIN:
        try:
            return sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise UsageError(f"stdin for {option} is not text in UTF-8", hint="Convert it first") from None
    return read_file(given[1:]) if given.startswith("@") else given


# what came of a run


def show(desk: Desk, run: Run, kit: Kit, *, trace: bool = False, may_fail: bool = False) -> None:
    """Print the output of a run, or what it waits for; leave with 1 where it has failed, unless it may."""
    if trace:
        _trace(desk, run)
    if desk.out.json:
        desk.out.document(described(run))
    elif run.waiting is not None:
        _show_waiting(desk, run, run.waiting, kit)
    elif run.error is None:
        desk.out.raw(_pretty(run.output))
        desk.out.aside(f"{run.id} is {run.status}")
    elif may_fail:
        desk.out.remark(f"{run.id} is {run.status}: {run.error.message}")
    else:
        desk.out.aside(f"{run.id} is {run.status}")
        raise _failed(run, run.error)
    if run.error is not None and not may_fail:
        raise typer.Exit(1)


def described(run: Run) -> dict[str, Any]:
    """Return what `--json` prints of a run."""
    return {
        "run": run.id,
        "machine": run.machine,
        "parent": run.summary.parent,
        "status": run.status,
        "output": run.output,
        "error": run.error,
        "waiting": run.waiting,
        "steps": run.steps,
    }


def _pretty(value: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _failed(run: Run, error: Failure) -> RunFailed:
    where = f" at {quote(error.step)}" if error.step else ""
    return RunFailed(
        f"the machine {quote(run.machine)} failed{where} ({error.type}): {error.message}",
        hint=str(error.details.get("hint", "")),
        run=run.id,
        type=error.type,
        step=error.step,
    )


def _trace(desk: Desk, run: Run) -> None:
    """Print a line for each step, and for each decision that was not simply to go on."""
    rows: list[tuple[int, str, str, str]] = []
    for event in run.events:
        if event.step is not None and (event.kind == "step_record" or event.decision != "allow"):
            what = event.detail.get("type", "") if event.kind == "step_record" else event.decision
            told = {name: value for name, value in event.detail.items() if name not in ("type", "mode")}
            rows.append((event.index, event.step, what, wording.labels(told)))
    widest = max((len(step) for _, step, _, _ in rows), default=0)
    for index, step, what, about in rows:
        desk.out.remark(f"{index:>4}  {step:{widest}}  {what:8}  {about}".rstrip())


# what a run waits for


def _show_waiting(desk: Desk, run: Run, waiting: Waiting, kit: Kit) -> None:
    say = desk.out.remark
    if waiting.kind == "run":
        run_id = waiting.run or ""
        called = desk.memory.runs.get(run_id)
        say(f"{run.id} waits at {quote(waiting.step)} for {run_id}, a run of the machine {quote(called.machine)}.")
        found = find(desk, run_id, kit)
        if found.waiting is not None:
            return _show_waiting(desk, found, found.waiting, kit)
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
    say(f"Deliver: {command_for(desk, kit, 'resume', run.id, '--payload', 'JSON')}")


def command_for(desk: Desk, kit: Kit, *words: str) -> str:
    """Return the command that goes on with what this one began: on the same database, with the same machines."""
    flags = [
        word
        for setting in desk.settings.all
        if setting.origin == "flag"
        for word in (f"--{setting.name}", str(setting.value))
    ]
    if desk.actor is not None:
        flags += ["--actor", desk.actor]
    for name in kit.machines:
        flags += ["--machines", name]
    if kit.model is not None:
        flags += ["--model", kit.model]
    return shlex.join(["recollect", *words, *flags])


# runs that were begun earlier


def find(desk: Desk, id: str, kit: Kit) -> Run:
    """Return a run that was begun earlier, on the text that was kept of its machine."""
    from recollect.mashin import loading

    with showing_faults(desk):
        return loading.find(desk.memory, id, machines=[Path(name) for name in kit.machines], model=kit.model)
