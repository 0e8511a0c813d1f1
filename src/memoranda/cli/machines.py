"""A machine's file and its input in, a run of it out; and the same run again, which was begun earlier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memoranda.cli.command import Desk
from memoranda.cli.programs import Kit
from memoranda.cli.reading import read_file, read_object, read_text

if TYPE_CHECKING:
    from memoranda.mashin.run import Run


def run_machine(
    desk: Desk,
    file: str,
    kit: Kit,
    *,
    input: str | None,
    mode: Literal["live", "test"],
    user: str | None,
    limits: Mapping[str, int | None],
) -> Run:
    """Run the machine in a file; `limits` change its budget."""
    from memoranda.mashin.behaviour import DEFAULT_BEHAVIOUR
    from memoranda.mashin.loading import load

    given = read_object("--input", read_text(input)) if input is not None else {}
    read_file(file)  # a path that leads nowhere is refused before a database is made
    machine = load(Path(file), memory=desk.memory, machines=_others(kit), model=kit.model)
    import msgspec

    changed = {name: most for name, most in limits.items() if most is not None}
    budget = msgspec.structs.replace(DEFAULT_BEHAVIOUR.budget, **changed)
    with desk.out.working(f"Running {machine.name}"):
        return machine.run(given, mode=mode, user=user, budget=budget)


def find_machine_run(desk: Desk, id: str, kit: Kit) -> Run:
    """Return a run that was begun earlier, on the text that was kept of its machine."""
    from memoranda.mashin import loading

    return loading.find(desk.memory, id, machines=_others(kit), model=kit.model)


def describe_machine_run(run: Run) -> dict[str, Any]:
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


def _others(kit: Kit) -> list[Path]:
    return [Path(name) for name in kit.machines]
