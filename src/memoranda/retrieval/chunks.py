"""Split long texts into parts at paragraph, line, sentence or word boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Where a text may be cut, best first: between paragraphs, lines, sentences, words. Punctuation stays with the sentence
# that it ends.
_BOUNDARIES = (
    re.compile(r"\n[ \t]*\n+"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])"),  # noqa: RUF001 (these end sentences too)
    re.compile(r"\s+"),
)


def split_text(text: str, size: int) -> list[str]:
    r"""Split a text into parts of at most `size` characters, without the white space at the cuts.

    Pieces are joined as long as they fit, so there are as few parts as the boundaries allow.

    >>> split_text("One. Two three.\n\nFour.", 16)
    ['One. Two three.', 'Four.']
    """
    parts: list[str] = []
    for start, end in _spans(text, 0, len(text), size, 0):
        piece = text[start:end].strip()
        if piece:
            parts.append(piece)
    return parts


def _spans(text: str, start: int, end: int, size: int, level: int) -> Iterator[tuple[int, int]]:
    if end - start <= size:
        yield start, end
        return
    if level == len(_BOUNDARIES):
        for cut in range(start, end, size):  # a word that is longer than `size`
            yield cut, min(cut + size, end)
        return
    begin = start
    for piece_start, piece_end in _pieces(text, start, end, level):
        if piece_end - begin <= size:
            continue
        if begin < piece_start:
            yield begin, piece_start
        begin = piece_start
        if piece_end - begin > size:
            yield from _spans(text, begin, piece_end, size, level + 1)
            begin = piece_end
    if begin < end:
        yield begin, end


def _pieces(text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
    begin = start
    for boundary in _BOUNDARIES[level].finditer(text, start, end):
        yield begin, boundary.start()
        begin = boundary.end()
    yield begin, end
