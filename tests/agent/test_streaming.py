"""Streamed replies: the words as they arrive, then the same complete reply and errors as without a stream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anthropic_server
import openai_server
import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel

from memoranda.agent.connection import connect
from memoranda.agent.conversation import Conversation
from memoranda.agent.models import Ask, Model, Reply, Said, StreamingModel, ToolCall, ToolSpec, hear
from memoranda.errors import ModelError, ModelFailed, ModelUnavailable, UsageError

HELLO = Ask("Be brief.", (Said("user", "Hello"),))
ROOMS = ToolSpec("rooms.find", "Find rooms", {"type": "object", "properties": {"city": {"type": "string"}}})
WITH_ROOMS = Ask("Be brief.", (Said("user", "Hello"),), tools=(ROOMS,))


class Wire:
    """A provider, what makes its answers, and a model that is asked there."""

    def __init__(self, module: Any, server: Any, name: str) -> None:
        self.module = module
        self.server = server
        self.model = connect(name, base_url=server.url, api_key="sk-made-up-for-tests")

    def streamed(self, *answers: Any, ask: Ask = HELLO, **options: Any) -> list[str | Reply]:
        """Return all that a stream gives."""
        self.server.waiting[:] = answers
        assert isinstance(self.model, StreamingModel)
        return list(self.model.stream(ask, **options))

    def whole(self, *answers: Any, ask: Ask = HELLO) -> Reply:
        """Return a whole reply."""
        self.server.waiting[:] = answers
        return self.model.reply(ask)


@pytest.fixture(
    scope="module",
    params=[
        (openai_server, "OpenAIServer", "openai-chat:made-up"),
        (openai_server, "OpenAIServer", "openai:gpt-5.2"),
        (anthropic_server, "AnthropicServer", "anthropic:claude-sonnet-4-6"),
    ],
    ids=["completions", "responses", "messages"],
)
def provider(request: pytest.FixtureRequest) -> Iterator[Wire]:
    module, server, name = request.param
    with getattr(module, server)() as one:
        yield Wire(module, one, name)


@pytest.fixture
def spoken(provider: Wire) -> Wire:
    """Return a provider that was asked nothing yet."""
    provider.server.asked.clear()
    provider.server.waiting.clear()
    return provider


# over the wire


def test_words_come_one_by_one_and_then_the_reply_that_a_whole_request_gives(spoken):
    answer = spoken.module.says(" Room seven\n is free. ")
    *words, reply = spoken.streamed(answer)
    assert words == ["Room", " seven", "\n is", " free."]
    assert reply == spoken.whole(answer) == Reply("Room seven\n is free.", tokens_in=11, tokens_out=7)
    streamed, whole = (asked.body for asked in spoken.server.asked)
    assert streamed["stream"] is True
    said = "input" if "input" in streamed else "messages"
    assert streamed[said] == whole[said] and streamed.get("system") == whole.get("system")


def test_words_before_calls_are_told_and_calls_come_with_the_reply(spoken):
    answer = spoken.module.calls(
        ("rooms_find", {"city": "Porto"}), ("rooms_find", {"city": "Faro"}), text="One moment."
    )
    *words, reply = spoken.streamed(answer, ask=WITH_ROOMS)
    assert "".join(words) == "One moment."
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("rooms.find", {"city": "Porto"}),
        ("rooms.find", {"city": "Faro"}),
    ]
    assert reply == spoken.whole(answer, ask=WITH_ROOMS)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_what_is_refused_is_the_error_of_a_whole_request(spoken, status):
    once = Ask("", HELLO.messages, once=True)
    refused = spoken.module.refuses(status, "not with sk-made-up-for-tests")
    errors = []
    for way in (spoken.streamed, spoken.whole):
        with pytest.raises(ModelError) as raised:
            way(refused, ask=once)
        errors.append((type(raised.value), raised.value.message, raised.value.details))
        assert "sk-made-up" not in str(raised.value)
    assert errors[0] == errors[1]
    assert errors[0][0] is (ModelUnavailable if status in (401, 404) else ModelFailed)


@pytest.mark.parametrize("how", ["stops", "breaks_off"])
def test_a_stream_that_breaks_off_is_a_failure_and_no_reply(spoken, how):
    if how == "stops":
        answer = spoken.module.stops(spoken.module.says("Room seven is free."), before="free")
    else:
        answer = spoken.module.breaks_off()
    spoken.server.waiting.append(answer)
    heard = []
    with pytest.raises(ModelFailed) as raised:
        hear(spoken.model, HELLO, heard.append)
    assert raised.value.retryable and raised.value.reason in ("unreachable", "provider")
    assert heard and "free" not in "".join(heard)
    assert hear(spoken.model, HELLO, heard.append).text == "Hello."


def test_a_model_that_declines_has_not_answered_whatever_it_said_before(spoken):
    with pytest.raises(ModelFailed, match="declined to answer: `no poisons`") as raised:
        spoken.streamed(spoken.module.declines("no poisons"))
    assert (raised.value.reason, raised.value.retryable, raised.value.tokens_out) == ("refused", False, 7)


def test_a_stream_has_the_time_of_one_reply(spoken):
    go_on = threading.Event()
    slow = spoken.module.pauses(spoken.module.says("One two."), go_on, before="two")
    spoken.server.waiting.append(slow)
    heard = []
    with pytest.raises(ModelFailed, match=r"within 0\.5 s") as raised:
        hear(spoken.model, HELLO, heard.append, timeout=0.5)
    go_on.set()
    assert (raised.value.reason, raised.value.retryable) == ("timeout", True) and heard in ([], ["One"])
    assert spoken.streamed(spoken.module.says("One two."), timeout=30.0)[-1].text == "One two."


def test_who_stops_listening_ends_the_request(server, wire):
    ended, go_on = threading.Event(), threading.Event()

    def endless(asked):
        answer = wire.says("One two.")(asked)

        def pieces():
            try:
                for piece in answer.content:
                    yield piece
                    while b" two" in piece and not go_on.wait(0.01):
                        yield piece
            finally:
                ended.set()

        return answer._replace(content=pieces())

    server.waiting.append(endless)
    model = connect("openai-chat:made-up")
    assert isinstance(model, StreamingModel)
    try:
        with closing(model.stream(HELLO, timeout=600)) as said:
            assert next(said) == "One"
        assert ended.wait(30)
    finally:
        go_on.set()


# models of pydantic-ai


def test_a_function_that_streams_is_heard_and_its_thinking_is_not():
    async def speak(messages, info):
        yield {0: DeltaThinkingPart(content="hmm")}
        yield "One "
        yield "moment."
        yield {2: DeltaToolCall("rooms_find", '{"city": ', tool_call_id="c1")}
        yield {2: DeltaToolCall(json_args='"Porto"}', tool_call_id="c1")}

    model = streaming(FunctionModel(stream_function=speak))
    *words, reply = model.stream(WITH_ROOMS)
    assert words == ["One", " moment."]
    assert (reply.text, reply.calls) == ("One moment.", (ToolCall("c1", "rooms.find", {"city": "Porto"}),))


def streaming(model: object) -> Any:
    """Return a model that can stream, which not every model can."""
    return connect(model)


def whole(messages: Any, info: Any) -> ModelResponse:
    return ModelResponse(parts=[TextPart("All at once.")])


@pytest.mark.parametrize(
    "model",
    [FunctionModel(whole), WrapperModel(FunctionModel(whole)), FallbackModel(FunctionModel(whole), TestModel())],
    ids=["function", "wrapped", "fallback"],
)
def test_a_model_that_cannot_stream_is_heard_at_once(model):
    [reply] = streaming(model).stream(HELLO)
    assert reply.text == "All at once."
    *words, reply = streaming(TestModel(custom_output_text="Word by word.")).stream(HELLO)
    assert len(words) > 1 and "".join(words) == reply.text == "Word by word."


@pytest.mark.parametrize("error", [KeyError("bug"), ConnectionResetError("gone")])
def test_whatever_goes_wrong_in_the_middle_is_one_kind_of_error(error):
    async def speak(messages, info):
        yield "One "
        raise error

    heard = []
    with pytest.raises(ModelFailed) as raised:
        hear(connect(FunctionModel(stream_function=speak)), HELLO, heard.append)
    assert raised.value.__cause__ is error and heard == ["One"]


def test_a_model_can_be_heard_while_a_loop_runs_in_this_thread():
    async def inside():
        heard = []
        return hear(connect(TestModel(custom_output_text="Hi there.")), HELLO, heard.append), heard

    reply, heard = asyncio.run(inside())
    assert reply.text == "".join(heard) == "Hi there."


def test_a_model_that_blocks_its_loop_in_the_middle_does_not_hold_up_the_next_request(monkeypatch):
    from memoranda.agent import request

    monkeypatch.setattr(request, "_GRACE", 0.05)
    blocking = threading.Event()

    async def speak(messages, info):
        yield "One "
        blocking.wait(30)
        yield "two."

    with pytest.raises(ModelFailed, match="did not reply"):
        hear(connect(FunctionModel(stream_function=speak)), HELLO, lambda words: None, timeout=0.05)
    try:
        assert hear(connect(TestModel(custom_output_text="Here.")), HELLO, lambda words: None).text == "Here."
    finally:
        blocking.set()


# models of one's own


class Own:
    """A custom model that streams these items."""

    name = "made:up"

    def __init__(self, *said: Any) -> None:
        self.said = said
        self.closed = False

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        return Reply("Whole.")

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Iterator[Any]:
        try:
            for one in self.said:
                if isinstance(one, Exception):
                    raise one
                yield one
        finally:
            self.closed = True


class Plain:
    """A custom model that cannot stream."""

    name = "made:up"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        return Reply("Whole.")


def test_a_model_of_ones_own_streams_if_it_can():
    heard: list[str] = []
    assert hear(connect(Own("a", "b", Reply("ab"))), HELLO, heard.append) == Reply("ab")
    assert heard == ["a", "b"]
    plain = connect(Plain())
    assert isinstance(plain, Model) and not isinstance(plain, StreamingModel)
    assert hear(plain, HELLO, heard.append) == Reply("Whole.") and heard == ["a", "b"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [(("a",), "provider"), ((), "provider"), (("a", KeyError("bug")), "provider"), (("a", TimeoutError()), "timeout")],
)
def test_a_stream_of_ones_own_that_gives_no_reply_is_a_failure(said, reason):
    with pytest.raises(ModelFailed) as raised:
        hear(connect(Own(*said)), HELLO, lambda words: None)
    assert raised.value.reason == reason
    with pytest.raises(UsageError):
        hear(connect(Own("a", UsageError("ours"))), HELLO, lambda words: None)


def test_a_listener_that_fails_ends_the_stream_with_its_own_error():
    def leave(words: str) -> None:
        raise ConnectionAbortedError("the listener left")

    model = Own("a", "b", Reply("ab"))
    # What was raised is held on to: with it, the stream would be too.
    with pytest.raises(ConnectionAbortedError) as raised:
        hear(connect(model), HELLO, leave)
    assert model.closed and raised.value


def test_a_conversation_tells_words_only_to_who_wants_them():
    heard: list[str] = []
    model = connect(Own("a", "b", Reply("ab")))
    assert Conversation(model, HELLO, timeout=5, words=heard.append).hear().text == "ab"
    assert Conversation(model, HELLO, timeout=5).hear().text == "Whole."
    assert heard == ["a", "b"]
