"""The words that authors write for a type in, its one name out: for signatures, for fields, and for the checker."""

from __future__ import annotations

_SPELLINGS = {
    "string": "str text url uri id uuid enum",
    "number": "float double decimal currency money percent percentage",
    "integer": "int",
    "boolean": "bool",
    "date": "",
    "datetime": "timestamp date-time date_time",
    "time": "",
    "email": "",
    "phone": "tel telephone phone_number",
    "array": "list",
    "object": "dict map json record",
    "null": "none undefined",
    "any": "unknown void file union nullable",
}

TYPE_NAMES: dict[str, str] = {
    spelling: name for name, others in _SPELLINGS.items() for spelling in (name, *others.split())
}
"""Every word for a type, in small letters, and the one name of that type."""


def type_name(word: str) -> str | None:
    """Return the one name of a type, whatever its case; None for a word that nobody knows.

    >>> type_name("Decimal"), type_name("timestamp"), type_name("Booking")
    ('number', 'datetime', None)
    """
    return TYPE_NAMES.get(word.casefold())
