"""Routes `/sleep/jobs`: what was learned from conversations, and how to undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from litestar import Response, Router, get, post
from litestar.params import QueryParameter

from memoranda.api.memory import Memory
from memoranda.chat.conversation import conversation_of
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.server.auth.principals import Access
from memoranda.server.pagination import decode_time_cursor, page, time_position
from memoranda.server.requests import PAGE, After, Name, PageLimit, StrictRequest, decode_name
from memoranda.server.responses import JsonResponse, problem_specs
from memoranda.wire.chat import Change, Forgotten, JobState, SleepJob, SleepJobs, Undone

if TYPE_CHECKING:
    # Imported where one is asked for: a server that is asked for none is ready sooner.
    from memoranda.sleep.jobs import Job

OwnerUser = Annotated[
    str | None, QueryParameter(name="user", description="The user of the conversation. Default: the caller.")
]
StateFilter = Annotated[JobState | None, QueryParameter(name="state", description="Return only jobs in this state.")]
AllUsers = Annotated[
    bool, QueryParameter(description="Return the jobs of all users of the tenant; for administrators.")
]


@get("/", sync_to_thread=True, responses=problem_specs(), summary="List sleep-time jobs")
def list_sleep_jobs(
    request: StrictRequest,
    job_state: StateFilter = None,
    whose: OwnerUser = None,
    everybody: AllUsers = False,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[SleepJobs]:
    """Return the consolidation jobs of conversations: waiting, done and failed."""
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
    "/{conversation:str}/undo",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(404, 409, 507),
    summary="Undo the last consolidation of a conversation",
)
def undo_sleep_job(request: StrictRequest, conversation: Name, whose: OwnerUser = None) -> Undone:
    """Undo what the last consolidation changed in the blocks. It will not be learned again."""
    from memoranda.sleep.undo import undo

    changes = undo(request.auth.memory, decode_name(conversation), user=whose or request.auth.principal.user)
    return Undone(
        changes=[Change(change=one.change, scope=one.scope, block=one.block, line=one.line) for one in changes]
    )


@post(
    "/{conversation:str}/forget",
    sync_to_thread=True,
    status_code=200,
    responses=problem_specs(409, 507),
    summary="Erase a conversation and what was learned from it",
)
def forget_conversation(request: StrictRequest, conversation: Name, whose: OwnerUser = None) -> Forgotten:
    """Erase a conversation and the lines that were learned only from it; return these lines."""
    from memoranda.sleep.undo import forget_conversation

    user, id = whose or request.auth.principal.user, decode_name(conversation)
    return Forgotten(removed=forget_conversation(_erasing_handle(request.auth, user, id), id, user=user))


def _erasing_handle(access: Access, user: str, conversation: str) -> Memory:
    """Return a handle that may erase the conversation if it is the caller's own and the caller may write."""
    principal = access.principal
    if principal.role != "member" or user != principal.user:
        return access.memory
    scope = Scope.of(tenant=principal.tenant, user=user, thread=conversation)
    return access.handle(also=(Rule("allow", "memory.erase", scope),))


def _job_json(job: Job) -> SleepJob:
    user, conversation_id = conversation_of(job.scope)
    result: dict[str, Any] = job.result
    return SleepJob(
        user=user,
        conversation_id=conversation_id,
        state=job.state,
        attempts=job.attempts,
        due_at=job.due_at,
        finished_at=job.finished_at,
        error=job.error,
        added=result.get("added", 0),
        removed=result.get("removed", 0),
        undone=bool(result.get("undone")),
    )


router = Router("/sleep/jobs", route_handlers=[list_sleep_jobs, undo_sleep_job, forget_conversation])
