"""An agent's file and a person's words in, its answers out: what `memoranda run` does with an agent."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoranda.cli.chat import Chat
from memoranda.cli.command import Desk
from memoranda.cli.programs import AGENTS, require_ending, showing_faults
from memoranda.cli.reading import read_file, read_object
from memoranda.errors import NotFound, UsageError
from memoranda.model.text import quote

if TYPE_CHECKING:
    from memoranda.abl.agent import Agent
    from memoranda.abl.session import Session, Turn


def talk(
    desk: Desk,
    file: str,
    *,
    message: list[str] | None,
    user: str | None,
    project: str | None,
    session: str | None,
    vars: str | None,
    tools: str | None,
    agents: list[str],
    model: str | None,
) -> None:
    """Chat with an agent, or print its answers to messages."""
    given = read_object("--vars", vars) if vars is not None else {}
    with showing_faults(desk):
        agent, missing = _load(desk, file, agents, tools=tools, model=model)
    conversation, opening = _begin(agent, session, user=user, project=project, vars=given)
    if desk.out.json:
        lines = message if message is not None else (line.strip() for line in sys.stdin)
        return _answer_with_json(desk, conversation, opening, lines)
    chat = Chat(desk, conversation, opening)
    if missing:
        beside = Path(file).with_name("tools.py")
        such = f", such as {beside}" if beside.exists() else ""
        desk.out.aside(f"No function was given for {', '.join(missing)}: --tools names a file that has them{such}.")
    if message is None and conversation.user is None:
        desk.out.aside("Nobody is named with --user, so nothing about you is remembered after this chat.")
    if opening is not None:
        chat.show(opening)
    if message is None:
        chat.talk()
    for text in message or ():
        chat.hear(text)
    desk.out.aside(f"To go on: --session {conversation.id}")


def _load(desk: Desk, file: str, agents: list[str], *, tools: str | None, model: str | None) -> tuple[Agent, list[str]]:
    """Return the agent, and the names of tools that nobody gave a function for."""
    from memoranda.abl.loading import load
    from memoranda.abl.tools.modules import functions_of

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
            session = agent.resume(id)
        except NotFound:
            pass  # nobody began it yet
        else:
            _ensure_same(session, user=user, project=project, vars=vars)
            return session, None
    session = agent.start(user=user, id=id, vars=vars, **({} if project is None else {"project": project}))
    return session, session.opening


def _ensure_same(session: Session, *, user: str | None, project: str | None, vars: dict[str, Any]) -> None:
    """Refuse to go on with a session for somebody else, or with values that only a beginning takes."""
    for option, asked, actual in (("--user", user, session.user), ("--project", project, session.project)):
        if asked is not None and asked != actual:
            raise UsageError(
                f"the session {quote(session.id)} was begun for {quote(actual) if actual else 'nobody'}, not for "
                f"{quote(asked)}",
                hint=f"Leave {option} out to go on with it, or --session to begin another",
                value=asked,
            )
    if vars:
        raise UsageError(
            f"the session {quote(session.id)} has begun already, and --vars are what one begins with",
            hint="Leave --vars out to go on with it, or --session to begin another",
        )


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
