"""The table of actions that ship: what it tells those who write workflows, and those who document them."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.engine.validator import Validator
from memoranda.errors import AlreadyExists
from memoranda.workflow.actions import ai
from memoranda.workflow.actions import builtin as memory
from memoranda.workflow.actions.base import Action, actions_of
from memoranda.workflow.actions.builtin import BUILTIN

ASKING = ("ai_agent", "ai_generate_reply", "ai_generate_text", "ai_generate_object", "ai_infer_object")
DIRECT = ("update_memory", "send_text_message", "wait_for_reply", "set_context", "call_workflow", "http_request")


def test_eleven_actions_ship() -> None:
    assert set(BUILTIN) == {*ASKING, *DIRECT}


@pytest.mark.parametrize("name", BUILTIN)
def test_every_action_says_what_it_does_and_what_it_gives(name: str) -> None:
    action = BUILTIN[name]
    assert action.name == name
    assert action.description.endswith(".") and len(action.description) > 10
    assert "Gives" in (action.act.__doc__ or "")


@pytest.mark.parametrize("name", BUILTIN)
def test_every_input_and_setting_has_a_description_and_no_others_are_taken(name: str) -> None:
    action = BUILTIN[name]
    for schema, check in zip((action.inputs, action.settings), action.checks, strict=True):
        assert all(one["description"].endswith(".") for one in schema["properties"].values())
        fault = Validator({**schema, "required": []}).first_fault({"unheard": 1})
        assert fault is not None
        assert "unheard" in fault.reason
        assert not check.is_valid({"unheard": 1})


@pytest.mark.parametrize("name", ASKING)
def test_45_actions_that_ask_a_model_take_all_kinds_of_bindings(name: str) -> None:
    assert BUILTIN[name].bindings == ("tools", "mcp", "model", "memory")


@pytest.mark.parametrize("name", DIRECT)
def test_direct_actions_take_no_bindings(name: str) -> None:
    assert BUILTIN[name].bindings == ()


@pytest.mark.parametrize("name", ASKING)
def test_52_the_legacy_setting_memory_enabled_is_refused(name: str) -> None:
    needed: dict[str, Any] = {"output_schema": {}} if "output_schema" in BUILTIN[name].settings["properties"] else {}
    settings = BUILTIN[name].checks[1]
    assert settings.is_valid({**needed, "temperature": 1})
    for value in (True, False):
        assert not settings.is_valid({**needed, "temperature": 1, "memory_enabled": value})


@pytest.mark.parametrize("name", ["ai_generate_object", "ai_infer_object"])
def test_actions_that_give_an_object_need_its_schema(name: str) -> None:
    settings = BUILTIN[name].checks[1]
    assert settings.is_valid({"output_schema": {"type": "object"}})
    assert not settings.is_valid({})
    assert not settings.is_valid({"output_schema": "object"})


@pytest.mark.parametrize("name", ["ai_generate_text", "ai_generate_object"])
def test_actions_that_read_only_a_prompt_refuse_the_fields_of_a_conversation(name: str) -> None:
    inputs = BUILTIN[name].checks[0]
    assert inputs.is_valid({"prompt": "Which chain?", "system": "Be brief."})
    for field in ({"input_mode": "prompt"}, {"input_mode": "history"}, {"messages_limit": 2}):
        assert not inputs.is_valid({"prompt": "Which chain?", **field})
        assert BUILTIN["ai_agent"].checks[0].is_valid({"prompt": "Which chain?", **field})


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3"])
def test_a_limit_of_messages_is_a_whole_number_from_one_on(limit: Any) -> None:
    inputs = BUILTIN["ai_infer_object"].checks[0]
    assert inputs.is_valid({"input_mode": "history", "messages_limit": 1})
    assert not inputs.is_valid({"input_mode": "history", "messages_limit": limit})


def test_an_action_that_ships_cannot_be_registered_again_under_its_name() -> None:
    assert set(actions_of([ai])) == set(ASKING)
    assert actions_of([memory, *BUILTIN.values()]) == BUILTIN
    with pytest.raises(AlreadyExists, match="update_memory"):
        actions_of([Action(name="update_memory", act=lambda call: None), *BUILTIN.values()])
