"""Conversations, and the sleep-time jobs that learn from them."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.chat.conversation import conversation_scope, list_conversations, read_conversation
from memoranda.model.block import key_of
from memoranda.server.admin.context import PAGE_BYTES, PageContext
from memoranda.server.admin.html import address, redirect
from memoranda.server.pagination import decode_number, page_from
from memoranda.sleep import sleep_jobs, undo
from memoranda.sleep.jobs import KIND, get_job, retry
from memoranda.wire.codec import fit_bytes

_CONVERSATIONS = 50


@get("/conversations", sync_to_thread=True)
def see_conversations(
    context: NamedDependency[PageContext], user: FromQuery[str] = "", after: FromQuery[str | None] = None
) -> Response[bytes]:
    """Show the conversations, most recently active first."""
    every = list_conversations(context.memory, context.target_user(user))
    conversations, onwards = page_from(every, decode_number(after), _CONVERSATIONS, max_bytes=PAGE_BYTES)
    return context.show(
        "conversations.html",
        section="conversations",
        conversations=conversations,
        total=len(every),
        user=user,
        onwards=onwards,
    )


@get("/conversations/one", sync_to_thread=True)
def see_conversation(
    context: NamedDependency[PageContext], user: FromQuery[str], id: FromQuery[str], after: FromQuery[int] = 0
) -> Response[bytes]:
    """Show a conversation with a page of its parts."""
    conversation = read_conversation(context.memory, user, id, after=after, max_bytes=PAGE_BYTES)
    shown = fit_bytes(list(conversation.parts), PAGE_BYTES)
    # As in the REST API, users do not see parts that only the model sees; administrators do.
    parts = [part for part in shown if context.sees_everybody or not part.hidden]
    onwards = shown[-1].seq if len(shown) < len(conversation.parts) else None
    return context.show(
        "conversation.html", section="conversations", conversation=conversation, parts=parts, onwards=onwards
    )


_JOBS = 100


@get("/sleep", sync_to_thread=True)
def list_jobs(
    context: NamedDependency[PageContext],
    user: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
    done: FromQuery[str] = "",
) -> Response[bytes]:
    """Show the jobs, failed ones first."""
    order = ("dead", "running", "waiting", "done")
    every = sorted(sleep_jobs(context.memory, user=context.target_user(user)), key=lambda job: order.index(job.state))
    jobs, onwards = page_from(every, decode_number(after), _JOBS, max_bytes=PAGE_BYTES)
    return context.show(
        "sleep.html",
        section="sleep",
        done=done,
        jobs=[(dict(job.scope.parts), job) for job in jobs],
        user=user,
        onwards=onwards,
        writable=context.may_write(context.principal.scope, key_of("core")),
    )


@post("/sleep/undo", sync_to_thread=True, status_code=200)
def undo_job(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Undo what the last consolidation of a conversation changed."""
    changes = undo(context.memory, context.field("conversation"), user=context.field("user"))
    return redirect(address("/sleep", done="undone" if changes else "unchanged"))


@post("/sleep/retry", sync_to_thread=True, status_code=200)
def retry_job(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Make a job that was given up due now."""
    scope = conversation_scope(context.memory, context.field("user"), context.field("conversation"))
    retry(context.memory, get_job(context.memory, scope, KIND))
    return redirect(address("/sleep", done="retried"))


handlers = [see_conversations, see_conversation, list_jobs, undo_job, retry_job]
