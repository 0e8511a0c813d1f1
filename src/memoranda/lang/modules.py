"""The path of a Python file or the name of a module in, the module out: where a program has its own functions."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from memoranda.errors import UsageError
from memoranda.model.text import quote, words_of

# The file is somebody else's: while it runs it can raise anything, and even leave.
_ANYTHING = (Exception, SystemExit)
_WHOLE_PATH = 1_000
_HINT = "Pass the path of a Python file, or the name of a module"


def load_module(where: str | os.PathLike[str], *, what: str) -> ModuleType:
    """Return the module of a file, run anew, or the one of a name; `what` says in errors what is in it, as `tools`."""
    path = Path(where)
    if not (path.suffix == ".py" or path.is_file() or os.sep in os.fspath(where)):
        return _import(os.fspath(where), what)
    if not path.is_file():
        raise UsageError(f"there is no file {quote(str(path), longest=_WHOLE_PATH)}", hint=_HINT, value=str(path))
    whole = path.resolve()
    # Two files may share a name, so the module is called after the whole path.
    name = f"_memoranda_{what}_{whole.stem}_{hashlib.sha256(os.fsencode(whole)).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, whole)
    if spec is None or spec.loader is None:
        raise UsageError(f"{quote(str(path), longest=_WHOLE_PATH)} is no Python file", hint=_HINT, value=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(whole.parent))
    try:
        spec.loader.exec_module(module)
    except _ANYTHING as error:
        sys.modules.pop(name, None)
        raise _broken(str(path), what, error) from error
    finally:
        with suppress(ValueError):  # the file may have changed the path itself
            sys.path.remove(str(whole.parent))
    return module


def _import(name: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, what, error) from error
        raise UsageError(f"there is no module {quote(name)}", hint=_HINT, value=name) from error
    except _ANYTHING as error:
        raise _broken(name, what, error) from error


def _broken(name: str, what: str, error: BaseException) -> UsageError:
    return UsageError(
        f"the {what} in {quote(name, longest=_WHOLE_PATH)} cannot be loaded: {type(error).__name__}: {words_of(error)}",
        hint="Run the file with Python to see where it fails",
        value=name,
    )
