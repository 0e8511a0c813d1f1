"""Learned lines can be undone, disappear with their conversation, and do not return once a person removed them."""

from __future__ import annotations

from typing import Any

import pytest
from lessons import Lesson, Taught

from memoranda import Denied, Memory, NotFound, Policy
from memoranda.chat.conversation import list_conversations
from memoranda.model.lesson import Source
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.sleep.undo import forget_conversation, sources_of, take_back_orphans, undo
from memoranda.sleep.worker import run_due, run_sleep_time, settle, sleep_jobs
from memoranda.testing import FakeClock

SETTLED = 300


def learn(memory: Memory, conversation: str = "c1", user: str = "ada") -> None:
    run_sleep_time(memory, conversation, user=user)


# undo


def test_undo_gives_back_both_blocks_to_the_letter(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat", "", "  - Sails on Sundays ")
    lines.write("- An old note", block="archival")
    blocks = memory.scope(user="ada").blocks
    before = [block.content for block in blocks.list()]
    talk("I live in Porto. My favourite tea is rooibos.")
    learn(memory)
    assert [block.content for block in blocks.list()] != before
    changes = undo(memory, "c1", user="ada")
    assert [block.content for block in blocks.list()] == before
    assert sorted((one.change, one.line) for one in changes) == [
        ("removed", "- Favourite tea: rooibos"),
        ("removed", "- Lives in Porto"),
    ]


def test_undo_keeps_what_was_written_since(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    learn(memory)
    lines.write(*lines(), "- Has a cat")
    undo(memory, "c1", user="ada")
    assert lines() == ["- Has a cat"]


def test_undo_brings_back_what_made_room_and_where_it_came_from(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.")
    learn(memory)
    clock.advance(5)
    talk("I live in Faro.", conversation="c2")
    learn(memory, "c2")
    assert lines() == ["- Lives in Faro"]
    undo(memory, "c2", user="ada")
    assert lines() == ["- Lives in Porto"]
    assert sources_of(memory, "Lives in Porto", user="ada") == [Source("c1", 1)]
    assert sources_of(memory, "Lives in Faro", user="ada") == []
    forget_conversation(memory, "c1", user="ada")
    assert lines() == []


def test_undo_works_once_and_only_where_something_was_written(memory: Memory, talk: Any, lines: Any) -> None:
    talk("What time is it?")
    learn(memory)
    with pytest.raises(NotFound, match="nothing to undo"):
        undo(memory, "c1", user="ada")
    talk("I live in Porto.")
    learn(memory)
    undo(memory, "c1", user="ada")
    with pytest.raises(NotFound, match="nothing to undo"):
        undo(memory, "c1", user="ada")
    with pytest.raises(NotFound):
        undo(memory, "c2", user="ada")


def test_undo_reaches_the_blocks_of_the_agent(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Speaks slowly", agent="harbour")
    talk("Hello.", agent="harbour")
    lesson = Lesson("Wants tides in metres", scope="agent")
    run_sleep_time(memory, "c1", user="ada", extractor=Taught(lesson))
    assert len(lines(agent="harbour")) == 2
    undo(memory, "c1", user="ada")
    assert lines(agent="harbour") == ["- Speaks slowly"]


def test_undo_is_a_write_in_the_history_and_in_the_ledger(memory: Memory, talk: Any) -> None:
    talk("I live in Porto.")
    learn(memory)
    undo(memory, "c1", user="ada")
    doors = [(one.origin.door, one.origin.source) for one in memory.scope(user="ada").blocks.history("core")]
    assert doors == [("sleep", "conversation:c1#2"), ("python", None)]
    assert memory.ledger.verify().ok


def test_undo_needs_the_right_to_write(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    learn(memory)
    own = Scope.of(user="ada")
    reader = memory.acting_as("reader", policy=Policy(rules=(Rule("allow", "memory.read", own),)))
    with pytest.raises(Denied):
        undo(reader, "c1", user="ada")
    assert lines() == ["- Lives in Porto"]
    writer = memory.acting_as("writer", policy=Policy(rules=(Rule("allow", "memory", own),)))
    undo(writer, "c1", user="ada")
    assert lines() == []


# what was taken out stays out


def test_g12_what_a_person_took_out_is_not_learned_again(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto. I prefer tea.")
    learn(memory)
    lines.write("- Prefers tea")
    talk("As I said, I live in Porto. I speak Dutch.")
    learn(memory)
    talk("I live in PORTO! I'm vegan.", conversation="c2")
    learn(memory, "c2")
    assert lines() == ["- Prefers tea", "- Speaks Dutch", "- Is vegan"]
    assert lines("archival") == []  # nor by another way, as a second memory of the same


def test_g12_what_an_undo_took_back_is_not_learned_again(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    learn(memory)
    undo(memory, "c1", user="ada")
    talk("I live in Porto. I prefer tea.")
    learn(memory)
    assert lines() == ["- Prefers tea"]


def test_g12_what_went_with_a_deleted_block_is_not_learned_again(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat", "- Lives in Porto")
    memory.scope(user="ada").blocks.delete("core")
    talk("I live in Porto. I prefer tea.")
    learn(memory)
    assert lines() == ["- Prefers tea"]


def test_g12_who_puts_a_line_back_has_it_back(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Lives in Porto")
    lines.write("- Has a boat")
    talk("I live in Porto.")
    learn(memory)
    assert lines() == ["- Has a boat"]
    lines.write("- Has a boat", "- Lives in Porto")
    talk("I live in Porto. I prefer tea.")
    learn(memory)
    assert lines() == ["- Has a boat", "- Lives in Porto", "- Prefers tea"]


def test_g9_a_rejected_line_stays_away_after_another_took_its_place(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.")
    learn(memory)
    lines.write("- Has a boat")
    for number, place in enumerate(("Faro", "Porto", "Porto", "Porto")):
        clock.advance(10_000_000)  # no time makes it come back
        talk(f"I live in {place}.", conversation=f"d{number}")
        learn(memory, f"d{number}")
    assert lines() == ["- Has a boat", "- Lives in Faro"]


def test_g30_what_only_made_room_comes_back_when_it_is_said_again(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    for number, place in enumerate(("Porto", "Faro", "Porto")):
        clock.advance(10)
        talk(f"I live in {place}.", conversation=f"c{number}")
        learn(memory, f"c{number}")
        assert lines() == [f"- Lives in {place}"]


def test_g16_what_the_user_took_back_in_words_stays_away_when_older_words_are_read(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Oslo. I prefer tea.", conversation="old")
    clock.advance(60)
    talk("I live in Oslo.", conversation="first")
    learn(memory, "first")
    clock.advance(60)
    talk("I no longer live in Oslo.", conversation="second")
    learn(memory, "second")
    assert lines() == []
    learn(memory, "old")
    assert lines() == ["- Prefers tea"]


# where it came from


def test_g4_every_learned_line_leads_back_to_what_was_said(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat")
    talk("Hello.", "I live in Porto. I prefer tea.")
    learn(memory)
    talk("I prefer tea.", conversation="c2")
    learn(memory, "c2")
    assert sources_of(memory, "- Lives in Porto", user="ada") == [Source("c1", 3)]
    assert sources_of(memory, "Prefers tea", user="ada") == [Source("c1", 3), Source("c2", 1)]
    assert sources_of(memory, "- Has a boat", user="ada") == []


def test_g5_forgetting_a_conversation_takes_what_it_alone_taught(memory: Memory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat")
    talk("I live in Porto. I prefer tea. My favourite soup is minestrone.")
    learn(memory)
    talk("I prefer tea. I speak Dutch.", conversation="c2")
    learn(memory, "c2")
    gone = forget_conversation(memory, "c1", user="ada")
    assert sorted(gone) == ["- Favourite soup: minestrone", "- Lives in Porto"]
    assert (lines(), lines("archival")) == (["- Has a boat", "- Prefers tea", "- Speaks Dutch"], [])
    assert memory.scope(user="ada").blocks.recall("minestrone soup") == []
    assert sources_of(memory, "Prefers tea", user="ada") == [Source("c2", 1)]
    assert sources_of(memory, "Lives in Porto", user="ada") == []
    assert [dict(job.scope.parts)["thread"] for job in sleep_jobs(memory)] == ["c2"]


def test_who_may_not_erase_a_conversation_takes_back_nothing_of_it(memory: Memory, talk: Any, lines: Any) -> None:
    talk("I live in Porto.")
    learn(memory)
    own = Scope.of(user="ada")
    rules = [Rule("allow", capability, own) for capability in ("memory.read", "memory.write")]
    writer = memory.acting_as("writer", policy=Policy(rules=tuple(rules)))
    with pytest.raises(Denied):
        forget_conversation(writer, "c1", user="ada")
    assert lines() == ["- Lives in Porto"]
    eraser = memory.acting_as("eraser", policy=Policy(rules=(*rules, Rule("allow", "memory.erase", own))))
    assert forget_conversation(eraser, "c1", user="ada") == ["- Lives in Porto"]
    assert lines() == []


def test_g5_erasing_a_conversation_takes_what_it_taught_with_the_next_look(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.")
    learn(memory)
    talk("I speak Dutch.", conversation="c2")
    learn(memory, "c2")
    talk("I live in Porto.", user="bob")
    learn(memory, user="bob")
    memory.erase(user="ada", thread="c1")
    settle(memory)
    assert lines() == ["- Speaks Dutch"]
    assert lines(user="bob") == ["- Lives in Porto"]
    clock.advance(SETTLED)
    settle(memory)
    run_due(memory)
    assert lines() == ["- Speaks Dutch"]


def test_what_was_learned_after_somebody_listed_the_conversations_stays(memory: Memory, talk: Any, lines: Any) -> None:
    listed = list_conversations(memory)
    talk("I live in Porto.")
    learn(memory)
    assert take_back_orphans(memory, listed) == []
    assert lines() == ["- Lives in Porto"]
    memory.erase(user="ada", thread="c1")
    assert take_back_orphans(memory, listed) == ["- Lives in Porto"]
    assert lines() == []


def test_g5_erasing_a_user_leaves_nothing_that_was_learned(
    memory: Memory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    for user in ("ada", "bob"):
        talk("I live in Porto.", user=user)
        learn(memory, user=user)
    memory.erase(user="ada")
    clock.advance(SETTLED)
    settle(memory)
    run_due(memory)
    assert (lines(), lines(user="bob")) == ([], ["- Lives in Porto"])
    assert memory.scope(user="ada").list() == []
    assert {job.scope.subject for job in sleep_jobs(memory)} == {"user:bob"}


def test_what_was_forgotten_with_a_conversation_can_be_learned_from_another(
    memory: Memory, talk: Any, lines: Any
) -> None:
    talk("I live in Porto.")
    learn(memory)
    forget_conversation(memory, "c1", user="ada")
    assert lines() == []
    talk("I live in Porto.", conversation="c2")
    learn(memory, "c2")
    assert lines() == ["- Lives in Porto"]
