"""A conversation with a model, for every kind of caller: what is sent, what is counted, and what ends it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoranda.agent.connection import connect
from memoranda.agent.conversation import CORRECTIONS, Conversation, Heard, ToolFailed
from memoranda.agent.models import Ask, Reply, Said, ToolCall, ToolSpec
from memoranda.errors import (
    EvaluationFailed,
    InvalidValue,
    LimitExceeded,
    ModelFailed,
    NotFound,
    SchemaViolation,
    UsageError,
)

LOOMS = ToolSpec("looms.free", "Which looms are free", {"type": "object"})
DYES = ToolSpec("dyes.left", "Which dyes are left", {"type": "object"})
CLOTH = {"type": "object", "properties": {"ells": {"type": "integer"}}}
BEFORE = (Said("user", "We weave on Monday."), Said("assistant", "Noted."), Said("user", "How many ells?"))
TEXT = Ask("You weave.", BEFORE, temperature=0.5, max_tokens=80)
VALUE = Ask("You weave.", BEFORE, schema=CLOTH)
TOOLS = Ask("You weave.", BEFORE, tools=(LOOMS, DYES))


class Scripted:
    """A model that replies with what it was given, one thing a request, and keeps what it was asked."""

    name = "made:up"

    def __init__(self, *replies: Reply | Exception | str) -> None:
        self.replies = list(replies)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply, tokens_in=10, tokens_out=2) if isinstance(reply, str) else reply

    def told(self) -> list[Said]:
        """Return what was said since the conversation began, as the last request has it."""
        return list(self.asked[-1].messages[len(BEFORE) :])


def gives(**value: Any) -> Reply:
    return Reply("", value=value, tokens_in=10, tokens_out=2)


def wants(*calls: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    made = tuple(ToolCall(f"c{place}", name, arguments) for place, (name, arguments) in enumerate(calls))
    return Reply(text, made, tokens_in=10, tokens_out=2)


def talk(model: Scripted, ask: Ask, **options: Any) -> Conversation:
    return Conversation(model, ask, timeout=5, **options)


# what is asked


def test_a_question_is_asked_as_it_is_and_only_its_caller_looks_at_the_value() -> None:
    model = Scripted("Nine.")
    assert talk(model, TEXT).hear() == Heard(text="Nine.", calls=(), answer="Nine.")
    assert model.asked == [Ask("You weave.", BEFORE, temperature=0.5, max_tokens=80, validate=False)]
    model = Scripted(gives(ells="nine"))
    assert talk(model, VALUE).hear().answer == {"ells": "nine"}
    assert model.asked[0].schema == CLOTH and not model.asked[0].validate


def test_a_conversation_goes_on_after_an_answer() -> None:
    model = Scripted(wants(("looms.free", {})), "Nine.", "Still nine.")
    talked = talk(model, TOOLS, call_tool=lambda name, arguments: 4)
    heard = talked.hear()
    assert (heard.answer, [call.name for call in heard.calls]) == (None, ["looms.free"])
    talked.call_tools(heard)
    assert talked.hear().answer == "Nine."
    assert talked.hear().answer == "Still nine."
    assert (talked.requests, talked.tokens_in, talked.tokens_out) == (3, 30, 6)


def test_tools_without_anybody_to_call_them_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing to call them with"):
        talk(Scripted(), TOOLS)
    assert talk(Scripted(), TOOLS, call_tool=lambda name, arguments: None)


# answers that do not fit


@pytest.mark.parametrize(
    "refusal",
    [
        SchemaViolation("$.ells is too small", path="$.ells", expected="more"),
        InvalidValue("$.ells is no number", path="$.ells"),
        LimitExceeded("$.ells is too long", limit=1, actual=2),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
def test_a_value_that_is_refused_is_asked_for_again(refusal: UsageError) -> None:
    def fit(value: dict[str, Any]) -> int:
        if value["ells"] < 9:
            raise refusal
        return value["ells"]

    model = Scripted(gives(ells=3), gives(ells=9))
    assert talk(model, VALUE, fit=fit).hear().answer == 9
    assert model.told() == [
        Said("assistant", '{"ells":3}'),
        Said("user", f"This answer cannot be used: {refusal.message}. Answer again, corrected."),
    ]


def test_what_is_no_fault_of_the_answer_is_not_put_to_the_model() -> None:
    def fit(value: dict[str, Any]) -> Any:
        raise EvaluationFailed("the default of `dye` cannot be computed")

    model = Scripted(gives(ells=3), gives(ells=9))
    with pytest.raises(EvaluationFailed):
        talk(model, VALUE, fit=fit).hear()
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("ask", "wrong", "fault", "echo"),
    [
        (TEXT, "", "the reply is empty", None),
        (TEXT, "half \ud800", "surrogate", "half ?"),
        (VALUE, "nine ells", "there is text instead of the requested value", "nine ells"),
        (VALUE, "", "there is text instead of the requested value", None),
    ],
)
def test_what_is_no_answer_is_asked_for_again(ask: Ask, wrong: str, fault: str, echo: str | None) -> None:
    model = Scripted(wrong, "Nine." if ask is TEXT else gives(ells=9))
    assert talk(model, ask).hear().answer == ("Nine." if ask is TEXT else {"ells": 9})
    *shown, correction = model.told()
    assert [said.text for said in shown] == ([] if echo is None else [echo])
    assert correction.role == "user" and fault in correction.text


def test_corrections_are_counted_over_the_whole_conversation() -> None:
    replies = ["", wants(("looms.free", {})), "", "Nine."]
    talked = talk(Scripted(*replies), TOOLS, call_tool=lambda name, arguments: 4)
    talked.call_tools(talked.hear())
    assert talked.hear().answer == "Nine." and CORRECTIONS == 2
    talked = talk(Scripted(*replies[:3], "", "Nine."), TOOLS, call_tool=lambda name, arguments: 4)
    talked.call_tools(talked.hear())
    with pytest.raises(ModelFailed, match=r"1\. the reply is empty; 2\. the reply is empty; 3\. the reply") as raised:
        talked.hear()
    assert (raised.value.reason, raised.value.model, len(raised.value.faults)) == ("invalid_answer", "made:up", 3)


def test_every_reply_counts_also_one_that_cannot_be_used() -> None:
    used: list[tuple[int, int]] = []
    unread = ModelFailed("nonsense", reason="invalid_answer", fault="no JSON", said="{", tokens_in=7, tokens_out=1)
    late = ModelFailed("late", reason="timeout")
    model = Scripted(unread, gives(ells=9), late)
    talked = talk(model, VALUE, used=lambda read, written: used.append((read, written)))
    assert talked.hear().answer == {"ells": 9}
    assert "no JSON" in model.told()[-1].text
    with pytest.raises(ModelFailed) as raised:
        talked.hear()
    assert raised.value is late
    assert used == [(7, 1), (10, 2)] and (talked.tokens_in, talked.tokens_out, talked.requests) == (17, 3, 3)


def test_who_is_told_of_a_request_may_stop_it() -> None:
    def attempt(number: int) -> None:
        if number == 2:
            raise NotFound("there is no budget left")

    model = Scripted("", "Nine.")
    with pytest.raises(NotFound):
        talk(model, TEXT, attempt=attempt).hear()
    assert len(model.asked) == 1
    assert talk(Scripted("Nine."), TEXT, attempt=attempt).hear().answer == "Nine."


# tools


def test_calls_are_carried_out_in_order_and_the_model_is_told_what_came_of_each() -> None:
    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        called.append((name, arguments))
        if name == "dyes.left":
            raise ToolFailed("the vat \ud800 leaks")
        return {"free": [2, 5]}

    called: list[tuple[str, dict[str, Any]]] = []
    model = Scripted(
        wants(("looms.free", {"day": "Monday"}), ("dyes.left", {}), ("shears", {}), text="Let me see."), "Nine."
    )
    talked = talk(model, TOOLS, call_tool=call_tool)
    results = talked.call_tools(talked.hear())
    assert called == [("looms.free", {"day": "Monday"}), ("dyes.left", {})]
    assert [(one.name, one.failed) for one in results] == [("looms.free", False), ("dyes.left", True), ("shears", True)]
    talked.hear()
    spoken, *told = model.told()
    assert (spoken.text, [call.id for call in spoken.calls]) == ("Let me see.", ["c0", "c1", "c2"])
    assert told == [result.said for result in results] and talked.results == results
    assert [said.call_id for said in told] == ["c0", "c1", "c2"]
    assert [json.loads(said.text) for said in told] == [
        {"free": [2, 5]},
        {"error": "the vat ? leaks"},
        {"error": "`shears` is not among the tools: looms.free, dyes.left"},
    ]


@pytest.mark.parametrize("wrong", [float("inf"), float("nan"), -float("inf")])
def test_a_call_with_a_number_that_is_none_is_made_and_sent_again_with_null(wrong: float) -> None:
    made: list[Any] = []
    model = Scripted(wants(("looms.free", {"widths": [1.5, wrong]})), "Nine.")
    talked = talk(model, TOOLS, call_tool=lambda name, arguments: made.append(arguments))
    talked.call_tools(talked.hear())
    assert talked.hear().answer == "Nine."
    assert repr(made) == repr([{"widths": [1.5, wrong]}])
    assert model.told()[0].calls[0].arguments == {"widths": [1.5, None]}


def test_a_call_where_there_are_no_tools_is_told_so() -> None:
    talked = talk(Scripted(wants(("shears", {}))), TEXT)
    [result] = talked.call_tools(talked.hear())
    assert result.failed and "there are none" in result.said.text


def test_what_else_a_tool_raises_ends_the_conversation() -> None:
    def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        raise NotFound("the weaver is away")

    talked = talk(Scripted(wants(("looms.free", {}))), TOOLS, call_tool=call_tool)
    with pytest.raises(NotFound):
        talked.call_tools(talked.hear())
    assert talked.results == []


def test_a_conversation_goes_over_the_wire(server: Any, wire: Any) -> None:
    server.waiting += [
        wire.calls(("looms_free", {"day": "Monday"})),
        wire.says("Many."),
        wire.calls(("give_answer", {"ells": 9})),
    ]
    ask = Ask("You weave.", BEFORE, tools=(LOOMS,), schema=CLOTH)
    talked = Conversation(connect("openai-chat:made-up"), ask, timeout=10, call_tool=lambda name, arguments: [2, 5])
    talked.call_tools(talked.hear())
    assert talked.hear().answer == {"ells": 9}
    assert (talked.requests, talked.tokens_in, talked.tokens_out) == (3, 33, 21)
    roles = [message["role"] for message in server.asked[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"]
