"""Messages of every provider become the same few fields, and what is not a message is refused by its number."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletionMessage

from memoranda.errors import InvalidValue
from memoranda.learning.messages import LONGEST_TOOL_TEXT, Message, read_messages

MAY = datetime(2026, 5, 3, 10, tzinfo=UTC)


def told(messages: object) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in read_messages(messages)]


@dataclass
class LangChainLike:
    """What LangChain's messages have in common, without the library."""

    type: str
    content: Any
    additional_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])


class Bare:
    """An object with attributes and nothing else."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields


def test_text_is_one_message_of_the_user() -> None:
    assert read_messages("I live in Faro.") == [Message(role="user", text="I live in Faro.")]


def test_plain_dictionaries() -> None:
    said = read_messages(
        {"role": "user", "content": "Hi", "name": "ada", "at": "2026-05-03T12:00:00+02:00", "id": "m1"}
    )
    assert said == [Message(role="user", text="Hi", name="ada", at=MAY, id="m1")]


@pytest.mark.parametrize("field", ["at", "timestamp", "created_at", "create_time"])
@pytest.mark.parametrize(
    "given", ["2026-05-03T10:00:00Z", "2026-05-03T10:00", 1777802400, 1777802400.0, 1777802400000, MAY]
)
def test_times(field: str, given: object) -> None:
    [said] = read_messages([{"role": "user", "content": "Hi", field: given}], at="2020-01-01")
    assert said.at == MAY


def test_messages_without_a_time_get_the_one_that_is_given() -> None:
    said = read_messages([{"role": "user", "content": "Hi", "at": MAY}, "Hello"], at="2026-05-04")
    assert [message.at for message in said] == [MAY, datetime(2026, 5, 4, tzinfo=UTC)]
    assert read_messages("Hi")[0].at is None


@pytest.mark.parametrize("given", ["soon", True, 1e300, [], {"year": 2026}])
def test_what_is_not_a_time_is_refused(given: object) -> None:
    with pytest.raises(InvalidValue, match="message 1") as refused:
        read_messages(["Hi", {"role": "user", "content": "Hi", "at": given}])
    assert refused.value.path == "$[1].at"


OPENAI_CHAT = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/dog.png"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "dog"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "I live in a kennel."},
    {"role": "function", "name": "old", "content": "done"},
    {"role": "assistant", "content": "A dog."},
]


def test_openai_chat() -> None:
    read = read_messages(OPENAI_CHAT)
    assert [(one.role, one.text) for one in read] == [
        ("system", "Be brief."),
        ("user", "What is this?"),
        ("tool", 'look {"at": "dog"}'),
        ("tool", "I live in a kennel."),
        ("tool", "done"),
        ("assistant", "A dog."),
    ]
    assert read[1].attachments[0] == "https://example.org/dog.png"
    assert read[1].attachments[1].startswith("input_audio:sha256:") and "AAAA" not in read[1].attachments[1]
    assert (read[2].name, read[2].id, read[3].id, read[4].name) == ("look", "c1", "c1", "old")


def test_openai_objects_of_the_library() -> None:
    reply = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        }
    )
    assert told([reply]) == [("assistant", "One moment."), ("tool", "look {}")]


def test_openai_responses() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_image", "file_id": "f1"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "The user greets."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
        {"type": "web_search_call", "id": "w", "action": {"query": "dogs"}},
        {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "Hello"}]},
    ]
    assert told(items) == [
        ("user", "Hi"),
        ("tool", "look {}"),
        ("tool", "nothing"),
        ("tool", 'web_search_call {"query":"dogs"}'),
        ("assistant", "Hello"),
    ]
    assert read_messages(items)[0].attachments == ("file:f1",)


def test_anthropic() -> None:
    reply = AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "dog"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    result = {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [
                    {"type": "text", "text": "I live in Rome."},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ],
            },
            {"type": "text", "text": "Thanks."},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ],
    }
    read = read_messages([reply, result])
    assert [(one.role, one.text) for one in read] == [
        ("assistant", "Let me look."),
        ("tool", 'look {"at":"dog"}'),
        ("tool", "I live in Rome."),
        ("user", "Thanks."),
    ]
    assert read[2].attachments[0].startswith("image:sha256:")
    assert read[3].attachments == ("https://example.org/a.png",)


@pytest.mark.parametrize(
    "given",
    [
        LangChainLike("human", "Hi"),
        Bare(type="human", content="Hi"),
        {"type": "human", "content": "Hi", "additional_kwargs": {}, "response_metadata": {}},
        {"type": "human", "data": {"content": "Hi", "type": "human"}},
        {"type": "human", "data": {"content": "Hi"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Hi"}},
        {"type": "HumanMessageChunk", "content": ["Hi"]},
        {"type": "chat", "role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ],
)
def test_langchain(given: object) -> None:
    assert told([given]) == [("user", "Hi")]


def test_langchain_tools_are_told_once() -> None:
    call = {"id": "t1", "name": "look", "args": {"at": "dog"}, "type": "tool_call"}
    content = [
        {"type": "text", "text": "Wait."},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "dog"}},
    ]
    assert told(
        [
            {"type": "ai", "content": content, "tool_calls": [call]},
            {
                "type": "ai",
                "content": "",
                "tool_calls": [],
                "additional_kwargs": {"tool_calls": [{**call, "id": "t2"}]},
            },
            {"type": "tool", "content": "seen", "tool_call_id": "t1"},
        ]
    ) == [("assistant", "Wait."), ("tool", 'look {"at":"dog"}'), ("tool", 'look {"at":"dog"}'), ("tool", "seen")]


def test_providers_may_be_mixed() -> None:
    assert told([*OPENAI_CHAT[-1:], LangChainLike("human", "Hi"), "And you?", Message(role="user", text="Me?")]) == [
        ("assistant", "A dog."),
        ("user", "Hi"),
        ("user", "And you?"),
        ("user", "Me?"),
    ]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (7, "`int`"),
        (None, "`NoneType`"),
        ([], "`list`"),
        ({}, "an empty dictionary"),
        ({"speaker": "ada", "words": "Hi"}, "`speaker, words`"),
        ({"role": "wizard", "content": "Hi"}, "role `wizard`"),
        ({"role": "user"}, "no content"),
        ({"role": "user", "content": 7}, "content `7`"),
        ({"role": "user", "content": [7]}, "a part `7`"),
        ({"role": "user", "content": [{"type": "smell"}]}, "a part of type `smell`"),
        ({"role": "user", "content": [{"type": "text", "text": None}]}, "text `None`"),
        (object(), "`object`"),
    ],
)
def test_an_unknown_shape_is_refused_with_its_number_and_what_is_accepted(given: object, found: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_messages(["Hi", "Hello", given])
    assert refused.value.message.startswith("message 2 ") and found in refused.value.message
    assert refused.value.path == "$[2]"
    assert "OpenAI, Anthropic or LangChain" in refused.value.hint


def test_messages_without_content_are_left_out() -> None:
    assert told([{"role": "assistant", "content": ""}, {"role": "assistant", "content": None}, "Hi"]) == [
        ("user", "Hi")
    ]


def test_results_of_tools_are_shortened_and_what_people_say_is_not() -> None:
    long = "x" * 1_000_000
    read = read_messages([{"role": "tool", "content": long}, {"role": "user", "content": long}])
    assert [len(message.text) for message in read] == [LONGEST_TOOL_TEXT, 1_000_000]


def test_many_parts_take_time_in_proportion() -> None:
    def taken(count: int) -> float:
        message = {"role": "user", "content": [{"type": "text", "text": "x" * 100}] * count}
        begin = time.thread_time()
        read_messages([message])
        return time.thread_time() - begin

    assert min(taken(16_000) for _ in range(3)) < 64 * max(min(taken(1_000) for _ in range(3)), 0.001)
