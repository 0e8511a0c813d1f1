"""Turns: what is stored and in which order, which events are sent, and what happens on failures and duplicates."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import (
    Conflict,
    IdempotencyMismatch,
    InvalidDefinition,
    InvalidScope,
    InvalidValue,
    Memory,
    ModelFailed,
    ModelUnavailable,
    NotFound,
    UsageError,
)
from memoranda.agent.conversation import ToolFailed
from memoranda.agent.models import Said
from memoranda.chat.agent import Agent, Tool, tool
from memoranda.chat.conversation import list_conversations, read_conversation
from memoranda.chat.turn import ChatEvent, chat
from memoranda.testing import FakeClock

Say = Callable[..., Any]


def kinds(memory: Memory, id: str = "c1") -> list[str]:
    return [part.kind for part in read_conversation(memory, "ada", id).parts]


def weather(place: str, on: date | None = None) -> str:
    """Return the weather at a place."""
    if place == "nowhere":
        raise LookupError("no such place")
    return f"Rain at {place}"


# a turn


def test_a_turn_is_an_answer_and_its_parts(memory: Memory, say: Say) -> None:
    turn = say("Good morning", "Good morning to you.")
    assert (turn.text, turn.conversation_id, turn.message_id) == ("Good morning to you.", "c1", "m1")
    assert [(part.seq, part.kind, part.text) for part in turn.parts] == [
        (1, "user", "Good morning"),
        (2, "agent_text", "Good morning to you."),
    ]
    assert (turn.usage.requests, turn.usage.tokens_in, turn.usage.tokens_out, turn.replayed) == (1, 10, 2, False)
    assert read_conversation(memory, "ada", "c1").parts == turn.parts


def test_a_conversation_goes_on_with_everything_that_was_said(say: Say, scripted: Any) -> None:
    model = scripted("One.", "Two.")
    say("First", model=model)
    say("Second", model=model)
    assert model.asked[-1].messages == (Said("user", "First"), Said("assistant", "One."), Said("user", "Second"))


def test_calls_of_tools_are_kept_and_sent_again_as_they_were(
    memory: Memory, say: Say, scripted: Any, call: Any
) -> None:
    agent = Agent(id="gardener", tools=(tool(weather),))
    calls = [("weather", {"place": "Faro"}), ("weather", {"place": "nowhere"})]
    model = scripted(call(*calls, text="Let me see."), call(calls[0]), "Rain.", "Bye.")
    turn = say("Weather?", model=model, agent=agent)
    assert [(part.kind, part.tool, part.text, part.failed) for part in turn.parts[1:]] == [
        ("agent_text", "", "Let me see.", False),
        ("tool_request", "weather", '{"place": "Faro"}', False),
        ("tool_request", "weather", '{"place": "nowhere"}', False),
        ("tool_response", "weather", '"Rain at Faro"', False),
        ("tool_response", "weather", '{"error":"`weather` failed: no such place"}', True),
        ("tool_request", "weather", '{"place": "Faro"}', False),
        ("tool_response", "weather", '"Rain at Faro"', False),
        ("agent_text", "", "Rain.", False),
    ]
    assert turn.usage.requests == 3
    said_then = model.asked[2].messages
    say("Bye", model=model, agent=agent)
    # What the model is sent of a turn later is what it was sent while the turn was made.
    assert model.asked[-1].messages == (*said_then, Said("assistant", "Rain."), Said("user", "Bye"))


def test_a_tool_is_called_with_what_its_function_takes(say: Say, scripted: Any, call: Any) -> None:
    taken: list[Any] = []

    def book(day: date, beds: list[int], note: str = "none") -> dict[str, Any]:
        """Book beds for a day."""
        taken.append((day, beds, note))
        return {"day": day, "beds": tuple(beds)}

    made = tool(book)
    assert made.description == "Book beds for a day." and made.parameters["required"] == ["day", "beds"]
    calls = [
        ("book", {"day": "2031-05-01", "beds": [1, 2]}),
        ("book", {"day": "someday", "beds": [1]}),
        ("book", {"beds": [1]}),
        ("book", {"day": "2031-05-01", "beds": [1], "price": 3}),
    ]
    model = scripted(call(*calls), "Booked.")
    say("Book", model=model, agent=Agent(id="gardener", tools=(made,)))
    assert taken == [(date(2031, 5, 1), [1, 2], "none")]
    results = [json.loads(said.text) for said in model.asked[-1].messages[-4:]]
    assert results[0] == {"day": "2031-05-01", "beds": [1, 2]}
    assert "day" in results[1]["error"] and "day" in results[2]["error"] and "price" in results[3]["error"]


@pytest.mark.parametrize("given", [object(), float("nan"), {1, 2}, "x" * 70_000])
def test_what_a_tool_gives_that_cannot_be_told_is_an_error_for_the_model(
    memory: Memory, say: Say, scripted: Any, call: Any, given: Any
) -> None:
    odd = Tool("odd", "Gives odd things.", {"type": "object"}, lambda arguments: given)
    model = scripted(call(("odd", {})), "Odd.")
    assert say("Go", model=model, agent=Agent(id="gardener", tools=(odd,))).text == "Odd."
    assert "`odd`" in json.loads(model.asked[-1].messages[-1].text)["error"]


def test_a_tool_may_say_in_its_own_words_why_it_failed(say: Say, scripted: Any, call: Any) -> None:
    def dig(arguments: dict[str, Any]) -> None:
        raise ToolFailed("the ground is frozen")

    model = scripted(call(("dig", {})), "Not today.")
    say("Dig", model=model, agent=Agent(id="gardener", tools=(Tool("dig", "Digs.", {"type": "object"}, dig),)))
    assert json.loads(model.asked[-1].messages[-1].text) == {"error": "the ground is frozen"}


def test_halves_of_characters_in_calls_are_kept_as_question_marks(say: Say, scripted: Any, call: Any) -> None:
    odd = Tool("odd", "Takes odd things.", {"type": "object"}, lambda arguments: len(arguments["x"]))
    model = scripted(call(("odd", {"x": "\ud800"}), text="half \ud800"), "Odd.", "Still.")
    agent = Agent(id="gardener", tools=(odd,))
    say("Go", model=model, agent=agent)
    say("Again", model=model, agent=agent)
    assert model.asked[-1].messages[1].calls[0].arguments == {"x": "?"}


def test_a_conversation_goes_on_after_a_call_with_a_number_that_is_none(say: Say, scripted: Any, call: Any) -> None:
    model = scripted(call(("recall_memory", {"query": "moss", "limit": float("inf")})), "Nothing found.")
    assert say("What do you know of moss?", model=model).text == "Nothing found."
    after = scripted("Yes.")
    assert say("Sure?", model=after).text == "Yes."
    asked, called, told, *_ = after.asked[0].messages
    assert (asked.text, called.calls[0].arguments) == ("What do you know of moss?", {"query": "moss", "limit": None})
    assert "the arguments do not fit" in told.text


def test_a_model_that_only_calls_tools_is_stopped_and_can_be_asked_again(
    memory: Memory, say: Say, scripted: Any, call: Any
) -> None:
    agent = Agent(id="gardener", tools=(tool(weather),), max_rounds=2)
    rain = call(("weather", {"place": "Faro"}))
    with pytest.raises(ModelFailed, match="after 2 rounds"):
        say("Go", model=scripted(rain, rain, rain), agent=agent, message_id="x")
    assert kinds(memory).count("tool_request") == 2 and not read_conversation(memory, "ada", "c1").active
    assert say("Go", rain, rain, "At last.", agent=agent, message_id="x").text == "At last."


# a message that comes twice


def test_a_message_that_was_answered_gets_the_same_answer_and_nothing_is_done_twice(
    memory: Memory, say: Say, scripted: Any, call: Any
) -> None:
    called: list[Any] = []
    agent = Agent(id="gardener", tools=(Tool("ring", "Rings.", {"type": "object"}, called.append),))
    first = say("Ring", call(("ring", {})), "Rung.", agent=agent, message_id="x")
    say("Next", "Yes.", agent=agent)
    before = memory.ledger.events()
    silent = scripted()
    again = say("Ring", model=silent, agent=agent, message_id="x")
    assert (again.text, again.parts, again.usage, again.replayed) == (first.text, first.parts, first.usage, True)
    assert called == [{}] and silent.asked == [] and memory.ledger.events() == before
    elsewhere = say("Ring", "Other.", agent=agent, message_id="x", conversation_id="c2")
    assert elsewhere.text == "Other." and not elsewhere.replayed


def test_a_message_id_that_stands_for_another_message_is_refused(memory: Memory, say: Say) -> None:
    say("Ring", "Rung.", message_id="x")
    with pytest.raises(IdempotencyMismatch):
        say("Sing", "Sung.", message_id="x")
    with pytest.raises(ModelFailed):
        say("Ring", ModelFailed("late", reason="timeout"), message_id="y")
    with pytest.raises(IdempotencyMismatch):
        say("Sing", "Sung.", message_id="y")
    assert kinds(memory) == ["user", "agent_text", "user"]
    assert say("Ring", "Rung again.", message_id="y").text == "Rung again."


def test_a_turn_that_failed_is_taken_up_when_its_message_is_sent_again(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    write("archival", "- The heather was moved.")
    called: list[Any] = []
    agent = Agent(id="gardener", tools=(Tool("ring", "Rings.", {"type": "object"}, called.append),))
    failure = ModelFailed("late", reason="timeout")
    auto = {"archival_mode": "auto"}
    with pytest.raises(ModelFailed):
        say("heather?", call(("ring", {})), failure, agent=agent, message_id="x", memory_policy=auto)
    write("archival", "- The heather died.")
    model = scripted("It was moved.")
    turn = say("heather?", model=model, agent=agent, message_id="x", memory_policy=auto)
    assert called == [{}] and len(model.asked) == 1
    assert [part.kind for part in turn.parts] == [
        "user",
        "reminders",
        "tool_request",
        "tool_response",
        "agent_text",
    ]
    asked = model.asked[0]
    assert [said.role for said in asked.messages] == ["user", "user", "assistant", "tool"]
    assert "was moved" in asked.messages[1].text and "died" not in model.shown


def test_a_call_that_was_interrupted_is_not_made_again(memory: Memory, say: Say, scripted: Any, call: Any) -> None:
    called: list[Any] = []

    def ring(arguments: dict[str, Any]) -> None:
        called.append(arguments)
        raise KeyboardInterrupt

    agent = Agent(id="gardener", tools=(Tool("ring", "Rings.", {"type": "object"}, ring), tool(weather)))
    with pytest.raises(KeyboardInterrupt):
        say("Ring", call(("ring", {"n": 1}), ("ring", {"n": 2})), agent=agent, message_id="x")
    assert not read_conversation(memory, "ada", "c1").active
    model = scripted(call(("weather", {"place": "Faro"})), "Perhaps it rang.", "Bye.")
    turn = say("Ring", model=model, agent=agent, message_id="x")
    assert called == [{"n": 1}]
    told = model.asked[0].messages[-2:]
    assert [(said.role, said.call_id) for said in told] == [("tool", "c0"), ("tool", "c1")]
    assert all("interrupted" in said.text for said in told)
    assert [part.failed for part in turn.parts if part.kind == "tool_response"] == [True, True, False]
    say("Bye", model=model, agent=agent)
    assert model.asked[2].messages == (
        *model.asked[1].messages,
        Said("assistant", "Perhaps it rang."),
        Said("user", "Bye"),
    )


def test_a_conversation_that_went_on_does_not_answer_an_old_message(memory: Memory, say: Say, scripted: Any) -> None:
    with pytest.raises(ModelFailed):
        say("First", ModelFailed("late", reason="timeout"), message_id="x")
    model = scripted("Second it is.")
    say("Second", model=model)
    assert model.asked[0].messages == (Said("user", "First"), Said("user", "Second"))
    with pytest.raises(Conflict, match="continued without an answer"):
        say("First", "Late.", message_id="x")
    assert say("First", "Now.", message_id="y").text == "Now."


# at once


def test_while_a_reply_is_made_there_is_no_other_in_this_conversation(
    memory: Memory, say: Say, clock: FakeClock
) -> None:
    def meanwhile(ask: Any) -> str:
        record = read_conversation(memory, "ada", "c1")
        assert record.active and [part.text for part in record.parts] == ["First"]
        for message_id in ("x", "other"):
            with pytest.raises(Conflict, match="a reply is in progress") as raised:
                say("First", "No.", message_id=message_id)
            assert raised.value.message_id == "x"
        assert say("Elsewhere", "Yes.", conversation_id="c2").text == "Yes."
        assert say("Elsewhere", "Yes.", user="bob").text == "Yes."
        return "Done."

    assert say("First", meanwhile, message_id="x").text == "Done."
    assert not read_conversation(memory, "ada", "c1").active
    assert say("Second", "Yes.").text == "Yes."


def test_who_died_while_making_a_reply_does_not_hold_the_conversation_for_good(
    memory: Memory, say: Say, clock: FakeClock, scripted: Any
) -> None:
    def die(ask: Any) -> str:
        clock.advance(24 * 3600)
        # By now another caller may take the turn over, and does.
        assert not read_conversation(memory, "ada", "c1").active
        assert say("First", "Taken over.", message_id="x").text == "Taken over."
        return "Too late."

    with pytest.raises(Conflict):
        say("First", die, message_id="x")
    assert [part.text for part in read_conversation(memory, "ada", "c1").parts] == ["First", "Taken over."]
    assert say("First", message_id="x").text == "Taken over."


def test_of_many_who_send_one_message_at_once_one_makes_the_reply(
    memory: Memory, gardener: Agent, scripted: Any
) -> None:
    asked = threading.Semaphore(0)
    gate = threading.Event()

    def slow(ask: Any) -> str:
        asked.release()
        assert gate.wait(60)
        return "Only one."

    outcomes: list[str] = []

    def send() -> None:
        try:
            turn = chat(
                memory,
                gardener,
                "Hello",
                user="ada",
                conversation_id="c1",
                message_id="x",
                model=scripted(slow),
            )
            outcomes.append(turn.text)
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert asked.acquire(timeout=60)
    for _ in range(1_000):
        if len(outcomes) == 7:
            break
        threading.Event().wait(0.01)
    gate.set()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["Only one.", *["conflict"] * 7]
    assert kinds(memory) == ["user", "agent_text"]


def test_a_message_that_is_answered_between_two_looks_is_not_answered_again(
    memory: Memory, say: Say, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    say("Hello", "Once.", message_id="x")
    monkeypatch.setattr("memoranda.chat.turn.find_answer", lambda *place, **about: None)
    silent = scripted()
    turn = say("Hello", model=silent, message_id="x")
    assert (turn.text, turn.replayed, silent.asked) == ("Once.", True, [])
    with pytest.raises(IdempotencyMismatch):
        say("Bye", model=silent, message_id="x")


def test_a_killed_process_leaves_a_turn_that_another_takes_up(tmp_path: Path, run_child: Any, scripted: Any) -> None:
    script = """
        import os, sys
        import memoranda
        from memoranda.chat.agent import Agent
        from memoranda.chat.agent import Tool
        from memoranda.chat.turn import chat
        from memoranda.agent.models import Reply, ToolCall

        class Model:
            name = "made:up"
            def reply(self, ask, *, timeout=30.0):
                if any(said.role == "tool" for said in ask.messages):
                    print("told", flush=True)
                    sys.stdin.readline()
                return Reply("", (ToolCall("c0", "ring", {}),))

        with memoranda.open(sys.argv[1]) as memory:
            agent = Agent(id="ringer", tools=(Tool("ring", "Rings.", {"type": "object"}, lambda arguments: "rung"),))
            chat(memory, agent, "Ring", user="ada", conversation_id="c1", message_id="x", model=Model())
    """
    path = tmp_path / "killed.db"
    child = run_child(script, path)
    assert child.hear() == "told"
    child.stop()
    clock = FakeClock()
    with memoranda.open(path) as memory:
        clock.set(memory.clock.now())
    with memoranda.open(path, clock=clock) as memory:
        assert read_conversation(memory, "ada", "c1").active
        agent = Agent(id="ringer")
        send: dict[str, Any] = {"user": "ada", "conversation_id": "c1", "message_id": "x"}
        with pytest.raises(Conflict):
            chat(memory, agent, "Ring", model=scripted("No."), **send)
        clock.advance(3600)
        assert not read_conversation(memory, "ada", "c1").active
        turn = chat(memory, agent, "Ring", model=scripted("Rung."), **send)
        assert [part.kind for part in turn.parts] == ["user", "tool_request", "tool_response", "agent_text"]
        assert memory.ledger.verify().ok


# events


def test_events_tell_a_turn_in_order_and_their_numbers_only_go_up(say: Say, call: Any) -> None:
    agent = Agent(id="gardener", tools=(tool(weather),))
    events: list[ChatEvent] = []
    listen: dict[str, Any] = {"agent": agent, "on_event": events.append}
    say("Weather?", call(("weather", {"place": "Faro"}), text="Let me see."), "Rain.", message_id="x", **listen)
    assert [(event.type, event.content, event.tool) for event in events] == [
        ("start", "", ""),
        ("delta", "Let me see.", ""),
        ("tool_request", '{"place": "Faro"}', "weather"),
        ("tool_response", '"Rain at Faro"', "weather"),
        ("delta", "Rain.", ""),
        ("end", "Rain.", ""),
    ]
    assert {(event.conversation_id, event.message_id) for event in events} == {("c1", "x")}
    assert events[-1].metadata == {"requests": 2, "tokens_in": 20, "tokens_out": 4}
    first = list(events)
    with pytest.raises(ModelFailed):
        say("Again", ModelFailed("late", reason="timeout"), message_id="y", **listen)
    assert [event.type for event in events[6:]] == ["start", "error"]
    assert (events[-1].content, events[-1].metadata) == ("late", {"code": "model_failed"})
    say("Again", "Yes.", message_id="y", **listen)
    say("More", "Yes.", **listen)
    numbers = [event.seq for event in events]
    assert numbers == sorted(set(numbers))
    events.clear()
    say("Weather?", message_id="x", **listen)
    assert [(event.type, event.content) for event in events] == [("start", ""), ("delta", "Rain."), ("end", "Rain.")]
    assert [event.seq for event in events[1:]] == [event.seq for event in first[-2:]]
    assert events[0].metadata == {"replayed": True}


def test_nothing_is_told_of_a_message_that_is_refused(say: Say) -> None:
    events: list[ChatEvent] = []
    with pytest.raises(InvalidValue):
        say(" ", "No.", on_event=events.append)
    assert events == []
    say("Hello", "Yes.", on_event=events.append)
    assert len(events) == 3


def test_a_listener_that_fails_after_the_answer_does_not_undo_it(memory: Memory, say: Say) -> None:
    def gone(event: ChatEvent) -> None:
        if event.type == "end":
            raise ConnectionResetError("the listener left")

    with pytest.raises(ConnectionResetError):
        say("Hello", "Yes.", message_id="x", on_event=gone)
    assert not read_conversation(memory, "ada", "c1").active
    assert say("Hello", message_id="x").text == "Yes."


# bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"message_id": ""}, UsageError),
        ({"message_id": "a\nb"}, UsageError),
        ({"message_id": "x" * 257}, UsageError),
        ({"conversation_id": ""}, InvalidScope),
        ({"conversation_id": "\u200b"}, InvalidScope),
        ({"user": ""}, InvalidScope),
        ({"user": None}, InvalidScope),
        ({"memory_policy": {"archival_limit": 0}}, UsageError),
        ({"after": -1}, UsageError),
        ({"after": "7"}, UsageError),
    ],
)
def test_what_names_nothing_is_refused_and_nothing_is_kept(
    memory: Memory, say: Say, change: dict[str, Any], error: type[Exception]
) -> None:
    before = memory.ledger.events()
    with pytest.raises(error):
        say("Hello", "No.", **{"message_id": "x", **change})
    assert memory.ledger.events() == before
    odd = {"message_id": "a.b..c/%2E ü", "conversation_id": "../../etc/passwd.", "user": "ada/../bob"}
    assert say("Hello", "Yes.", **odd).text == "Yes."
    assert [one.id for one in list_conversations(memory, "ada/../bob")] == ["../../etc/passwd."]


def test_an_agent_without_a_model_says_so_and_nothing_is_kept(memory: Memory, gardener: Agent) -> None:
    send: dict[str, Any] = {"user": "ada", "conversation_id": "c1", "message_id": "x"}
    with pytest.raises(ModelUnavailable, match="has no model"):
        chat(memory, gardener, "Hello", **send)
    with pytest.raises(ModelUnavailable, match="does not name a model"):
        chat(memory, gardener, "Hello", model="nonsense", **send)
    with pytest.raises(NotFound):
        read_conversation(memory, "ada", "c1")


def test_a_conversation_is_with_one_agent(memory: Memory, say: Say) -> None:
    say("Hello", "Yes.")
    with pytest.raises(UsageError, match="with the agent `gardener`"):
        say("Hello", "No.", agent=Agent(id="shopkeeper"))
    assert say("Hello", "No.", message_id="m1").text == "Yes."
    with pytest.raises(UsageError, match="with the agent `gardener`"):
        say("Hello", "No.", agent=Agent(id="shopkeeper"), message_id="m1")
    assert say("Hello", "Yes.", agent=Agent(id="shopkeeper"), conversation_id="c2").text == "Yes."
    assert [one.agent_id for one in list_conversations(memory, "ada")] == ["shopkeeper", "gardener"]


@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": "a\u200bb"},
        {"id": "a", "instructions": None},
        {"id": "a", "max_rounds": 0},
        {"id": "a", "timeout": 0},
        {"id": "a", "timeout": float("inf")},
        {"id": "a", "timeout": "soon"},
        {"id": "a", "max_tokens": 0},
        {"id": "a", "memory_policy": {"archival_mode": "auto"}},
        {"id": "a", "tools": (weather,)},
        {"id": "a", "tools": (tool(weather), tool(weather))},
        {"id": "a", "tools": (tool(weather, name="update_memory"),)},
        {"id": "a", "tools": (tool(weather, name="recall_memory"),)},
    ],
)
def test_what_cannot_be_an_agent_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Agent(**fields)
    assert Agent(id="a", tools=(tool(weather, name="update_memory"),), memory_tools=False)


def test_what_cannot_be_a_tool_is_refused() -> None:
    async def later() -> None: ...

    def many(*places: str) -> None: ...

    def odd(thing: threading.Thread) -> None: ...

    for function in (later, many, odd):
        with pytest.raises(InvalidDefinition):
            tool(function)
    with pytest.raises(UsageError):
        Tool("", "No name.", {}, len)
    with pytest.raises(UsageError):
        Tool("idle", "No function.", {}, None)  # type: ignore[arg-type]
    assert tool(weather).name == "weather"


# over the wire


def test_a_chat_goes_over_the_wire(memory: Memory, server: Any, wire: Any, write: Any) -> None:
    write("core", "- Keeps bees")
    write("archival", "- The heather was moved.")
    server.waiting += [wire.calls(("update_memory", {"block": "core", "content": "- Keeps hens"})), wire.says("Noted.")]
    agent = Agent(id="gardener", model="openai-chat:made-up", instructions="You dig.")
    turn = chat(
        memory,
        agent,
        "I have hens, and heather",
        user="ada",
        conversation_id="c1",
        message_id="x",
        memory_policy={"archival_mode": "auto"},
    )
    assert turn.text == "Noted." and turn.usage.requests == 2
    sent = server.asked[0].body["messages"]
    assert sent[0]["role"] == "system" and "- Keeps bees" in sent[0]["content"]
    assert "heather was moved" not in json.dumps(sent[:2]) and "heather was moved" in json.dumps(sent[2:])
    core = memory.scope(user="ada").blocks.get("core")
    assert core is not None and core.content == "- Keeps hens"
