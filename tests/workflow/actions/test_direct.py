"""Actions that need no model or user: they write memory, say something, set values, and call other workflows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.api.memory import Memory
from memoranda.errors import InvalidKey, NotFound, SchemaViolation
from memoranda.runs.records import load_memory
from memoranda.workflow.actions.base import Call
from memoranda.workflow.actions.builtin import update_memory

Act = Callable[..., Any]

# update_memory


def test_42_records_are_written_and_what_they_hold_is_given(act: Act, place: Any, memory: Memory) -> None:
    given = act("update_memory", {"memory": {"bike": {"frame_colour": "moss", "gears": 8}}})
    assert given == {"memory": {"bike": {"frame_colour": "moss", "gears": 8}}}
    assert place.memory.values == {"bike": {"frame_colour": "moss", "gears": 8}}
    assert memory.scope(user="mira").value("bike") == {"frame_colour": "moss", "gears": 8}


def test_only_the_updated_records_are_given_with_their_defaults(act: Act, place: Any, memory: Memory) -> None:
    schema = {"type": "object", "properties": {"bell": {"type": "string", "default": "none"}}}
    memory.definitions.create(name="Extras", slug="extras", schema=schema)
    place.memory = load_memory(memory, owner="mira", workflow="workshop")
    act("update_memory", {"memory": {"bike": {"gears": 8}}})
    assert act("update_memory", {"memory": {"extras": {}}}) == {"memory": {"extras": {"bell": "none"}}}
    assert set(place.memory.values) == {"bike", "extras"}


def test_nothing_to_write_gives_nothing(act: Act, place: Any) -> None:
    before = place.memory.values
    assert act("update_memory", {"memory": {}}) == {}
    assert place.memory.values is before
    assert act("update_memory", {"memory": {"bike": {}}}) == {"memory": {"bike": {}}}


@pytest.mark.parametrize("slug", ["bad-slug", "Bike", "", "a b", "bike\n"])
def test_43_a_bad_slug_is_refused_by_what_the_action_takes(act: Act, place: Any, slug: str) -> None:
    with pytest.raises(SchemaViolation):
        act("update_memory", {"memory": {slug: {"gears": 8}}})
    assert place.memory.values == {}
    assert act("update_memory", {"memory": {"bike": {"gears": 8}}})


@pytest.mark.parametrize("inputs", [{}, {"bike": {}}, {"memory": None}, {"memory": []}, {"memory": {}, "more": 1}])
def test_44_inputs_without_memory_are_refused(act: Act, inputs: Any) -> None:
    with pytest.raises(SchemaViolation):
        act("update_memory", inputs)
    assert act("update_memory", {"memory": {}}) == {}


def test_t9_a_bad_slug_is_told_before_an_unknown_one(place: Any) -> None:
    both: dict[str, Any] = {"saddle": {}, "bad-slug": {}}
    with pytest.raises(InvalidKey, match="bad-slug"):
        update_memory(Call(task="step", inputs={"memory": both}, settings={}, place=place))
    with pytest.raises(NotFound, match="saddle"):
        update_memory(Call(task="step", inputs={"memory": {"saddle": {}}}, settings={}, place=place))


def test_t10_an_unknown_slug_is_told_before_a_value_that_does_not_fit(act: Act, place: Any) -> None:
    with pytest.raises(NotFound, match="saddle"):
        act("update_memory", {"memory": {"bike": {"gears": "many"}, "saddle": {}}})
    with pytest.raises(SchemaViolation, match="gears"):
        act("update_memory", {"memory": {"bike": {"gears": "many"}}})
    assert place.memory.values == {}


# send_text_message


def test_a_message_is_sent_to_the_owner(act: Act, place: Any) -> None:
    assert act("send_text_message", {"text": "It is ready."}) == {"text": "It is ready."}
    assert place.sent == ["It is ready."]


@pytest.mark.parametrize("inputs", [{}, {"text": ""}, {"text": 7}, {"text": None}, {"text": "Hi", "to": "somebody"}])
def test_what_is_no_message_is_not_sent(act: Act, place: Any, inputs: Any) -> None:
    with pytest.raises(SchemaViolation):
        act("send_text_message", inputs)
    assert place.sent == []
    act("send_text_message", {"text": "Hi"})
    assert place.sent == ["Hi"]


# set_context


def test_values_are_put_into_the_context(act: Act, place: Any) -> None:
    place.context = {"stand": 1, "lift": 2}
    assert act("set_context", {"values": {"stand": 3, "tools": ["spanner"]}}) == {"stand": 3, "tools": ["spanner"]}
    assert place.context == {"stand": 3, "lift": 2, "tools": ["spanner"]}


# call_workflow


def test_another_workflow_is_run_and_its_output_given(act: Act, place: Any) -> None:
    place.answers["estimate"] = {"hours": 2}
    assert act("call_workflow", {"workflow": "estimate", "inputs": {"part": "brake"}}) == {"hours": 2}
    assert place.workflows == [("estimate", {"part": "brake"})]


def test_without_inputs_it_gets_those_of_this_run(act: Act, place: Any) -> None:
    act("call_workflow", {"workflow": "estimate"})
    act("call_workflow", {"workflow": "estimate", "inputs": {}})
    assert place.workflows == [("estimate", {"text": "My brakes squeal."}), ("estimate", {})]


@pytest.mark.parametrize("inputs", [{}, {"workflow": ""}, {"workflow": 3}, {"workflow": "x", "inputs": [1]}])
def test_a_workflow_is_called_by_a_name_and_with_an_object(act: Act, place: Any, inputs: Any) -> None:
    with pytest.raises(SchemaViolation):
        act("call_workflow", inputs)
    assert place.workflows == []
    act("call_workflow", {"workflow": "x", "inputs": {}})
    assert len(place.workflows) == 1
