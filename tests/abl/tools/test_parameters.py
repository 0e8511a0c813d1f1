"""The arguments of a tool: by position and by name, converted as declared, with none missing."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from memoranda.abl.tools.parameters import type_schema
from memoranda.abl.tools.toolbox import Toolbox

FIND = "find_rooms(city: string, nights: number, breakfast: boolean = false, view?: string) -> object"


def echo(**arguments: Any) -> dict[str, Any]:
    return arguments


@pytest.fixture
def rooms(make_box: Any) -> Toolbox:
    return make_box(FIND, {"find_rooms": echo})


def test_arguments_by_position_follow_the_signature(rooms):
    assert list(rooms.schema("find_rooms")["properties"]) == ["city", "nights", "breakfast", "view"]
    assert rooms.call("find_rooms", ["Porto", 2], {}).value == {"city": "Porto", "nights": 2, "breakfast": False}


def test_arguments_by_name_and_by_position_can_be_mixed(rooms):
    outcome = rooms.call("find_rooms", ["Porto"], {"view": "sea", "nights": 3, "breakfast": True})
    assert outcome.value == {"city": "Porto", "nights": 3, "breakfast": True, "view": "sea"}


def test_an_undeclared_function_is_called_by_the_names_of_its_own_parameters(make_box):
    def convert(amount, currency="EUR"):
        return [amount, currency]

    box = make_box(tools={"convert": convert})
    assert list(box.schema("convert")["properties"]) == ["amount", "currency"]
    assert box.call("convert", [5], {}).value == [5, "EUR"]
    assert box.call("convert", [5, "USD"], {}).value == [5, "USD"]
    assert box.call("convert", [], {"amount": 5, "currency": None}).value == [5, "EUR"]
    assert box.call("convert", [None], {}).value == [None, "EUR"]


def test_a_declaration_without_parameters_takes_those_of_the_function(make_box):
    box = make_box("greet", {"greet": lambda name: f"Hello, {name}"})
    assert list(box.schema("greet")["properties"]) == ["name"]
    assert box.call("greet", ["Ada"], {}).value == "Hello, Ada"


@pytest.mark.parametrize(
    ("kind", "given", "taken"),
    [
        ("number", "2", 2),
        ("number", "2.5", 2.5),
        ("boolean", "true", True),
        ("date", "2027-06-01", "2027-06-01"),
        ("string", "2", "2"),
        ("array", [1, "a"], [1, "a"]),
        ("object", {"a": [1]}, {"a": [1]}),
        ("{a: number[]}", {"a": [1]}, {"a": [1]}),
        ("{a: number}[]", [{"a": 1}], [{"a": 1}]),
        ("Booking", {"a": [1]}, {"a": [1]}),
        ("Booking | null", {"a": [1]}, {"a": [1]}),
        ("Booking[]", [{"a": 1}], [{"a": 1}]),
        ("number[]", ["1", 2], [1, 2]),
        ("integer | null", "7", 7),
        ('"Sea View" | "Garden"', "sea view", "Sea View"),
        ("economy|business", "Business", "business"),
    ],
)
def test_an_argument_becomes_what_its_parameter_declares(make_box, kind, given, taken):
    box = make_box(f"keep(it: {kind})", {"keep": lambda it: it})
    value = box.call("keep", [given], {}).value
    assert value == taken and type(value) is type(taken)


@pytest.mark.parametrize(
    ("kind", "given", "fitting"),
    [
        ("number", "two rooms", 2),
        ("boolean", "perhaps", True),
        ("date", "someday", "2027-06-01"),
        ("object", "x", {"x": 1}),
    ],
)
def test_an_argument_that_does_not_fit_is_named(make_box, kind, given, fitting):
    called: list[Any] = []
    box = make_box(f"keep(it: {kind})", {"keep": lambda it: called.append(it)})
    failure = box.call("keep", [given], {}).failure
    assert failure is not None and failure.kind == "validation_error"
    assert "`it`" in failure.message and given in failure.message and kind in failure.message
    assert called == []
    assert box.call("keep", [fitting], {}).failure is None
    assert called == [fitting]


@pytest.mark.parametrize(
    ("positional", "named", "said"),
    [
        (["Porto"], {}, "needs the argument `nights`"),
        (["Porto", None], {}, "needs the argument `nights`"),
        ([], {"nights": 2}, "needs the argument `city`"),
        (["Porto", 2, True, "sea", "more"], {}, "takes 4 arguments, 5 were given"),
        (["Porto", 2], {"city": "Faro"}, "`city` of the tool `find_rooms` is given twice"),
        (["Porto", 2], {"veiw": "sea"}, "no argument `veiw`. Did you mean `view`?"),
        (["Porto", 2], {"xyz": 1}, "It takes: city, nights, breakfast, view"),
    ],
)
def test_arguments_that_do_not_match_the_signature_are_refused(rooms, positional, named, said):
    failure = rooms.call("find_rooms", positional, named).failure
    assert failure is not None and failure.kind == "validation_error"
    assert said in failure.message
    assert rooms.call("find_rooms", ["Porto", 2], {}).failure is None


def test_null_for_an_optional_parameter_counts_as_not_given(rooms):
    value = rooms.call("find_rooms", ["Porto", 2, None, None], {}).value
    assert value == {"city": "Porto", "nights": 2, "breakfast": False}


def test_null_is_passed_on_where_the_type_allows_it(make_box):
    box = make_box("note(text: string | null)\nstrict(text: string)", {"note": echo, "strict": echo})
    assert box.call("note", [None], {}).value == {"text": None}
    assert box.call("strict", [None], {}).failure.kind == "validation_error"


def test_defaults_are_made_anew_for_each_call(make_box):
    def collect(tags):
        tags.append("seen")
        return tags

    box = make_box("collect(tags: array = [])", {"collect": collect})
    assert box.call("collect", [], {}).value == ["seen"]
    assert box.call("collect", [], {}).value == ["seen"]


def test_a_tool_cannot_change_the_arguments_of_its_caller(make_box):
    mine = {"stops": ["Porto"]}
    box = make_box("extend(trip: object)", {"extend": lambda trip: trip["stops"].append("Faro") or trip})
    assert box.call("extend", [mine], {}).value == {"stops": ["Porto", "Faro"]}
    assert mine == {"stops": ["Porto"]}


def test_arguments_together_have_a_limit(make_box):
    box = make_box("length(text: string, more?: string)", {"length": lambda text, more="": len(text + more)})
    assert box.call("length", ["x" * 300_000, "y" * 200_000], {}).value == 500_000
    failure = box.call("length", ["x" * 300_000, "y" * 300_000], {}).failure
    assert failure is not None and failure.kind == "validation_error" and "524,288" in failure.message


def test_the_schema_tells_a_model_what_to_give(make_box):
    box = make_box(
        """
        find_rooms(city: string, nights: number = 1, kind?: "single" | "double", days: date[], note: string | null)
          description: Rooms that are free
        """.replace("        ", ""),
        {"find_rooms": echo},
    )
    assert box.schema("find_rooms") == {
        "type": "object",
        "description": "Rooms that are free",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "number"},
            "kind": {"enum": ["single", "double"]},
            "days": {"type": "array", "items": {"type": "string", "format": "date"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["city", "days", "note"],
        "additionalProperties": False,
    }


def test_the_schema_of_a_function_comes_from_its_annotations(make_box):
    def book(room: int, guests: list[str], *, late: bool = False, note=None, **more: str) -> None:
        """Book a room."""

    schema = make_box(tools={"book": book}).schema("book")
    assert schema["description"] == "Book a room."
    assert schema["required"] == ["room", "guests"]
    assert "additionalProperties" not in schema
    # The annotations of this file are texts.
    assert schema["properties"]["room"] == {"type": "integer"}
    assert schema["properties"]["late"] == {"type": "boolean"}
    assert schema["properties"]["guests"] == {"type": "array", "items": {"type": "string"}}
    assert schema["properties"]["note"] == {}


def test_the_schema_of_a_function_comes_from_real_annotations_too(make_box):
    class Place(msgspec.Struct):
        city: str

    def go(days, place, how):
        pass

    go.__annotations__ = {"days": list[int], "place": Place, "how": str | None}
    schema = make_box(tools={"go": go, "part": partial(go, 1)}).schema("go")
    assert schema["properties"] == {
        "days": {"type": "array", "items": {"type": "integer"}},
        "place": {},
        "how": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert "description" not in make_box(tools={"part": partial(go, 1)}).schema("part")


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        ("STRING", {"type": "string"}),
        ("integer", {"type": "integer"}),
        ("string?", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("array<number>", {"type": "array", "items": {"type": "number"}}),
        ("enum(small, large)", {"enum": ["small", "large"]}),
        ("datetime", {"type": "string", "format": "date-time"}),
        (
            "{name: string, age?: number}[]",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "age": {"type": "number"}},
                    "required": ["name"],
                },
            },
        ),
        ("'a|b' | 'c'", {"enum": ["a|b", "c"]}),
        ("economy | business", {"enum": ["economy", "business"]}),
        ("unheard_of", {}),
        ("unheard_of | null", {"anyOf": [{}, {"type": "null"}]}),
        ("", {}),
    ],
)
def test_types_as_people_write_them_have_a_schema(written, schema):
    assert type_schema(written) == schema
