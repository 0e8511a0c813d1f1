"""The fields of a machine's input, output or answer in; values that fit them, or everything that does not fit, out.

A null counts as missing. All faults of a value come in one `SchemaViolation`, and no message holds the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from memoranda.errors import EvaluationFailed, LimitExceeded
from memoranda.lang.expression.dialect import Run
from memoranda.lang.expression.nodes import Constant, Node
from memoranda.lang.expression.program import Expression
from memoranda.mashin.constraints import CONSTRAINTS, Test, constraint_value
from memoranda.mashin.document import Field
from memoranda.mashin.expression.programs import expression
from memoranda.mashin.faults import Fault, Faults
from memoranda.mashin.programs import Programs
from memoranda.mashin.types import Check, Json, kind_of, undeclared

__all__ = ["Contract", "Fault", "contract"]


class _Slot(msgspec.Struct, frozen=True):
    """A field that is ready to be checked."""

    name: str
    type: str
    check: Check
    required: bool
    default: Expression | None


class Contract(msgspec.Struct, frozen=True):
    """What a value has to look like; made by `contract`."""

    schema: Json
    """The JSON schema of such a value, as a model is shown it."""
    slots: dict[str, _Slot]

    def accept(
        self, value: Any, *, run: Run | None = None, names: Mapping[str, Any] | None = None, what: str = "the input"
    ) -> Json:
        """Return an input with every declared field in it: defaults where they were not given, else null.

        Names that nobody declared are refused. Defaults are worth something anew in each call, with the moments and
        ids of `run`; among their names, `input` is what was given.
        """
        return self._read(value, _Reading(what, run, names), Faults(dropping=False))

    def answer(
        self, value: Any, *, run: Run | None = None, names: Mapping[str, Any] | None = None, what: str = "the answer"
    ) -> Json:
        """Return what a model or somebody outside gave, as `accept` does; what nobody declared is left out."""
        return self._read(value, _Reading(what, run, names), Faults(dropping=True))

    def assume(self, value: Any, *, run: Run | None = None, what: str = "what is assumed") -> Json:
        """Return what a test assumes, as `answer` does; what it leaves out is its default or null, required or not."""
        return self._read(value, _Reading(what, run, None, partial=True), Faults(dropping=True))

    def respond(
        self, value: Any, *, run: Run | None = None, names: Mapping[str, Any] | None = None, what: str = "the output"
    ) -> Json:
        """Return an output: what nobody declared is left out, and what is declared has to be there.

        It may be null where the field is not required; a default takes the place of null.
        """
        return self._read(value, _Reading(what, run, names, whole=True), Faults(dropping=True))

    def _read(self, value: Any, reading: _Reading, faults: Faults) -> Json:
        if type(value) is not dict:
            faults.wanted("a map", value)
            raise faults.violation(reading.what)
        given = cast("Json", value)
        kept: Json = {}
        waiting: list[_Slot] = []
        known = 0
        for name, slot in self.slots.items():
            one = given.get(name)
            if one is not None:
                known += 1
                before = len(faults.found)
                kept[name] = slot.check(one, faults)
                if len(faults.found) != before:
                    faults.inside(f".{name}", before)
                continue
            present = name in given
            known += present
            kept[name] = None
            if slot.default is not None:
                waiting.append(slot)
            elif not reading.partial and (slot.required or (reading.whole and not present)):
                faults.found.append(Fault(f".{name}", "is null" if present else "is missing", slot.type))
        if known != len(given) and not faults.dropping:
            undeclared(given, self.slots, faults)
        for slot in waiting:
            _fill(slot, kept, reading, faults)
        if faults.found:
            raise faults.violation(reading.what)
        return kept


class _Reading:
    """How a value is read, and what defaults may use; most values need none of it."""

    __slots__ = ("names", "partial", "run", "what", "whole")

    def __init__(
        self,
        what: str,
        run: Run | None,
        names: Mapping[str, Any] | None,
        *,
        whole: bool = False,
        partial: bool = False,
    ) -> None:
        self.what = what
        self.run = run
        self.names = names
        self.whole = whole
        self.partial = partial


def _fill(slot: _Slot, kept: Json, reading: _Reading, faults: Faults) -> None:
    """Put in the default of a field, which is checked as any other value is."""
    assert slot.default is not None
    before = len(faults.found)
    run = reading.run = reading.run or Run()
    try:
        value = slot.default.value({"input": kept, **(reading.names or {})}, run)
    except (EvaluationFailed, LimitExceeded) as fault:
        faults.add(f"has a default without a value: {fault.message}", expected=slot.type, hint=fault.hint)
    else:
        if value is not None:
            kept[slot.name] = slot.check(value, faults)
        elif slot.required:
            faults.add("is missing, and its default is null", expected=slot.type)
    if len(faults.found) != before:
        faults.inside(f".{slot.name}", before)


def contract(fields: Sequence[Field], programs: Programs, *, complete: bool = False) -> Contract:
    """Compile the fields of a checked document.

    In a `complete` contract, such as what a model returns, every field without a default has to be there.
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
    tests: list[tuple[Test, str]] = []
    parts: list[Json] = [kind.schema]
    for config in field.constraints:
        node = programs.node(config.value)
        if node is not None:
            value = constraint_value(config, node)
            rule = CONSTRAINTS[config.key.text]
            tests.append((rule.test(value), f"{config.key.text}: {config.value.text}"))
            parts.append(rule.schema(value, kind.name))
    node = programs.node(field.default) if field.default is not None else None
    schema = _described(field, _merged(parts), node)
    check = _tested(kind.check, tuple(tests)) if tests else kind.check
    required = field.required or (complete and node is None)
    return _Slot(field.name.text, kind.name, check, required, expression(node) if node is not None else None), schema


def _tested(check: Check, tests: tuple[tuple[Test, str], ...]) -> Check:
    """Return a check that also applies the tests to a value of the right type."""

    def tested(value: Any, faults: Faults) -> Any:
        before = len(faults.found)
        kept = check(value, faults)
        if len(faults.found) == before:
            for test, expected in tests:
                wrong = test(kept)
                if wrong is not None:
                    faults.add(wrong, expected=expected)
        return kept

    return tested


def _merged(parts: list[Json]) -> Json:
    """Return one schema that says what its parts say; only items are said of in two places."""
    merged: Json = {}
    for part in parts:
        for word, value in part.items():
            merged[word] = {**merged.get(word, {}), **value} if word == "items" else value
    return merged


def _described(field: Field, schema: Json, default: Node | None) -> Json:
    if field.label is not None:
        schema["title"] = field.label.text
    if field.description is not None:
        schema["description"] = field.description.text
    if isinstance(default, Constant) and default.value is not None:
        schema["default"] = default.value
    return schema
