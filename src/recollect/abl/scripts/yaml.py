"""The text of a YAML file in, its values out, each with its place, so that whatever is wrong with them can be shown.

Words stay words: `yes`, `on` and dates are text, only null, true, false and numbers are not. Anchors, aliases and
several documents in one file are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec
import yaml

from recollect.lang.diagnostics import Diagnostics
from recollect.lang.layout import DEEPEST, is_too_long
from recollect.lang.source import Source, Span

_parse = cast("Callable[..., Iterator[Any]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]


class Node(msgspec.Struct, frozen=True):
    """A value of the file and where it stands: a scalar as written, a list, or a mapping in its order."""

    span: Span
    scalar: str | None = None
    plain: bool = False
    items: tuple[Node, ...] | None = None
    entries: tuple[tuple[Node, Node], ...] | None = None

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


def compose(source: Source, said: Diagnostics) -> Node | None:
    """Return the one document of a source; None for an empty one, or after noting why it cannot be read."""
    if is_too_long(source, said, hint="Split it into several files"):
        return None
    try:
        return _Composer(source, said).document()
    except _Unreadable:
        return None


class _Composer:
    """Puts the events of YAML together to nodes that know their places."""

    def __init__(self, source: Source, said: Diagnostics) -> None:
        self.source = source
        self.said = said
        self.events = self._parsed()

    def document(self) -> Node | None:
        """Return the first document of the source; a second one is a fault."""
        found: Node | None = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                if found is not None:
                    self._refuse("a file of scripts is one document", event, "Put the tests into one list")
                found = self._node(event, 0)
        return found

    def _parsed(self) -> Iterator[Any]:
        try:
            for event in _parse(self.source.text, Loader=yaml.SafeLoader):
                if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                    self._refuse("anchors and aliases are not part of scripts", event, "Write the value again")
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = mark.index if mark else 0
            message = f"this is not YAML: {error.problem or 'it cannot be read'}"
            self.said.error("yaml", message, Span(at, at + 1), hint="Check indentation and quotes")
            raise _Unreadable from error
        except yaml.reader.ReaderError as error:
            at = int(error.position)
            message = f"the character U+{ord(self.source.text[at]):04X} cannot stand in YAML"
            self.said.error("yaml", message, Span(at, at + 1), hint="Remove it")
            raise _Unreadable from error

    def _refuse(self, message: str, event: Any, hint: str) -> None:
        self.said.error("yaml", message, Span(event.start_mark.index, event.end_mark.index), hint=hint)
        raise _Unreadable

    def _node(self, event: Any, depth: int) -> Node:
        if depth > DEEPEST:
            self._refuse(f"this is nested more than {DEEPEST} levels deep", event, "Write it flatter")
        start = event.start_mark.index
        if isinstance(event, yaml.ScalarEvent):
            # The last line break of a block belongs to the file, not to what is said.
            return Node(Span(start, event.end_mark.index), str(event.value).rstrip("\n"), plain=event.style is None)
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
        for key in found[::2]:
            if key.scalar is None:
                self.said.error("yaml", "a key is one text", key.span, hint="Write it as `key: value`")
                raise _Unreadable
        return Node(span, entries=tuple(zip(found[::2], found[1::2], strict=True)))
