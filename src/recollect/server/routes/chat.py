"""`/agent/{id}/chat` and `/agent/{id}/prompts/preview`: agents that know the user, answering over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from litestar import Response, Router, post
from litestar.datastructures import State
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema
from litestar.params import JSONBody
from litestar.response import Stream

from recollect.agent.models import Said
from recollect.chat import turns as chatting
from recollect.chat.agents import Agent
from recollect.chat.preview import preview
from recollect.server.answers import problems
from recollect.server.parameters import Name, Reach
from recollect.server.places import name_of
from recollect.server.programs import Programs, model_named
from recollect.server.routes.conversations import parts_out
from recollect.server.streams import EVENT_STREAM, encode_event, stream_of
from recollect.wire.chat import (
    Answer,
    ChatEvent,
    MemoryPolicy,
    PreviewPrompt,
    Prompt,
    PromptCall,
    PromptMessage,
    PromptTool,
    SendMessage,
    Usage,
)


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
    opt={"uncompressed": True},
    operation_class=_AnswersInTwoWays,
    responses=problems(404, 409, 502, 507),
    summary="Say something to an agent",
)
async def chat(access: Reach, state: State, agent: Name, data: JSONBody[SendMessage]) -> Response[Answer]:
    """Return an agent's answer: as server-sent events while it is made, or with `stream` false as one JSON object.

    The turn is taken to its end even if the caller goes away: the same message, sent again, gets its answer.
    """
    spoken_to = _tuned(_programs(state).agent(name_of(agent)), data)
    said = partial(
        chatting.chat,
        access.memory,
        spoken_to,
        data.message,
        user=access.caller.user,
        conversation_id=data.conversation_id,
        message_id=data.message_id,
        memory_policy=_policy(data.memory_policy),
        model=model_named(data.model),
    )
    events = await stream_of(lambda tell: said(on_event=lambda event: tell(encode_event(_event_out(event)))))
    if data.stream:
        return Stream(  # pyright: ignore[reportReturnType]  # what it streams is in the document by hand
            events, media_type=EVENT_STREAM, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        )
    return Response(_answer_out(await events.result(), spoken_to.id))


@post(
    "/{agent:str}/prompts/preview",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409),
    summary="See the prompt of a message",
)
def preview_prompt(access: Reach, state: State, agent: Name, data: JSONBody[PreviewPrompt]) -> Prompt:
    """Return what a model would be sent for a message, to the last byte; nothing is asked, and nothing written."""
    prompt = preview(
        access.memory,
        _programs(state).agent(name_of(agent)),
        data.message,
        user=access.caller.user,
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


def _event_out(event: chatting.ChatEvent) -> ChatEvent:
    return ChatEvent(
        type=event.type,
        seq=event.seq,
        conversation_id=event.conversation_id,
        message_id=event.message_id,
        content=event.content,
        call_id=event.call_id,
        tool=event.tool,
        timestamp=event.at,
        metadata=event.metadata,
    )


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


def _programs(state: State) -> Programs:
    return state.programs


router = Router("/agent", route_handlers=[chat, preview_prompt])
