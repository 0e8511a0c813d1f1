"""Base class of the expression parsers: look ahead, consume tokens, report errors.

A grammar is a `TokenParser` with its own `_expression`. An error after which parsing cannot go on raises `ParseAbort`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, NoReturn, Protocol, TypeVar

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.expression.nodes import Constant, ListOf, Node
from memoranda.lang.expression.values import settle
from memoranda.lang.source import Excerpt, Span
from memoranda.model.text import quote

_SAFE_DIGITS = 18
OPENING = {"(": ")", "[": "]", "{": "}"}
"""Opening brackets with their closing ones."""


class Token(Protocol):
    """A token with its offsets in the excerpt; the last one has the kind `end`."""

    @property
    def kind(self) -> str:
        """Its kind: word, number, text, symbol, end, or one of the grammar's own."""
        ...

    @property
    def text(self) -> str:
        """As it is written."""
        ...

    @property
    def start(self) -> int:
        """Where it begins."""
        ...

    @property
    def end(self) -> int:
        """Where it ends."""
        ...


T = TypeVar("T", bound=Token)


class ParseAbort(Exception):
    """Parsing cannot go on; the diagnostic exists already."""


class TokenParser(ABC, Generic[T]):
    """Parses the tokens of one expression."""

    def __init__(self, tokens: list[T], text: Excerpt, diagnostics: Diagnostics) -> None:
        """Start before the first token."""
        self._tokens = tokens
        self._text = text
        self._diagnostics = diagnostics
        self._at: int = 0
        self._grouped: set[Span] = set()
        """Spans in brackets, whose meaning is therefore intended."""
        # Most expressions are a slice of the file, so that adding a constant maps offsets to the file.
        ((here, there), *drifting) = text.runs
        self._shift = None if drifting else there - here
        self.sound = True
        """Whether there was no error."""

    # What is next

    @property
    def _next(self) -> T:
        return self._tokens[self._at]

    @property
    def _last(self) -> T:
        return self._tokens[self._at - 1]

    def _ahead(self, places: int) -> T:
        return self._tokens[min(self._at + places, len(self._tokens) - 1)]

    def _take(self) -> T:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _symbol(self, *symbols: str) -> T | None:
        token = self._tokens[self._at]
        if token.kind == "symbol" and token.text in symbols:
            self._at += 1
            return token
        return None

    def _at_symbol(self, symbol: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "symbol" and token.text == symbol

    # Places and faults

    def _span(self, first: T | Node, last: T | Node | None = None) -> Span:
        begin = first.span if isinstance(first, Node) else self._place_of(first)
        if last is None:
            return begin
        return begin.to(last.span if isinstance(last, Node) else self._place_of(last))

    def _place_of(self, token: T) -> Span:
        if self._shift is None:
            return self._text.locate(token.start, token.end)
        return Span(token.start + self._shift, token.end + self._shift)

    def _note(self, code: str, message: str, span: Span, hint: str = "") -> None:
        self.sound = False
        self._diagnostics.error(code, message, span, hint=hint)

    def _fail(self, code: str, message: str, token: T, hint: str = "") -> NoReturn:
        self._note(code, message, self._place_of(token), hint)
        raise ParseAbort

    def _fail_unexpected(self, wanted: str, hint: str = "") -> NoReturn:
        token = self._next
        found = "the expression ends" if token.kind == "end" else f"{quote(token.text)} was found"
        self._fail("unexpected_token", f"{found} where {wanted} was expected", token, hint)

    def _expect(self, symbol: str, wanted: str) -> T:
        return self._symbol(symbol) or self._fail_unexpected(wanted)

    # What all grammars have

    def whole(self) -> Node:
        """Parse all tokens, or raise ParseAbort."""
        node = self._expression()
        token = self._next
        if token.kind != "end":
            message = f"{quote(token.text)} was found where an operator was expected"
            self._fail("unexpected_token", message, token, self._operator_meant(token))
        return node

    @abstractmethod
    def _expression(self) -> Node: ...

    @abstractmethod
    def _operator_meant(self, token: T) -> str:
        """Return a hint for a token in the place of an operator."""

    @abstractmethod
    def _listed(self, closing: str) -> list[Node]:
        """Parse comma-separated nodes up to a closing bracket."""

    def _group(self) -> Node:
        self._take()
        node = self._expression()
        self._expect(")", "`)`")
        self._grouped.add(node.span)
        return node

    def _arguments(self) -> tuple[Node, ...]:
        self._take()
        return tuple(self._listed(")"))

    def _list(self) -> Node:
        first = self._take()
        items = tuple(self._listed("]"))
        return ListOf(self._span(first, self._last), items)

    def _number(self) -> Node:
        token = self._take()
        value = number_in(token.text)
        if value is None:
            self._note("too_large", f"{quote(token.text)} is too large a number", self._place_of(token))
        return Constant(self._place_of(token), value)

    def _check_arguments(self, name: str, count: int, least: int, most: int | None, at: Span) -> None:
        if count < least or (most is not None and count > most):
            self._note("wrong_arguments", f"`{name}` takes {_arity(least, most)}, not {count}", at)


def number_in(text: str) -> int | float | None:
    """Return the number of a token; None if it is too large."""
    return int(text) if text.isdigit() and len(text) <= _SAFE_DIGITS else settle(float(text))


def _arity(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more arguments"
    if least == most:
        return f"{least} argument{'' if least == 1 else 's'}"
    return f"{least} to {most} arguments"


def is_too_long(text: Excerpt, start: int, end: int, *, most: int, diagnostics: Diagnostics) -> bool:
    """Return whether an expression has too many characters, and report it."""
    if end - start <= most:
        return False
    message = f"the expression has {end - start:,} characters, the limit is {most:,}"
    diagnostics.error("too_long", message, text.locate(start, start + 1), hint="Compute it in several steps")
    return True
