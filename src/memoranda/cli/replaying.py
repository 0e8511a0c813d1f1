"""`memoranda replay`: a run in; whether its steps give the same again, or what others would be allowed of it, out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.cli.command import Desk, command, group
from memoranda.cli.executing import find_machine
from memoranda.cli.programs import equip

if TYPE_CHECKING:
    from memoranda.mashin.replaying import Replay, Simulation
    from memoranda.mashin.run import Run

app = group()


@command(app, "replay", example="memoranda replay run_01a1… --deny memory.write")
def replay(
    desk: Desk,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as `memoranda runs` shows it.")],
    deny: Annotated[
        list[str] | None,
        typer.Option("--deny", metavar="CAPABILITY", help="What if this had been denied? Repeat for more."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="CAPABILITY", help="What if this had been allowed? Repeat for more."),
    ] = None,
    approve: Annotated[
        list[str] | None,
        typer.Option("--approve", metavar="CAPABILITY", help="What if this had needed approval? Repeat for more."),
    ] = None,
) -> None:
    """Take the steps of a run again, on what was recorded of it.

    Nothing is asked, read or written. Leaves with 1 when something comes out differently. With other permissions, each
    decision is shown as it was and as it would have been.
    """
    hint = f"`memoranda ledger show {run}` shows what it did"
    found = find_machine(desk, run, equip(), otherwise="which is not taken again", hint=hint)
    if deny or allow or approve:
        simulation = found.simulate(allow=allow or (), approve=approve or (), deny=deny or ())
        return _show_simulation(desk, found, simulation)
    _show_replay(desk, found, found.replay())


def _show_replay(desk: Desk, run: Run, again: Replay) -> None:
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


def _show_simulation(desk: Desk, run: Run, simulation: Simulation) -> None:
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
