"""Source text in, a tree of lines by indentation out: blocks, quotes and brackets over several lines taken together.

ABL is not YAML: a bare name may have properties below it, and text may follow a bracket. So nothing here knows what a
keyword means. A fault is noted and the next line is read; whatever the text, there is a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from memoranda.abl.tree import Line, Lines, Runs, Value
from memoranda.abl.values import CLOSERS, OPENERS, decode, end_of_key, is_quoted, left_open
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.faults import never_closed, note_uneven
from memoranda.lang.layout import DEEPEST, TAB, Margins, is_too_long
from memoranda.lang.source import Source, Span
from memoranda.model.text import quote

LONGEST_BRACKET = 200
"""Lines that an open bracket may go on over."""

_ENTRY = re.compile(r"([^\W\d][\w.\-/*]*)[ \t]*:(?=[ \t]|$)")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?")
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*')(?=\s|$)""")


class _Scanned(msgspec.Struct, gc=False):
    """One line of the source with its block or continuation, before it has found its place in the tree."""

    indent: int
    head: int
    dash: bool
    start: int
    end: int
    text: str
    key: str | None
    key_end: int
    value: Value | None
    comments: tuple[str, ...]
    blank_before: bool
    runs: Runs = ()


def read_lines(source: Source, said: Diagnostics) -> Lines:
    """Read a source into a tree of lines, noting every fault of its layout."""
    whole = Span(0, len(source.text))
    if is_too_long(source, said, hint="Split it into several agents"):
        return Lines((), span=whole)
    scanner = _Scanner(source, said)
    scanned = scanner.scan()
    return Lines(_Builder(scanned, said).tree(), tuple(scanner.comments), span=whole)


def note_remark(said: Diagnostics, remark: str, span: Span) -> None:
    """Say that a comment behind a value is left out."""
    message = f"{quote(remark)} is left out: a comment stands on a line of its own"
    said.warning("inline_comment", message, span, hint="Move it to the line above")


class _Scanner:
    """Goes through the physical lines and gives logical ones."""

    def __init__(self, source: Source, said: Diagnostics) -> None:
        self.source = source
        self.said = said
        self.at = 0
        self.comments: list[str] = []
        self.blank = False
        self.margins = Margins(said)

    def scan(self) -> list[_Scanned]:
        scanned: list[_Scanned] = []
        total = len(self.source.lines)
        while self.at < total:
            span = self.source.lines[self.at]
            self.at += 1
            start = span.start
            # A byte order mark is no part of the first line.
            start += start == 0 and self.source.text.startswith("\ufeff")
            text = self.source.text[start : span.end]
            content = text.strip()
            if not content:
                self.blank = True
            elif content[0] == "#":
                self.comments.append(content)
            else:
                scanned.append(self._logical(text, start))
        return scanned

    def _logical(self, text: str, start: int) -> _Scanned:
        text = text.rstrip()
        indent, lead = self.margins.read(text, start)
        content = text[len(lead) :]
        begin, head = start + len(lead), indent
        dash = content == "-" or content[:2] in ("- ", "-\t")
        if dash:
            rest = content[1:].lstrip()
            head = indent + len(content) - len(rest)
            begin += len(content) - len(rest)
            content = rest
        comments, self.comments = tuple(self.comments), []
        blank, self.blank = self.blank, False
        line = _Scanned(indent, head, dash, begin, begin + len(content), content, None, begin, None, comments, blank)
        self._split(line)
        return line

    def _split(self, line: _Scanned) -> None:
        """Find key and value of a line, and take in the lines that its value goes on over."""
        found = _ENTRY.match(line.text)
        if line.text[:1] in ("'", '"') and line.text.count(line.text[0]) == 1:
            self._unclosed(line.text, line.start)
        if found:
            line.key, colon = found[1], found.end()
        else:
            colon = end_of_key(line.text)
            if colon is None:
                self._continue(line, 0)
                return
            written = line.text[: colon - 1].rstrip()
            line.key = decode(written)[0] if is_quoted(written) else written
        line.key_end = line.start + colon - 1
        rest = line.text[colon:]
        written = rest.lstrip()
        offset = line.start + colon + len(rest) - len(written)
        if not written:
            return
        if _BLOCK.fullmatch(written):
            line.value = self._block(line, folded=written[0] == ">")
            line.text = line.text[:colon]
        elif written[0] in "\"'":
            self._quoted(line, written, offset)
        else:
            self._continue(line, offset - line.start)

    def _quoted(self, line: _Scanned, written: str, offset: int) -> None:
        found = _QUOTED.match(written)
        style: Literal["plain", "quoted"] = "plain"
        if found:
            after = written[found.end() :].strip()
            if not after:
                style = "quoted"
            elif after[0] == "#":
                note_remark(self.said, after, Span(offset + len(written) - len(after), offset + len(written)))
                line.comments = (*line.comments, after)
                line.end, written, style = offset + found.end(), found[0], "quoted"
                line.text = line.text[: line.end - line.start]
        elif len(written) == 1 or written[0] not in written[1:]:
            self._unclosed(written, offset)
        line.value = Value(written, style, ((0, offset),), span=Span(offset, offset + len(written)))

    def _unclosed(self, written: str, offset: int) -> None:
        self.said.error(
            "unclosed_quote",
            never_closed(written),
            Span(offset, offset + 1),
            hint=f"End the text with {written[0]} on the same line, or use a block with |",
        )

    def _continue(self, line: _Scanned, skip: int) -> None:
        """Give a line its plain value, joined with the lines that close a bracket it leaves open."""
        text = line.text[skip:]
        start = line.start + skip
        runs: Runs = ((0, start),)
        end = line.end
        if text and text[-1] in "([{,":
            text, runs, end = self._until_closed(line, text, start)
        if line.key is None:
            line.text, line.runs = text, runs
        else:
            line.text = line.text[:skip] + text
            line.value = Value(text, "plain", runs, span=Span(start, end))
        line.end = end

    def _until_closed(self, line: _Scanned, text: str, start: int) -> tuple[str, Runs, int]:
        runs: list[tuple[int, int]] = [(0, start)]
        open_brackets, end = left_open(text), line.end
        at, pieces, comments, length = self.at, [text], line.comments, len(text)
        last = min(len(self.source.lines), at + LONGEST_BRACKET)
        while open_brackets > 0 and at < last:
            span = self.source.lines[at]
            below = self.source.text[span.start : span.end]
            piece = below.strip()
            at += 1
            if not piece or piece[0] == "#":
                comments = (*comments, piece) if piece else comments
                continue
            lead = len(below) - len(below.lstrip())
            # A line that is not deeper belongs to something else, unless all it does is close the bracket.
            if len(below[:lead].expandtabs(TAB)) <= line.indent and piece[0] not in CLOSERS:
                break
            open_brackets += left_open(piece)
            pieces.append(piece)
            runs.append((length + 1, span.start + lead))
            length += 1 + len(piece)
            end = span.start + lead + len(piece)
        joined = " ".join(pieces)
        # What follows the last bracket must not make another line of it.
        if open_brackets <= 0 and (line.key is not None or end_of_key(joined) is None):
            self.at, line.comments = at, comments
            return joined, tuple(runs), end
        if text[-1] in OPENERS:
            self.said.error(
                "unclosed_bracket",
                f"the bracket `{text[-1]}` is never closed",
                Span(line.end - 1, line.end),
                hint="Close it on this line, or on deeper lines below",
            )
        return text, ((0, start),), line.end

    def _block(self, line: _Scanned, *, folded: bool) -> Value:
        """Return the text of the lines below that are indented deeper than the key."""
        pieces: list[tuple[str, int]] = []
        above = line.head
        first = self.at
        while self.at < len(self.source.lines):
            span = self.source.lines[self.at]
            text = self.source.text[span.start : span.end]
            content = text.lstrip(" \t")
            if content.strip() and len(text[: len(text) - len(content)].expandtabs(TAB)) <= above:
                break
            pieces.append((text, span.start))
            self.at += 1
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
            self.at -= 1
        if not pieces:
            self.at = first
            return Value("", "block", ((0, line.end),), span=Span(line.end, line.end))
        line.end = pieces[-1][1] + len(pieces[-1][0])
        return _joined(pieces, " " if folded else "\n")


def margin_of(lines: Iterable[str]) -> int:
    """Return how many signs every line of a block text is indented by, at least; blank lines do not count."""
    return min((len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()), default=0)


def _joined(pieces: list[tuple[str, int]], glue: str) -> Value:
    margin = margin_of(text for text, _ in pieces)
    runs: list[tuple[int, int]] = []
    lines: list[str] = []
    length = 0
    for text, start in pieces:
        line = text[margin:].rstrip()
        runs.append((length, start + min(margin, len(text))))
        lines.append(line)
        length += len(line) + 1
    last, at = pieces[-1]
    return Value(glue.join(lines), "block", tuple(runs), span=Span(runs[0][1], at + len(last.rstrip())))


class _Builder:
    """Nests lines by their columns."""

    def __init__(self, scanned: list[_Scanned], said: Diagnostics) -> None:
        self.scanned = scanned
        self.said = said
        self.at = 0

    def tree(self) -> tuple[Line, ...]:
        return self._below(-1, 0)

    def _below(self, above: int, depth: int) -> tuple[Line, ...]:
        """Take all lines that are deeper than a column."""
        lines: list[Line] = []
        column: int | None = None
        while self.at < len(self.scanned) and self.scanned[self.at].indent > above:
            line = self.scanned[self.at]
            if depth > DEEPEST:
                self._too_deep(line, above)
                break
            head = Span(line.start, line.end if "\n" not in line.text else line.start + 1)
            note_uneven(self.said, column, line.indent, head)
            column = line.indent
            lines.append(self._line(depth))
        return tuple(lines)

    def _line(self, depth: int) -> Line:
        line = self.scanned[self.at]
        self.at += 1
        children = self._below(line.head, depth + 1)
        if line.dash:
            properties = self._below(line.indent, depth + 1)
        else:
            properties = ()
            if not children and line.key is not None and line.value is None:
                children = self._list_in_the_same_column(line.indent, depth)
        return Line(
            line.text,
            dash=line.dash,
            key=line.key,
            key_span=Span(line.start, line.key_end if line.key is not None else line.end),
            value=line.value,
            children=children,
            properties=properties,
            comments=line.comments,
            blank_before=line.blank_before,
            runs=line.runs,
            span=Span(line.start, line.end),
        )

    def _list_in_the_same_column(self, column: int, depth: int) -> tuple[Line, ...]:
        """Take the items of a list that is not indented below its key, which YAML allows and people write."""
        lines: list[Line] = []
        while self.at < len(self.scanned) and self.scanned[self.at].dash and self.scanned[self.at].indent == column:
            lines.append(self._line(depth + 1))
        return tuple(lines)

    def _too_deep(self, line: _Scanned, above: int) -> None:
        self.said.error(
            "too_deep",
            f"the line is nested more than {DEEPEST} levels deep",
            Span(line.start, line.end),
            hint="Move a part of it to the top",
        )
        while self.at < len(self.scanned) and self.scanned[self.at].indent > above:
            self.at += 1
