"""Source text: lines, columns, spans, and excerpts that know their place in the file."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import cached_property

import msgspec


def digest_of(text: str) -> str:
    """Return the digest that identifies a program: the SHA-256 of its text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Span(msgspec.Struct, frozen=True, order=True):
    """A half-open range of offsets in a source."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of another."""
        return Span(self.start, max(self.end, other.end))


class Position(msgspec.Struct, frozen=True, order=True):
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Source(msgspec.Struct, frozen=True, dict=True):
    """A text with a name: of its file, or of where it came from."""

    name: str
    text: str

    @cached_property
    def lines(self) -> tuple[Span, ...]:
        """The span of each line without its ending: line feed, carriage return, or both."""
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
        """Return the line and column of an offset, which is clamped to the text."""
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
    """Return whether `str.splitlines`, which also breaks at form feeds, would find only our line endings."""
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
    """A piece of a source as a grammar reads it, with a map back to the source.

    A block without its indentation or a string without its escapes is not a slice of the file. `runs` are ascending
    pairs (offset in the text, offset in the source) for the places where the two drift apart.
    """

    text: str
    runs: tuple[tuple[int, int], ...] = ((0, 0),)

    def locate(self, start: int, end: int) -> Span:
        """Return the span in the source of a range of this text."""
        first = self.origin(start)
        # The end is the last character plus one: the next run may be on another line.
        return Span(first, max(first, self.origin(end - 1) + 1 if end > start else first))

    def origin(self, offset: int) -> int:
        """Return the offset in the source of a character of this text."""
        here, there = self.runs[max(bisect_right(self.runs, offset, key=_in_text) - 1, 0)]
        return there + offset - here


def _in_text(run: tuple[int, int]) -> int:
    return run[0]


def excerpt(source: Source, span: Span) -> Excerpt:
    """Return a slice of a source as an excerpt."""
    return Excerpt(source.slice(span), ((0, span.start),))
