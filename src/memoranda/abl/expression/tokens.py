"""The text of an expression in, tokens with their places out."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from memoranda.lang.diagnostics import Diagnostics
from memoranda.lang.faults import never_closed
from memoranda.lang.source import Excerpt
from memoranda.model.text import quote

Kind = Literal["word", "number", "text", "pattern", "symbol", "end"]

_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(
    r"""(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>@?[^\W\d]\w*)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<symbol>===|!==|==|!=|>=|<=|&&|\|\||[-+*/%<>!()\[\]{},.:])""",
    re.VERBOSE | re.DOTALL,
)
_FIELD = re.compile(r"[0-9]+|[^\W\d]\w*")
_PATTERN = re.compile(r"/((?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([a-z]*)")
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|([\\"'nrt]))""")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_HINTS = {
    "=": "To compare write `==`",
    "===": "To compare write `==`",
    "!==": "To compare write `!=`",
    "&": "Write `AND`",
    "|": "Write `OR`",
    "\N{LEFT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{LEFT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
    "?": "There is no `? :`; use IF and ELSE branches, or COALESCE for a fallback",
}


class Token(msgspec.Struct, frozen=True):
    """A piece of an expression and where it stands in the excerpt."""

    kind: Kind
    text: str
    """As it is written; of a text or pattern, what stands between the marks."""
    start: int
    end: int
    flags: str = ""

    @property
    def folded(self) -> str:
        """The word in small letters, for those that may be written in any case; nothing for other tokens."""
        return self.text.lower() if self.kind == "word" else ""


def tokenize(text: Excerpt, start: int, end: int, said: Diagnostics) -> list[Token] | None:
    """Return the tokens of a stretch, the end included; None after noting what cannot be read."""
    tokens: list[Token] = []
    place = _skip(text.text, start, end)
    while place < end:
        token = _read(text.text, place, end, tokens[-1] if tokens else None)
        if token is None or token.text in ("===", "!=="):
            _refuse(text, place, end, said)
            return None
        tokens.append(token)
        place = _skip(text.text, token.end, end)
    tokens.append(Token("end", "", end, end))
    return tokens


def _skip(text: str, place: int, end: int) -> int:
    found = _SPACE.match(text, place, end)
    return found.end() if found else place


def _read(text: str, place: int, end: int, before: Token | None) -> Token | None:
    if before and before.folded == "matches" and (found := _PATTERN.match(text, place, end)):
        return Token("pattern", found[1].replace("\\/", "/"), place, found.end(), found[2])
    if before and before.text == "." and before.kind == "symbol" and before.end == place:
        # After a dot `0.1` is two fields, not a number.
        found = _FIELD.match(text, place, end)
        if found:
            return Token("word", found[0], place, found.end())
    found = _TOKEN.match(text, place, end)
    if found is None:
        return None
    if found["text"]:
        return Token("text", found[0][1:-1], place, found.end())
    kind: Kind = "number" if found["number"] else "word" if found["word"] else "symbol"
    return Token(kind, found[0], place, found.end())


def _refuse(text: Excerpt, place: int, end: int, said: Diagnostics) -> None:
    mark = text.text[place]
    if mark in "\"'":
        hint = f"End the text with {mark} on the same line"
        said.error("unclosed_quote", never_closed(text.text[place:end]), text.locate(place, place + 1), hint=hint)
        return
    written = next((symbol for symbol in ("===", "!==") if text.text.startswith(symbol, place)), mark)
    said.error(
        "unexpected_character",
        f"{quote(written)} has no meaning here",
        text.locate(place, place + len(written)),
        hint=_HINTS.get(written, ""),
    )


def unescape(token: Token, text: Excerpt) -> Excerpt:
    r"""Return what a text between quotes says, each character with its place.

    Only a backslash, quotes, n, r, t and u with four digits can be escaped. Other backslashes stay, so that a pattern
    may be written "^\d+$".
    """
    parts: list[str] = []
    runs: list[tuple[int, int]] = []
    length, place = 0, 0
    for found in _ESCAPE.finditer(token.text):
        plain = token.text[place : found.start()]
        runs.append((length, text.origin(token.start + 1 + place)))
        parts.append(plain)
        length += len(plain)
        runs.append((length, text.origin(token.start + 1 + found.start())))
        parts.append(chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]))
        length += 1
        place = found.end()
    runs.append((length, text.origin(token.start + 1 + place)))
    parts.append(token.text[place:])
    return Excerpt("".join(parts), tuple(runs))
