"""`/agent/{id}/chat` and `/agent/{id}/prompts/preview`: agents that know the user, answering over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Response, Router, post
from litestar.datastructures import State
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema
from litestar.params import HeaderParameter, JSONBody
from litestar.response import Stream

from memoranda.agent.models import Said
from memoranda.chat import turns as chatting
from memoranda.chat.agents import Agent
from memoranda.chat.preview import preview
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.chat_agents import model_named
from memoranda.server.compression import UNCOMPRESSED
from memoranda.server.parameters import Name
from memoranda.server.places import name_of
from memoranda.server.programs import programs_of
from memoranda.server.routes.conversations import parts_out
from memoranda.server.streams import EVENT_STREAM, stream_of
from memoranda.server.turns import StreamedTurn
from memoranda.wire.chat import (
    Answer,
    MemoryPolicy,
    PreviewPrompt,
    Prompt,
    PromptCall,
    PromptMessage,
    PromptTool,
    SendMessage,
    Usage,
)

LastEvent = Annotated[
    int | None,
    HeaderParameter(
        name="Last-Event-ID",
        ge=0,
        le=2**53,
        description="Of a message that is sent again: the id of the last event that came, or 0; the rest is sent.",
    ),
]


@dataclass
class _AnswersInTwoWays(Operation):
    """An operation whose answer is one JSON object, or a stream of events."""

    def __post_init__(self) -> None:
        answer = (self.responses or {}).get("200")
        if isinstance(answer, OpenAPIResponse) and answer.content is not None:
            schema = Schema(type="string", description="Events named as the `type` in their data; `id` is its `seq`.")  # pyright: ignore[reportArgumentType]  # the name of a type will do
            answer.content[EVENT_STREAM] = OpenAPIMediaType(schema=schema)


@post(
    "/{agent:str}/chat",
    status_code=200,
    opt={UNCOMPRESSED: True},
    operation_class=_AnswersInTwoWays,
    responses=problems(404, 409, 502, 507),
    summary="Say something to an agent",
)
async def chat(
    request: StrictRequest, state: State, agent: Name, data: JSONBody[SendMessage], last_event: LastEvent = None
) -> Response[Answer]:
    """Return an agent's answer: as server-sent events while it is made, or with `stream` false as one JSON object.

    The turn is taken to its end even if the caller goes away: the same message, sent again, gets its answer. With the
    header `Last-Event-ID` it gets the events that are missing, or the JSON object, also while the answer is being made.
    """
    spoken_to = _tuned(programs_of(state).agent(name_of(agent)), data)
    said = partial(
        chatting.chat,
        request.auth.memory,
        spoken_to,
        data.message,
        user=request.auth.caller.user,
        conversation_id=data.conversation_id,
        message_id=data.message_id,
        memory_policy=_policy(data.memory_policy),
        model=model_named(data.model),
    )
    turn = StreamedTurn(state.turns, request.auth, spoken_to.id, data, partial(said, after=last_event))
    if not data.stream:
        if last_event is not None:
            await turn.over()
        # Nobody listens to its events, but it is taken to its end like any other.
        whole = await stream_of(lambda _: said())
        return Response(_answer_out(await whole.result(), spoken_to.id))
    if last_event is not None and await turn.is_under_way():
        events = turn.rest(last_event)
    else:
        events = (await turn.begin()).after()
    return Stream(  # pyright: ignore[reportReturnType]  # what it streams is in the document by hand
        events, media_type=EVENT_STREAM, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    )


@post(
    "/{agent:str}/prompts/preview",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409),
    summary="See the prompt of a message",
)
def preview_prompt(request: StrictRequest, state: State, agent: Name, data: JSONBody[PreviewPrompt]) -> Prompt:
    """Return what a model would be sent for a message, to the last byte; nothing is asked, and nothing written."""
    prompt = preview(
        request.auth.memory,
        programs_of(state).agent(name_of(agent)),
        data.message,
        user=request.auth.caller.user,
        conversation_id=data.conversation_id,
        memory_policy=_policy(data.memory_policy),
    )
    return Prompt(
        system=prompt.system,
        messages=[_message_out(one) for one in prompt.messages],
        system_reminders=prompt.reminders,
        tools=[
            PromptTool(name=one.name, description=one.description, parameters=one.parameters) for one in prompt.tools
        ],
        token_estimate=prompt.token_estimate,
    )


def _tuned(agent: Agent, data: SendMessage) -> Agent:
    """Return the agent as this run wants it."""
    wanted = {"temperature": data.temperature, "max_tokens": data.max_tokens}
    given = {name: value for name, value in wanted.items() if value is not None}
    return msgspec.structs.replace(agent, **given) if given else agent


def _policy(given: MemoryPolicy | None) -> dict[str, Any] | None:
    """Return the fields that were given, as the agent's own are to be replaced by them."""
    if given is None:
        return None
    return {name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET}


def _answer_out(turn: chatting.Turn, agent_id: str) -> Answer:
    return Answer(
        text=turn.text,
        agent_id=agent_id,
        conversation_id=turn.conversation_id,
        message_id=turn.message_id,
        parts=parts_out(turn.parts),
        usage=Usage(requests=turn.usage.requests, tokens_in=turn.usage.tokens_in, tokens_out=turn.usage.tokens_out),
        replayed=turn.replayed,
    )


def _message_out(said: Said) -> PromptMessage:
    return PromptMessage(
        role=said.role,
        text=said.text,
        calls=[PromptCall(id=call.id, name=call.name, arguments=call.arguments) for call in said.calls],
        call_id=said.call_id,
        tool=said.tool,
    )


router = Router("/agent", route_handlers=[chat, preview_prompt])
