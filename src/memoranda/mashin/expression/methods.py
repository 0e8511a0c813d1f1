"""The methods of lists, texts, maps and numbers in mashin expressions.

No method changes its value. The type of the value decides what a method does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cmp_to_key
from typing import Any, cast

import msgspec

from memoranda.lang.expression.compiler import Arrow
from memoranda.lang.expression.dialect import ExpressionRun, evaluation_error, exceeded
from memoranda.lang.expression.values import join_texts, padding, repeat_text, replace_text
from memoranda.mashin.expression.operators import (
    describe_type,
    equal,
    fit_number,
    in_digits,
    is_number,
    number,
    text_of,
    truthy,
    type_of,
    whole,
)

_LONGEST = 10**9
_MOST_DIGITS = 15


class Method(msgspec.Struct, frozen=True):
    """A method: its name, its number of arguments, and its implementation for each type."""

    name: str
    least: int
    most: int | None
    on: Mapping[type, Callable[..., Any]]


def function(value: Any, name: str) -> Callable[..., Any]:
    """Return the implementation of an argument that has to be a function."""
    if type(value) is not Arrow:
        raise evaluation_error(f"`{name}` needs a function, not {describe_type(value)}", "Write one: `item => …`")
    return value.call


def text(value: Any, name: str) -> str:
    """Return an argument that has to be text; a number becomes text."""
    if type(value) is str:
        return value
    if is_number(value):
        return text_of(value)
    raise evaluation_error(f"`{name}` needs text, not {describe_type(value)}")


def items(value: Any, name: str) -> list[Any]:
    """Return an argument that has to be a list."""
    if type(value) is not list:
        raise evaluation_error(f"`{name}` needs a list, not {describe_type(value)}")
    return cast("list[Any]", value)


def fields(value: Any, name: str) -> dict[str, Any]:
    """Return an argument that has to be a map."""
    if type(value) is not dict:
        raise evaluation_error(f"`{name}` needs a map, not {describe_type(value)}")
    return cast("dict[str, Any]", value)


# Lists


def _map(run: ExpressionRun, value: list[Any], change: Any) -> list[Any]:
    call = function(change, "map")
    return [call(run, item, place) for place, item in enumerate(value)]


def _filter(run: ExpressionRun, value: list[Any], test: Any) -> list[Any]:
    call = function(test, "filter")
    return [item for place, item in enumerate(value) if truthy(call(run, item, place))]


_NOTHING: Any = object()


def _reduce(run: ExpressionRun, value: list[Any], combine: Any, start: Any = _NOTHING) -> Any:
    call = function(combine, "reduce")
    rest = enumerate(value)
    if start is _NOTHING:
        _, start = next(rest, (0, _NOTHING))
        if start is _NOTHING:
            raise evaluation_error(
                "`reduce` has nothing to begin with", "Give it a second argument: the value of an empty list"
            )
    for place, item in rest:
        start = call(run, start, item, place)
    return start


def _matching(run: ExpressionRun, value: list[Any], test: Any, name: str) -> Iterator[int]:
    call = function(test, name)
    return (place for place, item in enumerate(value) if truthy(call(run, item, place)))


def _find(run: ExpressionRun, value: list[Any], test: Any) -> Any:
    place = next(_matching(run, value, test, "find"), None)
    return None if place is None else value[place]


def _every(run: ExpressionRun, value: list[Any], test: Any) -> bool:
    call = function(test, "every")
    return all(truthy(call(run, item, place)) for place, item in enumerate(value))


def _join(run: ExpressionRun, value: list[Any], between: Any = ",") -> str:
    return join_texts((text_of(item) for item in value), text(between, "join"), longest=run.bounds.text)


def in_order(values: list[Any], keys: list[Any], name: str) -> list[Any]:
    """Sort values by their keys, all numbers or all texts, with null at the end."""
    there = [place for place, key in enumerate(keys) if key is not None]
    texts = sum(type(keys[place]) is str for place in there)
    numbers = sum(is_number(keys[place]) for place in there)
    if len(there) not in (texts, numbers):
        raise evaluation_error(f"`{name}` can only order numbers or texts", "Give a function that compares two items")
    there.sort(key=keys.__getitem__)
    missing = [place for place, key in enumerate(keys) if key is None]
    return [values[place] for place in (*there, *missing)]


def _sort(run: ExpressionRun, value: list[Any], compare: Any = None) -> list[Any]:
    if compare is None:
        return in_order(value, value, "sort")
    call = function(compare, "sort")

    def sign(one: Any, two: Any) -> int:
        result = number(call(run, one, two), "the order of `sort`")
        return (result > 0) - (result < 0)

    return sorted(value, key=cmp_to_key(sign))


def _sort_by(run: ExpressionRun, value: list[Any], key: Any) -> list[Any]:
    call = function(key, "sortBy")
    return in_order(value, [call(run, item) for item in value], "sortBy")


def _group_by(run: ExpressionRun, value: list[Any], key: Any) -> dict[str, Any]:
    call = function(key, "groupBy")
    groups: dict[str, Any] = {}
    for item in value:
        groups.setdefault(text_of(call(run, item)), []).append(item)
    return groups


def _slice(run: ExpressionRun, value: Any, start: Any = 0, end: Any = None) -> Any:
    return value[whole(start, "slice") : len(value) if end is None else whole(end, "slice")]


def _concat(run: ExpressionRun, value: list[Any], *others: Any) -> list[Any]:
    made = list(value)
    for other in others:
        if type(other) is list:
            made.extend(cast("list[Any]", other))
        else:
            made.append(other)
    return made


def place_of(value: list[Any], item: Any) -> int:
    """Return the first index of an item in a list, or -1."""
    return next((place for place, each in enumerate(value) if equal(each, item)), -1)


def _flat(run: ExpressionRun, value: list[Any], depth: Any = 1) -> list[Any]:
    level = value
    for _ in range(max(0, min(whole(depth, "flat"), run.bounds.depth))):
        if not any(type(item) is list for item in level):
            break
        size = sum(len(cast("list[Any]", item)) if type(item) is list else 1 for item in level)
        if size > run.bounds.items:
            raise exceeded("a list", run.bounds.items, size)
        run.step(1 + size // 64)
        level = [each for item in level for each in (cast("list[Any]", item) if type(item) is list else (item,))]
    return list(level)


def unique(run: ExpressionRun, value: list[Any]) -> list[Any]:
    """Return a list without duplicates, each at its first place."""
    kept: list[Any] = []
    plain: set[tuple[str, Any]] = set()
    parts: list[Any] = []
    for item in value:
        if type_of(item) in ("list", "object", "unknown"):
            run.step(1 + len(parts) // 64)
            if place_of(parts, item) < 0:
                parts.append(item)
                kept.append(item)
        else:
            # 1 and 1.0 are one number, and true is not a number.
            mark = (type_of(item), item)
            if mark not in plain:
                plain.add(mark)
                kept.append(item)
    return kept


def _sum(run: ExpressionRun, value: list[Any]) -> int | float:
    total: int | float = 0
    for item in value:
        total += number(item, "sum")
    return fit_number(total, "sum")


# Texts


def _split(run: ExpressionRun, value: str, between: Any = None) -> list[str]:
    if between is None:
        return [value]
    separator = text(between, "split")
    return value.split(separator) if separator else list(value)


def _replace(run: ExpressionRun, value: str, old: Any, new: Any) -> str:
    return replace_text(value, text(old, "replace"), text(new, "replace"), longest=run.bounds.text, most=1)


def _replace_all(run: ExpressionRun, value: str, old: Any, new: Any) -> str:
    return replace_text(value, text(old, "replaceAll"), text(new, "replaceAll"), longest=run.bounds.text)


def _repeat(run: ExpressionRun, value: str, times: Any) -> str:
    return repeat_text(value, max(0, min(_LONGEST, whole(times, "repeat"))), longest=run.bounds.text)


def _padding(run: ExpressionRun, value: str, length: Any, fill: Any, name: str) -> str:
    return padding(whole(length, name) - len(value), text(fill, name), longest=run.bounds.text)


def _pad_start(run: ExpressionRun, value: str, length: Any, fill: Any = " ") -> str:
    return _padding(run, value, length, fill, "padStart") + value


def _pad_end(run: ExpressionRun, value: str, length: Any, fill: Any = " ") -> str:
    return value + _padding(run, value, length, fill, "padEnd")


def _substring(run: ExpressionRun, value: str, start: Any, end: Any = None) -> str:
    first = max(0, whole(start, "substring"))
    last = len(value) if end is None else max(0, whole(end, "substring"))
    return value[min(first, last) : max(first, last)]


def _character(run: ExpressionRun, value: Any, at: Any) -> Any:
    place = whole(at, "at")
    return value[place] if -len(value) <= place < len(value) else None


# Numbers


def _to_fixed(run: ExpressionRun, value: int | float, digits: Any = 0) -> str:
    places = whole(digits, "toFixed")
    if not 0 <= places <= _MOST_DIGITS:
        raise evaluation_error(f"`toFixed` writes 0 to {_MOST_DIGITS} digits, not {places}")
    return f"{in_digits(number(value, 'toFixed'), places):f}"


def _length(run: ExpressionRun, value: Any) -> int:
    return len(value)


def _reverse(run: ExpressionRun, value: Any) -> Any:
    return value[::-1]


def _of_text(change: Callable[[str], str]) -> Callable[..., str]:
    return _alone(lambda run, value: change(value))


def _append(run: ExpressionRun, value: str, *more: Any) -> str:
    return join_texts(map(text_of, (value, *more)), "", longest=run.bounds.text)


def _get(run: ExpressionRun, value: dict[str, Any], name: Any, otherwise: Any = None) -> Any:
    return value.get(text(name, "get"), otherwise)


def _alone(call: Callable[[ExpressionRun, Any], Any]) -> Callable[..., Any]:
    return call


def _with(call: Callable[[ExpressionRun, Any, Any], Any]) -> Callable[..., Any]:
    return call


def _table(*methods: Method) -> Mapping[str, Method]:
    return {method.name: method for method in methods}


METHODS: Mapping[str, Method] = _table(
    Method("map", 1, 1, {list: _map}),
    Method("filter", 1, 1, {list: _filter}),
    Method("reduce", 1, 2, {list: _reduce}),
    Method("find", 1, 1, {list: _find}),
    Method(
        "findIndex", 1, 1, {list: _with(lambda run, value, test: next(_matching(run, value, test, "findIndex"), -1))}
    ),
    Method(
        "some", 1, 1, {list: _with(lambda run, value, test: any(True for _ in _matching(run, value, test, "some")))}
    ),
    Method("every", 1, 1, {list: _every}),
    Method("join", 0, 1, {list: _join}),
    Method("sort", 0, 1, {list: _sort}),
    Method("sortBy", 1, 1, {list: _sort_by}),
    Method("groupBy", 1, 1, {list: _group_by}),
    Method("slice", 0, 2, {list: _slice, str: _slice}),
    Method("concat", 1, None, {list: _concat, str: _append}),
    Method(
        "includes",
        1,
        1,
        {
            list: _with(lambda run, value, item: place_of(value, item) >= 0),
            str: _with(lambda run, value, part: text(part, "includes") in value),
        },
    ),
    Method(
        "indexOf",
        1,
        1,
        {
            list: _with(lambda run, value, item: place_of(value, item)),
            str: _with(lambda run, value, part: value.find(text(part, "indexOf"))),
        },
    ),
    Method("flat", 0, 1, {list: _flat}),
    Method("flatMap", 1, 1, {list: _with(lambda run, value, change: _flat(run, _map(run, value, change)))}),
    Method("reverse", 0, 0, {list: _reverse, str: _reverse}),
    Method("first", 0, 0, {list: _alone(lambda run, value: value[0] if value else None)}),
    Method("last", 0, 0, {list: _alone(lambda run, value: value[-1] if value else None)}),
    Method("at", 1, 1, {list: _character, str: _character}),
    Method("unique", 0, 0, {list: unique}),
    Method("sum", 0, 0, {list: _sum}),
    Method("length", 0, 0, {list: _length, str: _length, dict: _length}),
    Method("split", 0, 1, {str: _split}),
    Method("trim", 0, 0, {str: _of_text(str.strip)}),
    Method("trimStart", 0, 0, {str: _of_text(str.lstrip)}),
    Method("trimEnd", 0, 0, {str: _of_text(str.rstrip)}),
    Method("toUpperCase", 0, 0, {str: _of_text(str.upper)}),
    Method("toLowerCase", 0, 0, {str: _of_text(str.lower)}),
    Method("replace", 2, 2, {str: _replace}),
    Method("replaceAll", 2, 2, {str: _replace_all}),
    Method("startsWith", 1, 1, {str: _with(lambda run, value, part: value.startswith(text(part, "startsWith")))}),
    Method("endsWith", 1, 1, {str: _with(lambda run, value, part: value.endswith(text(part, "endsWith")))}),
    Method("substring", 1, 2, {str: _substring}),
    Method("charAt", 1, 1, {str: _with(lambda run, value, at: _character(run, value, at) or "")}),
    Method("padStart", 1, 2, {str: _pad_start}),
    Method("padEnd", 1, 2, {str: _pad_end}),
    Method("repeat", 1, 1, {str: _repeat}),
    Method("toFixed", 0, 1, {int: _to_fixed, float: _to_fixed}),
    Method(
        "toString", 0, 0, dict.fromkeys((str, int, float, bool, list, dict), _alone(lambda run, value: text_of(value)))
    ),
    Method("has", 1, 1, {dict: _with(lambda run, value, name: text(name, "has") in value)}),
    Method("get", 1, 2, {dict: _get}),
    Method("keys", 0, 0, {dict: _alone(lambda run, value: list(value))}),
    Method("values", 0, 0, {dict: _alone(lambda run, value: list(value.values()))}),
    Method("entries", 0, 0, {dict: _alone(lambda run, value: [[name, item] for name, item in value.items()])}),
)
"""All methods by name. `length` can also be read without brackets."""
