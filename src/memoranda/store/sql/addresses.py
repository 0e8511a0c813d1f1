"""The address of a database in; what may be shown of it out, whether or not its driver is installed."""

from __future__ import annotations

import re

_USER_AND_SECRET = re.compile(r"^([^:@/?]*)(?::.*)?@", re.DOTALL)
_SECRET_SETTING = re.compile(r"(?<=[?&])[^=&]*pass[^=&]*=[^&]*&?", re.IGNORECASE)


def without_secrets(url: str) -> str:
    """Return an address as it may be shown: its user, but no password, wherever that stands.

    >>> without_secrets("postgresql://ada:s3cret@db.example/team?sslmode=require&password=s3cret")
    'postgresql://ada@db.example/team?sslmode=require'
    """
    scheme, separator, rest = url.partition("://")
    rest = _USER_AND_SECRET.sub(r"\1@", rest, count=1)
    return scheme + separator + _SECRET_SETTING.sub("", rest).rstrip("?&")
