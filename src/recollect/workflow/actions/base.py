"""What an action is: a task's inputs in, its output out; and the registry that finds one by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

import msgspec

from recollect.agent.models import Model
from recollect.errors import AlreadyExists, InvalidDefinition, UsageError
from recollect.lang.diagnostics import did_you_mean
from recollect.model.clock import Clock
from recollect.model.text import quote
from recollect.workflow.records import WorkingMemory

_NAME = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_OPEN: dict[str, Any] = {"type": "object"}

F = TypeVar("F", bound="Callable[[Call], Any]")


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

    def call_task(self, task: str, arguments: Mapping[str, Any]) -> Any:
        """Carry out another task of this workflow with these inputs, as a model's tool."""
        ...


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
    def checks(self) -> tuple[Any, Any]:
        """The compiled schemas of inputs and settings."""
        import jsonschema_rs  # here, because its import takes a while

        inputs, settings = (
            jsonschema_rs.validator_for(one, validate_formats=True) for one in (self.inputs, self.settings)
        )
        return inputs, settings


def action(
    name: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    bindings: Iterable[str] = (),
) -> Callable[[F], F]:
    """Mark a function as the action of this name; its docstring says what it does. See `actions_of`."""
    if not _NAME.fullmatch(name):
        raise InvalidDefinition(
            f"{quote(name)} cannot name an action", hint="Lower-case words joined by single underscores", path="name"
        )

    def mark(function: F) -> F:
        made = Action(
            name=name,
            act=function,
            description=(function.__doc__ or "").strip().partition("\n")[0],
            inputs=dict(inputs) if inputs is not None else _OPEN,
            settings=dict(settings) if settings is not None else _OPEN,
            bindings=tuple(bindings),
        )
        function.__action__ = made  # type: ignore[attr-defined]
        return function

    return mark


def actions_of(given: Iterable[Any]) -> dict[str, Action]:
    """Return actions by name: of marked functions, of modules that have some, and of actions themselves."""
    found: dict[str, Action] = {}
    for one in given:
        for made in _made_of(one):
            if made.name in found:
                raise AlreadyExists(f"there are two actions {quote(made.name)}", hint="Give one another name")
            found[made.name] = made
    return found


def _made_of(one: Any) -> list[Action]:
    if isinstance(one, Action):
        return [one]
    if isinstance(marked := getattr(one, "__action__", None), Action):
        return [marked]
    fields = cast("dict[str, Any]", vars(one)) if hasattr(one, "__dict__") else {}
    inside = [getattr(value, "__action__", None) for value in fields.values()]
    made = [value for value in inside if isinstance(value, Action)]
    if not made:
        raise UsageError(f"{quote(one)} is no action", hint='Mark a function with @recollect.workflow.action("name")')
    return made


def find_action(actions: Mapping[str, Action], name: str) -> Action:
    """Return an action by its name, or raise what was probably meant."""
    if name not in actions:
        known = did_you_mean(name, actions, otherwise=f"Actions are {', '.join(sorted(actions))}")
        raise UsageError(f"there is no action {quote(name)}", hint=known, value=name)
    return actions[name]
