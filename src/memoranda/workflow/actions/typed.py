"""The parameters of a Python function in; the schema of an action's inputs, and the arguments made of them, out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memoranda.errors import InvalidDefinition, UsageError
from memoranda.lang.plain import plain
from memoranda.lang.signatures import Parameter, Unfit, schemas_of, turned
from memoranda.model.text import quote
from memoranda.workflow.actions.schemas import closed

Json = dict[str, Any]


def inputs_schema(parameters: Sequence[Parameter]) -> Json:
    """Return the JSON schema of inputs by the names of parameters; refuse a parameter that can be no input."""
    for one in parameters:
        _refuse_unnamed(one)
    schemas, parts = _schemas(parameters)
    properties = {one.name: _with_default(one, schema) for one, schema in zip(parameters, schemas, strict=True)}
    schema = closed(properties, required=[one.name for one in parameters if one.required])
    return {**schema, "$defs": parts} if parts else schema


def arguments(parameters: Sequence[Parameter], inputs: Mapping[str, Any]) -> Json:
    """Return the inputs by name, each as its parameter declares it; raise Unfit where one cannot be."""
    types = {one.name: one.annotation for one in parameters if one.annotation is not None}
    given: Json = {}
    for name, value in inputs.items():
        try:
            given[name] = turned(value, types[name]) if name in types else value
        except Unfit as unfit:
            raise Unfit(unfit.expected, f".{name}{unfit.place}") from unfit
    return given


def _refuse_unnamed(one: Parameter) -> None:
    if not one.by_name:
        raise InvalidDefinition(
            f"the parameter {quote(one.name)} cannot be given by its name, and inputs are",
            hint="List the inputs as ordinary parameters, or take `call: Call` alone and read `call.inputs`",
            path=one.name,
        )


def _schemas(parameters: Sequence[Parameter]) -> tuple[Sequence[Json], Json]:
    types = [Any if one.annotation is None else one.annotation for one in parameters]
    try:
        return schemas_of(types)
    except (TypeError, RuntimeError):
        for one, kind in zip(parameters, types, strict=True):
            _refuse_formless(one, kind)
        raise


def _refuse_formless(one: Parameter, kind: Any) -> None:
    try:
        schemas_of([kind])
    except (TypeError, RuntimeError) as error:
        raise InvalidDefinition(
            f"the parameter {quote(one.name)} is {quote(kind)}, which has no form in JSON",
            hint="Use text, numbers, lists, dicts, dates, dataclasses or Any, or take `call: Call` alone",
            path=one.name,
        ) from error


def _with_default(one: Parameter, schema: Json) -> Json:
    """Return the schema of a parameter with its default, where JSON has a word for that."""
    if one.required or one.default is None:
        return schema
    try:
        return {**schema, "default": plain(one.default)}
    except UsageError:
        return schema
