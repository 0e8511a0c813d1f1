"""Runs of machines and workflows: where they stand, and what the ledger says of them."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery

from memoranda.model.effect import ReadRuns
from memoranda.model.run import RUN_STATUSES, RunSummary
from memoranda.server.admin.desk import PAGE_BYTES, Desk
from memoranda.wire.bounds import fitting

EVENTS = 1_000
"""Events of a run on one page."""
MOST = 200
"""Runs of one page, the newest."""


@get("/runs", sync_to_thread=True)
def list_runs(desk: NamedDependency[Desk], status: FromQuery[str] = "") -> Response[bytes]:
    """Return where runs stand, those that started last first."""
    found = runs_of(desk, status=status or None, limit=MOST + 1)
    return desk.show(
        "runs.html", section="runs", runs=found[:MOST], more=len(found) > MOST, wanted=status, statuses=RUN_STATUSES
    )


@get("/runs/{id:str}", sync_to_thread=True)
def see_run(desk: NamedDependency[Desk], id: FromPath[str], after: FromQuery[int] = 0) -> Response[bytes]:
    """Return one run with a page of what the ledger says of it."""
    everybody = desk.may(ReadRuns(scope=desk.shared))
    # Who sees only runs of their own is asked about each, as the routes do it.
    handle = desk.memory if everybody else desk.programs.handle(desk.caller)
    run = handle.runs.get(id) if everybody else desk.programs.summary(id, desk.caller)
    found = handle.runs.events(id, after=after, limit=EVENTS + 1, max_bytes=PAGE_BYTES)
    events = fitting(found[:EVENTS], PAGE_BYTES)
    return desk.show(
        "run.html",
        section="runs",
        run=run,
        events=events,
        onwards=events[-1].position if len(events) < len(found) else None,
        verification=handle.runs.verify(id),
    )


def runs_of(desk: Desk, **asked: Any) -> list[RunSummary]:
    """Return runs of the tenant, as `memory.runs.list` is asked for them; for who may not see those, their own."""
    if desk.may(ReadRuns(scope=desk.shared)):
        return desk.memory.runs.list(**asked)
    return desk.programs.runs(desk.caller, **asked)


handlers = [list_runs, see_run]
