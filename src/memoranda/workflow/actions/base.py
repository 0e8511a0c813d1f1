"""Actions: how they are declared, registered by name, checked and called.

`@action` marks a function as an action; its annotations become the JSON schema of its inputs. An action sees the run
that calls it through `Call` and `Place`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import PurePath
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

import msgspec

from memoranda.agent.models import Model
from memoranda.engine.validator import Validator
from memoranda.errors import (
    ActionFailed,
    AlreadyExists,
    Hint,
    InvalidDefinition,
    MemorandaError,
    SchemaViolation,
    UsageError,
)
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.egress import EgressPolicy
from memoranda.lang.python_functions import ConversionError, Parameter, convert, json_value, parameters_of, schemas_of
from memoranda.model.clock import Clock
from memoranda.model.text import quote, words_of
from memoranda.model.trust import OriginKind, check_origin
from memoranda.runs.outcome import Paused, Unrecorded
from memoranda.runs.provenance import Provenance
from memoranda.runs.records import WorkingMemory
from memoranda.workflow.keywords import SETTINGS, is_name


def object_schema(properties: Mapping[str, Any], *, required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties and no others."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    needed = list(required)
    return {**schema, "required": needed} if needed else schema


NO_SETTINGS = object_schema({})
"""The schema of an action without settings of its own."""


Json = dict[str, Any]


def inputs_schema(parameters: Sequence[Parameter]) -> Json:
    """Return the JSON schema of the inputs for a function's parameters; refuse a parameter that cannot be an input."""
    for one in parameters:
        _refuse_unnamed(one)
    schemas, parts = _schemas(parameters)
    properties = {one.name: _with_default(one, schema) for one, schema in zip(parameters, schemas, strict=True)}
    schema = object_schema(properties, required=[one.name for one in parameters if one.required])
    return {**schema, "$defs": parts} if parts else schema


def arguments(parameters: Sequence[Parameter], inputs: Mapping[str, Any]) -> Json:
    """Return the inputs by name, converted to the types of the parameters; raise Unfit if one does not fit."""
    types = {one.name: one.annotation for one in parameters if one.annotation is not None}
    given: Json = {}
    for name, value in inputs.items():
        try:
            given[name] = convert(value, types[name]) if name in types else value
        except ConversionError as unfit:
            raise ConversionError(unfit.expected, f".{name}{unfit.place}") from unfit
    return given


def _refuse_unnamed(one: Parameter) -> None:
    if not one.by_name:
        raise InvalidDefinition(
            f"the parameter {quote(one.name)} cannot be passed by name, as inputs are",
            hint="List the inputs as ordinary parameters, or take `call: Call` alone and read `call.inputs`",
            path=one.name,
        )


def _schemas(parameters: Sequence[Parameter]) -> tuple[Sequence[Json], Json]:
    types = [Any if one.annotation is None else one.annotation for one in parameters]
    try:
        return schemas_of(types)
    except (TypeError, RuntimeError):
        for one, kind in zip(parameters, types, strict=True):
            _refuse_non_json(one, kind)
        raise


def _refuse_non_json(one: Parameter, kind: Any) -> None:
    try:
        schemas_of([kind])
    except (TypeError, RuntimeError) as error:
        raise InvalidDefinition(
            f"the parameter {quote(one.name)} is {quote(kind)}, which has no JSON form",
            hint="Use text, numbers, lists, dicts, dates, dataclasses or Any, or take `call: Call` alone",
            path=one.name,
        ) from error


def _with_default(one: Parameter, schema: Json) -> Json:
    """Return the schema of a parameter with its default, if that can be written in JSON."""
    if one.required or one.default is None:
        return schema
    try:
        return {**schema, "default": json_value(one.default)}
    except UsageError:
        return schema


_OPEN: dict[str, Any] = {"type": "object"}
_SHOWN = 300
"""Maximum length of a reason in an error message: it may quote the whole input."""

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
    """The run that an action is part of, as far as the action can see and change it."""

    @property
    def run(self) -> str:
        """The id of the run."""
        ...

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        ...

    @property
    def owner(self) -> str:
        """The user whose memory the run works with."""
        ...

    @property
    def thread(self) -> str | None:
        """The id of the conversation, if the run is part of one."""
        ...

    @property
    def input(self) -> dict[str, Any]:
        """The input of the run."""
        ...

    @property
    def memory(self) -> WorkingMemory:
        """The memory records of the run, refreshed by every write."""
        ...

    @property
    def clock(self) -> Clock:
        """The source of time."""
        ...

    @property
    def egress(self) -> EgressPolicy:
        """Where requests may go."""
        ...

    def send(self, text: str) -> None:
        """Send a message to the owner; in a thread it becomes part of the conversation."""
        ...

    def history(self, limit: int) -> list[Message]:
        """Return the newest messages of the thread, oldest first."""
        ...

    def set_context(self, values: Mapping[str, Any]) -> None:
        """Set values in `$context`, for the tasks that follow."""
        ...

    def call_workflow(self, name: str, input: Mapping[str, Any]) -> Any:
        """Run another workflow for the same owner, and return its output."""
        ...

    def wait(self, event: str, *, timeout: float | None = None) -> Any:
        """Return what was delivered for this event, or None after `timeout` seconds.

        Until then the run is suspended, by an exception that the action must not catch. Later the action is called
        again with the same inputs: messages that it sent and workflows that it called before this line are not
        repeated; everything else before it is.
        """
        ...

    def tell_model(self, made_of: Provenance) -> None:
        """Note what a model is told of memory, here and in the ledger: its answer is made of it, too."""
        ...

    def call_task(self, task: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out another task of this workflow with these inputs, as a model's tool."""
        ...


class Stopped(Exception):
    """The call was cancelled: it timed out, or another branch was faster."""


class Tool(msgspec.Struct, frozen=True):
    """A task that a model may call: its name, what it is for, and the JSON schema of its inputs."""

    name: str
    description: str
    parameters: dict[str, Any]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an action: its inputs, its settings, and the run it is part of."""

    task: str
    inputs: dict[str, Any]
    settings: dict[str, Any]
    place: Place
    model: Model | None = None
    slugs: tuple[str, ...] = ()
    """The memory that is mounted on the task, in the order of its bindings."""
    tools: tuple[Tool, ...] = ()


class Action(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """An action: its name, its function, and the schemas of its inputs and settings."""

    name: str
    act: Callable[[Call], Any]
    description: str = ""
    inputs: dict[str, Any] = msgspec.field(default_factory=lambda: dict(_OPEN))
    """JSON schema of its inputs."""
    settings: dict[str, Any] = msgspec.field(default_factory=lambda: dict(_OPEN))
    """JSON schema of its settings, without those that every task has."""
    bindings: tuple[str, ...] = ()
    """The kinds of bindings that it supports."""
    origin: OriginKind | None = "tool_internal"
    """As what kind of origin its outputs are passed on; None if they are made of its inputs alone."""

    @cached_property
    def checks(self) -> tuple[Validator, Validator]:
        """The validators of inputs and settings; raises InvalidDefinition for an invalid schema."""
        return self._validator("inputs", self.inputs), self._validator("settings", self.settings)

    def _validator(self, what: str, schema: dict[str, Any]) -> Validator:
        try:
            return Validator(schema)
        except InvalidDefinition as error:
            message = f"the {what} of the action {quote(self.name)}: {error.message}"
            raise InvalidDefinition(message, hint=error.advice, path=error.path) from error


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
    origin: OriginKind | None = "tool_internal",
) -> Callable[[F], F]: ...
def action(
    given: Callable[..., Any] | str | None = None,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    bindings: Iterable[str] = (),
    origin: OriginKind | None = "tool_internal",
) -> Any:
    """Mark a function as an action, under its own name or another; its docstring is the description.

    Its parameters are the inputs, and their annotations become a closed JSON schema in which those without a default
    are required. A parameter annotated `Call` is not an input: it receives everything about the call. A function whose
    only parameter is the call reads its inputs from there: any inputs, or those that `inputs` describes. `origin` is
    what kind of origin its outputs are from: `tool_external` if it asks others for them.

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
            origin=origin if origin is None else check_origin(origin),
        )
        try:
            function.__action__ = made  # type: ignore[attr-defined]
        except AttributeError as error:
            message = f"{quote(function)} cannot be marked as an action"
            raise InvalidDefinition(message, hint="Call it from a function, and mark that", path="act") from error
        return function

    return mark(given) if callable(given) else mark


def _acting(function: Callable[..., Any], name: str) -> tuple[Callable[[Call], Any], dict[str, Any]]:
    """Return the callable of an action and the schema of its inputs; refuse a function that cannot be an action."""
    try:
        _refuse_unnameable(name)
        _refuse_unfinished(function)
        parameters = parameters_of(function, known={"Call": Call})
        if len(parameters) == 1 and _is_the_call(parameters[0]):
            return function, _OPEN
        taken = [one for one in parameters if one.annotation is not Call]
        schema = inputs_schema(taken)
    except InvalidDefinition as error:
        message = f"the function {quote(getattr(function, '__name__', function))} cannot be an action: {error.message}"
        raise InvalidDefinition(message, hint=error.advice, path=error.path) from error
    calls = [one.name for one in parameters if one.annotation is Call]

    @wraps(function)
    def act(call: Call) -> Any:
        try:
            given = arguments(taken, call.inputs)
        except ConversionError as unfit:
            raise _violation(name, call.task, f"$.inputs{unfit.place}", unfit.expected, schema) from unfit
        return function(**given, **dict.fromkeys(calls, call))

    return act, schema


def _is_the_call(parameter: Parameter) -> bool:
    return parameter.annotation is Call or (parameter.annotation is None and parameter.name == "call")


def _refuse_unnameable(name: str) -> None:
    if not is_name(name):
        raise InvalidDefinition(
            f"{quote(name)} is not a valid name for an action",
            hint='Lower-case words joined by single underscores, as in @action("look_up")',
            path="name",
        )


def _refuse_unfinished(function: Callable[..., Any]) -> None:
    if any(kind(function) for kind in _UNFINISHED):
        raise InvalidDefinition(
            "it is asynchronous or a generator, which would never be run",
            hint=Hint("python", "Use an ordinary function; asyncio.run(…) inside it runs a coroutine"),
            path="act",
        )


def actions_of(given: Iterable[Any]) -> dict[str, Action]:
    """Return actions by name, from marked functions, from `Action`s, and from modules that contain either."""
    found: dict[str, Action] = {}
    for one in given:
        for made in _actions_in(one):
            if found.get(made.name, made) is not made:
                raise AlreadyExists(f"there are two actions {quote(made.name)}", hint="Give one another name")
            found[made.name] = made
    return found


def _actions_in(one: Any) -> list[Action]:
    marked = _action_of(one)
    if marked is not None:
        return [marked]
    fields = vars(one) if isinstance(one, ModuleType) else {}
    made = [inside for inside in map(_action_of, fields.values()) if inside is not None]
    if not made:
        # The repr of a module has its folder, and callers of a server see this message.
        place = getattr(one, "__file__", None) if isinstance(one, ModuleType) else None
        raise UsageError(
            f"{quote(PurePath(place).name if place else one)} is not an action",
            hint=Hint("python", "Mark a function with @memoranda.workflow.action"),
        )
    return made


def _action_of(one: Any) -> Action | None:
    made = one if isinstance(one, Action) else getattr(one, "__action__", None)
    return made if isinstance(made, Action) else None


def carry_out(action: Action, call: Call) -> Any:
    """Check the inputs and settings of a call, run the action, and return its output.

    Inputs and settings that do not fit raise a SchemaViolation. A MemorandaError is passed on, and so are the signals
    of a run; any other exception becomes an ActionFailed of type `error`.
    """
    inputs, settings = action.checks
    own = {name: value for name, value in call.settings.items() if name not in SETTINGS.names}
    for check, given, what, schema in (
        (inputs, call.inputs, "inputs", action.inputs),
        (settings, own, "settings", action.settings),
    ):
        fault = check.first_fault(given)
        if fault is not None:
            raise _violation(action.name, call.task, f"$.{what}{fault.path[1:]}", fault.reason, schema)
    try:
        # With a copy of its inputs and settings: the action may change what it is given.
        inputs_copy, settings_copy = msgspec.to_builtins((call.inputs, call.settings))
        return action.act(msgspec.structs.replace(call, inputs=inputs_copy, settings=settings_copy))
    except (MemorandaError, Stopped, Paused, Unrecorded):
        raise
    except Exception as error:
        raise ActionFailed(
            f"the action {quote(action.name)} of the task {quote(call.task)} failed: "
            f"{type(error).__name__}: {quote(words_of(error), longest=_SHOWN)}",
            hint="Correct the function, or give the task `retries` if the failure is temporary",
            type="error",
            task=call.task,
            action=action.name,
        ) from error


def _violation(action: str, task: str, path: str, why: str, schema: dict[str, Any]) -> SchemaViolation:
    expected = why if len(why) <= _SHOWN else why[:_SHOWN] + "…"
    known = ", ".join(schema.get("properties", ()))
    return SchemaViolation(
        f"the action {quote(action)} of the task {quote(task)} rejects the value at {path}: {expected}",
        hint=f"It takes {known}" if known else "",
        path=path,
        expected=expected,
        task=task,
        action=action,
    )


def find_action(actions: Mapping[str, Action], name: str) -> Action:
    """Return the action with this name, or raise a UsageError that suggests the nearest name."""
    if name not in actions:
        known = did_you_mean(name, actions, otherwise=f"Actions are {', '.join(sorted(actions))}")
        raise UsageError(f"unknown action {quote(name)}", hint=known, value=name)
    return actions[name]
