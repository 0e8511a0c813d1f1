"""The named statements of our SQL files in, one mapping from name to SQL text out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_NAMED = re.compile(r"^-- name: (\w+)\n(?:--.*\n)*", re.MULTILINE)


def load_queries(text: str) -> Mapping[str, str]:
    r"""Split the text of a file of queries into its statements, by name.

    >>> dict(load_queries("-- name: one\n-- The number one.\nSELECT 1;\n"))
    {'one': 'SELECT 1;'}
    """
    _, *pieces = _NAMED.split(text)
    return MappingProxyType({name: sql.strip() for name, sql in zip(pieces[::2], pieces[1::2], strict=True)})


HERE = Path(__file__).parent
"""Where our SQL files are. A path, because `importlib.resources` alone takes as long to import as the whole store."""

SQL = load_queries("".join((HERE / name).read_text(encoding="utf-8") for name in ("queries.sql", "entries.sql")))
"""Every statement, read once: `SQL["get_fact"]`."""
