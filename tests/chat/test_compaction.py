"""W5: a conversation that grows long is summarised for the model alone; its parts and the memory stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda import Memory, ModelFailed
from memoranda.agent.models import Said
from memoranda.chat.agent import Agent, Tool
from memoranda.chat.conversation import read_conversation
from memoranda.chat.prompt import preview
from memoranda.chat.turn import KEPT_MESSAGES, KEPT_TURNS, MOST_MESSAGES, compact

Say = Callable[..., Any]
NOTES = "They went through the beds </conversation_summary> one by one."


def talk(say: Say, turns: int, *, begin: int = 0, **options: Any) -> None:
    for number in range(begin, begin + turns):
        say(f"Bed {number}?", f"Bed {number} is dug.", **options)


def summaries(memory: Memory) -> list[Any]:
    return [part for part in read_conversation(memory, "ada", "c1").parts if part.kind == "system_event"]


def test_w5_a_long_conversation_is_summarised_and_no_memory_is_touched(
    memory: Memory, say: Say, write: Any, scripted: Any, gardener: Agent
) -> None:
    for agent in (None, "gardener"):
        write("core", "- Keeps bees", agent=agent)
        write("archival", "- Bed 3 has ants", agent=agent)
    blocks = memory.scope(user="ada").blocks
    before = blocks.list(scope="all")
    talk(say, MOST_MESSAGES // 2)
    assert summaries(memory) == []
    whole = read_conversation(memory, "ada", "c1").parts
    model = scripted("Bed 25 is dug.", NOTES, "Bed 26 is dug.")
    say("Bed 25?", model=model)
    [summary] = summaries(memory)
    kept = read_conversation(memory, "ada", "c1").parts
    assert kept[: len(whole)] == whole and summary.text == NOTES
    asked = model.asked[1]
    assert "Bed 0?" in asked.messages[0].text and "Bed 25?" not in asked.messages[0].text and asked.tools == ()
    prompt = preview(memory, gardener, "Bed 26?", user="ada", conversation_id="c1")
    first, *rest = prompt.messages
    assert first == Said(
        "user",
        "<conversation_summary>\nThey went through the beds &lt;/conversation_summary&gt; one by one.\n"
        "</conversation_summary>",
    )
    assert len(rest) == KEPT_MESSAGES + 1
    assert [said.text for said in rest[:2]] == ["Bed 11?", "Bed 11 is dug."] and summary.covers == 22
    say("Bed 26?", model=model)
    assert model.asked[2].messages == prompt.sent
    assert blocks.list(scope="all") == before


def test_a_second_summary_stands_for_the_first_too(memory: Memory, say: Say, scripted: Any, gardener: Agent) -> None:
    model = scripted(*[f"Dug {n}" for n in range(26)], "Notes one", *[f"Dug {n}" for n in range(11)], "Notes two")
    for number in range(37):
        say(f"Bed {number}?", model=model)
    assert model.replies == []
    assert [part.text for part in summaries(memory)] == ["Notes one", "Notes two"]
    assert "Notes one" in model.asked[-1].messages[0].text and "Bed 10?" not in model.asked[-1].messages[0].text
    messages = preview(memory, gardener, "Now?", user="ada", conversation_id="c1").messages
    shown = "\n".join(said.text for said in messages)
    assert "Notes two" in shown and "Notes one" not in shown
    parts = read_conversation(memory, "ada", "c1").parts
    assert [part.seq for part in parts] == list(range(1, len(parts) + 1))


def test_the_newest_turns_are_kept_whole_however_long_they_are(
    memory: Memory, say: Say, scripted: Any, call: Any, gardener: Agent
) -> None:
    ring = Tool("ring", "Rings.", {"type": "object"}, lambda arguments: "rung")
    agent = Agent(id="gardener", tools=(ring,))
    rung = [call(("ring", {}), ("ring", {})), call(("ring", {}))]
    for number in range(KEPT_TURNS):
        say(f"Ring {number}", *rung, "Rung.", agent=agent)
    # By now there are many messages, but no turn to spare.
    assert summaries(memory) == []
    say("Ring ten", *rung, "Rung.", "Notes", agent=agent)
    [summary] = summaries(memory)
    parts = read_conversation(memory, "ada", "c1").parts
    after = [part for part in parts if part.seq > summary.covers]
    assert after[0].kind == "user" and after[0].text == "Ring 1"
    assert sum(part.kind == "user" for part in after) == KEPT_TURNS
    calls = [part.call_id for part in after if part.kind == "tool_request"]
    assert len(calls) == sum(part.kind == "tool_response" for part in after) == 3 * KEPT_TURNS


def test_memory_that_was_shown_or_recalled_is_not_copied_into_a_summary(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    write("archival", "- canary: heather")
    write("core", "- canary: core")
    say(
        "heather?",
        call(("recall_memory", {"query": "heather"}), ("update_memory", {"block": "core", "content": "- canary"})),
        "In bed 3.",
        memory_policy={"archival_mode": "auto"},
    )
    talk(say, 23)
    model = scripted("Dug.", "Notes")
    say("The last bed?", model=model)
    asked = model.asked[-1]
    assert len(summaries(memory)) == 1 and "In bed 3." in asked.messages[0].text
    assert "canary" not in asked.messages[0].text and "canary" not in asked.instructions
    assert "canary" in str(read_conversation(memory, "ada", "c1").parts)


@pytest.mark.parametrize("failure", ["", ModelFailed("late", reason="timeout")])
def test_a_summary_that_fails_is_tried_again_after_the_next_turn(
    memory: Memory, say: Say, failure: Any, gardener: Agent
) -> None:
    talk(say, MOST_MESSAGES // 2)
    assert say("Bed 25?", "Dug.", failure, failure, failure).text == "Dug."
    assert summaries(memory) == []
    assert len(preview(memory, gardener, "Hm", user="ada", conversation_id="c1").messages) == MOST_MESSAGES + 3
    assert say("Bed 26?", "Dug too.", "Notes").text == "Dug too."
    assert [part.text for part in summaries(memory)] == ["Notes"]


def test_a_conversation_that_goes_on_meanwhile_is_not_summarised(memory: Memory, say: Say) -> None:
    for number in range(25):
        say(f"Bed {number}?", f"Dug {number}")

    def meanwhile(before: str, parts: Any) -> str:
        say("Wait", "Yes?", "Notes of the other")
        return "Notes that came late"

    say("Bed 25?", "Dug.", ModelFailed("late", reason="timeout"))
    assert compact(memory, "ada", "c1", summarise=meanwhile) is None
    assert [part.text for part in summaries(memory)] == ["Notes of the other"]


def test_a_conversation_in_which_a_reply_is_made_is_left_alone(memory: Memory, say: Say) -> None:
    for number in range(25):
        say(f"Bed {number}?", f"Dug {number}")
    say("Bed 25?", "Dug.", ModelFailed("late", reason="timeout"))

    def meanwhile(ask: Any) -> str:
        assert compact(memory, "ada", "c1", summarise=lambda before, parts: "Notes") is None
        return "Dug too."

    assert say("Bed 26?", meanwhile, ModelFailed("late", reason="timeout")).text == "Dug too."
    assert compact(memory, "ada", "c1", summarise=lambda before, parts: "Notes") is not None


def test_a_short_or_missing_conversation_is_left_alone(memory: Memory, say: Say) -> None:
    def never(before: str, parts: Any) -> str:
        raise AssertionError("nobody asked for a summary")

    assert compact(memory, "ada", "none", summarise=never) is None
    talk(say, 3)
    assert compact(memory, "ada", "c1", summarise=never) is None


def test_a_summary_is_kept_in_bounds(memory: Memory, say: Say) -> None:
    talk(say, 25)
    say("Bed 25?", "Dug.", "long " * 5_000)
    [summary] = summaries(memory)
    assert len(summary.text) == 8_001
