"""A mapping, a module or a Python file in, functions by name out."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

from recollect.errors import UsageError
from recollect.model.text import quote

Functions: TypeAlias = "Mapping[str, Callable[..., Any]] | ModuleType | str | os.PathLike[str]"

_HINT = "Pass functions by name, a module, the path of a Python file, or the name of a module"


def functions_of(tools: Functions | None) -> dict[str, Callable[..., Any]]:
    """Return the functions that were given, by name; of a module, those that it defines and that are public."""
    if tools is None:
        return {}
    if isinstance(tools, ModuleType):
        return _public(tools)
    if isinstance(tools, (str, os.PathLike)):
        return _public(_load(tools))
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


def _load(where: str | os.PathLike[str]) -> ModuleType:
    path = Path(where)
    if not (path.suffix == ".py" or path.is_file() or os.sep in os.fspath(where)):
        return _import(os.fspath(where))
    if not path.is_file():
        raise UsageError(f"there is no file {quote(str(path))}", hint=_HINT, value=str(path))
    whole = path.resolve()
    # Two files may share a name, so the module is called after the whole path.
    name = f"_recollect_tools_{whole.stem}_{hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, whole)
    if spec is None or spec.loader is None:
        raise UsageError(f"{quote(str(path))} is no Python file", hint=_HINT, value=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(whole.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _broken(str(path), error) from error
    finally:
        sys.path.remove(str(whole.parent))
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise UsageError(f"there is no module {quote(name)}", hint=_HINT, value=name) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> UsageError:
    return UsageError(
        f"the tools in {quote(name)} cannot be loaded: {type(error).__name__}: {error}",
        hint="Run the file with Python to see where it fails",
        value=name,
    )
