"""The JSONata library as the rest uses it: its parts, our limits, and the functions that we replace.

The library's own functions would read the machine's clock, draw from its random numbers, and build texts of any length.
`$eval` is missing: only the expressions in the file are evaluated, never the contents of a value. The library is
hardly typed, so its parts are `Any` here; only the `jsonata` modules use them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.errors import LimitExceeded
from memoranda.lang.expression.dialect import exceeded, new_uuid, random_float
from memoranda.model.text import without_halves

if TYPE_CHECKING:
    from memoranda.workflow.jsonata import Evaluation

# Importing the library multiplies the recursion limit of the whole process by ten.
_limit = sys.getrecursionlimit()
_main = import_module("jsonata.jsonata")
sys.setrecursionlimit(_limit)

Jsonata: Any = _main.Jsonata
JException: Any = import_module("jsonata.jexception").JException
Functions: Any = import_module("jsonata.functions").Functions
Utils: Any = import_module("jsonata.utils").Utils
Signs: Any = import_module("jsonata.parser").Parser.Symbol
NULL: Any = Utils.NULL_VALUE
"""JSON's null, which is a value; the library uses None for a missing value."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one expression; exceeding one is a diagnostic or a `LimitExceeded`."""

    source: int = 20_000
    """Characters of one expression."""
    depth: int = 200
    """Nesting of operators, calls and brackets, including calls of the expression's own functions."""
    seconds: float = 2.0
    """Wall-clock time of one evaluation."""
    work: int = 2_000_000
    """Evaluated operators plus the items that they give."""
    items: int = 100_000
    """Items of one list, and values of one result at all levels."""
    text: int = 1_000_000
    """Characters of one text, and of all texts of one result."""


DEFAULT_BOUNDS = Bounds()


class LimitReached(JException):
    """A limit was exceeded. An expression cannot catch it: the library passes its own errors on."""

    def __init__(self, what: str, limit: float) -> None:
        """Name what grew too large, and its limit."""
        JException.__init__(self, "D1012", -1, limit)
        self.what = what
        self.limit = limit

    def refusal(self) -> LimitExceeded:
        """Return the error that callers see."""
        if self.what == "time":
            return LimitExceeded(
                f"the expression did not end within {self.limit:g} seconds",
                hint="Look for endless recursion, or compute less at once",
                limit=self.limit,
                actual=self.limit,
            )
        return exceeded(self.what, int(self.limit))


class Writer:
    """Writes one value as JSON, with numbers as JavaScript writes them; stops if the text grows too long."""

    def __init__(self, most: int, *, pretty: bool = False, tagged: bool = False) -> None:
        """Write at most `most` characters; if `tagged`, functions are distinct instead of empty texts."""
        self._parts: list[str] = []
        self._left = most
        self._most = most
        self._pretty = pretty
        self._tagged = tagged

    def write(self, value: Any) -> str:
        """Return the text of a value."""
        self._value(value, "\n")
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise LimitReached("the text that an expression made", self._most)
        self._parts.append(text)

    def _value(self, value: Any, margin: str) -> None:
        if value is None or value is NULL:
            self._put("null")
        elif isinstance(value, str):
            self._put(_json_string(value))
        elif isinstance(value, bool):
            self._put("true" if value else "false")
        elif isinstance(value, int | float):
            self._put(number_word(value))
        elif isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            self._between("{}", [(f"{_json_string(key)}:", item) for key, item in entries.items()], margin)
        elif isinstance(value, list):
            self._between("[]", [("", item) for item in cast("list[Any]", value)], margin)
        else:
            self._put(f"function {id(value)}" if self._tagged else '""')

    def _between(self, brackets: str, entries: list[tuple[str, Any]], margin: str) -> None:
        self._put(brackets[0])
        inner = f"{margin}  " if self._pretty else ""
        for number, (key, item) in enumerate(entries):
            self._put(f"{',' if number else ''}{inner}{key}{' ' if key and self._pretty else ''}")
            self._value(item, inner)
        self._put((margin if self._pretty and entries else "") + brackets[1])


def _json_string(text: str) -> str:
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded.
        return msgspec.json.encode(without_halves(text)).decode()


def number_word(value: float) -> str:
    """Return a number as JSONata writes it: fifteen digits, with an exponent only where JavaScript has one."""
    if isinstance(value, int) and abs(value) < 10**15:
        return str(value)
    rounded = float(f"{value:.15g}")
    if rounded == int(rounded) and abs(rounded) < 1e21:
        return str(int(rounded))
    digits, _, exponent = repr(rounded).partition("e")
    if not exponent:
        return digits
    power = int(exponent)
    if -7 < power < 0:
        return f"{rounded:.{len(digits.replace('.', '').lstrip('-')) - 1 - power}f}"
    return f"{digits}e{power:+d}"


REFUSED = frozenset({"eval"})
"""Functions of JSONata that are not available."""


def current() -> Evaluation:
    """Return the evaluation of this thread."""
    return Jsonata.CURRENT.jsonata


class _Ours:
    """Our functions, by the names in the table below; None is a missing value."""

    @staticmethod
    def now(picture: str | None, zone: str | None) -> str | None:
        return Functions.datetime_from_millis(current().millis, picture, zone)

    @staticmethod
    def millis() -> int:
        return current().millis

    @staticmethod
    def random() -> float:
        return random_float(current().run)

    @staticmethod
    def uuid() -> str:
        return new_uuid(current().run)

    @staticmethod
    def shuffle(items: list[Any] | None) -> list[Any] | None:
        if items is None or len(items) < 2:
            return items
        mixed = list(items)
        Random(random_float(current().run)).shuffle(mixed)
        return mixed

    @staticmethod
    def string(value: Any, pretty: bool | None) -> str | None:
        if isinstance(value, list) and getattr(cast("Any", value), "outer_wrapper", False):
            value = cast("list[Any]", value)[0]
        return text_of(value, pretty=bool(pretty))

    @staticmethod
    def lowercase(text: str | None) -> str | None:
        return None if text is None else _text(text).lower()

    @staticmethod
    def pad(text: str | None, width: float | None, filling: str | None) -> str | None:
        if width is not None and abs(width) > current().bounds.text:
            raise LimitReached("the result of `$pad`", current().bounds.text)
        return Functions.pad(text, width, filling)

    @staticmethod
    def join(texts: list[str] | None, between: str | None) -> str | None:
        if texts is None:
            return None
        between = between or ""
        most = current().bounds.text
        if sum(map(len, texts)) + len(between) * len(texts) > most:
            raise LimitReached("the result of `$join`", most)
        return between.join(texts)

    @staticmethod
    def replace(text: str | None, pattern: Any, replacement: Any, limit: float | None) -> str | None:
        if text is None:
            return None
        text = _text(text)
        if limit is not None and limit < 0:
            raise JException("D3011", -1, limit)
        most = None if limit is None else int(limit)
        if isinstance(pattern, str):
            if not pattern:
                raise JException("D3010", -1, pattern)
            found = ((at, at + len(pattern), None) for at in _places(text, pattern))
        else:
            found = ((match.start(), match.end(), match) for match in pattern.finditer(text))
        return _replace(text, found, replacement, most)

    @staticmethod
    def distinct(items: Any) -> Any:
        if not isinstance(items, list) or len(cast("list[Any]", items)) < 2:
            return cast("Any", items)
        # Equal values have the same text, so this needs one pass instead of comparing all pairs.
        first: dict[str, Any] = {}
        for item in cast("list[Any]", items):
            first.setdefault(Writer(current().bounds.text, tagged=True).write(item), item)
        made: Any = Utils.create_sequence_from_iter(first.values())
        made.sequence = isinstance(items, Utils.JList)
        return made

    @staticmethod
    def format_integer(value: float | None, picture: str | None) -> str | None:
        if value is not None and abs(value) > 1e15:
            raise LimitReached("the argument of `$formatInteger`", 10**15)
        return Functions.format_integer(value, picture)


def text_of(value: Any, *, pretty: bool = False) -> str | None:
    """Return a value as text, as `$string` and `&` do; None for a missing value."""
    if value is None or isinstance(value, str):
        return value
    return Writer(current().bounds.text, pretty=pretty).write(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise JException("T0410", -1, 1, "")
    return value


def _places(text: str, part: str) -> Iterable[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _replace(text: str, found: Iterable[tuple[int, int, Any]], replacement: Any, most: int | None) -> str:
    parts: list[str] = []
    length, position = 0, 0
    limit = current().bounds.text
    for count, (start, end, match) in enumerate(found):
        if most is not None and count >= most:
            break
        if start == end:
            raise JException("D1004", -1, text[start : start + 1])
        put = _replacement(text[start:end], match, replacement, limit)
        parts += (text[position:start], put)
        position = end
        length += len(parts[-2]) + len(put)
        if length > limit:
            raise LimitReached("the result of `$replace`", limit)
    parts.append(text[position:])
    return "".join(parts)


def _replacement(whole: str, match: Any, replacement: Any, limit: int) -> str:
    if isinstance(replacement, str):
        return replacement if match is None else _expand(match, replacement, limit)
    groups = [whole] if match is None else [whole, *match.groups()]
    put = Functions.func_apply(replacement, [{"match": whole, "groups": groups[1:]}])
    if not isinstance(put, str):
        raise JException("D3012", -1, put)
    return put


def _expand(match: Any, template: str, limit: int) -> str:
    """Return a replacement with `$1` and so on filled in; `$$` is a dollar sign."""
    if "$" not in template:
        return template
    groups = match.groups()
    digits = len(str(len(groups)))
    parts: list[str] = []
    length = 0
    first, *rest = template.split("$")
    parts.append(first)
    waiting = iter(rest)
    for piece in waiting:
        if not piece:
            # Two dollar signs in a row, or one at the end.
            piece = "$" + next(waiting, "")
        else:
            piece = _group(piece, match, len(groups), digits)
        parts.append(piece)
        length += len(piece)
        if length > limit:
            raise LimitReached("the result of `$replace`", limit)
    return "".join(parts)


def _group(piece: str, match: Any, count: int, digits: int) -> str:
    """Return the expansion of `$` and the text after it; the longest number that is a group wins."""
    for width in range(digits, 0, -1):
        number = piece[:width]
        if len(number) == width and number.isascii() and number.isdigit() and int(number) <= count:
            return (match.group(int(number)) or "") + piece[width:]
    # A number without a group expands to nothing; before any other character, `$` is literal.
    return piece[1:] if piece[0].isdigit() else "$" + piece


_SIGNATURES = {
    "now": "<s?s?:s>",
    "millis": "<:n>",
    "random": "<:n>",
    "uuid": "<:s>",
    "shuffle": "<a:a>",
    "string": "<x-b?:s>",
    "lowercase": "<s-:s>",
    "pad": "<s-ns?:s>",
    "join": "<a<s>s?:s>",
    "replace": "<s-(sf)(sf)n?:s>",
    "distinct": "<x:x>",
    "formatInteger": "<n-s:s>",
}
_METHODS = {"formatInteger": "format_integer"}


def _frame() -> Any:
    """Return the frame of all functions: the library's except `REFUSED`, overridden by ours."""
    frame = Jsonata.Frame(None)
    frame.bindings.update(
        {name: function for name, function in Jsonata.static_frame.bindings.items() if name not in REFUSED}
    )
    for name, signature in _SIGNATURES.items():
        frame.bind(name, Jsonata.JNativeFunction(name, signature, _Ours, _METHODS.get(name, name)))
    return frame


FRAME: Any = _frame()
"""The frame in which every evaluation looks up its functions; it never changes."""
NAMES: tuple[str, ...] = tuple(sorted(FRAME.bindings))
"""The names of all functions, without the dollar sign."""
