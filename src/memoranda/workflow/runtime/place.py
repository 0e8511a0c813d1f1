"""The run as one call of an action sees and changes it; a call that was cut off, or is over, changes nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Protocol

import msgspec

from memoranda.errors import ActionFailed, NotFound, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.egress import EgressPolicy
from memoranda.model.clock import Clock
from memoranda.model.text import quote, require_label
from memoranda.model.value import decode, encode, encode_checked
from memoranda.runs.waiting import Waiting
from memoranda.workflow.actions.base import Message
from memoranda.workflow.keywords import RESERVED_CONTEXT
from memoranda.workflow.records import WorkingMemory
from memoranda.workflow.runtime.plan import ToolUse
from memoranda.workflow.runtime.strand import Stop, Strand
from memoranda.workflow.runtime.work import Called, Suspended, Work
from memoranda.workflow.threads import add_message, check_text, messages

LONGEST_WAIT = 3_600 * 24 * 365 * 10
"""Seconds: ten years."""


class Resumed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call that waits is given when it is made again, so that it does nothing twice."""

    inputs: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    delivered: tuple[Any, ...] = ()
    """What came for each of its waits."""
    sent: int = 0
    """How many messages it had sent."""
    called: tuple[Any, ...] = ()
    """What the workflows gave that it had called."""
    pending: str | None = None
    """The run of a workflow that it called and that waits itself."""
    heard: int = 0
    """How many messages of that run its owner had been told."""
    failed: int = 0
    """How many attempts had failed before the one that waits."""


class UseTool(Protocol):
    """Carries out a tool for a call."""

    def __call__(self, tool: ToolUse, arguments: dict[str, Any], *, within: CallPlace) -> Any:
        """Return what the tool gave."""
        ...


class CallPlace:
    """What one call can do; see `Place` in `actions/base.py` for what each of these means."""

    def __init__(
        self,
        work: Work,
        strand: Strand,
        task: str,
        *,
        use_tool: UseTool,
        tools: tuple[ToolUse, ...] = (),
        resumed: Resumed | None = None,
        within: CallPlace | None = None,
    ) -> None:
        """Stand in a run; `within` is the call of a model that uses this one as its tool."""
        self._work = work
        self._strand = strand
        self._task = task
        self._tools = {tool.name: tool for tool in tools}
        self._use_tool = use_tool
        self._resumed = resumed or Resumed()
        self._within = within
        self._stop = Stop(strand.stop if within is None else within._stop)
        self._memory = (strand.memory if within is None else within._memory).branch(self._stop.going_on)
        self._waits = 0
        self._sent = 0
        self._called: list[Any] = []

    def going_on(self) -> AbstractContextManager[None]:
        """Change something while the call is not over."""
        return self._stop.going_on()

    def close(self) -> None:
        """End the call: whatever still holds on to it can do nothing with it."""
        self._stop.set()

    @property
    def run(self) -> str:
        """The run's id."""
        return self._work.id

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        return self._work.plan.name

    @property
    def owner(self) -> str:
        """Whose memory it is."""
        return self._work.owner

    @property
    def thread(self) -> str | None:
        """The conversation, where there is one."""
        return self._work.thread.id if self._work.thread is not None else None

    @property
    def input(self) -> dict[str, Any]:
        """What the run was begun with, as a copy."""
        return decode(encode(self._work.input))

    @property
    def memory(self) -> WorkingMemory:
        """The records, refreshed by every write of this call."""
        return self._memory

    @property
    def clock(self) -> Clock:
        """The one source of time."""
        return self._work.memory.clock

    @property
    def egress(self) -> EgressPolicy:
        """Where requests may go."""
        return self._work.reach.egress

    def send(self, text: str) -> None:
        """Say something to the owner."""
        check_text(text, self._work.memory.limits.content_bytes)
        encode_checked(text, self._work.memory.limits)
        with self._stop.going_on():
            self._sent += 1
            if self._sent <= self._resumed.sent:
                return
            thread = self._work.thread
            if thread is not None:
                add_message(self._work.memory, thread, text, sender=self.workflow, by_owner=False)
            self._work.messages.append(text)

    def history(self, limit: int) -> list[Message]:
        """Return the newest messages of the thread, oldest first."""
        self._stop.check()
        thread = self._work.thread
        return [] if thread is None else messages(self._work.memory, thread, limit)

    def set_context(self, values: Mapping[str, Any]) -> None:
        """Put values into `$context`."""
        if RESERVED_CONTEXT in values:
            raise UsageError(
                f"`$context.{RESERVED_CONTEXT}` shows the records of the run, and cannot be set",
                hint="Write records with `update_memory`, or use another name",
                value=RESERVED_CONTEXT,
            )
        copied = decode(encode_checked(dict(values), self._work.memory.limits))
        with self._stop.going_on():
            self._strand.set_context(copied)

    # waiting

    def wait(self, event: str, *, timeout: float | None = None) -> Any:
        """Return what was delivered; suspend the run where nothing was yet."""
        self._stop.check()
        require_label("event", event)
        _check_time(timeout)
        self._waits += 1
        if self._waits <= len(self._resumed.delivered):
            return self._resumed.delivered[self._waits - 1]
        self._require_waiting()
        deadline = None if timeout is None else self.clock.now() + timedelta(seconds=timeout)
        raise self._suspended(Waiting(kind="event", step=self._task, time=self._waits, event=event, deadline=deadline))

    def _require_waiting(self) -> None:
        if self._within is not None:
            raise UsageError(
                f"{quote(self._task)} would wait, and what a model calls cannot", hint="Do it as a task of the flow"
            )
        if not self._strand.may_wait:
            raise UsageError(
                f"the task {quote(self._task)} would wait while others run beside it",
                hint="Let it wait before or after the `parallel`, or without `max_concurrency`",
                task=self._task,
            )

    def _suspended(self, waiting: Waiting, *, pending: str | None = None, heard: int = 0) -> Suspended:
        suspended = Suspended(waiting)
        kept = msgspec.structs.replace(
            self._resumed,
            sent=max(self._sent, self._resumed.sent),
            called=tuple(self._called),
            pending=pending,
            heard=heard,
        )
        suspended.within(msgspec.to_builtins(kept))
        return suspended

    # others

    def call_workflow(self, name: str, input: Mapping[str, Any]) -> Any:
        """Run another workflow for the same owner, and return its output."""
        self._stop.check()
        number, resumed = len(self._called), self._resumed
        if number < len(resumed.called):
            output = resumed.called[number]
        else:
            self._work.recorder.flush()
            if resumed.pending is not None and number == len(resumed.called):
                called, heard = self._work.reach.take_up(resumed.pending), resumed.heard
            else:
                called, heard = self._work.reach.call(name, input, self._work, self._stop), 0
            self._work.messages.extend(called.messages[heard:])
            output = self._output(called, name)
            # It may have written records that are read from here on.
            self._memory.reload()
        self._called.append(output)
        return output

    def _output(self, called: Called, name: str) -> Any:
        if called.status == "waiting":
            try:
                self._require_waiting()
            except UsageError:
                self._work.reach.give_up(called.run)
                raise
            waiting = Waiting(kind="run", step=self._task, run=called.run, about={"workflow": name})
            raise self._suspended(waiting, pending=called.run, heard=len(called.messages))
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
        """Carry out a tool for the model that this call asks."""
        self._stop.check()
        tool = self._tools.get(task)
        if tool is None:
            raise NotFound(
                f"there is no tool {quote(task)}",
                hint=did_you_mean(task, self._tools, otherwise="Bind it with `tools`"),
                value=task,
            )
        return self._use_tool(tool, dict(arguments), within=self)


def _check_time(timeout: Any) -> None:
    """Refuse what cannot be waited for."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST_WAIT:
        hint = f"Pass seconds above 0, at most {LONGEST_WAIT:,}, or None for no end"
        raise UsageError(f"{quote(timeout)} is no time to wait", hint=hint, value=timeout)
