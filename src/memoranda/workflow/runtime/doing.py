"""A task in, its output out: inputs computed, the action carried out, as often as it may be, and the event made."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec

from memoranda.agent.models import Model
from memoranda.errors import ActionFailed, InvalidValue, LimitExceeded, MemorandaError, Refused, UsageError
from memoranda.lang.plain import encode_plain
from memoranda.model.text import cleaned, quote
from memoranda.model.value import decode, encode_checked
from memoranda.runs.failures import LONGEST_MESSAGE, Failed, Failure, details_of
from memoranda.runs.waiting import Paused
from memoranda.workflow.actions.base import Call, Stopped, Tool, carry_out
from memoranda.workflow.policy import Retrying
from memoranda.workflow.runtime.place import LONGEST_WAIT, CallPlace, Resumed
from memoranda.workflow.runtime.plan import Task, ToolUse, Use
from memoranda.workflow.runtime.strand import Strand
from memoranda.workflow.runtime.threads import within
from memoranda.workflow.runtime.work import Suspended, Work

_WORD = re.compile(r"[a-z0-9_]{1,40}")
_FINAL = (Refused, UsageError)
"""Errors that another attempt would not change."""


def do_task(work: Work, strand: Strand, task: Task, resumed: Resumed | None) -> None:
    """Do a task and put its output under its name; raise Failed when it failed for good."""
    strand.stop.check()
    doing = _Doing(work, strand, task)
    try:
        if resumed is None:
            work.count_step()
        output, written = doing.output(resumed or doing.begin())
    except MemorandaError as error:
        failure = failure_of(error, task.name)
        with strand.stop.going_on():
            doing.note(error=failure.type)
        raise Failed(failure) from error
    # What was cut off meanwhile changes nothing, not even the record.
    with strand.stop.going_on():
        doing.note(payload=written)
        strand.give(task.name, output)
        strand.result = output


def failure_of(error: MemorandaError, step: str) -> Failure:
    """Return an error as the failure of a step."""
    reason = error.details.get("type") if isinstance(error, ActionFailed) else None
    # It goes into the ledger for ever: a word, and nothing that somebody said.
    type = reason if isinstance(reason, str) and reason != "error" and _WORD.fullmatch(reason) else error.code
    message = cleaned(error.message, longest=LONGEST_MESSAGE)
    return Failure(type=type, message=message, step=step, details=details_of(error))


class _Doing:
    """One time that a task is done."""

    def __init__(self, work: Work, strand: Strand, task: Task) -> None:
        self.work = work
        self.strand = strand
        self.task = task
        self.attempts = 0

    def begin(self) -> Resumed:
        """Compute what the action is given."""
        work, task = self.work, self.task
        seen = self.strand.variables(work.input)
        drawing, bounds = work.drawing(), work.behaviour.bounds
        inputs = cast("dict[str, Any]", task.inputs.value(seen, drawing, bounds=bounds))
        settings = _settings(work, self.strand, task.use, timeout=task.policy.timeout_ms)
        # What a call is given has to be kept where it waits.
        for given in (inputs, settings):
            encode_checked(given, work.memory.limits)
        return Resumed(inputs=inputs, settings=settings)

    def output(self, resumed: Resumed) -> tuple[Any, bytes]:
        """Return what the action gives, and the same as JSON, however often it has to be tried."""
        retries = self.task.policy.retries
        self.attempts = resumed.failed
        # What came before is on record before anything reaches out.
        self.work.recorder.flush()
        while True:
            self.attempts += 1
            try:
                return _kept(self._attempt(resumed), self.task.name, self.work)
            except MemorandaError as error:
                if not _again(error, self.attempts, retries):
                    raise
            self.strand.stop.check()
            self.work.behaviour.sleep(delay_before(self.attempts + 1, retries))
            self.strand.stop.check()

    def _attempt(self, resumed: Resumed) -> Any:
        work, strand, task = self.work, self.strand, self.task
        use_tool = partial(_use_tool, work, strand)
        resumed = msgspec.structs.replace(resumed, failed=self.attempts - 1)
        place = CallPlace(work, strand, task.name, use_tool=use_tool, tools=task.use.tools, resumed=resumed)
        call = _call(task.use, task.name, resumed.inputs, resumed.settings, place, work)
        act = partial(self._carried_out, call)
        try:
            if not task.policy.timeout_ms:
                return act()
            return within(task.policy.timeout_ms / 1_000, act)
        except TimeoutError:
            raise ActionFailed(
                f"the task {quote(task.name)} took longer than {task.policy.timeout_ms:g} ms",
                hint="Give it a longer `timeout_ms`, or `retries`",
                type="timeout",
                task=task.name,
                action=task.use.action.name,
                retryable=True,
            ) from None
        finally:
            place.close()

    def _carried_out(self, call: Call) -> Any:
        try:
            return carry_out(self.task.use.action, call)
        except Suspended:
            raise
        except (Stopped, Paused) as signal:
            # Only what this call itself ran into ends it; what an action makes up, or borrows, is a failure of it.
            self.strand.stop.check()
            raise ActionFailed(
                f"the action {quote(call.task)} raised {type(signal).__name__}, which only a run does",
                hint="Use the place of this very call, and let pass what it raises",
                type="error",
                task=call.task,
                action=self.task.use.action.name,
            ) from signal

    def note(self, *, payload: bytes | None = None, error: str | None = None) -> None:
        """Make the event of the task."""
        detail: dict[str, Any] = {"type": self.task.use.action.name}
        if self.attempts > 1:
            detail["attempts"] = self.attempts
        if error is not None:
            detail["error"] = error
        self.work.recorder.note("step_record", self.task.name, payload=payload, detail=detail)


def _call(use: Use, task: str, inputs: dict[str, Any], settings: dict[str, Any], place: CallPlace, work: Work) -> Call:
    model: Model | None = work.reach.model(use.model) if "model" in use.action.bindings else None
    slugs = tuple(one.slug for one in place.memory.mounted(use.memories)) if use.memories else ()
    tools = tuple(Tool(one.name, one.description, one.call.action.inputs) for one in use.tools)
    return Call(task=task, inputs=inputs, settings=settings, place=place, model=model, slugs=slugs, tools=tools)


def _settings(work: Work, strand: Strand, use: Use, *, timeout: float = 0) -> dict[str, Any]:
    settings = work.value(use.settings, strand) if use.settings.computed else use.settings.fixed
    return {**settings, "timeout_ms": timeout} if timeout else settings


def _use_tool(work: Work, strand: Strand, tool: ToolUse, arguments: dict[str, Any], *, within: CallPlace) -> Any:
    """Carry out a tool for a model, and return what it gave; whatever goes wrong is told to the model."""
    work.count_step()
    use = tool.call
    tools = partial(_use_tool, work, strand)
    place = CallPlace(work, strand, tool.name, use_tool=tools, tools=use.tools, within=within)
    detail: dict[str, Any] = {"type": use.action.name, "tool": True}
    written: bytes | None = None
    work.recorder.flush()
    try:
        call = _call(use, tool.name, arguments, _settings(work, strand, use), place, work)
        output, written = _kept(carry_out(use.action, call), tool.name, work)
        return output
    except MemorandaError as error:
        detail["error"] = failure_of(error, tool.name).type
        raise
    finally:
        place.close()
        with suppress(Stopped), within.going_on():
            work.recorder.note("step_record", tool.name, payload=written, detail=detail)


def _kept(output: Any, task: str, work: Work) -> tuple[Any, bytes]:
    """Return an output as a value of its own, and as JSON; refuse what could not be kept."""
    try:
        written = encode_plain(output, work.memory.limits)
    except (InvalidValue, LimitExceeded) as error:
        message = f"what the task {quote(task)} gave cannot be kept: {error.message}"
        raise type(error)(message, hint=error.hint, **error.details) from error
    return decode(written), written


# attempts


def _again(error: MemorandaError, attempts: int, retries: Retrying) -> bool:
    """Say whether a task is tried again after an error."""
    if not retries.enabled or attempts >= retries.max_attempts:
        return False
    return not isinstance(error, _FINAL) and error.details.get("retryable") is not False


def delay_before(attempt: int, retries: Retrying) -> float:
    """Return the seconds to wait before an attempt, the second one or a later one."""
    delay = min(retries.backoff_ms, retries.max_delay_ms)
    for _ in range(attempt - 2):
        longer = min(delay * retries.multiplier, retries.max_delay_ms)
        if longer == delay:
            break
        delay = longer
    spread = random.uniform(-retries.jitter, retries.jitter) if retries.jitter else 0.0
    return min(max(min(delay * (1 + spread), retries.max_delay_ms), 0.0) / 1_000, LONGEST_WAIT)
