"""An import that failed in, what to install out."""

from __future__ import annotations

from memoranda.errors import UsageError


def lacking(what: str, extra: str, missing: ImportError) -> UsageError:
    """Return the error for a command whose extra is not installed, or is another version than it needs."""
    absent = isinstance(missing, ModuleNotFoundError)
    return UsageError(
        f"{what} needs {'a package that is not installed' if absent else 'another version of a package'}: "
        f"{missing.name}",
        hint=f'Install it with `pip install "memoranda[{extra}]"`',
    )
