"""The types of fields: checks of their values, and the JSON schemas that a model is shown.

A message names types and limits and never the value itself: it may be stored where the value must not be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any, TypeAlias, cast

import msgspec

from memoranda.errors import SchemaViolation, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.document import Raw
from memoranda.lang.expression.values import LARGEST, moment
from memoranda.lang.source import Span
from memoranda.mashin.document import Type
from memoranda.mashin.expression.operators import describe_type, type_of
from memoranda.mashin.keywords import TYPES
from memoranda.mashin.lines import closing, comma_at, decode
from memoranda.model.text import choice_fault, list_choices, quote

_MOST_VIOLATIONS = 50
"""Maximum number of violations that are looked for in one value."""
_SHOWN_VIOLATIONS = 10


class Violation(msgspec.Struct, frozen=True):
    """One thing that is wrong with a value: where, what, what was expected, and what to do."""

    path: str
    message: str
    expected: str = ""
    hint: str = ""


class Violations:
    """Collects what is wrong with one value, with paths relative to the part being checked."""

    __slots__ = ("dropping", "found")

    def __init__(self, *, dropping: bool) -> None:
        """Start with none; `dropping` says whether undeclared names are dropped or refused."""
        self.found: list[Violation] = []
        self.dropping = dropping

    def add(self, message: str, *, expected: str = "", hint: str = "") -> None:
        """Note what is wrong with the part being checked."""
        self.found.append(Violation("", message, expected, hint))

    def add_type(self, what: str, value: object, *, hint: str = "") -> None:
        """Note that a value has another type."""
        unknown = f"`{type(value).__name__}`, which is not a JSON value"
        actual = unknown if type_of(value) == "unknown" else describe_type(value)
        self.add(f"needs {what}, not {actual}", expected=what, hint=hint)

    def inside(self, step: str, since: int) -> None:
        """Prefix the paths of all violations after the first `since` with a step."""
        for at in range(since, len(self.found)):
            one = self.found[at]
            self.found[at] = Violation(step + one.path, one.message, one.expected, one.hint)

    @property
    def full(self) -> bool:
        """Whether looking further is not worth it."""
        return len(self.found) >= _MOST_VIOLATIONS

    def error(self, what: str) -> SchemaViolation:
        """Return the error that lists all of them; `what` names the value, such as the input."""
        listed = "; ".join(f"${one.path} {one.message}" for one in self.found[:_SHOWN_VIOLATIONS])
        more = len(self.found) - _SHOWN_VIOLATIONS
        faults = tuple(Violation(f"${one.path}", one.message, one.expected, one.hint) for one in self.found)
        return SchemaViolation(
            f"{what} is refused: {listed}" + (f" (and {more} more)" if more > 0 else ""),
            hint=_best_hint(faults),
            path=faults[0].path,
            expected=faults[0].expected,
            faults=faults,
        )


def _best_hint(violations: tuple[Violation, ...]) -> str:
    """Return the hint of one violation, with its path if there are several; a suggested name comes first."""
    hinted = sorted((one for one in violations if one.hint), key=lambda one: not one.hint.startswith("Did you"))
    if not hinted:
        return ""
    return hinted[0].hint if len(violations) == 1 else f"At {hinted[0].path}: {hinted[0].hint}"


# shapes of maps

_NAME = re.compile(
    r"""\s*(?:(?P<bare>[^\W\d]\w*)|(?P<quoted>"[^"\\\n]*"|'[^'\\\n]*'))\s*+(?P<maybe>\?)?\s*+(?::|as\b)\s*"""
)
_WORD = re.compile(r"[^\W\d]\w*")
_ANYTHING = re.compile(r"\S")
_DEEPEST_SHAPE = 20


class Part(msgspec.Struct, frozen=True):
    """One name of a shape, and whether it may be missing."""

    name: str
    type: Type
    optional: bool


def read_shape(shape: Raw) -> tuple[Part, ...]:
    """Return the parts of a shape `{ name: type, other?: type }`; an error has its place as `.span`."""
    return _Shape(shape, 0).parts()


class _Shape:
    """Reads a shape, brackets included."""

    def __init__(self, raw: Raw, depth: int) -> None:
        self.raw = raw
        self.text = raw.text
        self.depth = depth

    def parts(self) -> tuple[Part, ...]:
        found: dict[str, Part] = {}
        at, end = 1, len(self.text) - 1
        while self._something(at, end):
            stop = min(comma_at(self.text, at), end)
            part, place = self._part(at, stop)
            if part.name in found:
                raise _wrong(f"the shape has the name {quote(part.name)} twice", place, "Keep one of them")
            found[part.name] = part
            at = stop + 1
        return tuple(found.values())

    def _part(self, at: int, end: int) -> tuple[Part, Span]:
        found = _NAME.match(self.text, at, end)
        if found is None:
            shown = self.text[at:end].strip()
            hint = "Write it as `{ name: type }`; `name?` may be missing"
            raise _wrong(f"{quote(shown, longest=40)} is not a part of a shape", self._span(at, end), hint)
        name = found["bare"] or found["quoted"][1:-1]
        place = self.raw.excerpt.locate(*found.span("bare" if found["bare"] else "quoted"))
        return Part(name, self._type(found.end(), end), found["maybe"] is not None), place

    def _type(self, at: int, end: int) -> Type:
        """Read the type between two offsets."""
        text = self.text[at:end].rstrip()
        at, end = at + len(text) - len(text.lstrip()), at + len(text)
        span = self._span(at, end)
        if self.depth > _DEEPEST_SHAPE:
            raise _wrong("the shape is nested too deeply", span, "Use a map without a shape further inside")
        if self.text.startswith("{", at):
            return Type(name="map", shape=self._brackets(at, end), span=span)
        found = _WORD.match(self.text, at, end)
        if found is None:
            raise _wrong("a type is missing in the shape", span, "Write it as `{ name: type }`")
        word, rest = found[0], found.end()
        while rest < end and self.text[rest].isspace():
            rest += 1
        if rest == end:
            return Type(name=word, span=span)
        if word == "list":
            return Type(name=word, item=self._item(rest, end), span=span)
        if word in ("map", "object") and self.text[rest] == "{":
            return Type(name=word, shape=self._brackets(rest, end), span=span)
        if word == "enum" and self.text[rest] == "(":
            return Type(name=word, choices=self._choices(rest, end), span=span)
        raise _wrong(f"{quote(self.text[rest:end])} cannot follow {quote(word)}", self._span(rest, end), "Remove it")

    def _item(self, at: int, end: int) -> Type:
        inner = _Shape(self.raw, self.depth + 1)
        if self.text[at] == "(" and closing(self.text, at) == end:
            return inner._type(at + 1, end - 1)
        of = _WORD.match(self.text, at, end)
        if of is None or of[0] != "of":
            shown = quote(self.text[at:end], longest=40)
            raise _wrong(f"{shown} cannot follow `list`", self._span(at, end), "Write it as `list of text`")
        return inner._type(of.end(), end)

    def _brackets(self, at: int, end: int) -> Raw:
        """Return a nested shape after reading it, so that its errors are found now."""
        if closing(self.text, at) != end:
            raise _wrong("the shape does not end with its bracket", self._span(at, end), "Remove what follows it")
        there = [(here - at, source) for here, source in self.raw.runs if at < here < end]
        runs = ((0, self.raw.excerpt.origin(at)), *there)
        inner = Raw(self.text[at:end], runs=runs, span=self._span(at, end))
        _Shape(inner, self.depth + 1).parts()
        return inner

    def _choices(self, at: int, end: int) -> tuple[Raw, ...]:
        found: list[Raw] = []
        if closing(self.text, at) != end:
            raise _wrong("the choices do not end with their bracket", self._span(at, end), "Remove what follows it")
        at, end = at + 1, end - 1
        while self._something(at, end):
            stop = min(comma_at(self.text, at), end)
            written = self.text[at:stop].strip()
            if len(written) < 2 or written[0] not in "\"'" or closing(written, 0) != len(written):
                shown = quote(written, longest=40)
                raise _wrong(f"{shown} is not a choice in quotes", self._span(at, stop), 'Write it as `enum("a", "b")`')
            found.append(Raw(decode(written), literal=True, span=self._span(at, stop)))
            at = stop + 1
        return tuple(found)

    def _something(self, at: int, end: int) -> bool:
        """Return whether there is anything but space between two offsets."""
        return _ANYTHING.search(self.text, at, end) is not None

    def _span(self, start: int, end: int) -> Span:
        return self.raw.excerpt.locate(start, end)


def _wrong(message: str, span: Span, hint: str) -> UsageError:
    return UsageError(message, hint=hint, span=span)


# types

Check: TypeAlias = Callable[[Any, Violations], Any]
"""Returns the value to store and adds violations; with violations, the returned value does not count."""

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
    """Return the canonical name of a type."""
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
        return _map_kind(parts) if parts else _PLAIN["map"]
    return _PLAIN[name]


# texts


def _text(value: Any, violations: Violations) -> Any:
    if type(value) is str and value.isascii() and "\0" not in value:
        return value
    return _any_text(value, violations)


def _any_text(value: Any, violations: Violations) -> Any:
    if type(value) is not str:
        violations.add_type("text", value)
    else:
        _writable(value, violations)
    return cast("Any", value)


def _writable(text: str, violations: Violations) -> None:
    """Note characters that no store and no model accepts."""
    if "\0" in text:
        violations.add("contains a NUL character", hint="Remove it")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        violations.add("contains half of a surrogate pair", hint="Decode the text properly")


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID as in RFC 9562."""
    return _UUID.fullmatch(text) is not None


def is_day(text: str) -> bool:
    """Return whether a text is a date in ISO 8601."""
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_moment(text: str) -> bool:
    """Return whether a text is a date and a time in ISO 8601, with or without a time zone."""
    return len(text) > len("2026-04-30") and moment(text) is not None


def _text_that(fits: Callable[[str], bool], what: str, example: str) -> Check:
    def check(value: Any, violations: Violations) -> Any:
        if type(value) is not str:
            violations.add_type(what, value, hint=f"Write it as text, such as {example}")
        elif not fits(value):
            violations.add(f"is not {what}", expected=what, hint=f"Write it as {example}")
        return value

    return check


def _enum(choices: tuple[str, ...]) -> Kind:
    known, expected = frozenset(choices), f"one of {list_choices(choices)}"

    def check(value: Any, violations: Violations) -> Any:
        if type(value) is not str:
            violations.add_type(expected, value)
        elif value not in known:
            violations.add(choice_fault(value, choices), expected=expected)
        return value

    return Kind("enum", check, {"type": "string", "enum": list(choices)})


# numbers


def _number(value: Any, violations: Violations) -> Any:
    if type(value) is int:
        if not -LARGEST <= value <= LARGEST:
            violations.add("does not fit in 64 bits", expected="a number", hint="Give it as text")
    elif type(value) is not float:
        violations.add_type("a number", value)
    elif not math.isfinite(value):
        violations.add("is not a finite number", expected="a number", hint="Give null, or leave it out")
    return value


def _integer(value: Any, violations: Violations) -> Any:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int:
        return _number(value, violations)
    if type(value) is float:
        violations.add("is not a whole number", expected="a whole number")
    else:
        violations.add_type("a whole number", value)
    return value


def is_decimal(text: str) -> bool:
    """Return whether a text is a decimal number."""
    return _DECIMAL.fullmatch(text) is not None


def _decimal(value: Any, violations: Violations) -> Any:
    if type(value) is str:
        if not is_decimal(value):
            violations.add(
                "is not a number written as text", expected="a decimal number", hint='Such as 19.9 or "19.90"'
            )
        return value
    if type(value) is int or type(value) is float:
        return _number(value, violations)
    violations.add_type("a decimal number", value)
    return value


def _boolean(value: Any, violations: Violations) -> Any:
    if type(value) is not bool:
        violations.add_type("true or false", value)
    return value


# lists and maps


def _json_of(kind: type[Any], what: str) -> Check:
    def check(value: Any, violations: Violations) -> Any:
        if type(value) is kind:
            return _any(value, violations)
        violations.add_type(what, value)
        return value

    return check


def _list_of(item: Check) -> Check:
    def check(value: Any, violations: Violations) -> Any:
        if type(value) is not list:
            violations.add_type("a list", value)
            return value
        kept: list[Any] = []
        before = len(violations.found)
        for place, one in enumerate(cast("list[Any]", value)):
            kept.append(item(one, violations))
            if len(violations.found) != before:
                violations.inside(f"[{place}]", before)
                before = len(violations.found)
                if violations.full:
                    break
        return kept

    return check


def _map_kind(parts: dict[str, tuple[Kind, bool]]) -> Kind:
    def check(value: Any, violations: Violations) -> Any:
        if type(value) is not dict:
            violations.add_type("a map", value)
            return value
        given = cast("Json", value)
        kept: Json = {}
        for name, (kind, optional) in parts.items():
            one = given.get(name)
            before = len(violations.found)
            if one is None and optional:
                if name in given:
                    kept[name] = None
                continue
            if name not in given:
                violations.add("is missing", expected=kind.name)
            else:
                kept[name] = kind.check(one, violations)
            if len(violations.found) != before:
                violations.inside(f".{name}", before)
        if not violations.dropping and not given.keys() <= parts.keys():
            add_undeclared(given, parts, violations)
        return kept

    schema: Json = {
        "type": "object",
        "properties": {name: kind.schema for name, (kind, _) in parts.items()},
        "required": [name for name, (_, optional) in parts.items() if not optional],
        "additionalProperties": False,
    }
    return Kind("map", check, schema)


def add_undeclared(given: Json, known: dict[str, Any], violations: Violations) -> None:
    """Note the undeclared names of a map."""
    listed = f"Known: {', '.join(list(known)[:12])}" if known else "There are none"
    for name in given:
        if name in known or violations.full:
            continue
        before = len(violations.found)
        if type(cast("object", name)) is not str:
            violations.add(f"has the name {quote(name, longest=40)}, which is not text", hint="Names are text")
        else:
            violations.add("is unknown", expected="a declared name", hint=did_you_mean(name, known, otherwise=listed))
            violations.inside(f".{name[:80]}" if name.isprintable() else f"[{name[:80]!r}]", before)


def _any(value: Any, violations: Violations) -> Any:
    """Note the first part of a value that is not JSON."""
    waiting: list[tuple[str, Any, int]] = [("", value, 0)]
    left = _MOST_VALUES
    before = len(violations.found)
    while waiting and left > 0:
        path, here, depth = waiting.pop()
        left -= 1
        if type(here) is str:
            _writable(here, violations)
        elif type(here) is list or type(here) is dict:
            if depth >= _DEEPEST:
                violations.add(f"is nested more than {_DEEPEST} deep", hint="Flatten it")
            else:
                _look_inside(path, here, depth, waiting, violations)
        elif here is not None and type(here) is not bool:
            _scalar(here, violations)
        if len(violations.found) != before:
            violations.inside(path, before)
            return value
    if waiting:
        violations.add(f"contains more than {_MOST_VALUES:,} values", hint="Give less at once")
    return value


def _scalar(value: Any, violations: Violations) -> None:
    if type(value) is int or type(value) is float:
        _number(value, violations)
    else:
        violations.add_type("a value", value, hint="Make a tuple a list, and a date ISO text")


def _look_inside(
    path: str, value: Any, depth: int, waiting: list[tuple[str, Any, int]], violations: Violations
) -> None:
    """Queue the items of a list or map, except those that are certainly valid."""
    if type(value) is list:
        for place, one in enumerate(cast("list[Any]", value)):
            if not _is_plain(one):
                waiting.append((f"{path}[{place}]", one, depth + 1))
        return
    for name, one in cast("dict[Any, Any]", value).items():
        if type(name) is not str:
            violations.add(f"has the name {quote(name, longest=40)}, which is not text", hint="Names are text")
            return
        _writable(name, violations)
        if not _is_plain(one):
            waiting.append((f"{path}.{name}", one, depth + 1))


def _is_plain(value: Any) -> bool:
    """Return whether a value is certainly valid, as most are: they need no path for messages."""
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
        Kind("list", _json_of(list, "a list"), {"type": "array", "items": {}}),
        Kind("map", _json_of(dict, "a map"), {"type": "object"}),
        Kind("any", _any, {}),
        Kind("file", _text, {"type": "string"}),
    )
}
