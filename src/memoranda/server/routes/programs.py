"""`/machines` and `/workflows`: programs that the server has loaded, run for whoever calls."""

from __future__ import annotations

from litestar import Router, post
from litestar.datastructures import State
from litestar.params import JSONBody

from memoranda.errors import UsageError
from memoranda.server.answers import problems
from memoranda.server.bodies import StrictRequest
from memoranda.server.parameters import Name
from memoranda.server.places import name_of
from memoranda.server.programs import programs_of
from memoranda.server.routes.runs import run_out
from memoranda.wire.runs import Run, StartRun


@post(
    "/machines/{machine:str}/runs", sync_to_thread=True, responses=problems(404, 409, 502, 507), summary="Run a machine"
)
def run_machine(request: StrictRequest, state: State, machine: Name, data: JSONBody[StartRun]) -> Run:
    """Run a machine for the caller, until it ends or waits; a run that failed says why in its `error`."""
    if data.thread is not None:
        raise UsageError("a machine runs in no thread", hint="Leave `thread` out", path="$.thread")
    loaded = programs_of(state).machine(name_of(machine), request.auth.caller)
    return run_out(loaded.run(data.input, mode=data.mode, user=request.auth.caller.user))


@post(
    "/workflows/{workflow:str}/runs",
    sync_to_thread=True,
    responses=problems(404, 409, 502, 507),
    summary="Run a workflow",
)
def run_workflow(request: StrictRequest, state: State, workflow: Name, data: JSONBody[StartRun]) -> Run:
    """Run a workflow for the caller, until it ends or waits; a run that failed says why in its `error`."""
    if data.mode != "live":
        raise UsageError("a workflow has no test mode", hint="Leave `mode` out", path="$.mode")
    loaded = programs_of(state).workflow(name_of(workflow), request.auth.caller)
    return run_out(loaded.run(data.input, owner=request.auth.caller.user, thread=data.thread))


router = Router("/", route_handlers=[run_machine, run_workflow])
