"""Remember triggers: the state after a turn in, facts out."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from memoranda.abl.runtime.plan import CompletePlan, TriggerPlan
from memoranda.abl.runtime.work import Fault, Frame, Work
from memoranda.errors import LimitExceeded
from memoranda.lang.expression.dialect import Run
from memoranda.model.value import canonical


class _Still:
    """A clock and a source of ids that never change, so that a value can be compared with an earlier one."""

    def now(self) -> datetime:
        return datetime(2000, 1, 1, tzinfo=UTC)

    def new(self, kind: str) -> str:
        return kind


_STILL = _Still()


def remember(work: Work, frame: Frame) -> None:
    """Store what the triggers of an agent say, in the order of the file."""
    stored = frame.state.stored
    for trigger in frame.plan.triggers:
        try:
            if work.test(trigger.when, frame.names):
                _store(work, frame, trigger)
            elif trigger.id in stored:
                del stored[trigger.id]
        except Fault as fault:
            # One that cannot be computed does not keep the others back.
            work.note("error", fault.kind, message=fault.message, when=trigger.text)


def _store(work: Work, frame: Frame, trigger: TriggerPlan) -> None:
    """Store the value of a trigger whose condition holds, unless it is what was stored last."""
    stored = frame.state.stored
    # A value that holds the time or a new id is another one in every turn; what it is made from is not.
    try:
        digest = _digest(trigger.value.value(frame.names, Run(clock=_STILL, ids=_STILL)))
    except LimitExceeded as error:
        raise Fault("validation_error", error.message) from None
    if work.behaviour.remember == "changes" and stored.get(trigger.id) == digest:
        return
    value = work.value(trigger.value, frame.names)
    stored[trigger.id] = digest
    kept = (stored, trigger.id)
    frame.facts.store(work, trigger.target, trigger.below, value, trigger.ttl, trigger.text, kept)


def store_result(work: Work, frame: Frame, complete: CompletePlan) -> None:
    """Store what a `COMPLETE` says, once."""
    if complete.value is None or complete.target is None:
        return
    value = work.value(complete.value, frame.names)
    frame.facts.store(work, complete.target, complete.below, value, None, "")


def _digest(value: object) -> str:
    try:
        return hashlib.blake2b(canonical(value), digest_size=9).hexdigest()
    except (TypeError, UnicodeEncodeError, RecursionError):
        return "unequal"
