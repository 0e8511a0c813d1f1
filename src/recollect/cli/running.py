"""`recollect run`: an agent and a person's words in, its answers out; a machine and its input in, its output out."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from recollect.cli.command import Desk, command, group
from recollect.cli.programs import AGENTS, MACHINES, Machines, Model, Tools, refuse_options, require_ending

app = group()


@command(app, "run", creates=True, embeds=True, example="recollect run hotel.abl --tools tools.py --user ada")
def run(
    desk: Desk,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="An agent, such as hotel.abl, or a machine, such as desk.mashin.")
    ],
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", metavar="TEXT", help="Say this instead of chatting; repeat to say more."),
    ] = None,
    input: Annotated[
        str | None,
        typer.Option("--input", "-i", metavar="JSON", help="What a machine is given: JSON, @file, or - for stdin."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Who talks, or whose memory a machine uses.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="ID", help="Whose shared facts the agent uses.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Go on with this session, or begin it by this id.")
    ] = None,
    vars: Annotated[
        str | None, typer.Option("--vars", metavar="JSON", help="Variables that a new session begins with.")
    ] = None,
    tools: Tools = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agents", metavar="FILE", help="An agent to hand over to; repeat for more."),
    ] = None,
    machines: Machines = None,
    model: Model = None,
    mode: Annotated[
        Literal["live", "test"] | None,
        typer.Option("--mode", help="In a test, a machine remembers nothing and asks no model. Default: live."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=0, metavar="N", help="Tokens that a machine's models may use in this run."),
    ] = None,
    max_model_calls: Annotated[
        int | None,
        typer.Option("--max-model-calls", min=0, metavar="N", help="Requests that a machine may make of models."),
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step of a machine on stderr.")] = False,
) -> None:
    """Talk to an agent, or run a machine.

    An agent is a chat, or the answers to messages. What it remembers is kept in the database. In the chat, :help lists
    what else can be typed, and Ctrl-D leaves; the session can be taken up again. With --json, one object a line is
    printed for each turn, beginning with what the agent says before any input; without --message, each line of stdin
    is a message then.

    A machine is given --input and prints its output as JSON. One that waits for somebody says for whom, and how to go
    on; one that fails leaves with 1.
    """
    require_ending(file, *AGENTS, *MACHINES)
    for_machines = {
        "--input": input,
        "--machines": machines,
        "--mode": mode,
        "--max-tokens": max_tokens,
        "--max-model-calls": max_model_calls,
        "--trace": trace,
    }
    for_agents = {
        "--message": message,
        "--project": project,
        "--session": session,
        "--vars": vars,
        "--tools": tools,
        "--agents": agents,
    }
    if file.endswith(MACHINES):
        from recollect.cli.machines import Kit, run_machine

        refuse_options(for_agents, because="a machine", hint="A machine is given --input JSON, and --machines to call")
        kit = Kit(machines or [], model)
        run_machine(
            desk,
            file,
            kit,
            input=input,
            mode=mode or "live",
            user=user,
            max_tokens=max_tokens,
            max_model_calls=max_model_calls,
            trace=trace,
        )
        return
    from recollect.cli.talking import talk

    refuse_options(for_machines, because="an agent", hint="An agent is talked to, with --message or in a chat")
    talk(
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
