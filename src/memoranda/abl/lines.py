"""The lines of an ABL file: a tree by indentation, and functions that take the text of a value apart.

ABL is not YAML: a bare name may have properties below it, and text may follow a bracket. Nothing here knows what a
keyword means. A mistake becomes a diagnostic and reading goes on with the next line, so every text gives a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

import msgspec

from memoranda.lang.diagnostics import Diagnostics, note_uneven, unclosed_quote_message
from memoranda.lang.document import Raw, Runs, SourceNode
from memoranda.lang.grammar import DEEPEST, TAB, Margins, is_too_long
from memoranda.lang.source import Source, Span
from memoranda.model.text import quote

LONGEST_BRACKET = 200
"""Maximum number of lines that a bracketed value may span."""

_ENTRY = re.compile(r"([^\W\d][\w.\-/*]*)[ \t]*:(?=[ \t]|$)")
_COMMENT = re.compile(r"#(?=\s|$)")
_AFTER_BRACKET = re.compile(r"(?<=[\]}])[ \t]++#(?=[ \t]|$)")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?")
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*')(?=\s|$)""")


class Value(SourceNode, frozen=True):
    """The text after a colon, or the block below it."""

    LAYOUT = frozenset({"span", "runs"})

    text: str
    """As written; a block without its common indentation."""
    style: Literal["plain", "quoted", "block"] = "plain"
    runs: Runs = ((0, 0),)

    @property
    def raw(self) -> Raw:
        """The value as written, quotes included: an expression."""
        return Raw(self.text, runs=self.runs, literal=self.style == "block", span=self.span)

    @property
    def unquoted(self) -> Raw:
        """The value without surrounding quotes: a text, a name, a condition."""
        return self.raw if self.style == "block" else unquote(self.raw)


class Line(SourceNode, frozen=True):
    """A line and everything nested below it.

    `- KEY: value` is one line with `dash`. Lines indented deeper than KEY are its `children`; lines in KEY's column
    are its `properties`, the other entries of the same item. A line without a key is bare text.
    """

    text: str
    """The line as written, without indentation, dash and block."""
    key_span: Span
    """The span of the key, or of the whole line when there is none."""
    dash: bool = False
    key: str | None = None
    value: Value | None = None
    children: tuple[Line, ...] = ()
    properties: tuple[Line, ...] = ()
    comments: tuple[str, ...] = ()
    blank_before: bool = False
    runs: Runs = ()
    """The places of the pieces of a bare line that spans several lines of the file."""

    def said(self) -> tuple[object, ...]:
        """Return the content for comparison: the case of the key and white space are layout."""
        words = self.text if self.key is None else self.key.casefold()
        return (self.dash, words, self.value, self.children, self.properties)

    @property
    def body(self) -> tuple[Line, ...]:
        """The children and properties together."""
        return (*self.children, *self.properties) if self.properties else self.children

    @property
    def entries(self) -> tuple[Line, ...]:
        """The entries of a list item, beginning with the one on the line of the dash."""
        head = msgspec.structs.replace(self, dash=False, properties=())
        return (head, *self.properties)

    @property
    def name(self) -> Raw:
        """The key as raw text."""
        return Raw(self.key or "", runs=((0, self.key_span.start),), span=self.key_span)

    @property
    def raw(self) -> Raw:
        """The whole line as raw text."""
        return Raw(self.text, runs=self.runs or ((0, self.span.start),), span=self.span)


class Lines(SourceNode, frozen=True):
    """All lines of a source, and the comments after the last one."""

    lines: tuple[Line, ...]
    tail: tuple[str, ...] = ()


class _FlatLine(msgspec.Struct, gc=False):
    """A logical line with its block or continuation, before nesting."""

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


def read_lines(source: Source, diagnostics: Diagnostics) -> Lines:
    """Parse a source into a tree of lines; layout mistakes become diagnostics."""
    whole = Span(0, len(source.text))
    if is_too_long(source, diagnostics, hint="Split it into several agents"):
        return Lines((), span=whole)
    scanner = _Scanner(source, diagnostics)
    scanned = scanner.scan()
    return Lines(_Builder(scanned, diagnostics).tree(), tuple(scanner.comments), span=whole)


def note_remark(diagnostics: Diagnostics, remark: str, span: Span) -> None:
    """Warn that a comment after a value is ignored."""
    message = f"{quote(remark)} is ignored: a comment needs a line of its own"
    diagnostics.warning("inline_comment", message, span, hint="Move it to the line above")


class _Scanner:
    """Turns physical lines into logical lines."""

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.at = 0
        self.comments: list[str] = []
        self.blank = False
        self.margins = Margins(diagnostics)

    def scan(self) -> list[_FlatLine]:
        scanned: list[_FlatLine] = []
        total = len(self.source.lines)
        while self.at < total:
            span = self.source.lines[self.at]
            self.at += 1
            start = span.start
            # Skip a byte order mark.
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

    def _logical(self, text: str, start: int) -> _FlatLine:
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
        line = _FlatLine(indent, head, dash, begin, begin + len(content), content, None, begin, None, comments, blank)
        self._split(line)
        return line

    def _split(self, line: _FlatLine) -> None:
        """Split a line into key and value, and consume the lines that its value continues on."""
        found = _ENTRY.match(line.text)
        if line.text[:1] in ("'", '"') and line.text.count(line.text[0]) == 1:
            self._note_unclosed_quote(line.text, line.start)
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
        if not written or _COMMENT.match(written):
            if written:
                note_remark(self.diagnostics, written, Span(offset, offset + len(written)))
                line.comments = (*line.comments, written)
                line.text, line.end = line.text[:colon], line.start + colon
            return
        if _BLOCK.fullmatch(written):
            line.value = self._block(line, folded=written[0] == ">")
            line.text = line.text[:colon]
        elif written[0] in "\"'":
            self._read_quoted(line, written, offset)
        else:
            self._continue(line, offset - line.start)

    def _read_quoted(self, line: _FlatLine, written: str, offset: int) -> None:
        found = _QUOTED.match(written)
        style: Literal["plain", "quoted"] = "plain"
        if found:
            after = written[found.end() :].strip()
            if not after:
                style = "quoted"
            elif after[0] == "#":
                note_remark(self.diagnostics, after, Span(offset + len(written) - len(after), offset + len(written)))
                line.comments = (*line.comments, after)
                line.end, written, style = offset + found.end(), found[0], "quoted"
                line.text = line.text[: line.end - line.start]
        elif len(written) == 1 or written[0] not in written[1:]:
            self._note_unclosed_quote(written, offset)
        line.value = Value(written, style, ((0, offset),), span=Span(offset, offset + len(written)))

    def _note_unclosed_quote(self, written: str, offset: int) -> None:
        self.diagnostics.error(
            "unclosed_quote",
            unclosed_quote_message(written),
            Span(offset, offset + 1),
            hint=f"End the text with {written[0]} on the same line, or use a block with |",
        )

    def _continue(self, line: _FlatLine, skip: int) -> None:
        """Set the plain value of a line, joined with the lines up to the closing bracket."""
        text = line.text[skip:]
        start = line.start + skip
        runs: Runs = ((0, start),)
        end = line.end
        remark = _AFTER_BRACKET.search(text) if text[:1] in ("[", "{") else None
        if remark and bracket_balance(text[: remark.start()]) == 0:
            comment = text[remark.start() :].strip()
            note_remark(self.diagnostics, comment, Span(start + remark.start(), end))
            line.comments = (*line.comments, comment)
            text, end = text[: remark.start()], start + remark.start()
        if text and text[-1] in "([{,":
            text, runs, end = self._until_closed(line, text, start)
        if line.key is None:
            line.text, line.runs = text, runs
        else:
            line.text = line.text[:skip] + text
            line.value = Value(text, "plain", runs, span=Span(start, end))
        line.end = end

    def _until_closed(self, line: _FlatLine, text: str, start: int) -> tuple[str, Runs, int]:
        runs: list[tuple[int, int]] = [(0, start)]
        open_brackets, end = bracket_balance(text), line.end
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
            # A line that is not indented deeper belongs to something else, unless it only closes the bracket.
            if len(below[:lead].expandtabs(TAB)) <= line.indent and piece[0] not in CLOSERS:
                break
            open_brackets += bracket_balance(piece)
            pieces.append(piece)
            runs.append((length + 1, span.start + lead))
            length += 1 + len(piece)
            end = span.start + lead + len(piece)
        joined = " ".join(pieces)
        # Text after the last bracket must not turn the joined lines into an entry.
        if open_brackets <= 0 and (line.key is not None or end_of_key(joined) is None):
            self.at, line.comments = at, comments
            return joined, tuple(runs), end
        if text[-1] in OPENERS:
            self.diagnostics.error(
                "unclosed_bracket",
                f"the bracket `{text[-1]}` is never closed",
                Span(line.end - 1, line.end),
                hint="Close it on this line, or on deeper lines below",
            )
        return text, ((0, start),), line.end

    def _block(self, line: _FlatLine, *, folded: bool) -> Value:
        """Return the block of lines that are indented deeper than the key."""
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
        return _join_block(pieces, " " if folded else "\n")


def margin_of(lines: Iterable[str]) -> int:
    """Return the common indentation of lines in characters; blank lines do not count."""
    return min((len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()), default=0)


def _join_block(pieces: list[tuple[str, int]], glue: str) -> Value:
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
    """Nests flat lines by their columns."""

    def __init__(self, scanned: list[_FlatLine], diagnostics: Diagnostics) -> None:
        self.scanned = scanned
        self.diagnostics = diagnostics
        self.at = 0

    def tree(self) -> tuple[Line, ...]:
        return self._below(-1, 0)

    def _below(self, above: int, depth: int) -> tuple[Line, ...]:
        """Consume all lines that are indented deeper than a column."""
        lines: list[Line] = []
        column: int | None = None
        while self.at < len(self.scanned) and self.scanned[self.at].indent > above:
            line = self.scanned[self.at]
            if depth > DEEPEST:
                self._too_deep(line, above)
                break
            head = Span(line.start, line.end if "\n" not in line.text else line.start + 1)
            note_uneven(self.diagnostics, column, line.indent, head)
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
        """Consume the items of a list in the same column as its key, which YAML allows."""
        lines: list[Line] = []
        while self.at < len(self.scanned) and self.scanned[self.at].dash and self.scanned[self.at].indent == column:
            lines.append(self._line(depth + 1))
        return tuple(lines)

    def _too_deep(self, line: _FlatLine, above: int) -> None:
        self.diagnostics.error(
            "too_deep",
            f"the line is nested more than {DEEPEST} levels deep",
            Span(line.start, line.end),
            hint="Move a part of it to the top",
        )
        while self.at < len(self.scanned) and self.scanned[self.at].indent > above:
            self.at += 1


OPENERS = "([{"
CLOSERS = ")]}"

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WHOLE = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*')\s*""")
_INTERESTING = re.compile(r"""["'()\[\]{}]""")


def top_level_characters(text: str, *, brackets: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the characters outside quotes and brackets with their offsets; with `brackets`, inside brackets too."""
    if not _INTERESTING.search(text):
        yield from enumerate(text)
        return
    depth, at = 0, 0
    while at < len(text):
        character = text[at]
        # An apostrophe inside a word does not open a quote.
        if character == '"' or (character == "'" and not (at and text[at - 1].isalnum())):
            closed = _closing(text, at)
            if closed is not None:
                at = closed
                continue
        if character in OPENERS:
            depth += 1
        if brackets or not depth:
            yield at, character
        if character in CLOSERS:
            depth = max(0, depth - 1)
        at += 1


def bracket_balance(text: str) -> int:
    """Return the number of brackets that a text opens minus those it closes."""
    return sum(
        (character in OPENERS) - (character in CLOSERS) for _, character in top_level_characters(text, brackets=True)
    )


def end_of_key(text: str) -> int | None:
    """Return the offset after the colon that ends a key, or None for a line that is not an entry."""
    if ":" not in text:
        return None
    for offset, character in top_level_characters(text):
        if character == ":" and (offset + 1 == len(text) or text[offset + 1] in " \t"):
            return offset + 1 if offset else None
    return None


def _closing(text: str, start: int) -> int | None:
    """Return the offset after the string that begins here, or None for one that is not closed."""
    mark, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == mark:
            return at + 1
        at += 1
    return None


def is_quoted(text: str) -> bool:
    """Return whether a whole text is in quotes."""
    return text[:1] in ("'", '"') and _WHOLE.fullmatch(text) is not None


def decode(written: str) -> tuple[str, Runs]:
    """Return a quoted text without quotes and escapes, and the runs that map it to what was written."""
    inner = written[1:-1]
    if written[0] == "'":
        pattern, doubled = re.compile(r"''|\\'"), True
    else:
        pattern, doubled = _ESCAPE, False
    if "\\" not in inner and "''" not in inner:
        return inner, ((0, 1),)
    pieces: list[str] = []
    runs: list[tuple[int, int]] = []
    length, last = 0, 0
    for found in pattern.finditer(inner):
        # Keep an unknown escape as it is: patterns contain `\d`.
        character = "'" if doubled else _ESCAPES.get(found[1], found[0])
        piece = inner[last : found.start()]
        runs.extend(((length, last + 1), (length + len(piece), found.start() + 1)))
        pieces.extend((piece, character))
        length += len(piece) + len(character)
        last = found.end()
    runs.append((length, last + 1))
    return "".join((*pieces, inner[last:])), tuple(dict(runs).items())


def unquote(raw: Raw) -> Raw:
    """Return a text without the quotes around it, if there are any."""
    found = _WHOLE.fullmatch(raw.text) if raw.text[:1] in ("'", '"', " ") else None
    if found is None:
        return raw
    text, runs = decode(found[1])
    start = found.start(1)
    origin = raw.excerpt.origin
    shifted = tuple((here, origin(there + start)) for here, there in runs)
    begin = origin(start)
    return Raw(text, runs=shifted, literal=True, span=Span(begin, max(begin, raw.span.end)))


def part(raw: Raw, start: int, end: int) -> Raw:
    """Return a stripped slice of a raw text."""
    text = raw.text[start:end]
    stripped = text.strip()
    start += len(text) - len(text.lstrip())
    end = start + len(stripped)
    span = raw.excerpt.locate(start, end)
    inner = tuple((here - start, there) for here, there in raw.runs if start < here < end)
    return Raw(stripped, runs=((0, span.start), *inner), span=span)


def split(raw: Raw, separator: str) -> list[Raw]:
    """Split a text at the separators outside quotes and brackets."""
    cuts = [offset for offset, _ in top_level_characters(raw.text) if raw.text.startswith(separator, offset)]
    bounds = [-len(separator), *cuts, len(raw.text)]
    return [part(raw, left + len(separator), right) for left, right in pairwise(bounds)]


def list_elements(raw: Raw) -> list[Raw]:
    """Return the elements of `[a, b]` or `a, b`, without quotes and without empty ones."""
    text = raw.text.strip()
    if text.startswith("[") and text.endswith("]"):
        begin = raw.text.index("[")
        raw = part(raw, begin + 1, raw.text.rindex("]"))
    return [unquote(element) for element in split(raw, ",") if element.text]


def split_arrow(raw: Raw) -> tuple[Raw, Raw] | None:
    """Return both sides of the last `->` outside quotes and brackets, or None."""
    cuts = [offset for offset, _ in top_level_characters(raw.text) if raw.text.startswith("->", offset)]
    if not cuts:
        return None
    return part(raw, 0, cuts[-1]), part(raw, cuts[-1] + 2, len(raw.text))


def split_assignment(raw: Raw) -> tuple[Raw, Raw] | None:
    """Return both sides of the first `=` that is not part of a comparison, or None."""
    text = raw.text
    for offset, character in top_level_characters(text):
        if character != "=" or text[offset + 1 : offset + 2] == "=" or (offset and text[offset - 1] in "=!<>"):
            continue
        return part(raw, 0, offset), part(raw, offset + 1, len(text))
    return None


def split_pair(raw: Raw) -> tuple[Raw, Raw] | None:
    """Return name and value of `name: value` inside an inline object or a signature, or None."""
    for offset, character in top_level_characters(raw.text):
        if character == ":":
            return unquote(part(raw, 0, offset)), part(raw, offset + 1, len(raw.text))
    return None


def object_fields(raw: Raw) -> list[tuple[Raw, Raw]] | None:
    """Return the fields of `{a: x, b}`, where `b` alone means `b: b`; None for any other text."""
    text = raw.text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    inner = part(raw, raw.text.index("{") + 1, raw.text.rindex("}"))
    return [split_pair(element) or (element, element) for element in split(inner, ",") if element.text]
