"""Shared scopes of the MCP door: the operator lists them, tools offer them, and grants decide."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clocked_server import Served
from mcp_client import Talk, started

import memoranda
from memoranda import Scope
from memoranda.mcp.tools import TOOLS

PLACE = "project:atlas"
SCOPES = ("--scope", PLACE, "--scope", "shared", "--scope", PLACE)
BLOCKS = {"get_memory_block", "update_memory_block"}


@pytest.fixture(scope="module")
def guide(folder: Path, options: tuple[str, ...]) -> Iterator[Talk]:
    """Ada's door, which offers a project and what the tenant shares."""
    complaints = folder / "guide.txt"
    with started(*options, *SCOPES, complaints=complaints) as talk:
        yield talk
    assert complaints.read_text() == ""


def offered(talk: Talk) -> dict[str, Any]:
    """Return the scopes that each tool offers."""
    found = {tool.name: tool.input_schema["properties"].get("scope") for tool in talk.ask("list_tools").tools}
    return {name: scope and tuple(scope["enum"]) for name, scope in found.items()}


def test_tools_offer_the_scopes_of_the_operator_and_no_others(guide: Talk, reader: Talk, memory: memoranda.Memory):
    everywhere = {"recall_blocks", "learn", "context", *BLOCKS}
    assert offered(guide) == {name: None if name in everywhere else ("user", PLACE, "shared") for name in TOOLS}
    assert not any(offered(reader).values())
    memory.scope(project="other").set("secret", "hush")
    for scope in ("project:other", "project:Atlas", "Shared", "(shared)", "", "*", "user:bob", "user:ada", "agent:x"):
        with pytest.raises(memoranda.UsageError, match="does not offer the scope"):
            guide.call("get_fact", key="secret", scope=scope)
    for talk, tool in ((reader, "get_fact"), (guide, "get_memory_block")):
        with pytest.raises(memoranda.UsageError):
            talk.call(tool, **({"key": "secret"} if tool == "get_fact" else {"block": "core"}), scope=PLACE)


def test_grants_decide_about_the_scopes_that_are_offered(guide: Talk, memory: memoranda.Memory):
    memory.at(PLACE).remember("The vat rests on Mondays", collection="notes")
    memory.at("shared").set("opening", "nine")
    with pytest.raises(memoranda.Denied, match=r"memory\.read for .* is not granted, only for `user:ada`") as refused:
        guide.call("recall", query="When does the vat rest?", scope=PLACE)
    assert f"`memory.read` to `user:ada` in `{PLACE}`" in str(refused.value)
    with pytest.raises(memoranda.Denied):
        guide.call("get_fact", key="opening", scope="shared")
    assert guide.call("recall", query="When does the vat rest?")["results"] == []

    grants = [
        memory.permissions.grant("*", "memory.read", scope=Scope.of(project="atlas")),
        memory.permissions.grant("user:ada", "memory", scope=Scope()),
        memory.permissions.grant("user:ada", "memory", scope=Scope.of(project="other")),
    ]
    found = guide.call("recall", query="When does the vat rest?", scope=PLACE)["results"]
    assert [one["content"] for one in found] == ["The vat rests on Mondays"]
    assert guide.call("get_fact", key="opening", scope="shared")["value"] == "nine"
    assert guide.call("set_fact", key="closing", value="six", scope="shared")["scope"] == ""
    for tool, given in (
        ("remember", {"content": "Forged"}),
        ("forget", {"id": found[0]["id"]}),
        ("set_fact", {"key": "forged", "value": 1}),
        ("delete_fact", {"key": "forged"}),
    ):
        with pytest.raises(memoranda.Denied, match=r"memory\.write"):
            guide.call(tool, **given, scope=PLACE)
    with pytest.raises(memoranda.UsageError, match="does not offer"):
        guide.call("get_fact", key="secret", scope="project:other")

    for grant in grants:
        memory.permissions.revoke(grant.id)
    with pytest.raises(memoranda.Denied):
        guide.call("recall", query="When does the vat rest?", scope=PLACE)
    assert guide.call("set_fact", key="tone", value="warm")["scope"] == "user:ada"


def test_a_door_that_only_reads_writes_nothing_that_is_granted(folder: Path, options: tuple[str, ...], memory):
    grant = memory.permissions.grant("user:ada", "memory", scope=Scope.of(project="atlas"))
    memory.at(PLACE).set("door", "open")
    with started(*options, *SCOPES, "--read-only", complaints=folder / "shared-reader.txt") as talk:
        assert talk.call("get_fact", key="door", scope=PLACE)["value"] == "open"
        with pytest.raises(memoranda.Denied):
            talk.call("set_fact", key="door", value="shut", scope=PLACE)
    memory.permissions.revoke(grant.id)
    assert memory.at(PLACE).value("door") == "open"


def test_an_actor_has_what_it_was_granted_in_the_scopes_that_are_offered(folder, options, memory):
    for scope in (Scope.of(user="ada"), Scope.of(project="atlas"), Scope.of(project="other")):
        memory.permissions.grant("agent:clerk", "memory.read", scope=scope)
    memory.at(PLACE).set("door", "open")
    with started(*options, "--actor", "agent:clerk", "--scope", PLACE, complaints=folder / "clerk.txt") as talk:
        assert talk.call("get_fact", key="door", scope=PLACE)["value"] == "open"
        with pytest.raises(memoranda.Denied):
            talk.call("set_fact", key="door", value="shut", scope=PLACE)


@pytest.mark.parametrize("scope", ["user:bob", "agent:x", "user", "", "Project:atlas", "project:a/../b", "*"])
def test_the_operator_can_only_offer_what_is_shared(tmp_path: Path, scope: str):
    command = [sys.executable, "-m", "memoranda.cli", "mcp", "--db", "new.db", "--user", "ada", "--scope", scope]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error[invalid_scope]"), done.stderr
    assert not (tmp_path / "new.db").exists()


def test_through_a_server_its_grants_decide(folder: Path):
    served = Served(folder / "shared-served.db")
    keys = {role: served.ask(key={"tenant": "default", "user": role, "role": role}) for role in ("admin", "member")}
    with memoranda.Client(served.url, keys["admin"]) as admin:
        admin.collections.remember("The vat rests on Mondays", collection="notes", scope=PLACE)
        options = ("--url", served.url, "--scope", PLACE)
        with started(*options, complaints=folder / "far.txt", MEMORANDA_API_KEY=keys["member"]) as talk:
            with pytest.raises(memoranda.Denied, match=r"memory\.read for .* is not granted, only for `user:member`"):
                talk.call("recall", query="vat", scope=PLACE)
            admin.permissions.grant("*", "memory.read", scope=PLACE)
            assert talk.call("recall", query="vat", scope=PLACE)["results"][0]["content"] == "The vat rests on Mondays"
            assert talk.call("recall", query="vat")["results"] == []
            with pytest.raises(memoranda.Denied, match=r"memory\.write"):
                talk.call("remember", content="Forged", scope=PLACE)
            with pytest.raises(memoranda.UsageError, match="does not offer"):
                talk.call("recall", query="vat", scope="shared")
    served.close()
