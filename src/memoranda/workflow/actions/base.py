"""What an action is: a task's inputs in, its output out; and the registry that finds one by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, wraps
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

import msgspec

from memoranda.agent.models import Model
from memoranda.engine.validator import Validator
from memoranda.errors import (
    ActionFailed,
    AlreadyExists,
    InvalidDefinition,
    MemorandaError,
    SchemaViolation,
    UsageError,
)
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.egress import EgressPolicy
from memoranda.lang.signatures import Parameter, Unfit, parameters_of
from memoranda.model.clock import Clock
from memoranda.model.text import quote, words_of
from memoranda.runs.waiting import Paused, Unrecorded
from memoranda.workflow.actions.typed import arguments, inputs_schema
from memoranda.workflow.keywords import SETTINGS, is_name
from memoranda.workflow.records import WorkingMemory

_OPEN: dict[str, Any] = {"type": "object"}
_SHOWN = 300
"""Characters of what is wrong that an error tells: what it quotes may be as long as what was given."""

_UNFINISHED = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)

F = TypeVar("F", bound="Callable[..., Any]")


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    text: str
    sender: str
    """Who said it: the owner of the run, or the workflow."""
    by_owner: bool
    at: str


class Place(Protocol):
    """The run that an action is part of, as far as an action can see and change it."""

    @property
    def run(self) -> str:
        """The run's id."""
        ...

    @property
    def workflow(self) -> str:
        """The workflow's name."""
        ...

    @property
    def owner(self) -> str:
        """Whose memory it is."""
        ...

    @property
    def thread(self) -> str | None:
        """The conversation, where there is one."""
        ...

    @property
    def input(self) -> dict[str, Any]:
        """What the run was begun with."""
        ...

    @property
    def memory(self) -> WorkingMemory:
        """The records that were loaded, refreshed by every write."""
        ...

    @property
    def clock(self) -> Clock:
        """The one source of time."""
        ...

    @property
    def egress(self) -> EgressPolicy:
        """Where requests may go."""
        ...

    def send(self, text: str) -> None:
        """Say something to the owner; in a thread it becomes part of the conversation."""
        ...

    def history(self, limit: int) -> list[Message]:
        """Return the newest messages of the thread, oldest first."""
        ...

    def set_context(self, values: Mapping[str, Any]) -> None:
        """Put values into `$context`, for the tasks that follow."""
        ...

    def call_workflow(self, name: str, input: Mapping[str, Any]) -> Any:
        """Run another workflow for the same owner, and return its output."""
        ...

    def wait(self, event: str, *, timeout: float | None = None) -> Any:
        """Return what was delivered for this event, or None when so many seconds are over.

        Until then the run is kept and waits; what is raised here must be let through. Then the action is called again
        with the same inputs: what it sent and the workflows that it called before this line are not repeated, whatever
        else stands there is.
        """
        ...

    def call_task(self, task: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out another task of this workflow with these inputs, as a model's tool."""
        ...


class Stopped(Exception):
    """The call was cut off: its time is over, or another branch was faster."""


class Tool(msgspec.Struct, frozen=True):
    """A task that a model may call: its name, what it is for, and the JSON schema of its inputs."""

    name: str
    description: str
    parameters: dict[str, Any]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one call of an action is given."""

    task: str
    inputs: dict[str, Any]
    settings: dict[str, Any]
    place: Place
    model: Model | None = None
    slugs: tuple[str, ...] = ()
    """The memory that is mounted on the task, in the order of its bindings."""
    tools: tuple[Tool, ...] = ()


class Action(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An action by its name: what it does, and what it takes."""

    name: str
    act: Callable[[Call], Any]
    description: str = ""
    inputs: dict[str, Any] = msgspec.field(default_factory=lambda: dict(_OPEN))
    """JSON schema of its inputs."""
    settings: dict[str, Any] = msgspec.field(default_factory=lambda: dict(_OPEN))
    """JSON schema of its settings, without those that every task has."""
    bindings: tuple[str, ...] = ()
    """The kinds of bindings that it supports."""

    @cached_property
    def checks(self) -> tuple[Validator, Validator]:
        """The compiled schemas of inputs and settings; an InvalidDefinition where one is no schema."""
        return self._check("inputs", self.inputs), self._check("settings", self.settings)

    def _check(self, what: str, schema: dict[str, Any]) -> Validator:
        try:
            return Validator(schema)
        except InvalidDefinition as error:
            message = f"the {what} of the action {quote(self.name)}: {error.message}"
            raise InvalidDefinition(message, hint=error.hint, path=error.path) from error


@overload
def action(function: F, /) -> F: ...
@overload
def action(
    name: str | None = None,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    bindings: Iterable[str] = (),
) -> Callable[[F], F]: ...
def action(
    given: Callable[..., Any] | str | None = None,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    bindings: Iterable[str] = (),
) -> Any:
    """Mark a function as an action, under its own name or another one; its docstring says what it does.

    What the function takes are the inputs, as its annotations describe them: a closed JSON schema, in which those
    without a default are required. A parameter annotated `Call` is no input: it gets everything about the call. A
    function that takes nothing but that reads its inputs there, any, or those that `inputs` describes.

    >>> @action
    ... def convert(amount: float, currency: str = "EUR") -> dict[str, str]:
    ...     '''Write an amount of money.'''
    ...     return {"text": f"{amount:.2f} {currency}"}
    >>> actions_of([convert])["convert"].inputs["required"]
    ['amount']
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        name = given if isinstance(given, str) else getattr(function, "__name__", "")
        act, described = _acting(function, name)
        made = Action(
            name=name,
            act=act,
            description=(function.__doc__ or "").strip().partition("\n")[0],
            inputs=dict(inputs) if inputs is not None else described,
            settings=dict(settings) if settings is not None else _OPEN,
            bindings=tuple(bindings),
        )
        try:
            function.__action__ = made  # type: ignore[attr-defined]
        except AttributeError as error:
            message = f"{quote(function)} cannot be marked"
            raise InvalidDefinition(message, hint="Call it from a function, and mark that", path="act") from error
        return function

    return mark(given) if callable(given) else mark


def _acting(function: Callable[..., Any], name: str) -> tuple[Callable[[Call], Any], dict[str, Any]]:
    """Return how a function acts for a call, and the schema of the inputs that it takes; refuse what cannot act."""
    try:
        _refuse_unnameable(name)
        _refuse_unfinished(function)
        parameters = parameters_of(function, known={"Call": Call})
        if len(parameters) == 1 and _is_the_call(parameters[0]):
            return function, _OPEN
        taken = [one for one in parameters if one.annotation is not Call]
        schema = inputs_schema(taken)
    except InvalidDefinition as error:
        message = f"the function {quote(getattr(function, '__name__', function))} can be no action: {error.message}"
        raise InvalidDefinition(message, hint=error.hint, path=error.path) from error
    calls = [one.name for one in parameters if one.annotation is Call]

    @wraps(function)
    def act(call: Call) -> Any:
        try:
            given = arguments(taken, call.inputs)
        except Unfit as unfit:
            raise _refused(name, call.task, f"$.inputs{unfit.place}", unfit.expected, schema) from unfit
        return function(**given, **dict.fromkeys(calls, call))

    return act, schema


def _is_the_call(parameter: Parameter) -> bool:
    return parameter.annotation is Call or (parameter.annotation is None and parameter.name == "call")


def _refuse_unnameable(name: str) -> None:
    if not is_name(name):
        raise InvalidDefinition(
            f"{quote(name)} cannot name an action",
            hint='Lower-case words joined by single underscores, as in @action("look_up")',
            path="name",
        )


def _refuse_unfinished(function: Callable[..., Any]) -> None:
    """Refuse a function that returns before its work is done."""
    if any(kind(function) for kind in _UNFINISHED):
        raise InvalidDefinition(
            "it is asynchronous or a generator, and nothing would run it to its end",
            hint="Use an ordinary function; asyncio.run(…) inside it runs a coroutine",
            path="act",
        )


def actions_of(given: Iterable[Any]) -> dict[str, Action]:
    """Return actions by name: of marked functions, of actions themselves, and of modules that have some of both."""
    found: dict[str, Action] = {}
    for one in given:
        for made in _made_of(one):
            if found.get(made.name, made) is not made:
                raise AlreadyExists(f"there are two actions {quote(made.name)}", hint="Give one another name")
            found[made.name] = made
    return found


def _made_of(one: Any) -> list[Action]:
    marked = _marked(one)
    if marked is not None:
        return [marked]
    fields = vars(one) if isinstance(one, ModuleType) else {}
    made = [inside for inside in map(_marked, fields.values()) if inside is not None]
    if not made:
        raise UsageError(f"{quote(one)} is no action", hint="Mark a function with @memoranda.workflow.action")
    return made


def _marked(one: Any) -> Action | None:
    made = one if isinstance(one, Action) else getattr(one, "__action__", None)
    return made if isinstance(made, Action) else None


def carry_out(action: Action, call: Call) -> Any:
    """Check what an action is given, let it act, and return what it gave; raise what kept it from that.

    Inputs and settings that do not fit are a SchemaViolation. A MemorandaError passes as it is, and so do the signals
    of a run; whatever else the action raises becomes an ActionFailed of type `error`.
    """
    inputs, settings = action.checks
    own = {name: value for name, value in call.settings.items() if name not in SETTINGS.names}
    for check, given, what, schema in (
        (inputs, call.inputs, "inputs", action.inputs),
        (settings, own, "settings", action.settings),
    ):
        fault = check.first_fault(given)
        if fault is not None:
            raise _refused(action.name, call.task, f"$.{what}{fault.path[1:]}", fault.reason, schema)
    try:
        return action.act(_apart(call))
    except (MemorandaError, Stopped, Paused, Unrecorded):
        raise
    except Exception as error:
        raise ActionFailed(
            f"the action {quote(action.name)} of the task {quote(call.task)} failed: "
            f"{type(error).__name__}: {quote(words_of(error), longest=_SHOWN)}",
            hint="Correct its function, or give the task `retries` where the next time may be better",
            type="error",
            task=call.task,
            action=action.name,
        ) from error


def _refused(action: str, task: str, path: str, why: str, schema: dict[str, Any]) -> SchemaViolation:
    expected = why if len(why) <= _SHOWN else why[:_SHOWN] + "…"
    known = ", ".join(schema.get("properties", ()))
    return SchemaViolation(
        f"the action {quote(action)} of the task {quote(task)} refuses the value at {path}: {expected}",
        hint=f"It takes {known}" if known else "",
        path=path,
        expected=expected,
        task=task,
        action=action,
    )


def _apart(call: Call) -> Call:
    """Return a call whose inputs and settings nobody else holds: an action may change what it is given."""
    inputs, settings = msgspec.to_builtins((call.inputs, call.settings))
    return msgspec.structs.replace(call, inputs=inputs, settings=settings)


def find_action(actions: Mapping[str, Action], name: str) -> Action:
    """Return an action by its name, or raise what was probably meant."""
    if name not in actions:
        known = did_you_mean(name, actions, otherwise=f"Actions are {', '.join(sorted(actions))}")
        raise UsageError(f"there is no action {quote(name)}", hint=known, value=name)
    return actions[name]
