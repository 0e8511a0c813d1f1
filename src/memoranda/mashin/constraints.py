"""What is said of a field beyond its type (`min`, `pattern`, `choices`…) in; tests of its values out.

The value of a constraint is an expression that needs nothing of a run, so it is worth something once, when the machine
is checked and when it is compiled. `pattern` searches: `^` and `$` tie it to the ends of the text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias, cast

import msgspec

from memoranda.errors import EvaluationFailed, LimitExceeded, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.expression.nodes import Call, Node
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.mashin.document import Config
from memoranda.mashin.expression.programs import expression
from memoranda.mashin.expression.semantics import equal, is_number
from memoranda.mashin.types import Json, is_day, is_decimal, is_moment, is_uuid
from memoranda.model.text import quote

Test: TypeAlias = Callable[[Any], str | None]
"""A value of the right type in, what is wrong with it out; None where nothing is, or where the test is not about it."""

NUMBERS = frozenset({"number", "integer", "decimal"})


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """A word after a field: the types it is about, the value it needs, its test, and how a JSON schema says it."""

    types: frozenset[str] = frozenset()
    """None of them: it is about every type."""
    about: str = ""
    fits: Callable[[Any], bool]
    wanted: str
    test: Callable[[Any], Test]
    schema: Callable[[Any, str], Json]
    """The constraint's value and the name of the field's type in; what it adds to the schema out."""


def constraint_value(config: Config, node: Node) -> Any:
    """Return what a constraint asks for; raise a UsageError where it is not what the constraint needs."""
    key = config.key.text
    rule = CONSTRAINTS[key]
    try:
        value = _ends(node) if key == "range" else expression(node).value({})
    except (EvaluationFailed, LimitExceeded) as fault:
        raise UsageError(f"`{key}` has no value before the machine runs: {fault.message}", hint=fault.hint) from None
    if not rule.fits(value):
        shown = quote(config.value.text, longest=40)
        raise UsageError(f"`{key}` needs {rule.wanted}, not {shown}", hint=f"Write it as `{key}: …`")
    if key == "pattern":
        compile_pattern(value)
    elif key == "format" and value not in FORMATS:
        hint = did_you_mean(value, FORMATS, otherwise=f"Formats are {', '.join(FORMATS)}")
        raise UsageError(f"{quote(value, longest=40)} is no format", hint=hint)
    return value


def _ends(node: Node) -> Any:
    """Return the ends of a range: `0..1` stands for all numbers between them, where an expression counts."""
    if isinstance(node, Call) and node.function == "..":
        return [expression(part).value({}) for part in node.arguments]
    return expression(node).value({})


# numbers


def _least(limit: Any) -> Test:
    below = _compared_with(limit, operator.lt)
    return lambda value: f"is less than {limit}" if below(value) else None


def _most(limit: Any) -> Test:
    above = _compared_with(limit, operator.gt)
    return lambda value: f"is more than {limit}" if above(value) else None


def _compared_with(limit: int | float, compare: Callable[[Any, Any], bool]) -> Callable[[Any], bool]:
    """Return a comparison with a limit that does not hold for anything but numbers and decimals written as text."""
    # Digit by digit, so that "0.1" is not less than 0.1, which no float is exactly.
    exact = Decimal(repr(limit))

    def compared(value: Any) -> bool:
        if type(value) is int or type(value) is float:
            return compare(value, limit)
        return type(value) is str and is_decimal(value) and compare(Decimal(value), exact)

    return compared


def _between(ends: Any) -> Test:
    least, most = _least(ends[0]), _most(ends[1])
    return lambda value: f"is not from {ends[0]} to {ends[1]}" if least(value) or most(value) else None


def _is_range(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    ends = cast("list[Any]", value)
    return len(ends) == 2 and all(map(is_number, ends)) and ends[0] <= ends[1]


# lengths


def _counted(value: Any) -> tuple[int, str] | None:
    if type(value) is str:
        return len(value), "characters"
    return (len(cast("list[Any]", value)), "items") if type(value) is list else None


def _shortest(limit: Any) -> Test:
    def test(value: Any) -> str | None:
        counted = _counted(value)
        return f"has {counted[0]} {counted[1]}, the least is {limit}" if counted and counted[0] < limit else None

    return test


def _longest(limit: Any) -> Test:
    def test(value: Any) -> str | None:
        counted = _counted(value)
        return f"has {counted[0]} {counted[1]}, the most is {limit}" if counted and counted[0] > limit else None

    return test


def _is_length(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _length(bound: str) -> Callable[[Any, str], Json]:
    return lambda value, type_: {f"{bound}{'Items' if type_ == 'list' else 'Length'}": int(value)}


# texts


def _pattern(text: Any) -> Test:
    pattern = compile_pattern(text)

    def test(value: Any) -> str | None:
        if type(value) is not str or pattern.search(value) is not None:
            return None
        return f"does not match the pattern {quote(text)}"

    return test


def _pattern_schema(text: Any, _type: str) -> Json:
    """Return the pattern for a schema, unless only RE2 understands it."""
    import jsonschema_rs  # here, because its import takes a while and most machines have no pattern

    try:
        jsonschema_rs.validator_for({"pattern": text})
    except (jsonschema_rs.ValidationError, ValueError):
        return {"description": f"Matches the regular expression {text}"}
    return {"pattern": text}


def _is_url(text: str) -> bool:
    return "://" in text and _known_format("uri")(text)


@lru_cache
def _known_format(name: str) -> Callable[[str], bool]:
    """Return the test of a format that JSON schema defines."""
    import jsonschema_rs  # here, because its import takes a while and most machines have no format

    found: Callable[[str], bool] = jsonschema_rs.validator_for({"format": name}, validate_formats=True).is_valid
    return found


_JSON_FORMATS = (
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
    "time",
    "duration",
)
_OWN_FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "url": (_is_url, "uri"),
    "uuid": (is_uuid, "uuid"),
    "date": (is_day, "date"),
    "datetime": (is_moment, "date-time"),
    "date-time": (is_moment, "date-time"),
}
FORMATS: tuple[str, ...] = (*_OWN_FORMATS, *_JSON_FORMATS)
"""What `format` may name: the formats of JSON schema, and `url`."""


def _format(name: Any) -> Test:
    fits = _OWN_FORMATS[name][0] if name in _OWN_FORMATS else _known_format(name)

    def test(value: Any) -> str | None:
        return f"is not of the format {name}" if type(value) is str and not fits(value) else None

    return test


def _format_schema(name: Any, _type: str) -> Json:
    return {"format": _OWN_FORMATS[name][1] if name in _OWN_FORMATS else name}


# choices


def _among(choices: list[Any]) -> Callable[[Any], bool]:
    """Return a test for being equal to one of some values, without any coercion."""
    texts = frozenset(choice for choice in choices if type(choice) is str)
    others = [choice for choice in choices if type(choice) is not str]
    return lambda value: value in texts if type(value) is str else any(equal(value, one) for one in others)


def _listed(choices: list[Any]) -> str:
    return ", ".join(quote(choice, longest=40) for choice in choices[:20])


def _choices(choices: Any) -> Test:
    among = _among(choices)
    return lambda value: None if among(value) else f"is none of {_listed(choices)}"


def _subset(choices: Any) -> Test:
    among = _among(choices)

    def test(value: Any) -> str | None:
        if type(value) is not list:
            return None
        other = next((at for at, one in enumerate(cast("list[Any]", value)) if not among(one)), None)
        return None if other is None else f"holds at [{other}] what is none of {_listed(choices)}"

    return test


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_TEXT, _LIST, _LENGTHS = frozenset({"text"}), frozenset({"list"}), frozenset({"text", "list"})

CONSTRAINTS: dict[str, Constraint] = {
    "min": Constraint(
        types=NUMBERS,
        about="numbers",
        fits=is_number,
        wanted="a number",
        test=_least,
        schema=lambda value, _: {"minimum": value},
    ),
    "max": Constraint(
        types=NUMBERS,
        about="numbers",
        fits=is_number,
        wanted="a number",
        test=_most,
        schema=lambda value, _: {"maximum": value},
    ),
    "range": Constraint(
        types=NUMBERS,
        about="numbers",
        fits=_is_range,
        wanted="the least and the greatest number, as `0..1` or `[0, 1]`",
        test=_between,
        schema=lambda ends, _: {"minimum": ends[0], "maximum": ends[1]},
    ),
    "min_length": Constraint(
        types=_LENGTHS,
        about="texts and lists",
        fits=_is_length,
        wanted="a whole number from 0 on",
        test=_shortest,
        schema=_length("min"),
    ),
    "max_length": Constraint(
        types=_LENGTHS,
        about="texts and lists",
        fits=_is_length,
        wanted="a whole number from 0 on",
        test=_longest,
        schema=_length("max"),
    ),
    "format": Constraint(
        types=_TEXT, about="texts", fits=_is_text, wanted="a text", test=_format, schema=_format_schema
    ),
    "pattern": Constraint(
        types=_TEXT, about="texts", fits=_is_text, wanted="a text", test=_pattern, schema=_pattern_schema
    ),
    "choices": Constraint(
        fits=_is_list, wanted="a list", test=_choices, schema=lambda choices, _: {"enum": list(choices)}
    ),
    "subset": Constraint(
        types=_LIST,
        about="lists",
        fits=_is_list,
        wanted="a list",
        test=_subset,
        schema=lambda choices, _: {"items": {"enum": list(choices)}},
    ),
}
"""Every constraint by its word."""
