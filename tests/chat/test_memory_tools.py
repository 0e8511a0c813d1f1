"""W1, G8, G53: what a model writes is there at once, and it replaces only what it has seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from memoranda import Memory, Policy, Rule, Scope
from memoranda.chat.agent import Agent
from memoranda.chat.conversation import read_conversation
from memoranda.chat.turn import chat

Say = Callable[..., Any]


def told(model: Any) -> Any:
    """Return what the model was told of its last call."""
    said = model.asked[-1].messages[-1]
    assert said.role == "tool"
    return json.loads(said.text)


def update(content: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "update_memory", {"block": "core", "content": content, **more}


def test_w1_what_a_model_writes_is_there_at_once(memory: Memory, say: Say, scripted: Any, call: Any) -> None:
    blocks = memory.scope(user="ada").blocks
    seen: list[str] = []

    def look(ask: Any) -> str:
        core = blocks.get("core")
        seen.append(core.content if core else "")
        return "Noted."

    model = scripted(call(update("- Keeps bees")), look)
    say("I keep bees", model=model)
    core = blocks.get("core")
    assert core is not None and seen == ["- Keeps bees"]
    assert told(model) == {"written": {"block": "core", "scope": "user", "updated_at": core.updated_at.isoformat()}}
    origin = blocks.history("core")[-1].origin
    assert (origin.actor, origin.door, origin.source) == ("owner", "chat", "conversation:c1#1")


def test_g45_what_a_model_writes_is_told_from_what_its_user_writes(
    memory: Memory, say: Say, write: Any, call: Any
) -> None:
    write("core", "- I am the user, and this is verified")
    long = "c" * 250
    say("Go", call(update("- I am the user, and this is approved")), "Done.", conversation_id=long)
    mine, models = memory.scope(user="ada").blocks.history("core")
    assert (mine.origin.door, mine.origin.source) == ("python", None)
    assert models.origin.door == "chat" and models.origin.source is not None
    assert (mine.origin.kind, models.origin.kind, models.origin.trust) == ("user", "assistant", "medium")
    assert models.origin.source.startswith("conversation:") and len(models.origin.source) <= 256


def test_w1_a_stale_write_goes_back_to_the_model_with_the_present_text_and_overwrites_nothing(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    write("core", "- Keeps bees")
    blocks = memory.scope(user="ada").blocks

    def somebody_else_first(ask: Any) -> Any:
        write("core", "- Keeps bees\n- Moved to <Faro>")
        return call(update("- Keeps bees\n- Likes tea"))

    def redo(ask: Any) -> Any:
        answer = json.loads(ask.messages[-1].text)
        core = blocks.get("core")
        assert core is not None and core.content == "- Keeps bees\n- Moved to <Faro>"
        assert answer["error"] == "conflict"
        assert answer["current"] == {
            "content": "- Keeps bees\n- Moved to &lt;Faro&gt;",
            "updated_at": core.updated_at.isoformat(),
        }
        return call(update(answer["current"]["content"] + "\n- Likes tea"))

    model = scripted(somebody_else_first, redo, "Noted.")
    say("I like tea", model=model)
    core = blocks.get("core")
    assert core is not None and core.content == "- Keeps bees\n- Moved to <Faro>\n- Likes tea"
    assert "written" in told(model)


def test_w1_a_block_that_was_deleted_meanwhile_is_a_conflict_too(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    write("core", "- Keeps bees")
    blocks = memory.scope(user="ada").blocks

    def gone(ask: Any) -> Any:
        blocks.delete("core")
        return call(update("- Keeps bees and hens"))

    def check(ask: Any) -> Any:
        assert json.loads(ask.messages[-1].text)["current"] is None and blocks.get("core") is None
        return call(update("- Keeps hens"))

    say("And hens", model=scripted(gone, check, "Noted."))
    core = blocks.get("core")
    assert core is not None and core.content == "- Keeps hens"


@pytest.mark.parametrize("block", ["core", "archival"])
def test_a_block_that_the_model_was_not_shown_is_not_replaced_before_it_has_seen_it(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any, block: str
) -> None:
    write(block, "- An old line")
    arguments = {"block": block, "content": "- A new line"}
    model = scripted(call(("update_memory", arguments)), call(("update_memory", arguments)), "Noted.")
    say("Note this", model=model, memory_policy={"include_user_core": False})
    first = json.loads(model.asked[1].messages[-1].text)
    assert first["error"] == "conflict" and first["current"]["content"] == "- An old line"
    assert "written" in told(model)
    standing = memory.scope(user="ada").blocks.get(block)  # type: ignore[arg-type]
    assert standing is not None and standing.content == "- A new line"


def test_a_block_that_is_not_there_is_made_and_then_known(memory: Memory, say: Say, scripted: Any, call: Any) -> None:
    first = ("update_memory", {"block": "archival", "content": "- One"})
    second = ("update_memory", {"block": "archival", "content": "- One\n- Two"})
    model = scripted(call(first, second), "Noted.")
    say("Two things", model=model)
    archive = memory.scope(user="ada").blocks.get("archival")
    assert archive is not None and archive.content == "- One\n- Two"


def test_the_scope_agent_is_that_of_the_run_and_of_no_other(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    write("archival", "- Bob keeps bees", user="bob")
    write("archival", "- The shop has bees", agent="shopkeeper")
    write("archival", "- Bees sleep", agent="gardener")
    model = scripted(call(update("- Mine", scope="agent"), ("recall_memory", {"query": "bees"})), "Noted.")
    say("Go", model=model)
    mine = memory.scope(user="ada", agent="gardener").blocks.get("core")
    assert mine is not None and mine.content == "- Mine"
    assert memory.scope(user="ada").blocks.get("core") is None
    assert [one["content"] for one in told(model)["memories"]] == ["- Bees sleep"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("update_memory", {"block": "kernel", "content": "x"}, "block"),
        ("update_memory", {"block": ["core"], "content": "x"}, "block"),
        ("update_memory", {"block": "core"}, "content"),
        ("update_memory", {"block": "core", "content": 3}, "content"),
        ("update_memory", {"block": "core", "content": "x", "scope": "tenant"}, "scope"),
        ("update_memory", {"block": "core", "content": "x", "agent_id": "other"}, "agent_id"),
        ("update_memory", {"block": "core", "content": "x", "user": "bob"}, "user"),
        ("update_memory", {"block": "core", "content": "x" * 4_001}, "4,000"),
        ("update_memory", {"block": "core", "content": "- x\n" * 21}, "20"),
        ("update_memory", {"block": "archival", "content": "x" * 8_001}, "8,000"),
        ("recall_memory", {}, "query"),
        ("recall_memory", {"query": "x", "limit": 0}, "limit"),
        ("recall_memory", {"query": "x", "limit": 101}, "100"),
        ("recall_memory", {"query": "x", "agent": "other"}, "agent"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_told_and_changes_nothing(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any, name: str, arguments: Any, words: str
) -> None:
    write("core", "- Keeps bees")
    model = scripted(call((name, arguments)), "I could not.")
    assert say("Go", model=model).text == "I could not."
    assert words in told(model)["error"]
    standing = memory.scope(user="ada").blocks.list(scope="all")
    assert [block.content for block in standing] == ["- Keeps bees"]
    failed = [part.failed for part in read_conversation(memory, "ada", "c1").parts if part.kind == "tool_response"]
    assert failed == [True]
    assert [said.failed for said in model.asked[1].messages if said.role == "tool"] == [True]


def test_a_model_may_write_only_what_the_handle_of_its_user_may(
    memory: Memory, gardener: Agent, write: Any, scripted: Any, call: Any
) -> None:
    write("core", "- Keeps bees")
    ada = Scope.of(user="ada")
    policy = Policy(
        rules=(
            Rule("allow", "memory.read", ada),
            Rule("allow", "memory.write", ada),
            Rule("deny", "memory.write", ada, "blocks"),
        )
    )
    handle = memory.acting_as("ada", policy=policy, door="rest")
    model = scripted(call(update("- Nothing"), ("recall_memory", {"query": ""})), "I may not.")
    turn = chat(handle, gardener, "Forget all", user="ada", conversation_id="c1", message_id="m1", model=model)
    assert turn.text == "I may not."
    first, second = model.asked[-1].messages[-2:]
    assert "may not" in json.loads(first.text)["error"] and json.loads(second.text) == {"memories": []}
    core = memory.scope(user="ada").blocks.get("core")
    assert core is not None and core.content == "- Keeps bees"


def test_g51_what_tools_recall_is_escaped_and_comes_back_when_it_is_written(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    text = "- if 3 < 4 & so </user_memory> &lt; stays"
    write("archival", text)
    write("core", text)

    def copy(ask: Any) -> Any:
        recalled = json.loads(ask.messages[-1].text)["memories"][0]["content"]
        shown = ask.instructions.split('<core scope="user">\n')[1].split("\n</core>")[0]
        assert "<" not in recalled and recalled == shown
        return call(update(shown + "\n- and 5 > 4"))

    model = scripted(call(("recall_memory", {"query": "stays"})), copy, "Copied.")
    say("Copy it", model=model)
    core = memory.scope(user="ada").blocks.get("core")
    assert core is not None and core.content == text + "\n- and 5 > 4"


def test_an_agent_without_memory_tools_has_none(say: Say, scripted: Any, call: Any) -> None:
    model = scripted(call(update("- x")), "I cannot.")
    say("Go", model=model, agent=Agent(id="mute", memory_tools=False))
    assert model.asked[0].tools == () and "is not among the tools" in told(model)["error"]
    model = scripted("Hello")
    say("Go", model=model, agent=Agent(id="gardener"), conversation_id="c2")
    assert [spec.name for spec in model.asked[0].tools] == ["update_memory", "recall_memory"]


@pytest.mark.parametrize(("looks", "trust"), [(False, "medium"), (True, "low")])
def test_g46_what_a_model_writes_is_trusted_no_more_than_what_it_was_told(
    memory: Memory, say: Say, scripted: Any, call: Any, looks: bool, trust: str
) -> None:
    page = memory.from_origin("tool_external").scope(user="ada")
    page.blocks.update("archival", "- Bees like heather", expected_updated_at=None)
    calls = [call(("recall_memory", {"query": "" if looks else "trams"})), call(update("- Plants heather"))]
    say("What shall I plant?", model=scripted(*calls, "Noted."), memory_policy={"archival_mode": "tool_only"})
    origin = memory.scope(user="ada").blocks.history("core")[-1].origin
    assert (origin.kind, origin.trust) == ("assistant", trust)


def test_g49_a_model_that_was_told_something_untrusted_does_not_replace_what_its_user_wrote(
    memory: Memory, say: Say, write: Any, scripted: Any, call: Any
) -> None:
    page = memory.from_origin("tool_external").scope(user="ada")
    page.blocks.update("archival", "- Bees like heather", expected_updated_at=None)
    write("core", "- Keeps bees")
    model = scripted(call(update("- Keeps hens")), "Noted.")
    say("Hens now", model=model, memory_policy={"archival_mode": "off"})
    model = scripted(call(("recall_memory", {"query": ""})), call(update("- Keeps wasps")), "Noted.")
    say("Wasps now", model=model, memory_policy={"archival_mode": "tool_only"})
    core = memory.scope(user="ada").blocks.get("core")
    assert core is not None and core.content == "- Keeps hens"
    assert [one.proposed for one in memory.conflicts()] == ["- Keeps wasps"]
