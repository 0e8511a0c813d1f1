"""Routes `/agent`, `/conversations`, `/agents`, `/sessions` and `/sleep`: chat, and what is learned from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, Operation, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream

from memoranda.api.memory import Memory
from memoranda.chat import conversation as chat_conversation
from memoranda.chat import turn as chat_turn
from memoranda.chat.agent import Agent
from memoranda.chat.prompt import preview
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.server.auth.principals import Access
from memoranda.server.chat_agents import find_model
from memoranda.server.event_streams import EVENT_STREAM, StreamedTurn, start_stream
from memoranda.server.middleware import UNCOMPRESSED
from memoranda.server.pagination import decode_number, decode_time_cursor, page, time_position
from memoranda.server.requests import PAGE, After, Name, PageLimit, StrictRequest
from memoranda.server.responses import JsonResponse, in_thread, problem_specs
from memoranda.wire.chat import (
    Answer,
    Change,
    Conversation,
    ConversationKind,
    Conversations,
    ConversationSummary,
    ForgottenConversation,
    JobState,
    MemoryPolicy,
    Part,
    PastTurn,
    PreviewPrompt,
    Prompt,
    PromptMessage,
    PromptTool,
    SayToSession,
    SendMessage,
    Session,
    SessionTurn,
    SleepJob,
    SleepJobs,
    StartSession,
    Undone,
    Usage,
)
from memoranda.wire.codec import fit_bytes
from memoranda.wire.runs import RunSteps

if TYPE_CHECKING:
    from memoranda import abl

    # Imported where one is asked for: a server that is asked for none is ready sooner.
    from memoranda.model.job import Job


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
    "/agent/{agent:str}/chat",
    status_code=200,
    opt={UNCOMPRESSED: True},
    operation_class=_JsonOrStream,
    responses=problem_specs(404, 409, 502, 507),
    summary="Send a message to an agent",
)
async def chat(
    request: StrictRequest, agent: Name, data: JSONBody[SendMessage], last_event: LastEvent = None
) -> Response[Answer]:
    """Return the reply of an agent: as server-sent events, or as one JSON object if `stream` is false.

    The turn is completed even if the client disconnects: sending the same message again returns its reply. With the
    header `Last-Event-ID` it returns the missing events, or the JSON object, even while the reply is in progress.
    """
    spoken_to = _with_overrides(request.programs.chat_agent(agent), data)
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
    turn = StreamedTurn(request.app.state.turns, request.auth, spoken_to.id, data, partial(take_turn, after=last_event))
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


@post("/agent/{agent:str}/prompts/preview", **in_thread("Preview the prompt of a message", 404, 409, status=200))
def preview_prompt(request: StrictRequest, agent: Name, data: JSONBody[PreviewPrompt]) -> Prompt:
    """Return exactly what a model would be sent for a message; no model is called and nothing is written."""
    prompt = preview(
        request.auth.memory,
        request.programs.chat_agent(agent),
        data.message,
        user=request.auth.principal.user,
        conversation_id=data.conversation_id,
        memory_policy=_policy(data.memory_policy),
    )
    return Prompt(
        system=prompt.system,
        messages=[msgspec.convert(one, PromptMessage, from_attributes=True) for one in prompt.messages],
        system_reminders=prompt.reminders,
        tools=[msgspec.convert(one, PromptTool, from_attributes=True) for one in prompt.tools],
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
        usage=msgspec.convert(turn.usage, Usage, from_attributes=True),
        replayed=turn.replayed,
    )


OfKind = Annotated[
    ConversationKind | None,
    QueryParameter(name="kind", description="Only chats, or only conversations with workflows."),
]
SincePart = Annotated[int, QueryParameter(name="after", ge=0, description="Return only parts with a higher `seq`.")]


@get("/conversations", **in_thread("List conversations"))
def list_conversations(
    request: StrictRequest, kind: OfKind = None, after: After = None, limit: PageLimit = PAGE
) -> Response[Conversations]:
    """Return the caller's conversations with agents and workflows, most recently active first."""
    last = decode_time_cursor(after)
    every = chat_conversation.list_conversations(request.auth.memory, request.auth.principal.user, kind=kind)
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


@get("/conversations/{conversation:str}", **in_thread("Get a conversation", 404))
def get_conversation(
    request: StrictRequest, conversation: Name, since: SincePart = 0, kind: OfKind = None
) -> Response[Conversation]:
    """Return a conversation of the caller with its parts, all or those after a `seq`."""
    most = request.page_bytes
    found = chat_conversation.read_conversation(
        request.auth.memory, request.auth.principal.user, conversation, after=since, max_bytes=most, kind=kind
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
        "kind": one.kind,
        "workflow": one.workflow,
        "closed": one.closed,
    }


SinceTurn = Annotated[int, QueryParameter(name="after", ge=-1, description="Return only turns with a higher `number`.")]


@post("/agents/{agent:str}/sessions", **in_thread("Start a session", 404, 409, 502, 507))
def start_session(request: StrictRequest, agent: Name, data: JSONBody[StartSession]) -> Session:
    """Start a session of the caller; its first turn is what the agent says before any input."""
    programs = request.programs
    return _session_json(programs.start_session(request.auth, agent, project=data.project, vars=data.vars))


@post("/sessions/{session:str}/messages", **in_thread("Send a message to a session", 404, 409, 502, 507, status=200))
def say_to_session(request: StrictRequest, session: Name, data: JSONBody[SayToSession]) -> SessionTurn:
    """Take a turn of the caller's session; of two concurrent messages, one is rejected and can be sent again."""
    return _turn_json(request.programs.find_session(request.auth, session).say(data.text))


@get("/sessions/{session:str}", **in_thread("Get a session", 404))
def get_session(request: StrictRequest, session: Name, since: SinceTurn = -1) -> Response[Session]:
    """Return a session of the caller with its turns, all or those after a number."""
    found = _session_json(request.programs.find_session(request.auth, session))
    rest = found.turns[since + 1 :]
    turns = fit_bytes(rest, request.page_bytes)
    go_on = turns[-1].number if len(turns) < len(rest) else None
    return JsonResponse(msgspec.structs.replace(found, turns=turns, next=go_on))


@get("/sessions/{session:str}/steps", **in_thread("Get the steps of a session", 404))
def list_session_steps(
    request: StrictRequest, session: Name, after: After = None, limit: PageLimit = PAGE
) -> Response[RunSteps]:
    """Return what was recorded of the turns of a session of the caller: each turn, and what happened in it."""
    found, most = request.programs.find_session(request.auth, session), request.page_bytes
    steps = found.step_records(after=decode_number(after), limit=limit + 1, max_bytes=most)
    kept, go_on = page(steps, limit, lambda step: step.number, max_bytes=most)
    return JsonResponse(RunSteps(steps=kept, next=go_on))


@post("/sessions/{session:str}/end", **in_thread("End a session", 404, 409, 502, 507, status=200))
def end_session(request: StrictRequest, session: Name) -> SessionTurn:
    """End a session of the caller: it is removed with its variables, but what it remembered stays."""
    return _turn_json(request.programs.find_session(request.auth, session).end())


def _turn_json(turn: abl.Turn) -> SessionTurn:
    return msgspec.convert(turn, SessionTurn, from_attributes=True)


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


OwnerUser = Annotated[
    str | None, QueryParameter(name="user", description="The user of the conversation. Default: the caller.")
]
StateFilter = Annotated[JobState | None, QueryParameter(name="state", description="Return only jobs in this state.")]
AllUsers = Annotated[
    bool, QueryParameter(description="Return the jobs of all users of the tenant; for administrators.")
]


@get("/sleep/jobs", **in_thread("List sleep-time jobs"))
def list_sleep_jobs(
    request: StrictRequest,
    job_state: StateFilter = None,
    whose: OwnerUser = None,
    everybody: AllUsers = False,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[SleepJobs]:
    """Return the jobs that learn from conversations: waiting, done and failed.

    Jobs of the kind `sleep` read conversations that have settled, jobs of the kind `learn` messages whose model failed.
    """
    from memoranda.sleep.worker import sleep_jobs

    last = decode_time_cursor(after)
    every = sleep_jobs(
        request.auth.memory, user=None if everybody else whose or request.auth.principal.user, state=job_state
    )
    # By time, because the last job of the previous page may have been removed or rescheduled since.
    rest = [job for job in every if last is None or (job.due_at, job.scope.path) > last]
    kept, go_on = page(
        rest,
        limit,
        lambda job: time_position(job.due_at, job.scope.path),
        max_bytes=request.page_bytes,
        out=_job_json,
    )
    return JsonResponse(SleepJobs(jobs=kept, next=go_on))


@post(
    "/sleep/jobs/{conversation:str}/undo",
    **in_thread("Undo the last consolidation of a conversation", 404, 409, 507, status=200),
)
def undo_sleep_job(request: StrictRequest, conversation: Name, whose: OwnerUser = None) -> Undone:
    """Undo what the last consolidation changed in the blocks. It will not be learned again."""
    from memoranda.sleep.undo import undo

    changes = undo(request.auth.memory, conversation, user=whose or request.auth.principal.user)
    return Undone(changes=[msgspec.convert(one, Change, from_attributes=True) for one in changes])


@post(
    "/sleep/jobs/{conversation:str}/forget",
    **in_thread("Erase a conversation and what was learned from it", 409, 507, status=200),
)
def forget_conversation(request: StrictRequest, conversation: Name, whose: OwnerUser = None) -> ForgottenConversation:
    """Erase a conversation and the lines that were learned only from it; return these lines."""
    from memoranda.sleep.undo import forget_conversation

    user, id = whose or request.auth.principal.user, conversation
    return ForgottenConversation(removed=forget_conversation(_erasing_handle(request.auth, user, id), id, user=user))


def _erasing_handle(access: Access, user: str, conversation: str) -> Memory:
    """Return a handle that may erase the conversation if it is the caller's own and the caller may write."""
    principal = access.principal
    if user != principal.user:
        return access.memory
    scope = Scope.of(tenant=principal.tenant, user=user, thread=conversation)
    return access.handle(also=(("memory.write", Rule("allow", "memory.erase", scope)),))


def _job_json(job: Job) -> SleepJob:
    user, conversation_id = job.conversation
    result: dict[str, Any] = job.result
    return SleepJob(
        user=user,
        conversation_id=conversation_id,
        kind=job.kind,
        state=job.state,
        attempts=job.attempts,
        due_at=job.due_at,
        finished_at=job.finished_at,
        error=job.error,
        added=result.get("added", 0),
        removed=result.get("removed", 0),
        undone=bool(result.get("undone")),
    )
