"""A work in, what came of it out: the whole run from its first event to its last, or to where it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from memoranda.errors import MemorandaError
from memoranda.mashin.runtime.failures import failed, failure_of
from memoranda.mashin.runtime.flow import run_main
from memoranda.mashin.runtime.work import Work
from memoranda.model.value import encode_checked
from memoranda.runs import executing
from memoranda.runs.executing import Outcome
from memoranda.runs.failures import Failed
from memoranda.runs.waiting import Paused

T = TypeVar("T")


def execute(work: Work, keep: Callable[[Outcome], T]) -> T:
    """Run the steps of a machine; `keep` writes down what came of them, with the last events."""
    plan = work.plan
    work.recorder.note(
        "exec_start",
        payload=encode_checked(work.input, work.limits),
        detail={"machine": plan.name, "digest": plan.digest, "mode": work.mode},
    )
    return executing.execute(work.recorder, lambda: _outcome(work), keep, limits=work.limits, said={"mode": work.mode})


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
    except MemorandaError as error:
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
