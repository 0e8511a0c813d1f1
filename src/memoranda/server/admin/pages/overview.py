"""The first page: who is signed in, what there is, and what waits for somebody."""

from __future__ import annotations

from litestar import Response, get
from litestar.di import NamedDependency

from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.server.admin.pages.collections import collections_of
from memoranda.server.admin.pages.facts import recent_scopes
from memoranda.server.admin.pages.runs import MOST, runs_of
from memoranda.sleep import sleep_jobs

_SHOWN = 5
"""Runs that failed, of those there are."""


@get("/", sync_to_thread=True)
def see_overview(desk: NamedDependency[Desk]) -> Response[bytes]:
    """Return the first page."""
    jobs = sleep_jobs(desk.memory, user=desk.whose()) if desk.sees("sleep") else []
    runs = desk.sees("runs")
    return desk.show(
        "overview.html",
        section="overview",
        suggested=recent_scopes(desk),
        definitions=desk.memory.definitions.list() if desk.sees("definitions") else None,
        collections=collections_of(desk) if desk.sees("collections") else None,
        approvals=desk.memory.approvals.list(limit=MOST, max_bytes=PAGE_BYTES) if desk.sees("approvals") else None,
        waiting_runs=runs_of(desk, status="waiting", limit=MOST) if runs else None,
        most_runs=MOST,
        failed_runs=runs_of(desk, status="failed", limit=_SHOWN) if runs else [],
        dead_jobs=[job for job in jobs if job.state == "dead"],
        waiting_jobs=[job for job in jobs if job.state in ("waiting", "running")] if desk.sees("sleep") else None,
    )


handlers = [see_overview]
