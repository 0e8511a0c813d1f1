"""The parameters of a tool: their types, their JSON schema, and the arguments of a call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec

from memoranda.abl.document import Tool, ToolParameter
from memoranda.abl.keywords import type_name
from memoranda.abl.lines import top_level_characters
from memoranda.abl.tools.outcome import ToolFailure
from memoranda.abl.understanding.validation import coerce
from memoranda.errors import UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.document import Raw
from memoranda.lang.python_functions import schemas_of
from memoranda.model.clock import Clock
from memoranda.model.limits import Limits
from memoranda.model.text import quote
from memoranda.model.value import decode, encode_checked

_NULL = {"type": "null"}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "time": {"type": "string", "format": "time"},
    "email": {"type": "string", "format": "email"},
    "phone": {"type": "string"},
    "array": {"type": "array"},
    "object": {"type": "object"},
    "null": _NULL,
}
_AROUND = re.compile(r"(?P<name>\w+)\s*[<\[(](?P<inner>.*)[>\])]", re.DOTALL)


def type_schema(written: str) -> dict[str, Any]:
    """Return the JSON schema of a declared type; an unknown type allows anything.

    >>> type_schema("string[]")
    {'type': 'array', 'items': {'type': 'string'}}
    >>> type_schema("'single' | 'double'")
    {'enum': ['single', 'double']}
    """
    text = written.strip()
    parts = _split(text, "|")
    if len(parts) > 1:
        return _any_of(parts)
    if text.endswith("?"):
        return _any_of([text[:-1], "null"])
    if text.endswith("[]"):
        return {"type": "array", "items": type_schema(text[:-2])}
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return {"enum": [text[1:-1]]}
    if text.startswith("{") and text.endswith("}"):
        return _object(text[1:-1])
    around = _AROUND.fullmatch(text)
    if around:
        return _generic(around["name"].casefold(), around["inner"])
    return _schema_of_name(text)


def _schema_of_name(name: str) -> dict[str, Any]:
    return dict(_SCHEMAS.get(type_name(name) or "", {}))


def _any_of(parts: Sequence[str]) -> dict[str, Any]:
    schemas = [type_schema(part) for part in parts]
    if len(parts) > 1 and not any(schemas):
        # `economy | business`: parts that are not types are values.
        return {"enum": list(parts)}
    if all(schema.keys() == {"enum"} for schema in schemas):
        return {"enum": [value for schema in schemas for value in schema["enum"]]}
    return {"anyOf": schemas}


def _object(inner: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in _split(inner, ","):
        name, _, kind = part.partition(":")
        bare = name.strip().strip("'\"").removesuffix("?")
        properties[bare] = type_schema(kind)
        if not name.strip().endswith("?"):
            required.append(bare)
    return {"type": "object", "properties": properties, "required": required}


def _generic(name: str, inner: str) -> dict[str, Any]:
    if name == "enum":
        return {"enum": [part.strip("'\"") for part in _split(inner, ",")]}
    if name in ("array", "list"):
        return {"type": "array", "items": type_schema(inner)}
    return _schema_of_name(name)


def _split(text: str, separator: str) -> list[str]:
    cuts = [offset for offset, character in top_level_characters(text) if character == separator]
    bounds = [-1, *cuts, len(text)]
    parts = [text[left + 1 : right].strip() for left, right in pairwise(bounds)]
    return [part for part in parts if part]


def is_nullable(schema: dict[str, Any]) -> bool:
    """Say whether a schema allows null explicitly."""
    return _NULL in schema.get("anyOf", ())


def plain_type(schema: dict[str, Any]) -> str | None:
    """Return the type for `coerce`; None to leave a value as it is.

    >>> plain_type(type_schema("date[]")), plain_type(type_schema("Booking")), plain_type(type_schema("int | null"))
    ('date[]', None, 'integer')
    """
    if "enum" in schema:
        values = [str(value) for value in schema["enum"]]
        return None if any(set(value) & set("[](){}<>,|") for value in values) else f"enum({', '.join(values)})"
    if "anyOf" in schema:
        kinds = [plain_type(part) for part in schema["anyOf"] if part != _NULL]
        known = [kind for kind in kinds if kind in _SCHEMAS]
        return "|".join(known) if len(known) == len(kinds) else kinds[0] if len(kinds) == 1 else None
    if schema.get("type") == "array":
        inner = plain_type(schema.get("items", {}))
        return f"{inner}[]" if inner in _SCHEMAS else "array"
    name = {"date-time": "datetime"}.get(schema.get("format", ""), schema.get("format")) or schema.get("type")
    return name if name in _SCHEMAS else None


def annotation_schema(annotation: Any) -> dict[str, Any]:
    """Return the JSON schema of a Python annotation; an empty one, which allows anything, if it has none."""
    if annotation is inspect.Parameter.empty:
        return {}
    if isinstance(annotation, str):
        return type_schema(annotation)
    try:
        (schema,), parts = schemas_of([annotation])
    except (TypeError, RuntimeError):
        return {}
    # References are relative to the root of a schema, and this one becomes part of another.
    return {} if parts else schema


def object_schema(
    properties: dict[str, dict[str, Any]], required: Iterable[str], *, description: str = "", more: bool = False
) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, with the description of the tool."""
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(required)}
    if description:
        schema["description"] = description
    if not more:
        schema["additionalProperties"] = False
    return schema


MOST_BYTES = 524_288
"""Maximum size of the arguments of one call as JSON."""
IN_ORDER = "*"
"""The key of positional arguments among arguments by name; no parameter can have this name."""
_LIMITS = Limits(value_bytes=MOST_BYTES)


class Parameter(msgspec.Struct, frozen=True):
    """One parameter: its type and default as written, and what the type means."""

    name: str
    written: str = ""
    required: bool = True
    default: Raw | None = None
    schema: dict[str, Any] = {}
    type: str | None = None
    """The type that values are converted to; None leaves them as they are."""
    nullable: bool = False
    """Whether null is a value, as opposed to a missing argument."""


class Parameters(msgspec.Struct, frozen=True, dict=True):
    """The parameters of a tool, in order; `more` allows others by name, `rest` others by position."""

    known: tuple[Parameter, ...] = ()
    more: bool = False
    rest: bool = False
    by_place: int = 0
    """Number of positional-only parameters."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(parameter.name for parameter in self.known)

    def schema(self, description: str) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        properties = {parameter.name: parameter.schema for parameter in self.known}
        required = [parameter.name for parameter in self.known if parameter.required]
        return object_schema(properties, required, description=description, more=self.more)


def tool_parameters(tool: Tool) -> Parameters:
    """Return the parameters that the agent declares for a tool."""
    return Parameters(tuple(_tool_parameter(parameter) for parameter in tool.parameters))


def _tool_parameter(parameter: ToolParameter) -> Parameter:
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
    """Return the parameters of a Python function; without a signature, anything by name."""
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
            # The function itself decides whether it accepts None.
            known.append(Parameter(parameter.name, required=required, schema=schema, nullable=required))
    return Parameters(
        tuple(known),
        more=inspect.Parameter.VAR_KEYWORD in kinds,
        rest=inspect.Parameter.VAR_POSITIONAL in kinds,
        by_place=kinds.count(inspect.Parameter.POSITIONAL_ONLY),
    )


def adapt_to_function(declared: Parameters, function: Callable[..., Any]) -> Parameters:
    """Return declared parameters adapted to a function that takes them by position."""
    own = function_parameters(function)
    if own.rest and not own.more and not set(declared.names) <= set(own.names):
        return msgspec.structs.replace(declared, by_place=len(declared.known))
    return msgspec.structs.replace(declared, by_place=own.by_place) if own.by_place else declared


def bind_arguments(
    tool: str,
    parameters: Parameters,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    *,
    defaults: Callable[[Raw], Any],
    clock: Clock,
) -> dict[str, Any] | ToolFailure:
    """Return the arguments by name, converted to their types and copied, or why they are invalid.

    Null for an optional parameter counts as missing; then its default is used, if it has one.
    """
    given = _arguments_by_name(tool, parameters, positional, named)
    if isinstance(given, ToolFailure):
        return given
    for parameter in parameters.known:
        value = given.get(parameter.name)
        if value is None and not (parameter.nullable and parameter.name in given):
            given.pop(parameter.name, None)
            value = defaults(parameter.default) if parameter.default is not None else None
            if value is None:
                if parameter.required:
                    return _invalid(f"the tool {quote(tool)} needs the argument `{parameter.name}`")
                continue
        if parameter.type is not None and value is not None:
            fits, value = coerce(value, parameter.type, now=clock.now())
            if not fits:
                return _invalid(
                    f"the argument `{parameter.name}` of the tool {quote(tool)} is {quote(value)}, "
                    f"which is not of type {parameter.written}"
                )
        given[parameter.name] = value
    return _copy_arguments(tool, _separate_positional(parameters, given, positional[len(parameters.names) :]))


def _separate_positional(parameters: Parameters, given: dict[str, Any], rest: Sequence[Any]) -> dict[str, Any]:
    """Move the arguments that a function takes by position to `IN_ORDER`."""
    count = len(parameters.names) if rest else parameters.by_place
    if not count and not rest:
        return given
    first = [name for name in parameters.names[:count] if name in given]
    return {IN_ORDER: [*(given.pop(name) for name in first), *rest], **given}


def _arguments_by_name(
    tool: str, parameters: Parameters, positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any] | ToolFailure:
    names = parameters.names
    if len(positional) > len(names) and not parameters.rest:
        return _invalid(f"the tool {quote(tool)} takes {len(names)} arguments, {len(positional)} were given")
    given = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        if name in given:
            return _invalid(f"the argument {quote(name)} of the tool {quote(tool)} is given twice")
        if name not in names and not parameters.more:
            known = ", ".join(names) or "none"
            hint = did_you_mean(name, names, otherwise=f"It takes: {known}")
            return _invalid(f"the tool {quote(tool)} takes no argument {quote(name)}. {hint}")
        given[name] = value
    return given


def _copy_arguments(tool: str, arguments: dict[str, Any]) -> dict[str, Any] | ToolFailure:
    try:
        return decode(encode_checked(arguments, _LIMITS))
    except UsageError as error:
        return _invalid(f"the arguments of the tool {quote(tool)} cannot be passed on: {error.message}", error)


def _invalid(message: str, error: Exception | None = None) -> ToolFailure:
    return ToolFailure("validation_error", message, type(error).__name__ if error else "")
