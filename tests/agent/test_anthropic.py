"""A model of Anthropic by its name, as machines name it, over the wire: whole messages and streams alike."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from memoranda.agent.connection import connect
from memoranda.agent.models import Ask, Reply, Said, ToolSpec
from memoranda.agent.request import ANSWER
from memoranda.errors import ModelError, ModelFailed, ModelUnavailable
from memoranda.lang.diagnostics import Diagnostics
from memoranda.mashin.contracts import contract
from memoranda.mashin.expression.compiler import Programs
from memoranda.mashin.parser import read
from memoranda.mashin.runtime.steps import Question, converse
from memoranda.testing.conformance.base import present

NAME = "anthropic:claude-sonnet-4-6"
HELLO = (Said("user", "Hello"),)
LOOKUP = ToolSpec(
    "roof.look",
    "Look at a roof",
    {"type": "object", "properties": {"house": {"type": "string"}}, "required": ["house"]},
)
TILES = {"type": "object", "properties": {"tiles": {"type": "integer"}}, "required": ["tiles"]}
# Without a limit of tokens the client asks for a stream, because the answer could take long.
WAYS = pytest.mark.parametrize("limit", [None, 200], ids=["stream", "whole"])


@WAYS
def test_a_model_is_asked_by_its_name(anthropic, limit):
    assert connect(NAME).reply(Ask("Be brief.", HELLO, max_tokens=limit)) == Reply("Hello.", tokens_in=11, tokens_out=7)
    [asked] = anthropic.asked
    assert (asked.path, asked.body["model"]) == ("/messages", "claude-sonnet-4-6")
    assert asked.body["stream"] is (limit is None)
    assert [block["text"] for block in asked.body["system"]] == ["Be brief."]
    assert "sk-ant-made-up-for-tests" in str(asked.headers) and "anthropic-version" in asked.headers


def test_how_to_answer_goes_over_the_wire_only_where_it_was_said(anthropic):
    model = connect(NAME)
    model.reply(Ask("", HELLO, temperature=0.25, max_tokens=200))
    model.reply(Ask("", HELLO))
    first, second = (asked.body for asked in anthropic.asked)
    assert (first["temperature"], first["max_tokens"]) == (0.25, 200)
    assert "temperature" not in second and second["max_tokens"] > 200


@WAYS
def test_a_structured_answer_goes_over_the_wire(anthropic, claude, limit):
    anthropic.waiting.append(claude.calls((ANSWER, {"tiles": 40})))
    reply = connect(NAME).reply(Ask("", HELLO, schema=TILES, max_tokens=limit))
    assert reply == Reply("", value={"tiles": 40}, tokens_in=11, tokens_out=7)
    [asked] = anthropic.asked
    [tool] = asked.body["tools"]
    assert (tool["name"], tool["input_schema"], asked.body["tool_choice"]["type"]) == (ANSWER, TILES, "any")


@WAYS
def test_tools_and_their_results_go_over_the_wire(anthropic, claude, limit):
    model = connect(NAME)
    anthropic.waiting.append(claude.calls(("roof_look", {"house": "7"}), ("roof_look", {"house": "9"}), text="Wait."))
    reply = model.reply(Ask("", HELLO, tools=(LOOKUP,), max_tokens=limit))
    assert (reply.text, [(call.name, call.arguments) for call in reply.calls]) == (
        "Wait.",
        [("roof.look", {"house": "7"}), ("roof.look", {"house": "9"})],
    )
    results = tuple(Said("tool", "dry", call_id=call.id, tool=call.name) for call in reply.calls)
    said = Said("assistant", reply.text, calls=reply.calls)
    model.reply(Ask("", (*HELLO, said, *results), tools=(LOOKUP,), max_tokens=limit))
    _, spoken, heard = anthropic.asked[1].body["messages"]
    assert [block["type"] for block in spoken["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in heard["content"]] == [call.id for call in reply.calls]


@WAYS
@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (("calls", (ANSWER, '{"tiles": 4')), "not a JSON object"),
        (("calls", (ANSWER, "forty")), "not a JSON object"),
        (("calls", (ANSWER, {"tiles": "forty"})), "not as asked"),
        (("calls", (ANSWER, {})), "not as asked"),
        (("calls", (ANSWER, {"tiles": "\ud800"})), "not a JSON object|half of a character"),
        (("says", "About forty."), "instead of the requested value"),
    ],
)
def test_a_malformed_answer_is_a_failure(anthropic, claude, limit, answers, said):
    how, what = answers
    model = connect(NAME)
    anthropic.waiting += [getattr(claude, how)(what), claude.calls((ANSWER, {"tiles": 40}))]
    with pytest.raises(ModelFailed, match=said) as raised:
        model.reply(Ask("", HELLO, schema=TILES, max_tokens=limit))
    failed = raised.value
    assert (failed.reason, failed.retryable, failed.tokens_in, failed.tokens_out) == ("invalid_answer", True, 11, 7)
    assert model.reply(Ask("", HELLO, schema=TILES, max_tokens=limit)).value == {"tiles": 40}


@WAYS
def test_an_answer_that_was_cut_off_says_so(anthropic, claude, limit):
    anthropic.waiting.append(claude.calls((ANSWER, {}), stop="max_tokens"))
    with pytest.raises(ModelFailed) as raised:
        connect(NAME).reply(Ask("", HELLO, schema=TILES, max_tokens=limit))
    assert raised.value.reason == "invalid_answer" and "cut off" in raised.value.hint


@WAYS
def test_a_refusal_is_no_answer_whatever_was_said_before_it(anthropic, claude, limit):
    model = connect(NAME)
    anthropic.waiting += [claude.declines("roofs are private", text="First climb"), claude.declines()]
    for said in ("declined to answer: `roofs are private`", "declined to answer"):
        with pytest.raises(ModelFailed, match=said) as raised:
            model.reply(Ask("", HELLO, max_tokens=limit))
        failed = raised.value
        assert (failed.reason, failed.retryable, failed.tokens_in, failed.tokens_out) == ("refused", False, 11, 7)
    assert model.reply(Ask("", HELLO, max_tokens=limit)).text == "Hello."


@WAYS
def test_silence_is_a_failure(anthropic, claude, limit):
    model = connect(NAME)
    anthropic.waiting.append(claude.says(""))
    with pytest.raises(ModelFailed, match="said nothing") as raised:
        model.reply(Ask("", HELLO, max_tokens=limit))
    assert raised.value.reason == "silent"
    anthropic.waiting.append(anthropic.stays_silent())
    with pytest.raises(ModelFailed, match=r"did not reply within 0\.3 s") as raised:
        model.reply(Ask("", HELLO, max_tokens=limit), timeout=0.3)
    assert (raised.value.reason, raised.value.retryable) == ("timeout", True)
    assert model.reply(Ask("", HELLO, max_tokens=limit)).text == "Hello."


@WAYS
@pytest.mark.parametrize(
    ("status", "kind", "reason", "retryable"),
    [
        (429, ModelFailed, "rate_limited", True),
        (529, ModelFailed, "provider", True),
        (500, ModelFailed, "provider", True),
        (400, ModelFailed, "provider", False),
        (401, ModelUnavailable, None, None),
        (404, ModelUnavailable, None, None),
    ],
)
def test_an_error_of_the_provider_says_why_after_one_request(anthropic, claude, limit, status, kind, reason, retryable):
    model = connect(NAME)
    anthropic.waiting.append(claude.refuses(status, "not with sk-ant-made-up-for-tests", retry_after="3"))
    with pytest.raises(ModelError) as raised:
        model.reply(Ask("", HELLO, max_tokens=limit, once=True))
    failed = raised.value
    assert (type(failed), failed.status, len(anthropic.asked)) == (kind, status, 1)
    assert (failed.details.get("reason"), failed.details.get("retryable")) == (reason, retryable)
    assert failed.details.get("retry_after") == (3.0 if kind is ModelFailed else None)
    assert "made-up" not in str(failed) and "request_id" not in str(failed)
    assert model.reply(Ask("", HELLO, max_tokens=limit, once=True)).text == "Hello."


@WAYS
def test_the_client_repeats_a_request_only_where_it_may(anthropic, claude, limit):
    model = connect(NAME)
    anthropic.waiting.append(claude.refuses(529, retry_after_ms="1"))
    assert model.reply(Ask("", HELLO, max_tokens=limit)).text == "Hello."
    assert len(anthropic.asked) == 2
    anthropic.waiting.append(claude.refuses(529, retry_after_ms="1"))
    with pytest.raises(ModelFailed):
        model.reply(Ask("", HELLO, max_tokens=limit, once=True))
    assert len(anthropic.asked) == 3


def test_an_error_in_the_middle_of_a_stream_is_a_failure(anthropic, claude):
    model = connect(NAME)
    anthropic.waiting.append(claude.breaks_off("Overloaded"))
    with pytest.raises(ModelFailed, match="Overloaded") as raised:
        model.reply(Ask("", HELLO))
    assert (raised.value.reason, raised.value.retryable) == ("provider", True)
    assert model.reply(Ask("", HELLO)).text == "Hello."


@WAYS
@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"null", b"\xff", b""])
def test_garbage_is_a_failure(anthropic, claude, limit, content):
    model = connect(NAME)
    anthropic.waiting.append(claude.sends(content))
    with pytest.raises(ModelFailed) as raised:
        model.reply(Ask("", HELLO, max_tokens=limit))
    assert raised.value.reason in ("provider", "silent")
    assert model.reply(Ask("", HELLO, max_tokens=limit)).text == "Hello."


def test_a_server_that_is_not_there_is_unreachable(anthropic, monkeypatch):
    assert connect(NAME).reply(Ask("", HELLO)).text == "Hello."
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    with pytest.raises(ModelFailed) as raised:
        connect(NAME).reply(Ask("", HELLO, once=True), timeout=5)
    assert (raised.value.reason, raised.value.retryable) == ("unreachable", True)


def test_a_missing_key_names_the_setting(anthropic, monkeypatch):
    assert connect(NAME).reply(Ask("", HELLO)).text == "Hello."
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelUnavailable) as raised:
        connect(NAME).reply(Ask("", HELLO))
    assert "ANTHROPIC_API_KEY" in raised.value.hint and NAME in raised.value.message
    assert len(anthropic.asked) == 1


def test_a_missing_package_is_named(anthropic, monkeypatch):
    assert connect(NAME).reply(Ask("", HELLO)).text == "Hello."
    for module in ("pydantic_ai.models.anthropic", "pydantic_ai.providers.anthropic"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ModelUnavailable) as raised:
        connect(NAME).reply(Ask("", HELLO))
    assert "`anthropic` package" in raised.value.hint
    assert len(anthropic.asked) == 1


# a machine's question, as far as the wire


def test_a_question_of_a_machine_is_answered_over_the_wire_with_a_tool_and_a_correction(anthropic, claude):
    text = (
        'ask roofer, using: "anthropic:claude-sonnet-4-6"\n  with task "go"\n  returns\n    tiles as integer, min: 1\n'
    )
    reading = read(text, fragment=True)
    step: Any = present(reading.document.implements).body[0]
    shape = contract(step.returns, Programs(Diagnostics(reading.source)), complete=True)
    anthropic.waiting += [
        claude.calls(("roof_look", {"house": "7"})),
        claude.calls((ANSWER, {"tiles": 0})),
        claude.says("About forty."),
        claude.calls((ANSWER, {"tiles": 40, "colour": "red"})),
    ]
    asked: list[int] = []
    question = Question(role="You mend roofs.", task="How many tiles?", contract=shape, tools=(LOOKUP,))
    answer = converse(
        connect(NAME), question, timeout=10, attempt=asked.append, call_tool=lambda name, given: {"area": 4}
    )
    assert (answer.value, answer.requests, answer.tokens_in, answer.tokens_out) == ({"tiles": 40}, 4, 44, 28)
    assert asked == [1, 2, 3, 4] and len(anthropic.asked) == 4
    last = anthropic.asked[-1].body
    assert [block["text"] for block in last["system"]] == ["You mend roofs."]
    assert [message["role"] for message in last["messages"]] == ["user", "assistant"] * 3 + ["user"]
    assert last["messages"][0]["content"][0]["text"] == "How many tiles?"
    assert "$.tiles" in str(last["messages"][4]) and "instead of the requested value" in str(last["messages"][6])
