"""An agent as configuration: its instructions, its model, its tools, and its memory policy."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast, get_args

import msgspec

from memoranda.agent.conversation import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.api.arguments import check_collection
from memoranda.errors import Hint, InvalidDefinition, InvalidValue, LimitExceeded, UsageError
from memoranda.lang.python_functions import ConversionError, Parameter, convert, json_value, parameters_of, schemas_of
from memoranda.model.block import check_lines
from memoranda.model.limits import check_count
from memoranda.model.names import require_label
from memoranda.model.scope import Scope
from memoranda.model.text import quote, words_of
from memoranda.runs.records import UPDATE_MEMORY

ArchivalMode = Literal["tool_only", "auto", "off"]
_MODES = get_args(ArchivalMode)


class MemoryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which memory a model is shown in its prompt; its memory tools are the same under every policy.

    >>> MemoryPolicy(archival_mode="auto", archival_limit=3).include_user_core
    True
    """

    archival_mode: ArchivalMode = "tool_only"
    """`auto` shows the lines of the archival blocks that match the user's message; the other modes show none."""
    archival_limit: int = 10
    """Maximum number of lines that `auto` shows, from 1 to 100."""
    archival_min_score: float | None = None
    """Minimum score of a line; None shows every line that shares a word with the message."""
    include_user_core: bool = True
    include_agent_core: bool = True
    definitions: tuple[str, ...] = ()
    """Slugs of memory definitions: their records are shown, and the model may update them."""
    collections: tuple[str, ...] = ()
    """Collections that are searched beside the archival blocks: `kb`, or `project:atlas#kb` in another scope."""

    def __post_init__(self) -> None:
        """Reject invalid values."""
        if self.archival_mode not in _MODES:
            raise _policy_error("archival_mode", self.archival_mode, f"Modes are {', '.join(_MODES)}")
        check_lines(self.archival_limit, path="archival_limit")
        score = cast(object, self.archival_min_score)
        if score is not None and (type(score) not in (int, float) or not math.isfinite(cast(float, score))):
            raise _policy_error("archival_min_score", score, "Pass a number, or None")
        for name in ("include_user_core", "include_agent_core"):
            if type(value := getattr(self, name)) is not bool:
                raise _policy_error(name, value, "Pass True or False")
        for name in ("definitions", "collections"):
            msgspec.structs.force_setattr(self, name, _names(name, getattr(self, name)))

    def mounted_collections(self, own: Scope) -> tuple[tuple[Scope, str], ...]:
        """Return the collections that are searched, each with its scope: the agent's own unless it names another.

        >>> MemoryPolicy(collections=("kb", "project:atlas#kb")).mounted_collections(Scope.of(user="ada"))[1][0].path
        'project:atlas'
        """
        found: list[tuple[Scope, str]] = []
        for mount in self.collections:
            place, mark, name = mount.rpartition("#")
            found.append((Scope.named(place, tenant=own.tenant) if mark else own, check_collection(name)))
        return tuple(found)


def _names(field: str, given: object) -> tuple[str, ...]:
    """Return a list of names as a tuple, or raise UsageError."""
    names: list[Any] = [*cast("list[Any]", given)] if type(given) in (list, tuple) else [None]
    if not all(isinstance(name, str) for name in names):
        raise _policy_error(field, given, "Pass a list of names")
    return tuple(names)


def policy_for(given: MemoryPolicy | Mapping[str, Any] | None, default: MemoryPolicy) -> MemoryPolicy:
    """Return the policy of a run: the given fields, and the others from the default.

    >>> policy_for({"archival_mode": "auto"}, MemoryPolicy(archival_limit=3)).archival_limit
    3
    """
    if given is None:
        return default
    if isinstance(given, MemoryPolicy):
        return given
    if not isinstance(cast(object, given), Mapping):
        raise _policy_error("memory_policy", given, "Pass a MemoryPolicy, or a map of its fields")
    unknown = sorted(str(name) for name in given if name not in MemoryPolicy.__struct_fields__)
    if unknown:
        known = ", ".join(MemoryPolicy.__struct_fields__)
        raise UsageError(
            f"{quote(unknown[0])} is not a field of a memory policy", hint=f"Fields are {known}", path=unknown[0]
        )
    return msgspec.structs.replace(default, **given)


def _policy_error(field: str, value: object, hint: str) -> UsageError:
    return UsageError(f"{quote(value)} cannot be the `{field}` of a memory policy", hint=hint, path=field, value=value)


UPDATE_BLOCK = "update_memory_block"
"""The tool with which an agent writes memory blocks, if `update_memory` is the one for records."""
RECALL_MEMORY = "recall_memory"
"""The tool with which an agent searches memory."""
TOOL_NAMES = (UPDATE_MEMORY, UPDATE_BLOCK, RECALL_MEMORY)
"""The names of all memory tools."""


class Tool(msgspec.Struct, frozen=True):
    """A tool that an agent can call."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of its arguments, an object."""
    act: Callable[[dict[str, Any]], Any]
    """Carries out a call and returns a JSON value; the model is told about exceptions."""

    def __post_init__(self) -> None:
        """Reject a tool that a model could not call."""
        require_label("name of a tool", self.name)
        if not callable(cast(object, self.act)):
            raise UsageError(f"the tool {quote(self.name)} has no function to call", hint="Pass one as `act`")

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters)

    def call(self, arguments: dict[str, Any]) -> Any:
        """Return the result of a call; raise ToolFailed with a message for the model."""
        try:
            return json_value(self.act(arguments))
        except ToolFailed:
            raise
        except (InvalidValue, LimitExceeded) as error:
            raise ToolFailed(f"the result of {quote(self.name)} cannot be shown: {error.message}") from error
        # Application code may raise anything; the model can continue without this call.
        except Exception as error:
            raise ToolFailed(f"{quote(self.name)} failed: {words_of(error)}") from error


def tool(function: Callable[..., Any], *, name: str | None = None) -> Tool:
    """Return a Python function as a tool: its docstring is the description, its annotations are the schema.

    >>> def tides(harbour: str, days: int = 1) -> list[str]:
    ...     "When the water is high."
    ...     return [f"{harbour} 06:12"] * days
    >>> tool(tides).call({"harbour": "Porto"})
    ['Porto 06:12']
    """
    called = name or getattr(function, "__name__", "")
    if inspect.iscoroutinefunction(function):
        message = f"{quote(called)} is async, which a tool cannot be"
        raise InvalidDefinition(message, hint="Wrap it in a plain function")
    takes = parameters_of(function)
    unnamed = next((one for one in takes if not one.by_name), None)
    if unnamed is not None:
        raise InvalidDefinition(
            f"the parameter {quote(unnamed.name)} of {quote(called)} cannot be passed by name",
            hint="A model passes arguments by name: use ordinary parameters",
            path=unnamed.name,
        )
    types = [Any if one.annotation is None else one.annotation for one in takes]
    try:
        schemas, parts = schemas_of(types)
    except (TypeError, RuntimeError) as error:
        raise InvalidDefinition(
            f"{quote(called)} has a parameter without JSON form: {words_of(error)}",
            hint="Use text, numbers, lists, dicts, dates or dataclasses",
            value=called,
        ) from error
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: schema for one, schema in zip(takes, schemas, strict=True)},
        "required": [one.name for one in takes if one.required],
        "additionalProperties": False,
    }
    if parts:
        parameters["$defs"] = parts
    return Tool(
        name=called,
        description=inspect.getdoc(function) or "",
        parameters=parameters,
        act=lambda arguments: function(**_convert(takes, arguments)),
    )


def _convert(takes: Iterable[Parameter], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, converted to the types of the parameters; raise ToolFailed if one does not fit."""
    known = {one.name: one for one in takes}
    for name in arguments:
        if name not in known:
            raise ToolFailed(f"unknown parameter {quote(name)}: {', '.join(known) or 'it takes none'}")
    missing = next((one.name for one in known.values() if one.required and one.name not in arguments), None)
    if missing is not None:
        raise ToolFailed(f"the parameter {quote(missing)} is missing")
    fitted: dict[str, Any] = {}
    for name, value in arguments.items():
        annotation = known[name].annotation
        try:
            fitted[name] = value if annotation is None else convert(value, annotation)
        except ConversionError as unfit:
            raise ToolFailed(f"{name}{unfit.place}: {unfit.expected}") from unfit
    return fitted


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that users chat with.

    >>> Agent(id="librarian", model="openai:gpt-5.2", instructions="You lend books.").memory_policy.archival_mode
    'tool_only'
    """

    id: str
    """Its name; its memory of a user is stored under it."""
    model: Any = None
    """The model: `provider:model`, a pydantic-ai model, or anything that replies."""
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    memory_policy: MemoryPolicy = MemoryPolicy()
    memory_tools: bool = True
    """Whether it has `update_memory` and `recall_memory`."""
    max_rounds: int = 8
    """Maximum number of rounds of tool calls in one turn."""
    timeout: float = 60.0
    """Seconds for each reply of the model."""
    temperature: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Reject invalid values."""
        Scope.of(agent=self.id)
        _check(self, "instructions", isinstance(cast(object, self.instructions), str), "Pass text")
        _check(self, "memory_policy", isinstance(cast(object, self.memory_policy), MemoryPolicy), "Pass a MemoryPolicy")
        for one in cast("Iterable[object]", self.tools):
            _check(self, "tools", isinstance(one, Tool), "Make each of a function with tool(…), or a Tool")
        check_count("number of rounds", self.max_rounds, least=1)
        check_count("number of tokens", self.max_tokens, least=1)
        timed = type(self.timeout) in (int, float) and math.isfinite(self.timeout) and self.timeout > 0
        _check(self, "timeout", timed, "Pass seconds")
        _refuse_duplicates([*(one.name for one in self.tools), *(TOOL_NAMES * self.memory_tools)])


def _check(agent: Agent, field: str, fits: bool, hint: str) -> None:
    if not fits:
        value = getattr(agent, field)
        raise UsageError(f"{quote(value)} cannot be the `{field}` of an agent", hint=hint, path=field, value=value)


def _refuse_duplicates(names: list[str]) -> None:
    twin = next((name for name, count in Counter(names).items() if count > 1), None)
    if twin in TOOL_NAMES:
        raise UsageError(
            f"a tool is called {quote(twin)}, the name of a memory tool",
            hint=("Give yours another name", Hint("python", "Pass memory_tools=False")),
            value=twin,
        )
    if twin is not None:
        raise UsageError(f"there are two tools {quote(twin)}", hint="Name each once", value=twin)
