"""The functions of JSONata that are ours: those that ask for the time or for chance, and those that could grow.

The library's own would read the machine's clock, draw from its random numbers, and make a text of any length. `$eval`
is not there: an expression is run where a workflow writes it, never what a value happens to hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Protocol, cast

from memoranda.lang.expression.chance import chance, new_uuid
from memoranda.lang.expression.dialect import Run
from memoranda.workflow.jsontext import Writer
from memoranda.workflow.library import Functions, JException, Jsonata, Utils
from memoranda.workflow.limits import Bounds, Stop

REFUSED = frozenset({"eval"})
"""Functions of JSONata that are not there."""


class Evaluation(Protocol):
    """What the functions know of the evaluation they are called in."""

    @property
    def run(self) -> Run:
        """The source of time and chance."""
        ...

    @property
    def bounds(self) -> Bounds:
        """What the evaluation may ask for."""
        ...

    @property
    def millis(self) -> int:
        """The moment of the evaluation, the same however often it is asked for."""
        ...


def current() -> Evaluation:
    """Return the evaluation of this thread."""
    return Jsonata.CURRENT.jsonata


class _Ours:
    """Functions by the name under which the table below registers them; None is a value that is missing."""

    @staticmethod
    def now(picture: str | None, zone: str | None) -> str | None:
        return Functions.datetime_from_millis(current().millis, picture, zone)

    @staticmethod
    def millis() -> int:
        return current().millis

    @staticmethod
    def random() -> float:
        return chance(current().run)

    @staticmethod
    def uuid() -> str:
        return new_uuid(current().run)

    @staticmethod
    def shuffle(items: list[Any] | None) -> list[Any] | None:
        if items is None or len(items) < 2:
            return items
        mixed = list(items)
        Random(chance(current().run)).shuffle(mixed)
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
            raise Stop("the text that `$pad` makes", current().bounds.text)
        return Functions.pad(text, width, filling)

    @staticmethod
    def join(texts: list[str] | None, between: str | None) -> str | None:
        if texts is None:
            return None
        between = between or ""
        most = current().bounds.text
        if sum(map(len, texts)) + len(between) * len(texts) > most:
            raise Stop("the text that `$join` makes", most)
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
        return _replaced(text, found, replacement, most)

    @staticmethod
    def distinct(items: Any) -> Any:
        if not isinstance(items, list) or len(cast("list[Any]", items)) < 2:
            return cast("Any", items)
        # Equal values are written the same, so each is compared once and not with every other.
        first: dict[str, Any] = {}
        for item in cast("list[Any]", items):
            first.setdefault(Writer(current().bounds.text, tagged=True).write(item), item)
        made: Any = Utils.create_sequence_from_iter(first.values())
        made.sequence = isinstance(items, Utils.JList)
        return made

    @staticmethod
    def format_integer(value: float | None, picture: str | None) -> str | None:
        if value is not None and abs(value) > 1e15:
            raise Stop("the number that `$formatInteger` is given", 10**15)
        return Functions.format_integer(value, picture)


def text_of(value: Any, *, pretty: bool = False) -> str | None:
    """Return a value as text, as `$string` and `&` do; None for one that is missing."""
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


def _replaced(text: str, found: Iterable[tuple[int, int, Any]], replacement: Any, most: int | None) -> str:
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
            raise Stop("the text that `$replace` makes", limit)
    parts.append(text[position:])
    return "".join(parts)


def _replacement(whole: str, match: Any, replacement: Any, limit: int) -> str:
    if isinstance(replacement, str):
        return replacement if match is None else _expanded(match, replacement, limit)
    groups = [whole] if match is None else [whole, *match.groups()]
    put = Functions.func_apply(replacement, [{"match": whole, "groups": groups[1:]}])
    if not isinstance(put, str):
        raise JException("D3012", -1, put)
    return put


def _expanded(match: Any, template: str, limit: int) -> str:
    """Return a replacement with `$1` and the like filled in; `$$` is a dollar sign."""
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
            # Two signs in a row, or one at the end.
            piece = "$" + next(waiting, "")
        else:
            piece = _group(piece, match, len(groups), digits)
        parts.append(piece)
        length += len(piece)
        if length > limit:
            raise Stop("the text that `$replace` makes", limit)
    return "".join(parts)


def _group(piece: str, match: Any, count: int, digits: int) -> str:
    """Return what stands for `$` and the text after it: the longest number that is a group decides."""
    for width in range(digits, 0, -1):
        number = piece[:width]
        if len(number) == width and number.isascii() and number.isdigit() and int(number) <= count:
            return (match.group(int(number)) or "") + piece[width:]
    # A number without a group stands for nothing; any other sign is itself.
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
    """Return the frame of all functions: ours over the library's, without those that are refused."""
    frame = Jsonata.Frame(None)
    frame.bindings.update(
        {name: function for name, function in Jsonata.static_frame.bindings.items() if name not in REFUSED}
    )
    for name, signature in _SIGNATURES.items():
        frame.bind(name, Jsonata.JNativeFunction(name, signature, _Ours, _METHODS.get(name, name)))
    return frame


FRAME: Any = _frame()
"""What every evaluation looks its functions up in; nothing is ever bound here later."""
NAMES: tuple[str, ...] = tuple(sorted(FRAME.bindings))
"""The functions of an expression, without their dollar sign."""
