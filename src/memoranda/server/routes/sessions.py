"""`/agents/{id}/sessions` and `/sessions`: conversations with agents that the server has loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import Response, Router, get, post
from litestar.datastructures import State
from litestar.params import JSONBody, QueryParameter

from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.parameters import Name
from memoranda.server.places import name_of
from memoranda.server.programs import programs_of
from memoranda.server.tags import Encoded
from memoranda.wire.bounds import fitting
from memoranda.wire.sessions import PastTurn, SayToSession, Session, SessionTurn, StartSession

if TYPE_CHECKING:
    from memoranda import abl

Since = Annotated[int, QueryParameter(name="after", ge=-1, description="Only turns with a higher `number`.")]


@post(
    "/agents/{agent:str}/sessions",
    sync_to_thread=True,
    responses=problems(404, 409, 502, 507),
    summary="Start a session",
)
def start_session(request: StrictRequest, state: State, agent: Name, data: JSONBody[StartSession]) -> Session:
    """Start a session of the caller; its first turn is what the agent says before any input."""
    conversants = programs_of(state).conversants
    return _session_out(conversants.start(request.auth, name_of(agent), project=data.project, vars=data.vars))


@post(
    "/sessions/{session:str}/messages",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 502, 507),
    summary="Say something in a session",
)
def say_to_session(request: StrictRequest, state: State, session: Name, data: JSONBody[SayToSession]) -> SessionTurn:
    """Take a turn of the caller's session; of two that are said at once, one is refused and can be said again."""
    return _turn_out(programs_of(state).conversants.find(request.auth, name_of(session)).say(data.text))


@get("/sessions/{session:str}", sync_to_thread=True, responses=problems(404), summary="Get a session")
def get_session(request: StrictRequest, state: State, session: Name, since: Since = -1) -> Response[Session]:
    """Return where a session of the caller stands, with what was said in it, from the first or after a turn."""
    found = _session_out(programs_of(state).conversants.find(request.auth, name_of(session)))
    rest = found.turns[since + 1 :]
    turns = fitting(rest, request.page_bytes)
    go_on = turns[-1].number if len(turns) < len(rest) else None
    return Encoded(msgspec.structs.replace(found, turns=turns, next=go_on))


@post(
    "/sessions/{session:str}/end",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 502, 507),
    summary="End a session",
)
def end_session(request: StrictRequest, state: State, session: Name) -> SessionTurn:
    """End a session of the caller: its variables go, what it remembered stays, and it is not found any more."""
    return _turn_out(programs_of(state).conversants.find(request.auth, name_of(session)).end())


def _turn_out(turn: abl.Turn) -> SessionTurn:
    return SessionTurn(
        number=turn.number,
        messages=turn.messages,
        status=turn.status,
        step=turn.step,
        agent=turn.agent,
        escalation=None if turn.escalation is None else dict(turn.escalation),
    )


def _session_out(session: abl.Session) -> Session:
    return Session(
        id=session.id,
        agent=session.agent,
        project=session.project,
        status=session.status,
        step=session.step,
        turns=[
            PastTurn(number=number, input=turn.input, messages=turn.messages, status=turn.status)
            for number, turn in enumerate(session.turns())
        ],
    )


router = Router("/", route_handlers=[start_session, say_to_session, get_session, end_session])
