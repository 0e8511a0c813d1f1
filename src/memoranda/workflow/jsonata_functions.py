"""The functions of expressions: the library's, those that we replace, and their limits.

The library's own functions would read the machine's clock, draw from its random numbers, build texts of any length, and
round integers to fifteen digits. `$eval` is missing: only the expressions in the file are evaluated, never the contents
of a value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from inspect import signature
from math import ceil, sqrt
from operator import add
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from memoranda.errors import LimitExceeded
from memoranda.lang.expression.dialect import exceeded, new_uuid, random_float
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.model.text import without_halves
from memoranda.workflow import jsonata_library as library
from memoranda.workflow.jsonata_library import NULL, Functions, JException, Jsonata, Signs, Utils
from memoranda.workflow.jsonata_numbers import EXACT, format_number, is_number, number, number_word, round_half_even

if TYPE_CHECKING:
    from memoranda.workflow.jsonata import Evaluation


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
GLANCE = 64
"""Operators, or matches of a pattern, between two checks of the clock."""


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
        for position, (key, item) in enumerate(entries):
            self._put(f"{',' if position else ''}{inner}{key}{' ' if key and self._pretty else ''}")
            self._value(item, inner)
        self._put((margin if self._pretty and entries else "") + brackets[1])


def _json_string(text: str) -> str:
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded.
        return msgspec.json.encode(without_halves(text)).decode()


_LETTERS: dict[Any, str] = {str: "s", bool: "b", int: "n", float: "n", list: "a", dict: "o", type(None): "m"}


class Signature(library.Signature):
    """What a function takes; the library would take null for a missing argument."""

    @classmethod
    def of(cls, written: Any) -> Any:
        """Return a signature of the library as one of ours."""
        made = cls.__new__(cls)
        made.__dict__.update(written.__dict__)
        return made

    def get_symbol(self, value: Any) -> str:
        """Return the letter of a value's type."""
        letter = _LETTERS.get(cast("Any", type(value)))
        if letter is None:
            return "l" if value is NULL else library.Signature.get_symbol(self, value)
        return letter


class Native(Jsonata.JNativeFunction):
    """A function that is written in Python; the library would convert its numbers to floats."""

    def __init__(self, name: str, written: Any, method: Callable[..., Any]) -> None:
        """Create a function by its name and signature."""
        # No `super().__init__`: it looks for the method in a class, and prints if there is none.
        self.function = None
        self.function_name = name
        self.signature = written
        self.method = method
        self.nargs = len(signature(method).parameters)

    def call(self, input: Any, args: Any) -> Any:
        """Return the result for the arguments; None for each that is not given."""
        checked = self.signature.validate(args, input)
        result = self.method(*checked, *[None] * (self.nargs - len(checked)))
        return number(result) if is_number(result) else result

    def validate(self, args: Any, context: Any) -> Any:
        """Leave the check to `call`, because the library's own functions call others without one."""
        return args


class Matcher(Jsonata.JFunction):
    """A regular expression, which is a function in JSONata: from a text to its first match."""

    def __init__(self, pattern: Any) -> None:
        """Wrap a compiled pattern."""
        Jsonata.JFunction.__init__(self, None, "<s:o>")
        self.pattern = pattern

    @classmethod
    def compile(cls, pattern: str, flags: Any) -> Matcher:
        """Compile a regular expression with RE2, which runs in linear time."""
        return cls(compile_pattern(pattern, ("i" if flags.case_insensitive else "") + ("m" if flags.multiline else "")))

    def call(self, input: Any, args: Any) -> Any:
        """Return the first match, from which the next one can be asked; None if there is none."""
        return _next(self.matches(args[0])) if args and isinstance(args[0], str) else None

    def validate(self, args: Any, context: Any) -> Any:
        """Take any arguments; there is no match in what is not a text."""
        return args

    def matches(self, text: str) -> Iterator[dict[str, Any]]:
        """Yield all matches in a text; an empty one is an error as soon as another is wanted, as in the reference."""
        end: int | None = None
        for count, found in enumerate(self.pattern.finditer(without_halves(text))):
            if end is not None and (end == len(text) or found.start() == found.end()):
                break
            if not count % GLANCE:
                # Nothing is evaluated between two matches, and a long text can have very many.
                current().check_limits()
            start, end = found.span()
            yield {"match": text[start:end], "start": start, "end": end, "groups": list(found.groups())}
            if start == end:
                break
        else:
            return
        if end != len(text):
            raise JException("D1004", -1)


def _next(found: Iterator[dict[str, Any]]) -> Any:
    match = next(found, None)
    return None if match is None else match | {"next": Jsonata.JLambda(lambda: _next(found))}


def matches(matcher: Any, text: str) -> Iterator[dict[str, Any]]:
    """Yield the matches of a regular expression, or of a function that gives matches as one does."""
    if isinstance(matcher, Matcher):
        yield from matcher.matches(text)
        return
    found = Functions.func_apply(matcher, [text])
    while found is not None:
        entries = cast("dict[str, Any]", found)
        if not isinstance(found, dict) or not {"match", "start", "end", "groups", "next"} <= entries.keys():
            raise JException("T1010", -1)
        yield entries
        found = Functions.func_apply(entries["next"], [])


def is_function(value: Any) -> bool:
    """Return whether a value is a function, of the language or of the expression."""
    return isinstance(value, Signs) or Utils.is_function(value)


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
        return None if text is None else text.lower()

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
    def contains(text: str | None, part: Any) -> bool | None:
        if text is None or part is None:
            return None
        return part in text if isinstance(part, str) else next(matches(part, text), None) is not None

    @staticmethod
    def match(text: str | None, pattern: Any, limit: float | None) -> Any:
        if text is None:
            return None
        most = _limit_of(limit, "D3040")
        found = Utils.create_sequence()
        for one in matches(pattern, text) if most else ():
            if len(found) >= most:
                break
            found.append({"match": one["match"], "index": one["start"], "groups": one["groups"]})
            _check_length(found, "the result of `$match`")
        return found

    @staticmethod
    def split(text: str | None, separator: Any, limit: float | None) -> list[str] | None:
        if text is None:
            return None
        most = _limit_of(limit, "D3020")
        if isinstance(separator, str):
            return (text.split(separator) if separator else list(text))[: int(most)]
        parts: list[str] = []
        position = 0
        for one in matches(separator, text) if most else ():
            if len(parts) >= most:
                break
            parts.append(text[position : one["start"]])
            position = one["end"]
            _check_length(parts, "the result of `$split`")
        return [*parts, text[position:]][: ceil(most)]

    @staticmethod
    def replace(text: str | None, pattern: Any, replacement: Any, limit: float | None) -> str | None:
        if text is None:
            return None
        most = _limit_of(limit, "D3011")
        if isinstance(pattern, str):
            if not pattern:
                raise JException("D3010", -1, pattern)
            return _replace(text, _places(text, pattern), lambda match: _text(replacement), most)
        if isinstance(replacement, str):
            bound = current().bounds.text
            return _replace(text, matches(pattern, text), lambda match: _expand(match, replacement, bound), most)
        return _replace(text, matches(pattern, text), lambda match: Functions.func_apply(replacement, [match]), most)

    @staticmethod
    def sort(items: list[Any] | None, comparator: Any) -> list[Any] | None:
        if items is None or len(items) < 2:
            return items
        if comparator is not None:
            return merge_sort(items, lambda one, other: _is_truthy(Functions.func_apply(comparator, [one, other])))
        if not (all(map(is_number, items)) or all(isinstance(item, str) for item in items)):
            raise JException("D3070", -1)
        return sorted(items)

    @staticmethod
    def sum(numbers: list[float] | None) -> float | None:
        # Not Python's own, which compensates errors of rounding since 3.12: the result would depend on the version.
        return None if numbers is None else reduce(add, numbers, 0)

    @staticmethod
    def average(numbers: list[float] | None) -> float | None:
        return reduce(add, numbers, 0) / len(numbers) if numbers else None

    @staticmethod
    def number(value: Any) -> float | None:
        if value is None or is_number(value):
            return value
        if isinstance(value, bool):
            return int(value)
        if _DECIMAL.fullmatch(value):
            return int(value) if value.lstrip("-").isdigit() and len(value) < 400 else number(float(value))
        if _RADIX.fullmatch(value):
            return int(value, 0)
        raise JException("D3030", -1, value)

    @staticmethod
    def floor(value: float | None) -> float | None:
        return None if value is None else value // 1

    @staticmethod
    def ceil(value: float | None) -> float | None:
        return None if value is None else -(-value // 1)

    @staticmethod
    def round(value: float | None, precision: float | None) -> float | None:
        return None if value is None else round_half_even(value, int(precision or 0))

    @staticmethod
    def sqrt(value: float | None) -> float | None:
        if value is None:
            return None
        if value < 0:
            raise JException("D3060", -1, value)
        return sqrt(value)

    @staticmethod
    def power(base: float | None, exponent: float) -> float | None:
        if base is None:
            return None
        if isinstance(base, int) and isinstance(exponent, int) and 0 <= exponent <= 64:
            return base**exponent
        try:
            made: Any = float(base) ** float(exponent)
        except ArithmeticError:
            made = None
        if not isinstance(made, float):
            raise JException("D3061", -1, base, exponent)
        return made

    @staticmethod
    def format_base(value: float | None, radix: float | None) -> str | None:
        if value is None:
            return None
        base = 10 if radix is None else int(round_half_even(radix, 0))
        if not 2 <= base <= 36:
            raise JException("D3100", -1, base)
        whole = int(round_half_even(value, 0))
        return Functions.base_repr(whole, base).lower() if whole else "0"

    @staticmethod
    def to_millis(text: str | None, picture: str | None) -> int | None:
        if text is not None and picture is None:
            if not _ISO_8601.fullmatch(text):
                raise JException("D3110", -1, text)
            if len(text) == len("2026-05"):
                text += "-01"
        return Functions.datetime_to_millis(text, picture)

    @staticmethod
    def clone(value: Any) -> Any:
        return deep_copy(value)

    @staticmethod
    def distinct(items: Any) -> Any:
        if not isinstance(items, list) or len(cast("list[Any]", items)) < 2:
            return cast("Any", items)
        # Equal values have the same text, so this needs one pass instead of comparing all pairs.
        first: dict[str, Any] = {}
        for item in cast("list[Any]", items):
            first.setdefault(Writer(current().bounds.text, tagged=True).write(item), item)
        made: Any = Utils.create_sequence_from_iter(first.values())
        made.sequence = Utils.is_sequence(items)
        return made

    @staticmethod
    def format_integer(value: float | None, picture: str | None) -> str | None:
        if value is None:
            return None
        if abs(value) > EXACT:
            raise LimitReached("the argument of `$formatInteger`", EXACT)
        return Functions.format_integer(value // 1, picture)

    @staticmethod
    def format_number(value: float | None, picture: str, options: dict[str, Any] | None) -> str | None:
        return format_number(value, picture, options)

    @staticmethod
    def substring(text: str | None, start: float | None, length: float | None) -> str | None:
        if text is None or (start is None and length is None):
            return text
        if start is None or (length is not None and length <= 0):
            return ""
        if start + len(text) < 0:
            start = 0
        if length is None:
            return text[int(start) :]
        return text[int(start) : int((start if start >= 0 else start + len(text)) + length)]


def text_of(value: Any, *, pretty: bool = False) -> str | None:
    """Return a value as text, as `$string` and `&` do; None for a missing value."""
    if value is None or isinstance(value, str):
        return value
    if is_function(value):
        return ""
    return Writer(current().bounds.text, pretty=pretty).write(value)


def merge_sort(items: list[Any], is_after: Callable[[Any, Any], bool]) -> list[Any]:
    """Sort as the reference does: stable, and with the same result for a comparison that contradicts itself."""
    if len(items) < 2:
        return items
    middle = len(items) // 2
    left, right = merge_sort(items[:middle], is_after), merge_sort(items[middle:], is_after)
    made: list[Any] = []
    first = second = 0
    while first < len(left) and second < len(right):
        if is_after(left[first], right[second]):
            made.append(right[second])
            second += 1
        else:
            made.append(left[first])
            first += 1
    return [*made, *left[first:], *right[second:]]


def _is_truthy(value: Any) -> bool:
    """Return whether JavaScript, not JSONata, takes a value as true: the reference does so for comparisons."""
    if value is None or value is NULL:
        return False
    return bool(value) if isinstance(value, str | int | float) else True


def deep_copy(value: Any) -> Any:
    """Return a copy that shares no list or object with the value."""
    if isinstance(value, dict):
        return {key: deep_copy(item) for key, item in cast("dict[str, Any]", value).items()}
    return [deep_copy(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([Ee][-+]?[0-9]+)?")
_RADIX = re.compile(r"0[xX][0-9A-Fa-f]+|0[oO][0-7]+|0[bB][01]+")
_ISO_8601 = re.compile(
    r"[0-9]{4}(-[01][0-9])?(-[0-3][0-9])?(T[0-2][0-9]:[0-5][0-9]:[0-5][0-9])?(\.[0-9]+)?([+-][0-2][0-9]:?[0-5][0-9]|Z)?"
)


def _check_length(items: list[Any], what: str) -> None:
    if len(items) > current().bounds.items:
        raise LimitReached(what, current().bounds.items)


def _limit_of(limit: float | None, code: str) -> float:
    """Return how many matches are wanted; raise the reference's error for a negative number."""
    if limit is not None and limit < 0:
        raise JException(code, -1, limit)
    return sys.maxsize if limit is None else limit


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise JException("D3012", -1, value)
    return value


def _places(text: str, part: str) -> Iterator[dict[str, Any]]:
    at = text.find(part)
    while at >= 0:
        yield {"start": at, "end": at + len(part)}
        at = text.find(part, at + len(part))


def _replace(text: str, found: Iterator[dict[str, Any]], put: Callable[[dict[str, Any]], Any], most: float) -> str:
    parts: list[str] = []
    length, position = 0, 0
    limit = current().bounds.text
    for count, match in enumerate(found if most else ()):
        if count >= most:
            break
        parts += (text[position : match["start"]], _text(put(match)))
        position = match["end"]
        length += len(parts[-2]) + len(parts[-1])
        if length > limit:
            raise LimitReached("the result of `$replace`", limit)
    parts.append(text[position:])
    return "".join(parts)


def _expand(match: dict[str, Any], template: str, limit: int) -> str:
    """Return a replacement with `$1` and so on filled in; `$$` is a dollar sign."""
    if "$" not in template:
        return template
    groups = match["groups"]
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
            piece = _group(piece, [match["match"], *groups])
        parts.append(piece)
        length += len(piece)
        if length > limit:
            raise LimitReached("the result of `$replace`", limit)
    return "".join(parts)


def _group(piece: str, groups: list[str | None]) -> str:
    """Return the expansion of `$` and the text after it; the longest number that is a group wins."""
    for width in range(len(str(len(groups) - 1)), 0, -1):
        word = piece[:width]
        if len(word) == width and word.isascii() and word.isdigit() and int(word) < len(groups):
            return (groups[int(word)] or "") + piece[width:]
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
    "contains": "<s-(sf):b>",
    "match": "<s-f<s:o>n?:a<o>>",
    "split": "<s-(sf)n?:a<s>>",
    "replace": "<s-(sf)(sf)n?:s>",
    "sort": "<af?:a>",
    "sum": "<a<n>:n>",
    "average": "<a<n>:n>",
    "number": "<(nsb)-:n>",
    "floor": "<n-:n>",
    "ceil": "<n-:n>",
    "round": "<n-n?:n>",
    "sqrt": "<n-:n>",
    "power": "<n-n:n>",
    "formatBase": "<n-n?:s>",
    "toMillis": "<s-s?:n>",
    "clone": "<(oa)-:o>",
    "distinct": "<x:x>",
    "formatInteger": "<n-s:s>",
    "formatNumber": "<n-so?:s>",
    "substring": "<s-nn?:s>",
}
_METHODS = {
    "formatInteger": "format_integer",
    "formatNumber": "format_number",
    "formatBase": "format_base",
    "toMillis": "to_millis",
}


def _frame() -> Any:
    """Return the frame of all functions: the library's except `REFUSED`, overridden by ours."""
    frame = Jsonata.Frame(None)
    functions: dict[str, Any] = Jsonata.static_frame.bindings
    for name, function in functions.items():
        if name in _SIGNATURES:
            written = Signature(_SIGNATURES[name], name)
            frame.bind(name, Native(name, written, getattr(_Ours, _METHODS.get(name) or name)))
        elif name not in REFUSED:
            frame.bind(name, Native(name, Signature.of(function.signature), function.method))
    frame.bind("uuid", Native("uuid", Signature(_SIGNATURES["uuid"], "uuid"), _Ours.uuid))
    return frame


FRAME: Any = _frame()
"""The frame in which every evaluation looks up its functions; it never changes."""
NAMES: tuple[str, ...] = tuple(sorted(FRAME.bindings))
"""The names of all functions, without the dollar sign."""
