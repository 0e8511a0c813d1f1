"""How the statements of `store/sql` are written for SQLite."""

from __future__ import annotations

import re
from pathlib import Path

from memoranda.store.sql.dialect import Dialect

# `importlib.resources` alone would take as long to import as the whole store.
HERE = Path(__file__).parent
"""The folder of the schema and its migrations."""

SQLITE = Dialect(
    name="sqlite",
    placeholder="?",
    rewrites=(
        (re.compile(r"memoranda\."), ""),  # a file has no schemas
        (re.compile(r' COLLATE "POSIX"| AND number > 0'), ""),
        # A list is bound as JSON, bytes in it as hexadecimal digits.
        (re.compile(r"= ANY \((:\w+)::bytea\[\]\)"), r"IN (SELECT unhex(value) FROM json_each(\1))"),
        (re.compile(r"= ANY \((:\w+)::\w+\[\]\)"), r"IN (SELECT value FROM json_each(\1))"),
        (re.compile(r"::\w+"), ""),
    ),
)

SQL = SQLITE.load()
"""Every statement by name: `SQL["get_fact"]`."""
