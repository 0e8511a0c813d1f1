"""Whichever effect of a turn fails, before it happens or after, sending the message again gives one answer."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import memoranda
from memoranda import Busy, Conflict
from memoranda.agent.models import Ask, Reply, ToolCall
from memoranda.chat.agent import Agent, Tool
from memoranda.chat.conversation import read_conversation
from memoranda.chat.turn import Turn, chat
from memoranda.governance.gate import Gate
from memoranda.testing import FakeClock

PERFORM = Gate.perform


class Trouble:
    """Fails the n-th effect of a gate, before it is carried out or right after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.left = at
        self.fired = False

        def perform(gate: Gate, effect: Any, caller: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not after:
                self.fired = True
                raise Busy(f"no {effect.name}")
            done = PERFORM(gate, effect, caller)
            if self.left == 0:
                self.fired = True
                raise Busy(f"nobody heard of {effect.name}")
            return done

        monkeypatch.setattr(Gate, "perform", perform)


class Ringer:
    """A model that rings, notes that, and answers."""

    name = "made:up"

    def reply(self, ask: Ask, *, timeout: float = 30.0) -> Reply:
        made = [call.name for said in ask.messages for call in said.calls]
        if "ring" not in made:
            return Reply("", (ToolCall("c1", "ring", {}),))
        if "update_memory" not in made:
            return Reply("", (ToolCall("c2", "update_memory", {"block": "core", "content": "- Rang"}),))
        return Reply("Rung.")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_turn_survives_the_failure_of_any_of_its_effects(monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    effects = 1
    while survived(monkeypatch, effects, after=after):
        effects += 1
    assert effects > 10, "a turn has more effects than these"


def survived(monkeypatch: pytest.MonkeyPatch, at: int, *, after: bool) -> bool:
    """Say whether there was such an effect to fail; what is left afterwards is looked at in any case."""
    clock = FakeClock()
    rung: list[Any] = []
    agent = Agent(id="ringer", tools=(Tool("ring", "Rings.", {"type": "object"}, rung.append),))
    with memoranda.open(":memory:", clock=clock) as memory:
        memory.scope(user="ada").blocks.update("archival", "- The bell is old", expected_updated_at=None)

        def send() -> Turn:
            return chat(
                memory,
                agent,
                "Ring the bell",
                user="ada",
                conversation_id="c1",
                message_id="x",
                model=Ringer(),
                memory_policy={"archival_mode": "auto"},
            )

        with monkeypatch.context() as patched:
            trouble = Trouble(patched, at, after=after)
            with contextlib.suppress(Busy):
                send()
        try:
            turn = send()
        except Conflict:
            clock.advance(3600)
            turn = send()
        assert turn.text == "Rung." and len(rung) <= 1
        again = send()
        assert again.replayed and again.parts == turn.parts
        record = read_conversation(memory, "ada", "c1")
        assert record.parts == turn.parts and not record.active
        assert [part.seq for part in record.parts] == list(range(1, len(record.parts) + 1))
        assert [part.kind for part in record.parts] == [
            "user",
            "reminders",
            "tool_request",
            "tool_response",
            "tool_request",
            "tool_response",
            "agent_text",
        ]
        lost = [part.tool for part in record.parts if part.failed]
        assert len(lost) <= trouble.fired and (rung == [{}] or lost == ["ring"])
        core = memory.scope(user="ada").blocks.get("core")
        assert (core is not None and core.content == "- Rang") or lost == ["update_memory"]
        assert memory.ledger.verify().ok
        return trouble.fired
