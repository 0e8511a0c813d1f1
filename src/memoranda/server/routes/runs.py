"""Routes of machines, workflows and runs, and of what waits for a decision: approvals and conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from litestar import Response, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from memoranda.api.memory import Memory
from memoranda.engine.erasure import Sweep
from memoranda.errors import Conflict, Denied, NotVerified, UsageError
from memoranda.model.event import Language, RunStatus, RunSummary
from memoranda.model.scope import Scope
from memoranda.model.text import quote
from memoranda.server.pagination import (
    decode_cursor,
    decode_number,
    decode_time_cursor,
    page,
    page_from,
    page_of_list,
    time_position,
)
from memoranda.server.requests import LARGEST_PAGE, PAGE, After, Name, PageLimit, StrictRequest
from memoranda.server.responses import JsonResponse, in_thread
from memoranda.wire.runs import (
    Approval,
    Approvals,
    CancelRun,
    Conflicts,
    Decide,
    Decided,
    DecideRun,
    DeliverToRun,
    ProgramKind,
    ProgramList,
    ProgramVersions,
    Reloaded,
    Resolve,
    Run,
    RunEvents,
    Runs,
    RunSteps,
    RunVerification,
    StartRun,
    approval_json,
    conflict_json,
    decision_json,
)

if TYPE_CHECKING:
    from memoranda.runs.run import RunHandle


Program = Annotated[str | None, QueryParameter(description="Return only runs of this machine or workflow.")]


@get("/runs", **in_thread("List runs"))
def list_runs(
    request: StrictRequest,
    status: FromQuery[RunStatus | None] = None,
    program: Program = None,
    language: FromQuery[Language | None] = None,
    after: After = None,
    limit: PageLimit = PAGE,
) -> Response[Runs]:
    """Return the caller's runs, newest first."""
    found = request.programs.runs(
        request.auth.principal,
        status=status,
        program=program,
        language=language,
        after=decode_time_cursor(after),
        limit=limit + 1,
    )
    kept, go_on = page(found, limit, lambda run: time_position(run.started_at, run.id), max_bytes=request.page_bytes)
    return JsonResponse(Runs(runs=kept, next=go_on))


@get("/runs/{run:str}", **in_thread("Get a run", 404, 409))
def get_run(request: StrictRequest, run: Name) -> Run:
    """Return a run of the caller. Reading it does not resume it, even if the time it waits for has passed."""
    return run_json(request.programs.find(run, request.auth.principal))


@get("/runs/{run:str}/events", **in_thread("Get the events of a run", 404))
def list_run_events(
    request: StrictRequest, run: Name, after: After = None, limit: PageLimit = LARGEST_PAGE
) -> Response[RunEvents]:
    """Return the ledger events of a run of the caller, in order."""
    programs, most = request.programs, request.page_bytes
    id = programs.summary(run, request.auth.principal).id
    found = programs.handle(request.auth.principal).runs.events(
        id, after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda event: event.position, max_bytes=most)
    return JsonResponse(RunEvents(events=kept, next=go_on))


@get("/runs/{run:str}/steps", **in_thread("Get the steps of a run", 404))
def list_run_steps(
    request: StrictRequest, run: Name, after: After = None, limit: PageLimit = PAGE
) -> Response[RunSteps]:
    """Return what was recorded of the steps of a run of the caller: inputs, outputs, messages, times and memory."""
    programs, most = request.programs, request.page_bytes
    id = programs.summary(run, request.auth.principal).id
    found = programs.handle(request.auth.principal).runs.steps(
        id, after=decode_number(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda step: step.number, max_bytes=most)
    return JsonResponse(RunSteps(steps=kept, next=go_on))


@get("/runs/{run:str}/verify", **in_thread("Verify a run", 404))
def verify_run(request: StrictRequest, run: Name) -> RunVerification:
    """Verify the hash chain of a run of the caller."""
    programs = request.programs
    id = programs.summary(run, request.auth.principal).id
    return programs.handle(request.auth.principal).runs.verify(id)


@post("/runs/{run:str}/deliver", **in_thread("Deliver an event to a run", 404, 409, 502, 507, status=200))
def deliver_to_run(request: StrictRequest, run: Name, data: JSONBody[DeliverToRun]) -> Run:
    """Deliver the event that a run waits for, and resume it until it ends or waits again."""
    programs = request.programs
    runs = [programs.find(run, request.auth.principal)]
    # A workflow passes the event on to the run that it waits for; of machines, the innermost run gets it.
    while runs[-1].summary.language == "mashin" and (called := _called_run(runs[-1])) is not None:
        below = programs.find(called, request.auth.principal)
        if below.waiting is None:
            break
        runs.append(below)
    *above, lowest = runs
    went = lowest.deliver(data.payload)
    for one in reversed(above):
        if went.waiting is not None:
            return run_json(runs[0])
        went = one.resume()
    return run_json(went)


@post("/runs/{run:str}/resume", **in_thread("Resume a run", 404, 409, 502, 507, status=200))
def resume_run(request: StrictRequest, run: Name) -> Run:
    """Resume a run if what it waits for has happened: a decision, a timer, or the end of another run.

    A run that still has to wait is returned unchanged.
    """
    return run_json(request.programs.find(run, request.auth.principal).resume())


@post("/runs/{run:str}/cancel", **in_thread("Cancel a run", 404, 409, 507, status=200))
def cancel_run(request: StrictRequest, run: Name, data: JSONBody[CancelRun]) -> Run:
    """Cancel a waiting run, and the runs that it waits for."""
    found = request.programs.find(run, request.auth.principal)
    return run_json(found.cancel(reason=data.reason, force=data.force))


# Owners cannot approve their own steps, so these two routes find runs of others, and return only the approval.


@post("/runs/{run:str}/approve", **in_thread("Approve the pending step of a run", 404, 409, 507, status=200))
def approve_run(request: StrictRequest, run: Name, data: JSONBody[DecideRun]) -> Approval:
    """Approve the pending step of another user's run; it continues when its owner resumes it."""
    pending = _pending_approval(request.auth.memory, run, data)
    return approval_json(request.auth.memory.approvals.approve(pending, reason=data.reason).approval)


@post("/runs/{run:str}/refuse", **in_thread("Refuse the pending step of a run", 404, 409, 507, status=200))
def refuse_run(request: StrictRequest, run: Name, data: JSONBody[DecideRun]) -> Approval:
    """Refuse the pending step of another user's run; the step fails, and its error handling applies."""
    pending = _pending_approval(request.auth.memory, run, data)
    return approval_json(request.auth.memory.approvals.refuse(pending, reason=data.reason).approval)


def run_json(run: RunHandle[Any]) -> Run:
    """Return a run as its wire type."""
    summary = run.summary
    return Run(
        id=run.id,
        program=summary.program,
        status=run.status,
        output=run.output,
        outputs=run.results,
        messages=run.messages,
        error=summary.error,
        waiting=summary.waiting,
        language=summary.language,
        digest=summary.digest,
        started_at=summary.started_at,
        ended_at=summary.ended_at,
        parent=summary.parent,
        recorded=summary.recorded,
    )


def _pending_approval(memory: Memory, run: str, data: DecideRun) -> str:
    """Return the id of the approval that a run, or a run called by it, waits for."""
    summary = memory.runs.get(run)
    while (called := _waiting(summary).get("run")) is not None:
        summary = memory.runs.get(called)
    waiting = _waiting(summary)
    verification = memory.runs.verify(summary.id)
    if not verification.ok:
        raise NotVerified(
            f"the run {quote(summary.id)} cannot be decided, because its ledger is not intact: {verification.reason}",
            hint="Cancel it and start a new one",
            run=summary.id,
        )
    if waiting.get("approval") is None:
        raise Conflict(
            f"the run {quote(run)} does not wait for an approval",
            hint="GET /approvals lists pending approvals",
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


def _called_run(run: RunHandle[Any]) -> str | None:
    return _waiting(run.summary).get("run")


@get("/machines", **in_thread("List machines"))
def list_machines(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[ProgramList]:
    """Return the machines of the server, with their inputs, bindings and diagnostics."""
    return _page_of_programs(request, ("machine",), after, limit)


@get("/workflows", **in_thread("List workflows"))
def list_workflows(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[ProgramList]:
    """Return the workflows of the server, with their inputs, bindings and diagnostics."""
    return _page_of_programs(request, ("workflow",), after, limit)


@get("/agents", **in_thread("List agents"))
def list_agents(request: StrictRequest, after: After = None, limit: PageLimit = PAGE) -> Response[ProgramList]:
    """Return the agents of the server: those in ABL, and those to chat with."""
    return _page_of_programs(request, ("agent", "chat_agent"), after, limit)


def _page_of_programs(
    request: StrictRequest, kinds: tuple[ProgramKind, ...], after: str | None, limit: int
) -> Response[ProgramList]:
    found = request.programs.summaries(*kinds)
    # Files that failed have no name of their own, so the file counts too.
    kept, go_on = page_of_list(
        found, after, limit, lambda one: f"{one.name} {one.kind} {one.file}", max_bytes=request.page_bytes
    )
    return JsonResponse(ProgramList(programs=kept, next=go_on))


@get("/machines/{machine:str}/versions", **in_thread("List the versions of a machine", 404))
def list_machine_versions(request: StrictRequest, machine: Name) -> ProgramVersions:
    """Return the texts of a machine by digest, with when each was loaded and how many runs began with it."""
    return ProgramVersions(versions=request.programs.versions("mashin", machine, request.auth.principal))


@get("/workflows/{workflow:str}/versions", **in_thread("List the versions of a workflow", 404))
def list_workflow_versions(request: StrictRequest, workflow: Name) -> ProgramVersions:
    """Return the texts of a workflow by digest, with when each was loaded and how many runs began with it."""
    return ProgramVersions(versions=request.programs.versions("workflow", workflow, request.auth.principal))


@post("/programs/reload", **in_thread("Reload the programs", 409, status=200))
def reload_programs(request: StrictRequest) -> Reloaded:
    """Load the program files again, in every process of the server; for administrators.

    Runs that have begun continue with the text they began with. If a file that was loaded cannot be loaded any more,
    or a new one cannot, nothing changes, and the error lists what is wrong.
    """
    access = request.auth
    if not access.memory.may(Sweep(scope=Scope(access.principal.tenant))):
        raise Denied(
            f"`{access.principal.actor}` may not reload programs",
            hint="Ask an administrator of the tenant",
            capability=Sweep.capability,
            actor=access.principal.actor,
        )
    return request.programs.reload()


@post("/machines/{machine:str}/runs", **in_thread("Run a machine", 404, 409, 502, 507))
def run_machine(request: StrictRequest, machine: Name, data: JSONBody[StartRun]) -> Run:
    """Run a machine for the caller until it ends or waits; a failed run has an `error`."""
    if data.thread is not None:
        raise UsageError("a machine has no `thread`", hint="Leave it out", path="$.thread")
    loaded = request.programs.program("mashin", machine, request.auth.principal)
    return run_json(loaded.run(data.input, mode=data.mode, user=request.auth.principal.user))


@post("/workflows/{workflow:str}/runs", **in_thread("Run a workflow", 404, 409, 502, 507))
def run_workflow(request: StrictRequest, workflow: Name, data: JSONBody[StartRun]) -> Run:
    """Run a workflow for the caller until it ends or waits; a failed run has an `error`."""
    if data.mode != "live":
        raise UsageError("a workflow has no test mode", hint="Leave `mode` out", path="$.mode")
    loaded = request.programs.program("workflow", workflow, request.auth.principal)
    return run_json(loaded.run(data.input, owner=request.auth.principal.user, thread=data.thread))


StatusFilter = Annotated[
    Literal["pending", "approved", "refused", "all"],
    QueryParameter(name="status", description="Pending or decided approvals."),
]


@get("/approvals", **in_thread("List approvals"))
def list_approvals(
    request: StrictRequest, asked: StatusFilter = "pending", after: After = None, limit: PageLimit = PAGE
) -> Response[Approvals]:
    """Return the pending approvals of the tenant, oldest first, or those with another `status`."""
    most = request.page_bytes
    # By id, because the last approval of the previous page may have been decided since.
    found = request.auth.memory.approvals.list(
        status=asked, after=decode_cursor(after), limit=limit + 1, max_bytes=most
    )
    kept, go_on = page(found, limit, lambda one: one.id, max_bytes=most, out=approval_json)
    return JsonResponse(Approvals(approvals=kept, next=go_on))


@get("/approvals/{approval:str}", **in_thread("Get an approval", 404))
def get_approval(request: StrictRequest, approval: Name) -> Approval:
    """Return an approval with its pending effect."""
    return approval_json(request.auth.memory.approvals.get(approval))


@post("/approvals/{approval:str}/approve", **in_thread("Approve a pending effect", 404, 409, 502, 507, status=200))
def approve_waiting(request: StrictRequest, approval: Name, data: JSONBody[Decide]) -> Decided:
    """Carry out a pending effect for the actor who requested it, and return its result."""
    decided = request.auth.memory.approvals.approve(approval, reason=data.reason)
    return decision_json(decided.approval, decided.result)


@post("/approvals/{approval:str}/refuse", **in_thread("Refuse a pending effect", 404, 409, 507, status=200))
def refuse_waiting(request: StrictRequest, approval: Name, data: JSONBody[Decide]) -> Decided:
    """Refuse a pending effect; it is not carried out."""
    decided = request.auth.memory.approvals.refuse(approval, reason=data.reason)
    return decision_json(decided.approval, decided.result)


Below = Annotated[
    str | None, QueryParameter(name="scope", description="Only those at and below this scope, such as `user:ada`.")
]


@get("/conflicts", **in_thread("List conflicts"))
def list_conflicts(
    request: StrictRequest, named: Below = None, after: After = None, limit: PageLimit = PAGE
) -> Response[Conflicts]:
    """Return the writes that wait because they contradict something more trusted, with what is current, oldest first.

    A write of several places has one conflict for each, with the same id.
    """
    memory, begin = request.auth.memory, decode_number(after)
    found = memory.conflicts(None if named is None else Scope.named(named, tenant=memory.tenant))
    kept, go_on = page_from([conflict_json(one) for one in found], begin, limit, max_bytes=request.page_bytes)
    return JsonResponse(Conflicts(conflicts=kept, next=go_on))


@post("/conflicts/{conflict:str}", **in_thread("Resolve a conflict", 404, 409, 502, 507, status=200))
def resolve_conflict(request: StrictRequest, conflict: Name, data: JSONBody[Resolve]) -> Decided:
    """Keep what is current, or take what was proposed: it is then written for the actor who proposed it."""
    decided = request.auth.memory.resolve(conflict, data.verdict, reason=data.reason)
    return decision_json(decided.approval, decided.result)


@get("/quarantine", **in_thread("List the quarantine"))
def list_quarantine(
    request: StrictRequest, named: Below = None, after: After = None, limit: PageLimit = PAGE
) -> Response[Approvals]:
    """Return the writes that the guard held back, with what was found in them, oldest first."""
    memory = request.auth.memory
    found = memory.quarantine.list(None if named is None else Scope.named(named, tenant=memory.tenant))
    kept, go_on = page_of_list(found, after, limit, lambda one: one.id, max_bytes=request.page_bytes, out=approval_json)
    return JsonResponse(Approvals(approvals=kept, next=go_on))


@post("/quarantine/{held:str}/release", **in_thread("Release a held write", 404, 409, 502, 507, status=200))
def release_held(request: StrictRequest, held: Name, data: JSONBody[Decide]) -> Decided:
    """Store what was held; it stays as little trusted as its writer."""
    decided = request.auth.memory.quarantine.release(held, data.reason)
    return decision_json(decided.approval, decided.result)


@post("/quarantine/{held:str}/discard", **in_thread("Discard a held write", 404, 409, 507, status=200))
def discard_held(request: StrictRequest, held: Name, data: JSONBody[Decide]) -> Decided:
    """Drop what was held."""
    decided = request.auth.memory.quarantine.discard(held, data.reason)
    return decision_json(decided.approval, decided.result)
