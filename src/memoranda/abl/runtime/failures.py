"""Errors of steps: a fault in; what `ON_ERROR` says to do about it, out."""

from __future__ import annotations

from collections.abc import Callable

from memoranda.abl.runtime.plan import AGAIN, Block, ErrorPlan, Leap, Signal
from memoranda.abl.runtime.work import Fault, Work

DEFAULT_MESSAGE = "Something went wrong. Please try again."

_ALSO = {
    "tool_timeout": ("tool_timeout", "timeout", "tool_error"),
    "api_error": ("api_error", "tool_error"),
    "tool_error": ("tool_error", "api_error"),
    "validation_error": ("validation_error", "invalid_input"),
    "llm_error": ("llm_error", "api_error"),
}
"""Under which types an error is looked up, the closest first; `unknown_error` and `default` catch the rest."""

REPEAT = Block(-1, None, stays=False)
"""What `answer_fault` gives when the action is to be done again at once."""


def answer_fault(work: Work, fault: Fault, tried: int, aside: Callable[[Work, Block], Signal]) -> Signal:
    """Return what follows a fault: another attempt, another place, the next action, or a halt with a message."""
    work.note("error", fault.kind, message=fault.message, subtype=fault.subtype or None)
    handler = find_handler(work, fault)
    if handler is None:
        apologise(work, fault.kind)
        work.wait("halted")
        return AGAIN
    if tried < min(handler.retry, work.behaviour.retries):
        work.behaviour.sleep(_delay(handler, tried))
        return REPEAT
    went = aside(work, handler.block)
    if went is not None:
        return went
    return _then(work, handler)


def apologise(work: Work, kind: str, otherwise: str = DEFAULT_MESSAGE) -> None:
    """Say what `MESSAGES` has for an error of a type, or for any; what is said otherwise, where it has nothing."""
    messages = work.frame.plan.messages
    said = messages.get(kind) or messages.get("error_default")
    work.say(work.render(said) if said else otherwise)


def find_handler(work: Work, fault: Fault) -> ErrorPlan | None:
    """Return the handler of a fault: the step's before the agent's, one for its subtype before one for all."""
    step = work.frame.step
    kinds = (*_ALSO.get(fault.kind, (fault.kind,)), "unknown_error", "default")
    for handlers in (step.on_error if step else (), work.frame.plan.on_error):
        for kind in kinds:
            for handler in sorted(handlers, key=lambda one: not one.subtypes):
                if handler.type == kind and (not handler.subtypes or fault.subtype in handler.subtypes):
                    return handler
    return None


def _delay(handler: ErrorPlan, tried: int) -> float:
    grown = {"linear": tried + 1, "exponential": 2**tried}.get(handler.backoff, 1)
    return min(handler.delay * grown, handler.longest)


def _then(work: Work, handler: ErrorPlan) -> Signal:
    then = handler.then
    if then is None or then.kind == "continue":
        if then is None and not handler.back_to:
            work.wait("halted")
            return AGAIN
        return Leap("step", handler.back_to) if handler.back_to else None
    if then.kind == "backtrack":
        return Leap("step", handler.back_to) if handler.back_to else Leap("backtrack")
    return then
