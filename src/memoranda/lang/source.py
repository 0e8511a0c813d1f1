"""Program text in; lines, columns and the places that faults are shown at out."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import cached_property

import msgspec


def digest_of(text: str) -> str:
    """Return the digest that a program is known by: SHA-256 of its text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Span(msgspec.Struct, frozen=True, order=True):
    """A stretch of a source as offsets: from `start` up to, not including, `end`."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the stretch from where this begins to where another ends."""
        return Span(self.start, max(self.end, other.end))


class Position(msgspec.Struct, frozen=True, order=True):
    """A place as people count: the first character of a file is line 1, column 1."""

    line: int
    column: int


class Source(msgspec.Struct, frozen=True, dict=True):
    """A named text; the name is the file's, or says where the text came from."""

    name: str
    text: str

    @cached_property
    def lines(self) -> tuple[Span, ...]:
        """Where each line stands, without its ending: line feed, carriage return, or both."""
        spans: list[Span] = []
        start, text = 0, self.text
        for line in text.splitlines(keepends=True) if _only_plain_endings(text) else _split(text):
            spans.append(Span(start, start + len(line.rstrip("\r\n"))))
            start += len(line)
        if not text or text[-1] in "\r\n":
            spans.append(Span(start, start))
        return tuple(spans)

    @cached_property
    def _starts(self) -> list[int]:
        return [line.start for line in self.lines]

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset; one beyond the end is the end."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """Return the text of a line, without its ending."""
        return self.slice(self.lines[number - 1])

    def slice(self, span: Span) -> str:
        """Return the text that a span covers."""
        return self.text[span.start : span.end]


def _only_plain_endings(text: str) -> bool:
    """Say whether `str.splitlines`, which also breaks at form feeds and the like, would find only our line endings."""
    return text.isascii() and not any(mark in text for mark in "\v\f\x1c\x1d\x1e")


def _split(text: str) -> list[str]:
    lines: list[str] = []
    for piece in text.split("\n"):
        *whole, last = piece.split("\r")
        lines.extend(f"{line}\r" for line in whole)
        # A carriage return right before the line feed belongs to the same ending.
        if whole and not last:
            lines[-1] += "\n"
        else:
            lines.append(f"{last}\n")
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


class Excerpt(msgspec.Struct, frozen=True):
    """A piece of a source as a grammar reads it, and where it came from.

    A block without its indentation or a string without its escapes is no longer a slice of the file. `runs` holds
    pairs (offset in the text, offset in the source), ascending, for the places where the two drift apart.
    """

    text: str
    runs: tuple[tuple[int, int], ...] = ((0, 0),)

    def locate(self, start: int, end: int) -> Span:
        """Return where a stretch of this text stands in the source."""
        first = self.origin(start)
        # The end is where the last character is, plus one: the next run may stand on another line.
        return Span(first, max(first, self.origin(end - 1) + 1 if end > start else first))

    def origin(self, offset: int) -> int:
        """Return where a character of this text stands in the source."""
        here, there = self.runs[max(bisect_right(self.runs, offset, key=_in_text) - 1, 0)]
        return there + offset - here


def _in_text(run: tuple[int, int]) -> int:
    return run[0]


def excerpt(source: Source, span: Span) -> Excerpt:
    """Return a slice of a source that still knows where it stands."""
    return Excerpt(source.slice(span), ((0, span.start),))
