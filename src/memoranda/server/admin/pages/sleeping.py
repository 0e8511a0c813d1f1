"""Sleep-time jobs: what was learned from conversations that are over, what failed and why, and taking it back."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.chat.conversations import conversation_scope
from memoranda.model.block import key_of
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.admin.rendering import address, redirect
from memoranda.server.paging import decode_number, page_from
from memoranda.sleep import sleep_jobs, undo
from memoranda.sleep.jobs import KIND, get_job, retry

PAGE = 100


@get("/sleep", sync_to_thread=True)
def list_jobs(
    desk: NamedDependency[Desk],
    user: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Return a page of the jobs, those that need somebody first."""
    order = ("dead", "running", "waiting", "done")
    every = sorted(sleep_jobs(desk.memory, user=desk.whose(user)), key=lambda job: order.index(job.state))
    jobs, onwards = page_from(every, decode_number(after), PAGE, max_bytes=PAGE_BYTES)
    return desk.show(
        "sleep.html",
        section="sleep",
        done=done,
        jobs=[(dict(job.scope.parts), job) for job in jobs],
        user=user,
        onwards=onwards,
        writable=desk.may_write(desk.caller.scope, key_of("core")),
    )


@post("/sleep/undo", sync_to_thread=True, status_code=200)
def undo_job(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Take back what the newest consolidation of a conversation changed."""
    changes = undo(desk.memory, desk.field("conversation"), user=desk.field("user"))
    return redirect(address("/sleep", done="undone" if changes else "unchanged"))


@post("/sleep/retry", sync_to_thread=True, status_code=200)
def retry_job(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Let a job that was given up be due now."""
    scope = conversation_scope(desk.memory, desk.field("user"), desk.field("conversation"))
    retry(desk.memory, get_job(desk.memory, scope, KIND))
    return redirect(address("/sleep", done="retried"))


handlers = [list_jobs, undo_job, retry_job]
