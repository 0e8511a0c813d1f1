"""What a model may call: tasks of the workflow and the mounted memory, and everything it may send that is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from memoranda.agent.connection import connect
from memoranda.agent.models import Reply
from memoranda.api.memory import Memory
from memoranda.errors import ActionFailed, Busy, ModelFailed, NotFound, UsageError
from memoranda.runs.records import load_memory
from memoranda.testing.conformance.base import present
from memoranda.workflow.actions.base import Tool

Act = Callable[..., Any]
STOCK = Tool(
    "find_part",
    "Look whether a part is in stock.",
    {"type": "object", "properties": {"part": {"type": "string"}}, "required": ["part"]},
)
HOURS = Tool("opening_hours", "When the workshop is open.", {"type": "object"})
NOTE = {"bike": {"frame_colour": "moss"}}


def heard(model: Any, place: int = -1) -> list[str]:
    """Return the results of tools that a model was told in one request."""
    return [said.text for said in model.asked[place].messages if said.role == "tool"]


def errors(model: Any) -> list[str]:
    return [json.loads(text)["error"] for text in heard(model)]


# tasks


def test_a_model_calls_a_task_and_is_told_what_it_gave(act: Act, place: Any, scripted: Any, wants: Any) -> None:
    place.answers["find_part"] = {"left": 3}
    model = scripted(wants(("find_part", {"part": "chain"}), text="Let me see."), "Three are left.")
    given = act("ai_agent", model=model, tools=(STOCK,))
    assert place.tasks == [("find_part", {"part": "chain"})]
    asking, call, result = model.asked[1].messages
    assert (call.role, call.text, call.calls[0].name) == ("assistant", "Let me see.", "find_part")
    assert (result.role, result.text, result.call_id, result.tool) == ("tool", '{"left":3}', "c0", "find_part")
    assert asking == model.asked[0].messages[0]
    assert given["text"] == "Three are left."
    assert (given["steps"], given["tool_calls"]) == (2, [{"name": "find_part", "failed": False}])
    assert given["usage"]["total_tokens"] == 26


def test_48_tools_come_in_their_order_and_memory_last(act: Act, scripted: Any) -> None:
    model = scripted("Fine.")
    act("ai_agent", model=model, tools=(STOCK, HOURS), slugs=("bike",))
    assert [tool.name for tool in model.asked[0].tools] == ["find_part", "opening_hours", "update_memory"]
    assert model.asked[0].tools[0].description == "Look whether a part is in stock."
    assert model.asked[0].tools[0].parameters == {**STOCK.parameters, "additionalProperties": False}


def test_48_calling_the_memory_tool_writes_the_record(
    act: Act, place: Any, scripted: Any, wants: Any, memory: Memory
) -> None:
    model = scripted(wants(("update_memory", {"memory": NOTE})), "Noted.")
    assert act("ai_generate_reply", model=model, slugs=("bike",))["text"] == "Noted."
    assert heard(model) == ['{"memory":{"bike":{"frame_colour":"moss"}}}']
    assert place.memory.values == NOTE
    assert memory.scope(user="mira").value("bike") == NOTE["bike"]
    assert place.tasks == []


def test_49_two_tools_of_one_name_are_refused_before_anybody_is_asked(act: Act, scripted: Any) -> None:
    model = scripted("Fine.")
    with pytest.raises(UsageError, match="two tools `find_part`"):
        act("ai_agent", model=model, tools=(STOCK, STOCK))
    assert model.asked == []
    act("ai_agent", model=model, tools=(STOCK, HOURS))
    assert len(model.asked) == 1


def test_t20_a_tool_with_the_name_of_the_memory_tool_is_refused_where_memory_is_mounted(
    act: Act, place: Any, scripted: Any, wants: Any
) -> None:
    own = Tool("update_memory", "Ours.", {"type": "object"})
    model = scripted(wants(("update_memory", {"anything": 1})), "Fine.")
    with pytest.raises(UsageError, match=r"`update_memory`, the name of the tool for mounted memory"):
        act("ai_agent", model=model, tools=(own,), slugs=("bike",))
    assert model.asked == []
    act("ai_agent", model=model, tools=(own,))
    assert place.tasks == [("update_memory", {"anything": 1})]


def test_inputs_of_a_tool_that_no_schema_describes_are_refused(act: Act, scripted: Any) -> None:
    model = scripted("Fine.")
    with pytest.raises(UsageError, match="the inputs of the tool `bad`"):
        act("ai_agent", model=model, tools=(Tool("bad", "", {"type": "object", "properties": 7}),))
    assert model.asked == []
    assert act("ai_agent", model=model, tools=(STOCK,))


# what is wrong with a call


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("find_parts", {"part": "chain"}, "not among the tools: find_part, update_memory"),
        ("find_part", {"part": "chain", "colour": "red"}, "colour"),
        ("find_part", {}, "part"),
        ("find_part", {"part": 7}, r"\$\.part"),
        ("find_part", {"part": ["chain"] * 5_000}, r"\$\.part"),
        ("find_part", {"part": "c" * 2_000_000}, "bytes"),
        ("find_part", {"part": "half \ud800"}, "surrogate"),
        ("find_\ud800", {}, "not among the tools"),
        ("update_memory", {"memory": {"bike": {"gears": "many"}}}, "gears"),
        ("update_memory", {"memory": {"bike": {"wheels": 2}}}, "wheels"),
        ("update_memory", {"memory": {"bike": {"frame_colour": "m" * 2_000_000}}}, "bytes"),
        ("update_memory", {"memory": {"bike": {"frame_colour": "half \ud800"}}}, "surrogate"),
        ("update_memory", {"memory": NOTE, "more": 1}, "one property"),
        ("update_memory", {"bike": {}}, "one property"),
        ("update_memory", {}, "one property"),
    ],
)
def test_what_a_model_sends_wrong_is_an_error_for_it_and_nothing_happens(
    act: Act, place: Any, scripted: Any, wants: Any, name: str, arguments: Any, why: str
) -> None:
    model = scripted(wants((name, arguments)), wants(("find_part", {"part": "chain"})), "Sorry.")
    given = act("ai_agent", model=model, tools=(STOCK,), slugs=("bike",))
    assert place.memory.values == {}
    assert place.tasks == [("find_part", {"part": "chain"})]
    assert given["text"] == "Sorry."
    assert [one["failed"] for one in given["tool_calls"]] == [True, False]
    error = json.loads(heard(model)[0])["error"]
    assert len(error) < 1_000
    assert re.search(why, error)


def test_t14_a_record_that_is_not_mounted_is_not_written(
    act: Act, place: Any, scripted: Any, wants: Any, memory: Memory
) -> None:
    schema = {"type": "object", "properties": {"phone": {"type": "string"}}}
    memory.definitions.create(name="Contact", slug="contact", schema=schema)
    place.memory = load_memory(memory, owner="mira", workflow="workshop")
    both = {"memory": {**NOTE, "contact": {"phone": "555"}}}
    model = scripted(wants(("update_memory", both)), "Sorry.")
    act("ai_generate_reply", model=model, slugs=("bike",))
    assert "contact" in errors(model)[0]
    assert place.memory.values == {}
    act("ai_generate_reply", model=scripted(wants(("update_memory", both)), "Noted."), slugs=("bike", "contact"))
    assert set(place.memory.values) == {"bike", "contact"}


@pytest.mark.parametrize("name", ["ai_agent", "ai_generate_reply", "ai_generate_text"])
def test_t15_without_a_call_nothing_is_written(
    act: Act, place: Any, scripted: Any, wants: Any, memory: Memory, name: str
) -> None:
    place.memory.write({"bike": {"gears": 8}})
    version = present(memory.scope(user="mira").get("bike")).version
    act(name, model=scripted("I will remember that your bike is moss."), slugs=("bike",))
    assert present(memory.scope(user="mira").get("bike")).version == version
    act(name, model=scripted(wants(("update_memory", {"memory": NOTE})), "Noted."), slugs=("bike",))
    assert present(memory.scope(user="mira").get("bike")).version == version + 1


def test_the_memory_tool_is_none_of_a_task_without_mounted_memory(
    act: Act, place: Any, scripted: Any, wants: Any
) -> None:
    model = scripted(wants(("update_memory", {"memory": NOTE})), "Sorry.")
    act("ai_agent", model=model)
    assert "not among the tools: there are none" in errors(model)[0]
    assert place.memory.values == {}
    act("ai_agent", model=scripted(wants(("update_memory", {"memory": NOTE})), "Noted."), slugs=("bike",))
    assert place.memory.values == NOTE


def test_a_task_that_fails_is_an_error_for_the_model_but_a_failing_disk_ends_the_run(
    act: Act, place: Any, scripted: Any, wants: Any
) -> None:
    place.answers["find_part"] = NotFound("there is no shelf 9", hint="Look at shelf 8")
    model = scripted(wants(("find_part", {"part": "chain"})), "Sorry.")
    assert act("ai_agent", model=model, tools=(STOCK,))["text"] == "Sorry."
    assert errors(model) == ["there is no shelf 9. Look at shelf 8"]
    place.answers["find_part"] = NotFound("there is no shelf \ud800")
    model = scripted(wants(("find_part", {"part": "chain"})), "Sorry.")
    act("ai_agent", model=model, tools=(STOCK,))
    assert errors(model) == ["there is no shelf ?"]
    for fault, raised in ((Busy("the database is locked"), Busy), (RuntimeError("a bug"), ActionFailed)):
        place.answers["find_part"] = fault
        with pytest.raises(raised):
            act("ai_agent", model=scripted(wants(("find_part", {"part": "chain"}))), tools=(STOCK,))


def test_the_instruction_stays_as_it_was_while_memory_is_written(
    act: Act, place: Any, scripted: Any, wants: Any
) -> None:
    model = scripted(wants(("update_memory", {"memory": NOTE})), "Noted.")
    act("ai_generate_reply", model=model, slugs=("bike",))
    first, second = model.asked
    assert first.instructions == second.instructions and "moss" not in second.instructions
    later = scripted("Your moss bike is ready.")
    act("ai_generate_reply", model=later, slugs=("bike",))
    assert "- Frame colour: moss" in later.asked[0].instructions


# how many steps


def test_a_model_speaks_once_more_than_it_has_tools(act: Act, place: Any, scripted: Any, wants: Any) -> None:
    place.answers["find_part"] = {}
    call = wants(("find_part", {"part": "chain"}))
    model = scripted(call, call, call, "Done.")
    given = act("ai_agent", model=model, tools=(STOCK, HOURS))
    assert (given["finish_reason"], given["steps"], given["text"]) == ("tool_calls", 3, "")
    assert len(place.tasks) == 3
    given = act("ai_agent", model=scripted(call, call, "Done."), tools=(STOCK, HOURS))
    assert (given["finish_reason"], given["steps"], given["text"]) == ("stop", 3, "Done.")


@pytest.mark.parametrize("steps", [1, 2, 4, 4.0])
def test_a_task_may_say_how_often_a_model_speaks(act: Act, place: Any, scripted: Any, wants: Any, steps: float) -> None:
    place.answers["find_part"] = {}
    call = wants(("find_part", {"part": "chain"}))
    model = scripted(*[call] * 6)
    given = act("ai_agent", None, {"stop_step_count": steps}, model=model, tools=(STOCK,))
    assert (given["finish_reason"], given["steps"], len(model.asked)) == ("tool_calls", steps, steps)
    # A step is a step, if the task says how many: also one in which nothing could be done.
    model = scripted(*[wants(("find_part", {}))] * 6)
    act("ai_agent", None, {"stop_step_count": steps}, model=model, tools=(STOCK,))
    assert len(model.asked) == steps


def test_a_step_in_which_nothing_could_be_done_does_not_count_twice(
    act: Act, place: Any, scripted: Any, wants: Any
) -> None:
    wrong = wants(("update_memory", {"memory": {"bike": {"wheels": 2}}}))
    right = wants(("update_memory", {"memory": NOTE}))
    assert act("ai_generate_reply", model=scripted(wrong, wrong, right, "Noted."), slugs=("bike",))["text"] == "Noted."
    assert place.memory.values == NOTE
    stubborn = scripted(*[wrong] * 9)
    with pytest.raises(ModelFailed):
        act("ai_generate_reply", model=stubborn, slugs=("bike",))
    assert len(stubborn.asked) == 4


def test_a_step_in_which_something_was_done_counts(act: Act, place: Any, scripted: Any, wants: Any) -> None:
    place.answers["find_part"] = {}
    wrong, right = ("find_part", {}), ("find_part", {"part": "chain"})
    mixed = scripted(*[wants(wrong, right)] * 6)
    assert act("ai_agent", model=mixed, tools=(STOCK,))["steps"] == 2
    useless = scripted(*[wants(wrong, wrong)] * 6)
    assert act("ai_agent", model=useless, tools=(STOCK,))["steps"] == 4


@pytest.mark.parametrize("name", ["ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object"])
def test_a_model_that_only_calls_tools_gave_no_answer(
    act: Act, place: Any, scripted: Any, wants: Any, name: str
) -> None:
    settings = {"output_schema": STOCK.parameters} if "object" in name else {}
    answer = Reply(value={"part": "chain"}) if "object" in name else "Done."
    call = wants(("find_part", {"part": "chain"}), text="One moment.")
    with pytest.raises(ModelFailed, match=r"in each of its 2 steps.*stop_step_count") as caught:
        act(name, None, settings, model=scripted(call, call, answer), tools=(STOCK,))
    assert caught.value.reason == "silent"
    act(name, None, {**settings, "stop_step_count": 3}, model=scripted(call, call, answer), tools=(STOCK,))


def test_a_model_may_make_several_calls_at_once_and_ask_for_an_object_after(
    act: Act, place: Any, scripted: Any, wants: Any
) -> None:
    place.answers.update(find_part={"left": 3}, opening_hours="9 to 5")
    calls = wants(("find_part", {"part": "chain"}), ("opening_hours", {}), ("update_memory", {"memory": NOTE}))
    model = scripted(calls, Reply(value={"part": "chain"}))
    settings = {"output_schema": STOCK.parameters}
    given = act("ai_infer_object", None, settings, model=model, tools=(STOCK, HOURS), slugs=("bike",))
    assert given["object"] == {"part": "chain"}
    assert heard(model) == ['{"left":3}', '"9 to 5"', '{"memory":{"bike":{"frame_colour":"moss"}}}']


def test_an_agent_over_the_wire_remembers_and_answers(
    act: Act, place: Any, server: Any, wire: Any, memory: Memory
) -> None:
    place.answers["find_part"] = {"left": 3}
    place.memory.write({"bike": {"gears": 8}})
    server.waiting = [
        wire.calls(
            ("find_part", {"part": "chain"}), ("update_memory", {"memory": {"bike": {**NOTE["bike"], "gears": 8}}})
        ),
        wire.says("Three chains are left, and I noted the colour."),
    ]
    model = connect("openai:made-up")
    given = act("ai_agent", {"system": "You mend bicycles."}, model=model, tools=(STOCK,), slugs=("bike",))
    assert given["text"] == "Three chains are left, and I noted the colour."
    assert given["usage"] == {"input_tokens": 22, "output_tokens": 14, "total_tokens": 36}
    assert memory.scope(user="mira").value("bike") == {"frame_colour": "moss", "gears": 8}
    first, second = (json.dumps(asked.body) for asked in server.asked)
    assert "You mend bicycles.\\n\\n# Working Memory\\n## Bike\\n- Gears: 8" in first
    assert '{\\"left\\":3}' in second
