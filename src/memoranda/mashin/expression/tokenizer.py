"""Split the text of an expression into tokens with their places."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from memoranda.lang.diagnostics import Diagnostics, unclosed_quote_message
from memoranda.lang.expression.dialect import DEFAULT_BOUNDS
from memoranda.lang.source import Excerpt
from memoranda.model.text import quote

Kind = Literal["word", "number", "text", "symbol", "bad", "end"]
"""A bad token could not be read, and was noted."""

_SPACE = re.compile(r"(?:\s|//[^\r\n]*)*")
_TOKEN = re.compile(
    r"""(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol>===|!==|\.\.\.|\?\.(?![0-9])|\?\?|\*\*|\|>|=>|==|!=|>=|<=|<<|>>|&&|\|\||\.\.
        |[-+*/%<>!()\[\]{},.:?~&^|=])""",
    re.VERBOSE,
)
_IN_TEXT = re.compile(r"\\.|\$\{|[\"']", re.DOTALL)
_IN_CODE = re.compile(r"//[^\r\n]*|[{}\"']")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0"}
_SIGNS = "\\\"'`$/{"
_DEEPEST = 2 * DEFAULT_BOUNDS.depth + 1
_HINTS = {
    "\\": "Inside `${…}` write texts in the other kind of quotes",
    "`": "Write texts in quotes; `${…}` works in any of them",
    ";": "End an expression with its line",
    "@": "Names begin with a letter",
    "#": "Comments begin with `//`",
    "\N{LEFT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'Use straight quotes: `"`',
    "\N{LEFT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "Use straight quotes: `'`",
}


class Token(msgspec.Struct, frozen=True):
    """A token and its place in the excerpt; a text includes its quotes."""

    kind: Kind
    text: str
    start: int
    end: int


def tokenize(text: Excerpt, start: int, end: int, said: Diagnostics) -> list[Token]:
    """Return the tokens of a part of a text, the end included, and note what cannot be read."""
    tokens: list[Token] = []
    place = _skip(text.text, start, end)
    while place < end:
        token = _read(text.text, place, end) or _refuse(text, place, end, said)
        tokens.append(token)
        place = _skip(text.text, token.end, end)
    tokens.append(Token("end", "", end, end))
    return tokens


def _skip(text: str, place: int, end: int) -> int:
    found = _SPACE.match(text, place, end)
    return found.end() if found else place


def _read(text: str, place: int, end: int) -> Token | None:
    if text[place] in "\"'":
        stop = text_end(text, place, end)
        return None if stop is None else Token("text", text[place:stop], place, stop)
    found = _TOKEN.match(text, place, end)
    if found is None:
        return None
    kind: Kind = "number" if found["number"] else "word" if found["word"] else "symbol"
    return Token(kind, found[0], place, found.end())


def text_end(text: str, start: int, end: int) -> int | None:
    """Return the end of the quoted text that begins here, its last quote included; None if it is never closed.

    Quotes inside `${…}` belong to the code there, however deep texts and code are nested. A line feed does not end it:
    in a file the reader of lines has refused that, and elsewhere there are no lines.
    """
    # The closing characters of what is open: the last one decides how a character is read.
    waiting = [text[start]]
    place = start + 1
    # The parser reads nothing deeper, and without a limit a text that opens on every line would take quadratic time.
    while place < end and len(waiting) <= _DEEPEST:
        in_text = waiting[-1] != "}"
        found = (_IN_TEXT if in_text else _IN_CODE).search(text, place, end)
        if found is None:
            return None
        mark, place = found[0], found.end()
        if mark == waiting[-1]:
            waiting.pop()
            if not waiting:
                return place
        elif mark in ("${", "{"):
            waiting.append("}")
        elif not in_text and mark in "\"'":
            waiting.append(mark)
    return None


def code_end(text: str, start: int, end: int) -> int:
    """Return the end of the code after `${`: the offset of its closing brace, which is before `end`."""
    depth, place = 1, start
    while found := _IN_CODE.search(text, place, end):
        place = found.end()
        if found[0] in "\"'":
            place = text_end(text, found.start(), end) or end
        elif found[0] in "{}":
            depth += 1 if found[0] == "{" else -1
            if depth == 0:
                return found.start()
    return end


def _refuse(text: Excerpt, place: int, end: int, said: Diagnostics) -> Token:
    mark = text.text[place]
    if mark not in "\"'":
        message, hint = f"{quote(mark)} has no meaning here", _HINTS.get(mark, "")
        stop = place + 1
        while stop < end and text.text[stop] == mark:
            stop += 1
        said.error("unexpected_character", message, text.locate(place, stop), hint=hint)
        return Token("bad", mark, place, stop)
    hint = f"End the text with {mark}; write \\{mark} for one in it"
    said.error("unclosed_quote", unclosed_quote_message(text.text[place:end]), text.locate(place, place + 1), hint=hint)
    return Token("bad", text.text[place:end], place, end)


def unescape(text: Excerpt, start: int, end: int, said: Diagnostics) -> str:
    """Return the content of a part between quotes, with escapes resolved; an unknown escape stays."""
    written = text.text[start:end]
    if "\\" not in written:
        return written

    def read(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code and int(code, 16) <= 0x10FFFF:
            return chr(int(code, 16))
        sign = found[4] or "u"
        if sign in _ESCAPED:
            return _ESCAPED[sign]
        if sign in _SIGNS:
            return sign
        place = start + found.start()
        hint = "Write `\\\\` for a backslash"
        said.warning("unknown_escape", f"{quote(found[0])} escapes nothing", text.locate(place, place + 2), hint=hint)
        return found[0]

    return _ESCAPE.sub(read, written)
