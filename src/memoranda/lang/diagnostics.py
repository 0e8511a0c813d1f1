"""Faults of a source in, one sorted list of diagnostics out: all of a file at once, each with place, caret and hint."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

import msgspec

from memoranda.errors import SourceError
from memoranda.lang.source import Source, Span

Severity = Literal["error", "warning", "note"]

_TAB = 4
_WIDEST = 100
"""Columns of a line that are shown; a longer one is cut around the fault."""


class Diagnostic(msgspec.Struct, frozen=True):
    """One thing to say about a source: a stable code, what is the matter, where, and what to do."""

    code: str
    severity: Severity
    message: str
    span: Span
    hint: str = ""
    source: str = ""
    """The name of the source, so that the diagnostics of several files can stand in one list."""


class Diagnostics:
    """Collects what is said about one source; saying the same of the same place twice counts once."""

    def __init__(self, source: Source) -> None:
        """Begin with nothing to say about a source."""
        self.source = source
        self._said: dict[tuple[str, Span, str], Diagnostic] = {}

    def error(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        """Note a fault that keeps the source from being used."""
        self.add(Diagnostic(code, "error", message, span, hint))

    def warning(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        """Note what is allowed and probably not meant."""
        self.add(Diagnostic(code, "warning", message, span, hint))

    def note(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        """Note what is good to know, such as a section that is kept and not acted on."""
        self.add(Diagnostic(code, "note", message, span, hint))

    def add(self, diagnostic: Diagnostic) -> None:
        """Take over a diagnostic that somebody else made, under the name of this source."""
        named = msgspec.structs.replace(diagnostic, source=self.source.name)
        self._said.setdefault((named.code, named.span, named.message), named)

    @property
    def failed(self) -> bool:
        """Whether there is an error among them."""
        return any(diagnostic.severity == "error" for diagnostic in self._said.values())

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return all of them as they stand in the source, errors first where several share a place."""
        return tuple(sorted(self._said.values(), key=_order))

    def raise_if_failed(self) -> None:
        """Raise a SourceError that carries every diagnostic, if one of them is an error."""
        if self.failed:
            raise source_error(self.source, self.sorted())


_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


def _order(diagnostic: Diagnostic) -> tuple[int, int, int, str, str]:
    span = diagnostic.span
    return (span.start, _RANK[diagnostic.severity], span.end, diagnostic.code, diagnostic.message)


def source_error(source: Source, diagnostics: tuple[Diagnostic, ...]) -> SourceError:
    """Return the error for a source: the first fault as its message, all of them as `.diagnostics` and `.report`."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    first = errors[0]
    place = source.position(first.span.start)
    message = f"{source.name}:{place.line}:{place.column}: {first.message}"
    if len(errors) > 1:
        message += f" (and {len(errors) - 1} more)"
    return SourceError(message, hint=first.hint, diagnostics=diagnostics, report=render_all(diagnostics, source))


def render_all(diagnostics: Iterable[Diagnostic], source: Source) -> str:
    """Show diagnostics one below the other."""
    return "\n".join(render(diagnostic, source) for diagnostic in diagnostics)


def render(diagnostic: Diagnostic, source: Source) -> str:
    """Show a diagnostic as text: file, line and column, the line itself, a caret below the fault, the hint."""
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
    """Return the part of a line to show, the columns before the caret, and how many carets."""
    first = max(0, begin - _WIDEST // 2)
    cells = [_cell(character) for character in line[first : first + _WIDEST]]
    before = "".join(cells[: begin - first])
    under = "".join(cells[begin - first : begin - first + fault])
    head = "…" if first else ""
    tail = "…" if len(line) > first + _WIDEST else ""
    return f"{head}{''.join(cells)}{tail}", _columns(head + before), max(1, _columns(under))


def _cell(character: str) -> str:
    """Return what a terminal may be given for a character, so that the caret stays below it."""
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


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, whatever its case; None when nothing is near."""
    by_folded: dict[str, str] = {}
    for name in known:
        by_folded.setdefault(name.casefold(), name)
    # difflib is quadratic: a word longer than any name cannot be near one, and a fuzzer's never ends.
    if len(word) > 80:
        return None
    near = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return a hint that names the word that was probably meant, or what to say when there is none."""
    near = closest(word, known)
    return f"Did you mean `{near}`?" if near else otherwise
