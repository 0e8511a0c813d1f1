"""What goes on: the overview, erasures, runs and approvals, conversations and what is learned from them, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.chat.conversation import (
    ConversationKind,
    list_conversations,
    read_conversation,
)
from memoranda.engine.erasure import Erase
from memoranda.errors import NotFound, UsageError
from memoranda.governance.approvals import Decide
from memoranda.governance.runs import ReadRuns
from memoranda.model.block import key_of
from memoranda.model.effect import Cause, Contested
from memoranda.model.event import RUN_STATUSES, Event, RunSummary
from memoranda.model.scope import Scope
from memoranda.server.admin.context import PAGE_BYTES, FieldError, PageContext, Place, field_error
from memoranda.server.admin.html import address, redirect
from memoranda.server.admin.pages.collections import collections_of
from memoranda.server.admin.pages.facts import recent_scopes
from memoranda.server.pagination import decode_cursor, decode_number, page, page_from
from memoranda.sleep import sleep_jobs, undo
from memoranda.sleep.jobs import get_job, retry
from memoranda.wire.codec import fit_bytes

_SHOWN = 5
"""Maximum number of failed runs on the page."""


@get("/", sync_to_thread=True)
def see_overview(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Show the overview."""
    jobs = sleep_jobs(context.memory, user=context.target_user()) if context.sees("sleep") else []
    runs = context.sees("runs")
    return context.show(
        "overview.html",
        section="overview",
        suggested=recent_scopes(context),
        definitions=context.memory.definitions.list() if context.sees("definitions") else None,
        collections=collections_of(context) if context.sees("collections") else None,
        approvals=context.memory.approvals.list(limit=MOST_RUNS, max_bytes=PAGE_BYTES)
        if context.sees("approvals")
        else None,
        waiting_runs=runs_of(context, status="waiting", limit=MOST_RUNS) if runs else None,
        most_runs=MOST_RUNS,
        failed_runs=runs_of(context, status="failed", limit=_SHOWN) if runs else [],
        dead_jobs=[job for job in jobs if job.state == "dead"],
        waiting_jobs=[job for job in jobs if job.state in ("waiting", "running")] if context.sees("sleep") else None,
    )


@get("/erase", sync_to_thread=True)
def begin_erasure(context: NamedDependency[PageContext], user: FromQuery[str] = "") -> Response[bytes]:
    """Show the form, which asks for the user id twice."""
    context.ensure(Erase(scope=context.shared))
    return _erase_form(context, user, None)


@post("/erase", sync_to_thread=True, status_code=200)
def erase_user(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Erase a user whose id was typed twice, and show the receipt."""
    user, typed = context.field("user").strip(), context.field("typed").strip()
    if typed != user:
        problem = FieldError(field="typed", message="The two ids differ", hint="Type the id again")
        return _erase_form(context, user, problem)
    try:
        receipt = context.memory.erase(user=user)
    except UsageError as error:
        return _erase_form(context, user, field_error(error, field="user"))
    return context.show("receipt.html", section="erase", receipt=receipt, user=user)


def _erase_form(context: PageContext, user: str, problem: FieldError | None) -> Response[bytes]:
    return context.show("erase.html", section="erase", user=user, field_error=problem)


EVENTS = 1_000
"""Maximum number of events of a run on a page."""
MOST_RUNS = 200
"""Maximum number of runs on a page, newest first."""


@get("/runs", sync_to_thread=True)
def list_runs(context: NamedDependency[PageContext], status: FromQuery[str] = "") -> Response[bytes]:
    """Show the runs, newest first."""
    found = runs_of(context, status=status or None, limit=MOST_RUNS + 1)
    return context.show(
        "runs.html",
        section="runs",
        runs=found[:MOST_RUNS],
        more=len(found) > MOST_RUNS,
        wanted=status,
        statuses=RUN_STATUSES,
    )


@get("/runs/{id:str}", sync_to_thread=True)
def see_run(context: NamedDependency[PageContext], id: FromPath[str], after: FromQuery[int] = 0) -> Response[bytes]:
    """Show a run with a page of its events."""
    everybody = context.may(ReadRuns(scope=context.shared))
    # Otherwise only the caller's own runs are visible, as in the REST API.
    handle = context.memory if everybody else context.programs.handle(context.principal)
    run = handle.runs.get(id) if everybody else context.programs.summary(id, context.principal)
    found = handle.runs.events(id, after=after, limit=EVENTS + 1, max_bytes=PAGE_BYTES)
    events = fit_bytes(found[:EVENTS], PAGE_BYTES)
    return context.show(
        "run.html",
        section="runs",
        run=run,
        events=events,
        onwards=events[-1].position if len(events) < len(found) else None,
        verification=handle.runs.verify(id),
    )


def runs_of(context: PageContext, **options: Any) -> list[RunSummary]:
    """Return runs of the tenant, or the caller's own; `options` are those of `memory.runs.list`."""
    if context.may(ReadRuns(scope=context.shared)):
        return context.memory.runs.list(**options)
    return context.programs.runs(context.principal, **options)


MOST_APPROVALS = 200
"""Maximum number of pending approvals on a page, and of decisions."""


_CAUSES: dict[Cause, str] = {
    "conflict": "It contradicts something that is trusted more.",
    "quarantine": "It looks suspicious.",
    "confirmation": "Its writer asked for confirmation.",
}
"""Why something waits that no policy holds back."""


@get("/approvals", sync_to_thread=True)
def list_approvals(
    context: NamedDependency[PageContext], after: FromQuery[str | None] = None, done: FromQuery[str] = ""
) -> Response[bytes]:
    """Show pending approvals, oldest first, and the newest decisions."""
    approvals = context.memory.approvals
    # Decided approvals no longer hold their effect, so all of them are small.
    decided = [*approvals.list(status="approved"), *approvals.list(status="refused")]
    found = approvals.list(after=decode_cursor(after), limit=MOST_APPROVALS + 1, max_bytes=PAGE_BYTES)
    waiting, onwards = page(found, MOST_APPROVALS, lambda one: one.id, max_bytes=PAGE_BYTES)
    sides: dict[str, list[Contested]] = {}
    if any(one.cause == "conflict" for one in waiting):
        for one in context.memory.conflicts():
            sides.setdefault(one.id, []).append(one)
    return context.show(
        "approvals.html",
        section="approvals",
        done=done,
        waiting=waiting,
        sides=sides,
        causes=_CAUSES,
        onwards=onwards,
        decided=sorted(decided, key=lambda one: one.requested_at, reverse=True)[:MOST_APPROVALS],
        may_decide=context.may(Decide(scope=context.shared, approval="", verdict="approved")),
    )


@post("/approvals", sync_to_thread=True, status_code=200)
def decide(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Approve a pending effect, which is then carried out, or refuse it."""
    approval, reason = context.field("approval"), context.field("reason").strip()
    if context.field("verdict") == "approved":
        context.memory.approvals.approve(approval, reason=reason)
        return redirect(address("/approvals", done="approved"))
    context.memory.approvals.refuse(approval, reason=reason)
    return redirect(address("/approvals", done="refused"))


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
    context: NamedDependency[PageContext],
    user: FromQuery[str],
    id: FromQuery[str],
    after: FromQuery[int] = 0,
    kind: FromQuery[ConversationKind | None] = None,
) -> Response[bytes]:
    """Show a conversation with a page of its parts."""
    conversation = read_conversation(context.memory, user, id, after=after, max_bytes=PAGE_BYTES, kind=kind)
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
        jobs=[(*job.conversation, job) for job in jobs],
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
    scope = Scope.parse(context.field("scope"), tenant=context.memory.tenant)
    retry(context.memory, get_job(context.memory, scope, context.field("kind")))
    return redirect(address("/sleep", done="retried"))


PAGE = 50
_STEP = 64
"""Number of events read at a time."""
_FARTHEST = 10_000
"""Maximum number of events searched for one page; if they do not fill it, the reader can go on."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Matching events, and how far back the search went."""

    events: list[Event]
    """Newest first."""
    reached: int
    """The position of the oldest event searched; 1 at the beginning of the ledger."""


@get("/ledger", sync_to_thread=True)
def see_ledger(
    context: NamedDependency[PageContext],
    actor: FromQuery[str] = "",
    door: FromQuery[str] = "",
    effect: FromQuery[str] = "",
    decision: FromQuery[str] = "",
    place: Place = "",
    before: FromQuery[int | None] = None,
) -> Response[bytes]:
    """Show the newest events, or those before a position, that match the filter."""
    asked = {"actor": actor, "door": door, "effect": effect, "decision": decision, "scope": place}
    found, problem = Found(events=[], reached=1), None
    try:
        found = search_back(context, before, _filter(context, asked))
    except UsageError as error:
        problem = field_error(error, field="scope")
    return context.show(
        "ledger.html",
        section="ledger",
        events=found.events,
        asked=asked,
        field_error=problem,
        onwards=found.reached if found.reached > 1 else None,
    )


@get("/ledger/verify", sync_to_thread=True)
def verify_ledger(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Verify the whole hash chain and show the result."""
    return context.show("verification.html", section="ledger", verification=context.memory.ledger.verify())


@get("/ledger/{position:int}", sync_to_thread=True)
def see_event(context: NamedDependency[PageContext], position: FromPath[int]) -> Response[bytes]:
    """Show one event in detail."""
    found = context.memory.ledger.events(start=max(position, 1), limit=1)
    if not found or found[0].position != position:
        raise NotFound(f"unknown event {position}", hint="The ledger is shorter")
    return context.show("event.html", section="ledger", event=found[0])


def search_back(context: PageContext, before: int | None, passes: Callable[[Event], bool]) -> Found:
    """Search backwards for a page of events, from the newest or from before a position."""
    newest = context.memory.ledger.tail(1)
    length = newest[0].position if newest else 0
    end = length + 1 if before is None else min(before, length + 1)
    stop = max(1, end - _FARTHEST)
    events: list[Event] = []
    while end > stop:
        start = max(stop, end - _STEP)
        for event in reversed(context.memory.ledger.events(start=start, limit=end - start)):
            if passes(event):
                events.append(event)
                if len(events) == PAGE:
                    return Found(events=events, reached=event.position)
        end = start
    return Found(events=events, reached=end)


def _filter(context: PageContext, asked: dict[str, str]) -> Callable[[Event], bool]:
    wanted = {name: text.strip() for name, text in asked.items() if text.strip()}
    place = wanted.pop("scope", "")
    scope = context.scope(place).path if place else None

    def passes(event: Event) -> bool:
        return all(text in getattr(event, name) for name, text in wanted.items()) and (
            # The shared scope matches only itself: every other scope is below it.
            scope is None or event.scope == scope or (scope != "" and event.scope.startswith(f"{scope}/"))
        )

    return passes
