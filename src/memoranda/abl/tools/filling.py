"""A template and arguments in; an address, a JSON body or a header out, in which no value leaves its place.

Rendering the text and escaping it afterwards comes too late: a value that closes its string is then part of the text.
So the template is rendered with marks where its values belong, and each value is written into what it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec.structs import replace

from memoranda.abl.expression.programs import ABL
from memoranda.lang.expression.compiler import compile_node
from memoranda.lang.expression.dialect import Closure, Compilation, Names, Run
from memoranda.lang.expression.nodes import Constant, Node
from memoranda.lang.expression.wording import word
from memoranda.lang.template import Choice, Loop, Template
from memoranda.model.clock import Clock
from memoranda.model.text import quote

MOST_CHARACTERS = 1_048_576
"""Characters of what one template gives."""

_MARK = re.compile("\0([0-9]+)\0")
_encoder = msgspec.json.Encoder()


class Slot(NamedTuple):
    """A value where it belongs."""

    value: Any


Pieces: TypeAlias = Sequence[str | Slot]
"""What the author wrote, and the values between it."""


class _Insert(Node, frozen=True):
    """A value that is not written out yet."""

    of: Node


class _Filling(Run):
    """A run that keeps the values apart."""

    __slots__ = ("values",)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.values: list[Any] = []


def _insert(node: _Insert, to: Compilation) -> Closure:
    read = to.compile(node.of)

    def mark(names: Names, run: Run) -> str:
        assert isinstance(run, _Filling)
        run.values.append(read(names, run))
        return f"\0{len(run.values) - 1}\0"

    return mark


_APART = replace(ABL, compilers={**ABL.compilers, _Insert: _insert})


class Form:
    """A compiled template whose values stay apart from its text."""

    def __init__(self, template: Template) -> None:
        """Compile a template once."""
        self._closure = compile_node(_apart(template), _APART)

    def fill(self, arguments: dict[str, Any], clock: Clock) -> Pieces:
        """Return the author's text and the values between it, in order."""
        run = _Filling(clock)
        marked: str = self._closure(arguments, run)
        texts = _MARK.split(marked)
        return [Slot(run.values[int(text)]) if place % 2 else text for place, text in enumerate(texts)]


def _apart(template: Template) -> Template:
    return replace(template, parts=tuple(_part(part) for part in template.parts))


def _part(part: Node) -> Node:
    if isinstance(part, Constant):
        # So that no text can look like a mark.
        return replace(part, value=part.value.replace("\0", "")) if isinstance(part.value, str) else part
    if isinstance(part, Choice):
        return replace(part, then=_apart(part.then), otherwise=_apart(part.otherwise))
    if isinstance(part, Loop):
        return replace(part, body=_apart(part.body), otherwise=_apart(part.otherwise))
    return _Insert(part.span, part)


class Unfit(Exception):
    """What cannot be sent: the text says why."""


def is_empty(pieces: Pieces) -> bool:
    """Say whether there is nothing but values that are null."""
    return not any(piece.value is not None if isinstance(piece, Slot) else piece.strip() for piece in pieces)


def as_text(pieces: Pieces) -> str:
    """Return everything as text, for a parameter of the query, which is encoded as a whole."""
    return _joined(word(piece.value) if isinstance(piece, Slot) else piece for piece in pieces)


def as_header(name: str, pieces: Pieces) -> bytes:
    """Return the value of a header, which is one line."""
    text = as_text(pieces).strip()
    if not text.isprintable():
        raise Unfit(f"the header {quote(name)} cannot hold a line break or a control character")
    return text.encode()


def as_address(pieces: Pieces) -> str:
    """Return an address: values are percent-encoded, so that none adds a segment, a parameter or a host."""
    parts: list[str] = []
    in_path = True
    for piece in pieces:
        if isinstance(piece, Slot):
            text = word(piece.value)
            if in_path and not text:
                # DELETE /guests/{{id}} without an id would be about all guests.
                raise Unfit("the address has an empty value in its path")
            parts.append(percent_encoded(text, safe=""))
        else:
            in_path = in_path and "?" not in piece and "#" not in piece
            parts.append(piece)
    address = _joined(parts).strip()
    try:
        there = urlsplit(address)
        # Asked for, because only then it is read.
        _ = there.port
    except ValueError as error:
        raise Unfit(f"{quote(address)} is no address: {error}") from error
    if any(unquote(segment) in (".", "..") for segment in there.path.split("/")):
        raise Unfit(f"the path of {quote(address)} leads out of its place")
    return address


def as_json(pieces: Pieces) -> str:
    """Return a JSON text: inside quotes a value is escaped text, elsewhere it is a JSON value of its own."""
    parts: list[str] = []
    inside = escaped = False
    for piece in pieces:
        if isinstance(piece, Slot):
            if escaped:
                raise Unfit("the body has a backslash right before a value")
            parts.append(_quoted(word(piece.value))[1:-1] if inside else _quoted(piece.value))
            continue
        parts.append(piece)
        for character in piece:
            if escaped:
                escaped = False
            elif character == '"':
                inside = not inside
            else:
                escaped = inside and character == "\\"
    body = _joined(parts)
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unfit(f"the body is no JSON: {error}") from error
    return body


def _quoted(value: Any) -> str:
    return _encoder.encode(value).decode()


def _joined(parts: Iterable[str]) -> str:
    text = "".join(parts)
    if len(text) > MOST_CHARACTERS:
        raise Unfit(f"what a template gave has {len(text):,} characters, the limit is {MOST_CHARACTERS:,}")
    return text
