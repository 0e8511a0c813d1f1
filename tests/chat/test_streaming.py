"""Streamed turns: the events while a model speaks, what happens to half an answer, and how to reconnect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import Memory, ModelFailed
from memoranda.agent.models import Ask, Reply
from memoranda.chat.agent import Agent, Tool
from memoranda.chat.conversation import read_conversation
from memoranda.chat.open_turn import is_being_answered
from memoranda.chat.turn import ChatEvent, chat
from memoranda.testing import FakeClock

Say = Callable[..., Any]


class Speaking:
    """A model that says what it is given, a list of things to yield for each request; whole, it says nothing."""

    name = "made:up"

    def __init__(self, *replies: list[Any]) -> None:
        self.replies = list(replies)
        self.closed = 0

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        return next(one for one in self.replies.pop(0) if isinstance(one, Reply))

    def stream(self, ask: Ask, *, timeout: float = 30.0) -> Iterator[str | Reply]:
        try:
            for one in self.replies.pop(0):
                if isinstance(one, BaseException):
                    raise one
                yield one
        finally:
            self.closed += 1


def said(text: str, *more: Any) -> list[Any]:
    """Return words one by one, and the reply that they are."""
    words = [word for word in text.split("|") if word]
    return [*words, Reply(text.replace("|", ""), *more)]


def shown(events: list[ChatEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.content) for event in events]


def ringing(called: list[Any] | None = None) -> Agent:
    act = [].append if called is None else called.append
    return Agent(id="gardener", tools=(Tool("ring", "Rings.", {"type": "object"}, act),))


@pytest.fixture
def events() -> list[ChatEvent]:
    return []


def test_words_are_told_as_they_come_and_make_up_the_answer(say: Say, events: list[ChatEvent], call: Any) -> None:
    model = Speaking(["Let me", " look.", call(("ring", {}), text="Let me look.")], said("Two| rose|s."))
    turn = say("Roses?", model=model, agent=ringing(), on_event=events.append)
    assert shown(events) == [
        ("start", ""),
        ("delta", "Let me"),
        ("delta", " look."),
        ("tool_request", "{}"),
        ("tool_response", "null"),
        ("delta", "Two"),
        ("delta", " rose"),
        ("delta", "s."),
        ("end", "Two roses."),
    ]
    numbers = [event.seq for event in events]
    assert numbers == sorted(set(numbers))
    assert [(part.kind, part.text) for part in turn.parts] == [
        ("user", "Roses?"),
        ("agent_text", "Let me look."),
        ("tool_request", "{}"),
        ("tool_response", "null"),
        ("agent_text", "Two roses."),
    ]


def test_words_are_told_before_the_model_has_ended(memory: Memory, say: Say, events: list[ChatEvent]) -> None:
    class Watching(Speaking):
        def stream(self, ask: Ask, *, timeout: float = 30.0) -> Iterator[str | Reply]:
            yield "One"
            assert shown(events)[-1] == ("delta", "One")
            assert [part.text for part in read_conversation(memory, "ada", "c1").parts] == ["Count"]
            yield " two"
            yield Reply("One two")

    assert say("Count", model=Watching(), on_event=events.append).text == "One two"
    assert shown(events)[-1] == ("end", "One two")


def test_where_nobody_listens_a_model_is_asked_for_a_whole_answer(say: Say, events: list[ChatEvent]) -> None:
    class Whole(Speaking):
        def stream(self, ask: Ask, *, timeout: float = 30.0) -> Iterator[str | Reply]:
            raise AssertionError("nobody listens")

    assert say("Hello", model=Whole(said("Good| day")), message_id="x").text == "Good day"
    say("Hello", message_id="x", on_event=events.append)
    say("Again", model=Speaking(said("Good| night")), on_event=events.append)
    assert shown(events) == [
        ("start", ""),
        ("delta", "Good day"),
        ("end", "Good day"),
        ("start", ""),
        ("delta", "Good"),
        ("delta", " night"),
        ("end", "Good night"),
    ]
    assert [event.seq for event in events] == sorted({event.seq for event in events})


def test_what_cannot_be_kept_is_taken_back_and_asked_for_again(memory: Memory, say: Say, events: list[Any]) -> None:
    model = Speaking(said("Half| \ud800"), said("All| of it."))
    turn = say("Hello", model=model, on_event=events.append)
    assert shown(events) == [
        ("start", ""),
        ("delta", "Half"),
        ("delta", " ?"),
        ("retract", ""),
        ("delta", "All"),
        ("delta", " of it."),
        ("end", "All of it."),
    ]
    assert turn.text == "All of it." and turn.usage.requests == 2
    assert [part.text for part in read_conversation(memory, "ada", "c1").parts] == ["Hello", "All of it."]


@pytest.mark.parametrize(
    ("streamed", "told"),
    [
        (["One", Reply("Two")], [("delta", "One"), ("retract", ""), ("delta", "Two")]),
        (["One two", Reply("One")], [("delta", "One two"), ("retract", ""), ("delta", "One")]),
        (["One", Reply("One two")], [("delta", "One"), ("delta", " two")]),
        (["", Reply("One")], [("delta", "One")]),
    ],
)
def test_the_reply_is_what_counts_whatever_was_streamed(
    say: Say, events: list[Any], streamed: list[Any], told: list[Any]
) -> None:
    turn = say("Hello", model=Speaking(streamed), on_event=events.append)
    assert shown(events)[1:-1] == told and shown(events)[-1] == ("end", turn.text)


@pytest.mark.parametrize("error", [ModelFailed("gone", reason="unreachable"), KeyError("bug"), None], ids=repr)
def test_half_an_answer_is_none_and_the_same_message_gets_a_whole_one_once(
    memory: Memory, say: Say, events: list[Any], error: Exception | None
) -> None:
    broken = ["Half", " of"] if error is None else ["Half", " of", error]
    with pytest.raises(ModelFailed):
        say("Hello", model=Speaking(broken), message_id="x", on_event=events.append)
    assert [kind for kind, _ in shown(events)] == ["start", "delta", "delta", "error"]
    record = read_conversation(memory, "ada", "c1")
    assert [part.text for part in record.parts] == ["Hello"] and not record.active
    say("Hello", model=Speaking(said("All| of it.")), message_id="x", on_event=events.append)
    again = say("Hello", model=Speaking(), message_id="x")
    assert (again.text, again.replayed) == ("All of it.", True)
    assert [part.text for part in read_conversation(memory, "ada", "c1").parts] == ["Hello", "All of it."]
    assert [event.seq for event in events] == sorted({event.seq for event in events})


def test_a_listener_that_leaves_in_the_middle_ends_the_turn_which_can_be_taken_up(memory: Memory, say: Say) -> None:
    def leave(event: ChatEvent) -> None:
        if event.type == "delta":
            raise ConnectionResetError("the listener left")

    model = Speaking(said("One| two."), said("One| two."))
    with pytest.raises(ConnectionResetError):
        say("Hello", model=model, message_id="x", on_event=leave)
    assert model.closed == 1 and not read_conversation(memory, "ada", "c1").active
    assert say("Hello", model=model, message_id="x").text == "One two."


# going on after the last event that was seen


def heard_again(say: Say, after: int | None, **options: Any) -> list[ChatEvent]:
    events: list[ChatEvent] = []
    turn = say("Hello", model=Speaking(), message_id="x", on_event=events.append, after=after, **options)
    assert turn.replayed
    return events


def test_after_any_event_of_a_turn_comes_what_is_missing_and_no_more(say: Say, events: list[Any], call: Any) -> None:
    say("Before", "Yes.")
    called: list[Any] = []
    model = Speaking(
        ["Let me", " look.", call(("ring", {"n": 1}), ("ring", {"n": 2}), text="Let me look.")],
        [call(("ring", {}))],
        said("Two| rö|ses."),
    )
    agent = ringing(called)
    say("Hello", model=model, agent=agent, message_id="x", on_event=events.append)
    say("After", "Yes.", agent=agent)
    for place, seen in enumerate(events):
        rest = heard_again(say, seen.seq, agent=agent)
        missing = events[place + 1 :]
        assert words(rest) == words(missing)
        assert [told(one) for one in rest if one.type != "delta"] == [
            told(one) for one in missing if one.type != "delta"
        ]
        assert [one.seq for one in rest] == sorted({one.seq for one in rest})
        assert all(one.seq > seen.seq for one in rest)
    for early in (0, events[0].seq - 1):
        assert heard_again(say, early, agent=agent)[0].type == "start"
        assert words(heard_again(say, early, agent=agent)) == words(events)
    assert heard_again(say, events[-1].seq + 1_000, agent=agent) == []
    assert len(called) == 3


def words(events: list[ChatEvent]) -> str:
    return "".join(event.content for event in events if event.type == "delta")


def told(event: ChatEvent) -> tuple[Any, ...]:
    return event.type, event.seq, event.content, event.call_id, event.tool


def test_who_saw_words_that_were_taken_back_is_told_so(say: Say, events: list[Any], call: Any) -> None:
    model = Speaking([call(("ring", {}))], said("Half| \ud800"), said("All| of it."))
    say("Hello", model=model, agent=ringing(), message_id="x", on_event=events.append)
    half = next(event for event in events if event.content == "Half")
    rest = heard_again(say, half.seq, agent=ringing())
    assert shown(rest) == [("retract", ""), ("delta", "All of it."), ("end", "All of it.")]
    assert half.seq < rest[0].seq < rest[1].seq
    response = next(event for event in events if event.type == "tool_response")
    assert shown(heard_again(say, response.seq, agent=ringing())) == [
        ("delta", "All of it."),
        ("end", "All of it."),
    ]


def test_who_saw_half_before_the_turn_was_taken_up_gets_the_whole(say: Say, events: list[Any], call: Any) -> None:
    first = Speaking([call(("ring", {}))], ["Half", " of", ModelFailed("gone", reason="unreachable")])
    with pytest.raises(ModelFailed):
        say("Hello", model=first, agent=ringing(), message_id="x", on_event=events.append)
    half = next(event for event in events if event.content == " of")
    say("Hello", model=Speaking(said("All| of it.")), agent=ringing(), message_id="x", on_event=events.append)
    assert shown(heard_again(say, half.seq, agent=ringing())) == [
        ("retract", ""),
        ("delta", "All of it."),
        ("end", "All of it."),
    ]
    numbers = [event.seq for event in events]
    assert numbers == sorted(set(numbers))


def test_a_turn_that_is_made_now_is_told_whole_whatever_was_seen(say: Say, events: list[Any]) -> None:
    say("Hello", model=Speaking(said("One| two.")), message_id="x", on_event=events.append, after=7)
    assert [kind for kind, _ in shown(events)] == ["start", "delta", "delta", "end"]


def test_numbers_go_up_over_a_process_that_died_in_the_middle_of_a_long_answer(
    tmp_path: Path, run_child: Any, events: list[ChatEvent]
) -> None:
    script = """
        import sys
        import memoranda
        from memoranda.chat.agent import Agent
        from memoranda.chat.turn import chat

        class Model:
            name = "made:up"
            def reply(self, ask, *, timeout=30.0):
                raise AssertionError
            def stream(self, ask, *, timeout=30.0):
                while True:
                    yield "word " * 2_000

        def listen(event):
            print(event.seq, flush=True)
            if event.seq > 50_000:
                sys.stdin.readline()

        with memoranda.open(sys.argv[1]) as memory:
            send = {"user": "ada", "conversation_id": "c1", "message_id": "x"}
            chat(memory, Agent(id="gardener"), "Hello", model=Model(), on_event=listen, **send)
    """
    path = tmp_path / "died.db"
    child = run_child(script, path)
    last = 0
    while last <= 50_000:
        last = int(child.hear())
    child.stop()
    clock = FakeClock()
    with memoranda.open(path) as memory:
        clock.set(memory.clock.now())
    with memoranda.open(path, clock=clock) as memory:
        where: dict[str, Any] = {"message_id": "x"}
        assert is_being_answered(memory, "ada", "c1", **where)
        assert not is_being_answered(memory, "ada", "c1", message_id="y")
        assert not is_being_answered(memory, "ada", "c2", **where)
        clock.advance(3600)
        assert not is_being_answered(memory, "ada", "c1", **where)
        where |= {"user": "ada", "conversation_id": "c1", "on_event": events.append}
        chat(memory, Agent(id="gardener"), "Hello", model=Speaking(said("Short.")), **where)
    assert events[0].seq > last


# over the wire


def test_a_chat_is_heard_word_by_word_over_the_wire(memory: Memory, server: Any, wire: Any, events: list[Any]) -> None:
    server.waiting += [
        wire.calls(("update_memory", {"block": "core", "content": "- Keeps hens"}), text="One moment."),
        wire.says("Noted, all of it."),
    ]
    agent = Agent(id="gardener", model="openai-chat:made-up", instructions="You dig.")
    send: dict[str, Any] = {"user": "ada", "conversation_id": "c1", "message_id": "x"}
    turn = chat(memory, agent, "I have hens", on_event=events.append, **send)
    assert [content for kind, content in shown(events) if kind == "delta"] == [
        "One",
        " moment.",
        "Noted,",
        " all",
        " of",
        " it.",
    ]
    assert (turn.usage.requests, turn.usage.tokens_in, turn.usage.tokens_out) == (2, 22, 14)
    assert [asked.body["stream"] for asked in server.asked] == [True, True]
    server.waiting.append(wire.stops(wire.says("Half of it."), before="it"))
    send["message_id"] = "y"
    with pytest.raises(ModelFailed) as raised:
        chat(memory, agent, "More", on_event=events.append, **send)
    assert raised.value.reason == "unreachable"
    server.waiting.append(wire.says("More of it."))
    assert chat(memory, agent, "More", **send).text == "More of it."
    assert "stream" not in server.asked[-1].body or not server.asked[-1].body["stream"]
    assert "Half" not in "".join(part.text for part in read_conversation(memory, "ada", "c1").parts)
