"""Loading SQL statements that are written once for several databases; `queries.sql` describes how."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_HEADING = re.compile(r"^-- (name|part): (\w+)(?:\((.*)\))?(?: \[(\w+)\])?\n(?:--.*\n)*", re.MULTILINE)
_PARAMETER = re.compile(r"(?<!:):(\w+)")
_PART = re.compile(r"\{(\w+)\}")
_UPSERT = re.compile(r"UPSERT INTO (\S+) KEY \((.*)\);")


class Dialect(NamedTuple):
    """How one database wants statements to be written."""

    name: str
    placeholder: str
    """What precedes the number of a parameter."""
    rewrites: tuple[tuple[re.Pattern[str], str], ...]
    """Patterns and their replacements, applied in this order."""

    def load(self, *files: Path) -> dict[str, str]:
        """Return the statements in these files and in this folder, by name."""
        here = Path(__file__).parent
        paths = (here / "queries.sql", here / "entries.sql", *files)
        return self.parse("".join(path.read_text(encoding="utf-8") for path in paths))

    def parse(self, text: str) -> dict[str, str]:
        r"""Return the statements in a text, by name.

        >>> Dialect("sqlite", "?", ()).parse("-- name: half(of)\n-- Half of a number.\nSELECT :of / 2;\n")
        {'half': 'SELECT ?1 / 2;'}
        """
        for pattern, replacement in self.rewrites:
            text = pattern.sub(replacement, text)
        parts: dict[str, str] = {}
        statements: dict[str, str] = {}
        _, *pieces = _HEADING.split(text)
        for kind, name, parameters, only, body in zip(*(pieces[start::5] for start in range(5)), strict=True):
            if only not in (None, self.name):
                continue
            body = _PART.sub(lambda part: parts[part[1]], body.strip())
            if kind == "part":
                parts[name] = body
            else:
                statements[name] = self._number_parameters(body, parameters.split(", "))
        return statements

    def _number_parameters(self, body: str, parameters: list[str]) -> str:
        body = _UPSERT.sub(lambda upsert: _expand_upsert(upsert[1], upsert[2], parameters), body)
        return _PARAMETER.sub(lambda found: f"{self.placeholder}{parameters.index(found[1]) + 1}", body)


def _expand_upsert(table: str, key: str, columns: list[str]) -> str:
    # Unlike REPLACE, this leaves alone the indexes whose columns stay the same.
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key.split(", "))
    values = ", ".join(f":{column}" for column in columns)
    return (
        f"INSERT INTO {table} ({', '.join(columns)})\nVALUES ({values})\nON CONFLICT ({key}) DO UPDATE SET {changes};"
    )


def read_migrations(folder: Path) -> tuple[str, ...]:
    """Return the steps from an empty database to the current schema, in order."""
    return tuple(file.read_text(encoding="utf-8") for file in sorted((folder / "migrations").glob("*.sql")))
