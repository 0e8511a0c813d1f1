"""A type as it was written in; what checks its values, and the JSON schema that a model is shown, out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any, TypeAlias, cast

import msgspec

from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.expression.scalars import LARGEST, moment
from memoranda.mashin.document import Type
from memoranda.mashin.faults import Faults
from memoranda.mashin.keywords import TYPES
from memoranda.mashin.shapes import read_shape
from memoranda.model.text import quote

Check: TypeAlias = Callable[[Any, Faults], Any]
"""A value and where faults go in, the value as it is kept out; what it gives after a fault does not count."""

Json: TypeAlias = dict[str, Any]

_DEEPEST = 64
_MOST_VALUES = 1_000_000
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,100}(?:\.[0-9]{1,100})?")


class Kind(msgspec.Struct, frozen=True):
    """A type that values can be checked against."""

    name: str
    check: Check
    schema: Json


def canonical(type_: Type) -> str:
    """Return the one name of a type that can be written in two ways."""
    found = TYPES.find(type_.name)
    return found.name if found else type_.name


def kind_of(type_: Type) -> Kind:
    """Return the kind of a type that was checked."""
    name = canonical(type_)
    if name == "enum":
        return _enum(tuple(choice.text for choice in type_.choices))
    if name == "list" and type_.item is not None:
        item = kind_of(type_.item)
        return Kind(name, _list_of(item.check), {"type": "array", "items": item.schema})
    if name == "map" and type_.shape is not None:
        parts = {part.name: (kind_of(part.type), part.optional) for part in read_shape(type_.shape)}
        return _shaped(parts) if parts else _PLAIN["map"]
    return _PLAIN[name]


# texts


def _text(value: Any, faults: Faults) -> Any:
    if type(value) is str and value.isascii() and "\0" not in value:
        return value
    return _any_text(value, faults)


def _any_text(value: Any, faults: Faults) -> Any:
    if type(value) is not str:
        faults.wanted("text", value)
    else:
        _writable(value, faults)
    return cast("Any", value)


def _writable(text: str, faults: Faults) -> None:
    """Note what no store and no model can be given."""
    if "\0" in text:
        faults.add("holds a NUL character", hint="Remove it")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        faults.add("holds half of a surrogate pair", hint="Decode the text properly")


def is_uuid(text: str) -> bool:
    """Say whether a text is an identifier as RFC 9562 writes it."""
    return _UUID.fullmatch(text) is not None


def is_day(text: str) -> bool:
    """Say whether a text is a day that there is, as ISO 8601 writes it."""
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_moment(text: str) -> bool:
    """Say whether a text is a day and a time, with a zone or without, as ISO 8601 writes them."""
    return len(text) > len("2026-04-30") and moment(text) is not None


def _text_that(fits: Callable[[str], bool], what: str, example: str) -> Check:
    def check(value: Any, faults: Faults) -> Any:
        if type(value) is not str:
            faults.wanted(what, value, hint=f"Write it as text, such as {example}")
        elif not fits(value):
            faults.add(f"is not {what}", expected=what, hint=f"Write it as {example}")
        return value

    return check


def _enum(choices: tuple[str, ...]) -> Kind:
    known, listed = frozenset(choices), ", ".join(quote(choice, longest=40) for choice in choices[:20])

    def check(value: Any, faults: Faults) -> Any:
        if type(value) is not str:
            faults.wanted(f"one of {listed}", value)
        elif value not in known:
            faults.add(f"is none of {listed}", expected=f"one of {listed}", hint=did_you_mean(value, choices))
        return value

    return Kind("enum", check, {"type": "string", "enum": list(choices)})


# numbers


def _number(value: Any, faults: Faults) -> Any:
    if type(value) is int:
        if not -LARGEST <= value <= LARGEST:
            faults.add("does not fit in 64 bits", expected="a number", hint="Give it as text")
    elif type(value) is not float:
        faults.wanted("a number", value)
    elif not math.isfinite(value):
        faults.add("is no finite number", expected="a number", hint="Give null, or leave it out")
    return value


def _integer(value: Any, faults: Faults) -> Any:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int:
        return _number(value, faults)
    if type(value) is float:
        faults.add("is not a whole number", expected="a whole number")
    else:
        faults.wanted("a whole number", value)
    return value


def is_decimal(text: str) -> bool:
    """Say whether a text is a number, digit by digit."""
    return _DECIMAL.fullmatch(text) is not None


def _decimal(value: Any, faults: Faults) -> Any:
    if type(value) is str:
        if not is_decimal(value):
            faults.add("is no number written as text", expected="a decimal number", hint='Such as 19.9 or "19.90"')
        return value
    if type(value) is int or type(value) is float:
        return _number(value, faults)
    faults.wanted("a decimal number", value)
    return value


def _boolean(value: Any, faults: Faults) -> Any:
    if type(value) is not bool:
        faults.wanted("true or false", value)
    return value


# lists and maps


def _list(value: Any, faults: Faults) -> Any:
    if type(value) is not list:
        faults.wanted("a list", value)
        return value
    return _any(cast("Any", value), faults)


def _map(value: Any, faults: Faults) -> Any:
    if type(value) is not dict:
        faults.wanted("a map", value)
        return value
    return _any(cast("Any", value), faults)


def _list_of(item: Check) -> Check:
    def check(value: Any, faults: Faults) -> Any:
        if type(value) is not list:
            faults.wanted("a list", value)
            return value
        kept: list[Any] = []
        before = len(faults.found)
        for place, one in enumerate(cast("list[Any]", value)):
            kept.append(item(one, faults))
            if len(faults.found) != before:
                faults.inside(f"[{place}]", before)
                before = len(faults.found)
                if faults.full:
                    break
        return kept

    return check


def _shaped(parts: dict[str, tuple[Kind, bool]]) -> Kind:
    def check(value: Any, faults: Faults) -> Any:
        if type(value) is not dict:
            faults.wanted("a map", value)
            return value
        given = cast("Json", value)
        kept: Json = {}
        for name, (kind, optional) in parts.items():
            one = given.get(name)
            before = len(faults.found)
            if one is None and optional:
                if name in given:
                    kept[name] = None
                continue
            if name not in given:
                faults.add("is missing", expected=kind.name)
            else:
                kept[name] = kind.check(one, faults)
            if len(faults.found) != before:
                faults.inside(f".{name}", before)
        if not faults.dropping and not given.keys() <= parts.keys():
            undeclared(given, parts, faults)
        return kept

    schema: Json = {
        "type": "object",
        "properties": {name: kind.schema for name, (kind, _) in parts.items()},
        "required": [name for name, (_, optional) in parts.items() if not optional],
        "additionalProperties": False,
    }
    return Kind("map", check, schema)


def undeclared(given: Json, known: dict[str, Any], faults: Faults) -> None:
    """Note the names of a map that nobody declared."""
    listed = f"Known: {', '.join(list(known)[:12])}" if known else "There are none"
    for name in given:
        if name in known or faults.full:
            continue
        before = len(faults.found)
        if type(cast("object", name)) is not str:
            faults.add(f"has the name {quote(name, longest=40)}, which is no text", hint="Names are text")
        else:
            faults.add("is unknown", expected="a declared name", hint=did_you_mean(name, known, otherwise=listed))
            faults.inside(f".{name[:80]}" if name.isprintable() else f"[{name[:80]!r}]", before)


def _any(value: Any, faults: Faults) -> Any:
    """Note the first part of a value that is nothing JSON has a word for."""
    waiting: list[tuple[str, Any, int]] = [("", value, 0)]
    left = _MOST_VALUES
    before = len(faults.found)
    while waiting and left > 0:
        path, here, depth = waiting.pop()
        left -= 1
        if type(here) is str:
            _writable(here, faults)
        elif type(here) is list or type(here) is dict:
            if depth >= _DEEPEST:
                faults.add(f"is nested more than {_DEEPEST} deep", hint="Flatten it")
            else:
                _look_inside(path, here, depth, waiting, faults)
        elif here is not None and type(here) is not bool:
            _scalar(here, faults)
        if len(faults.found) != before:
            faults.inside(path, before)
            return value
    if waiting:
        faults.add(f"holds more than {_MOST_VALUES:,} values", hint="Give less at once")
    return value


def _scalar(value: Any, faults: Faults) -> None:
    if type(value) is int or type(value) is float:
        _number(value, faults)
    else:
        faults.wanted("a value", value, hint="Make a tuple a list, and a date ISO text")


def _look_inside(path: str, value: Any, depth: int, waiting: list[tuple[str, Any, int]], faults: Faults) -> None:
    """Add what a list or map holds to what waits to be looked at; plain texts need no look."""
    if type(value) is list:
        for place, one in enumerate(cast("list[Any]", value)):
            if not _is_plain(one):
                waiting.append((f"{path}[{place}]", one, depth + 1))
        return
    for name, one in cast("dict[Any, Any]", value).items():
        if type(name) is not str:
            faults.add(f"has the name {quote(name, longest=40)}, which is no text", hint="Names are text")
            return
        _writable(name, faults)
        if not _is_plain(one):
            waiting.append((f"{path}.{name}", one, depth + 1))


def _is_plain(value: Any) -> bool:
    """Say whether a value is certainly well: most are, and need no path to be told about."""
    if type(value) is str:
        return value.isascii() and "\0" not in value
    if type(value) is int:
        return -LARGEST <= value <= LARGEST
    return value is None or type(value) is bool or (type(value) is float and math.isfinite(value))


_PLAIN: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("text", _text, {"type": "string"}),
        Kind("number", _number, {"type": "number"}),
        Kind("integer", _integer, {"type": "integer"}),
        Kind(
            "decimal", _decimal, {"anyOf": [{"type": "number"}, {"type": "string", "pattern": f"^{_DECIMAL.pattern}$"}]}
        ),
        Kind("boolean", _boolean, {"type": "boolean"}),
        Kind(
            "uuid",
            _text_that(is_uuid, "a UUID", "6f1c0b52-5a0e-4c52-9a56-0d6a2f3f7c11"),
            {"type": "string", "format": "uuid"},
        ),
        Kind("date", _text_that(is_day, "a day", "2026-04-30"), {"type": "string", "format": "date"}),
        Kind(
            "datetime",
            _text_that(is_moment, "a moment", "2026-04-30T16:20:00Z"),
            {"type": "string", "format": "date-time"},
        ),
        Kind("list", _list, {"type": "array", "items": {}}),
        Kind("map", _map, {"type": "object"}),
        Kind("any", _any, {}),
        Kind("file", _text, {"type": "string"}),
    )
}
