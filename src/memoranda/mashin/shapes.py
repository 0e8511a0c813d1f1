"""The shape of a map as it was written, `{ name: type, other?: type }`, in; its names and their types out."""

from __future__ import annotations

import re

import msgspec

from memoranda.errors import UsageError
from memoranda.lang.source import Span
from memoranda.lang.tree import Raw
from memoranda.mashin.document import Type
from memoranda.mashin.scanning import closing, comma_at, decode
from memoranda.model.text import quote

_NAME = re.compile(
    r"""\s*(?:(?P<bare>[^\W\d]\w*)|(?P<quoted>"[^"\\\n]*"|'[^'\\\n]*'))\s*+(?P<maybe>\?)?\s*+(?::|as\b)\s*"""
)
_WORD = re.compile(r"[^\W\d]\w*")
_ANYTHING = re.compile(r"\S")
_DEEPEST = 20


class Part(msgspec.Struct, frozen=True):
    """One name of a shape, and whether it may be missing."""

    name: str
    type: Type
    optional: bool


def read_shape(shape: Raw) -> tuple[Part, ...]:
    """Return the parts of a shape, or refuse it with where it is wrong as `.span`."""
    return _Shape(shape, 0).parts()


class _Shape:
    """Goes through a shape, brackets included."""

    def __init__(self, raw: Raw, depth: int) -> None:
        self.raw = raw
        self.text = raw.text
        self.depth = depth

    def parts(self) -> tuple[Part, ...]:
        found: dict[str, Part] = {}
        at, end = 1, len(self.text) - 1
        while self._something(at, end):
            stop = min(comma_at(self.text, at), end)
            part, place = self._part(at, stop)
            if part.name in found:
                raise _wrong(f"the name {quote(part.name)} stands in the shape twice", place, "Keep one of them")
            found[part.name] = part
            at = stop + 1
        return tuple(found.values())

    def _part(self, at: int, end: int) -> tuple[Part, Span]:
        found = _NAME.match(self.text, at, end)
        if found is None:
            shown = self.text[at:end].strip()
            hint = "Write it as `{ name: type }`; `name?` may be missing"
            raise _wrong(f"{quote(shown, longest=40)} is no part of a shape", self._span(at, end), hint)
        name = found["bare"] or found["quoted"][1:-1]
        place = self.raw.excerpt.locate(*found.span("bare" if found["bare"] else "quoted"))
        return Part(name, self._type(found.end(), end), found["maybe"] is not None), place

    def _type(self, at: int, end: int) -> Type:
        """Read a type that takes up everything from one offset to another."""
        text = self.text[at:end].rstrip()
        at, end = at + len(text) - len(text.lstrip()), at + len(text)
        span = self._span(at, end)
        if self.depth > _DEEPEST:
            raise _wrong("the shape is nested too deeply", span, "Use a map without a shape further inside")
        if self.text.startswith("{", at):
            return Type(name="map", shape=self._brackets(at, end), span=span)
        found = _WORD.match(self.text, at, end)
        if found is None:
            raise _wrong("a type is missing in the shape", span, "Write it as `{ name: type }`")
        word, rest = found[0], found.end()
        while rest < end and self.text[rest].isspace():
            rest += 1
        if rest == end:
            return Type(name=word, span=span)
        if word == "list":
            return Type(name=word, item=self._item(rest, end), span=span)
        if word in ("map", "object") and self.text[rest] == "{":
            return Type(name=word, shape=self._brackets(rest, end), span=span)
        if word == "enum" and self.text[rest] == "(":
            return Type(name=word, choices=self._choices(rest, end), span=span)
        raise _wrong(f"{quote(self.text[rest:end])} cannot follow {quote(word)}", self._span(rest, end), "Remove it")

    def _item(self, at: int, end: int) -> Type:
        inner = _Shape(self.raw, self.depth + 1)
        if self.text[at] == "(" and closing(self.text, at) == end:
            return inner._type(at + 1, end - 1)
        of = _WORD.match(self.text, at, end)
        if of is None or of[0] != "of":
            shown = quote(self.text[at:end], longest=40)
            raise _wrong(f"{shown} cannot follow `list`", self._span(at, end), "Write it as `list of text`")
        return inner._type(of.end(), end)

    def _brackets(self, at: int, end: int) -> Raw:
        """Return a shape inside of this one, after reading it, so that its faults are told at once."""
        if closing(self.text, at) != end:
            raise _wrong("the shape does not end with its bracket", self._span(at, end), "Remove what follows it")
        there = [(here - at, source) for here, source in self.raw.runs if at < here < end]
        runs = ((0, self.raw.excerpt.origin(at)), *there)
        inner = Raw(self.text[at:end], runs=runs, span=self._span(at, end))
        _Shape(inner, self.depth + 1).parts()
        return inner

    def _choices(self, at: int, end: int) -> tuple[Raw, ...]:
        found: list[Raw] = []
        if closing(self.text, at) != end:
            raise _wrong("the choices do not end with their bracket", self._span(at, end), "Remove what follows it")
        at, end = at + 1, end - 1
        while self._something(at, end):
            stop = min(comma_at(self.text, at), end)
            written = self.text[at:stop].strip()
            if len(written) < 2 or written[0] not in "\"'" or closing(written, 0) != len(written):
                shown = quote(written, longest=40)
                raise _wrong(f"{shown} is no choice in quotes", self._span(at, stop), 'Write it as `enum("a", "b")`')
            found.append(Raw(decode(written), literal=True, span=self._span(at, stop)))
            at = stop + 1
        return tuple(found)

    def _something(self, at: int, end: int) -> bool:
        """Say whether more than room stands between two offsets."""
        return _ANYTHING.search(self.text, at, end) is not None

    def _span(self, start: int, end: int) -> Span:
        return self.raw.excerpt.locate(start, end)


def _wrong(message: str, span: Span, hint: str) -> UsageError:
    return UsageError(message, hint=hint, span=span)
