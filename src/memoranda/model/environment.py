"""Environment variables, and the names that they had in 0.1.0, when the project was called Recollect."""

from __future__ import annotations

import os

from memoranda.errors import UsageError

_PREFIX, _OLD_PREFIX = "MEMORANDA_", "RECOLLECT_"


def variable(name: str) -> str:
    """Return the value of an environment variable, empty if it is not set; raise UsageError for its old name."""
    value = os.environ.get(name, "")
    old = name.replace(_PREFIX, _OLD_PREFIX)
    if not value and old != name and os.environ.get(old):
        raise _rename_error(old)
    return value


def check_old_names() -> None:
    """Raise UsageError if any variable is set by its old name."""
    for name in sorted(os.environ):
        if name.startswith(_OLD_PREFIX):
            raise _rename_error(name)


def _rename_error(old: str) -> UsageError:
    new = old.replace(_OLD_PREFIX, _PREFIX)
    return UsageError(f"`{old}` is set, which is now called `{new}`", hint=f"Set {new} and unset {old}", variable=new)
