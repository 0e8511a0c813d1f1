"""Files of conversations: their format is recognized, and what cannot be read is named by its line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from memoranda.errors import InvalidValue
from memoranda.learning.transcripts import Transcript, read_transcript


def told(transcript: Transcript) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in transcript.messages]


def line(text: str, **more: Any) -> str:
    return json.dumps({"role": "user", "content": text, **more})


def test_a_message_a_line() -> None:
    [talk] = read_transcript(f"{line('Hi')}\n\n{line('I live in Faro')}\n".encode())
    assert told(talk) == [("user", "Hi"), ("user", "I live in Faro")]
    assert read_transcript([line("Hi"), line("I live in Faro") + "\n"]) == [talk]


def test_lines_may_name_their_conversation() -> None:
    talks = read_transcript([line("a", conversation="c1"), line("b", conversation="c1"), line("c", conversation="c2")])
    assert [(talk.conversation, len(talk.messages)) for talk in talks] == [("c1", 2), ("c2", 1)]


def test_a_conversation_a_line() -> None:
    lines = [
        json.dumps({"conversation": "c1", "title": "Trip", "messages": [{"role": "user", "content": "Hi"}]}),
        json.dumps({"messages": [{"role": "user", "content": "Hello"}]}),
    ]
    first, second = read_transcript(lines)
    assert (first.conversation, first.title, told(first)) == ("c1", "Trip", [("user", "Hi")])
    assert (second.conversation, told(second)) == (None, [("user", "Hello")])


def test_json_arrays_and_one_object() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    [talk] = read_transcript(json.dumps(messages, indent=2).encode("utf-8-sig"))
    assert told(talk) == [("user", "Hi"), ("assistant", "Hello")]
    assert [told(one) for one in read_transcript(json.dumps({"messages": messages}).encode())] == [told(talk)]
    assert [told(one) for one in read_transcript(json.dumps(messages[0]).encode())] == [[("user", "Hi")]]


def node(name: str, parent: str | None, role: str, text: str, *children: str, **more: Any) -> tuple[str, Any]:
    message = {
        "id": f"m-{name}",
        "author": {"role": role, "name": None},
        "create_time": 1777802400.0,
        "content": {"content_type": "text", "parts": [text]},
        "metadata": {},
        "recipient": "all",
        **more,
    }
    return name, {"id": name, "message": message, "parent": parent, "children": list(children)}


CHATGPT: dict[str, Any] = {
    "id": "chat-1",
    "title": "Moving",
    "current_node": "d",
    "mapping": dict(
        [
            ("root", {"id": "root", "message": None, "parent": None, "children": ["s"]}),
            node("s", "root", "system", "", "u", metadata={"is_visually_hidden_from_conversation": True}),
            node("u", "s", "user", "I live in Porto", "x", "y"),
            node("x", "u", "assistant", "An abandoned answer"),
            node("y", "u", "assistant", 'search("Porto")', "t", recipient="web"),
            node("t", "y", "tool", "I live in Rome", "d"),
            node(
                "d",
                "t",
                "user",
                "",
                content={
                    "content_type": "multimodal_text",
                    "parts": [
                        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1"},
                        {"content_type": "audio_transcription", "text": "I moved to Faro"},
                    ],
                },
            ),
        ]
    ),
}


def test_an_export_of_chatgpt_follows_the_current_branch() -> None:
    [talk] = read_transcript(json.dumps([CHATGPT]).encode())
    assert (talk.conversation, talk.title) == ("chat-1", "Moving")
    assert told(talk) == [
        ("user", "I live in Porto"),
        ("tool", 'search("Porto")'),
        ("tool", "I live in Rome"),
        ("user", "I moved to Faro"),
    ]
    assert talk.messages[0].at == datetime(2026, 5, 3, 10, tzinfo=UTC)
    assert talk.messages[0].id == "m-u" and talk.messages[3].attachments == ("file-service://f1",)


def test_an_export_of_chatgpt_without_a_current_node_or_with_a_loop_still_ends() -> None:
    [talk] = read_transcript(json.dumps([{**CHATGPT, "current_node": None}]).encode())
    assert talk.messages[0].text == "I live in Porto"
    mapping = {**CHATGPT["mapping"], "root": {"message": None, "parent": "d", "children": []}}
    [talk] = read_transcript(json.dumps([{**CHATGPT, "mapping": mapping}]).encode())
    assert len(talk.messages) == 4
    assert read_transcript(json.dumps([{"mapping": {}}]).encode())[0].messages == ()


def test_an_export_of_claude() -> None:
    export = [
        {
            "uuid": "c-1",
            "name": "Moving",
            "chat_messages": [
                {
                    "uuid": "m1",
                    "sender": "human",
                    "text": "I live in Faro",
                    "content": [{"type": "text", "text": "I live in Faro"}, {"type": "token_budget"}],
                    "created_at": "2026-05-03T10:00:00Z",
                    "files": [{"file_name": "plan.pdf"}],
                },
                {"uuid": "m2", "sender": "assistant", "text": "Noted.", "created_at": "2026-05-03T10:01:00Z"},
            ],
        }
    ]
    [talk] = read_transcript(json.dumps(export).encode())
    assert (talk.conversation, talk.title) == ("c-1", "Moving")
    assert told(talk) == [("user", "I live in Faro"), ("assistant", "Noted.")]
    assert talk.messages[0].attachments == ("plan.pdf",)
    assert talk.messages[0].at == datetime(2026, 5, 3, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (f"{line('Hi')}\n{{broken\n".encode(), "line 2"),
        (f"{line('Hi')}\n7\n".encode(), "line 2"),
        (f"{line('Hi')}\n\n{{}}\n".encode(), "line 3"),
        (f"{line('Hi')}\n".encode() + b"\xff\n", "line 2"),
        (b'[\n{"role": "user",\n broken}\n]', "line 3"),
        (b"Hello there", "line 1"),
        (b"7", "the file"),
        (b'{"messages": 7}', "messages of the conversation"),
        (b'[{"messages": []}, {"messages": [7]}]', "conversation 1"),
        (b'[{"mapping": 7}]', "conversation 0"),
        (b'[{"chat_messages": [7]}]', "conversation 0"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_named(data: bytes, where: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_transcript(data)
    assert where in refused.value.message and refused.value.hint


def test_an_empty_file_has_no_conversations() -> None:
    assert read_transcript(b" \n") == [] == read_transcript(b"[]")
