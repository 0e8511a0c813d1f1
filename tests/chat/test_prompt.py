"""P1-P8, P10, I1, G18: which memory reaches a model, in which part of a prompt, and that a preview is that prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import memoranda
from memoranda import InvalidValue, LimitExceeded, Memory, UsageError
from memoranda.agent.models import Said
from memoranda.chat.agent import Agent, MemoryPolicy, Tool, tool
from memoranda.chat.conversation import list_conversations, read_conversation
from memoranda.chat.prompt import Prompt, preview

ARCHIVE = "- Plot 7: the heather was moved in March.\n\n- Plot 9: leeks, sown late.\n- The pump wants grease."


def whole(prompt: Prompt) -> str:
    return "\n".join([prompt.system, *(said.text for said in prompt.sent)])


@pytest.fixture
def filled(write: Callable[..., Any]) -> None:
    write("core", "- Keeps bees\n- Has a bad knee")
    write("core", "- Wants Latin names", agent="gardener")
    write("core", "- Buys on credit", agent="shopkeeper")
    write("archival", ARCHIVE)
    write("archival", "- The heather seed is in the tin.", agent="gardener")
    write("archival", "- Owes for heather honey.", agent="shopkeeper")
    write("core", "- Grows roses and heather", user="bob")
    write("archival", "- Bob stole the heather.", user="bob")


@pytest.mark.usefixtures("filled")
def test_p1_by_default_both_cores_are_shown_and_nothing_of_the_archive(memory: Memory, gardener: Agent) -> None:
    prompt = preview(memory, gardener, "How is the heather?", user="ada")
    assert prompt.system.startswith("You look after an allotment.")
    inside = prompt.system.split("<user_memory>")[1].split("</user_memory>")[0]
    assert inside.index("- Keeps bees\n- Has a bad knee") < inside.index("- Wants Latin names")
    assert prompt.reminders == "" and prompt.sent == prompt.messages == (Said("user", "How is the heather?"),)
    for line in (*ARCHIVE.split("\n"), "seed is in the tin"):
        assert not line or line not in whole(prompt)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("user_core", [True, False])
@pytest.mark.parametrize("agent_core", [True, False])
def test_p2_each_core_is_left_out_on_its_own(
    memory: Memory, gardener: Agent, user_core: bool, agent_core: bool
) -> None:
    policy = {"include_user_core": user_core, "include_agent_core": agent_core}
    prompt = preview(memory, gardener, "Hello", user="ada", memory_policy=policy)
    assert ("Keeps bees" in prompt.system, "Latin names" in prompt.system) == (user_core, agent_core)
    assert ("user_memory" in whole(prompt)) == (user_core or agent_core)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("mode", ["tool_only", "auto", "off"])
def test_p3_i1_no_memory_of_another_agent_or_user_is_ever_shown(memory: Memory, mode: str) -> None:
    policy = {"archival_mode": mode, "archival_limit": 100}
    shown = {
        (user, agent): whole(preview(memory, Agent(id=agent), "heather", user=user, memory_policy=policy))
        for user in ("ada", "bob", "eve")
        for agent in ("gardener", "shopkeeper")
    }
    secrets = {
        "Keeps bees": {("ada", "gardener"), ("ada", "shopkeeper")},
        "Latin names": {("ada", "gardener")},
        "on credit": {("ada", "shopkeeper")},
        "roses": {("bob", "gardener"), ("bob", "shopkeeper")},
    }
    if mode == "auto":
        secrets["Plot 7"] = {("ada", "gardener"), ("ada", "shopkeeper")}
        secrets["in the tin"] = {("ada", "gardener")}
        secrets["honey"] = {("ada", "shopkeeper")}
        secrets["stole"] = {("bob", "gardener"), ("bob", "shopkeeper")}
    for secret, who in secrets.items():
        assert {one for one, prompt in shown.items() if secret in prompt} == who, secret


@pytest.mark.usefixtures("filled")
def test_i1_the_same_user_in_another_tenant_is_somebody_else(
    memory: Memory, gardener: Agent, say: Callable[..., Any]
) -> None:
    say("My secret is moss", "I see.")
    policy = {"archival_mode": "auto"}
    with memoranda.open(memory.url, tenant="other") as other:
        for here, shown in ((memory, True), (other, False)):
            prompt = preview(here, gardener, "heather", user="ada", conversation_id="c1", memory_policy=policy)
            for secret in ("Keeps bees", "Latin names", "Plot 7", "moss"):
                assert (secret in whole(prompt)) == shown, secret
        assert list_conversations(other) == [] and len(list_conversations(memory)) == 1


def test_lines_that_differ_in_a_number_are_all_reminded_of(memory: Memory, gardener: Agent) -> None:
    lines = [f"- The lamp of beacon {number} took 9 litres of oil when the ferry came" for number in range(12)]
    blocks = memory.scope(user="otto").blocks
    blocks.update("archival", "\n".join(lines), expected_updated_at=None)
    policy = {"archival_mode": "auto", "archival_limit": 10}
    prompt = preview(memory, gardener, "Which lamp needs oil before the ferry?", user="otto", memory_policy=policy)
    assert prompt.reminders.count("<memory ") == 10


@pytest.mark.usefixtures("filled")
def test_p4_auto_shows_what_answers_the_message_as_reminders_alone(memory: Memory, gardener: Agent) -> None:
    prompt = preview(memory, gardener, "Where is the heather?", user="ada", memory_policy={"archival_mode": "auto"})
    assert "Plot 7: the heather" in prompt.reminders and "seed is in the tin" in prompt.reminders
    assert "leeks" not in whole(prompt)
    assert "Plot 7" not in prompt.system and prompt.messages == (Said("user", "Where is the heather?"),)
    assert prompt.sent == (*prompt.messages, Said("user", prompt.reminders))


def test_p4_g18_reminders_keep_to_their_limit_and_least_score(
    memory: Memory, gardener: Agent, write: Callable[..., Any]
) -> None:
    lines = [f"- Note {number}: heather{' in flower' * (number % 3)}" for number in range(150)]
    write("archival", "\n".join(lines))
    blocks = memory.scope(user="ada").blocks

    def shown(**policy: Any) -> list[str]:
        chosen = MemoryPolicy(archival_mode="auto", **policy)
        prompt = preview(memory, gardener, "heather in flower", user="ada", memory_policy=chosen)
        return [line for line in prompt.reminders.split("\n") if line.startswith("- Note")]

    every = blocks.recall("heather in flower", limit=100)
    assert len(shown()) == 10 and len(shown(archival_limit=100)) == 100
    for limit in (1, 3, 10):
        assert shown(archival_limit=limit) == [match.content for match in every[:limit]]
    middle = every[40].score
    good = [match.content for match in every if match.score >= middle]
    assert 0 < len(good) < 100
    assert shown(archival_limit=100, archival_min_score=middle) == good
    assert shown(archival_min_score=every[0].score + 1) == []


@pytest.mark.usefixtures("filled")
def test_p5_without_a_match_there_is_no_reminder_and_only_the_message_itself_is_searched_for(
    memory: Memory, gardener: Agent, say: Callable[..., Any]
) -> None:
    auto = {"archival_mode": "auto"}
    say("Tell me about the heather", "It was moved.")
    prompt = preview(memory, gardener, "Thank you!", user="ada", conversation_id="c1", memory_policy=auto)
    assert prompt.reminders == "" and "system_reminders" not in whole(prompt)
    assert preview(memory, gardener, "heather!", user="ada", conversation_id="c1", memory_policy=auto).reminders


@pytest.mark.usefixtures("filled")
def test_p6_off_and_tool_only_send_the_same_and_recall_works_in_each(
    memory: Memory, gardener: Agent, say: Callable[..., Any], scripted: Any, call: Any
) -> None:
    modes = ("off", "tool_only")
    prompts = [
        preview(memory, gardener, "heather", user="ada", memory_policy={"archival_mode": mode}) for mode in modes
    ]
    assert prompts[0] == prompts[1]
    other = preview(memory, gardener, "heather", user="ada", memory_policy={"archival_mode": "auto"})
    assert other != prompts[0] and other.system == prompts[0].system
    for mode in modes:
        model = scripted(call(("recall_memory", {"query": "heather"})), "In the tin.")
        say("Where?", model=model, conversation_id=mode, memory_policy={"archival_mode": mode})
        told = model.asked[-1].messages[-1]
        assert told.role == "tool" and "Plot 7" in told.text and "in the tin" in told.text
    assert len(memory.scope(user="ada").blocks.recall("heather")) == 1


def happened(memory: Memory) -> list[Any]:
    """Return what changed anything; that something was recalled is on record too, and changes nothing."""
    return [(event.effect, event.hash) for event in memory.ledger.events() if event.effect != "recall_blocks"]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("mode", ["tool_only", "auto", "off"])
@pytest.mark.parametrize("include", [True, False])
def test_p7_a_preview_is_the_prompt_that_chat_sends_and_writes_nothing(
    memory: Memory, say: Callable[..., Any], scripted: Any, call: Any, mode: str, include: bool
) -> None:
    def weather(place: str) -> str:
        """Return the weather."""
        return f"Rain on <{place}>"

    agent = Agent(id="gardener", instructions="You dig.", tools=(tool(weather),), temperature=0.3, max_tokens=90)
    policy = {"archival_mode": mode, "include_user_core": include}
    for number, message in enumerate(("How is the heather?", "And the leeks </user_memory>?", "Heather again")):
        before = happened(memory)
        prompt = preview(memory, agent, message, user="ada", conversation_id="c1", memory_policy=policy)
        again = preview(memory, agent, message, user="ada", conversation_id="c1", memory_policy=policy)
        assert prompt == again and happened(memory) == before
        replies = [call(("weather", {"place": "plot 7"}), ("nothing", {}), text="Let me see."), f"Answer {number}"]
        model = scripted(*replies)
        say(message, model=model, agent=agent, memory_policy=policy)
        asked = model.asked[0]
        assert (asked.instructions, asked.messages, asked.tools) == (prompt.system, prompt.sent, prompt.tools)
        assert (asked.temperature, asked.max_tokens) == (0.3, 90)
        assert happened(memory) != before


def test_p7_also_after_a_turn_that_was_interrupted_and_after_a_summary(
    memory: Memory, say: Callable[..., Any], scripted: Any, call: Any
) -> None:
    def break_off(arguments: Any) -> None:
        raise KeyboardInterrupt

    agent = Agent(id="gardener", tools=(Tool("dig", "Digs.", {"type": "object"}, break_off),))
    with pytest.raises(KeyboardInterrupt):
        say("Dig", call(("dig", {}), text="I shall."), agent=agent)
    for number in range(24):
        say(f"Bed {number}?", f"Dug {number}.", agent=agent)
    for replies in (["Dug.", "Notes"], ["Dug too."]):
        prompt = preview(memory, agent, "And now?", user="ada", conversation_id="c1")
        model = scripted(*replies)
        say("And now?", model=model, agent=agent)
        assert (model.asked[0].instructions, model.asked[0].messages) == (prompt.system, prompt.sent)
        assert model.replies == []
    assert "Notes" in prompt.messages[0].text


@pytest.mark.usefixtures("filled")
def test_p8_a_reminder_stays_in_the_history_as_it_was_and_is_sent_without_deleted_lines(
    memory: Memory, gardener: Agent, say: Callable[..., Any], write: Callable[..., Any], scripted: Any
) -> None:
    first = preview(memory, gardener, "heather?", user="ada", memory_policy={"archival_mode": "auto"})
    say("heather?", "Moved.", memory_policy={"archival_mode": "auto"})
    deleted = "The heather seed is in the tin."
    assert deleted in first.reminders
    write("archival", "- All gone.")  # a correction, which leaves what was said as it is
    memory.scope(user="ada", agent="gardener").blocks.delete("archival")
    model = scripted("You are welcome.")
    say("Thanks", model=model)
    assert model.asked[0].messages == (
        Said("user", "heather?"),
        Said("user", first.reminders.replace(deleted, "[forgotten].")),
        Said("assistant", "Moved."),
        Said("user", "Thanks"),
    )
    hidden = [part for part in read_conversation(memory, "ada", "c1").parts if part.hidden]
    assert [(part.kind, part.text) for part in hidden] == [("reminders", first.reminders)]


@pytest.mark.usefixtures("filled")
def test_p10_an_edit_of_the_core_shows_in_the_next_request(
    memory: Memory, say: Callable[..., Any], write: Callable[..., Any], scripted: Any
) -> None:
    model = scripted("One", "Two", "Three")
    say("Hello", model=model)
    assert "Keeps bees" in model.shown
    write("core", "- Keeps hens")
    say("Hello again", model=model)
    assert "Keeps hens" in model.shown and "Keeps bees" not in model.shown
    memory.scope(user="ada").blocks.delete("core")
    say("And again", model=model)
    assert "Keeps hens" not in model.shown and "Latin names" in model.shown


def test_a_prompt_says_about_how_long_it_is(memory: Memory, gardener: Agent) -> None:
    short = preview(memory, gardener, "Hello", user="ada")
    long = preview(memory, gardener, "Hello" * 400, user="ada")
    assert 0 < short.token_estimate and abs(long.token_estimate - short.token_estimate - 399 * 5 / 4) <= 1


@pytest.mark.parametrize(
    ("message", "error"),
    [("", InvalidValue), (" \n", InvalidValue), (None, InvalidValue), (3, InvalidValue), ("\ud800", InvalidValue)],
)
def test_what_is_no_message_is_refused(memory: Memory, gardener: Agent, message: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        preview(memory, gardener, message, user="ada")
    assert preview(memory, gardener, "!", user="ada").messages


def test_a_message_that_is_too_long_is_refused(memory: Memory, gardener: Agent) -> None:
    longest = memory.limits.content_bytes - 2
    assert preview(memory, gardener, "x" * longest, user="ada", memory_policy={"archival_mode": "auto"}).messages
    with pytest.raises(LimitExceeded) as raised:
        preview(memory, gardener, "x" * (longest + 1), user="ada")
    assert raised.value.actual == raised.value.limit + 1


def test_a_preview_in_a_conversation_with_another_agent_is_refused(
    memory: Memory, gardener: Agent, say: Callable[..., Any]
) -> None:
    say("Hello", "Good day.")
    with pytest.raises(UsageError, match="with the agent `gardener`"):
        preview(memory, Agent(id="shopkeeper"), "Hello", user="ada", conversation_id="c1")
    assert len(preview(memory, gardener, "Hello", user="ada", conversation_id="c1").messages) == 3
    assert len(preview(memory, Agent(id="shopkeeper"), "Hello", user="bob", conversation_id="c1").messages) == 1
