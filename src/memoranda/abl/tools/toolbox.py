"""The tools of an agent: declarations and Python functions in, calls that never raise out."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from memoranda.abl.document import Tool
from memoranda.abl.tools.arguments import (
    IN_ORDER,
    Parameters,
    as_function_takes,
    bind,
    declared_parameters,
    function_parameters,
)
from memoranda.abl.tools.http import HttpTool
from memoranda.abl.tools.modules import Functions, functions_of
from memoranda.abl.tools.outcome import Failed, Failure, Outcome, failed
from memoranda.abl.tools.schema import object_schema
from memoranda.abl.tools.workers import WORKERS, Ran, await_here
from memoranda.abl.tree import Raw
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.egress import LOCAL_EGRESS, EgressPolicy
from memoranda.lang.expression.nodes import Node
from memoranda.lang.plain import plain
from memoranda.model.clock import Clock, SystemClock
from memoranda.model.text import quote, words_of

_LONGEST_MESSAGE = 2_000
_STUCK = "stuck"
_DENIED = "denied"
_WORTH_ANOTHER_TRY = ("408", "425", "429")
"""Statuses below 500 that another try may change."""


class _Reach(Protocol):
    """How a tool is reached: arguments in, plain values out, or an exception."""

    def __call__(self, arguments: dict[str, Any], *, timeout: float) -> Any: ...


class _Entry:
    """One tool: its parameters, what it is for, how it is reached and how often."""

    __slots__ = ("delay", "description", "parameters", "reach", "retries", "timeout")

    def __init__(self, parameters: Parameters, description: str, reach: _Reach | None, timeout: float) -> None:
        self.parameters = parameters
        self.description = description
        self.reach = reach
        self.timeout = timeout
        self.retries = 0
        self.delay = 0.0


class Toolbox:
    """The tools that an agent may call: Python functions by name, and HTTP tools by their declaration."""

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
    ) -> None:
        """Take functions by name, a module or a Python file whose public functions are tools, and the declarations.

        `defaults` evaluates the default of a declared parameter; `templates` gives the parsed template of an
        endpoint, a header or a body, as `Programs.node` does; they read `secrets` by their names. `timeout` is in
        seconds, for tools that declare none; `egress` is where HTTP tools may send requests. A function that is given
        for an HTTP tool is called instead of it.
        """
        self._defaults = defaults
        self._clock: Clock = clock or SystemClock()
        self._sleep = sleep
        self._entries: dict[str, _Entry] = {}
        functions = functions_of(tools)
        for tool in declared:
            name = tool.name.text
            entry = self._declared(tool, functions.pop(name, None), timeout)
            if entry.reach is None and tool.endpoint is not None:
                entry.reach = HttpTool(tool, templates, secrets or {}, self._clock, egress).request
            self._entries[name] = entry
        for name, function in functions.items():
            parameters = function_parameters(function)
            self._entries[name] = _Entry(parameters, _purpose(function), partial(_call_function, function), timeout)

    def _declared(self, tool: Tool, function: Callable[..., Any] | None, timeout: float) -> _Entry:
        parameters = declared_parameters(tool)
        description = tool.description.text if tool.description else ""
        reach: _Reach | None = None
        if function is not None:
            reach = partial(_call_function, function)
            description = description or _purpose(function)
            own = not parameters.known
            parameters = function_parameters(function) if own else as_function_takes(parameters, function)
        entry = _Entry(parameters, description, reach, tool.timeout / 1_000 if tool.timeout else timeout)
        entry.retries, entry.delay = tool.retry, (tool.retry_delay or 0) / 1_000
        return entry

    def knows(self, name: str) -> bool:
        """Say whether a tool can be called: a function was given, or it is an HTTP tool with an endpoint."""
        entry = self._entries.get(name)
        return entry is not None and entry.reach is not None

    def schema(self, name: str) -> dict[str, Any]:
        """Return the JSON schema of a tool's parameters for a model; its `description` is the tool's."""
        entry = self._entries.get(name)
        return entry.parameters.schema(entry.description) if entry is not None else object_schema({}, ())

    def call(self, name: str, positional: Sequence[Any], named: Mapping[str, Any]) -> Outcome:
        """Call a tool and return its result, or what went wrong; nothing that a tool does is raised here."""
        entry = self._entries.get(name)
        if entry is None or entry.reach is None:
            return failed("tool_error", self._missing(name, declared=entry is not None))
        arguments = bind(name, entry.parameters, positional, named, defaults=self._defaults, clock=self._clock)
        if isinstance(arguments, Failure):
            return Outcome(failure=arguments)
        call = partial(entry.reach, arguments, timeout=entry.timeout)
        for left in range(entry.retries, -1, -1):
            ran = WORKERS.run(call, timeout=entry.timeout)
            outcome = _outcome(name, ran, entry.timeout)
            if outcome.failure is None or not left or not _again(outcome.failure):
                return outcome
            self._sleep(entry.delay)
        raise AssertionError("the last attempt returns")

    def _missing(self, name: str, *, declared: bool) -> str:
        if declared:
            return f"the tool {quote(name)} was declared, but no function was given: pass tools={{{name!r}: …}}"
        known = [tool for tool, entry in self._entries.items() if entry.reach is not None]
        hint = did_you_mean(name, known, otherwise=f"Known: {', '.join(sorted(known)) or 'none'}")
        return f"there is no tool {quote(name)}. {hint}"


def _call_function(function: Callable[..., Any], arguments: dict[str, Any], *, timeout: float) -> Any:
    in_order = arguments.pop(IN_ORDER, ())
    result = function(*in_order, **arguments)
    if inspect.isawaitable(result):
        result = await_here(result)
    try:
        return plain(result)
    except UsageError as error:
        message = f"the tool gave what cannot be kept: {error.message}"
        raise Failed("tool_error", message, type(error).__name__) from error


def _purpose(function: Callable[..., Any]) -> str:
    # What a partial or another object says of itself is about its class.
    return (inspect.getdoc(function) if inspect.isroutine(function) else None) or ""


def _outcome(name: str, ran: Ran, timeout: float) -> Outcome:
    if ran.ending == "late":
        return failed("tool_timeout", f"the tool {quote(name)} did not answer within {timeout:g} s")
    if ran.ending == "stuck":
        message = f"the tool {quote(name)} was not called: too many earlier calls never returned"
        return failed("tool_error", message, _STUCK)
    if ran.error is None:
        return Outcome(ran.value)
    if isinstance(ran.error, Failed):
        return Outcome(failure=ran.error.failure)
    return failed("tool_error", words_of(ran.error)[:_LONGEST_MESSAGE], type(ran.error).__name__)


def _again(failure: Failure) -> bool:
    """Say whether another try may end differently."""
    if failure.kind == "validation_error" or failure.subtype in (_STUCK, _DENIED):
        return False
    refused = failure.kind == "api_error" and failure.subtype.startswith("4")
    return not refused or failure.subtype in _WORTH_ANOTHER_TRY
