"""A type of a signature in, what is wrong with it out: `string`, `{id: string}[]`, `array<number>`, `string | null`."""

from __future__ import annotations

import re

from memoranda.abl.keywords import TYPES
from memoranda.abl.tree import Raw
from memoranda.abl.type_names import type_name
from memoranda.lang.diagnostics import Diagnostics, closest
from memoranda.lang.source import Span
from memoranda.model.text import quote

_TOKEN = re.compile(r"""\s*(?:([^\W\d][\w.\-]*)|("[^"]*"|'[^']*'|-?\d+(?:\.\d+)?)|(\[\]|[{}()\[\]<>|,:?]))""")
_DEEPEST = 32
_HINT = f"A type is one of {', '.join(TYPES)}, with `[]` for a list, or {{name: type}}"


def check_type(raw: Raw, said: Diagnostics) -> None:
    """Note what is wrong with a type."""
    _Types(raw, said).check()


class _Wrong(Exception):
    """The type cannot be read further; where, and why."""

    def __init__(self, start: int, end: int, message: str) -> None:
        super().__init__(message)
        self.start, self.end, self.message = start, end, message


class _Types:
    def __init__(self, raw: Raw, said: Diagnostics) -> None:
        self._raw = raw
        self._said = said
        self._tokens: list[tuple[str, str, int, int]] = []
        self._at = 0

    def check(self) -> None:
        try:
            self._tokenize()
            self._union(0)
            kind, text, start, end = self._next
            if kind != "end":
                raise _Wrong(start, end, f"{quote(text)} cannot stand here in a type")
        except _Wrong as wrong:
            self._said.error("bad_type", wrong.message, self._span(wrong.start, wrong.end), hint=_HINT)

    def _span(self, start: int, end: int) -> Span:
        # A type that was put together from several lines has no places of its own.
        if self._raw.runs == ((0, 0),) and self._raw.span.start:
            return self._raw.span
        return self._raw.excerpt.locate(start, end)

    def _tokenize(self) -> None:
        text, at = self._raw.text.rstrip(), 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise _Wrong(at, at + 1, f"{quote(text[at:])} cannot stand in a type")
            group = found.lastindex or 1
            kind = ("word", "literal", "symbol")[group - 1]
            self._tokens.append((kind, found[group], found.start(group), found.end(group)))
            at = found.end()
        self._tokens.append(("end", "", len(text), len(text)))

    @property
    def _next(self) -> tuple[str, str, int, int]:
        return self._tokens[self._at]

    def _take(self, *symbols: str) -> bool:
        kind, text, _, _ = self._next
        if kind == "symbol" and text in symbols:
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            self._unexpected(f"`{symbol}`")

    def _unexpected(self, wanted: str) -> None:
        kind, text, start, end = self._next
        found = "the type ends" if kind == "end" else f"{quote(text)} stands"
        raise _Wrong(start, end, f"{found} where {wanted} was expected")

    def _union(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise _Wrong(self._next[2], self._next[3], f"the type is nested more than {_DEEPEST} levels deep")
        self._one(depth)
        while self._take("|"):
            self._one(depth)

    def _one(self, depth: int) -> None:
        kind = self._next[0]
        if kind == "word":
            self._named(depth)
        elif kind == "literal":
            self._at += 1
        elif self._take("{"):
            self._fields(depth)
        elif self._take("("):
            self._union(depth + 1)
            self._expect(")")
        elif self._take("["):
            self._several("]", depth)
        elif not self._take("[]"):
            self._unexpected("a type")
        while self._take("[]", "?"):
            pass

    def _named(self, depth: int) -> None:
        _, word, start, end = self._next
        self._at += 1
        if word.casefold() in ("enum", "pattern") and self._next[1] in ("<", "(", "["):
            self._values()
            return
        if self._take("<"):
            self._several(">", depth)
        elif self._take("("):
            self._several(")", depth)
        self._known(word, start, end)

    def _known(self, word: str, start: int, end: int) -> None:
        if type_name(word) is not None or word[0].isupper():
            return
        near = closest(word, TYPES)
        message = f"there is no type {quote(word)}"
        if near is not None:
            self._said.error("bad_type", message, self._span(start, end), hint=f"Did you mean `{near}`?")
        else:
            message = f"{quote(word)} is no known type, so any value is taken for it"
            self._said.warning("unknown_type", message, self._span(start, end), hint=_HINT)

    def _values(self) -> None:
        """Pass over the values of an enum, which are words and not types."""
        depth = 0
        while self._next[0] != "end":
            text = self._next[1]
            depth += (text in ("<", "(", "[")) - (text in (">", ")", "]"))
            self._at += 1
            if depth == 0:
                return
        self._unexpected("the end of the values")

    def _several(self, closing: str, depth: int) -> None:
        self._union(depth + 1)
        while self._take(","):
            self._union(depth + 1)
        self._expect(closing)

    def _fields(self, depth: int) -> None:
        while not self._take("}"):
            if self._next[0] not in ("word", "literal"):
                self._unexpected("the name of a field")
            self._at += 1
            self._take("?")
            # A field without a type may hold anything.
            if self._take(":"):
                self._union(depth + 1)
            if not self._take(","):
                self._expect("}")
                return
