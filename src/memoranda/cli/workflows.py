"""A workflow's file, an owner and an input in, a run of it out; and the same run again, which was begun earlier."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from memoranda.cli.command import Desk
from memoranda.cli.programs import Kit
from memoranda.cli.reading import read_file, read_object, read_text
from memoranda.errors import UsageError

if TYPE_CHECKING:
    from memoranda.workflow.run import Run


def run_workflow(
    desk: Desk,
    file: str,
    kit: Kit,
    *,
    input: str | None,
    message: list[str] | None,
    user: str | None,
    thread: str | None,
) -> Run:
    """Run the workflow in a file, for an owner."""
    from memoranda.workflow.loading import load

    if not user:
        raise UsageError("a workflow runs for somebody", hint="Say whose memory it uses, with --user ID")
    given = _given(input, message or [])
    read_file(file)  # a path that leads nowhere is refused before a database is made
    actions = modules_of(kit.tools)
    flow = load(Path(file), memory=desk.memory, actions=actions, workflows=_others(kit), model=kit.model)
    with desk.out.working(f"Running {flow.name}"):
        return flow.run(given, owner=user, thread=thread)


def find_workflow_run(desk: Desk, id: str, kit: Kit) -> Run:
    """Return a run that was begun earlier, on the text that was kept of its workflow."""
    from memoranda.workflow import loading

    actions = modules_of(kit.tools)
    return loading.find(desk.memory, id, actions=actions, workflows=_others(kit), model=kit.model)


def describe_workflow_run(run: Run) -> dict[str, Any]:
    """Return what `--json` prints of a run."""
    return {
        "run": run.id,
        "workflow": run.workflow,
        "parent": run.summary.parent,
        "thread": run.thread,
        "status": run.status,
        "output": run.output,
        "outputs": run.outputs,
        "messages": run.messages,
        "error": run.error,
        "waiting": run.waiting,
    }


def messages_of(run: Run) -> list[str]:
    """Return what a run said to its owner."""
    return run.messages


def modules_of(tools: str | None) -> list[ModuleType]:
    """Return the module whose marked actions were given, if any."""
    from memoranda.lang.modules import load_module

    return [] if tools is None else [load_module(tools, what="actions")]


def _given(input: str | None, said: list[str]) -> dict[str, Any]:
    """Return the input of a run; a message is its `text`."""
    given = read_object("--input", read_text(input)) if input is not None else {}
    if len(said) > 1:
        raise UsageError("a workflow is given one --message", hint="Each message is a run: --thread lets them go on")
    if said and "text" in given:
        raise UsageError("--message and --input both give `text`", hint="Use one of them")
    return {**given, "text": said[0]} if said else given


def _others(kit: Kit) -> list[Path]:
    return [Path(name) for name in kit.workflows]
