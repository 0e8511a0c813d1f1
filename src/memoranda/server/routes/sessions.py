"""Routes `/agents/{id}/sessions` and `/sessions`: sessions with ABL agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from litestar import Response, Router, get, post
from litestar.datastructures import State
from litestar.params import JSONBody, QueryParameter

from memoranda.server.programs import programs_of
from memoranda.server.requests import Name, StrictRequest, decode_name
from memoranda.server.responses import JsonResponse, problem_specs
from memoranda.wire.chat import PastTurn, SayToSession, Session, SessionTurn, StartSession
from memoranda.wire.codec import fit_bytes

if TYPE_CHECKING:
    from memoranda import abl

Since = Annotated[int, QueryParameter(name="after", ge=-1, description="Return only turns with a higher `number`.")]


@post(
    "/agents/{agent:str}/sessions",
    sync_to_thread=True,
    responses=problem_specs(404, 409, 502, 507),
    summary="Start a session",
)
def start_session(request: StrictRequest, state: State, agent: Name, data: JSONBody[StartSession]) -> Session:
    """Start a session of the caller; its first turn is what the agent says before any input."""
    programs = programs_of(state)
    return _session_json(programs.start_session(request.auth, decode_name(agent), project=data.project, vars=data.vars))


@post(
    "/sessions/{session:str}/messages",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409, 502, 507),
    summary="Send a message to a session",
)
def say_to_session(request: StrictRequest, state: State, session: Name, data: JSONBody[SayToSession]) -> SessionTurn:
    """Take a turn of the caller's session; of two concurrent messages, one is rejected and can be sent again."""
    return _turn_json(programs_of(state).find_session(request.auth, decode_name(session)).say(data.text))


@get("/sessions/{session:str}", sync_to_thread=True, responses=problem_specs(404), summary="Get a session")
def get_session(request: StrictRequest, state: State, session: Name, since: Since = -1) -> Response[Session]:
    """Return a session of the caller with its turns, all or those after a number."""
    found = _session_json(programs_of(state).find_session(request.auth, decode_name(session)))
    rest = found.turns[since + 1 :]
    turns = fit_bytes(rest, request.page_bytes)
    go_on = turns[-1].number if len(turns) < len(rest) else None
    return JsonResponse(msgspec.structs.replace(found, turns=turns, next=go_on))


@post(
    "/sessions/{session:str}/end",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409, 502, 507),
    summary="End a session",
)
def end_session(request: StrictRequest, state: State, session: Name) -> SessionTurn:
    """End a session of the caller: it is removed with its variables, but what it remembered stays."""
    return _turn_json(programs_of(state).find_session(request.auth, decode_name(session)).end())


def _turn_json(turn: abl.Turn) -> SessionTurn:
    return SessionTurn(
        number=turn.number,
        messages=turn.messages,
        status=turn.status,
        step=turn.step,
        agent=turn.agent,
        escalation=None if turn.escalation is None else dict(turn.escalation),
    )


def _session_json(session: abl.Session) -> Session:
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
