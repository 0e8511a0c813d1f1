"""`/machines`, `/workflows` and `/runs`: programs that the server has loaded, run for whoever calls."""

from __future__ import annotations

from litestar import Router, get, post
from litestar.datastructures import State
from litestar.params import JSONBody

from recollect import mashin, workflow
from recollect.errors import UsageError
from recollect.model.text import quote
from recollect.server.answers import problems
from recollect.server.paging import decode_cursor, page
from recollect.server.parameters import PAGE, After, Name, PageLimit, Reach
from recollect.server.places import name_of
from recollect.server.programs import Programs
from recollect.wire.runs import CancelRun, DeliverToRun, Run, RunEvents, Runs, StartRun


@post(
    "/machines/{machine:str}/runs", sync_to_thread=True, responses=problems(404, 409, 502, 507), summary="Run a machine"
)
def run_machine(access: Reach, state: State, machine: Name, data: JSONBody[StartRun]) -> Run:
    """Run a machine for the caller, until it ends or waits; a run that failed says why in its `error`."""
    if data.thread is not None:
        raise UsageError("a machine runs in no thread", hint="Leave `thread` out", path="$.thread")
    loaded = _programs(state).machine(name_of(machine), access.caller)
    return run_out(loaded.run(data.input, mode=data.mode, user=access.caller.user))


@post(
    "/workflows/{workflow:str}/runs",
    sync_to_thread=True,
    responses=problems(404, 409, 502, 507),
    summary="Run a workflow",
)
def run_workflow(access: Reach, state: State, workflow: Name, data: JSONBody[StartRun]) -> Run:
    """Run a workflow for the caller, until it ends or waits; a run that failed says why in its `error`."""
    if data.mode != "live":
        raise UsageError("a workflow has no test mode", hint="Leave `mode` out", path="$.mode")
    loaded = _programs(state).workflow(name_of(workflow), access.caller)
    return run_out(loaded.run(data.input, owner=access.caller.user, thread=data.thread))


@get("/runs", sync_to_thread=True, responses=problems(), summary="List runs")
def list_runs(access: Reach, state: State, after: After = None, limit: PageLimit = PAGE) -> Runs:
    """Return where the caller's runs stand, those that started last first."""
    last = decode_cursor(after)
    every = _programs(state).runs(access.caller)
    begin = next((place for place, one in enumerate(every, start=1) if one.id == last), 0)
    kept, go_on = page(every[begin : begin + limit + 1], limit, lambda one: one.id)
    return Runs(runs=kept, next=go_on)


@get("/runs/{run:str}", sync_to_thread=True, responses=problems(404, 409), summary="Get a run")
def get_run(access: Reach, state: State, run: Name) -> Run:
    """Return a run of the caller as it stands; if a time that it waits for is over, it is not taken up by looking."""
    return run_out(_programs(state).find(name_of(run), access.caller))


@post(
    "/runs/{run:str}/deliver",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 502, 507),
    summary="Give a run what it waits for",
)
def deliver_to_run(access: Reach, state: State, run: Name, data: JSONBody[DeliverToRun]) -> Run:
    """Give a run the event that it waits for, and let it go on until it ends or waits again."""
    return run_out(_programs(state).find(name_of(run), access.caller).deliver(data.payload))


@post(
    "/runs/{run:str}/cancel",
    sync_to_thread=True,
    status_code=200,
    responses=problems(404, 409, 507),
    summary="End a run",
)
def cancel_run(access: Reach, state: State, run: Name, data: JSONBody[CancelRun]) -> Run:
    """End a workflow's run that waits, and the runs that it waits for."""
    found = _programs(state).find(name_of(run), access.caller)
    if isinstance(found, mashin.Run):
        raise UsageError(f"the run {quote(found.id)} is a machine's, which nobody can cancel", hint="Let it end")
    return run_out(found.cancel(reason=data.reason, force=data.force))


@get("/runs/{run:str}/events", sync_to_thread=True, responses=problems(404), summary="Get the events of a run")
def list_run_events(access: Reach, state: State, run: Name) -> RunEvents:
    """Return what the ledger says of a run of the caller, in order."""
    programs = _programs(state)
    id = programs.summary(name_of(run), access.caller).id
    return RunEvents(events=programs.handle(access.caller).runs.events(id))


def run_out(run: mashin.Run | workflow.Run) -> Run:
    """Return a run as it travels."""
    summary = run.summary
    of_machine = isinstance(run, mashin.Run)
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


def _programs(state: State) -> Programs:
    return state.programs


router = Router(
    "/",
    route_handlers=[run_machine, run_workflow, list_runs, get_run, deliver_to_run, cancel_run, list_run_events],
)
