"""Run one task: compute its inputs, call its action with retries and a timeout, and record the event.

An action reaches its run through a `_CallPlace`. A call that waits is left by an exception and made again later; what
it had sent, received and called by then is replayed from `Resumed`, so that nothing happens twice.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, cast

import msgspec

from memoranda.agent.models import Model
from memoranda.engine.omissions import ReadOmissions
from memoranda.errors import ActionFailed, InvalidValue, LimitExceeded, MemorandaError, NotFound, Refused, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.python_functions import encode_json
from memoranda.model.names import THREAD_RECORD, require_label
from memoranda.model.omission import Omissions
from memoranda.model.scope import Scope
from memoranda.model.text import quote, storable_text
from memoranda.model.trust import OriginKind
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs.forgotten import ForgetfulModel
from memoranda.runs.outcome import LONGEST_MESSAGE, CallResult, Failure, Paused, StepFailed, Waiting, details_of
from memoranda.runs.provenance import OWN, Provenance, provenance_of_message, together
from memoranda.runs.steps import OpenStep, WatchedModel
from memoranda.workflow.actions.base import Call, Message, Stopped, Tool, carry_out
from memoranda.workflow.keywords import RESERVED_CONTEXT
from memoranda.workflow.runtime.parallel import within
from memoranda.workflow.runtime.plan import Retrying, Task, ToolUse, Use
from memoranda.workflow.runtime.state import Execution, Stop, Strand, Suspended
from memoranda.workflow.threads import Thread, add_message, check_text, read_messages

LONGEST_WAIT = 3_600 * 24 * 365 * 10
"""Seconds: ten years."""


class Resumed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a call that waits, for making it again."""

    inputs: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    delivered: tuple[Any, ...] = ()
    """What was delivered for each of its waits."""
    sent: int = 0
    """How many messages it had sent."""
    called: tuple[Any, ...] = ()
    """The outputs of the workflows it had called."""
    pending: str | None = None
    """The run of a called workflow that is itself waiting."""
    heard: int = 0
    """How many messages of that run were passed on to the owner."""
    failed: int = 0
    """How many attempts had failed before the one that waits."""
    provenance: Provenance = OWN
    """Where its inputs and settings come from, and what it was told so far."""


class _UseTool(Protocol):
    def __call__(self, tool: ToolUse, arguments: dict[str, Any], *, within: _CallPlace) -> tuple[Any, Provenance]: ...


class _CallPlace:
    """The `Place` of one call; `within` is the call of a model that uses this one as its tool."""

    def __init__(
        self,
        execution: Execution,
        strand: Strand,
        task: str,
        *,
        use_tool: _UseTool,
        resumed: Resumed | None = None,
        within: _CallPlace | None = None,
        use: Use,
        provenance: Provenance,
    ) -> None:
        self._execution = execution
        self._strand = strand
        self._task = task
        self._tools = {tool.name: tool for tool in use.tools}
        self._use_tool = use_tool
        self._resumed = resumed or Resumed()
        self._within = within
        self._stop = Stop(strand.stop if within is None else within._stop)
        trusted = execution.behaviour.trusted_tools
        self._is_trusted = task in trusted or use.action.name in trusted
        self._kind: OriginKind | None = use.action.origin
        self.made_of = provenance
        """Where what the action knows comes from."""
        around = strand.memory if within is None else within.memory
        self.memory = around.branch(self._stop.while_running, lambda: self.provenance.kind)
        self.run = execution.id
        self.workflow = execution.plan.name
        self.owner = execution.owner
        self.thread = execution.thread.id if execution.thread is not None else None
        self.clock = execution.memory.clock
        self.egress = execution.reach.egress
        self._waits = 0
        self._sent = 0
        self._called: list[Any] = []

    @property
    def provenance(self) -> Provenance:
        """Where what the action stores and gives comes from."""
        return OWN if self._is_trusted else self.made_of | Provenance(self._kind)

    def tell_model(self, made_of: Provenance) -> None:
        self.made_of |= made_of
        refs = self.made_of.refs
        self._execution.memory.record_prompt(self._owner_scope, refs, to=f"run:{self.run}")

    @property
    def _owner_scope(self) -> Scope:
        return Scope.of(tenant=self._execution.memory.tenant, user=self.owner)

    def while_running(self) -> AbstractContextManager[None]:
        return self._stop.while_running()

    def close(self) -> None:
        self._stop.set()

    @property
    def input(self) -> dict[str, Any]:
        # A copy: an action may change what it is given.
        return decode(encode(self._execution.input))

    def send(self, text: str) -> None:
        check_text(text, self._execution.memory.limits.content_bytes)
        encode_checked(text, self._execution.memory.limits)
        with self._stop.while_running():
            self._sent += 1
            if self._sent <= self._resumed.sent:
                return
            thread = self._execution.thread
            if thread is not None:
                name = self.workflow
                kind = self.provenance.kind
                memory = self._execution.memory
                add_message(memory, thread, text, sender=name, by_owner=False, workflow=name, kind=kind)
            self._execution.messages.append(text)

    def history(self, limit: int) -> list[Message]:
        self._stop.check()
        thread = self._execution.thread
        if thread is None:
            return []
        found = read_messages(self._execution.memory, thread, limit)
        self.made_of |= together(map(provenance_of_message, found))
        return self._shown([msgspec.convert(fact.value, Message) for fact in found], thread)

    def _shown(self, said: list[Message], thread: Thread) -> list[Message]:
        """Return messages without what was forgotten since each was said."""
        memory = self._execution.memory
        scope = Scope.of(tenant=memory.tenant, user=thread.owner, thread=thread.id)
        effect = ReadOmissions(scope=scope, key=THREAD_RECORD, since=thread.opened_at)
        omissions: Omissions = memory.perform(effect) if memory.may(effect) else Omissions()
        if not omissions:
            return said
        moments = [datetime.fromisoformat(one.at) for one in said]
        self._execution.said += [(at, one.text) for at, one in zip(moments, said, strict=True)]
        return [
            msgspec.structs.replace(one, text=omissions.made_since(at).leave_out(one.text))
            for at, one in zip(moments, said, strict=True)
        ]

    def set_context(self, values: Mapping[str, Any]) -> None:
        if RESERVED_CONTEXT in values:
            raise UsageError(
                f"`$context.{RESERVED_CONTEXT}` holds the memory records, and cannot be set",
                hint="Write records with `update_memory`, or use another name",
                value=RESERVED_CONTEXT,
            )
        copied = decode(encode_checked(dict(values), self._execution.memory.limits))
        with self._stop.while_running():
            self._strand.set_context(copied, self.provenance)

    # waiting

    def wait(self, event: str, *, timeout: float | None = None) -> Any:
        self._stop.check()
        require_label("event", event)
        _check_time(timeout)
        self._waits += 1
        if self._waits <= len(self._resumed.delivered):
            return self._resumed.delivered[self._waits - 1]
        self._require_waiting()
        deadline = None if timeout is None else self.clock.now() + timedelta(seconds=timeout)
        raise self._suspend(Waiting(kind="event", step=self._task, time=self._waits, event=event, deadline=deadline))

    def _require_waiting(self) -> None:
        if self._within is not None:
            raise UsageError(
                f"{quote(self._task)} would wait, which a model's tool cannot do", hint="Make it a task of the flow"
            )
        if not self._strand.may_wait:
            raise UsageError(
                f"the task {quote(self._task)} would wait while others run at the same time",
                hint="Let it wait before or after the `parallel`, or without `max_concurrency`",
                task=self._task,
            )

    def _suspend(self, waiting: Waiting, *, pending: str | None = None, heard: int = 0) -> Suspended:
        suspended = Suspended(waiting)
        kept = msgspec.structs.replace(
            self._resumed,
            sent=max(self._sent, self._resumed.sent),
            called=tuple(self._called),
            pending=pending,
            heard=heard,
            provenance=self.made_of,
        )
        suspended.within(msgspec.to_builtins(kept))
        return suspended

    # others

    def call_workflow(self, name: str, input: Mapping[str, Any]) -> Any:
        self._stop.check()
        number, resumed = len(self._called), self._resumed
        if number < len(resumed.called):
            output = resumed.called[number]
        else:
            self._execution.recorder.flush()
            if resumed.pending is not None and number == len(resumed.called):
                called, heard = self._execution.reach.resume(resumed.pending), resumed.heard
            else:
                called = self._execution.reach.call(name, input, self._execution, self._stop, self.provenance)
                heard = 0
            self._execution.recorder.current_step.run = called.run
            self._execution.messages.extend(called.messages[heard:])
            output = self._output(called, name)
            self.made_of |= called.provenance
            # It may have written records that are read from here on.
            self.memory.reload()
        self._called.append(output)
        return output

    def _output(self, called: CallResult, name: str) -> Any:
        if called.status == "waiting":
            try:
                self._require_waiting()
            except UsageError:
                self._execution.reach.cancel(called.run)
                raise
            waiting = Waiting(kind="run", step=self._task, run=called.run, about={"workflow": name})
            raise self._suspend(waiting, pending=called.run, heard=len(called.messages))
        if called.status != "completed":
            raise ActionFailed(
                f"the workflow {quote(name)} that {quote(self._task)} called is {called.status}: {called.message}",
                hint=f"Its run is {called.run}",
                type="workflow",
                task=self._task,
                action="call_workflow",
                run=called.run,
            )
        return called.output

    def call_task(self, task: str, arguments: Mapping[str, Any]) -> Any:
        self._stop.check()
        tool = self._tools.get(task)
        if tool is None:
            raise NotFound(
                f"unknown tool {quote(task)}",
                hint=did_you_mean(task, self._tools, otherwise="Bind it with `tools`"),
                value=task,
            )
        try:
            output, made_of = self._use_tool(tool, dict(arguments), within=self)
        except MemorandaError:
            self.made_of |= Provenance(tool.call.action.origin)  # the model is told what went wrong
            raise
        self.tell_model(made_of)
        return output


def _check_time(timeout: Any) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_WAIT:
        hint = f"Pass seconds above 0, at most {LONGEST_WAIT:,}, or None for no end"
        raise UsageError(f"{quote(timeout)} is not a valid timeout", hint=hint, value=timeout)


_WORD = re.compile(r"[a-z0-9_]{1,40}")
_FINAL = (Refused, UsageError)
"""Errors that are never retried."""


def do_task(execution: Execution, strand: Strand, task: Task, resumed: Resumed | None) -> None:
    """Run a task and store its output under its name; raise Failed when its last attempt has failed."""
    strand.stop.check()
    with execution.recorder.step(task.name, task.use.action.name) as step:
        run = _TaskRun(execution, strand, task, step)
        try:
            if resumed is None:
                execution.count_step()
            output, written, provenance = run.output(resumed or run.begin())
        except MemorandaError as error:
            failure = failure_of(error, task.name)
            with strand.stop.while_running():
                run.note(error=failure.type)
            raise StepFailed(failure) from error
        # A task that was stopped meanwhile changes nothing, not even the record.
        with strand.stop.while_running():
            run.note(payload=written)
            strand.give(task.name, output, provenance)
            strand.result = output
            strand.provenances.put(("result",), provenance)


def failure_of(error: MemorandaError, step: str) -> Failure:
    """Return an error as the failure of a step."""
    reason = error.details.get("type") if isinstance(error, ActionFailed) else None
    # It stays in the ledger forever: a single word, nothing personal.
    type = reason if isinstance(reason, str) and reason != "error" and _WORD.fullmatch(reason) else error.code
    message = storable_text(error.message, longest=LONGEST_MESSAGE)
    return Failure(type=type, message=message, step=step, details=details_of(error))


class _TaskRun:
    """One execution of a task."""

    def __init__(self, execution: Execution, strand: Strand, task: Task, step: OpenStep) -> None:
        self.execution = execution
        self.strand = strand
        self.task = task
        self.step = step
        self.attempts = 0

    def begin(self) -> Resumed:
        execution, task = self.execution, self.task
        seen = self.strand.variables(execution.input)
        drawing, bounds = execution.drawing(), execution.behaviour.bounds
        inputs = cast("dict[str, Any]", task.inputs.value(seen, drawing, bounds=bounds))
        settings = _settings(execution, self.strand, task.use, timeout=task.policy.timeout_ms)
        # If the call waits, its inputs and settings are stored.
        for given in (inputs, settings):
            encode_checked(given, execution.memory.limits)
        made_of = execution.provenance_of(task.inputs, self.strand)
        made_of |= execution.provenance_of(task.use.settings, self.strand)
        return Resumed(inputs=inputs, settings=settings, provenance=made_of)

    def output(self, resumed: Resumed) -> tuple[Any, bytes, Provenance]:
        """Return the output of the action, also as JSON, and where it comes from, retrying as the policy says."""
        retries = self.task.policy.retries
        self.attempts = resumed.failed
        self.step.inputs = resumed.inputs
        # Earlier events are recorded before anything reaches the outside.
        self.execution.recorder.flush()
        while True:
            self.attempts += 1
            try:
                output, made_of = self._attempt(resumed)
                return *_encode_output(output, self.task.name, self.execution), made_of
            except MemorandaError as error:
                if not _is_retried(error, self.attempts, retries):
                    raise
            self.strand.stop.check()
            self.execution.behaviour.sleep(delay_before(self.attempts + 1, retries))
            self.strand.stop.check()

    def _attempt(self, resumed: Resumed) -> tuple[Any, Provenance]:
        execution, strand, task = self.execution, self.strand, self.task
        use_tool = partial(_use_tool, execution, strand)
        resumed = msgspec.structs.replace(resumed, failed=self.attempts - 1)
        place = _CallPlace(
            execution,
            strand,
            task.name,
            use_tool=use_tool,
            resumed=resumed,
            use=task.use,
            provenance=resumed.provenance,
        )
        call = _call(task.use, task.name, resumed.inputs, resumed.settings, place, execution)
        act = partial(self._carry_out, call)
        try:
            output = within(task.policy.timeout_ms / 1_000, act) if task.policy.timeout_ms else act()
            return output, place.provenance
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

    def _carry_out(self, call: Call) -> Any:
        try:
            return carry_out(self.task.use.action, call)
        except Suspended:
            raise
        except (Stopped, Paused) as signal:
            # Only a signal of this very call ends it; one that the action made up or borrowed is a failure.
            self.strand.stop.check()
            raise ActionFailed(
                f"the action {quote(call.task)} raised {type(signal).__name__}, which only a run may do",
                hint="Use the `place` of this call, and do not catch what it raises",
                type="error",
                task=call.task,
                action=self.task.use.action.name,
            ) from signal

    def note(self, *, payload: bytes | None = None, error: str | None = None) -> None:
        detail: dict[str, Any] = {"type": self.task.use.action.name}
        self.step.attempts = self.attempts
        self.step.output = None if payload is None else msgspec.Raw(payload)
        if self.attempts > 1:
            detail["attempts"] = self.attempts
        if error is not None:
            detail["error"] = error
        self.execution.recorder.note("step_record", self.task.name, payload=payload, detail=detail)


def _call(
    use: Use, task: str, inputs: dict[str, Any], settings: dict[str, Any], place: _CallPlace, execution: Execution
) -> Call:
    model: Model | None = execution.reach.model(use.model) if "model" in use.action.bindings else None
    slugs = tuple(one.slug for one in place.memory.mounted(use.memories)) if use.memories else ()
    if execution.recorder.steps is not None:
        model = None if model is None else WatchedModel(model)
        execution.recorder.current_step.note(place.memory.refs(slugs), written=False)
    model = None if model is None else ForgetfulModel(model, execution.omissions)
    tools = tuple(Tool(one.name, one.description, one.call.action.inputs) for one in use.tools)
    return Call(task=task, inputs=inputs, settings=settings, place=place, model=model, slugs=slugs, tools=tools)


def _settings(execution: Execution, strand: Strand, use: Use, *, timeout: float = 0) -> dict[str, Any]:
    settings = execution.value(use.settings, strand) if use.settings.computed else use.settings.fixed
    return {**settings, "timeout_ms": timeout} if timeout else settings


def _use_tool(
    execution: Execution, strand: Strand, tool: ToolUse, arguments: dict[str, Any], *, within: _CallPlace
) -> tuple[Any, Provenance]:
    """Carry out a tool for a model, and return its output with its provenance; the model is told about errors."""
    execution.count_step()
    use = tool.call
    tools = partial(_use_tool, execution, strand)
    place = _CallPlace(
        execution,
        strand,
        tool.name,
        use_tool=tools,
        within=within,
        use=use,
        provenance=within.provenance | execution.provenance_of(use.settings, strand),
    )
    detail: dict[str, Any] = {"type": use.action.name, "tool": True}
    written: bytes | None = None
    execution.recorder.flush()
    with execution.recorder.step(tool.name, use.action.name) as step:
        step.inputs = arguments
        try:
            call = _call(use, tool.name, arguments, _settings(execution, strand, use), place, execution)
            output, written = _encode_output(carry_out(use.action, call), tool.name, execution)
            step.output = msgspec.Raw(written)
            return output, place.provenance
        except MemorandaError as error:
            detail["error"] = failure_of(error, tool.name).type
            raise
        finally:
            place.close()
            with suppress(Stopped), within.while_running():
                execution.recorder.note("step_record", tool.name, payload=written, detail=detail)


def _encode_output(output: Any, task: str, execution: Execution) -> tuple[Any, bytes]:
    """Return a copy of an output, and its JSON; refuse one that cannot be stored."""
    try:
        written = encode_json(output, execution.memory.limits)
    except (InvalidValue, LimitExceeded) as error:
        message = f"the output of the task {quote(task)} cannot be stored: {error.message}"
        raise type(error)(message, hint=error.advice, **error.details) from error
    return decode(written), written


# attempts


def _is_retried(error: MemorandaError, attempts: int, retries: Retrying) -> bool:
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
