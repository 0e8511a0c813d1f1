"""A work in, what came of it out: the whole run from its first event to its last, or to where it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from memoranda.model.value import decode, encode_checked
from memoranda.runs import executing
from memoranda.runs.executing import Outcome
from memoranda.runs.failures import Failed, Failure
from memoranda.workflow.actions.base import Stopped
from memoranda.workflow.expressions import Template
from memoranda.workflow.runtime.flow import Position, failing, run_block
from memoranda.workflow.runtime.strand import Strand
from memoranda.workflow.runtime.work import Suspended, Work

T = TypeVar("T")


def begin(work: Work, strand: Strand, *, first: Callable[[], None], keep: Callable[[Outcome], T]) -> T:
    """Run a workflow from its first step; `keep` writes down what came of it, with the last events.

    `first` is done once the run is on record.
    """
    plan = work.plan
    skipped = [str(one.details.get("slug")) for one in strand.memory.skipped]
    detail = {"workflow": plan.name, "digest": plan.digest, **({"skipped": skipped} if skipped else {})}
    work.recorder.note("exec_start", payload=encode_checked(work.input, work.memory.limits), detail=detail)

    def prepare() -> None:
        work.recorder.flush()
        with failing("thread"):
            first()
        strand.set_context(_computed(work, strand, work.plan.context, "context"))

    return executing.execute(
        work.recorder, lambda: _outcome(work, strand, first=prepare), keep, limits=work.memory.limits
    )


def go_on(
    work: Work, strand: Strand, at: Position, *, step: str, first: Callable[[], None], keep: Callable[[Outcome], T]
) -> T:
    """Go on with a run that waited at a step; `first` is done once the run is known to be ours to go on with."""

    def claim() -> None:
        # Of two who go on with one run, the ledger lets one write this.
        work.recorder.note("step_record", step, detail={"type": "resumed"})
        work.recorder.flush()
        with failing("thread"):
            first()

    return executing.execute(
        work.recorder, lambda: _outcome(work, strand, first=claim, at=at), keep, limits=work.memory.limits
    )


def _outcome(work: Work, strand: Strand, *, first: Callable[[], None], at: Position = ()) -> Outcome:
    try:
        first()
        run_block(work, strand, work.plan.flow, at)
        output = _computed(work, strand, work.plan.outputs, "outputs")
    except Suspended as suspended:
        return Outcome(status="waiting", waiting=suspended.waiting, position=tuple(suspended.position))
    except Failed as caught:
        return Outcome(status="failed", error=caught.failure)
    except Stopped:
        # Only what a workflow was called from can stop it as a whole.
        message = "the task that called this workflow was cut off"
        return Outcome(status="cancelled", error=Failure(type="cancelled", message=message))
    return Outcome(status="completed", output=output)


def _computed(work: Work, strand: Strand, template: Template | None, section: str) -> dict[str, object]:
    """Return what a section of the file gives, as a value that can be kept."""
    if template is None:
        return {}
    with failing(section):
        return decode(encode_checked(work.value(template, strand), work.memory.limits))
