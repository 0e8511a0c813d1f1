"""Conversations as facts: found again by their user alone, ordered, erased with their user, and seen by the gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memoranda
from memoranda import Denied, InvalidKey, Memory, NotFound, Policy, Rule, Scope, UsageError
from memoranda.agent.models import Reply
from memoranda.chat.agent import Agent
from memoranda.chat.conversation import conversation_scope, list_conversations, read_conversation, read_history
from memoranda.chat.open_turn import OpenTurn, begin_turn
from memoranda.chat.prompt import messages_of
from memoranda.chat.turn import chat
from memoranda.model.conversation import Draft, Usage
from memoranda.testing import FakeClock

Say = Callable[..., Any]


def test_conversations_are_listed_the_newest_first(memory: Memory, say: Say, clock: FakeClock) -> None:
    for user, id in (("ada", "a"), ("ada", "b"), ("bob", "a"), ("ada", "a")):
        clock.advance(60)
        say("Hello", "Yes.", user=user, conversation_id=id)
    mine = list_conversations(memory, "ada")
    assert [(one.user, one.id, one.last_seq, one.active) for one in mine] == [
        ("ada", "a", 4, False),
        ("ada", "b", 2, False),
    ]
    assert mine[0].opened_at < mine[0].last_at == clock.now()
    assert [(one.user, one.id) for one in list_conversations(memory)] == [("ada", "a"), ("bob", "a"), ("ada", "b")]
    assert list_conversations(memory, "eve") == []


def test_parts_after_a_number_can_be_read_alone(memory: Memory, say: Say) -> None:
    say("One", "Two")
    say("Three", "Four")
    record = read_conversation(memory, "ada", "c1")
    assert [part.text for part in record.parts] == ["One", "Two", "Three", "Four"]
    assert read_conversation(memory, "ada", "c1", after=2).parts == record.parts[2:]
    assert read_conversation(memory, "ada", "c1", after=9).parts == ()
    with pytest.raises(UsageError):
        read_conversation(memory, "ada", "c1", after=-1)


def test_i1_a_conversation_is_its_users_alone(memory: Memory, say: Say) -> None:
    say("My secret is moss", "I see.")
    for user, id in (("bob", "c1"), ("ada", "c2"), ("ada/thread:c1", "c1")):
        with pytest.raises(NotFound):
            read_conversation(memory, user, id)
    assert read_conversation(memory, "ada", "c1").parts[0].text == "My secret is moss"
    turn = say("What is my secret?", "I do not know.", user="bob")
    assert turn.parts[0].seq == 1


def test_a_handle_reaches_only_the_conversations_that_its_policy_covers(memory: Memory, gardener: Agent) -> None:
    ada = Scope.of(user="ada")
    rules = (Rule("allow", "memory.read", ada), Rule("allow", "memory.write", ada))
    handle = memory.acting_as("ada", policy=Policy(rules=rules), door="rest")
    send: dict[str, Any] = {"conversation_id": "c1", "message_id": "m1"}

    class Agreeing:
        name = "made:up"

        def reply(self, ask: Any, *, timeout: float = 30.0) -> Reply:
            return Reply("Yes.")

    assert chat(handle, gardener, "Hello", user="ada", model=Agreeing(), **send).text == "Yes."
    assert len(list_conversations(handle, "ada")) == 1
    for attempt in (
        lambda: chat(handle, gardener, "Hello", user="bob", model=Agreeing(), **send),
        lambda: read_conversation(handle, "bob", "c1"),
        lambda: list_conversations(handle, "bob"),
        lambda: list_conversations(handle),
    ):
        with pytest.raises(Denied):
            attempt()
    assert list_conversations(memory, "bob") == []


def test_a_reader_cannot_chat_but_can_read(memory: Memory, say: Say, gardener: Agent, scripted: Any) -> None:
    say("Hello", "Yes.")
    reader = memory.acting_as("ada", policy=Policy.of(allow=("memory.read",)))
    with pytest.raises(Denied):
        chat(reader, gardener, "More", user="ada", conversation_id="c1", message_id="m9", model=scripted("No."))
    assert len(read_conversation(reader, "ada", "c1").parts) == 2


def test_erasing_a_user_or_a_conversation_erases_what_was_said(memory: Memory, say: Say) -> None:
    for user, id in (("ada", "c1"), ("ada", "c2"), ("bob", "c1")):
        say("My secret is moss", "I see.", user=user, conversation_id=id)
    memory.erase(user="ada", thread="c1")
    assert [one.id for one in list_conversations(memory, "ada")] == ["c2"]
    with pytest.raises(NotFound):
        read_conversation(memory, "ada", "c1")
    turn = say("Hello again", "Hello.", conversation_id="c1", message_id="m1")
    assert turn.text == "Hello." and turn.parts[0].seq == 1
    memory.erase(user="ada")
    assert list_conversations(memory, "ada") == [] and len(list_conversations(memory, "bob")) == 1
    assert memory.ledger.verify().ok


def test_conversations_come_along_with_an_export(memory: Memory, say: Say, tmp_path: Any, gardener: Agent) -> None:
    say("One", "Two", message_id="x")
    memory.export(tmp_path / "all.jsonl")
    with memoranda.open(":memory:") as other:
        other.import_file(tmp_path / "all.jsonl")
        assert read_conversation(other, "ada", "c1").parts == read_conversation(memory, "ada", "c1").parts
        send: dict[str, Any] = {"user": "ada", "conversation_id": "c1"}
        assert chat(other, gardener, "One", message_id="x", model="openai:gpt-5.2", **send).text == "Two"


def test_a_message_needs_no_ids(memory: Memory) -> None:
    class Counting:
        name = "counting:1"
        replies = iter(("One.", "Two.", "Three."))

        def reply(self, ask: Any, *, timeout: float = 30.0) -> Reply:
            return Reply(next(self.replies))

    agent = Agent(id="desk", model=Counting())
    first = chat(memory, agent, "Hello", user="ada")
    second = chat(memory, agent, "Again", user="ada", conversation_id=first.conversation_id)
    other = chat(memory, agent, "Hello", user="ada")
    assert [first.text, second.text, other.text] == ["One.", "Two.", "Three."]
    assert first.conversation_id == second.conversation_id != other.conversation_id
    assert len({first.message_id, second.message_id, other.message_id}) == 3
    assert {one.id for one in list_conversations(memory, "ada")} == {first.conversation_id, other.conversation_id}
    again = chat(memory, agent, "Hello", user="ada", conversation_id=first.conversation_id, message_id=first.message_id)
    assert again.replayed and again.text == "One."


def test_nobody_writes_the_facts_of_a_conversation_by_hand(memory: Memory, say: Say) -> None:
    say("One", "Two")
    place = memory.at(conversation_scope(memory, "ada", "c1"))
    for key in ("chat.conversation", "chat.parts.000000000001", "chat.parts", "chat.messages.x"):
        with pytest.raises(InvalidKey):
            place.set(key, {})
    place.set("chat.theme", "moss")
    assert [fact.key for fact in place.list()] == ["chat.theme"] and len(
        read_conversation(memory, "ada", "c1").parts
    ) == 2


def test_time_never_goes_back_in_a_conversation(memory: Memory, say: Say, clock: FakeClock) -> None:
    say("One", "Two")
    clock.advance(-3600)
    say("Three", "Four")
    moments = [part.at for part in read_conversation(memory, "ada", "c1").parts]
    assert moments == sorted(moments)


drafts = st.lists(
    st.one_of(
        st.builds(Draft, kind=st.just("agent_text"), text=st.sampled_from(["Let me see", "Hm"])),
        st.builds(
            Draft,
            kind=st.just("tool_request"),
            text=st.just("{}"),
            call_id=st.sampled_from(["a", "b", "c"]),
            tool=st.just("ring"),
        ),
        st.builds(
            Draft,
            kind=st.just("tool_response"),
            text=st.just('"rung"'),
            call_id=st.sampled_from(["a", "b", "c"]),
            tool=st.just("ring"),
        ),
        st.builds(Draft, kind=st.just("reminders"), text=st.just("<system_reminders>"), hidden=st.just(True)),
        st.builds(Draft, kind=st.just("user"), text=st.just("And?")),
    ),
    max_size=12,
)


@given(drafts)
def test_wherever_a_turn_broke_off_every_call_has_its_result_right_after_it(broken: list[Draft]) -> None:
    with memoranda.open(":memory:") as memory:
        turn = begin_turn(
            memory,
            "ada",
            "c1",
            history=read_history(memory, "ada", "c1"),
            agent_id="a",
            message_id="m1",
            drafts=[Draft(kind="user", text="Ring")],
            lease=60,
        )
        assert isinstance(turn, OpenTurn)
        turn.add(broken)
        turn.answer("Done", Usage())
        messages = messages_of(read_history(memory, "ada", "c1").parts)
    assert messages[0].text == "Ring" and messages[-1].text.endswith("Done")
    waiting: list[str] = []
    for said in messages:
        if said.role == "tool":
            if said.call_id in waiting:
                waiting.remove(said.call_id)
            continue
        assert waiting == [], "somebody spoke before every call had its result"
        waiting = list(dict.fromkeys(call.id for call in said.calls))
    spoken = [draft.text for draft in broken if draft.kind == "agent_text"]
    assert [said.text for said in messages if said.role == "assistant" and said.text] == [*spoken, "Done"]
