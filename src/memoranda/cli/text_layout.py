"""Lay out text, tables and pairs for a width in terminal cells; None is unlimited.

Not rich's tables: their import takes 0.3 s and 100 rows 0.2 s, here 6 ms. With ids that must not wrap they shrink the
other columns to nothing, and never become paragraphs. Of rich only `rich.cells` is used, for texts that are not ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_GAP = 2
"""Spaces between two columns."""
_NARROWEST = 12
"""Minimum width of a column that is truncated or wrapped."""
_LONGEST = 120
"""Maximum width of a truncated column if no width is given: a value may be very long."""
# A command in a hint is meant to be copied, so it stays on one line.
_TOGETHER = re.compile(r"(?<! ) *+(?:`[^`]*`\S*|(?<=: )memoranda .+|\S+)")
_COMMAND = re.compile(r" *`?memoranda ")
_WORD = re.compile(r"(?<! ) *+\S+")
_EXCERPT = re.compile(r" +\d* \|")
"""Start of a source line below a diagnostic: never wrapped, or the caret would point elsewhere."""
_ITEM = re.compile(r" *[-+=] ")
"""Start of a list item: continuation lines align with its first word."""
_JOINTS = (re.compile(r"[^/]*/*"), re.compile(r"[^-.:,@]*[-.:,@]*"))
"""The parts of a long word, with their separators: first of a path, then of a key or a name."""
_ID = re.compile(r"(?:[a-z]+_)?(?:[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""A generated id, a UUID, or a digest: half of it is useless."""


class Line(NamedTuple):
    """A line of output: names, which are highlighted, and the rest."""

    names: str
    text: str = ""


def wrap(text: str, width: int | None, *, indent: str = "") -> str:
    """Wrap the long lines of a text between words; `quoted text` stays together.

    Quoted text that does not fit on a line is wrapped too, unless it is a command. Continuation lines have the
    indentation of their line, plus `indent`.

    >>> wrap("List them with `memoranda keys list`", 22).splitlines()
    ['List them with', '`memoranda keys list`']
    """
    if width is None or len(text) * 2 <= width:
        return text
    return "\n".join(broken for line in text.split("\n") for broken in _wrap_line(line, width, indent))


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    whole: Sequence[str] = (),
    folded: Sequence[str] = (),
    only_ascii: bool = False,
) -> list[Line]:
    """Lay out a table.

    If the width is too small, empty columns are omitted, `whole` columns keep their width, `folded` columns are
    wrapped, and the others are truncated, as is an id in a folded column: split over two lines it could not be copied.
    If that is still too wide, each row becomes a paragraph with one value per line.
    """
    kept = (*whole, *folded)
    widths = _natural(columns, rows)
    if width is not None and _together(widths) > width:
        used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
        columns = [columns[index] for index in used]
        rows = [[row[index] for index in used] for row in rows]
        widths = _natural(columns, rows)
        least = [
            size if name in whole else min(size, _least(name, column if name in folded else ()))
            for name, size, *column in zip(columns, widths, *rows, strict=True)
        ]
        if _together(least) > width:
            return _paragraphs(columns, rows, width, kept=kept, only_ascii=only_ascii)
        widths = _shrink(widths, least, width)
    widths = [size if name in kept else min(size, _LONGEST) for name, size in zip(columns, widths, strict=True)]
    rule = "-" if only_ascii else "─"
    lines = [Line(_row(columns, widths)), Line("", rule * _together(widths))]
    for row in rows:
        parts = [
            _fold(cell, size, mark=_mark(only_ascii)) if name in folded else [_cut(cell, size, only_ascii)]
            for name, cell, size in zip(columns, row, widths, strict=True)
        ]
        tallest = max(len(part) for part in parts)
        filled = [[*part, *[""] * (tallest - len(part))] for part in parts]
        lines.extend(Line("", _row(line, widths)) for line in zip(*filled, strict=True))
    return lines


def pairs(rows: Iterable[tuple[str, str]], *, width: int | None) -> list[Line]:
    """Lay out names and their values, which are wrapped if they are too wide."""
    named = list(rows)
    first = max((cells(name) for name, _ in named), default=0)
    gap = _GAP
    if width is not None:
        widest = max((cells(word) for _, text in named for word in text.split()), default=0)
        # One space less is better than a hash with its last character on the next line.
        gap = 1 if first + 1 + widest == width else _GAP
    lines: list[Line] = []
    for name, text in named:
        room = None if width is None else max(width - first - gap, _NARROWEST)
        values = [part for line in text.split("\n") for part in ([line] if room is None else _fold(line, room))]
        for number, value in enumerate(values):
            head = name if number == 0 else ""
            lines.append(Line(_pad(head, first + gap) if value else head, value))
    return lines


def cells(text: str) -> int:
    """Return the width of a text on a terminal: East Asian wide characters and most emoji take two cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _wrap_line(line: str, width: int, indent: str) -> list[str]:
    line = line.rstrip(" ")
    if cells(line) <= width or _EXCERPT.match(line):
        return [line]
    item = _ITEM.match(line)
    margin = " " * item.end() if item else line[: len(line) - len(line.lstrip(" "))] + indent
    room = width - cells(margin)
    words = [
        word
        for part in _TOGETHER.findall(line)
        for word in (_WORD.findall(part) if cells(part.lstrip(" ")) > room and not _COMMAND.match(part) else [part])
    ]
    lines = [words[0]]
    for word in words[1:]:
        if cells(lines[-1]) + cells(word) <= width:
            lines[-1] += word
        else:
            lines.append(margin + word.lstrip(" "))
    return lines


def _least(name: str, folded: Sequence[str]) -> int:
    """Return the minimum width of a column; a folded one may be as narrow as its longest word."""
    longest = max((cells(word) for cell in folded for word in cell.split(" ")), default=_NARROWEST)
    return max(cells(name), min(longest, _NARROWEST))


def _natural(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cells(cell) for cell in column) for column in zip(columns, *rows, strict=True)]


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _shrink(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Shrink widths until they fit, the widest column first."""
    shrunk = [min(size, max(width, small)) for size, small in zip(widths, least, strict=True)]
    while _together(shrunk) > width:
        spare = [index for index, size in enumerate(shrunk) if size > least[index]]
        shrunk[max(spare, key=shrunk.__getitem__)] -= 1
    return shrunk


def _paragraphs(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, kept: Sequence[str], only_ascii: bool
) -> list[Line]:
    room = max(width - max(cells(name) for name in columns) - _GAP, _NARROWEST)
    lines: list[Line] = []
    for row in rows:
        if lines:
            lines.append(Line(""))
        values = [
            (name, cell if name in kept else _cut(cell, room, only_ascii))
            for name, cell in zip(columns, row, strict=True)
            if cell
        ]
        lines.extend(pairs(values, width=width))
    return lines


def _row(parts: Sequence[str], widths: Sequence[int]) -> str:
    padded = [_pad(part, size) for part, size in zip(parts, widths, strict=True)]
    return (" " * _GAP).join(padded).rstrip()


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _cut(text: str, width: int, only_ascii: bool) -> str:
    if cells(text) <= width:
        return text
    from rich.cells import set_cell_size

    mark = _mark(only_ascii)
    return set_cell_size(text, width - len(mark)).rstrip() + mark


def _mark(only_ascii: bool) -> str:
    return "..." if only_ascii else "…"


def _fold(text: str, width: int, *, mark: str = "") -> list[str]:
    """Wrap a text between words, and within words that are too wide.

    With a mark, an id that is too wide is truncated instead.
    """
    if cells(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.extend(_chop(word, width, mark=mark) if cells(word) > width else [word])
    return [line.rstrip(" ") for line in lines]


def _chop(word: str, width: int, joints: Sequence[re.Pattern[str]] = _JOINTS, *, mark: str = "") -> list[str]:
    """Split a long word, preferably at its slashes, dots and dashes."""
    if mark and _ID.fullmatch(word):
        return [word[: width - len(mark)] + mark]
    if not joints:
        from rich.cells import chop_cells

        return chop_cells(word, width)
    pieces = [""]
    for part in joints[0].findall(word):
        if cells(pieces[-1]) + cells(part) <= width:
            pieces[-1] += part
        else:
            pieces.extend([part] if cells(part) <= width else _chop(part, width, joints[1:], mark=mark))
    return [piece for piece in pieces if piece]
