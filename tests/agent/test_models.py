"""The interface to language models: requests, replies, and one kind of error for all failures."""

from __future__ import annotations

import asyncio
import builtins
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import msgspec
import pytest
from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from memoranda.agent.connection import connect
from memoranda.agent.models import Ask, Model, Reply, Said, ToolCall, ToolSpec
from memoranda.agent.request import ANSWER
from memoranda.errors import ModelError, ModelFailed, ModelUnavailable, UsageError

HELLO = Ask("Be brief.", (Said("user", "Hello"),))
ROOMS = ToolSpec(
    "rooms.find", "Find rooms", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
NIGHTS = {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}


class Listening:
    """A model that keeps what it was asked and gives what it was told to give."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        self.messages: list[Any] = []
        self.info: Any = None

    def __call__(self, messages: list[Any], info: Any) -> ModelResponse:
        self.messages, self.info = messages, info
        for part in self.parts:
            if isinstance(part, BaseException):
                raise part
        return ModelResponse(parts=list(self.parts))


def listening(*parts: Any) -> tuple[Model, Listening]:
    listener = Listening(*parts)
    return connect(FunctionModel(listener)), listener


# what is asked


def test_a_conversation_is_asked_as_it_happened():
    model, heard = listening(TextPart("Two rooms."))
    ask = Ask(
        "Be brief.",
        (
            Said("user", "Rooms in Porto?"),
            Said("assistant", "Let me see.", calls=(ToolCall("c1", "rooms.find", {"city": "Porto"}),)),
            Said("tool", '["7", "8"]', call_id="c1", tool="rooms.find"),
            Said("user", "Quickly, please."),
        ),
        tools=(ROOMS,),
    )
    assert model.reply(ask).text == "Two rooms."
    first, spoken, last = heard.messages
    assert [part.content for part in first.parts] == ["Rooms in Porto?"]
    text, call = spoken.parts
    assert (text.content, call.tool_name, call.args, call.tool_call_id) == (
        "Let me see.",
        "rooms_find",
        {"city": "Porto"},
        "c1",
    )
    result, words = last.parts
    assert (result.tool_name, result.content, result.tool_call_id) == ("rooms_find", '["7", "8"]', "c1")
    assert words.content == "Quickly, please."
    assert heard.info.instructions == "Be brief."
    [tool] = heard.info.function_tools
    assert (tool.name, tool.description, tool.parameters_json_schema) == (
        "rooms_find",
        "Find rooms",
        ROOMS.parameters,
    )


@pytest.mark.parametrize("messages", [(), (Said("assistant", "Welcome."),)])
def test_a_model_can_begin_to_speak(messages):
    model, heard = listening(TextPart("Welcome."))
    assert model.reply(Ask("", messages)).text == "Welcome."
    assert isinstance(heard.messages[-1], ModelRequest) and heard.messages[-1].parts


def test_names_of_tools_that_look_alike_on_the_wire_stay_apart():
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in ("a.b", "a_b", "a b", ANSWER, "é" * 80, "x" * 80))
    model, heard = listening(ToolCallPart("a_b_2", {}), ToolCallPart("a_b", "{}"), ToolCallPart(f"{ANSWER}_2", {}))
    calls = model.reply(Ask("", (Said("user", "go"),), tools=tools)).calls
    assert [call.name for call in calls] == ["a_b", "a.b", ANSWER]
    names = [tool.name for tool in heard.info.function_tools]
    assert len(set(names)) == 6 and all(len(name) <= 64 and name.isascii() for name in names)


def test_how_to_answer_is_passed_on_only_where_it_was_said():
    model, heard = listening(TextPart("Fine."))
    model.reply(Ask("", (Said("user", "go"),), temperature=0.0, max_tokens=50, once=True))
    assert heard.info.model_settings == {"temperature": 0.0, "max_tokens": 50, "max_retries": 0}
    model.reply(HELLO)
    assert not heard.info.model_settings


def test_a_model_that_cannot_promise_one_request_is_asked_without_a_warning():
    class Stubborn(FunctionModel):
        unsupported_settings = frozenset({"max_retries"})

    heard = Listening(TextPart("Fine."))
    once = Ask("", (Said("user", "go"),), once=True)
    assert connect(Stubborn(heard)).reply(once).text == "Fine."
    assert not heard.info.model_settings
    assert connect(FunctionModel(heard)).reply(once).text == "Fine."
    assert heard.info.model_settings == {"max_retries": 0}


# what comes back


def test_text_and_calls_come_back_without_the_thinking():
    model, _ = listening(
        ThinkingPart("hmm"),
        TextPart(" One "),
        TextPart("moment. "),
        ToolCallPart("rooms_find", '{"city": "Porto"}', tool_call_id="c9"),
    )
    reply = model.reply(Ask("", (Said("user", "go"),), tools=(ROOMS,)))
    assert reply.text == "One moment."
    assert reply.calls == (ToolCall("c9", "rooms.find", {"city": "Porto"}),)
    assert reply.tokens_in > 0 and reply.tokens_out > 0


def test_a_tool_that_nobody_offered_comes_back_by_its_name():
    model, _ = listening(ToolCallPart("invented", {"a": 1}))
    assert [call.name for call in model.reply(HELLO).calls] == ["invented"]


def test_a_test_model_calls_tools_and_gives_values():
    model = connect(TestModel())
    [call] = model.reply(Ask("", (Said("user", "go"),), tools=(ROOMS,))).calls
    assert (call.name, list(call.arguments)) == ("rooms.find", ["city"])
    reply = model.reply(Ask("", (Said("user", "go"),), schema=NIGHTS))
    assert reply.value is not None and type(reply.value["nights"]) is int
    assert connect(TestModel(custom_output_text="Hi")).reply(HELLO).text == "Hi"
    assert connect("test").reply(HELLO).text


@pytest.mark.parametrize(
    "part",
    [
        ToolCallPart(ANSWER, {"nights": 3}),
        ToolCallPart(ANSWER, '{"nights": 3}'),
        TextPart('{"nights": 3}'),
        TextPart('Here it is:\n```json\n{"nights": 3}\n```'),
    ],
    ids=["call", "call as text", "text", "fenced text"],
)
def test_a_value_is_found_however_the_model_gives_it(part):
    model, heard = listening(part)
    assert model.reply(Ask("", (Said("user", "three"),), schema=NIGHTS)).value == {"nights": 3}
    [tool] = heard.info.output_tools
    assert (tool.name, tool.parameters_json_schema, heard.info.allow_text_output) == (ANSWER, NIGHTS, False)


def test_with_a_schema_a_model_may_call_tools_first():
    model, _ = listening(ToolCallPart("rooms_find", {"city": "Porto"}))
    reply = model.reply(Ask("", (Said("user", "go"),), tools=(ROOMS,), schema=NIGHTS))
    assert reply.value is None and [call.name for call in reply.calls] == ["rooms.find"]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (TextPart("three nights, I think"), "instead of the requested value"),
        (TextPart("[3]"), "instead of the requested value"),
        (TextPart("\ud800"), "instead of the requested value"),
        (TextPart('{"nights": "three"}'), "not as asked"),
        (ToolCallPart(ANSWER, {}), "not as asked"),
        (ToolCallPart(ANSWER, "{nights: 3"), "not a JSON object"),
        (ToolCallPart(ANSWER, "[1]"), "not a JSON object"),
        (ToolCallPart("rooms_find", "{"), "not a JSON object"),
    ],
)
def test_a_value_that_was_not_asked_for_is_a_failure(part, said):
    model, _ = listening(part)
    with pytest.raises(ModelFailed, match=said) as raised:
        model.reply(Ask("", (Said("user", "three"),), tools=(ROOMS,), schema=NIGHTS))
    failed = raised.value
    assert failed.retryable and failed.hint and failed.reason == "invalid_answer"
    assert failed.fault in failed.message and failed.said
    assert failed.tokens_in > 0 and failed.tokens_out > 0


def test_a_caller_that_looks_itself_gets_any_object_and_nothing_else():
    model, _ = listening(ToolCallPart(ANSWER, {"nights": "three"}))
    ask = Ask("", (Said("user", "three"),), schema=NIGHTS, validate=False)
    assert model.reply(ask).value == {"nights": "three"}
    with pytest.raises(ModelFailed, match="not as asked"):
        model.reply(Ask("", (Said("user", "three"),), schema=NIGHTS))
    model, _ = listening(TextPart("three"))
    with pytest.raises(ModelFailed, match="instead of the requested value"):
        model.reply(ask)


@pytest.mark.parametrize("schema", [None, NIGHTS])
@pytest.mark.parametrize("parts", [(), (TextPart("  "),), (ThinkingPart("hmm"),)])
def test_a_model_that_says_nothing_is_a_failure(schema, parts):
    model, _ = listening(*parts)
    with pytest.raises(ModelFailed, match="said nothing") as raised:
        model.reply(Ask("", (Said("user", "go"),), schema=schema))
    assert (raised.value.reason, raised.value.retryable) == ("silent", True)


def replies_with(response: ModelResponse) -> Model:
    return connect(FunctionModel(lambda messages, info: response))


def test_a_model_that_declines_has_not_answered_whatever_it_said_before():
    parts = [TextPart("First you take")]
    assert replies_with(ModelResponse(parts=parts, finish_reason="stop")).reply(HELLO).text == "First you take"
    with pytest.raises(ModelFailed, match="declined to answer: `no poisons`") as raised:
        details = {"refusal": "no poisons"}
        replies_with(ModelResponse(parts=parts, finish_reason="content_filter", provider_details=details)).reply(HELLO)
    assert (raised.value.reason, raised.value.retryable) == ("refused", False)
    with pytest.raises(ModelFailed, match=r"declined to answer\. Rephrase"):
        replies_with(ModelResponse(parts=parts, finish_reason="content_filter")).reply(HELLO)


def test_an_answer_that_was_cut_off_says_so():
    ask = Ask("", (Said("user", "three"),), schema=NIGHTS)
    part = ToolCallPart(ANSWER, '{"nig')
    with pytest.raises(ModelFailed) as raised:
        replies_with(ModelResponse(parts=[part], finish_reason="length")).reply(ask)
    assert "cut off" in raised.value.hint
    with pytest.raises(ModelFailed) as raised:
        replies_with(ModelResponse(parts=[part], finish_reason="stop")).reply(ask)
    assert "cut off" not in raised.value.hint


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class ReadTimeout(Exception):
    """A timeout such as each client of providers has one of its own."""


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "reason"),
    [
        (ModelHTTPError(429, "m", {"message": "slow down"}), ModelFailed, True, "rate_limited"),
        (ModelHTTPError(503, "m", "busy"), ModelFailed, True, "provider"),
        (ModelHTTPError(408, "m", "late"), ModelFailed, True, "provider"),
        (ModelHTTPError(400, "m", "bad"), ModelFailed, False, "provider"),
        (ModelHTTPError(404, "m", "who?"), ModelUnavailable, None, None),
        (ModelHTTPError(401, "m", "key sk-secret is wrong"), ModelUnavailable, None, None),
        (ContentFilterError("not that"), ModelFailed, False, "refused"),
        (UnexpectedModelBehavior("odd"), ModelFailed, True, "provider"),
        (ConnectionResetError("gone"), ModelFailed, True, "unreachable"),
        (caused(ModelAPIError("m", "no route"), OSError("no route")), ModelFailed, True, "unreachable"),
        (caused(ModelAPIError("m", "slow"), ReadTimeout()), ModelFailed, True, "timeout"),
        (caused(ModelAPIError("m", "unread"), ValueError("no JSON")), ModelFailed, True, "provider"),
        (ModelAPIError("m", "unknown"), ModelFailed, True, "provider"),
        (UserError("not like this"), ModelFailed, False, "provider"),
        (KeyError("bug"), ModelFailed, False, "provider"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_whatever_goes_wrong_is_one_kind_of_error_that_says_why(error, kind, retryable, reason):
    model, _ = listening(error)
    with pytest.raises(ModelError) as raised:
        model.reply(HELLO)
    assert type(raised.value) is kind
    assert (raised.value.details.get("retryable"), raised.value.details.get("reason")) == (retryable, reason)
    assert raised.value.__cause__ is error
    assert raised.value.hint and "sk-secret" not in str(raised.value)


# time and threads


def test_a_model_that_is_late_is_a_failure_and_can_be_asked_again():
    slow = threading.Event()

    async def answer(messages, info):
        if not slow.is_set():
            slow.set()
            await asyncio.sleep(60)
        return ModelResponse(parts=[TextPart("Here.")])

    model = connect(FunctionModel(answer))
    begun = time.perf_counter()
    with pytest.raises(ModelFailed, match=r"within 0\.05 s") as raised:
        model.reply(HELLO, timeout=0.05)
    assert raised.value.retryable and raised.value.reason == "timeout"
    assert time.perf_counter() - begun < 5
    assert model.reply(HELLO).text == "Here."


def test_a_model_that_blocks_its_loop_does_not_hold_up_the_next_request(monkeypatch):
    from memoranda.agent import request

    monkeypatch.setattr(request, "_GRACE", 0.05)
    blocking = threading.Event()

    async def answer(messages, info):
        blocking.wait(30)
        return ModelResponse(parts=[TextPart("Late.")])

    with pytest.raises(ModelFailed, match="did not reply"):
        connect(FunctionModel(answer)).reply(HELLO, timeout=0.05)
    try:
        assert listening(TextPart("Here."))[0].reply(HELLO, timeout=5).text == "Here."
    finally:
        blocking.set()


def test_a_model_can_be_asked_while_a_loop_runs_in_this_thread():
    async def outer():
        return listening(TextPart("Here."))[0].reply(HELLO)

    assert asyncio.run(outer()).text == "Here."


def test_a_model_can_be_asked_from_many_threads():
    def echo(messages, info):
        return ModelResponse(parts=[TextPart(messages[-1].parts[0].content)])

    model = connect(FunctionModel(echo))
    replies: dict[int, Reply] = {}

    def ask(number: int) -> None:
        replies[number] = model.reply(Ask("", (Said("user", str(number)),)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: reply.text for number, reply in replies.items()} == {n: str(n) for n in range(16)}


# names


def test_what_is_a_model_already_is_asked_as_it_is():
    class Parrot:
        name = "parrot"

        def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
            return Reply(ask.messages[-1].text)

    parrot = Parrot()
    given = connect(parrot)
    assert given.name == parrot.name and connect(given) is given
    assert connect(parrot).reply(HELLO).text == "Hello"
    connected = connect(TestModel())
    assert connect(connected) is connected and connected.name == "test:test"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(ValueError("boom"), "provider"), (TimeoutError(), "timeout")],
)
def test_what_the_code_of_a_model_does_wrong_is_a_failure_of_the_model(fault: Exception, reason: str):
    class Broken:
        name = "broken"
        wrong: Exception | None = None

        def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
            if self.wrong is not None:
                raise self.wrong
            return Reply("Fine")

    model = Broken()
    connected = connect(model)
    assert connected.reply(HELLO).text == "Fine"
    model.wrong = fault
    with pytest.raises(ModelFailed) as caught:
        connected.reply(HELLO)
    assert (caught.value.reason, caught.value.model) == (reason, "broken")
    assert caught.value.__cause__ is fault
    model.wrong = UsageError("as it came")
    with pytest.raises(UsageError, match="as it came"):
        connected.reply(HELLO)


@pytest.mark.parametrize("name", ["gpt-5.2", "", ":", "openai:", ":gpt"])
def test_a_name_that_names_no_model_is_refused_at_once(name):
    with pytest.raises(ModelUnavailable, match="does not name a model") as raised:
        connect(name)
    assert "anthropic:claude-sonnet-4-6" in raised.value.hint


@pytest.mark.parametrize("thing", [5, None, object(), TestModel])
def test_what_is_no_model_is_refused(thing):
    with pytest.raises(UsageError, match="is not a model"):
        connect(thing)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai:gpt-5.2", "OPENAI_API_KEY"),
        ("nobody:knows", "Unknown model"),
        ("groq:llama", "pip install"),
    ],
)
def test_what_is_missing_is_said_when_the_model_is_asked(monkeypatch, name, said):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = connect(name)
    assert model.name == name
    with pytest.raises(ModelUnavailable) as raised:
        model.reply(HELLO)
    assert name in raised.value.message and said in raised.value.hint


def test_without_pydantic_ai_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("pydantic_ai"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModelUnavailable) as raised:
        connect("openai:gpt-5.2").reply(HELLO)
    assert 'pip install "memoranda[llm]"' in raised.value.hint


def test_naming_a_model_imports_nothing():
    program = """
        import sys
        from memoranda.agent.connection import connect
        connect("anthropic:claude-sonnet-4-6")
        print([name for name in ("pydantic_ai", "pydantic", "asyncio", "httpx") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# over the wire

WIRES = ["openai:gpt-5.2", "openai-chat:gpt-5.2"]


@pytest.mark.parametrize("name", WIRES)
def test_a_model_by_its_name_is_asked_over_the_wire(server, name):
    reply = connect(name).reply(HELLO)
    assert reply == Reply("Hello.", tokens_in=11, tokens_out=7)
    [asked] = server.asked
    assert asked.path == ("/responses" if name.startswith("openai:") else "/chat/completions")
    assert asked.body["model"] == "gpt-5.2" and not asked.body["stream"]
    assert asked.headers["authorization"] == "Bearer sk-made-up-for-tests"
    assert "Be brief." in json.dumps(asked.body)


@pytest.mark.parametrize("name", WIRES)
def test_tools_and_their_results_go_over_the_wire(server, wire, name):
    model = connect(name)
    server.waiting.append(wire.calls(("rooms_find", {"city": "Porto"}), ("rooms_find", "{}"), text="Wait."))
    reply = model.reply(Ask("", (Said("user", "go"),), tools=(ROOMS,)))
    assert (reply.text, [(call.name, call.arguments) for call in reply.calls]) == (
        "Wait.",
        [("rooms.find", {"city": "Porto"}), ("rooms.find", {})],
    )
    results = tuple(Said("tool", "none", call_id=call.id, tool=call.name) for call in reply.calls)
    said = Said("assistant", reply.text, calls=reply.calls)
    assert model.reply(Ask("", (Said("user", "go"), said, *results), tools=(ROOMS,))).text == "Hello."
    sent = json.dumps(server.asked[-1].body)
    assert all(call.id in sent for call in reply.calls) and "rooms_find" in sent and "rooms.find" not in sent


@pytest.mark.parametrize("name", WIRES)
def test_a_value_goes_over_the_wire(server, wire, name):
    server.waiting.append(wire.calls((ANSWER, {"nights": 2})))
    assert connect(name).reply(Ask("", (Said("user", "two"),), schema=NIGHTS)).value == {"nights": 2}
    assert server.asked[0].body["tool_choice"] == "required"


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(429, ModelFailed, True), (500, ModelFailed, True), (400, ModelFailed, False), (401, ModelUnavailable, None)],
)
def test_a_refusal_over_the_wire_is_an_error(server, wire, name, status, kind, retryable):
    model = connect(name)
    server.waiting.append(wire.refuses(status, "not with sk-made-up-for-tests"))
    with pytest.raises(ModelError) as raised:
        model.reply(HELLO)
    assert type(raised.value) is kind and raised.value.details.get("retryable") is retryable
    assert raised.value.status == status
    assert "sk-made-up" not in str(raised.value)
    assert model.reply(HELLO).text == "Hello."


@pytest.mark.parametrize("name", WIRES)
def test_a_model_that_declines_over_the_wire_says_why(server, wire, name):
    model = connect(name)
    server.waiting.append(wire.declines("that is private"))
    with pytest.raises(ModelFailed, match="declined to answer: `that is private`") as raised:
        model.reply(HELLO)
    assert (raised.value.reason, raised.value.tokens_in, raised.value.tokens_out) == ("refused", 11, 7)
    assert model.reply(HELLO).text == "Hello."


@pytest.mark.parametrize("name", WIRES)
def test_one_request_is_one_request_on_the_wire_where_that_was_asked(server, wire, name):
    model = connect(name)
    server.waiting.append(wire.refuses(503, x_should_retry="true", retry_after_ms="1"))
    assert model.reply(HELLO).text == "Hello."
    assert len(server.asked) == 2
    server.waiting.append(wire.refuses(503, x_should_retry="true", retry_after_ms="1"))
    with pytest.raises(ModelFailed) as raised:
        model.reply(Ask("", HELLO.messages, once=True))
    assert (len(server.asked), raised.value.reason, raised.value.retry_after) == (3, "provider", 0.001)


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"choices": []}', b"null", b"\xff", b""])
def test_garbage_over_the_wire_is_an_error(server, wire, name, content):
    model = connect(name)
    server.waiting.append(wire.sends(content))
    with pytest.raises(ModelFailed):
        model.reply(HELLO)
    assert model.reply(HELLO).text == "Hello."


@pytest.mark.parametrize("name", WIRES)
def test_a_silent_server_is_a_failure(server, name):
    server.waiting.append(server.stays_silent())
    with pytest.raises(ModelFailed, match="did not reply") as raised:
        connect(name).reply(HELLO, timeout=0.3)
    assert raised.value.retryable and raised.value.reason == "timeout"


def test_a_server_that_is_not_there_is_a_failure(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(ModelFailed) as raised:
        connect("openai:gpt-5.2").reply(HELLO, timeout=5)
    assert raised.value.retryable and raised.value.reason == "unreachable"


def test_a_model_object_with_its_own_provider_is_asked(server):
    given = OpenAIChatModel("mine", provider=OpenAIProvider(base_url=server.url, api_key="k"))
    model = connect(given)
    assert model.name == "openai:mine"
    assert model.reply(HELLO).text == "Hello."
    assert server.asked[0].body["model"] == "mine"

    async def close() -> None:
        async with given:
            pass

    from memoranda.agent.request import BACKGROUND

    BACKGROUND.run(close(), timeout=5)


def test_connections_end_with_the_model(server):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        connect("openai:gpt-5.2").reply(HELLO)
    gc.collect()
    end = time.perf_counter() + 5
    while before and len(os.listdir("/proc/self/fd")) > before + 4 and time.perf_counter() < end:
        time.sleep(0.01)
    assert not before or len(os.listdir("/proc/self/fd")) <= before + 4


def test_no_request_holds_characters_that_nobody_sees():
    hidden = "\u202e\U000e0041\u200b"
    ask = Ask(
        f"Be kind.{hidden}", (Said("user", f"Hi{hidden}"), Said("tool", f"found{hidden} 👩\u200d🌾", call_id="1"))
    )
    longer = msgspec.structs.replace(ask, messages=(*ask.messages, Said("assistant", hidden)))
    for text in (ask.instructions, *(said.text for said in longer.messages)):
        assert text.endswith(("\\u202e\\U000e0041\\u200b", " 👩\u200d🌾"))
        assert not set(hidden) & set(text)
    assert ask.messages[1].call_id == "1"
