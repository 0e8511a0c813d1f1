"""The overview page, and the page that erases a user."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery

from memoranda.engine.erasure import Erase
from memoranda.errors import UsageError
from memoranda.server.admin.context import PAGE_BYTES, FieldError, PageContext, field_error, status_of
from memoranda.server.admin.pages.collections import collections_of
from memoranda.server.admin.pages.facts import recent_scopes
from memoranda.server.admin.pages.runs import MOST_RUNS, runs_of
from memoranda.sleep import sleep_jobs

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
    return _form(context, user, None)


@post("/erase", sync_to_thread=True, status_code=200)
def erase_user(context: NamedDependency[PageContext]) -> Response[bytes]:
    """Erase a user whose id was typed twice, and show the receipt."""
    user, typed = context.field("user").strip(), context.field("typed").strip()
    if typed != user:
        return _form(context, user, FieldError(field="typed", message="The two ids differ", hint="Type the id again"))
    try:
        receipt = context.memory.erase(user=user)
    except UsageError as error:
        return _form(context, user, field_error(error, field="user"), status_of(error))
    return context.show("receipt.html", section="erase", receipt=receipt, user=user)


def _form(context: PageContext, user: str, problem: FieldError | None, status: int = 422) -> Response[bytes]:
    return context.show(
        "erase.html", section="erase", status=200 if problem is None else status, user=user, field_error=problem
    )


handlers = [see_overview, begin_erasure, erase_user]
