"""`recollect run`: an agent and a person's words in, its answers out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.cli.chat import Chat
from recollect.cli.command import Desk, command, group
from recollect.cli.programs import AGENTS, Model, Tools, require_ending, showing_faults
from recollect.cli.reading import read_file, read_object
from recollect.errors import NotFound

if TYPE_CHECKING:
    from recollect.abl.agent import Agent
    from recollect.abl.session import Session, Turn

app = group()


@command(app, "run", creates=True, example="recollect run hotel.abl --agents concierge.abl --tools tools.py --user ada")
def run(
    desk: Desk,
    file: Annotated[str, typer.Argument(metavar="FILE", help="An agent, such as hotel.abl.")],
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", metavar="TEXT", help="Say this instead of chatting; repeat to say more."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Who talks; without it nothing is remembered of them.")
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
    model: Model = None,
) -> None:
    """Talk to an agent: a chat, or the answers to messages.

    What it remembers is kept in the database. In the chat, :help lists what else can be typed, and Ctrl-D leaves; the
    session can be taken up again. With --json, one object a line is printed for each turn, beginning with what the
    agent says before any input; without --message, each line of stdin is a message then.
    """
    given = read_object("--vars", vars) if vars is not None else {}
    with showing_faults(desk):
        agent, missing = _load(desk, file, agents or [], tools=tools, model=model)
    talk, opening = _begin(agent, session, user=user, project=project, vars=given)
    if desk.out.json:
        lines = message if message is not None else (line.strip() for line in sys.stdin)
        return _answer_with_json(desk, talk, opening, lines)
    chat = Chat(desk, talk, opening)
    if missing:
        beside = Path(file).with_name("tools.py")
        such = f", such as {beside}" if beside.exists() else ""
        desk.out.aside(f"No function was given for {', '.join(missing)}: --tools names a file that has them{such}.")
    if message is None and talk.user is None:
        desk.out.aside("Nobody is named with --user, so nothing about you is remembered after this chat.")
    if opening is not None:
        chat.show(opening)
    if message is None:
        chat.talk()
    for text in message or ():
        chat.hear(text)
    desk.out.aside(f"To go on: --session {talk.id}")


def _load(desk: Desk, file: str, agents: list[str], *, tools: str | None, model: str | None) -> tuple[Agent, list[str]]:
    """Return the agent, and the names of tools that nobody gave a function for."""
    from recollect.abl.loading import load
    from recollect.abl.tools.modules import functions_of

    for name in (file, *agents):
        require_ending(name, *AGENTS)
        read_file(name)  # a path that leads nowhere is refused before a database is made
    functions = functions_of(tools)
    others = [load(Path(name), memory=desk.memory, tools=functions, model=model) for name in agents]
    agent = load(Path(file), memory=desk.memory, tools=functions, model=model, agents=others)
    declared = [tool for one in (agent, *others) for tool in one.document.tools if tool.endpoint is None]
    return agent, sorted({tool.name.text for tool in declared} - set(functions))


def _begin(
    agent: Agent, id: str | None, *, user: str | None, project: str | None, vars: dict[str, Any]
) -> tuple[Session, Turn | None]:
    """Return a session and what the agent says before any input; one that goes on says nothing by itself."""
    if id is not None:
        try:
            return agent.resume(id), None
        except NotFound:
            pass  # nobody began it yet
    session = agent.start(user=user, id=id, vars=vars, **({} if project is None else {"project": project}))
    return session, session.opening


def _answer_with_json(desk: Desk, session: Session, opening: Turn | None, lines: Iterable[str]) -> None:
    if opening is not None:
        desk.out.document(_described(session, None, opening))
    for text in lines:
        desk.out.document(_described(session, text, session.say(text)))


def _described(session: Session, said: str | None, turn: Turn) -> dict[str, Any]:
    return {
        "session": session.id,
        "turn": turn.number,
        "said": said,
        "messages": turn.messages,
        "status": turn.status,
        "agent": turn.agent,
        "step": turn.step,
        "events": [{"kind": one.kind, "about": one.about, "detail": one.detail} for one in turn.events],
        "trace": [str(one) for one in turn.trace],
    }
