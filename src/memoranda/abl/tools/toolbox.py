"""The tools of an agent: Python functions and HTTP tools, called in threads with a time limit."""

from __future__ import annotations

import contextvars
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

from memoranda.abl.document import Tool
from memoranda.abl.tools.http import HttpTool
from memoranda.abl.tools.outcome import Outcome, ToolError, ToolFailure, failure_outcome
from memoranda.abl.tools.parameters import (
    IN_ORDER,
    Parameters,
    adapt_to_function,
    bind_arguments,
    function_parameters,
    object_schema,
    tool_parameters,
)
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.document import Raw
from memoranda.lang.egress import LOCAL_EGRESS, EgressPolicy
from memoranda.lang.expression.nodes import Node
from memoranda.lang.python_functions import json_value, load_module
from memoranda.model.clock import Clock, SystemClock
from memoranda.model.text import quote, words_of
from memoranda.model.trust import OriginKind

if TYPE_CHECKING:
    import asyncio

Functions: TypeAlias = "Mapping[str, Callable[..., Any]] | ModuleType | str | os.PathLike[str]"
_LONGEST_MESSAGE = 2_000
_STUCK = "stuck"
_DENIED = "denied"
_RETRYABLE = ("408", "425", "429")
"""Statuses below 500 that are worth a retry."""


class _Call(Protocol):
    """Calls a tool and returns plain values, or raises."""

    def __call__(self, arguments: dict[str, Any], *, timeout: float) -> Any: ...


class _Entry:
    """One tool: its parameters, its description, and how it is called."""

    __slots__ = ("call_tool", "delay", "description", "kind", "parameters", "retries", "timeout")

    def __init__(self, parameters: Parameters, description: str, call_tool: _Call | None, timeout: float) -> None:
        self.parameters = parameters
        self.description = description
        self.call_tool = call_tool
        self.timeout = timeout
        self.retries = 0
        self.delay = 0.0
        self.kind: OriginKind = "tool_internal"
        """What kind of origin its results are from."""


class Toolbox:
    """The tools that an agent may call: Python functions, and HTTP tools by their declaration."""

    def __init__(
        self,
        tools: Functions | None,
        declared: Sequence[Tool],
        *,
        defaults: Callable[[Raw], Any],
        templates: Callable[[Raw], Node | None],
        secrets: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        egress: EgressPolicy = LOCAL_EGRESS,
        trusted: Container[str] = (),
    ) -> None:
        """Combine functions, given by name, as a module or as a Python file, with the declarations of tools.

        `defaults` evaluates the default of a declared parameter; `templates` returns the parsed template of an
        endpoint, header or body, which may read `secrets` by name. `timeout` is in seconds, for tools that declare
        none; `egress` says where HTTP tools may send requests; `trusted` are tools whose results are the agent's own
        word. A function with the name of an HTTP tool replaces it.
        """
        self._defaults = defaults
        self._trusted = trusted
        self._clock: Clock = clock or SystemClock()
        self._sleep = sleep
        self._entries: dict[str, _Entry] = {}
        functions = functions_of(tools)
        for tool in declared:
            name = tool.name.text
            entry = self._tool_entry(tool, functions.pop(name, None), timeout)
            if entry.call_tool is None and tool.endpoint is not None:
                entry.call_tool = HttpTool(tool, templates, secrets or {}, self._clock, egress).request
                entry.kind = "tool_external"
            self._entries[name] = entry
        for name, function in functions.items():
            parameters = function_parameters(function)
            self._entries[name] = _Entry(
                parameters, _description_of(function), partial(_call_function, function), timeout
            )

    def _tool_entry(self, tool: Tool, function: Callable[..., Any] | None, timeout: float) -> _Entry:
        parameters = tool_parameters(tool)
        description = tool.description.text if tool.description else ""
        call_tool: _Call | None = None
        if function is not None:
            call_tool = partial(_call_function, function)
            description = description or _description_of(function)
            own = not parameters.known
            parameters = function_parameters(function) if own else adapt_to_function(parameters, function)
        entry = _Entry(parameters, description, call_tool, tool.timeout / 1_000 if tool.timeout else timeout)
        entry.retries, entry.delay = tool.retry, (tool.retry_delay or 0) / 1_000
        return entry

    def knows(self, name: str) -> bool:
        """Say whether a tool can be called: it has a function, or an endpoint."""
        entry = self._entries.get(name)
        return entry is not None and entry.call_tool is not None

    def kind(self, name: str) -> OriginKind:
        """Return as what kind of origin the results of a tool are passed on; an unknown tool may be anything."""
        entry = self._entries.get(name)
        return "tool_external" if entry is None else entry.kind

    def is_trusted(self, name: str) -> bool:
        """Return whether the results of a tool are the agent's own word, whatever they are made of."""
        return name in self._trusted

    def schema(self, name: str) -> dict[str, Any]:
        """Return the JSON schema of a tool's parameters, with the description of the tool, for a model."""
        entry = self._entries.get(name)
        return entry.parameters.schema(entry.description) if entry is not None else object_schema({}, ())

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the names of a tool's parameters, in order."""
        entry = self._entries.get(name)
        return entry.parameters.names if entry is not None else ()

    def call(self, name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> Outcome:
        """Call a tool and return its result or failure; exceptions of the tool are never raised."""
        entry = self._entries.get(name)
        if entry is None or entry.call_tool is None:
            return failure_outcome("tool_error", self._missing(name, declared=entry is not None))
        arguments = bind_arguments(
            name, entry.parameters, positional, named, defaults=self._defaults, clock=self._clock
        )
        if isinstance(arguments, ToolFailure):
            return Outcome(failure=arguments)
        call = partial(entry.call_tool, arguments, timeout=entry.timeout)
        for left in range(entry.retries, -1, -1):
            result = WORKERS.run(call, timeout=entry.timeout)
            outcome = _outcome_of(name, result, entry.timeout)
            if outcome.failure is None or not left or not _is_worth_retrying(outcome.failure):
                return outcome
            self._sleep(entry.delay)
        raise AssertionError("the last attempt returns")

    def _missing(self, name: str, *, declared: bool) -> str:
        if declared:
            return f"the tool {quote(name)} is declared, but has no function: pass tools={{{name!r}: …}}"
        known = [tool for tool, entry in self._entries.items() if entry.call_tool is not None]
        hint = did_you_mean(name, known, otherwise=f"Known: {', '.join(sorted(known)) or 'none'}")
        return f"unknown tool {quote(name)}. {hint}"


def _call_function(function: Callable[..., Any], arguments: dict[str, Any], *, timeout: float) -> Any:
    in_order = arguments.pop(IN_ORDER, ())
    result = function(*in_order, **arguments)
    if inspect.isawaitable(result):
        result = run_awaitable(result)
    try:
        return json_value(result)
    except UsageError as error:
        message = f"the result of the tool cannot be stored: {error.message}"
        raise ToolError("tool_error", message, type(error).__name__) from error


def _description_of(function: Callable[..., Any]) -> str:
    # The docstring of a partial or another object is about its class.
    return (inspect.getdoc(function) if inspect.isroutine(function) else None) or ""


def _outcome_of(name: str, result: CallResult, timeout: float) -> Outcome:
    if result.ending == "late":
        return failure_outcome("tool_timeout", f"the tool {quote(name)} did not answer within {timeout:g} s")
    if result.ending == "stuck":
        message = f"the tool {quote(name)} was not called: too many earlier calls have not returned"
        return failure_outcome("tool_error", message, _STUCK)
    if result.error is None:
        return Outcome(result.value)
    if isinstance(result.error, ToolError):
        return Outcome(failure=result.error.failure)
    return failure_outcome("tool_error", words_of(result.error)[:_LONGEST_MESSAGE], type(result.error).__name__)


def _is_worth_retrying(failure: ToolFailure) -> bool:
    if failure.kind == "validation_error" or failure.subtype in (_STUCK, _DENIED):
        return False
    refused = failure.kind == "api_error" and failure.subtype.startswith("4")
    return not refused or failure.subtype in _RETRYABLE


# --- Python functions ------------------------------------------------------------------------------------------------

_HINT = "Pass functions by name, a module, the path of a Python file, or the name of a module"


def functions_of(tools: Functions | None) -> dict[str, Callable[..., Any]]:
    """Return the given functions by name; of a module, the public functions that it defines."""
    if tools is None:
        return {}
    if isinstance(tools, ModuleType):
        return _public_functions(tools)
    if isinstance(tools, (str, os.PathLike)):
        return _public_functions(load_module(tools, what="tools"))
    if isinstance(cast("Any", tools), Mapping):
        return {name: _check_function(name, function) for name, function in tools.items()}
    raise UsageError(f"{quote(tools)} does not provide tools", hint=_HINT, value=tools)


def _check_function(name: Any, function: Any) -> Callable[..., Any]:
    if not isinstance(name, str) or not callable(function):
        raise UsageError(
            f"the tool {quote(name)} is {quote(function)}, not a function with a name", hint=_HINT, value=function
        )
    return function


def _public_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    listed: Any = getattr(module, "__all__", None)
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        # Functions that the module imported are not tools, unless it lists them in `__all__`.
        and (name in listed if listed is not None else value.__module__ == module.__name__ and name[0] != "_")
    }
    if not found:
        raise UsageError(
            f"the module {quote(module.__name__)} has no public function",
            hint="Define functions in it whose names do not begin with an underscore",
            value=module.__name__,
        )
    return cast("dict[str, Callable[..., Any]]", found)


# --- threads ---------------------------------------------------------------------------------------------------------

# Python cannot stop a thread. A call that takes too long is abandoned together with its thread, and the next call gets
# another one. The threads are daemons, so that none of them keeps the process from exiting.

MOST_IDLE = 4
"""Maximum number of idle threads; further ones end after their call."""
MOST_STUCK = 64
"""Maximum number of abandoned threads that still run; beyond it, no call is started."""


class CallResult(NamedTuple):
    """How a call ended: done with a value or an exception, abandoned at its time limit, or never started."""

    ending: Literal["done", "late", "stuck"]
    value: Any = None
    error: BaseException | None = None


class _Job:
    __slots__ = ("abandoned", "call", "cancel", "context", "done", "error", "value")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None
        self.abandoned = False
        self.cancel: Callable[[], object] | None = None

    def abandon(self) -> None:
        """Cancel a coroutine; a plain function cannot be cancelled."""
        self.abandoned = True
        if self.cancel is not None:
            self.cancel()


class _Here(threading.local):
    """The job of the current worker thread, and its event loop, created for its first coroutine."""

    job: _Job | None = None
    runner: asyncio.Runner | None = None


_here = _Here()


class _Worker:
    __slots__ = ("_pool", "inbox")

    def __init__(self, pool: Workers) -> None:
        self._pool = pool
        self.inbox: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=self._work, name="memoranda-tool", daemon=True).start()

    def _work(self) -> None:
        while (job := self.inbox.get()) is not None:
            _here.job = job
            try:
                job.value = job.context.run(job.call)
            # A tool that raises SystemExit must not end the thread before its caller is notified.
            except BaseException as error:
                job.error = error
            job.done.release()
            _here.job = job = None
        if _here.runner is not None:
            _here.runner.close()
        self._pool.forget_stuck(self)


class Workers:
    """A pool of threads, as many as there are concurrent calls."""

    def __init__(self, *, most_stuck: int = MOST_STUCK) -> None:
        """Create an empty pool; threads are started when calls need them."""
        self._idle: list[_Worker] = []
        self._stuck: set[_Worker] = set()
        self._most_stuck = most_stuck

    def run(self, call: Callable[[], Any], *, timeout: float) -> CallResult:
        """Run a call and return how it ended; abandon it after `timeout` seconds."""
        if len(self._stuck) >= self._most_stuck:
            return CallResult("stuck")
        job = _Job(call)
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self)
        worker.inbox.put(job)
        try:
            in_time = job.done.acquire(timeout=timeout)
        except BaseException:
            self._give_up(worker, job)
            raise
        if not in_time:
            self._give_up(worker, job)
            return CallResult("late")
        if len(self._idle) < MOST_IDLE:
            self._idle.append(worker)
        else:
            worker.inbox.put(None)
        return CallResult("done", job.value, job.error)

    @property
    def stuck(self) -> int:
        """Number of abandoned threads that still run."""
        return len(self._stuck)

    def _give_up(self, worker: _Worker, job: _Job) -> None:
        # In this order: the worker leaves the set when it reads the None, which it cannot do before.
        self._stuck.add(worker)
        worker.inbox.put(None)
        job.abandon()

    def forget_stuck(self, worker: _Worker) -> None:
        """Forget an abandoned thread that has ended."""
        self._stuck.discard(worker)

    def forget_all(self) -> None:
        """Empty the pool in a forked process, which has none of the threads."""
        self._idle.clear()
        self._stuck.clear()


def run_awaitable(awaitable: Awaitable[Any]) -> Any:
    """Run a coroutine on the event loop of the current worker thread."""
    # Imported here: most tools are plain functions, and asyncio takes long to import.
    import asyncio

    if _here.runner is None:
        _here.runner = asyncio.Runner()
    return _here.runner.run(_as_task(awaitable, _here.job), context=contextvars.copy_context())


async def _as_task(awaitable: Awaitable[Any], job: _Job | None) -> Any:
    import asyncio

    if job is not None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        job.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        # The caller may have abandoned the call before the line above.
        if job.abandoned:
            task.cancel()
    return await awaitable


WORKERS = Workers()
"""The pool of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.forget_all)
