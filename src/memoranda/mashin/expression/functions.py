"""The functions of mashin expressions, in a namespace (`Math.max`) or global (`now`).

None of them uses a file, a socket or a memory. What cannot be computed (the time, a random number, a new id) is drawn
from the run, which records it, so that a replay gets it again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from memoranda.lang.expression.dialect import (
    ExpressionRun,
    Function,
    evaluation_error,
    exceeded,
    new_uuid,
    random_float,
)
from memoranda.lang.expression.values import format_date, format_money, moment, moment_text, to_text
from memoranda.mashin.expression.methods import fields, function, items, place_of, text, unique
from memoranda.mashin.expression.operators import (
    BINARY,
    describe_type,
    fit_number,
    in_digits,
    is_number,
    number,
    text_of,
    truthy,
    whole,
)
from memoranda.model.clock import EPOCH
from memoranda.model.text import quote

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_UNITS = {"milliseconds": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_UNITS["weeks"] = 7 * _UNITS["days"]
_LONGEST_NUMBER = 400
_MOST_DIGITS = 15

CONSTANTS: Mapping[str, float] = {"Math.PI": math.pi, "Math.E": math.e}
"""Constants in a namespace."""


# Global functions


def now(run: ExpressionRun) -> str:
    """Return the current time as ISO 8601 text in UTC, to the millisecond."""
    return run.draw("now", lambda: moment_text(run.clock.now()))


def to_number(value: Any) -> int | float | None:
    """Return the number in a text, 1 and 0 for true and false; null for anything else."""
    if type(value) is bool:
        return int(value)
    if is_number(value):
        return value
    if type(value) is not str or len(value) > _LONGEST_NUMBER or not _NUMBER.fullmatch(value.strip()):
        return None
    return fit_number(float(value), "Number")


def span_of(run: ExpressionRun, first: Any, last: Any, by: Any = 1) -> list[int | float]:
    """Return the numbers from one to another, both included; empty if the step has the wrong sign."""
    start, end, step = number(first, "`..`"), number(last, "`..`"), number(by, "`by`")
    if step == 0:
        raise evaluation_error("`by` cannot be 0", "Count up or down")
    # With a tolerance, or steps of 0.1 would not reach 0.3.
    steps = (end - start) / step + 1e-9
    if steps >= run.bounds.items:
        raise exceeded("a list", run.bounds.items)
    count = math.floor(steps) + 1 if steps >= 0 else 0
    return [fit_number(start + place * step, "`..`") for place in range(count)]


# Math


def _of_number(name: str, compute: Callable[[Any], int | float]) -> Function:
    def call(value: Any) -> int | float:
        known = number(value, name)
        try:
            return fit_number(compute(known), name)
        except (ValueError, OverflowError):
            raise evaluation_error(f"{name} has no result for {to_text(known)}") from None

    return Function(name, call, 1, 1)


def _half_up(value: int | float) -> int:
    below = math.floor(value)
    return below + (value - below >= 0.5)


def round_number(value: Any, digits: Any = 0) -> int | float:
    """Round to a whole number, halves up, or in decimal to some digits: 2.675 to two is 2.68."""
    known, places = number(value, "Math.round"), whole(digits, "Math.round")
    if places == 0:
        return fit_number(_half_up(known), "Math.round")
    places = max(-_MOST_DIGITS, min(_MOST_DIGITS, places))
    return fit_number(float(in_digits(known, places)), "Math.round")


def _numbers(values: tuple[Any, ...], name: str) -> list[int | float]:
    given = items(values[0], name) if len(values) == 1 and type(values[0]) is list else values
    return [number(value, name) for value in given]


def _least(*values: Any) -> int | float | None:
    return min(_numbers(values, "Math.min"), default=None)


def _most(*values: Any) -> int | float | None:
    return max(_numbers(values, "Math.max"), default=None)


def _sum(*values: Any) -> int | float:
    return fit_number(sum(_numbers(values, "Math.sum")), "Math.sum")


def _clamp(value: Any, low: Any, high: Any) -> int | float:
    known, least, most = (number(each, "Math.clamp") for each in (value, low, high))
    return max(least, min(most, known))


# DateTime


def _moment(value: Any, name: str) -> datetime:
    known = moment(value)
    if known is None:
        shown_value = quote(value) if type(value) is str else describe_type(value)
        raise evaluation_error(
            f"{name} needs a moment, not {shown_value}", "Write it as ISO 8601, such as 2026-04-30T16:20:00Z"
        )
    return known


def _unit(unit: Any, name: str) -> int:
    written = text(unit, name)
    known = _UNITS.get(written) or _UNITS.get(f"{written}s")
    if known is None:
        raise evaluation_error(f"{quote(written)} is not a unit of time", f"Units are {', '.join(_UNITS)}")
    return known


def _add_time(value: Any, amount: Any, unit: Any) -> str:
    when = _moment(value, "DateTime.add")
    try:
        return moment_text(when + timedelta(milliseconds=number(amount, "DateTime.add") * _unit(unit, "DateTime.add")))
    except OverflowError:
        raise evaluation_error("DateTime.add leads beyond the calendar") from None


def _time_between(late: Any, early: Any, unit: Any = "milliseconds") -> int | float:
    between = _moment(late, "DateTime.diff") - _moment(early, "DateTime.diff")
    return fit_number(between / timedelta(milliseconds=_unit(unit, "DateTime.diff")), "DateTime.diff")


def _format_time(value: Any, shape: Any = "YYYY-MM-DD") -> str:
    return format_date(_moment(value, "DateTime.format"), text(shape, "DateTime.format"))


def _from_timestamp(value: Any) -> str:
    try:
        return moment_text(EPOCH.astimezone(UTC) + timedelta(milliseconds=number(value, "DateTime.fromTimestamp")))
    except OverflowError:
        raise evaluation_error("DateTime.fromTimestamp leads beyond the calendar") from None


# JSON, Object and Set


def _parse_json(value: Any) -> Any:
    try:
        return msgspec.json.decode(text(value, "JSON.parse").encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as fault:
        raise evaluation_error(f"JSON.parse cannot read the text: {fault}", "Give it JSON") from None


def _from_entries(pairs: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for pair in items(pairs, "Object.fromEntries"):
        both = items(pair, "Object.fromEntries")
        if len(both) != 2:
            raise evaluation_error("Object.fromEntries needs pairs of a name and a value")
        made[text_of(both[0])] = both[1]
    return made


def _merge(*values: Any) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for value in values:
        merged.update(fields(value, "Object.merge") if value is not None else {})
    return merged


def _pick(value: Any, names: Any) -> dict[str, Any]:
    known = fields(value, "Object.pick")
    wanted = [text(name, "Object.pick") for name in items(names, "Object.pick")]
    return {name: known[name] for name in wanted if name in known}


def _omit(value: Any, names: Any) -> dict[str, Any]:
    gone = {text(name, "Object.omit") for name in items(names, "Object.omit")}
    return {name: item for name, item in fields(value, "Object.omit").items() if name not in gone}


def _among(run: ExpressionRun, one: list[Any], two: list[Any], *, held: bool) -> list[Any]:
    kept: list[Any] = []
    for item in unique(run, one):
        run.step(1 + len(two) // 64)
        if (place_of(two, item) >= 0) is held:
            kept.append(item)
    return kept


def _union(run: ExpressionRun, *lists: Any) -> list[Any]:
    return unique(run, [item for each in lists for item in items(each, "Set.union")])


def _intersection(run: ExpressionRun, one: Any, two: Any) -> list[Any]:
    return _among(run, items(one, "Set.intersection"), items(two, "Set.intersection"), held=True)


def _difference(run: ExpressionRun, one: Any, two: Any) -> list[Any]:
    return _among(run, items(one, "Set.difference"), items(two, "Set.difference"), held=False)


# Intl, Result, Option and form


def _format_number(value: Any, digits: Any = None) -> str:
    known = number(value, "Intl.formatNumber")
    if digits is None:
        return f"{Decimal(repr(known)):,f}"
    places = max(0, min(_MOST_DIGITS, whole(digits, "Intl.formatNumber")))
    return f"{in_digits(known, places):,f}"


def _format_currency(value: Any, code: Any = "USD", locale: Any = "en-US") -> str:
    name = "Intl.formatCurrency"
    return format_money(number(value, name), text(code, name), text(locale, name))


def _unpack(value: Any, mark: str, name: str) -> tuple[bool, dict[str, Any]]:
    held = fields(value, name)
    if type(held.get(mark)) is not bool:
        raise evaluation_error(f"{name} needs what `{name.partition('.')[0]}` made")
    return held[mark], held


def _unwrap(mark: str, name: str) -> Callable[[Any], Any]:
    def unwrap(value: Any) -> Any:
        there, held = _unpack(value, mark, name)
        if not there:
            reason = held.get("error")
            raise evaluation_error(
                f"{name} found no value{'' if reason is None else ': ' + text_of(reason)}", "Ask before, or `unwrapOr`"
            )
        return held.get("value")

    return unwrap


def _unwrap_or(mark: str, name: str) -> Callable[[Any, Any], Any]:
    def unwrap(value: Any, otherwise: Any) -> Any:
        there, held = _unpack(value, mark, name)
        return held.get("value") if there else otherwise

    return unwrap


def _map_value(mark: str, name: str) -> Callable[[ExpressionRun, Any, Any], Any]:
    def change(run: ExpressionRun, value: Any, how: Any) -> Any:
        call = function(how, name)
        there, held = _unpack(value, mark, name)
        return {mark: True, "value": call(run, held.get("value"))} if there else value

    return change


def _encode_form(value: Any) -> str:
    return urlencode(
        [(name, text_of(item).encode("utf-8", "replace")) for name, item in fields(value, "form.encode").items()]
    )


def _decode_form(run: ExpressionRun, value: Any) -> dict[str, Any]:
    try:
        return dict(parse_qsl(text(value, "form.decode"), keep_blank_values=True, max_num_fields=run.bounds.items))
    except ValueError:
        raise evaluation_error("form.decode cannot read the text") from None


def _table(*functions: Function) -> Mapping[str, Function]:
    return {function.name: function for function in functions}


def _one(name: str, call: Callable[[Any], Any]) -> Function:
    return Function(name, call, 1, 1)


def _two(name: str, call: Callable[[Any, Any], Any]) -> Function:
    return Function(name, call, 2, 2)


def _with_run(name: str, call: Callable[[ExpressionRun, Any], Any]) -> Function:
    return Function(name, call, 1, 1, uses_run=True)


def _ok(value: Any = None) -> dict[str, Any]:
    return {"ok": True, "value": value}


FUNCTIONS: Mapping[str, Function] = _table(
    Function("now", now, 0, 0, uses_run=True),
    Function("String", text_of, 1, 1),
    Function("Number", to_number, 1, 1),
    Function("Boolean", truthy, 1, 1),
    Function("..", span_of, 2, 3, uses_run=True),
    _of_number("Math.abs", abs),
    _of_number("Math.ceil", math.ceil),
    _of_number("Math.floor", math.floor),
    _of_number("Math.trunc", math.trunc),
    _of_number("Math.sign", lambda value: (value > 0) - (value < 0)),
    _of_number("Math.sqrt", math.sqrt),
    _of_number("Math.exp", math.exp),
    _of_number("Math.log", math.log),
    _of_number("Math.log2", math.log2),
    _of_number("Math.log10", math.log10),
    Function("Math.round", round_number, 1, 2),
    Function("Math.pow", BINARY["**"], 2, 2),
    Function("Math.min", _least, 0, None),
    Function("Math.max", _most, 0, None),
    Function("Math.sum", _sum, 0, None),
    Function("Math.clamp", _clamp, 3, 3),
    Function("Math.random", random_float, 0, 0, uses_run=True),
    Function("DateTime.now", now, 0, 0, uses_run=True),
    _one("DateTime.parse", lambda value: moment_text(_moment(value, "DateTime.parse"))),
    _one("DateTime.isValid", lambda value: moment(value) is not None),
    Function("DateTime.format", _format_time, 1, 2),
    Function("DateTime.add", _add_time, 3, 3),
    Function("DateTime.diff", _time_between, 2, 3),
    _two("DateTime.isBefore", lambda one, two: _moment(one, "DateTime.isBefore") < _moment(two, "DateTime.isBefore")),
    _two("DateTime.isAfter", lambda one, two: _moment(one, "DateTime.isAfter") > _moment(two, "DateTime.isAfter")),
    _one("DateTime.timestamp", lambda value: _time_between(value, "1970-01-01")),
    Function("DateTime.fromTimestamp", _from_timestamp, 1, 1),
    Function("JSON.parse", _parse_json, 1, 1),
    # In a list a text has its quotes, and null is `null`.
    _one("JSON.stringify", lambda value: to_text([value])[1:-1]),
    _one("Object.keys", lambda value: list(fields(value, "Object.keys"))),
    _one("Object.values", lambda value: list(fields(value, "Object.values").values())),
    _one("Object.entries", lambda value: [[name, item] for name, item in fields(value, "Object.entries").items()]),
    Function("Object.fromEntries", _from_entries, 1, 1),
    Function("Object.merge", _merge, 1, None),
    Function("Object.assign", _merge, 1, None),
    _two("Object.has", lambda value, name: text(name, "Object.has") in fields(value, "Object.has")),
    Function("Object.pick", _pick, 2, 2),
    Function("Object.omit", _omit, 2, 2),
    _with_run("Set.of", lambda run, value: unique(run, items(value, "Set.of"))),
    _two("Set.has", lambda value, item: place_of(items(value, "Set.has"), item) >= 0),
    _with_run("Set.size", lambda run, value: len(unique(run, items(value, "Set.size")))),
    Function("Set.union", _union, 1, None, uses_run=True),
    Function("Set.intersection", _intersection, 2, 2, uses_run=True),
    Function("Set.difference", _difference, 2, 2, uses_run=True),
    Function("UUID.generate", new_uuid, 0, 0, uses_run=True),
    _one("UUID.isValid", lambda value: type(value) is str and _UUID.fullmatch(value) is not None),
    Function("Intl.formatNumber", _format_number, 1, 2),
    Function("Intl.formatCurrency", _format_currency, 1, 3),
    Function("Intl.formatDate", _format_time, 1, 2),
    Function("Result.ok", _ok, 0, 1),
    _one("Result.error", lambda reason: {"ok": False, "error": reason}),
    _one("Result.isOk", lambda value: _unpack(value, "ok", "Result.isOk")[0]),
    _one("Result.isError", lambda value: not _unpack(value, "ok", "Result.isError")[0]),
    Function("Result.unwrap", _unwrap("ok", "Result.unwrap"), 1, 1),
    Function("Result.unwrapOr", _unwrap_or("ok", "Result.unwrapOr"), 2, 2),
    Function("Result.map", _map_value("ok", "Result.map"), 2, 2, uses_run=True),
    _one("Option.some", lambda value: {"some": True, "value": value}),
    Function("Option.none", lambda: {"some": False}, 0, 0),
    _one("Option.of", lambda value: {"some": False} if value is None else {"some": True, "value": value}),
    _one("Option.isSome", lambda value: _unpack(value, "some", "Option.isSome")[0]),
    _one("Option.isNone", lambda value: not _unpack(value, "some", "Option.isNone")[0]),
    Function("Option.unwrap", _unwrap("some", "Option.unwrap"), 1, 1),
    Function("Option.unwrapOr", _unwrap_or("some", "Option.unwrapOr"), 2, 2),
    Function("Option.map", _map_value("some", "Option.map"), 2, 2, uses_run=True),
    Function("String.from", text_of, 1, 1),
    _one("String.length", lambda value: len(text(value, "String.length"))),
    _one("String.isEmpty", lambda value: value is None or text(value, "String.isEmpty").strip() == ""),
    Function("form.encode", _encode_form, 1, 1),
    Function("form.decode", _decode_form, 1, 1, uses_run=True),
)
"""All functions by name; `..` is the range."""

NAMESPACES: Mapping[str, tuple[str, ...]] = {
    space: tuple(name.partition(".")[2] for name in (*FUNCTIONS, *CONSTANTS) if name.startswith(f"{space}."))
    for space in ("Math", "DateTime", "JSON", "Object", "Set", "UUID", "Intl", "Result", "Option", "String", "form")
}
"""The names in each namespace."""

GLOBALS: tuple[str, ...] = tuple(name for name in FUNCTIONS if "." not in name)
"""The global functions."""
