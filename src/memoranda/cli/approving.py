"""`memoranda approve`, `resume` and `cancel`: a run that waits and what it waits for in, what comes of it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from memoranda.cli.command import Desk, command, group
from memoranda.cli.executing import command_for, find, find_machine, named, said_by, show
from memoranda.cli.options import Reason, Trace
from memoranda.cli.programs import Kit, Machines, Model, Tools, Workflows, equip
from memoranda.cli.reading import read_json
from memoranda.errors import Conflict, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.cli.executing import Run
    from memoranda.mashin.run import Run as MachineRun
    from memoranda.runs.waiting import Waiting

app = group()

Which = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `memoranda runs` shows it.")]


@command(app, "approve", embeds=True, example="memoranda approve run_01a1… save_note --reason 'as agreed'")
def approve(
    desk: Desk,
    run: Which,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step that waits.")],
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it instead.")] = False,
    reason: Reason = "",
    machines: Machines = None,
    model: Model = None,
    trace: Trace = False,
) -> None:
    """Approve or refuse the step that a run waits at, and go on.

    The run goes on in this process, from where it stood. If it waits for the run of another machine, that one is
    meant, and both go on. A step that was refused is not taken: the run fails, or does what it has for failures.
    """
    kit = equip(machines=machines, model=model)
    go_on = f"If it waits: {command_for(desk, kit, 'resume', run)}"
    found = find_machine(desk, run, kit, otherwise="whose steps wait for no approval", hint=go_on)
    held = cast("MachineRun", _followed(desk, found, kit))  # whom a machine calls is a machine
    waiting = _waiting(desk, held, kit, "approval")
    if waiting.step != step:
        raise UsageError(
            f"the run {quote(held.id)} waits at {quote(waiting.step)}, not at {quote(step)}",
            hint=f"If that is meant: {command_for(desk, kit, 'approve', held.id, waiting.step)}",
            run=held.id,
            step=waiting.step,
        )
    _require_open(desk, held, waiting, kit)
    with desk.out.working(f"Running {held.machine}"):
        decided = held.refuse(reason=reason) if refuse else held.approve(reason=reason)
    if not held.is_ours:
        word = "refused" if refuse else "approved"
        desk.out.aside(f"{quote(step)} is {word}; {held.id} goes on when `{held.summary.actor}` resumes it")
        return show(desk, held, kit, trace=trace) if desk.out.json else None
    done = _above(desk, decided, kit)
    error = decided.error
    as_asked = refuse and error is not None and (error.type, error.step) == ("permission_denied", step)
    show(desk, done, kit, trace=trace, may_fail=as_asked)


@command(app, "resume", embeds=True, example="""memoranda resume run_01a1… --payload '{"paid": true}'""")
def resume(
    desk: Desk,
    run: Which,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON", help="The event it waits for: JSON, @file, or - for stdin."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", metavar="TEXT", help="The event it waits for, where that is a text."),
    ] = None,
    machines: Machines = None,
    workflows: Workflows = None,
    tools: Tools = None,
    model: Model = None,
    trace: Trace = False,
) -> None:
    """Go on with a run that waits: deliver its event, or see whether its time is over.

    Without --payload or --message, the run goes on if what it waits for is there: a decision, the end of a time, or
    the run of another program. If not, it says what it waits for.
    """
    kit = equip(machines=machines, workflows=workflows, tools=tools, model=model)
    if payload is not None and message is not None:
        raise UsageError("--payload and --message both give the event", hint="Use one of them")
    delivers = payload is not None or message is not None
    event = read_json("--payload", payload) if payload is not None else message
    held = _followed(desk, find(desk, run, kit), kit)
    if delivers:
        _waiting(desk, held, kit, "event")
    elif held.waiting is None:
        raise _over(held)
    if held.summary.language == "workflow":
        # What a called workflow is given reaches it through whoever called it, who then says what it said.
        held = _topmost(desk, held, kit)
    heard = len(said_by(held))
    with desk.out.working(f"Running {held.summary.program}"):
        done = held.deliver(event) if delivers else held.resume()
    show(desk, _above(desk, done, kit), kit, trace=trace, heard=heard)


@command(app, "cancel", example="memoranda cancel run_01a1… --reason 'the guest has left'")
def cancel(
    desk: Desk,
    run: Which,
    reason: Reason = "",
    force: Annotated[
        bool, typer.Option("--force", help="End one that is running, too: its process may be gone.")
    ] = False,
) -> None:
    """End a run that waits, and forget what it kept for itself."""
    kit = equip()
    held = find(desk, run, kit)
    if held.status == "running" and not force:
        raise Conflict(
            f"the run {quote(run)} is running",
            hint=f"If its process is gone: {command_for(desk, kit, 'cancel', run, '--force')}",
            expected="waiting",
            actual="running",
        )
    if held.status not in ("running", "waiting"):
        raise _over(held)
    ended = held.cancel(reason=reason, force=force)
    if desk.out.json:
        return show(desk, ended, kit)
    desk.out.say(f"{ended.id} is {ended.status}")
    caller = _caller(desk, ended, kit)
    if caller is not None:
        desk.out.aside(f"{caller.id} waited for it. Go on: {command_for(desk, kit, 'resume', caller.id)}")


def _followed(desk: Desk, run: Run, kit: Kit) -> Run:
    """Return the run that somebody is waited for in: this one, or one that it waits for."""
    while run.waiting is not None and run.waiting.run is not None:
        called = find(desk, run.waiting.run, kit)
        if called.waiting is None:
            break
        if not desk.out.json:
            desk.out.aside(f"{run.id} waits for {called.id}, a run of the {named(called)}")
        run = called
    return run


def _above(desk: Desk, run: Run, kit: Kit) -> Run:
    """Go on with the runs that waited for this one, if it is over."""
    while run.waiting is None and (caller := _caller(desk, run, kit)) is not None:
        if not desk.out.json:
            desk.out.aside(f"{run.id} is {run.status}, so that {caller.id} goes on")
        run = caller.resume()
    return run


def _topmost(desk: Desk, run: Run, kit: Kit) -> Run:
    """Return the first of the runs that wait for one another, up to this one."""
    while (caller := _caller(desk, run, kit)) is not None:
        run = caller
    return run


def _caller(desk: Desk, run: Run, kit: Kit) -> Run | None:
    """Return the run that waits for this one, if any."""
    caller = find(desk, run.summary.parent, kit) if run.summary.parent is not None else None
    waits = caller is not None and caller.waiting is not None and caller.waiting.run == run.id
    return caller if waits else None


def _waiting(desk: Desk, run: Run, kit: Kit, kind: str) -> Waiting:
    """Return what a run waits for, or say how to go on with one that waits for something else."""
    waiting = run.waiting
    if waiting is None:
        raise _over(run)
    if waiting.kind == kind:
        return waiting
    place = quote(waiting.step)
    stands, words = {
        "approval": (f"for approval of {place}", ("approve", run.id, waiting.step)),
        "event": (f"for an event at {place}", ("resume", run.id, "--payload", "JSON")),
        "run": (f"for another run at {place}, which waits for nothing", ("resume", run.id)),
    }[waiting.kind]
    hint = f"Go on: {command_for(desk, kit, *words)}"
    raise UsageError(f"the run {quote(run.id)} waits {stands}", hint=hint, run=run.id, step=waiting.step)


def _require_open(desk: Desk, run: MachineRun, waiting: Waiting, kit: Kit) -> None:
    """Refuse to decide once more what was decided elsewhere: the run only has to go on."""
    approval = desk.memory.approvals.get(waiting.approval or "")
    if approval.status != "pending":
        raise Conflict(
            f"the step {quote(waiting.step)} was {approval.status} by {quote(approval.decided_by)} already",
            hint=f"Go on: {command_for(desk, kit, 'resume', run.id)}",
            expected="pending",
            actual=approval.status,
        )


def _over(run: Run) -> Conflict:
    return Conflict(
        f"the run {quote(run.id)} is {run.status} and waits for nothing",
        hint="`memoranda runs --status waiting` lists those that wait",
        expected="waiting",
        actual=run.status,
    )
