"""What a model is asked: the prompt or the conversation, the instruction, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda.agent.models import Reply
from memoranda.errors import ModelUnavailable, UsageError
from memoranda.runs.records import HEADING
from memoranda.workflow.actions.ai import ASSISTANT, READER, REPLY_SECONDS, ai_generate_text
from memoranda.workflow.actions.base import Call, Message

Act = Callable[..., Any]
PART = {"type": "object", "properties": {"part": {"type": "string"}}, "required": ["part"]}
TEXTS = ("ai_agent", "ai_generate_reply", "ai_generate_text")
OBJECTS = ("ai_generate_object", "ai_infer_object")
TALKING = ("ai_agent", "ai_generate_reply", "ai_infer_object")


def asked(act: Act, scripted: Any, name: str, inputs: Any = None, **rest: Any) -> Any:
    """Return the one request that an action makes."""
    settings = {"output_schema": PART} if name in OBJECTS else {}
    model = scripted(Reply(value={"part": "chain"}) if name in OBJECTS else "Fine.")
    act(name, inputs, {**settings, **rest.pop("settings", {})}, model=model, **rest)
    (ask,) = model.asked
    return ask


def spoken(ask: Any) -> list[tuple[str, str]]:
    return [(said.role, said.text) for said in ask.messages]


@pytest.mark.parametrize("name", [*TEXTS, *OBJECTS])
def test_the_prompt_is_what_the_task_says_else_the_text_of_the_run(act: Act, scripted: Any, name: str) -> None:
    assert spoken(asked(act, scripted, name, {"prompt": "Which chain?"})) == [("user", "Which chain?")]
    assert spoken(asked(act, scripted, name)) == [("user", "My brakes squeal.")]


@pytest.mark.parametrize("given", [{}, {"text": ""}, {"text": 7}, {"words": "Hello"}])
def test_without_a_prompt_and_a_text_nobody_is_asked(act: Act, place: Any, scripted: Any, given: Any) -> None:
    place.input = given
    model = scripted("Fine.")
    with pytest.raises(UsageError, match=r"`step` has no `prompt`"):
        act("ai_generate_text", model=model)
    assert model.asked == []
    act("ai_generate_text", {"prompt": "Hello"}, model=model)
    assert len(model.asked) == 1


@pytest.mark.parametrize("name", TEXTS)
def test_without_an_instruction_the_model_is_an_assistant(act: Act, scripted: Any, name: str) -> None:
    assert asked(act, scripted, name).instructions == ASSISTANT
    assert asked(act, scripted, name, {"system": "You mend bicycles."}).instructions == "You mend bicycles."
    assert asked(act, scripted, name, {"system": ""}).instructions == ""


@pytest.mark.parametrize("name", OBJECTS)
def test_without_an_instruction_a_model_that_gives_an_object_reads_it_out(act: Act, scripted: Any, name: str) -> None:
    assert asked(act, scripted, name).instructions == READER
    assert asked(act, scripted, name, {"system": "Find parts."}).instructions == "Find parts."


def says(text: str, *, by_owner: bool) -> Message:
    return Message(text=text, sender="mira" if by_owner else "workshop", by_owner=by_owner, at="2027-03-01T09:00:00Z")


@pytest.mark.parametrize("name", TALKING)
def test_history_is_the_newest_messages_oldest_first(act: Act, place: Any, scripted: Any, name: str) -> None:
    place.said = [says(f"{number}", by_owner=number % 2 == 1) for number in range(1, 8)]
    ask = asked(act, scripted, name, {"input_mode": "history"})
    assert spoken(ask) == [("assistant", "4"), ("user", "5"), ("assistant", "6"), ("user", "7")]
    ask = asked(act, scripted, name, {"input_mode": "history", "messages_limit": 2.0})
    assert spoken(ask) == [("assistant", "6"), ("user", "7")]
    assert place.limits == [4, 2] and all(type(limit) is int for limit in place.limits)


def test_history_needs_a_thread_and_something_said_in_it(act: Act, place: Any, scripted: Any) -> None:
    model = scripted("Fine.")
    with pytest.raises(UsageError, match="no messages yet"):
        act("ai_generate_reply", {"input_mode": "history"}, model=model)
    place.said = [says("Hello", by_owner=True)]
    place.thread = None
    with pytest.raises(UsageError, match=r"not part of one.*input_mode: prompt"):
        act("ai_generate_reply", {"input_mode": "history"}, model=model)
    assert model.asked == []
    place.thread = "thread-1"
    assert act("ai_generate_reply", {"input_mode": "history"}, model=model)["text"] == "Fine."


@pytest.mark.parametrize("name", [*TEXTS, *OBJECTS])
def test_a_task_without_a_model_says_what_is_missing(act: Act, scripted: Any, name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"`step` asks a model.*bindings\.model"):
        act(name, settings={"output_schema": PART} if name in OBJECTS else {})
    assert asked(act, scripted, name)


def test_settings_reach_the_model(act: Act, scripted: Any) -> None:
    plain = asked(act, scripted, "ai_generate_text")
    assert (plain.temperature, plain.max_tokens) == (None, None)
    ask = asked(act, scripted, "ai_generate_text", settings={"temperature": 0.2, "max_output_tokens": 50.0})
    assert (ask.temperature, ask.max_tokens) == (0.2, 50)


def test_a_reply_has_the_time_of_its_task_else_a_minute(act: Act, place: Any, scripted: Any) -> None:
    model = scripted(*["Fine."] * 3)
    for settings in ({}, {"timeout_ms": 0}, {"timeout_ms": 2_500}):
        ai_generate_text(Call(task="step", inputs={}, settings=dict(settings), place=place, model=model))
    assert model.timeouts == [REPLY_SECONDS, REPLY_SECONDS, 2.5]


# what is remembered


@pytest.mark.parametrize("name", [*TEXTS, *OBJECTS])
def test_46_without_mounted_memory_there_is_no_heading_and_no_tool(
    act: Act, place: Any, scripted: Any, name: str
) -> None:
    place.memory.write({"bike": {"gears": 8}})
    bare = asked(act, scripted, name)
    assert HEADING not in bare.instructions and bare.tools == ()
    mounted = asked(act, scripted, name, slugs=("bike",))
    assert HEADING in mounted.instructions and len(mounted.tools) == 1


def test_47_t2_what_is_remembered_stands_below_the_instruction_word_for_word(
    act: Act, place: Any, memory: Any, scripted: Any
) -> None:
    place.memory.write({"bike": {"frame_colour": "moss", "gears": 8, "worn_parts": ["chain", "rear tyre"]}})
    ask = asked(act, scripted, "ai_generate_reply", {"system": "You mend bicycles."}, slugs=("bike",))
    assert ask.instructions == (
        "You mend bicycles.\n"
        "\n"
        "# Working Memory\n"
        "## Bike\n"
        "- Frame colour: moss\n"
        "- Gears: 8\n"
        '- Worn parts: ["chain","rear tyre"]'
    )


def test_what_is_remembered_stands_alone_without_an_instruction(act: Act, place: Any, scripted: Any) -> None:
    place.memory.write({"bike": {"gears": 8}})
    ask = asked(act, scripted, "ai_agent", {"system": ""}, slugs=("bike",))
    assert ask.instructions == "# Working Memory\n## Bike\n- Gears: 8"


@pytest.mark.parametrize("name", [*TEXTS, *OBJECTS])
def test_50_mounted_memory_brings_the_tool_for_its_slugs_even_without_a_record(
    act: Act, scripted: Any, name: str
) -> None:
    ask = asked(act, scripted, name, {"system": "You mend bicycles."}, slugs=("bike",))
    assert ask.instructions == "You mend bicycles."
    (tool,) = ask.tools
    assert tool.name == "update_memory"
    records = tool.parameters["properties"]["memory"]
    assert set(records["properties"]) == {"bike"}
    assert records["properties"]["bike"]["properties"]["frame_colour"]["description"] == "As the owner calls it."


def test_the_shape_of_an_object_is_shown_to_the_model_closed(act: Act, scripted: Any) -> None:
    ask = asked(act, scripted, "ai_infer_object")
    assert ask.schema == {**PART, "additionalProperties": False}
    assert asked(act, scripted, "ai_agent").schema is None
