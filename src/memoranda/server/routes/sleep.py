"""`/sleep/jobs`: what conversations taught while nobody waited, and how that is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from litestar import Response, Router, get, post
from litestar.params import QueryParameter

from memoranda.api.memory import Memory
from memoranda.chat.conversations import conversation_of
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.callers import Access
from memoranda.server.paging import decode_place_in_time, page, place_in_time
from memoranda.server.parameters import PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.tags import Encoded
from memoranda.wire.sleep import Change, Forgotten, JobState, SleepJob, SleepJobs, Undone

if TYPE_CHECKING:
    # Imported where one is asked for: a server that is asked for none is ready sooner.
    from memoranda.sleep.jobs import Job

Whose = Annotated[str | None, QueryParameter(name="user", description="Whose conversation; without it, the caller's.")]
Standing = Annotated[JobState | None, QueryParameter(name="state", description="Only jobs that stand so.")]
Everybody = Annotated[bool, QueryParameter(description="Those of all users of the tenant, for administrators.")]


@get("/", sync_to_thread=True, responses=problems(), summary="List sleep-time jobs")
def list_sleep_jobs(
    request: StrictRequest,
    standing: Standing = None,
    whose: Whose = None,
    everybody: Everybody = False,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[SleepJobs]:
    """Return the conversations that were consolidated or wait for it, and what failed."""
    from memoranda.sleep.sleeping import sleep_jobs

    last = decode_place_in_time(after)
    every = sleep_jobs(
        request.auth.memory, user=None if everybody else whose or request.auth.caller.user, state=standing
    )
    # Not after the one that a cursor names: that may be gone, or stand otherwise by now.
    rest = [job for job in every if last is None or (job.due_at, job.scope.path) > last]
    kept, go_on = page(
        rest,
        limit,
        lambda job: place_in_time(job.due_at, job.scope.path),
        max_bytes=request.page_bytes,
        out=_job_out,
    )
    return Encoded(SleepJobs(jobs=kept, next=go_on))


@post(
    "/{conversation:str}/undo",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="Take back what a conversation last taught",
)
def undo_sleep_job(request: StrictRequest, conversation: Name, whose: Whose = None) -> Undone:
    """Take back what the newest consolidation changed in the blocks. It is not learned again."""
    from memoranda.sleep.taking_back import undo

    changes = undo(request.auth.memory, name_of(conversation), user=whose or request.auth.caller.user)
    return Undone(
        changes=[Change(change=one.change, scope=one.scope, block=one.block, line=one.line) for one in changes]
    )


@post(
    "/{conversation:str}/forget",
    sync_to_thread=True,
    status_code=200,
    responses=problems(409, 507),
    summary="Erase a conversation and what it taught",
)
def forget_conversation(request: StrictRequest, conversation: Name, whose: Whose = None) -> Forgotten:
    """Erase a conversation with the lines that were learned from it alone, and return these lines."""
    from memoranda.sleep.taking_back import forget_conversation

    user, id = whose or request.auth.caller.user, name_of(conversation)
    return Forgotten(removed=forget_conversation(_erasing(request.auth, user, id), id, user=user))


def _erasing(access: Access, user: str, conversation: str) -> Memory:
    """Return a handle that may erase a conversation, if it is one of the caller's and the caller may write."""
    caller = access.caller
    if caller.role != "member" or user != caller.user:
        return access.memory
    scope = Scope.of(tenant=caller.tenant, user=user, thread=conversation)
    return access.reaching(also=(Rule("allow", "memory.erase", scope),))


def _job_out(job: Job) -> SleepJob:
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
