"""Convert the lower-case dialect, which is YAML, to the tree of lines that `.abl` files give.

YAML events are used instead of loading: `on`, `yes` and `no` stay words, as in YAML 1.2, and a scalar keeps its text
and its place. Anchors, aliases and several documents in one file are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import yaml
from yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from memoranda.abl.lines import Line, Lines, Value, bracket_balance, end_of_key, margin_of
from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.grammar import DEEPEST, is_too_long
from memoranda.lang.source import Source, Span
from memoranda.lang.yaml import note_unreadable
from memoranda.model.text import quote

_parse = cast("Callable[..., Iterator[Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]
_BEGINNINGS = (MappingStartEvent, SequenceStartEvent)
_ENDS = (MappingEndEvent, SequenceEndEvent)


class _Unreadable(Exception):
    """Reading cannot go on; the diagnostic exists already."""


def read_yaml(source: Source, diagnostics: Diagnostics) -> Lines:
    """Parse a YAML source into a tree of lines; YAML errors become diagnostics."""
    converter = _Converter(source, diagnostics)
    return Lines(converter.document(), tuple(converter.comments(len(source.text))), span=Span(0, len(source.text)))


class _Converter:
    """Turns the events of a document into lines."""

    def __init__(self, source: Source, diagnostics: Diagnostics) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self.events = self._parse_events()
        self._comments = [
            (span.start, text)
            for span in source.lines
            if (text := source.text[span.start : span.end].strip()).startswith("#")
        ]
        self._said_comments = 0

    def document(self) -> tuple[Line, ...]:
        """Return the lines of the whole source, or of as much of it as YAML could read."""
        if is_too_long(self.source, self.diagnostics, hint="Split it into several agents"):
            return ()
        lines: list[Line] = []
        try:
            for event in self.events:
                if isinstance(event, MappingStartEvent):
                    self._mapping(lines, 0)
                elif isinstance(event, (ScalarEvent, SequenceStartEvent)):
                    self._refuse("the file is not a mapping", event, "Begin it with `agent: Name`")
        except _Unreadable:
            pass
        return tuple(lines)

    def comments(self, before: int) -> Iterator[str]:
        """Yield the comments above an offset that were not yielded yet."""
        while self._said_comments < len(self._comments) and self._comments[self._said_comments][0] < before:
            yield self._comments[self._said_comments][1]
            self._said_comments += 1

    def _parse_events(self) -> Iterator[Event]:
        try:
            for event in _parse(self.source.text, Loader=yaml.SafeLoader):
                if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
                    self._refuse("anchors and aliases are not part of this dialect", event, "Write the value again")
                yield event
        except yaml.YAMLError as error:
            note_unreadable(error, self.diagnostics)
            raise _Unreadable from error

    def _refuse(self, message: str, event: Event, hint: str) -> None:
        self.diagnostics.error("yaml", message, _span(event), hint=hint)
        raise _Unreadable

    # Lines are appended to lists of the caller, so that lines above an error are kept.

    def _mapping(self, lines: list[Line], depth: int) -> None:
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                return
            lines.append(self._entry(event, depth))

    def _entry(self, key: Event, depth: int) -> Line:
        if not isinstance(key, ScalarEvent):
            self._refuse("a key is one word", key, "Write it as `key: value`")
            raise _Unreadable
        span = _span(key)
        name = str(key.value)
        if key.style is None and end_of_key(f"{name}: ") != len(name) + 1:
            self.diagnostics.error("yaml", f"{quote(name)} cannot be a key", span, hint="Put it in quotes")
        comments = tuple(self.comments(span.start))
        children: list[Line] = []
        event = next(self.events)
        value = self._value(event, children, depth)
        end = value.span.end if value else span.end
        return Line(
            self.source.text[span.start : end],
            key=name,
            key_span=span,
            value=value,
            children=tuple(children),
            comments=comments,
            span=Span(span.start, end),
        )

    def _value(self, event: Event, children: list[Line], depth: int) -> Value | None:
        if isinstance(event, ScalarEvent):
            value = _scalar(self.source, event)
            if (
                value is not None
                and value.style == "plain"
                and value.text[-1] in "([{,"
                and bracket_balance(value.text) > 0
            ):
                self.diagnostics.error(
                    "unclosed_bracket", "a bracket is never closed", value.span, hint="Close it, or use quotes"
                )
            return value
        if depth > DEEPEST:
            self._refuse(f"this is nested more than {DEEPEST} levels deep", event, "Move a part of it to the top")
        if getattr(event, "flow_style", False):
            return self._flow(event)
        if isinstance(event, MappingStartEvent):
            self._mapping(children, depth + 1)
        else:
            self._items(children, depth + 1)
        return None

    def _flow(self, event: Event) -> Value:
        """Return `[…]` or `{…}` as written, on one line."""
        start, open_brackets = event.start_mark.index, 1
        while open_brackets:
            event = next(self.events)
            open_brackets += isinstance(event, _BEGINNINGS) - isinstance(event, _ENDS)
        end = event.end_mark.index
        text = " ".join(self.source.text[start:end].split())
        return Value(text, "plain", ((0, start),), span=Span(start, end))

    def _items(self, lines: list[Line], depth: int) -> None:
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                return
            if isinstance(event, MappingStartEvent) and not event.flow_style:
                entries: list[Line] = []
                self._mapping(entries, depth + 1)
                if entries:
                    lines.append(_item(entries))
                continue
            if isinstance(event, SequenceStartEvent) and not event.flow_style:
                self._refuse("a list cannot hold another list", event, "Write it as `[a, b]`, or name it")
            comments = tuple(self.comments(event.start_mark.index))
            value = self._value(event, [], depth)
            if value is not None:
                text = value.text
                lines.append(Line(text, dash=True, key_span=value.span, comments=comments, span=value.span))


def _item(entries: list[Line]) -> Line:
    """Return a list item for the entries of a mapping; the first is on the line of the dash."""
    head = entries[0]
    return Line(
        head.text,
        dash=True,
        key=head.key,
        key_span=head.key_span,
        value=head.value,
        children=head.children,
        properties=tuple(entries[1:]),
        comments=head.comments,
        span=head.span,
    )


def _scalar(source: Source, event: ScalarEvent) -> Value | None:
    """Return a scalar as `.abl` would write it, so that quotes mean the same in both dialects."""
    span, text = _span(event), str(event.value)
    if event.style in ("|", ">") or (event.style is None and "\n" in text):
        lines = text.rstrip().split("\n")
        margin = margin_of(lines)
        return Value("\n".join(line[margin:].rstrip() for line in lines), "block", ((0, span.start),), span=span)
    if event.style in ("'", '"'):
        written = source.slice(span)
        if written[1:-1] != text or "\\" in text or event.style in text:
            for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
                text = text.replace(plain, escaped)
            written = f'"{text}"'
        return Value(written, "quoted", ((0, span.start),), span=span)
    text = text.strip()
    if text in ("", "~"):
        return None
    return Value(text, "plain", ((0, span.start),), span=span)


def _span(event: Event) -> Span:
    return Span(event.start_mark.index, event.end_mark.index)
