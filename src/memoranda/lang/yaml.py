"""Read YAML into nodes that know their place, and explain what is wrong with text that is not YAML.

Words stay words: `yes`, `on` and dates are text; only null, true, false and numbers are not. Anchors, aliases, tags and
several documents in one file are refused, so a value is never larger than it is written.

The YAML library reports where it gave up, which is often lines below the mistake: an unclosed quote swallows what
follows, and a word without its colon runs on into the next line. `note_unreadable` finds the mistake itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import msgspec
import yaml

from memoranda.lang.diagnostics import (
    Diagnostics,
    note_foreign_comment,
    note_missing_colon,
    note_mixed_indentation,
    note_uneven,
    unclosed_quote_message,
)
from memoranda.lang.grammar import DEEPEST, is_too_long
from memoranda.lang.source import Excerpt, Source, Span
from memoranda.model.text import quote

_parse = cast("Callable[..., Iterator[Any]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]

_REACH = 200
"""Characters to search for a letter of a scalar in the file; beyond, it was escaped."""


class YamlNode(msgspec.Struct, frozen=True):
    """A value with its span: a scalar as written, a list, or a mapping in order."""

    span: Span
    scalar: str | None = None
    plain: bool = False
    items: tuple[YamlNode, ...] | None = None
    entries: tuple[tuple[YamlNode, YamlNode], ...] | None = None
    broken: bool = False
    """Whether the value is unknown, because something in it was refused."""

    @property
    def value(self) -> Any:
        """The value as JSON; everything but null, true, false and numbers is text."""
        if self.entries is not None:
            return {key.scalar or "": value.value for key, value in self.entries}
        if self.items is not None:
            return [item.value for item in self.items]
        text = self.scalar or ""
        if not self.plain:
            return text
        if text in ("", "~"):
            return None
        try:
            return msgspec.json.decode(text, type=int | float | bool | None)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return text


class _Unreadable(Exception):
    """Reading cannot go on; the diagnostic exists already."""


def compose(source: Source, diagnostics: Diagnostics, *, exact: bool = False, partial: bool = False) -> YamlNode | None:
    """Return the document of a source; None for an empty one, or with a diagnostic.

    With `exact`, a text keeps its final line break. With `partial`, a document with refused parts is returned too;
    those parts are `broken`.
    """
    if is_too_long(source, diagnostics, hint="Split it into several files"):
        return None
    composer = _Composer(source, diagnostics, exact=exact)
    try:
        found = composer.document()
    except _Unreadable:
        return None
    return found if partial or not composer.refused else None


def scalar_excerpt(source: Source, node: YamlNode) -> Excerpt:
    """Return the text of a scalar as an excerpt, without quotes, escapes and the indentation of a block."""
    text, raw = node.scalar or "", source.text
    at, end = node.span.start, node.span.end
    runs: list[tuple[int, int]] = []
    drift: int | None = None
    if raw[at : at + 1] in ("|", ">"):
        at = max(raw.find("\n", at, end), at)
    for offset, letter in enumerate(text):
        if letter.isspace():
            continue
        found = raw.find(letter, at, min(at + _REACH, end))
        if found < 0:
            continue
        if found - offset != drift:
            drift = found - offset
            runs.append((offset, found))
        at = found + 1
    if not runs or runs[0][0]:
        runs.insert(0, (0, max(runs[0][1] - runs[0][0], node.span.start) if runs else node.span.start))
    return Excerpt(text, tuple(runs))


class _Composer:
    """Builds nodes from YAML events."""

    def __init__(self, source: Source, diagnostics: Diagnostics, *, exact: bool) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.exact = exact
        self.refused = False
        self.events = self._parse_events()

    def document(self) -> YamlNode | None:
        """Return the first document of the source; a second one is an error."""
        found: YamlNode | None = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                if found is not None:
                    self._refuse("a file is one document", event, "Remove the line `---`, or make two files of it")
                    break
                found = self._node(event, 0)
        return found

    def _parse_events(self) -> Iterator[Any]:
        try:
            yield from _parse(self.source.text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            note_unreadable(error, self.diagnostics)
            raise _Unreadable from error

    def _refuse(self, message: str, event: Any, hint: str) -> None:
        start = event.start_mark.index
        # Show the beginning of a collection, not the whole block.
        end = start if isinstance(event, yaml.CollectionStartEvent) else event.end_mark.index
        self.diagnostics.error("yaml", message, Span(start, max(end, start + 1)), hint=hint)
        self.refused = True

    def _node(self, event: Any, depth: int) -> YamlNode:
        if depth > DEEPEST:
            self._refuse(f"this is nested more than {DEEPEST} levels deep", event, "Write it flatter")
            raise _Unreadable
        start = event.start_mark.index
        if isinstance(event, yaml.AliasEvent):
            self._refuse("anchors and aliases are not read", event, "Write the value again")
            return YamlNode(Span(start, event.end_mark.index), broken=True)
        if event.anchor is not None:
            self._refuse("anchors and aliases are not read", event, "Write the value again")
        if event.tag is not None:
            self._refuse(f"the tag `{str(event.tag)[:40]}` is not read", event, "Remove it; in quotes a value is text")
        if isinstance(event, yaml.ScalarEvent):
            # The last line break of a block belongs to the file, not to the text.
            text = str(event.value) if self.exact else str(event.value).rstrip("\n")
            return YamlNode(Span(start, event.end_mark.index), text, plain=event.style is None)
        ends = yaml.MappingEndEvent if isinstance(event, yaml.MappingStartEvent) else yaml.SequenceEndEvent
        found: list[YamlNode] = []
        for inner in self.events:
            if isinstance(inner, ends):
                break
            found.append(self._node(inner, depth + 1))
        # YAML ends a block where the next one begins; end it with its last value.
        span = Span(start, found[-1].span.end if found else event.end_mark.index)
        if isinstance(event, yaml.SequenceStartEvent):
            return YamlNode(span, items=tuple(found))
        return YamlNode(span, entries=tuple(self._entries(found)))

    def _entries(self, found: list[YamlNode]) -> Iterator[tuple[YamlNode, YamlNode]]:
        for key, value in zip(found[::2], found[1::2], strict=True):
            if key.scalar is not None:
                yield key, value
            elif not key.broken:
                self.diagnostics.error("yaml", "a key is one text", key.span, hint="Write it as `key: value`")
                self.refused = True


_scan = cast("Callable[..., Iterator[Any]]", yaml.scan)  # pyright: ignore[reportUnknownMemberType]

_MARGIN = re.compile(r"[ \t]*")
_ENTRY = re.compile(r"[ ]*(?:- +)*([^\s:#]+)")
_KEYED = re.compile(r"[^#]*?\S:(?:\s|$)")
_NO_VALUE = "mapping values are not allowed here"


class _Fault(NamedTuple):
    """Where the library gave up: offset, line, and the offset where the construct began."""

    error: Any
    source: Source
    at: int
    line: Span
    begun: int | None

    @property
    def before(self) -> str:
        """The text before the error on its line."""
        return self.source.text[self.line.start : self.at]

    @property
    def rest(self) -> str:
        """The text of the line from the error on."""
        return self.source.text[self.at : self.line.end]

    @property
    def problem(self) -> str:
        """The message of the library."""
        return str(self.error.problem or "it cannot be read")


def note_unreadable(error: Any, diagnostics: Diagnostics) -> None:
    """Report why a source is not YAML, given the error of the library."""
    source = diagnostics.source
    if isinstance(error, yaml.reader.ReaderError):
        at = int(error.position)
        message = f"the character U+{ord(source.text[at]):04X} is not allowed in YAML"
        diagnostics.error("yaml", message, Span(at, at + 1), hint="Remove it")
        return
    mark = error.problem_mark or error.context_mark
    at = min(int(mark.index), len(source.text)) if mark else 0
    begun = int(error.context_mark.index) if error.context_mark else None
    fault = _Fault(error, source, at, source.lines[source.position(at).line - 1], begun)
    if not any(explain(fault, diagnostics) for explain in _EXPLAINED):
        hint = "Check indentation and quotes"
        diagnostics.error("yaml", f"this is not YAML: {fault.problem}", Span(at, at + 1), hint=hint)


def _tab(fault: _Fault, diagnostics: Diagnostics) -> bool:
    margin = _MARGIN.match(fault.source.text, fault.line.start, fault.line.end)
    if margin is None or "\t" not in margin[0]:
        return False
    message = "the line is indented with a tab, so it is unclear what it is nested below"
    note_mixed_indentation(diagnostics, message, Span(*margin.span()))
    return True


def _margin(source: Source, line: Span) -> int:
    text = source.slice(line)
    return len(text) - len(text.lstrip(" "))


def _open_quote(fault: _Fault, diagnostics: Diagnostics) -> bool:
    start = fault.begun if fault.error.context == "while scanning a quoted scalar" else _swallowing(fault)
    if start is None:
        return False
    mark = fault.source.text[start]
    hint = f"End the text with {mark} on the same line, or use a block with |"
    written = fault.source.text[start : start + 200]
    diagnostics.error("unclosed_quote", unclosed_quote_message(written), Span(start, start + 1), hint=hint)
    return True


def _swallowing(fault: _Fault) -> int | None:
    """Return the offset of a quote that spans several lines and ends, by mistake, right before the error."""
    last: int | None = None
    for token in _tokens(fault):
        if isinstance(token, yaml.ScalarToken):
            several = token.style in ("'", '"') and token.start_mark.line < token.end_mark.line
            last = token.start_mark.index if several and token.end_mark.index >= fault.line.start else None
    return last


def _tokens(fault: _Fault) -> Iterator[Any]:
    """Yield the tokens before the error, as far as the library gets."""
    try:
        for token in _scan(fault.source.text, Loader=yaml.SafeLoader):
            if token.start_mark.index >= fault.at:
                return
            yield token
    except yaml.YAMLError:
        return


def _no_colon(fault: _Fault, diagnostics: Diagnostics) -> bool:
    if fault.problem == "could not find expected ':'" and fault.begun is not None:
        place = fault.begun
    elif fault.problem == _NO_VALUE and _KEYED.match(fault.before) is None and not _has_key_above(fault):
        # The word on the line above runs on into this line.
        place = _line_above(fault).start
    else:
        return False
    word = _ENTRY.match(fault.source.text, place)
    if word is None:
        return False
    if word[1].startswith("//"):
        note_foreign_comment(
            diagnostics, "//", "#", Span(word.start(1), fault.source.lines[fault.source.position(place).line - 1].end)
        )
    else:
        note_missing_colon(diagnostics, word[1], word.start(1))
    return True


def _line_above(fault: _Fault) -> Span:
    """Return the last line above the error that is not empty, or its own line."""
    before = [line for line in fault.source.lines if line.end < fault.line.start and line.start < line.end]
    return before[-1] if before else fault.line


def _has_key_above(fault: _Fault) -> bool:
    return _KEYED.match(fault.source.slice(_line_above(fault))) is not None


def _second_colon(fault: _Fault, diagnostics: Diagnostics) -> bool:
    if fault.problem != _NO_VALUE:
        return False
    if _KEYED.match(fault.before) is None:
        above, here = (_margin(fault.source, line) for line in (_line_above(fault), fault.line))
        note_uneven(diagnostics, above, here, Span(fault.line.start + here, fault.line.end))
        return above != here
    message = "the line contains a second colon"
    diagnostics.error("yaml", message, Span(fault.at, fault.at + 1), hint="Put the value in quotes")
    return True


def _out_of_column(fault: _Fault, diagnostics: Diagnostics) -> bool:
    if not fault.problem.startswith("expected <block end>"):
        return False
    head = Span(fault.at, max(fault.line.end, fault.at + 1))
    if fault.before.strip():
        message = f"{quote(fault.rest, longest=40)} follows the end of a value"
        diagnostics.error("yaml", message, head, hint="Put the whole value in quotes")
        return True
    here = fault.error.problem_mark.column
    beside = _beside(fault, here)
    note_uneven(diagnostics, beside, here, head)
    return beside != here


def _beside(fault: _Fault, here: int) -> int:
    """Return the column of the block that the line should be in, else that of the line above."""
    found = nearest = _margin(fault.source, _line_above(fault))
    for line in reversed(fault.source.lines[: fault.source.position(fault.at).line - 1]):
        if line.start < line.end:
            margin = _margin(fault.source, line)
            if margin <= here:
                break
            found = min(found, margin)
    return found if found > here else nearest


def _open_bracket(fault: _Fault, diagnostics: Diagnostics) -> bool:
    if not fault.problem.startswith(("expected ',' or", "expected the node content, but found '<stream end>'")):
        return False
    opened: list[int] = []
    for token in _tokens(fault):
        if isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken):
            opened.append(token.start_mark.index)
        elif isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken) and opened:
            opened.pop()
    if not opened:
        return False
    start = opened[-1]
    message = f"the bracket `{fault.source.text[start]}` is never closed"
    diagnostics.error(
        "unclosed_bracket", message, Span(start, start + 1), hint="Close it on this line, or on a line below"
    )
    return True


def _first_sign(fault: _Fault, diagnostics: Diagnostics) -> bool:
    if not fault.problem.endswith("that cannot start any token"):
        return False
    sign = fault.rest[:1]
    message = "there is a tab between words" if sign == "\t" else f"a value cannot begin with {quote(sign)}"
    hint = "Write a space" if sign == "\t" else "Put it in quotes"
    diagnostics.error("yaml", message, Span(fault.at, fault.at + 1), hint=hint)
    return True


_EXPLAINED = (_tab, _open_quote, _no_colon, _second_colon, _out_of_column, _open_bracket, _first_sign)
