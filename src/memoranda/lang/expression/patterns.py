"""Regular expressions that always terminate, on RE2.

RE2 searches in time linear in the text, whatever the pattern, so nothing has to time out and the answer does not depend
on the load of the machine. Look-around and back-references, which would break that promise, are refused.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from memoranda.errors import UsageError
from memoranda.lang.expression.dialect import DEFAULT_BOUNDS
from memoranda.model.text import quote, without_halves

_MEMORY = 4 * 1024 * 1024
"""Maximum bytes of a compiled pattern."""
_FLAGS = {"i": "i", "m": "m", "s": "s", "g": "", "u": ""}
"""The flags of JavaScript; `g` and `u` have no effect, since a search is never global and text is Unicode."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> Any:
        """Return the first match, or None."""
        ...


@lru_cache(maxsize=512)
def compile_pattern(text: str, flags: str = "") -> Pattern:
    """Compile a pattern, with a cache; raise UsageError if it is not valid."""
    most = DEFAULT_BOUNDS.pattern
    if len(text) > most:
        raise _pattern_error(text, f"it has {len(text):,} characters, the limit is {most:,}", "Write a shorter one")
    unknown = [flag for flag in flags if flag not in _FLAGS]
    if unknown:
        raise _pattern_error(text, f"`{unknown[0]}` is not a flag", "Flags are i, m and s")
    known = "".join(dict.fromkeys(_FLAGS[flag] for flag in flags))
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(f"(?{known}){text}" if known else text, options=options)
    except re2.error as fault:
        raise _pattern_error(text, _reason(fault), _advice(text)) from None
    except UnicodeEncodeError:
        raise _pattern_error(text, "it contains half of a surrogate pair", "Remove it") from None


def search(pattern: Pattern, text: str) -> dict[str, str | None] | None:
    """Return the groups of the first match, by number and by name; None without a match."""
    try:
        found = pattern.search(text)
    except UnicodeEncodeError:
        found = pattern.search(without_halves(text))
    if found is None:
        return None
    captures: dict[str, str | None] = {"0": found.group(0)}
    captures.update((str(number), held) for number, held in enumerate(found.groups(), 1))
    captures.update(found.groupdict())
    return captures


def _reason(fault: Exception) -> str:
    reason = fault.args[0] if fault.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _advice(text: str) -> str:
    if any(mark in text for mark in ("(?=", "(?!", "(?<=", "(?<!")):
        return "Look-around is not supported, because it can take forever; test the parts with AND"
    return "Correct the pattern; back-references are not supported, because they can take forever"


def _pattern_error(text: str, reason: str, hint: str) -> UsageError:
    return UsageError(f"the pattern {quote(text)} cannot be used: {reason}", hint=hint, pattern=text)
