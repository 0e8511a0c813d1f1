"""A work in, what came of it out: the whole run from its first event to its last, or to where it waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec

from recollect.errors import RecollectError
from recollect.mashin.runtime.failures import Failed, Failure, failed, failure_of
from recollect.mashin.runtime.flow import run_main
from recollect.mashin.runtime.work import Work
from recollect.model.run import RunStatus
from recollect.model.value import encode_checked
from recollect.runs.waiting import Paused, Unrecorded, Waiting


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended."""

    status: RunStatus
    output: Any = None
    error: Failure | None = None
    waiting: Waiting | None = None


def execute(work: Work, keep: Callable[[Outcome], Outcome]) -> Outcome:
    """Run the steps of a machine; `keep` writes down what came of them, with the last events."""
    try:
        return _execute(work, keep)
    except Unrecorded as broken:
        raise broken.error from broken


def _execute(work: Work, keep: Callable[[Outcome], Outcome]) -> Outcome:
    plan = work.plan
    work.recorder.note(
        "exec_start",
        payload=encode_checked(work.input, work.limits),
        detail={"machine": plan.name, "digest": plan.digest, "mode": work.mode},
    )
    try:
        outcome = _outcome(work)
    except Unrecorded:
        raise
    except BaseException as error:
        # A run that nobody ends would look as if it still went on. If it cannot be recorded either, that is how it is.
        message = f"the run was interrupted by {type(error).__name__}"
        with suppress(Unrecorded):
            _end(work, Outcome(status="failed", error=Failure(type="runtime", message=message)), keep)
        raise
    return _end(work, outcome, keep)


def _end(work: Work, outcome: Outcome, keep: Callable[[Outcome], Outcome]) -> Outcome:
    if outcome.status != "waiting":
        detail: dict[str, Any] = {"status": outcome.status, "mode": work.mode}
        if outcome.error is not None:
            detail |= {"error": outcome.error.type, "at": outcome.error.step}
        work.recorder.note("exec_end", payload=encode_checked(outcome.output, work.limits), detail=detail)
    return keep(outcome)


def _outcome(work: Work) -> Outcome:
    try:
        output = _respond(work, run_main(work))
    except Paused as pause:
        return Outcome(status="waiting", waiting=pause.waiting)
    except Failed as caught:
        return Outcome(status="failed", error=caught.failure)
    return Outcome(status="completed", output=output)


def _respond(work: Work, value: Any) -> Any:
    """Return the output: of the last step, or of the steps that its fields name."""
    try:
        if work.plan.responds is not None:
            given = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
            for field, path in work.plan.origins.items():
                given[field] = _read(work, field, path)
            taking = work.take("responds with")
            value = work.plan.responds.respond(given, run=taking.run, names=work.names)
            taking.done()
        encode_checked(value, work.limits)
    except RecollectError as error:
        failure = failure_of(error, "")
        raise Failed(msgspec.structs.replace(failure, type="contract")) from error
    return value


def _read(work: Work, field: str, path: tuple[str, ...]) -> Any:
    first, *rest = path if path[0] not in ("steps", "state") or len(path) == 1 else list(path[1:])
    place: dict[str, Any] = work.names if first in ("input", "context") else work.steps
    if first not in place:
        raise failed("contract", f"the output `{field}` comes from `{'.'.join(path)}`, which gave nothing", "")
    value: Any = place[first]
    for name in rest:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    if not rest and isinstance(value, dict):
        return cast("dict[str, Any]", value).get(field, value)
    return value
