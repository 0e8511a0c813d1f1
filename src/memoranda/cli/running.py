"""`memoranda run`: an agent and a person's words in, its answers out; another program's input in, its output out."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from memoranda.cli.command import Desk, command, group
from memoranda.cli.options import Trace
from memoranda.cli.programs import (
    AGENTS,
    MACHINES,
    WORKFLOWS,
    Kind,
    Machines,
    Model,
    Tools,
    Workflows,
    equip,
    refuse_options,
    require_ending,
    showing_faults,
)

app = group()

_OPTIONS: dict[Kind, tuple[str, ...]] = {
    "an agent": ("--message", "--project", "--session", "--vars", "--tools", "--agents"),
    "a machine": ("--input", "--machines", "--mode", "--budget-tokens", "--budget-model-calls", "--trace"),
    "a workflow": ("--message", "--input", "--thread", "--tools", "--workflows", "--trace"),
}
"""The options that mean something to a program, beside --user and --model, which all of them have."""
_HINTS: dict[Kind, str] = {
    "an agent": "An agent is talked to, with --message or in a chat",
    "a machine": "A machine is given --input JSON, and --machines to call",
    "a workflow": "A workflow is given --input JSON or a --message, and --workflows to call",
}


@command(app, "run", creates=True, embeds=True, example="memoranda run hotel.abl --tools tools.py --user ada")
def run(
    desk: Desk,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="An agent, as hotel.abl, a machine, as loans.mashin, or a workflow, as desk.yaml."
        ),
    ],
    message: Annotated[
        list[str] | None,
        typer.Option(
            "--message",
            "-m",
            metavar="TEXT",
            help="Say this instead of chatting; repeat to say more. To a workflow it is the `text` of its input.",
        ),
    ] = None,
    input: Annotated[
        str | None,
        typer.Option("--input", "-i", metavar="JSON", help="What it is given: JSON, @file, or - for stdin."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Who talks, or whose memory is used.")
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="The conversation that a workflow is part of; begun if need be."),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="ID", help="Whose shared facts the agent uses.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on with this session, or begin it by this id.")
    ] = None,
    vars: Annotated[
        str | None, typer.Option("--vars", metavar="JSON", help="Inputs that a new session begins with.")
    ] = None,
    tools: Tools = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agents", metavar="FILE", help="An agent to hand over to; repeat for more."),
    ] = None,
    machines: Machines = None,
    workflows: Workflows = None,
    model: Model = None,
    mode: Annotated[
        Literal["live", "test"] | None,
        typer.Option("--mode", help="In a test, a machine remembers nothing and asks no model. Default: live."),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option("--budget-tokens", min=0, metavar="N", help="Tokens that a machine's models may use in this run."),
    ] = None,
    budget_model_calls: Annotated[
        int | None,
        typer.Option("--budget-model-calls", min=0, metavar="N", help="Requests that a machine may make of models."),
    ] = None,
    trace: Trace = False,
) -> None:
    """Talk to an agent, or run a machine or a workflow.

    An agent is a chat, or the answers to messages. What it remembers is kept in the database. In the chat, :help lists
    what else can be typed, and Ctrl-D leaves; the session can be taken up again. With --json, one object a line is
    printed for each turn, beginning with what the agent says before any input; without --message, each line of stdin
    is a message then.

    A machine is given --input and prints its output as JSON. A workflow runs for --user, is given --input or a
    --message, and prints what it says before its output. A run that waits for somebody says for whom, and how to go
    on; one that fails leaves with 1.
    """
    kind = require_ending(file, *AGENTS, *MACHINES, *WORKFLOWS)
    given = {
        "--message": message,
        "--input": input,
        "--thread": thread,
        "--project": project,
        "--session": session,
        "--vars": vars,
        "--tools": tools,
        "--agents": agents,
        "--machines": machines,
        "--workflows": workflows,
        "--mode": mode,
        "--budget-tokens": budget_tokens,
        "--budget-model-calls": budget_model_calls,
        "--trace": trace,
    }
    others = {option: value for option, value in given.items() if option not in _OPTIONS[kind]}
    refuse_options(others, because=kind, hint=_HINTS[kind])
    if kind == "an agent":
        from memoranda.cli.talking import talk

        return talk(
            desk,
            file,
            message=message,
            user=user,
            project=project,
            session=session,
            vars=vars,
            tools=tools,
            agents=agents or [],
            model=model,
        )
    from memoranda.cli.executing import show
    from memoranda.cli.machines import run_machine
    from memoranda.cli.workflows import run_workflow

    kit = equip(machines=machines, workflows=workflows, tools=tools, model=model)
    with showing_faults(desk):
        if kind == "a workflow":
            done = run_workflow(desk, file, kit, input=input, message=message, user=user, thread=thread)
        else:
            limits = {"tokens": budget_tokens, "model_calls": budget_model_calls}
            done = run_machine(desk, file, kit, input=input, mode=mode or "live", user=user, limits=limits)
    show(desk, done, kit, trace=trace)
