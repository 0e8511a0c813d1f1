"""`/runs`: where the caller's runs stand, what they are given, and how they go on or end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from litestar import Response, Router, get, post
from litestar.datastructures import State
from litestar.params import FromQuery, JSONBody, QueryParameter

import memoranda
from memoranda.api.memory import Memory
from memoranda.errors import Conflict, NotVerified, UsageError
from memoranda.model.run import Language, RunStatus, RunSummary
from memoranda.model.text import quote
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.paging import decode_number, decode_place_in_time, page, place_in_time
from memoranda.server.parameters import LARGEST_PAGE, PAGE, After, Name, PageLimit
from memoranda.server.places import name_of
from memoranda.server.programs import programs_of
from memoranda.server.tags import Encoded
from memoranda.wire.approvals import Approval, approval_out
from memoranda.wire.runs import CancelRun, DecideRun, DeliverToRun, Run, RunEvents, Runs, RunVerification

if TYPE_CHECKING:
    from memoranda import mashin, workflow

Program = Annotated[str | None, QueryParameter(description="Only runs of the machine or workflow of this name.")]


@get("/", sync_to_thread=True, responses=problems(), summary="List runs")
def list_runs(
    request: StrictRequest,
    state: State,
    status: FromQuery[RunStatus | None] = None,
    program: Program = None,
    language: FromQuery[Language | None] = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Runs]:
    """Return where the caller's runs stand, those that started last first."""
    found = programs_of(state).runs(
        request.auth.caller,
        status=status,
        program=program,
        language=language,
        after=decode_place_in_time(after),
        limit=limit + 1,
    )
    kept, go_on = page(found, limit, lambda run: place_in_time(run.started_at, run.id), max_bytes=request.page_bytes)
    return Encoded(Runs(runs=kept, next=go_on))


@get("/{run:str}", sync_to_thread=True, responses=problems(404, 409), summary="Get a run")
def get_run(request: StrictRequest, state: State, run: Name) -> Run:
    """Return a run of the caller as it stands; if a time that it waits for is over, it is not taken up by looking."""
    return run_out(programs_of(state).find(name_of(run), request.auth.caller))


@get("/{run:str}/events", sync_to_thread=True, responses=problems(404), summary="Get the events of a run")
def list_run_events(
    request: StrictRequest, state: State, run: Name, after: After = None, limit: PageLimit = LARGEST_PAGE
) -> Response[RunEvents]:
    """Return what the ledger says of a run of the caller, in order."""
    programs, most = programs_of(state), request.page_bytes
    id = programs.summary(name_of(run), request.auth.caller).id
    found = programs.handle(request.auth.caller).runs.events(
        id, after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda event: event.position, max_bytes=most)
    return Encoded(RunEvents(events=kept, next=go_on))


@get("/{run:str}/verify", sync_to_thread=True, responses=problems(404), summary="Verify a run")
def verify_run(request: StrictRequest, state: State, run: Name) -> RunVerification:
    """Walk the chain of a run of the caller and say whether it is whole."""
    programs = programs_of(state)
    id = programs.summary(name_of(run), request.auth.caller).id
    return programs.handle(request.auth.caller).runs.verify(id)


@post(
    "/{run:str}/deliver",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 502, 507),
    summary="Give a run what it waits for",
)
def deliver_to_run(request: StrictRequest, state: State, run: Name, data: JSONBody[DeliverToRun]) -> Run:
    """Give a run the event that it waits for, and let it go on until it ends or waits again."""
    programs = programs_of(state)
    runs = [programs.find(name_of(run), request.auth.caller)]
    # What a workflow waits for in another one, it hands on itself; machines are given it where they wait.
    while runs[-1].summary.language == "mashin" and (called := _called(runs[-1])) is not None:
        below = programs.find(called, request.auth.caller)
        if below.waiting is None:
            break
        runs.append(below)
    *above, lowest = runs
    went = lowest.deliver(data.payload)
    for one in reversed(above):
        if went.waiting is not None:
            return run_out(runs[0])
        went = one.resume()
    return run_out(went)


@post(
    "/{run:str}/resume",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 502, 507),
    summary="Let a run go on",
)
def resume_run(request: StrictRequest, state: State, run: Name) -> Run:
    """Let a run go on if what it waits for is there: a decision, the end of a time, the end of another run.

    One that still waits is answered as it is.
    """
    return run_out(programs_of(state).find(name_of(run), request.auth.caller).resume())


@post(
    "/{run:str}/cancel",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="End a run",
)
def cancel_run(request: StrictRequest, state: State, run: Name, data: JSONBody[CancelRun]) -> Run:
    """End a run that waits, and the runs that it waits for."""
    found = programs_of(state).find(name_of(run), request.auth.caller)
    return run_out(found.cancel(reason=data.reason, force=data.force))


# Who asked for a step cannot decide it, so these two find runs of others: by what waits, and nothing else is told.


@post(
    "/{run:str}/approve",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="Approve the step that a run waits with",
)
def approve_run(request: StrictRequest, run: Name, data: JSONBody[DecideRun]) -> Approval:
    """Approve the step that a run of somebody else waits with; it goes on when its owner resumes it."""
    return approval_out(
        request.auth.memory.approvals.approve(
            _held(request.auth.memory, name_of(run), data), reason=data.reason
        ).approval
    )


@post(
    "/{run:str}/refuse",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="Refuse the step that a run waits with",
)
def refuse_run(request: StrictRequest, run: Name, data: JSONBody[DecideRun]) -> Approval:
    """Refuse the step that a run of somebody else waits with; it fails, or does what it has for failures."""
    return approval_out(
        request.auth.memory.approvals.refuse(
            _held(request.auth.memory, name_of(run), data), reason=data.reason
        ).approval
    )


def run_out(run: mashin.Run | workflow.Run) -> Run:
    """Return a run as it travels."""
    summary = run.summary
    of_machine = isinstance(run, memoranda.mashin.Run)
    return Run(
        id=run.id,
        program=summary.program,
        status=run.status,
        output=run.output,
        outputs=run.steps if of_machine else run.outputs,
        messages=[] if of_machine else list(run.messages),
        error=summary.error,
        waiting=summary.waiting,
    )


def _held(memory: Memory, run: str, data: DecideRun) -> str:
    """Return the approval that a run waits for, or that a run waits for which it called."""
    summary = memory.runs.get(run)
    while (called := _waiting(summary).get("run")) is not None:
        summary = memory.runs.get(called)
    waiting = _waiting(summary)
    verification = memory.runs.verify(summary.id)
    if not verification.ok:
        raise NotVerified(
            f"the run {quote(summary.id)} cannot be decided, because its ledger does not vouch for it: "
            f"{verification.reason}",
            hint="Cancel it and start another one",
            run=summary.id,
        )
    if waiting.get("approval") is None:
        raise Conflict(
            f"the run {quote(run)} waits for no approval",
            hint="GET /approvals lists what waits",
            expected="approval",
            actual=waiting.get("kind", summary.status),
        )
    if data.step not in (None, waiting["step"]):
        raise UsageError(
            f"the run {quote(run)} waits at {quote(waiting['step'])}, not at {quote(data.step)}",
            hint="Name that step, or leave `step` out",
            path="$.step",
        )
    return waiting["approval"]


def _waiting(summary: RunSummary) -> dict[str, Any]:
    return summary.waiting or {}


def _called(run: mashin.Run | workflow.Run) -> str | None:
    return _waiting(run.summary).get("run")


router = Router(
    "/runs",
    route_handlers=[
        list_runs,
        get_run,
        list_run_events,
        verify_run,
        deliver_to_run,
        resume_run,
        cancel_run,
        approve_run,
        refuse_run,
    ],
)
