"""Diagnostics: findings in a source file, each with its place, a caret and a hint."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Literal

import msgspec

from memoranda.errors import InvalidDuration, SourceError
from memoranda.lang.source import Source, Span
from memoranda.model.clock import parse_duration
from memoranda.model.text import closest, quote

Severity = Literal["error", "warning", "note"]

_TAB = 4
_WIDEST = 100
"""Maximum columns of a shown line; a longer one is cut around the span."""


class Diagnostic(msgspec.Struct, frozen=True):
    """A finding in a source: a stable code, a message, its place, and what to do."""

    code: str
    severity: Severity
    message: str
    span: Span
    hint: str = ""
    source: str = ""
    """The name of the source, for lists over several files."""


class Diagnostics:
    """Collects the diagnostics of a source; equal ones count once."""

    def __init__(self, source: Source, begun: Iterable[Diagnostic] = ()) -> None:
        """Start with the diagnostics of an earlier stage."""
        self.source = source
        self._found: dict[tuple[str, Span, str], Diagnostic] = {}
        for diagnostic in begun:
            self.add(diagnostic)

    def error(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        """Add an error: the source cannot be used."""
        self.add(Diagnostic(code, "error", message, span, hint))

    def warning(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        """Add a warning: allowed, but probably not intended."""
        self.add(Diagnostic(code, "warning", message, span, hint))

    def note(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        """Add a note, such as about a section that has no effect."""
        self.add(Diagnostic(code, "note", message, span, hint))

    def add(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic under the name of this source."""
        named = msgspec.structs.replace(diagnostic, source=self.source.name)
        self._found.setdefault((named.code, named.span, named.message), named)

    @property
    def failed(self) -> bool:
        """Whether one of them is an error."""
        return any(diagnostic.severity == "error" for diagnostic in self._found.values())

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return all of them in source order, errors first at the same place."""
        return tuple(sorted(self._found.values(), key=_order))

    def raise_if_failed(self) -> None:
        """Raise a SourceError with every diagnostic if one of them is an error."""
        if self.failed:
            raise source_error(self.source, self.sorted())


_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


def _order(diagnostic: Diagnostic) -> tuple[int, int, int, str, str]:
    span = diagnostic.span
    return (span.start, _RANK[diagnostic.severity], span.end, diagnostic.code, diagnostic.message)


def source_error(source: Source, diagnostics: tuple[Diagnostic, ...]) -> SourceError:
    """Return the exception for a source: the first error as message, all as `.diagnostics` and `.report`."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    first = errors[0]
    place = source.position(first.span.start)
    message = f"{source.name}:{place.line}:{place.column}: {first.message}"
    if len(errors) > 1:
        message += f" (and {len(errors) - 1} more)"
    return SourceError(message, hint=first.hint, diagnostics=diagnostics, report=render_all(diagnostics, source))


def render_all(diagnostics: Iterable[Diagnostic], source: Source) -> str:
    """Render diagnostics one below the other."""
    return "\n".join(render(diagnostic, source) for diagnostic in diagnostics)


def render(diagnostic: Diagnostic, source: Source) -> str:
    """Render a diagnostic as text: place, message, the line with carets below the span, and the hint."""
    place = source.position(diagnostic.span.start)
    line = source.line(place.line)
    begin = place.column - 1
    fault = min(diagnostic.span.end - diagnostic.span.start, len(line) - begin)
    shown, lead, width = _window(line, begin, fault)
    number = str(place.line)
    gutter = " " * len(number)
    parts = [
        f"{source.name}:{place.line}:{place.column}: {diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}",
        f"  {number} | {shown}".rstrip(),
        f"  {gutter} | {' ' * lead}{'^' * width}",
    ]
    if diagnostic.hint:
        parts.append(f"  {gutter} = {diagnostic.hint}")
    return "\n".join(parts)


def _window(line: str, begin: int, fault: int) -> tuple[str, int, int]:
    """Return the part of a line to show, the columns before the carets, and their number."""
    first = max(0, begin - _WIDEST // 2)
    cells = [_cell(character) for character in line[first : first + _WIDEST]]
    before = "".join(cells[: begin - first])
    under = "".join(cells[begin - first : begin - first + fault])
    head = "…" if first else ""
    tail = "…" if len(line) > first + _WIDEST else ""
    return f"{head}{''.join(cells)}{tail}", _columns(head + before), max(1, _columns(under))


def _cell(character: str) -> str:
    """Return a printable replacement for a character, so that the carets stay aligned."""
    if character == "\t":
        return " " * _TAB
    if character.isprintable():
        return character
    return "" if unicodedata.combining(character) else "\N{REPLACEMENT CHARACTER}"


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return a hint with the word that was probably meant, or `otherwise`."""
    near = closest(word, known)
    return f"Did you mean `{near}`?" if near else otherwise


_LISTED = 8
_COMPARISONS = 5_000
"""Comparisons per document: milliseconds for usual files, and a bound for generated ones."""


class Suggestions:
    """Suggests known words for unknown ones, within a budget of comparisons per document."""

    def __init__(self) -> None:
        """Start with the whole budget."""
        self._left = _COMPARISONS

    def closest(self, word: str, known: Collection[str]) -> str | None:
        """Return the known word that was probably meant, or None."""
        self._left -= len(known)
        return closest(word, known) if self._left >= 0 else None

    def did_you_mean(self, word: str, known: Collection[str], *, otherwise: str = "") -> str:
        """Return a hint with the word that was probably meant, or `otherwise`."""
        near = self.closest(word, known)
        return f"Did you mean `{near}`?" if near else otherwise


def short_list(names: Iterable[str]) -> str:
    """Return the first few names, for a hint."""
    return ", ".join(islice(names, _LISTED))


def unclosed_quote_message(written: str) -> str:
    """Return the message for a quote without its end; `written` begins with the quote."""
    first, _, _ = written.partition("\n")
    return f"the quote at {quote(first.rstrip(), longest=30)} is never closed"


def note_missing_colon(diagnostics: Diagnostics, word: str, start: int) -> None:
    """Report a keyword without its colon."""
    message = f"a colon is missing after {quote(word, longest=40)}"
    hint = f"Write it as `{word}: …`" if len(word) <= 40 and word.isprintable() else "Put one there"
    diagnostics.error("missing_colon", message, Span(start, start + len(word)), hint=hint)


def note_foreign_comment(diagnostics: Diagnostics, written: str, mark: str, span: Span) -> None:
    """Report a comment in the syntax of another language."""
    message = f"a comment begins with `{mark}` here, not with `{written}`"
    diagnostics.error("foreign_comment", message, span, hint=f"Write `{mark}` before it")


def note_mixed_indentation(diagnostics: Diagnostics, message: str, lead: Span) -> None:
    """Report tabs in the indentation that do not match the other lines."""
    diagnostics.error("mixed_indentation", message, lead, hint="Indent every line with spaces")


def note_uneven(diagnostics: Diagnostics, column: int | None, indent: int, head: Span) -> None:
    """Report a line in another column than the lines of its block; `column` is None for the first."""
    if column is not None and indent != column:
        diagnostics.error(
            "indentation",
            f"the line begins in column {indent + 1}, the other lines of its block in column {column + 1}",
            head,
            hint="Lines of one block begin in the same column",
        )


_LOOSE = re.compile(r"\s*0*([1-9][0-9]{0,8})\s*([smhdw])[a-z]*\s*", re.IGNORECASE | re.ASCII)
_TIMED = re.compile(r"\s*([0-9]{1,9})\s*(ms|s|m|h|d)[a-z]*\s*", re.IGNORECASE | re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WEEK = 7


def duration_hint(text: str, *, weeks: bool = True) -> str | None:
    """Return a hint for a text that is not a valid duration; None for a valid one.

    >>> duration_hint("30d") is None
    True
    >>> duration_hint("30 days")
    'Did you mean `30d`?'
    """
    if _is_duration(text) and (weeks or not text.endswith("w")):
        return None
    units = "90s, 15m, 24h, 30d or 2w" if weeks else "90s, 15m, 24h or 30d"
    near = _LOOSE.fullmatch(text)
    if near:
        count, unit = int(near[1]), near[2].lower()
        meant = f"{count * _WEEK}d" if unit == "w" and not weeks else f"{count}{unit}"
        if _is_duration(meant):
            return f"Did you mean `{meant}`?"
    return f"Write a whole number and one unit, such as {units}; at most a century"


def parse_milliseconds(text: str) -> int | None:
    """Return a duration such as `2 seconds` in milliseconds, or None.

    >>> parse_milliseconds("2 seconds")
    2000
    """
    near = _TIMED.fullmatch(text)
    return int(near[1]) * _MILLISECONDS[near[2].lower()] if near else None


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except InvalidDuration:
        return False
    return True
