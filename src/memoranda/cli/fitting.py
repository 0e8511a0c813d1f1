"""Texts, rows and a width in; lines that fit it out. A width of None is as wide as need be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_GAP = 2
"""Blanks between two columns."""
_NARROWEST = 12
"""Signs of a column that is cut or goes on in the next line, at least."""
_LONGEST = 120
"""Signs of a column that is cut where no width is given: a value may be a whole book."""
# A command in a hint is copied as a whole, so it stays on one line.
_TOGETHER = re.compile(r"(?<! ) *+(?:`[^`]*`\S*|(?<=: )memoranda .+|\S+)")
_COMMAND = re.compile(r" *`?memoranda ")
_WORD = re.compile(r"(?<! ) *+\S+")
_EXCERPT = re.compile(r" +\d* \|")
"""What a line of source begins with below a fault: it stays as it is, or the caret would be below something else."""
_ITEM = re.compile(r" *[-+=] ")
"""What a line of a list begins with: it goes on below its first word."""
_JOINTS = (re.compile(r"[^/]*/*"), re.compile(r"[^-.:,@]*[-.:,@]*"))
"""The parts of a long word, each with what ends it: first those of a path, then those of a key or a name."""
_ID = re.compile(r"(?:[a-z]+_)?(?:[0-9a-f]{32,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""What the source of ids gives, a UUID, or a digest: half of it is of no use to anybody."""


class Line(NamedTuple):
    """A line: names, which stand out, and then what they name."""

    names: str
    text: str = ""


def wrap(text: str, width: int | None, *, indent: str = "") -> str:
    """Return a text with its long lines broken between words; what has no blanks and `what is quoted` stays together.

    What is quoted and would not fit a line of its own is broken too, unless it is a command. What goes on in the next
    line stands below where its own line began, and further in by `indent`.

    >>> wrap("List them with `memoranda keys list`", 22).splitlines()
    ['List them with', '`memoranda keys list`']
    """
    if width is None or len(text) * 2 <= width:
        return text
    return "\n".join(broken for line in text.split("\n") for broken in _broken(line, width, indent))


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None,
    whole: Sequence[str] = (),
    folded: Sequence[str] = (),
    only_ascii: bool = False,
) -> list[Line]:
    """Return rows under their heads.

    Where the width is too small for all of it, columns without any value are left out, those that are `whole` keep
    their width, `folded` ones go on in the next line, and the others are cut, as is an id in a folded one: in two
    lines it could not be copied. Where that leaves too little of them, each row is a paragraph, one value a line.
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
        widths = _shrunk(widths, least, width)
    widths = [size if name in kept else min(size, _LONGEST) for name, size in zip(columns, widths, strict=True)]
    rule = "-" if only_ascii else "─"
    lines = [Line(_row(columns, widths)), Line("", rule * _together(widths))]
    for row in rows:
        parts = [
            _folded(cell, size, mark=_mark(only_ascii)) if name in folded else [_cut(cell, size, only_ascii)]
            for name, cell, size in zip(columns, row, widths, strict=True)
        ]
        tallest = max(len(part) for part in parts)
        filled = [[*part, *[""] * (tallest - len(part))] for part in parts]
        lines.extend(Line("", _row(line, widths)) for line in zip(*filled, strict=True))
    return lines


def pairs(rows: Iterable[tuple[str, str]], *, width: int | None) -> list[Line]:
    """Return names beside their values, which go on in the next line where they are too wide."""
    named = list(rows)
    first = max((cells(name) for name, _ in named), default=0)
    gap = _GAP
    if width is not None:
        widest = max((cells(word) for _, text in named for word in text.split()), default=0)
        # One blank less is better than a hash with its last sign in the next line.
        gap = 1 if first + 1 + widest == width else _GAP
    lines: list[Line] = []
    for name, text in named:
        room = None if width is None else max(width - first - gap, _NARROWEST)
        values = [part for line in text.split("\n") for part in ([line] if room is None else _folded(line, room))]
        for number, value in enumerate(values):
            head = name if number == 0 else ""
            lines.append(Line(_padded(head, first + gap) if value else head, value))
    return lines


def cells(text: str) -> int:
    """Return how wide a text is on a terminal: many signs of Asia and most emoji take two places."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _broken(line: str, width: int, indent: str) -> list[str]:
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
    """Return how narrow a column may be; one that is folded may be as narrow as its longest word, if that is short."""
    longest = max((cells(word) for cell in folded for word in cell.split(" ")), default=_NARROWEST)
    return max(cells(name), min(longest, _NARROWEST))


def _natural(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(cells(cell) for cell in column) for column in zip(columns, *rows, strict=True)]


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _shrunk(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return widths that fit together: the widest gives way first."""
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
    padded = [_padded(part, size) for part, size in zip(parts, widths, strict=True)]
    return (" " * _GAP).join(padded).rstrip()


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _cut(text: str, width: int, only_ascii: bool) -> str:
    if cells(text) <= width:
        return text
    from rich.cells import set_cell_size

    mark = _mark(only_ascii)
    return set_cell_size(text, width - len(mark)).rstrip() + mark


def _mark(only_ascii: bool) -> str:
    """Return what stands where something was cut."""
    return "..." if only_ascii else "…"


def _folded(text: str, width: int, *, mark: str = "") -> list[str]:
    """Return a text in lines of a width, broken between words, and within those that are wider.

    With a mark, an id that is wider is cut at it.
    """
    if cells(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.extend(_chopped(word, width, mark=mark) if cells(word) > width else [word])
    return [line.rstrip(" ") for line in lines]


def _chopped(word: str, width: int, joints: Sequence[re.Pattern[str]] = _JOINTS, *, mark: str = "") -> list[str]:
    """Return a word in pieces of a width, broken at its slashes, dots and dashes where it has them."""
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
            pieces.extend([part] if cells(part) <= width else _chopped(part, width, joints[1:], mark=mark))
    return [piece for piece in pieces if piece]
