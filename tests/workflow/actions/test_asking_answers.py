"""What a model answers: what a task gives of it, and how often it is asked again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from memoranda.agent.conversation import CORRECTIONS
from memoranda.agent.models import Reply
from memoranda.errors import InvalidDefinition, ModelFailed

Act = Callable[..., Any]
TEXTS = ("ai_agent", "ai_generate_reply", "ai_generate_text")
OBJECTS = ("ai_generate_object", "ai_infer_object")
JOB: dict[str, Any] = {
    "type": "object",
    "properties": {"part": {"type": "string"}, "hours": {"type": "integer", "minimum": 1}},
    "required": ["part", "hours"],
}
USED = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}


def gives(**value: Any) -> Reply:
    return Reply(value=value, tokens_in=10, tokens_out=3)


@pytest.mark.parametrize("name", ["ai_generate_reply", "ai_generate_text"])
def test_a_text_is_given_with_what_it_took(act: Act, place: Any, scripted: Any, name: str) -> None:
    assert act(name, model=scripted("Clean the rims.")) == {
        "text": "Clean the rims.",
        "model": "made:up",
        "usage": USED,
    }
    assert place.sent == []


def test_an_agent_also_says_how_it_went(act: Act, scripted: Any) -> None:
    assert act("ai_agent", model=scripted("Clean the rims.")) == {
        "text": "Clean the rims.",
        "finish_reason": "stop",
        "steps": 1,
        "tool_calls": [],
        "model": "made:up",
        "usage": USED,
    }


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_given_as_its_schema_says(act: Act, scripted: Any, name: str) -> None:
    model = scripted(gives(part="brake", hours=2))
    given = act(name, settings={"output_schema": JOB}, model=model)
    assert given == {"object": {"part": "brake", "hours": 2}, "model": "made:up", "usage": USED}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (gives(part="brake"), "hours"),
        (gives(part="brake", hours=0), r"\$\.hours"),
        (gives(part="brake", hours=2, price=9), "price"),
        (gives(part="b" * 2_000_000, hours=2), "bytes"),
        (gives(part="half \ud800", hours=2), "surrogate"),
        (Reply("Two hours."), "text instead of"),
        (ModelFailed("no", reason="invalid_answer", fault="it was no JSON", said="{"), "it was no JSON"),
    ],
    ids=["missing", "too-small", "extra", "huge", "half", "text", "unreadable"],
)
def test_an_object_that_does_not_fit_is_asked_for_again_with_what_was_wrong(
    act: Act, scripted: Any, wrong: Any, why: str
) -> None:
    model = scripted(wrong, gives(part="brake", hours=2))
    given = act("ai_infer_object", settings={"output_schema": JOB}, model=model)
    assert given["object"] == {"part": "brake", "hours": 2}
    first, second = model.asked
    assert second.messages[: len(first.messages)] == first.messages
    correction = second.messages[-1]
    assert correction.role == "user"
    assert re.search(why, correction.text)
    assert sum(len(said.text) for said in second.messages) < 10_000


def test_an_object_is_asked_for_at_most_twice_more(act: Act, scripted: Any) -> None:
    wrong = [gives(part="brake", hours=hours) for hours in (0, -1, -2)]
    with pytest.raises(ModelFailed, match="gave no valid answer") as caught:
        act("ai_generate_object", settings={"output_schema": JOB}, model=scripted(*wrong))
    assert (caught.value.reason, caught.value.retryable, len(caught.value.faults)) == ("invalid_answer", True, 3)
    enough = scripted(*wrong[:CORRECTIONS], gives(part="brake", hours=1))
    given = act("ai_generate_object", settings={"output_schema": JOB}, model=enough)
    assert given["object"]["hours"] == 1
    assert given["usage"]["total_tokens"] == 39


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_cannot_be_kept_or_is_none_is_asked_for_again(act: Act, scripted: Any, name: str) -> None:
    model = scripted(Reply("half \ud800"), Reply(""), "Clean the rims.")
    assert act(name, model=model)["text"] == "Clean the rims."
    assert len(model.asked) == 3
    assert all(said.text.encode() is not None for ask in model.asked for said in ask.messages)


def test_other_failures_of_a_model_are_raised_as_they_came(act: Act, scripted: Any) -> None:
    failure = ModelFailed("it was late", reason="timeout", retryable=True)
    model = scripted(failure, "Clean the rims.")
    with pytest.raises(ModelFailed) as caught:
        act("ai_generate_text", model=model)
    assert caught.value is failure and len(model.asked) == 1
    assert act("ai_generate_text", model=model)["text"] == "Clean the rims."


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object", "properties": {"part": {"type": "screw"}}},
        {"type": "object", "properties": {"part": {"$ref": "https://example.org/part.json"}}},
    ],
    ids=["empty", "text", "invalid", "elsewhere"],
)
def test_a_schema_that_cannot_be_used_is_refused_before_anybody_is_asked(act: Act, scripted: Any, schema: Any) -> None:
    model = scripted(gives(part="brake", hours=1))
    with pytest.raises(InvalidDefinition, match="output_schema"):
        act("ai_infer_object", settings={"output_schema": schema}, model=model)
    assert model.asked == []
    assert act("ai_infer_object", settings={"output_schema": JOB}, model=model)
