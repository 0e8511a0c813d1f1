"""What fields accept, answer and respond: every type, every constraint, all faults at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import Conflict, SchemaViolation, UsageError
from memoranda.lang.diagnostics import Diagnostic
from memoranda.lang.document import Raw
from memoranda.lang.expression.dialect import ExpressionRun
from memoranda.lang.source import Span
from memoranda.mashin.checker import check_source
from memoranda.mashin.contracts import Contract, contract
from memoranda.mashin.keywords import MODIFIERS, TYPES
from memoranda.mashin.types import read_shape
from memoranda.testing import FakeClock

NOON = datetime(2031, 5, 17, 12, 0, tzinfo=UTC)
UUID = "0d2f7a34-91bc-4e0a-8c55-6a1e2b3c4d5e"


def source(*fields: str) -> str:
    accepts = "".join(f"  {line}\n" for line in fields)
    return "machine tea_house\n" + (f"accepts\n{accepts}" if fields else "") + "implements\n  compute one\n    1\n"


def said_of(*fields: str) -> tuple[Diagnostic, ...]:
    return check_source(source(*fields))[2]


def of(*fields: str, complete: bool = False) -> Contract:
    reading, programs, said = check_source(source(*fields))
    assert said == ()
    return contract(reading.document.accepts or (), programs, complete=complete)


def faults(made: Contract, value: Any) -> list[tuple[str, str]]:
    with pytest.raises(SchemaViolation) as caught:
        made.accept(value)
    return [(fault.path, fault.message) for fault in caught.value.faults]


# types

FITS: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "text": (["", "Tee", "茶", "\n"], [3, True, ["a"], {}, b"a", "a\0b", "\ud800"]),
    "string": (["a"], [3]),
    "number": ([0, -2, 2.5, 1e300], ["2", True, False, math.nan, math.inf, 2**70, [1]]),
    "integer": ([0, -7, 5.0, 2**62], [2.5, "5", True, math.nan, 2**63]),
    "decimal": (
        [1, 2.5, "19.90", "-0.1", "+7"],
        ["", "1e3", "NaN", "1.", ".5", "1 000", "٣", True, [], math.inf],
    ),
    "boolean": ([True, False], [0, 1, "true"]),
    "uuid": ([UUID, UUID.upper()], [UUID.replace("-", ""), UUID + "0", f"{{{UUID}}}", 3, ""]),
    "date": (["2031-05-17", "2028-02-29"], ["2031-02-29", "2031-5-17", "17.05.2031", "2031-05-17T10:00:00Z", 20310517]),
    "datetime": (
        ["2031-05-17T10:00:00Z", "2031-05-17T10:00:00", "2031-05-17 10:00", "2031-05-17T10:00:00.125+02:00"],
        ["2031-05-17", "10:00", "2031-05-17T25:00:00Z", "tomorrow", 3],
    ),
    "list": ([[], [1, "a", None, {"b": []}]], ["a", {}, (1,), [object()], [math.nan], [{1: 2}]]),
    "list of integer": ([[], [1, 2.0]], [[1, "2"], [None], [True], 1]),
    "list(list of text)": ([[["a"], []]], [["a"], [[1]]]),
    "map": ([{}, {"a": [1, None]}], [[], "a", {1: 2}, {"a": {"b": {2}}}]),
    "object { pot: text, cups: integer }": (
        [{"pot": "iron", "cups": 2}],
        [{"pot": "iron"}, {"pot": "iron", "cups": "2"}, {"pot": "iron", "cups": 1, "lid": 1}, {"pot": None, "cups": 1}],
    ),
    "map { pot?: text, sizes: list of number }": (
        [{"sizes": []}, {"pot": None, "sizes": [1.5]}],
        [{}, {"sizes": ["a"]}],
    ),
    'object { inner: { kind: enum("a", "b") } }': (
        [{"inner": {"kind": "b"}}],
        [{"inner": {"kind": "c"}}, {"inner": 1}],
    ),
    'enum("green", "black")': (["green", "black"], ["grey", "Green", "", 3, ["green"]]),
    "any": (["a", 1, [], {"a": None}, False], [object(), {1, 2}, [(1,)], 2**80]),
    "file": (["notes.txt"], [3, b"abc"]),
}


@pytest.mark.parametrize("type_", FITS)
def test_a_type_takes_its_own_values_and_no_others(type_: str) -> None:
    made = of(f"leaf as {type_}")
    fitting, others = FITS[type_]
    for value in fitting:
        assert made.accept({"leaf": value})["leaf"] == value
    for value in others:
        if value is not None:
            assert faults(made, {"leaf": value})[0][0].startswith("$.leaf"), value


def test_every_type_of_the_language_is_among_them() -> None:
    words = {word.split("(")[0].split(" ")[0] for word in FITS}
    assert words == set(TYPES.names)


def test_a_whole_number_is_kept_as_one() -> None:
    accepted = of("cups as integer", "all as list of integer", "price as number").accept(
        {"cups": 5.0, "all": [1.0, 2], "price": 5.0}
    )
    assert [type(accepted["cups"]), *map(type, accepted["all"]), type(accepted["price"])] == [int, int, int, float]


def test_a_fault_deep_inside_has_its_path() -> None:
    made = of("order as map { lines: list of object { tea: text, grams: integer } }")
    line = {"tea": "Sencha", "grams": 100}
    assert made.accept({"order": {"lines": [line, line]}})
    assert faults(made, {"order": {"lines": [line, {"tea": "Oolong", "grams": 0.5}]}}) == [
        ("$.order.lines[1].grams", "is not a whole number")
    ]


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    wide: list[Any] = []
    wide.extend([wide, wide])
    made = of("leaf as any")
    assert made.accept({"leaf": [[[]]]})
    assert "nested" in faults(made, {"leaf": loop})[0][1]
    assert faults(made, {"leaf": wide})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
        max_leaves=12,
    )
)
def test_whatever_is_given_is_accepted_as_it_is_or_refused_in_a_typed_error(value: Any) -> None:
    made = of("leaf as any", "many as list of text", "inner as map { a: integer }", "size as decimal, range: 0..9")
    for name in made.slots:
        try:
            accepted = made.accept({name: value})
        except SchemaViolation as refusal:
            assert refusal.path.startswith(f"$.{name}")
        else:
            assert accepted[name] == value


# constraints

LIMITS: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "number, min: 2": ([2, 2.5], [1, 1.99, -3]),
    "number, max: 1 + 1": ([2, -5], [2.001]),
    "integer, min: 1, max: 3": ([1, 3.0], [0, 4]),
    "number, range: 0..1.5": ([0, 0.3, 1.5], [-0.1, 1.6]),
    "integer, range: 0..1000000000": ([0, 10**9], [10**9 + 1]),
    "number, range: [-1, 1]": ([-1, 1], [1.1, -2]),
    "decimal, min: 0.1, max: 9.99": (
        ["0.1", 0.1, "9.990", 5],
        ["0.0999999999999999999999", "9.9900000000000000001", 10],
    ),
    "text, min_length: 2": (["ab", "茶茶"], ["a", ""]),
    "text, max_length: 3": (["", "abc"], ["abcd"]),
    "list, min_length: 1, max_length: 2": ([[1], [1, 2]], [[], [1, 2, 3]]),
    'text, pattern: "[0-9]+g"': (["100g", "about 20g of it"], ["100", ""]),
    'text, pattern: "^[a-z]+$"': (["tea"], ["Tea", "tea 2"]),
    'text, choices: ["hot", "cold"]': (["hot"], ["warm", ""]),
    "number, choices: [1, 2.5]": ([1, 2.5, 1.0], [2]),
    "any, choices: [1, null, [2]]": ([1, [2]], [True, "1", [3]]),
    'list of text, subset: ["milk", "honey"]': ([[], ["honey", "honey"]], [["sugar"], ["milk", "salt"]]),
    "any, min: 3": ([3, "text", []], [2]),
    'text, format: "email"': (["mei@tea.example"], ["mei", "mei@"]),
    'text, format: "url"': (["https://tea.example/a?b"], ["tea.example", "mailto:mei@tea.example"]),
    'text, format: "uri"': (["mailto:mei@tea.example"], ["tea"]),
    'text, format: "uuid"': ([UUID], ["0d2f"]),
    'text, format: "date"': (["2031-05-17"], ["2031-13-01"]),
    'text, format: "datetime"': (["2031-05-17T10:00:00"], ["2031-05-17"]),
    'text, format: "ipv4"': (["10.0.0.1"], ["10.0.0.256"]),
}


@pytest.mark.parametrize("type_", LIMITS)
def test_a_constraint_holds(type_: str) -> None:
    made = of(f"leaf as {type_}")
    fitting, others = LIMITS[type_]
    for value in fitting:
        assert made.accept({"leaf": value})["leaf"] == value
    for value in others:
        ((path, _),) = faults(made, {"leaf": value})
        assert path == "$.leaf"


def test_every_constraint_of_the_language_is_among_them() -> None:
    used = {part.split(":")[0].strip() for type_ in LIMITS for part in type_.split(",") if ":" in part}
    others = {"is required", "required", "default", "description", "label", "from"}
    assert used == set(MODIFIERS.names) - others


def test_a_constraint_is_not_looked_at_where_the_type_is_wrong() -> None:
    made = of('leaf as text, min_length: 3, pattern: "x"')
    assert len(faults(made, {"leaf": "a"})) == 2
    assert faults(made, {"leaf": 1}) == [("$.leaf", "needs text, not a number")]


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ('text, format: "emial"', 'text, format: "email"', "is not a format"),
        ('text, pattern: "("', 'text, pattern: "()"', "cannot be used"),
        ('text, pattern: "(?=a)"', 'text, pattern: "a"', "cannot be used"),
        ("number, range: 3", "number, range: 0..3", "`range` needs the least and the greatest number"),
        ("number, range: 5..1", "number, range: 1..5", "`range` needs the least and the greatest number"),
        ("number, range: 0..9 by 3", "number, range: 0..9", "`range` needs"),
        ("number, min: 1 / 0", "number, min: 1 / 2", "has no value before the machine runs"),
        ("number, min: input.leaf", "number, min: 1", "has no value before the machine runs"),
        ('date, default: "soon"', 'date, default: "2031-05-17"', "the default of `leaf` is not of the type date"),
        ("integer, max: 5, default: 6", "integer, max: 5, default: 5", "the default of `leaf` is more than 5"),
        ("list of text, default: [1]", 'list of text, default: ["a"]', "is not of the type list"),
        ("map { a: txt }", "map { a: text }", "`txt` is not a type"),
        ("map { a text }", "map { a: text }", "is not a part of a shape"),
        ("map { a: }", "map { a: any }", "a type is missing"),
        ("map { a: text, a: text }", "map { a: text, b: text }", "twice"),
        ("map { a: list text }", "map { a: list of text }", "cannot follow `list`"),
        ("map { a: map { b: text } c }", "map { a: map { b: text } }", "does not end with its bracket"),
        ('map { a: enum("b") c }', 'map { a: enum("b") }', "do not end with their bracket"),
        ("map { a: text b }", "map { a: text }", "cannot follow `text`"),
        ("map { a: list of }", "map { a: list }", "a type is missing"),
        ("integer, default: 1 / 0", "integer, default: 4 / 2", "the default of `leaf` has no value"),
        ("map { a: enum(b) }", 'map { a: enum("b") }', "not a choice in quotes"),
    ],
)
def test_what_can_never_be_right_is_found_when_the_machine_is_checked(wrong: str, right: str, says: str) -> None:
    (one,) = said_of(f"leaf as {wrong}")
    assert (one.severity, says in one.message) == ("error", True)
    assert said_of(f"leaf as {right}") == ()


def test_a_name_that_nothing_gives_is_reported_once() -> None:
    assert [one.code for one in said_of("leaf as number, min: nothing_of_it")] == ["unknown_name"]
    assert said_of("leaf as number, min: 2") == ()


WORDS = st.sampled_from(["a", ":", ",", "text", "list", "of", "(", ")", "{", "}", "map", "enum", '"b"', "?", "\n", "'"])


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_any_shape_is_read_or_refused_with_its_place(text: str) -> None:
    whole = f"{{{text}}}"
    shape = Raw(whole, span=Span(0, len(whole)))
    try:
        parts = read_shape(shape)
    except UsageError as refusal:
        assert 0 <= refusal.span.start <= refusal.span.end <= len(whole)
    else:
        assert len({part.name for part in parts}) == len(parts)


def test_a_shape_that_is_nested_too_deeply_is_refused() -> None:
    deep, deeper = ("{ a: " * levels + "text" + " }" * levels for levels in (10, 200))
    assert read_shape(Raw(deep, span=Span(0, len(deep))))
    with pytest.raises(UsageError, match="nested too deeply"):
        read_shape(Raw(deeper, span=Span(0, len(deeper))))


# input


def test_all_faults_of_an_input_come_at_once() -> None:
    made = of("tea as text, is required", "grams as integer, min: 1", "notes as list of text")
    assert made.accept({"tea": "Sencha", "grams": 100, "notes": []})
    with pytest.raises(SchemaViolation) as caught:
        made.accept({"gramms": 3, "grams": 0, "notes": ["a", 2, 3]})
    refusal = caught.value
    assert [(fault.path, fault.message) for fault in refusal.faults] == [
        ("$.tea", "is missing"),
        ("$.grams", "is less than 1"),
        ("$.notes[1]", "needs text, not a number"),
        ("$.notes[2]", "needs text, not a number"),
        ("$.gramms", "is unknown"),
    ]
    assert all(f"{fault.path} {fault.message}" in refusal.message for fault in refusal.faults)
    assert refusal.message.startswith("the input is refused: ")
    assert (refusal.path, refusal.expected) == ("$.tea", "text")
    assert "At $.gramms: Did you mean `grams`?" in refusal.hint


def test_very_many_faults_do_not_flood_the_message() -> None:
    made = of("notes as list of text")
    with pytest.raises(SchemaViolation) as caught:
        made.accept({"notes": [1] * 10_000})
    assert len(caught.value.faults) <= 50
    assert len(caught.value.message) < 1_000
    assert made.accept({"notes": ["a"] * 10_000})


def test_a_refusal_does_not_hold_the_value() -> None:
    made = of('code as text, pattern: "^[0-9]+$"', 'kind as enum("a", "b")', "cups as integer, max: 3")
    with pytest.raises(SchemaViolation) as caught:
        made.accept({"code": "hush-hush", "kind": "whisper", "cups": 987654})
    for secret in ("hush-hush", "whisper", "987654"):
        assert secret not in f"{caught.value} {caught.value.faults}"
    assert "$.code" in str(caught.value)


def test_null_counts_as_missing() -> None:
    made = of("tea as text, is required", "milk as text", "cups as integer, default: 2")
    assert made.accept({"tea": "Sencha", "milk": None, "cups": None}) == {"tea": "Sencha", "milk": None, "cups": 2}
    assert faults(made, {"tea": None}) == [("$.tea", "is null")]


def test_what_was_not_given_is_there_as_null() -> None:
    assert of("tea as text", "milk as text").accept({"milk": "no"}) == {"tea": None, "milk": "no"}


def test_an_input_that_is_no_map_is_refused() -> None:
    made = of("tea as text")
    assert made.accept({}) == {"tea": None}
    for value in (None, [], "tea", 3):
        assert faults(made, value)[0][0] == "$"


def test_a_machine_without_fields_takes_an_empty_input_only() -> None:
    made = of()
    assert made.accept({}) == {}
    assert faults(made, {"tea": 1}) == [("$.tea", "is unknown")]


def test_a_name_that_is_no_text_is_refused() -> None:
    assert "not text" in faults(of("tea as text"), {3: 4})[0][1]


# defaults


def test_a_default_is_worth_something_anew_each_time() -> None:
    clock = FakeClock(NOON)
    made = of("at as datetime, default: now()", "notes as list, default: []")
    first = made.accept({}, run=ExpressionRun(clock=clock))
    clock.advance(3600)
    second = made.accept({}, run=ExpressionRun(clock=clock))
    assert (first["at"], second["at"]) == ("2031-05-17T12:00:00.000Z", "2031-05-17T13:00:00.000Z")
    assert first["notes"] is not second["notes"]


def test_what_a_default_draws_is_drawn_from_the_run_and_comes_again() -> None:
    made = of("at as datetime, default: now()")
    run = ExpressionRun(clock=FakeClock(NOON))
    first = made.accept({}, run=run)
    assert made.accept({}, run=ExpressionRun(recorded=run.drawn)) == first
    with pytest.raises(Conflict):
        made.accept({}, run=ExpressionRun(recorded=[]))


def test_a_default_can_read_what_was_given() -> None:
    made = of("tea as text", 'title as text, default: "A cup of " + input.tea')
    assert made.accept({"tea": "Oolong"})["title"] == "A cup of Oolong"
    assert made.accept({"tea": "Oolong", "title": "Cup"})["title"] == "Cup"


def test_a_default_that_does_not_fit_is_refused_as_any_value_is() -> None:
    made = of("tea as text, is required", "cups as integer, max: 5, default: input.tea.length")
    assert made.accept({"tea": "Mate"})["cups"] == 4
    assert faults(made, {"tea": "Gunpowder"}) == [("$.cups", "is more than 5")]


def test_a_default_without_a_value_is_a_fault_of_its_field() -> None:
    made = of("tea as map", "cups as integer, default: input.tea.pot.size")
    assert made.accept({"tea": {"pot": {"size": 3}}})["cups"] == 3
    ((path, message),) = faults(made, {"tea": {}})
    assert (path, "default" in message) == ("$.cups", True)


def test_a_default_that_is_null_does_not_give_what_is_required() -> None:
    made = of("tea as text, is required, default: context.tea")
    assert made.accept({}, names={"context": {"tea": "Mate"}}) == {"tea": "Mate"}
    with pytest.raises(SchemaViolation, match="its default is null"):
        made.accept({}, names={"context": {}})


# answers and outputs


def test_an_answer_may_hold_more_than_was_asked_for() -> None:
    made = of("tea as text", "pot as map { size: integer }")
    value = {"tea": "Sencha", "pot": {"size": 2, "lid": True}, "thoughts": "hm"}
    assert made.answer(value) == {"tea": "Sencha", "pot": {"size": 2}}
    assert {path for path, _ in faults(made, value)} == {"$.thoughts", "$.pot.lid"}


def test_of_a_complete_contract_everything_without_a_default_has_to_be_there() -> None:
    fields = ("tea as text", "cups as integer, default: 1")
    assert of(*fields).answer({}) == {"tea": None, "cups": 1}
    complete = of(*fields, complete=True)
    assert complete.answer({"tea": "Mate"}) == {"tea": "Mate", "cups": 1}
    with pytest.raises(SchemaViolation) as caught:
        complete.answer({"cups": 2})
    assert (caught.value.path, caught.value.message) == ("$.tea", "the answer is refused: $.tea is missing")


def test_an_output_needs_every_field_that_is_declared() -> None:
    made = of("tea as text", "cups as integer, default: 1")
    assert made.respond({"tea": "Mate", "cups": 2, "thoughts": "hm"}) == {"tea": "Mate", "cups": 2}
    assert made.respond({"tea": None, "cups": None}) == {"tea": None, "cups": 1}
    with pytest.raises(SchemaViolation) as caught:
        made.respond({"cups": 3})
    assert caught.value.message == "the output is refused: $.tea is missing"


def test_a_required_output_is_not_null() -> None:
    made = of("tea as text, is required")
    assert made.respond({"tea": ""}) == {"tea": ""}
    with pytest.raises(SchemaViolation) as caught:
        made.respond({"tea": None})
    assert "$.tea is null" in caught.value.message


def test_the_default_of_an_output_can_read_the_names_of_the_run() -> None:
    made = of("tea as text, default: context.house")
    assert made.respond({}, names={"context": {"house": "Assam"}}) == {"tea": "Assam"}
    with pytest.raises(SchemaViolation):
        made.respond({}, names={})


# schemas

MENU = (
    'tea as text, is required, min_length: 2, max_length: 40, label "Tea", description "Which one"',
    "grams as integer, range: 1..500, default: 100",
    "price as decimal, min: 0",
    'kind as enum("green", "black")',
    'tags as list of text, max_length: 3, subset: ["new", "rare"]',
    "pot as map { size: integer, lid?: boolean }",
    "harvest as date",
    "seen as datetime",
    "id as uuid",
    'mail as text, format: "email", pattern: "@"',
    "size as number, choices: [1, 2]",
    "rest as any",
)


def test_the_schema_says_what_a_model_needs_to_know() -> None:
    schema = of(*MENU).schema
    assert (schema["type"], schema["additionalProperties"], schema["required"]) == ("object", False, ["tea"])
    properties = schema["properties"]
    assert properties["tea"] == {
        "type": "string",
        "minLength": 2,
        "maxLength": 40,
        "title": "Tea",
        "description": "Which one",
    }
    assert properties["grams"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}
    assert properties["tags"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["new", "rare"]},
        "maxItems": 3,
    }
    assert properties["pot"]["required"] == ["size"]
    assert properties["mail"] == {"type": "string", "format": "email", "pattern": "@"}
    assert (properties["harvest"]["format"], properties["seen"]["format"]) == ("date", "date-time")


def test_the_schema_of_a_complete_contract_asks_for_all_without_a_default() -> None:
    required = of(*MENU, complete=True).schema["required"]
    assert required == [name for name in of(*MENU).schema["properties"] if name != "grams"]


def test_the_schema_and_the_contract_agree() -> None:
    made = of(*MENU)
    fitting: dict[str, Any] = {
        "tea": "Sencha",
        "grams": 50,
        "price": "4.20",
        "kind": "green",
        "tags": ["new"],
        "pot": {"size": 2},
        "harvest": "2031-05-01",
        "seen": "2031-05-17T10:00:00Z",
        "id": UUID,
        "mail": "a@b.example",
        "size": 2,
        "rest": {"a": None},
    }
    validator = jsonschema_rs.validator_for(made.schema, validate_formats=True)
    assert validator.is_valid(fitting)
    assert made.accept(fitting) == fitting
    wrong: dict[str, Any] = {
        "tea": "S",
        "grams": 501,
        "price": -1,
        "kind": "grey",
        "tags": ["old"],
        "pot": {"lid": True},
        "harvest": "May",
        "seen": "now",
        "id": "x",
        "mail": "b",
        "size": 3,
    }
    for name, value in wrong.items():
        assert not validator.is_valid({**fitting, name: value}), name
        assert faults(made, {**fitting, name: value})


def test_a_pattern_that_only_one_kind_of_expression_has_is_told_in_words() -> None:
    made = of(r'leaf as text, pattern: "\\Qa.b\\E"')
    assert jsonschema_rs.validator_for(made.schema).is_valid({"leaf": "a.b"})
    assert made.accept({"leaf": "xa.bx"})
    assert faults(made, {"leaf": "axb"})


def test_a_shape_over_several_lines_is_read_and_its_faults_are_shown_where_they_stand() -> None:
    text = "machine tea_house\naccepts\n  pot as map {{\n    size: integer, // in cups\n    lid: {}\n  }}\n"
    text += "implements\n  compute one\n    1\n"
    reading, programs, said = check_source(text.format("map { a?: boolean }"))
    assert said == ()
    made = contract(reading.document.accepts or (), programs)
    assert made.accept({"pot": {"size": 1, "lid": {}}})
    wrong = text.format("map { a?: bolean }")
    (one,) = check_source(wrong)[2]
    assert wrong[one.span.start : one.span.end] == "bolean"
