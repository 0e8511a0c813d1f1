"""What calls return: as a dict for JSON, and as a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, ClassVar

import msgspec

from memoranda.model.value import encode

_LONGEST_CELL = 500
"""Characters of a value in a table."""


class Result(msgspec.Struct, frozen=True):
    """The base of what calls return.

    Nothing is computed when one is made: it is made for every row that is read.
    """

    _list: ClassVar[str] = ""
    """The field whose items are the rows of its table; without one, its fields are."""
    _columns: ClassVar[tuple[str, ...]] = ()
    """The fields to show where it is a row."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values: moments as ISO 8601 text, scopes as text beside their tenant.

        >>> import memoranda
        >>> with memoranda.open(":memory:") as memory:
        ...     memory.scope(user="ada").set("kiln.cone", 6).to_dict()["scope"]
        'user:ada'
        """
        from memoranda.model.plain import plain  # which imports some of the results

        return msgspec.to_builtins(plain(self))

    def _repr_html_(self) -> str:
        fields = self.to_dict()
        if not self._list:
            return _table(type(self).__name__, ("field", "value"), fields.items())
        items: list[Result] = getattr(self, self._list)
        columns = items[0]._columns if items else ()
        rows = [[one[name] for name in columns] for one in fields[self._list]]
        return _table(f"{type(self).__name__}: {len(rows)}", columns, rows)


def _table(caption: str, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table whose first column names its rows."""
    head = "".join(f'<th scope="col">{_cell(name)}</th>' for name in columns)
    body = "".join(f"<tr>{_row(row)}</tr>" for row in rows)
    return f"<table><caption>{_cell(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(values: Iterable[Any]) -> str:
    first, *others = values
    cells = "".join(f'<td style="text-align: left">{_cell(value)}</td>' for value in others)
    return f'<th scope="row" style="text-align: left">{_cell(first)}</th>{cells}'


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else encode(value).decode()
    return escape(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")
