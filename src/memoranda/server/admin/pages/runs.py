"""Runs of machines and workflows, and effects that wait for approval."""

from __future__ import annotations

from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.governance.approvals import Decide
from memoranda.governance.runs import ReadRuns
from memoranda.model.event import RUN_STATUSES, RunSummary
from memoranda.server.admin.context import PAGE_BYTES, PageContext
from memoranda.server.admin.html import address, redirect
from memoranda.server.pagination import decode_cursor, page
from memoranda.wire.codec import fit_bytes

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
    return context.show(
        "approvals.html",
        section="approvals",
        done=done,
        waiting=waiting,
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


handlers = [list_runs, see_run, list_approvals, decide]
