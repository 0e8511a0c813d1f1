"""No schema and no value makes validation slow, and harmless schemas are still validated correctly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda.engine import definitions
from memoranda.engine import validator as validator_module
from memoranda.engine.schemas import Contract, fill_defaults, prepare_schema
from memoranda.engine.validator import Evaluation, Validator
from memoranda.errors import Busy, InvalidDefinition, LimitExceeded, SchemaViolation

Json = dict[str, Any]
SOON = 120.0
"""Seconds: far more than any check here takes on a slow machine, far less than without a bound."""
AGAIN: Json = {"$ref": "#/$defs/n"}


def recursive(part: Json) -> Json:
    return {"type": "object", "properties": {"a": AGAIN}, "$defs": {"n": part}}


def nested(depth: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(depth):
        value = {"a": value}
    return value


def chain(length: int, link: Callable[[Json], Json]) -> Json:
    parts = {f"d{at}": link({"$ref": f"#/$defs/d{at + 1}"}) for at in range(length)}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {**parts, f"d{length}": {"const": 7}},
    }


ATTACK = recursive({"anyOf": [{"type": "object", "properties": {"a": AGAIN}}] * 2})


@pytest.fixture(autouse=True)
def _soon():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON


MULTIPLYING = {
    "anyOf": {"anyOf": [{"properties": {"a": AGAIN}, "required": ["b"]}, {"properties": {"a": AGAIN}, "minLength": 2}]},
    "oneOf": {"oneOf": [{"properties": {"a": AGAIN}}, {"properties": {"a": AGAIN}, "required": ["b"]}]},
    "allOf": {"allOf": [{"properties": {"a": AGAIN}}, {"properties": {"a": AGAIN}}], "maxProperties": 1},
    "not": {"not": {"properties": {"a": {"not": AGAIN}}, "patternProperties": {"^a$": {"not": AGAIN}}}},
    "if": {"if": {"properties": {"a": AGAIN}}, "then": {"properties": {"a": AGAIN}}, "else": {"type": "string"}},
    "dependent": {"dependentSchemas": {"a": {"properties": {"a": AGAIN}}}, "properties": {"a": AGAIN}},
    "pattern": {"patternProperties": {"a": AGAIN, "^a$": AGAIN}, "maxProperties": 1},
    "siblings": {"$ref": "#/$defs/m", "properties": {"a": AGAIN}},
    "dynamic": {"$dynamicAnchor": "again", "anyOf": [{"properties": {"a": {"$dynamicRef": "#again"}}}] * 2},
    "anchor": {"$anchor": "again", "anyOf": [{"properties": {"a": {"$ref": "#again"}}}] * 2},
    "unevaluated": {"anyOf": [{"anyOf": [{"properties": {"a": AGAIN}}]}], "unevaluatedProperties": False},
    "unevaluated schema": {"anyOf": [{"properties": {"b": AGAIN}}], "unevaluatedProperties": {"anyOf": [AGAIN, AGAIN]}},
}  # fmt: skip


@pytest.mark.parametrize("name", MULTIPLYING)
def test_what_multiplies_with_each_level_of_a_value_is_checked_soon(name: str) -> None:
    schema = recursive(MULTIPLYING[name])
    schema["$defs"]["m"] = {"properties": {"a": AGAIN}}
    validator, library = Validator(schema), jsonschema_rs.validator_for(schema)
    for leaf in (1, {}, {"b": 1}, "text"):
        fault = validator.first_fault(nested(60, leaf))
        assert fault is None or len(fault.reason) <= 201
        # The same as without a bound, where that is soon too.
        assert validator.is_valid(nested(4, leaf)) == library.is_valid(nested(4, leaf))
        assert Evaluation(validator.graph).is_valid(nested(4, leaf)) == library.is_valid(nested(4, leaf))


def test_lists_and_what_they_contain_multiply_no_more_than_objects_do() -> None:
    validator = Validator(recursive({"contains": {"anyOf": [AGAIN, AGAIN]}, "items": AGAIN, "unevaluatedItems": AGAIN}))
    value: Any = []
    for _ in range(60):
        value = [value]
    assert not validator.is_valid({"a": value})
    assert not validator.is_valid({"a": [value, value]})
    assert validator.is_valid({"a": 1})


@pytest.mark.parametrize("words", [("anyOf",), ("oneOf",), ("allOf",), ("anyOf", "unevaluatedProperties")])
def test_chains_that_double_are_refused_when_they_are_created_and_end_soon_where_they_were(
    words: tuple[str, ...],
) -> None:
    schema = chain(40, lambda below: {words[0]: [below, below], **dict.fromkeys(words[1:], False)})
    with pytest.raises(InvalidDefinition, match="more than 10,000 parts about one value") as refusal:
        prepare_schema(schema)
    assert refusal.value.path.startswith("$.")
    validator = Validator(schema)  # as one that was stored before
    assert validator.is_valid({"a": 7}) == (words[0] != "oneOf")
    assert not validator.is_valid({"a": 8})
    assert validator.first_fault({"a": 8}) is not None


def test_a_chain_of_properties_is_harmless_and_may_be_long() -> None:
    schema = chain(60, lambda below: {"properties": {"a": below, "b": below}})
    assert prepare_schema(schema)
    validator = Validator(schema)
    assert validator.is_valid(nested(61, 7))
    assert not validator.is_valid(nested(61, 8))


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef"])
def test_what_leads_back_to_itself_is_refused_with_its_path_and_never_followed_round(word: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#loop"}}}
    schema["$defs"] = {"loop": {"$dynamicAnchor": "loop", "allOf": [{word: "#loop"}]}}
    with pytest.raises(InvalidDefinition, match="leads back to itself") as refusal:
        prepare_schema(schema)
    assert refusal.value.path.startswith("$.")
    with pytest.raises(LimitExceeded):
        Validator(schema).is_valid({"a": 1})


KINDS = ("Add", "Mul", "Sub", "Neg")
EXPRESSION: Json = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/E"}},
    "$defs": {
        "E": {"anyOf": [*({"$ref": f"#/$defs/{kind}"} for kind in KINDS), {"type": "integer"}]},
        **{
            kind: {
                "type": "object",
                "properties": {
                    "left": {"$ref": "#/$defs/E"},
                    "right": {"$ref": "#/$defs/E"},
                    "kind": {"const": kind, "type": "string"},
                },
                "required": ["left", "right", "kind"],
            }
            for kind in KINDS
        },
    },
}


def expression(depth: int, leaf: Any) -> Any:
    value = leaf
    for at in range(depth):
        value = {"kind": KINDS[at % 4], "left": value, "right": at}
    return {"root": value}


@pytest.mark.parametrize("depth", [1, 3, 25, 60])
def test_a_union_of_expressions_is_accepted_and_checked_at_every_depth(depth: int) -> None:
    validator = Validator(prepare_schema(EXPRESSION))
    assert validator.is_valid(expression(depth, 1))
    assert not validator.is_valid(expression(depth, "one"))
    assert not validator.is_valid(expression(depth, {"kind": "Div", "left": 1, "right": 1}))
    assert not validator.is_valid(expression(depth, {"kind": "Add", "left": 1}))


def test_a_tree_of_comments_is_given_to_the_library_as_before() -> None:
    comment = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "replies": {"type": "array", "items": AGAIN}},
    }
    validator = Validator(prepare_schema({"type": "object", "properties": {"first": AGAIN}, "$defs": {"n": comment}}))
    value: Any = {"text": "last"}
    for _ in range(30):
        value = {"text": "so", "replies": [value] * 2 if _ < 3 else [value]}
    assert validator._work({"first": value}) < 10_000  # no way leads to a comment twice
    assert validator.is_valid({"first": value})
    value["replies"][0]["replies"][0]["text"] = 5
    fault = validator.first_fault({"first": value})
    assert fault is not None
    assert fault.path == "$.first.replies[0].replies[0].text"


def test_more_work_than_any_value_is_worth_is_a_typed_error(monkeypatch) -> None:
    monkeypatch.setattr(validator_module, "_STEPS", 50_000)
    options = [{"properties": {f"p{at}": {"const": at}}, "required": [f"p{at}"]} for at in range(3_000)]
    validator = Validator({"type": "array", "items": {"anyOf": options}})
    assert validator.is_valid([{"p7": 7}])
    with pytest.raises(LimitExceeded) as refusal:
        validator.is_valid([{"p2999": 2999} for _ in range(2_000)])
    assert refusal.value.details["limit"] < refusal.value.details["actual"]


def test_options_that_are_objects_are_counted_one_by_one() -> None:
    validator = Validator({"type": "array", "items": {"enum": [{"a": at} for at in range(15_000)]}})
    assert validator.is_valid([{"a": 14_999}])
    with pytest.raises(LimitExceeded):
        validator.is_valid([{"a": at} for at in range(14_000, 15_000)] * 20)
    texts = Validator({"type": "array", "items": {"enum": [f"s{at}" for at in range(15_000)]}})
    assert texts.is_valid([f"s{at}" for at in range(15_000)])


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*b", "(x+x+)+y", "^(?:a?){30}a{30}$", r"^\w{3,64}$"])
def test_patterns_that_never_backtrack_are_accepted_and_matched_soon(pattern: str) -> None:
    schema = prepare_schema({"type": "object", "properties": {"a": {"pattern": pattern}}})
    assert not Validator(schema).is_valid({"a": "a" * 500_000 + "!"})
    assert Validator({"pattern": pattern}).is_valid("a" * 40) == (pattern not in ("(a|a)*b", "(x+x+)+y"))


@pytest.mark.parametrize("pattern", ["(?=.*x)y", "(?!foo)bar", "(?<=a)b", r"(.*)\1x", "(((a{100}){100}){100}){100}"])
@pytest.mark.parametrize("word", ["pattern", "patternProperties"])
def test_patterns_that_may_backtrack_are_refused_and_stored_ones_are_bounded(pattern: str, word: str) -> None:
    part = {"pattern": pattern} if word == "pattern" else {"patternProperties": {pattern: {}}}
    with pytest.raises(InvalidDefinition) as refusal:
        prepare_schema({"type": "object", "properties": {"a": part}})
    assert refusal.value.path.startswith(f"$.properties.a.{word}")
    if "{" not in pattern:
        stored = Validator({"type": "object", "properties": {"a": {"pattern": pattern}}})
        assert stored.is_valid({"a": 5})
        with pytest.raises(LimitExceeded):
            stored.is_valid({"a": "a" * 900_000})
    short = Validator({"pattern": "^(?!foo)bar"})
    assert short.is_valid("bark")
    assert not short.is_valid("foobar")


def test_defaults_cannot_make_a_value_grow_without_bound() -> None:
    field = {"type": "object", "properties": {"x": {"default": ["long"] * 2_000}}}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": field}}}
    assert len(fill_defaults(schema, {"a": [{}] * 3})["a"][2]["x"]) == 2_000
    with pytest.raises(LimitExceeded, match="defaults"):
        fill_defaults(schema, {"a": [{}] * 100_000})


def test_what_is_said_about_a_value_is_short_however_long_the_value_is() -> None:
    schema = prepare_schema({"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"maxLength": 3}]}}})
    for value in ({"a": "x" * 900_000}, {"y" * 900_000: 1}, {"a": 1, **{f"n{at}": at for at in range(50_000)}}):
        fault = Validator(schema).first_fault(value)
        assert fault is not None
        assert max(len(fault.path), len(fault.reason), len(fault.schema_path)) <= 201


# The evaluation here and the library must say the same.

SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 1.0, 1.5, -3, "", "a", "ab", "2020-01-01"])
NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3), max_leaves=8
)
ASSERTIONS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "integer", "null", ["object", "array", "number"]]),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "pattern": st.sampled_from(["^a", "b$"]),
        "format": st.just("date"),
        "minLength": st.just(1),
        "maximum": st.just(1),
        "multipleOf": st.sampled_from([2, 0.5]),
        "minItems": st.just(1),
        "maxItems": st.just(2.0),
        "uniqueItems": st.booleans(),
        "maxProperties": st.just(1),
        "required": st.lists(NAMES, max_size=1),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
    },
).map(lambda words: dict(list(words.items())[:2]))


def with_parts(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several, named = st.lists(inside, min_size=1, max_size=3), st.dictionaries(NAMES, inside, max_size=2)
    words: dict[str, st.SearchStrategy[Any]] = {
        "$ref": st.sampled_from(["#/$defs/p", "#/$defs/q", "#mark", "#moving", "#"]),
        "$dynamicRef": st.sampled_from(["#moving", "#mark"]),
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inside,
        "dependentSchemas": named,
        "dependencies": st.dictionaries(NAMES, inside | st.lists(NAMES, max_size=1), max_size=1),
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c"]), inside, max_size=2),
        "additionalProperties": inside,
        "propertyNames": inside,
        "prefixItems": several,
        "items": inside,
        "contains": inside,
        "minContains": st.sampled_from([0, 2]),
        "maxContains": st.just(1),
        "unevaluatedProperties": inside | st.just(False),
        "unevaluatedItems": inside | st.just(False),
    }
    chosen = st.lists(st.sampled_from(sorted(words)), min_size=1, max_size=3, unique=True)
    parts = chosen.flatmap(lambda names: st.fixed_dictionaries({name: words[name] for name in names}))
    tests = st.fixed_dictionaries({"if": inside}, optional={"then": inside, "else": inside})
    return st.tuples(ASSERTIONS, parts | tests).map(lambda both: {**both[0], **both[1]})


SCHEMAS = st.recursive(ASSERTIONS | st.booleans(), with_parts, max_leaves=6)
ROOTS = st.tuples(with_parts(SCHEMAS), SCHEMAS, SCHEMAS).map(
    lambda three: {
        **three[0],
        "$defs": {
            "p": three[1],
            "q": {"$anchor": "mark", "properties": {"a": three[2]}},
            "r": {"$dynamicAnchor": "moving", "items": {"$ref": "#/$defs/p"}},
        },
    }
)


def agree(schema: Json, values: list[Any]) -> None:
    validator = Validator(schema)
    if validator.graph.cycle is not None:
        return  # the library would go round for ever
    library = jsonschema_rs.validator_for(schema, validate_formats=True)
    for value in values:
        fits = library.is_valid(value)
        assert Evaluation(validator.graph).is_valid(value) == fits, (schema, value)
        assert validator.is_valid(value) == fits
        assert (Evaluation(validator.graph).first_fault(value) is None) == fits
        assert (validator.first_fault(value) is None) == fits


@pytest.mark.slow
@given(ROOTS, st.lists(VALUES, min_size=1, max_size=4))
def test_the_evaluation_agrees_with_the_library(schema: Json, values: list[Any]) -> None:
    agree(schema, values)


@pytest.mark.slow
@given(ROOTS, st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=4))
def test_a_strict_schema_accepts_nothing_more_and_stays_as_it_is(schema: Json, values: list[Any]) -> None:
    given = {word: part for word, part in schema.items() if word != "type"}
    try:
        prepared = prepare_schema(given)
    except InvalidDefinition:
        return
    assert prepare_schema(prepared) == prepared
    if "oneOf" in str(given):
        return  # closing what is inside its alternatives may tell them apart
    whole = Validator({**given, "type": "object"})
    strict = Validator(prepared)
    assert all(whole.is_valid(value) for value in values if strict.is_valid(value))


WORDS = (
    "$anchor $defs $dynamicAnchor $dynamicRef $id $recursiveAnchor $recursiveRef $ref $schema additionalItems "
    "additionalProperties allOf anyOf const contains default definitions dependencies dependentRequired "
    "dependentSchemas else enum exclusiveMinimum format id if items minimum not oneOf pattern patternProperties "
    "prefixItems properties required then type unevaluatedProperties"
).split()
JUNK = st.recursive(
    st.sampled_from(
        [None, True, 0, "", "a", "#", "#/", "#/$defs/a", "#a", "http://[", "object", "^(?=a", "^(?!a)b", "("]
    )
    | st.sampled_from([f"http://json-schema.org/draft-0{draft}/schema#" for draft in (4, 6, 7)]),
    lambda inside: (
        st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from([*WORDS, "a", "b"]), inside, max_size=4)
    ),
    max_leaves=14,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(WORDS), JUNK, min_size=1, max_size=5))
def test_what_is_not_a_schema_is_refused_with_the_path_of_its_fault(schema: Json) -> None:
    try:
        prepared = prepare_schema(schema)
    except InvalidDefinition as refusal:
        assert refusal.path.startswith("$")
    else:
        assert not Validator(prepared).is_valid([])


LISTED: Json = {"type": "object", "properties": {"p": {"properties": {"q": {}}}}}
MANY: dict[str, Json] = {
    "alternatives": {"anyOf": [{"properties": {f"p{at}": {}}} for at in range(600)]},
    "alternatives in many places": {
        "properties": {f"p{at}": {"$ref": "#/$defs/u"} for at in range(100)},
        "$defs": {"u": {"anyOf": [{"properties": {f"q{at}": {}}} for at in range(100)]}},
    },
    "parts about one field": {"allOf": [{"properties": {"p": {"properties": {f"q{at}": {}}}}} for at in range(400)]},
    "a chain": {
        "$ref": "#/$defs/d0",
        "$defs": {**{f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(600)}, "d600": LISTED},
    },
    "tuples": {"properties": {"a": {"prefixItems": [{"properties": {"p": {}}}] * 600}}},
    "resources": {
        "properties": {f"p{at}": {"$ref": f"r{at}"} for at in range(400)},
        "$defs": {f"d{at}": {"$id": f"r{at}", "properties": {"a": {"$ref": "#"}}} for at in range(400)},
    },
    "look-ahead": {"properties": {"a": {"pattern": "^" + "(?=a)" * 20_000}}},
    "a long pattern": {"properties": {"a": {"pattern": "^(?=" + "(" * 50_000}}},
    "defaults": {"properties": {f"p{at}": {"default": 1, "anyOf": [{"const": 1}] * 5} for at in range(200)}},
}


@pytest.mark.parametrize("name", MANY)
def test_a_large_schema_is_prepared_or_refused_soon(name: str) -> None:
    try:
        prepared = prepare_schema(MANY[name])
    except (InvalidDefinition, LimitExceeded) as refusal:
        assert len(refusal.message) < 600
    else:
        assert not Validator(prepared).is_valid({"unexpected": 1})


# Through the gate.


def test_the_attack_is_answered_and_nothing_is_kept_of_it(tmp_path) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.definitions.create(name="Trap", slug="trap", schema=ATTACK)
        scope = memory.scope(user="ada")
        with pytest.raises(SchemaViolation):
            scope.set("trap", nested(62))
        assert scope.get("trap") is None
        with pytest.raises(SchemaViolation), memory.batch() as batch:
            batch.set(scope, "plain", 1)
            batch.set(scope, "trap", nested(62))
        assert scope.get("plain") is None
        assert scope.set("trap", nested(61, {})).version == 1
        scope.update("trap", lambda value: nested(60, {}))
        assert scope.value("trap") == nested(60, {})


def big_expression(depth: int) -> Any:
    return 1 if depth == 0 else {"kind": "Neg", "left": big_expression(depth - 1), "right": big_expression(depth - 1)}


def test_others_write_while_a_long_check_is_done(tmp_path) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.definitions.create(name="Sum", slug="sum", schema=EXPRESSION)
        value = {"root": big_expression(13)}
        done = threading.Event()
        took: list[float] = []

        def write_long() -> None:
            began = time.monotonic()
            try:
                memory.scope(user="ada").set("sum", value)
            finally:
                took.append(time.monotonic() - began)
                done.set()

        writer = threading.Thread(target=write_long)
        writer.start()
        longest, count = 0.0, 0
        while not done.is_set():
            began = time.monotonic()
            memory.scope(user="bob").set("plain", count)
            longest, count = max(longest, time.monotonic() - began), count + 1
        writer.join()
        assert memory.scope(user="ada").value("sum") == value
        # A write that waits for the check takes nearly as long as the check.
        assert longest < took[0] / 2, (longest, took[0], count)


def test_a_long_check_is_not_for_callers_who_must_not_be_held_up(tmp_path) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.definitions.create(name="Sum", slug="sum", schema=EXPRESSION)
        hurried = memory.at_once().scope(user="ada")
        with pytest.raises(Busy):
            hurried.set("sum", expression(40, 1))
        assert hurried.get("sum") is None
        lamp = {"type": "object", "properties": {"size": {"type": "integer"}}}
        memory.definitions.create(name="Lamp", slug="lamp", schema=lamp)
        assert hurried.set("lamp", {"size": 3}).version == 1
        with pytest.raises(Busy):
            memory.at_once().definitions.create(name="Trap", slug="trap", schema=ATTACK)


def test_a_definition_that_changes_during_a_long_check_decides(tmp_path, monkeypatch) -> None:
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.definitions.create(name="Sum", slug="sum", schema=EXPRESSION)
        changed: list[int] = []
        record = Contract.record

        def change_meanwhile(contract: Contract, payload: bytes) -> bytes:
            result = record(contract, payload)
            if not changed:
                changed.append(1)
                stricter = {**EXPRESSION, "maxProperties": 0}
                memory.definitions.update("sum", schema=stricter, stale="keep")
            return result

        monkeypatch.setattr(Contract, "record", change_meanwhile)
        with pytest.raises(SchemaViolation):
            memory.scope(user="ada").set("sum", expression(40, 1))
        assert changed
        assert memory.scope(user="ada").get("sum") is None


def test_a_batch_that_merges_into_one_record_many_times_is_checked_each_time(tmp_path) -> None:
    schema = {**EXPRESSION, "properties": {**EXPRESSION["properties"], "note": {"type": "string", "default": "none"}}}
    with memoranda.open(tmp_path / "memory.db") as memory:
        memory.definitions.create(name="Sum", slug="sum", schema=schema)
        scope = memory.scope(user="ada")
        with memory.batch() as batch:
            for depth in range(30, 38):
                batch.set(scope, "sum", expression(depth, 1))
        assert scope.value("sum") == {**expression(37, 1), "note": "none"}


def test_a_stored_definition_that_would_be_refused_today_is_loaded_and_bounded(tmp_path, monkeypatch) -> None:
    look_ahead = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=.*x)y"}}}
    doubling = chain(40, lambda below: {"anyOf": [below, below]})
    with memoranda.open(tmp_path / "memory.db") as memory:
        with monkeypatch.context() as before:  # as 0.1.0 stored them
            before.setattr(definitions, "prepare_schema", lambda schema: schema)
            memory.definitions.create(name="Old", slug="old", schema=look_ahead)
            memory.definitions.create(name="Older", slug="older", schema=doubling)
    with memoranda.open(tmp_path / "memory.db") as memory:
        scope = memory.scope(user="ada")
        scope.set("plain", 1)
        assert scope.set("old", {}).version == 1
        with pytest.raises(LimitExceeded, match="old"):
            scope.set("old", {"a": "a" * 900_000})
        with pytest.raises(SchemaViolation):
            scope.set("old", {"a": "no"})
        scope.set("older", {"a": 7})
        with pytest.raises(SchemaViolation):
            scope.set("older", {"a": 8})
