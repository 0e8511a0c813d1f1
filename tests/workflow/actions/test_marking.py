"""Functions of a program that become actions: what they take is read off their parameters, and given to them so."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import pytest

from memoranda.errors import ActionFailed, AlreadyExists, InvalidDefinition, SchemaViolation, UsageError
from memoranda.workflow.actions.base import Action, Call, action, actions_of, carry_out, find_action

if TYPE_CHECKING:
    from decimal import Decimal as Money

Do = Callable[..., Any]


@pytest.fixture
def do(place: Any) -> Do:
    """Return a function that carries out a marked function, with these inputs."""

    def do(function: Any, /, **inputs: Any) -> Any:
        (made,) = actions_of([function]).values()
        return carry_out(made, Call(task="brew", inputs=inputs, settings={}, place=place))

    return do


def made_of(function: Any) -> Action:
    (made,) = actions_of([function]).values()
    return made


@dataclass
class Leaf:
    """One kind of tea in a blend."""

    name: str
    grams: int = 2


class Roast(enum.Enum):
    LIGHT = "light"
    DARK = "dark"


# names


def test_a_function_is_an_action_under_its_own_name_and_says_itself_what_it_does(do: Do) -> None:
    @action
    def steep(minutes: float) -> str:
        """Leave the leaves in the water.

        Not longer than ten minutes.
        """
        return f"{minutes:g} minutes"

    assert (made_of(steep).name, made_of(steep).description) == ("steep", "Leave the leaves in the water.")
    assert "ten minutes" in (made_of(steep).act.__doc__ or "")
    assert do(steep, minutes=3) == "3 minutes"
    assert steep(4) == "4 minutes"


def test_an_action_can_have_another_name_and_more_that_is_said_about_it(do: Do) -> None:
    @action("pour_tea", settings={"type": "object", "maxProperties": 0}, bindings=["memory"])
    def pour(cups: int) -> int:
        return cups

    @action(bindings=("model",))
    def taste() -> str:
        return "fine"

    assert (made_of(pour).name, made_of(pour).bindings, made_of(pour).description) == ("pour_tea", ("memory",), "")
    assert made_of(pour).settings == {"type": "object", "maxProperties": 0}
    assert (made_of(taste).name, made_of(taste).bindings) == ("taste", ("model",))
    assert do(pour, cups=2) == 2
    assert do(taste) == "fine"


@pytest.mark.parametrize("name", ["Pour", "pour tea", "_pour", "pour__tea", "pour_", "", "pour-tea", "tee\n"])
def test_a_name_that_no_task_could_write_is_refused(name: str) -> None:
    with pytest.raises(InvalidDefinition, match="not a valid name for an action"):
        action(name)(lambda call: None)
    assert made_of(action("pour_2_cups")(lambda call: None)).name == "pour_2_cups"


def test_a_function_whose_own_name_is_none_for_an_action_is_told_how_to_give_another() -> None:
    def Steep() -> None: ...

    with pytest.raises(InvalidDefinition, match=r"Steep.*not a valid name") as caught:
        action(Steep)
    assert '@action("' in caught.value.hint
    assert made_of(action("steep")(Steep)).name == "steep"


def test_actions_are_found_in_modules_and_two_of_one_name_are_refused() -> None:
    @action
    def rinse() -> None: ...

    kitchen = ModuleType("kitchen")
    kitchen.rinse, kitchen.shelf = rinse, 3  # type: ignore[attr-defined]
    own = Action(name="dry", act=lambda call: None)
    assert set(actions_of([kitchen, own])) == {"rinse", "dry"}
    kitchen.clean, kitchen.dry = rinse, own  # type: ignore[attr-defined]
    # The same action given twice does not conflict with itself.
    assert set(actions_of([kitchen, own, rinse])) == {"rinse", "dry"}
    with pytest.raises(AlreadyExists, match="`rinse`"):
        actions_of([kitchen, Action(name="rinse", act=lambda call: None)])
    for nothing in (ModuleType("cellar"), print, 3, "rinse"):
        with pytest.raises(UsageError, match=r"not an action\. .*@memoranda\.workflow\.action"):
            actions_of([nothing])


def test_a_name_that_nobody_knows_is_met_with_what_was_probably_meant() -> None:
    known = actions_of([action("steep")(lambda call: None)])
    assert find_action(known, "steep").name == "steep"
    with pytest.raises(UsageError, match=r"`stepe`.*steep"):
        find_action(known, "stepe")


# what it takes


def test_parameters_are_the_inputs_and_those_without_a_default_are_required() -> None:
    @action
    def blend(leaves: list[Leaf], roast: Roast, *, cups: int = 1, note: str | None = None, extra=()) -> None: ...  # type: ignore[no-untyped-def]

    schema = made_of(blend).inputs
    assert schema["required"] == ["leaves", "roast"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "leaves": {"type": "array", "items": {"$ref": "#/$defs/Leaf"}},
        "roast": {"$ref": "#/$defs/Roast"},
        "cups": {"type": "integer", "default": 1},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "extra": {"default": []},
    }
    assert set(schema["$defs"]) == {"Leaf", "Roast"}
    assert made_of(action("nothing")(lambda: None)).inputs == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_a_function_is_given_values_of_its_own_types(do: Do) -> None:
    seen: list[Any] = []

    @action
    def blend(leaves: list[Leaf], roast: Roast, on: date, strength: float, cups: int = 1, anything: Any = None) -> None:
        seen.append((leaves, roast, on, strength, cups, anything))

    do(
        blend,
        leaves=[{"name": "assam"}, {"name": "mint", "grams": 1}],
        roast="dark",
        on="2031-05-01",
        strength=2,
        anything={"a": [1.0]},
    )
    do(blend, leaves=[], roast="light", on="2031-05-02", strength=0.5, cups=3.0)
    first, second = seen
    assert first == ([Leaf("assam"), Leaf("mint", 1)], Roast.DARK, date(2031, 5, 1), 2.0, 1, {"a": [1.0]})
    assert type(first[3]) is float and type(first[5]["a"][0]) is float
    assert second[4] == 3 and type(second[4]) is int


def test_the_constraints_and_descriptions_of_annotations_hold(do: Do) -> None:
    @action
    def heat(
        degrees: Annotated[float, msgspec.Meta(gt=0, le=100, description="How hot.")], how: Literal["fast", "slow"]
    ) -> str:
        return f"{how} to {degrees:g}"

    assert made_of(heat).inputs["properties"] == {
        "degrees": {"type": "number", "exclusiveMinimum": 0, "maximum": 100, "description": "How hot."},
        "how": {"enum": ["fast", "slow"]},
    }
    assert do(heat, degrees=80, how="slow") == "slow to 80"
    for wrong in ({"degrees": 101, "how": "slow"}, {"degrees": 80, "how": "later"}, {"degrees": True, "how": "fast"}):
        with pytest.raises(SchemaViolation):
            do(heat, **wrong)


@pytest.mark.parametrize(
    ("inputs", "path", "expected"),
    [
        ({"leaves": []}, "$.inputs", "cups"),
        ({"leaves": [], "cups": 1, "milk": True}, "$.inputs", "milk"),
        ({"leaves": [], "cups": "two"}, "$.inputs.cups", "integer"),
        ({"leaves": [{"name": "assam"}, {"name": 3}], "cups": 1}, "$.inputs.leaves[1].name", "string"),
        ({"leaves": [], "cups": 1, "on": "tomorrow"}, "$.inputs.on", "date"),
        ({"leaves": [], "cups": 1, "on": "2031-02-30"}, "$.inputs.on", "date"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_their_place_before_the_function_is_called(
    do: Do, inputs: dict[str, Any], path: str, expected: str
) -> None:
    seen: list[int] = []

    @action
    def blend(leaves: list[Leaf], cups: int, on: date = date(2031, 1, 1)) -> None:
        seen.append(cups)

    with pytest.raises(SchemaViolation) as caught:
        do(blend, **inputs)
    error = caught.value
    assert (error.path, error.task, error.action) == (path, "brew", "blend")
    assert expected in error.expected and expected in error.message
    assert "`brew`" in error.message and "`blend`" in error.message
    assert not seen
    do(blend, leaves=[], cups=1, on="2031-02-28")
    assert seen == [1]


def test_what_only_the_types_refuse_is_refused_with_its_place_too(do: Do) -> None:
    class Kettle(msgspec.Struct, tag="kettle"):
        litres: Annotated[int, msgspec.Meta(multiple_of=2)]

    def fill(kettles):  # type: ignore[no-untyped-def]
        return [kettle.litres for kettle in kettles]

    fill.__annotations__["kettles"] = list[Kettle]
    anything = action("fill", inputs={"type": "object"})(fill)
    assert do(anything, kettles=[{"type": "kettle", "litres": 4.0}]) == [4]
    for wrong, path in (
        ([{"type": "kettle", "litres": 4}, {"type": "kettle", "litres": 3}], "$.inputs.kettles[1].litres"),
        ([{"type": "pan"}], "$.inputs.kettles[0].type"),
        (None, "$.inputs.kettles"),
    ):
        with pytest.raises(SchemaViolation) as caught:
            do(anything, kettles=wrong)
        assert caught.value.path == path
        assert " - at " not in caught.value.message


def test_a_schema_of_its_own_holds_instead_of_the_one_of_the_parameters(do: Do) -> None:
    schema = {"type": "object", "properties": {"cups": {"maximum": 4}}}

    @action("pour", inputs=schema)
    def pour(cups: int = 1) -> int:
        return cups

    assert made_of(pour).inputs == schema
    assert do(pour, cups=4) == 4
    with pytest.raises(SchemaViolation, match="5"):
        do(pour, cups=5)
    # The schema lets it through, and the function does not take it.
    with pytest.raises(ActionFailed, match="milk"):
        do(pour, milk=True)


# the call


def test_a_function_that_takes_only_a_call_reads_its_inputs_there(do: Do, place: Any) -> None:
    @action
    def annotated(given: Call) -> Any:
        return given.inputs

    @action
    def named(call):  # type: ignore[no-untyped-def]
        return call.inputs

    @action
    def by_place(call: Call, /) -> Any:
        return call.inputs

    for function in (annotated, named, by_place):
        assert made_of(function).inputs == {"type": "object"}
        assert made_of(function).act is function
        assert do(function, cups=[1], more=None) == {"cups": [1], "more": None}


def test_a_parameter_annotated_call_gets_the_call_and_is_no_input(do: Do, place: Any) -> None:
    @action
    def remind(minutes: float, context: Call) -> str:
        context.place.send(f"In {minutes:g} minutes.")
        return context.task

    assert set(made_of(remind).inputs["properties"]) == {"minutes"}
    assert do(remind, minutes=5) == "brew"
    assert place.sent == ["In 5 minutes."]
    with pytest.raises(SchemaViolation, match="context"):
        do(remind, minutes=5, context="kitchen")


def test_a_call_that_is_annotated_otherwise_or_stands_beside_other_parameters_is_an_input(do: Do) -> None:
    @action
    def shout(call: str) -> str:
        return call.upper()

    @action
    def ring(bell, call):  # type: ignore[no-untyped-def]
        return [bell, call]

    assert set(made_of(ring).inputs["properties"]) == {"bell", "call"}
    assert set(made_of(shout).inputs["properties"]) == {"call"}
    assert do(ring, bell="small", call="now") == ["small", "now"]
    assert do(shout, call="tea") == "TEA"


def test_call_is_known_to_a_module_that_imports_it_for_type_checkers_only(do: Do) -> None:
    names: dict[str, Any] = {"action": action}
    text = (
        "from __future__ import annotations\n"
        "@action\n"
        "def whistle(call: Call) -> str:\n"
        "    return call.task\n"
        "@action\n"
        "def sing(song: str, whose: 'Call') -> str:\n"
        "    return song + whose.task\n"
    )
    exec(text, names)
    assert do(names["whistle"]) == "brew"
    assert do(names["sing"], song="polly ") == "polly brew"


def test_a_decorated_function_takes_what_the_one_inside_takes(do: Do) -> None:
    elsewhere: dict[str, Any] = {"wraps": functools.wraps}
    exec("def twice(function):\n    return wraps(function)(lambda **given: [function(**given)] * 2)", elsewhere)

    @action
    @elsewhere["twice"]
    def stir(leaf: Leaf) -> str:
        return leaf.name

    assert set(made_of(stir).inputs["properties"]) == {"leaf"}
    assert do(stir, leaf={"name": "mint"}) == ["mint", "mint"]


# refused


def test_functions_that_would_return_before_their_work_is_done_are_refused() -> None:
    async def later(cups: int) -> int:
        return cups

    def drops() -> Iterator[int]:
        yield 1

    async def steam() -> AsyncIterator[int]:
        yield 1

    for function in (later, drops, steam):
        with pytest.raises(InvalidDefinition, match=f"{function.__name__}.*asynchronous") as caught:
            action(function)
        assert "asyncio.run" in caught.value.hint

    @action
    def now(cups: int) -> int:
        return cups

    assert made_of(now).name == "now"


def test_parameters_without_a_name_are_refused() -> None:
    def rest(cups: int, *more: int) -> None: ...
    def options(cups: int, **more: int) -> None: ...
    def first(cups: int, /, spoons: int) -> None: ...

    for function, parameter in ((rest, "more"), (options, "more"), (first, "cups")):
        with pytest.raises(InvalidDefinition, match=f"{function.__name__}.*`{parameter}`") as caught:
            action(function)
        assert "call: Call" in caught.value.hint

    def ordinary(cups: int, *, more: int) -> None: ...

    assert set(made_of(action(ordinary)).inputs["properties"]) == {"cups", "more"}


def test_types_that_json_has_no_form_for_are_refused_by_the_name_of_their_parameter() -> None:
    def store(cups: int, where: Path) -> None: ...
    def choose(cups: int, which: list[int] | list[str]) -> None: ...

    for function, parameter in ((store, "where"), (choose, "which")):
        with pytest.raises(InvalidDefinition, match=f"{function.__name__}.*`{parameter}`") as caught:
            action(function)
        assert caught.value.path == parameter

    def keep(cups: int, where: str) -> None: ...

    assert made_of(action(keep)).name == "keep"


def test_types_that_cannot_be_read_are_refused_by_the_name_of_their_parameter() -> None:
    def pay(cups: int, price: Money) -> None: ...

    with pytest.raises(InvalidDefinition, match=r"pay.*`price`.*Money") as caught:
        action(pay)
    assert "type checkers" in caught.value.hint

    def give(cups: int, price: float) -> Money: ...

    # What it gives is not asked for.
    assert made_of(action(give)).name == "give"


def test_what_cannot_be_marked_is_refused() -> None:
    class Pot:
        def pour(self, cups: int) -> int:
            return cups

    with pytest.raises(InvalidDefinition, match="cannot be marked") as caught:
        action("pour")(Pot().pour)
    assert "function" in caught.value.hint
    with pytest.raises(InvalidDefinition, match="cannot be inspected"):
        action("pour")(type)
    assert made_of(action("pour")(lambda cups: Pot().pour(cups))).name == "pour"


@pytest.mark.parametrize("what", ["inputs", "settings"])
def test_a_schema_that_is_none_is_told_with_the_name_of_its_action(do: Do, what: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"cups": {"type": "many"}}}
    given: dict[str, Any] = {what: schema}
    broken = action("pour", **given)(lambda call: None)
    with pytest.raises(InvalidDefinition, match=re.escape(f"the {what} of the action `pour`")) as caught:
        do(broken)
    assert caught.value.path == "$.properties.cups.type"
    schema["properties"]["cups"]["type"] = "number"
    assert do(action("pour", **given)(lambda call: "poured")) == "poured"


def test_a_default_that_json_has_no_word_for_is_not_shown_and_holds_all_the_same(do: Do) -> None:
    class Sugar(NamedTuple):
        lumps: int

    @action
    def sweeten(with_: Any = Sugar(2), when: Any = {1, 2}) -> Any:  # noqa: B006, B008
        return [with_, sorted(when)]

    assert made_of(sweeten).inputs["properties"] == {"with_": {"default": {"lumps": 2}}, "when": {}}
    assert do(sweeten) == [Sugar(2), [1, 2]]
