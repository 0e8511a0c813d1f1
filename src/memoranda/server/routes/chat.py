"""Routes `/agent/{id}/chat`, `/agent/{id}/prompts/preview` and `/conversations`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Response, Router, get, post
from litestar.datastructures import State
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream

from memoranda.agent.models import Said
from memoranda.chat import conversation as chat_conversation
from memoranda.chat import turn as chat_turn
from memoranda.chat.agent import Agent
from memoranda.chat.prompt import preview
from memoranda.server.chat_agents import find_model
from memoranda.server.event_streams import EVENT_STREAM, StreamedTurn, start_stream
from memoranda.server.middleware import UNCOMPRESSED
from memoranda.server.pagination import decode_time_cursor, page, time_position
from memoranda.server.programs import programs_of
from memoranda.server.requests import PAGE, After, Name, PageLimit, StrictRequest, decode_name
from memoranda.server.responses import JsonResponse, problem_specs
from memoranda.wire.chat import (
    Answer,
    Conversation,
    Conversations,
    ConversationSummary,
    MemoryPolicy,
    Part,
    PreviewPrompt,
    Prompt,
    PromptCall,
    PromptMessage,
    PromptTool,
    SendMessage,
    Usage,
)
from memoranda.wire.codec import fit_bytes

LastEvent = Annotated[
    int | None,
    HeaderParameter(
        name="Last-Event-ID",
        ge=0,
        le=2**53,
        description="To resume a message: the id of the last event received, or 0. The later events are sent.",
    ),
]


@dataclass
class _JsonOrStream(Operation):
    """An OpenAPI operation that returns JSON or an event stream."""

    def __post_init__(self) -> None:
        answer = (self.responses or {}).get("200")
        if isinstance(answer, OpenAPIResponse) and answer.content is not None:
            schema = Schema(
                type=OpenAPIType.STRING,
                description="Server-sent events: `event` is the `type` of the data, `id` its `seq`.",
            )
            answer.content[EVENT_STREAM] = OpenAPIMediaType(schema=schema)


@post(
    "/{agent:str}/chat",
    status_code=200,
    opt={UNCOMPRESSED: True},
    operation_class=_JsonOrStream,
    responses=problem_specs(404, 409, 502, 507),
    summary="Send a message to an agent",
)
async def chat(
    request: StrictRequest, state: State, agent: Name, data: JSONBody[SendMessage], last_event: LastEvent = None
) -> Response[Answer]:
    """Return the reply of an agent: as server-sent events, or as one JSON object if `stream` is false.

    The turn is completed even if the client disconnects: sending the same message again returns its reply. With the
    header `Last-Event-ID` it returns the missing events, or the JSON object, even while the reply is in progress.
    """
    spoken_to = _with_overrides(programs_of(state).chat_agent(decode_name(agent)), data)
    take_turn = partial(
        chat_turn.chat,
        request.auth.memory,
        spoken_to,
        data.message,
        user=request.auth.principal.user,
        conversation_id=data.conversation_id,
        message_id=data.message_id,
        memory_policy=_policy(data.memory_policy),
        model=find_model(data.model),
    )
    turn = StreamedTurn(state.turns, request.auth, spoken_to.id, data, partial(take_turn, after=last_event))
    if not data.stream:
        if last_event is not None:
            await turn.wait_answered()
        # As a stream without listeners, so that it is completed even if the client disconnects.
        whole = await start_stream(lambda _: take_turn())
        return Response(_answer_json(await whole.result(), spoken_to.id))
    if last_event is not None and await turn.is_under_way():
        events = turn.rest(last_event)
    else:
        events = (await turn.begin()).after()
    return Stream(  # pyright: ignore[reportReturnType]  # documented by `_JsonOrStream`
        events, media_type=EVENT_STREAM, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    )


@post(
    "/{agent:str}/prompts/preview",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409),
    summary="Preview the prompt of a message",
)
def preview_prompt(request: StrictRequest, state: State, agent: Name, data: JSONBody[PreviewPrompt]) -> Prompt:
    """Return exactly what a model would be sent for a message; no model is called and nothing is written."""
    prompt = preview(
        request.auth.memory,
        programs_of(state).chat_agent(decode_name(agent)),
        data.message,
        user=request.auth.principal.user,
        conversation_id=data.conversation_id,
        memory_policy=_policy(data.memory_policy),
    )
    return Prompt(
        system=prompt.system,
        messages=[_message_json(one) for one in prompt.messages],
        system_reminders=prompt.reminders,
        tools=[
            PromptTool(name=one.name, description=one.description, parameters=one.parameters) for one in prompt.tools
        ],
        token_estimate=prompt.token_estimate,
    )


def _with_overrides(agent: Agent, data: SendMessage) -> Agent:
    wanted = {"temperature": data.temperature, "max_tokens": data.max_tokens}
    given = {name: value for name, value in wanted.items() if value is not None}
    return msgspec.structs.replace(agent, **given) if given else agent


def _policy(given: MemoryPolicy | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET}


def _answer_json(turn: chat_turn.Turn, agent_id: str) -> Answer:
    return Answer(
        text=turn.text,
        agent_id=agent_id,
        conversation_id=turn.conversation_id,
        message_id=turn.message_id,
        parts=parts_json(turn.parts),
        usage=Usage(requests=turn.usage.requests, tokens_in=turn.usage.tokens_in, tokens_out=turn.usage.tokens_out),
        replayed=turn.replayed,
    )


def _message_json(said: Said) -> PromptMessage:
    return PromptMessage(
        role=said.role,
        text=said.text,
        calls=[PromptCall(id=call.id, name=call.name, arguments=call.arguments) for call in said.calls],
        call_id=said.call_id,
        tool=said.tool,
    )


chat_router = Router("/agent", route_handlers=[chat, preview_prompt])


Since = Annotated[int, QueryParameter(name="after", ge=0, description="Return only parts with a higher `seq`.")]


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List conversations")
def list_conversations(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[Conversations]:
    """Return the caller's conversations, most recently active first."""
    last = decode_time_cursor(after)
    every = chat_conversation.list_conversations(request.auth.memory, request.auth.principal.user)
    # By time, because the last conversation of the previous page may have been deleted or active since.
    rest = [one for one in every if last is None or (one.last_at, one.id) < last]
    found, go_on = page(
        rest,
        limit,
        lambda one: time_position(one.last_at, one.id),
        max_bytes=request.page_bytes,
        out=lambda one: ConversationSummary(**_summary_fields(one)),
    )
    return JsonResponse(Conversations(conversations=found, next=go_on))


@get("/{conversation:str}", sync_to_thread=True, responses=problem_specs(404), summary="Get a conversation")
def get_conversation(request: StrictRequest, conversation: Name, since: Since = 0) -> Response[Conversation]:
    """Return a conversation of the caller with its parts, all or those after a `seq`."""
    most = request.page_bytes
    found = chat_conversation.read_conversation(
        request.auth.memory, request.auth.principal.user, decode_name(conversation), after=since, max_bytes=most
    )
    # Hidden parts count too: a page without any visible part still has a `next`.
    parts = fit_bytes(list(found.parts), most)
    go_on = parts[-1].seq if len(parts) < len(found.parts) else None
    return JsonResponse(Conversation(**_summary_fields(found), parts=parts_json(parts), next=go_on))


def parts_json(parts: Iterable[chat_conversation.Part]) -> list[Part]:
    """Return the visible parts of a conversation; those that only the model sees are omitted."""
    shown = (part for part in parts if not part.hidden)
    return [msgspec.convert(part, Part, from_attributes=True) for part in shown]


def _summary_fields(one: chat_conversation.ConversationSummary) -> dict[str, Any]:
    return {
        "id": one.id,
        "agent_id": one.agent_id,
        "opened_at": one.opened_at,
        "last_at": one.last_at,
        "last_seq": one.last_seq,
        "has_active_generation": one.active,
    }


conversations_router = Router("/conversations", route_handlers=[list_conversations, get_conversation])
