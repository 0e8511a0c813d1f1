"""Code of one line in; its brackets, quotes, commas and comments out, with `${…}` inside of quotes understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

OPENERS = "([{"
CLOSERS = ")]}"
QUOTES = "\"'"
_FARTHEST = 50
"""Open brackets that are looked through for the one that is closed; without an end, nonsense would take forever."""
_PAIRS = dict(zip(CLOSERS, OPENERS, strict=True))

_CODE = re.compile(r"[\"'()\[\]{},]|//")
_TEXT = re.compile(r"\\.|\$\{|[\"']", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class Open(NamedTuple):
    """A bracket or quote that is not closed yet, and where it stands."""

    mark: str
    offset: int


def marks(text: str, opened: list[Open], at: int = 0, *, base: int = 0) -> Iterator[tuple[int, str]]:
    """Give what opens, closes, separates or begins a comment; `opened` holds what is open after each of them."""
    while True:
        quoted = bool(opened) and opened[-1].mark in QUOTES
        found = (_TEXT if quoted else _CODE).search(text, at)
        if found is None:
            return
        mark, here, at = found[0], found.start(), found.end()
        if quoted:
            if mark == "${":
                opened.append(Open(mark, base + here))
                continue
            if mark != opened[-1].mark:
                continue
            opened.pop()
        elif mark in QUOTES:
            # An apostrophe inside a word opens nothing.
            if mark == "'" and here and text[here - 1].isalnum():
                continue
            opened.append(Open(mark, base + here))
        elif mark in OPENERS:
            opened.append(Open(mark, base + here))
        elif mark in CLOSERS:
            _close(opened, mark)
        elif mark == "//" and any(one.mark in QUOTES for one in opened):
            continue
        yield here, mark


def _close(opened: list[Open], mark: str) -> None:
    """Take off what a bracket closes, and what was left open inside of it; one that closes nothing changes nothing."""
    for at in range(len(opened) - 1, max(len(opened) - _FARTHEST, 0) - 1, -1):
        if opened[at].mark in QUOTES:
            return
        if opened[at].mark[-1] == _PAIRS[mark]:
            del opened[at:]
            return


def comment_at(text: str, opened: list[Open], *, base: int = 0) -> int:
    """Return where the comment of a line begins, or its length; `opened` goes on from the line before."""
    for here, mark in marks(text, opened, base=base):
        if mark == "//":
            return here
    return len(text)


def closing(text: str, at: int) -> int | None:
    """Return the offset after what closes the quote or bracket at an offset, or None when nothing does."""
    opened: list[Open] = []
    for here, mark in marks(text, opened, at):
        if not opened:
            return here + len(mark)
    return None


def comma_at(text: str, at: int) -> int:
    """Return where the next comma outside of brackets and quotes stands, or the length of the text."""
    opened: list[Open] = []
    for here, mark in marks(text, opened, at):
        if mark == "," and not opened:
            return here
    return len(text)


def decode(quoted: str) -> str:
    """Return what a quoted text says, its escapes resolved."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), quoted[1:-1])
