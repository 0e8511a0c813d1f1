"""`memoranda runs`, `approve`, `resume`, `cancel` and `replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from memoranda.cli import formats
from memoranda.cli.arguments import read_json
from memoranda.cli.command import Desk, Reason, Trace, argument, command, flag, group, option
from memoranda.cli.programs import Kit, Machines, Model, Tools, Workflows, equip
from memoranda.cli.run_results import command_for, find, find_machine, program_name, show_result, verification_line
from memoranda.errors import Conflict, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda import RunStep, RunSummary
    from memoranda.cli.run_results import Run
    from memoranda.mashin.run import Replay, Simulation
    from memoranda.mashin.run import Run as MachineRun
    from memoranda.runs.outcome import Waiting


runs_app = group("runs", lists=True)


@command(runs_app, "list", example="memoranda runs list --program answer --status waiting")
def list_runs(
    desk: Desk,
    program: Annotated[str | None, option("NAME", "Only runs of this machine or workflow.")] = None,
    language: Annotated[
        Literal["mashin", "workflow"] | None, option("NAME", "Only runs of mashin or workflow programs.")
    ] = None,
    status: Annotated[
        Literal["running", "waiting", "completed", "failed", "cancelled"] | None,
        option("STATUS", "running, waiting, completed, failed or cancelled."),
    ] = None,
    limit: Annotated[int, option("N", "Maximum number of runs.", min=1)] = 20,
) -> None:
    """List runs and their status, newest first."""
    found = desk.memory.runs.list(program=program, language=language, status=status, limit=limit)
    if desk.out.answers(found, empty="No runs."):
        return
    from memoranda.runs.program import PROGRAM_WORDS

    rows = [
        (one.id, f"{PROGRAM_WORDS[one.language]} {one.program}", one.status, desk.out.ago(one.started_at), _why(one))
        for one in found
    ]
    columns = ("run", "program", "status", "started", "why")
    desk.out.table(columns, rows, whole=("run", "status", "started"), folded=("program", "why"))


@command(runs_app, "show", example="memoranda runs show run_01a1… --steps")
def show_run(
    desk: Desk,
    run: Annotated[str, argument("RUN", "As the list shows it.")],
    steps: Annotated[bool, flag("Also show what was recorded of each step.", "--steps")] = False,
) -> None:
    """Show one run, and verify its events.

    Step records are made by servers, and by programs that were loaded with a `Recording`.
    """
    found = desk.memory.runs.get(run)
    verified = desk.memory.runs.verify(run)
    records = desk.memory.runs.steps(run) if steps else []
    if desk.out.json:
        from memoranda.wire.codec import plain

        shown = {"step_records": [one.to_dict() for one in records]} if steps else {}
        return desk.out.document({**plain(found), "verified": verified, **shown})
    desk.out.pairs(
        [
            ("run", found.id),
            ("program", found.program),
            ("language", found.language),
            ("text", found.digest),
            ("status", found.status),
            ("why", _why(found)),
            ("mode", found.mode),
            ("actor", found.actor),
            ("scope", found.scope or "(shared)"),
            ("started", formats.exact(found.started_at)),
            ("ended", formats.exact(found.ended_at)),
            ("steps", f"{found.steps:,}"),
            ("events", verification_line(verified)),
            ("called by", found.parent or ""),
        ]
    )
    for one in records:
        _show_step(desk, one)
    if steps and not records:
        desk.out.aside("Nothing was recorded of its steps.")


def _show_step(desk: Desk, step: RunStep) -> None:
    """Print what was recorded of a step; one that is part of another is indented."""
    within = "  " if step.parent is not None else ""
    said = "" if step.type == step.step else f" ({step.type})"
    desk.out.say(f"{within}{step.number}. {step.step}{said}: {step.status}, {step.seconds * 1_000:.1f} ms")
    told = {"in": step.inputs, "out": step.output, "error": step.error, "run": step.run}
    lines = [(name, value) for name, value in told.items() if value is not None]
    lines += [(str(one.get("role", "")), one.get("text") or one) for one in step.messages]
    lines += [("read", ref) for ref in step.reads] + [("wrote", ref) for ref in step.writes]
    lines += [("cut", ", ".join(step.truncated))] if step.truncated else []
    for name, value in lines:
        desk.out.say(f"{within}   {name}: {formats.line(value, longest=200)}")


def _why(run: RunSummary) -> str:
    if run.error is not None:
        at = f" at {run.error['step']}" if run.error.get("step") else ""
        return formats.line(f"{run.error.get('type', 'error')}{at}: {run.error.get('message', '')}", longest=160)
    if run.waiting is not None:
        about = run.waiting.get("capability") or run.waiting.get("event") or run.waiting.get("run") or ""
        return formats.line(f"{run.waiting.get('kind', '')} at {run.waiting.get('step', '')}: {about}", longest=160)
    return ""


app = group()

Which = Annotated[str, argument("RUN", "The run's id, as `memoranda runs` shows it.")]


@command(
    app, "approve", changes=True, embeds=True, example="memoranda approve run_01a1… save_note --reason 'as agreed'"
)
def approve(
    desk: Desk,
    run: Which,
    step: Annotated[str, argument("STEP", "The waiting step.")],
    refuse: Annotated[bool, flag("Refuse it instead.", "--refuse")] = False,
    reason: Reason = "",
    machines: Machines = None,
    model: Model = None,
    trace: Trace = False,
) -> None:
    """Approve or refuse the step that a run waits for, and continue it.

    The run continues in this process. If it waits for the run of another machine, the step of that run is decided, and
    both continue. A refused step is skipped: the run fails, or handles the failure.
    """
    kit = equip(machines=machines, model=model)
    go_on = f"If it waits: {command_for(desk, kit, 'resume', run)}"
    found = find_machine(desk, run, kit, otherwise="whose steps wait for no approval", hint=go_on)
    held = cast("MachineRun", _follow(desk, found, kit))  # whom a machine calls is a machine
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
        return show_result(desk, held, kit, trace=trace) if desk.out.json else None
    done = _above(desk, decided, kit)
    error = decided.error
    as_asked = refuse and error is not None and (error.type, error.step) == ("permission_denied", step)
    show_result(desk, done, kit, trace=trace, may_fail=as_asked)


@command(app, "resume", changes=True, embeds=True, example="""memoranda resume run_01a1… --payload '{"paid": true}'""")
def resume(
    desk: Desk,
    run: Which,
    payload: Annotated[str | None, option("JSON", "The event it waits for: JSON, @file, or - for stdin.")] = None,
    message: Annotated[str | None, option("TEXT", "The event it waits for, as text.", "--message", "-m")] = None,
    machines: Machines = None,
    workflows: Workflows = None,
    tools: Tools = None,
    model: Model = None,
    trace: Trace = False,
) -> None:
    """Resume a waiting run: deliver its event, or check its deadline.

    Without --payload or --message, the run continues if what it waits for has happened: a decision, a deadline, or the
    end of another run. Otherwise it shows what it waits for.
    """
    kit = equip(machines=machines, workflows=workflows, tools=tools, model=model)
    if payload is not None and message is not None:
        raise UsageError("--payload and --message cannot be combined", hint="Use one of them")
    delivers = payload is not None or message is not None
    event = read_json("--payload", payload) if payload is not None else message
    held = _follow(desk, find(desk, run, kit), kit)
    if delivers:
        _waiting(desk, held, kit, "event")
    elif held.waiting is None:
        raise _over(held)
    if held.summary.language == "workflow":
        # An event for a called workflow is delivered through its caller, which then prints its messages.
        held = _topmost(desk, held, kit)
    heard = len(held.messages)
    with desk.out.working(f"Running {held.summary.program}"):
        done = held.deliver(event) if delivers else held.resume()
    show_result(desk, _above(desk, done, kit), kit, trace=trace, heard=heard)


@command(app, "cancel", changes=True, example="memoranda cancel run_01a1… --reason 'the guest has left'")
def cancel(
    desk: Desk,
    run: Which,
    reason: Reason = "",
    force: Annotated[bool, flag("Also cancel a running one, whose process may have ended.", "--force")] = False,
) -> None:
    """Cancel a waiting run, and delete its own memory."""
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
        return show_result(desk, ended, kit)
    desk.out.say(f"{ended.id} is {ended.status}")
    caller = _caller(desk, ended, kit)
    if caller is not None:
        desk.out.aside(f"{caller.id} waited for it. Continue: {command_for(desk, kit, 'resume', caller.id)}")


def _follow(desk: Desk, run: Run, kit: Kit) -> Run:
    """Return the run that waits for a decision or event: this one, or one that it called."""
    while run.waiting is not None and run.waiting.run is not None:
        called = find(desk, run.waiting.run, kit)
        if called.waiting is None:
            break
        if not desk.out.json:
            desk.out.aside(f"{run.id} waits for {called.id}, a run of the {program_name(called)}")
        run = called
    return run


def _above(desk: Desk, run: Run, kit: Kit) -> Run:
    """Resume the runs that waited for this one, if it has ended."""
    while run.waiting is None and (caller := _caller(desk, run, kit)) is not None:
        if not desk.out.json:
            desk.out.aside(f"{run.id} is {run.status}, so that {caller.id} goes on")
        run = caller.resume()
    return run


def _topmost(desk: Desk, run: Run, kit: Kit) -> Run:
    """Return the topmost of the runs that called this one."""
    while (caller := _caller(desk, run, kit)) is not None:
        run = caller
    return run


def _caller(desk: Desk, run: Run, kit: Kit) -> Run | None:
    """Return the run that called this one and waits for it, if any."""
    caller = find(desk, run.summary.parent, kit) if run.summary.parent is not None else None
    waits = caller is not None and caller.waiting is not None and caller.waiting.run == run.id
    return caller if waits else None


def _waiting(desk: Desk, run: Run, kit: Kit, kind: str) -> Waiting:
    """Return what a run waits for; raise an error with the right command if it waits for something else."""
    waiting = run.waiting
    if waiting is None:
        raise _over(run)
    if waiting.kind == kind:
        return waiting
    place = quote(waiting.step)
    reason, words = {
        "approval": (f"for approval of {place}", ("approve", run.id, waiting.step)),
        "event": (f"for an event at {place}", ("resume", run.id, "--payload", "JSON")),
        "run": (f"for another run at {place}, which does not wait", ("resume", run.id)),
    }[waiting.kind]
    hint = f"Continue: {command_for(desk, kit, *words)}"
    raise UsageError(f"the run {quote(run.id)} waits {reason}", hint=hint, run=run.id, step=waiting.step)


def _require_open(desk: Desk, run: MachineRun, waiting: Waiting, kit: Kit) -> None:
    """Raise `Conflict` if the step was decided elsewhere: then the run only has to be resumed."""
    approval = desk.memory.approvals.get(waiting.approval or "")
    if approval.status != "pending":
        raise Conflict(
            f"the step {quote(waiting.step)} was {approval.status} by {quote(approval.decided_by)} already",
            hint=f"Continue: {command_for(desk, kit, 'resume', run.id)}",
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


@command(app, "replay", example="memoranda replay run_01a1… --deny memory.write")
def replay(
    desk: Desk,
    run: Annotated[str, argument("RUN", "The run's id, as `memoranda runs` shows it.")],
    deny: Annotated[list[str] | None, option("CAPABILITY", "What if this had been denied? Repeatable.")] = None,
    allow: Annotated[list[str] | None, option("CAPABILITY", "What if this had been allowed? Repeatable.")] = None,
    approve: Annotated[list[str] | None, option("CAPABILITY", "What if this had needed approval? Repeatable.")] = None,
) -> None:
    """Replay the steps of a run from its record.

    No model is called, and nothing is read or written. Exits with 1 if a result differs. With other permissions, each
    decision is shown as it was and as it would have been.
    """
    hint = f"`memoranda ledger show {run}` shows what it did"
    found = find_machine(desk, run, equip(), otherwise="which is not taken again", hint=hint)
    if deny or allow or approve:
        simulation = found.simulate(allow=allow or (), approve=approve or (), deny=deny or ())
        return _show_simulation(desk, found, simulation)
    _show_replay(desk, found, found.replay())


def _show_replay(desk: Desk, run: MachineRun, again: Replay) -> None:
    if desk.out.json:
        desk.out.document(
            {
                "run": run.id,
                "same": again.same,
                "differences": again.differences,
                "status": again.status,
                "output": again.output,
                "error": again.error,
            }
        )
    elif again.same:
        desk.out.say(f"{run.id} is the same again: {again.status}")
    else:
        desk.out.say(f"{run.id} is not the same again")
        for difference in again.differences:
            desk.out.say(f"  {difference}")
    if not again.same:
        raise typer.Exit(1)


def _show_simulation(desk: Desk, run: MachineRun, simulation: Simulation) -> None:
    if desk.out.json:
        return desk.out.document(
            {
                "run": run.id,
                "status": simulation.status,
                "output": simulation.output,
                "error": simulation.error,
                "decisions": simulation.decisions,
                "denied": [one.step for one in simulation.denied],
                "pending": [one.step for one in simulation.pending],
            }
        )
    rows = [
        (one.step, one.capability, one.was or "(not reached)", one.decision, one.reason) for one in simulation.decisions
    ]
    if rows:
        desk.out.table(
            ("step", "capability", "was", "would be", "why"), rows, whole=("step", "was", "would be"), folded=("why",)
        )
    denied = ", ".join(dict.fromkeys(one.step for one in simulation.denied))
    pending = ", ".join(dict.fromkeys(one.step for one in simulation.pending))
    desk.out.say(f"Would have been denied: {denied or 'nothing'}")
    if pending:
        desk.out.say(f"Would have had to wait for approval: {pending}")
    desk.out.say(f"It was {run.status}, and would have been {simulation.status}")
