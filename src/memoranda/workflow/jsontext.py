"""A value of JSONata in, its JSON out, or a stop where it grows too long: the numbers as JavaScript writes them."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from memoranda.model.text import without_halves
from memoranda.workflow.library import NULL
from memoranda.workflow.limits import Stop


class Writer:
    """Writes one value."""

    def __init__(self, most: int, *, pretty: bool = False, tagged: bool = False) -> None:
        """Begin with nothing written; `tagged` keeps functions apart, which are otherwise an empty text."""
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
            raise Stop("the text that an expression made", self._most)
        self._parts.append(text)

    def _value(self, value: Any, margin: str) -> None:
        if value is None or value is NULL:
            self._put("null")
        elif isinstance(value, str):
            self._put(_quoted(value))
        elif isinstance(value, bool):
            self._put("true" if value else "false")
        elif isinstance(value, int | float):
            self._put(number_word(value))
        elif isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            self._between("{}", [(f"{_quoted(key)}:", item) for key, item in entries.items()], margin)
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


def _quoted(text: str) -> str:
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which no JSON can hold.
        return msgspec.json.encode(without_halves(text)).decode()


def number_word(value: float) -> str:
    """Return a number as JSONata shows it: fifteen digits, and no exponent where JavaScript writes none."""
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
