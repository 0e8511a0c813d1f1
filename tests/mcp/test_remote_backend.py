"""The same door through a server: the key says whose memory it is, and what may be done with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clocked_server import Served
from mcp_client import Talk, started, talking

import memoranda
from memoranda.mcp.arguments import SetFact, WriteBlock
from memoranda.mcp.backends import RemoteBackend
from memoranda.mcp.server import create_server


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    server = Served(folder / "served.db")
    yield server
    server.close()


@pytest.fixture(scope="module")
def member(folder: Path, served: Served) -> Iterator[Talk]:
    key = served.ask(key={"tenant": "default", "user": "ada", "role": "member"})
    complaints = folder / "member.txt"
    options = ("--url", served.url, "--agent", "desk")
    with started(*options, complaints=complaints, MEMORANDA_API_KEY=key) as talk:
        yield talk
    assert complaints.read_text() == ""


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[memoranda.Client]:
    key = served.ask(key={"tenant": "default", "user": "ada", "role": "member"})
    with memoranda.Client(served.url, key) as client:
        yield client


def test_every_tool_works_through_a_server(member: Talk, client: memoranda.Client) -> None:
    told = member.call("set_fact", key="loom.warp", value=240, ttl="2h", expect=0)
    fact = client.facts.get("loom.warp")
    assert fact is not None and (fact.value, fact.version) == (240, told["version"])
    assert fact.expires_at is not None and fact.origin.actor == "user:ada"
    client.from_origin("assistant").facts.set("loom.warp", 300)
    assert member.call("get_fact", key="loom.warp")["value"] == 300
    assert [one["value"] for one in member.call("fact_history", key="loom.warp")["revisions"]] == [240, 300]
    assert member.call("list_facts", prefix="loom")["facts"][0]["key"] == "loom.warp"
    member.call("set_fact", key="dye", value="madder", scope="agent")
    assert client.facts.value("dye", scope="agent:desk") == "madder" and client.facts.get("dye") is None
    assert member.call("delete_fact", key="loom.warp") == {"deleted": True}

    kept = member.call("remember", content="The indigo vat rests on Mondays")
    assert client.collections.recall("vat", collection="notes").results[0].content == "The indigo vat rests on Mondays"
    assert member.call("recall", query="when does the vat rest?")["results"][0]["id"] == kept["id"]
    tried = member.call("forget", id=f"entry:{kept['id']}", dry_run=True)
    assert (tried["forgotten"], tried["count"]) == (False, 1)
    gone = member.call("forget", id=kept["id"])
    assert (gone["forgotten"], gone["refs"]) == (True, tried["refs"])
    assert member.call("recall", query="vat", collection="notes")["results"] == []
    everything = member.call("recall", query="what dye?", scope="agent")["results"]
    assert [(match["kind"], match["content"]) for match in everything][:1] == [("fact", "dye: madder")]
    assert member.call("recall", query="what dye?", kinds=["entry"])["results"] == []


def test_blocks_resources_and_the_prompt_come_through_a_server(member: Talk, client: memoranda.Client) -> None:
    written = member.call("update_memory_block", block="core", content="- Weaves", expected_updated_at=None)["written"]
    theirs = client.from_origin("assistant").memory.update(
        "core", "- Weaves linen", expected_updated_at=written["updated_at"]
    )
    with pytest.raises(memoranda.Conflict) as met:
        member.call("update_memory_block", block="core", content="- Spins", expected_updated_at=written["updated_at"])
    assert met.value.current["content"] == theirs.content
    stamp = met.value.current["updated_at"]
    member.call("update_memory_block", block="core", content="- Spins", expected_updated_at=stamp)
    member.call("update_memory_block", block="archival", content="- Ines", expected_updated_at=None, scope="agent")
    assert member.call("recall_blocks", query="Ines")["memories"][0]["scope"] == "agent"
    assert member.call("get_memory_block", block="core")["content"] == "- Spins"
    listed = [str(one.uri) for one in member.ask("list_resources").resources]
    assert listed == ["memoranda://blocks/user/core", "memoranda://blocks/agent/archival"]
    [message] = member.ask("get_prompt", "user_memory", {"about": "Ines"}).messages
    assert "- Spins\n</core>" in message.content.text and "- Ines\n</memory>" in message.content.text


@pytest.mark.parametrize("agent", ["team/desk", "desk%2Fteam", "90%"])
def test_an_agent_of_any_name_has_a_place_of_its_own(client: memoranda.Client, agent: str) -> None:
    reach = RemoteBackend(client, agent=agent)
    reach.set_fact(SetFact(key="dye", value=agent, scope="agent"))
    place = memoranda.Scope.of(agent=agent).path
    assert [(fact.key, fact.value) for fact in client.facts.list(scope=place)] == [("dye", agent)]
    reach.update_block(WriteBlock(block="core", content=f"- {agent}", expected_updated_at=None, scope="agent"))
    (block,) = client.memory.list(scope="agent", agent_id=agent)
    assert (block.agent_id, block.content) == (agent, f"- {agent}")


def test_what_a_server_refuses_is_told_in_the_same_words(member: Talk) -> None:
    with pytest.raises(memoranda.InvalidKey):
        member.call("set_fact", key="a..b", value=1)
    with pytest.raises(memoranda.NotFound, match="unknown fact `nowhere`"):
        member.call("get_fact", key="nowhere")
    with pytest.raises(memoranda.LimitExceeded) as refused:
        member.call("recall_blocks", query="Ines", limit=101)
    assert refused.value.limit == 100
    assert member.call("set_fact", key="fine", value=1)["value"] == 1


def test_a_key_that_only_reads_writes_nothing(served: Served) -> None:
    key = served.ask(key={"tenant": "default", "user": "ada", "role": "reader"})
    with (
        memoranda.Client(served.url, key) as client,
        talking(create_server(RemoteBackend(client), version="1")) as reader,
    ):
        with pytest.raises(memoranda.Denied):
            reader.call("set_fact", key="tried", value=1)
        assert reader.call("list_facts", prefix="tried")["facts"] == []


def test_g34_a_write_under_an_old_epoch_is_refused_by_the_server(member: Talk, served: Served) -> None:
    epoch = member.call("permission_epoch")["epoch"]
    assert member.call("set_fact", key="epochal", value=1, epoch=epoch)["version"] == 1
    key = served.ask(key={"tenant": "default", "user": "eve", "role": "admin"})
    with memoranda.Client(served.url, key) as admin:
        admin.permissions.grant("agent:other", "memory.read", scope="user:ada")
        assert admin.permissions.epoch("user:ada") == member.call("permission_epoch")["epoch"] > epoch
    with pytest.raises(memoranda.StaleEpoch):
        member.call("set_fact", key="epochal", value=2, epoch=epoch)
    assert member.call("get_fact", key="epochal")["value"] == 1
    member.call("delete_fact", key="epochal")
