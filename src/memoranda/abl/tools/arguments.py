"""The arguments of a call in, checked and typed arguments by name out, or why they do not fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from memoranda.abl import document
from memoranda.abl.tools.outcome import Failure
from memoranda.abl.tools.schema import annotation_schema, is_nullable, object_schema, plain_type, type_schema
from memoranda.abl.tree import Raw
from memoranda.abl.understanding.coercion import coerce
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.model.clock import Clock
from memoranda.model.limits import Limits
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked

MOST_BYTES = 524_288
"""Bytes of all arguments of one call as JSON."""
IN_ORDER = "*"
"""Among arguments by name, those that are passed by their place; no parameter can have this name."""
_LIMITS = Limits(value_bytes=MOST_BYTES)


class Parameter(msgspec.Struct, frozen=True):
    """One parameter: its type and its default as they were written, and what the type means."""

    name: str
    written: str = ""
    required: bool = True
    default: Raw | None = None
    schema: dict[str, Any] = {}
    type: str | None = None
    """What a value is turned into; None leaves it as it is."""
    nullable: bool = False
    """Whether null is a value of its own, and not the lack of one."""


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of a tool in order; `more` says that others may be given by name, `rest` by position."""

    known: tuple[Parameter, ...] = ()
    more: bool = False
    rest: bool = False
    by_place: int = 0
    """How many of them a function takes by their place only."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names in order, for arguments by position."""
        return tuple(parameter.name for parameter in self.known)

    def schema(self, description: str) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        properties = {parameter.name: parameter.schema for parameter in self.known}
        required = [parameter.name for parameter in self.known if parameter.required]
        return object_schema(properties, required, description=description, more=self.more)


def declared_parameters(tool: document.Tool) -> Parameters:
    """Return the parameters as the agent declares them."""
    return Parameters(tuple(_declared(parameter) for parameter in tool.parameters))


def _declared(parameter: document.Parameter) -> Parameter:
    written = parameter.type.text if parameter.type else ""
    schema = type_schema(written)
    return Parameter(
        name=parameter.name.text,
        written=written,
        required=parameter.required,
        default=parameter.default,
        schema=schema,
        type=plain_type(schema),
        nullable=is_nullable(schema),
    )


def function_parameters(function: Callable[..., Any]) -> Parameters:
    """Return the parameters of a Python function; one that does not tell them takes anything by name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Parameters(more=True)
    known: list[Parameter] = []
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    for parameter in signature.parameters.values():
        if parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            required = parameter.default is inspect.Parameter.empty
            schema = annotation_schema(parameter.annotation)
            # A function is the judge of its own null.
            known.append(Parameter(parameter.name, required=required, schema=schema, nullable=required))
    return Parameters(
        tuple(known),
        more=inspect.Parameter.VAR_KEYWORD in kinds,
        rest=inspect.Parameter.VAR_POSITIONAL in kinds,
        by_place=kinds.count(inspect.Parameter.POSITIONAL_ONLY),
    )


def as_function_takes(declared: Parameters, function: Callable[..., Any]) -> Parameters:
    """Return declared parameters in the way in which a function takes them: by name, or by their place."""
    own = function_parameters(function)
    if own.rest and not own.more and not set(declared.names) <= set(own.names):
        return msgspec.structs.replace(declared, by_place=len(declared.known))
    return msgspec.structs.replace(declared, by_place=own.by_place) if own.by_place else declared


def bind(
    tool: str,
    parameters: Parameters,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    *,
    defaults: Callable[[Raw], Any],
    clock: Clock,
) -> dict[str, Any] | Failure:
    """Return the arguments by name, each as its parameter declares it and none shared with the caller.

    Null for a parameter that need not be given counts as not given; then its default is used, if there is one.
    """
    given = _by_name(tool, parameters, positional, named)
    if isinstance(given, Failure):
        return given
    for parameter in parameters.known:
        value = given.get(parameter.name)
        if value is None and not (parameter.nullable and parameter.name in given):
            given.pop(parameter.name, None)
            value = defaults(parameter.default) if parameter.default is not None else None
            if value is None:
                if parameter.required:
                    return _wrong(f"the tool {quote(tool)} needs the argument `{parameter.name}`")
                continue
        if parameter.type is not None and value is not None:
            fits, value = coerce(value, parameter.type, now=clock.now())
            if not fits:
                return _wrong(
                    f"the argument `{parameter.name}` of the tool {quote(tool)} is {quote(value)}, "
                    f"which is no {parameter.written}"
                )
        given[parameter.name] = value
    return _copied(tool, _in_order(parameters, given, positional[len(parameters.names) :]))


def _in_order(parameters: Parameters, given: dict[str, Any], rest: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments with those apart that a function takes by their place and not by a name."""
    count = len(parameters.names) if rest else parameters.by_place
    if not count and not rest:
        return given
    first = [name for name in parameters.names[:count] if name in given]
    return {IN_ORDER: [*(given.pop(name) for name in first), *rest], **given}


def _by_name(
    tool: str, parameters: Parameters, positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any] | Failure:
    names = parameters.names
    if len(positional) > len(names) and not parameters.rest:
        return _wrong(f"the tool {quote(tool)} takes {len(names)} arguments, {len(positional)} were given")
    given = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        if name in given:
            return _wrong(f"the argument {quote(name)} of the tool {quote(tool)} is given twice")
        if name not in names and not parameters.more:
            known = ", ".join(names) or "none"
            hint = did_you_mean(name, names, otherwise=f"It takes: {known}")
            return _wrong(f"the tool {quote(tool)} takes no argument {quote(name)}. {hint}")
        given[name] = value
    return given


def _copied(tool: str, arguments: dict[str, Any]) -> dict[str, Any] | Failure:
    try:
        return decode(encode_checked(arguments, _LIMITS))
    except UsageError as error:
        return _wrong(f"the arguments of the tool {quote(tool)} cannot be passed on: {error.message}", error)


def _wrong(message: str, error: Exception | None = None) -> Failure:
    return Failure("validation_error", message, type(error).__name__ if error else "")
