"""Scopes and keys in, half-open ranges of texts out: what a database can walk along an index, as LIKE cannot."""

from __future__ import annotations

from memoranda.model.key import keys_below
from memoranda.model.scope import below

Range = tuple[str, str]
"""From the first text on, up to but without the second."""

_LAST = "\U0010ffff"  # greater than every scope and key: no name may hold it


def keys_under(prefix: str) -> list[Range]:
    r"""Return the keys at and below a prefix, in order. Other keys stand between the two: `a!` precedes `a.b`.

    >>> keys_under("a")
    [('a', 'a\x01'), ('a.', 'a/')]
    """
    return [_only(prefix), keys_below(prefix)] if prefix else [("", _LAST)]


def scopes_under(path: str) -> list[Range]:
    """Return the scopes at and below one, in order; every scope of the tenant for the shared one."""
    return [_only(path), below(path)] if path else [("", _LAST)]


def scopes_above(path: str) -> list[str]:
    """Return a scope and every one that covers it, the shared one first.

    >>> scopes_above("user:ada/agent:x")
    ['', 'user:ada', 'user:ada/agent:x']
    """
    parts = path.split("/") if path else []
    return ["/".join(parts[:length]) for length in range(len(parts) + 1)]


def after_text(text: str) -> str:
    """Return the first text there can be after this one: no name holds a control character, and no database a NUL."""
    return text + "\1"


def _only(text: str) -> Range:
    return text, after_text(text)
