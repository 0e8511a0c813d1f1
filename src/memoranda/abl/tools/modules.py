"""A mapping, a module or a Python file in, functions by name out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeAlias, cast

from memoranda.errors import UsageError
from memoranda.lang.modules import load_module
from memoranda.model.text import quote

Functions: TypeAlias = "Mapping[str, Callable[..., Any]] | ModuleType | str | os.PathLike[str]"

_HINT = "Pass functions by name, a module, the path of a Python file, or the name of a module"


def functions_of(tools: Functions | None) -> dict[str, Callable[..., Any]]:
    """Return the functions that were given, by name; of a module, those that it defines and that are public."""
    if tools is None:
        return {}
    if isinstance(tools, ModuleType):
        return _public(tools)
    if isinstance(tools, (str, os.PathLike)):
        return _public(load_module(tools, what="tools"))
    if isinstance(cast("Any", tools), Mapping):
        return {name: _checked(name, function) for name, function in tools.items()}
    raise UsageError(f"{quote(tools)} cannot give tools", hint=_HINT, value=tools)


def _checked(name: Any, function: Any) -> Callable[..., Any]:
    if not isinstance(name, str) or not callable(function):
        raise UsageError(
            f"the tool {quote(name)} is {quote(function)}, which is no function by a name", hint=_HINT, value=function
        )
    return function


def _public(module: ModuleType) -> dict[str, Callable[..., Any]]:
    listed: Any = getattr(module, "__all__", None)
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        # What a module only imported, it needs itself and does not offer, unless it says so.
        and (name in listed if listed is not None else value.__module__ == module.__name__ and name[0] != "_")
    }
    if not found:
        raise UsageError(
            f"the module {quote(module.__name__)} has no public function",
            hint="Every function of the module whose name does not begin with an underscore is a tool",
            value=module.__name__,
        )
    return cast("dict[str, Callable[..., Any]]", found)
