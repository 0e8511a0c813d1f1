"""Sleep-time memory in a server: what was said in a chat is in the blocks a moment later, without a request."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import warm_memoranda

import memoranda
from memoranda import ModelUnavailable
from memoranda.testing import FakeClock

CORE = "/api/v1/memory/blocks/core"
SOON = {"MEMORANDA_SLEEP_DELAY": "0", "MEMORANDA_SLEEP_EVERY": "0.1"}
LOOKS = 1.5
"""Seconds in which a server that sleeps would have looked many times."""


@pytest.fixture
def agents(tmp_path):
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "chat.toml").write_text('[agents.porter]\nmodel = "demo:parrot"\n')
    return {"MEMORANDA_AGENTS": str(folder)}


def chat(client: httpx.Client, text: str) -> None:
    said = {"message": text, "conversation_id": "lodge", "message_id": text[:40]}
    answer = client.post("/api/v1/agent/porter/chat", json=said, headers={"Accept": "application/json"})
    assert answer.status_code == 200, answer.text


def learn_without_a_model(db: Any, text: str) -> None:
    """Learn at a time when no model answered, so that the messages are due to be read again now."""

    class Down:
        name = "down:1"

        def reply(self, ask: Any, *, timeout: float = 30.0) -> Any:
            raise ModelUnavailable("the model does not answer")

    with memoranda.open(db, clock=FakeClock()) as memory:
        assert memory.scope(user="ada").learn(text, model=Down()).retry_at


def until(look: Callable[[], Any], *, seconds: float = 60) -> Any:
    """Return what is found, as soon as there is anything."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def core_of(client: httpx.Client) -> str:
    answer = client.get(CORE)
    return answer.json()["content"] if answer.status_code == 200 else ""


def counted(served: Any, name: str) -> int:
    found = re.search(rf"^{re.escape(name)} (\d+)$", httpx.get(f"{served.address}/metrics").text, re.MULTILINE)
    assert found is not None, name
    return int(found[1])


def test_w2_a_settled_conversation_of_any_tenant_is_consolidated_by_the_server_alone(start, agents):
    awake = start("--no-sleep", **SOON, **agents)
    ada = awake.key_for("ada")
    ben = awake.key_for("ben", tenant="orchard")
    chat(awake.client(ada), "I live in Aveiro.")
    chat(awake.client(ben), "I prefer pears to plums.")
    time.sleep(LOOKS)
    assert awake.client(ada).get(CORE).status_code == 404
    assert awake.stop() == 0
    learn_without_a_model(awake.db, "I collect stamps. I prefer figs to dates.")

    asleep = start(**SOON, **agents)
    assert "Aveiro" in until(lambda: core_of(asleep.client(ada)))
    assert "pears" in until(lambda: core_of(asleep.client(ben)))
    chat(asleep.client(ada), "I've moved to Braga.")
    assert until(lambda: core_of(asleep.client(ada)) == "- Lives in Braga")
    assert until(lambda: "figs to dates" in asleep.client(ada).get("/api/v1/collections/statements/entries").text)
    assert until(lambda: [line for line in asleep.lines() if line.get("conversations") and line["tenant"] == "orchard"])
    assert asleep.stop() == 0
    assert "Aveiro" not in asleep.log.read_text()


def test_a_hostile_message_holds_up_neither_the_server_nor_its_end(start, agents):
    served = start(MEMORANDA_SHUTDOWN_TIMEOUT="5", **SOON, **agents)
    client = served.client(served.key_for("ada"))
    chat(client, "-" * 64_000)
    assert until(lambda: counted(served, 'memoranda_slept_total{outcome="done"}'), seconds=20)
    for number in range(2):
        chat(client, f"{number}. {'The sea is calm. ' * 3_500}")
    began = time.monotonic()
    os.kill(served.process.pid, signal.SIGTERM)
    assert served.process.wait(60) == 0
    assert time.monotonic() - began < 30


def test_w4_what_fails_while_the_server_sleeps_is_seen_and_chat_goes_on(start, agents, tmp_path):
    # The parrot only repeats what it hears, which is not what a model is asked for here.
    one = start(MEMORANDA_SLEEP_MODEL="demo:parrot", **SOON, **agents)
    ada = one.client(one.key_for("ada"))
    assert counted(one, 'memoranda_slept_total{outcome="failed"}') == 0
    chat(ada, "I live in Aveiro.")
    until(lambda: counted(one, 'memoranda_slept_total{outcome="failed"}'))
    assert counted(one, 'memoranda_sleep_jobs{state="waiting"}') == 1
    assert counted(one, 'memoranda_slept_total{outcome="done"}') == 0
    [line] = until(lambda: [line for line in one.lines() if line["message"].startswith("a conversation could not")])
    assert (line["level"], line["tenant"], line["attempts"], bool(line["code"])) == ("warning", "default", 1, True)
    listed = subprocess.run(
        [warm_memoranda.folder() / "memoranda", "sleep", "list", "--db", str(one.db), "--json"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    [job] = json.loads(listed.stdout)
    assert (job["user"], job["conversation"], job["state"], job["attempts"]) == ("ada", "lodge", "waiting", 1)
    assert job["error"].startswith(line["code"])
    chat(ada, "Are you there?")
    assert ada.get(CORE).status_code == 404
    assert one.stop() == 0


def test_a_model_for_sleeping_that_nobody_knows_stops_the_start(start):
    with pytest.raises(AssertionError, match="does not name a model"):
        start(MEMORANDA_SLEEP_MODEL="nobody")
