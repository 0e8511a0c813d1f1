"""Read a source into a tree of lines by indentation, with comments removed and open brackets continued.

Nothing here knows keywords, except those that show that a bracket was not closed. After an error the next line is read,
so that there is a tree for any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from memoranda.lang.diagnostics import Diagnostics, note_uneven, unclosed_quote_message
from memoranda.lang.document import Raw, Runs, SourceNode
from memoranda.lang.grammar import DEEPEST, TAB, Margins, is_too_long
from memoranda.lang.source import Source, Span
from memoranda.mashin.keywords import STRUCTURE

OPENERS = "([{"
CLOSERS = ")]}"
QUOTES = "\"'"
_FARTHEST = 50
"""Maximum number of open brackets to search for the one that is closed; without a limit, nonsense is quadratic."""
_PAIRS = dict(zip(CLOSERS, OPENERS, strict=True))

_CODE = re.compile(r"[\"'()\[\]{},]|//")
_TEXT = re.compile(r"\\.|\$\{|[\"']", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class Open(NamedTuple):
    """An open bracket or quote, and its offset."""

    mark: str
    offset: int


def marks(text: str, opened: list[Open], at: int = 0, *, base: int = 0) -> Iterator[tuple[int, str]]:
    """Yield brackets, quotes, commas and comments; `opened` is what is open after each of them."""
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
            # An apostrophe inside a word is not a quote.
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
    """Remove what a bracket closes, and what was left open inside it."""
    for at in range(len(opened) - 1, max(len(opened) - _FARTHEST, 0) - 1, -1):
        if opened[at].mark in QUOTES:
            return
        if opened[at].mark[-1] == _PAIRS[mark]:
            del opened[at:]
            return


def comment_at(text: str, opened: list[Open], *, base: int = 0) -> int:
    """Return the offset of the comment of a line, or its length; `opened` continues from the line before."""
    for here, mark in marks(text, opened, base=base):
        if mark == "//":
            return here
    return len(text)


def closing(text: str, at: int) -> int | None:
    """Return the offset after the end of the quote or bracket at an offset, or None if it is never closed."""
    opened: list[Open] = []
    for here, mark in marks(text, opened, at):
        if not opened:
            return here + len(mark)
    return None


def comma_at(text: str, at: int) -> int:
    """Return the offset of the next comma outside brackets and quotes, or the length of the text."""
    opened: list[Open] = []
    for here, mark in marks(text, opened, at):
        if mark == "," and not opened:
            return here
    return len(text)


def decode(quoted: str) -> str:
    """Return the content of a quoted text, with escapes resolved."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), quoted[1:-1])


# lines

LONGEST_BRACKET = 5_000
"""Maximum number of lines in an open bracket."""

_STRUCTURE = re.compile(rf"(?:{'|'.join(STRUCTURE)})\b(?!\s*[:.(,=\[}}])")


class Piece(msgspec.Struct, frozen=True):
    """A physical line as a part of a logical one, with the comments above and after it."""

    text: str
    start: int
    comments: tuple[str, ...] = ()
    remark: str = ""


class Line(SourceNode, frozen=True):
    """A logical line and the lines indented below it."""

    text: str
    """The pieces, joined by line feeds, without indentation and comments."""
    pieces: tuple[Piece, ...]
    children: tuple[Line, ...] = ()
    blank_before: bool = False

    def said(self) -> tuple[object, ...]:
        """Return the content for comparisons; comments and spaces are layout."""
        return (self.text, self.children)

    @property
    def head(self) -> Span:
        """The place of its first physical line."""
        first = self.pieces[0]
        return Span(first.start, first.start + len(first.text))

    @property
    def runs(self) -> Runs:
        """Where each piece of the text begins in the source."""
        return _runs(self.pieces)

    def part(self, start: int, end: int) -> Raw:
        """Return a part of the text with its place."""
        if len(self.pieces) == 1:
            there = self.pieces[0].start
            return Raw(self.text[start:end], runs=((0, there + start),), span=Span(there + start, there + end))
        runs = self.runs
        first = max((at for at, run in enumerate(runs) if run[0] <= start), default=0)
        shifted = (
            (0, runs[first][1] + start - runs[first][0]),
            *((run[0] - start, run[1]) for run in runs[first + 1 :]),
        )
        raw = Raw(self.text[start:end], runs=tuple(run for run in shifted if run[0] <= end - start), span=Span(0, 0))
        return msgspec.structs.replace(raw, span=raw.excerpt.locate(0, end - start))

    def below(self) -> list[Piece]:
        """Return the pieces of all lines below."""
        pieces: list[Piece] = []
        waiting = list(reversed(self.children))
        while waiting:
            line = waiting.pop()
            pieces.extend(line.pieces)
            waiting.extend(reversed(line.children))
        return pieces

    def expression(self, start: int = 0) -> Raw | None:
        """Return the text from an offset, continued by the lines below; None if it is empty."""
        own = self.part(start, len(self.text)) if self.text[start:].strip() else None
        if not self.children:
            return own
        rest = join_pieces(self.below())
        return rest if own is None else join_raws(own, rest)


def _runs(pieces: tuple[Piece, ...] | list[Piece]) -> Runs:
    runs: list[tuple[int, int]] = []
    length = 0
    for piece in pieces:
        runs.append((length, piece.start))
        length += len(piece.text) + 1
    return tuple(runs)


def join_pieces(pieces: tuple[Piece, ...] | list[Piece]) -> Raw:
    """Join pieces to one raw text."""
    last = pieces[-1]
    text = "\n".join(piece.text for piece in pieces)
    return Raw(text, runs=_runs(pieces), span=Span(pieces[0].start, last.start + len(last.text)))


def join_raws(first: Raw, second: Raw) -> Raw:
    """Join two raw texts by a line feed."""
    shift = len(first.text) + 1
    runs = (*first.runs, *((here + shift, there) for here, there in second.runs))
    return Raw(f"{first.text}\n{second.text}", runs=runs, span=first.span.to(second.span))


class Lines(SourceNode, frozen=True):
    """All lines of a source, and the comments after the last of them."""

    lines: tuple[Line, ...]
    tail: tuple[str, ...] = ()


class _Scanned(msgspec.Struct, gc=False):
    """A logical line without its place in the tree."""

    indent: int
    pieces: tuple[Piece, ...]
    blank_before: bool


def read_lines(source: Source, diagnostics: Diagnostics) -> Lines:
    """Read a source into a tree of lines, noting every error of its layout."""
    whole = Span(0, len(source.text))
    if is_too_long(source, diagnostics, hint="Split it into several machines"):
        return Lines((), span=whole)
    scanner = _Scanner(source, diagnostics)
    scanned = scanner.scan()
    return Lines(_Builder(scanned, diagnostics).tree(), tuple(scanner.comments), span=whole)


class _Scanner:
    """Combines physical lines to logical ones."""

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.at = 0
        self.comments: list[str] = []
        self.blank = False
        self.margins = Margins(diagnostics)
        self.forgotten = False
        """Whether a bracket was left open; then later ones end at the first line that is not indented deeper."""

    def scan(self) -> list[_Scanned]:
        scanned: list[_Scanned] = []
        while self.at < len(self.source.lines):
            text, start = self._physical(self.at)
            self.at += 1
            content = text.strip()
            if not content:
                self.blank = True
            elif content.startswith("//"):
                self.comments.append(content)
            else:
                scanned.append(self._logical(text, start))
        return scanned

    def _physical(self, at: int) -> tuple[str, int]:
        span = self.source.lines[at]
        # A byte order mark is not part of the first line.
        start = span.start + (at == 0 and self.source.text.startswith("\ufeff"))
        return self.source.text[start : span.end], start

    def _logical(self, text: str, start: int) -> _Scanned:
        indent, lead = self.margins.read(text, start)
        content = text[len(lead) :]
        comments, self.comments = tuple(self.comments), []
        blank, self.blank = self.blank, False
        opened: list[Open] = []
        pieces = [self._piece(content, start + len(text) - len(content), opened, comments)]
        if opened:
            self._until_closed(pieces, opened, indent)
        return _Scanned(indent, tuple(pieces), blank)

    def _piece(self, content: str, start: int, opened: list[Open], comments: tuple[str, ...]) -> Piece:
        """Return a physical line without its comment; a quote ends with its line, closed or not."""
        end = comment_at(content, opened, base=start)
        quoted = next((at for at, one in enumerate(opened) if one.mark in QUOTES), None)
        if quoted is not None:
            here = opened[quoted]
            self.diagnostics.error(
                "unclosed_quote",
                unclosed_quote_message(content[here.offset - start :]),
                Span(here.offset, here.offset + 1),
                hint=f"End the text with {here.mark} on the same line; write \\n for a new line in it",
            )
            del opened[quoted:]
        return Piece(content[:end].rstrip(), start, comments, content[end:].rstrip())

    def _until_closed(self, pieces: list[Piece], opened: list[Open], indent: int) -> None:
        """Add the lines up to the closing bracket; indentation has no meaning inside brackets."""
        forgotten = opened[0].offset
        comments: list[str] = []
        at, deeper, deeper_at = self.at, 1, self.at
        last = min(len(self.source.lines), at + LONGEST_BRACKET)
        below = True
        while opened and at < last:
            text, start = self._physical(at)
            content = text.strip()
            at += 1
            if not content:
                continue
            if content.startswith("//"):
                comments.append(content)
                continue
            lead = len(text) - len(text.lstrip())
            if len(text[:lead].expandtabs(TAB)) <= indent and content[0] not in CLOSERS:
                if self.forgotten or _STRUCTURE.match(content):
                    break
                below = False
            forgotten = opened[0].offset
            pieces.append(self._piece(content, start + lead, opened, tuple(comments)))
            comments = []
            if below:
                deeper, deeper_at = len(pieces), at
        if not opened:
            self.at = at
            return
        del pieces[deeper:]
        self.at, self.forgotten = deeper_at, True
        message = f"the bracket `{self.source.text[forgotten]}` is never closed"
        self.diagnostics.error(
            "unclosed_bracket", message, Span(forgotten, forgotten + 1), hint="Close it here, or on a line below"
        )


class _Builder:
    """Nests lines by their columns."""

    def __init__(self, scanned: list[_Scanned], diagnostics: Diagnostics) -> None:
        self.scanned = scanned
        self.diagnostics = diagnostics
        self.at = 0

    def tree(self) -> tuple[Line, ...]:
        return self._below(-1, 0)

    def _below(self, above: int, depth: int) -> tuple[Line, ...]:
        """Return the lines that are indented deeper than a column."""
        lines: list[Line] = []
        column: int | None = None
        while self.at < len(self.scanned) and self.scanned[self.at].indent > above:
            scanned = self.scanned[self.at]
            first = scanned.pieces[0]
            head = Span(first.start, first.start + len(first.text))
            if depth > DEEPEST:
                message = f"the line is nested more than {DEEPEST} levels deep"
                self.diagnostics.error("too_deep", message, head, hint="Move a part of it to a flow")
                while self.at < len(self.scanned) and self.scanned[self.at].indent > above:
                    self.at += 1
                break
            note_uneven(self.diagnostics, column, scanned.indent, head)
            column = scanned.indent
            self.at += 1
            children = self._below(scanned.indent, depth + 1)
            last = scanned.pieces[-1]
            lines.append(
                Line(
                    "\n".join(piece.text for piece in scanned.pieces),
                    pieces=scanned.pieces,
                    children=children,
                    blank_before=scanned.blank_before,
                    span=Span(first.start, last.start + len(last.text)),
                )
            )
        return tuple(lines)
