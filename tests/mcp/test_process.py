"""How a `memoranda mcp` begins and ends; nothing but the protocol is on its stdout, and nothing on its stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from processes import run_process
from ways import command

import memoranda
from memoranda.mcp.backends import LocalBackend, restrict_to_user
from memoranda.mcp.tools import TOOLS
from memoranda.testing.conformance.base import EMBEDDER

PATIENCE = 60
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(options: tuple[str, ...]) -> Iterator[Start]:
    with ExitStack() as running:

        def begin(*more: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "memoranda.cli", "mcp", *options, *more]
            pipe = subprocess.PIPE
            return running.enter_context(run_process(command, stdin=pipe, stdout=pipe, stderr=pipe))

        yield begin


def say(process: subprocess.Popen[str], *messages: dict[str, Any] | str) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_what_is_no_message_ends_nothing_and_the_end_of_input_ends_it_without_a_word(start: Start) -> None:
    process = start()
    say(process, HELLO)
    assert hear(process)["result"]["serverInfo"]["name"] == "memoranda"
    say(process, "{no json", "", "[]", "\x00\u202e", {"jsonrpc": "2.0", "id": 2, "method": "no/such"})
    assert hear(process)["error"]["code"] == -32601
    say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    asked = {"name": "set_fact", "arguments": {"key": "raw", "value": "\u2028 and \ud83e\uddf5"}}
    say(process, {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": asked})
    assert hear(process)["result"]["structuredContent"]["value"] == "\u2028 and \U0001f9f5"
    asked = {"name": "set_fact", "arguments": {"key": "raw", "value": "half \ud83e of \\ud83e"}}
    say(process, {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": asked})
    assert hear(process)["result"]["structuredContent"]["value"] == "half ? of \\ud83e"
    # What the SDK's client would write as null.
    asked = {"name": "set_fact", "arguments": {"key": "raw", "value": {"metres": float("nan")}}}
    say(process, {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": asked})
    told = hear(process)["result"]["structuredContent"]["error"]
    assert (told["code"], told["details"]) == ("invalid_value", {"path": "$.metres"})
    assert process.communicate(timeout=PATIENCE) == ("", "")
    assert process.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="there is no such signal")
def test_ctrl_c_ends_it_at_once_while_the_client_still_listens(start: Start) -> None:
    process = start()
    say(process, HELLO)
    hear(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130
    assert process.stdin is not None and not process.stdin.closed
    assert process.communicate() == ("", "")


# how it is started


def test_somebody_has_to_be_named(folder: Path) -> None:
    file = folder / "none.db"
    with pytest.raises(memoranda.UsageError) as refused:
        command("mcp", "--db", str(file))
    assert "--user" in refused.value.hint
    with pytest.raises(memoranda.InvalidScope):
        command("mcp", "--db", str(file), "--user", "")
    with pytest.raises(memoranda.InvalidScope):
        command("mcp", "--db", str(file), "--user", "ada", "--agent", "a\nb")
    assert not file.exists()


@pytest.mark.parametrize(
    "flag", [["--user", "ada"], ["--read-only"], ["--db", "x.db"], ["--actor", "agent:x"]], ids=str
)
def test_through_a_server_the_key_says_who_calls(flag: list[str]) -> None:
    with pytest.raises(memoranda.UsageError, match=f"^{flag[0]} cannot be combined with --url") as refused:
        command("mcp", "--url", "http://127.0.0.1:9", *flag)
    assert "keys create --role reader" in refused.value.hint


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delitem(sys.modules, "memoranda.mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(memoranda.UsageError, match="needs a package that is not installed: mcp") as refused:
        command("mcp", "--db", str(folder / "none.db"), "--user", "ada")
    assert 'pip install "memoranda[mcp]"' in refused.value.hint
    assert not (folder / "none.db").exists()


# who acts


def test_somebody_else_acts_under_what_was_granted_to_them_and_only_here() -> None:
    with memoranda.open(":memory:", embedder=EMBEDDER) as memory:
        memory.permissions.grant("agent:clerk", "memory.read")
        memory.permissions.grant("agent:clerk", "memory.write", level="approve")
        memory.scope(user="ada").set("loom", "oak")
        memory.scope(user="bob").set("loom", "elm")
        clerk = restrict_to_user(memory.acting_as("agent:clerk"), user="ada")
        door = LocalBackend(clerk, user="ada")
        assert TOOLS["get_fact"].call(door, {"key": "loom"})["value"] == "oak"
        with pytest.raises(memoranda.ApprovalRequired) as waits:
            TOOLS["set_fact"].call(door, {"key": "loom", "value": "ash"})
        assert (waits.value.approval, memory.scope(user="ada").value("loom")) == (memory.approvals.list()[0].id, "oak")
        # What was granted everywhere holds here only: the other half of the handle says so.
        with pytest.raises(memoranda.Denied):
            clerk.scope(user="bob").get("loom")
        assert memory.ledger.tail(1)[0].door == "mcp"


def test_without_an_agent_the_user_acts_and_nobody_else_is_reached() -> None:
    with memoranda.open(":memory:", embedder=EMBEDDER) as memory:
        ada = restrict_to_user(memory, user="ada")
        assert ada.actor == "user:ada"
        ada.scope(user="ada").set("loom", "oak")
        reader = restrict_to_user(memory, user="ada", agent="desk", read_only=True)
        assert (reader.actor, reader.scope(user="ada").value("loom")) == ("agent:desk", "oak")
        outside = [
            lambda: ada.scope(user="bob").get("loom"),
            lambda: ada.scope().set("loom", "elm"),
            lambda: ada.in_tenant("other").scope(user="ada").get("loom"),
            lambda: ada.definitions.create(name="Loom", slug="loom", schema={"type": "object"}),
            lambda: ada.erase(user="ada"),
            lambda: reader.scope(user="ada").set("loom", "elm"),
        ]
        for attempt in outside:
            with pytest.raises(memoranda.Denied):
                attempt()
        assert memory.scope(user="ada").value("loom") == "oak"
