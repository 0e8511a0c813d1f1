"""The named statements of SQL files in, one mapping from name to SQL text out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_NAMED = re.compile(r"^-- name: (\w+)\n(?:--.*\n)*", re.MULTILINE)
_FILES = ("queries.sql", "entries.sql")


def load_queries(text: str) -> Mapping[str, str]:
    r"""Split the text of a file of queries into its statements, by name.

    >>> dict(load_queries("-- name: one\n-- The number one.\nSELECT 1;\n"))
    {'one': 'SELECT 1;'}
    """
    _, *pieces = _NAMED.split(text)
    return MappingProxyType({name: sql.strip() for name, sql in zip(pieces[::2], pieces[1::2], strict=True)})


def read_queries(folder: Path) -> Mapping[str, str]:
    """Return every statement of a store whose files are in this folder."""
    return load_queries("".join((folder / name).read_text(encoding="utf-8") for name in _FILES))


def read_migrations(folder: Path) -> tuple[str, ...]:
    """Return the steps from nothing to the current schema, in order."""
    return tuple(file.read_text(encoding="utf-8") for file in sorted((folder / "migrations").glob("*.sql")))
