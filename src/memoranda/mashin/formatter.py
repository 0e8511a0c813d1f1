"""Format a machine: two spaces per level, sections in their usual order.

The content of a line changes only where one of several spellings is canonical; comments stay with their lines. Text
that cannot be parsed is not formatted. A source without any indentation gets the one that its keywords imply.
"""

from __future__ import annotations

from bisect import bisect_right

from memoranda.mashin.keywords import SECTIONS
from memoranda.mashin.lines import CLOSERS, Line, Open, Piece, comment_at
from memoranda.mashin.parser import Reading, read, section_of
from memoranda.mashin.reader import Cursor

INDENT = "  "


def format_text(text: str, *, name: str = "machine.mashin", fragment: bool = False) -> str:
    """Format a source. Raises a SourceError for one with errors."""
    reading = read(text, name=name, fragment=fragment, indent=True)
    reading.raise_if_failed()
    return format_reading(reading)


def format_reading(reading: Reading) -> str:
    """Return the canonical text of a source."""
    page = _Page(reading.spellings)
    lines = reading.lines.lines
    if lines and Cursor(lines[0]).takes("machine"):
        page.head(lines[0], 0, first=True)
        page.sections((*lines[0].children, *lines[1:]), 1)
    else:
        page.sections(lines, 0)
    if reading.lines.tail and page.written:
        page.written.append("")
    page.written.extend(reading.lines.tail)
    return "".join(f"{text}\n" for text in page.written)


def _place(line: Line) -> int:
    """Return the usual position of a section; steps of a fragment come last."""
    keyword = section_of(line)
    return SECTIONS.keywords.index(keyword) if keyword else len(SECTIONS.keywords)


class _Page:
    """Collects formatted lines."""

    def __init__(self, spellings: dict[int, str]) -> None:
        self.spellings = spellings
        self.written: list[str] = []

    def sections(self, lines: tuple[Line, ...], depth: int) -> None:
        """Write sections in their usual order, with the empty lines that were there."""
        for at, line in enumerate(sorted(lines, key=_place)):
            self.line(line, depth, first=at == 0)

    def line(self, line: Line, depth: int, *, first: bool) -> None:
        """Write a line and what is nested below it; an empty line before it stays."""
        self.head(line, depth, first=first)
        for at, child in enumerate(line.children):
            self.line(child, depth + 1, first=at == 0)

    def head(self, line: Line, depth: int, *, first: bool) -> None:
        """Write the line itself, indenting the pieces of a bracket."""
        if not first and line.blank_before:
            self.written.append("")
        opened: list[Open] = []
        starts = [piece.start for piece in line.pieces]
        for at, piece in enumerate(line.pieces):
            text = self.spellings.get(line.span.start, piece.text) if at == 0 else piece.text
            margin = INDENT * (depth + _levels(piece, opened, starts))
            self.written.extend(f"{margin}{comment}" for comment in piece.comments)
            self.written.append(f"{margin}{text}  {piece.remark}" if piece.remark else f"{margin}{text}")
            comment_at(piece.text, opened, base=piece.start)


def _levels(piece: Piece, opened: list[Open], starts: list[int]) -> int:
    """Return the depth of a piece: all brackets that one line opens are one level."""
    closes = len(piece.text) - len(piece.text.lstrip(CLOSERS))
    left = opened[: max(len(opened) - closes, 0)]
    return len({bisect_right(starts, one.offset) for one in left})
