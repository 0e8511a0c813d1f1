"""The text of a value in; its parts, without quotes and outside of brackets, out. Every part knows its place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from memoranda.abl.tree import Raw, Runs, Value
from memoranda.lang.source import Span

OPENERS = "([{"
CLOSERS = ")]}"

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WHOLE = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.|'')*')\s*""")
_INTERESTING = re.compile(r"""["'()\[\]{}]""")


def outside(text: str, *, brackets: bool = False) -> Iterator[tuple[int, str]]:
    """Give the characters of a text that stand outside of quotes and brackets, or with `brackets` the brackets too."""
    if not _INTERESTING.search(text):
        yield from enumerate(text)
        return
    depth, at = 0, 0
    while at < len(text):
        character = text[at]
        # An apostrophe inside a word opens nothing.
        if character == '"' or (character == "'" and not (at and text[at - 1].isalnum())):
            closed = _closing(text, at)
            if closed is not None:
                at = closed
                continue
        if character in OPENERS:
            depth += 1
        if brackets or not depth:
            yield at, character
        if character in CLOSERS:
            depth = max(0, depth - 1)
        at += 1


def left_open(text: str) -> int:
    """Return how many more brackets a text opens than it closes."""
    return sum((character in OPENERS) - (character in CLOSERS) for _, character in outside(text, brackets=True))


def end_of_key(text: str) -> int | None:
    """Return the offset after the colon that ends a key, or None for a line that is no entry."""
    if ":" not in text:
        return None
    for offset, character in outside(text):
        if character == ":" and (offset + 1 == len(text) or text[offset + 1] in " \t"):
            return offset + 1 if offset else None
    return None


def _closing(text: str, start: int) -> int | None:
    """Return the offset after the string that begins here, or None when it never ends."""
    mark, at = text[start], start + 1
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == mark:
            return at + 1
        at += 1
    return None


def is_quoted(text: str) -> bool:
    """Say whether quotes stand around the whole of a text."""
    return text[:1] in ("'", '"') and _WHOLE.fullmatch(text) is not None


def decode(written: str) -> tuple[str, Runs]:
    """Return a quoted text without quotes and escapes, and where its pieces stood in what was written."""
    inner = written[1:-1]
    if written[0] == "'":
        pattern, doubled = re.compile(r"''|\\'"), True
    else:
        pattern, doubled = _ESCAPE, False
    if "\\" not in inner and "''" not in inner:
        return inner, ((0, 1),)
    pieces: list[str] = []
    runs: list[tuple[int, int]] = []
    length, last = 0, 0
    for found in pattern.finditer(inner):
        # An escape that means nothing stays as it is: patterns such as `\d` are written so.
        character = "'" if doubled else _ESCAPES.get(found[1], found[0])
        piece = inner[last : found.start()]
        runs.extend(((length, last + 1), (length + len(piece), found.start() + 1)))
        pieces.extend((piece, character))
        length += len(piece) + len(character)
        last = found.end()
    runs.append((length, last + 1))
    return "".join((*pieces, inner[last:])), tuple(dict(runs).items())


def verbatim(value: Value) -> Raw:
    """Return a value as it was written, quotes included: an expression."""
    return Raw(value.text, runs=value.runs, literal=value.style == "block", span=value.span)


def unquoted(value: Value) -> Raw:
    """Return a value without the quotes around the whole of it: a text, a name, a condition."""
    if value.style == "block":
        return verbatim(value)
    return unquote(verbatim(value))


def unquote(raw: Raw) -> Raw:
    """Return a text without the quotes around the whole of it, if there are any."""
    found = _WHOLE.fullmatch(raw.text) if raw.text[:1] in ("'", '"', " ") else None
    if found is None:
        return raw
    text, runs = decode(found[1])
    start = found.start(1)
    shifted = tuple((here, origin(raw.runs, there + start)) for here, there in runs)
    begin = origin(raw.runs, start)
    return Raw(text, runs=shifted, literal=True, span=Span(begin, max(begin, raw.span.end)))


def origin(runs: Runs, offset: int) -> int:
    """Return the offset in the source of an offset in a text."""
    here, there = runs[max(bisect_right(runs, offset, key=_in_text) - 1, 0)]
    return there + offset - here


def _in_text(run: tuple[int, int]) -> int:
    return run[0]


def part(raw: Raw, start: int, end: int) -> Raw:
    """Return a stretch of a raw text, without white space around it."""
    text = raw.text[start:end]
    stripped = text.strip()
    start += len(text) - len(text.lstrip())
    end = start + len(stripped)
    begin = origin(raw.runs, start)
    inner = tuple((here - start, there) for here, there in raw.runs if start < here < end)
    finish = origin(raw.runs, end - 1) + 1 if end > start else begin
    return Raw(stripped, runs=((0, begin), *inner), span=Span(begin, max(begin, finish)))


def split(raw: Raw, separator: str) -> list[Raw]:
    """Return the parts of a text between separators that stand outside of quotes and brackets."""
    cuts = [offset for offset, _ in outside(raw.text) if raw.text.startswith(separator, offset)]
    bounds = [-len(separator), *cuts, len(raw.text)]
    return [part(raw, left + len(separator), right) for left, right in pairwise(bounds)]


def listed(raw: Raw) -> list[Raw]:
    """Return the elements of `[a, b]` or `a, b`, without quotes; empty ones are left out."""
    text = raw.text.strip()
    if text.startswith("[") and text.endswith("]"):
        begin = raw.text.index("[")
        raw = part(raw, begin + 1, raw.text.rindex("]"))
    return [unquote(element) for element in split(raw, ",") if element.text]


def arrow(raw: Raw) -> tuple[Raw, Raw] | None:
    """Return both sides of the last `->` outside of quotes and brackets, or None."""
    cuts = [offset for offset, _ in outside(raw.text) if raw.text.startswith("->", offset)]
    if not cuts:
        return None
    return part(raw, 0, cuts[-1]), part(raw, cuts[-1] + 2, len(raw.text))


def assignment(raw: Raw) -> tuple[Raw, Raw] | None:
    """Return both sides of the first `=` that is no part of a comparison, or None."""
    text = raw.text
    for offset, character in outside(text):
        if character != "=" or text[offset + 1 : offset + 2] == "=" or (offset and text[offset - 1] in "=!<>"):
            continue
        return part(raw, 0, offset), part(raw, offset + 1, len(text))
    return None


def pair(raw: Raw) -> tuple[Raw, Raw] | None:
    """Return name and value of `name: value` inside an inline object or a signature, or None."""
    for offset, character in outside(raw.text):
        if character == ":":
            return unquote(part(raw, 0, offset)), part(raw, offset + 1, len(raw.text))
    return None


def inline_object(raw: Raw) -> list[tuple[Raw, Raw]] | None:
    """Return the fields of `{a: x, b}`, where `b` alone means `b: b`; None for what is no object."""
    text = raw.text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    inner = part(raw, raw.text.index("{") + 1, raw.text.rindex("}"))
    return [pair(element) or (element, element) for element in split(inner, ",") if element.text]
