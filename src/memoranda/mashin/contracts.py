"""Contracts: check values against the fields of a machine's input, output or answer.

A null counts as missing. One `SchemaViolation` lists everything wrong with a value, and no message contains the value.
The value of a constraint is an expression that does not depend on a run, so it is computed when the machine is checked
and when it is compiled. `pattern` searches: `^` and `$` anchor it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

import msgspec

from memoranda.errors import EvaluationFailed, LimitExceeded, UsageError
from memoranda.lang.diagnostics import did_you_mean
from memoranda.lang.expression.compiler import Expression
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.lang.expression.nodes import Call, Constant, Node
from memoranda.lang.expression.patterns import compile_pattern
from memoranda.mashin.document import Config, Field
from memoranda.mashin.expression.compiler import Programs, expression
from memoranda.mashin.expression.operators import equal, is_number
from memoranda.mashin.types import (
    Check,
    Json,
    Violation,
    Violations,
    add_undeclared,
    is_day,
    is_decimal,
    is_moment,
    is_uuid,
    kind_of,
)
from memoranda.model.text import choice_fault, quote

ValueTest: TypeAlias = Callable[[Any], str | None]
"""Returns what is wrong with a value of the right type; None if nothing is, or if it does not apply."""


class Constraint(msgspec.Struct, frozen=True):
    """A modifier of a field: the types it applies to, the value it needs, its test, and its JSON schema."""

    types: frozenset[str]
    """Empty if it applies to every type."""
    about: str
    """The types in words."""
    fits: Callable[[Any], bool]
    wanted: str
    test: Callable[[Any], ValueTest]
    schema: Callable[[Any, str], Json]
    """Takes the constraint's value and the field's type, and returns what it adds to the schema."""


def constraint_value(config: Config, node: Node) -> Any:
    """Return the value of a constraint; raise a UsageError if it is not what the constraint needs."""
    key = config.key.text
    rule = CONSTRAINTS[key]
    try:
        value = _range_ends(node) if key == "range" else expression(node).value({})
    except (EvaluationFailed, LimitExceeded) as error:
        raise UsageError(f"`{key}` has no value before the machine runs: {error.message}", hint=error.hint) from None
    if not rule.fits(value):
        shown = quote(config.value.text, longest=40)
        raise UsageError(f"`{key}` needs {rule.wanted}, not {shown}", hint=f"Write it as `{key}: …`")
    if key == "pattern":
        compile_pattern(value)
    elif key == "format" and value not in FORMATS:
        hint = did_you_mean(value, FORMATS, otherwise=f"Formats are {', '.join(FORMATS)}")
        raise UsageError(f"{quote(value, longest=40)} is not a format", hint=hint)
    return value


def _range_ends(node: Node) -> Any:
    """Return the ends of a range: here `0..1` is an interval, and in an expression a list of integers."""
    if isinstance(node, Call) and node.function == "..":
        return [expression(part).value({}) for part in node.arguments]
    return expression(node).value({})


# numbers


def _least(limit: Any) -> ValueTest:
    below = _comparison(limit, operator.lt)
    return lambda value: f"is less than {limit}" if below(value) else None


def _most(limit: Any) -> ValueTest:
    above = _comparison(limit, operator.gt)
    return lambda value: f"is more than {limit}" if above(value) else None


def _comparison(limit: int | float, compare: Callable[[Any, Any], bool]) -> Callable[[Any], bool]:
    """Return a comparison with a limit for numbers and for decimals written as text; false for anything else."""
    # Exact, so that "0.1" is not less than 0.1, which no float is exactly.
    exact = Decimal(repr(limit))

    def test(value: Any) -> bool:
        if type(value) is int or type(value) is float:
            return compare(value, limit)
        return type(value) is str and is_decimal(value) and compare(Decimal(value), exact)

    return test


def _between(ends: Any) -> ValueTest:
    least, most = _least(ends[0]), _most(ends[1])
    return lambda value: f"is not from {ends[0]} to {ends[1]}" if least(value) or most(value) else None


def _is_range(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    ends = cast("list[Any]", value)
    return len(ends) == 2 and all(map(is_number, ends)) and ends[0] <= ends[1]


# lengths


def _length_of(value: Any) -> tuple[int, str] | None:
    if type(value) is str:
        return len(value), "characters"
    return (len(cast("list[Any]", value)), "items") if type(value) is list else None


def _length_test(bound: str, exceeds: Callable[[int, Any], bool], limit: Any) -> ValueTest:
    def test(value: Any) -> str | None:
        count, what = _length_of(value) or (limit, "")
        return f"has {count} {what}, the {bound} is {limit}" if exceeds(count, limit) else None

    return test


def _is_length(value: Any) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _length(bound: str) -> Callable[[Any, str], Json]:
    return lambda value, type_: {f"{bound}{'Items' if type_ == 'list' else 'Length'}": int(value)}


# texts


def _pattern(text: Any) -> ValueTest:
    pattern = compile_pattern(text)

    def test(value: Any) -> str | None:
        if type(value) is not str or pattern.search(value) is not None:
            return None
        return f"does not match the pattern {quote(text)}"

    return test


def _pattern_schema(text: Any, _type: str) -> Json:
    """Return the pattern for a schema, or a description of one that only RE2 understands."""
    import jsonschema_rs  # here, because its import takes a while and most machines have no pattern

    try:
        jsonschema_rs.validator_for({"pattern": text})
    except (jsonschema_rs.ValidationError, ValueError):
        return {"description": f"Matches the regular expression {text}"}
    return {"pattern": text}


def _is_url(text: str) -> bool:
    return "://" in text and _json_format("uri")(text)


@lru_cache
def _json_format(name: str) -> Callable[[str], bool]:
    """Return the test of a format of JSON schema."""
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
"""The formats of JSON schema, and `url`."""


def _format(name: Any) -> ValueTest:
    fits = _OWN_FORMATS[name][0] if name in _OWN_FORMATS else _json_format(name)

    def test(value: Any) -> str | None:
        return f"is not of the format {name}" if type(value) is str and not fits(value) else None

    return test


def _format_schema(name: Any, _type: str) -> Json:
    return {"format": _OWN_FORMATS[name][1] if name in _OWN_FORMATS else name}


# choices


def _among(choices: list[Any]) -> Callable[[Any], bool]:
    """Return a test for equality with one of some values, without coercion."""
    texts = frozenset(choice for choice in choices if type(choice) is str)
    others = [choice for choice in choices if type(choice) is not str]
    return lambda value: value in texts if type(value) is str else any(equal(value, one) for one in others)


def _choices(choices: Any) -> ValueTest:
    among = _among(choices)
    return lambda value: None if among(value) else choice_fault(value, choices)


def _subset(choices: Any) -> ValueTest:
    among = _among(choices)

    def test(value: Any) -> str | None:
        if type(value) is not list:
            return None
        items = cast("list[Any]", value)
        other = next((at for at, one in enumerate(items) if not among(one)), None)
        return None if other is None else f"is wrong: [{other}] {choice_fault(items[other], choices)}"

    return test


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_NUMBERS = (frozenset({"number", "integer", "decimal"}), "numbers")
_LENGTHS = (frozenset({"text", "list"}), "texts and lists")
_TEXTS = (frozenset({"text"}), "texts")
_LISTS = (frozenset({"list"}), "lists")
_WHOLE = "a whole number from 0 on"
_ENDS = "the least and the greatest number, as `0..1` or `[0, 1]`"

CONSTRAINTS: dict[str, Constraint] = {
    "min": Constraint(*_NUMBERS, is_number, "a number", _least, lambda value, _: {"minimum": value}),
    "max": Constraint(*_NUMBERS, is_number, "a number", _most, lambda value, _: {"maximum": value}),
    "range": Constraint(
        *_NUMBERS, _is_range, _ENDS, _between, lambda ends, _: {"minimum": ends[0], "maximum": ends[1]}
    ),
    "min_length": Constraint(
        *_LENGTHS, _is_length, _WHOLE, partial(_length_test, "least", operator.lt), _length("min")
    ),
    "max_length": Constraint(*_LENGTHS, _is_length, _WHOLE, partial(_length_test, "most", operator.gt), _length("max")),
    "format": Constraint(*_TEXTS, _is_text, "a text", _format, _format_schema),
    "pattern": Constraint(*_TEXTS, _is_text, "a text", _pattern, _pattern_schema),
    "choices": Constraint(frozenset(), "", _is_list, "a list", _choices, lambda choices, _: {"enum": list(choices)}),
    "subset": Constraint(*_LISTS, _is_list, "a list", _subset, lambda choices, _: {"items": {"enum": list(choices)}}),
}
"""Every constraint by its keyword."""


# contracts


class _Slot(msgspec.Struct, frozen=True):
    """A compiled field."""

    name: str
    type: str
    check: Check
    required: bool
    default: Expression | None


class Contract(msgspec.Struct, frozen=True):
    """The compiled fields of a value; made by `contract`."""

    schema: Json
    """The JSON schema that a model is shown."""
    slots: dict[str, _Slot]

    def accept(self, value: Any, *, run: ExpressionRun | None = None, names: Mapping[str, Any] | None = None) -> Json:
        """Return an input with every declared field: defaults for what is missing, else null.

        Undeclared names are refused. Defaults are computed in each call, with the times and ids of `run`; among their
        names, `input` is the given value.
        """
        return self._read(value, "the input", Violations(dropping=False), run, names)

    def answer(self, value: Any, *, run: ExpressionRun | None = None, what: str = "the answer") -> Json:
        """Return what a model or an event gave, as `accept` does, without undeclared names."""
        return self._read(value, what, Violations(dropping=True), run)

    def assume(self, value: Any, *, run: ExpressionRun | None = None, what: str = "what is assumed") -> Json:
        """Return what a test assumes, as `answer` does; a missing field is its default or null, even if required."""
        return self._read(value, what, Violations(dropping=True), run, partial=True)

    def respond(self, value: Any, *, run: ExpressionRun | None = None, names: Mapping[str, Any] | None = None) -> Json:
        """Return an output without undeclared names; every declared field has to be there.

        It may be null where the field is not required; a default replaces null.
        """
        return self._read(value, "the output", Violations(dropping=True), run, names, whole=True)

    def _read(
        self,
        value: Any,
        what: str,
        violations: Violations,
        run: ExpressionRun | None,
        names: Mapping[str, Any] | None = None,
        *,
        whole: bool = False,
        partial: bool = False,
    ) -> Json:
        """Check a value; it is `whole` if every field has to be there, and `partial` if none has to."""
        if type(value) is not dict:
            violations.add_type("a map", value)
            raise violations.error(what)
        given = cast("Json", value)
        kept: Json = {}
        waiting: list[_Slot] = []
        known = 0
        for name, slot in self.slots.items():
            one = given.get(name)
            if one is not None:
                known += 1
                before = len(violations.found)
                kept[name] = slot.check(one, violations)
                if len(violations.found) != before:
                    violations.inside(f".{name}", before)
                continue
            present = name in given
            known += present
            kept[name] = None
            if slot.default is not None:
                waiting.append(slot)
            elif not partial and (slot.required or (whole and not present)):
                violations.found.append(Violation(f".{name}", "is null" if present else "is missing", slot.type))
        if known != len(given) and not violations.dropping:
            add_undeclared(given, self.slots, violations)
        if waiting:
            run = run or ExpressionRun()
            for slot in waiting:
                _fill(slot, kept, run, names or {}, violations)
        if violations.found:
            raise violations.error(what)
        return kept


def _fill(slot: _Slot, kept: Json, run: ExpressionRun, names: Mapping[str, Any], violations: Violations) -> None:
    """Set a field to its default, which is checked like any other value."""
    assert slot.default is not None
    before = len(violations.found)
    try:
        value = slot.default.value({"input": kept, **names}, run)
    except (EvaluationFailed, LimitExceeded) as error:
        violations.add(f"has a default without a value: {error.message}", expected=slot.type, hint=error.hint)
    else:
        if value is not None:
            kept[slot.name] = slot.check(value, violations)
        elif slot.required:
            violations.add("is missing, and its default is null", expected=slot.type)
    if len(violations.found) != before:
        violations.inside(f".{slot.name}", before)


def contract(fields: Sequence[Field], programs: Programs, *, complete: bool = False) -> Contract:
    """Compile the fields of a checked document.

    In a `complete` contract, such as the answer of a model, every field without a default is required.
    """
    slots: dict[str, _Slot] = {}
    properties: Json = {}
    for field in fields:
        name = field.name.text
        slots[name], properties[name] = _slot(field, programs, complete=complete)
    schema: Json = {
        "type": "object",
        "properties": properties,
        "required": [name for name, slot in slots.items() if slot.required and slot.default is None],
        "additionalProperties": False,
    }
    return Contract(schema, slots)


def _slot(field: Field, programs: Programs, *, complete: bool) -> tuple[_Slot, Json]:
    kind = kind_of(field.type)
    tests: list[tuple[ValueTest, str]] = []
    parts: list[Json] = [kind.schema]
    for config in field.constraints:
        node = programs.node(config.value)
        if node is not None:
            value = constraint_value(config, node)
            rule = CONSTRAINTS[config.key.text]
            tests.append((rule.test(value), f"{config.key.text}: {config.value.text}"))
            parts.append(rule.schema(value, kind.name))
    node = programs.node(field.default) if field.default is not None else None
    schema = _describe(field, _merge(parts), node)
    check = _with_tests(kind.check, tuple(tests)) if tests else kind.check
    required = field.required or (complete and node is None)
    return _Slot(field.name.text, kind.name, check, required, expression(node) if node is not None else None), schema


def _with_tests(check: Check, tests: tuple[tuple[ValueTest, str], ...]) -> Check:
    """Return a check that also applies tests to a value of the right type."""

    def check_all(value: Any, violations: Violations) -> Any:
        before = len(violations.found)
        kept = check(value, violations)
        if len(violations.found) == before:
            for test, expected in tests:
                wrong = test(kept)
                if wrong is not None:
                    violations.add(wrong, expected=expected)
        return kept

    return check_all


def _merge(parts: list[Json]) -> Json:
    """Return one schema of several; only `items` occurs in more than one."""
    merged: Json = {}
    for part in parts:
        for word, value in part.items():
            merged[word] = {**merged.get(word, {}), **value} if word == "items" else value
    return merged


def _describe(field: Field, schema: Json, default: Node | None) -> Json:
    if field.label is not None:
        schema["title"] = field.label.text
    if field.description is not None:
        schema["description"] = field.description.text
    if isinstance(default, Constant) and default.value is not None:
        schema["default"] = default.value
    return schema
