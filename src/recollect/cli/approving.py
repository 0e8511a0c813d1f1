"""`recollect approve` and `resume`: a run that waits and what it waits for in, what comes of it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.cli.command import Desk, command, group
from recollect.cli.machines import Kit, check_files, command_for, find, read_text, show
from recollect.cli.programs import Machines, Model
from recollect.errors import Conflict, UsageError
from recollect.model.text import quote

if TYPE_CHECKING:
    from recollect.mashin.run import Run
    from recollect.runs.waiting import Waiting

app = group()

Which = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `recollect runs` shows it.")]
Trace = Annotated[bool, typer.Option("--trace", help="Show each step on stderr.")]


@command(app, "approve", embeds=True, example="recollect approve run_01k… save_note --reason 'as agreed'")
def approve(
    desk: Desk,
    run: Which,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step that waits.")],
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it instead.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the decision.")] = "",
    machines: Machines = None,
    model: Model = None,
    trace: Trace = False,
) -> None:
    """Approve or refuse the step that a run waits at, and go on.

    The run goes on in this process, from where it stood. If it waits for the run of another machine, that one is
    meant, and both go on. A step that was refused is not taken: the run fails, or does what it has for failures.
    """
    kit = Kit(machines or [], model)
    check_files(kit.machines)
    held = _followed(desk, run, kit)
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


@command(app, "resume", embeds=True, example="""recollect resume run_01k… --payload '{"paid": true}'""")
def resume(
    desk: Desk,
    run: Which,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON", help="The event it waits for: JSON, @file, or - for stdin."),
    ] = None,
    machines: Machines = None,
    model: Model = None,
    trace: Trace = False,
) -> None:
    """Go on with a run that waits: deliver its event, or see whether its time is over.

    Without --payload, the run goes on if what it waits for is there: a decision, the end of a time, or the run of
    another machine. If not, it says what it waits for.
    """
    kit = Kit(machines or [], model)
    check_files(kit.machines)
    event = _event(payload) if payload is not None else None
    held = _followed(desk, run, kit)
    if payload is not None:
        _waiting(desk, held, kit, "event")
    elif held.waiting is None:
        raise _over(held)
    with desk.out.working(f"Running {held.machine}"):
        done = held.deliver(event) if payload is not None else held.resume()
    show(desk, _above(desk, done, kit), kit, trace=trace)


def _event(given: str) -> Any:
    import msgspec

    text = read_text("--payload", given)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        message = f"{quote(text)} in --payload is not JSON: {error}"
        raise UsageError(message, hint="""Write --payload '{"paid": true}', or @file""") from None


def _followed(desk: Desk, id: str, kit: Kit) -> Run:
    """Return the run that somebody is waited for in: this one, or one that it waits for."""
    run = find(desk, id, kit)
    while run.waiting is not None and run.waiting.run is not None:
        called = find(desk, run.waiting.run, kit)
        if called.waiting is None:
            break
        if not desk.out.json:
            desk.out.aside(f"{run.id} waits for {called.id}, a run of the machine {quote(called.machine)}")
        run = called
    return run


def _above(desk: Desk, run: Run, kit: Kit) -> Run:
    """Go on with the runs that waited for this one, if it is over."""
    while run.waiting is None and run.summary.parent is not None:
        caller = find(desk, run.summary.parent, kit)
        if caller.waiting is None or caller.waiting.run != run.id:
            break
        if not desk.out.json:
            desk.out.aside(f"{run.id} is {run.status}, so that {caller.id} goes on")
        run = caller.resume()
    return run


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
        "run": (f"for another run at {place}, which is over", ("resume", run.id)),
    }[waiting.kind]
    hint = f"Go on: {command_for(desk, kit, *words)}"
    raise UsageError(f"the run {quote(run.id)} waits {stands}", hint=hint, run=run.id, step=waiting.step)


def _require_open(desk: Desk, run: Run, waiting: Waiting, kit: Kit) -> None:
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
        hint="`recollect runs --status waiting` lists those that wait",
        expected="waiting",
        actual=run.status,
    )
