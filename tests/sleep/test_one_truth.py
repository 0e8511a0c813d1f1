"""What a chat taught and what `learn` was given are one memory: statements, and the lines that say them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from lessons import Lesson, Taught

from memoranda import Denied, Memory, Policy
from memoranda.api.scoped import ScopedMemory
from memoranda.engine.facts import SetFact, WriteFacts
from memoranda.model.block import canonical_digest
from memoranda.model.policy import Rule
from memoranda.model.scope import Scope
from memoranda.model.value import encode
from memoranda.sleep import forget_conversation, run_sleep_time, sources_of, undo
from memoranda.testing import FakeClock


@pytest.fixture
def ada(memory: Memory) -> ScopedMemory:
    return memory.scope(user="ada")


def sleep(memory: Memory, talk: Any, text: str, conversation: str = "c1") -> Any:
    talk(text, conversation=conversation)
    return run_sleep_time(memory, conversation, user="ada")


def statements(ada: ScopedMemory) -> list[str]:
    return [entry.content for entry in ada.entries(collection="statements")]


def told(ada: ScopedMemory, query: str = "Where does Ada live?") -> list[str]:
    """Return what a prompt would say is true now: what it says was true before is left out."""
    return [item.text for item in ada.context(query).items if item.valid_to is None and item.kind != "message"]


def test_what_a_chat_taught_is_a_statement_that_leads_back_to_its_parts(
    memory: Memory, ada: ScopedMemory, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Porto.")
    [entry] = ada.entries(collection="statements")
    assert (entry.content, entry.key, entry.origin.door) == ("Lives in Porto", "user.place", "sleep")
    assert entry.metadata["said_in"] == ["message:user:ada/thread:c1#1"]
    [said] = [match for match in ada.recall("Porto", kinds=["message"]) if "Porto" in match.content]
    assert said.ref == entry.metadata["said_in"][0]
    assert ada.entries(collection="conversations") == []  # the chat keeps its turns itself
    assert lines() == ["- Lives in Porto"]


def test_a_statement_is_found_once_beside_its_line(memory: Memory, ada: ScopedMemory, talk: Any, lines: Any) -> None:
    ada.blocks.update("archival", "- Has a house in Porto", expected_updated_at=None)
    sleep(memory, talk, "I live in Porto. My favourite port is tawny, from Porto.")
    found = [match.content for match in ada.recall("Porto", limit=20)]
    for text in ("Lives in Porto", "Favourite port: tawny, from Porto"):
        assert (text in found, f"- {text}" in found) == (True, False)
    assert "- Has a house in Porto" in found
    assert [line.content for line in ada.blocks.recall("tawny port")][:1] == ["- Favourite port: tawny, from Porto"]
    shown = ada.context("Porto").text
    assert shown.count("Lives in Porto") == shown.count("\nFavourite port: tawny, from Porto\n") == 1
    assert shown.count("- Favourite port") == 0


def test_a_statement_whose_core_line_was_cut_off_is_not_called_a_duplicate(
    memory: Memory, ada: ScopedMemory, talk: Any, lines: Any
) -> None:
    lines.write(*(f"- Collects stamps of the year {year}" for year in range(1900, 1915)))
    sleep(memory, talk, "I live in Porto.")
    [entry] = ada.entries(collection="statements")
    for budget, why in ((200, "budget"), (1_000, "duplicate")):
        told = ada.context("Where does Ada live?", budget=budget)
        assert ("- Lives in Porto" in told.text) == (why == "duplicate")
        assert [one.why for one in told.left_out if one.ref == entry.ref] == [why]


def test_learn_replaces_what_a_chat_taught_everywhere(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    lines.write("- Has a boat")
    sleep(memory, talk, "I live in Porto. I prefer tea.")
    clock.advance(60)
    moved = ada.learn("I moved to Faro.")
    assert [(lesson.verdict, lesson.text) for lesson in moved.lessons] == [("replaced", "Lives in Faro")]
    assert [(change.change, change.line) for change in moved.lines] == [
        ("removed", "- Lives in Porto"),
        ("added", "- Lives in Faro"),
    ]
    assert lines() == ["- Has a boat", "- Prefers tea", "- Lives in Faro"]
    assert statements(ada) == ["Prefers tea", "Lives in Faro"]
    assert "Porto" not in str(told(ada)) and "Faro" in str(told(ada))
    [old] = [match for match in ada.recall("Where does Ada live?", limit=20) if match.content.startswith("I live in P")]
    assert old.valid_to is not None and old.why.parts["outdated"] < 0  # the message of the chat is marked

    ada.undo(moved)
    assert lines() == ["- Has a boat", "- Lives in Porto", "- Prefers tea"]  # to the letter
    assert statements(ada) == ["Prefers tea", "Lives in Porto"]
    assert [one.seq for one in sources_of(memory, "Lives in Porto", user="ada")] == [1]
    assert all(match.valid_to is None for match in ada.recall("Where does Ada live?", limit=20))
    assert memory.ledger.verify().ok


def test_a_chat_replaces_what_learn_was_given_everywhere(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    ada.learn("I live in Porto.")
    assert lines() == []  # learning alone writes no line
    clock.advance(60)
    done = sleep(memory, talk, "I've moved to Faro.")
    assert [change.line for change in done.changes] == ["- Lives in Faro"]
    assert (lines(), statements(ada)) == (["- Lives in Faro"], ["Lives in Faro"])
    assert told(ada) == ["- Lives in Faro"]
    assert [entry.content for entry in ada.entry_history(ada.entries(collection="statements")[0].ref)] == [
        "Lives in Porto",
        "Lives in Faro",
    ]
    [change] = undo(memory, "c1", user="ada")
    assert (change.change, change.line) == ("removed", "- Lives in Faro")
    assert (lines(), statements(ada)) == ([], ["Lives in Porto"])


def test_what_learn_was_given_becomes_a_line_when_a_chat_confirms_it(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    ada.learn("I live in Porto.")
    clock.advance(60)
    sleep(memory, talk, "As you know, I live in Porto.")
    assert (lines(), statements(ada)) == (["- Lives in Porto"], ["Lives in Porto"])
    forget_conversation(memory, "c1", user="ada")
    assert (lines(), statements(ada)) == ([], ["Lives in Porto"])  # which was said elsewhere, too


def test_what_learn_ends_goes_from_the_block_and_comes_back_with_undo(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Oslo. I prefer tea.")
    clock.advance(60)
    ended = ada.learn("I no longer live in Oslo.")
    assert lines() == ["- Prefers tea"]
    lines.write("- Prefers tea", "- Has a boat")
    ada.undo(ended)
    assert lines() == ["- Prefers tea", "- Has a boat", "- Lives in Oslo"]


def test_a_line_that_learn_replaced_may_come_back_with_a_chat(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    """Only lines that a person removes are rejected, not those that `learn` replaces."""
    sleep(memory, talk, "I live in Porto.")
    clock.advance(60)
    ada.learn("I moved to Faro.")
    clock.advance(60)
    sleep(memory, talk, "I live in Porto again. I moved to Porto.", "c2")
    assert lines() == ["- Lives in Porto"]


def test_undo_leaves_what_was_learned_since(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Porto. I prefer tea.")
    clock.advance(60)
    sleep(memory, talk, "I moved to Faro.", "c2")
    undo(memory, "c1", user="ada")
    assert (lines(), statements(ada)) == (["- Lives in Faro"], ["Lives in Faro"])


def test_what_was_replaced_and_brought_back_can_be_undone(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Porto.")
    clock.advance(60)
    sleep(memory, talk, "I moved to Faro.", "c2")
    clock.advance(60)
    ada.undo(ada.learn("I moved to Lagos."))
    undo(memory, "c2", user="ada")
    assert (lines(), statements(ada)) == (["- Lives in Porto"], ["Lives in Porto"])


def test_undo_brings_back_no_line_whose_statement_was_replaced_since(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    for number, place in enumerate(("Porto", "Faro", "Lagos")):
        sleep(memory, talk, f"I moved to {place}. I speak {('Dutch', 'Danish', 'Greek')[number]}.", f"c{number}")
        clock.advance(60)
    undo(memory, "c1", user="ada")
    assert sorted(lines()) == ["- Lives in Lagos", "- Speaks Dutch", "- Speaks Greek"]
    assert sorted(statements(ada)) == ["Lives in Lagos", "Speaks Dutch", "Speaks Greek"]


# by hand


def test_a_line_that_is_removed_by_hand_takes_its_statement_along(
    memory: Memory, ada: ScopedMemory, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Porto. I prefer tea. My favourite soup is minestrone.")
    lines.write("- Has a boat", "- Prefers tea.")
    assert statements(ada) == ["Prefers tea", "Favourite soup: minestrone"]
    ada.blocks.delete("archival")
    assert statements(ada) == ["Prefers tea"]
    # A line that moves from one block to the other is still there.
    lines.write("- Prefers tea.", block="archival")
    lines.write("- Has a boat")
    assert statements(ada) == ["Prefers tea"]


def test_forgetting_a_line_or_its_statement_forgets_both(
    memory: Memory, ada: ScopedMemory, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Porto. I prefer tea. I speak Dutch.")
    [line] = [one for one in ada.recall("Porto", kinds=["line"]) if "Porto" in one.content]
    forgotten = ada.forget(line.ref)
    assert (lines(), statements(ada)) == (["- Prefers tea", "- Speaks Dutch"], ["Prefers tea", "Speaks Dutch"])
    ada.undo(forgotten)
    assert sorted(lines()) == ["- Lives in Porto", "- Prefers tea", "- Speaks Dutch"]
    assert sorted(statements(ada)) == ["Lives in Porto", "Prefers tea", "Speaks Dutch"]

    [tea] = [entry for entry in ada.entries(collection="statements") if entry.content == "Prefers tea"]
    forgotten = ada.forget(tea.ref)
    assert "- Prefers tea" not in lines() and len(lines()) == 2
    ada.undo(forgotten)
    assert "- Prefers tea" in lines() and len(lines()) == 3


def test_superseding_a_statement_rewrites_its_line(memory: Memory, ada: ScopedMemory, talk: Any, lines: Any) -> None:
    lines.write("- Has a boat")
    sleep(memory, talk, "I live in Porto.")
    [entry] = ada.entries(collection="statements")
    done = ada.supersede(entry.ref, "Lives in Porto, near the river")
    assert lines() == ["- Has a boat", "- Lives in Porto, near the river"]
    ada.undo(done)
    assert lines() == ["- Has a boat", "- Lives in Porto"]
    note = ada.remember("Has a cat", collection="notes")  # other collections have no lines
    ada.forget(note.id)
    assert lines() == ["- Has a boat", "- Lives in Porto"]


# who may


def test_who_may_not_write_blocks_changes_no_line_by_learning(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any, lines: Any
) -> None:
    sleep(memory, talk, "I live in Porto.")
    clock.advance(60)
    own = Scope.of(user="ada")
    closed = Policy(rules=(Rule("allow", "memory", own), Rule("deny", "memory.write", own, "blocks")))
    clerk = memory.acting_as("clerk", policy=closed).scope(user="ada")
    with pytest.raises(Denied):
        clerk.learn("I moved to Faro.")
    assert (lines(), statements(ada)) == (["- Lives in Porto"], ["Lives in Porto"])
    assert clerk.learn("I prefer tea.").added  # which is in no block
    assert (
        memory.acting_as("clerk", policy=Policy(rules=(Rule("allow", "memory", own),)))
        .scope(user="ada")
        .learn("I moved to Faro.")
        .replaced
    )
    assert lines() == ["- Lives in Faro"]


# memory of earlier versions


@pytest.fixture
def earlier(memory: Memory, clock: FakeClock) -> None:
    """Write what earlier versions wrote: blocks and a book, and no statement."""
    scope = Scope.of(user="ada")
    said = {"sources": [{"conversation": "old", "seq": 1}], "said_at": clock.now().isoformat(), "ended": False}
    book = {
        canonical_digest("Lives in Porto"): {**said, "topic": "place"},
        canonical_digest("Prefers tea"): {**said, "topic": ""},
        canonical_digest("Is vegan"): {**said, "sources": [], "topic": "", "ended": True},
    }
    values = {"blocks.core": "- Has a boat\n- Lives in Porto\n- Prefers tea", "sleep.learned": book}
    writes = tuple(SetFact(scope=scope, key=key, payload=msgspec.Raw(encode(values[key]))) for key in values)
    memory.through("sleep").perform(WriteFacts(scope=scope, writes=writes))
    clock.advance(60)


def test_lines_of_earlier_versions_are_replaced_by_a_chat(
    memory: Memory, ada: ScopedMemory, earlier: None, talk: Any, lines: Any
) -> None:
    done = sleep(memory, talk, "I moved to Faro. I prefer tea.")
    assert lines() == ["- Has a boat", "- Prefers tea", "- Lives in Faro"]
    assert [(one.line, one.why) for one in done.left_out] == [("- Prefers tea", "known")]
    assert sorted(statements(ada)) == ["Lives in Faro", "Prefers tea"]
    assert [one.conversation for one in sources_of(memory, "Prefers tea", user="ada")] == ["c1", "old"]


def test_lines_of_earlier_versions_are_replaced_and_ended_by_learn(
    memory: Memory, ada: ScopedMemory, earlier: None, lines: Any
) -> None:
    assert ada.learn("I moved to Faro.").added
    assert lines() == ["- Has a boat", "- Prefers tea", "- Lives in Faro"]
    assert statements(ada) == ["Lives in Faro"]


def test_what_was_taken_back_in_earlier_versions_stays_away(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, earlier: None, talk: Any, lines: Any
) -> None:
    extractor = Taught(Lesson("Is vegan", topic="diet"))
    clock.advance(-120)
    talk("Hello.")
    assert [one.why for one in run_sleep_time(memory, "c1", user="ada", extractor=extractor).left_out] == ["outdated"]
    clock.advance(240)
    talk("Hello.", conversation="c2")
    run_sleep_time(memory, "c2", user="ada", extractor=extractor)
    assert "- Is vegan" in lines()


def test_lines_of_earlier_versions_go_with_their_conversation(memory: Memory, earlier: None, lines: Any) -> None:
    assert forget_conversation(memory, "old", user="ada") == ["- Lives in Porto", "- Prefers tea"]
    assert lines() == ["- Has a boat"]


def test_what_was_forgotten_is_not_learned_from_what_was_said_before(
    memory: Memory, ada: ScopedMemory, clock: FakeClock, talk: Any
) -> None:
    ada.set("home.city", "Turku")
    talk("I live in Turku. I am vegan.")
    clock.advance(60)
    ada.delete("home.city")
    run_sleep_time(memory, "c1", user="ada")
    assert statements(ada) == ["Is vegan"]
    clock.advance(60)
    sleep(memory, talk, "I live in Turku.")
    assert "Turku" in str(statements(ada))
