"""A Python function in, a tool of an agent out: what a model is shown of it, and what happens when it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from memoranda.agent.conversing import ToolFailed
from memoranda.agent.models import ToolSpec
from memoranda.errors import InvalidDefinition, InvalidValue, LimitExceeded, UsageError
from memoranda.lang.plain import plain
from memoranda.lang.signatures import Parameter, Unfit, parameters_of, schemas_of, turned
from memoranda.model.text import quote, require_label, words_of

UPDATE_MEMORY = "update_memory"
"""The tool that an agent writes memory blocks with."""
RECALL_MEMORY = "recall_memory"
"""The tool that an agent searches archival memory with."""


class Tool(msgspec.Struct, frozen=True):
    """Something an agent can do: what a model is shown of it, and what happens then."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of an object: what it is called with."""
    act: Callable[[dict[str, Any]], Any]
    """Does it and returns what came of it, as JSON has words for; what it raises, the model is told."""

    def __post_init__(self) -> None:
        """Refuse a tool that no model could call."""
        require_label("name of a tool", self.name)
        if not callable(cast(object, self.act)):
            raise UsageError(f"the tool {quote(self.name)} has no function to call", hint="Pass one as `act`")

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is shown it."""
        return ToolSpec(self.name, self.description, self.parameters)

    def call(self, arguments: dict[str, Any]) -> Any:
        """Return what a call came to; raise ToolFailed with what the model is told."""
        try:
            return plain(self.act(arguments))
        except ToolFailed:
            raise
        except (InvalidValue, LimitExceeded) as error:
            raise ToolFailed(f"{quote(self.name)} gave what cannot be shown: {error.message}") from error
        # The function is somebody else's: whatever it raises, the model can go on without it.
        except Exception as error:
            raise ToolFailed(f"{quote(self.name)} failed: {words_of(error)}") from error


def tool(function: Callable[..., Any], *, name: str | None = None) -> Tool:
    """Return a Python function as a tool: its docstring is what a model is told, its annotations what it may pass.

    >>> def tides(harbour: str, days: int = 1) -> list[str]:
    ...     "When the water is high."
    ...     return [f"{harbour} 06:12"] * days
    >>> tool(tides).call({"harbour": "Porto"})
    ['Porto 06:12']
    """
    called = name or getattr(function, "__name__", "")
    if inspect.iscoroutinefunction(function):
        raise InvalidDefinition(f"{quote(called)} is async, and a tool is not", hint="Wrap it in a plain function")
    takes = parameters_of(function)
    unnamed = next((one for one in takes if not one.by_name), None)
    if unnamed is not None:
        raise InvalidDefinition(
            f"the parameter {quote(unnamed.name)} of {quote(called)} cannot be given by its name",
            hint="A model calls with names: take each parameter by its own",
            path=unnamed.name,
        )
    types = [Any if one.annotation is None else one.annotation for one in takes]
    try:
        schemas, parts = schemas_of(types)
    except (TypeError, RuntimeError) as error:
        raise InvalidDefinition(
            f"{quote(called)} takes what has no form in JSON: {words_of(error)}",
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
        act=lambda arguments: function(**_fitted(takes, arguments)),
    )


def _fitted(takes: Iterable[Parameter], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments as a function takes them; raise ToolFailed saying which does not fit."""
    known = {one.name: one for one in takes}
    for name in arguments:
        if name not in known:
            raise ToolFailed(f"there is no parameter {quote(name)}: {', '.join(known) or 'it takes none'}")
    missing = next((one.name for one in known.values() if one.required and one.name not in arguments), None)
    if missing is not None:
        raise ToolFailed(f"the parameter {quote(missing)} is missing")
    fitted: dict[str, Any] = {}
    for name, value in arguments.items():
        annotation = known[name].annotation
        try:
            fitted[name] = value if annotation is None else turned(value, annotation)
        except Unfit as unfit:
            raise ToolFailed(f"{name}{unfit.place}: {unfit.expected}") from unfit
    return fitted
