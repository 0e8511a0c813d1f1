"""Definitions and collections that an agent mounts: shown, searched and updated in chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoranda import Memory, NotFound, UsageError
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.chat import Agent, chat
from memoranda.chat.agent import MemoryPolicy
from memoranda.chat.prompt import preview

PROFILE = {
    "type": "object",
    "properties": {"preferred_name": {"type": "string"}, "tier": {"type": "string", "enum": ["gold", "silver"]}},
    "x-mode": "merge",
}
MOUNTED = MemoryPolicy(definitions=("customer_profile",), collections=("kb", "project:atlas#kb"))


class Caller:
    """A model that makes the given tool calls one after the other, and then ends; it keeps the results."""

    name = "caller:1"

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)
        self.asked: list[Ask] = []

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        self.asked.append(ask)
        done = sum(said.role == "tool" for said in ask.messages)
        if done < len(self._calls):
            name, arguments = self._calls[done]
            return Reply("", (ToolCall(f"call-{done}", name, arguments),))
        return Reply("Done.")

    def results(self) -> list[str]:
        return [said.text for said in self.asked[-1].messages if said.role == "tool"]


@pytest.fixture
def mounted(memory: Memory) -> Memory:
    memory.definitions.create(name="Customer Profile", slug="customer_profile", scope="global", schema=PROFILE)
    ada = memory.scope(user="ada")
    ada.set("customer_profile", {"preferred_name": "Addie", "tier": "gold"})
    ada.remember("The heather in the north bed flowers in August", collection="kb")
    ada.remember("The heather of the neighbours is white", collection="gossip")
    memory.scope(project="atlas").remember("Atlas heather is cut back in March", collection="kb")
    memory.scope(user="bob").remember("Bob hates heather", collection="kb")
    return memory


def talk(memory: Memory, model: Caller, **policy: Any) -> list[str]:
    agent = Agent(id="gardener", model=model, memory_policy=MOUNTED)
    chat(memory, agent, "Tell me about heather", user="ada", memory_policy=policy or None)
    return model.results()


def test_records_are_shown_in_every_mode_and_collections_only_when_they_match(mounted: Memory) -> None:
    agent = Agent(id="gardener", memory_policy=MOUNTED)
    quiet = preview(mounted, agent, "heather?", user="ada")
    assert '<record name="customer_profile"' in quiet.system
    assert "- Preferred name: Addie" in quiet.system
    assert quiet.reminders == ""
    auto = preview(mounted, agent, "heather?", user="ada", memory_policy={"archival_mode": "auto"})
    assert "north bed" in auto.reminders
    assert "cut back in March" in auto.reminders
    assert "neighbours" not in auto.reminders
    assert "Bob" not in auto.reminders
    bare = preview(mounted, agent, "heather?", user="ada", memory_policy={"definitions": [], "collections": []})
    assert "<records>" not in bare.system
    assert preview(mounted, Agent(id="gardener"), "heather?", user="ada").system == bare.system


def test_recall_memory_searches_what_is_mounted(mounted: Memory) -> None:
    mounted.scope(user="ada").blocks.update("archival", "- Planted heather in 2019", expected_updated_at=None)
    [found] = talk(mounted, Caller(("recall_memory", {"query": "heather"})))
    for text in ("north bed", "cut back in March", "Planted heather"):
        assert text in found
    assert "neighbours" not in found
    assert "Bob" not in found


def test_update_memory_writes_records_under_their_schema_and_blocks_have_their_own_tool(mounted: Memory) -> None:
    model = Caller(
        ("update_memory", {"memory": {"customer_profile": {"tier": "silver"}}}),
        ("update_memory", {"memory": {"customer_profile": {"tier": "lead"}}}),
        ("update_memory", {"memory": {"other": {"a": 1}}}),
        ("update_memory_block", {"block": "core", "content": "- Likes heather"}),
    )
    written, refused, unknown, block = talk(mounted, model)
    ada = mounted.scope(user="ada")
    fact = ada.get("customer_profile")
    assert fact is not None
    assert fact.value == {"preferred_name": "Addie", "tier": "silver"}
    assert fact.origin.door == "chat"
    assert "silver" in written
    assert "tier" in refused
    assert "customer_profile" in unknown
    assert "written" in block
    core = ada.blocks.get("core")
    assert core is not None
    assert core.content == "- Likes heather"
    names = [tool.name for tool in model.asked[0].tools]
    assert names == ["update_memory", "update_memory_block", "recall_memory"]


def test_without_definitions_update_memory_is_for_blocks(mounted: Memory) -> None:
    model = Caller(("update_memory", {"block": "core", "content": "- Likes heather"}))
    [done] = talk(mounted, model, definitions=[])
    assert "written" in done
    assert [tool.name for tool in model.asked[0].tools] == ["update_memory", "recall_memory"]


def test_a_mount_that_does_not_exist_or_makes_no_sense_is_refused(memory: Memory, write: Callable[..., Any]) -> None:
    write("core", "- Keeps bees")
    agent = Agent(id="gardener")
    with pytest.raises(NotFound) as unknown:
        preview(memory, agent, "heather?", user="ada", memory_policy={"definitions": ["custmer_profile"]})
    assert unknown.value.hint
    for wrong in ({"definitions": "customer_profile"}, {"collections": [1]}, {"collections": ["nowhere:x#kb"]}):
        with pytest.raises(UsageError):
            preview(memory, agent, "heather?", user="ada", memory_policy={"archival_mode": "auto", **wrong})
    assert "- Keeps bees" in preview(memory, agent, "heather?", user="ada").system


def test_a_caller_without_the_grant_is_told_nothing_of_another_scope(mounted: Memory) -> None:
    from memoranda import Denied, Policy, Rule, Scope

    own = Policy(rules=(Rule("allow", "memory", Scope.of(user="ada")), Rule("allow", "definitions.read")))
    limited = mounted.narrowed(own)
    agent = Agent(id="gardener", memory_policy=MOUNTED)
    with pytest.raises(Denied):
        preview(limited, agent, "heather?", user="ada", memory_policy={"archival_mode": "auto"})
    mine = preview(
        limited, agent, "heather?", user="ada", memory_policy={"archival_mode": "auto", "collections": ["kb"]}
    )
    assert "north bed" in mine.reminders
