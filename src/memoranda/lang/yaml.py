"""The text of a YAML file in, its values out, each with its place, so that whatever is wrong with them can be shown.

Words stay words: `yes`, `on` and dates are text, only null, true, false and numbers are not. Anchors, aliases, tags and
several documents in one file are refused, so nothing is longer than it is written and nothing is made but values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec
import yaml

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.layout import DEEPEST, is_too_long
from memoranda.lang.source import Excerpt, Source, Span
from memoranda.lang.unreadable import note_unreadable

_parse = cast("Callable[..., Iterator[Any]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]

_REACH = 200
"""Characters after which a letter of a scalar is no longer looked for in the file: an escape stands for it."""


class Node(msgspec.Struct, frozen=True):
    """A value of the file and where it stands: a scalar as written, a list, or a mapping in its order."""

    span: Span
    scalar: str | None = None
    plain: bool = False
    items: tuple[Node, ...] | None = None
    entries: tuple[tuple[Node, Node], ...] | None = None
    broken: bool = False
    """Whether nobody knows what it says: something stood here that was refused."""

    @property
    def value(self) -> Any:
        """The value as JSON would have it: only null, true, false and numbers are no text."""
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
    """A place beyond which nothing can be read; said already."""


def compose(source: Source, said: Diagnostics, *, exact: bool = False, partial: bool = False) -> Node | None:
    """Return the one document of a source; None for an empty one, or after noting why it cannot be read.

    With `exact`, a text keeps the line break that ends it. With `partial`, what was refused in a document does not hide
    the rest: it is `broken`, and everything else is as it stands.
    """
    if is_too_long(source, said, hint="Split it into several files"):
        return None
    composer = _Composer(source, said, exact=exact)
    try:
        found = composer.document()
    except _Unreadable:
        return None
    return found if partial or not composer.refused else None


def excerpt(source: Source, node: Node) -> Excerpt:
    """Return the text of a scalar as it is read, which still knows where each of its letters stands in the file.

    Quotes, escapes and the margins of a block are not part of what is read, so the two drift apart.
    """
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
    """Puts the events of YAML together to nodes that know their places."""

    def __init__(self, source: Source, said: Diagnostics, *, exact: bool) -> None:
        self.source = source
        self.said = said
        self.exact = exact
        self.refused = False
        self.events = self._parsed()

    def document(self) -> Node | None:
        """Return the first document of the source; a second one is a fault."""
        found: Node | None = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                if found is not None:
                    self._refuse("a file is one document", event, "Remove the line `---`, or make two files of it")
                    break
                found = self._node(event, 0)
        return found

    def _parsed(self) -> Iterator[Any]:
        try:
            yield from _parse(self.source.text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            note_unreadable(error, self.said)
            raise _Unreadable from error

    def _refuse(self, message: str, event: Any, hint: str) -> None:
        start = event.start_mark.index
        # A whole block would be shown otherwise; what is refused stands at its beginning.
        end = start if isinstance(event, yaml.CollectionStartEvent) else event.end_mark.index
        self.said.error("yaml", message, Span(start, max(end, start + 1)), hint=hint)
        self.refused = True

    def _node(self, event: Any, depth: int) -> Node:
        if depth > DEEPEST:
            self._refuse(f"this is nested more than {DEEPEST} levels deep", event, "Write it flatter")
            raise _Unreadable
        start = event.start_mark.index
        if isinstance(event, yaml.AliasEvent):
            self._refuse("anchors and aliases are not read", event, "Write the value again")
            return Node(Span(start, event.end_mark.index), broken=True)
        if event.anchor is not None:
            self._refuse("anchors and aliases are not read", event, "Write the value again")
        if event.tag is not None:
            self._refuse(f"the tag `{str(event.tag)[:40]}` is not read", event, "Remove it; in quotes a value is text")
        if isinstance(event, yaml.ScalarEvent):
            # The last line break of a block belongs to the file, not to what is said.
            text = str(event.value) if self.exact else str(event.value).rstrip("\n")
            return Node(Span(start, event.end_mark.index), text, plain=event.style is None)
        ends = yaml.MappingEndEvent if isinstance(event, yaml.MappingStartEvent) else yaml.SequenceEndEvent
        found: list[Node] = []
        for inner in self.events:
            if isinstance(inner, ends):
                break
            found.append(self._node(inner, depth + 1))
        # A block ends where the next one begins; what there is to say about it stands at its first line.
        span = Span(start, found[-1].span.end if found else event.end_mark.index)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(span, items=tuple(found))
        return Node(span, entries=tuple(self._entries(found)))

    def _entries(self, found: list[Node]) -> Iterator[tuple[Node, Node]]:
        for key, value in zip(found[::2], found[1::2], strict=True):
            if key.scalar is not None:
                yield key, value
            elif not key.broken:
                self.said.error("yaml", "a key is one text", key.span, hint="Write it as `key: value`")
                self.refused = True
