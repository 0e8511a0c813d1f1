"""Python functions that programs call: load them, describe their parameters, convert their values."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from types import ModuleType, SimpleNamespace
from typing import Any, cast, get_type_hints
from uuid import UUID

import msgspec

from memoranda.errors import InvalidDefinition, InvalidValue, LimitExceeded, UsageError
from memoranda.model.limits import Limits
from memoranda.model.text import quote, words_of
from memoranda.model.value import decode, encode_checked
from memoranda.wire.codec import enum_fault

Json = dict[str, Any]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_AT = " - at `$"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of a function; `annotation` is None if it has none."""

    name: str
    annotation: Any
    required: bool
    default: Any = None
    by_name: bool = True
    """Whether it can be passed by name."""


class ConversionError(Exception):
    """A value is not of its type: what was expected, and where in the value, such as `[0].size`."""

    def __init__(self, expected: str, place: str) -> None:
        """Store what was expected, and where."""
        super().__init__(expected)
        self.expected = expected
        self.place = place


def parameters_of(function: Callable[..., Any], *, known: Mapping[str, Any] | None = None) -> tuple[Parameter, ...]:
    """Return the parameters of a function, with annotations resolved to types.

    `known` are names that annotations may use although the module of the function lacks them: they are often imported
    for type checkers only.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(
            "its parameters cannot be inspected", hint="Call it from a function of your own", path="act"
        ) from error
    names = {**(known or {}), **getattr(inspect.unwrap(function), "__globals__", {})}
    return tuple(
        Parameter(
            name=one.name,
            annotation=None if one.annotation is one.empty else _type(one, names),
            required=one.default is one.empty,
            default=None if one.default is one.empty else one.default,
            by_name=one.kind in _BY_NAME,
        )
        for one in signature.parameters.values()
    )


def _type(one: inspect.Parameter, names: dict[str, Any]) -> Any:
    bearer = SimpleNamespace(__annotations__={one.name: one.annotation})
    try:
        return get_type_hints(bearer, globalns=names, include_extras=True)[one.name]
    # Evaluating an annotation of user code can raise anything.
    except Exception as error:
        raise InvalidDefinition(
            f"the type of the parameter {quote(one.name)} cannot be read: {quote(words_of(error))}",
            hint="Define or import it above the function, and not only for type checkers",
            path=one.name,
        ) from error


def schemas_of(annotations: Iterable[Any]) -> tuple[tuple[Json, ...], Json]:
    """Return the JSON schema of each type, and the parts that they refer to as `#/$defs/name`.

    Raises TypeError for a type that JSON cannot express.

    >>> schemas_of([int, list[str]])
    (({'type': 'integer'}, {'type': 'array', 'items': {'type': 'string'}}), {})
    """
    schemas, parts = msgspec.json.schema_components(annotations, ref_template="#/$defs/{name}")
    return schemas, parts


def convert(value: Any, annotation: Any) -> Any:
    """Convert a JSON value to a type such as a date or a dataclass; raise ConversionError.

    >>> convert("2031-05-01", __import__("datetime").date)
    datetime.date(2031, 5, 1)
    """
    try:
        try:
            return msgspec.convert(value, annotation, str_keys=True)
        except msgspec.ValidationError:
            # In JSON Schema, 3.0 is an integer.
            return msgspec.convert(_whole(value), annotation, str_keys=True)
    except msgspec.ValidationError as error:
        said = str(error)
        # The message may quote the value before the place, but never after it.
        reason, at, place = said.rpartition(_AT)
        reason, place = (reason, place.removesuffix("`")) if at else (said, "")
        raise ConversionError(enum_fault(reason, place, annotation) or reason, place) from error


def _whole(value: Any) -> Any:
    """Return a value with integral floats as integers, at every level."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_whole(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


MOST_BYTES = 1_048_576
"""Maximum size of a result as JSON."""
_LIMITS = Limits(value_bytes=MOST_BYTES)


def json_value(value: Any) -> Any:
    """Return a fresh copy as text, numbers, booleans, None, lists and dicts; see `encode_json`."""
    return decode(encode_json(value, _LIMITS))


def encode_json(value: Any, limits: Limits) -> bytes:
    """Encode the result of a function as JSON.

    Structs, dataclasses and pydantic models become objects, dates ISO text, decimals numbers, tuples lists. Anything
    else (a set, bytes, a generator, NaN) raises InvalidValue; too deep or too large raises LimitExceeded.
    """
    try:
        return encode_checked(value, limits)
    except InvalidValue:
        return encode_checked(_simplify(value, "$", limits.depth, limits.depth), limits)


def _simplify(value: Any, path: str, depth: int, deepest: int) -> Any:
    """Replace what has a form in JSON; other values stay as they are."""
    if depth < 0:
        raise LimitExceeded(
            f"the value is nested more than {deepest} deep at {path[:80]}",
            hint="Flatten it; a value that contains itself cannot be stored",
            limit=deepest,
            actual=deepest + 1,
            path=path,
        )
    if value is None or type(value) in (bool, int, float, str):
        return value
    fields = _fields(value)
    if fields is not None:
        return {name: _simplify(item, f"{path}.{name}", depth - 1, deepest) for name, item in fields.items()}
    if isinstance(value, (list, tuple)):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return [_simplify(item, f"{path}[{place}]", depth - 1, deepest) for place, item in enumerate(items)]
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return _simplify(form(value), path, depth - 1, deepest)
    return value


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a mapping, struct, dataclass or model; None for anything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # By method: pydantic is an extra, and named tuples have no common base class.
    for method in ("model_dump", "_asdict"):
        dump: Any = getattr(cast("type[Any]", type(value)), method, None)
        if dump is not None:
            return dump(value)
    return None


def _number(value: Decimal) -> int | float:
    whole = value.is_finite() and value == value.to_integral_value()
    return int(value) if whole and abs(value) < 2**63 else float(value)


# In this order: a datetime is a date, and an enumeration of texts is a text.
_FORMS: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    (Decimal, _number),
    (datetime, datetime.isoformat),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, timedelta.total_seconds),
    (UUID, str),
    (PurePath, str),
    (int, int),
    (float, float),
    (str, lambda value: str.__str__(value)),
)


# User code can raise anything while it is loaded, and even exit.
_ANYTHING = (Exception, SystemExit)
_WHOLE_PATH = 1_000
_HINT = "Pass the path of a Python file, or the name of a module"


def load_module(where: str | os.PathLike[str], *, what: str) -> ModuleType:
    """Load a Python file, or import a module by name; `what` names its content in errors, such as `tools`."""
    path = Path(where)
    if not (path.suffix == ".py" or path.is_file() or os.sep in os.fspath(where)):
        return _import(os.fspath(where), what)
    if not path.is_file():
        raise UsageError(
            f"the file {quote(str(path), longest=_WHOLE_PATH)} does not exist", hint=_HINT, value=str(path)
        )
    whole = path.resolve()
    # Two files may share a name, so the module name contains a hash of the path.
    name = f"_memoranda_{what}_{whole.stem}_{hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, whole)
    if spec is None or spec.loader is None:
        raise UsageError(f"{quote(str(path), longest=_WHOLE_PATH)} is not a Python file", hint=_HINT, value=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(whole.parent))
    try:
        spec.loader.exec_module(module)
    except _ANYTHING as error:
        sys.modules.pop(name, None)
        raise _load_error(str(path), what, error) from error
    finally:
        with suppress(ValueError):  # the file may have changed sys.path itself
            sys.path.remove(str(whole.parent))
    return module


def _import(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _load_error(name, what, error) from error
        raise UsageError(f"the module {quote(name)} does not exist", hint=_HINT, value=name) from error
    except _ANYTHING as error:
        raise _load_error(name, what, error) from error


def _load_error(name: str, what: str, error: BaseException) -> UsageError:
    return UsageError(
        f"the {what} in {quote(name, longest=_WHOLE_PATH)} cannot be loaded: {type(error).__name__}: {words_of(error)}",
        hint="Run the file with Python to see where it fails",
        value=name,
    )
